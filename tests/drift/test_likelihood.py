"""The alarm: rare while the model is right, soon when it is not."""

import math

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.special import expit

from fires.core.declared import collect, restore
from fires.core.errors import StateError
from fires.drift import Alarm, LikelihoodAlarm, alarms_from_array, alarms_to_array


def calibrated(rng, n_sums, n, *, honest=True):
    """Log likelihoods of classes whose probability is told rightly, and by the share of 1/2."""
    p = expit(rng.normal(0.0, 2.0, (n_sums, n)))
    y = rng.random((n_sums, n)) < (p if honest else 0.5)
    return np.log(np.where(y, p, 1.0 - p)), np.full((n_sums, n), math.log(0.5))


def n_false(limit, n=4000, n_sums=200):
    """How many of these sums reach the limit within n rows; each has a limit of its own."""
    alarm = LikelihoodAlarm(n_sums, warm_up=0.0, limit=limit)
    rng = np.random.default_rng(0)
    reached = np.zeros(n_sums, dtype=bool)
    for _ in range(n // 100):
        reached |= alarm.update(*calibrated(rng, n_sums, 100), np.ones(100)) > limit
    return int(reached.sum())


@pytest.mark.parametrize("limit", [10.0, 12.0])
def test_while_the_model_is_right_false_alarms_are_as_rare_as_promised(limit):
    """At most once in exp(limit) rows on average. Twice that for chance."""
    assert n_false(limit) <= 2.0 * 200 * 4000 / math.exp(limit) + 3


def test_with_a_low_limit_they_do_come():
    """So the test above can fail."""
    assert n_false(1.0) > 100


@pytest.mark.parametrize("seed", range(5))
def test_an_alarm_comes_within_few_rows_once_predictions_are_worthless(seed):
    rng, alarm = np.random.default_rng(seed), LikelihoodAlarm(1, warm_up=500.0)
    for _ in range(50):
        assert alarm.update(*calibrated(rng, 1, 100), np.ones(100))[0] < alarm.limit
    strengths = [
        alarm.update(*calibrated(rng, 1, 10, honest=False), np.ones(10))[0] for _ in range(15)
    ]
    assert max(strengths) > alarm.limit
    assert min(strengths) < alarm.limit  # it takes more than ten rows


def test_what_has_always_been_so_is_not_a_change():
    """These predictions lose against no features, by as much in every row."""
    alarm, level = LikelihoodAlarm(1, warm_up=500.0), np.full((1, 100), -0.7)
    for _ in range(200):
        assert alarm.update(np.full((1, 100), -1.0), level, np.ones(100))[0] < 1e-6
    assert alarm.update(np.full((1, 100), -1.6), level, np.ones(100))[0] > alarm.limit


def test_nothing_is_raised_before_the_warm_up_is_over():
    alarm, bad = LikelihoodAlarm(1, warm_up=500.0), np.full((1, 100), -5.0)
    for _ in range(5):
        assert alarm.update(bad, np.full((1, 100), -0.7), np.ones(100))[0] == 0.0
    assert alarm.rows[0] == 500.0


def test_a_restart_concerns_one_sum_and_warms_up_again():
    alarm, level = LikelihoodAlarm(2, warm_up=100.0), np.full((2, 100), -0.7)
    good, bad = np.full((2, 100), -0.3), np.full((2, 100), -2.0)
    for rows in (good, good, bad):
        strength = alarm.update(rows, level, np.ones(100))
    assert (strength > alarm.limit).all()
    kept = alarm.total[1], alarm.usual[1], alarm.rows[1]
    alarm.restart(0)
    assert (alarm.total[0], alarm.usual[0], alarm.rows[0]) == (0.0, 0.0, 0.0)
    assert (alarm.total[1], alarm.usual[1], alarm.rows[1]) == kept
    assert alarm.update(bad, level, np.ones(100))[0] == 0.0


def test_many_sums_have_a_higher_limit():
    assert LikelihoodAlarm(1, warm_up=0.0, limit=14.0).limit == 14.0
    assert LikelihoodAlarm(10, warm_up=0.0, limit=14.0).limit == 14.0 + math.log(10.0)


def test_the_sums_are_saved_and_checked():
    rng, alarm = np.random.default_rng(2), LikelihoodAlarm(2, warm_up=0.0)
    alarm.update(*calibrated(rng, 2, 50, honest=False), np.ones(50))
    _, arrays = collect(alarm, LikelihoodAlarm.learnt)
    other = LikelihoodAlarm(2, warm_up=0.0)
    restore(other, LikelihoodAlarm.learnt, {}, arrays, {"R": 2})
    more = calibrated(rng, 2, 50)
    assert_array_equal(other.update(*more, np.ones(50)), alarm.update(*more, np.ones(50)))
    arrays["total"] = -np.ones(2)
    with pytest.raises(StateError, match="total"):
        restore(other, LikelihoodAlarm.learnt, {}, arrays, {"R": 2})


def test_alarms_survive_as_numbers():
    alarms = [Alarm(100, 3, None, 14.5), Alarm(2_000, 40, 0, 6.25), Alarm(10**9, 10**7, 7, 0.1)]
    assert alarms_from_array(alarms_to_array(alarms)) == alarms
    assert alarms_to_array([]).shape == (0, 4)
    assert alarms_from_array(alarms_to_array([])) == []
