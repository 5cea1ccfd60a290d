"""Nets, trees and modules learn in place: the step their gradient says, in any surroundings."""

import copy
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.batch import CheckedBatch
from fires.models import NeuralNet, SoftTree, TorchModel
from fires.models.base import Rates
from fires.models.model_learner import ModelLearner
from fires.models.monte_carlo_learner import MonteCarloLearner
from fires.models.parameters import INPUTS

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

RATES = Rates(0.01, 0.01)
TWO = {"hidden": (3,), "n_draws": 2, "dtype": "float64"}
both_kinds = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def learner_of(model, n_features=5, n_classes=2, *, scale=None, seed=0):
    rng = np.random.default_rng(seed)
    return MonteCarloLearner(model, n_features, n_classes, scale=scale, rng=rng)


def learn(learner, X, y, weight=None, rates=RATES):
    learner.step(CheckedBatch(X, weight=weight), y, rates)


def batch(n_rows=12, n_features=5, seed=0, density=0.6):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < density)
    return X, rng.integers(0, 2, n_rows)


# --- learning in place ------------------------------------------------------------------------


def module():
    torch.manual_seed(5)
    layers = torch.nn.Linear(5, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1)
    return torch.nn.Sequential(*layers)


LEARNERS = {
    "net": lambda **c: NeuralNet(**TWO, **c),
    "published net": lambda **c: NeuralNet.as_published(**TWO, **c),
    "tree": lambda **c: SoftTree(2, n_draws=2, dtype="float64", **c),
    "module": lambda **c: TorchModel(module(), n_draws=2, dtype="float64", **c),
    "module, some random": lambda **c: TorchModel(
        module(), n_draws=2, random=["0.weight"], dtype="float64", **c
    ),
}
net_and_tree = pytest.mark.parametrize(
    "make", [LEARNERS["net"], LEARNERS["tree"]], ids=["net", "tree"]
)
every_learner = pytest.mark.parametrize("make", LEARNERS.values(), ids=LEARNERS.keys())


@every_learner
@both_kinds
@pytest.mark.parametrize("numeric", [False, True], ids=["classes", "numbers"])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_takes_the_step_that_the_gradient_says(make, kind, numeric, weighted):
    """In place or by ``gradient`` and ``Belief.step``: the same, given the same draws.

    A gradient sees one batch, and no shares of classes.
    """
    model = make(rate=1.0, balance=False)
    n_classes, rates = (0 if numeric else 2), Rates(0.1, 0.05)
    learner = learner_of(model, n_classes=n_classes)
    plain = ModelLearner(model, 5, n_classes, scale=None, rng=np.random.default_rng(0))
    plain.belief = learner.parameters.as_belief()
    for seed in range(3):
        X, y = batch(seed=seed)
        y = X[:, 0] - 0.3 if numeric else y
        weight = np.random.default_rng(seed).random(12) + 0.5 if weighted else None
        plain.rng = np.random.default_rng(seed)
        drawn = int(np.random.default_rng(seed).integers(2**63))
        learner.generator.manual_seed(drawn)
        learn(plain, kind(X), y, weight, rates)
        learn(learner, kind(X), y, weight, rates)
        here, there = learner.parameters.as_belief(), plain.belief
        assert_allclose(here.mu, there.mu, rtol=1e-12, atol=1e-14)
        assert_allclose(here.sigma, there.sigma, rtol=1e-12, atol=1e-14)
        for name in there.point:
            assert_allclose(here.point[name], there.point[name], rtol=1e-12, atol=1e-14)
        seen, asked = learner.features(), plain.features()
        assert_allclose(seen.mu, asked.mu, rtol=1e-12)
        assert_allclose(seen.sigma, asked.sigma, rtol=1e-12)


@net_and_tree
def test_what_a_sparse_batch_does_not_show_is_untouched(make):
    model = make()
    learner = learner_of(model, 50)
    rng = np.random.default_rng(1)
    before = learner.features()
    untouched = np.ones(50, dtype=bool)
    for _ in range(5):
        X = sp.random_array((8, 50), density=0.02, rng=rng, format="csr", data_sampler=rng.normal)
        shown = np.unique(X.indices)
        then = {half: getattr(learner.parameters, half)[INPUTS].clone() for half in ("mu", "sigma")}
        learn(learner, X, rng.integers(0, 2, 8))
        for half, old in then.items():
            changed = (getattr(learner.parameters, half)[INPUTS] != old).any(1).numpy()
            assert_array_equal(np.flatnonzero(changed), shown)
        untouched[shown] = False
        now = learner.features()
        assert_array_equal(now.mu[untouched], before.mu[untouched])
        whole = model.per_feature(learner.parameters, slice(None))
        assert_array_equal(now.mu, whole[0].numpy())  # what it keeps of the features is up to date
        assert_array_equal(now.sigma, whole[1].numpy())
    assert untouched.sum() > 10


