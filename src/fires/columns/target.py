"""The target of a table: labels or numbers, and what categories say about it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import polars as pl

from fires.columns.kinds import drop_words, find_column, kind_of_type, read_cells, since_first, tidy
from fires.columns.schema import NO_HINTS, WORDS, Column, Hints, NumberForm, one_form, short
from fires.core.errors import InputError, Question, StateError
from fires.core.types import Floats, Header, Ints, Label, Labels, Mask

TargetKind = Literal["auto", "classes", "numbers"]
_FEW = 50
_MOST_LABELS = 20
_NEARLY_ALL = 0.95  # a fraction among 0 and 1 is a mistake, not a measurement
_PRIOR_ROWS = 10.0
_MEMORY = 10_000.0
_MOST_CLASSES = 10
_FEW_AMOUNTS = 20  # more distinct whole numbers than these are amounts
_REACH = 3.0  # standard deviations of a numeric target that count
_LEAST = 1e-6
_NOTHING = 1e-9
_NUMERIC = ("number", "date", "duration")


@dataclass(frozen=True, eq=False)
class ReadTarget:
    """The target of some rows."""

    y: Labels
    usable: Mask | None = None
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
        cls, values: pl.Series, hints: Hints = NO_HINTS, holds: TargetKind = "auto"
    ) -> Target:
        """Find out what a target holds."""
        name = values.name
        kind = kind_of_type(values.dtype)
        if kind is None:
            what = str(values.dtype.base_type()).lower()
            raise InputError(
                f'the target column "{name}" holds values of type {what}, which cannot be predicted'
            )
        column = Column(name, kind)
        if kind == "category" and (values.dtype == pl.String or holds == "numbers"):
            column = find_column(values.cast(pl.String), hints)
        if holds == "numbers":
            return cls(column if column.kind in _NUMERIC else Column(name, "number"), hints)
        if values.dtype == pl.String:
            column = _labels_or(column, values, hints)
        if column.kind == "number" and (column.form is None or holds == "classes"):
            column = _if_whole(column, values, classes=holds == "classes")
        target = cls(column, hints)
        if holds == "auto":
            target._ask(values)
        return target

    @property
    def is_numeric(self) -> bool:
        """Whether it holds numbers, not labels."""
        return self.column.kind in _NUMERIC

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
        what, instead = "texts", "choose another target, or"
        if self.column.kind == "integer":
            what, instead = "whole numbers", "use {model=gaussian} if they are amounts,"
        raise Question(
            f'the target column "{self.column.name}" holds {n_distinct:,} distinct {what} in '
            f'{len(labels):,} rows, such as "{short(str(labels[0]))}"',
            hint=f"{instead} use {{model=probit}} if they are classes",
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
                else f'"{short(one_form(str(found)))}" in the target column "{name}" is not '
                + WORDS[self.column.kind].one
            )
        return ReadTarget(_as_array(read.drop_nulls()), usable, reasons)


def _as_array(values: pl.Series) -> Labels:
    y: Labels = values.to_numpy()
    return y.astype(np.str_) if y.dtype == object else y


def _labels_or(column: Column, values: pl.Series, hints: Hints) -> Column:
    """A target of text. With few different values, they are numbers only if all of them are."""
    text = tidy(values, hints.na_values)
    if text.null_count() == len(text):
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

    def known(column: Column) -> pl.Series:
        return read_cells(values, column).values.drop_nulls()

    plain, unsigned = (Column(column.name, "integer", why=why) for why in ("", "unsigned"))
    numbers, whole = known(column), known(plain)
    fractional = len(whole) < len(numbers)
    if values.dtype == pl.String and fractional and len(known(unsigned)) >= len(numbers) > 0:
        return unsigned
    fractional |= values.dtype.is_float() or values.dtype.is_decimal()
    if values.dtype == pl.String:  # 151.0 was a float in the program that wrote it
        fractional |= bool(values.str.contains(".", literal=True).any())
    few = len(whole) >= _NEARLY_ALL * len(numbers) and whole.n_unique() <= _MOST_LABELS
    if len(numbers) and (few or not fractional):
        return plain
    labels = classes and 0 < numbers.n_unique() <= _MOST_LABELS
    return Column(column.name, "category") if labels else column


# --- what categories say -------------------------------------------------------------------------


class TargetStatistics:
    r"""The target of the rows before, for each category of each column.

    A linear model can do nothing with the codes 0, 1, 2, ... of categories. So a category becomes
    the share of a class among the rows before that had it, as the logarithm of its odds against the
    odds of all rows:

    .. math:: \operatorname{logit} \frac{s + m p}{w + m} - \operatorname{logit} p

    with :math:`w` rows of the category, :math:`s` of them of the class, :math:`p` the share in all
    rows, and :math:`m = 10` rows that draw a rare category to :math:`p`. Of a numeric target it is
    the mean, drawn to the mean of all rows in the same way. Rows fade away after 10,000 others. No
    row knows its own target, nor that of any row of its batch: the number is as honest as a
    prediction.

    ``benchmarks/answer/categories.py`` measures it: a column of 2 to 1,000 categories that decides
    the target ranks first, where codes let it fall as low as 12th of 12. One feature per category
    does as well, at the cost of as many features.

    Examples
    --------
    >>> statistics = TargetStatistics(("yes",))
    >>> codes = {"town": np.array([0, 0, 1, 1] * 50)}
    >>> statistics = statistics.after(codes, np.array(["yes", "yes", "no", "yes"] * 50))
    >>> statistics.values("town", np.array([0, 1, -1])).round(1).ravel()
    array([ 2.7, -1. ,  nan])
    """

    def __init__(self, labels: tuple[Label, ...] | None) -> None:
        self.labels = labels
        self.n_slots = 1 if labels is None else len(labels)
        self.rows = 0.0
        self.base, self.base_weight = np.zeros(self.n_slots), 0.0
        self.spread = np.zeros(3)  # weight, mean and variance of a numeric target
        # For each column: weight, last row and sums of the category of code c in row c + 1, of all
        # others in row 0.
        self.tables: dict[str, Floats] = {}

    def values(self, name: str, codes: Ints) -> Floats:
        """What categories are worth now."""
        table = self.tables.get(name)
        out = np.zeros((len(codes), self.n_slots))
        if table is not None and self.base_weight > 0.0:
            met = table[np.where(codes + 1 < len(table), codes + 1, 0)]
            fade = np.exp((met[:, 1] - self.rows) / _MEMORY)
            weight = met[:, 0] * fade + _PRIOR_ROWS
            p = self.base / self.base_weight
            out = (met[:, 2:] * fade[:, None] + _PRIOR_ROWS * p) / weight[:, None]
            out = out - p if self.labels is None else _logit(out) - _logit(p)
            out[np.abs(out) < _NOTHING] = 0.0  # rounding must not make a constant seem to change
        out[codes < 0] = np.nan
        return out

    def after(self, codes: Mapping[str, Ints], y: Labels) -> TargetStatistics:
        """What is known after some more rows."""
        if len(y) == 0:
            return self
        other = copy.copy(self)
        targets = other._targets(y)
        other.rows = self.rows + len(y)
        kept = np.exp(-len(y) / _MEMORY)
        other.base = self.base * kept + targets.sum(axis=0)
        other.base_weight = self.base_weight * kept + len(y)
        other.tables = dict(self.tables)
        for name, of_rows in codes.items():
            present = of_rows >= 0
            rows = of_rows[present] + 1
            known = self.tables.get(name, np.zeros((1, 2 + self.n_slots)))
            table = np.zeros((max(int(rows.max(initial=0)) + 1, len(known)), known.shape[1]))
            table[: len(known)] = known
            touched = np.unique(rows)
            table[touched] *= np.exp((table[touched, 1:2] - other.rows) / _MEMORY)
            table[touched, 1] = other.rows
            np.add.at(table[:, 0], rows, 1.0)
            np.add.at(table[:, 2:], rows, targets[present])
            other.tables[name] = table
        return other

    def forgetting(self, names: Set[str]) -> TargetStatistics:
        """Without some columns."""
        other = copy.copy(self)
        other.tables = {name: table for name, table in self.tables.items() if name not in names}
        return other

    def _targets(self, y: Labels) -> Floats:
        """The target as numbers, one column for each slot."""
        if self.labels is not None:
            return np.column_stack([(y == label).astype(np.float64) for label in self.labels])
        numbers = y.astype(np.float64)
        weight, mean, variance = self.spread.tolist()
        if weight == 0.0:
            mean, variance = float(numbers.mean()), float(numbers.var())
        half_width = _REACH * np.sqrt(variance) if variance > 0.0 else np.inf
        clipped = np.clip(numbers, mean - half_width, mean + half_width)
        total = weight * np.exp(-len(y) / _MEMORY) + len(y)
        share = len(y) / total
        step = float(clipped.mean()) - mean
        variance = (1.0 - share) * variance + share * float(((clipped - mean) ** 2).mean())
        self.spread = np.array([total, mean + share * step, variance])
        scale = np.sqrt(variance) if variance > 0.0 else 1.0
        return np.asarray((clipped - self.spread[1]) / scale)[:, None]

    # --- state --------------------------------------------------------------------------------

    def as_json(self) -> Header:
        """All that a state file has to hold."""
        return {
            "labels": None if self.labels is None else list(self.labels),
            "rows": self.rows,
            "base": self.base.tolist(),
            "base_weight": self.base_weight,
            "spread": self.spread.tolist(),
            "tables": {
                name: [table[:, 0].tolist(), table[:, 2:].tolist(), table[:, 1].tolist()]
                for name, table in self.tables.items()
            },
        }

    @classmethod
    def from_json(cls, saved: Any) -> TargetStatistics:
        """What :meth:`as_json` wrote down."""
        labels = saved["labels"]
        statistics = cls(None if labels is None else tuple(labels))
        slots = statistics.n_slots
        statistics.rows = float(saved["rows"])
        statistics.base_weight = float(saved["base_weight"])
        statistics.base = _numbers(saved["base"], (slots,))
        statistics.spread = _numbers(saved["spread"], (3,))
        for name, (weight, sums, last) in saved["tables"].items():
            n = len(weight)
            parts = _numbers(weight, (n, 1)), _numbers(last, (n, 1)), _numbers(sums, (n, slots))
            statistics.tables[str(name)] = np.hstack(parts)
        return statistics


def labels_of(y: npt.NDArray[Any]) -> tuple[Label, ...] | None:
    """The classes of a target that have a share of their own."""
    labels, counts = np.unique(y, return_counts=True)
    if y.dtype.kind == "f" and (len(labels) > 2 or (y != np.round(y)).any()):
        return None
    if y.dtype.kind in "iu" and len(labels) > max(_FEW_AMOUNTS, len(y) // 2):
        return None
    if len(labels) <= 2:
        return tuple(labels[-1:].tolist())
    # The shares of all classes sum to 1: one of them is told by the others.
    n_told = min(len(labels) - 1, _MOST_CLASSES)
    common = np.sort(np.argsort(-counts, kind="stable")[:n_told])
    return tuple(labels[common].tolist())


def _logit(p: Floats) -> Floats:
    p = np.clip(p, _LEAST, 1.0 - _LEAST)
    return np.asarray(np.log(p) - np.log1p(-p))


def _numbers(values: npt.ArrayLike, shape: tuple[int, ...]) -> Floats:
    array = np.array(values, dtype=np.float64).reshape(shape)
    if not np.isfinite(array).all():
        raise StateError("the statistics of categories are not finite")
    return array
