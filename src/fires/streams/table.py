"""Tables give chunks of rows, and say where each row ends; blocks of rows are cut into batches."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fires.columns.schema import N_EXAMPLES, Kind
from fires.core.errors import InputError, undamaged
from fires.core.types import JsonObject, NamedRows
from fires.streams.base import Batch, Bookmark, Position, check_batch_size

if TYPE_CHECKING:
    import polars as pl

    from fires.columns.columns import Columns
    from fires.columns.target import Target, TargetStatistics
    from fires.streams.byte_sources import Identity

Item = TypeVar("Item")
End = Callable[[int], Position]  # where a row ends
Kinds = Mapping[str, Kind]  # the columns to read, and how
SAMPLE_ROWS = 10_000  # how many rows at most decide what the columns hold
LEAST_ROWS = 100  # how many rows decide it where a pipe has no more to give for the moment


class Fault(NamedTuple):
    """A record that cannot be used."""

    line: int
    reason: str
    raw: str = ""
    where: JsonObject | None = None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows in the columns asked for, as text or as the numbers of their kind."""

    frame: pl.DataFrame
    lines: npt.NDArray[np.int64]
    end: End  # behind a row, but for the count of rows
    faults: Sequence[Fault] = ()
    short: bool = False
    numbers: NamedRows | None = None
    shown: Callable[[int], Fault] | None = None  # what is told of a row, if not what is in it
    start: Position | None = None
    ragged: bool = False

    def fault(self, row: int, reason: str = "") -> Fault:
        """A row that cannot be used for what is in it."""
        if self.shown is not None:
            return self.shown(row)._replace(reason=reason)
        raw = json.dumps(self.frame.row(row, named=True), default=str, ensure_ascii=False)
        return Fault(int(self.lines[row]), reason, raw)


Chunks = Generator[Chunk]


def of_rows(
    facts: Callable[[int], Item], rows: Sequence[int] | npt.NDArray[np.int64]
) -> Callable[[int], Item]:
    """What holds of each of some rows, such as where it ends."""
    return lambda row: facts(int(rows[row]))


def moved(end: End, n_before: int, row: int, **other: Any) -> Position:
    """Where a row ends behind so many bytes of other files."""
    position = end(row)
    return replace(position, bytes=position.bytes + n_before, **other)


class Table(ABC):
    """A source that holds a table: a file, a topic, a query.

    Where there is no end, :meth:`chunks` waits for more, not longer than a fifth of a second at a
    time: then it gives a chunk without rows.
    """

    name: str
    unit = "line"
    n_bytes: int | None = None
    column_names: tuple[str, ...]
    notes: Sequence[str] = ()  # what a user should know of it, in one line each
    new_fields: Mapping[str, int] = {}  # keys of JSON objects that came too late, and their lines
    files: Sequence[Identity | None] | None = None  # that it is read from
    no_bookmark = ""  # why reading cannot go on later, if it cannot
    looks_after_marks = False  # whether it finds out by itself that what was read has changed

    @property
    def tables(self) -> Sequence[Table]:
        """The tables that it consists of."""
        return (self,)

    @abstractmethod
    def chunks(self, kinds: Kinds, start: Position, n_rows: int | None = None) -> Chunks:
        """Read the table from a position on; ``n_rows`` says that so many are for the sample."""

    def let_columns_change(self) -> None:
        """From now on, chunks have the columns that are there, if these may change.

        Also those that nobody asked for since nobody knew of them. :attr:`column_names` are all
        those known at the beginning.
        """
        return  # most tables have the same columns throughout

    def lag(self) -> int | None:
        """How many rows wait in the source now, if it knows; any thread may ask."""
        return None

    def refuse_bookmark(self) -> None:
        """Raise if reading cannot go on later."""
        if self.no_bookmark:
            raise InputError(self.no_bookmark)

    def late_fields(self) -> dict[str, int]:
        """Fields that came too late to be columns; in a bookmark, and those met before it."""
        found = {**self.new_fields}
        for table in self.tables:
            found |= {name: line for name, line in table.new_fields.items() if name not in found}
        return found

    def surprises(self) -> list[str]:
        """What a user should know about a table, whatever its columns hold."""
        late = (
            f'field "{name}" first appears in line {line:,}, too late to be used'
            for name, line in self.late_fields().items()
        )
        return [*self.notes, *late]


