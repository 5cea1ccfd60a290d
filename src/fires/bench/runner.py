"""Cells over processes: each result is on the disk before the next begins, none is run twice."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Generator, Hashable, Iterable, Sequence
from dataclasses import asdict
from multiprocessing import connection
from pathlib import Path
from typing import Any, Protocol

from fires.bench.cells import Cell, run
from fires.bench.datasets.files import find
from fires.bench.datasets.loading import describe
from fires.bench.worker import Record, Work, Worker
from fires.core import files
from fires.core.errors import InputError
from fires.core.version import __version__, code
from fires.run.locking import FolderLock
from fires.run.records import AppendedFile

CELLS = "cells.jsonl"


class Progress(Protocol):
    """Who is told how a run goes on; in the process that called :func:`run_cells`."""

    def began(self, cell: Cell) -> None:
        """A cell is being run."""
        return

    def ended(self, cell: Cell, record: Record) -> None:
        """A cell has been run, now or by an earlier run."""
        return


class _Silent(Progress):
    """Nobody is told."""


def run_cells(
    cells: Sequence[Cell],
    folder: Path,
    jobs: int = 1,
    progress: Progress | None = None,
    *,
    work: Work = run,
    file: str = CELLS,
) -> list[Record]:
    """Run cells that have not been run yet, and keep each result as soon as it is there."""
    progress = progress or _Silent()
    cells = list(dict.fromkeys(cells))
    files.make_folder(folder)
    with contextlib.ExitStack() as stack:
        stack.callback(FolderLock(folder).release)
        records, end = _whole_lines(folder / file)
        results = AppendedFile(folder / file, end)
        stack.callback(results.close)

        def keep(record: Record) -> None:
            """Bring a record to the disk."""
            line = json.dumps(record, ensure_ascii=False, allow_nan=False)
            results.append(line.encode() + b"\n")
            results.flush(sync=True)

        before = finished(cells, records)
        if before and made_by(records[-1]) != made_by(done := next(iter(before.values()))):
            keep(done)  # whoever reads the file goes by the code of its last line
        for cell, record in before.items():
            progress.ended(cell, record)
        todo = [cell for cell in cells if cell not in before]
        running = stack.enter_context(contextlib.closing(_run(todo, jobs, work, progress)))
        for cell, record in running:
            keep(record)
            before[cell] = record
            progress.ended(cell, record)
    return [before[cell] for cell in cells]


def finished(cells: Iterable[Cell], records: Iterable[Record]) -> dict[Cell, Record]:
    """The cells that need not be run, with what came out.

    They were run without an error by this very code, and not on a part of a data set that is at
    hand as a whole now.
    """
    now = __version__, code()
    return _last(cells, (record for record in records if _outdated(record, now) is None))


def outdated(cells: Sequence[Cell], records: Sequence[Record]) -> Counter[str]:
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
            return "the whole data set is available now"
    return None


def _last(cells: Iterable[Cell], records: Iterable[Record]) -> dict[Cell, Record]:
    """The last record without an error of each cell that has one; all cells are of one class."""
    settings = {cell: asdict(cell) for cell in cells}
    names = next(iter(settings.values()), {})
    known = {tuple(map(record.get, names)): record for record in records if "error" not in record}
    found = {cell: known.get(tuple(of_it.values())) for cell, of_it in settings.items()}
    return {cell: record for cell, record in found.items() if record is not None}


def _run(
    cells: Sequence[Cell], jobs: int, work: Work, progress: Progress
) -> Generator[tuple[Cell, Record]]:
    """Run all cells over processes; hand out each with its record as soon as it is there."""
    waiting, begun = list(cells), set[Hashable]()
    ours = {"fires": __version__, "code": code()}
    workers: dict[Any, tuple[Worker, Cell]] = {}  # by pipe, those that are busy

    def occupy(worker: Worker | None, group: Hashable = None) -> None:
        """Let a process go on with the next cell, or end if there is none."""
        cell = next_cell(waiting, begun, group)
        if cell is None:
            if worker is not None:
                worker.end()
            return
        worker = Worker(work) if worker is None or worker.ended else worker
        workers[worker.pipe] = worker, cell
        progress.began(cell)
        worker.give(cell)

    try:
        for _ in range(min(jobs, len(cells))):
            occupy(None)
        while workers:
            for pipe in connection.wait(list(workers)):
                worker, cell = workers[pipe]
                found = worker.answer()
                yield cell, asdict(cell) | ours | found
                del workers[pipe]
                occupy(worker, cell.group)
    finally:
        for worker, _ in workers.values():
            worker.end(at_once=True)


def next_cell(waiting: list[Cell], begun: set[Hashable], group: Hashable) -> Cell | None:
    """The next cell for a process that has the data of a group; None if there is none.

    One of the same group, or else of a group that nobody has begun, or else of the group with
    most cells left: then another process loads the data once more, and no core is idle.
    """
    left = Counter(cell.group for cell in waiting)
    if not left:
        return None
    if group not in left:
        group = next((name for name in left if name not in begun), left.most_common(1)[0][0])
    begun.add(group)
    return waiting.pop(next(i for i, cell in enumerate(waiting) if cell.group == group))


# --- files of results: lines of JSON, each of them on the disk before it counts ---------------


def made_by(record: Record) -> tuple[str | None, str | None]:
    """The version of fires that made a record, and its code: None in those of old."""
    return record.get("fires"), record.get("code")


def read_records(folder: Path, file: str = CELLS) -> list[Record]:
    """All lines of a file of results, but one that was being written when the run was killed."""
    return _whole_lines(folder / file)[0]


def _whole_lines(path: Path) -> tuple[list[Record], int]:
    """The records in a file of results, and where the last of them ends."""
    return parse(path.read_bytes(), path) if path.exists() else ([], 0)


def parse(content: bytes, path: Path) -> tuple[list[Record], int]:
    """The records in what a file of results holds, and where the last of them ends."""
    records, end = [], 0
    *lines, torn = content.split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if isinstance(record, dict):
            records.append(record)
            end += len(line) + 1
        elif number < len(lines) or torn:
            raise InputError(f"{path}: line {number} is not a result of fires bench")
    return records, end
