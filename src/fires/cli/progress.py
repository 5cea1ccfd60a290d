"""How far a command has come: bars on standard error, if that is a terminal."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fires.cli.text import printable

if TYPE_CHECKING:
    from rich.progress import Progress

    from fires.bench.worker import Job, Record

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
def one_bar(
    text: str,
    *after: str,
    total: float | None = None,
    transient: bool = False,
    hidden: bool = False,
) -> Iterator[Callable[[Values], None]]:
    """Show a single bar, drawn anew ten times a second at most."""
    with progress(*after, transient=transient, hidden=hidden) as drawn:
        task = drawn.add_task(text, total=total, now="")
        last: Values = dict
        when = time.perf_counter()

        def show(values: Values) -> None:
            nonlocal last, when
            last = values
            if not drawn.disable and time.perf_counter() - when > _PAUSE:
                drawn.update(task, **values())
                when = time.perf_counter()

        yield show
        if not drawn.disable:
            drawn.update(task, **last())


@contextmanager
def bars(cells: Sequence[Job]) -> Iterator[BenchProgress]:
    """Show bars for the data sets and for the cells of each."""
    with progress("{task.completed:.0f}/{task.total:.0f}", "elapsed", transient=True) as drawn:
        watch = BenchProgress(drawn, cells)
        try:
            yield watch
        except KeyboardInterrupt:
            watch.say(
                f"{watch.n_ended:,} of {len(cells):,} done; the same command goes on from here"
            )
            raise


class BenchProgress:
    """Moves the bars of cells that are run, and says what failed."""

    def __init__(self, drawn: Progress, cells: Sequence[Job]) -> None:
        self._drawn, self.n_ended = drawn, 0
        self._left = Counter(cell.dataset for cell in cells)
        self._all = drawn.add_task("data sets", total=len(self._left))
        self._tasks = {
            name: drawn.add_task(printable(Path(name).name), total=n, start=False, visible=False)
            for name, n in self._left.items()
        }

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        console = self._drawn.console
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    def began(self, cell: Job) -> None:
        """Show the bar of the data set of a cell that is being run."""
        task = self._tasks[cell.dataset]
        self._drawn.start_task(task)
        self._drawn.update(task, visible=True)

    def ended(self, cell: Job, record: Record) -> None:
        """Move on; the bar of a data set goes with its last cell."""
        self.n_ended += 1
        self._left[cell.dataset] -= 1
        if "error" in record:
            self.say(f"Failed: {cell}: {record['error']}")
        self._drawn.advance(self._tasks[cell.dataset])
        if not self._left[cell.dataset]:
            self._drawn.advance(self._all)
            self._drawn.update(self._tasks[cell.dataset], visible=False)
