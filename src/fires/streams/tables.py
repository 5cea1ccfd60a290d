"""Tables as files hold them: text, packed or not, or Parquet, handed out in chunks of rows."""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from fires.streams.base import InputError, Position
from fires.streams.columns import MISSING, Kind
from fires.streams.text_blocks import MAX_LINE, PIECE, Block, blocks, is_utf8, sniff, walk

if TYPE_CHECKING:
    import polars as pl

Source = str | os.PathLike[str] | BinaryIO

_CHUNK_CELLS = 4_000_000
"""How much of a Parquet file is held at once: 32 MB of numbers."""


@dataclass(frozen=True, eq=False)
class Chunk:
    """Rows in the columns asked for, as text or as the numbers of their kind.

    Parameters
    ----------
    frame : polars.DataFrame
        The rows.
    lines : ndarray
        The line, or the row of the file, at which each of them starts.
    places : ndarray, shape (n_rows, 3)
        Bytes, offset and line of the :class:`Position` at which each of them ends.
    faults : list of (line, reason)
        Records that are no rows at all.
    """

    frame: pl.DataFrame
    lines: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    faults: Sequence[tuple[int, str]] = ()


class Table(Protocol):
    """A file that holds a table."""

    name: str
    unit: str
    n_bytes: int | None
    column_names: tuple[str, ...]

    def chunks(self, kinds: Mapping[str, Kind], start: Position) -> Iterator[Chunk]:
        """Read the columns of these kinds from a position on. Text can come for any kind."""


def open_table(source: Source, delimiter: str | None, block_size: int) -> Table:
    """Find out what a file holds by its first bytes.

    Examples
    --------
    >>> open_table(io.BytesIO(b"a;b\\n1;2\\n"), None, 100).column_names
    ('a', 'b')
    """
    if source == "-":
        source = sys.stdin.buffer
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        with plain_errors(str(source)), path.open("rb") as file:
            magic = file.read(4)
        if magic == b"PAR1":
            return ParquetTable(path)
        if path.suffix.lower() in (".parquet", ".pq"):
            raise InputError(f"{source} is empty" if not magic else f"{source} is not Parquet")
        return TextTable(str(source), _File(path), delimiter, block_size)
    pipe = _Pipe(source)
    if pipe.magic == b"PAR1":
        raise InputError("Parquet cannot be read from a stream; give the name of the file")
    name = "standard input" if source is sys.stdin.buffer else getattr(source, "name", "the stream")
    return TextTable(str(name), pipe, delimiter, block_size)


