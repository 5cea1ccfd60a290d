"""Tables in files with columns of fixed types: Parquet and Arrow."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np
import polars as pl

from fires.core.errors import InputError
from fires.streams.base import Position
from fires.streams.byte_sources import identity_of
from fires.streams.table import Chunk, Chunks, Kinds, Table

# How much is read at once, 64 MB of numbers: a row group is unpacked anew for each slice of it.
_READ_CELLS = 8_000_000
_CHUNK_CELLS = 1_000_000  # how much is handed out at once
_PANIC = b"\nthread '"  # what the message of a panic begins with
_LAST_WORDS = 0.1  # seconds in which other threads of polars may still write about a panic
_STANDARD_ERROR = Lock()  # there is one for all threads


class ScannedTable(Table):
    """A Parquet or Arrow file, whose records are rows."""

    unit = "row"

    def __init__(self, path: Path, kind: str) -> None:
        self.name = str(path)
        identity = identity_of(path, may_grow=False)
        self.files, self.n_bytes = [identity], identity["size"]
        self._kind = kind
        with self._plain_errors():
            scan = pl.scan_parquet if kind == "Parquet" else pl.scan_ipc
            self._frame: pl.LazyFrame = scan(path, glob=False)
            self._types = self._frame.collect_schema()
            self._n_rows = int(self._frame.select(pl.len()).collect().item())
        self.column_names = tuple(self._types.names())

    def chunks(self, kinds: Kinds, start: Position, n_rows: int | None = None) -> Chunks:
        """Read the rows in order; see :meth:`Table.chunks`."""
        names = [name for name in self.column_names if name in kinds]
        labels = [name for name in names if self._types[name] in (pl.Categorical, pl.Enum)]
        # One cast of all is quick; one by one, very many columns would take long.
        numbers = [
            name for name in names if kinds[name] == "number" and self._types[name].is_numeric()
        ]
        frame = self._frame.select(names).with_columns(
            pl.col(labels).cast(pl.String), pl.col(numbers).cast(pl.Float64)
        )
        stop = self._n_rows if n_rows is None else min(start.offset + n_rows, self._n_rows)
        size = max(1, _CHUNK_CELLS // max(len(names), 1))
        step = max(1, _READ_CELLS // max(len(names), 1))
        for first in range(start.offset, stop, step):
            with self._plain_errors():
                rows = frame.slice(first, min(step, stop - first)).collect()
            for at in range(0, len(rows), size):
                part = rows[at : at + size]
                lines = np.arange(first + at, first + at + len(part)) + 1
                yield Chunk(part, lines, partial(self._end, first + at))

    def _end(self, first: int, row: int) -> Position:
        """Where a row ends, of those from the first on."""
        n = first + row + 1
        return Position(0, n * (self.n_bytes or 0) // self._n_rows, n, n)

    @contextmanager
    def _plain_errors(self) -> Iterator[None]:
        """Turn what is wrong with the file into one line."""
        try:
            with _without_panics():
                yield
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
            reason = next(iter(str(error).splitlines()), "")
            message = f"{self.name} is not a readable {self._kind} file: {reason}"
            raise InputError(message) from error


@contextmanager
def _without_panics() -> Iterator[None]:
    """Keep the message of a panic off the terminal.

    Threads of polars write it to standard error, past Python, before the error is raised here.
    So standard error is a file for so long; what else was written comes out afterwards.
    """
    with _STANDARD_ERROR, tempfile.TemporaryFile() as held:
        try:
            former = os.dup(2)
        except OSError:  # closed: nothing can be written there
            yield
            return
        os.dup2(held.fileno(), 2)
        try:
            yield
        except pl.exceptions.PanicException:
            time.sleep(_LAST_WORDS)
            raise
        finally:
            os.dup2(former, 2)
            os.close(former)
            held.seek(0)
            os.write(2, held.read().partition(_PANIC)[0])
