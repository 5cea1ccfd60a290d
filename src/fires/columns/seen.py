"""The first rows of a table, as doubts about its columns look at them."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns.columns import Columns
from fires.columns.schema import Column
from fires.columns.values import read_cells
from fires.core.belief import Floats

LEAST = 100
"""Values of a column, below which nothing but a constant is told."""
_WHOLE = 2.0**53


class Seen:
    """What a sample shows of its columns, read once and looked at for all columns together."""

    def __init__(self, sample: pl.DataFrame, columns: list[Column], known: Columns) -> None:
        self.n_rows = len(sample)
        numbers: list[pl.Series] = []
        plain = _plain_numbers(sample, columns, known)
        self.texts: dict[str, pl.Series] = {}
        self.left_out: dict[str, pl.Series] = {}
        for column in columns:
            if column.name in plain:
                numbers.append(plain[column.name])
                continue
            series = sample[column.name]
            if column.kind == "left out":
                if series.dtype == pl.String:
                    self.left_out[column.name] = series
            elif column.kind == "category":
                self.texts[column.name] = read_cells(series, column, known.hints).values
            elif column.kind != "empty":
                values = read_cells(series, column, known.hints).values
                numbers.append(values.cast(pl.Float64).alias(column.name))
        self.names = [series.name for series in numbers]
        self.frame = pl.DataFrame(numbers)
        self.dates = {column.name for column in columns if column.kind == "date"}

    @cached_property
    def numbers(self) -> Floats:
        """The numbers, one column after the other in memory; NaN where one is missing."""
        if not self.names:
            return np.empty((self.n_rows, 0))
        return np.asfortranarray(self.frame.to_numpy(), dtype=np.float64)

    @cached_property
    def known(self) -> npt.NDArray[np.bool_]:
        """Which of them are there."""
        return np.asarray(~np.isnan(self.numbers))

    @cached_property
    def n_known(self) -> npt.NDArray[np.int64]:
        """How many of each column are there."""
        return np.asarray(self.known.sum(axis=0))

    @cached_property
    def n_distinct(self) -> npt.NDArray[np.int64]:
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
    def is_whole(self) -> npt.NDArray[np.bool_]:
        """Which columns hold whole numbers only."""
        with np.errstate(invalid="ignore"):
            broken = (np.floor(self.numbers) != self.numbers) | (np.abs(self.numbers) > _WHOLE)
        return np.asarray(~(broken & self.known).any(axis=0))


def _plain_numbers(
    sample: pl.DataFrame, columns: list[Column], known: Columns
) -> dict[str, pl.Series]:
    """The columns that any parser reads, for all columns at once: there may be very many."""
    if known.hints.na_values:
        return {}
    frame = sample.select(column.name for column in columns if column.is_plain)
    read = frame.cast(pl.Float64, strict=False).fill_nan(None)
    lost = zip(frame.null_count().row(0), read.null_count().row(0), strict=True)
    return {
        name: read[name]
        for name, (before, after) in zip(frame.columns, lost, strict=True)
        if before == after
    }


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
