"""A batch that has been checked; nobody checks it again."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from fires.core.classes import NO_CLASSES as NO_CLASSES
from fires.core.classes import Classes
from fires.core.types import Codes, Floats, GivenClasses, Labels, Mask, Matrix, Places, RowIndex


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
    source: Places | None = None  # of each column, where it was before, if some have moved
    _encoded: tuple[Classes, Classes, Codes] | None = field(default=None, repr=False)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        n_rows: int = self.X.shape[0]
        return n_rows

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
        return replace(self, X=X, n_missing=0, present=None, n_absent=0, source=None)

    def weighted(self, weight: Floats | None) -> CheckedBatch:
        """The same batch with other weights."""
        return self if weight is self.weight else replace(self, weight=weight)

    def part(self, rows: RowIndex) -> CheckedBatch:
        """Some of the rows as a batch. It may happen that all of them have weight 0."""
        X = self.X[rows]
        n_missing, n_absent, present = 0, 0, None
        if self.n_missing:
            n_missing = int(np.isnan(X.data if not isinstance(X, np.ndarray) else X).sum())
            present = columns_present(X)
            n_absent = X.shape[0] * self.n_absent // self.n_rows
        y = None if self.y is None else self.y[rows]
        weight = None if self.weight is None else self.weight[rows]
        other = replace(self, X=X, y=y, weight=weight, n_missing=n_missing, _encoded=None)
        other.present, other.n_absent = present, n_absent
        return other


def columns_present(X: Matrix) -> Mask | None:
    """The columns with an entry, of rows in which entries are missing.

    Examples
    --------
    >>> columns_present(np.array([[np.nan, 1.0], [np.nan, np.nan]]))
    array([False,  True])
    """
    if not isinstance(X, np.ndarray):
        return None
    present = ~np.isnan(X[0]) if len(X) else np.ones(X.shape[1], dtype=np.bool_)
    doubtful = np.flatnonzero(~present)
    if not len(doubtful):
        return None
    present[doubtful] = ~np.isnan(X[:, doubtful]).all(axis=0)
    return None if present.all() else present


@lru_cache(maxsize=16)
def ones(n: int) -> Floats:
    """Weights of 1; nobody writes to this array."""
    return np.ones(n)


def nothing() -> None:
    """Learn nothing: what there is to learn was learnt elsewhere."""
