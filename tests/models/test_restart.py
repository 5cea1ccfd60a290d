"""Features that start anew, as a slot of a predictor does that gets another column."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from fires import FIRES

CHANGED = 3
OTHERS = np.delete(np.arange(8), CHANGED)


def before(rng, n_rows=100):
    """Column 3 holds numbers from 0 to 1 that speak for the class, column 5 is one more."""
    X = rng.normal(size=(n_rows, 8))
    X[:, CHANGED] = rng.random(n_rows)
    return X, _label(rng, 2.0 * np.sqrt(12.0) * (X[:, CHANGED] - 0.5) + X[:, 5])


def after(rng, n_rows=100):
    """Column 3 holds codes of a greater unit, which speak against the class."""
    X = rng.normal(size=(n_rows, 8))
    codes = rng.integers(0, 5, size=n_rows)
    X[:, CHANGED] = 1000.0 * codes
    return X, _label(rng, -2.0 * (codes - 2.0) / np.sqrt(2.0) + X[:, 5])


def _label(rng, signal):
    return (signal + rng.logistic(size=len(signal)) > 0.0).astype(int)


def learnt(selector, rng, n_batches=50, form=np.asarray, make=before):
    for _ in range(n_batches):
        X, y = make(rng)
        selector.partial_fit(form(X), y)
    return selector


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_the_new_meaning_is_learnt_within_20_batches(form):
    covered = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        selector = learnt(FIRES(2, model="logistic"), rng, form=form)
        selector.learner.restart_features(np.array([CHANGED]))
        learnt(selector, rng, 20, form, after)
        low, high = selector.interval(0.99)
        covered.append(low[CHANGED] <= -2.0 <= high[CHANGED])
        assert selector.get_support(indices=True).tolist() == [CHANGED, 5]
        assert selector.alarms_ == []
    assert sum(covered) >= 7


def test_the_first_batch_after_it_gives_the_scale():
    rng = np.random.default_rng(0)
    selector = learnt(FIRES(2), rng)
    selector.learner.restart_features(np.array([CHANGED]))
    X, y = after(rng)
    scale = selector.partial_fit(X, y).learner.scaler.dense
    assert_allclose(scale.shift[CHANGED], X[:, CHANGED].mean())
    assert_allclose(1.0 / scale.gain[CHANGED], X[:, CHANGED].std())


def test_what_is_known_of_other_features_stays():
    """The changed column is correlated with another one: rows have spoken of both together."""
    rng = np.random.default_rng(0)
    selector = FIRES(3, model="gaussian")
    for _ in range(30):
        X = rng.normal(size=(100, 8))
        X[:, 4] += 2.0 * X[:, CHANGED]
        selector.partial_fit(X, X[:, CHANGED] + X[:, 4] + rng.normal(size=100))
    mu, sigma = selector.importances_, selector.uncertainties_
    selector.learner.restart_features(np.array([CHANGED]))
    now = selector.learner.features()
    assert_allclose(now.mu[OTHERS], mu[OTHERS], rtol=1e-9)
    assert_allclose(now.sigma[OTHERS], sigma[OTHERS], rtol=1e-9)
    fresh = FIRES(3, model="gaussian").partial_fit(np.zeros((2, 8)), [0.5, 1.5])
    assert now.mu[CHANGED] == 0.0
    assert now.sigma[CHANGED] == fresh.uncertainties_[CHANGED]


def test_features_of_wide_rows_that_do_not_lead_start_anew_too():
    rng = np.random.default_rng(0)
    selector = FIRES(5)
    for _ in range(30):
        X = rng.normal(size=(100, 150))
        selector.partial_fit(X, X[:, 140] > X[:, 7])
    selector.learner.restart_features(np.array([7, 140, 149]))
    assert_array_equal(selector.learner.features().mu[[7, 140, 149]], 0.0)
    for _ in range(20):
        X = rng.normal(size=(100, 150)) * np.where(np.arange(150) == 140, 1e6, 1.0)
        selector.partial_fit(X, X[:, 140] < 0)
    assert selector.importances_[140] < -0.5
    assert selector.ranking_[140] == 1


def test_a_restart_is_no_alarm_and_silences_no_other():
    """At the next look, the feature has moved; so has another one, by itself."""
    rng = np.random.default_rng(0)
    selector = FIRES(2, memory=2000)
    for i in range(60):
        if i == 30:
            selector.learner.restart_features(np.array([CHANGED]))
        X = rng.normal(size=(100, 8))
        sign = 1.0 if i < 30 else -1.0
        y = sign * X[:, CHANGED] + X[:, 5] + (0.0 if i < 30 else 1.5) * X[:, 6]
        selector.partial_fit(X, _label(rng, 2.0 * y))
    assert {alarm.feature for alarm in selector.alarms_} == {6}
