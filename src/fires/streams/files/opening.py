"""A file is opened as the table it holds."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from fires.core.errors import InputError
from fires.streams.base import Position
from fires.streams.files.arff import ArffTable, looks_like_arff
from fires.streams.files.byte_sources import File, Pipe, plain_errors
from fires.streams.files.following import Follow, FollowedTable
from fires.streams.files.json_table import JsonTable
from fires.streams.files.many_tables import ManyTables
from fires.streams.files.options import FOUND_OUT, TextOptions
from fires.streams.files.packing import ADVICE, kind_of
from fires.streams.files.scanned_table import ScannedTable
from fires.streams.files.svmlight import ENDINGS as SVMLIGHT_ENDINGS
from fires.streams.files.svmlight import SvmlightFile, looks_like_svmlight
from fires.streams.files.text_blocks import BLOCK
from fires.streams.files.text_source import TextSource
from fires.streams.files.text_table import TextTable
from fires.streams.table import Table

if TYPE_CHECKING:
    from fires.streams.files.svmlight import Counted

Source = str | os.PathLike[str] | BinaryIO

_ENDINGS = {".parquet": "Parquet", ".pq": "Parquet", ".arrow": "Arrow", ".feather": "Arrow"}
_ARRAY = re.compile(rb"\s*\[\s*([\[{]|$)")
_OBJECT = re.compile(rb'\s*\{\s*(["}]|$)')
_NO_PIPE = ("Parquet", "Arrow", "Arrow stream", "zip")


def open_table(
    sources: Source | Sequence[Source],
    options: TextOptions = FOUND_OUT,
    block_size: int = BLOCK,
    counted: Counted | None = None,
) -> Table | SvmlightFile:
    r"""Find out what files hold by their first bytes.

    Examples
    --------
    >>> import io
    >>> open_table(io.BytesIO(b"a;b\n1;2\n")).column_names
    ('a', 'b')
    """
    if isinstance(sources, str) or not isinstance(sources, Sequence):
        return _open(sources, options, block_size, counted)
    if not sources:
        raise InputError("there is no file to read")
    opened = [_open(source, options, block_size, counted) for source in sources]
    if len(opened) == 1:
        return opened[0]
    tables = [table for table in opened if not isinstance(table, SvmlightFile)]
    if len(tables) < len(opened):
        raise InputError("only one svmlight file can be read at a time; join them into one")
    return ManyTables(tables)


def open_followed(
    source: Source | Sequence[Source],
    options: TextOptions = FOUND_OUT,
    block_size: int = BLOCK,
    start: Position | None = None,
) -> FollowedTable:
    """Open a file that grows, and may be rotated."""
    if isinstance(source, Sequence) and not isinstance(source, str) and len(source) == 1:
        source = source[0]
    if not isinstance(source, (str, os.PathLike)) or source == "-":
        raise InputError("only one file can be followed, by its name")
    name = str(source)
    with plain_errors(name):
        file = Follow(Path(source), start or Position())
        if file.header is not None and (delimiter := file.delimiter):
            options = replace(options, delimiter=delimiter)
        kind = kind_of(file.magic)
        if kind == "text":
            text = TextSource(name, file, options.encoding)
            kind = f"text in {text.encoding}"
            if text.is_direct:
                table = _text_table(text, options, block_size)
                if isinstance(table, (TextTable, JsonTable)) and not isinstance(table, ArffTable):
                    return FollowedTable(table, file)
                kind = "ARFF"
        raise InputError(f"{name} is {kind}; only plain text in UTF-8 can be followed")


def _open(
    source: Source,
    options: TextOptions,
    block_size: int,
    counted: Counted | None = None,
) -> Table | SvmlightFile:
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
        text = TextSource(name, file, options.encoding)
        return _text_table(text, options, block_size, counted)


def _piped(name: str, pipe: Pipe, options: TextOptions) -> TextSource:
    kind = kind_of(pipe.magic)
    if kind in _NO_PIPE:
        raise InputError(
            f"{name}: {kind} cannot be read from a stream; save it to a file, and give its name"
        )
    return TextSource(name, pipe, options.encoding)


def _text_table(
    text: TextSource,
    options: TextOptions,
    block_size: int,
    counted: Counted | None = None,
) -> Table | SvmlightFile:
    """Find out what a text holds by its ending and its first line."""
    endings = set(Path(text.name.lower()).suffixes)
    first = text.first_line(options.comment or "#")
    if first.startswith(b"%"):
        first = text.first_line("%")
    if ".arff" in endings or looks_like_arff(first):
        return ArffTable(text, block_size)
    if _ARRAY.match(first):
        raise InputError(
            f"{text.name} is a JSON array; write one object per line, for instance with jq -c '.[]'"
        )
    if endings & {".ndjson", ".jsonl"} or _OBJECT.match(first):
        return JsonTable(text, block_size)
    if endings & SVMLIGHT_ENDINGS or looks_like_svmlight(first):
        return SvmlightFile(text, block_size, counted)
    return TextTable(text, options, block_size)
