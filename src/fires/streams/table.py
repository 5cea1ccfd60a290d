"""What a source that holds a table gives: chunks of rows, and where each row ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fires.columns.schema import Kind
from fires.core.errors import InputError
from fires.streams.base import Position

if TYPE_CHECKING:
    import polars as pl

    from fires.columns.columns import Numbers

SAMPLE_ROWS = 10_000
"""How many rows at most decide what the columns hold."""
LEAST_ROWS = 100
"""How many rows decide it where a pipe has no more to give for the moment."""


class Fault(NamedTuple):
    """A record that cannot be used.

    Parameters
    ----------
    line : int
        The line, row or message at which it starts, counted from the start of its source; greater
        than that of every record before it in its chunk.
    reason : str
        What is wrong with it.
    raw : str
        The record as it stands in the source.
    where : mapping, optional
        What else tells where it is, as JSON values: ``file``, ``partition`` and ``offset``, ``id``.
    """

    line: int
    reason: str
    raw: str = ""
    where: Mapping[str, Any] | None = None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows in the columns asked for, as text or as the numbers of their kind.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows.
    lines : ndarray
        The line, or the row of the file, at which each of them starts.
    places : ndarray, shape (n_rows, n)
        Where each of them ends, for :meth:`Table.position`. Of files, bytes, offset, line and, of
        several files, the file.
    faults : sequence of Fault
        Records that are no rows at all.
    short : bool
        There would be more in the chunk, had the source not kept us waiting.
    source : str, optional
        The name of the file the rows are from, where there are several.
    numbers : Numbers, optional
        Columns that are numbers, and not in the frame, of a table with very many columns.
    raw : callable (int) -> str, optional
        Gives a row as it stands in the source.
    where : callable (int) -> mapping, optional
        Gives what tells where a row is, besides its line: see :class:`Fault`.
    start : Position, optional
        What makes :meth:`Table.chunks` begin with these very rows, in this order; by default where
        the last row before them ends.
    written : callable (str) -> polars.Series, optional
        Gives a column as it stands in the source, where the frame may have made other numbers of
        it: for those that are no good numbers after all.
    ragged : bool
        Each row has some of the columns: where it has a null, it may have no such column.
    """

    frame: pl.DataFrame
    lines: npt.NDArray[np.int64]
    places: npt.NDArray[Any]
    faults: Sequence[Fault] = ()
    short: bool = False
    source: str | None = None
    numbers: Numbers | None = None
    raw: Callable[[int], str] | None = None
    where: Callable[[int], Mapping[str, Any]] | None = None
    start: Position | None = None
    written: Callable[[str], pl.Series] | None = None
    ragged: bool = False

    def fault(self, row: int, reason: str) -> Fault:
        """A row that cannot be used for what is in it.

        Parameters
        ----------
        row : int
            Which of the rows.
        reason : str
            What is wrong with it.

        Returns
        -------
        Fault
        """
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
        """A fault with the name of its file, where there are several.

        Parameters
        ----------
        fault : Fault
            Of this chunk.

        Returns
        -------
        Fault
        """
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

    Attributes
    ----------
    name : str
        What messages call it.
    unit : str
        What it calls a record: a line, a row, a message.
    n_bytes : int or None
        Its size; None if it is not known, or if reading may have to wait.
    column_names : tuple of str
        All different.
    renamed : tuple of (str, str)
        Names that more than one column has in the file, and what the later ones are called here.
    head : bytes
        Some of the first bytes of a text.
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
        """Read the table from a position on.

        Parameters
        ----------
        kinds : mapping of str to str
            The columns to read, and the kind of each.
        start : Position
            Where to begin.
        n_rows : int, optional
            Only about so many rows are wanted for now, and the table will be read again: a stream
            that can be read only once keeps what it gives.

        Returns
        -------
        generator of Chunk
            The columns as text, or as the numbers of their kind.
        """

    def position(self, rows: int, place: npt.NDArray[Any]) -> Position:
        """Where a row ends.

        Parameters
        ----------
        rows : int
            How many rows were handed out up to here.
        place : ndarray
            One of the ``places`` of a chunk.

        Returns
        -------
        Position
            What :meth:`chunks` takes as ``start``. It holds JSON values.
        """


def position_in_file(rows: int, place: npt.NDArray[Any]) -> Position:
    """Where a row of a file ends; see :meth:`Table.position`.

    Parameters
    ----------
    rows : int
        How many rows were handed out up to here.
    place : ndarray
        Bytes, offset, line and, of several files, the file.

    Returns
    -------
    Position
    """
    return Position(rows, *place.tolist())


def surprises_of(table: Table, new_fields: Mapping[str, int] | None = None) -> list[str]:
    """What a user should know about a table, whatever its columns hold.

    Parameters
    ----------
    table : Table
        The table.
    new_fields : mapping of str to int, optional
        Fields that came too late to be used, each with its line, if they are not those that the
        table itself has met.

    Returns
    -------
    list of str
        One line each.
    """
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
    """Make the error that reading cannot go on where it was left.

    Parameters
    ----------
    name : str
        What was read.

    Returns
    -------
    InputError
        With one line that says so.
    """
    return InputError(f"{name} has been changed since it was read before")


def unreadable(table: Table, line: int, reason: str) -> InputError:
    """Make the error that no row can be used.

    Parameters
    ----------
    table : Table
        The table.
    line : int
        Where the first unusable record starts.
    reason : str
        What is wrong with it.

    Returns
    -------
    InputError
        With one line that says so.
    """
    where = f"{table.unit} {line}"
    return InputError(f"{table.name} has no readable rows; first problem: {where}: {reason}")
