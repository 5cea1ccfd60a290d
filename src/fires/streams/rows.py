"""Rows of a table by their numbers, as they stand in it: nothing is to be learnt from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import polars as pl

from fires.columns import Columns
from fires.columns.schema import Doubt, Kind
from fires.core.errors import InputError
from fires.core.types import Ints
from fires.streams.base import Position
from fires.streams.files import Source, open_table, with_names
from fires.streams.table import Chunk, Kinds, Rejected, read_ahead
from fires.streams.table_stream import named, refuse_unknown
from fires.streams.text_table import FOUND_OUT, TextOptions

Rows = tuple[pl.DataFrame, Ints, int]  # some rows of a table, their numbers, the bytes read so far


class RowReader:
    r"""The rows of a table of which only some columns are needed, in order.

    Examples
    --------
    >>> import io
    >>> text = io.BytesIO(b"age,town\n31,Ulm\n52\n27,Bonn\n")
    >>> rows = RowReader(text, {"age": "number"}, ["town"])
    >>> [(frame.rows(), numbers.tolist()) for frame, numbers, _ in rows.batches(100)]
    [([('31', 'Ulm'), ('27', 'Bonn')], [1, 3])]
    >>> rows.rejected.examples
    ((3, '1 field, the header has 2'),)
    """

    columns: Columns | None = None  # nothing is learnt of them
    doubts: tuple[Doubt, ...] = ()

    def __init__(
        self,
        path: Source | Sequence[Source],
        kinds: Kinds,
        keep: Sequence[str] = (),
        if_present: Sequence[str] = (),
        options: TextOptions = FOUND_OUT,
        *,
        may_lack: bool = False,
    ) -> None:
        self._table = table = with_names(open_table(path, options))
        if may_lack:
            for part in table.tables:
                refuse_unknown(part, keep)
            table.let_columns_change()
        refuse_unknown(table, keep)
        present = set(table.column_names)
        lacking = [name for name in kinds if name not in present]
        if lacking and not may_lack:
            raise InputError(f"{table.name} lacks {_columns(lacking)}, which the run needs")
        others = [*keep, *(name for name in if_present if name in present)]
        self._kinds: dict[str, Kind] = {**kinds, **dict.fromkeys(others, "category")}
        self.names = tuple(self._kinds)
        for part in table.tables if may_lack else ():
            if self._kinds.keys().isdisjoint(part.column_names):  # its rows must be read as well
                self._kinds[part.column_names[0]] = "category"
        self.n_bytes, self.rejected = table.n_bytes, Rejected(unit=table.unit)
        self._needed, self._n_rows, self._n_present = tuple(kinds), 0, Counter[str]()

    def absent(self) -> str:
        """What a user should know of columns that rows did not have."""
        told = {}
        for name in self._needed:
            if n_absent := self._n_rows - self._n_present[name]:
                told[name] = f" (in {n_absent:,} rows)" if n_absent < self._n_rows else ""
        return f"absent, and taken for missing: {_columns(told)}" if told else ""

    def surprises(self) -> list[str]:
        """What a user should know about the table, in one line each."""
        return self._table.surprises(self._table.late_fields({}))

    def batches(self, batch_size: int) -> Iterator[Rows]:
        """Hand out the rows in order, as soon as they are read."""
        self.rejected = Rejected(unit=self._table.unit)
        n_rows = 0
        chunks = self._table.chunks(self._kinds, Position())
        if self.n_bytes is not None:  # reading may wait for others, and then Ctrl-C would wait too
            chunks = read_ahead(chunks)
        with closing(chunks):
            for chunk in chunks:
                if chunk.faults:
                    self.rejected = self.rejected.more(chunk.faults)
                frame, numbers = self._frame(chunk), _numbers(chunk, n_rows)
                n_rows += len(chunk.lines) + len(chunk.faults)
                self._n_rows += len(frame)
                self._n_present.update(dict.fromkeys(frame.columns, len(frame)))
                for start in range(0, len(numbers), batch_size):
                    part = slice(start, min(start + batch_size, len(numbers)))
                    yield frame[part], numbers[part], chunk.end(part.stop - 1).bytes
        if n_rows == 0:
            text = pl.DataFrame(schema=dict.fromkeys(self._kinds, pl.String))
            yield text, np.empty(0, dtype=np.int64), 0
        elif n_rows == self.rejected.count:
            raise self._table.unreadable(*self.rejected.examples[0])

    def _frame(self, chunk: Chunk) -> pl.DataFrame:
        """The rows as one frame; a field of text with nothing in it is missing, quoted or not."""
        frame = chunk.frame
        if chunk.numbers is not None:
            X: Any = chunk.numbers.matrix
            columns = [pl.Series(name, X[:, at]) for at, name in enumerate(chunk.numbers.names)]
            frame = frame.hstack(columns) if frame.width else pl.DataFrame(columns)
        if self._table.unit != "row":
            frame = frame.with_columns(pl.col(pl.String).replace("", None))
        return frame


def _columns(names: Mapping[str, str] | Sequence[str]) -> str:
    """Columns, and what is said of each, for a person to read."""
    what = "the column" if len(names) == 1 else f"{len(names):,} columns"
    return f"{what} {named(names, 8)}"


def _numbers(chunk: Chunk, n_before: int) -> Ints:
    """The numbers of the rows, where those that could not be read have theirs too."""
    faults = np.sort(np.array([line for line, *_ in chunk.faults], dtype=np.int64))
    between = np.searchsorted(faults, chunk.lines)
    return n_before + 1 + np.arange(len(chunk.lines)) + between
