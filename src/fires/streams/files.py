"""A file, or several, is opened as the table it holds, and made a stream."""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
import polars as pl

from fires.columns import Columns, find_doubts
from fires.columns.schema import NO_HINTS, Column, Doubt, Hints, Kind
from fires.columns.target import Target
from fires.core.errors import InputError
from fires.core.output import columns_named, named
from fires.core.types import Ints, JsonObject
from fires.streams import table as tables
from fires.streams import table_stream
from fires.streams.base import Bookmark, Position
from fires.streams.byte_sources import ADVICE, ByteSource, File, Follow, Pipe, kind_of, plain_errors
from fires.streams.columnar import ScannedTable
from fires.streams.json_table import JsonTable
from fires.streams.svmlight import ENDINGS as SVMLIGHT_ENDINGS
from fires.streams.svmlight import SvmlightStream, looks_like_svmlight
from fires.streams.table import Chunk, Chunks, Fault, Kinds, Rejected, Table
from fires.streams.table_stream import TableStream, refuse_unknown, start_of, stream_of
from fires.streams.text import (
    BLOCK,
    FOUND_OUT,
    ArffTable,
    BlockTable,
    TextOptions,
    TextSource,
    TextTable,
    looks_like_arff,
)


class ManyTables(Table):
    """Tables in order. The first says which columns there are.

    A later one may have them in another order. What it lacks is missing in its rows; what only it
    has is not used. After :meth:`let_columns_change`, the rows of each have its own columns.
    """

    def __init__(self, tables: Sequence[Table]) -> None:
        self._tables = tuple(tables)
        first, *later = self._tables
        self.name = _some(*(table.name for table in tables))
        units = {table.unit for table in tables}
        self.unit = units.pop() if len(units) == 1 else "record"
        self.column_names = first.column_names
        self.files = [one for table in tables for one in table.files or [None]]
        sizes = [table.n_bytes for table in tables]
        self.n_bytes = None if None in sizes else sum(size or 0 for size in sizes)
        self._before = np.cumsum([0, *(size or 0 for size in sizes)]).tolist()
        for table in later:
            if set(first.column_names).isdisjoint(table.column_names):
                raise InputError(f"{table.name} has no column of those in {first.name}")
        self._is_open = False
        self._own_notes = list(dict.fromkeys(note for table in tables for note in table.notes))
        self.notes = [*self._own_notes, *self._differences()]

    def let_columns_change(self) -> None:
        """See :class:`fires.streams.table.Table`; ``column_names`` are those of all tables."""
        self._is_open, self.notes = True, self._own_notes
        for table in self._tables:
            table.let_columns_change()
        names = (name for table in self._tables for name in table.column_names)
        self.column_names = tuple(dict.fromkeys(names))

    @property
    def tables(self) -> Sequence[Table]:
        """The tables, in order."""
        return self._tables

    def _differences(self) -> list[str]:
        """How columns of later tables differ from the first; once for all that differ alike."""
        files: dict[tuple[str, str], list[str]] = {}
        first = dict.fromkeys(self.column_names)
        for table in self._tables[1:]:
            others = dict.fromkeys(table.column_names)
            for these, those, what in (
                (first, others, "{} not in {}: missing there"),
                (others, first, "{} only in {}: not used"),
            ):
                if some := [name for name in these if name not in those]:
                    files.setdefault((what, columns_named(some, 5)), []).append(table.name)
        return [what.format(columns, _some(*who)) for (what, columns), who in files.items()]

    def chunks(self, kinds: Kinds, start: Position, n_rows: int | None = None) -> Chunks:
        """Read the tables in order; see :meth:`Table.chunks`."""
        names = [name for name in self.column_names if name in kinds]
        for index, table in enumerate(self._tables[start.file :], start.file):
            present = set(table.column_names)
            absent = [name for name in names if name not in present and not self._is_open]
            lacking = [pl.lit(None, pl.String).alias(name) for name in absent]
            wanted = {name: kinds[name] for name in names if name in present}
            begin = start if index == start.file else Position()
            for chunk in table.chunks(wanted, begin, n_rows):
                end = partial(tables.moved, chunk.end, self._before[index], file=index)
                where = {"file": table.name}
                faults = [fault._replace(where=where) for fault in chunk.faults]
                shown = partial(_fault_in, where, chunk)
                frame = chunk.frame.with_columns(lacking)
                yield replace(chunk, frame=frame, end=end, faults=faults, shown=shown)
                wanted.update({name: kinds[name] for name in wanted})  # it may have changed


