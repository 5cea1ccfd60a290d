"""A file is opened as the table it holds, and its first rows are read."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import BinaryIO

import polars as pl

from fires.columns.schema import Kind
from fires.core.errors import InputError, closest
from fires.streams.base import Position
from fires.streams.files.byte_sources import File, Pipe, plain_errors
from fires.streams.files.header import not_text
from fires.streams.files.json_table import JsonTable
from fires.streams.files.many_tables import ManyTables
from fires.streams.files.options import FOUND_OUT, TextOptions
from fires.streams.files.packing import ADVICE, kind_of
from fires.streams.files.records import NOT_UTF8
from fires.streams.files.scanned_table import ScannedTable
from fires.streams.files.svmlight import ENDINGS as SVMLIGHT_ENDINGS
from fires.streams.files.svmlight import SvmlightFile, looks_like_svmlight
from fires.streams.files.table import LEAST_ROWS as LEAST_ROWS
from fires.streams.files.table import SAMPLE_ROWS as SAMPLE_ROWS
from fires.streams.files.table import Chunk, FileTable, unreadable
from fires.streams.files.text_blocks import BLOCK, WIDE
from fires.streams.files.text_source import TextSource
from fires.streams.files.text_table import TextTable

Source = str | os.PathLike[str] | BinaryIO

_SAMPLE_CELLS = 2_000_000
_MOST_NOT_TEXT = 0.05
"""A text of which more rows of the sample are not UTF-8 was written in another way."""
_ENDINGS = {".parquet": "Parquet", ".pq": "Parquet", ".arrow": "Arrow", ".feather": "Arrow"}
_ARRAY = re.compile(rb"\s*\[\s*([\[{]|$)")
_OBJECT = re.compile(rb'\s*\{\s*(["}]|$)')
_NO_PIPE = ("Parquet", "Arrow", "Arrow stream", "zip")


def open_table(
    sources: Source | Sequence[Source], options: TextOptions = FOUND_OUT, block_size: int = BLOCK
) -> FileTable | SvmlightFile:
    r"""Find out what files hold by their first bytes.

    Parameters
    ----------
    sources : path, "-" for standard input, or binary file; or a sequence of them
        The file, or several that hold one table in order.
    options : TextOptions
        What the user says about a text.
    block_size : int
        Bytes of text to parse at once.

    Returns
    -------
    FileTable or SvmlightFile
        What is in it.

    Examples
    --------
    >>> import io
    >>> open_table(io.BytesIO(b"a;b\n1;2\n")).column_names
    ('a', 'b')
    """
    if isinstance(sources, str) or not isinstance(sources, Sequence):
        return _open(sources, options, block_size)
    if not sources:
        raise InputError("there is no file to read")
    opened = [_open(source, options, block_size) for source in sources]
    if len(opened) == 1:
        return opened[0]
    tables = [table for table in opened if not isinstance(table, SvmlightFile)]
    if len(tables) < len(opened):
        raise InputError("only one svmlight file can be read at a time; join them into one")
    return ManyTables(tables)


def _open(source: Source, options: TextOptions, block_size: int) -> FileTable | SvmlightFile:
    """Find out what one file holds."""
    standard_input = getattr(sys.stdin, "buffer", None)
    if source == "-":
        if standard_input is None:  # a program can be started without
            raise InputError("standard input is closed")
        source = standard_input
    if not isinstance(source, (str, os.PathLike)):
        name = "standard input" if source is standard_input else "the stream"
        with plain_errors(name):
            return _text_table(_piped(name, Pipe(source), options), options, block_size)
    path, name = Path(source), str(source)
    with plain_errors(name):
        if path.is_fifo() or path.is_char_device():
            pipe = Pipe(path.open("rb"), close=True)
            return _text_table(_piped(name, pipe, options), options, block_size)
        file = File(path)
        kind = kind_of(file.magic)
        if kind in ("Parquet", "Arrow"):
            return ScannedTable(path, kind)
        wanted = _ENDINGS.get(path.suffix.lower())
        if wanted and file.magic and kind not in ADVICE:
            raise InputError(f"{name} is not {'an' if wanted == 'Arrow' else 'a'} {wanted} file")
        return _text_table(TextSource(name, file, options.encoding), options, block_size)


def _piped(name: str, pipe: Pipe, options: TextOptions) -> TextSource:
    kind = kind_of(pipe.magic)
    if kind in _NO_PIPE:
        raise InputError(
            f"{name}: {kind} cannot be read from a stream; save it to a file, and give its name"
        )
    return TextSource(name, pipe, options.encoding)


def _text_table(
    text: TextSource, options: TextOptions, block_size: int
) -> FileTable | SvmlightFile:
    """Find out what a text holds by its ending and its first line."""
    endings = set(Path(text.name.lower()).suffixes)
    first = text.first_line(options.comment or "#")
    if _ARRAY.match(first):
        raise InputError(
            f"{text.name} is a JSON array; write one object per line, for instance with jq -c '.[]'"
        )
    if endings & {".ndjson", ".jsonl"} or _OBJECT.match(first):
        return JsonTable(text, block_size)
    if endings & SVMLIGHT_ENDINGS or looks_like_svmlight(first):
        return SvmlightFile(text, block_size)
    return TextTable(text, options, block_size)


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
    parts = table.tables if isinstance(table, ManyTables) else (table,)
    for part in parts:
        if target not in part.column_names:
            hint = _hint(target, part.column_names)
            raise InputError(f'no column "{target}" in {part.name}', hint=hint)
    if target in exclude:
        raise InputError(f'the target column "{target}" cannot be excluded')
    used = exclude_columns(table, exclude)
    if len(used) < 2:
        raise InputError(f'{table.name} has no column besides the target "{target}"')
    return used


def exclude_columns(table: FileTable, exclude: Sequence[str]) -> list[str]:
    """Leave out columns.

    Parameters
    ----------
    table : FileTable
        The table.
    exclude : sequence of str
        Columns to leave out.

    Returns
    -------
    list of str
        The other columns, in the order of the table.
    """
    refuse_unknown(table, exclude)
    left_out = set(exclude)
    return [name for name in table.column_names if name not in left_out]


def refuse_unknown(table: FileTable, names: Sequence[str]) -> None:
    """Raise if a table does not have a column that the user named.

    Parameters
    ----------
    table : FileTable
        The table.
    names : sequence of str
        What the user named.
    """
    parts = table.tables if isinstance(table, ManyTables) else (table,)
    known = {name for part in parts for name in part.column_names}
    for name in names:
        if name not in known:
            hint = _hint(name, table.column_names)
            raise InputError(f'no column "{name}" in {table.name}', hint=hint)


def _hint(name: str, names: Sequence[str]) -> str:
    """Name the nearest column or, if none is near, some of those that are there."""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return closest(name, names, f"it has {', '.join(names[:8])}{more}", quote='"')


def read_sample(
    table: FileTable, names: Sequence[str], as_text: Collection[str] = ()
) -> pl.DataFrame:
    """Read the first rows of a table.

    Parameters
    ----------
    table : FileTable
        The table.
    names : sequence of str
        The columns to read.
    as_text : collection of str
        Columns that must be there. Of others, a table with very many columns may leave out those
        that are plain numbers.

    Returns
    -------
    polars.DataFrame
        As many rows as decide what the columns hold; of text, all columns are text.
    """
    n_rows = min(SAMPLE_ROWS, max(LEAST_ROWS, _SAMPLE_CELLS // len(names)))
    kinds: dict[str, Kind] = dict.fromkeys(names, "number" if len(names) > WIDE else "category")
    kinds |= dict.fromkeys(as_text, "category")
    frames: list[pl.DataFrame] = []
    faults: list[tuple[int, str]] = []
    met_as_text: set[str] = set()
    n_read = 0
    try:
        for chunk in table.chunks(kinds, Position(), n_rows=n_rows):
            last_lines = chunk.lines[n_rows - n_read - 1 :][:1]
            faults += [fault for fault in chunk.faults if not (last_lines < fault[0]).any()]
            frames.append(_with_numbers(chunk, met_as_text))
            n_read += len(chunk.lines)
            if n_read >= (LEAST_ROWS if chunk.short else n_rows):
                break
    except InputError:
        if n_read == 0:
            raise
        # What was read before the damage is read again, and then the error is met again.
    no_text = [line for line, reason in faults if reason == NOT_UTF8]
    if len(no_text) > _MOST_NOT_TEXT * (len(no_text) + min(n_read, n_rows)):
        raise not_text(table.name, no_text[0], table.head)
    if n_read == 0 and faults:
        raise unreadable(table, *faults[0])
    if n_read == 0:
        raise InputError(f"{table.name} has a header but no rows")
    return _joined(frames).head(n_rows)


def _with_numbers(chunk: Chunk, as_text: set[str]) -> pl.DataFrame:
    """The rows as a frame, with those numbers that are text in rows before, which it adds to."""
    if chunk.numbers is None:
        return chunk.frame
    names, X = chunk.numbers
    late = as_text.difference(chunk.frame.columns)
    as_text.update(chunk.frame.columns)
    return chunk.frame.with_columns(
        pl.Series(name, X[:, names.index(name)]).fill_nan(None).cast(pl.String) for name in late
    )


def _joined(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Rows under one another; files of different kinds may give a column different types."""
    if all(frame.schema == frames[0].schema for frame in frames):
        return pl.concat(frames) if len(frames) > 1 else frames[0]
    if any(frame.columns != frames[0].columns for frame in frames):
        # In the rows before, a column was left out since it held numbers.
        frames = [frame.select(sorted(frame.columns)) for frame in frames]
        return pl.concat(frames, how="diagonal_relaxed")
    types: dict[str, pl.DataType] = {}
    for frame in frames:
        for name, kind in frame.schema.items():
            if types.setdefault(name, kind) != kind:
                nested = next((t for t in (types[name], kind) if t.is_nested()), None)
                types[name] = nested or pl.String()
    return pl.concat(
        frame.with_columns(
            pl.lit(None, types[name]).alias(name)
            if types[name].is_nested()
            else pl.col(name).cast(types[name], strict=False)
            for name, kind in frame.schema.items()
            if kind != types[name]
        )
        for frame in frames
    )
