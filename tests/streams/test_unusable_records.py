"""A record that cannot be used costs itself, wherever it stands and wherever it comes from."""

import json

import numpy as np
import pytest

from fires.streams import from_file
from fires.streams.kafka import from_kafka
from fires.streams.redis import from_redis

N, SAMPLE = 1_200, 1_000
EARLY, LATE = 40, 1_150
LONE = r"a lone surrogate such as \ud800, which is not text"
NESTED = 'an object or a list in the target column "label"'


@pytest.fixture(autouse=True)
def small_sample(monkeypatch):
    """So that a late record need not be behind 10,000 others."""
    for module in ("json_table", "table"):
        monkeypatch.setattr(f"fires.streams.{module}.SAMPLE_ROWS", SAMPLE)


def of_file(lines, request):
    path = request.getfixturevalue("tmp_path") / "x.ndjson"
    path.write_text("".join(f"{line}\n" for line in lines))
    return from_file(path, "label")


def of_kafka(lines, request):
    kafka = request.getfixturevalue("kafka")
    kafka.create("events")
    kafka.write("events", lines)
    return from_kafka(kafka.uri("events"), "label", until_end=True)


def of_redis(lines, request):
    server = request.getfixturevalue("redis_server")
    server.write("events", lines)
    return from_redis(server.uri("events"), "label", until_end=True)


SOURCES = {"file": of_file, "kafka": of_kafka, "redis": of_redis}


def lines_with(bad, labels=("a", "b")):
    """Rows, with records in the place of some of them."""
    lines = [json.dumps({"x": i, "label": labels[i % 2]}) for i in range(N)]
    for at, line in bad.items():
        lines[at] = line
    return lines


def read(stream):
    """The labels of all rows, and the faults."""
    told = []
    stream.on_fault = told.extend
    y = np.concatenate([batch.y for batch in stream.batches(100)])
    return y, told


@pytest.mark.parametrize(
    ("source", "labels"),
    [*((source, ("a", "b")) for source in SOURCES), ("file", (0, 1)), ("file", (0.5, 1.25))],
)
def test_a_nested_target_costs_its_row(source, labels, request):
    bad = {
        EARLY: '{"x": 1, "label": {"a": 1}}',
        EARLY + 1: '{"x": 1, "label": [1, 2]}',
        LATE: '{"x": 1, "label": {"a": 1}}',
    }
    stream = SOURCES[source](lines_with(bad, labels), request)
    y, told = read(stream)
    assert [fault.line for fault in told] == [at + 1 for at in bad]
    assert [fault.raw for fault in told] == list(bad.values())
    assert len(y) == N - len(bad)
    assert set(y.tolist()) == set(labels)
    if isinstance(labels[0], str):
        assert {fault.reason for fault in told} == {NESTED}


def test_a_nested_target_after_the_sample_alone_costs_its_row(request):
    stream = of_file(lines_with({LATE: '{"x": 1, "label": {"a": 1}}'}), request)
    y, told = read(stream)
    assert [(fault.line, fault.reason) for fault in told] == [(LATE + 1, NESTED)]
    assert set(y.tolist()) == {"a", "b"}


def test_reading_goes_on_behind_a_nested_target(request):
    bad = {EARLY: '{"x": 1, "label": {"a": 1}}', LATE: '{"x": 1, "label": []}'}
    for labels in (("a", "b"), (0, 1)):
        stream = of_file(lines_with(bad, labels), request)
        batches = stream.batches(100)
        next(batches)
        rest = from_file(request.getfixturevalue("tmp_path") / "x.ndjson", after=stream.bookmark())
        y, told = read(rest)
        assert len(y) == N - 100 - 2
        assert [fault.line for fault in told] == [LATE + 1]


def test_a_label_in_brackets_is_a_label(request):
    y, told = read(of_file(lines_with({}, ("[0, 1]", "{1, 2}")), request))
    assert not told
    assert set(y.tolist()) == {"[0, 1]", "{1, 2}"}


@pytest.mark.parametrize("source", SOURCES)
def test_a_lone_surrogate_costs_its_record(source, request):
    lone = [
        r'{"\ud800": 1, "x": 1, "label": "a"}',
        r'{"x": "\uDFFF", "label": "a"}',
        r'{"x": 1, "label": "\ud800\ud800\udc00"}',
        r'{"x": 1, "more": [{"k\ud83d": 1}], "label": "a"}',
    ]
    bad = {start + i: line for start in (0, LATE) for i, line in enumerate(lone)}
    stream = SOURCES[source](lines_with(bad | {10: "{"}), request)
    assert stream.schema.feature_names == ("x",)
    y, told = read(stream)
    assert {fault.line - 1: fault.raw for fault in told} == bad | {10: "{"}
    assert {fault.reason for fault in told if fault.line != 11} == {LONE}
    assert len(y) == N - 9


def test_pairs_of_surrogates_and_escaped_backslashes_are_text(request):
    bad = dict.fromkeys(range(1, N, 2), r'{"x": 1, "label": "\ud83d\ude00"}')
    bad[0] = r'{"x": 1, "label": "\\ud83d"}'
    bad[2] = r'{"x": 1, "label": "\\\ud83d\udE00"}'
    y, told = read(of_file(lines_with(bad), request))
    assert not told
    assert set(y.tolist()) == {"a", "😀", r"\ud83d", "\\😀"}


@pytest.mark.parametrize("source", ["kafka", "redis"])
def test_messages_that_are_no_text_do_not_keep_a_run_from_starting(source, request):
    bad = dict.fromkeys(range(0, N, 2), b'{"x": 1, "label": "\xff"}')
    y, told = read(SOURCES[source](lines_with(bad), request))
    assert len(y) == len(told) == N // 2
    assert {fault.reason for fault in told} == {"not UTF-8 text"}
