"""The soft tree: its paths, its leaves, its penalty, its settings."""

import copy
import math
import pickle
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.batch import CheckedBatch
from fires.core.belief import Belief
from fires.models import SoftTree
from fires.models.base import Rates
from fires.models.model_learner import MonteCarloLearner

torch = pytest.importorskip("torch")
torch.set_num_threads(1)

X = np.random.default_rng(0).normal(size=(7, 4))


def rng(seed=0):
    return np.random.default_rng(seed)


def paths(theta, X):
    """Of every row, the probability to come to each node and leaf, breadth first."""
    p = 1.0 / (1.0 + np.exp(-X @ theta.T))
    reached = np.zeros((len(X), 2 * len(theta) + 1))
    reached[:, 0] = 1.0
    for node in range(len(theta)):
        reached[:, 2 * node + 1] = reached[:, node] * p[:, node]
        reached[:, 2 * node + 2] = reached[:, node] * (1.0 - p[:, node])
    return reached, p


def penalty(theta, X, weight):
    reached, p = paths(theta, X)
    total = 0.0
    for node in range(len(theta)):
        share = weight @ (reached[:, node] * p[:, node]) / (weight @ reached[:, node])
        depth = int(math.log2(node + 1))
        total -= 0.5**depth * 0.5 * (math.log(share) + math.log(1.0 - share))
    return total


