"""A stream over a table: in files, in a database, or in the messages of a broker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from fires.columns import Columns, find_doubts
from fires.columns.columns import ColumnFacts
from fires.columns.kinds import find_column, split_time
from fires.columns.schema import Column, DateForm, Doubt, Hints, Kind
from fires.columns.target import Target, TargetStatistics
from fires.core.errors import InputError, Question, closest, undamaged
from fires.core.settings import check_choice
from fires.core.types import Floats
from fires.core.validation import take_rows
from fires.streams import table as tables
from fires.streams import text as texts
from fires.streams.base import Batch, Bookmark, Position, Schema
from fires.streams.byte_sources import changed, read_so_far, refuse_others
from fires.streams.table import Chunk, Chunks, Fault, Left, Rejected, Start, Table

_SAMPLE_CELLS = 2_000_000
# A text of which more rows of the sample are not UTF-8 was written in another way.
_MOST_NOT_TEXT = 0.05


def choose_columns(table: Table, target: str, exclude: Collection[str]) -> list[str]:
    """Check the names of the columns."""
    for part in table.tables:
        if target not in part.column_names:
            raise no_column(target, part.column_names, part.name)
    if target in exclude:
        raise InputError(f'the target column "{target}" cannot be excluded')
    left_out = set(exclude)
    used = [name for name in table.column_names if name not in left_out]
    if len(used) < 2:
        raise InputError(f'{table.name} has no column besides the target "{target}"')
    return used


def refuse_unknown(table: Table, names: Collection[str]) -> None:
    """Raise if a table does not have a column that the user named."""
    known = {name for part in table.tables for name in part.column_names}
    for name in names:
        if name not in known:
            raise no_column(name, table.column_names, table.name)


def no_column(name: str, names: Sequence[str], where: str) -> InputError:
    """Make the error that there is no such column; it names the nearest, or some that are there."""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    hint = closest(name, names, f"it has {', '.join(names[:8])}{more}", quote='"')
    return InputError(f'no column "{name}" in {where}', hint=hint)


def read_sample(
    table: Table, names: Sequence[str], as_text: Collection[str] = (), label: str | None = None
) -> pl.DataFrame:
    """Read the first rows of a table."""
    n_rows = min(tables.SAMPLE_ROWS, max(tables.LEAST_ROWS, _SAMPLE_CELLS // len(names)))
    kinds: dict[str, Kind] = dict.fromkeys(names, "category")
    if len(names) > texts.WIDE:
        kinds.update(dict.fromkeys(set(names).difference(as_text), "number"))
    kinds |= {name: "label" for name in names if name == label}
    frames: list[pl.DataFrame] = []
    faults: list[Fault] = []
    met_as_text: set[str] = set()
    n_read = 0
    try:
        for chunk in table.chunks(kinds, Position(), n_rows=n_rows):
            last_lines = chunk.lines[n_rows - n_read - 1 :][:1]
            faults += [fault for fault in chunk.faults if not (last_lines < fault.line).any()]
            frames.append(_with_numbers(chunk, met_as_text))
            n_read += len(chunk.lines)
            if n_read >= (tables.LEAST_ROWS if chunk.short else n_rows):
                break
    except InputError:
        if n_read == 0:
            raise
        # What was read before the damage is read again, and then the error is met again.
    no_text = [fault.line for fault in faults if fault.reason == texts.NOT_UTF8]
    most = _MOST_NOT_TEXT * (len(no_text) + min(n_read, n_rows))
    if table.unit == "line" and len(no_text) > most:
        raise texts.not_text(table.name, no_text[0])
    if n_read == 0 and faults:
        raise tables.unreadable(table.name, table.unit, *faults[0][:2])
    if n_read == 0:
        raise InputError(f"{table.name} has a header but no rows")
    return _joined(frames).head(n_rows)


def _with_numbers(chunk: Chunk, as_text: set[str]) -> pl.DataFrame:
    """The rows as a frame, with those numbers that are text in rows before, which it adds to."""
    if chunk.numbers is None:
        return chunk.frame
    X: Any = chunk.numbers.matrix
    late = as_text.difference(chunk.frame.columns)
    as_text.update(chunk.frame.columns)
    return chunk.frame.with_columns(
        pl.Series(name, X[:, chunk.numbers.names.index(name)]).fill_nan(None).cast(pl.String)
        for name in late
    )


def _joined(frames: list[pl.DataFrame]) -> pl.DataFrame:
    """Rows under one another; where files give a column different types, as one that fits all."""
    nested = {name: t for frame in frames for name, t in frame.schema.items() if t.is_nested()}
    alike = [
        frame.with_columns(
            pl.lit(None, nested[name]).alias(name)
            for name in nested.keys() & frame.schema.keys()
            if frame.schema[name] != nested[name]
        )
        for frame in frames
    ]
    found = pl.concat(alike, how="diagonal_relaxed")
    # Of very many columns, rows lack those that hold numbers.
    lack = any(frame.width < found.width for frame in frames)
    return found.select(sorted(found.columns)) if lack else found


_LINE_END = 2


def stream_of(
    table: Table,
    target: str | Target | None,
    *,
    exclude: Sequence[str] = (),
    holds: Literal["auto", "classes", "numbers"] = "auto",
    keep_doubtful: bool = True,
    after: Bookmark | None = None,
    columns: Literal["fixed", "open"] = "fixed",
    **said_of_columns: Any,
) -> TableStream:
    """Make a stream of a table; what else is said of its columns are the settings of Hints."""
    hints = Hints(**said_of_columns)
    if after is not None:
        stream = TableStream.at(table, after)
        wanted = {stream.schema.target, stream.columns.hints.time} - {None}
        if not stream.is_open:
            wanted |= {column.name for column in stream.columns.used}
        if wanted - set(table.column_names):
            raise InputError(f"{table.name} does not have the columns of the earlier run")
        return stream
    if target is None:
        raise Question("no target column is given", table.name, "give {target=COL}")
    name = target.column.name if isinstance(target, Target) else target
    exclude = [exclude] if isinstance(exclude, str) else exclude
    check_choice("columns", columns, ("fixed", "open"))
    is_open = columns == "open"
    if is_open:
        table.let_columns_change()
    timed = [] if hints.time is None else [hints.time]
    if hints.time in (name, *exclude):
        raise InputError(
            f'the column "{hints.time}" is the time of the rows: it cannot be the target'
        )
    refuse_unknown(table, [*exclude, *timed])
    parts = table.tables if is_open else [table]
    first, (used, *_) = parts[0], [choose_columns(part, name, exclude) for part in parts]
    special = {name, *timed, *hints.categorical, *hints.numeric}
    as_text = used if hints.decimal or hints.thousands else special.intersection(used)
    sample = read_sample(first, used, as_text, name)
    if isinstance(target, str):
        target = Target.learn(sample[target], hints, holds)
    features = [column for column in used if column not in (name, hints.time)]
    for time in timed:  # later dates are read in the order in which the first ones are
        form = find_column(sample[time], hints).form
        if isinstance(form, DateForm) and form.order != "year-first":
            hints = replace(hints, dates=form.order)
        sample, _ = split_time(sample, time, hints, needed=True)
    known = target.read(sample[name]).y
    learnt = Columns.learn(sample.drop(name), hints, features, known)
    doubts = doubts_of(sample, learnt, target)
    if not keep_doubtful:
        learnt = learnt.leaving_out(doubts)
    if not learnt.names:
        raise InputError(f"{first.name} has no column that can be used besides the target")
    return TableStream(table, learnt, target, doubts, exclude if is_open else None)


def start_of(bookmark: Bookmark) -> Position:
    """Where reading will go on: at the block of rows in which the last batch ended."""
    with undamaged("the bookmark is"):
        return Position(**bookmark["start"])


def doubts_of(sample: pl.DataFrame, columns: Columns, target: Target) -> tuple[Doubt, ...]:
    """The columns of a sample that one should not believe."""
    name = target.column.name
    labels = target.read(sample[name])
    if labels.usable is not None:
        sample = sample.filter(labels.usable)
    return tuple(find_doubts(sample.drop(name), labels.y, columns)) if len(sample) else ()


class TableStream(tables.BlockStream):
    """The rows of a table, in order. Made by :func:`stream_of`."""

    def __init__(
        self,
        table: Table,
        columns: Columns,
        target: Target,
        doubts: Sequence[Doubt] = (),
        excluded: Sequence[str] | None = None,
    ) -> None:
        super().__init__(table.name, table.n_bytes)
        self.schema = Schema(columns.names, target.column.name)
        self.columns, self.target, self.doubts = columns, target, tuple(doubts)
        self.on_idle: Callable[[], object] = bool
        self.is_open = excluded is not None
        self._excluded = frozenset(excluded or ())  # never learnt, where columns are open
        self._table = table
        start = Start(Position(), columns, target)
        rejected = Rejected(unit=table.unit)
        self._begin(Left(start.position, start, 0, columns.statistics, rejected))

    @classmethod
    def at(cls, table: Table, bookmark: Bookmark) -> TableStream:
        """The stream that goes on where an earlier one of the table was."""
        table.refuse_bookmark()
        left = Left.from_json(bookmark, table.name, table.unit)
        with undamaged(f"the bookmark of {table.name} is"):
            columns = Columns.from_json(bookmark["columns"])
            target = Target(Column.from_json(bookmark["target"]), columns.hints)
            doubts, excluded = [Doubt(**one) for one in bookmark["doubts"]], None
            if bookmark.get("open"):
                excluded = list(map(str, bookmark["excluded"]))
                table.let_columns_change()
            stream = cls(table, columns, target, doubts, excluded)
            late = {str(name): int(line) for name, line in bookmark["new_fields"].items()}
            table.new_fields = late | {**table.new_fields}
            statistics = bookmark["statistics"]
            if statistics is not None:
                statistics = TargetStatistics.from_json(statistics)
            start, n_used = Start(start_of(bookmark), columns, target), int(bookmark["n_used"])
            stream._begin(left._replace(start=start, n_used=n_used, statistics=statistics))
        stream.columns = columns.knowing(statistics)
        if table.files is not None:
            refuse_others(table.files, bookmark.get("files"), left.position)
        return stream

    def after(self, bookmark: Bookmark) -> TableStream:
        """The stream that goes on where this one was."""
        return TableStream.at(self._table, bookmark)

    def bookmark(self) -> Bookmark:
        """Where the last batch ends, and what is known of the columns there.

        A batch may end within a block of rows that was encoded as a whole. So this says where the
        block begins, what was known there, and how many of its rows have been handed out.
        """
        self._table.refuse_bookmark()
        left, start, statistics = self._left, self._left.start, self._left.statistics
        assert start is not None
        files = self._table.files
        found = left.as_json() | {
            "start": asdict(start.position),
            "n_used": left.n_used,
            "columns": start.columns.as_json(),
            "statistics": None if statistics is None else statistics.as_json(),
            "target": start.target.column.as_json(),
            "doubts": [asdict(doubt) for doubt in self.doubts],
            "new_fields": self._table.late_fields(),
            "files": None if files is None else read_so_far(files, left.position),
        }
        return found | ({"open": True, "excluded": sorted(self._excluded)} if self.is_open else {})

    def surprises(self) -> list[str]:
        """What a user should know about the columns, in one line each; doubts stand apart."""
        doubted = [doubt.column for doubt in self.doubts]
        return self._table.surprises() + self.columns.surprises(doubted)

    def lag(self) -> int | None:
        """How many rows wait in the source now, if it knows; any thread may ask."""
        return self._table.lag()

    def describe(self) -> list[ColumnFacts]:
        """What each column holds, what was done with it, and what is doubtful about it."""
        doubts = {doubt.column: str(doubt) for doubt in self.doubts}
        return [row | {"doubt": doubts.get(row["name"], "")} for row in self.columns.describe()]

    def _batch(self, rows: Batch, left: Left) -> tuple[Left, Batch]:
        """Put what categories say in the place of their codes; of open columns, say which."""
        assert rows.columns is not None
        columns = rows.columns.knowing(left.statistics)
        present = columns if rows.names is None else columns.among(rows.names)
        X, present = present.by_target(np.asarray(rows.X), rows.y)
        self.columns = columns = columns.knowing(present.statistics)
        names: tuple[str, ...] | None = None
        if self.is_open:
            names = present.names
            if rows.names is None:  # those that have a value in some row
                here = np.flatnonzero(~np.isnan(X).all(axis=0))
                if len(here) < len(names):
                    X, names = X[:, here], tuple(names[feature] for feature in here.tolist())
            if not names:  # nobody takes rows without a column: one that is missing
                X, names = np.full((len(X), 1), np.nan), columns.names[:1]
        batch = Batch(X, rows.y, left.position, columns, rows.waited, names, rows.times)
        known = present.statistics
        return left._replace(start=rows.start, n_used=rows.n_used, statistics=known), batch

    def _blocks(self) -> Generator[Batch]:
        """Read and encode, and keep what is known behind a block: it may have no more rows.

        The rows that were used before must end where they ended then. Some tables look after that
        themselves: what they are told apart by may have changed all the same.
        """
        end, n_left = self._left.position, self._left.n_used
        with closing(self._encoded()) as blocks:
            for block in blocks:
                if block.columns is not None:
                    self.columns = block.columns.knowing(self._left.statistics)
                if n_left and block.end is not None:
                    n_used = min(n_left, len(block.y))
                    n_left -= n_used
                    found = block.end(n_used - 1)
                    # A line end may have been added to the last line of all.
                    at_end = 0 <= found.offset - end.offset <= _LINE_END
                    same = at_end and replace(end, rows=0) == replace(
                        found, bytes=end.bytes, offset=end.offset
                    )
                    if not n_left and not same and not self._table.looks_after_marks:
                        raise changed(self._table.name)
                yield block
        if n_left:
            raise changed(self._table.name)

    def _encoded(self) -> Generator[Batch]:
        """Read, parse and encode the table, block by block."""
        start = self._first.start
        assert start is not None
        columns, target, time = start.columns, start.target.column, start.columns.hints.time
        kinds: dict[str, Kind] = {
            column.name: "number" if column.is_plain else "category" for column in columns.used
        }
        names = [part.column_names for part in self._table.tables]
        if self.is_open:
            known = {column.name for column in columns.all} | self._excluded
            kinds |= {name: "category" for of in names for name in of if name not in known}
        if time is not None:
            kinds[time] = "category"
        kinds[target.name] = target.kind if target.kind == "integer" or target.is_plain else "label"
        # Beyond the range of the usual whole numbers; or it would come among very many numbers.
        if target.why or max(map(len, names)) > texts.WIDE:
            kinds[target.name] = "label"
        chunks = self._table.chunks(kinds, start.position)
        if self.n_bytes is None:  # reading may wait for others, and then Ctrl-C would wait for it
            return self._encode(chunks, kinds, start)
        return tables.read_ahead(self._encode(tables.read_ahead(chunks), kinds, start))

    def _encode(self, chunks: Chunks, kinds: dict[str, Kind], start: Start) -> Generator[Batch]:
        """Turn chunks into arrays, and keep account of the rows that cannot be used."""
        position, columns, target = start
        name, hints = self.schema.target, columns.hints
        times: Floats | None = None
        with closing(chunks):
            for chunk in chunks:
                start = Start(chunk.start or position, columns, target)
                if not len(chunk.lines):
                    yield tables.no_rows([(0, fault) for fault in chunk.faults])
                    self.on_idle()
                    continue
                frame, end, numbers = chunk.frame, chunk.end, chunk.numbers
                target, values = target.opened(frame[name])
                self.target, labels = target, target.read(values)
                usable = labels.usable
                if usable is not None:
                    frame, end = frame.filter(usable), tables.of_rows(end, usable.nonzero()[0])
                    numbers = numbers and take_rows(numbers, usable)
                lines = chunk.lines if usable is None else chunk.lines[usable]
                wrong = [chunk.fault(row, why) for row, why in labels.reasons.items()]
                faults = tables.among(lines, [*chunk.faults, *wrong])
                frame = frame.drop(name)
                if hints.time is not None:
                    frame, times = split_time(frame, hints.time, hints, needed=False)
                names: tuple[str, ...] | None = None
                if self.is_open:
                    frame = frame.drop(self._excluded & set(frame.columns))
                    columns = columns.extended(frame, labels.y)
                    # New columns come as numbers from now on, if they hold some; so far, as text.
                    for column in columns.all[len(start.columns.all) :]:
                        kinds[column.name] = "number" if column.is_plain else "category"
                    if chunk.ragged:
                        frame = columns.completed(frame, absent=True)
                    else:
                        names = (*frame.columns, *(() if numbers is None else numbers.names))
                _take_as_text(kinds, frame)
                X, columns = columns.encode(frame, numbers)
                if len(X):
                    position = end(len(X) - 1)
                rows = Batch(X, labels.y, Position(), columns, names=names, times=times)
                yield replace(rows, end=end if len(X) else None, faults=faults, start=start)
                if chunk.short:
                    self.on_idle()


def _take_as_text(kinds: dict[str, Kind], frame: pl.DataFrame) -> None:
    """Let columns come as text from now on if some of their cells are no numbers for a parser.

    A block in which one such cell is met is parsed again, all of it as text.
    """
    for column, dtype in frame.schema.items():
        kind = kinds.get(column)
        if dtype == pl.String and kind in ("number", "integer"):
            text = frame[column]
            wanted = pl.Float64 if kind == "number" else pl.Int64
            if text.cast(wanted, strict=False).null_count() > text.null_count():
                kinds[column] = "category"