def test_features_that_nobody_asks_for_cost_no_memory():
    learner = learner_of(NeuralNet((2,), n_draws=1), 1000)
    X = sp.random_array((4, 1000), density=0.3, rng=np.random.default_rng(0), format="csr")

    y = np.array([0, 1, 0, 1])
    learn(learner, X, y)
    assert learner.features().mu.shape == (1000,)
    for _ in range(150):
        learn(learner, X, y)
    held = sum(part.numel() for part in learner._moved_since)
    assert held <= 100 * 1000
    assert_array_equal(
        learner.features().mu, learner.model.per_feature(learner.parameters, slice(None))[0]
    )
    assert learner._moved_since == []


def test_wide_sparse_batches_take_what_their_entries_take():
    model = NeuralNet((4,), n_draws=2)
    learner = learner_of(model, 100_000, scale="standard")
    rng = np.random.default_rng(0)
    X = sp.random_array((20, 100_000), density=1e-4, rng=rng, format="csr")
    y = rng.integers(0, 2, 20)
    learn(learner, X, y)
    tracemalloc.start()
    learn(learner, X, y)
    assert tracemalloc.get_traced_memory()[1] < 5e6  # one number per feature, and little more
    tracemalloc.stop()
    assert learner._scratch[INPUTS].numel() < 3000


# --- steps that are too long -----------------------------------------------------------------


def step_of(learner, X, y, rates, weight=None):
    """What one step changes in mu."""
    old = {name: value.clone() for name, value in learner.parameters.mu.items()}
    learn(learner, X, y, weight, rates)
    return torch.cat([(v - old[name]).flatten() for name, v in learner.parameters.mu.items()])


def pair(model, n_classes=2, scale="standard"):
    """Two learners in the same state."""
    return (learner_of(model, n_classes=n_classes, scale=scale) for _ in range(2))


@net_and_tree
def test_ordinary_steps_are_those_of_the_learning_rate(make):
    X, y = batch(100, density=1.0)
    one, other = pair(make())
    whole = step_of(one, X, y, Rates(0.001, 0.001))
    half = step_of(other, X, y, Rates(0.0005, 0.0005))
    assert_allclose(whole, 2.0 * half, rtol=1e-9, atol=1e-15)


@net_and_tree
@pytest.mark.parametrize("n_classes", [2, 0])
def test_no_step_promises_more_than_the_batch_lacks(make, n_classes):
    """Beyond some rate a greater one changes nothing, and the batch gets no worse by it."""
    X, y = batch(1, density=1.0)
    target = y if n_classes else np.array([3.0])
    one, other = pair(make(), n_classes, scale=None)
    long = step_of(one, X, target, Rates(1e3, 1e3))
    longer = step_of(other, X, target, Rates(1e6, 1e6))
    assert_allclose(long, longer, rtol=1e-9, atol=1e-15)
    assert float(long.abs().max()) < 100.0


def test_the_published_form_takes_every_step_it_is_told():
    X, y = batch(1, density=1.0)
    one, other = pair(NeuralNet.as_published(**TWO), scale=None)
    whole = step_of(one, X, y, Rates(100.0, 100.0))
    double = step_of(other, X, y, Rates(200.0, 200.0))
    assert_allclose(double, 2.0 * whole, rtol=1e-9)


def test_a_row_of_weight_nothing_is_not_there():
    X, y = batch()
    wild = X.copy()
    wild[3] = 1e100
    weight = np.ones(12)
    weight[3] = 0.0
    one, other = pair(NeuralNet(**TWO), scale=None)
    rest = np.arange(12) != 3
    there = step_of(one, wild, y, RATES, weight)
    assert torch.equal(there, step_of(other, X[rest], y[rest], RATES, weight[rest]))


# --- whatever the caller's torch is set to ---------------------------------------------------


