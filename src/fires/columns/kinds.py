"""What the columns of a table hold, found out from a sample of its rows."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from numbers import Number, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from fires.columns.cells import (
    BLANK,
    NAMED_DATE,
    drop_words,
    kind_of_type,
    parsed,
    read_cells,
    read_numbers,
    tidy,
)
from fires.columns.schema import Column, DateForm, DateOrder, Hints, NumberForm
from fires.core.errors import Question
from fires.core.validation import is_frame, is_missing

if TYPE_CHECKING:
    import pandas as pd

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
_DATE = re.compile(
    r"^(?P<first>\d{1,4})(?P<mark>[-/.])(?P<second>\d{1,2})(?P=mark)(?P<third>\d{1,4})(?:[T ,].*)?$"
)


def find_columns(sample: pl.DataFrame, hints: Hints | None = None) -> tuple[Column, ...]:
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
    hints = hints or Hints()
    special = {*hints.categorical, *hints.numeric}
    texts = [n for n, dtype in sample.schema.items() if dtype == pl.String and n not in special]
    plain = parsed(sample.select(texts)) if hints.has_points else {}
    finder = _Finder(hints)
    found = [
        Column(series.name, "number")
        if series.name in plain and series.null_count() < len(series)
        else finder.find(series)
        for series in sample.iter_columns()
    ]
    return tuple(finder.settle(found, sample))


def find_column(series: pl.Series, hints: Hints | None = None) -> Column:
    """Find out what one column holds.

    Examples
    --------
    >>> find_column(pl.Series("when", ["28/01/2024", "02/01/2024"])).form
    DateForm(order='day-first')
    """
    return find_columns(series.to_frame(), hints)[0]


def _fits(values: pl.Series, column: Column) -> bool:
    """Whether so few values do not fit that the column is of the kind all the same."""
    n_bad, n_values = read_cells(values, column).n_unreadable, len(values)
    return n_bad == 0 or (n_bad <= max(1, n_values // 5) and 2 * n_bad < n_values)


class _Finder:
    """Finds kinds column by column, and settles together what one column leaves open."""

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._open_dates: dict[str, str] = {}  # by column, an example that can be read both ways
        self._open_numbers: set[str] = set()  # columns where 12,000 may be twelve

    def find(self, series: pl.Series) -> Column:
        """What a column holds, by itself."""
        name, hints = series.name, self._hints
        kind = kind_of_type(series.dtype)
        if kind is None:
            return Column(name, "left out", why=f"holds values of type {series.dtype.base_type()}")
        if name in hints.categorical and kind in ("number", "category"):
            return Column(name, "category")
        if kind != "category":
            return Column(name, kind)
        text = tidy(series.cast(pl.String), hints.na_values)
        if text.null_count() == len(text):
            return Column(name, "empty")
        values = drop_words(text).drop_nulls()
        if name in hints.numeric:
            return self._number(values, wanted=True) or Column(name, "number")
        if series.dtype != pl.String:  # labels of a type of their own, such as Enum
            return Column(name, "category")
        if len(values) == 0:
            return Column(name, "empty")
        return self._kind_of_text(values) or self._category(text.drop_nulls(), values)

    def _kind_of_text(self, values: pl.Series) -> Column | None:
        """Numbers, flags, dates or durations, if most of the values are."""
        plain = Column(values.name, "number")
        if self._hints.has_points and _fits(values, plain):
            n_bad = read_cells(values, plain).n_unreadable
            other = self._number(values) if n_bad else None  # 1,200 among 7, 8.5 and 900
            better = other and read_cells(values, other).n_unreadable < n_bad
            return other if better else plain
        for column in (Column(values.name, "flag"), Column(values.name, "duration")):
            if _fits(values, column):
                return column
        return self._date(values) or self._number(values)

    def _date(self, values: pl.Series) -> Column | None:
        found = find_date_order(values.unique(maintain_order=True).to_list(), self._hints)
        if found is None:
            return None
        order, example = found
        column = Column(values.name, "date", DateForm(order))
        if not _fits(values, column):
            return None
        if example:
            self._open_dates[values.name] = example
        return column

    def _number(self, values: pl.Series, *, wanted: bool = False) -> Column | None:
        found = find_number_form(values.unique(maintain_order=True).to_list(), self._hints)
        if found is None:
            return None
        form, sure = found
        column = Column(values.name, "number", form)
        if not wanted and not _fits(values, column):
            return None
        if not sure:
            self._open_numbers.add(values.name)
        return column

    def _category(self, text: pl.Series, values: pl.Series) -> Column:
        """Categories, unless it is free text."""
        length = float(text.str.len_chars().to_numpy().mean())
        distinct = len(text) >= 1000 and text.n_unique() >= 0.9 * len(text)
        if length > _LONG_TEXT or (length > _TEXT and distinct):
            why = f"holds free text ({length:.0f} characters on average)"
            return Column(text.name, "left out", why=why)
        return Column(text.name, "category", why=self._half_right(values))

    def _half_right(self, values: pl.Series) -> str:
        """What to say where half of the values, but not four in five, are something else."""
        texts = values.unique(maintain_order=True).to_list()
        found = find_date_order(texts, replace(self._hints, dates=self._hints.dates or "day-first"))
        dates = Column("", "date", DateForm(found[0] if found else "year-first"))
        for what, column in (("numbers", Column("", "number")), ("dates", dates)):
            if 2 * read_cells(values, column).n_unreadable <= len(values) > 0:
                return f"holds {what} and other text: its values are categories"
        if find_number_form(values.to_list(), self._hints) is not None:
            return "holds numbers in several units: its values are categories"
        return ""

    def settle(self, columns: Sequence[Column], sample: pl.DataFrame) -> list[Column]:
        """Decide by the other columns what a column by itself leaves open."""
        columns = self._settle_dates(columns)
        comma = any(
            isinstance(column.form, NumberForm)
            and column.form.decimal == ","
            and column.name not in self._open_numbers
            and _n_with(sample[column.name], ",") >= _EVIDENCE
            for column in columns
        )
        if not comma:
            return columns
        return [self._with_comma(column, sample[column.name]) for column in columns]

    def _with_comma(self, column: Column, values: pl.Series) -> Column:
        """A column beside others that have decimal commas."""
        if column.name in self._open_numbers and isinstance(column.form, NumberForm):
            return replace(column, form=replace(_COMMA, unit=column.form.unit))
        if not column.is_plain or values.dtype != pl.String or _n_with(values, ".") < _EVIDENCE:
            return column
        grouped = replace(column, form=_COMMA)
        n_bad = read_cells(values, column).n_unreadable
        return grouped if read_cells(values, grouped).n_unreadable <= n_bad else column

    def _settle_dates(self, columns: Sequence[Column]) -> list[Column]:
        if not self._open_dates:
            return list(columns)
        orders = {
            column.form.order
            for column in columns
            if isinstance(column.form, DateForm) and column.name not in self._open_dates
        } - {"year-first"}
        if len(orders) != 1:
            name, example = next(iter(self._open_dates.items()))
            raise Question(
                f'column "{name}": in "{example}" the day or the month may come first',
                hint="say {dates=day-first} or {dates=month-first}",
            )
        form = DateForm(orders.pop())
        return [
            replace(column, form=form) if column.name in self._open_dates else column
            for column in columns
        ]


def _n_with(values: pl.Series, mark: str) -> int:
    """How many different values have a comma, or a point."""
    return values.filter(values.str.contains(mark, literal=True)).n_unique()


# --- forms ---------------------------------------------------------------------------------------


def find_number_form(values: list[str], hints: Hints) -> tuple[NumberForm, bool] | None:
    """Find the form in which most of some texts are numbers.

    Examples
    --------
    >>> find_number_form(["$3", "$1,200", "$4.50"], Hints())
    (NumberForm(unit='$', decimal='.', thousands=','), True)
    >>> find_number_form(["1,5", "12,25"], Hints())
    (NumberForm(unit='', decimal=',', thousands='.'), True)
    """
    found = [match for match in map(_NUMBER.match, values) if match]
    found = [match for match in found if len(match["digits"]) <= _MOST_DIGITS]
    if not found or len(values) - len(found) > max(1, len(values) // 5):
        return None
    units: dict[str, int] = {}
    for match in found:
        unit = match["before"] or match["behind"] or ""
        units[unit] = units.get(unit, 0) + 1
    # Zero may stand without its unit.
    unit = max(units, key=lambda name: (units[name], bool(name)))
    if not unit and len(units) > 1 and units[""] < len(found):
        bare = [match for match in found if not (match["before"] or match["behind"])]
        if all(match["digits"].strip("0.,") == "" for match in bare):
            unit = max((name for name in units if name), key=lambda name: units[name])
    digits = [m["digits"] for m in found if (m["before"] or m["behind"] or "") == unit]
    return _find_marks(digits, unit, hints)


def _find_marks(digits: list[str], unit: str, hints: Hints) -> tuple[NumberForm, bool] | None:
    """What stands before decimals and between thousands, and whether that is sure.

    It is what most of the texts can be read with; sure if with others they would be the same.
    """
    if hints.decimal is not None or hints.thousands is not None:
        decimal = hints.decimal or ("." if hints.thousands != "." else ",")
        thousands = hints.thousands
        if thousands is None:
            thousands = {",": ".", ".": ","}.get(decimal, "")
        return NumberForm(unit, decimal, thousands), True
    # One text of each shape: all digits but the first are alike.
    shapes = pl.Series(sorted({text[0] + re.sub(r"\d", "1", text[1:]) for text in digits}))
    met = "".join(shapes)
    read = [
        (marks, read_numbers(shapes, NumberForm("", *marks)))
        for marks, pattern in _MARKS.items()
        if re.search(pattern, met)
    ]
    marks, values = min(read, key=lambda one: one[1].null_count())
    n_bad = values.null_count()
    if 2 * n_bad >= len(shapes):
        return None
    sure = all(other.null_count() > n_bad or other.equals(values) for _, other in read)
    return NumberForm(unit, *marks), sure


def find_date_order(values: list[str], hints: Hints) -> tuple[DateOrder, str] | None:
    """Find what comes first in dates of three numbers; and a date that leaves it open, if all do.

    Examples
    --------
    >>> find_date_order(["02/01/2024", "28/01/2024"], Hints())
    ('day-first', '')
    >>> find_date_order(["02/01/2024", "01/03/2024"], Hints())
    ('month-first', '02/01/2024')
    """
    found = [match for match in map(_DATE.match, values) if match]
    if not found:
        named = sum(bool(re.match(NAMED_DATE, value)) for value in values)
        return ("year-first", "") if 2 * named > len(values) else None
    year_first = [match for match in found if len(match["first"]) == 4]
    if 2 * len(year_first) >= len(found):
        return "year-first", ""
    numbers = [(int(m["first"]), int(m["second"])) for m in found if len(m["first"]) <= 2]
    n_day_first = sum(first > 12 for first, _ in numbers)
    n_month_first = sum(second > 12 for _, second in numbers)
    if n_day_first or n_month_first:
        return ("day-first" if n_day_first > n_month_first else "month-first"), ""
    if hints.dates is not None:
        return hints.dates, ""
    if all(match["mark"] == "." for match in found):  # nobody writes the month before a point
        return "day-first", ""
    differing = [m for m in found if m["first"].zfill(2) != m["second"].zfill(2)]
    return "month-first", (differing[0][0] if differing else "")


# --- frames --------------------------------------------------------------------------------------


def as_polars(X: Any) -> pl.DataFrame:
    """A frame or a list of dicts as a frame of polars.

    Examples
    --------
    >>> as_polars([{"age": 3, "town": "Ulm"}, {"age": 4.5}]).rows()
    [(3.0, 'Ulm'), (4.5, None)]
    """
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
    api = sys.modules["pandas"].api.types
    dtype = series.dtype
    if isinstance(dtype, sys.modules["pandas"].CategoricalDtype):
        texts = np.array([*map(str, dtype.categories), None], dtype=object)
        return pl.Series(name, texts[series.cat.codes.to_numpy()].tolist(), dtype=pl.String)
    if api.is_bool_dtype(dtype) and not series.hasnans:
        return pl.Series(name, series.to_numpy(dtype=bool))
    if api.is_numeric_dtype(dtype):
        if dtype.kind in "iu" and not series.hasnans:
            return pl.Series(name, series.to_numpy(dtype=dtype.kind + "8"))
        return pl.Series(name, series.to_numpy(dtype=np.float64, na_value=np.nan)).fill_nan(None)
    if dtype.kind == "M":
        if isinstance(dtype, sys.modules["pandas"].DatetimeTZDtype):
            series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        return pl.Series(name, series.to_numpy().astype("datetime64[us]"))
    if dtype.kind == "m":
        return pl.Series(name, series.to_numpy().astype("timedelta64[us]"))
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
