"""Doubts that only the whole run can settle."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from fires.columns import Doubt
from fires.run.watch import ColumnWatch, LeakCheck
from fires.streams.base import Batch

N_ROWS, NAMES = 3_000, ["a", "b", "c", "d"]


def settled(X, y, doubts=()):
    """What is doubtful after a run in batches of 100 rows, taken up again after each."""
    watch = ColumnWatch(classes=y.dtype.kind != "f")
    for start in range(0, len(y), 100):
        watch.see(Batch(X[start : start + 100], y[start : start + 100]))
        saved, watch = watch.saved(), ColumnWatch(classes=y.dtype.kind != "f")
        watch.restore(json.loads(json.dumps(saved[0])), saved[1])
    return watch.settled(NAMES[: X.shape[1]], doubts)


def table(seed=0, n_columns=4):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N_ROWS, n_columns)), rng


def kinds(doubts):
    return [(doubt.column, doubt.kind) for doubt in doubts]


@pytest.mark.parametrize("flipped", [0.0, 0.03])
def test_a_column_that_nearly_is_the_class_is_a_leak(flipped):
    X, rng = table()
    y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
    X[:, 3] = (y == "yes") ^ (rng.random(N_ROWS) < flipped)
    X = X[:, 1:]  # b tells something, d nearly all
    doubts = settled(X, y)
    assert kinds(doubts) == [("c", "leak")]
    assert "accuracy 0.9" in doubts[0].why or "accuracy 1.0" in doubts[0].why


def test_a_rare_class_is_judged_by_what_it_takes_to_know_it():
    X, rng = table()
    score = X[:, 0] + X[:, 1]
    y = score > 2.6  # one row in 30: to say no all the time is right in 97 of 100
    X[:, 3] = y & (rng.random(N_ROWS) < 0.95)
    assert kinds(settled(X[:, 1:], y)) == [("c", "leak")]
    assert settled(X[:, :3], y) == []


def test_a_column_that_nearly_is_the_number_is_a_leak():
    X, rng = table()
    y = X[:, 0] + X[:, 1]
    X[:, 3] = 3.0 * y + 0.1 * rng.normal(size=N_ROWS)
    assert kinds(settled(X[:, 1:], y)) == [("c", "leak")]


@pytest.mark.parametrize("numbers", [False, True])
def test_the_best_of_several_true_features_is_none(numbers):
    X, rng = table()
    y = 2.0 * X[:, 0] - X[:, 1] + 0.5 * rng.normal(size=N_ROWS)
    assert settled(X, y if numbers else y > 0) == []


def test_a_leak_that_the_first_rows_showed_is_not_named_twice():
    X, _ = table()
    known = Doubt("a", "leak", "is the target under other names")
    assert settled(X, X[:, 0] > 0, [known]) == [known]


def test_constants_are_those_of_the_whole_run():
    X, rng = table()
    y = rng.random(N_ROWS) > 0.5
    X[:, 1], X[:, 2] = 5.0, 7.0
    X[-1, 2] = 8.0  # the last row of all
    X[::7, 1] = np.nan
    X[:, 3] = np.nan
    before = [Doubt("c", "constant", "has only one value, 7.0")]
    assert kinds(settled(X, y, before)) == [("b", "constant")]


def test_one_column_alone_and_sparse_rows_are_not_judged():
    X, _ = table(n_columns=1)
    assert settled(X, X[:, 0] > 0) == []
    X, _ = table()
    assert settled(sp.csr_array(X), X[:, 0] > 0) == []


def test_a_few_rows_settle_nothing():
    X, _ = table()
    assert settled(X[:400], X[:400, 0] > 0) == []
    assert kinds(settled(X[:500], X[:500, 0] > 0)) == [("a", "leak")]


def test_missing_values_say_nothing():
    X, rng = table()
    y = X[:, 0] > 0
    X[rng.random(X.shape) < 0.02] = np.nan
    assert kinds(settled(X, y)) == [("a", "leak")]


def test_many_noisy_columns_do_not_make_a_leak_of_a_good_one():
    truth, rng = table(n_columns=1)
    X = np.hstack([truth + 0.1 * rng.normal(size=(N_ROWS, 2)), rng.normal(size=(N_ROWS, 1500))])
    for names, expected in (([0, *range(2, 1502)], True), (range(1502), False)):
        check = LeakCheck(classes=True)
        check.see(X[:, names], truth[:, 0] > 0)
        assert bool(check.verdict()[1]) == expected


def test_a_target_that_is_constant_in_the_rows_of_the_test_shows_no_leak():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1_000, 3))
    y = np.where(np.arange(1_000) < 500, X[:, 0], 0.0)
    watch = ColumnWatch(classes=False)
    watch.see(Batch(X, y))
    assert watch.settled(["a", "b", "c"], []) == []


def test_a_column_that_only_grows_through_all_rows_is_a_clock():
    X, rng = table()
    X[:, 2] = np.arange(N_ROWS) // 70  # several values in each batch
    X[:, 3] = np.arange(N_ROWS) // 70 % 30  # falls once
    assert kinds(settled(X, rng.random(N_ROWS) < 0.5)) == [("c", "clock")]
