"""The cells of a column: how text and typed values are read, given what the column holds.

Text that looks like numbers counts as numbers, in whatever file or frame it stands, so that the
same table gives the same batches from CSV, from Parquet and from a frame.

Numbers are read as people write them: 12.3%, $1,234.50, (3.20), 5 kg, 1.234,56. The form of a
column is found once, in a sample. A cell in another form is not a number then: "5 lb" in a column
of "5 kg" would be a wrong value, not a missing one. Dates of three numbers are read in one order,
found in the sample, too. Month names and times of day may stand in any of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import compress
from typing import NamedTuple

import polars as pl
from polars import selectors

from fires.columns.schema import NO_HINTS, Column, DateForm, DateOrder, Hints, Kind, NumberForm
from fires.core.validation import LARGEST

# What a missing value may be written as, in any column.
MISSING = ("", "?", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "#N/A", "\\N", "<NA>", "NaT")
# What else cannot be meant as a value among numbers, dates or flags; in lower case.
_AMONG_NUMBERS = (
    *("-", "--", ".", "?", "na", "n/a", "n.a.", "n/d", "nd", "nan", "-nan", "nat", "<na>", "\\n"),
    *("null", "nil", "none", "missing", "unknown", "undefined"),
    *("#n/a", "#na", "#null!", "#div/0!", "#value!", "#ref!", "#name?", "#num!"),
)
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

BLANK = r"[ \u00a0\u202f]"

_DATES: dict[DateOrder, tuple[str, str]] = {
    "year-first": ("%Y-%m-%d", r"^\d{4}-\d{1,2}-\d{1,2}(?: |$)"),
    "day-first": ("%d-%m-%Y", r"^\d{1,2}-\d{1,2}-\d{4}(?: |$)"),
    "month-first": ("%m-%d-%Y", r"^\d{1,2}-\d{1,2}-\d{4}(?: |$)"),
}
_TIMES = ("", " %H:%M:%S%.f", " %H:%M", " %H:%M:%S%.f%#z", " %H:%M%#z", " %I:%M:%S %p", " %I:%M %p")
NAMED_DATE = (
    r"(?i)^(?:[a-z]{3},? )?(?:\d{1,2}[-/ ][a-z]{3}[-/ ]\d{4}|[a-z]{3} \d{1,2},? \d{4})(?:[ :]|$)"
)
_NUMBERS_OF_DATE = r"^(\d{1,4})[-/.](\d{1,2})[-/.](\d{1,4})(?:[T ,]+(.*))?$"
_DURATION = (
    r"(?i)^(?P<minus>-)?(?:(?P<days>\d+)\s*d(?:ays?)?,?\s*)?"
    r"(?P<hours>\d{1,4}):(?P<minutes>[0-5]\d)(?::(?P<seconds>[0-5]\d(?:\.\d+)?))?$"
)


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


def kind_of_type(dtype: pl.DataType) -> Kind | None:
    """The kind of a column that has a type."""
    return "number" if dtype.is_numeric() else _KINDS_OF_TYPES.get(dtype.base_type())


def read_cells(series: pl.Series, column: Column, hints: Hints = NO_HINTS) -> Cells:
    """Read a column of text, or of values of any other type."""
    kind = kind_of_type(series.dtype)
    if kind is None:  # nested values, in a column that had others before
        present = pl.Series(series.name, ["nested"]).new_from_index(0, len(series))
        return Cells(_none(series), present.set(series.is_null(), None))
    if kind == "category" or column.kind == "category":
        return _read_text(series.cast(pl.String), column, hints)
    if series.dtype.is_float():
        series = series.fill_nan(None)
    if hints.na_values and kind == "number":
        series = series.set(series.cast(pl.Float64).is_in(hints.na_numbers), None)
    if {kind, column.kind} & {"date", "duration"}:
        return Cells(as_seconds(series) if column.kind == kind else _none(series), series)
    if kind == "flag" and column.kind in ("flag", "integer"):
        return Cells(series, series)
    if column.kind == "integer":
        return Cells(_whole(series), series)
    return Cells(usable(series.cast(pl.Float64, strict=False)), series)


def _read_text(series: pl.Series, column: Column, hints: Hints) -> Cells:
    if column.is_plain and not hints.na_values:
        values = plain_numbers(series)
        if values.null_count() == series.null_count():  # There is nothing to tidy up.
            return Cells(values, series)
    text = tidy(series, hints.na_values)
    if column.kind == "category":
        return Cells(text, text)
    cells = Cells(_values_of(text, column), drop_words(text))
    if column.is_plain and hints.na_values:  # -999 and -999.0 are the same
        gone = cells.values.is_in(hints.na_numbers)
        return Cells(cells.values.set(gone, None), cells.source.set(gone, None))
    return cells


def _values_of(text: pl.Series, column: Column) -> pl.Series:
    """What tidied texts say in a column that does not hold categories."""
    form = column.form
    if column.kind == "number":
        return read_numbers(text, form) if isinstance(form, NumberForm) else plain_numbers(text)
    if column.kind == "date":
        return read_dates(text, form if isinstance(form, DateForm) else DateForm())
    if column.kind == "duration":
        return read_durations(text)
    if column.kind == "flag":
        lower = text.str.to_lowercase()
        return (lower == "true").set(~lower.is_in(["true", "false"]), None)
    if column.kind != "integer":
        return _none(text)
    if column.why == "unsigned":  # the column was found to need more than the range of int64
        return text.cast(pl.UInt64, strict=False)
    values = text.cast(pl.Int64, strict=False)
    if values.null_count() == text.null_count():
        return values
    return values.zip_with(values.is_not_null(), _whole(plain_numbers(text)))


def _whole(series: pl.Series) -> pl.Series:
    """Whole numbers exactly; null where one has a fraction."""
    if series.dtype.is_integer():
        return series if series.dtype == pl.UInt64 else series.cast(pl.Int64, strict=False)
    values = series.cast(pl.Float64, strict=False)
    fits = (values == values.round()) & (values.abs() <= _WHOLE)
    return values.set(~fits.fill_null(True), None).cast(pl.Int64, strict=False)


def _none(series: pl.Series) -> pl.Series:
    return pl.Series(series.name, [None], dtype=pl.Float64).new_from_index(0, len(series))


def parsed(frame: pl.DataFrame) -> dict[str, pl.Series]:
    """The columns that any parser reads as numbers, found for all at once: there may be many."""
    frame = frame.select(selectors.string() | selectors.numeric())
    if not frame.width:
        return {}
    read = frame.cast(pl.Float64, strict=False)
    nulls = zip(frame.null_count().row(0), read.null_count().row(0), strict=True)
    same = [before == after for before, after in nulls]
    return {values.name: values for values in read.select(compress(frame.columns, same))}


def since_first(series: pl.Series, hints: Hints = NO_HINTS) -> tuple[pl.Series, pl.Series]:
    """Find the first value of a column of which none was known."""
    source = read_cells(series, Column(series.name, "empty"), hints).source
    present = source.is_not_null().arg_true().head(1)
    if len(present):
        series = series.clear(int(present[0])).append(series[int(present[0]) :])
    return source.gather(present), series


# --- text ---------------------------------------------------------------------------------------


def tidy(text: pl.Series, more: Sequence[str] = ()) -> pl.Series:
    """Take away blanks around values, and whatever stands for a missing one."""
    text = text.str.strip_chars()
    return text.set(text.is_in([*MISSING, *more]), None)


def drop_words(tidied: pl.Series) -> pl.Series:
    """Take away what means "missing" among numbers, dates and flags, where it is no category."""
    return tidied.set(tidied.str.to_lowercase().is_in(_AMONG_NUMBERS), None)


# --- numbers ------------------------------------------------------------------------------------


def plain_numbers(text: pl.Series) -> pl.Series:
    """Read 1234.5, as any parser does."""
    return usable(text.cast(pl.Float64, strict=False))


def usable(values: pl.Series) -> pl.Series:
    """Drop numbers that nothing can be calculated with."""
    return values.set(~(values.abs() <= LARGEST).fill_null(True), None)


def read_numbers(text: pl.Series, form: NumberForm) -> pl.Series:
    """Read numbers that are written in a form; brackets are a minus."""
    plain = _only(text.str.replace(r"^\((.+)\)$", "-$1"), _pattern(form))
    if form.unit:
        plain = plain.str.replace(form.unit, "", literal=True)
    plain = plain.str.replace_all(rf"^\+|{BLANK}|{_separator(form.thousands)}", "")
    if form.decimal != ".":
        plain = plain.str.replace(form.decimal, ".", literal=True)
    return usable(plain.cast(pl.Float64, strict=False)).alias(text.name)


@lru_cache(maxsize=256)
def _pattern(form: NumberForm) -> str:
    point, unit = re.escape(form.decimal), re.escape(form.unit)
    decimals = rf"{point}\d*" if form.decimal == "." else rf"{point}\d+"  # 93. but not 93,
    digits = rf"(?:\d+(?:{decimals})?|{point}\d+)(?:[eE][+-]?\d+)?"
    if form.thousands:
        digits = (
            rf"(?:[1-9]\d{{0,2}}(?:{_separator(form.thousands)}\d{{3}})+(?:{decimals})?|{digits})"
        )
    if not form.unit:
        return rf"^[+-]?{BLANK}*{digits}{BLANK}*$"
    zero = rf"(?:0+(?:{point}0*)?|{point}0+)"  # which needs no unit
    before = rf"(?:[+-]?{unit}{BLANK}*|{unit}{BLANK}*[+-]){digits}"
    return rf"^(?:{before}|[+-]?(?:{digits}{BLANK}*{unit}|{zero}))$"


def _separator(thousands: str) -> str:
    return {" ": BLANK, "'": "['’]", "": BLANK}.get(thousands, re.escape(thousands))


# --- dates and durations -------------------------------------------------------------------------


def read_dates(text: pl.Series, form: DateForm) -> pl.Series:
    """Read dates, with or without a time."""
    plain = _dashed(text)
    seconds = _none(text)
    of_day, shape = _DATES[form.order]
    named = _named(_only(plain, NAMED_DATE))
    for fitting, day in ((_only(plain, shape), of_day), (named, "%d-%b-%Y"), (named, "%b-%d-%Y")):
        for of_time in _TIMES:
            left = fitting.set(seconds.is_not_null(), None)
            if left.null_count() == len(left):
                break
            found = left.str.to_datetime(day + of_time, time_unit="us", strict=False)
            seconds = seconds.zip_with(seconds.is_not_null(), as_seconds(found))
    return seconds.alias(text.name)


def _only(text: pl.Series, shape: str) -> pl.Series:
    return text.set(~text.str.contains(shape).fill_null(False), None)


def _dashed(text: pl.Series) -> pl.Series:
    """Dates with dashes, a blank before the time, and years of four digits."""
    text = text.str.replace(_NUMBERS_OF_DATE, "$1-$2-$3 $4").str.strip_chars_end()
    # As in most libraries: 69 to 99 are of the last century.
    text = text.str.replace(r"^(\d{1,2}-\d{1,2}-)([0-5]\d|6[0-8])( |$)", "${1}20$2$3")
    return text.str.replace(r"^(\d{1,2}-\d{1,2}-)(69|[7-9]\d)( |$)", "${1}19$2$3")


def _named(text: pl.Series) -> pl.Series:
    """Dates with the name of a month, as 2-Jan-2024 or Jan-2-2024 and a time."""
    text = text.str.replace(r"(?i)^[a-z]{3},? (\d{1,2} [a-z])", "$1")
    text = text.str.replace(r"^(.{7,8}\d{4}):", "$1 ").str.replace(r" ([+-]\d\d:?\d\d)$", "$1")
    text = text.str.replace(r"(?i)^([a-z]{3}) (\d{1,2}),? (\d{4})", "$1-$2-$3")
    return text.str.replace(r"(?i)^(\d{1,2})[-/ ]([a-z]{3})[-/ ](\d{4})", "$1-$2-$3")


def as_seconds(values: pl.Series) -> pl.Series:
    """Dates, times and durations as numbers."""
    if values.dtype == pl.Time:
        return values.cast(pl.Int64) / 1e9
    if values.dtype == pl.Duration:
        return values.dt.total_microseconds() / 1e6
    return values.dt.epoch("us") / 1e6


def read_durations(text: pl.Series) -> pl.Series:
    """Read durations and times of day: 1:02:03, 12:30, 2 days, 03:04:05.5."""
    parts = text.str.extract_groups(_DURATION).struct.unnest()
    days, hours, minutes, seconds = (
        parts[name].cast(pl.Float64, strict=False)
        for name in ("days", "hours", "minutes", "seconds")
    )
    total = 3600.0 * hours + 60.0 * minutes + seconds.fill_null(0.0) + 86400.0 * days.fill_null(0.0)
    return total.zip_with(parts["minus"].is_null(), -total).alias(text.name)
