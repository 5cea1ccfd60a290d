"""What the columns of a table hold, found out from a sample of its rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import chain
from numbers import Number, Real
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import polars as pl

from fires.columns import cells
from fires.columns.schema import NO_HINTS, Column, DateForm, DateOrder, Hints, NumberForm
from fires.core.errors import InputError, Question
from fires.core.types import Floats
from fires.core.validation import is_frame, is_missing, is_table

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
    rf"^(?P<sign>[+-])?\(?(?P<before>{_SIGNS}|{_CODES})?{cells.BLANK}*(?(sign)|[+-]?)"
    rf"(?P<digits>\d(?:[\d.,'’]|{cells.BLANK}\d)*(?:[eE][+-]?\d+)?|[.,]\d+)"
    rf"{cells.BLANK}*(?P<behind>[%‰°]?(?:{_SIGNS}|[A-Za-zÀ-ÿµ/²³]{{0,8}}))\)?$"
)
_MOST_DIGITS = 24  # a longer row of digits is a name, not an amount
_MOST_DAYS = 1000  # so many different ones leave nothing open
_COMMA = NumberForm("", ",", ".")
# What may stand before decimals, and between thousands, and where; the likeliest first.
_MARKS = {
    (".", ","): "",
    (",", "."): "[.,]",
    (".", " "): cells.BLANK,
    (",", " "): cells.BLANK,
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
    plain = cells.parsed(sample.select(texts)) if hints.has_points else {}
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
    name, kind = series.name, cells.kind_of_type(series.dtype)
    if kind is None:
        why = f"holds values of type {series.dtype.base_type()}"
        return Column(name, "left out", why=why), ""
    if name in hints.categorical and kind in ("number", "category"):
        return Column(name, "category"), ""
    if kind != "category":
        return Column(name, kind), ""
    text = cells.tidy(series.cast(pl.String), hints.na_values)
    if text.null_count() == len(text):
        return Column(name, "empty"), ""
    values = cells.drop_words(text).drop_nulls()
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
        found.append((cells.read_cells(values, candidate[0]).n_unreadable, candidate))
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
            n_bad = cells.read_cells(values, column).n_unreadable
            n_bad_grouped = cells.read_cells(values, replace(column, form=_COMMA)).n_unreadable
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
    form, n_bad, example = _best(shapes, forms, cells.read_numbers)
    if 2 * n_bad < len(shapes):
        yield Column(texts.name, "number", replace(form, unit=unit)), example


def _dates(texts: pl.Series, hints: Hints) -> Iterator[_Found]:
    """Dates, in the order that most of them can be read in."""
    days = texts.str.extract(_DAY, 1).drop_nulls().unique(maintain_order=True).head(_MOST_DAYS)
    if not len(days):
        if texts.str.contains(cells.NAMED_DATE).any():
            yield Column(texts.name, "date", DateForm()), ""
        return
    pointed = bool(days.str.contains(".", literal=True).all())  # where no month comes first
    usual: DateOrder | None = hints.dates or ("day-first" if pointed else None)
    orders: list[DateOrder] = ["year-first", usual or "month-first", "day-first", "month-first"]
    form, _, example = _best(days, map(DateForm, dict.fromkeys(orders)), cells.read_dates)
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
        values = cells.read_cells(frame[name], column).values
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
