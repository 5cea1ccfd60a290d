"""What a run in service says on standard error."""

import errno
import io
import json
import logging
import re
import sys
from contextlib import ExitStack
from datetime import datetime

import click
import pytest

from fires.cli import progress as module
from fires.cli.progress import LEVELS, logs, one_bar, say_compiling

LOGGER = logging.getLogger("fires.evaluation.something")
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00"


def say_everything():
    for level in LEVELS:
        getattr(LOGGER, level)("one %s", level)


@pytest.mark.parametrize("level", LEVELS)
def test_events_from_a_level_on_are_lines_with_time_and_level(level, capsys):
    with logs(level):
        say_everything()
    output, errors = capsys.readouterr()
    assert output == ""
    lines = errors.splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == [
        f"{name.upper()} one {name}" for name in LEVELS[LEVELS.index(level) :]
    ]
    assert all(re.match(TIME + " ", line) for line in lines)


def test_for_machines_they_are_json(capsys):
    with logs("warning", as_json=True):
        say_everything()
    first, _ = map(json.loads, capsys.readouterr().err.splitlines())
    assert datetime.fromisoformat(first.pop("time")).utcoffset().total_seconds() == 0
    assert first == {"event": "log", "level": "warning", "message": "one warning"}


@pytest.mark.parametrize("as_json", [False, True])
def test_an_event_is_one_line_and_steers_no_terminal(as_json, capsys):
    with logs("info", as_json=as_json):
        LOGGER.info("two\nlines and %s", "\x1b[31mred\r\n")
        try:
            raise ValueError("broken\nin two")
        except ValueError:
            LOGGER.exception("the source failed")
    errors = capsys.readouterr().err
    assert len(errors.splitlines()) == 2
    assert "\x1b" not in errors
    assert "the source failed: broken in two" in errors


@pytest.mark.parametrize("as_json", [False, True])
def test_passwords_in_addresses_are_left_out(as_json, capsys):
    with logs("info", as_json=as_json):
        LOGGER.info("lost redis://me:s3cret@host:6379/events and redis://:s3cret@host/0")
        LOGGER.info("reads kafka://localhost:9092/events of me@example.org")
    first, second = capsys.readouterr().err.splitlines()
    assert "s3cret" not in first
    assert "redis://me:***@host:6379/events and redis://:***@host/0" in first
    assert "kafka://localhost:9092/events of me@example.org" in second


def test_afterwards_all_is_as_it_was(capsys):
    logger = logging.getLogger("fires")
    before = logger.level, logger.propagate, list(logger.handlers)
    with logs("debug"):
        assert not logger.propagate
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


def progress(pause, monkeypatch, capsys, values):
    """What is said if the clock goes on by a second between two of them."""
    clock = iter(range(1_000))
    monkeypatch.setattr(module, "_LOG_PAUSE", pause)
    monkeypatch.setattr(module, "_SILENT", pause)
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))
    asked = []
    with one_bar("", as_json=True) as show:
        for one in values:
            show(lambda one=one: asked.append(one) or one)
    lines = list(map(json.loads, capsys.readouterr().err.splitlines()))
    assert len(asked) == len(lines)  # nothing is computed that is not said
    for line in lines:
        assert re.fullmatch(TIME, line.pop("time"))
        assert line.pop("event") == "progress"
    return lines


@pytest.mark.parametrize(
    ("pause", "said"), [(0, [0, 1, 2, 3, 4]), (2, [1, 3, 4]), (3, [2, 4]), (99, [])]
)
def test_few_are_said_and_the_last_and_nothing_before(pause, said, monkeypatch, capsys):
    rows = [{"rows": number} for number in range(5)]
    assert progress(pause, monkeypatch, capsys, rows) == [{"rows": number} for number in said]


def test_what_only_a_bar_can_show_is_left_out_and_the_rest_is_json(monkeypatch, capsys):
    bar = {"description": "7 rows", "now": "fast", "completed": 5, "total": 9}
    facts = {"rows": 7, "stability": float("nan"), "scores": {"r2": float("-inf"), "mae": 0.5}}
    assert progress(1, monkeypatch, capsys, [bar | facts]) == [
        {"rows": 7, "stability": None, "scores": {"r2": None, "mae": 0.5}}
    ]


def test_the_last_is_said_whatever_ends_it(monkeypatch, capsys):
    clock = iter([0.0, 6.0, 6.1])
    monkeypatch.setattr(module.time, "monotonic", lambda: next(clock))

    def interrupted():
        with one_bar("", as_json=True) as show:
            show(lambda: {"rows": 1})
            show(lambda: {"rows": 2})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [json.loads(line)["rows"] for line in capsys.readouterr().err.splitlines()] == [1, 2]


def test_nothing_to_say_is_nothing_said(capsys):
    with one_bar("", as_json=True):
        pass
    assert capsys.readouterr() == ("", "")


class Gone(io.StringIO):
    def write(self, text):
        raise OSError(errno.EIO, "Input/output error")


@pytest.mark.parametrize("closed", [False, True])
def test_that_nobody_reads_it_does_not_end_a_run(closed, monkeypatch):
    file = Gone()
    if closed:
        file.close()
    monkeypatch.setattr(sys, "stderr", file)
    with one_bar("", as_json=True) as show, logs("info"):
        LOGGER.info("nobody hears this")
        show(lambda: {"rows": 1})


def test_events_are_not_said_unless_asked_for(capsys):
    LOGGER.warning("nobody asked")
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "compiling"),
        ({"quiet": False, "log_level": None}, "compiling"),
        ({"as_json": True}, "event"),
        ({"quiet": True}, ""),
        ({"log_level": "info"}, "log"),
        ({"log_level": "warning"}, ""),
    ],
)
def test_that_kernels_are_compiled_is_said_once_or_not_at_all(asked, said, capsys):
    logger = logging.getLogger("fires.kernels")
    before = logger.level, logger.handlers.copy()
    try:
        say_compiling()
        with click.Context(click.Command("select")) as context, ExitStack() as stack:
            context.params.update(asked)
            if asked.get("log_level"):
                stack.enter_context(logs(asked["log_level"]))
            logger.info("compiling kernels")
    finally:
        logger.setLevel(before[0])
        logger.handlers[:] = before[1]
    output, errors = capsys.readouterr()
    assert output == ""
    lines = {"compiling": "compiling kernels\n", "log": f"{TIME} INFO compiling kernels\n"}
    lines["event"] = r'\{"event": "log", .*"message": "compiling kernels"\}\n'
    assert re.fullmatch(lines.get(said, ""), errors)
