"""FTRL: what its sums stand for, and what they find."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit

from fires import FTRL

kinds = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def problem(seed, n_rows=40, n_features=9):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.7)
    return X, (X[:, 2] - X[:, 6] + rng.normal(size=n_rows) > 0).astype(int)


@kinds
@pytest.mark.parametrize("fit_intercept", [False, True])
@given(seed=st.integers(0, 2**16))
def test_without_penalties_it_is_gradient_descent_with_a_rate_per_feature(
    kind, fit_intercept, seed
):
    X, y = problem(seed)
    w, n = np.zeros(10), np.zeros(10)
    for row, label in zip(X, y, strict=True):
        x = np.append(row, float(fit_intercept))
        g = (expit(w @ x) - label) * x
        n += g**2
        w -= 0.5 * g / (2.0 + np.sqrt(n))
    selector = FTRL(3, learning_rate=0.5, beta=2.0, l1=0.0, fit_intercept=fit_intercept)
    selector.partial_fit(kind(X), y, classes=[0, 1])
    assert_allclose(selector.importances_, w[:-1], rtol=1e-9, atol=1e-12)
    assert_allclose(selector.weights_, np.abs(w[:-1]), rtol=1e-9, atol=1e-12)


@given(
    seed=st.integers(0, 2**16),
    l1=st.sampled_from([0.0, 0.5, 3.0]),
    l2=st.sampled_from([0.0, 2.0]),
)
def test_coefficients_minimise_what_follows_the_regularised_leader(seed, l1, l2):
    """No slope points down of g·w + ½ sigma_s (w - w_s)², summed, and (beta/alpha + l2) w²/2."""
    X, y = problem(seed)
    selector = FTRL(3, learning_rate=0.3, beta=1.0, l1=l1, l2=l2, fit_intercept=False)
    gradients, strengths, visited = [], [], []
    n = np.zeros(9)
    for row, label in zip(X, y, strict=True):
        w = np.zeros(9) if not visited else selector.importances_
        g = (expit(w @ row) - label) * row
        gradients.append(g)
        strengths.append((np.sqrt(n + g**2) - np.sqrt(n)) / 0.3)
        visited.append(w)
        n += g**2
        selector.partial_fit(row[None, :], [label], classes=[0, 1])
    w = selector.importances_
    slope = sum(gradients) + (1.0 / 0.3 + l2) * w
    slope += sum(s * (w - before) for s, before in zip(strengths, visited, strict=True))
    there = w != 0.0
    assert_allclose(slope[there], -l1 * np.sign(w[there]), rtol=0, atol=1e-9)
    assert (np.abs(slope[~there]) <= l1 + 1e-9).all()


@kinds
def test_l1_leaves_out_what_does_not_help(kind):
    X, y = problem(0, n_rows=2000)
    selector = FTRL(2, l1=60.0).fit(kind(X), y)
    assert_array_equal(np.flatnonzero(selector.weights_), [2, 6])
    assert selector.importances_[2] > 0.0 > selector.importances_[6]
    assert (FTRL(2, l1=0.0).fit(kind(X), y).weights_ > 0.0).all()
    assert not FTRL(2, l1=1e6).fit(kind(X), y).weights_.any()


@kinds
def test_an_intercept_takes_up_a_rare_class(kind):
    """Without one, features that are never negative are given weights for it."""
    rng = np.random.default_rng(0)
    X = rng.random((3000, 6))
    y = (X[:, 4] > 0.9) & (rng.random(3000) < 0.5)
    assert_array_equal(FTRL(1).fit(kind(X - 0.5), y).get_support(indices=True), [4])
    with_intercept, without = (FTRL(1, fit_intercept=f).fit(kind(X), y) for f in (True, False))
    others = [0, 1, 2, 3, 5]
    assert with_intercept.weights_[others].max() < without.weights_[others].max()


@kinds
def test_weights_follow_the_settings_and_not_only_what_was_learnt(kind):
    X, y = problem(1)
    selector = FTRL(3, l1=0.0).partial_fit(kind(X), y)
    assert (selector.weights_ > 0.0).all()
    assert not selector.set_params(l1=1e6).weights_.any()


@given(seed=st.integers(0, 2**16))
def test_exchanged_labels_turn_the_signs_and_nothing_else(seed):
    X, y = problem(seed)
    one, other = FTRL(3).fit(X, y), FTRL(3).fit(X, 1 - y)
    assert_array_equal(other.importances_, -one.importances_)
