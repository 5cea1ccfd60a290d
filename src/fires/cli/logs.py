"""What a run in service says on standard error: events with time and level, and how far it is."""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from fires.cli.progress import Values
from fires.cli.text import printable

if TYPE_CHECKING:
    from fires.core.types import Json

LEVELS = ("debug", "info", "warning", "error")
"""What ``--log-level`` takes."""

logging.getLogger("fires").addHandler(logging.NullHandler())  # nothing is said unless asked for
_SILENT = 5.0  # seconds before the first line about progress
_PAUSE = 1.0  # seconds between two lines about progress
_OF_A_BAR = ("description", "now", "completed", "total")
_SECRET = re.compile(r"(\w://[^\s/@:]*):[^\s/@]+@")


@contextmanager
def logs(level: str, *, as_json: bool = False) -> Iterator[None]:
    """Write the events of the logger ``fires`` to standard error, a line each."""
    logger, handler = logging.getLogger("fires"), _StandardError()
    handler.setFormatter(_AsJson() if as_json else _Plain())
    handler.setLevel(level.upper())
    before = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def say_compiling() -> None:
    """From now on, say when kernels are being compiled: see :mod:`fires.kernels.compiling`."""
    logger = logging.getLogger("fires.kernels")
    logger.setLevel(logging.INFO)
    if not any(isinstance(handler, _Compiling) for handler in logger.handlers):
        logger.addHandler(_Compiling())


class _Compiling(logging.Handler):
    """One plain line, unless the user wants none, or has asked for a log, which has it then."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the message."""
        context = click.get_current_context(silent=True)
        asked = {} if context is None else context.params
        if not asked.get("quiet") and asked.get("log_level") is None:
            _say(record.getMessage())


class _StandardError(logging.Handler):
    """Asks for standard error each time: while a bar is drawn there, lines go above it."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event."""
        _say(self.format(record))


class _Plain(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """Time, level and message, in one line."""
        return f"{_time(record.created)} {record.levelname} {_message(record)}"


class _AsJson(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        """A JSON object."""
        facts = {"event": "log", "time": _time(record.created), "level": record.levelname.lower()}
        return json.dumps(facts | {"message": _message(record)})


def _message(record: logging.LogRecord) -> str:
    """The message in one line, with the error if there is one, and without passwords."""
    text = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        text = f"{text}: {record.exc_info[1]}"
    return printable(_SECRET.sub(r"\1:***@", " ".join(text.splitlines())))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


@contextmanager
def json_progress() -> Iterator[Callable[[Values], None]]:
    """Tell machines how far a command has come: JSON objects on standard error, a line each.

    They are a second apart at least, and begin after five: a command that takes less says nothing.
    If it takes longer, the last is written in any case.
    """
    waiting: Values | None = None
    when, spoken = time.monotonic() + _SILENT - _PAUSE, False

    def show(values: Values) -> None:
        nonlocal waiting, when, spoken
        waiting = values
        if (now := time.monotonic()) - when >= _PAUSE:
            _say(_progress_line(values()))
            waiting, when, spoken = None, now, True

    try:
        yield show
    finally:
        if waiting is not None and spoken:
            _say(_progress_line(waiting()))


def _progress_line(values: Mapping[str, Json]) -> str:
    told = {name: _plain(value) for name, value in values.items() if name not in _OF_A_BAR}
    return json.dumps({"event": "progress", "time": _time(time.time())} | told)


def _plain(value: Json) -> Json:
    """A value as JSON has it."""
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value


def _say(line: str) -> None:
    """Write a line to standard error; that nobody reads it any more must not end a run."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
