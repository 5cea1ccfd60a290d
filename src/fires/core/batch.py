"""A batch that has been checked; nobody checks it again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from fires.core.classes import NO_CLASSES as NO_CLASSES
from fires.core.classes import Classes, Codes, Labels
from fires.core.declared import Array
from fires.core.state import Arrays
from fires.core.types import CsrRows, Floats, GivenClasses, Mask, Matrix, Places, RowIndex


@dataclass(slots=True, eq=False)
class CheckedBatch:
    """Rows that selectors, models and predictors learn from without checking them again.

    The ``partial_fit`` of a selector or a pipeline makes it from what the user passed, and hands it
    on. Nobody changes it.

    Examples
    --------
    >>> batch = CheckedBatch(np.zeros((2, 3)), np.array(["no", "yes"]))
    >>> index, codes = batch.labels(NO_CLASSES)
    >>> codes, batch.labels(index)[0] is index
    (array([0, 1]), True)
    """

    X: Any  # a Matrix, or None where only labels are learnt
    y: Labels | None = None
    weight: Floats | None = None
    n_missing: int = 0
    classes: GivenClasses | None = None
    scale: str | None = None
    known: Any = None  # the columns after it, fixed or open; None if nobody has looked
    present: Mask | None = None
    n_absent: int = 0
    change: Floats | None = None  # of the units of scaled rows: see fires.kernels.moments.learn
    gaps: Any = None  # where entries were missing, if that is not to be seen in X any more
    times: Floats | None = None  # when each row was, in seconds, where evidence fades by time
    source: Places | None = None  # of each column, where it was before, if some have moved
    _encoded: tuple[Classes, Classes, Codes] | None = field(default=None, repr=False)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.X.shape[0])

    def labels(self, known: Classes) -> tuple[Classes, Codes]:
        """All labels known after this batch, and the index of each label of y among them."""
        if self._encoded is not None:
            before, after, codes = self._encoded
            if known is before or known is after:
                return after, codes
        assert self.y is not None
        after, codes = known.take(self.y, self.classes)
        self._encoded = known, after, codes
        return after, codes

    def with_rows(self, X: Matrix) -> CheckedBatch:
        """The same batch with other rows; encoded labels are kept."""
        other = replace(self, X=X, n_missing=0, present=None, n_absent=0, gaps=None, source=None)
        other.change = None
        return other

    def with_gaps(self) -> CheckedBatch:
        """The same batch with NaN where entries were missing, for who scales its rows anew."""
        if self.gaps is None:
            return self
        X = self.X.copy()
        if isinstance(X, np.ndarray):
            X[self.gaps] = np.nan
        else:
            X.data[self.gaps.data > 0.0] = np.nan
        return replace(self, X=X, n_missing=int(self.gaps.sum()), gaps=None)

    def weighted(self, weight: Floats | None) -> CheckedBatch:
        """The same batch with other weights."""
        return self if weight is self.weight else replace(self, weight=weight)

    def part(self, rows: RowIndex) -> CheckedBatch:
        """Some of the rows as a batch. It may happen that all of them have weight 0."""

        def of(values: Any) -> Any:
            return None if values is None else values[rows]

        X = self.X[rows]
        other = replace(self, X=X, y=of(self.y), weight=of(self.weight), gaps=of(self.gaps))
        other.times, other.change, other._encoded = of(self.times), None, None
        if self.n_missing:
            other.n_missing = int(np.isnan(X if isinstance(X, np.ndarray) else X.data).sum())
            other.present = columns_present(X)
            other.n_absent = X.shape[0] * self.n_absent // self.n_rows
        return other


def columns_present(X: Matrix) -> Mask | None:
    """The columns with an entry, of rows in which entries are missing.

    Examples
    --------
    >>> columns_present(np.array([[np.nan, 1.0], [np.nan, np.nan]]))
    array([False,  True])
    """
    if not isinstance(X, np.ndarray) or not len(X) or not np.isnan(X[0]).any():
        return None
    present = np.asarray(~np.isnan(X).all(axis=0))
    return None if present.all() else present


@lru_cache(maxsize=16)
def ones(n: int) -> Floats:
    """Weights of 1; nobody writes to this array."""
    return np.ones(n)


def row_major(X: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A dense array in C order, read-only; a copy only if it is not in that order."""
    view = np.ascontiguousarray(X).view()
    view.setflags(write=False)
    return view


def nothing() -> None:
    """Learn nothing: what there is to learn was learnt elsewhere."""


# --- weights of rows ------------------------------------------------------------------------------


class WeightSums(NamedTuple):
    """The weights of the rows so far; older rows have faded.

    Weights are taken in units of the first ones, so that a constant weight is 1 to the bit.
    """

    unit: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    @property
    def ratio(self) -> float:
        """What a weight of one unit counts in rows."""
        return self.total / self.squares

    @classmethod
    def read(cls, arrays: Arrays) -> WeightSums:
        """The sums in a state file; older files have none."""
        saved = Array(3, low=0.0, optional=True).read("weight_sums", {}, arrays, {})
        return cls() if saved is None else cls(*saved.tolist())

    def after(self, total: float, squares: float, n_rows: int, memory: float) -> WeightSums:
        """The sums with those of a batch, in units."""
        keep = (1.0 - 1.0 / memory) ** n_rows
        return WeightSums(self.unit, keep * self.total + total, keep * self.squares + squares)


def effective_weights(
    weight: Floats | None, n_rows: int, known: WeightSums, memory: float = 10_000.0
) -> tuple[Floats | None, WeightSums]:
    r"""Weights in units of rows: w times the running :math:`\sum w / \sum w^2` (Kish, 1965).

    A constant weight becomes 1. Unequal weights count as their effective number of rows.

    Examples
    --------
    >>> effective_weights(np.array([10.0, 10.0]), 2, WeightSums())
    (array([1., 1.]), WeightSums(unit=10.0, total=2.0, squares=2.0))
    >>> effective_weights(np.array([3.0, 1.0]), 2, WeightSums())[0]
    array([1.2, 0.4])
    """
    if not known.unit:
        known = known._replace(unit=1.0 if weight is None else float(weight.max()))
    if weight is None and known.unit == 1.0:
        known = known.after(n_rows, n_rows, n_rows, memory)
        usual = known.total == known.squares
        return (None if usual else np.full(n_rows, known.ratio)), known
    units = np.full(n_rows, 1.0 / known.unit) if weight is None else weight / known.unit
    known = known.after(float(units.sum()), float(units @ units), n_rows, memory)
    return units * known.ratio, known


def gaps_in(X: Matrix) -> Mask | CsrRows:
    """Where entries are missing, dense or as sparse as X."""
    if isinstance(X, np.ndarray):
        return np.isnan(X)
    gaps = X.copy()
    gaps.data = np.isnan(X.data).astype(np.float64)
    return gaps
