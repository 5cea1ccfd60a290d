"""Tables in text: CSV, TSV and the like, with a header."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns.schema import Kind
from fires.columns.text import MISSING
from fires.core.errors import InputError
from fires.streams.base import Position
from fires.streams.files.byte_sources import File, Pipe, Unpacked, plain_errors, skip
from fires.streams.files.header import read_header
from fires.streams.files.read_ahead import read_ahead
from fires.streams.files.records import is_utf8, walk
from fires.streams.files.table import Chunk
from fires.streams.files.text_blocks import PIECE, Block, cut_into_blocks


class TextTable:
    """Text with a header, whose records are lines, or several where a field is quoted.

    Parameters
    ----------
    name : str
        What messages call it.
    source : File or Pipe
        Where its bytes come from.
    delimiter : str or None
        What separates the fields; found out if it is not given.
    block_size : int
        Bytes of text to parse at once.
    """

    unit = "line"

    def __init__(
        self, name: str, source: File | Pipe, delimiter: str | None, block_size: int
    ) -> None:
        self.name = name
        self.n_bytes = source.n_bytes
        self._source = source
        self._packed = source.magic.startswith(b"\x1f\x8b")
        self._block_size = block_size
        self._has_missing = False
        with source.open(again=True) as file:
            header = read_header(self._text(file).read, name, delimiter, source.ready)
        self.column_names = header.names
        self._delimiter = header.delimiter
        self._body = Position(offset=header.n_bytes, line=header.n_lines)

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, n_rows: int | None = None
    ) -> Generator[Chunk, None, None]:
        """Read the records in order; see :meth:`FileTable.chunks`."""
        if start.offset == 0:
            start = self._body
        elif self.n_bytes is not None and start.offset > self.n_bytes and not self._packed:
            raise InputError(f"{self.name} is shorter than it was when it was read before")
        blocks = self._blocks(start, again=n_rows is not None)
        if self.n_bytes is not None:  # a pipe may keep the reader waiting, a file does not
            blocks = read_ahead(blocks)
        with plain_errors(self.name), closing(blocks):
            for block, n_used in blocks:
                yield from self._parsed(block, kinds, n_used)

    def _blocks(
        self, start: Position, *, again: bool
    ) -> Generator[tuple[Block, int | None], None, None]:
        """Cut the text into blocks; also tells how much of a packed file has been used."""
        with self._source.open(again) as file:
            text = self._text(file)
            skip(text, start.offset)
            for block in cut_into_blocks(
                text.read,
                self._delimiter,
                len(self.column_names),
                offset=start.offset,
                line=start.line,
                block_size=self._block_size,
                ready=self._source.ready,
            ):
                yield block, file.tell() if self._packed else None

    def _text(self, file: Any) -> Any:
        return Unpacked(file) if self._packed else file

    def _parsed(self, block: Block, kinds: Mapping[str, Kind], used: int | None) -> Iterator[Chunk]:
        """Parse the block whole: as numbers; if one is none, as text; if not even that, in pieces.

        What is irregular in a small piece is read row by row.
        """
        frame = None
        if block.regular:
            frame = self._fast(block, kinds)
            if frame is None:
                frame = self._fast(block, dict.fromkeys(kinds, "category"))
        if frame is not None:
            yield Chunk(frame, block.lines[:-1], _places(block, used), short=block.short)
        elif len(block.data) > PIECE and len(block.ends) > 1:
            for piece in block.pieces(self._delimiter, len(self.column_names)):
                yield from self._parsed(piece, kinds, used)
        else:
            yield self._slow(block, kinds, used)

    def _fast(self, block: Block, kinds: Mapping[str, Kind]) -> pl.DataFrame | None:
        """Parse a regular block; None if a value is not of its column's kind."""
        if not block.data.isascii() and not is_utf8(block.data.decode("utf-8", "surrogateescape")):
            return None
        types = {"number": pl.Float64, "integer": pl.Int64}
        schema = {name: types.get(kinds.get(name, ""), pl.String) for name in self.column_names}
        wanted = [i for i, name in enumerate(self.column_names) if name in kinds]
        # Looking for missing values costs a sixth of the speed: only once there are some.
        for missing in [list(MISSING)] if self._has_missing else [None, list(MISSING)]:
            try:
                frame = pl.read_csv(
                    block.data,
                    has_header=False,
                    separator=self._delimiter,
                    schema=schema,
                    columns=wanted,
                    null_values=missing,
                )
            except pl.exceptions.PolarsError:
                continue
            self._has_missing |= missing is not None
            return frame if len(frame) == len(block.ends) else None
        return None

    def _slow(self, block: Block, kinds: Mapping[str, Kind], used: int | None) -> Chunk:
        """Read a block record by record; all columns stay text."""
        rows, good, faults = [], [], []
        for i, (_, row) in enumerate(walk(block.data, self._delimiter, len(self.column_names))):
            if isinstance(row, str):
                faults.append((int(block.lines[i]), row))
            elif row:
                rows.append(row)
                good.append(i)
        columns = dict(zip(self.column_names, zip(*rows, strict=True), strict=bool(rows)))
        names = [name for name in self.column_names if name in kinds]
        frame = pl.DataFrame([pl.Series(n, columns.get(n, ()), dtype=pl.String) for n in names])
        keep = np.array(good, dtype=np.int64)
        return Chunk(frame, block.lines[keep], _places(block, used)[keep], faults, block.short)


def _places(block: Block, used: int | None) -> npt.NDArray[np.int64]:
    """Where each record ends: bytes of the file, offset in the text, line."""
    n_bytes = block.ends if used is None else np.full_like(block.ends, used)
    return np.column_stack([n_bytes, block.ends, block.lines[1:] - 1])
