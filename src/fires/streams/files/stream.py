"""A stream over a file: CSV and TSV, plain or packed with gzip, Parquet, or standard input."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fires.columns.encoding import N_EXAMPLES, Column, Encoder, Kind, find_kinds
from fires.streams.base import Batch, InputError, Position, Schema, check_batch_size
from fires.streams.files.sources import ahead
from fires.streams.files.tables import Source, Table, open_table
from fires.streams.files.text_blocks import BLOCK, NOT_UTF8

if TYPE_CHECKING:
    import polars as pl

SAMPLE_ROWS = 10_000
"""How many rows at most decide what the columns hold."""
LEAST_ROWS = 100
"""How many rows decide it where a pipe has no more to give for the moment."""
_SAMPLE_CELLS = 2_000_000

_Rows = tuple[npt.NDArray[np.float64], npt.NDArray[Any], npt.NDArray[np.int64]]
"""X, y, and the bytes, offset and line at which each row ends."""


@dataclass(frozen=True)
class Rejected:
    """How many rows could not be used, and (line, reason) of the first ten.

    Parquet files have rows where text has lines; ``unit`` says which.
    """

    count: int = 0
    examples: tuple[tuple[int, str], ...] = ()
    unit: str = "line"


def from_file(
    path: Source,
    target: str,
    *,
    exclude: Sequence[str] = (),
    max_categories: int = 1000,
    numeric_target: bool = False,
    delimiter: str | None = None,
    columns: Sequence[Column] | None = None,
    start: Position | None = None,
    block_size: int = BLOCK,
) -> FileStream:
    r"""Make a stream of a table in a file, in bounded memory however long the file is.

    The kind of each column is fixed by the first rows, 10,000 at most; what does not fit later
    makes its row unusable. A pipe is read as it fills: its rows are handed out as soon as there
    are enough for a batch, and 100 of them fix the kinds if no more come within a tenth of a
    second. Unusable rows are counted and left out. Numbers, dates (as seconds
    since 1970) and true and false (1 and 0) become numbers; other text becomes categories with
    the codes 0, 1, 2, ... in order of first appearance.

    Parameters
    ----------
    path : path, "-" for standard input, or binary file
        What it holds is found out from its first bytes: Parquet, or text in UTF-8 with a header,
        its fields separated by a comma, semicolon, tab or bar; packed with gzip or not.
    target : str
        The column to predict. Its labels stay what they are: whole numbers, true and false,
        text; other numbers, and dates, are float64.
    exclude : sequence of str
        Columns to leave out.
    max_categories : int
        How many categories of a column get a code of their own. All later ones share the next.
    numeric_target : bool
        Read the target as float64 even if the first rows hold whole numbers only.
    delimiter : str, optional
        What separates the fields, where it should not be guessed.
    columns : sequence of Column, optional
        The ``columns`` of an earlier stream of this table: kinds and codes go on as they were.
    start : Position, optional
        The position of the last batch of an earlier stream: reading goes on after it.
    block_size : int
        Bytes of text to parse at once. The batches do not depend on it.

    Raises
    ------
    InputError
        With one line that says what is wrong with the file or the names of the columns.

    Examples
    --------
    >>> import io
    >>> text = b"age,town,bought\n31,Bonn,yes\n?,Ulm,no\nold,Ulm,no\n45,Ulm,yes\n"
    >>> stream = from_file(io.BytesIO(text), "bought")
    >>> [(batch.X.tolist(), batch.y.tolist()) for batch in stream.batches(2)]
    [([[31.0, 0.0], [nan, 1.0]], ['yes', 'no']), ([[45.0, 1.0]], ['yes'])]
    >>> stream.rejected.examples
    ((4, '"old" in column "age" is not a number'),)
    """
    table = open_table(path, delimiter, block_size)
    used = _choose(table, target, [exclude] if isinstance(exclude, str) else exclude)
    if columns is None:
        columns = find_kinds(_sample(table, used), target, numeric_target=numeric_target)
    elif {column.name for column in columns} != set(used):
        raise InputError(f"{table.name} does not have the columns of the earlier run")
    return FileStream(table, tuple(columns), target, max_categories, start or Position())


class FileStream:
    """The rows of a table, in order. Made by :func:`from_file`.

    Attributes
    ----------
    schema : Schema
        The names of the columns.
    n_bytes : int or None
        The size of the source; None if it is not known.
    rejected : Rejected
        The rows left out so far; reading is a few blocks ahead of the batches.
    """

    def __init__(
        self,
        table: Table,
        columns: tuple[Column, ...],
        target: str,
        max_categories: int,
        start: Position,
    ) -> None:
        self.schema = Schema(tuple(c.name for c in columns if c.name != target), target)
        self.n_bytes = table.n_bytes
        self.rejected = Rejected(unit=table.unit)
        self._table = table
        self._known = columns
        self._max_categories = max_categories
        self._start = start
        self._encoder = Encoder(columns, target, max_categories=max_categories)

    @property
    def columns(self) -> tuple[Column, ...]:
        """The kinds of the columns and the categories met so far; the target is the last."""
        return self._encoder.columns

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out ``batch_size`` rows at a time; the last batch may be shorter."""
        batch_size = check_batch_size(batch_size)
        self.rejected = Rejected(unit=self._table.unit)
        n_rows = self._start.rows
        parts = self._encoded()
        if self.n_bytes is not None:  # not where reading may wait for others, and Ctrl-C for it
            parts = ahead(parts)
        for X, y, places in _cut(parts, batch_size):
            n_rows += len(y)
            yield Batch(X, y, Position(n_rows, *places[-1].tolist()))
        if n_rows == 0 and self.rejected.examples:
            raise _unreadable(self._table, *self.rejected.examples[0])

    def _encoded(self) -> Iterator[_Rows]:
        """Chunk by chunk, the usable rows as arrays and where each of them ends."""
        encoder = Encoder(self._known, self.schema.target, max_categories=self._max_categories)
        self._encoder = encoder
        kinds = {column.name: column.kind for column in self._known}
        for chunk in self._table.chunks(kinds, self._start):
            encoded = encoder.encode(chunk.frame)
            faults = [(int(chunk.lines[row]), why) for row, why in encoded.reasons.items()]
            n_bad = len(chunk.faults) + int(np.count_nonzero(~encoded.usable))
            examples = [*self.rejected.examples, *sorted([*chunk.faults, *faults])]
            self.rejected = Rejected(
                self.rejected.count + n_bad, tuple(examples[:N_EXAMPLES]), self._table.unit
            )
            places = chunk.places if n_bad == len(chunk.faults) else chunk.places[encoded.usable]
            yield encoded.X, encoded.y, places


