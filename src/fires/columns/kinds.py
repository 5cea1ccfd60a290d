"""What the columns of a table hold, found out from a sample of its rows, and how cells are read.

Text that looks like numbers counts as numbers, in whatever file or frame it stands, so that the
same table gives the same batches from CSV, from Parquet and from a frame.

Numbers are read as people write them: 12.3%, $1,234.50, (3.20), 5 kg, 1.234,56. The form of a
column is found once, in a sample. A cell in another form is not a number then: "5 lb" in a column
of "5 kg" would be a wrong value, not a missing one. Dates of three numbers are read in one order,
found in the sample, too. Month names and times of day may stand in any of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from itertools import chain, compress
from numbers import Number, Real
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import polars as pl
from polars import selectors

from fires.columns.schema import NO_HINTS, Column, DateForm, DateOrder, Hints, Kind, NumberForm
from fires.core.errors import InputError, Question
from fires.core.types import Floats
from fires.core.validation import LARGEST, is_frame, is_missing, is_table

if TYPE_CHECKING:
    import pandas as pd

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
    # Dashes, a blank before the time, and years of four digits.
    plain = text.str.replace(_NUMBERS_OF_DATE, "$1-$2-$3 $4").str.strip_chars_end()
    # As in most libraries: 69 to 99 are of the last century.
    plain = plain.str.replace(r"^(\d{1,2}-\d{1,2}-)([0-5]\d|6[0-8])( |$)", "${1}20$2$3")
    plain = plain.str.replace(r"^(\d{1,2}-\d{1,2}-)(69|[7-9]\d)( |$)", "${1}19$2$3")
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


# --- what a column holds -------------------------------------------------------------------------

_LONG_TEXT, _TEXT = 50, 20
# Different values with a comma, or a point, that settle what another column leaves open.
_EVIDENCE = 5
_SIGNS = r"[$€£¥₹₩₽₺฿₫₪₴]"
_CODES = (
    "USD|EUR|GBP|JPY|CHF|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|TRY|US\\$|R\\$"
)
_NUMBER = re.compile(
    rf"^(?P<sign>[+-])?\(?(?P<before>{_SIGNS}|{_CODES})?{BLANK}*(?(sign)|[+-]?)"
    rf"(?P<digits>\d(?:[\d.,'’]|{BLANK}\d)*(?:[eE][+-]?\d+)?|[.,]\d+)"
    rf"{BLANK}*(?P<behind>[%‰°]?(?:{_SIGNS}|[A-Za-zÀ-ÿµ/²³]{{0,8}}))\)?$"
)
_MOST_DIGITS = 24  # a longer row of digits is a name, not an amount
_MOST_DAYS = 1000  # so many different ones leave nothing open
_COMMA = NumberForm("", ",", ".")
# What may stand before decimals, and between thousands, and where; the likeliest first.
_MARKS = {
    (".", ","): "",
    (",", "."): "[.,]",
    (".", " "): BLANK,
    (",", " "): BLANK,
    (".", "'"): "['’]",
    (",", "'"): "['’]",
}
_DAY = r"^(\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4})(?:[T ,]|$)"
_Found = tuple[Column, str]  # what a column holds, and a text that may be read otherwise as well
_Form = TypeVar("_Form", NumberForm, DateForm)


def find_columns(sample: pl.DataFrame, hints: Hints = NO_HINTS) -> tuple[Column, ...]:
    """Find out what each column of a sample holds.

    A column is of a kind if four in five of its values are, or all but one. What stands for a
    missing value is no value. Columns that cannot be used are left out: lists, bytes, and free
    text, which has more than 50 characters on average, or more than 20 where nine in ten of at
    least 1,000 values are different.

    Examples
    --------
    >>> sample = pl.DataFrame({"age": ["31", "?"], "town": ["Bonn", "Ulm"], "paid": ["5%", "7.5%"]})
    >>> [(column.name, column.kind) for column in find_columns(sample)]
    [('age', 'number'), ('town', 'category'), ('paid', 'number')]
    """
    special = {*hints.categorical, *hints.numeric}
    texts = [n for n, dtype in sample.schema.items() if dtype == pl.String and n not in special]
    plain = parsed(sample.select(texts)) if hints.has_points else {}
    found = [
        (Column(series.name, "number"), "")
        if series.name in plain and series.null_count() < len(series)
        else _find(series, hints)
        for series in sample.iter_columns()
    ]
    return tuple(_settled(found, sample))


def find_column(series: pl.Series, hints: Hints = NO_HINTS) -> Column:
    """Find out what one column holds."""
    return find_columns(series.to_frame(), hints)[0]


def _find(series: pl.Series, hints: Hints) -> _Found:
    """What a column holds, by itself."""
    name, kind = series.name, kind_of_type(series.dtype)
    if kind is None:
        why = f"holds values of type {series.dtype.base_type()}"
        return Column(name, "left out", why=why), ""
    if name in hints.categorical and kind in ("number", "category"):
        return Column(name, "category"), ""
    if kind != "category":
        return Column(name, kind), ""
    text = tidy(series.cast(pl.String), hints.na_values)
    if text.null_count() == len(text):
        return Column(name, "empty"), ""
    values = drop_words(text).drop_nulls()
    if name in hints.numeric:
        texts = values.unique(maintain_order=True)
        return next(_numbers(texts, hints), (Column(name, "number"), ""))
    if series.dtype != pl.String:  # labels of a type of their own, such as Enum
        return Column(name, "category"), ""
    return (
        _of_text(text.drop_nulls(), values, hints) if len(values) else (Column(name, "empty"), "")
    )


def _of_text(text: pl.Series, values: pl.Series, hints: Hints) -> _Found:
    """What most of the values are; without the words for missing ones, which may be categories."""
    found: list[tuple[int, _Found]] = []
    for candidate in _candidates(values, hints):
        found.append((read_cells(values, candidate[0]).n_unreadable, candidate))
        if found[-1][0] == 0:
            break
    n_bad, best = min(found, key=itemgetter(0))
    if n_bad == 0 or (n_bad <= max(1, len(values) // 5) and 2 * n_bad < len(values)):
        return best
    length = float(text.str.len_chars().to_numpy().mean())
    distinct = len(text) >= 1000 and text.n_unique() >= 0.9 * len(text)
    if length > _LONG_TEXT or (length > _TEXT and distinct):
        why = f"holds free text ({length:.0f} characters on average)"
        return Column(text.name, "left out", why=why), ""
    units = [column.form.unit for _, (column, _) in found if isinstance(column.form, NumberForm)]
    half = {column.kind for n_bad, (column, _) in found if 2 * n_bad <= len(values)}
    several = next(_numbers(values, hints), None) is not None
    what = "numbers in several units" if several else ""
    if "date" in half or ("number" in half and not any(units)):
        what = "numbers and other text" if "number" in half else "dates and other text"
    why = f"holds {what}: its values are categories" if what else ""
    return Column(text.name, "category", why=why), ""


def _candidates(values: pl.Series, hints: Hints) -> Iterator[_Found]:
    """What text may hold besides categories, the likeliest first."""
    if hints.has_points:
        yield Column(values.name, "number"), ""
    yield Column(values.name, "flag"), ""
    yield Column(values.name, "duration"), ""
    texts = values.unique(maintain_order=True)
    yield from _dates(texts, hints)
    yield from _numbers(texts, hints)


def _settled(found: Sequence[_Found], sample: pl.DataFrame) -> Iterator[Column]:
    """Decide by the other columns what a column by itself leaves open."""
    sure = [column for column, example in found if not example]
    orders = {column.form.order for column in sure if isinstance(column.form, DateForm)}
    comma = any(
        isinstance(column.form, NumberForm)
        and column.form.decimal == ","
        and _n_with(sample[column.name], ",") >= _EVIDENCE
        for column in sure
    )
    for column, example in found:
        values, form = sample[column.name], column.form
        if example and isinstance(form, DateForm):
            if len(orders - {"year-first"}) != 1:
                raise Question(
                    f'column "{column.name}": in "{example}" the day or the month may come first',
                    hint="use {dates=day-first} or {dates=month-first}",
                )
            form = DateForm(*(orders - {"year-first"}))
        elif comma and example and isinstance(form, NumberForm):
            form = replace(_COMMA, unit=form.unit)
        elif comma and column.is_plain and values.dtype == pl.String:
            n_bad = read_cells(values, column).n_unreadable
            n_bad_grouped = read_cells(values, replace(column, form=_COMMA)).n_unreadable
            if _n_with(values, ".") >= _EVIDENCE and n_bad_grouped <= n_bad:
                form = _COMMA
        yield column if form is column.form else replace(column, form=form)


def _n_with(values: pl.Series, mark: str) -> int:
    """How many different values have a comma, or a point."""
    return values.filter(values.str.contains(mark, literal=True)).n_unique()


# --- forms ---------------------------------------------------------------------------------------


def _best(
    texts: pl.Series, forms: Iterable[_Form], read: Callable[[pl.Series, _Form], pl.Series]
) -> tuple[_Form, int, str]:
    """The form that most texts can be read in, the first of equals, and how many cannot.

    And a text that another form reads as well, and otherwise.
    """
    found = [(form, read(texts, form)) for form in forms]
    form, values = min(found, key=lambda one: one[1].null_count())
    n_bad = values.null_count()
    others = (other for _, other in found if other.null_count() == n_bad)
    differing = (texts.filter(values.ne_missing(other)).to_list() for other in others)
    return form, n_bad, next(chain.from_iterable(differing), "")


def _numbers(texts: pl.Series, hints: Hints) -> Iterator[_Found]:
    """Numbers in the form in which most texts are."""
    matches = [match for match in map(_NUMBER.match, texts.to_list()) if match]
    matches = [match for match in matches if len(match["digits"]) <= _MOST_DIGITS]
    if not matches or len(texts) - len(matches) > max(1, len(texts) // 5):
        return
    parts = [(match["before"] or match["behind"] or "", match["digits"]) for match in matches]
    amounts = [part for part in parts if part[1].strip("0.,")] or parts  # zero needs no unit
    counts = Counter(unit for unit, _ in amounts)
    unit = max(counts, key=lambda unit: (counts[unit], bool(unit)))
    if hints.decimal is not None or hints.thousands is not None:
        decimal = hints.decimal or ("." if hints.thousands != "." else ",")
        thousands = hints.thousands
        if thousands is None:
            thousands = {",": ".", ".": ","}.get(decimal, "")
        yield Column(texts.name, "number", NumberForm(unit, decimal, thousands)), ""
        return
    # One text of each shape: all digits but the first are alike.
    of_unit = {digits[0] + re.sub(r"\d", "1", digits[1:]) for of, digits in parts if of == unit}
    shapes = pl.Series(sorted(of_unit))
    met = "".join(shapes)
    forms = [NumberForm("", *marks) for marks, where in _MARKS.items() if re.search(where, met)]
    form, n_bad, example = _best(shapes, forms, read_numbers)
    if 2 * n_bad < len(shapes):
        yield Column(texts.name, "number", replace(form, unit=unit)), example


def _dates(texts: pl.Series, hints: Hints) -> Iterator[_Found]:
    """Dates, in the order that most of them can be read in."""
    days = texts.str.extract(_DAY, 1).drop_nulls().unique(maintain_order=True).head(_MOST_DAYS)
    if not len(days):
        if texts.str.contains(NAMED_DATE).any():
            yield Column(texts.name, "date", DateForm()), ""
        return
    pointed = bool(days.str.contains(".", literal=True).all())  # where no month comes first
    usual: DateOrder | None = hints.dates or ("day-first" if pointed else None)
    orders: list[DateOrder] = ["year-first", usual or "month-first", "day-first", "month-first"]
    form, _, example = _best(days, map(DateForm, dict.fromkeys(orders)), read_dates)
    yield Column(texts.name, "date", form), "" if usual else example


# --- when rows were -----------------------------------------------------------------------------


def split_time(X: Any, name: str, hints: Hints = NO_HINTS, *, needed: bool) -> tuple[Any, Floats]:
    """A table without a column, and what that says in seconds since 1970; NaN if it cannot be read.

    Examples
    --------
    >>> rows = [{"age": 3, "when": "1970-01-02"}, {"age": 4, "when": "?"}]
    >>> split_time(rows, "when", needed=True)
    ([{'age': 3}, {'age': 4}], array([86400.,    nan]))
    """
    X = [X] if isinstance(X, Mapping) else X
    frame = as_polars(X) if is_table(X) else pl.DataFrame()
    times = np.full(len(frame), np.nan)
    if name in frame.columns:
        column = find_column(frame[name], replace(hints, dates=hints.dates or "month-first"))
        values = read_cells(frame[name], column).values
        times = values.cast(pl.Float64, strict=False).to_numpy()
        if isinstance(X, (list, tuple)):
            X = [{key: row[key] for key in row if key != name} for row in X]
        else:
            X = frame.drop(name)
    if needed and np.isnan(times).all():
        what = f'time: no column "{name}" with the time of each row'
        raise InputError(what, hint="it must hold dates, or seconds since 1970")
    return X, times


# --- frames --------------------------------------------------------------------------------------


def as_polars(X: Any) -> pl.DataFrame:
    """A frame or a list of dicts as a frame of polars."""
    if is_frame(X, "polars"):
        return X
    if is_frame(X, "pandas"):
        names = map(str, X.columns)
        return pl.DataFrame(
            {name: _from_pandas(name, X.iloc[:, i]) for i, name in enumerate(names)}
        )
    keys: dict[str, None] = {}
    for row in X:
        if not isinstance(row, Mapping):
            raise TypeError(f"Rows must all be dicts; one is a {type(row).__name__}.")
        keys.update(dict.fromkeys(map(str, row)))
    return pl.DataFrame({key: _from_objects(key, [row.get(key) for row in X]) for key in keys})


def _from_pandas(name: str, series: pd.Series) -> pl.Series:
    """One column of pandas."""
    kind = series.dtype.kind
    if kind in "iu" and not series.hasnans:
        return pl.Series(name, series.to_numpy(dtype=f"{kind}8"))
    if kind in "fiu":
        return pl.Series(name, series.to_numpy(dtype=np.float64, na_value=np.nan)).fill_nan(None)
    return _from_objects(name, series.astype(object).tolist())


def _from_objects(name: str, values: Sequence[Any]) -> pl.Series:
    """Values of any type; those of several types become text."""
    values = [None if is_missing(value) else value for value in values]
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str}:
        return pl.Series(name, values, dtype=pl.String)
    if kinds <= {bool, np.bool_}:
        return pl.Series(name, values, dtype=pl.Boolean)
    if all(issubclass(kind, (Real, Decimal)) for kind in kinds):
        return pl.Series(name, [None if v is None else float(v) for v in values], dtype=pl.Float64)
    if any(issubclass(kind, (Mapping, list, tuple, set, bytes, np.ndarray)) for kind in kinds):
        return pl.Series(name, values, dtype=pl.Object)
    if len(kinds) == 1 and not any(issubclass(kind, Number) for kind in kinds):
        return pl.Series(name, values, strict=False)  # dates and times of the standard library
    return pl.Series(name, [None if v is None else str(v) for v in values], dtype=pl.String)
