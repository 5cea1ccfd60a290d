from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fires.bench import tune
from fires.bench.cells import PROTOCOLS
from fires.bench.tune import Trial, grid, trade_off
from fires.evaluation import prequential
from fires.metrics import Scores
from fires.predictors import LinearRegressor
from fires.streams.base import InputError
from fires.streams.files import from_file

SHARE = st.floats(0.001, 1.0)


@given(SHARE, SHARE)
def test_the_trade_off_lies_between_the_two_and_nearer_to_the_less(accuracy, stability):
    value = trade_off(accuracy, stability)
    low, high = sorted([accuracy, stability])
    assert low * (1 - 1e-12) <= value <= high * (1 + 1e-12)
    assert value <= (low + high) / 2 * (1 + 1e-12)
    assert value == trade_off(stability, accuracy)


def test_a_stability_that_is_no_better_than_chance_is_worth_nothing():
    assert trade_off(0.9, 0.0) == trade_off(0.9, -0.5) == 0.0
    assert trade_off(0.9, None) is None is trade_off(None, 0.9)


def test_the_grid_is_the_paper_s_without_the_penalty_that_changes_nothing():
    trials = grid("Spambase", protocol="as-published", n_rows=100)
    assert len(set(trials)) == 5 * 9
    assert {t.learning_rate for t in trials} == {0.01, 0.025, 0.1, 1.0, 10.0}
    assert sorted({t.uncertainty_penalty for t in trials})[::8] == [1e-4, 1e4]
    assert {(t.protocol, t.n_rows) for t in trials} == {("as-published", 100)}
    assert any((t.learning_rate, t.uncertainty_penalty) == tune.PAPER_S_CHOICE for t in trials)


@pytest.mark.parametrize("protocol", ["as-published", "honest"])
def test_a_trial_runs_with_its_settings(protocol):
    some, other = (
        tune.run(Trial("RTG", learning_rate=rate, protocol=protocol, n_rows=400))
        for rate in (0.01, 10.0)
    )
    assert some["steps"] == 4
    assert some["trade_off"] == trade_off(some["accuracy"], some["stability"])
    assert (some["accuracy"], some["stability"]) != (other["accuracy"], other["stability"])


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 10))
    frame = pl.DataFrame({f"x{j}": X[:, j] for j in range(10)})
    words = pl.Series("label", np.where(X[:, 3] > 0, "yes", "no"))
    frame.with_columns(words, pl.Series("amount", X[:, 1])).write_csv(tmp_path / "events.csv")
    return str(tmp_path / "events.csv")


def test_a_file_is_read_up_to_the_rows_that_are_asked_for(file):
    tune.check_file(file, "label")
    assert tune.run(Trial(file, target="label", batch_size=50))["steps"] == 10
    found = tune.run(Trial(file, target="label", learning_rate=1.0, batch_size=50, n_rows=200))
    assert found["steps"] == 4
    assert found["accuracy"] > 0.8


def test_of_numbers_r2_takes_the_place_of_accuracy(file):
    assert tune.check_file(file, "amount")
    trial = Trial(file, target="amount", learning_rate=0.1, batch_size=50, fraction=0.3)
    found = tune.run(replace(trial, numeric=True))
    stream, scores = from_file(file, "amount"), Scores(("r2",))
    selector = PROTOCOLS["honest"].make_fires(
        0.3, model="gaussian", learning_rate=0.1, uncertainty_penalty=0.01
    )
    options = {"batch_size": 50, "preprocess": "minmax", "scores": scores}
    steps = list(prequential(stream, selector, LinearRegressor(), **options))
    stability = np.nanmean([step.stability for step in steps])
    assert found == {
        "r2": pytest.approx(scores.total["r2"]),
        "stability": pytest.approx(stability),
        "steps": 10,
        "trade_off": pytest.approx(trade_off(scores.total["r2"], stability)),
    }
    record = {"learning_rate": 0.1, "uncertainty_penalty": 0.01, "numeric": True} | found
    assert tune.table([record]).columns[2] == "R2"


def test_other_content_of_a_file_is_another_trial(file):
    before = grid(file, "label")
    assert grid(file, "label") == before
    assert len({trial.content for trial in before}) == 1
    text = Path(file).read_text()
    Path(file).write_text(text.replace("yes", "NO").replace("no", "yes").replace("NO", "no"))
    assert not set(grid(file, "label")) & set(before)
    assert {trial.content for trial in grid("Spambase")} == {None}


def test_a_trial_says_whether_its_data_set_was_whole(file):
    assert tune.run(Trial("RTG", n_rows=200))["complete"]
    assert "complete" not in tune.run(Trial(file, target="label", n_rows=200))


def test_a_target_is_looked_at_to_its_end(file):
    labels = pl.Series("late", [0.0, 1.0] * 200 + [0.25, 0.5] * 50)
    pl.read_csv(file).with_columns(labels).write_csv(file)
    assert tune.check_file(file, "late")
    # A few fractions among labels are mistakes, and cost their rows.
    few = pl.Series("late", [0.0, 1.0] * 249 + [1.0, 0.5])
    pl.read_csv(file).with_columns(few).write_csv(file)
    assert not tune.check_file(file, "late")


def test_files_that_cannot_be_tuned_on_are_refused_beforehand(file):
    with pytest.raises(InputError, match="nothing"):
        tune.check_file(file, "nothing")
    with pytest.raises(InputError, match="its protocol is honest"):
        grid(file, "label", protocol="as-published")


def test_the_table_has_the_best_first_and_what_failed_last():
    def record(rate, penalty, value, **more):
        numbers = {"accuracy": value, "stability": value, "trade_off": value}
        return {"learning_rate": rate, "uncertainty_penalty": penalty} | numbers | more

    found = tune.table(
        [
            record(1.0, 10.0, None, error="ValueError: no"),
            record(0.01, 0.01, 0.5),
            record(0.1, 0.0001, 0.7),
            record(0.025, 1.0, 0.5),
        ]
    )
    assert [row[:2] for row in found.rows] == [
        ["0.1", "0.0001"],
        ["0.01", "0.01"],
        ["0.025", "1"],
        ["1", "10"],
    ]
    assert [row[-1] for row in found.rows] == ["", "paper", "", "ValueError: no"]
