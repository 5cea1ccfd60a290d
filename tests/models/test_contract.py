"""The contract of a base model, held by every one: ours, a wrapped module, the page's skeleton."""

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.belief import Belief
from fires.models import Linear, NeuralNet, SoftTree, TorchModel
from fires.models.base import BaseModel

PAGE = Path(__file__).parents[2] / "docs" / "own-model.md"
SMALL = {"n_draws": 3, "dtype": "float64"}


@cache
def code_of(page):
    """Everything the page shows, run from top to bottom."""
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(block, page.name, "exec"), names)
    return names


def wrapped(n_outputs=1, **settings):
    import torch

    torch.manual_seed(7)  # the module's own start; nothing else is drawn from there
    layers = torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, n_outputs)
    return TorchModel(torch.nn.Sequential(*layers), **SMALL, **settings)


MODELS = {
    "page": (lambda _: code_of(PAGE)["Robust"](), ["numbers"]),
    "probit": (lambda _: Linear("probit"), ["two", "three"]),
    "gaussian": (lambda _: Linear("gaussian"), ["numbers"]),
}
if find_spec("torch"):
    import torch

    torch.set_num_threads(1)
    ANY = ["two", "three", "numbers"]
    MODELS |= {
        "net": (lambda _: NeuralNet((3, 2), **SMALL), ANY),
        "published net": (lambda _: NeuralNet.as_published(hidden=(2, 2), **SMALL), ANY),
        "softmax": (lambda _: NeuralNet((), **SMALL), ANY),
        "tree": (lambda _: SoftTree(2, **SMALL), ANY),
        "mixture": (lambda _: SoftTree(2, leaves="mixture", **SMALL), ANY),
        "published tree": (lambda _: SoftTree.as_published(depth=2, **SMALL), ANY),
        "module": (lambda _: wrapped(), ["two", "numbers"]),
        "module, softmax": (wrapped, ["two", "three"]),
        "module, some random": (lambda _: wrapped(random=["0.weight"]), ["two", "numbers"]),
    }
N_CLASSES = {"two": 2, "three": 3, "numbers": 0}
CASES = [
    pytest.param(make, target, id=f"{name}, {target}")
    for name, (make, targets) in MODELS.items()
    for target in targets
]
every_model = pytest.mark.parametrize(("make", "target"), CASES)


