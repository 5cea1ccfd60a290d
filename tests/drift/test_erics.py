"""ERICS: the authors' detector, as they run it, and that it must fire in the end."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fires
from fires import FIRES, Sharded
from fires.drift import ERICS

BELIEFS = [(0.01 * t, 1.0 - 0.005 * t) for t in range(1, 6)] + [(0.3, 0.9), (0.31, 0.9)]


def naive(mu, sigma, window, beta):
    """ERICS as loops over all beliefs, the first of which is the prior: averages and alarms.

    The first column is that of all features together.
    """
    n, n_features = len(mu) - 1, len(mu[0])
    mu, sigma = ([one[0]] * (window - 1) + list(one) for one in (mu, sigma))
    averages, alarms = [], []
    alpha, quiet = [None] * (1 + n_features), [0] * (1 + n_features)
    for t in range(1, n + 1):
        together, each = 0.0, [0.0] * n_features
        for i in range(t + 1, t + window):
            change = [
                (sigma[i][k] ** 2 + (mu[i][k] - mu[i - 1][k]) ** 2) / sigma[i - 1][k] ** 2 - 1.0
                for k in range(n_features)
            ]
            together += abs(sum(change))
            each = [sum_k + abs(c) for sum_k, c in zip(each, change, strict=True)]
        averages.append([one / (2 * window) for one in (together, *each)])
        alarms.append([])
        for k, now in enumerate(averages[-1]):
            delta = now if t == 1 else now - averages[max(t - window, 0)][k]
            if alpha[k] is not None:
                alpha[k] -= alpha[k] * beta * quiet[k]
            quiet[k] += 1
            if alpha[k] is None:
                alpha[k] = abs(delta)
            alarms[-1].append(delta > alpha[k])
            if delta > alpha[k]:
                alpha[k], quiet[k] = None, 0
    return np.array(averages), np.array(alarms)


def watched(mu, sigma, **settings):
    """The averages and alarms of our ERICS."""
    erics, averages, alarms = ERICS(mu[:1], sigma[:1], **settings), [], []
    for now in zip(mu[1:, None], sigma[1:, None], strict=True):
        alarms.append(erics.update(*now) > 0.0)
        averages.append(erics.averages[-1])
    return np.array(averages), np.array(alarms)


def test_the_vector_of_the_specification():
    mu, sigma = (
        np.array([[start] * 2, *([one[i]] * 2 for one in BELIEFS)])
        for i, start in enumerate((0.0, 1.0))
    )
    averages, alarms = watched(mu, sigma, window=3, beta=0.1)
    expected = [0.003291666667, 0.006599663939, 0.006632487971, 0.006665640088]
    assert_allclose(
        averages[:, 0], [*expected, 0.006699125233, 0.030752234007, 0.027435410427], atol=1e-12
    )
    assert_array_equal(alarms[:, 0], [False, True, False, False, False, True, False])


@pytest.mark.parametrize("window", [2, 5, 50])
def test_it_is_the_plain_loop(window):
    rng = np.random.default_rng(window)
    mu = np.cumsum(0.05 * rng.normal(size=(121, 4)), axis=0)
    sigma = np.exp(np.cumsum(0.03 * rng.normal(size=(121, 4)), axis=0))
    (averages, alarms), (loop, flags) = (
        of(mu, sigma, window=window, beta=1e-3) for of in (watched, naive)
    )
    assert_allclose(averages, loop, rtol=1e-12, atol=1e-15)
    assert_array_equal(alarms, flags)
    assert alarms.any(axis=0).all()


def learnt(selector, *, n=40, seed=0, n_features=5, classes=2):
    rng = np.random.default_rng(seed)
    for _ in range(n):
        X = rng.normal(size=(50, n_features))
        selector.partial_fit(X, np.digitize(X[:, 1], [0.0, 0.5][: classes - 1]))
    return selector


def test_fires_tells_it_the_belief_after_every_batch():
    selector, mu, sigma = FIRES(2, update="gradient", drift="erics"), [np.zeros(5)], [np.ones(5)]
    for seed in range(60):
        learnt(selector, n=1, seed=seed)
        mu.append(selector.importances_)
        sigma.append(selector.uncertainties_)
    _, alarms = naive(mu, sigma, 50, 1e-4)
    batches, features = np.nonzero(alarms)
    found = [
        (alarm.batch, 0 if alarm.feature is None else 1 + alarm.feature)
        for alarm in selector.alarms_
    ]
    assert found == list(zip(batches.tolist(), features.tolist(), strict=True))


def test_it_leaves_the_belief_as_it_is():
    watched, alone = (learnt(FIRES(2, update="gradient", drift=how)) for how in ("erics", None))
    assert watched.alarms_
    assert_array_equal(watched.weights_, alone.weights_)


def test_a_quiet_world_raises_an_alarm_in_the_end():
    """The threshold falls to zero: a belief that trembles a little must raise one."""
    rng = np.random.default_rng(0)
    mu = np.cumsum(np.full((2000, 1), 1e-3), axis=0) + 1e-6 * rng.normal(size=(2000, 1))
    _, alarms = watched(mu, np.ones_like(mu), window=50, beta=1e-4)
    assert len(np.flatnonzero(alarms[300:, 0])) > 5


def test_a_fixed_parameter_does_not_change():
    erics = ERICS(np.zeros((1, 2)), np.array([[0.0, 1.0]]), window=3)
    erics.update(np.array([[1.0, 1.0]]), np.array([[0.0, 1.0]]))
    assert_allclose(erics.averages[-1], [1.0 / 6.0, 0.0, 1.0 / 6.0])


@pytest.mark.parametrize("how", [{}, {"classes": 3}])
def test_a_saved_selector_goes_on(tmp_path, how):
    one = learnt(FIRES(2, update="gradient", drift="erics"), **how)
    one.save(tmp_path / "saved")
    two = fires.load(tmp_path / "saved")
    for selector in (one, two):
        learnt(selector, seed=1, **how)
    assert two.alarms_ == one.alarms_


def test_classes_and_the_setting_may_change():
    selector = learnt(FIRES(2, update="gradient", drift="erics"))
    n = len(selector.alarms_)
    learnt(selector, classes=3, seed=1)
    assert len(selector.alarms_) > n
    learnt(selector.set_params(drift=None), n=5)
    n = len(selector.alarms_)
    learnt(selector.set_params(drift="erics"), n=5, seed=3)
    assert len(selector.alarms_) > n


def test_open_columns_may_come():
    selector = FIRES(1, update="gradient", drift="erics", columns="open")
    rng = np.random.default_rng(0)
    for names in (["a", "b"], ["a", "b", "c"]):
        for _ in range(10):
            X = pd.DataFrame(rng.normal(size=(50, len(names))), columns=names)
            selector.partial_fit(X, X["b"] > 0)
    assert {alarm.feature for alarm in selector.alarms_} == {None, 0, 1, 2}


def test_columns_keep_what_is_known_of_them():
    rng = np.random.default_rng(0)
    mu, sigma = rng.normal(size=(1, 3)), np.ones((1, 3))
    one = ERICS(mu, sigma, window=5)
    for _ in range(8):
        mu = mu + 0.1 * rng.normal(size=(1, 3))
        one.update(mu, sigma)
    source = np.array([2, 0, -1])
    other = one.rearranged(source, np.where(source < 0, 0.0, mu[:, source]), sigma)
    assert_array_equal(other.averages[:, [0, 1, 2]], one.averages[:, [0, 3, 1]])
    assert_array_equal(other.threshold[[0, 1, 2]], one.threshold[[0, 3, 1]])
    assert np.isnan(other.threshold[3])
    assert other.update(mu[:, source], sigma).shape == (4,)


def test_it_is_for_the_gradient_update():
    with pytest.raises(ValueError, match="it needs update='gradient'"):
        learnt(FIRES(2, drift="erics"))


def test_shards_raise_the_same_alarms():
    one = FIRES(2, update="gradient", drift="erics")
    many = Sharded(FIRES(2, update="gradient", drift="erics"), n_jobs=1)
    for selector in (one, many):
        learnt(selector, n=10)
    assert [a[:3] for a in many.alarms_] == [a[:3] for a in one.alarms_]
