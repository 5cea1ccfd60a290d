"""Tables in Parquet files."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl

from fires.columns.schema import Kind
from fires.core.errors import InputError
from fires.streams.base import Position
from fires.streams.files.table import Chunk

_READ_CELLS = 8_000_000
"""How much is read at once, 64 MB of numbers: a row group is unpacked anew for each slice of it."""
_CHUNK_CELLS = 1_000_000
"""How much is handed out at once."""


class ParquetTable:
    """A Parquet file, whose records are rows.

    Parameters
    ----------
    path : Path
        The file.
    """

    unit = "row"

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self.n_bytes: int | None = path.stat().st_size
        with self._plain_errors():
            self._frame = pl.scan_parquet(path, glob=False)
            self._types = self._frame.collect_schema()
            self._n_rows = int(self._frame.select(pl.len()).collect().item())
        self.column_names = tuple(self._types.names())

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, n_rows: int | None = None
    ) -> Generator[Chunk, None, None]:
        """Read the rows in order; see :meth:`FileTable.chunks`."""
        names = [name for name in self.column_names if name in kinds]
        labels = [name for name in names if self._types[name] in (pl.Categorical, pl.Enum)]
        frame = self._frame.select(names).with_columns(pl.col(labels).cast(pl.String))
        stop = self._n_rows if n_rows is None else min(start.offset + n_rows, self._n_rows)
        size = max(1, _CHUNK_CELLS // len(names))
        step = max(1, _READ_CELLS // len(names))
        for first in range(start.offset, stop, step):
            with self._plain_errors():
                rows = frame.slice(first, min(step, stop - first)).collect()
            after = np.arange(first, first + len(rows)) + 1
            places = np.column_stack([after * (self.n_bytes or 0) // self._n_rows, after, after])
            for at in range(0, len(rows), size):
                within = slice(at, at + size)
                yield Chunk(rows[within], after[within], places[within])

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        try:
            yield
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"{self.name} is not a readable Parquet file: {reason}") from error
