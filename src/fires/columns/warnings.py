"""What a user should know about columns: how they are read, and which one should not believe.

Suspicious columns are ids, clocks, constants, copies, and leaks of the target.

A doubt that is wrong does more harm than one that is missed: a column is doubted only if there is
hardly another explanation for what its rows show.

**id**: text nearly all of which differs; whole numbers that are equal far less often than they
would be by chance, or nearly all different under a name such as ``order_id``. Measurements that
happen to be all different are none.

**clock**: what grows (or falls) with the rows and is a date, goes in equal steps, has the range of
seconds since 1970, or is named like one. A feature that the file is sorted by is none, unless it
has fewer than 100 values, as a period number: what is learnt about one of them never serves again.

**copy**: numbers equal to those of another column, but for scale, shift and rounding; or the same
categories under other names. The later of the two is doubted; of a number and a category, the
number.

**leak**: the target itself, but for scale and shift, or under other names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import NamedTuple, NotRequired, Protocol, TypedDict

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns.cells import read_cells
from fires.columns.copies import LEAST, Seen, copies, leaks
from fires.columns.kinds import as_polars, find_columns
from fires.columns.schema import NO_HINTS, WORDS, Column, DateForm, Doubt, Hints, NumberForm, short
from fires.columns.target import TargetStatistics
from fires.core.types import Floats, Ints, RowsLike

_MANY_UNREADABLE = 0.05
# Columns of which examples are kept; values among which one is looked for.
_MOST_FACTS, _LOOKED_AT = 10_000, 1000
_NEARLY_ALL = 0.95
_MANY = 1000  # values, below which nearly all means 99 in 100
_EQUAL_PAIRS = 20.0  # that chance must make, at least, for their lack to tell something
_ORDERED = 0.99  # the rank correlation with the row number
_REGULAR = 0.6  # of the steps of a clock are equal; of sorted whole numbers, 0.41 at most
_FEWEST_DATES = 10
_FEWEST_ROWS = 10  # without the commonest value: chance sorts them once in 1e13 files

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_IDS = {"id", "ids", "uuid", "guid", "uid", "key", "pk", "rowid", "userid"}
_CLOCKS = {"time", "timestamp", "ts", "date", "datetime", "epoch", "t", "at", "clock", "unixtime"}
_CLOCKS |= {"index", "idx", "row", "rownum", "rowid", "rownumber", "seq", "sequence", "counter"}
_OF_CLOCKS = {"event", "created", "updated", "start", "log", "unix", "utc", "record", "number"}
_OF_CLOCKS |= {"id", "s", "ms", "us", "ns", "sec", "seconds"}
_NO_NAME = re.compile(r"(Unnamed: \d+(_level_\d+)?|column_1|level_0|)")
_HASH = r"^\{?[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\}?$|^[0-9a-fA-F]{16,}$"


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


class KnownColumns(Protocol):
    """What is read here of :class:`fires.columns.Columns`."""

    all: tuple[Column, ...]
    used: tuple[Column, ...]
    hints: Hints
    facts: Mapping[str, Facts]
    statistics: TargetStatistics | None
    tallies: Tallies


def facts_of(sample: pl.DataFrame, columns: Sequence[Column]) -> dict[str, Facts]:
    """The number of different values of each column, and an example; of very many, none."""
    facts: dict[str, Facts] = {}
    if sample.width > _MOST_FACTS:
        return facts
    for column, series in zip(columns, sample.iter_columns(), strict=True):
        if column.kind == "left out" and series.dtype != pl.String:
            facts[column.name] = Facts(0, None)
            continue
        shown = Column(column.name, "category") if column.kind == "left out" else column
        cells = read_cells(series.head(_LOOKED_AT), shown)
        known = cells.values.is_not_null().arg_true().head(1).to_list()
        example = str(series[known[0]]).strip() if known else None
        if example and shown.kind == "category":  # which is only shown, never read: it may be long
            example = short(example)
        facts[column.name] = Facts(series.drop_nulls().n_unique(), example)
    return facts


def describe(columns: KnownColumns) -> list[ColumnFacts]:
    """What each column holds, and what was done with it."""
    tallies = columns.tallies
    places = {column.name: place for place, column in enumerate(columns.used)}
    rows: list[ColumnFacts] = []
    for column in columns.all:
        distinct, example = columns.facts.get(column.name, (None, None))
        place = places.get(column.name) if tallies.n_rows else None
        rows.append(
            {
                "name": column.name,
                "kind": column.kind,
                "missing": None
                if place is None
                else float(tallies.missing[place]) / tallies.n_rows,
                "unreadable": None if place is None else int(tallies.unreadable[place]),
                "distinct": distinct,
                "example": None if example is None else short(example),
                "done": _done(column, example, columns.statistics is not None),
            }
        )
    return rows


def _done(column: Column, example: str | None, by_target: bool) -> str:
    """What was done with a column."""
    if column.kind == "left out":
        return f"left out: {column.why}"
    if column.kind == "category":
        by = "target-encoded from earlier rows" if by_target else "numbered as they appear"
        return f"{len(column.categories):,} categories, {by}"
    return _read_as(column, example) or WORDS[column.kind].done


def _read_as(column: Column, example: str | None) -> str:
    """What an example is read as, where that is not obvious."""
    if column.form in (None, DateForm("year-first")) or example is None:
        return ""
    text = example.strip()
    value = read_cells(pl.Series([text]), column).values[0]
    if value is None:
        return ""
    if isinstance(column.form, DateForm):
        return f'"{short(text)}" is read as {datetime.fromtimestamp(value, UTC).date()}'
    return f'"{short(text)}" is read as {value:.15g}'


def surprises(columns: KnownColumns, doubted: Collection[str] = ()) -> list[str]:
    """What a user should know about the columns, in one line each."""
    lines: dict[str, list[str]] = {}  # the columns of which the same is to be said
    told: dict[NumberForm | DateForm | None, str] = {}  # of each form, by its first example
    for column in columns.used:
        read_as = _read_as(column, columns.facts.get(column.name, (0, None))[1])
        if read_as and column.form != DateForm(columns.hints.dates or "year-first"):
            lines.setdefault(told.setdefault(column.form, read_as), []).append(column.name)
    most = columns.hints.max_categories
    for column in columns.all:
        why = column.why
        if column.kind == "left out":
            why = "" if column.name in doubted else f"{why}: left out"
        elif not why and column.kind == "category" and len(column.categories) >= most:
            why = f"more than {most:,} categories; those after the first {most:,} count as one"
        if why:
            lines.setdefault(why, []).append(column.name)
    return [f"{_named(names)}: {line}" for line, names in lines.items()] + _unreadable(columns)


def _unreadable(columns: KnownColumns) -> list[str]:
    tallies, lines = columns.tallies, []
    n_values = tallies.n_rows - tallies.missing
    for place in (tallies.unreadable > _MANY_UNREADABLE * n_values).nonzero()[0].tolist():
        column = columns.used[place]
        if column.kind not in WORDS:  # an earlier version let kinds change
            continue
        share = tallies.unreadable[place] / n_values[place]
        example = tallies.examples.get(column.name)
        such = "" if example is None else f', such as "{short(example)}"'
        lines.append(
            f'column "{column.name}": {share:.0%} of its values are not {WORDS[column.kind].many}'
            f"{such}: they count as missing"
        )
    return lines


def _named(names: Sequence[str]) -> str:
    """Some names, for the begin of a line."""
    if len(names) == 1:
        return f'column "{names[0]}"'
    shown = ", ".join(f'"{name}"' for name in names[:3])
    return f"columns {shown}" + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


# --- doubts --------------------------------------------------------------------------------------


def find_doubts(
    frame: RowsLike, y: npt.ArrayLike | None = None, columns: KnownColumns | None = None
) -> list[Doubt]:
    """Find the columns of a table that one should not believe.

    Parameters
    ----------
    frame : frame of pandas or polars, or list of dicts
        Rows in their order, as many as there are or the first 10,000.
    y : array (n_rows,), optional
        Their target. Without it, leaks are not looked for.
    columns : Columns, optional
        What the columns hold; found out from the frame by default.

    Returns
    -------
    list of Doubt
        One for each doubtful column, in the order of the frame.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> x = np.random.default_rng(0).normal(size=500)
    >>> frame = pl.DataFrame({"n": np.arange(500), "c": x, "f": 1.8 * x + 32, "one": 1})
    >>> for doubt in find_doubts(frame, x > 0):
    ...     print(doubt.column, doubt)
    n clock: counts the rows
    f copy: is "c" on another scale
    one constant: has one value only, 1.0
    """
    sample = as_polars(frame)
    known = find_columns(sample) if columns is None else columns.all
    here = set(sample.columns)
    hints = NO_HINTS if columns is None else columns.hints
    seen = Seen(sample, [column for column in known if column.name in here], hints)
    found = [] if y is None or seen.n_rows < LEAST else [leaks(seen, y)]
    found += [find(seen) for find in (_clocks, _ids_of_numbers, _ids_of_text, _constants)]
    doubts: dict[str, Doubt] = {}
    for doubt in chain.from_iterable(found):
        doubts.setdefault(doubt.column, doubt)  # the first one is the gravest
    if seen.n_rows >= LEAST:
        doubts |= {doubt.column: doubt for doubt in copies(seen, set(doubts))}
    return [doubts[column.name] for column in known if column.name in doubts]


def _constants(seen: Seen) -> Iterator[Doubt]:
    """Columns that have one value only."""
    for j in np.flatnonzero((seen.n_distinct == 1) & (seen.n_rows > 1)).tolist():
        value = float(seen.numbers[seen.known[:, j], j][0])
        yield Doubt(seen.names[j], "constant", f"has one value only, {value}")
    for name, text in seen.texts.items():
        values = text.drop_nulls().unique()
        if len(values) == 1 and seen.n_rows > 1:
            yield Doubt(name, "constant", f'has one value only, "{values[0]}"')


def _nearly_all(n_distinct: int, n_values: int) -> bool:
    share = _NEARLY_ALL if n_values >= _MANY else 0.99
    return n_distinct >= LEAST and n_distinct >= share * n_values


def _ids_of_text(seen: Seen) -> Iterator[Doubt]:
    """Text nearly all of which is different, and codes of machines."""
    for name, text in {**seen.texts, **seen.left_out}.items():
        values = text.drop_nulls()
        n_distinct = values.n_unique()
        if n_distinct < LEAST or (name in seen.left_out and values.str.contains(r"\s").mean()):
            continue  # free text is no id
        if _nearly_all(n_distinct, len(values)):
            why = f"holds {n_distinct:,} different texts in {len(values):,} rows"
            yield Doubt(name, "id", why)
        elif 2 * n_distinct >= len(values) and values.str.contains(_HASH).all():
            yield Doubt(name, "id", "holds codes of a machine, nearly all different")


def _ids_of_numbers(seen: Seen) -> Iterator[Doubt]:
    """Whole numbers that were given out, each once."""
    n, distinct = seen.n_known, seen.n_distinct
    for j in np.flatnonzero(seen.is_whole & (distinct >= LEAST) & (2 * distinct >= n)).tolist():
        name = seen.names[j]
        if name in seen.dates:
            continue
        span = float(np.nanmax(seen.numbers[:, j]) - np.nanmin(seen.numbers[:, j])) + 1.0
        # Spread evenly, numbers of this range would meet so often; in any other way, more often.
        by_chance = float(n[j]) ** 2 / (2.0 * span)
        given_out = by_chance >= _EQUAL_PAIRS and n[j] - distinct[j] < 0.1 * by_chance
        nearly_all = _nearly_all(int(distinct[j]), int(n[j]))
        if nearly_all and (given_out or _is_id(name)):
            why = f"holds {distinct[j]:,} different whole numbers in {n[j]:,} rows"
            yield Doubt(name, "id", why)


def _clocks(seen: Seen) -> Iterator[Doubt]:
    """What grows or falls with the rows, and is not just sorted."""
    row = np.arange(seen.n_rows, dtype=np.float64)
    known = seen.known.astype(np.float64).T
    spread = known @ row**2 - (known @ row) ** 2 / np.maximum(seen.n_known, 1)
    order = (seen.ranks.T @ row) / np.sqrt(np.maximum(spread, 1.0))
    for j in np.flatnonzero((np.abs(order) >= 0.9) & (seen.n_distinct >= 3)).tolist():
        name = seen.names[j]
        if seen.n_known[j] < LEAST:
            continue
        values = np.sign(order[j]) * seen.numbers[seen.known[:, j], j]
        why = _ticks(name, values, abs(order[j]), int(seen.n_distinct[j]), name in seen.dates)
        if why and _NO_NAME.fullmatch(name):
            yield Doubt(name, "id", "has no name, as the index that pandas writes")
        elif why:
            yield Doubt(name, "clock", why if order[j] > 0 else f"{why}, backwards")


def _ticks(name: str, values: Floats, order: float, n_distinct: int, is_date: bool) -> str:
    """What makes numbers in order a clock; nothing if they are not in order, or just sorted."""
    steps = np.diff(values)
    only_grows = bool((steps >= 0.0).all())
    if not only_grows and order < _ORDERED:
        return ""
    if is_date and n_distinct >= _FEWEST_DATES:
        return "holds times that grow from row to row"
    if n_distinct < LEAST:
        n_rare = len(values) - np.unique(values, return_counts=True)[1].max()
        return few_values(n_distinct) if only_grows and n_rare >= _FEWEST_ROWS else ""
    up = steps[steps > 0.0]
    usual = float(np.median(up))
    if (np.abs(steps - usual) <= 0.01 * usual).mean() >= _REGULAR:
        return "counts the rows" if usual == 1.0 else "grows from row to row by the same step"
    if not only_grows and order < 0.999:
        return ""
    return "grows from row to row" if _is_epoch(values) or _is_clock(name) else ""


def few_values(n_distinct: int) -> str:
    """What is said of a clock of few values, such as the number of a period."""
    return f"only grows, over {n_distinct:,} values: none of them comes again"


def _is_epoch(values: Floats) -> bool:
    """Whether numbers are the seconds since 1970, or parts of them, of a time of computers."""
    low, high = np.abs(values[[0, -1]]).min(), np.abs(values[[0, -1]]).max()
    return any(7e8 * unit < low <= high < 2.5e9 * unit for unit in (1.0, 1e3, 1e6, 1e9))


def _words(name: str) -> list[str]:
    """The words of a name: ``orderId`` has two."""
    return [word.lower() for word in _WORDS.findall(name)]


def _is_id(name: str) -> bool:
    words = _words(name)
    return bool(words) and (words[-1] in _IDS or words[0] in ("id", "uuid", "guid"))


def _is_clock(name: str) -> bool:
    """Whether it says nothing but a time, or of what event; ``response_time`` says more."""
    words = set(_words(name))
    return bool(words & _CLOCKS) and words <= _CLOCKS | _OF_CLOCKS
