"""Alarms about single features: raised for what has moved, and for nothing else."""

import numpy as np
import scipy.sparse as sp

from fires import FIRES
from fires.drift import FeatureAlarms


def test_a_feature_is_named_if_it_has_moved_for_any_class():
    alarms, sigma = FeatureAlarms(every=100.0), np.full((3, 4), 0.1)
    mu = np.arange(12.0).reshape(3, 4) / 12.0
    assert alarms.update(mu, sigma) == {}
    moved = mu.copy()
    moved[2, 1] += 1.0
    moved[0, 1] -= 0.8
    moved[1, 3] += 0.6  # 4.2 deviations: not enough
    found = alarms.update(moved, sigma)
    assert list(found) == [1]
    np.testing.assert_allclose(found[1], 1.0 / np.hypot(0.1, 0.1))
    assert alarms.update(moved, sigma) == {}


def test_an_importance_that_goes_on_growing_has_not_changed():
    alarms, sigma = FeatureAlarms(every=100.0), np.full(2, 0.01)
    assert alarms.update(np.array([1.0, 1.0]), sigma) == {}
    assert list(alarms.update(np.array([1.9, 2.1]), sigma)) == [1]


def test_another_number_of_classes_starts_again():
    alarms = FeatureAlarms(every=100.0)
    alarms.update(np.zeros((1, 4)), np.full((1, 4), 0.1))
    assert alarms.update(np.ones((3, 4)), np.full((3, 4), 0.1)) == {}


def test_what_stands_at_its_prior_says_nothing_of_a_change():
    alarms, prior = FeatureAlarms(every=100.0), np.array([1.0, 0.01, 0.01, 0.01])
    start, sigma = np.zeros(4), np.array([0.005, 0.005, 0.0099, 0.005])
    assert alarms.update(start, sigma, prior) == {}
    assert list(alarms.update(start + 1.0, np.array([0.005, 0.0099, 0.005, 0.005]), prior)) == [
        0,
        3,
    ]


def test_the_more_are_looked_at_the_further_one_of_them_must_have_moved():
    for n_features, is_alarm in ((100, True), (1_000_000, False)):
        alarms, mu = FeatureAlarms(every=100.0), np.zeros(n_features)
        alarms.update(mu, np.full(n_features, 0.1))
        mu[3] = 0.8  # 5.7 deviations
        found = alarms.update(mu, np.full(n_features, 0.1))
        assert list(found) == ([3] if is_alarm else [])


def test_it_looks_again_after_so_many_rows():
    alarms = FeatureAlarms(every=250.0)
    assert [alarms.is_due(100.0) for _ in range(3)] == [False, False, True]
    alarms.update(np.zeros(2), np.ones(2))
    assert not alarms.is_due(100.0)


def test_classes_that_take_turns_as_the_one_a_feature_matters_most_for_are_no_drift():
    """What speaks for the highest of three ordered classes speaks against the lowest, as much."""
    for seed in range(3):
        rng, selector, signs = np.random.default_rng(seed), FIRES(3), []
        for _ in range(200):
            X = rng.normal(size=(100, 10))
            signal = X[:, :3] @ [1.0, -1.2, 0.8] + rng.normal(size=100)
            selector.partial_fit(X, np.digitize(signal, [-1.0, 1.0]))
            signs.append(tuple(np.sign(selector.importances_[:3])))
        assert len(set(signs)) > 1  # they do take turns
        assert selector.alarms_ == []


def test_one_feature_that_changes_sides_is_named():
    rng, selector = np.random.default_rng(0), FIRES(3, memory=2_000)
    for i in range(80):
        X = rng.normal(size=(100, 8))
        theta = [2.0, 2.0, 0.8 if i < 40 else -0.8]
        y = (X[:, :3] @ theta + rng.normal(size=100) > 0.0).astype(int)
        selector.partial_fit(X, y)
        if i < 40:
            assert selector.alarms_ == []
    assert 2 in {alarm.feature for alarm in selector.alarms_}


def test_a_million_rare_columns_raise_no_alarm_where_nothing_changes():
    """Most columns have two entries or so in the whole stream: nothing is known of them."""
    n_features, n_entries = 1_000_000, 10
    rng, selector = np.random.default_rng(0), FIRES(10)
    theta = 2.0 * rng.normal(size=50)
    for _ in range(30):
        columns = rng.integers(0, n_features, size=(1_000, n_entries))
        columns[:, 0] = rng.integers(0, 50, size=1_000)
        where = np.repeat(np.arange(1_000), n_entries), columns.ravel()
        X = sp.csr_array((np.ones(columns.size), where), shape=(1_000, n_features))
        selector.partial_fit(X, (theta[columns[:, 0]] + rng.normal(size=1_000) > 0.0).astype(int))
    assert selector.alarms_ == []
    # What nothing is known of is not given an importance beyond all others either.
    assert np.abs(selector.importances_).max() < 2.0