def _fault_in(where: JsonObject, chunk: Chunk, row: int) -> Fault:
    return chunk.fault(row)._replace(where=where)


def _some(name: str, *more: str) -> str:
    return f"{name} and {len(more)} more file{'s' * (len(more) > 1)}" if more else name


Source = str | os.PathLike[str] | BinaryIO
Sources = Source | Sequence[Source]
Opened = Table | SvmlightStream

_ENDINGS = {".parquet": "Parquet", ".pq": "Parquet", ".arrow": "Arrow", ".feather": "Arrow"}
_ARRAY = re.compile(rb"\s*\[\s*([\[{]|$)")
_OBJECT = re.compile(rb'\s*\{\s*(["}]|$)')
_NO_PIPE = ("Parquet", "Arrow", "Arrow stream", "zip")


def open_table(
    sources: Sources, options: TextOptions = FOUND_OUT, after: Bookmark | None = None
) -> Opened:
    r"""Find out what files hold by their first bytes.

    Examples
    --------
    >>> import io
    >>> open_table(io.BytesIO(b"a;b\n1;2\n")).column_names
    ('a', 'b')
    """
    if isinstance(sources, str) or not isinstance(sources, Sequence):
        return _open(sources, options, after)
    if not sources:
        raise InputError("there is no file to read")
    opened = [_open(source, options, after) for source in sources]
    if len(opened) == 1:
        return opened[0]
    tables = [table for table in opened if not isinstance(table, SvmlightStream)]
    if len(tables) < len(opened):
        raise InputError("only one svmlight file can be read at a time; join them into one")
    return ManyTables(tables)


def with_names(table: Opened) -> Table:
    """Refuse svmlight."""
    if isinstance(table, SvmlightStream):
        raise InputError(f"{table.name} is svmlight, which has no names for its columns")
    return table


def open_followed(
    source: Sources, options: TextOptions = FOUND_OUT, start: Position | None = None
) -> BlockTable:
    """Open a file that grows, and may be rotated."""
    if isinstance(source, Sequence) and not isinstance(source, str) and len(source) == 1:
        source = source[0]
    if not isinstance(source, (str, os.PathLike)) or source == "-":
        raise InputError("only one file can be followed, by its name")
    name = str(source)
    with plain_errors(name):
        file = Follow(Path(source), start or Position())
        if file.delimiter is not None:  # of a file without a header
            options = replace(options, delimiter=file.delimiter)
        kind = kind_of(file.magic)
        if kind == "text":
            text = TextSource(name, file, options.encoding)
            kind = f"text in {text.encoding}"
            if text.is_direct:
                table = _text_table(text, options)
                if isinstance(table, (TextTable, JsonTable)) and not isinstance(table, ArffTable):
                    file.know(table.column_names, table.delimiter, table.body)
                    return table
                kind = "ARFF"
        raise InputError(f"{name} is {kind}; only plain text in UTF-8 can be followed")


