"""A file is opened as the table it holds, and its first rows are read."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import polars as pl

from fires.columns.schema import Kind
from fires.core.errors import InputError, closest
from fires.streams.base import Position
from fires.streams.files.byte_sources import File, Pipe, plain_errors
from fires.streams.files.parquet_table import ParquetTable
from fires.streams.files.records import NOT_UTF8
from fires.streams.files.table import FileTable, unreadable
from fires.streams.files.text_table import TextTable

Source = str | os.PathLike[str] | BinaryIO

SAMPLE_ROWS = 10_000
"""How many rows at most decide what the columns hold."""
LEAST_ROWS = 100
"""How many rows decide it where a pipe has no more to give for the moment."""
_SAMPLE_CELLS = 2_000_000


def open_table(source: Source, delimiter: str | None, block_size: int) -> FileTable:
    r"""Find out what a file holds by its first bytes.

    Parameters
    ----------
    source : path, "-" for standard input, or binary file
        The file.
    delimiter : str or None
        What separates the fields of text; found out if it is not given.
    block_size : int
        Bytes of text to parse at once.

    Returns
    -------
    FileTable
        The table in it.

    Examples
    --------
    >>> import io
    >>> open_table(io.BytesIO(b"a;b\n1;2\n"), None, 100).column_names
    ('a', 'b')
    """
    if source == "-":
        source = sys.stdin.buffer
    if not isinstance(source, (str, os.PathLike)):
        name = "standard input" if source is sys.stdin.buffer else "the stream"
        with plain_errors(name):
            return TextTable(name, Pipe(source), delimiter, block_size)
    path, name = Path(source), str(source)
    with plain_errors(name):
        if path.is_fifo() or path.is_char_device():
            return TextTable(name, Pipe(path.open("rb"), close=True), delimiter, block_size)
        file = File(path)
        if file.magic == b"PAR1":
            return ParquetTable(path)
        if file.magic and path.suffix.lower() in (".parquet", ".pq"):
            raise InputError(f"{name} is not a Parquet file")
        return TextTable(name, file, delimiter, block_size)


def choose_columns(table: FileTable, target: str, exclude: Sequence[str]) -> list[str]:
    """Check the names of the columns.

    Parameters
    ----------
    table : FileTable
        The table.
    target : str
        The column to predict.
    exclude : sequence of str
        Columns to leave out.

    Returns
    -------
    list of str
        The columns to read, in the order of the table.
    """
    names = table.column_names
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise InputError(f'{table.name} has {count} columns of the name "{name}"')
    for name in [target, *exclude]:
        if name not in names:
            raise InputError(f'no column "{name}" in {table.name}', hint=_hint(name, names))
    if target in exclude:
        raise InputError(f'the target column "{target}" cannot be excluded')
    used = [name for name in names if name not in exclude]
    if len(used) < 2:
        raise InputError(f'{table.name} has no column besides the target "{target}"')
    return used


def _hint(name: str, names: Sequence[str]) -> str:
    """Name the nearest column or, if none is near, some of those that are there."""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return closest(name, names, f"it has {', '.join(names[:8])}{more}", quote='"')


def read_sample(table: FileTable, names: Sequence[str]) -> pl.DataFrame:
    """Read the first rows of a table.

    Parameters
    ----------
    table : FileTable
        The table.
    names : sequence of str
        The columns to read.

    Returns
    -------
    polars.DataFrame
        As many rows as decide what the columns hold; of text, all columns are text.
    """
    n_rows = min(SAMPLE_ROWS, max(LEAST_ROWS, _SAMPLE_CELLS // len(names)))
    kinds: dict[str, Kind] = dict.fromkeys(names, "category")
    frames, n_read, first_fault = [], 0, None
    for chunk in table.chunks(kinds, Position(), n_rows=n_rows):
        last_lines = chunk.lines[n_rows - n_read - 1 :][:1]
        for line, reason in chunk.faults:
            if reason == NOT_UTF8 and not (last_lines < line).any():
                raise InputError(f"{table.name} is {NOT_UTF8}: line {line}")
            first_fault = first_fault or (line, reason)
        frames.append(chunk.frame)
        n_read += len(chunk.frame)
        if n_read >= (LEAST_ROWS if chunk.short else n_rows):
            break
    if n_read == 0 and first_fault:
        raise unreadable(table, *first_fault)
    if n_read == 0:
        raise InputError(f"{table.name} has a header but no rows")
    return pl.concat(frames).head(n_rows)
