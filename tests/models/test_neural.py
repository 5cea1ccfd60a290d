"""The net: its forms, its settings, its aggregation, and classes that arrive."""

import copy
import dataclasses
import math
import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.belief import Belief, stable_weights
from fires.models import NeuralNet
from fires.models.monte_carlo import INPUTS

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

X = np.array([[0.5, 1.0, 0.0, -0.4], [1.0, 0.0, 0.25, 2.0], [-1.0, 0.3, 0.8, 0.0]])


def softplus(z):
    return np.logaddexp(z, 0.0)


def log_density(model, X, W, y, intercept, log_noise=None):
    """The net in plain NumPy."""
    scaled = model.form == "scaled"
    z = X @ W[0].T * (X.shape[1] ** -0.5 if scaled else 1.0)
    for layer in W[1:]:
        nodes = softplus(z) - math.log(2.0) if scaled else softplus(z)
        z = nodes @ layer.T * (layer.shape[1] ** -0.5 if scaled else 1.0)
    z = z + intercept
    if log_noise is not None:
        variance = math.exp(log_noise)
        return -0.5 * ((y - z[:, 0]) ** 2 / variance + math.log(2 * math.pi * variance))
    z = z - z.max(axis=1, keepdims=True)
    return z[np.arange(len(y)), y] - np.log(np.exp(z).sum(axis=1))


@pytest.mark.parametrize("form", ["scaled", "paper"])
@pytest.mark.parametrize("hidden", [(), (3,), (3, 2), (2, 3, 4)])
@pytest.mark.parametrize("n_classes", [2, 3, 0])
def test_it_is_softplus_layers_and_in_the_scaled_form_an_intercept(form, hidden, n_classes):
    model = NeuralNet(hidden, form=form, n_draws=1, dtype="float64")
    y = np.array([0.3, -1.0, 2.0]) if n_classes == 0 else np.array([1, 0, n_classes - 1])
    start = model.init(4, n_classes, np.random.default_rng(0))
    mu = np.random.default_rng(1).normal(size=start.mu.shape)
    point = {k: v if k.startswith("fixed") else v + 0.4 for k, v in start.point.items()}
    intercept = np.linspace(-0.5, 1.0, max(n_classes, 1)) if form == "scaled" else 0.0
    if form == "scaled":
        point["intercept"] = intercept
    belief = Belief(mu, np.zeros_like(mu), point)
    W, at = [], 0
    for shape in model.shapes(belief).values():
        W.append(mu[at : at + math.prod(shape)].reshape(shape))
        at += math.prod(shape)
    assert [len(w) for w in W] == [*hidden, max(n_classes, 1)]
    expected = log_density(model, X, W, y, intercept, None if n_classes else 0.4)
    value = model.log_marginal(belief, X, y, None, np.random.default_rng(2))
    assert value == pytest.approx(expected.sum(), rel=1e-12)


def test_the_net_of_the_paper_starts_where_the_paper_starts():
    model = NeuralNet.as_published()
    assert (model.hidden, model.n_draws) == ((100, 100, 100), 5)
    assert (model.form, model.rate, model.aggregate) == ("paper", 1.0, "paper")
    assert not model.balance
    belief = model.init(7, 2, np.random.default_rng(0))
    assert len(belief.mu) == 7 * 100 + 2 * 100 * 100 + 100 * 2
    assert not belief.mu.any()
    assert (belief.sigma == 1.0).all()
    assert list(belief.point) == ["fixed sizes"]  # no intercept
    assert NeuralNet.as_published(n_draws=9, aggregate="rms").n_draws == 9


def test_the_scaled_form_starts_at_random_by_its_generator():
    one, same, other = (
        NeuralNet((50,)).init(40, 2, np.random.default_rng(seed)) for seed in (0, 0, 1)
    )
    assert_array_equal(one.mu, same.mu)
    assert (one.mu != other.mu).all()
    assert one.mu[: 40 * 50].std() == pytest.approx(0.2, rel=0.1)
    assert (one.sigma == 0.1).all()