def unreadable(name: str, unit: str, line: int, reason: str) -> InputError:
    """Make the error that no row can be used."""
    return InputError(f"{name} has no readable rows; first problem: {unit} {line}: {reason}")


@dataclass(frozen=True)
class Rejected:
    """The rows that could not be used."""

    count: int = 0
    examples: tuple[tuple[int, str], ...] = ()
    unit: str = "line"

    def more(self, faults: Sequence[Fault]) -> Rejected:
        """With more rows, in the order in which they come."""
        examples = list(self.examples)
        for fault in faults[: max(N_EXAMPLES - len(examples), 0)]:
            file = (fault.where or {}).get("file")  # if there are several
            examples.append((fault.line, fault.reason + (f" ({file})" if file else "")))
        return Rejected(self.count + len(faults), tuple(examples), self.unit)


_MOST_FAULTS = 10_000  # faults that wait for the end of their batch; more are handed on before it


def read_ahead(items: Generator[Item]) -> Generator[Item]:
    """Let a thread make the next item while this one is used.

    This pays because polars and NumPy work without the interpreter. Each stage of reading has a
    thread of its own: a stage that waits for the interpreter, which a busy consumer holds, then
    keeps no other one waiting.

    Examples
    --------
    >>> list(read_ahead(letter for letter in "abc"))
    ['a', 'b', 'c']
    """
    with closing(items), ThreadPoolExecutor(1, thread_name_prefix="fires-reader") as pool:
        coming = pool.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = pool.submit(next, items, None)
            yield item


class Start(NamedTuple):
    """Before a block: what is known, and where it begins."""

    position: Position
    columns: Columns
    target: Target


def cut(
    blocks: Iterable[Batch],
    size: int,
    skip: int = 0,
    n_told: int = 0,
    max_wait: float | None = None,
) -> Iterator[Batch]:
    """Cut blocks into batches; only those across a seam are copied. Faults may come alone.

    Examples
    --------
    >>> blocks = [Batch(np.zeros((n, 1)), np.arange(n)) for n in (3, 4)]
    >>> [batch.y.tolist() for batch in cut(blocks, 2)]
    [[0, 1], [2, 0], [1, 2], [3]]
    """
    held: list[Batch] = []  # too few rows for a batch
    waiting: list[tuple[int, Fault]] = []  # with the number of all rows before each
    broken: InputError | None = None
    n_rows, n_done, n_held, since = 0, skip, 0, 0.0

    def whole(*, waited: bool = False) -> Batch:
        nonlocal n_done, n_held
        n_done, n_held, batch = n_done + n_held, 0, _joined(held)
        held.clear()
        at = _n_before(waiting, n_done)
        faults, waiting[:at] = waiting[:at], []
        return replace(batch, faults=faults, waited=waited) if faults or waited else batch

    try:
        for block in blocks:
            stop = start = min(skip, len(block.y))
            skip -= start
            at = _n_before(block.faults, start)
            n_again = len(block.faults) - at if skip else min(n_told, len(block.faults) - at)
            n_told -= 0 if skip else n_again
            waiting += [(n_rows + row, fault) for row, fault in block.faults[at + n_again :]]
            n_rows += len(block.y)
            if held and start < len(block.y) and held[-1].names != block.names:
                yield whole()
            while stop < len(block.y):
                since = since if held else time.monotonic()
                start, stop = stop, min(stop + size - n_held, len(block.y))
                rows = slice(start, stop)
                times = None if block.times is None else block.times[rows]
                X, y = block.X[rows], block.y[rows]
                held.append(replace(block, X=X, y=y, times=times, faults=(), n_used=stop))
                n_held += stop - start
                if n_held == size:
                    yield whole()
            if held and max_wait is not None and time.monotonic() - since >= max_wait:
                yield whole(waited=True)
            if len(waiting) > _MOST_FAULTS:
                yield no_rows(waiting)
                waiting = []
    except InputError as error:  # the rows before the damage come first
        broken = error
    if held:
        yield whole()
    if waiting:
        yield no_rows(waiting)
    if broken is not None:
        raise broken


def _joined(parts: Sequence[Batch]) -> Batch:
    if len(parts) == 1:
        return parts[0]
    X, y = stacked([part.X for part in parts]), np.concatenate([part.y for part in parts])
    times = [part.times for part in parts if part.times is not None]
    return replace(parts[-1], X=X, y=y, times=np.concatenate(times) if times else None)


