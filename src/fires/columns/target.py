"""The target of a table: labels, or numbers, and the questions that it may raise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns.account import short
from fires.columns.kinds import find_column
from fires.columns.schema import NO_HINTS, Column, Hints, NumberForm
from fires.columns.text import drop_words, tidy
from fires.columns.values import kind_of_type, read_cells, since_first
from fires.core.errors import InputError, Question

TargetKind = Literal["auto", "classes", "numbers"]
_FEW = 50
_MOST_LABELS = 20
_NEARLY_ALL = 0.95  # a fraction among 0 and 1 is a mistake, not a measurement
_FITTING = {
    "number": "a number",
    "integer": "a whole number",
    "flag": "true or false",
    "date": "a date",
    "duration": "a duration",
}


@dataclass(frozen=True, eq=False)
class ReadTarget:
    """The target of some rows."""

    y: npt.NDArray[np.generic]
    usable: npt.NDArray[np.bool_] | None = None
    reasons: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """The column to predict.

    Examples
    --------
    >>> target = Target.learn(pl.Series("y", ["1", "0", "1"]))
    >>> labels = target.read(pl.Series("y", ["0", "0.5", ""]))
    >>> labels.y, labels.reasons[1]
    (array([0]), '"0.5" in the target column "y" is not a whole number')
    """

    column: Column
    hints: Hints = NO_HINTS

    @classmethod
    def learn(
        cls, values: pl.Series, hints: Hints | None = None, holds: TargetKind = "auto"
    ) -> Target:
        """Find out what a target holds."""
        hints = hints or Hints()
        name = values.name
        kind = kind_of_type(values.dtype)
        if kind is None:
            what = str(values.dtype.base_type()).lower()
            raise InputError(
                f'the target column "{name}" holds values of type {what}, which cannot be predicted'
            )
        if holds == "numbers":
            return cls(_number_column(values, hints), hints)
        if kind != "category" or values.dtype != pl.String:
            column = Column(name, kind)
        else:
            column = _text_column(values, hints)
        if column.kind == "number" and (column.form is None or holds == "classes"):
            column = _if_whole(column, values, classes=holds == "classes")
        target = cls(column, hints)
        if holds == "auto":
            target._ask(values)
        return target

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers, not labels."""
        return self.column.kind in ("number", "date", "duration")

    @property
    def is_plain(self) -> bool:
        """Whether a parser may read it as a number."""
        return self.column.is_plain

    def opened(self, values: pl.Series) -> tuple[Target, pl.Series]:
        """The target as its first value shows it, if none was known before."""
        if self.column.kind != "empty":
            return self, values
        first, values = since_first(values, self.hints)
        return (Target.learn(first, self.hints) if len(first) else self), values

    def _ask(self, values: pl.Series) -> None:
        """Ask about labels nearly all of which are different."""
        labels = read_cells(values, self.column, self.hints).values.drop_nulls()
        n_distinct = labels.n_unique()
        if self.is_numeric or n_distinct <= max(_MOST_LABELS, len(labels) // 2):
            return
        name, different = self.column.name, f"{n_distinct:,} different"
        if self.column.kind == "integer":
            raise Question(
                f'the target column "{name}" holds whole numbers, {different} ones in '
                f"{len(labels):,} rows",
                hint="say {model=gaussian} if they are amounts, {model=probit} if they are classes",
            )
        raise Question(
            f'the target column "{name}" holds {different} texts in {len(labels):,} rows, such as '
            f'"{short(str(labels[0]))}": these are names, not classes',
            hint="choose another target, or say {model=probit} if they are classes",
        )

    def read(self, values: pl.Series) -> ReadTarget:
        """Read the target of some rows."""
        name = self.column.name
        cells = read_cells(values, self.column, self.hints)
        read = cells.values
        if not read.null_count():
            return ReadTarget(_as_array(read))
        usable = read.is_not_null().to_numpy()
        reasons = {}
        missing = np.flatnonzero(~usable)
        for row, found in zip(missing.tolist(), cells.source.gather(missing), strict=True):
            reasons[row] = (
                f'no value in the target column "{name}"'
                if found is None
                else f'"{short(str(found))}" in the target column "{name}" is not '
                + _FITTING[self.column.kind]
            )
        return ReadTarget(_as_array(read.drop_nulls()), usable, reasons)


def _as_array(values: pl.Series) -> npt.NDArray[np.generic]:
    y: npt.NDArray[np.generic] = values.to_numpy()
    return y.astype(np.str_) if y.dtype == object else y


def _number_column(values: pl.Series, hints: Hints) -> Column:
    """A target that the user says holds numbers."""
    kind = kind_of_type(values.dtype)
    if kind in ("date", "duration"):
        return Column(values.name, kind)
    if kind != "category":
        return Column(values.name, "number")
    column = find_column(values.cast(pl.String), hints)
    return (
        column if column.kind in ("number", "date", "duration") else Column(values.name, "number")
    )


def _text_column(values: pl.Series, hints: Hints) -> Column:
    """A target of text. With few different values, they are numbers only if all of them are."""
    column = find_column(values, hints)
    text = tidy(values, hints.na_values)
    n_values = len(text) - text.null_count()
    if n_values == 0:
        return Column(values.name, "empty")
    if column.kind in ("category", "left out", "empty"):
        return Column(values.name, "category")
    words = drop_words(text).null_count() - text.null_count()
    n_bad = read_cells(values, column, hints).n_unreadable + words
    n_distinct = text.drop_nulls().n_unique()
    unit = column.form.unit if isinstance(column.form, NumberForm) else ""
    named = unit.isalpha() and n_distinct <= _MOST_LABELS  # 2y, 5y and 10y are labels
    return Column(values.name, "category") if named or (n_distinct <= _FEW and n_bad) else column


def _if_whole(column: Column, values: pl.Series, *, classes: bool) -> Column:
    """Labels, if all numbers are whole; also if there are few of them, and nearly all are."""
    plain = Column(column.name, "integer")
    cells = read_cells(values, plain)
    n_numbers = len(values) - read_cells(values, column).values.null_count()
    n_whole = len(values) - cells.values.null_count()
    if values.dtype == pl.String and n_whole < n_numbers:
        unsigned = Column(column.name, "integer", why="unsigned")
        n_unsigned = len(values) - read_cells(values, unsigned).values.null_count()
        if n_unsigned >= n_numbers > 0:
            return unsigned
    fractional = values.dtype.is_float() or values.dtype.is_decimal() or n_whole < n_numbers
    few = n_whole >= _NEARLY_ALL * n_numbers and cells.values.n_unique() <= _MOST_LABELS
    if n_numbers == 0 or (fractional and not few):
        values = read_cells(values, column).values.drop_nulls()
        labels = classes and 0 < values.n_unique() <= _MOST_LABELS
        return Column(column.name, "category") if labels else column
    return plain
