"""Alarms about single features: raised for what has moved, and for nothing else."""

import numpy as np
import scipy.sparse as sp

from fires import FIRES
from fires.drift import SLOPE, Led, ScoreTests
from fires.kernels.assimilate import kept_of

NOBODY = Led(np.empty(0, dtype=np.intp), np.empty((1, 0)), np.empty((1, 1, 1)))


def alarms(tests, n_tests, led=NOBODY):
    """The moves of columns that are alarms after a batch of 100 rows."""
    moves = tests.moved(np.ones(1), 100.0, n_tests, None, led)
    return [move for move in moves if move.place >= 0 and move.excess > 0.0]


def plain(u, weight, window=500.0):
    """Sums of scores and of their squares, by their definition."""
    total, square = np.zeros(u.shape[1]), np.zeros(u.shape[1])
    for row, w in zip(u, weight, strict=True):
        keep = np.exp(-w / window)
        total, square = keep * total + row, keep**2 * square + row**2
    return total, square


def told(tests, u, weight):
    """Tell the tests the scores of a batch, of one row of parameters."""
    kept = kept_of(weight, 1.0)[:, None]
    sums = np.stack([(kept * u).sum(axis=0), ((kept * u) ** 2).sum(axis=0)])[:, None]
    tests.fade(float(weight.sum()))
    tests.add(None, *(sums / tests.powers))


def test_the_sums_fade_as_they_are_defined():
    rng, tests = np.random.default_rng(0), ScoreTests(1, 3)
    u, weight = rng.normal(size=(700, 3)), rng.choice([0.0, 1.0, 2.5], 700)
    for part in np.array_split(np.arange(700), [100, 101, 350]):
        told(tests, u[part], weight[part])
    total, square = plain(u, weight)
    np.testing.assert_allclose(tests.total[0] * tests.unit, total, rtol=1e-9)
    np.testing.assert_allclose(tests.square[0] * tests.unit**2, square, rtol=1e-9)


def test_the_unit_of_the_sums_does_not_run_out():
    rng, tests, other = np.random.default_rng(0), ScoreTests(1, 2), ScoreTests(1, 2)
    for _ in range(800):  # 80,000 rows: the unit alone would be 3e-70
        told(tests, rng.normal(size=(100, 2)), np.ones(100))
    assert tests.unit > 1e-51
    told(other, u := rng.normal(size=(5000, 2)), np.ones(5000))
    told(tests, u, np.ones(5000))
    found = [one.total[0] / np.sqrt(one.square[0]) for one in (tests, other)]
    np.testing.assert_allclose(*found, atol=1e-3)  # exp(-10) is left of what was before


def test_scores_of_nothing_are_standard_normal_and_raise_no_alarm():
    rng, tests, far = np.random.default_rng(1), ScoreTests(1, 50), []
    for _ in range(400):
        told(tests, rng.normal(size=(100, 50)), np.ones(100))
        far.append(tests.total[0] / np.sqrt(tests.square[0]))
        assert alarms(tests, 50) == []
    np.testing.assert_allclose(np.std(far[20:]), 1.0, atol=0.05)


def test_a_coefficient_that_moves_is_named_and_its_move_estimated():
    rng, tests = np.random.default_rng(2), ScoreTests(1, 50)
    for i in range(60):
        u = rng.normal(size=(100, 50))
        u[:, 7] += 0.3 if i >= 40 else 0.0  # a move by 0.3, with an information of 1 a row
        told(tests, u, np.ones(100))
        if found := alarms(tests, 50):
            break
    (move,) = found
    assert move.place == 7
    assert 41 <= i <= 45
    assert tests.square[0, 7] == 0.0  # it starts again
    assert 0.1 < move.size < 0.45  # only the rows since the change say so
    assert 0.01 < move.variance < 0.2


def test_dependent_rows_are_seen_in_the_median_column():
    rng, tests = np.random.default_rng(3), ScoreTests(1, 50)
    columns = np.arange(50)
    for _ in range(100):  # every score comes ten times
        told(tests, rng.normal(size=(10, 50)).repeat(10, axis=0), np.ones(100))
        led = Led(columns, np.zeros((1, 50)), np.eye(50)[None])
        assert alarms(tests, 50, led) == []
    assert np.abs(tests.total[0] / np.sqrt(tests.square[0])).max() > 4.5


def test_what_moves_along_the_predictor_is_no_move_of_a_feature():
    """The slope of the link has changed: all scores move with their share of the predictor."""
    rng, tests = np.random.default_rng(4), ScoreTests(1, 5)
    mu = np.array([1.0, 0.6, 0.4, 0.0, 0.0])
    for _ in range(20):
        z, noise = rng.normal(size=(100, 5)), rng.normal(size=100)
        f = z @ mu
        g = noise - 0.4 * f
        kept = kept_of(np.ones(100), 1.0)
        sums = np.stack([(kept * g) @ z, (kept * g) ** 2 @ z**2])[:, None]
        along = np.array([[(kept * g).sum(), (kept * g) @ f], [1.0, (kept * g) ** 2 @ f**2]])
        tests.fade(100.0)
        tests.add(None, *(sums / tests.powers))
        tests.shared += along[:, None] / tests.powers
    true = Led(np.arange(5), mu[None], np.eye(5)[None])  # columns are not correlated
    assert alarms(tests, 5, true) == []
    shared = [one for one in tests.moved(np.ones(1), 100.0, 5, None, true) if one.place == SLOPE]
    assert shared[0].size < 0.0
    wrong = Led(np.arange(5), 0.0 * mu[None], np.eye(5)[None])
    assert len(alarms(tests, 5, wrong)) > 0


def test_the_more_are_tested_the_further_one_of_them_must_be():
    for n_features, is_alarm in ((50, True), (1_000_000, False)):
        tests = ScoreTests(1, n_features)
        tests.square[:] = 1.0
        tests.total[0, 3] = 5.5
        assert len(alarms(tests, n_features)) == is_alarm


def test_a_feature_that_matters_as_much_for_two_classes_does_not_take_turns_and_is_no_drift():
    """What speaks for the highest of three ordered classes speaks against the lowest, as much."""
    for seed in range(3):
        rng, selector, signs = np.random.default_rng(seed), FIRES(3), []
        for _ in range(200):
            X = rng.normal(size=(100, 10))
            signal = X[:, :3] @ [1.0, -1.2, 0.8] + rng.normal(size=100)
            selector.partial_fit(X, np.digitize(signal, [-1.0, 1.0]))
            signs.append(tuple(np.sign(selector.importances_[:3])))
        assert len(set(signs[20:])) == 1
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