def _open(source: Source, options: TextOptions, after: Bookmark | None) -> Opened:
    """Find out what one file holds."""
    standard_input = getattr(sys.stdin, "buffer", None)
    if source == "-":
        if standard_input is None:  # a program can be started without
            raise InputError("standard input is closed")
        source = standard_input
    path = Path(source) if isinstance(source, (str, os.PathLike)) else None
    name = "standard input" if source is standard_input else "the stream"
    name = name if path is None else str(source)
    with plain_errors(name):
        file: ByteSource
        if path is None:
            file = Pipe(cast("BinaryIO", source))
        elif path.is_fifo() or path.is_char_device():
            file = Pipe(path.open("rb"), close=True)
        else:
            file = File(path)
        kind = kind_of(file.magic)
        if kind in _NO_PIPE and file.identity is None:
            raise InputError(
                f"{name}: {kind} cannot be read from a stream; save it to a file, and give its name"
            )
        if kind in ("Parquet", "Arrow") and path is not None:
            return ScannedTable(path, kind)
        wanted = _ENDINGS.get(path.suffix.lower()) if path and file.identity else None
        if wanted and file.magic and kind not in ADVICE:
            raise InputError(f"{name} is not {'an' if wanted == 'Arrow' else 'a'} {wanted} file")
        return _text_table(TextSource(name, file, options.encoding), options, after)


def _text_table(text: TextSource, options: TextOptions, after: Bookmark | None = None) -> Opened:
    """Find out what a text holds by its ending and its first line."""
    endings = set(Path(text.name.lower()).suffixes)
    first = text.first_line(options.comment or "#")
    if first.startswith(b"%"):
        first = text.first_line("%")
    if ".arff" in endings or looks_like_arff(first):
        return ArffTable(text, options)
    if _ARRAY.match(first):
        raise InputError(
            f"{text.name} is a JSON array; write one object per line, for instance with jq -c '.[]'"
        )
    if endings & {".ndjson", ".jsonl"} or _OBJECT.match(first):
        return JsonTable(text, options.block_size)
    if endings & SVMLIGHT_ENDINGS or looks_like_svmlight(first):
        return SvmlightStream(text, options.block_size, after)
    return TextTable(text, options)


