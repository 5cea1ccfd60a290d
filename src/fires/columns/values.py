"""How the cells of a column are read, given what the column is.

Text that looks like numbers counts as numbers, in whatever file or frame it stands, so that the
same table gives the same batches from CSV, from Parquet and from a frame.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import polars as pl

from fires.columns.date_forms import as_seconds, read_dates, read_durations
from fires.columns.number_forms import plain_numbers, read_numbers, usable
from fires.columns.schema import NO_HINTS, Column, DateForm, Hints, Kind, NumberForm
from fires.columns.text import drop_words, tidy

_KINDS_OF_TYPES: dict[type[pl.DataType], Kind] = {
    pl.Boolean: "flag",
    pl.Date: "date",
    pl.Datetime: "date",
    pl.Time: "duration",
    pl.Duration: "duration",
    pl.String: "category",
    pl.Categorical: "category",
    pl.Enum: "category",
    pl.Null: "empty",
}
_WHOLE = 2.0**53  # above it, not every whole number is a float64


class Cells(NamedTuple):
    """The cells of a column."""

    values: pl.Series
    source: pl.Series

    @property
    def n_unreadable(self) -> int:
        """How many cells hold something that cannot be read."""
        return self.values.null_count() - self.source.null_count()

    @property
    def unreadable(self) -> pl.Series:
        """Which cells hold something that cannot be read."""
        return self.values.is_null() & self.source.is_not_null()


def since_first(series: pl.Series, hints: Hints = NO_HINTS) -> tuple[pl.Series, pl.Series]:
    """Find the first value of a column of which none was known.

    Examples
    --------
    >>> first, series = since_first(pl.Series(["-", "Ulm", "-"]))
    >>> first.to_list(), series.to_list()
    (['Ulm'], [None, 'Ulm', '-'])
    """
    source = read_cells(series, Column(series.name, "empty"), hints).source
    present = source.is_not_null().arg_true().head(1)
    if len(present):
        series = series.clear(int(present[0])).append(series[int(present[0]) :])
    return source.gather(present), series


def kind_of_type(dtype: pl.DataType) -> Kind | None:
    """The kind of a column that has a type.

    Examples
    --------
    >>> kind_of_type(pl.Decimal(10, 2)), kind_of_type(pl.List(pl.Int8))
    ('number', None)
    """
    return "number" if dtype.is_numeric() else _KINDS_OF_TYPES.get(dtype.base_type())


def read_cells(series: pl.Series, column: Column, hints: Hints = NO_HINTS) -> Cells:
    """Read a column of text, or of values of any other type.

    Examples
    --------
    >>> cells = read_cells(pl.Series(["1.5", "?", "old"]), Column("age", "number"))
    >>> cells.values.to_list(), cells.source.to_list()
    ([1.5, None, None], ['1.5', None, 'old'])
    """
    if kind_of_type(series.dtype) is None:  # nested values, in a column that had others before
        present = pl.Series(series.name, ["nested"]).new_from_index(0, len(series))
        return Cells(_read_nothing(series, column), present.set(series.is_null(), None))
    if series.dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    if series.dtype != pl.String:
        return _read_typed(series, column, hints)
    if column.is_plain and not hints.na_values:
        values = plain_numbers(series)
        if values.null_count() == series.null_count():  # There is nothing to tidy up.
            return Cells(values, series)
    text = tidy(series, hints.na_values)
    if column.kind == "category":
        return Cells(text, text)
    cells = Cells(_READERS[column.kind](text, column), drop_words(text))
    if column.is_plain and hints.na_values:  # -999 and -999.0 are the same
        gone = cells.values.is_in(hints.na_numbers)
        return Cells(cells.values.set(gone, None), cells.source.set(gone, None))
    return cells


def _read_typed(series: pl.Series, column: Column, hints: Hints) -> Cells:
    """Values that are not text, in the type of their kind."""
    if column.kind == "category":
        return read_cells(series.cast(pl.String), column, hints)
    kind = kind_of_type(series.dtype)
    if kind == "empty":
        return Cells(series.cast(pl.Float64), series)
    if kind == "flag" and column.kind in ("flag", "integer"):
        return Cells(series, series)
    if kind in ("date", "duration"):
        values = as_seconds(series)
        return Cells(values if column.kind == kind else values.clear(len(values)), series)
    if series.dtype.is_float():
        series = series.fill_nan(None)
    if hints.na_values and series.dtype.is_numeric():
        series = series.set(series.cast(pl.Float64).is_in(hints.na_numbers), None)
    if column.kind == "integer":
        return Cells(_whole(series), series)
    if column.kind in ("date", "duration"):
        return Cells(pl.Series(series.name, [None] * len(series), pl.Float64), series)
    values = series.cast(pl.Float64, strict=False)
    return Cells(usable(values), series)


def _whole(series: pl.Series) -> pl.Series:
    """Whole numbers exactly; null where one has a fraction."""
    if series.dtype.is_integer():
        return series if series.dtype == pl.UInt64 else series.cast(pl.Int64, strict=False)
    values = series.cast(pl.Float64, strict=False)
    fits = (values == values.round()) & (values.abs() <= _WHOLE)
    return values.set(~fits.fill_null(True), None).cast(pl.Int64, strict=False)


def _read_flags(text: pl.Series, column: Column) -> pl.Series:
    lower = text.str.to_lowercase()
    return (lower == "true").set(~lower.is_in(["true", "false"]), None)


def _read_numbers(text: pl.Series, column: Column) -> pl.Series:
    form = column.form
    return read_numbers(text, form) if isinstance(form, NumberForm) else plain_numbers(text)


def _read_whole(text: pl.Series, column: Column) -> pl.Series:
    """Whole numbers; beyond the range of int64 where the column was found to need it."""
    if column.why == "unsigned":
        return text.cast(pl.UInt64, strict=False)
    values = text.cast(pl.Int64, strict=False)
    if values.null_count() == text.null_count():
        return values
    return values.zip_with(values.is_not_null(), _whole(plain_numbers(text)))


def _read_dates(text: pl.Series, column: Column) -> pl.Series:
    return read_dates(text, column.form if isinstance(column.form, DateForm) else DateForm())


def _read_nothing(text: pl.Series, column: Column) -> pl.Series:
    return pl.Series(text.name, [None] * len(text), pl.Float64)


_READERS: dict[Kind, Callable[[pl.Series, Column], pl.Series]] = {
    "number": _read_numbers,
    "integer": _read_whole,
    "flag": _read_flags,
    "date": _read_dates,
    "duration": lambda text, column: read_durations(text),
    "empty": _read_nothing,
}
