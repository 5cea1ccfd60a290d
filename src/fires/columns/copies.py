"""The first rows of a table, and columns that hold what another one holds, or the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns.cells import parsed, read_cells
from fires.columns.schema import Column, Doubt, Hints
from fires.core.types import Floats, Ints, Labels, Mask

LEAST = 100  # values of a column, below which nothing but a constant is told
_WHOLE = 2.0**53
_SAME = 1e-4  # of the variance of a copy may be rounding
_OFF = 50  # rows of a copy have another value than the commonest; of a leak, a tenth of that
_PROJECTIONS, _NEAR = 6, 0.1


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
    def n_distinct(self) -> Ints:
        """How many different numbers each column has."""
        if not self.names:
            return np.empty(0, dtype=np.int64)
        counts = self.frame.select(pl.all().drop_nulls().n_unique())
        return np.array(counts.row(0), dtype=np.int64)

    @cached_property
    def ranks(self) -> Floats:
        """The ranks of the numbers, standardised: mean 0, sum of squares 1, 0 where missing."""
        if not self.names:
            return np.empty((self.n_rows, 0))
        ranks = self.frame.select(pl.all().rank("average").cast(pl.Float64)).to_numpy()
        return standardised(np.asfortranarray(ranks))

    @cached_property
    def values(self) -> Floats:
        """The numbers, standardised in the same way."""
        return standardised(self.numbers)

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


# --- copies and leaks ----------------------------------------------------------------------------


def _codes(values: pl.Series) -> Ints:
    """Values as 0, 1, 2, ... in order of appearance; a missing one is a value too."""
    _, first, place = np.unique(
        values.rank("dense").fill_null(0).to_numpy(), return_index=True, return_inverse=True
    )
    code = np.empty(len(first), dtype=np.int64)
    code[np.argsort(first)] = np.arange(len(first))
    return code[place]


def _n_off(values: Labels) -> int:
    """How many rows have another value than the commonest."""
    _, counts = np.unique(values, return_counts=True)
    return int(len(values) - counts.max(initial=0))


def _tell(codes: Ints, least: int) -> bool:
    """Whether codes repeat, and vary, often enough for equal ones to be no chance."""
    counts = np.bincount(codes)
    return bool(min(len(codes) - counts.max(initial=0), len(codes) - len(counts)) >= least)


def _as_series(y: npt.ArrayLike) -> pl.Series:
    """A target as numbers or texts; null where it is missing."""
    values = np.asarray(y)
    if values.dtype == object:
        return pl.Series([None if v is None or v != v else str(v) for v in values.tolist()])
    series = pl.Series(values)
    if series.dtype.is_float():
        return series.fill_nan(None)
    return series if series.dtype == pl.String else series.cast(pl.Float64)


def leaks(seen: Seen, target: npt.ArrayLike) -> Iterator[Doubt]:
    """Columns that are the target, but for its scale, or under other names."""
    y = _as_series(target)
    present = y.is_not_null().to_numpy()
    codes = _codes(y)
    n_classes = y.drop_nulls().n_unique()
    if _tell(codes[present], _OFF // 10):
        near = np.abs(seen.ranks.T @ _column(codes.astype(np.float64))) > 0.5
        for name in _of_size(seen, n_classes, near if n_classes == 2 else None):
            values = seen.texts[name] if name in seen.texts else seen.frame[name]
            both = present & values.is_not_null().to_numpy()
            if _same_partition(values.filter(both), codes[both]):
                yield Doubt(name, "leak", "is the target under other names")
    if y.dtype != pl.String and n_classes > 2:
        numbers = y.to_numpy().astype(np.float64)
        ranks = y.rank("average").cast(pl.Float64).to_numpy()
        for j in np.flatnonzero(np.abs(seen.ranks.T @ _column(ranks)) > 0.9).tolist():
            both = present & seen.known[:, j]
            if _tell_the_same(seen, j, numbers, ranks, both):
                yield Doubt(seen.names[j], "leak", "is the target, but for its scale")


def _of_size(seen: Seen, n_values: int, near: Mask | None = None) -> list[str]:
    """The columns that have so many different values; of numbers, those that come near."""
    fits = seen.n_distinct == n_values
    numbers = np.flatnonzero(fits if near is None else fits & near)
    return [seen.names[j] for j in numbers.tolist()] + [
        name for name, text in seen.texts.items() if text.drop_nulls().n_unique() == n_values
    ]


def _same_partition(values: pl.Series, codes: Ints) -> bool:
    """Whether rows have the same value where they have the same code, and nowhere else."""
    some = slice(0, LEAST)  # which settles it nearly always
    for rows in (some, slice(None)):
        mine, others = _codes(values[rows]), codes[rows]
        pairs = mine * (others.max(initial=0) + 1) + others
        if not len(np.unique(pairs)) == len(np.unique(mine)) == len(np.unique(others)):
            return False
    return len(values) >= LEAST and _tell(mine, _OFF // 10)


def _column(values: Floats) -> Floats:
    return standardised(values[:, None])[:, 0]


def _tell_the_same(seen: Seen, j: int, numbers: Floats, ranks: Floats, rows: Mask) -> bool:
    """Whether numbers are those of a column but for scale and shift, in the rows given."""
    if rows.sum() < LEAST or _n_off(numbers[rows]) < _OFF // 10:
        return False
    pairs = ((seen.numbers[:, j], numbers), (seen.ranks[:, j], ranks))
    return all(abs(_column(a[rows]) @ _column(b[rows])) >= 1.0 - 0.5 * _SAME for a, b in pairs)


def copies(seen: Seen, doubted: set[str]) -> Iterator[Doubt]:
    """Columns that hold what another one holds."""
    for doubt in _copies_of_text(seen, doubted):
        doubted = doubted | {doubt.column}
        yield doubt
    enough = np.flatnonzero(seen.n_known >= LEAST).tolist()
    places = [j for j in enough if seen.names[j] not in doubted]
    for later, earlier in _equal_numbers(seen, places):
        name, other = seen.names[later], seen.names[earlier]
        exact = np.array_equal(seen.numbers[:, later], seen.numbers[:, earlier], equal_nan=True)
        why = f'is the same as "{other}"' if exact else f'is "{other}" on another scale'
        yield Doubt(name, "copy", why, other)


def _copies_of_text(seen: Seen, doubted: set[str]) -> Iterator[Doubt]:
    """Columns with the same categories under other names; numbers may stand for categories."""
    first: dict[bytes, str] = {}
    sizes = set()
    for name, text in seen.texts.items():
        if name in doubted:
            continue
        codes = _codes(text)
        if not _tell(codes, _OFF):
            continue
        other = first.setdefault(codes.tobytes(), name)
        sizes.add(text.drop_nulls().n_unique())
        if other != name:
            why = f'has the categories of "{other}" under other names'
            yield Doubt(name, "copy", why, other)
    for size in sizes:
        for j in np.flatnonzero(seen.n_distinct == size).tolist():
            name = seen.names[j]
            found = first.get(_codes(seen.frame[name]).tobytes())
            if found is not None and name not in doubted:
                why = f'has the categories of "{found}" under other names'
                yield Doubt(name, "copy", why, found)


def _equal_numbers(seen: Seen, places: list[int]) -> list[tuple[int, int]]:
    """Pairs of columns, the later one first, that hold the same but for scale and shift.

    Candidates are those whose ranks point into nearly the same direction: that is found out from
    a few random projections of them, without a look at every pair.
    """
    from scipy.spatial import cKDTree

    if len(places) < 2:
        return []
    ranks = seen.ranks[:, places]
    draws = np.random.default_rng(0).normal(size=(seen.n_rows, _PROJECTIONS))
    shadow = ranks.T @ draws  # a standard normal number for each draw
    groups: dict[bytes, list[int]] = {}
    for i, line in enumerate(np.round(shadow * np.sign(shadow[:, :1]), 6)):
        groups.setdefault(line.tobytes(), []).append(i)
    candidates = [(i, group[0]) for group in groups.values() for i in group[1:]]
    firsts = [group[0] for group in groups.values()]
    # A copy may be turned round.
    both = cKDTree(np.concatenate([shadow[firsts], -shadow[firsts]]))
    for pair in both.query_pairs(_NEAR):
        a, b = sorted(firsts[place % len(firsts)] for place in pair)
        candidates.append((b, a))
    found: dict[int, int] = {}
    for i, first in sorted(set(candidates)):
        j, earlier = places[i], places[first]
        if i == first or j in found or earlier in found:
            continue
        if not np.array_equal(seen.known[:, j], seen.known[:, earlier]):
            continue
        alike = min(
            abs(float(ranks[:, i] @ ranks[:, first])),
            abs(float(seen.values[:, j] @ seen.values[:, earlier])),
        )
        if alike >= 1.0 - 0.5 * _SAME and _n_off(seen.numbers[seen.known[:, j], j]) >= _OFF:
            found[j] = earlier
    return sorted(found.items())
