"""The alarm about all features: rare while the model is right, soon when it is not."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr
from tests.naive import add_up

from fires import FIRES
from fires.core.declared import collect, restore
from fires.core.errors import StateError
from fires.drift import Alarm, SlopeAlarm, alarms_from_array, alarms_to_array
from fires.kernels.changes import increments

ONE = np.ones(1)


def slope_increments(f, g, bend, inflation, *, even):
    """What rows add by their slope and bend alone."""
    nothing = np.zeros(f.shape)
    return increments(np.stack([nothing, nothing, f, g, bend]), inflation, even, 0.0)


def level_increments(log_p, y, share):
    """What rows add where positives have this share, by the likelihood of their class."""
    nothing = np.zeros((1, len(y)))
    return increments(np.stack([[y], [log_p], *[nothing] * 3]), ONE, False, share)


def updated(alarm, more, weight):
    """Let rows add to the sums of an alarm; the greatest ones."""
    return add_up(more, weight, alarm.warm_up, alarm.total, alarm.usual, alarm.rows)


def classes(rng, n_sums, n, *, slope=1.0):
    """What features add to a probit, with slope and bend of rows whose true slope is given."""
    f = rng.normal(0.0, 1.5, (n_sums, n))
    y = np.where(slope * f + rng.normal(size=f.shape) > 0.0, 1.0, -1.0)
    mills = np.exp(-0.5 * f * f - 0.5 * math.log(2.0 * math.pi) - log_ndtr(y * f))
    return f, y * mills, mills * (mills + y * f)


def numbers(rng, n_sums, n, *, slope=1.0, noise=1.0):
    """The same for numbers whose noise may be other than the model has it."""
    f = rng.normal(0.0, 1.5, (n_sums, n))
    return f, (slope - 1.0) * f + noise * rng.standard_t(4, f.shape), np.ones(f.shape)


def n_reached(draw, limit, *, even, n=4000, n_sums=200, right=0, **facts):
    """How many of these sums reach the limit within n rows, after some when the model is right.

    Each sum has a limit of its own.
    """
    alarm, rng = SlopeAlarm(n_sums, warm_up=0.0, limit=limit), np.random.default_rng(0)
    reached = np.zeros(n_sums, dtype=bool)
    for i in range((right + n) // 100):
        rows = draw(rng, n_sums, 100, **({} if 100 * i < right else facts))
        more = slope_increments(*rows, np.ones(n_sums), even=even)
        reached |= updated(alarm, more, np.ones(100)) > limit
    return int(reached.sum())


@pytest.mark.parametrize(
    ("draw", "even", "facts"),
    [
        (classes, False, {}),
        (numbers, True, {}),
        (numbers, True, {"noise": 5.0}),  # volatility says nothing about the features
        (numbers, True, {"noise": 0.2}),
        (numbers, True, {"slope": 1.5}),  # features that predict better are no alarm
    ],
)
def test_false_alarms_are_as_rare_as_promised(draw, even, facts):
    """At most one in exp(limit) rows on average: of 800,000 rows, at most 36."""
    assert n_reached(draw, 10.0, even=even, **facts) <= 800_000 * math.exp(-10.0)


@pytest.mark.parametrize(("draw", "even"), [(classes, False), (numbers, True)])
@pytest.mark.parametrize("slope", [0.0, -1.0])
def test_an_alarm_comes_within_few_rows_once_features_do_not_predict(draw, even, slope):
    assert n_reached(draw, 14.0, even=even, n=200, right=1000, slope=slope) >= 198


def test_no_row_decides_alone():
    huge = np.full((1, 1), 1e6)
    assert slope_increments(huge, -huge, huge * 0.0, ONE, even=False) == 3.0
    assert_allclose(slope_increments(huge, -huge, huge * 0.0, ONE, even=True), 0.8 - 0.32)
    assert slope_increments(huge, huge, huge * 0.0, ONE, even=True) == -0.8 - 0.32
    assert level_increments(np.array([-1e300]), ONE, 0.5) == 3.0
    assert_allclose(level_increments(np.array([0.0]), ONE, 1e-300), math.log(0.25))


def test_dependent_rows_count_for_less():
    f, g, bend = np.array([[1.0]]), np.array([[-1.0]]), np.array([[0.5]])
    few = slope_increments(f, g, bend, np.array([4.0]), even=False)
    assert_allclose(few, 0.1 - 0.5 * 0.01 * 2.0)  # lambda 0.4 / 4, square 4 * 0.5


def test_what_has_always_been_so_is_not_a_change():
    """These predictions lose against no features, by as much in every row."""
    alarm = SlopeAlarm(1, warm_up=500.0)
    for _ in range(200):
        assert updated(alarm, np.full((1, 100), 0.2), np.ones(100))[0] < 1e-6
    assert updated(alarm, np.full((1, 100), 0.6), np.ones(100))[0] > alarm.limit


def test_nothing_is_raised_before_the_warm_up_is_over():
    alarm = SlopeAlarm(1, warm_up=500.0)
    for _ in range(5):
        assert updated(alarm, np.full((1, 100), 2.0), np.ones(100))[0] == 0.0
    assert alarm.rows[0] == 500.0


def test_a_restart_concerns_one_sum_and_warms_up_again():
    alarm, good, bad = SlopeAlarm(2, warm_up=100.0), np.full((2, 100), -0.5), np.ones((2, 100))
    for rows in (good, good, bad):
        strength = updated(alarm, rows, np.ones(100))
    assert (strength > alarm.limit).all()
    kept = alarm.total[1], alarm.usual[1], alarm.rows[1]
    alarm.restart(0)
    assert (alarm.total[0], alarm.usual[0], alarm.rows[0]) == (0.0, 0.0, 0.0)
    assert (alarm.total[1], alarm.usual[1], alarm.rows[1]) == kept
    assert updated(alarm, bad, np.ones(100))[0] == 0.0


def test_many_sums_have_a_higher_limit():
    assert SlopeAlarm(1, warm_up=0.0, limit=14.0).limit == 14.0
    assert SlopeAlarm(10, warm_up=0.0, limit=14.0).limit == 14.0 + math.log(10.0)


def test_the_sums_are_saved_and_checked():
    rng, alarm, other = np.random.default_rng(2), *(SlopeAlarm(2, warm_up=0.0) for _ in range(2))
    updated(alarm, rng.normal(size=(2, 50)), np.ones(50))
    _, arrays = collect(alarm, SlopeAlarm.learnt)
    restore(other, SlopeAlarm.learnt, {}, arrays, {"R": 2})
    more = rng.normal(size=(2, 50))
    assert_array_equal(updated(other, more, np.ones(50)), updated(alarm, more, np.ones(50)))
    arrays["total"] = -np.ones(2)
    with pytest.raises(StateError, match="total"):
        restore(other, SlopeAlarm.learnt, {}, arrays, {"R": 2})


def test_a_rare_class_that_moves_elsewhere_is_noticed():
    """1 % positives: after the change, the few of them fall where the features say nothing."""
    rng, selector = np.random.default_rng(3), FIRES(2)
    for i in range(130):
        X = rng.normal(size=(100, 10))
        signal = X[:, :2].sum(axis=1) if i < 100 else X[:, 2:4].sum(axis=1)
        selector.partial_fit(X, (1.5 * signal + rng.normal(size=100) > 5.2).astype(int))
    found = [alarm.row for alarm in selector.alarms_ if alarm.feature is None]
    assert len(found) == 1
    assert found[0] > 10_000


def test_alarms_survive_as_numbers():
    alarms = [Alarm(100, 3, None, 14.5), Alarm(2_000, 40, 0, 6.25), Alarm(10**9, 10**7, 7, 0.1)]
    assert alarms_from_array(alarms_to_array(alarms)) == alarms
    assert alarms_to_array([]).shape == (0, 4)
    assert alarms_from_array(alarms_to_array([])) == []
