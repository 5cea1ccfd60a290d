"""ASCW: learners and F-measures beside a plain loop, rare classes, and what is out of its reach."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests import naive

from fires import ASCW, SCW
from fires.kernels import second_order, sequential

kinds = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def plain(batches, k, n_learners, phi, C):
    """Means, and TP, FP, FN of every learner."""
    n = batches[0][0].shape[1]
    mu, var = np.zeros((n_learners, n)), np.ones((n_learners, n))
    hits = np.zeros((n_learners, 3))
    for X, y in batches:
        for i in range(n_learners):
            cost, before = (i + 1) / (n_learners + 1), mu[i].copy()
            for x, sign in zip(X, 2.0 * y - 1.0, strict=True):
                said = float(before @ x) > 0.0
                hits[i] += [said and sign > 0, said and sign < 0, not said and sign > 0]
                rule = second_order.SCW_1, phi, 2.0 * C * (cost if sign > 0 else 1.0 - cost)
                row = (x[None, :], np.array([sign]), mu[i], var[i], k, sequential.ALL)
                mu[i], var[i] = naive.second_order_plain(*row, rule, False)
            mu[i] = naive.truncate_plain(mu[i], np.abs(mu[i]), k)
    return mu, hits


def rare(n_batches=60, n_features=40, share=0.04, seed=0):
    """Two classes, one of them rare; it has another mean in the first four features."""
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        y = rng.random(100) < share
        X = rng.normal(size=(100, n_features))
        X[:, :4] += 1.2 * (y - share)[:, None]
        yield X, y.astype(int)


@kinds
def test_it_is_the_plain_loop(kind):
    batches = [(X * (X > -0.5), y) for X, y in rare(6, n_features=10, share=0.3)]
    selector = ASCW(4, n_learners=3, confidence=0.9, C=0.05)
    for X, y in batches:
        selector.partial_fit(kind(X), y, classes=[0, 1])
    mu, hits = plain(batches, 4, 3, 1.2815515655446004, 0.05)
    f = [2 * tp / (2 * tp + fp + fn) for tp, fp, fn in hits]
    assert_allclose(selector.f_measures_, f, rtol=1e-12)
    assert len(set(f)) > 1
    assert_allclose(selector.importances_, mu[np.argmax(f)], rtol=0, atol=1e-12)
    assert_allclose(selector.weights_, np.abs(selector.importances_), rtol=0)


def test_a_learner_of_equal_costs_alone_is_scw_truncated_after_each_batch():
    X, y = next(rare(1))
    alone, scw = ASCW(40, n_learners=1, C=1.0), SCW(40)
    assert_array_equal(alone.partial_fit(X, y).importances_, scw.partial_fit(X, y).importances_)


def share_found(selector, batches, relevant):
    """The share of the relevant features that are selected, over the second half of a stream."""
    found = []
    for X, y in batches:
        selector.partial_fit(X, y)
        found.append(len(set(selector.get_support(indices=True)) & relevant) / len(relevant))
    return np.mean(found[len(found) // 2 :])


def test_it_wins_where_a_class_is_rare():
    """Beside one learner of equal costs, truncated as it is, or not at all."""

    def found(make):
        streams = (rare(share=0.02, seed=seed) for seed in range(6))
        return np.mean([share_found(make(), stream, {0, 1, 2, 3}) for stream in streams])

    ours = found(lambda: ASCW(4))
    assert ours > 0.8
    assert ours > found(lambda: SCW(4, truncate="weight")) + 0.5
    assert ours > found(lambda: SCW(4)) + 0.1


def test_the_learners_of_high_cost_have_the_greatest_f_measure_there():
    selector = ASCW(4)
    for X, y in rare():
        selector.partial_fit(X, y)
    assert selector.f_measures_.argmax() >= 5


def test_it_fails_where_features_matter_only_together():
    rng = np.random.default_rng(0)
    rows = (rng.normal(size=(100, 20)) for _ in range(40))
    batches = [(X, (X[:, 3] * X[:, 5] > 0.0).astype(int)) for X in rows]
    assert share_found(ASCW(2), batches, {3, 5}) < 0.4


def test_the_f_measure_is_that_of_the_greater_label():
    """The first class known turns out to be the negative one: what was counted is forgotten."""
    X, y = next(rare(1, share=0.5))
    selector = ASCW(3).partial_fit(X[y == 0], ["a"] * int((y == 0).sum()))
    selector.partial_fit(X, np.array(["a", "b"])[y])
    first = ASCW(3).partial_fit(X[y == 0], np.zeros(int((y == 0).sum())), classes=[0, 1])
    assert_array_equal(first.f_measures_, np.zeros(9))
    assert_allclose(selector.importances_, first.partial_fit(X, y).importances_, rtol=1e-12)