def among(lines: npt.NDArray[np.int64], faults: Iterable[Fault]) -> list[tuple[int, Fault]]:
    """Faults in order, each with the number of rows before it; rows are in these lines."""
    ordered = sorted(faults, key=lambda fault: fault.line)
    before = np.searchsorted(lines, [fault.line for fault in ordered]).tolist()
    return list(zip(before, ordered, strict=True))


def _n_before(faults: Sequence[tuple[int, Fault]], row: int) -> int:
    """How many of the faults come before a row; those right behind the row before it do not."""
    return bisect_left(faults, row, key=lambda fault: fault[0]) if faults else 0


def no_rows(faults: Sequence[tuple[int, Fault]]) -> Batch:
    """Faults alone."""
    return Batch(np.empty((0, 0)), np.empty(0), faults=faults)


def stacked(parts: Sequence[Any]) -> Any:
    """Rows under one another, dense or sparse; always a copy."""
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    width = parts[-1].shape[1]
    if any(part.shape[1] < width for part in parts):
        gaps = [np.full((len(part), width - part.shape[1]), np.nan) for part in parts]
        parts = [np.hstack(pair) for pair in zip(parts, gaps, strict=True)]
    return np.concatenate(parts)


class Left(NamedTuple):
    """Behind a batch: where it ends, how much of its block is used, what categories say by then.

    And the rows that could not be used, and how many of them are told of behind the batch.
    """

    position: Position
    start: Start | None = None
    n_used: int = 0
    statistics: TargetStatistics | None = None
    rejected: Rejected = Rejected()
    n_told: int = 0

    def as_json(self) -> Bookmark:
        """What the bookmark of any stream has."""
        rejected = [self.rejected.count, list(map(list, self.rejected.examples))]
        return {"position": asdict(self.position), "n_told": self.n_told, "rejected": rejected}

    @classmethod
    def from_json(cls, saved: Bookmark, name: str, unit: str = "line") -> Left:
        """What :meth:`as_json` wrote down."""
        with undamaged(f"the bookmark of {name} is"):
            count, examples = saved["rejected"]
            shown = tuple((int(line), str(why)) for line, why in examples)
            left = cls(Position(**saved["position"]), n_told=int(saved["n_told"]))
            return left._replace(rejected=Rejected(int(count), shown, unit))


class BlockStream:
    """A stream that is read in blocks of rows; it counts and tells of those it cannot use."""

    def __init__(self, name: str, n_bytes: int | None) -> None:
        self.name, self.n_bytes = name, n_bytes
        self.on_fault: Callable[[Sequence[Fault]], object] = len  # nobody wants to know
        self.max_wait: float | None = None

    def _begin(self, first: Left) -> None:
        """Say what is behind the rows before the first batch."""
        self._first = self._left = first

    @property
    def rejected(self) -> Rejected:
        """The rows that could not be used so far."""
        return self._left.rejected

    @abstractmethod
    def _blocks(self) -> Generator[Batch]:
        """Read blocks, from the one on in which the first batch begins."""

    @abstractmethod
    def _batch(self, rows: Batch, left: Left) -> tuple[Left, Batch]:
        """Make the batch that ends where ``left`` says; and what else is behind it."""

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows in order."""
        batch_size = check_batch_size(batch_size)
        left = self._left = self._first
        n_rows = left.position.rows
        with closing(self._blocks()) as blocks:
            for found in cut(blocks, batch_size, left.n_used, left.n_told, self.max_wait):
                if found.faults:
                    faults = [fault for _, fault in found.faults]
                    rejected, n_told = left.rejected.more(faults), left.n_told + len(faults)
                    left = self._left = left._replace(rejected=rejected, n_told=n_told)
                    self.on_fault(faults)
                if len(found.y):
                    assert found.end is not None
                    n_rows += len(found.y)
                    end = found.end(found.n_used - 1)
                    position = Position(n_rows, end.bytes, end.offset, end.line, end.file, end.mark)
                    before = left._replace(n_told=0, position=position)
                    left, batch = self._batch(found, before)
                    self._left = left
                    yield batch
        if n_rows == 0 and self.rejected.examples:
            raise unreadable(self.name, self.rejected.unit, *self.rejected.examples[0])