def from_file(
    path: Sources,
    target: str | Target | None = None,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    header: bool = True,
    comment: str | None = None,
    follow: bool = False,
    after: Bookmark | None = None,
    block_size: int = BLOCK,
    **options: Any,
) -> TableStream:
    r"""Make a stream of a table in a file, in bounded memory however long the file is.

    The kind of each column is determined from the first rows, 10,000 at most; see
    :class:`fires.columns.Columns`. A pipe is read as it fills: rows are returned as soon as there
    are enough for a batch; kinds are determined from 100 rows if no more come within a tenth of a
    second. A cell that cannot be read is a missing value, counted for its column. A row is rejected
    only if its target cannot be read, if it has too many or too few fields, or if its bytes are not
    text; such rows are counted and shown.

    Parameters
    ----------
    path : path, "-" for standard input, or binary file; or a sequence of them
        The format is detected from its first bytes: Parquet, Arrow, svmlight, one JSON object per
        line, or text with a header, with fields separated by comma, semicolon, tab or bar. Text may
        be compressed with gzip, zstd, bz2, xz or zip. Several files form one table, in order; their
        columns are those of the first.
    target : str, or Target, optional
        The column to predict. Labels keep their type: whole numbers, booleans, text; other
        numbers, and dates, are float64. The ``target`` of another stream is read as in that
        stream. Only svmlight needs none: it has its own.
    delimiter : str, optional
        The field separator; detected by default.
    encoding : str, optional
        The encoding of the text, if it is not UTF-8 and has no byte order mark.
    header : bool
        Whether the first record has the names of the columns.
    comment : str, optional
        Lines that begin with it are skipped.
    follow : bool
        Whether the file grows: the stream then does not end, and waits for more lines. It continues
        with the next file after a rotation, that is, when this one is renamed or truncated; see
        :class:`fires.streams.byte_sources.Follow`.
    after : dict, optional
        The ``bookmark()`` of an earlier stream of this table: reading continues after its last
        batch, with the same kinds of columns, whatever the other options are.
    block_size : int
        Bytes of text to parse at once. The batches do not depend on it.
    **options
        What is said of the columns; see below.

    Returns
    -------
    TableStream
        The stream.

    Other Parameters
    ----------------
    exclude : sequence of str
        Columns to leave out.
    holds : {"auto", "classes", "numbers"}
        The kind of target. "auto": text, whole numbers and booleans are classes, everything else
        numbers.
    max_categories : int
        How many categories of a column get a code of their own. All later ones share one code.
    categorical, numeric : sequence of str
        Columns that hold categories, and columns that hold numbers, whatever they look like.
    na_values : sequence of str
        More words for a missing value.
    decimal, thousands : str, optional
        The decimal and the thousands separator; detected by default.
    dates : {"day-first", "month-first"}, optional
        How 02/01/2024 is read, if the sample is ambiguous.
    categories : {"target", "codes"}
        How categories are encoded: by the target in earlier rows
        (:class:`fires.columns.target.TargetStatistics`), or as 0, 1, 2, ... in order of appearance.
    keep_doubtful : bool
        Whether to use ids, clocks and copies of other columns as features. Suspicious columns are
        listed in ``doubts``; see :func:`fires.columns.find_doubts`.
    columns : {"fixed", "open"}
        ``"fixed"``: the columns of all files are those of the first. What a later one lacks is
        missing, columns that only it has are ignored. ``"open"``: each file has its own columns,
        and each JSON object its own keys. The ``names`` of a batch are those of its columns. No
        batch spans two files with different columns. With JSON, a batch has the keys of its
        objects. The kind of a new column is determined from the first block of rows that has it.
    time : str, optional
        The column with the time of each row: dates, or seconds since 1970. It is not a feature; the
        ``times`` of a batch have it.

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
    text = TextOptions(delimiter, encoding, header, comment, block_size)
    table: Opened
    if follow:
        table = open_followed(path, text, None if after is None else start_of(after))
    else:
        table = open_table(path, text, after)
    settings = {*signature(stream_of).parameters, *signature(Hints).parameters}
    for name in options.keys() - settings:
        raise TypeError(f"from_file() got an unexpected keyword argument {name!r}")
    if isinstance(table, SvmlightStream) and options.get("columns") != "open":
        return cast("TableStream", table)  # it can do the same
    return stream_of(with_names(table), target, after=after, **options)


def look_at(
    path: Sources,
    target: str | None = None,
    *,
    exclude: Sequence[str] = (),
    hints: Hints = NO_HINTS,
    options: TextOptions | None = None,
) -> TableStream:
    r"""Find out what the columns of a table hold, by its first rows. Nothing is to be predicted.

    Examples
    --------
    >>> import io
    >>> look = look_at(io.BytesIO(b"price,town\n$3,Ulm\n$4.50,Bonn\n"))
    >>> [(column["name"], column["kind"]) for column in look.columns.describe()]
    [('price', 'number'), ('town', 'category')]
    """
    table = with_names(open_table(path, options or TextOptions()))
    refuse_unknown(table, exclude)
    left_out = set(exclude)
    used = [name for name in table.column_names if name not in left_out]
    sample = table_stream.read_sample(table, used, used, target)
    # Whoever learns from the table has a target, and encodes categories by it.
    learnt = Columns.learn(sample, hints, y=np.zeros(1))
    doubts = tuple(find_doubts(sample, columns=learnt))
    if target is not None and target in sample.columns:
        with suppress(InputError):  # a target that cannot be predicted is no matter here
            labels = Target.learn(sample[target], hints, "classes")
            doubts = table_stream.doubts_of(sample, learnt, labels)
    _, columns = learnt.encode(sample)
    return TableStream(table, columns, Target(Column("", "empty")), doubts)


# --- rows of which nothing is to be learnt --------------------------------------------------------

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
        path: Sources,
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
        return f"absent, counted as missing: {_columns(told)}" if told else ""

    def surprises(self) -> list[str]:
        """What a user should know about the table, in one line each."""
        return self._table.surprises()

    def batches(self, batch_size: int) -> Iterator[Rows]:
        """Hand out the rows in order, as soon as they are read."""
        self.rejected = Rejected(unit=self._table.unit)
        n_rows = 0
        chunks = self._table.chunks(self._kinds, Position())
        if self.n_bytes is not None:  # reading may wait for others, and then Ctrl-C would wait too
            chunks = tables.read_ahead(chunks)
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
            raise tables.unreadable(self._table.name, self._table.unit, *self.rejected.examples[0])

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
