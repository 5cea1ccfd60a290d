"""What is told of the selection while a run goes on."""

import copy
import json
import os
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime

import numpy as np
import pytest

from fires import FIRES
from fires.core.errors import InputError
from fires.evaluation.loop import prequential
from fires.evaluation.records import Step
from fires.run.emit import Emitter, open_sink
from fires.run.features import feature_rows
from fires.run.totals import RunTotals
from fires.streams.arrays import from_arrays
from fires.streams.base import Position

NAMES = ("a", "b", "c", "größe")


class Kept:
    """A sink in memory that notes what is asked of it."""

    def __init__(self):
        self.records, self.calls = [], []

    def write(self, record):
        self.records.append(json.loads(json.dumps(record, allow_nan=False)))

    def flush(self):
        self.calls.append("flush")

    def close(self):
        self.calls.append("close")


def drifting(n_rows=3_000):
    """The target hangs on the first column, from the middle on on the third."""
    X = np.random.default_rng(0).normal(size=(n_rows, 4))
    late = np.arange(n_rows) >= n_rows // 2
    return X, np.where(late, X[:, 2], X[:, 0]) > 0


def run(emitter, selector, X, y):
    """Learn from all rows, and tell."""
    for step in prequential(from_arrays(X, y), selector):
        emitter.step(step, selector)


def without_time(records):
    return [{key: value for key, value in one.items() if key != "time"} for one in records]


def test_each_change_is_told_once_with_what_came_and_left():
    sink, selector = Kept(), FIRES(1)
    run(Emitter(sink, "run", NAMES), selector, *drifting())
    first, *later = sink.records
    assert list(first) == ["id", "rows", "time", "features", "came", "left"]
    assert (first["id"], first["rows"]) == ("run-0", 100)
    assert (first["came"], first["left"]) == (["a"], [])
    assert later
    selected = {"a"}
    for record in later:
        assert record["came"] or record["left"]
        selected = (selected - set(record["left"])) | set(record["came"])
        assert selected == {one["feature"] for one in record["features"]}
    assert selected == {"c"}
    assert [(one["rank"], list(one)) for one in later[-1]["features"]] == [
        (1, ["feature", "importance", "low", "high", "rank"])
    ]


def test_times_are_those_of_the_clock_in_utc():
    sink, before = Kept(), datetime.now(UTC)
    run(Emitter(sink, "run", NAMES), FIRES(1), *drifting(200))
    told = datetime.fromisoformat(sink.records[0]["time"])
    assert told.utcoffset().total_seconds() == 0
    assert abs(told - before).total_seconds() < 60


def test_every_batch_can_be_told():
    sink, selector, (X, _) = Kept(), FIRES(2), drifting(1_000)
    run(Emitter(sink, "run", NAMES, every="batch"), selector, X, X[:, 0] > X[:, 3])
    assert [record["id"] for record in sink.records] == [f"run-{index}" for index in range(10)]
    last = sink.records[-1]
    assert last["came"] == last["left"] == []
    rows = feature_rows(selector, NAMES, RunTotals(4), selector.get_support(indices=True))
    keys = ("feature", "importance", "low", "high", "rank")
    assert last["features"] == [{key: row[key] for key in keys} for row in rows]
    assert all(one["low"] < one["importance"] < one["high"] for one in last["features"])


def test_a_model_without_intervals_tells_none():
    sink = Kept()
    run(Emitter(sink, "run", NAMES), FIRES.as_published(2), *drifting(100))
    assert {(one["low"], one["high"]) for one in sink.records[0]["features"]} == {(None, None)}


def test_columns_that_became_several_features_are_told_as_one():
    X = np.random.default_rng(0).normal(size=(3_000, 5))
    y = np.where(np.arange(3_000) < 500, X[:, 0] + X[:, 1], X[:, 3]) > 0
    sink, names = Kept(), ("town_1", "town_2", "town_3", "age", "size")
    selector = FIRES(1, groups=["town", "town", "town", "age", "size"])
    run(Emitter(sink, "run", names, every="batch"), selector, X, y)
    assert sink.records[0]["came"] == ["town_1"]
    moved = [record for record in sink.records if record["left"]]
    assert (moved[0]["left"], moved[0]["came"]) == (["town_1"], ["age"])
    for record in sink.records:
        assert len(record["features"]) == 1
    assert sink.records[-1]["features"][0]["rank"] == 1  # soon after the change, it need not be


def test_importances_are_computed_only_for_a_record():
    class Selector:
        groups_ = None

        def __getattr__(self, name):
            raise RuntimeError(f"{name} is costly")

    emitter = Emitter(Kept(), "run", NAMES)
    emitter.restore({"selected": [0, 2]})
    step = Step(7, Position(800), 100, {}, np.array([0, 2]), 1.0, 0.0, 0.0)
    emitter.step(step, Selector())
    with pytest.raises(RuntimeError, match="costly"):
        emitter.step(Step(**{**vars(step), "selected": np.array([0, 3])}), Selector())


