"""What the columns of a table hold, found out from a sample of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import polars as pl

from fires.columns.date_forms import find_date_order
from fires.columns.number_forms import find_number_form, may_be_grouped
from fires.columns.schema import Column, DateForm, DateOrder, Hints, Kind, NumberForm
from fires.columns.text import drop_words, tidy
from fires.columns.values import kind_of_type, read_cells
from fires.core.errors import Question

_LONG_TEXT, _TEXT = 50, 20
_EVIDENCE = 5
"""Different values with a comma, or a point, that settle what another column leaves open."""


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
    plain = _plain_numbers(sample, hints)
    finder = _Finder(hints)
    found = [
        Column(series.name, "number") if series.name in plain else finder.find(series)
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


def fits(n_bad: int, n_values: int) -> bool:
    """Whether so few values do not fit that the column is of the kind all the same.

    Examples
    --------
    >>> fits(0, 0), fits(1, 3), fits(1, 2), fits(3, 10)
    (True, True, False, False)
    """
    return n_bad == 0 or (n_bad <= max(1, n_values // 5) and 2 * n_bad < n_values)


def _plain_numbers(sample: pl.DataFrame, hints: Hints) -> set[str]:
    """The columns of text that any parser reads as numbers, found for all columns at once."""
    special = {*hints.categorical, *hints.numeric}
    text = [
        name for name, dtype in sample.schema.items() if dtype == pl.String and name not in special
    ]
    if not text or hints.decimal not in (None, ".") or hints.thousands == ".":
        return set()
    frame = sample.select(text)
    numbers = frame.cast(pl.Float64, strict=False)
    before, after = frame.null_count().row(0), numbers.null_count().row(0)
    n_rows = len(sample)
    return {
        name
        for name, n_null, n_lost in zip(text, before, after, strict=True)
        if n_null == n_lost < n_rows
    }


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
        if kind == "number" and name in hints.categorical:
            return Column(name, "category")
        if kind != "category":
            return Column(name, kind)
        if name in hints.categorical:
            return Column(name, "category")
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
        name = values.name
        kinds: tuple[Kind, ...] = ("flag", "duration")
        decimal = self._hints.decimal in (None, ".") and self._hints.thousands != "."
        plain = Column(name, "number")
        if decimal and self._fits(values, plain):
            n_bad = read_cells(values, plain).n_unreadable
            other = self._number(values) if n_bad else None  # 1,200 among 7, 8.5 and 900
            better = other and read_cells(values, other).n_unreadable < n_bad
            return other if better else plain
        for kind in kinds:
            if self._fits(values, Column(name, kind)):
                return Column(name, kind)
        return self._date(values) or self._number(values)

    def _fits(self, values: pl.Series, column: Column) -> bool:
        return fits(read_cells(values, column).n_unreadable, len(values))

    def _date(self, values: pl.Series) -> Column | None:
        found = find_date_order(values.unique(maintain_order=True).to_list(), self._hints)
        if found is None:
            return None
        name = values.name
        order: DateOrder
        if found in ("year-first", "day-first", "month-first"):
            order = found  # type: ignore[assignment]
        else:
            order = "month-first"
            self._open_dates[name] = found
        column = Column(name, "date", DateForm(order))
        if not self._fits(values, column):
            self._open_dates.pop(name, None)
            return None
        return column

    def _number(self, values: pl.Series, *, wanted: bool = False) -> Column | None:
        found = find_number_form(values.unique(maintain_order=True).to_list(), self._hints)
        if found is None:
            return None
        form, sure = found
        column = Column(values.name, "number", form)
        if not wanted and not self._fits(values, column):
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
        order = find_date_order(texts, replace(self._hints, dates=self._hints.dates or "day-first"))
        dates = Column("", "date", DateForm(order or "year-first"))  # type: ignore[arg-type]
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
        settled = []
        for column in columns:
            form = column.form
            if column.name in self._open_numbers and isinstance(form, NumberForm):
                column = replace(column, form=NumberForm(form.unit, ",", "."))
            elif (
                column.is_plain
                and sample.schema[column.name] == pl.String
                and _n_with(sample[column.name], ".") >= _EVIDENCE
                and may_be_grouped(tidy(sample[column.name]))
            ):
                column = replace(column, form=NumberForm("", ",", "."))
            settled.append(column)
        return settled

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
