"""Cells over processes: each result is on the disk before the next begins, none is run twice."""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Sequence
from dataclasses import asdict
from multiprocessing import connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from fires.bench.datasets.files import find
from fires.bench.datasets.loading import describe
from fires.bench.results import CELLS, Record, ResultsFile, made_by
from fires.bench.worker import Job, Worker
from fires.core.version import __version__, code

if TYPE_CHECKING:
    pass

__all__ = ["Progress", "Record", "finished", "outdated", "run_cells"]


class Progress(Protocol):
    """Who is told how a run goes on; in the process that called :func:`run_cells`."""

    def began(self, cell: Job) -> None:
        """A cell is being run."""

    def ended(self, cell: Job, record: Record) -> None:
        """A cell has been run, now or by an earlier run."""


class _Silent:
    def began(self, cell: Job) -> None:
        pass

    def ended(self, cell: Job, record: Record) -> None:
        pass


def run_cells(
    cells: Sequence[Job],
    folder: Path,
    jobs: int = 1,
    progress: Progress | None = None,
    *,
    work: Callable[[Any], Record] | None = None,
    file: str = CELLS,
) -> list[Record]:
    """Run cells that have not been run yet, and keep each result as soon as it is there."""
    if work is None:
        from fires.bench.cells import run

        work = run
    progress = progress or _Silent()
    cells = list(dict.fromkeys(cells))
    with ResultsFile(folder, file) as results:
        before = finished(cells, results.records)
        if before and made_by(results.records[-1]) != made_by(done := next(iter(before.values()))):
            results.append(done)  # whoever reads the file goes by the code of its last line
        for cell, record in before.items():
            progress.ended(cell, record)
        todo = [cell for cell in cells if cell not in before]
        with contextlib.closing(_run(todo, jobs, work, progress)) as running:
            for cell, record in running:
                results.append(record)
                before[cell] = record
                progress.ended(cell, record)
    return [before[cell] for cell in cells]


def finished(cells: Iterable[Job], records: Iterable[Record]) -> dict[Job, Record]:
    """The cells that need not be run, with what came out.

    They were run without an error by this very code, and not on a part of a data set that is at
    hand as a whole now.
    """
    now = __version__, code()
    return _last(cells, (record for record in records if _outdated(record, now) is None))


def outdated(cells: Sequence[Job], records: Sequence[Record]) -> Counter[str]:
    """How many cells were run before and yet are not :func:`finished`, for each reason."""
    now, done = (__version__, code()), finished(cells, records)
    left = [cell for cell in cells if cell not in done]
    return Counter(why for r in _last(left, records).values() if (why := _outdated(r, now)))


def _outdated(record: Record, now: tuple[str, str]) -> str | None:
    """Why a record does not count any more; None if it does."""
    if made_by(record) != now:
        return "the code has changed"
    if record.get("complete") is False:
        info = describe(record["dataset"])
        if (at_hand := find(info)) is not None and at_hand[1] is info.whole:
            return "the whole data set is at hand now"
    return None


def _last(cells: Iterable[Job], records: Iterable[Record]) -> dict[Job, Record]:
    """The last record without an error of each cell that has one; all cells are of one class."""
    settings = {cell: asdict(cell) for cell in cells}
    names = next(iter(settings.values()), {})
    known = {tuple(map(record.get, names)): record for record in records if "error" not in record}
    found = {cell: known.get(tuple(of_it.values())) for cell, of_it in settings.items()}
    return {cell: record for cell, record in found.items() if record is not None}


def _run(
    cells: Sequence[Job], jobs: int, work: Callable[[Any], Record], progress: Progress
) -> Generator[tuple[Job, Record]]:
    """Run all cells over processes; hand out each with its record as soon as it is there."""
    waiting, ours = _Waiting(cells), {"fires": __version__, "code": code()}
    workers = [Worker(work) for _ in range(min(jobs, len(cells)))]
    busy: dict[Any, int] = {}  # by pipe, which of the workers

    def occupy(which: int, group: Hashable = None) -> None:
        """Let a process go on with the next cell, or end if there is none."""
        cell = waiting.take(group)
        if cell is None:
            workers[which].end()
            return
        if workers[which].ended:
            workers[which] = Worker(work)
        progress.began(cell)
        workers[which].give(cell)
        busy[workers[which].pipe] = which

    try:
        for which in range(len(workers)):
            occupy(which)
        while busy:
            for pipe in connection.wait(list(busy)):
                which = busy.pop(pipe)
                cell, found = workers[which].cell, workers[which].answer()
                yield cell, asdict(cell) | ours | found
                occupy(which, cell.group)
    finally:
        for worker in workers:
            worker.end(at_once=True)


class _Waiting:
    """The cells still to be run, by what they load."""

    def __init__(self, cells: Sequence[Job]) -> None:
        self._groups: dict[Hashable, deque[Job]] = {}
        for cell in cells:
            self._groups.setdefault(cell.group, deque()).append(cell)
        self._begun: set[Hashable] = set()

    def take(self, group: Hashable) -> Job | None:
        """The next cell for a process that has the data of a group; None if there is none.

        One of the same group, or else of a group that nobody has begun, or else of the group with
        most cells left: then another process loads the data once more, and no core is idle.
        """
        left = {name: cells for name, cells in self._groups.items() if cells}
        if not left:
            return None
        if group not in left:
            fresh = [name for name in left if name not in self._begun]
            group = fresh[0] if fresh else max(left, key=lambda name: len(left[name]))
        self._begun.add(group)
        return left[group].popleft()