@pytest.mark.parametrize("every", ["change", "batch"])
@pytest.mark.parametrize("cut", [0, 1, 14, 15, 16, 29])
def test_batches_that_are_learnt_again_give_the_same_records_with_the_same_ids(every, cut):
    """A run is killed when two batches more than those of its checkpoint are learnt."""
    steps = []
    for step in prequential(from_arrays(*drifting()), selector := FIRES(1)):
        steps.append((step, copy.deepcopy(selector)))
    whole, sink = Kept(), Kept()
    told_whole, emitter = (Emitter(one, "run", NAMES, every) for one in (whole, sink))
    for step in steps:
        told_whole.step(*step)
    for step in steps[:cut]:
        emitter.step(*step)
    saved, n_saved = json.dumps(emitter.state()), len(sink.records)
    for step in steps[cut : cut + 2]:
        emitter.step(*step)
    n_killed = len(sink.records)
    resumed = Emitter(sink, "run", NAMES, every)
    resumed.restore(json.loads(saved))
    for step in steps[cut:]:
        resumed.step(*step)
    told = without_time(sink.records)
    assert told[:n_saved] + told[n_killed:] == without_time(whole.records)
    assert told[n_saved:n_killed] == told[n_killed : 2 * n_killed - n_saved]


def test_flush_and_close_reach_the_sink():
    sink = Kept()
    emitter = Emitter(sink, "run", NAMES)
    emitter.flush()
    emitter.close()
    assert sink.calls == ["flush", "flush", "close"]


# Files


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_file_is_appended_to(tmp_path):
    path = tmp_path / "selected.ndjson"
    for number in range(3):
        sink = open_sink(str(path))
        sink.write({"id": f"größe-{number}", "value": None})
        assert lines_of(path)[-1]["id"] == f"größe-{number}"  # a reader need not wait
        sink.flush()
        sink.close()
    assert [one["id"] for one in lines_of(path)] == ["größe-0", "größe-1", "größe-2"]


WHOLE = '{"id": "run-0", "rows": 100}\n{"id": "run-1", "rows": 200}\n'


@pytest.mark.parametrize("size", [*range(len(WHOLE) + 1)])
def test_a_last_line_that_is_torn_is_cut(size, tmp_path):
    path = tmp_path / "selected.ndjson"
    path.write_text(WHOLE[:size])
    sink = open_sink(str(path))
    sink.write({"id": "run-2"})
    sink.close()
    *kept, new = path.read_text().splitlines(keepends=True)
    assert new == '{"id": "run-2"}\n'
    ends = [place for place, letter in enumerate(WHOLE) if letter == "\n"]
    assert "".join(kept) == WHOLE[: max([end + 1 for end in ends if end < size], default=0)]


@pytest.mark.parametrize("tail", ["", "x" * 70_000, "x" * 200_000])
def test_long_lines_are_mended_too(tail, tmp_path):
    path = tmp_path / "selected.ndjson"
    long = json.dumps({"id": "run-0", "features": ["feature"] * 30_000}) + "\n"
    path.write_text(long * 2 + '{"id": "' * bool(tail) + tail)
    open_sink(str(path)).close()
    assert path.read_text() == long * 2


@pytest.mark.parametrize("text", ["a,b\n1,2\n3,4", "\n", '{"name": 1}\n', "[]"])
def test_a_file_that_holds_something_else_is_left_alone(text, tmp_path):
    path = tmp_path / "events.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"events\.csv holds something other .*; give the name"):
        open_sink(str(path))
    assert path.read_text() == text


def test_what_cannot_be_written_is_named(tmp_path):
    for path in (tmp_path, tmp_path / "none" / "x.ndjson"):
        with pytest.raises(OSError) as error:
            open_sink(str(path))
        assert error.value.filename == str(path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_a_full_disk_names_the_file():
    sink = open_sink("/dev/full")
    with pytest.raises(OSError, match="No space left") as error:
        sink.write({"id": "run-0"})
    assert error.value.filename == "/dev/full"
    sink.close()


def test_a_pipe_takes_records_until_its_reader_goes(tmp_path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    seen, go_away = [], threading.Event()

    def reader():
        with path.open() as file:
            seen.append(file.readline())
            go_away.wait(30)

    thread = threading.Thread(target=reader)
    thread.start()
    sink = open_sink(str(path))
    sink.write({"id": "run-0"})
    sink.flush()
    go_away.set()
    thread.join(120)
    assert seen == ['{"id": "run-0"}\n']
    with pytest.raises(BrokenPipeError):
        sink.write({"id": "run-1"})
    sink.close()


def test_other_places_are_refused_in_one_line():
    with pytest.raises(InputError, match=r"nothing can be written to s3://; give a file"):
        open_sink("s3://user:secret@bucket/x")
    with pytest.raises(InputError) as error:
        open_sink("s3://user:secret@bucket/x")
    assert "secret" not in str(error.value)


# Standard output


def test_standard_output_has_a_line_for_each_record_at_once(monkeypatch):
    ours, theirs = os.pipe()
    monkeypatch.setattr(sys, "stdout", os.fdopen(theirs, "w", encoding="ascii"))
    sink = open_sink("-")
    sink.write({"id": "größe"})
    assert json.loads(os.read(ours, 1000)) == {"id": "größe"}  # though nothing else has come
    os.close(ours)  # the reader has seen enough
    with pytest.raises(BrokenPipeError):
        sink.write({"id": "x" * 1000})
    with suppress(BrokenPipeError):
        sys.stdout.close()