def _choose(table: Table, target: str, exclude: Sequence[str]) -> list[str]:
    """Check the names of the columns; return those to read."""
    names = table.column_names
    name, count = Counter(names).most_common(1)[0]
    if count > 1:
        raise InputError(f'{table.name} has {count} columns of the name "{name}"')
    for name in [target, *exclude]:
        if name not in names:
            raise InputError(f'no column "{name}" in {table.name}; {_hint(name, names)}')
    if target in exclude:
        raise InputError(f'the target column "{target}" cannot be excluded')
    used = [name for name in names if name not in exclude]
    if len(used) < 2:
        raise InputError(f'{table.name} has no column besides the target "{target}"')
    return used


def _hint(name: str, names: Sequence[str]) -> str:
    """Name the nearest column or, if none is near, some of those that are there."""
    same = [other for other in names if other.lower() == name.lower()]
    near = same or difflib.get_close_matches(name, names, n=1)
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f'did you mean "{near[0]}"?' if near else f"it has {', '.join(names[:8])}{more}"


def _sample(table: Table, names: Sequence[str]) -> pl.DataFrame:
    """Read the first rows of a table; in text, all columns as text."""
    import polars as pl

    n_rows = min(SAMPLE_ROWS, max(LEAST_ROWS, _SAMPLE_CELLS // len(names)))
    kinds: dict[str, Kind] = dict.fromkeys(names, "category")
    frames, n_read, first_fault = [], 0, None
    for chunk in table.chunks(kinds, Position(), again=True):
        last_lines = chunk.lines[n_rows - n_read - 1 :][:1]
        for line, reason in chunk.faults:
            if reason == NOT_UTF8 and not (last_lines < line).any():
                raise InputError(f"{table.name} is {NOT_UTF8}: line {line}")
            first_fault = first_fault or (line, reason)
        frames.append(chunk.frame)
        n_read += len(chunk.frame)
        if n_read >= (LEAST_ROWS if chunk.short else n_rows):
            break
    if n_read == 0 and first_fault:
        raise _unreadable(table, *first_fault)
    if n_read == 0:
        raise InputError(f"{table.name} has a header but no rows")
    return pl.concat(frames).head(n_rows)


def _unreadable(table: Table, line: int, reason: str) -> InputError:
    where = f"{table.unit} {line}"
    return InputError(f"{table.name} has no readable rows; first problem: {where}: {reason}")


def _cut(parts: Iterator[_Rows], size: int) -> Iterator[_Rows]:
    """Cut parts of any length into parts of one length; only those across a seam are copied."""
    held: list[_Rows] = []
    n_held = 0
    for X, y, places in parts:
        start = 0
        while start < len(y):
            stop = min(start + size - n_held, len(y))
            held.append((X[start:stop], y[start:stop], places[start:stop]))
            n_held += stop - start
            if n_held == size:
                yield _joined(held)
                held, n_held = [], 0
            start = stop
    if held:
        yield _joined(held)


def _joined(parts: list[_Rows]) -> _Rows:
    if len(parts) == 1:
        return parts[0]
    X, y, places = zip(*parts, strict=True)
    return np.concatenate(X), np.concatenate(y), np.concatenate(places)
