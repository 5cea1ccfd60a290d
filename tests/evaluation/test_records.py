import json

import numpy as np
import pytest

from fires.evaluation.records import Step
from fires.metrics.prediction import Scores
from fires.run.totals import RunTotals
from fires.streams.base import Position

NAN = float("nan")


def make_steps(n_steps, n_features=7, seed=0):
    rng = np.random.default_rng(seed)
    for index in range(n_steps):
        yield Step(
            index=index,
            position=Position(rows=10 * index + 10, bytes=1000 * index),
            n_rows=int(rng.integers(1, 50)),
            scores={"accuracy": NAN if index % 5 == 0 else rng.random()},
            selected=np.flatnonzero(rng.random(n_features) < 0.4),
            stability=NAN if index in (0, 3) else rng.random(),
            seconds_select=rng.random(),
            seconds_train=rng.random(),
            weights=rng.normal(size=n_features),
        )


def test_a_row_is_the_step_in_json_with_null_for_what_is_not_a_number():
    for step in make_steps(6):
        row = json.loads(json.dumps(step.as_row(), allow_nan=False))
        assert row["index"] == step.index
        assert row["rows"] == step.position.rows
        assert row["n_rows"] == step.n_rows
        assert row["selected"] == step.selected.tolist()
        assert row["weights"] == step.weights.tolist()
        for value, shown in [
            (step.scores["accuracy"], row["scores"]["accuracy"]),
            (step.stability, row["stability"]),
        ]:
            assert shown is None if np.isnan(value) else shown == value


def test_numbers_of_numpy_are_json_too():
    step = Step(0, Position(1), 1, {"r": np.float64(0.5)}, np.array([1]), np.float64("nan"), 0, 0)
    row = json.loads(json.dumps(step.as_row(), allow_nan=False))
    assert (row["scores"], row["stability"]) == ({"r": 0.5}, None)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_what_is_infinite_is_no_number_of_json_either(value):
    step = Step(0, Position(1), 1, {"r": value}, np.array([1]), value, 0.0, 0.0, np.array([value]))
    row = json.loads(json.dumps(step.as_row(), allow_nan=False))
    assert (row["scores"], row["stability"], row["weights"]) == ({"r": None}, None, [None])


def test_the_totals_are_what_numpy_gives_over_all_steps():
    steps, totals = list(make_steps(40)), RunTotals(7, recent=8)
    for step in steps:
        totals.add(step)
    n_rows = np.array([step.n_rows for step in steps])
    accuracy = np.array([step.scores["accuracy"] for step in steps])
    tested = ~np.isnan(accuracy)
    masks = np.array([np.isin(np.arange(7), step.selected) for step in steps])
    assert (totals.n_batches, totals.n_rows) == (40, n_rows.sum())
    np.testing.assert_allclose(totals.share_selected, masks.mean(axis=0))
    assert totals.stability == pytest.approx(np.nanmean([step.stability for step in steps]))
    late = tested & (np.arange(40) >= 32)
    assert totals.recent_scores["accuracy"] == pytest.approx(
        np.average(accuracy[late], weights=n_rows[late])
    )
    assert totals.seconds_select == pytest.approx(sum(step.seconds_select for step in steps))
    assert totals.seconds_train == pytest.approx(sum(step.seconds_train for step in steps))
    assert json.loads(json.dumps(totals.as_dict(), allow_nan=False))["rows"] == n_rows.sum()


def test_totals_of_nothing_say_so():
    totals = RunTotals(3)
    assert np.isnan(totals.stability)
    np.testing.assert_array_equal(totals.share_selected, np.zeros(3))
    assert totals.as_dict() == {
        "rows": 0,
        "batches": 0,
        "scores": {},
        "baselines": {},
        "class_shares": {},
        "stability": None,
        "seconds_select": 0.0,
        "seconds_train": 0.0,
    }


def test_a_score_that_was_never_defined_is_null():
    totals = RunTotals(7)
    totals.add(next(make_steps(1)))
    assert np.isnan(totals.recent_scores["accuracy"])
    totals.whole = Scores(("accuracy",))
    assert np.isnan(totals.scores["accuracy"])
    assert (totals.as_dict()["scores"], totals.as_dict()["stability"]) == ({"accuracy": None}, None)


def test_a_score_that_comes_later_does_not_trip_the_recent_ones():
    totals = RunTotals(3)
    for scores in ({}, {"accuracy": 0.5}):
        totals.add(Step(0, Position(1), 1, scores, np.array([0]), NAN, 0.0, 0.0))
    assert totals.recent_scores == {"accuracy": 0.5}
