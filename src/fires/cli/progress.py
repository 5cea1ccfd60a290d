"""How far a command has come: bars on standard error, if that is a terminal."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fires.cli.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress

    from fires.bench.runner import Record

_PAUSE = 0.1  # seconds; to draw after each batch would take longer than the batch


@contextmanager
def progress(*after: str, transient: bool = False) -> Iterator[Bars]:
    """Show bars while a command works.

    Parameters
    ----------
    *after : str
        What stands behind each bar: ``"elapsed"`` or ``"remaining"`` for a clock, or a format of
        rich's ``task``, such as ``"{task.percentage:.0f}%"``. A text stands before it.
    transient : bool
        Whether the bars vanish at the end.

    Yields
    ------
    Bars
        What makes bars, and prints lines above them.
    """
    if not sys.stderr.isatty():
        yield Bars()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    clocks = {"elapsed": TimeElapsedColumn, "remaining": TimeRemainingColumn}
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        *(clocks[text]() if text in clocks else TextColumn(text, markup=False) for text in after),
        console=Console(stderr=True),
        expand=True,
        transient=transient,
    ) as drawn:
        bars = Bars(drawn)
        yield bars
        bars.finish()


class Bars:
    """Makes bars, and prints lines above them.

    Parameters
    ----------
    drawn : rich.progress.Progress, optional
        Where they are drawn. Without it nothing is, and lines are printed all the same.
    """

    def __init__(self, drawn: Progress | None = None) -> None:
        self._drawn = drawn
        self._bars: list[Bar] = []

    def bar(self, text: str, total: float | None = None, **fields: Any) -> Bar:
        """Add a bar.

        Parameters
        ----------
        text : str
            What stands before it.
        total : float, optional
            What is all there is to do, if that is known.
        **fields
            How much of it is done (``completed``), and what the texts behind it need.

        Returns
        -------
        Bar
            What moves it.
        """
        bar = Bar(self._drawn, printable(text), total, fields)
        self._bars.append(bar)
        return bar

    def say(self, line: str) -> None:
        """Print a line above the bars.

        Parameters
        ----------
        line : str
            The line; control characters are spelt out.
        """
        if self._drawn is None:
            click.echo(printable(line), err=True)
        else:
            console = self._drawn.console
            console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    def finish(self) -> None:
        """Draw what was shown last, where there was no time to."""
        for bar in self._bars:
            bar.draw()


class Bar:
    """One bar, with a text before it and others behind it."""

    def __init__(
        self, drawn: Progress | None, text: str, total: float | None, fields: dict[str, Any]
    ) -> None:
        self._drawn = drawn
        self._task: Any = None if drawn is None else drawn.add_task(text, total=total, **fields)
        self._last: Callable[[], Mapping[str, Any]] | None = None
        self._when = time.perf_counter()

    def show(self, values: Callable[[], Mapping[str, Any]]) -> None:
        """Show new values, unless others were shown a moment ago.

        Parameters
        ----------
        values : callable without parameters
            Gives ``completed``, ``total``, ``description`` (the text before the bar) or what the
            texts behind it need; called only if there is something to draw.
        """
        if self._drawn is not None:
            self._last = values
            if time.perf_counter() - self._when > _PAUSE:
                self.draw()

    def draw(self) -> None:
        """Draw what was shown last, if it is not drawn yet."""
        if self._drawn is not None and self._last is not None:
            self._drawn.update(self._task, **self._last())
            self._last, self._when = None, time.perf_counter()

    def advance(self) -> None:
        """Move on by one, and draw it at once."""
        if self._drawn is not None:
            self._drawn.advance(self._task)

    def remove(self) -> None:
        """Take the bar away."""
        if self._drawn is not None:
            self._drawn.remove_task(self._task)


@contextmanager
def bars(cells: Sequence[Any]) -> Iterator[Watch]:
    """Show bars for the data sets and for the cells of each.

    Parameters
    ----------
    cells : sequence of Cell
        What is to be run.

    Yields
    ------
    Watch
        What :func:`fires.bench.runner.run_cells` tells how it goes on.
    """
    with progress("{task.completed:.0f}/{task.total:.0f}", "elapsed", transient=True) as drawn:
        watch = Watch(drawn, cells)
        try:
            yield watch
        except KeyboardInterrupt:
            drawn.say(
                f"{watch.n_ended:,} of {len(cells):,} done; the same command goes on from here"
            )
            raise


class Watch:
    """Moves the bars of cells that are run, and says what failed.

    Parameters
    ----------
    drawn : Bars
        Where the bars are drawn.
    cells : sequence of Cell
        What is to be run.
    """

    def __init__(self, drawn: Bars, cells: Sequence[Any]) -> None:
        self._drawn = drawn
        self._total = Counter(cell.dataset for cell in cells)
        self._left = self._total.copy()
        self._bars: dict[str, Bar] = {}
        self._all = drawn.bar("data sets", len(self._left))
        self.n_ended = 0

    def began(self, cell: Any) -> None:
        """Make a bar for the data set of a cell that is being run, if it has none yet.

        Parameters
        ----------
        cell : Cell
            The cell.
        """
        name = cell.dataset
        if name not in self._bars:
            total = self._total[name]
            done = total - self._left[name]
            self._bars[name] = self._drawn.bar(Path(name).name, total, completed=done)

    def ended(self, cell: Any, record: Record) -> None:
        """Move on; the bar of a data set goes with its last cell.

        Parameters
        ----------
        cell : Cell
            A cell that has been run.
        record : dict
            What came of it.
        """
        self.n_ended += 1
        self._left[cell.dataset] -= 1
        if "error" in record:
            self._drawn.say(f"Failed: {cell}: {record['error']}")
        bar = self._bars.get(cell.dataset)
        if bar is not None:
            bar.advance()
        if not self._left[cell.dataset]:
            self._all.advance()
            if bar is not None:
                bar.remove()
