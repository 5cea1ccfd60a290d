"""Columns that name or count the rows, and those that do not vary."""

from __future__ import annotations

import re

import numpy as np

from fires.columns.schema import Doubt
from fires.columns.seen import LEAST, Seen
from fires.core.belief import Floats

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
_OF_CLOCKS = {
    "event",
    "created",
    "updated",
    "start",
    "log",
    "unix",
    "utc",
    "record",
    "number",
    "id",
}
_OF_CLOCKS |= {"s", "ms", "us", "ns", "sec", "seconds"}
_NO_NAME = re.compile(r"(Unnamed: \d+(_level_\d+)?|column_1|level_0|)")
_HASH = r"^\{?[0-9a-fA-F]{8}-?([0-9a-fA-F]{4}-?){3}[0-9a-fA-F]{12}\}?$|^[0-9a-fA-F]{16,}$"


def constants(seen: Seen) -> dict[str, Doubt]:
    """Columns that have one value only."""
    doubts = {}
    for j in np.flatnonzero((seen.n_distinct == 1) & (seen.n_rows > 1)).tolist():
        value = float(seen.numbers[seen.known[:, j], j][0])
        doubts[seen.names[j]] = f"has one value only, {value}"
    for name, text in seen.texts.items():
        values = text.drop_nulls().unique()
        if len(values) == 1 and seen.n_rows > 1:
            doubts[name] = f'has one value only, "{values[0]}"'
    return {name: Doubt(name, "constant", why) for name, why in doubts.items()}


def _nearly_all(n_distinct: int, n_values: int) -> bool:
    share = _NEARLY_ALL if n_values >= _MANY else 0.99
    return n_distinct >= LEAST and n_distinct >= share * n_values


def ids_of_text(seen: Seen) -> dict[str, Doubt]:
    """Text nearly all of which is different, and codes of machines."""
    doubts = {}
    for name, text in {**seen.texts, **seen.left_out}.items():
        values = text.drop_nulls()
        n_distinct = values.n_unique()
        if n_distinct < LEAST or (name in seen.left_out and values.str.contains(r"\s").mean()):
            continue  # free text is no id
        if _nearly_all(n_distinct, len(values)):
            why = f"holds {n_distinct:,} different texts in {len(values):,} rows"
            doubts[name] = Doubt(name, "id", why)
        elif 2 * n_distinct >= len(values) and values.str.contains(_HASH).all():
            doubts[name] = Doubt(name, "id", "holds codes of a machine, nearly all different")
    return doubts


def ids_of_numbers(seen: Seen) -> dict[str, Doubt]:
    """Whole numbers that were given out, each once."""
    doubts = {}
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
            doubts[name] = Doubt(name, "id", why)
    return doubts


def clocks(seen: Seen) -> dict[str, Doubt]:
    """What grows or falls with the rows, and is not just sorted."""
    row = np.arange(seen.n_rows, dtype=np.float64)
    known = seen.known.astype(np.float64).T
    spread = known @ row**2 - (known @ row) ** 2 / np.maximum(seen.n_known, 1)
    order = (seen.ranks.T @ row) / np.sqrt(np.maximum(spread, 1.0))
    doubts = {}
    for j in np.flatnonzero((np.abs(order) >= 0.9) & (seen.n_distinct >= 3)).tolist():
        name = seen.names[j]
        if seen.n_known[j] < LEAST:
            continue
        values = np.sign(order[j]) * seen.numbers[seen.known[:, j], j]
        why = _ticks(name, values, abs(order[j]), int(seen.n_distinct[j]), name in seen.dates)
        if why and _NO_NAME.fullmatch(name):
            doubts[name] = Doubt(name, "id", "has no name, as the index that pandas writes")
        elif why:
            doubts[name] = Doubt(name, "clock", why if order[j] > 0 else f"{why}, backwards")
    return doubts


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
