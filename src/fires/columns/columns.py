"""The columns of a table: what they hold, and how their rows become numbers."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, NotRequired, Self, TypedDict

import numpy as np
import polars as pl

from fires.columns import schema
from fires.columns.kinds import find_column, find_columns, parsed, read_cells, since_first
from fires.columns.schema import NO_HINTS, Column, DateForm, Doubt, Hints, NumberForm
from fires.columns.target import TargetStatistics, labels_of
from fires.core.errors import undamaged
from fires.core.output import columns_named
from fires.core.settings import plain
from fires.core.types import Floats, Header, Ints, Labels, NamedRows, Places
from fires.core.validation import LARGEST, refuse_names
from fires.kernels import scan

_MANY_UNREADABLE = 0.05
# Columns of which examples are kept; values among which one is looked for.
_MOST_FACTS, _LOOKED_AT = 10_000, 1000


class ColumnFacts(TypedDict):
    """What is told about a column."""

    name: str
    kind: str
    missing: float | None
    unreadable: int | None
    distinct: int | None
    example: str | None
    done: str
    doubt: NotRequired[str]


class Facts(NamedTuple):
    """Something about a column of a sample."""

    distinct: int
    example: str | None


@dataclass(frozen=True, eq=False)
class Tallies:
    """What was met in the rows encoded so far."""

    n_rows: int
    missing: Ints
    unreadable: Ints
    examples: Mapping[str, str]

    @classmethod
    def none(cls, n_columns: int) -> Tallies:
        """Before the first row."""
        zeros = np.zeros(n_columns, dtype=np.int64)
        return cls(0, zeros, zeros, {})


class Columns:
    """What the columns of a table hold. Frames with such columns become arrays of numbers.

    An object does not change: :meth:`encode` gives the one that knows more. Columns may come and
    go: a frame may lack some of them, and :meth:`extended` adds those that are new.

    Examples
    --------
    >>> frame = pl.DataFrame({"town": ["Bonn", "Ulm", "Ulm"], "share": ["5%", "x", "7.5%"]})
    >>> columns = Columns.learn(frame)
    >>> X, columns = columns.encode(frame)
    >>> X.tolist(), columns.tallies.unreadable.tolist()
    ([[0.0, 5.0], [1.0, nan], [1.0, 7.5]], [0, 1])
    """

    def __init__(self, columns: Sequence[Column], hints: Hints = NO_HINTS) -> None:
        self.hints = hints
        self.statistics: TargetStatistics | None = None
        self.facts: Mapping[str, Facts] = {}
        self._know(tuple(columns))
        self.tallies = Tallies.none(len(self.used))

    def _know(self, columns: tuple[Column, ...]) -> None:
        """Keep at hand what is asked for with every batch: there may be very many columns."""
        self.all = columns
        self._written: Header = {}  # what a state has to hold; copies share it
        self.used = tuple(column for column in columns if column.kind != "left out")
        self._places = {column.name: place for place, column in enumerate(self.used)}
        self.known: Set[str] = {column.name for column in columns}
        slots = np.array([column.slots for column in self.used], dtype=np.intp)
        self._in_order, self._all_places = list(self._places), np.arange(len(slots))
        self.groups = np.repeat(self._all_places, slots)
        self._first = np.cumsum(slots) - slots
        self.names = tuple(self._places)
        if len(self.groups) > len(slots):
            self.names = tuple(name for column in self.used for name in self._slot_names(column))
        self._categories = [i for i, one in enumerate(self.used) if one.kind == "category"]
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
        hints: Hints = NO_HINTS,
        names: Sequence[str] | None = None,
        y: Labels | None = None,
    ) -> Self:
        """Find out what the columns of a sample hold; those that it lacks hold numbers."""
        return cls((), hints)._taking(sample, hints, sample.columns if names is None else names, y)

    def _taking(
        self, sample: pl.DataFrame, hints: Hints, names: Iterable[str], y: Labels | None
    ) -> Self:
        """With more columns, as a sample shows them."""
        found = {column.name: column for column in find_columns(sample, hints)}
        facts = facts_of(sample, tuple(found.values()))
        other, before = self._other(facts={**self.facts, **facts}), self.tallies
        has_codes = any(column.kind == "category" for column in self.used)
        may_encode = self.statistics is None and hints.categories == "target" and not has_codes
        if may_encode and y is not None and len(y):
            other.statistics = TargetStatistics(labels_of(y))
        columns = (found.get(name) or Column(name, "number") for name in names)
        other._know((*self.all, *map(other._with_slots, columns)))
        n_more = len(other.used) - len(self.used)
        other.tallies = replace(
            before,
            missing=np.append(before.missing, np.full(n_more, before.n_rows)),
            unreadable=np.append(before.unreadable, np.zeros(n_more, dtype=np.int64)),
        )
        return other

    def _with_slots(self, column: Column) -> Column:
        """A column of categories has a slot for each class; n categories need n - 1 at most."""
        if self.statistics is None or column.kind not in ("category", "empty"):
            return column
        slots = self.statistics.n_slots
        facts = self.facts.get(column.name)
        if column.kind == "category" and facts is not None:
            slots = max(1, min(slots, facts.distinct - 1))
        return replace(column, slots=slots)

    def _other(self, columns: Iterable[Column] | None = None, **changed: Any) -> Self:
        """The same but for some attributes, and for other columns."""
        other = copy.copy(self)
        vars(other).update(changed)
        if columns is not None:
            other._know(tuple(columns))
        return other

    def _with(self, found: Mapping[str, Column]) -> Columns:
        """With what was found out about some columns."""
        columns = (found.get(column.name, column) for column in self.all)
        return self._other(columns) if found else self

    def leaving_out(self, doubts: Sequence[Doubt]) -> Columns:
        """Without ids, clocks and copies, unless nothing else is left."""
        whys = {doubt.column: doubt.why for doubt in doubts if doubt.is_no_feature}
        if not whys or not self._places.keys() - whys:
            return self
        other = self._with({name: Column(name, "left out", why=why) for name, why in whys.items()})
        return other._other(tallies=Tallies.none(len(other.used)))

    # --- columns that come and go -------------------------------------------------------------

    def extended(self, frame: pl.DataFrame, y: Labels | None = None) -> Columns:
        """With the columns of a frame that were not known, behind those that were.

        Examples
        --------
        >>> columns = Columns.learn(pl.DataFrame({"age": [31.0]}))
        >>> columns = columns.extended(pl.DataFrame({"town": ["Ulm"], "size": [2.5]}))
        >>> columns.names
        ('age', 'town', 'size')
        >>> X, after = columns.encode(pl.DataFrame({"size": [1.5], "age": [27.0]}))
        >>> columns.among(["size", "age"]).names, X.tolist(), after.tallies.missing.tolist()
        (('age', 'size'), [[27.0, 1.5]], [0, 1, 0])
        """
        new = [name for name in frame.columns if name not in self.known]
        if not new:
            return self
        return self._taking(frame.select(new), self._late_hints, new, y)

    @property
    def _late_hints(self) -> Hints:
        """In the midst of a stream it is too late to ask about dates."""
        return replace(self.hints, dates=self.hints.dates or "month-first")

    def among(self, names: Iterable[str]) -> Columns:
        """Those of some names, as if there were no others."""
        return self._at(self._here(names))

    def _here(self, names: Iterable[str], more: Sequence[str] = ()) -> Places:
        """The places of some columns; of those that are not known, none."""
        names = names if isinstance(names, list) and not more else [*names, *more]
        if names == self._in_order:
            return self._all_places
        return np.array(sorted({self._places[n] for n in names if n in self._places}), np.intp)

    def _at(self, here: Places) -> Columns:
        if len(here) == len(self.used):
            return self
        missing, unreadable = self.tallies.missing[here], self.tallies.unreadable[here]
        tallies = replace(self.tallies, missing=missing, unreadable=unreadable)
        return self._other((self.used[place] for place in here.tolist()), tallies=tallies)

    def forgetting(self, names: Iterable[str]) -> Columns:
        """Without some columns, as if they had never been there."""
        gone = set(names)
        if gone.isdisjoint(self.known):
            return self
        tallies = self.among(self._places.keys() - gone).tallies
        examples = {k: text for k, text in tallies.examples.items() if k not in gone}
        return self._other(
            (column for column in self.all if column.name not in gone),
            facts={name: fact for name, fact in self.facts.items() if name not in gone},
            tallies=replace(tallies, examples=examples),
            statistics=self.statistics and self.statistics.forgetting(gone),
        )

    @property
    def of_features(self) -> tuple[str, ...]:
        """For each feature, the name of the column that it comes from."""
        return tuple(self.used[place].name for place in self.groups.tolist())

    @property
    def left_out(self) -> tuple[Column, ...]:
        """The columns that cannot be used."""
        return tuple(column for column in self.all if column.kind == "left out")

    def completed(self, frame: pl.DataFrame, *, absent: bool) -> pl.DataFrame:
        """The frame with all the features, whatever the order of its columns."""
        here = set(frame.columns)
        lacking = [name for name in self._places if name not in here]
        new = [name for name in frame.columns if name not in self.known]
        if new or (lacking and not absent):
            refuse_names(lacking, new)
        return frame.with_columns(pl.lit(None).alias(name) for name in lacking)

    # --- encoding ---------------------------------------------------------------------------

    def encode(
        self, frame: pl.DataFrame, numbers: NamedRows | None = None
    ) -> tuple[Floats, Columns]:
        """Turn rows into numbers, and learn from them what was not known of the columns.

        New categories get the next code. An empty column becomes what its first value is. X has
        the features of the columns that are there: :meth:`among` says which.
        """
        here = self._here(frame.columns, () if numbers is None else numbers.names)
        part = self._at(here)
        plain = part._plain(frame, numbers)
        if plain is not None:
            return plain, self._counted(len(plain), here, np.isnan(plain).sum(axis=0))
        X, found, n_bad, examples = part._read(frame, numbers, learn=True)
        n_missing = np.isnan(X[:, part._first]).sum(axis=0) - n_bad
        return X, self._with(found)._counted(len(X), here, n_missing, n_bad, examples)

    def transform(self, frame: pl.DataFrame) -> Floats:
        """Turn rows into numbers by what is known; nothing is learnt. NaN where a column lacks."""
        here = self._here(frame.columns)
        part = self._at(here)
        X = part._plain(frame)
        X = part.by_target(part._read(frame)[0])[0] if X is None else X
        if part is self:
            return X
        wide = np.full((len(frame), len(self.names)), np.nan)
        wide[:, np.isin(self.groups, here)] = X
        return wide

    def by_target(self, X: Floats, y: Labels | None = None) -> tuple[Floats, Columns]:
        """Put what categories say about the target in the place of their codes."""
        if self.statistics is None or not (self._categories or self.statistics.tables):
            return X, self
        X = X.copy() if self._categories else X
        codes: dict[str, Ints] = {}
        for place in self._categories:
            column, first = self.used[place], self._first[place]
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
        return self if statistics is self.statistics else self._other(statistics=statistics)

    def _plain(self, frame: pl.DataFrame, numbers: NamedRows | None = None) -> Floats | None:
        """All rows at once, if all cells but missing ones are good numbers already.

        Each call into polars waits for the interpreter when it returns, and while a batch is
        learnt from that takes long: column by column, reading ahead would be no gain.
        """
        if not self._are_plain:
            return None
        if numbers is not None:
            if numbers.names != self.names:
                return None
            X: Any = numbers.matrix
        else:
            if frame.columns != self._in_order:
                frame = frame.select(self._in_order)
            if set(frame.dtypes) != {pl.Float64}:
                return None
            X = frame.to_numpy(order="c", writable=bool(self.hints.na_values))
        return None if any(scan(self._without_words(X))[1:]) else X

    def _without_words(self, X: Floats) -> Floats:
        """Numbers that stand for a missing value are missing."""
        if self.hints.na_values and (numbers := self.hints.na_numbers):
            X[np.isin(X, numbers)] = np.nan
        return X

    def _read(
        self, frame: pl.DataFrame, numbers: NamedRows | None = None, *, learn: bool = False
    ) -> tuple[Floats, dict[str, Column], Ints, dict[str, str]]:
        """The rows as numbers; what was found out of columns; bad cells, and one of each column.

        What is learnt of a column holds for these rows, too.
        """
        n_rows = len(frame) if numbers is None else numbers.matrix.shape[0]
        X, n_bad = np.empty((n_rows, len(self.groups))), np.zeros(len(self.used), dtype=np.int64)
        found: dict[str, Column] = {}
        examples: dict[str, str] = {}
        for series in frame.iter_columns():
            name, place = series.name, self._places.get(series.name)
            if place is None:
                continue
            column, first = self.used[place], self._first[place]
            if learn and column.kind == "empty":
                column, series = self._opened(column, series)
            if not (column.is_plain and not self.hints.na_values and _is_ready(series)):
                cells = read_cells(series, column, self.hints)
                if column.kind == "category":
                    column, series = self._coded(column, cells.values, learn=learn)
                else:
                    series = cells.values.cast(pl.Float64)
                n_bad[place] = cells.n_unreadable
                if n_bad[place] and name not in self.tallies.examples:
                    examples[name] = schema.one_form(str(cells.source.filter(cells.unreadable)[0]))
            X[:, first] = series.to_numpy()
            if column.slots > 1:  # what the other slots hold, the target tells
                X[:, first + 1 : first + column.slots] = 0.0 * np.abs(X[:, [first]])
            if column is not self.used[place]:
                found[name] = column
        if numbers is not None:
            places = [self._places[name] for name in numbers.names]
            values: Any = numbers.matrix
            huge = np.abs(values) > LARGEST
            n_bad[places] = huge.sum(axis=0)
            X[:, self._first[places]] = self._without_words(np.where(huge, np.nan, values))
        return X, found, n_bad, examples

    def _opened(self, column: Column, series: pl.Series) -> tuple[Column, pl.Series]:
        """An empty column as its first value shows it, if that is among these rows."""
        first, values = since_first(series, self.hints)
        if not len(first):
            return column, series
        kind = find_column(first, self._late_hints)
        kind = Column(column.name, "category") if kind.kind == "left out" else kind
        return replace(kind, slots=column.slots), values

    def _coded(self, column: Column, values: pl.Series, *, learn: bool) -> tuple[Column, pl.Series]:
        """Categories as codes; those that come for the first time may get the next ones."""
        known, most = column.categories, self.hints.max_categories
        if learn and len(known) < most:
            met = values.drop_nulls().unique(maintain_order=True)
            new = met.filter(~met.is_in(known)).head(most - len(known)).to_list()
            known = (*known, *new)
            column = replace(column, categories=known) if new else column
        codes = [*map(float, range(len(known))), None]
        kind = pl.Float64()
        coded = values.replace_strict([*known, None], codes, default=most, return_dtype=kind)
        return column, coded

    def _counted(
        self,
        n_rows: int,
        here: Places,
        n_missing: Ints,
        n_bad: Ints | int = 0,
        examples: Mapping[str, str] | None = None,
    ) -> Columns:
        """With some rows counted; of columns that are not here, all cells are missing."""
        before = self.tallies
        missing, unreadable = before.missing + n_rows, before.unreadable.copy()
        missing[here] += n_missing - n_rows
        unreadable[here] += n_bad
        examples = {**before.examples, **(examples or {})}
        return self._other(tallies=Tallies(before.n_rows + n_rows, missing, unreadable, examples))

    # --- what is known ----------------------------------------------------------------------

    def describe(self) -> list[ColumnFacts]:
        """What each column of the table holds, and what was done with it."""
        tallies = self.tallies
        rows: list[ColumnFacts] = []
        for column in self.all:
            distinct, example = self.facts.get(column.name, (None, None))
            place = self._places.get(column.name) if tallies.n_rows else None
            missing = None if place is None else float(tallies.missing[place]) / tallies.n_rows
            rows.append(
                {
                    "name": column.name,
                    "kind": column.kind,
                    "missing": missing,
                    "unreadable": None if place is None else int(tallies.unreadable[place]),
                    "distinct": distinct,
                    "example": None if example is None else schema.short(example),
                    "done": _done(column, example, self.statistics is not None),
                }
            )
        return rows

    def surprises(self, doubted: Collection[str] = ()) -> list[str]:
        """What a user should know about the columns, in one line each.

        Of those that something else is said of, it is not said that they are left out.
        """
        lines: dict[str, list[str]] = {}  # the columns of which the same is to be said
        told: dict[NumberForm | DateForm | None, str] = {}  # of each form, by its first example
        for column in self.used:
            read_as = _read_as(column, self.facts.get(column.name, (0, None))[1])
            if read_as and column.form != DateForm(self.hints.dates or "year-first"):
                lines.setdefault(told.setdefault(column.form, read_as), []).append(column.name)
        most = self.hints.max_categories
        for column in self.all:
            why = column.why
            if column.kind == "left out":
                why = "" if column.name in doubted else f"{why}: left out"
            elif not why and column.kind == "category" and len(column.categories) >= most:
                why = f"more than {most:,} categories; those after the first {most:,} count as one"
            if why:
                lines.setdefault(why, []).append(column.name)
        notes = [f"{columns_named(names, 3)}: {line}" for line, names in lines.items()]
        tallies = self.tallies
        n_values = tallies.n_rows - tallies.missing
        for place in (tallies.unreadable > _MANY_UNREADABLE * n_values).nonzero()[0].tolist():
            column = self.used[place]
            if column.kind in schema.WORDS:  # an earlier version let kinds change
                share = tallies.unreadable[place] / n_values[place]
                example = tallies.examples.get(column.name)
                such = "" if example is None else f', such as "{schema.short(example)}"'
                what = f"{share:.0%} of its values are not {schema.WORDS[column.kind].many}{such}"
                notes.append(f'column "{column.name}": {what}: they count as missing')
        return notes

    def as_json(self) -> Header:
        """All that a state file has to hold."""
        tallies, hints, written = self.tallies, self.hints, self._written
        if not written:
            written["columns"] = [column.as_json() for column in self.all]
            facts = [self.facts.get(column.name, (None, None)) for column in self.all]
            written["facts"] = [list(of) for of in zip(*facts, strict=True)] if self.facts else None
        return {
            "columns": written["columns"],
            "hints": plain(vars(hints)),
            "n_rows": tallies.n_rows,
            "missing": tallies.missing.tolist(),
            "unreadable": tallies.unreadable.tolist(),
            "statistics": None if self.statistics is None else self.statistics.as_json(),
            "facts": written["facts"],
            "examples": {name: schema.short(text) for name, text in tallies.examples.items()},
        }

    @classmethod
    def from_json(cls, saved: Any) -> Self:
        """The columns that :meth:`as_json` wrote down."""
        with undamaged("the columns are"):
            columns = cls([], Hints(**saved["hints"]))
            if saved["statistics"] is not None:
                columns.statistics = TargetStatistics.from_json(saved["statistics"])
            columns._know(tuple(Column.from_json(column) for column in saved["columns"]))
            missing, unreadable = (
                np.array(saved[name], dtype=np.int64) for name in ("missing", "unreadable")
            )
            # Files of an earlier version have none of what only a person wants to know.
            examples = {str(name): str(text) for name, text in saved.get("examples", {}).items()}
            columns.tallies = Tallies(int(saved["n_rows"]), missing, unreadable, examples)
            distinct, found = saved.get("facts") or ((), ())
            columns.facts = {
                column.name: Facts(int(n), None if example is None else str(example))
                for column, n, example in zip(columns.all, distinct, found, strict=bool(distinct))
                if n is not None
            }
            n_known = len(columns._places)
            if {missing.shape, unreadable.shape, (len(columns.used),)} != {(n_known,)}:
                raise ValueError("counts of other columns")
        return columns


def _is_ready(series: pl.Series) -> bool:
    """Whether a column holds numbers that can be used as they are."""
    if series.dtype != pl.Float64:
        return False
    largest: Any = series.abs().max()  # does not look at NaN
    return largest is None or bool(largest <= LARGEST)


def facts_of(sample: pl.DataFrame, columns: Sequence[Column]) -> dict[str, Facts]:
    """The number of different values of each column, and an example; of very many, none."""
    facts: dict[str, Facts] = {}
    if sample.width > _MOST_FACTS:
        return facts
    first = sample.head(_LOOKED_AT)
    plain = parsed(first.select(column.name for column in columns if column.is_plain))
    for column, series in zip(columns, sample.iter_columns(), strict=True):
        if column.kind == "left out" and series.dtype != pl.String:
            facts[column.name] = Facts(0, None)
            continue
        shown = Column(column.name, "category") if column.kind == "left out" else column
        if column.name in plain:
            known = np.abs(plain[column.name].to_numpy()) <= LARGEST
        else:
            known = read_cells(first[column.name], shown).values.is_not_null().to_numpy()
        example = str(series[int(known.argmax())]).strip() if known.any() else None
        if example and shown.kind == "category":  # which is only shown, never read: it may be long
            example = schema.short(example)
        facts[column.name] = Facts(series.drop_nulls().n_unique(), example)
    return facts


def _done(column: Column, example: str | None, by_target: bool) -> str:
    """What was done with a column."""
    if column.kind == "left out":
        return f"left out: {column.why}"
    if column.kind == "category":
        by = "target-encoded from earlier rows" if by_target else "numbered as they appear"
        return f"{len(column.categories):,} categories, {by}"
    return _read_as(column, example) or schema.WORDS[column.kind].done


def _read_as(column: Column, example: str | None) -> str:
    """What an example is read as, where that is not obvious."""
    if column.form in (None, DateForm("year-first")) or example is None:
        return ""
    text = example.strip()
    value = read_cells(pl.Series([text]), column).values[0]
    if value is None:
        return ""
    if isinstance(column.form, DateForm):
        return f'"{schema.short(text)}" is read as {datetime.fromtimestamp(value, UTC).date()}'
    return f'"{schema.short(text)}" is read as {value:.15g}'
