"""What a file that holds a table gives: chunks of rows, and where each row ends."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from fires.columns.schema import Kind
from fires.core.errors import InputError
from fires.streams.base import Position
from fires.streams.files.text_blocks import Block

if TYPE_CHECKING:
    import polars as pl

    from fires.columns.columns import Numbers

SAMPLE_ROWS = 10_000
"""How many rows at most decide what the columns hold."""
LEAST_ROWS = 100
"""How many rows decide it where a pipe has no more to give for the moment."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows in the columns asked for, as text or as the numbers of their kind.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows.
    lines : ndarray
        The line, or the row of the file, at which each of them starts.
    places : ndarray, shape (n_rows, 3) or (n_rows, 4)
        Bytes, offset, line and, of several files, the file of the :class:`Position` at which each
        of them ends.
    faults : list of (line, reason)
        Records that are no rows at all.
    short : bool
        There would be more in the chunk, had the source not kept us waiting.
    source : str, optional
        The name of the file the rows are from, where there are several.
    numbers : Numbers, optional
        Columns that are numbers, and not in the frame, of a table with very many columns.
    """

    frame: pl.DataFrame
    lines: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    faults: Sequence[tuple[int, str]] = ()
    short: bool = False
    source: str | None = None
    numbers: Numbers | None = None


class FileTable(Protocol):
    """A file that holds a table.

    Attributes
    ----------
    name : str
        What messages call it.
    unit : str
        What it calls a record: a line, or a row.
    n_bytes : int or None
        Its size; None if it is not known.
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


def surprises_of(table: FileTable) -> list[str]:
    """What a user should know about a table, whatever its columns hold.

    Parameters
    ----------
    table : FileTable
        The table.

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
    return lines + [
        f'field "{name}" comes first in line {line:,}, too late to be used'
        for name, line in getattr(table, "new_fields", {}).items()
    ]


def unreadable(table: FileTable, line: int, reason: str) -> InputError:
    """Make the error that no row can be used.

    Parameters
    ----------
    table : FileTable
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


def places_of(block: Block, used: int | None) -> npt.NDArray[np.int64]:
    """Tell where each record of a block ends.

    Parameters
    ----------
    block : Block
        The records.
    used : int or None
        How many bytes of the source have been used, unless that is where the block ends.

    Returns
    -------
    ndarray, shape (n_records, 3)
        Bytes of the file, offset in the text, line.
    """
    n_bytes = block.ends if used is None else np.full_like(block.ends, used)
    return np.column_stack([n_bytes, block.ends, block.lines[1:] - 1])
