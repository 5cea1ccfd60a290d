"""Tables as files hold them: text, packed or not, or Parquet, handed out in chunks of rows."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from fires.columns.encoding import MISSING, Kind
from fires.streams.base import InputError, Position
from fires.streams.files.sources import File, Pipe, Unpacked, ahead, plain_errors, read_header, skip
from fires.streams.files.text_blocks import PIECE, Block, blocks, is_utf8, walk

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
    short : bool
        There would be more in the chunk, had the source not kept us waiting.
    """

    frame: pl.DataFrame
    lines: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    faults: Sequence[tuple[int, str]] = ()
    short: bool = False


class Table(Protocol):
    """A file that holds a table."""

    name: str
    unit: str
    n_bytes: int | None
    column_names: tuple[str, ...]

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, again: bool = False
    ) -> Iterator[Chunk]:
        """Read the columns of these kinds from a position on.

        Columns come as text or as the numbers of their kind. A stream that can be read only
        once keeps what it gives if it is to be read ``again``.
        """


def open_table(source: Source, delimiter: str | None, block_size: int) -> Table:
    r"""Find out what a file holds by its first bytes.

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


class TextTable:
    """Text with a header, in blocks of records."""

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
        with self._opened(again=True) as (file, _):
            header = read_header(file.read, name, delimiter, source.ready)
        self.column_names = header.names
        self._delimiter = header.delimiter
        self._body = Position(offset=header.n_bytes, line=header.n_lines)

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, again: bool = False
    ) -> Iterator[Chunk]:
        """Block by block; see :class:`Table`."""
        if start.offset == 0:
            start = self._body
        elif self.n_bytes is not None and start.offset > self.n_bytes and not self._packed:
            raise InputError(f"{self.name} is shorter than it was when it was read before")
        with plain_errors(self.name), self._opened(again) as (file, used):
            skip(file, start.offset)
            parts = (
                (block, used())
                for block in blocks(
                    file.read,
                    self._delimiter,
                    len(self.column_names),
                    offset=start.offset,
                    line=start.line,
                    block_size=self._block_size,
                    ready=self._source.ready,
                )
            )
            # Looking for the ends of records takes half as long as parsing: both at once.
            with closing(parts if self.n_bytes is None else ahead(parts)) as cut:
                for block, n_used in cut:
                    yield from self._parsed(block, kinds, n_used)

    @contextmanager
    def _opened(self, again: bool) -> Iterator[tuple[Any, Callable[[], int | None]]]:
        """Open the text; the function tells how much of a packed file has been used."""
        with self._source.open(again) as file:
            if self._packed:
                yield Unpacked(file), file.tell
            else:
                yield file, lambda: None

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
        import polars as pl

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
        import polars as pl

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


class ParquetTable:
    """A Parquet file, in slices of rows."""

    unit = "row"

    def __init__(self, path: Path) -> None:
        import polars as pl

        self.name = str(path)
        self.n_bytes: int | None = path.stat().st_size
        with self._errors():
            self._frame = pl.scan_parquet(path, glob=False)
            self._types = self._frame.collect_schema()
            self._n_rows = int(self._frame.select(pl.len()).collect().item())
        self.column_names = tuple(self._types.names())

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, again: bool = False
    ) -> Iterator[Chunk]:
        """Slice by slice; see :class:`Table`."""
        import polars as pl

        names = [name for name in self.column_names if name in kinds]
        labels = [name for name in names if self._types[name] in (pl.Categorical, pl.Enum)]
        frame = self._frame.select(names).with_columns(pl.col(labels).cast(pl.String))
        step = max(1, _CHUNK_CELLS // len(names))
        for first in range(start.offset, self._n_rows, step):
            with self._errors():
                rows = frame.slice(first, step).collect()
            after = np.arange(first, first + len(rows)) + 1
            n_bytes = after * (self.n_bytes or 0) // self._n_rows
            yield Chunk(rows, after, np.column_stack([n_bytes, after, after]))

    @contextmanager
    def _errors(self) -> Iterator[None]:
        import polars as pl

        try:
            yield
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{self.name} is not a readable Parquet file: {reason}") from error


def _places(block: Block, used: int | None) -> npt.NDArray[np.int64]:
    """Where each record ends: bytes of the file, offset in the text, line."""
    n_bytes = block.ends if used is None else np.full_like(block.ends, used)
    return np.column_stack([n_bytes, block.ends, block.lines[1:] - 1])
