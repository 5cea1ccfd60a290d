"""What a source that holds a table gives: chunks of rows, and where each row ends."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fires.columns.schema import N_EXAMPLES, Kind
from fires.core.errors import InputError
from fires.core.types import Json
from fires.streams.base import Position

if TYPE_CHECKING:
    import polars as pl

    from fires.columns.columns import NumberColumns
    from fires.streams.byte_sources import Identity

Kinds = Mapping[str, Kind]  # the columns to read, and how
SAMPLE_ROWS = 10_000  # how many rows at most decide what the columns hold
LEAST_ROWS = 100  # how many rows decide it where a pipe has no more to give for the moment


class Fault(NamedTuple):
    """A record that cannot be used."""

    line: int
    reason: str
    raw: str = ""
    where: Mapping[str, Json] | None = None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows in the columns asked for, as text or as the numbers of their kind."""

    frame: pl.DataFrame
    lines: npt.NDArray[np.int64]
    places: npt.NDArray[np.generic]
    faults: Sequence[Fault] = ()
    short: bool = False
    numbers: NumberColumns | None = None
    raw: Callable[[int], str] | None = None
    where: Callable[[int], Mapping[str, Json]] | None = None
    file: Mapping[str, Json] | None = None
    start: Position | None = None
    ragged: bool = False

    def fault(self, row: int, reason: str) -> Fault:
        """A row that cannot be used for what is in it."""
        if self.raw is not None:
            raw = self.raw(row)
        else:
            raw = json.dumps(self.frame.row(row, named=True), default=str, ensure_ascii=False)
        return Fault(
            int(self.lines[row]), reason, raw, self.where(row) if self.where else self.file
        )


Chunks = Generator[Chunk, None, None]


class Table(ABC):
    """A source that holds a table: a file, a topic, a query.

    Where there is no end, :meth:`chunks` waits for more, not longer than a fifth of a second at a
    time: then it gives a chunk without rows.
    """

    name: str
    unit = "line"
    n_bytes: int | None = None
    column_names: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...] = ()  # whose name stands there again, and the new name
    new_fields: Mapping[str, int] = {}  # keys of JSON objects that came too late, and their lines
    head = b""  # first bytes of a text
    files: Sequence[Identity | None] | None = None  # that it is read from
    no_bookmark = ""  # why reading cannot go on later, if it cannot
    looks_after_marks = False  # whether it finds out by itself that what was read has changed

    @property
    def notes(self) -> Sequence[str]:
        """What else a user should know of it, in one line each."""
        return ()

    @property
    def tables(self) -> Sequence[Table]:
        """The tables that it consists of."""
        return (self,)

    @abstractmethod
    def chunks(self, kinds: Kinds, start: Position, n_rows: int | None = None) -> Chunks:
        """Read the table from a position on; ``n_rows`` says that so many are for the sample."""

    def position(self, rows: int, place: npt.NDArray[np.generic]) -> Position:
        """Where a row ends."""
        return Position(rows, *place.tolist())

    def let_columns_change(self) -> None:
        """From now on, chunks have the columns that are there, if these may change.

        Also those that nobody asked for since nobody knew of them. :attr:`column_names` are all
        those known at the beginning.
        """
        return  # most tables have the same columns throughout

    def lag(self) -> int | None:
        """How many rows wait in the source now, if it knows; any thread may ask."""
        return None

    def late_fields(self, before: Mapping[str, int]) -> dict[str, int]:
        """Fields that came too late to be columns, behind those that were met before."""
        found: dict[str, int] = {**before}
        for table in self.tables:
            found |= {name: line for name, line in table.new_fields.items() if name not in found}
        return found

    def surprises(self, late: Mapping[str, int]) -> list[str]:
        """What a user should know about a table, whatever its columns hold."""
        return [
            *(
                f'there is more than one column "{name}": another is called "{given}" here'
                for name, given in self.renamed
            ),
            *self.notes,
            *(
                f'field "{name}" is first met in line {line:,}, too late to be used'
                for name, line in late.items()
            ),
        ]

    def unreadable(self, line: int, reason: str) -> InputError:
        """Make the error that no row can be used."""
        return unreadable(self.name, self.unit, line, reason)


def unreadable(name: str, unit: str, line: int, reason: str) -> InputError:
    """Make the error that no row can be used."""
    return InputError(f"{name} has no readable rows; first problem: {unit} {line}: {reason}")


@dataclass(frozen=True)
class Rejected:
    """The rows that could not be used."""

    count: int = 0
    examples: tuple[tuple[int, str], ...] = ()
    unit: str = "line"

    def as_json(self) -> list[Json]:
        """The count and the examples, for a bookmark."""
        return [self.count, [list(one) for one in self.examples]]

    @classmethod
    def from_json(cls, saved: Any, unit: str) -> Rejected:
        """What :meth:`as_json` wrote down."""
        count, examples = saved
        return cls(int(count), tuple((int(line), str(why)) for line, why in examples), unit)

    def more(self, faults: Sequence[Fault]) -> Rejected:
        """With more rows, in the order in which they come."""
        room = N_EXAMPLES - len(self.examples)
        named = [(one.line, one.reason + _file(one)) for one in faults[: max(room, 0)]]
        return Rejected(self.count + len(faults), (*self.examples, *named), self.unit)


def _file(fault: Fault) -> str:
    return f" ({fault.where['file']})" if fault.where and "file" in fault.where else ""
