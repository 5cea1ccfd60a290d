"""Streaming variational Bayes: the plain loop, what it converges to, and what is refused."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, log_ndtr, ndtr

import fires
from fires import FIRES, Sharded
from fires.core.batch import WeightSums, effective_weights
from fires.models import NeuralNet
from fires.models.families import FAMILIES

FAMILIES_HERE = ["probit", "logistic", "gaussian"]


def drawn(rng, n, family, n_features=4):
    """Rows, and a target of the family: classes as 0 and 1, or numbers."""
    X = rng.normal(size=(n, n_features))
    t = X[:, 1] - 0.5 * X[:, 2] + 0.3
    if family == "gaussian":
        return X, t + 0.5 * rng.normal(size=n)
    return X, (rng.random(n) < (ndtr(t) if family == "probit" else expit(t))).astype(int)


def naive_bound(family, a, v, y, noise):
    if family == "gaussian":
        return (y - a) / noise, 1.0 / noise
    if family == "probit":
        mills = math.exp(-0.5 * a * a - log_ndtr(y * a)) / math.sqrt(2.0 * math.pi)
        return y * mills, 1.0
    xi = math.sqrt(a * a + v)
    bend = math.tanh(xi / 2.0) / (2.0 * xi)
    return y / 2.0 - bend * a, bend


def naive_batch(family, rows, y, weight, prior, noise):
    """Ten rounds over all coefficients of one batch, in loops; prior: (mean, variance) of each."""
    mu, var = [m for m, _ in prior], [s for _, s in prior]
    for _ in range(10):
        bounds = []
        for x, goal in zip(rows, y, strict=True):
            a = sum(m * one for m, one in zip(mu, x, strict=True))
            v = sum(s * one * one for s, one in zip(var, x, strict=True))
            bounds.append((a, *naive_bound(family, a, v, goal, noise)))
        for j, (m, s) in enumerate(prior):
            precision, pull = 1.0 / s, -(mu[j] - m) / s
            for x, w, (a, slope, bend) in zip(rows, weight, bounds, strict=True):
                now = sum(one * value for one, value in zip(mu, x, strict=True))
                precision += w * bend * x[j] ** 2
                pull += w * (slope - bend * (now - a)) * x[j]
            mu[j] += pull / precision
            var[j] = 1.0 / precision
    return mu, var


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("family", FAMILIES_HERE)
def test_it_is_the_plain_loop(family, weighted):
    rng = np.random.default_rng(0)
    selector = FIRES(2, model=family, update="variational", scale=None)
    prior, noise, n_seen, sums = [(0.0, 1.0)] * 5, 1.0, 0.0, WeightSums()
    for _ in range(3):
        X, y = drawn(rng, 20, family)
        given = rng.integers(1, 4, 20).astype(float) if weighted else None
        selector.partial_fit(X, y, sample_weight=given)
        weight, sums = effective_weights(given, 20, sums)  # a row of constant weight is one row
        weight = np.ones(20) if weight is None else weight
        rows = [[*x, 1.0] for x in X.tolist()]
        goal = y.tolist() if family == "gaussian" else [1.0 if one else -1.0 for one in y]
        mu, var = naive_batch(family, rows, goal, weight.tolist(), prior, noise)
        prior = list(zip(mu, var, strict=True))
        squares = 0.0
        for x, one, w in zip(rows, goal, weight.tolist(), strict=True):
            error = one - sum(m * value for m, value in zip(mu, x, strict=True))
            squares += w * (error**2 + sum(s * z * z for s, z in zip(var, x, strict=True)))
        noise = (max(n_seen, 1.0) * noise + squares) / (max(n_seen, 1.0) + weight.sum())
        n_seen += weight.sum()
    assert_allclose(selector.importances_, mu[:4], rtol=1e-12, atol=1e-12)
    assert_allclose(selector.uncertainties_, np.sqrt(var[:4]), rtol=1e-12)


def test_numbers_with_known_noise_are_learnt_as_by_least_squares():
    """For one batch of orthogonal columns, the mean-field posterior is the exact one."""
    rng = np.random.default_rng(1)
    X = np.linalg.qr(rng.normal(size=(50, 3)))[0] * np.sqrt(50)
    y = X @ [1.0, 0.0, -2.0] + rng.normal(size=50)
    selector = FIRES(1, model="gaussian", update="variational", scale=None, fit_intercept=False)
    selector.partial_fit(X, y)
    assert_allclose(selector.importances_, X.T @ y / 51.0, rtol=1e-12)
    assert_allclose(selector.uncertainties_, np.full(3, 51.0**-0.5), rtol=1e-12)


@pytest.mark.parametrize("family", ["probit", "logistic"])
def test_a_bound_is_below_and_touches(family):
    """Averaged over t, no bend and slope at another place is closer to the likelihood."""
    a, y = np.array([-1.5, 0.2, 3.0]), np.array([1.0, -1.0, 1.0])
    slope, bend = FAMILIES[family].bound(a, np.zeros(3), y, 0.0)

    def log_p(t):
        return log_ndtr(y * t) if family == "probit" else np.log(expit(y * t))

    assert_allclose(slope, (log_p(a + 1e-6) - log_p(a - 1e-6)) / 2e-6, rtol=1e-6)
    for t in np.linspace(-6.0, 6.0, 25):
        assert (log_p(a) + slope * (t - a) - 0.5 * bend * (t - a) ** 2 <= log_p(t) + 1e-9).all()


@pytest.mark.parametrize("family", FAMILIES_HERE)
def test_the_relevant_are_found_and_classes_may_be_many(family):
    rng, selector = np.random.default_rng(2), FIRES(2, model=family, update="variational")
    for _ in range(30):
        selector.partial_fit(*drawn(rng, 100, family, 8))
    assert_array_equal(selector.get_support(indices=True), [1, 2])
    if family != "gaussian":
        X = rng.normal(size=(600, 8))
        selector.partial_fit(X, np.digitize(X[:, 1] - X[:, 2], [-1.0, 1.0]))
        assert selector.class_importances_.shape == (3, 8)
        assert_array_equal(selector.get_support(indices=True), [1, 2])


def test_it_goes_on_after_loading_and_learns_sparse_rows_as_dense_ones(tmp_path):
    import scipy.sparse as sp

    rng = np.random.default_rng(3)
    one, two = (FIRES(2, model="gaussian", update="variational") for _ in range(2))
    for _ in range(5):
        X, y = drawn(rng, 30, "gaussian")
        one.partial_fit(X, y)
        two.partial_fit(sp.csr_array(X), y)
    assert_array_equal(one.weights_, two.weights_)
    one.save(tmp_path / "saved")
    again = fires.load(tmp_path / "saved").partial_fit(X, y)
    assert_array_equal(again.weights_, one.partial_fit(X, y).weights_)


def test_a_fixed_coefficient_stays():
    rng = np.random.default_rng(4)
    selector = FIRES(1, model="probit", update="variational", sigma_init=[0.0, 1.0, 1.0, 1.0])
    selector.partial_fit(*drawn(rng, 100, "probit"))
    assert selector.importances_[0] == 0.0
    assert selector.uncertainties_[0] == 0.0


def test_an_overflow_changes_nothing():
    rng = np.random.default_rng(5)
    selector = FIRES(2, model="gaussian", update="variational", scale=None)
    X, y = drawn(rng, 20, "gaussian")
    before = selector.partial_fit(X, y).weights_
    with pytest.raises(ValueError, match=r"overflow|too large"):
        selector.partial_fit(X * 1e200, y * 1e200)
    assert_array_equal(selector.weights_, before)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "poisson"}, "not for counts: use update='bayes'"),
        ({"model": NeuralNet(), "relations": "linear"}, "is for linear models"),
        ({"drift": "erics"}, "it needs update='gradient'"),
        ({"n_features_to_select": "auto"}, "update='variational' does not have"),
        ({"relations": "curves"}, "needs a linear model with update='bayes'"),
        ({"redundancy": "drop"}, "update='bayes'"),
    ],
)
def test_what_makes_no_sense_is_refused(settings, message):
    selector = FIRES(**{"n_features_to_select": 2, "update": "variational", **settings})
    with pytest.raises(ValueError, match=message):
        selector.partial_fit(np.eye(4), np.array([0, 1, 0, 1]))


def test_shards_are_refused():
    sharded = Sharded(FIRES(2, update="variational"), n_jobs=1)
    with pytest.raises(ValueError, match="update='variational' cannot learn from shards"):
        sharded.partial_fit(np.eye(4), np.array([0, 1, 0, 1]))
