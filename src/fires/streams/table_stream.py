"""A stream over a table: in files, in a database, or in the messages of a broker."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from typing import Any, Literal

import numpy as np
import polars as pl

from fires.columns import Columns, find_doubts
from fires.columns.kinds import find_column, split_time
from fires.columns.schema import Column, DateForm, Doubt, Hints, Kind
from fires.columns.target import Target, TargetStatistics
from fires.columns.warnings import ColumnFacts
from fires.core.errors import InputError, Question, StateError
from fires.core.settings import check_choice
from fires.core.types import Floats, Mask
from fires.streams import text_blocks
from fires.streams.base import Batch, Bookmark, Position, Schema
from fires.streams.byte_sources import changed, read_so_far, refuse_others
from fires.streams.cutting import BlockStream, Left, PlacedRows, Start, no_rows, read_ahead
from fires.streams.sampling import choose_columns, read_sample, refuse_unknown
from fires.streams.table import Chunk, Chunks, Fault, Rejected, Table

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
        _refuse_bookmark(table)
        stream = TableStream.at(table, after)
        wanted = {stream.schema.target, stream.columns.hints.time} - {None}
        if not stream.is_open:
            wanted |= {column.name for column in stream.columns.used}
        if wanted - set(table.column_names):
            raise InputError(f"{table.name} does not have the columns of the earlier run")
        return stream
    if target is None:
        raise Question("the column to predict is not named", table.name, "say {target=COL}")
    name = target.column.name if isinstance(target, Target) else target
    exclude = [exclude] if isinstance(exclude, str) else exclude
    check_choice("columns", columns, ("fixed", "open"))
    is_open = columns == "open"
    if is_open:
        table.let_columns_change()
    timed = [] if hints.time is None else [hints.time]
    if hints.time in (name, *exclude):
        raise InputError(f'the column "{hints.time}" says when a row was: it is no target')
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
    try:
        return Position(**bookmark["start"])
    except (KeyError, TypeError) as error:
        raise StateError(f"the bookmark is damaged ({error!r})") from None


def _refuse_bookmark(table: Table) -> None:
    """Raise if reading cannot go on later."""
    if table.no_bookmark:
        raise InputError(table.no_bookmark)


def doubts_of(sample: pl.DataFrame, columns: Columns, target: Target) -> tuple[Doubt, ...]:
    """The columns of a sample that one should not believe."""
    name = target.column.name
    labels = target.read(sample[name])
    if labels.usable is not None:
        sample = sample.filter(labels.usable)
    return tuple(find_doubts(sample.drop(name), labels.y, columns)) if len(sample) else ()


class TableStream(BlockStream):
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
        self._new_fields: dict[str, int] = {}  # met before this stream began
        start = Start(Position(), columns, target)
        rejected = Rejected(unit=table.unit)
        self._begin(Left(start.position, start, 0, columns.statistics, rejected))

    @classmethod
    def at(cls, table: Table, bookmark: Bookmark) -> TableStream:
        """The stream that goes on where an earlier one of the table was."""
        left = Left.from_json(bookmark, table.name, table.unit)
        try:
            columns = Columns.from_json(bookmark["columns"])
            target = Target(Column.from_json(bookmark["target"]), columns.hints)
            doubts, excluded = [Doubt(**one) for one in bookmark["doubts"]], None
            if bookmark.get("open"):
                excluded = list(map(str, bookmark["excluded"]))
                table.let_columns_change()
            stream = cls(table, columns, target, doubts, excluded)
            stream._new_fields = {str(k): int(v) for k, v in bookmark["new_fields"].items()}
            statistics = bookmark["statistics"]
            if statistics is not None:
                statistics = TargetStatistics.from_json(statistics)
            start, n_used = Start(start_of(bookmark), columns, target), int(bookmark["n_used"])
            stream._begin(left._replace(start=start, n_used=n_used, statistics=statistics))
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the bookmark of {table.name} is damaged ({error!r})") from None
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
        _refuse_bookmark(self._table)
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
            "new_fields": self._table.late_fields(self._new_fields),
            "files": None if files is None else read_so_far(files, left.position),
        }
        return found | ({"open": True, "excluded": sorted(self._excluded)} if self.is_open else {})

    def surprises(self) -> list[str]:
        """What a user should know about the columns, in one line each; doubts stand apart."""
        lines = self._table.surprises(self._table.late_fields(self._new_fields))
        return lines + self.columns.surprises([doubt.column for doubt in self.doubts])

    def lag(self) -> int | None:
        """How many rows wait in the source now, if it knows; any thread may ask."""
        return self._table.lag()

    def describe(self) -> list[ColumnFacts]:
        """What each column holds, what was done with it, and what is doubtful about it."""
        doubts = {doubt.column: str(doubt) for doubt in self.doubts}
        return [row | {"doubt": doubts.get(row["name"], "")} for row in self.columns.describe()]

    def _batch(self, rows: PlacedRows, n_rows: int, before: Left) -> tuple[Left, Batch]:
        """Put what categories say in the place of their codes; of open columns, say which."""
        assert rows.columns is not None
        columns = rows.columns.knowing(before.statistics)
        present = columns if rows.names is None else columns.among(rows.names)
        X, present = present.by_target(rows.X, rows.y)
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
        position = self._table.position(n_rows, rows.places[-1])
        times = rows.times if len(rows.times) else None
        batch = Batch(X, rows.y, position, columns, rows.waited, names, times)
        start, n_used, known = rows.start, rows.n_used, present.statistics
        left = before._replace(position=position, start=start, n_used=n_used, statistics=known)
        return left, batch

    def _blocks(self) -> Generator[PlacedRows, None, None]:
        """Read and encode, and keep what is known behind a block: it may have no more rows.

        The rows that were used before must end where they ended then. Some tables look after that
        themselves: what they are told apart by may have changed all the same.
        """
        end, n_left = self._left.position, self._left.n_used
        with closing(self._encoded()) as blocks:
            for block in blocks:
                if block.columns is not None:
                    self.columns = block.columns.knowing(self._left.statistics)
                if n_left and len(block.y):
                    n_used = min(n_left, len(block.y))
                    n_left -= n_used
                    found = self._table.position(end.rows, block.places[n_used - 1])
                    # A line end may have been added to the last line of all.
                    at_end = 0 <= found.offset - end.offset <= _LINE_END
                    same = at_end and replace(found, bytes=end.bytes, offset=end.offset) == end
                    if not n_left and not same and not self._table.looks_after_marks:
                        raise changed(self._table.name)
                yield block
        if n_left:
            raise changed(self._table.name)

    def _encoded(self) -> Generator[PlacedRows, None, None]:
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
        if target.why or max(map(len, names)) > text_blocks.WIDE:
            kinds[target.name] = "label"
        chunks = self._table.chunks(kinds, start.position)
        if self.n_bytes is None:  # reading may wait for others, and then Ctrl-C would wait for it
            return self._encode(chunks, kinds, start)
        return read_ahead(self._encode(read_ahead(chunks), kinds, start))

    def _encode(
        self, chunks: Chunks, kinds: dict[str, Kind], start: Start
    ) -> Generator[PlacedRows, None, None]:
        """Turn chunks into arrays, and keep account of the rows that cannot be used."""
        position, columns, target = start
        name, hints = self.schema.target, columns.hints
        times: Floats = np.empty(0)
        with closing(chunks):
            for chunk in chunks:
                start = Start(chunk.start or position, columns, target)
                if not len(chunk.lines):
                    yield no_rows([(0, fault) for fault in chunk.faults])
                    self.on_idle()
                    continue
                frame, places, numbers = chunk.frame, chunk.places, chunk.numbers
                target, values = target.opened(frame[name])
                self.target, labels = target, target.read(values)
                usable = labels.usable
                if usable is not None:
                    frame, places = frame.filter(usable), places[usable]
                    numbers = None if numbers is None else numbers.rows(usable)
                faults = _faults(chunk, usable, labels.reasons)
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
                if len(places):
                    position = self._table.position(0, places[-1])
                rows = PlacedRows(X, labels.y, places, columns, faults, start, names=names)
                yield rows._replace(times=times)
                if chunk.short:
                    self.on_idle()


def _faults(
    chunk: Chunk, usable: Mask | None, reasons: Mapping[int, str]
) -> list[tuple[int, Fault]]:
    """All records of a chunk that are left out, each with the number of usable rows before it."""
    if not chunk.faults and not reasons:
        return []
    lines = chunk.lines if usable is None else chunk.lines[usable]
    found = [*chunk.faults, *(chunk.fault(row, why) for row, why in reasons.items())]
    found.sort(key=lambda fault: fault.line)
    before = np.searchsorted(lines, [fault.line for fault in found]).tolist()
    return list(zip(before, found, strict=True))


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
