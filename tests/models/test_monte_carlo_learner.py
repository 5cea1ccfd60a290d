"""Nets, trees and modules learn in place: the step their gradient says, in any surroundings."""

import copy
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.pairs import pairwise

from fires.core.batch import CheckedBatch
from fires.models import NeuralNet, SoftTree, TorchModel
from fires.models.base import Rates
from fires.models.model_learner import ModelLearner, MonteCarloLearner
from fires.models.monte_carlo import INPUTS

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


def steady(model):
    """A model whose weights do not decay: the gradient alone moves them."""
    return model if isinstance(model, TorchModel) else replace(model, decay=0.0)


@pairwise(
    make=LEARNERS,
    kind={"dense": np.asarray, "sparse": sp.csr_array},
    numeric={"classes": False, "numbers": True},
    weighted=[False, True],
)
def test_it_takes_the_step_that_the_gradient_says(make, kind, numeric, weighted):
    """In place or by ``gradient`` and ``Belief.step``: the same, given the same draws.

    A gradient sees one batch, and no shares of classes.
    """
    model = steady(make(rate=1.0, balance=False))
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
        whole = model.per_feature(learner.parameters)
        assert_array_equal(now.mu, whole[0].numpy())
        assert_array_equal(now.sigma, whole[1].numpy())
    assert untouched.sum() > 10


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
    shown = model.on_device(X, y, None)
    noise = model.draw_noise(learner.parameters, shown, learner.generator.clone_state())
    assert noise[INPUTS].numel() < 3000


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
    long = step_of(one, X, target, Rates(1e6, 1e6))  # a row of the only class says little
    longer = step_of(other, X, target, Rates(1e9, 1e9))
    assert_allclose(long, longer, rtol=1e-9, atol=1e-15)
    assert float(long.abs().max()) < 100.0


def test_the_published_form_takes_every_step_it_is_told():
    X, y = batch(1, density=1.0)
    one, other = pair(NeuralNet.as_published(**TWO), scale=None)
    whole = step_of(one, X, y, Rates(100.0, 100.0))
    double = step_of(other, X, y, Rates(200.0, 200.0))
    assert_allclose(double, 2.0 * whole, rtol=1e-9)


@net_and_tree
@pytest.mark.parametrize(("form", "times"), [("scaled", 4.0), ("paper", 1.0)])
def test_input_weights_learn_the_faster_the_more_features_there_are(make, form, times):
    """Each counts the less in sums that are divided by the root of 40."""
    model = steady(make(form=form, balance=False))
    learner = learner_of(model, 40)
    X, y = np.random.default_rng(0).normal(size=(30, 40)), np.arange(30) % 2
    before = learner.parameters.mu[INPUTS].clone()
    drawn = np.random.default_rng(1)
    slope = model.gradient(learner.parameters.as_belief(), X, y, None, drawn).mu
    slope = slope[: before.numel()].reshape(-1, 40).T  # outputs first
    learner.generator.manual_seed(int(np.random.default_rng(1).integers(2**63)))
    learn(learner, X, y, rates=Rates(1e-6, 1e-6))
    step = times * 1e-6 / 30 * model.rate * slope
    assert_allclose(learner.parameters.mu[INPUTS] - before, step, rtol=1e-6, atol=1e-12)


@net_and_tree
@pytest.mark.parametrize(("n_rows", "left"), [(1, 0.999), (10, 0.99), (100, 0.9), (300, 0.9)])
def test_input_weights_of_features_that_are_there_decay(make, n_rows, left):
    X, y = np.random.default_rng(0).normal(size=(n_rows, 5)), np.arange(n_rows) % 2
    X[:, 3] = 0.0
    learner = learner_of(make(rate=1e-12))
    before = learner.parameters.mu[INPUTS].clone()
    learn(learner, X, y, rates=Rates(0.1, 0.1))
    now = (learner.parameters.mu[INPUTS] / before).numpy()
    assert_allclose(now[[0, 1, 2, 4]], left, rtol=1e-6)
    assert_array_equal(now[3], 1.0)


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


# --- classes that are rare ---------------------------------------------------------------------


def rare(n_rows=60, seed=0, share=0.1):
    X, _ = batch(n_rows, seed=seed, density=1.0)
    return X, (np.arange(n_rows) < share * n_rows).astype(int)


