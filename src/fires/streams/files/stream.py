"""A stream over the table in a file, or in several."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, cast

from fires.columns.schema import N_EXAMPLES, NO_HINTS, Column, Hints
from fires.core.errors import InputError, Question
from fires.streams.base import Batch, Position, Schema, check_batch_size
from fires.streams.cutting import PlacedRows, cut
from fires.streams.files.read_ahead import read_ahead
from fires.streams.files.table import Chunk, FileTable, surprises_of, unreadable
from fires.streams.files.text_blocks import BLOCK

if TYPE_CHECKING:
    import polars as pl

    from fires.columns import Columns, Doubt
    from fires.columns.schema import Kind
    from fires.columns.target import Target
    from fires.streams.files.opening import Source
    from fires.streams.files.options import TextOptions


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

    def more(
        self, count: int, found: Iterable[tuple[int, str]], source: str | None = None
    ) -> Rejected:
        """With more rows, in the order in which they come.

        Parameters
        ----------
        count : int
            How many more there are.
        found : iterable of (line, reason)
            The first of them.
        source : str, optional
            The file they are from, where there are several.

        Returns
        -------
        Rejected
        """
        where = "" if source is None else f" ({source})"
        named = [(line, why + where) for line, why in sorted(found)]
        examples = (*self.examples, *named)[:N_EXAMPLES]
        return Rejected(self.count + count, examples, self.unit)


def from_file(
    path: Source | Sequence[Source],
    target: str | Target | None = None,
    *,
    exclude: Sequence[str] = (),
    holds: Literal["auto", "classes", "numbers"] = "auto",
    max_categories: int = 1000,
    categorical: Sequence[str] = (),
    numeric: Sequence[str] = (),
    na_values: Sequence[str] = (),
    decimal: str | None = None,
    thousands: str | None = None,
    dates: Literal["day-first", "month-first"] | None = None,
    categories: Literal["target", "codes"] = "target",
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    comment: str | None = None,
    columns: Columns | None = None,
    keep_doubtful: bool = True,
    start: Position | None = None,
    block_size: int = BLOCK,
) -> FileStream:
    r"""Make a stream of a table in a file, in bounded memory however long the file is.

    What each column holds is found out from the first rows, 10,000 at most; see
    :class:`fires.columns.Columns`. A pipe is read as it fills: its rows are handed out as soon as
    there are enough for a batch, and 100 of them are looked at if no more come within a tenth of a
    second. A cell that cannot be read is a missing value, counted for its column. A row is left out
    only if its target cannot be read, if it has too many or too few fields, or bytes that are no
    text; such rows are counted and shown.

    Parameters
    ----------
    path : path, "-" for standard input, or binary file; or a sequence of them
        What it holds is found out from its first bytes: Parquet, Arrow, svmlight, a JSON object in
        each line, or text with a header, its fields separated by a comma, semicolon, tab or bar.
        Text may be packed with gzip, zstd, bz2, xz or zip. Several files hold one table, in order;
        their columns are those of the first.
    target : str, or Target, optional
        The column to predict. Its labels stay what they are: whole numbers, true and false,
        text; other numbers, and dates, are float64. The ``target`` of an earlier stream is read as
        it was there. Only svmlight needs none: it has its own.
    exclude : sequence of str
        Columns to leave out.
    holds : {"auto", "classes", "numbers"}
        What the target holds. "auto": text, whole numbers, true and false are classes; all else is
        numbers.
    max_categories : int
        How many categories of a column get a code of their own. All later ones share the next.
    categorical, numeric : sequence of str
        Columns that hold categories, and columns that hold numbers, whatever they look like.
    na_values : sequence of str
        More words for a missing value.
    decimal, thousands : str, optional
        What stands before decimals, and between groups of three digits, where it should not be
        found out.
    dates : {"day-first", "month-first"}, optional
        How 02/01/2024 is read, where the sample does not tell.
    categories : {"target", "codes"}
        How categories become numbers: by the target of the rows before
        (:mod:`fires.columns.statistics`), or as 0, 1, 2, ... in order of appearance.
    delimiter : str, optional
        What separates the fields, where it should not be guessed.
    encoding : str, optional
        How the text was written, where neither a byte order mark tells nor it is UTF-8.
    header : bool
        The first record holds the names of the columns.
    comment : str, optional
        Lines that begin with it are skipped.
    columns : Columns, optional
        The ``columns`` of an earlier stream of this table: kinds and codes go on as they were.
        If its ``target`` is given too, nothing is found out from the first rows.
    keep_doubtful : bool
        Whether ids, clocks and copies of other columns are features all the same. What is doubted
        is in ``doubts``; see :func:`fires.columns.find_doubts`.
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
    >>> text = b"age,town,paid\n31,Bonn,yes\n52,Ulm,no\nold,Ulm,no\n45,Ulm\n?,Ulm,yes\n27,Ulm,no\n"
    >>> stream = from_file(io.BytesIO(text), "paid", categories="codes")
    >>> [(batch.X.tolist(), batch.y.tolist()) for batch in stream.batches(3)]
    [([[31.0, 0.0], [52.0, 1.0], [nan, 1.0]], ['yes', 'no', 'no']),
     ([[nan, 1.0], [27.0, 1.0]], ['yes', 'no'])]
    >>> stream.rejected.examples
    ((5, '2 fields, the header has 3'),)
    >>> [(column["name"], column["unreadable"]) for column in stream.columns.describe()]
    [('age', 1), ('town', 0)]
    """
    # Here and not above, because polars takes a while to load.
    from fires.columns import Columns
    from fires.columns.doubts import without_doubtful
    from fires.columns.target import Target
    from fires.streams.files.opening import choose_columns, open_table, read_sample
    from fires.streams.files.options import TextOptions
    from fires.streams.files.svmlight import SvmlightFile, SvmlightStream

    hints = Hints(
        categorical, numeric, na_values, decimal, thousands, dates, max_categories, categories
    )
    table = open_table(path, TextOptions(delimiter, encoding, header, comment), block_size)
    if isinstance(table, SvmlightFile):
        return cast("FileStream", SvmlightStream(table, start))  # it can do the same
    if target is None:
        raise Question("the column to predict is not named", table.name, "say {target=COL}")
    name = target.column.name if isinstance(target, Target) else target
    used = choose_columns(table, name, [exclude] if isinstance(exclude, str) else exclude)
    if columns is not None and {*(c.name for c in columns.used), name} - set(used):
        raise InputError(f"{table.name} does not have the columns of the earlier run")
    doubts: tuple[Doubt, ...] = ()
    if columns is None or isinstance(target, str):
        special = {name, *hints.categorical, *hints.numeric}
        as_text = used if hints.decimal or hints.thousands else special.intersection(used)
        sample = read_sample(table, used, as_text)
        if isinstance(target, str):
            target = Target.learn(sample[target], hints, holds)
        if columns is None:
            features = [column for column in used if column != name]
            known = target.read(sample[name]).y
            columns = Columns.learn(sample.drop(name), hints, features, known)
            doubts = _find_doubts(sample, columns, target)
            if not keep_doubtful:
                columns = without_doubtful(columns, doubts)
    if not columns.names:
        raise InputError(f"{table.name} has no column that can be used besides the target")
    return FileStream(table, columns, target, start or Position(), doubts)


def _find_doubts(sample: pl.DataFrame, columns: Columns, target: Target) -> tuple[Doubt, ...]:
    """The columns of a sample that one should not believe."""
    from fires.columns import find_doubts

    name = target.column.name
    labels = target.read(sample[name])
    if labels.usable is not None:
        sample = sample.filter(labels.usable)
    return tuple(find_doubts(sample.drop(name), labels.y, columns)) if len(sample) else ()


def look_at(
    path: Source | Sequence[Source],
    target: str | None = None,
    *,
    exclude: Sequence[str] = (),
    hints: Hints = NO_HINTS,
    options: TextOptions | None = None,
) -> FileStream:
    r"""Find out what the columns of a table hold, by its first rows. Nothing is to be predicted.

    Parameters
    ----------
    path : path, "-" for standard input, or binary file; or a sequence of them
        As in :func:`from_file`.
    target : str, optional
        The column to predict, if it is known: others may tell it.
    exclude : sequence of str
        Columns to leave out.
    hints : Hints
        What the user says about the columns.
    options : TextOptions, optional
        What the user says about a text.

    Returns
    -------
    FileStream
        Its ``columns``, ``doubts`` and ``surprises`` are of use, its batches are not.

    Examples
    --------
    >>> import io
    >>> look = look_at(io.BytesIO(b"price,town\n$3,Ulm\n$4.50,Bonn\n"))
    >>> [(column["name"], column["kind"]) for column in look.columns.describe()]
    [('price', 'number'), ('town', 'category')]
    """
    from fires.columns import Columns, find_doubts
    from fires.columns.target import Target
    from fires.streams.files.opening import exclude_columns, open_table, read_sample
    from fires.streams.files.options import TextOptions
    from fires.streams.files.svmlight import SvmlightFile

    table = open_table(path, options or TextOptions())
    if isinstance(table, SvmlightFile):
        raise InputError(f"{table.text.name} is svmlight: {table.n_features:,} columns of numbers")
    used = exclude_columns(table, exclude)
    sample = read_sample(table, used, used)
    learnt = Columns.learn(sample, hints)
    doubts = tuple(find_doubts(sample, columns=learnt))
    if target is not None and target in sample.columns:
        with suppress(InputError):  # a target that cannot be predicted is no matter here
            labels = Target.learn(sample[target], hints, "classes")
            doubts = _find_doubts(sample, learnt, labels)
    _, columns = learnt.encode(sample)
    return FileStream(table, columns, Target(Column("", "empty")), Position(), doubts)


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
    columns : Columns
        What is known of the columns after the last batch.
    target : Target
        What the target holds.
    doubts : tuple of Doubt
        The columns that one should not believe, by the first rows.
    """

    def __init__(
        self,
        table: FileTable,
        columns: Columns,
        target: Target,
        start: Position,
        doubts: Sequence[Doubt] = (),
    ) -> None:
        self.schema = Schema(columns.names, target.column.name)
        self.n_bytes = table.n_bytes
        self.rejected = Rejected(unit=table.unit)
        self.columns, self.target, self.doubts = columns, target, tuple(doubts)
        self._table = table
        self._known = columns
        self._start = start

    def surprises(self) -> list[str]:
        """What a user should know about the columns, in one line each; doubts stand apart.

        Returns
        -------
        list of str
            Empty if everything is as it seems.
        """
        from fires.columns import account

        doubted = [doubt.column for doubt in self.doubts]
        return surprises_of(self._table) + account.surprises(self.columns, doubted)

    def describe(self) -> list[dict[str, Any]]:
        """What each column holds, what was done with it, and what is doubtful about it.

        Returns
        -------
        list of dict
            As of :meth:`fires.columns.Columns.describe`, with ``doubt``: a text, maybe empty.
        """
        doubts = {doubt.column: str(doubt) for doubt in self.doubts}
        return [row | {"doubt": doubts.get(row["name"], "")} for row in self.columns.describe()]

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
        n_rows, n_encoded = self._start.rows, self._known.tallies.n_rows
        statistics = self._known.statistics
        with closing(self._encoded()) as blocks:
            for X, y, places, columns in cut(blocks, batch_size):
                restarted = columns.restarted(n_encoded, n_encoded + len(y))
                n_rows, n_encoded = n_rows + len(y), n_encoded + len(y)
                X, columns = columns.knowing(statistics).by_target(X, y, n_encoded)
                self.columns, statistics = columns, columns.statistics
                position = Position(n_rows, *places[-1].tolist())
                yield Batch(X, y, position, restarted=restarted, columns=columns)
        if n_rows == 0 and self.rejected.examples:
            raise unreadable(self._table, *self.rejected.examples[0])

    def _encoded(self) -> Generator[PlacedRows, None, None]:
        """Read, parse and encode the table, block by block."""
        kinds: dict[str, Kind] = {
            column.name: "number" if column.is_plain else "category" for column in self._known.used
        }
        target = self.target.column
        kinds[target.name] = (
            target.kind if target.kind == "integer" or target.is_plain else "category"
        )
        if target.why:  # beyond the range of the usual whole numbers
            kinds[target.name] = "category"
        chunks = self._table.chunks(kinds, self._start)
        if self.n_bytes is None:  # reading may wait for others, and then Ctrl-C would wait for it
            return self._encode(chunks, kinds)
        return read_ahead(self._encode(read_ahead(chunks), kinds))

    def _encode(
        self, chunks: Generator[Chunk, None, None], kinds: dict[str, Kind]
    ) -> Generator[PlacedRows, None, None]:
        """Turn chunks into arrays, and keep account of the rows that cannot be used."""
        columns, name = self._known, self.schema.target
        with closing(chunks):
            for chunk in chunks:
                frame, places, numbers = chunk.frame, chunk.places, chunk.numbers
                self.target = self.target.opened(frame[name])
                labels = self.target.read(frame[name])
                if labels.usable is not None:
                    frame, places = frame.filter(labels.usable), places[labels.usable]
                    numbers = None if numbers is None else numbers.rows(labels.usable)
                if chunk.faults or labels.usable is not None:
                    self._reject(chunk, labels.reasons, len(chunk.lines) - len(places))
                _take_as_text(kinds, frame)
                X, columns = columns.encode(frame.drop(name), numbers)
                yield PlacedRows(X, labels.y, places, columns)

    def _reject(self, chunk: Chunk, reasons: Mapping[int, str], n_unusable: int) -> None:
        unusable = [(int(chunk.lines[row]), why) for row, why in reasons.items()]
        count = len(chunk.faults) + n_unusable
        self.rejected = self.rejected.more(count, [*chunk.faults, *unusable], chunk.source)


def _take_as_text(kinds: dict[str, Kind], frame: pl.DataFrame) -> None:
    """Let columns come as text from now on if some of their cells are no numbers for a parser.

    A block in which one such cell is met is parsed again, all of it as text.
    """
    import polars as pl

    for column, dtype in frame.schema.items():
        if dtype == pl.String and kinds[column] in ("number", "integer"):
            text = frame[column]
            wanted = pl.Float64 if kinds[column] == "number" else pl.Int64
            if text.cast(wanted, strict=False).null_count() > text.null_count():
                kinds[column] = "category"
