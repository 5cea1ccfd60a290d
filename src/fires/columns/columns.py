"""The columns of a table: what they hold, and how their rows become numbers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns import account
from fires.columns.account import Change, Facts, Tallies
from fires.columns.kinds import find_column, find_columns
from fires.columns.schema import Column, Hints
from fires.columns.statistics import TargetStatistics, labels_of
from fires.columns.values import Cells, read_cells, since_first
from fires.core.errors import StateError
from fires.core.types import Header, RowIndex
from fires.core.validation import LARGEST, refuse_names
from fires.kernels.finite import scan

_FOR_GOOD = 100
"""Values in a row that do not fit, after which a column is of another kind for good."""
_MOST_FACTS = 10_000
"""Columns of which examples are kept."""


class NumberColumns(NamedTuple):
    """Columns that are numbers already, for tables with too many columns for a frame."""

    names: tuple[str, ...]
    X: npt.NDArray[np.float64]

    def rows(self, which: RowIndex) -> NumberColumns:
        """Some of the rows."""
        return NumberColumns(self.names, self.X[which])


class Columns:
    """What the columns of a table hold. Frames with such columns become arrays of numbers.

    An object does not change: :meth:`encode` gives the one that knows more.

    Examples
    --------
    >>> frame = pl.DataFrame({"town": ["Bonn", "Ulm", "Ulm"], "share": ["5%", "x", "7.5%"]})
    >>> columns = Columns.learn(frame)
    >>> X, columns = columns.encode(frame)
    >>> X.tolist(), columns.tallies.unreadable.tolist()
    ([[0.0, 5.0], [1.0, nan], [1.0, 7.5]], [0, 1])
    """

    def __init__(self, columns: Sequence[Column], hints: Hints | None = None) -> None:
        self.hints = hints or Hints()
        self.statistics: TargetStatistics | None = None
        self._know(tuple(columns))
        self.tallies = Tallies.none(len(self.used))
        self.changes: tuple[Change, ...] = ()
        self.facts: Mapping[str, Facts] = {}

    def _know(self, columns: tuple[Column, ...]) -> None:
        """Keep at hand what is asked for with every batch: there may be very many columns."""
        self.all = columns
        self._written: Header = {}  # what a state has to hold; copies share it
        self.used = tuple(column for column in columns if column.kind != "left out")
        self._places = {column.name: place for place, column in enumerate(self.used)}
        slots = np.array([column.slots for column in self.used], dtype=np.intp)
        self.groups = np.repeat(np.arange(len(slots)), slots)
        self._first = np.cumsum(slots) - slots
        self.names = tuple(self._places)
        if len(self.groups) > len(slots):
            self.names = tuple(name for column in self.used for name in self._slot_names(column))
        self._are_plain = all(column.is_plain and column.slots == 1 for column in self.used)

    def _slot_names(self, column: Column) -> list[str]:
        """What the features of a column are called."""
        labels = () if self.statistics is None else self.statistics.labels or ()
        if column.slots == 1 or len(labels) != column.slots:
            return [column.name] + [f"{column.name} ({i})" for i in range(2, column.slots + 1)]
        return [f"{column.name} ({label})" for label in labels]

    @classmethod
    def learn(
        cls,
        sample: pl.DataFrame,
        hints: Hints | None = None,
        names: Sequence[str] | None = None,
        y: npt.NDArray[np.generic] | None = None,
    ) -> Self:
        """Find out what the columns of a sample hold."""
        columns = find_columns(sample, hints)
        facts = account.facts_of(sample, columns) if sample.width <= _MOST_FACTS else {}
        if names is not None:
            found = {column.name: column for column in columns}
            columns = tuple(found.get(name) or Column(name, "number") for name in names)
        learnt = cls(columns, hints)
        learnt.facts = facts
        if y is not None and len(y) and learnt.hints.categories == "target":
            learnt.statistics = TargetStatistics(labels_of(y))
            learnt._know(tuple(learnt._with_slots(column) for column in columns))
        return learnt

    def _with_slots(self, column: Column) -> Column:
        """A column of categories has a slot for each class; n categories need n - 1 at most."""
        if self.statistics is None or column.kind not in ("category", "empty"):
            return column
        slots = self.statistics.n_slots
        facts = self.facts.get(column.name)
        if column.kind == "category" and facts is not None:
            slots = max(1, min(slots, facts.distinct - 1))
        return replace(column, slots=slots)

    def leaving_out(self, whys: Mapping[str, str]) -> Columns:
        """Without some columns."""
        other = self._with({name: Column(name, "left out", why=why) for name, why in whys.items()})
        other.tallies = Tallies.none(len(other.used))
        return other

    # --- columns that come and go -------------------------------------------------------------

    def extended(self, frame: pl.DataFrame, y: npt.NDArray[np.generic] | None = None) -> Columns:
        """With the columns of a frame that were not known, behind those that were.

        So columns may be other ones from frame to frame. What is there is encoded by itself, and
        what it taught is put back::

            columns = columns.extended(frame, y)
            part = columns.among(frame.columns)      # what part.names calls the features of X
            X, part = part.encode(frame)
            X, part = part.by_target(X, y)
            columns = columns.after(part)

        Examples
        --------
        >>> columns = Columns.learn(pl.DataFrame({"age": [31.0]}))
        >>> columns = columns.extended(pl.DataFrame({"town": ["Ulm"], "size": [2.5]}))
        >>> columns.names
        ('age', 'town', 'size')
        >>> part = columns.among(["size", "age"])
        >>> X, part = part.encode(pl.DataFrame({"size": [1.5], "age": [27.0]}))
        >>> part.names, X.tolist(), columns.after(part).tallies.missing.tolist()
        (('age', 'size'), [[27.0, 1.5]], [0, 1, 0])
        """
        known = self._names_of_all()
        new = [name for name in frame.columns if name not in known]
        if not new:
            return self
        sample = frame.select(new)
        found = find_columns(sample, replace(self.hints, dates=self.hints.dates or "month-first"))
        other = copy.copy(self)
        if sample.width <= _MOST_FACTS:
            other.facts = {**self.facts, **account.facts_of(sample, found)}
        has_codes = any(column.kind == "category" for column in self.used)
        by_target = self.hints.categories == "target" and y is not None and len(y) > 0
        if self.statistics is None and by_target and not has_codes:
            other.statistics = TargetStatistics(labels_of(cast("npt.NDArray[np.generic]", y)))
        other._know((*self.all, *(other._with_slots(column) for column in found)))
        n_more, before = len(other.used) - len(self.used), self.tallies
        other.tallies = replace(
            before,
            missing=np.append(before.missing, np.full(n_more, before.n_rows)),
            unreadable=np.append(before.unreadable, np.zeros(n_more, dtype=np.int64)),
        )
        return other

    def among(self, names: Iterable[str]) -> Columns:
        """Those of some names, as if there were no others; see :meth:`extended`."""
        here = sorted(self._places[name] for name in names if name in self._places)
        if len(here) == len(self.used):
            return self
        part = self._part(here)
        if self.changes:
            at = {place: i for i, place in enumerate(here)}
            part.changes = tuple(
                change._replace(place=at[change.place])
                for change in self.changes
                if change.place in at
            )
        return part

    def after(self, part: Columns) -> Columns:
        """What is known after rows that had only a part of the columns."""
        if len(part.used) == len(self.used):
            return part
        here = [self._places[column.name] for column in part.used]
        known = self._with(
            {
                column.name: column
                for place, column in zip(here, part.used, strict=True)
                if column is not self.used[place]
            }
        )
        known = copy.copy(known) if known is self else known
        before, now = self.tallies, part.tallies
        missing = before.missing + (now.n_rows - before.n_rows)
        unreadable = before.unreadable.copy()
        missing[here], unreadable[here] = now.missing, now.unreadable
        present = set(part._places)
        waiting = {k: texts for k, texts in before.misfits.items() if k not in present}
        known.tallies = Tallies(
            now.n_rows, missing, unreadable, now.examples, {**waiting, **now.misfits}
        )
        n_old = sum(change.after.name in present for change in self.changes)
        known.changes = self.changes + tuple(
            change._replace(place=here[change.place]) for change in part.changes[n_old:]
        )
        known.statistics = part.statistics
        return known

    def forgetting(self, names: Iterable[str]) -> Columns:
        """Without some columns, as if they had never been there."""
        gone = set(names)
        if gone.isdisjoint(self._names_of_all()):
            return self
        stay = [place for place, column in enumerate(self.used) if column.name not in gone]
        kept = self.among(self.used[place].name for place in stay)
        other = copy.copy(kept)
        other._know(tuple(column for column in self.all if column.name not in gone))
        other.facts = {name: fact for name, fact in self.facts.items() if name not in gone}
        tallies = kept.tallies
        other.tallies = replace(
            tallies,
            examples={k: text for k, text in tallies.examples.items() if k not in gone},
            misfits={k: texts for k, texts in tallies.misfits.items() if k not in gone},
        )
        if self.statistics is not None:
            other.statistics = self.statistics.forgetting(gone)
        return other

    def knows(self, name: str) -> bool:
        """Whether a column of this name has been seen."""
        return name in self._names_of_all()

    def _names_of_all(self) -> Set[str]:
        """The names of all columns; those of the features are at hand."""
        if len(self.used) == len(self.all):
            return self._places.keys()
        return {column.name for column in self.all}

    @property
    def of_features(self) -> tuple[str, ...]:
        """For each feature, the name of the column that it comes from."""
        return tuple(self.used[place].name for place in self.groups.tolist())

    @property
    def left_out(self) -> tuple[Column, ...]:
        """The columns that cannot be used."""
        return tuple(column for column in self.all if column.kind == "left out")

    # --- encoding ---------------------------------------------------------------------------

    def completed(self, frame: pl.DataFrame, *, absent: bool) -> pl.DataFrame:
        """The frame with all the features, whatever the order of its columns."""
        here, known = set(frame.columns), {column.name for column in self.all}
        lacking = [name for name in self._places if name not in here]
        new = [name for name in frame.columns if name not in known]
        if new or (lacking and not absent):
            refuse_names(lacking, new)
        return frame.with_columns(pl.lit(None).alias(name) for name in lacking)

    def encode(
        self,
        frame: pl.DataFrame,
        numbers: NumberColumns | None = None,
        written: Callable[[str], pl.Series] | None = None,
    ) -> tuple[npt.NDArray[np.float64], Columns]:
        """Turn rows into numbers, and learn from them what was not known of the columns.

        New categories get the next code. An empty column becomes what its first value is. A column
        in which 100 values in a row do not fit is of another kind from there on.
        """
        if numbers is not None:
            return self._encode_many(frame, numbers)
        X = self._plain(frame)
        if X is not None:
            return X, self._counted(X, {})
        known, frame = self._opened(frame)
        cells = known._read(frame, written)
        turn, misfits = known._misfits(cells)
        if turn is None:
            return known._with_codes(frame, cells, misfits)
        stop = turn + 1
        cells = {name: Cells(*(part[:stop] for part in cell)) for name, cell in cells.items()}
        _, misfits = known._misfits(cells)
        X, known = known._with_codes(frame[:stop], cells, misfits)
        if stop == len(frame):
            return X, known
        rest, known = known.encode(
            frame[stop:], None, written and (lambda name: written(name)[stop:])
        )
        return np.concatenate([X, rest]), known

    def _encode_many(
        self, frame: pl.DataFrame, numbers: NumberColumns
    ) -> tuple[npt.NDArray[np.float64], Columns]:
        """The columns of a frame are encoded by themselves, and put among the numbers."""
        if self._are_plain and numbers.names == self.names and not any(scan(numbers.X)[1:]):
            X = self._without_words(numbers.X)
            return X, self._counted(X, {})
        here = [place for name, place in self._places.items() if name in frame.columns]
        present = [self._places[name] for name in numbers.names]
        X = np.zeros((len(numbers.X), len(self.groups)))
        huge = np.abs(numbers.X) > LARGEST
        X[:, self._first[present]] = self._without_words(np.where(huge, np.nan, numbers.X))
        part = self._part(here)
        X[:, np.isin(self.groups, here)], part = part.encode(frame)
        known = self._with({column.name: column for column in part.all})._counted(X, {})
        missing, unreadable = known.tallies.missing.copy(), self.tallies.unreadable.copy()
        missing[here], unreadable[here] = part.tallies.missing, part.tallies.unreadable
        unreadable[present] += huge.sum(axis=0)
        missing[present] -= huge.sum(axis=0)
        # Of columns whose cells are all missing here, nothing new is known.
        waiting = [name for name in numbers.names if name in self.tallies.misfits]
        misfits = {
            name: self.tallies.misfits[name]
            for name in waiting
            if np.isnan(numbers.X[:, numbers.names.index(name)]).all()
        }
        known.tallies = replace(
            part.tallies,
            missing=missing,
            unreadable=unreadable,
            misfits={**part.tallies.misfits, **misfits},
        )
        known.changes += tuple(change._replace(place=here[change.place]) for change in part.changes)
        return X, known

    def _part(self, places: list[int]) -> Columns:
        """Some of the columns, as if there were no others."""
        part, tallies = copy.copy(self), self.tallies
        part._know(tuple(self.used[place] for place in places))
        present = part._places
        part.tallies = replace(
            tallies,
            missing=tallies.missing[places],
            unreadable=tallies.unreadable[places],
            misfits={name: texts for name, texts in tallies.misfits.items() if name in present},
        )
        part.changes = ()
        return part

    def transform_some(self, frame: pl.DataFrame) -> npt.NDArray[np.float64]:
        """Turn rows into numbers, as far as the frame has the columns; nothing is learnt."""
        present = set(frame.columns)
        here = [place for place, column in enumerate(self.used) if column.name in present]
        X = np.full((len(frame), len(self.names)), np.nan)
        X[:, np.isin(self.groups, here)] = self._part(here).transform(frame)
        return X

    def transform(self, frame: pl.DataFrame) -> npt.NDArray[np.float64]:
        """Turn rows into numbers by what is known; nothing is learnt."""
        X = self._plain(frame)
        if X is not None:
            return X
        X = self._assembled(frame, self._read(frame))
        return self.by_target(X, stop=self.tallies.n_rows + len(X))[0]

    def by_target(
        self,
        X: npt.NDArray[np.float64],
        y: npt.NDArray[np.generic] | None = None,
        stop: int | None = None,
    ) -> tuple[npt.NDArray[np.float64], Columns]:
        """Put what categories say about the target in the place of their codes."""
        if self.statistics is None:
            return X, self
        stop = self.tallies.n_rows if stop is None else stop
        since = {change.place: change.row - stop + len(X) for change in self.changes}
        places = [
            place
            for place, column in enumerate(self.used)
            if column.kind == "category" and since.get(place, 0) < len(X)
        ]
        X = X.copy() if places else X
        codes: dict[str, npt.NDArray[np.int64]] = {}
        for place in places:
            column, first = self.used[place], self._first[place]
            X[: max(since.get(place, 0), 0), first] = np.nan  # numbers of the kind before
            found = np.nan_to_num(X[:, first], nan=-1.0).astype(np.int64)
            # Before the first value of a column it does not matter that it will hold categories.
            if column.name in self.statistics.tables or (found >= 0).any():
                codes[column.name] = found
            worth = self.statistics.values(column.name, found)[:, : column.slots]
            X[:, first : first + column.slots] = worth
        if y is None or not (codes or self.statistics.tables):
            return X, self
        return X, self.knowing(self.statistics.after(codes, y))

    def knowing(self, statistics: TargetStatistics | None) -> Columns:
        """The same columns, and what categories say about the target."""
        other = copy.copy(self)
        other.statistics = statistics
        return other

    def _plain(self, frame: pl.DataFrame) -> npt.NDArray[np.float64] | None:
        """The rows at once, if all cells are good numbers already; None if not.

        Each call into polars waits for the interpreter when it returns, and while a batch is
        learnt from that takes long: column by column, reading ahead would be no gain.
        """
        if not self._are_plain or self.tallies.misfits:
            return None
        if tuple(frame.columns) != self.names:
            frame = frame.select(self.names)
        if set(frame.dtypes) != {pl.Float64}:
            return None
        X = frame.to_numpy(order="c", writable=bool(self.hints.na_values))
        if any(scan(X)[1:]):
            return None
        return self._without_words(X)

    def _without_words(self, X: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Numbers that stand for a missing value are missing."""
        if self.hints.na_values and (numbers := self.hints.na_numbers):
            X[np.isin(X, numbers)] = np.nan
        return X

    def _opened(self, frame: pl.DataFrame) -> tuple[Columns, pl.DataFrame]:
        """With the kinds of empty columns that have their first value in these rows."""
        found, cells = {}, []
        for column in self.used:
            if column.kind != "empty":
                continue
            first, values = since_first(frame[column.name], self.hints)
            if len(first):
                found[column.name] = replace(self._kind_of(first), slots=column.slots)
                cells.append(values)
        return self._with(found), frame.with_columns(cells) if cells else frame

    def _kind_of(self, values: pl.Series) -> Column:
        """What a column holds, by some values that came too late for a question."""
        hints = replace(self.hints, dates=self.hints.dates or "month-first")
        column = find_column(values, hints)
        return Column(column.name, "category") if column.kind == "left out" else column

    def _read(
        self, frame: pl.DataFrame, written: Callable[[str], pl.Series] | None = None
    ) -> dict[str, Cells]:
        """The cells of all columns that are not numbers already."""
        cells = {}
        for column in self.used:
            name, series = column.name, frame[column.name]
            ready = column.is_plain and _is_ready(series)
            if ready and not self.hints.na_values and name not in self.tallies.misfits:
                continue
            if not ready and written is not None and series.dtype == pl.Float64:
                series = written(name)
            cells[name] = read_cells(series, column, self.hints)
        return cells

    def _misfits(self, cells: Mapping[str, Cells]) -> tuple[int | None, dict[str, tuple[str, ...]]]:
        """Where the first column changes its kind for good, and the last misfits of each column."""
        misfits: dict[str, tuple[str, ...]] = {}
        turn: int | None = None
        for name, cell in cells.items():
            before = self.tallies.misfits.get(name, ())
            if not cell.n_unreadable and (
                not before or cell.source.null_count() < len(cell.source)
            ):
                continue
            present = np.flatnonzero(cell.source.is_not_null().to_numpy())
            bad = cell.unreadable.to_numpy()[present]
            fits = np.concatenate([np.zeros(len(before), dtype=bool), ~bad])
            place = np.arange(len(fits))
            run = place - np.maximum.accumulate(np.where(fits, place, -1))
            long = np.flatnonzero(run >= _FOR_GOOD)
            if len(long):
                row = int(present[long[0] - len(before)])
                turn = row if turn is None else min(turn, row)
            length = int(run[-1]) if len(run) else 0
            texts = cell.source.gather(present[len(present) - min(length, len(present)) :])
            last = (*before, *texts.cast(pl.String).to_list())
            if length:
                misfits[name] = last[-min(length, _FOR_GOOD) :]
        return turn, misfits

    def _with_codes(
        self, frame: pl.DataFrame, cells: dict[str, Cells], misfits: dict[str, tuple[str, ...]]
    ) -> tuple[npt.NDArray[np.float64], Columns]:
        """Give codes to new categories, encode, count, and change the kinds that did not fit."""
        known = self._with(
            {
                column.name: replace(column, categories=more)
                for column in self.used
                if column.kind == "category"
                and (more := self._more_categories(column, cells[column.name].values))
                is not column.categories
            }
        )
        X = known._assembled(frame, cells)
        known = known._counted(X, cells)
        kept = {name: texts for name, texts in misfits.items() if len(texts) < _FOR_GOOD}
        known.tallies = replace(known.tallies, misfits=kept)
        if len(kept) == len(misfits):
            return X, known
        before = {column.name: column for column in known.used}
        changed = {}
        for name in [name for name in misfits if name not in kept]:
            column = self._kind_of(pl.Series(name, misfits[name], dtype=pl.String))
            # Numbers that are too large to be used are numbers all the same.
            if (column.kind, column.form) != (before[name].kind, before[name].form):
                changed[name] = replace(column, slots=before[name].slots)
        known = known._with(changed)
        known.changes += tuple(
            Change(known.tallies.n_rows, known._places[name], before[name], column)
            for name, column in changed.items()
        )
        return X, known

    def _more_categories(self, column: Column, text: pl.Series) -> tuple[str, ...]:
        known = column.categories
        room = self.hints.max_categories - len(known)
        if room <= 0:
            return known
        met = text.drop_nulls().unique(maintain_order=True)
        new = met.filter(~met.is_in(known)).head(room).to_list()
        return (*known, *new) if new else known

    def _assembled(
        self, frame: pl.DataFrame, cells: Mapping[str, Cells]
    ) -> npt.NDArray[np.float64]:
        """All features as one array."""
        columns: dict[str, pl.Series] = {}
        for column in self.used:
            cell = cells.get(column.name)
            numbers = frame[column.name] if cell is None else self._numbers(column, cell.values)
            columns[str(len(columns))] = numbers
            for _ in range(1, column.slots):  # what the other slots hold, the target tells
                columns[str(len(columns))] = 0.0 * numbers.abs()
        if not columns:
            return np.empty((len(frame), 0))
        return pl.DataFrame(columns).to_numpy(order="c")

    def _numbers(self, column: Column, values: pl.Series) -> pl.Series:
        if column.kind != "category":
            return values.cast(pl.Float64)
        codes = [float(code) for code in range(len(column.categories))]
        return values.replace_strict(
            [*column.categories, None],
            [*codes, None],
            default=float(self.hints.max_categories),
            return_dtype=pl.Float64,
        )

    # --- what is known ----------------------------------------------------------------------

    def _with(self, found: Mapping[str, Column]) -> Columns:
        if not found:
            return self
        other = copy.copy(self)
        other._know(tuple(found.get(column.name, column) for column in self.all))
        return other

    def _counted(self, X: npt.NDArray[np.float64], cells: Mapping[str, Cells]) -> Columns:
        """With these rows counted."""
        other, before = copy.copy(self), self.tallies
        missing, unreadable = before.missing, before.unreadable
        examples = before.examples
        if scan(X)[0]:
            n_empty = np.isnan(X if self._are_plain else X[:, self._first]).sum(axis=0)
            n_bad = np.zeros(len(n_empty), dtype=np.int64)
            for name, cell in cells.items():
                if not cell.n_unreadable:
                    continue
                n_bad[self._places[name]] = cell.n_unreadable
                if name not in examples:
                    first = cell.source.filter(cell.unreadable)[0]
                    examples = {**examples, name: str(first)}
            missing, unreadable = missing + n_empty - n_bad, unreadable + n_bad
        other.tallies = replace(
            before,
            n_rows=before.n_rows + len(X),
            missing=missing,
            unreadable=unreadable,
            examples=examples,
        )
        return other

    def restarted(self, start: int, stop: int) -> tuple[int, ...]:
        """Which features are of another kind from one of these rows on."""
        places = [change.place for change in self.changes if start <= change.row < stop]
        return tuple(np.flatnonzero(np.isin(self.groups, places)).tolist()) if places else ()

    def describe(self) -> list[account.ColumnFacts]:
        """What each column of the table holds, and what was done with it."""
        return account.describe(self)

    def surprises(self) -> list[str]:
        """What a user should know about the columns, in one line each."""
        return account.surprises(self)

    # --- state ------------------------------------------------------------------------------

    def as_json(self) -> Header:
        """All that a state file has to hold."""
        tallies, hints, written = self.tallies, self.hints, self._written
        if not written:
            written["columns"] = [column.as_json() for column in self.all]
            written["facts"] = account.facts_as_json(self)
        message = {
            name: list(getattr(hints, name)) for name in ("categorical", "numeric", "na_values")
        }
        return {
            "columns": written["columns"],
            "hints": vars(hints) | message,
            "n_rows": tallies.n_rows,
            "missing": tallies.missing.tolist(),
            "unreadable": tallies.unreadable.tolist(),
            "misfits": {name: list(texts) for name, texts in tallies.misfits.items()},
            "statistics": None if self.statistics is None else self.statistics.as_json(),
            "facts": written["facts"],
            "examples": {name: account.short(text) for name, text in tallies.examples.items()},
            "changes": [
                [change.row, change.place, change.before.as_json(), change.after.as_json()]
                for change in self.changes
            ],
        }

    @classmethod
    def from_json(cls, saved: Any) -> Self:
        """The columns that :meth:`as_json` wrote down."""
        try:
            hints = Hints(**saved["hints"])
            columns = cls([], hints)
            if saved["statistics"] is not None:
                columns.statistics = TargetStatistics.from_json(saved["statistics"])
            columns._know(tuple(Column.from_json(column) for column in saved["columns"]))
            known = set(columns._places)
            counts = {
                name: np.array(saved[name], dtype=np.int64) for name in ("missing", "unreadable")
            }
            misfits = {name: tuple(map(str, texts)) for name, texts in saved["misfits"].items()}
            # Files of an earlier version have none of what only a person wants to know.
            examples = {str(name): str(text) for name, text in saved.get("examples", {}).items()}
            columns.tallies = Tallies(
                int(saved["n_rows"]), **counts, examples=examples, misfits=misfits
            )
            columns.facts = account.facts_from_json(columns, saved.get("facts"))
            columns.changes = tuple(
                Change(int(row), range(len(known))[place], *map(Column.from_json, kinds))
                for row, place, *kinds in saved.get("changes", ())
            )
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            message = str(error) if isinstance(error, StateError) else repr(error)
            raise StateError(f"the columns are not what they should be: {message}") from error
        shapes = {array.shape for array in counts.values()}
        if shapes != {(len(known),)} or len(known) != len(columns.used) or set(misfits) - known:
            raise StateError("the columns are not what they should be")
        return columns


def _is_ready(series: pl.Series) -> bool:
    """Whether a column holds numbers that can be used as they are."""
    if series.dtype != pl.Float64:
        return False
    largest: Any = series.abs().max()  # does not look at NaN
    return largest is None or bool(largest <= LARGEST)