class TextTable:
    """Text with a header."""

    unit = "line"

    def __init__(
        self, name: str, source: _File | _Pipe, delimiter: str | None, block_size: int
    ) -> None:
        self.name = name
        self.n_bytes = source.n_bytes
        self._source = source
        self._block_size = block_size
        self._missing: list[str] | None = None
        self._packed = source.magic.startswith(b"\x1f\x8b")
        with plain_errors(name), self._opened() as (file, _):
            head, final = _read_head(file)
        if not head.strip():
            raise InputError(f"{name} is empty")
        lines = list(io.StringIO(head.decode("utf-8", "surrogateescape"), newline="\n"))
        whole = lines if final else lines[:-1]
        self._delimiter = delimiter or _delimiter(name, whole[:100])
        reader = csv.reader(whole, delimiter=self._delimiter)
        row = next(row for row in reader if any(field.strip() for field in row))
        self._n_header_lines = reader.line_num
        header = "".join(whole[: reader.line_num])
        if not is_utf8(header):
            raise InputError(f"{name} is not UTF-8 text: line {reader.line_num}")
        self._n_header_bytes = len(header.encode())
        names = [field.strip().removeprefix("\ufeff") for field in row]
        self.column_names = tuple(n or f"column_{i}" for i, n in enumerate(names, start=1))

    def chunks(self, kinds: Mapping[str, Kind], start: Position) -> Iterator[Chunk]:
        """Block by block; see :class:`Table`."""
        offset, line = start.offset, start.line
        if offset == 0:
            offset, line = self._n_header_bytes, self._n_header_lines
        with plain_errors(self.name), self._opened() as (file, used):
            _skip(file, offset)
            for block in blocks(
                file.read,
                self._delimiter,
                len(self.column_names),
                offset=offset,
                line=line,
                block_size=self._block_size,
            ):
                yield from self._parsed(block, kinds, used())

    @contextmanager
    def _opened(self) -> Iterator[tuple[Any, Any]]:
        """The text, and a function that tells how much of a packed file has been used."""
        with self._source.open() as file:
            if not self._packed:
                yield file, lambda: None
            else:
                with gzip.GzipFile(fileobj=file, mode="rb") as text:
                    yield text, file.tell

    def _parsed(self, block: Block, kinds: Mapping[str, Kind], used: int | None) -> Iterator[Chunk]:
        """Parse the block whole or, if it has faults, in small pieces and these row by row."""
        frame = self._fast(block, kinds) if block.regular else None
        if frame is not None:
            yield Chunk(frame, block.lines[:-1], _places(block, used))
        elif len(block.data) > PIECE and len(block.ends) > 1:
            for piece in block.pieces(self._delimiter, len(self.column_names)):
                yield from self._parsed(piece, kinds, used)
        else:
            yield self._slow(block, kinds, used)

    def _fast(self, block: Block, kinds: Mapping[str, Kind]) -> pl.DataFrame | None:
        """Parse a regular block, or return None if some value is not of its column's kind."""
        import polars as pl

        try:
            block.data.isascii() or block.data.decode()
        except UnicodeDecodeError:
            return None
        types = {"number": pl.Float64, "integer": pl.Int64}
        schema = {name: types.get(kinds.get(name, ""), pl.String) for name in self.column_names}
        wanted = [i for i, name in enumerate(self.column_names) if name in kinds]
        # Looking for missing values costs a sixth of the speed: only once there are some.
        for missing in [None, list(MISSING)] if self._missing is None else [self._missing]:
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
            self._missing = missing
            return frame if len(frame) == len(block.ends) else None
        return None

    def _slow(self, block: Block, kinds: Mapping[str, Kind], used: int | None) -> Chunk:
        """Read a block record by record; all columns stay text."""
        import polars as pl

        records = walk(block.data, self._delimiter, len(self.column_names))
        good = [i for i, (_, row) in enumerate(records) if isinstance(row, list) and row]
        faults = [
            (int(block.lines[i]), why) for i, (_, why) in enumerate(records) if isinstance(why, str)
        ]
        columns = zip(*(records[i][1] for i in good), strict=True)
        fields = dict(zip(self.column_names, columns, strict=False)) if good else {}
        frame = pl.DataFrame(
            {name: fields.get(name, ()) for name in self.column_names if name in kinds},
            schema_overrides=dict.fromkeys(kinds, pl.String),
        )
        return Chunk(frame, block.lines[:-1][good], _places(block, used)[good], faults)


class ParquetTable:
    """A Parquet file, read in slices of rows."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        import polars as pl

        self.name = str(path)
        self.n_bytes = path.stat().st_size
        with plain_errors(self.name):
            self._frame = pl.scan_parquet(path, glob=False)
            self._types = self._frame.collect_schema()
            self._n_rows = int(self._frame.select(pl.len()).collect().item())
        self.column_names = tuple(self._types.names())

    def chunks(self, kinds: Mapping[str, Kind], start: Position) -> Iterator[Chunk]:
        """Slice by slice; see :class:`Table`."""
        import polars as pl

        names = [name for name in self.column_names if name in kinds]
        labels = [n for n in names if self._types[n] in (pl.Categorical, pl.Enum)]
        frame = self._frame.select(names).with_columns(pl.col(labels).cast(pl.String))
        step = max(1, _CHUNK_CELLS // len(names))
        for first in range(start.offset, self._n_rows, step):
            with plain_errors(self.name):
                rows = frame.slice(first, step).collect()
            after = np.arange(first, first + len(rows)) + 1
            n_bytes = after * self.n_bytes // self._n_rows
            yield Chunk(rows, after, np.column_stack([n_bytes, after, after]))


class _File:
    """A file that can be opened any number of times."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.n_bytes: int | None = path.stat().st_size
        with path.open("rb") as file:
            self.magic = file.read(4)

    def open(self) -> BinaryIO:
        return self._path.open("rb")


class _Pipe:
    """A stream that can be read once: what the first look at it took is kept for the second."""

    n_bytes = None

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.magic = file.read(4)
        if not isinstance(self.magic, bytes):
            raise InputError("a table must be opened in binary mode")
        self._kept = [self.magic]
        self._n_opened = 0

    @contextmanager
    def open(self) -> Iterator[Any]: ...
