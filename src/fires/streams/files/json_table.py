"""Tables in NDJSON: each line is a JSON object, whose keys are columns."""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import polars as pl

from fires.columns.schema import Kind
from fires.core.errors import InputError
from fires.streams.base import Position
from fires.streams.files.byte_sources import plain_errors
from fires.streams.files.read_ahead import read_ahead
from fires.streams.files.records import NOT_UTF8, is_utf8
from fires.streams.files.table import LEAST_ROWS, SAMPLE_ROWS, Chunk, places_of, unreadable
from fires.streams.files.text_blocks import BLOCK, PIECE, Block, cut_into_lines
from fires.streams.files.text_source import TextSource

NOT_AN_OBJECT = "not a JSON object"

_SAMPLE_BYTES = 2 * BLOCK
_LOOK_EVERY = 100
"""In one line of so many the reader looks for keys that are new."""
_Row = dict[str, Any] | str | None


class JsonTable:
    """Lines with a JSON object each, as many columns as the first of them have keys.

    Columns come as text: numbers as they would be printed, true and false by these words. Columns
    that hold objects or lists come as lists of text.

    Parameters
    ----------
    text : TextSource
        The text.
    block_size : int
        Bytes of text to parse at once.

    Attributes
    ----------
    new_fields : dict of str to int
        Keys that came later, and the first line in which they were seen; not every line is looked
        at. They are not used.
    """

    unit = "line"
    renamed: tuple[tuple[str, str], ...] = ()

    def __init__(self, text: TextSource, block_size: int) -> None:
        self.name = text.name
        self.n_bytes = text.n_bytes
        self.head = text.head
        self.new_fields: dict[str, int] = {}
        self._text = text
        self._cut = partial(cut_into_lines, block_size=block_size)
        self._typed = True
        self._nested: set[str] = set()
        names: dict[str, None] = {}
        for row in self._first_objects():
            names.update(dict.fromkeys(row))
            self._nested.update(name for name, v in row.items() if isinstance(v, (dict, list)))
        self.column_names = tuple(names)
        self._known = frozenset(names)
        if not names:
            raise InputError(f"{self.name} has no columns: its objects are empty")

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, n_rows: int | None = None
    ) -> Generator[Chunk, None, None]:
        """Read the lines in order; see :meth:`FileTable.chunks`."""
        blocks = self._text.blocks(self._cut, start, again=n_rows is not None)
        if self.n_bytes is not None:  # a pipe may keep the reader waiting, a file does not
            blocks = read_ahead(blocks)
        with plain_errors(self.name), closing(blocks):
            for block, n_used in blocks:
                yield from self._parsed(block, kinds, n_used)

    def _first_objects(self) -> Iterator[dict[str, Any]]:
        """As many objects as decide which columns there are."""
        n_objects, n_bytes = 0, 0
        fault: tuple[int, str] | None = None
        with closing(self._text.blocks(self._cut, Position(), again=True)) as blocks:
            for block, _ in blocks:
                for line, row in zip(block.lines.tolist(), _rows(block.data), strict=False):
                    if isinstance(row, dict):
                        n_objects += 1
                        yield row
                    elif row is not None:
                        fault = fault or (line, row)
                n_bytes += len(block.data)
                enough = n_objects >= (LEAST_ROWS if block.short else SAMPLE_ROWS)
                if enough or (n_objects and n_bytes >= _SAMPLE_BYTES):
                    return
        if n_objects == 0:
            raise unreadable(self, *fault) if fault else InputError(f"{self.name} is empty")

    def _parsed(self, block: Block, kinds: Mapping[str, Kind], used: int | None) -> Iterator[Chunk]:
        """Parse the block whole; if that fails, in pieces; and a small piece line by line."""
        names = [name for name in self.column_names if name in kinds]
        frame = None
        if self._nested.isdisjoint(names):
            frame = self._fast(block, {name: kinds[name] for name in names})
        if frame is not None:
            self._look_for_new_fields(block)
            yield Chunk(frame, block.lines[:-1], places_of(block, used), short=block.short)
        elif len(block.data) > PIECE and len(block.ends) > 1:
            for piece in block.pieces(_always_regular):
                yield from self._parsed(piece, kinds, used)
        else:
            yield self._slow(block, names, used)

    def _fast(self, block: Block, kinds: Mapping[str, Kind]) -> pl.DataFrame | None:
        """Parse lines that are all as they should be; None if one is not."""
        if not block.data.isascii() and not is_utf8(block.data.decode("utf-8", "surrogateescape")):
            return None
        for typed in (True, False) if self._typed else (False,):
            types = {"number": pl.Float64, "integer": pl.Int64} if typed else {}
            schema = {name: types.get(kind, pl.String) for name, kind in kinds.items()}
            try:
                frame = pl.read_ndjson(block.data, schema=schema)
            except pl.exceptions.PolarsError:
                continue
            self._typed = typed
            return frame if len(frame) == len(block.ends) else None
        return None

    def _slow(self, block: Block, names: list[str], used: int | None) -> Chunk:
        """Read a block line by line."""
        columns: list[list[Any]] = [[] for _ in names]
        good, faults = [], []
        for i, row in enumerate(_rows(block.data)):
            if isinstance(row, dict):
                self._note_new_fields(row, int(block.lines[i]))
                for name, column in zip(names, columns, strict=True):
                    column.append(_text(row.get(name)))
                good.append(i)
            elif row is not None:
                faults.append((int(block.lines[i]), row))
        frame = pl.DataFrame(
            {name: self._series(name, column) for name, column in zip(names, columns, strict=True)}
        )
        keep = np.array(good, dtype=np.int64)
        return Chunk(frame, block.lines[keep], places_of(block, used)[keep], faults, block.short)

    def _series(self, name: str, values: list[str | None]) -> pl.Series:
        if name not in self._nested:
            return pl.Series(name, values, dtype=pl.String)
        lists = [None if value is None else [value] for value in values]
        return pl.Series(name, lists, dtype=pl.List(pl.String))

    def _look_for_new_fields(self, block: Block) -> None:
        """Look at a few lines and, if one has a new key, at all of them."""
        starts = np.concatenate([[0], block.ends[:-1] - (block.ends[-1] - len(block.data))])
        few = np.unique([*range(0, len(starts), _LOOK_EVERY), len(starts) - 1])
        known = self._known.union(self.new_fields)
        for at in starts[few].tolist():
            row = _row(block.data[at : block.data.find(b"\n", at) % (len(block.data) + 1)])
            if isinstance(row, dict) and not known.issuperset(row):
                for line, found in zip(block.lines.tolist(), _rows(block.data), strict=False):
                    if isinstance(found, dict):
                        self._note_new_fields(found, line)
                return

    def _note_new_fields(self, row: dict[str, Any], line: int) -> None:
        for name in row.keys() - self._known:
            self.new_fields.setdefault(name, line)


def _always_regular(data: bytes, n_records: int) -> bool:
    return True


def _rows(data: bytes) -> Iterator[_Row]:
    """Read lines one by one."""
    return map(_row, data.removesuffix(b"\n").split(b"\n"))


def _row(line: bytes) -> _Row:
    """The object in a line, what is wrong with it, or None if the line is blank."""
    if not line.strip():
        return None
    try:
        row = json.loads(line.decode("utf-8-sig"))
    except UnicodeDecodeError:
        return NOT_UTF8
    except (ValueError, RecursionError):
        return NOT_AN_OBJECT
    return row if isinstance(row, dict) else NOT_AN_OBJECT


def _text(value: Any) -> str | None:
    """A value as polars would write it; null and NaN are missing."""
    if value is None or value != value:
        return None
    if isinstance(value, str):
        return value if is_utf8(value) else value.encode(errors="replace").decode()
    if isinstance(value, float) and 1e-7 <= abs(value) < 1e17:
        return np.format_float_positional(value, trim="-")
    if isinstance(value, (bool, dict, list)):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
