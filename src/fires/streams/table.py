"""What a source that holds a table gives: chunks of rows, and where each row ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fires.columns.schema import Kind
from fires.core.errors import InputError
from fires.core.types import Json
from fires.streams.base import Position

if TYPE_CHECKING:
    import polars as pl

    from fires.columns.columns import NumberColumns

SAMPLE_ROWS = 10_000
"""How many rows at most decide what the columns hold."""
LEAST_ROWS = 100
"""How many rows decide it where a pipe has no more to give for the moment."""


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
    source: str | None = None
    numbers: NumberColumns | None = None
    raw: Callable[[int], str] | None = None
    where: Callable[[int], Mapping[str, Json]] | None = None
    start: Position | None = None
    written: Callable[[str], pl.Series] | None = None
    ragged: bool = False

    def fault(self, row: int, reason: str) -> Fault:
        """A row that cannot be used for what is in it."""
        if self.raw is not None:
            raw = self.raw(row)
        else:
            raw = json.dumps(self.frame.row(row, named=True), default=str, ensure_ascii=False)
        return Fault(int(self.lines[row]), reason, raw, self.where and self.where(row))

    @property
    def named_faults(self) -> list[Fault]:
        """The faults, each with the name of its file where there are several."""
        return [self.named(fault) for fault in self.faults]

    def named(self, fault: Fault) -> Fault:
        """A fault with the name of its file, where there are several."""
        if self.source is None:
            return fault
        return fault._replace(where={"file": self.source, **(fault.where or {})})


class Table(Protocol):
    """A source that holds a table: a file, a topic, a query.

    Where there is no end, :meth:`chunks` waits for more, not longer than a fifth of a second at a
    time: then it gives a chunk without rows.

    A table whose columns may be others from chunk to chunk also has ``let_columns_change()``. After
    it was called, chunks have the columns that are there, also those that nobody asked for since
    nobody knew of them, and :attr:`column_names` are all those known at the beginning.
    """

    name: str
    unit: str
    n_bytes: int | None
    column_names: tuple[str, ...]
    renamed: tuple[tuple[str, str], ...]
    head: bytes

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, n_rows: int | None = None
    ) -> Generator[Chunk, None, None]:
        """Read the table from a position on."""

    def position(self, rows: int, place: npt.NDArray[np.generic]) -> Position:
        """Where a row ends."""


def position_in_file(rows: int, place: npt.NDArray[np.generic]) -> Position:
    """Where a row of a file ends; see :meth:`Table.position`."""
    return Position(rows, *place.tolist())


def surprises_of(table: Table, new_fields: Mapping[str, int] | None = None) -> list[str]:
    """What a user should know about a table, whatever its columns hold."""
    lines = [
        f'there is more than one column "{name}": another is called "{given}" here'
        for name, given in table.renamed
    ]
    lines += getattr(table, "differences", ())
    found = getattr(table, "new_fields", {}) if new_fields is None else new_fields
    return lines + [
        f'field "{name}" is first met in line {line:,}, too late to be used'
        for name, line in found.items()
    ]


def changed(name: str) -> InputError:
    """Make the error that reading cannot go on where it was left."""
    return InputError(f"{name} has been changed since it was read before")


def unreadable(table: Table, line: int, reason: str) -> InputError:
    """Make the error that no row can be used."""
    where = f"{table.unit} {line}"
    return InputError(f"{table.name} has no readable rows; first problem: {where}: {reason}")