def problem(make, target, seed, n_rows=6):
    """A model, a belief that is nowhere special, and a batch that shows every column."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 4))
    X[rng.random(X.shape) < 0.2] = 0.0
    X[0] = rng.normal(size=4)
    n_classes = N_CLASSES[target]
    y = rng.integers(0, n_classes, n_rows) if n_classes else rng.normal(size=n_rows)
    model = make(n_classes)
    start = model.init(4, n_classes, rng)
    point = {
        name: value if is_fixed(name) else 0.7 * value + 0.1 * rng.random(value.shape)
        for name, value in start.point.items()
    }
    shape = start.mu.shape
    return model, Belief(rng.normal(size=shape), 0.2 + rng.random(shape), point), X, y


def is_fixed(name):
    """Numbers that a model keeps in its belief and does not learn."""
    return name.startswith("fixed ")


def draws():
    return np.random.default_rng(3)


def numerical_slope(function, at, step=1e-5):
    slope = np.empty_like(at)
    for i in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[i] += step
        down[i] -= step
        slope[i] = (function(up) - function(down)) / (2 * step)
    return slope


def assert_equal_slopes(one, other, **tolerance):
    assert_allclose(one.mu, other.mu, **tolerance)
    assert_allclose(one.sigma, other.sigma, **tolerance)
    assert one.point.keys() == other.point.keys()
    for name in one.point:
        assert_allclose(one.point[name], other.point[name], **tolerance)


def test_the_page_says_what_is_true():
    names = code_of(PAGE)  # it asserts what it says of its own run
    assert names["selector"].model_ is names["selector"].model


@every_model
def test_it_is_a_base_model(make, target):
    assert isinstance(make(N_CLASSES[target]), BaseModel)


@pytest.mark.parametrize("weighted", [True, False])
@every_model
def test_the_gradient_is_the_slope_of_the_log_marginal(make, target, weighted):
    model, belief, X, y = problem(make, target, seed=10 + weighted)
    weight = np.random.default_rng(0).random(6) if weighted else None

    def value(mu=belief.mu, sigma=belief.sigma, **point):
        changed = Belief(mu, sigma, {**belief.point, **point})
        return model.log_marginal(changed, X, y, weight, draws())

    close = {"rtol": 1e-5, "atol": 1e-7}
    gradient = model.gradient(belief, X, y, weight, draws())
    assert_allclose(gradient.mu, numerical_slope(value, belief.mu), **close)
    along_sigma = numerical_slope(lambda sigma: value(sigma=sigma), belief.sigma)
    assert_allclose(gradient.sigma, along_sigma, **close)
    assert gradient.point.keys() == belief.point.keys()
    for name, at in belief.point.items():
        if is_fixed(name):
            assert not gradient.point[name].any()
        else:
            along = numerical_slope(lambda p, name=name: value(**{name: p}), at)
            assert_allclose(gradient.point[name], along, **close)


@every_model
def test_a_weight_counts_rows(make, target):
    model, belief, X, y = problem(make, target, 1)
    times = np.array([1, 0, 3, 2, 0, 1])
    many, often = np.repeat(X, times, axis=0), np.repeat(y, times)
    close = {"rtol": 1e-9, "atol": 1e-12}
    assert_equal_slopes(
        model.gradient(belief, X, y, times.astype(float), draws()),
        model.gradient(belief, many, often, None, draws()),
        **close,
    )
    weighted = model.log_marginal(belief, X, y, times.astype(float), draws())
    assert weighted == pytest.approx(model.log_marginal(belief, many, often, None, draws()))


@every_model
@pytest.mark.parametrize("size", [1e-25, 1e-9, 1e9, 1e25])
def test_slopes_grow_with_the_weight_and_not_otherwise(make, target, size):
    model, belief, X, y = problem(make, target, 2)
    one = model.gradient(belief, X, y, np.ones(6), draws())
    other = model.gradient(belief, X, y, np.full(6, size), draws())
    shrunk = Belief(
        other.mu / size, other.sigma / size, {n: p / size for n, p in other.point.items()}
    )
    assert_equal_slopes(shrunk, one, rtol=1e-9, atol=1e-12)


@every_model
def test_parts_of_a_batch_add_up(make, target):
    model, belief, X, y = problem(make, target, 3)
    if isinstance(model, SoftTree):
        model = SoftTree(2, leaves=model.leaves, form=model.form, penalty=0.0, **SMALL)
    whole = model.gradient(belief, X, y, None, draws())
    parts = [model.gradient(belief, X[i : i + 2], y[i : i + 2], None, draws()) for i in (0, 2, 4)]
    total = Belief(
        sum(part.mu for part in parts),
        sum(part.sigma for part in parts),
        {name: sum(part.point[name] for part in parts) for name in whole.point},
    )
    assert_equal_slopes(total, whole, rtol=1e-9, atol=1e-12)


@every_model
def test_sparse_equals_dense(make, target):
    model, belief, X, y = problem(make, target, 4)
    sparse, weight = sp.csr_array(X), np.linspace(0.5, 2.0, 6)
    close = {"rtol": 1e-10, "atol": 1e-12}
    assert_equal_slopes(
        model.gradient(belief, sparse, y, weight, draws()),
        model.gradient(belief, X, y, weight, draws()),
        **close,
    )
    assert model.log_marginal(belief, sparse, y, weight, draws()) == pytest.approx(
        model.log_marginal(belief, X, y, weight, draws()), rel=1e-12
    )


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@every_model
def test_a_feature_that_is_absent_is_not_moved(make, target, kind):
    model, belief, X, y = problem(make, target, 5)
    X[:, 2] = 0.0
    after = belief.step(model.gradient(belief, kind(X), y, None, draws()), 0.1, 0.1)
    if getattr(model, "aggregate", None) == "paper":
        return  # what it adds to all features alike has moved
    before, after = model.to_features(belief), model.to_features(after)
    assert after.mu[2] == before.mu[2]
    assert after.sigma[2] == before.sigma[2]
    assert (after.mu[[0, 1, 3]] != before.mu[[0, 1, 3]]).all()


@every_model
def test_there_is_one_entry_per_feature(make, target):
    model, belief, _, _ = problem(make, target, 6)
    features = model.to_features(belief)
    assert features.mu.shape == features.sigma.shape == (4,)
    assert features.mu.dtype == features.sigma.dtype == np.float64
    assert (features.sigma >= 0.0).all()


@every_model
def test_nothing_it_is_given_is_changed(make, target):
    """Not even written to: arrays may be read-only."""
    model, belief, X, y = problem(make, target, 7)
    weight = np.linspace(0.5, 2.0, 6)
    sparse = sp.csr_array(X)
    given = [X, y, weight, sparse.data, sparse.indices, sparse.indptr, belief.mu, belief.sigma]
    given += belief.point.values()
    before = [part.copy() for part in given]
    for part in given:
        part.flags.writeable = False
    for batch in (X, sparse):
        model.log_marginal(belief, batch, y, weight, draws())
        model.gradient(belief, batch, y, weight, draws())
        model.to_features(belief)
    for now, then in zip(given, before, strict=True):
        assert_array_equal(now, then)


@every_model
def test_equal_generators_give_equal_numbers_and_no_other_is_touched(make, target):
    model, belief, X, y = problem(make, target, 8)
    old = np.random.get_state()  # noqa: NPY002 - the global one, to see that it stays
    ours = torch.random.get_rng_state() if find_spec("torch") else None
    one, other = (model.gradient(belief, X, y, None, draws()) for _ in range(2))
    model.init(4, N_CLASSES[target], draws())
    assert_equal_slopes(one, other, rtol=0.0, atol=0.0)
    assert_array_equal(np.random.get_state()[1], old[1])  # noqa: NPY002
    assert np.random.get_state()[2] == old[2]  # noqa: NPY002
    if ours is not None:
        assert torch.equal(torch.random.get_rng_state(), ours)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
@every_model
def test_one_row_and_a_row_of_zeros_are_batches_too(make, target, kind):
    model, belief, X, y = problem(make, target, 9)
    for batch in (X[:1], np.zeros((1, 4)), np.zeros((6, 4))):
        gradient = model.gradient(belief, kind(batch), y[: len(batch)], None, draws())
        assert np.isfinite(gradient.mu).all()
        assert np.isfinite(gradient.sigma).all()
        assert np.isfinite(model.log_marginal(belief, kind(batch), y[: len(batch)], None, draws()))