def learnt(n=3, kind=np.asarray, classes_grow=True):
    learner = learner_of(NeuralNet((3,), n_draws=2), scale="standard")
    for seed in range(n):
        X, y = batch(seed=seed)
        learn(learner, kind(X), y)
        learner.features()
    if classes_grow:
        learner = learner.with_classes(np.array([0, 1]), np.array([0, 1, 2]))
    restored = learner_of(NeuralNet((3,), n_draws=2), n_classes=3, scale="standard", seed=9)
    restored.restore(learner.state())
    X, y = batch(seed=n)
    learn(restored, kind(X), y)
    return restored


SURROUNDINGS = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "another device": lambda: torch.device("meta"),
}


@both_kinds
@pytest.mark.parametrize("around", SURROUNDINGS.values(), ids=SURROUNDINGS.keys())
def test_it_learns_the_same_inside_any_mode_and_after_it(around, kind):
    expected = learnt(kind=kind)
    with around():
        inside = learnt(kind=kind)
    for one, two in zip(expected.state().items(), inside.state().items(), strict=True):
        assert one[0] == two[0]
        assert_array_equal(one[1], two[1])
    X, y = batch(seed=9)
    for learner in (expected, inside):
        learn(learner, kind(X), y)
    assert_array_equal(inside.features().mu, expected.features().mu)


@pytest.mark.parametrize("around", SURROUNDINGS.values(), ids=SURROUNDINGS.keys())
def test_slopes_too_are_the_same_inside_any_mode(around):
    model = NeuralNet((3,), n_draws=2)
    X, y = batch()

    def slope():
        belief = model.init(5, 2, np.random.default_rng(0))
        return model.gradient(belief, X, y, None, np.random.default_rng(1))

    expected = slope()
    with around():
        found = slope()
    assert_array_equal(found.mu, expected.mu)


def test_the_default_dtype_of_torch_changes_nothing():
    expected = learnt().features()
    torch.set_default_dtype(torch.float64)
    try:
        found = learnt().features()
    finally:
        torch.set_default_dtype(torch.float32)
    assert_array_equal(found.mu, expected.mu)


# --- state ------------------------------------------------------------------------------------


def test_a_state_from_another_kind_of_device_goes_on_the_same_way_every_time():
    """Generators of a GPU have a state of their own, which a processor cannot take up."""
    learner = learnt()
    state = learner.state() | {"generator": np.arange(16, dtype=np.uint8)}
    X, y = batch(seed=7)
    after = []
    for _ in range(2):
        learner.restore(copy.deepcopy(state))
        learn(learner, X, y)
        after.append(learner.features().mu)
    assert_array_equal(after[0], after[1])


TAMPERED = {
    "not finite": lambda a: a * np.nan,
    "negative": lambda a: -a.astype(float) - 1.0,
    "whole": lambda a: a.astype(np.int64),
    "zero": lambda a: a * 0,
    "too short": lambda a: a.ravel()[:-1],
    "too many": lambda a: np.stack([a, a]),
    "text": lambda a: np.full(a.shape, "x"),
}


@pytest.mark.parametrize("how", TAMPERED)
@pytest.mark.parametrize("make", LEARNERS)
@pytest.mark.parametrize("n_classes", [2, 0])
def test_a_state_that_was_tampered_with_is_refused_or_harmless(how, make, n_classes):
    X, y = batch()
    target = y if n_classes else X[:, 0] - 0.3
    learner = learner_of(LEARNERS[make](), n_classes=n_classes, scale="standard")
    learn(learner, X, target)
    state = learner.state()
    for name in state:
        other = learner_of(learner.model, n_classes=n_classes, scale="standard")
        try:
            other.restore(state | {name: TAMPERED[how](state[name])})
        except ValueError:  # a StateError, or the line that says it is of another model
            continue
        learn(other, X, target)
        assert np.isfinite(other.features().mu).all()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@both_kinds
@pytest.mark.parametrize("to", ["cpu", "cuda"])
def test_what_was_learnt_on_a_gpu_goes_on_there_or_elsewhere(kind, to):
    X, y = batch()
    learner = learner_of(NeuralNet(**TWO, device="cuda"))
    learn(learner, kind(X), y)
    other = learner_of(NeuralNet(**TWO, device=to), seed=1)
    other.restore(learner.state())
    assert_allclose(other.features().mu, learner.features().mu, rtol=1e-12)
    for each in (learner, other):
        learn(each, kind(X), y)
    if to == "cuda":
        assert_allclose(other.features().mu, learner.features().mu, rtol=1e-9)
