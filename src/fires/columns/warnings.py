"""Columns of a table that one should not believe: ids, clocks, constants, copies, leaks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns.columns import Columns
from fires.columns.kinds import as_polars, find_columns, parsed, read_cells
from fires.columns.schema import NO_HINTS, Column, Doubt, Hints
from fires.core.types import Floats, Ints, Mask, RowsLike

LEAST = 100  # values of a column, below which nothing but a constant is told
_WHOLE = 2.0**53
_SAME = 1e-4  # of the variance of a copy may be rounding
_OFF = 50  # rows of a copy have another value than the commonest; of a leak, a tenth of that
_PROJECTIONS, _NEAR, _FEW_POINTS = 6, 0.1, 400
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


def find_doubts(
    frame: RowsLike, y: npt.ArrayLike | None = None, columns: Columns | None = None
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
    n clock: is a row counter
    f copy: is "c" on another scale
    one constant: has only one value, 1.0
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


class Seen:
    """What a sample shows of its columns, read once and looked at for all columns together."""

    def __init__(self, sample: pl.DataFrame, columns: Sequence[Column], hints: Hints) -> None:
        self.n_rows = len(sample)
        numbers: list[pl.Series] = []
        ready = [column.name for column in columns if column.is_plain and not hints.na_values]
        plain = parsed(sample.select(ready))
        self.texts: dict[str, pl.Series] = {}
        self.left_out: dict[str, pl.Series] = {}
        for column in columns:
            name, series = column.name, sample[column.name]
            if name in plain:
                numbers.append(plain[name])
            elif column.kind == "left out":
                if series.dtype == pl.String:
                    self.left_out[name] = series
            elif column.kind == "category":
                self.texts[name] = read_cells(series, column, hints).values
            elif column.kind != "empty":
                values = read_cells(series, column, hints).values
                numbers.append(values.cast(pl.Float64).alias(name))
        self.names = [series.name for series in numbers]
        self.frame = pl.DataFrame(numbers).fill_nan(None)
        self.dates = {column.name for column in columns if column.kind == "date"}

    @cached_property
    def numbers(self) -> Floats:
        """The numbers, one column after the other in memory; NaN where one is missing."""
        if not self.names:
            return np.empty((self.n_rows, 0))
        return np.asfortranarray(self.frame.to_numpy(), dtype=np.float64)

    @cached_property
    def known(self) -> Mask:
        """Which of them are there."""
        return np.asarray(~np.isnan(self.numbers))

    @cached_property
    def n_known(self) -> Ints:
        """How many of each column are there."""
        return np.asarray(self.known.sum(axis=0))

    @cached_property
    def _sorted(self) -> tuple[Ints, Mask]:
        """For each column, its rows by their numbers, and whether the one before is another."""
        order = np.argsort(self.numbers.T, axis=1)
        values = np.take_along_axis(self.numbers.T, order, axis=1)
        is_new = np.ones(values.shape, dtype=bool)
        is_new[:, 1:] = values[:, 1:] != values[:, :-1]
        return order, is_new

    @cached_property
    def n_distinct(self) -> Ints:
        """How many different numbers each column has."""
        _, is_new = self._sorted  # each that is missing is another one
        return np.asarray(is_new.sum(axis=1) + self.n_known - self.n_rows)

    @cached_property
    def ranks(self) -> Floats:
        """The ranks of the numbers, standardised: mean 0, sum of squares 1, 0 where missing."""
        order, is_new = self._sorted
        first = np.flatnonzero(is_new)  # of equal numbers; of all columns, one behind the other
        n_equal = np.diff(first, append=is_new.size)
        mean, ranks = first % self.n_rows + 0.5 * (n_equal + 1.0), np.empty(is_new.shape)
        np.put_along_axis(ranks, order, mean.repeat(n_equal).reshape(is_new.shape), axis=1)
        return standardised(np.where(self.known, ranks.T, np.nan))

    @cached_property
    def is_whole(self) -> Mask:
        """Which columns hold whole numbers only."""
        with np.errstate(invalid="ignore"):
            broken = (np.floor(self.numbers) != self.numbers) | (np.abs(self.numbers) > _WHOLE)
        return np.asarray(~(broken & self.known).any(axis=0))


def standardised(X: Floats) -> Floats:
    """Columns with mean 0 and sum of squares 1; 0 where a value is missing, and for constants."""
    gone = np.isnan(X)
    n = np.maximum((~gone).sum(axis=0), 1)
    filled = np.where(gone, 0.0, X)
    # By the largest first: squares of large numbers have no room.
    largest = np.abs(filled).max(axis=0, initial=0.0)
    filled /= np.where(largest > 0.0, largest, 1.0)
    centred = np.where(gone, 0.0, filled - filled.sum(axis=0) / n)
    size = np.sqrt((centred**2).sum(axis=0))
    return np.asarray(centred / np.where(size > 1e-12 * np.sqrt(n), size, np.inf))


# --- constants, ids and clocks -------------------------------------------------------------------


def _constants(seen: Seen) -> Iterator[Doubt]:
    """Columns that have one value only."""
    for j in np.flatnonzero((seen.n_distinct == 1) & (seen.n_rows > 1)).tolist():
        value = float(seen.numbers[seen.known[:, j], j][0])
        yield Doubt(seen.names[j], "constant", f"has only one value, {value}")
    for name, text in seen.texts.items():
        values = text.drop_nulls().unique()
        if len(values) == 1 and seen.n_rows > 1:
            yield Doubt(name, "constant", f'has only one value, "{values[0]}"')


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
            why = f"holds {n_distinct:,} distinct texts in {len(values):,} rows"
            yield Doubt(name, "id", why)
        elif 2 * n_distinct >= len(values) and values.str.contains(_HASH).all():
            yield Doubt(name, "id", "holds machine-generated codes, nearly all distinct")


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
            why = f"holds {distinct[j]:,} distinct whole numbers in {n[j]:,} rows"
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
        return "holds increasing timestamps"
    if n_distinct < LEAST:
        n_rare = len(values) - np.unique(values, return_counts=True)[1].max()
        return few_values(n_distinct) if only_grows and n_rare >= _FEWEST_ROWS else ""
    up = steps[steps > 0.0]
    usual = float(np.median(up))
    if (np.abs(steps - usual) <= 0.01 * usual).mean() >= _REGULAR:
        return "is a row counter" if usual == 1.0 else "increases by the same step from row to row"
    if not only_grows and order < 0.999:
        return ""
    return "increases from row to row" if _is_epoch(values) or _is_clock(name) else ""


def few_values(n_distinct: int) -> str:
    """What is said of a clock of few values, such as the number of a period."""
    return f"only increases, over {n_distinct:,} values, none of which recurs"


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


# --- copies and leaks ----------------------------------------------------------------------------


def leaks(seen: Seen, target: npt.ArrayLike) -> Iterator[Doubt]:
    """Columns that are the target, but for its scale, or under other names."""
    y = _as_series(target)
    ranks = y.rank("average").cast(pl.Float64).to_numpy()
    closeness = np.abs(seen.ranks.T @ _column(ranks))
    n_classes = y.drop_nulls().n_unique()
    if _tell(_codes(y.drop_nulls()), _OFF // 10):
        fits = (seen.n_distinct == n_classes) & ((n_classes > 2) | (closeness > 0.5))
        names = [seen.names[j] for j in np.flatnonzero(fits).tolist()]
        names += [name for name, text in seen.texts.items() if _size(text) == n_classes]
        for name in names:
            if _same_partition(seen.texts[name] if name in seen.texts else seen.frame[name], y):
                yield Doubt(name, "leak", "is the target under other names")
    if y.dtype != pl.String and n_classes > 2:
        numbers = y.to_numpy().astype(np.float64)
        for j in np.flatnonzero(closeness > 0.9).tolist():
            if _same_numbers(seen, j, numbers, ranks, _OFF // 10):
                yield Doubt(seen.names[j], "leak", "is the target on another scale")


def _as_series(y: npt.ArrayLike) -> pl.Series:
    """A target as numbers or texts; null where it is missing."""
    values = np.asarray(y)
    if values.dtype == object:
        return pl.Series([None if v is None or v != v else str(v) for v in values.tolist()])
    series = pl.Series(values)
    return series if series.dtype == pl.String else series.cast(pl.Float64).fill_nan(None)


def _column(values: Floats) -> Floats:
    return standardised(values[:, None])[:, 0]


def _size(text: pl.Series) -> int:
    return text.drop_nulls().n_unique()


def _codes(values: pl.Series) -> Ints:
    """Values as 0, 1, 2, ... in order of appearance; a missing one is a value too."""
    met = values.unique(maintain_order=True)
    return values.replace_strict(met, range(len(met)), return_dtype=pl.Int64).to_numpy()


def _tell(codes: Ints, least: int) -> bool:
    """Whether codes repeat, and vary, often enough for equal ones to be no chance."""
    counts = np.bincount(codes)
    return bool(min(len(codes) - counts.max(initial=0), len(codes) - len(counts)) >= least)


def _same_partition(one: pl.Series, other: pl.Series) -> bool:
    """Whether rows that both have are equal in one where they are in the other, and only there."""
    both = one.is_not_null() & other.is_not_null()
    one, other = one.filter(both), other.filter(both)
    for rows in (slice(0, LEAST), slice(None)):  # the first settle it nearly always
        codes = _codes(one[rows])
        if not np.array_equal(codes, _codes(other[rows])):
            return False
    return len(one) >= LEAST and _tell(codes, _OFF // 10)


def _same_numbers(seen: Seen, j: int, numbers: Floats, ranks: Floats, least: int) -> bool:
    """Whether numbers are those of a column but for scale and shift, in the rows that both have."""
    rows = seen.known[:, j] & ~np.isnan(numbers)
    commonest = np.unique(numbers[rows], return_counts=True)[1].max(initial=0)
    if rows.sum() < LEAST or rows.sum() - commonest < least:
        return False
    pairs = ((seen.numbers[:, j], numbers), (seen.ranks[:, j], ranks))
    return all(abs(_column(a[rows]) @ _column(b[rows])) >= 1.0 - 0.5 * _SAME for a, b in pairs)


def copies(seen: Seen, doubted: set[str]) -> Iterator[Doubt]:
    """Columns that hold what another one holds."""
    for name, other in _copies_of_text(seen, doubted):
        doubted = doubted | {name}
        yield Doubt(name, "copy", f'has the categories of "{other}" under other names', other)
    enough = np.flatnonzero(seen.n_known >= LEAST).tolist()
    places = [j for j in enough if seen.names[j] not in doubted]
    for later, earlier in _equal_numbers(seen, places):
        name, other = seen.names[later], seen.names[earlier]
        exact = np.array_equal(seen.numbers[:, later], seen.numbers[:, earlier], equal_nan=True)
        why = f'is the same as "{other}"' if exact else f'is "{other}" on another scale'
        yield Doubt(name, "copy", why, other)


def _copies_of_text(seen: Seen, doubted: set[str]) -> Iterator[tuple[str, str]]:
    """Columns with the same categories under other names; numbers may stand for categories."""
    first: dict[bytes, str] = {}
    texts = {name: text for name, text in seen.texts.items() if name not in doubted}
    for name, text in texts.items():
        codes = _codes(text)
        if _tell(codes, _OFF) and first.setdefault(codes.tobytes(), name) != name:
            yield name, first[codes.tobytes()]
    sizes = np.isin(seen.n_distinct, [_size(texts[name]) for name in first.values()])
    for name in (seen.names[j] for j in np.flatnonzero(sizes).tolist()):
        other = first.get(_codes(seen.frame[name]).tobytes())
        if other is not None and name not in doubted:
            yield name, other


def _near(points: Floats) -> Iterable[Iterable[int]]:
    """All pairs of points that are near each other."""
    if len(points) <= _FEW_POINTS:  # to load the search takes longer than to look at all
        apart = ((points[:, None] - points) ** 2).sum(axis=2)
        return np.argwhere(np.triu(apart <= _NEAR**2, 1)).tolist()
    from scipy.spatial import cKDTree

    found: Iterable[Iterable[int]] = cKDTree(points).query_pairs(_NEAR)
    return found


def _equal_numbers(seen: Seen, places: list[int]) -> list[tuple[int, int]]:
    """Pairs of columns, the later one first, that hold the same but for scale and shift.

    Candidates are those whose ranks point into nearly the same direction: that is found out from
    a few random projections of them, without a look at every pair.
    """
    if len(places) < 2:
        return []
    draws = np.random.default_rng(0).normal(size=(seen.n_rows, _PROJECTIONS))
    shadow = seen.ranks[:, places].T @ draws  # a standard normal number for each draw
    alike = np.round(shadow * np.sign(shadow[:, :1]), 6)  # a copy may be turned round
    _, firsts, group = np.unique(alike, axis=0, return_index=True, return_inverse=True)
    candidates = set(enumerate(firsts[group.ravel()].tolist()))
    for pair in _near(np.concatenate([shadow[firsts], -shadow[firsts]])):
        earlier, later = sorted(int(firsts[place % len(firsts)]) for place in pair)
        candidates.add((later, earlier))
    found: dict[int, int] = {}
    for i, first in sorted(candidates):
        j, earlier = places[i], places[first]
        if i == first or j in found or earlier in found:
            continue
        ranks, numbers = seen.ranks[:, earlier], seen.numbers[:, earlier]
        same_rows = np.array_equal(seen.known[:, j], seen.known[:, earlier])
        if same_rows and _same_numbers(seen, j, numbers, ranks, _OFF):
            found[j] = earlier
    return sorted(found.items())
