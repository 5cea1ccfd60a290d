"""What is noted about an alarm: who left, who came, and the score before and after."""

import json

import numpy as np
import pytest

from fires import FIRES, OnlinePipeline
from fires.drift import Alarm
from fires.evaluation import prequential
from fires.evaluation.records import Step
from fires.predictors import Perceptron
from fires.report.summary import Summary
from fires.run.checkpoints import Schedule
from fires.run.features import alarm_rows
from fires.run.folder import RunFolder
from fires.run.run import Run
from fires.run.totals import WINDOW, Changes, RunTotals
from fires.streams import DriftingFeatures
from fires.streams.base import Position


def step(index, accuracy, selected, *, alarm=False, feature=None, n_rows=10, rows=10):
    alarms = (Alarm(rows * index, index, feature, 20.0),) if alarm else ()
    facts = {"accuracy": accuracy}, np.array(selected), 1.0, 0.0, 0.0
    return Step(index, Position(rows * index), n_rows, *facts, alarms=alarms)


def followed(steps):
    changes = Changes()
    for one in steps:
        changes.add(one)
    return changes.by_batch


def test_an_alarm_is_measured_against_the_batches_around_it():
    before = [step(i, 0.9 if i < 10 else 0.7, [1, 2]) for i in range(30)]
    after = [step(31 + i, 0.6 if i < WINDOW else 0.1, [2, 5 + i]) for i in range(40)]
    change = followed([*before, step(30, 0.2, [2, 4], alarm=True), *after])[30]
    assert (change.n_before, change.n_after) == (WINDOW, WINDOW)
    assert change.before == pytest.approx({"accuracy": 0.7})
    assert change.after == pytest.approx({"accuracy": 0.6})
    assert (change.left, change.came) == ([1], [5 + WINDOW - 1])


def test_rows_weigh_and_what_was_not_tested_does_not_count():
    tested = [step(0, np.nan, [1]), step(1, 0.5, [1], n_rows=30), step(2, 0.9, [1])]
    change = followed([*tested, step(3, 0.1, [1], alarm=True)])[3]
    assert change.before == pytest.approx({"accuracy": 0.6})
    assert (change.after, change.n_after) == ({}, 0)


def test_another_event_ends_the_first():
    steps = [step(i, i / 10, [i], alarm=i in (2, 5), rows=1000) for i in range(9)]
    found = followed(steps)
    assert (found[2].n_after, found[5].n_before, found[5].n_after) == (2, 2, 3)
    assert found[2].after == found[5].before == pytest.approx({"accuracy": 0.35})


def test_alarms_that_follow_each_other_are_one_event():
    """What comes after the last of them is held against what came before the first."""
    told = {3: None, 5: 2, 6: 4}
    steps = [
        step(i, i / 10, [i], alarm=i in told, feature=told.get(i), rows=500) for i in range(10)
    ]
    assert list(followed(steps)) == [3]
    change = followed(steps)[3]
    assert (change.n_before, change.n_after) == (3, 3)
    assert (change.left, change.came) == ([2], [9])
    assert change.before == pytest.approx({"accuracy": 0.1})
    assert change.after == pytest.approx({"accuracy": 0.8})


def test_an_alarm_about_one_feature_is_followed_too():
    found = followed([step(0, 0.9, [1]), step(1, 0.9, [1], alarm=True, feature=3)])
    assert (found[1].left, found[1].came) == ([], [])


def test_a_sign_that_has_changed_is_told_and_goes_on_after_loading():
    changes, places = Changes(), np.array([3, 7, 9])
    sigma = np.array([0.1, 0.1, 0.1])
    for i in range(40):
        changes.add(step(i, 0.9, places, alarm=i == 20))
        sign = -1.0 if i > 20 else 1.0
        if i % 10 == 0:
            changes.look(places, np.array([sign, 1.0, 0.2 * sign]), sigma)
        changes = Changes.from_json(json.loads(json.dumps(changes.as_json())))
    assert changes.by_batch[20].flipped == [3]  # the third was never significant


def test_what_was_saved_before_there_were_events_goes_on():
    changes = Changes()
    for i in range(5):
        changes.add(step(i, 0.9, [i], alarm=i == 2))
    saved = changes.as_json()
    older = {name: saved[name] for name in ("by_batch", "follows", "recent", "selected")}
    for _, change in older["by_batch"]:
        del change["flipped"]
    again = Changes.from_json(older)
    again.add(step(5, 0.9, [5], alarm=True))
    assert list(again.by_batch) == [2, 5]


def test_memory_is_bounded_however_many_alarms_there_are():
    found = followed(step(i, 0.5, [1], alarm=True, rows=2000) for i in range(1_000))
    assert len(found) <= 100
    assert max(found) == 999


def test_a_drifting_stream_is_told_as_it_was():
    stream = DriftingFeatures(6_000, n_features=20, n_relevant=3, random_state=0)
    selector, totals, steps = FIRES(3), RunTotals(20), []
    for one in prequential(stream, selector, Perceptron()):
        totals.add(one)
        steps.append(one)
    (row,) = alarm_rows(selector, stream.schema.feature_names, totals)
    at = row["batch"]
    assert [len(one.alarms) for one in steps] == [int(one.index == at) for one in steps]
    assert steps[at].as_row()["alarms"] == [selector.alarms_[0]._asdict()]
    assert "alarms" not in steps[0].as_row()
    old, new = stream.relevant_at(0), stream.relevant_at(5_999)
    assert row["left"] == [f"x{j}" for j in np.setdiff1d(old, new)]
    assert row["came"] == [f"x{j}" for j in np.setdiff1d(new, old)]
    accuracy = [one.scores["accuracy"] for one in steps]
    before, after = accuracy[at - 20 : at], accuracy[at + 1 : at + 21]
    assert row["before"] == {"accuracy": pytest.approx(np.mean(before)), "batches": 20}
    assert row["after"] == {"accuracy": pytest.approx(np.mean(after)), "batches": 20}


def test_while_a_run_goes_on_others_see_what_an_event_has_changed(tmp_path):
    stream = DriftingFeatures(6_000, n_features=20, n_relevant=3, random_state=0)
    run = Run(OnlinePipeline(FIRES(3), Perceptron()), 20)
    with RunFolder(tmp_path / "run") as folder:
        folder.begin("", {"id": "a", "settings": {"target": "label"}, "started": "now"})
        folder.start(stream.schema.feature_names)
        run.keep(folder, dict, Schedule("1"))
        for one in run.steps(stream, 100):
            run.record(one)
        facts = json.loads((tmp_path / "run" / "run.json").read_text(encoding="utf-8"))
        assert (facts["status"], facts["id"]) == ("running", "a")
        (told,) = facts["alarms"]
        assert told == alarm_rows(run.pipeline.selector, stream.schema.feature_names, run.totals)[0]
        summary = Summary(tmp_path / "run")
        summary.refresh()
        (event,) = summary.as_dict()["events"]
        assert (event["came"], event["left"]) == (told["came"], told["left"])
        assert len(event["came"]) == 3
