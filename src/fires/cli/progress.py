"""How far a command has come, and what it logs: on standard error."""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress

    from fires.bench.cells import Cell
    from fires.bench.worker import Record
    from fires.core.types import Header, Json


_PAUSE = 0.1  # seconds; to draw after each batch would take longer than the batch

Values = Callable[[], Mapping[str, Any]]


def progress(*after: str, transient: bool = False, hidden: bool = False) -> Progress:
    """Make room for bars with a text before them and more behind them."""
    from rich import progress as rich
    from rich.console import Console

    clocks = {"elapsed": rich.TimeElapsedColumn, "remaining": rich.TimeRemainingColumn}
    status = Console(stderr=True)
    return rich.Progress(
        rich.TextColumn("{task.description}", markup=False),
        rich.BarColumn(bar_width=None),
        *(clocks[text]() if text in clocks else rich.TextColumn(text) for text in after),
        console=status,
        expand=True,
        transient=transient,
        disable=hidden or not status.is_terminal,
    )


@contextmanager
def _told(
    tell: Callable[[Mapping[str, Any]], object], pause: float, silent: float = 0.0
) -> Iterator[Callable[[Values], None]]:
    """Tell values with pauses, the last in any case; if all is over before it speaks, nothing."""
    waiting: Values | None = None
    due, spoken = time.monotonic() + (silent or pause), not silent

    def show(values: Values) -> None:
        nonlocal waiting, due, spoken
        waiting = values
        if (now := time.monotonic()) >= due:
            tell(values())
            waiting, due, spoken = None, now + pause, True

    try:
        yield show
    finally:
        if waiting is not None and spoken:
            tell(waiting())


@contextmanager
def one_bar(
    text: str,
    *after: str,
    total: float | None = None,
    transient: bool = False,
    hidden: bool = False,
    as_json: bool = False,
) -> Iterator[Callable[[Values], None]]:
    """Show a single bar, drawn anew ten times a second at most.

    As JSON, machines are told: objects on standard error, a line each, a second apart at least.
    They begin after five: a command that takes less says nothing. If it takes longer, the last is
    written in any case.
    """
    if as_json:
        with _told(_say_progress, _LOG_PAUSE, _SILENT) as show:
            yield show
        return
    after = after or ("{task.fields[now]}",)
    with progress(*after, transient=transient, hidden=hidden) as drawn:
        task = drawn.add_task(text, total=total, now="")
        if drawn.disable:
            yield lambda values: None
            return
        with _told(lambda values: drawn.update(task, **values), _PAUSE) as show:
            yield show


def seen(
    n_rows: int, began: float, done: float | None, *more: str, before: int = 0, of: str = ""
) -> Header:
    """What a bar, or JSON, tells of rows: how many, how far that is, how fast, and more."""
    speed = (n_rows - before) / (time.perf_counter() - began)
    now = ", ".join([f"{speed:,.0f} rows/s", *more])
    shown: Header = {"description": f"{n_rows:,}{of} rows", "completed": done, "now": now}
    return shown | {"rows": n_rows, "rows_per_second": round(speed, 1)}


@contextmanager
def bars(cells: Sequence[Cell]) -> Iterator[BenchProgress]:
    """Show a bar for the cells, and the data set that is worked on."""
    with progress("{task.completed:.0f}/{task.total:.0f}", "elapsed", transient=True) as drawn:
        watch = BenchProgress(drawn, cells)
        try:
            yield watch
        except KeyboardInterrupt:
            watch.say(
                f"{watch.n_ended:,} of {len(cells):,} done; the same command continues from here"
            )
            raise


class BenchProgress:
    """Moves the bar of cells that are run, and says what failed."""

    def __init__(self, drawn: Progress, cells: Sequence[Cell]) -> None:
        self._drawn, self._task, self.n_ended = drawn, drawn.add_task("", total=len(cells)), 0

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        console = self._drawn.console
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    def began(self, cell: Cell) -> None:
        """Say of which data set a cell is that is being run."""
        self._drawn.update(self._task, description=printable(Path(cell.dataset).name))

    def ended(self, cell: Cell, record: Record) -> None:
        """Move on."""
        self.n_ended += 1
        if "error" in record:
            self.say(f"Failed: {cell}: {record['error']}")
        self._drawn.advance(self._task)


# What ``--log-level`` takes.
LEVELS = ("debug", "info", "warning", "error")

logging.getLogger("fires").addHandler(logging.NullHandler())  # nothing is said unless asked for
_SILENT = 5.0  # seconds before the first line about progress
_LOG_PAUSE = 1.0  # seconds between two lines about progress
_OF_A_BAR = ("description", "now", "completed", "total")
_SECRET = re.compile(r"(\w://[^\s/@:]*):[^\s/@]+@")


@contextmanager
def logs(level: str, *, as_json: bool = False) -> Iterator[None]:
    """Write the events of the logger ``fires`` to standard error, a line each."""
    logger, handler = logging.getLogger("fires"), _StandardError()
    handler.as_json = as_json
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
            is_program = asked.get("as_json") and not sys.stderr.isatty()
            _say(json.dumps(_event(record)) if is_program else record.getMessage())


class _StandardError(logging.Handler):
    """Asks for standard error each time: while a bar is drawn there, lines go above it."""

    as_json = False

    def emit(self, record: logging.LogRecord) -> None:
        """Write one event in one line, with the error if there is one, and without passwords."""
        event = _event(record)
        line = f"{event['time']} {record.levelname} {event['message']}"
        _say(json.dumps(event) if self.as_json else line)


def _event(record: logging.LogRecord) -> dict[str, str]:
    """An event of the log, as a program reads it."""
    text = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        text = f"{text}: {record.exc_info[1]}"
    text = printable(_SECRET.sub(r"\1:***@", " ".join(text.splitlines())))
    level = record.levelname.lower()
    return {"event": "log", "time": _time(record.created), "level": level, "message": text}


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")


def _say_progress(values: Mapping[str, Json]) -> None:
    from fires.evaluation.records import plain

    told = plain({name: value for name, value in values.items() if name not in _OF_A_BAR})
    _say(json.dumps({"event": "progress", "time": _time(time.time())} | told))


def _say(line: str) -> None:
    """Write a line to standard error; that nobody reads it any more must not end a run."""
    try:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