@pytest.mark.parametrize("aggregate", ["rms", "abs", "paper"])
def test_what_the_weights_of_a_feature_come_to(aggregate):
    model = NeuralNet((3, 2), aggregate=aggregate, dtype="float64")
    rng = np.random.default_rng(0)
    start = model.init(4, 2, rng)
    belief = Belief(rng.normal(size=22), rng.random(22), start.point)
    mu, sigma = (half[:12].reshape(3, 4) for half in (belief.mu, belief.sigma))
    later = [slice(12, 18), slice(18, 22)]
    expected = {
        "rms": (np.sqrt((mu**2).mean(axis=0)), np.sqrt((sigma**2).mean(axis=0))),
        "abs": (np.abs(mu).mean(axis=0), sigma.mean(axis=0)),
        "paper": (
            mu.mean(axis=0) + sum(belief.mu[part].mean() for part in later),
            sigma.mean(axis=0) + sum(belief.sigma[part].mean() for part in later),
        ),
    }[aggregate]
    features = model.to_features(belief)
    assert_allclose(features.mu, expected[0], rtol=1e-13)
    assert_allclose(features.sigma, expected[1], rtol=1e-13)


def test_the_common_summand_of_the_paper_changes_the_order():
    """Why it is not the default: it is squared along with what it is added to."""
    model = NeuralNet((1,), aggregate="paper", dtype="float64")
    point = {"fixed sizes": np.array([3.0, 2.0])}
    for later, order in ((0.0, [0, 2, 1]), (1.0, [2, 1, 0])):
        belief = Belief(np.array([-0.5, 0.1, 0.4, later, later]), np.ones(5), point)
        omega = stable_weights(model.to_features(belief))
        assert_array_equal(np.argsort(-omega), order)


def test_a_feature_that_nodes_use_with_both_signs_cancels_in_the_mean_only():
    point = {"fixed sizes": np.array([2.0, 2.0])}
    belief = Belief(np.array([2.0, 0.1, -2.0, 0.1, 0.0, 0.0, 0.0, 0.0]), np.ones(8), point)
    best = {}
    for aggregate in ("paper", "abs", "rms"):
        model = NeuralNet((2,), aggregate=aggregate, dtype="float64")
        best[aggregate] = int(np.argmax(stable_weights(model.to_features(belief))))
    assert best == {"paper": 1, "abs": 0, "rms": 0}


# Classes that arrive


@pytest.mark.parametrize("hidden", [(), (3,), (3, 2)])
@pytest.mark.parametrize(
    "sources", [[0, 1, None], [None, 0, 1], [1, 0], [0, None, None, 1], [1, None]]
)
def test_new_outputs_leave_the_old_ones_as_they_are(hidden, sources):
    model = NeuralNet(hidden, dtype="float64")
    old = model.start(4, 2, torch.Generator().manual_seed(0))
    old.point["intercept"] += torch.tensor([0.5, -1.0])
    before = copy.deepcopy(old)
    new = model.with_outputs(old, sources, torch.Generator().manual_seed(1))
    last = list(old.mu)[-1]
    for half in ("mu", "sigma"):
        was, now = getattr(before, half), getattr(new, half)
        assert list(was) == list(now)
        for name in was:
            assert torch.equal(getattr(old, half)[name], was[name])  # nothing is done in place
            if name != last:
                assert torch.equal(now[name], was[name])
        axis = 1 if last == INPUTS else 0
        assert now[last].shape[axis] == len(sources)
        for output, source in enumerate(sources):
            if source is not None:
                mine, its = now[last].select(axis, output), was[last].select(axis, source)
                assert torch.equal(mine, its)
    expected = [0.0 if s is None else float(before.point["intercept"][s]) for s in sources]
    assert new.point["intercept"].tolist() == expected
    belief = new.as_belief()
    assert sum(math.prod(shape) for shape in model.shapes(belief).values()) == len(belief.mu)


# Settings


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_is_not_there_is_said_to_be_not_there():
    with pytest.raises(ValueError, match="torch sees no GPU"):
        NeuralNet(device="cuda")


def test_numbers_of_any_library_are_numbers():
    model = NeuralNet([np.int64(3), 2], n_draws=np.int32(2), rate=np.float32(10))
    assert model.hidden == (3, 2)
    assert all(type(n) is int for n in model.hidden)
    assert np.isfinite(
        model.log_marginal(
            model.init(4, 2, np.random.default_rng(0)),
            X,
            np.array([0, 1, 1]),
            None,
            np.random.default_rng(1),
        )
    )


def test_settings_stay_as_they_were_given():
    model = NeuralNet((3,), rate=7.0)
    with pytest.raises(dataclasses.FrozenInstanceError):
        model.rate = 8.0
    assert model == NeuralNet([3], rate=7.0)
    assert hash(model) == hash(NeuralNet((3,), rate=7.0))
    assert copy.deepcopy(model) == pickle.loads(pickle.dumps(model)) == model
    assert "hidden=(3,)" in repr(model)
    assert dataclasses.replace(model, aggregate="abs").rate == 7.0