def softmax(z):
    e = np.exp(z - z.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_classes", [2, 3, 0])
@pytest.mark.parametrize("leaves", ["logit", "mixture"])
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("form", ["scaled", "paper"])
def test_it_is_the_tree_written_out(form, depth, leaves, n_classes, weighted):
    model = SoftTree(depth, n_draws=1, leaves=leaves, penalty=0.3, form=form, dtype="float64")
    start = model.init(4, n_classes, rng())
    n_nodes, n_leaves = 2**depth - 1, 2**depth
    theta = rng(1).normal(size=(n_nodes, 4))
    phi = rng(2).normal(size=(n_leaves, max(n_classes, 1)))
    point = dict(start.point) | {"leaves": phi}
    y = rng(3).normal(size=7) if n_classes == 0 else rng(3).integers(0, n_classes, 7)
    weight = rng(4).random(7) if weighted else np.ones(7)
    shown = X / 2.0 if form == "scaled" else X
    reach = paths(theta, shown)[0][:, -n_leaves:]
    rows = np.arange(7)
    if n_classes == 0:
        point["log noise"] = np.array([0.3])

        def density(mean):
            return np.exp(-0.5 * (y[:, None] - mean) ** 2 / math.exp(0.3)) / math.sqrt(
                2 * math.pi * math.exp(0.3)
            )

        f = density(reach @ phi)[:, 0] if leaves == "logit" else (reach * density(phi.T)).sum(1)
    elif leaves == "logit":
        f = softmax(reach @ phi)[rows, y]
    else:
        f = (reach @ softmax(phi))[rows, y]
    expected = weight @ np.log(f) - weight.sum() * 0.3 * penalty(theta, shown, weight)
    belief = Belief(theta.ravel(), np.zeros(theta.size), point)
    given = weight if weighted else None
    assert model.log_marginal(belief, X, y, given, rng()) == pytest.approx(expected, rel=1e-11)


def test_the_tree_of_the_paper_starts_where_the_paper_starts():
    model = SoftTree.as_published()
    assert (model.depth, model.n_draws, model.leaves, model.penalty) == (3, 5, "logit", 0.01)
    assert (model.form, model.rate, model.aggregate) == ("paper", 1.0, "paper")
    assert not model.balance
    belief = model.init(6, 2, rng())
    assert len(belief.mu) == 7 * 6
    assert not belief.mu.any()
    assert (belief.sigma == 1.0).all()


@pytest.mark.parametrize("form", ["scaled", "paper"])
@pytest.mark.parametrize("n_classes", [2, 5, 0])
def test_leaves_do_not_start_alike(form, n_classes):
    """Then inner nodes would have nothing to learn; nor do they start far from even."""
    leaves = SoftTree(form=form).init(6, n_classes, rng()).point["leaves"]
    assert leaves.shape == (8, max(n_classes, 1))
    assert len(np.unique(leaves)) == leaves.size
    assert np.abs(leaves).max() <= 8**-0.5
    assert_array_equal(leaves, SoftTree(form=form).init(6, n_classes, rng()).point["leaves"])


@pytest.mark.parametrize("leaves", ["logit", "mixture"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("numeric", [False, True])
def test_leaves_live_on_from_batch_to_batch(leaves, dtype, numeric):
    model = SoftTree(2, leaves=leaves, dtype=dtype)
    learner = MonteCarloLearner(model, 4, 0 if numeric else 2, scale=None, rng=rng())
    y = X[:, 0] if numeric else (X[:, 0] > 0).astype(int)
    seen = [learner.parameters.point["leaves"].clone()]
    for _ in range(3):
        learner.step(CheckedBatch(X), y, Rates(0.01, 0.01))
        seen.append(learner.parameters.point["leaves"].clone())
        assert not learner.parameters.point["leaves"].requires_grad
    moves = [float((b - a).abs().max()) for a, b in pairwise(seen)]
    assert all(0.0 < move <= 1.0 for move in moves)


@pytest.mark.parametrize("aggregate", ["rms", "abs", "paper"])
def test_what_the_weights_of_a_feature_come_to(aggregate):
    model = SoftTree(2, aggregate=aggregate)
    start = model.init(4, 2, rng())
    mu, sigma = rng(1).normal(size=(3, 4)), rng(2).random((3, 4))
    expected = {
        "rms": (np.sqrt((mu**2).mean(axis=0)), np.sqrt((sigma**2).mean(axis=0))),
        "abs": (np.abs(mu).mean(axis=0), sigma.mean(axis=0)),
        "paper": (mu.mean(axis=0), sigma.mean(axis=0)),
    }[aggregate]
    features = model.to_features(Belief(mu.ravel(), sigma.ravel(), start.point))
    assert_allclose(features.mu, expected[0], rtol=1e-13)
    assert_allclose(features.sigma, expected[1], rtol=1e-13)


@pytest.mark.parametrize("sources", [[0, 1, None], [None, 0, 1], [1, 0], [1, None, None]])
def test_new_classes_leave_the_leaves_of_the_old_ones(sources):
    model = SoftTree(2)
    old = model.start(4, 2, torch.Generator().manual_seed(0))
    before = copy.deepcopy(old)
    new = model.with_outputs(old, sources, torch.Generator().manual_seed(1))
    assert new.point["leaves"].shape == (4, len(sources))
    assert torch.equal(old.point["leaves"], before.point["leaves"])
    for column, source in enumerate(sources):
        if source is not None:
            assert torch.equal(new.point["leaves"][:, column], before.point["leaves"][:, source])
        else:
            assert len(new.point["leaves"][:, column].unique()) == 4


@pytest.mark.parametrize("size", [1e3, 1e30])
def test_rows_that_are_sure_of_their_way_do_no_harm(size):
    """Shares of 0 and 1 have no logarithm, and nodes that no row comes to have no share."""
    model = SoftTree(3, n_draws=2)
    belief = model.init(4, 2, rng())
    slope = model.gradient(belief, size * np.abs(X), np.arange(7) % 2, None, rng())
    assert np.isfinite(slope.mu).all()
    assert np.isfinite(slope.sigma).all()


def test_settings_stay_as_they_were_given():
    model = SoftTree(np.int64(2), penalty=0)
    assert type(model.depth) is int
    assert copy.deepcopy(model) == pickle.loads(pickle.dumps(model)) == SoftTree(2, penalty=0)
