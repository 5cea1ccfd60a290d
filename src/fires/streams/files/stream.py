"""A stream over a file: CSV and TSV, plain or packed with gzip, Parquet, or standard input."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from fires.columns.schema import N_EXAMPLES, Column
from fires.core.errors import InputError
from fires.streams.base import Batch, Position, Schema, check_batch_size
from fires.streams.cutting import PlacedRows, cut
from fires.streams.files.read_ahead import read_ahead
from fires.streams.files.table import Chunk, FileTable, unreadable
from fires.streams.files.text_blocks import BLOCK

if TYPE_CHECKING:
    from fires.columns.encoders import Encoder
    from fires.streams.files.opening import Source


@dataclass(frozen=True)
class Rejected:
    """The rows that could not be used.

    Parameters
    ----------
    count : int
        How many there are.
    examples : tuple of (line, reason)
        The first ten.
    unit : str
        What is counted: a "line" of text, or a "row" of a Parquet file.
    """

    count: int = 0
    examples: tuple[tuple[int, str], ...] = ()
    unit: str = "line"


def from_file(
    path: Source | Sequence[Source],
    target: str | None = None,
    *,
    exclude: Sequence[str] = (),
    max_categories: int = 1000,
    numeric_target: bool = False,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    comment: str | None = None,
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
    path : path, "-" for standard input, or binary file; or a sequence of them
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
    encoding : str, optional
        How the text was written, where neither a byte order mark tells nor it is UTF-8.
    header : bool
        The first record holds the names of the columns.
    comment : str, optional
        Lines that begin with it are skipped.
    columns : sequence of Column, optional
        The ``columns`` of an earlier stream of this table: kinds and codes go on as they were.
    start : Position, optional
        The position of the last batch of an earlier stream: reading goes on after it.
    block_size : int
        Bytes of text to parse at once. The batches do not depend on it.

    Returns
    -------
    FileStream
        The stream.

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
    # Here and not above, because polars takes a while to load.
    from fires.columns.kinds import find_kinds
    from fires.streams.files.opening import choose_columns, open_table, read_sample
    from fires.streams.files.options import TextOptions
    from fires.streams.files.svmlight import SvmlightFile, SvmlightStream

    options = TextOptions(delimiter, encoding, header, comment)
    table = open_table(path, options, block_size)
    if isinstance(table, SvmlightFile):
        return cast("FileStream", SvmlightStream(table, start))  # it can do the same
    if target is None:
        raise InputError(f"{table.name}: say which column to predict")
    used = choose_columns(table, target, [exclude] if isinstance(exclude, str) else exclude)
    if columns is None:
        columns = find_kinds(read_sample(table, used), target, numeric_target=numeric_target)
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
        table: FileTable,
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
        self._encoder = self._new_encoder()

    @property
    def columns(self) -> tuple[Column, ...]:
        """Describe the columns, so that a later stream can go on with their kinds and codes.

        Returns
        -------
        tuple of Column
            With the categories met so far; the target is the last.
        """
        return self._encoder.columns

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows in order.

        Parameters
        ----------
        batch_size : int
            How many rows each batch has; the last one may have fewer.

        Returns
        -------
        iterator of Batch
            Views of larger arrays, where a batch does not lie across two of them.
        """
        batch_size = check_batch_size(batch_size)
        self.rejected = Rejected(unit=self._table.unit)
        n_rows = self._start.rows
        with closing(self._encoded()) as blocks:
            for X, y, places in cut(blocks, batch_size):
                n_rows += len(y)
                yield Batch(X, y, Position(n_rows, *places[-1].tolist()))
        if n_rows == 0 and self.rejected.examples:
            raise unreadable(self._table, *self.rejected.examples[0])

    def _new_encoder(self) -> Encoder:
        from fires.columns.encoders import Encoder

        return Encoder(self._known, self.schema.target, max_categories=self._max_categories)

    def _encoded(self) -> Generator[PlacedRows, None, None]:
        """Read, parse and encode the table, block by block."""
        encoder = self._encoder = self._new_encoder()
        chunks = self._table.chunks({c.name: c.kind for c in self._known}, self._start)
        if self.n_bytes is None:  # reading may wait for others, and then Ctrl-C would wait for it
            return self._encode(chunks, encoder)
        return read_ahead(self._encode(read_ahead(chunks), encoder))

    def _encode(
        self, chunks: Generator[Chunk, None, None], encoder: Encoder
    ) -> Generator[PlacedRows, None, None]:
        """Turn chunks into arrays, and keep account of the rows that cannot be used."""
        with closing(chunks):
            for chunk in chunks:
                encoded = encoder.encode(chunk.frame)
                n_unusable = len(chunk.lines) - len(encoded.y)
                if chunk.faults or n_unusable:
                    self._reject(chunk, encoded.reasons, n_unusable)
                places = chunk.places[encoded.usable] if n_unusable else chunk.places
                yield PlacedRows(encoded.X, encoded.y, places)

    def _reject(self, chunk: Chunk, reasons: Mapping[int, str], n_unusable: int) -> None:
        unusable = [(int(chunk.lines[row]), why) for row, why in reasons.items()]
        examples = [*self.rejected.examples, *sorted([*chunk.faults, *unusable])]
        count = self.rejected.count + len(chunk.faults) + n_unusable
        self.rejected = Rejected(count, tuple(examples[:N_EXAMPLES]), self._table.unit)
