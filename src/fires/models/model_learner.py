"""Any base model, learning batch by batch: what FIRES runs for a user's model, nets and trees."""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from fires.core.batch import CheckedBatch
from fires.core.belief import Belief
from fires.core.errors import Diverged, StateError, undamaged
from fires.core.randomness import rewound
from fires.core.sharding import counting, weight_of
from fires.core.state import Arrays, part_of, under
from fires.core.types import Floats, Labels, Matrix
from fires.models import monte_carlo as mc
from fires.models.base import BaseModel, HasMarginal, Learner, Rates, Rng, Values
from fires.models.scale import Scaler
from fires.models.target import ClassBalance, NumberTarget, surprise_of_classes, surprise_of_numbers

if TYPE_CHECKING:
    from torch import Tensor

# Point parameters are few and each has a large effect: their rate and their steps are bounded.
_POINT_RATE = 300.0
# The groups of parameters, and the least number that each may hold.
_HALVES = {"mu": -math.inf, "sigma": 0.0, "point": -math.inf, "fixed": -math.inf}
_TINY = 1e-30
_FULL_BATCH = 100  # rows; in smaller batches, input weights decay in proportion


class ModelLearner(Learner):
    """The belief of a user's model, its scale and its random numbers; one step per batch.

    The model sees batches scaled by :class:`fires.models.scale.Scaler`. All methods are described
    in :class:`fires.models.base.Learner`.
    """

    def __init__(
        self, model: BaseModel, n_features: int, n_classes: int, *, scale: str | None, rng: Rng
    ) -> None:
        self.model, self.rng, self.size = model, rng, (n_features, n_classes)
        self.scaler = Scaler(scale, n_features)
        self._start(n_features, n_classes)

    def _start(self, n_features: int, n_classes: int) -> None:
        self.belief = self.model.init(n_features, n_classes, self.rng)

    def step(self, batch: CheckedBatch, y: Values, rates: Rates) -> None:
        """See :class:`fires.models.base.Learner`."""
        w = weight_of(batch)
        with rewound(self.rng):
            scaled, learn_scale = self._scaled(batch.X, w, batch)
            gradient = self.model.gradient(self.belief, scaled, y, batch.weight, self.rng)
            belief = self.belief.step(gradient, *rates.shared(w.sum()))
            numbers = [belief.mu, belief.sigma, *belief.point.values()]
            if not all(np.isfinite(part).all() for part in numbers):
                raise Diverged(
                    f"The gradient of {type(self.model).__name__} is not finite on this batch."
                )
        self.belief = belief
        learn_scale()
        self.scaler.follow(batch.scale, batch.change)

    def _scaled(
        self, X: Matrix, w: Floats, batch: CheckedBatch
    ) -> tuple[Matrix, Callable[[], None]]:
        """The scaled rows of a batch, and a function that learns the scale from them."""
        if batch.scale is not None and batch.scale == self.scaler.scale:
            return X, lambda: None
        return self.scaler.scaled(X, w, batch.n_missing > 0)

    def surprise(self, batch: CheckedBatch, y: Values) -> tuple[float, float]:
        """How much worse a batch is predicted than expected. Nothing is learnt.

        It needs the model's ``log_marginal``, and calls it for every row and class.
        """
        n_classes, model = self.size[1], self.model
        if not n_classes or not isinstance(model, HasMarginal):
            lacks = "no method log_marginal" if n_classes else "a numeric target"
            raise ValueError(
                f"{type(self.model).__name__} has {lacks}: the likelihood of a batch is not known."
            )
        w = weight_of(batch)
        scaled, _ = self._scaled(batch.X, w, batch)
        log_p = np.empty((n_classes, batch.n_rows))
        for k, row in np.ndindex(log_p.shape):
            one, code = scaled[row : row + 1], np.full(1, k)
            rng = copy.deepcopy(self.rng)
            log_p[k, row] = model.log_marginal(self.belief, one, code, None, rng)
        return surprise_of_classes(np.exp(log_p), y, w)

    def forget(self, keep: float) -> None:
        """Let the evidence so far count less, as after a drift.

        The whole belief goes back towards a fresh start; point parameters stay.
        """
        fresh = self.model.init(*self.size, copy.deepcopy(self.rng))
        now = self.belief
        self.belief = Belief(
            fresh.mu + keep * (now.mu - fresh.mu),
            fresh.sigma + keep * (now.sigma - fresh.sigma),
            now.point,
        )

    def with_classes(self, before: Labels, after: Labels) -> Self:
        """An error: a user's model keeps its first classes.

        See :class:`fires.models.base.Learner`.
        """
        raise ValueError(
            f"{type(self.model).__name__} cannot add new classes as they arrive: pass "
            "classes=[...] with all of them to the first partial_fit."
        )

    def features(self) -> Belief:
        """See :class:`fires.models.base.Learner`."""
        return self.model.to_features(self.belief)

    def state(self) -> Arrays:
        """See :class:`fires.models.base.Learner`."""
        arrays = {"mu": self.belief.mu, "sigma": self.belief.sigma}
        return arrays | under("point", dict(self.belief.point)) | self.scaler.state()

    def restore(self, arrays: Arrays) -> None:
        """See :class:`fires.models.base.Learner`."""
        point, owner = part_of("point", arrays), type(self.model).__name__
        mu, sigma = arrays["mu"], arrays["sigma"]
        check_saved(point | {"mu": mu}, {**self.belief.point, "mu": self.belief.mu}, owner)
        check_saved({"sigma": sigma}, {"sigma": self.belief.sigma}, owner, least=0.0)
        self.belief = Belief(mu, sigma, point)
        self.scaler.restore(arrays)