@pytest.mark.parametrize("make", [LEARNERS[n] for n in ("net", "tree", "module")])
def test_rows_of_a_class_count_by_its_share_in_the_batches_before(make):
    """A balanced step is a plain one whose rows have these weights, but for its length."""
    balanced, plain = (learner_of(steady(make(**c))) for c in ({}, {"balance": False}))
    X, y = rare()
    for learner in (balanced, plain):  # what they differ in after it does not matter
        learn(learner, X, y, rates=Rates(1e-30, 1e-30))
    X, y = rare(seed=1, share=0.5)
    counts = np.array([1 / 1.8, 1 / 0.2])[y]
    one = step_of(balanced, X, y, Rates(1e-6, 1e-6))
    other = step_of(plain, X, y, Rates(1e-6 * counts.mean(), 0.0), counts)
    assert_allclose(one, other, rtol=1e-9)


OUTPUTS = {
    "net": (LEARNERS["net"], 3),
    "softmax": (lambda: NeuralNet((), dtype="float64"), 3),
    "tree": (LEARNERS["tree"], 3),
    "mixture": (lambda: SoftTree(2, leaves="mixture", dtype="float64"), 3),
    "module": (LEARNERS["module"], 2),
    "module, softmax": (lambda: TorchModel(torch.nn.Linear(5, 3), dtype="float64"), 3),
}


@pytest.mark.parametrize(("make", "n_classes"), OUTPUTS.values(), ids=OUTPUTS.keys())
def test_outputs_of_nothing_predict_the_level(make, n_classes):
    model = make()
    learner = learner_of(model, n_classes=n_classes)
    parameters = learner.parameters
    for half in (parameters.mu, parameters.sigma, parameters.point):
        for value in half.values():
            value.zero_()
    if n_classes == 2:  # the level belongs to the class, whichever output it has
        parameters = model.with_outputs(parameters, [1, 0], learner.generator)
    level = np.log(np.array([0.7, 0.2, 0.1])[:n_classes])
    shown = model.on_device(np.zeros((n_classes, 5)), np.arange(n_classes), None, level)
    found = model.log_marginals(parameters, shown, [shown.y], learner.generator)[0]
    assert_allclose(found, level - np.log(np.exp(level).sum()), rtol=1e-9)


def test_the_shares_of_classes_that_arrive_stay_with_them():
    learner = learner_of(NeuralNet(**TWO))
    learn(learner, *rare())
    more = learner.with_classes(np.array(["b", "d"]), np.array(["a", "b", "c", "d"]))
    assert_array_equal(more.balance.class_weight, [0.0, 54.0, 0.0, 6.0])
    assert_array_equal(learner.balance.class_weight, [54.0, 6.0])


# --- drift ---------------------------------------------------------------------------------------


def trained(make, n_classes=2, n=30, **settings):
    learner = learner_of(make(**settings), n_classes=n_classes, scale="standard")
    for seed in range(n):
        X, _ = batch(100, seed=seed, density=1.0)
        learn(learner, X, target_of(X, n_classes, seed))
    return learner


def target_of(X, n_classes, seed, column=0):
    noise = 0.3 * np.random.default_rng(seed).normal(size=len(X))
    return X[:, column] + noise if n_classes == 0 else (X[:, column] + noise > 0).astype(int)


@every_learner
@pytest.mark.parametrize("n_classes", [2, 0])
def test_a_batch_of_another_world_is_a_surprise(make, n_classes):
    learner = trained(make, n_classes, rate=100.0)
    before = learner.state()
    X, _ = batch(200, seed=99, density=1.0)
    usual = learner.surprise(CheckedBatch(X), target_of(X, n_classes, 99))
    other = learner.surprise(CheckedBatch(X), -target_of(X, n_classes, 99) + (n_classes > 0))
    assert other[0] > usual[0] + 5.0 * np.sqrt(usual[1])
    assert usual[1] == pytest.approx(other[1], rel=1e-6)
    for name, value in learner.state().items():  # it has learnt nothing, and drawn nothing
        assert_array_equal(value, before[name])


