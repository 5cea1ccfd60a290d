"""Tables in text: CSV, TSV and the like."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from functools import partial
from itertools import compress
from typing import Any, cast

import numpy as np
import polars as pl

from fires.columns.columns import NumberColumns
from fires.columns.schema import Kind
from fires.columns.text import MISSING
from fires.core.validation import LARGEST
from fires.kernels.finite import scan
from fires.streams.base import Position
from fires.streams.files.byte_sources import plain_errors
from fires.streams.files.header import Header, read_header
from fires.streams.files.options import TextOptions
from fires.streams.files.records import is_utf8, walk
from fires.streams.files.text_blocks import (
    PIECE,
    WIDE,
    Block,
    Ints,
    cut_into_blocks,
    looks_regular,
    places_of,
)
from fires.streams.files.text_source import TextSource
from fires.streams.read_ahead import read_ahead
from fires.streams.table import Chunk, Fault, position_in_file

_TYPES: Mapping[str, type[pl.DataType]] = {"number": pl.Float64, "integer": pl.Int64}


class TextTable:
    """Text whose records are lines, or several where a field is quoted."""

    unit = "line"
    position = staticmethod(position_in_file)

    def __init__(
        self, text: TextSource, options: TextOptions, block_size: int, header: Header | None = None
    ) -> None:
        self.name = text.name
        self.n_bytes = text.n_bytes
        self.head = text.head
        self.files = [text.identity]
        self._text = text
        self._has_missing = False
        if header is None:
            with text.open(again=True) as (read, _):
                header = read_header(read, text.name, options, text.ready)
        self.column_names = header.names
        self.renamed = header.renamed
        self.delimiter = header.delimiter
        self._comment = options.comment
        self.body = Position(offset=header.n_bytes, line=header.n_lines)
        form: dict[str, Any] = {
            "delimiter": header.delimiter,
            "width": len(header.names),
            "comment": options.comment,
        }
        self._cut = partial(cut_into_blocks, block_size=block_size, **form)
        self._looks_regular = partial(looks_regular, **form)

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, n_rows: int | None = None
    ) -> Generator[Chunk, None, None]:
        """Read the records in order; see :meth:`Table.chunks`."""
        start = self.body if start.offset == 0 and start.mark is None else start
        blocks = self._text.blocks(self._cut, start, again=n_rows is not None)
        if self.n_bytes is not None:  # a pipe may keep the reader waiting, a file does not
            blocks = read_ahead(blocks)
        with plain_errors(self.name), closing(blocks):
            for block, used in blocks:
                yield from self._parsed(self._as_csv(block), kinds, places_of(block, used))

    def _as_csv(self, block: Block) -> Block:
        """The block as it is parsed; for formats that are CSV in other words."""
        return block

    def _parsed(self, block: Block, kinds: Mapping[str, Kind], places: Ints) -> Iterator[Chunk]:
        """Parse the block whole: as numbers; if one is none, as text; if not even that, in pieces.

        What is irregular in a small piece is read row by row.
        """
        if len(self.column_names) > WIDE and block.regular and self._is_plain(block):
            chunk = self._turned(block, kinds, places)
            if chunk is not None:
                yield chunk
                return
        frame, written = None, None
        if block.regular:
            frame, written = self._fast(block, kinds), partial(self._written, block)
            if frame is None:
                frame, written = self._fast(block, dict.fromkeys(kinds, "category")), None
        if frame is not None:
            lines = block.lines[:-1]
            yield Chunk(frame, lines, places, short=block.short, raw=block.text, written=written)
        elif len(block.data) > PIECE and len(block.ends) > 1:
            at = 0
            for piece in block.pieces(self._looks_regular):
                yield from self._parsed(piece, kinds, places[at : at + len(piece.ends)])
                at += len(piece.ends)
        else:
            yield self._slow(block, kinds, places)

    def _fast(self, block: Block, kinds: Mapping[str, Kind]) -> pl.DataFrame | None:
        """Parse a regular block; None if a value is not of its column's kind."""
        if not block.data.isascii() and not is_utf8(block.data.decode("utf-8", "surrogateescape")):
            return None
        schema = {name: _TYPES.get(kinds.get(name, ""), pl.String) for name in self.column_names}
        wanted = [i for i, name in enumerate(self.column_names) if name in kinds]
        # Looking for missing values costs a sixth of the speed: only once there are some.
        for missing in [list(MISSING)] if self._has_missing else [None, list(MISSING)]:
            try:
                frame = pl.read_csv(
                    block.data,
                    has_header=False,
                    separator=self.delimiter,
                    schema=schema,
                    columns=wanted,
                    null_values=missing,
                )
            except pl.exceptions.PolarsError:
                continue
            self._has_missing |= missing is not None
            return frame if len(frame) == len(block.ends) else None
        return None

    def _written(self, block: Block, name: str) -> pl.Series:
        """A column of a block that could be parsed, as text."""
        return cast(pl.DataFrame, self._fast(block, {name: "category"}))[name]

    def _is_plain(self, block: Block) -> bool:
        """Whether each line has as many fields as it should, and no more than fields."""
        data = block.data
        if (
            b'"' in data
            or b"\r" in data
            or not (data.isascii() or is_utf8(data.decode("utf-8", "surrogateescape")))
        ):
            return False
        at = np.flatnonzero(np.frombuffer(block.data, np.uint8) == ord(self.delimiter))
        stops = block.ends - (block.ends[-1] - len(block.data))
        n_each = np.diff(np.searchsorted(at, stops), prepend=0)
        return bool((n_each == len(self.column_names) - 1).all())

    def _turned(self, block: Block, kinds: Mapping[str, Kind], places: Ints) -> Chunk | None:
        """Parse a block of very many columns: as one column, of which numbers make an array.

        A frame has much to do for each column however few the rows are.
        """
        width, n_rows = len(self.column_names), len(block.ends)
        text = block.data.replace(self.delimiter.encode(), b"\n")
        cells = pl.read_csv(text, has_header=False, schema={"": pl.String}).to_series()
        if len(cells) != width * n_rows:
            return None
        found = cells.cast(pl.Float64, strict=False)
        no_number = (found.is_null() & cells.is_not_null()).arg_true()
        odd = no_number.filter(~cells.gather(no_number).is_in(MISSING))
        as_text = np.zeros(width, dtype=bool)
        as_text[odd.to_numpy() % width] = True
        values = found.to_numpy().reshape(n_rows, width)
        if any(scan(values)[1:]):  # no good numbers after all
            as_text |= (np.abs(values) > LARGEST).any(axis=0)
        wanted = list(map(kinds.get, self.column_names))
        is_number = np.array([kind == "number" for kind in wanted]) & ~as_text
        is_text = np.array([kind is not None for kind in wanted]) & ~is_number
        frame = pl.DataFrame(
            [
                cells.gather_every(width, i).alias(self.column_names[i])
                for i in np.flatnonzero(is_text).tolist()
            ]
        )
        names = tuple(compress(self.column_names, is_number.tolist()))
        numbers = NumberColumns(names, values[:, is_number])
        lines = block.lines[:-1]
        return Chunk(frame, lines, places, short=block.short, numbers=numbers, raw=block.text)

    def _slow(self, block: Block, kinds: Mapping[str, Kind], places: Ints) -> Chunk:
        """Read a block record by record; all columns stay text."""
        rows, good, faults = [], [], []
        width = len(self.column_names)
        found = walk(block.data, self.delimiter, width, comment=self._comment)
        for i, (_, row) in enumerate(found):
            if isinstance(row, str):
                faults.append(Fault(int(block.lines[i]), row, block.text(i)))
            elif row:
                rows.append(row)
                good.append(i)
        columns = dict(zip(self.column_names, zip(*rows, strict=True), strict=bool(rows)))
        names = [name for name in self.column_names if name in kinds]
        frame = pl.DataFrame([pl.Series(n, columns.get(n, ()), dtype=pl.String) for n in names])
        keep = np.array(good, dtype=np.int64)
        return Chunk(
            frame,
            block.lines[keep],
            places[keep],
            faults,
            block.short,
            raw=lambda row: block.text(good[row]),
        )