def check_saved(
    saved: Arrays,
    fresh: Mapping[str, npt.NDArray[np.generic] | Tensor],
    owner: str,
    least: float = -np.inf,
) -> None:
    """Raise StateError unless names, shapes and bounds are those of a fresh model."""
    for name in sorted(fresh.keys() | saved.keys()):
        shapes = [tuple(x[name].shape) if name in x else None for x in (saved, fresh)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"The saved state has {name} of shape {shapes[0]}; in this {owner} its shape is "
                f"{shapes[1]}."
            )
        numbers = saved[name]
        if numbers.dtype != np.float64 or not np.isfinite(numbers).all() or (numbers < least).any():
            raise StateError(f"{name} holds something other than finite numbers from {least}")


class MonteCarloLearner(ModelLearner):
    r"""The parameters of a model, its scale and its draws; one step per batch.

    It takes the same step as :class:`ModelLearner`, but changes tensors
    in place, on their device. A sparse batch changes only the parameters of the features it shows.

    **Step cap**, in the scaled form. To first order, a step of rate :math:`\alpha` raises the log
    likelihood by :math:`\alpha \lVert g \rVert^2`. It is shortened so that this is no more than
    the batch can still gain:
    :math:`\alpha \le (\text{best} - \text{value}) / \lVert g \rVert^2`. That is Polyak's step as
    an upper bound (Loizou et al., 2021). Usual batches of a hundred rows stay far below it. A batch
    of one row, or an outlier, cannot destroy a net.
    """

    model: mc.MonteCarlo

    def _start(self, n_features: int, n_classes: int) -> None:
        self.generator = self.model.generator(self.rng)
        with self.model.default_mode():
            self.parameters = self.model.start(n_features, n_classes, self.generator)
        self.target = NumberTarget(scaled=self.scaler.scale is not None)
        self._numeric = n_classes == 0
        balanced = n_classes > 0 and self.model.balance
        self.balance = ClassBalance(n_classes) if balanced else None

    def step(self, batch: CheckedBatch, y: Values, rates: Rates) -> None:
        """Learn from one batch. On an error, nothing changes."""
        X, y, w = _counted(batch, y)
        target, weight, level = self._target(y, w), w, None
        if self.balance is not None:
            counts, level = self.balance.look(y, w)
            weight = counts[y] * w
        with self.model.default_mode():
            scaled, learn_scale = self._scaled(X, w, batch)
            shown = self.model.on_device(scaled, target, weight, level)
            generator = self.generator.clone_state()
            noise = self.model.draw_noise(self.parameters, shown, generator)
            found = self.model.marginal_slopes(self.parameters, shown, noise)
            factors = self._factors(found, rates, 1.0 / float(w.sum()))
            self.generator = generator  # nothing can fail from here on
            self._move(found, *factors, rates.mu * min(1.0, len(y) / _FULL_BATCH))
        learn_scale()
        self.scaler.follow(batch.scale, batch.change)
        if self._numeric:
            self.target.count(y, w)
        if self.balance is not None:
            self.balance.count(y, w)

    def _target(self, y: Values, w: Floats) -> Values:
        return self.target.look(y, w)[0][0] if self._numeric else y

    def _factors(
        self, found: mc.MarginalSlopes, rates: Rates, share: float
    ) -> tuple[float, float, float]:
        """The factors for the slopes of mu, sigma and the point parameters."""
        model = self.model
        mu, sigma = (rate * share * model.rate for rate in (rates.mu, rates.sigma))
        point = rates.mu * share * min(model.rate, _POINT_RATE)
        wide, _ = model.input_steps(self.size[0])
        promised = (
            mu * (_square(found.mu.values()) + wide * _square(g for _, g, _ in found.inputs))
            + sigma * (_square(found.sigma.values()) + wide * _square(g for *_, g in found.inputs))
            + point * _square(found.point.values())
        )
        greatest = model.greatest_log_likelihood(self.parameters.point)
        lacking = greatest / share - float(found.value)
        if not math.isfinite(promised) or math.isnan(lacking):
            raise self._diverged("gradient")
        cap = min(1.0, max(lacking, 0.0) / promised) if promised > 0.0 else 1.0
        return cap * mu, cap * sigma, cap * point

    def _diverged(self, what: str) -> Diverged:
        return Diverged(
            f"The {what} of {self.model.name} is not finite on this batch: X or y holds values "
            f"too large for {self.model.dtype}, or the learning rate is too high."
        )

    def _move(self, found: mc.MarginalSlopes, *by: float) -> None:
        by_mu, by_sigma, by_point, by_decay = by
        wide, decay = self.model.input_steps(self.size[0])
        share = min(1.0, by_decay * decay)
        mu, sigma, point = self.parameters.mu, self.parameters.sigma, self.parameters.point
        for columns, g_mu, g_sigma in found.inputs:
            lost = share * mu[mc.INPUTS][columns] * (g_mu != 0)  # not of features not shown
            mu[mc.INPUTS][columns] += wide * by_mu * g_mu.double() - lost
            moved = sigma[mc.INPUTS][columns] + wide * by_sigma * g_sigma.double()
            sigma[mc.INPUTS][columns] = moved.clamp_(min=0)
        for name, g_mu in found.mu.items():
            mu[name].add_(g_mu, alpha=by_mu)
            sigma[name].add_(found.sigma[name], alpha=by_sigma).clamp_(min=0.0)
        for name, slope in found.point.items():
            point[name].add_((slope * by_point).clamp_(-1.0, 1.0))

    # --- drift ------------------------------------------------------------------------------

    def surprise(self, batch: CheckedBatch, y: Values) -> tuple[float, float]:
        """How much worse a batch is predicted than expected. Neither learns nor draws."""
        if not self.model.predicts:
            raise ValueError(
                f"{self.model.name} has a custom likelihood, which gives no probabilities to "
                "compare a batch with."
            )
        X, y, w = _counted(batch, y)
        level = None if self.balance is None else np.log(self.balance.shares(y, w))
        with self.model.default_mode():
            scaled, _ = self._scaled(X, w, batch)
            shown = self.model.on_device(scaled, self._target(y, w), None, level)
            tried = [shown.y]
            if not self._numeric:  # the last class has what is left by the others
                tried = [shown.y.new_full(shown.y.shape, k) for k in range(self.size[1] - 1)]
            found = self.model.log_marginals(
                self.parameters, shown, tried, self.generator.clone_state()
            )
        if np.isnan(found).any():
            raise self._diverged("prediction")
        if self._numeric:
            most = mc.log_likelihood_limit(self.parameters.point)
            return surprise_of_numbers(2.0 * (most - found[0]), w)
        p = np.exp(found)
        return surprise_of_classes(np.vstack([p, 1.0 - p.sum(axis=0)]), y, w)

    def forget(self, keep: float) -> None:
        """Let the evidence so far count less, as after a drift.

        Standard deviations go back towards their start. The weights of each feature go back to the
        size they had at the start, but keep their directions: the model still knows what shapes to
        look for, and no feature is ahead of the others.
        """
        model, parameters = self.model, self.parameters
        with model.default_mode():
            fresh = model.start(*self.size, self.generator.clone_state())
            for name, sigma in parameters.sigma.items():
                sigma.mul_(keep).add_(fresh.sigma[name], alpha=1.0 - keep)
            weights, first = model.input_weights(parameters), model.input_weights(fresh)
            if weights is not None and first is not None:
                now, then = weights[0], first[0]
                size = now.square().mean(1, keepdim=True).sqrt()
                back = then.square().mean().sqrt() / size.clamp(min=_TINY)
                now.mul_(keep + (1.0 - keep) * back.clamp(max=1.0))
        if self.balance is not None:
            self.balance.forget(keep)

    def with_classes(self, before: Labels, after: Labels) -> Self:
        """A copy with one output for each class known now."""
        # A single class has the code 1; output 0 stands for all else.
        first = 1 if len(before) == 1 else 0
        old = {label: code for code, label in enumerate(before.tolist(), start=first)}
        sources = [old.get(label) for label in after.tolist()]
        if first and len(after) == 2:
            sources = [0 if source is None else source for source in sources]
        other = copy.copy(self)
        other.generator = self.generator.clone_state()
        with self.model.default_mode():
            other.parameters = self.model.with_outputs(self.parameters, sources, other.generator)
        other.size = self.size[0], len(sources)
        if self.balance is not None:
            other.balance = self.balance.with_classes(sources)
        return other

    # --- the belief -------------------------------------------------------------------------

    def features(self) -> Belief:
        """See :class:`fires.models.base.Learner`."""
        with self.model.default_mode():
            return self.model.features_of(self.parameters)

    def state(self) -> Arrays:
        """See :class:`fires.models.base.Learner`."""
        arrays = {"generator": self.generator.get_state().numpy()}
        for half, tensors in vars(self.parameters).items():
            arrays |= under(half, {name: value.cpu().numpy() for name, value in tensors.items()})
        if self.balance is not None:
            arrays |= under("balance", self.balance.state())
        return arrays | under("target", self.target.state()) | self.scaler.state()

    def restore(self, arrays: Arrays) -> None:
        """See :class:`fires.models.base.Learner`."""
        halves = []
        for half, least in _HALVES.items():
            fresh, saved = vars(self.parameters)[half], part_of(half, arrays)
            check_saved(saved, fresh, self.model.name, least)
            with self.model.default_mode():
                tensor, place = self.model.torch().tensor, self.model.place
                halves.append({name: tensor(saved[name], **place) for name in fresh})
        _check_fixed(part_of("fixed", arrays), self.parameters.fixed)
        self.parameters = mc.ModelParameters(*halves)
        self._restore_generator(arrays["generator"])
        self.scaler.restore(arrays)
        self.target.restore(part_of("target", arrays))
        if self.balance is not None:
            self.balance.restore(part_of("balance", arrays))

    def _restore_generator(self, saved: npt.NDArray[np.generic]) -> None:
        if saved.dtype != np.uint8:
            raise StateError(f"generator is of {saved.dtype}, not of bytes")
        if saved.size != self.generator.get_state().numel():
            # Saved on another kind of device, whose numbers cannot be continued here: reseed.
            seed = hashlib.sha256(saved.tobytes()).digest()[:7]
            self.generator.manual_seed(int.from_bytes(seed, "little"))
            return
        with undamaged("generator is"):
            self.generator.set_state(self.model.torch().tensor(saved.ravel(), device="cpu"))


def _counted(batch: CheckedBatch, y: Values) -> tuple[Matrix, Values, Floats]:
    """X, y and weights of a batch, without rows of weight 0."""
    rows = counting(replace(batch, y=y))
    assert rows.y is not None
    return rows.X, rows.y, weight_of(rows)


def _square(tensors: Iterable[Tensor]) -> float:
    """The sum of the squares of all their numbers."""
    import torch

    norms = [torch.linalg.vector_norm(part, dtype=torch.float64) for part in tensors]
    return float(torch.stack(norms).square().sum()) if norms else 0.0


def _check_fixed(saved: Arrays, fresh: Mapping[str, Tensor]) -> None:
    """StateError unless fixed sizes are those of this model; a module's buffers may differ."""
    for name, value in fresh.items():
        numbers = np.sort(saved[name]) if name == mc.CLASS_ORDER else saved[name]
        if not name.startswith(mc.BUFFER) and not np.array_equal(numbers, value.cpu().numpy()):
            raise StateError(f"{name} is {saved[name]}, not {value.tolist()}")
