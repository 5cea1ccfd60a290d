"""What is told about the columns of a table: a table of them, and a line for each surprise."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple, NotRequired, Protocol, TypedDict

import numpy as np
import polars as pl

from fires.columns.schema import Column, DateForm, Hints, NumberForm
from fires.columns.statistics import TargetStatistics
from fires.columns.values import read_cells
from fires.core.types import Ints, Json

_MANY_UNREADABLE = 0.05
_LONGEST = 40
_LOOKED_AT = 1000
_AS_SHOWN = ("category", "left out")
"""Columns whose example is only shown, never read: it may be long."""
_PLURALS = {
    "number": "numbers",
    "flag": "true or false",
    "date": "dates",
    "duration": "durations",
}


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
    """The number of different values of each column, and an example."""
    facts = {}
    for column, series in zip(columns, sample.iter_columns(), strict=True):
        if column.kind == "left out" and series.dtype != pl.String:
            facts[column.name] = Facts(0, None)
            continue
        shown = Column(column.name, "category") if column.kind == "left out" else column
        cells = read_cells(series.head(_LOOKED_AT), shown)
        known = cells.values.is_not_null().arg_true().head(1).to_list()
        example = str(series[known[0]]).strip() if known else None
        facts[column.name] = Facts(series.drop_nulls().n_unique(), example)
    return facts


def facts_as_json(columns: KnownColumns) -> list[Json] | None:
    """The facts, for a state file."""
    if not columns.facts:
        return None
    distinct: list[int | None] = []
    examples: list[str | None] = []
    for column in columns.all:
        found, example = columns.facts.get(column.name, (None, None))
        distinct.append(found)
        examples.append(short(example) if example and column.kind in _AS_SHOWN else example)
    return [distinct, examples]


def facts_from_json(columns: KnownColumns, saved: Any) -> dict[str, Facts]:
    """The facts that :func:`facts_as_json` wrote down."""
    if saved is None:
        return {}
    return {
        column.name: Facts(int(distinct), None if example is None else str(example))
        for column, distinct, example in zip(columns.all, *saved, strict=True)
        if distinct is not None
    }


def describe(columns: KnownColumns) -> list[ColumnFacts]:
    """What each column holds, and what was done with it."""
    places = {column.name: place for place, column in enumerate(columns.used)}
    rows: list[ColumnFacts] = []
    tallies = columns.tallies
    for column in columns.all:
        place, facts = places.get(column.name), columns.facts.get(column.name)
        counted = place is not None and tallies.n_rows > 0
        rows.append(
            {
                "name": column.name,
                "kind": column.kind,
                "missing": float(tallies.missing[place]) / tallies.n_rows if counted else None,
                "unreadable": int(tallies.unreadable[place]) if counted else None,
                "distinct": None if facts is None else facts.distinct,
                "example": None if facts is None or facts.example is None else short(facts.example),
                "done": _done(column, facts, columns.statistics is not None),
            }
        )
    return rows


def _done(column: Column, facts: Facts | None, by_target: bool) -> str:
    """What was done with a column."""
    if column.kind == "left out":
        return f"left out: {column.why}"
    if column.kind == "category":
        by = "target-encoded from earlier rows" if by_target else "numbered as they appear"
        return f"{len(column.categories):,} categories, {by}"
    seen = _read_as(column, facts)
    done = {
        "number": "used as it is",
        "flag": "true is 1, false is 0",
        "date": "seconds since 1970",
        "duration": "seconds",
        "empty": "waits for its first value",
    }
    return seen or done[column.kind]


def _read_as(column: Column, facts: Facts | None) -> str:
    """What an example is read as, where that is not obvious."""
    if column.form is None or facts is None or facts.example is None:
        return ""
    text = facts.example.strip()
    value = read_cells(pl.Series([text]), column).values[0]
    if value is None:
        return ""
    if isinstance(column.form, DateForm):
        if column.form.order == "year-first":
            return ""
        day = datetime.fromtimestamp(value, UTC).date().isoformat()
        return f'"{short(text)}" is read as {day}'
    return f'"{short(text)}" is read as {value:.15g}'


def surprises(columns: KnownColumns, doubted: Collection[str] = ()) -> list[str]:
    """What a user should know about the columns, in one line each."""
    lines = [f"{_named(names)}: {described}" for described, names in _by_form(columns).items()]
    reasons: dict[str, list[str]] = {}
    for column in columns.all:
        if column.kind == "left out" and column.name in doubted:
            continue
        if column.kind == "left out":
            reasons.setdefault(f"{column.why}: left out", []).append(column.name)
        elif column.why:
            reasons.setdefault(column.why, []).append(column.name)
        elif column.kind == "category" and len(column.categories) >= columns.hints.max_categories:
            most = f"{columns.hints.max_categories:,}"
            described = f"more than {most} categories; those after the first {most} count as one"
            reasons.setdefault(described, []).append(column.name)
    lines += [f"{_named(names)}: {described}" for described, names in reasons.items()]
    return lines + _unreadable(columns)


def _by_form(columns: KnownColumns) -> dict[str, list[str]]:
    """The columns that share a form, by what the first example of it is read as."""
    names: dict[NumberForm | DateForm, list[str]] = {}
    described: dict[NumberForm | DateForm, str] = {}
    for column in columns.used:
        if column.form is None:
            continue
        seen = _read_as(column, columns.facts.get(column.name))
        if isinstance(column.form, DateForm) and column.form.order == columns.hints.dates:
            continue  # the user said so
        if seen:
            names.setdefault(column.form, []).append(column.name)
            described.setdefault(column.form, seen)
    return {described[form]: of_form for form, of_form in names.items()}


def _unreadable(columns: KnownColumns) -> list[str]:
    tallies, lines = columns.tallies, []
    n_values = tallies.n_rows - tallies.missing
    for place in (tallies.unreadable > _MANY_UNREADABLE * n_values).nonzero()[0].tolist():
        column = columns.used[place]
        if column.kind not in _PLURALS:  # an earlier version let kinds change
            continue
        share = tallies.unreadable[place] / n_values[place]
        example = tallies.examples.get(column.name)
        such = "" if example is None else f', such as "{short(example)}"'
        lines.append(
            f'column "{column.name}": {share:.0%} of its values are not {_PLURALS[column.kind]}'
            f"{such}: they count as missing"
        )
    return lines


def _named(names: Sequence[str]) -> str:
    """Some names, for the begin of a line."""
    if len(names) == 1:
        return f'column "{names[0]}"'
    shown = ", ".join(f'"{name}"' for name in names[:3])
    return f"columns {shown}" + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def short(value: str) -> str:
    r"""Make a value fit into a message of one line.

    Examples
    --------
    >>> short("one\ntwo")
    'one two'
    """
    value = " ".join(value.split())
    return value if len(value) <= _LONGEST else value[: _LONGEST - 3] + "..."
