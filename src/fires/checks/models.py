"""The contract of a base model: pure functions of a belief and a batch, in sums over rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from fires.checks.running import NamedCheck, expect, list_checks, no_global_randomness, run_checks
from fires.core.belief import Belief, Floats
from fires.core.types import Matrix, Numbers
from fires.models.base import BaseModel, HasMarginal

N_ROWS = 6


def check_model(model: Any, **options: Any) -> None:
    """Check that a model keeps the contract of :class:`~fires.models.base.BaseModel`.

    Parameters
    ----------
    model : BaseModel
        It is used as it is. ``log_marginal`` is optional. Without it, the gradient is not
        compared with numerical gradients.
    **options
        As in :func:`model_checks`.

    Raises
    ------
    AssertionError
        Says which check failed, and why.

    Examples
    --------
    >>> from fires.models import Linear
    >>> check_model(Linear("probit"), n_classes=3)
    """
    run_checks(model, model_checks(model, **options))


def model_checks(
    model: BaseModel, *, n_classes: int = 2, n_features: int = 4, skip: Collection[str] = ()
) -> list[NamedCheck]:
    """The checks of :func:`check_model`, one by one."""
    parts = [GradientContract, *([MarginalContract] if isinstance(model, HasMarginal) else [])]
    return list_checks([part(model, n_classes, n_features) for part in parts], skip)


@dataclass(frozen=True)
class ModelProblem:
    """A model, and the size of the problem it is checked on."""

    _model: Any
    _n_classes: int
    _n_features: int

    def _problem(self, seed: int) -> tuple[Belief, Floats, Numbers]:
        """A random belief, and a batch in which every column has entries."""
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(N_ROWS, self._n_features))
        X[rng.random(X.shape) < 0.2] = 0.0
        X[0] = rng.normal(size=self._n_features)
        codes = np.arange(N_ROWS) % max(self._n_classes, 1)
        y = rng.permutation(codes) if self._n_classes else rng.normal(size=N_ROWS)
        start = self._model.init(self._n_features, self._n_classes, rng)
        point = {
            name: value if _is_fixed(name) else 0.7 * value + 0.1 * rng.random(value.shape)
            for name, value in start.point.items()
        }
        shape = start.mu.shape
        return Belief(rng.normal(size=shape), 0.2 + rng.random(shape), point), X, y

    def _gradient(
        self, belief: Belief, X: Matrix, y: Numbers, weight: Floats | None = None
    ) -> Belief:
        """The gradient of the model, with the same random numbers in every call."""
        slopes: Belief = self._model.gradient(belief, X, y, weight, np.random.default_rng(3))
        return slopes

    def _value(self, belief: Belief, X: Matrix, y: Numbers, weight: Floats | None = None) -> float:
        """The log marginal likelihood, with the random numbers of :meth:`gradient`."""
        rng = np.random.default_rng(3)
        return float(self._model.log_marginal(belief, X, y, weight, rng))


def _is_fixed(name: str) -> bool:
    """Whether a model keeps this number in its belief without learning it."""
    return name.startswith("fixed ")


def _parts(belief: Belief) -> dict[str, Floats]:
    return {"mu": belief.mu, "sigma": belief.sigma, **belief.point}


def expect_equal(one: Belief, other: Belief, rtol: float = 1e-9) -> None:
    """Expect two beliefs, or gradients, to have the same parts with the same numbers."""
    found, expected = _parts(one), _parts(other)
    expect(found.keys() == expected.keys(), f"the parts are {[*found]} and {[*expected]}")
    for name, value in found.items():
        assert_allclose(value, expected[name], rtol, 1e-3 * rtol, err_msg=name)


class GradientContract(ModelProblem):
    """What holds for every model."""

    def slopes_have_the_shape_of_the_belief(self) -> None:
        """A gradient has one entry for each number of the belief."""
        belief, X, y = self._problem(0)
        shapes = [
            {name: numbers.shape for name, numbers in _parts(part).items()}
            for part in (self._gradient(belief, X, y), belief)
        ]
        expect(shapes[0] == shapes[1], f"gradients of the shapes {shapes[0]} for {shapes[1]}")

    def there_is_one_entry_per_feature(self) -> None:
        """``to_features`` gives a mean and a standard deviation for every column of X."""
        features = self._model.to_features(self._problem(6)[0])
        for part in (features.mu, features.sigma):
            expect(part.shape == (self._n_features,), f"to_features has the shape {part.shape}")
            expect(part.dtype == np.float64, f"to_features has the type {part.dtype}")
        expect((features.sigma >= 0.0).all(), f"{features.sigma} holds a negative deviation")

    def a_weight_counts_rows(self) -> None:
        """A row of weight w counts as w rows."""
        belief, X, y = self._problem(1)
        times = np.array([1, 0, 3, 2, 0, 1])
        repeated = self._gradient(belief, np.repeat(X, times, axis=0), np.repeat(y, times))
        expect_equal(self._gradient(belief, X, y, times.astype(float)), repeated)

    def slopes_grow_with_the_weight(self) -> None:
        """Weights of any size scale the gradient, and do nothing else."""
        belief, X, y = self._problem(2)
        one = self._gradient(belief, X, y, np.ones(N_ROWS))
        for size in (1e-25, 1e-9, 1e9, 1e25):
            other = self._gradient(belief, X, y, np.full(N_ROWS, size))
            point = {name: value / size for name, value in other.point.items()}
            expect_equal(Belief(other.mu / size, other.sigma / size, point), one)

    def parts_of_a_batch_add_up(self) -> None:
        """Slopes are sums over rows, so that a batch may be cut into shards."""
        belief, X, y = self._problem(3)
        shards = [_parts(self._gradient(belief, X[i : i + 2], y[i : i + 2])) for i in (0, 2, 4)]
        for name, whole in _parts(self._gradient(belief, X, y)).items():
            assert_allclose(
                sum(shard[name] for shard in shards), whole, rtol=1e-9, atol=1e-12, err_msg=name
            )

    def sparse_equals_dense(self) -> None:
        """CSR and dense rows give the same gradient."""
        belief, X, y = self._problem(4)
        weight = np.linspace(0.5, 2.0, N_ROWS)
        sparse = self._gradient(belief, sp.csr_array(X), y, weight)
        expect_equal(sparse, self._gradient(belief, X, y, weight))

    def a_feature_that_is_absent_is_not_moved(self) -> None:
        """A column of zeros leaves its feature as it is."""
        belief, X, y = self._problem(5)
        X[:, 2] = 0.0
        before, rest = self._model.to_features(belief), np.arange(self._n_features) != 2
        for batch in (X, sp.csr_array(X)):
            after = self._model.to_features(belief.step(self._gradient(belief, batch, y), 0.1, 0.1))
            moved = (after.mu != before.mu) | (after.sigma != before.sigma)
            assert_array_equal(moved, rest, err_msg="which features have moved")

    def nothing_it_is_given_is_changed(self) -> None:
        """Beliefs and batches are only read: they may be read-only."""
        belief, X, y = self._problem(7)
        weight, sparse = np.linspace(0.5, 2.0, N_ROWS), sp.csr_array(X)
        given = [X, y, weight, sparse.data, sparse.indices, sparse.indptr, *_parts(belief).values()]
        before = [part.tobytes() for part in given]
        for part in given:
            part.flags.writeable = False
        for batch in (X, sparse):
            self._gradient(belief, batch, y, weight)
            self._model.to_features(belief)
        expect(before == [part.tobytes() for part in given], "something was changed")

    def equal_generators_give_equal_numbers(self) -> None:
        """What is random comes from the generator that is passed, and from nowhere else."""
        belief, X, y = self._problem(8)
        gradients, starts = [], []
        for seed in (1, 2):
            with no_global_randomness(seed):
                gradients.append(self._gradient(belief, X, y))
                rng = np.random.default_rng(3)
                starts.append(self._model.init(self._n_features, self._n_classes, rng))
        expect_equal(gradients[0], gradients[1], rtol=0.0)
        expect_equal(starts[0], starts[1], rtol=0.0)

    def one_row_and_rows_of_zeros_are_batches_too(self) -> None:
        """Slopes are finite however little a batch shows."""
        belief, X, y = self._problem(9)
        for batch in (X[:1], np.zeros_like(X[:1]), np.zeros_like(X)):
            for form in (np.asarray, sp.csr_array):
                slopes = _parts(self._gradient(belief, form(batch), y[: len(batch)]))
                for name, value in slopes.items():
                    expect(np.isfinite(value).all(), f"gradients of {name} are {value}")


class MarginalContract(ModelProblem):
    """What holds for a model that gives its log marginal likelihood."""

    def the_gradient_is_the_slope_of_the_log_marginal(self) -> None:
        """The gradient is that of ``log_marginal``, weighted or not."""
        belief, X, y = self._problem(10)
        at = _parts(belief)
        for weight in (None, np.random.default_rng(0).random(N_ROWS)):
            found = _parts(self._gradient(belief, X, y, weight))
            for name, numbers in at.items():
                expected = np.zeros_like(numbers)
                if not _is_fixed(name):
                    for i in np.ndindex(numbers.shape):
                        up, down = (self._moved(at, name, i, step) for step in (1e-5, -1e-5))
                        rise = self._value(up, X, y, weight) - self._value(down, X, y, weight)
                        expected[i] = rise / 2e-5
                assert_allclose(found[name], expected, rtol=1e-5, atol=1e-7, err_msg=name)

    def _moved(
        self, parts: dict[str, Floats], name: str, place: tuple[int, ...], step: float
    ) -> Belief:
        """A belief of which one number has moved."""
        numbers = parts | {name: parts[name].copy()}
        numbers[name][place] += step
        return Belief(numbers.pop("mu"), numbers.pop("sigma"), numbers)

    def the_log_marginal_is_a_sum_over_rows(self) -> None:
        """Weights count rows in it, CSR equals dense, and it is finite for rows of zeros."""
        belief, X, y = self._problem(1)
        times = np.array([1, 0, 3, 2, 0, 1])
        repeated = self._value(belief, np.repeat(X, times, axis=0), np.repeat(y, times))
        for batch in (X, sp.csr_array(X)):
            found = self._value(belief, batch, y, times.astype(float))
            assert_allclose(found, repeated, rtol=1e-9)
            expect(np.isfinite(self._value(belief, 0.0 * batch, y)), "not finite for rows of zeros")