@both_kinds
def test_surprise_is_measured_by_the_predictions_themselves(kind):
    """Against each row's probabilities, computed one by one."""
    learner = trained(LEARNERS["net"], 2, n=3)
    X, y = batch(seed=5)
    weight = np.random.default_rng(0).random(12)
    weight[3] = 0.0
    X[3] = 1e100
    X = kind(X)
    found = learner.surprise(CheckedBatch(X, weight=weight), y)
    there = np.flatnonzero(weight)
    parts = [
        learner.surprise(CheckedBatch(X[[row]], weight=weight[[row]]), y[[row]]) for row in there
    ]
    if kind is np.asarray:  # sparse rows that show other columns are drawn other weights
        assert_allclose(found, np.sum(parts, axis=0), rtol=1e-9)
    assert np.isfinite(found).all()
    assert learner.surprise(CheckedBatch(X, weight=3.0 * weight), y)[0] == pytest.approx(
        3.0 * found[0]
    )


def test_many_classes_can_surprise():
    learner = learner_of(NeuralNet((8,), rate=300.0), n_classes=3, scale="standard")
    for seed in range(40):
        X, _ = batch(100, seed=seed, density=1.0)
        learn(learner, X, np.digitize(X[:, 1], [-0.5, 0.5]))
    X, _ = batch(200, seed=99, density=1.0)
    usual, _ = learner.surprise(CheckedBatch(X), np.digitize(X[:, 1], [-0.5, 0.5]))
    other, spread = learner.surprise(CheckedBatch(X), np.digitize(X[:, 2], [-0.5, 0.5]))
    assert other > usual + 5.0 * np.sqrt(spread)


def test_what_cannot_be_compared_is_said_in_one_line():
    X, y = batch()
    own = TorchModel(module(), likelihood=lambda outputs, y: -((outputs[:, 0] - y) ** 2))
    with pytest.raises(ValueError, match="has a custom likelihood"):
        learner_of(own).surprise(CheckedBatch(X), y)
    X[0, 0] = 1e100
    with pytest.raises(ValueError, match="The prediction of NeuralNet is not finite"):
        learner_of(NeuralNet(**TWO | {"dtype": "float32"})).surprise(CheckedBatch(X), y)


@every_learner
@pytest.mark.parametrize("keep", [0.0, 0.1, 1.0])
def test_forgetting_brings_sigma_and_the_sizes_of_features_back(make, keep):
    learner = trained(make, rate=100.0)
    model, parameters = learner.model, learner.parameters
    fresh = model.start(5, 2, learner.generator.clone_state())
    drawn, old = learner.generator.get_state(), copy.deepcopy(parameters)
    learner.forget(keep)
    for name, sigma in parameters.sigma.items():
        assert_allclose(sigma, keep * old.sigma[name] + (1.0 - keep) * fresh.sigma[name])
    now, before, start = (model.input_weights(one)[0] for one in (parameters, old, fresh))
    size, start = before.square().mean(1).sqrt(), start.square().mean().sqrt()
    assert (size > start).any()
    back = keep * size + (1.0 - keep) * torch.minimum(size, start)
    assert_allclose(now, before * (back / size)[:, None], atol=1e-12)
    for name, mu in parameters.mu.items():
        if mu.data_ptr() != now.data_ptr():
            assert torch.equal(mu, old.mu[name])
    assert torch.equal(learner.generator.get_state(), drawn)
    assert_array_equal(learner.features().mu, model.to_features(parameters.as_belief()).mu)


@pytest.mark.parametrize("make", [LEARNERS[n] for n in ("net", "tree", "module")])
def test_forgetting_counts_the_shares_of_the_classes_less(make):
    learner = learner_of(make())
    learn(learner, *rare())
    learner.forget(0.5)
    assert_array_equal(learner.balance.class_weight, [27.0, 3.0])


def test_a_function_of_the_user_says_nothing_of_the_sizes_of_features():
    own = TorchModel(module(), to_features=lambda mu, sigma: (mu["0.bias"].sum() * np.ones(5),) * 2)
    learner = learner_of(own, n_classes=2)
    learn(learner, *batch())
    before = learner.parameters.mu["0.weight"].clone()
    learner.forget(0.0)
    assert torch.equal(learner.parameters.mu["0.weight"], before)


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


@pairwise(how=list(TAMPERED), make=list(LEARNERS), n_classes=[2, 0])
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
