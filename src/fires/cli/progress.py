"""Progress of cells that are run, on standard error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fires.cli.text import printable

if TYPE_CHECKING:
    from fires.bench.runner import Record


@contextmanager
def bars(cells: Sequence[Any]) -> Iterator[Watch]:
    """Bars on standard error, if that is a terminal: the data sets, and the cells of each.

    Yields what :func:`fires.bench.runner.run_cells` tells how it goes on.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    status = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=status,
        expand=True,
        transient=True,
        disable=not status.is_terminal,
    ) as progress:
        watch = Watch(progress, cells)
        try:
            yield watch
        except KeyboardInterrupt:
            watch.say(
                f"{watch.n_ended:,} of {len(cells):,} done; the same command goes on from here"
            )
            raise


class Watch:
    """Moves the bars, and says what failed."""

    def __init__(self, progress: Any, cells: Sequence[Any]) -> None:
        self._progress = progress
        self._left: dict[str, int] = {}
        for cell in cells:
            self._left[cell.dataset] = self._left.get(cell.dataset, 0) + 1
        self._total = dict(self._left)
        self._tasks: dict[str, Any] = {}
        self._all = progress.add_task("data sets", total=len(self._left))
        self.n_ended = 0

    def say(self, line: str) -> None:
        """Print a line above the bars."""
        console = self._progress.console
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)

    def began(self, cell: Any) -> None:
        """A cell is being run: there is a bar for its data set now."""
        if cell.dataset not in self._tasks:
            total = self._total[cell.dataset]
            done = total - self._left[cell.dataset]
            name = printable(Path(cell.dataset).name)
            self._tasks[cell.dataset] = self._progress.add_task(name, total=total, completed=done)

    def ended(self, cell: Any, record: Record) -> None:
        """A cell has been run; the bar of a data set goes with its last cell."""
        self.n_ended += 1
        self._left[cell.dataset] -= 1
        if "error" in record:
            self.say(f"Failed: {cell}: {record['error']}")
        task = self._tasks.get(cell.dataset)
        if task is not None:
            self._progress.update(task, advance=1)
        if not self._left[cell.dataset]:
            self._progress.advance(self._all)
            if task is not None:
                self._progress.remove_task(task)
