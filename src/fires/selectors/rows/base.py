"""What selectors share that learn two classes row by row."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from sklearn.utils import ClassifierTags

from fires.core.batch import CheckedBatch
from fires.core.belief import Floats
from fires.core.declared import Array, Declared
from fires.core.errors import StateError
from fires.core.state import Arrays
from fires.core.validation import repeated
from fires.kernels import read_only
from fires.selectors.base import OnlineSelector

Rows = tuple[npt.NDArray[Any], ...]
"""A batch as compiled loops take it: one dense array, or data, indices and indptr."""


class RowByRowSelector(OnlineSelector):
    """A linear learner of two classes, with some numbers for every feature.

    A method writes :meth:`_start` and :meth:`_run`, and names its two loops. However the rows of a
    stream are cut into batches, what is learnt is the same to the last bit. A missing entry counts
    as 0.
    """

    _loops: ClassVar[tuple[Callable[..., Any], Callable[..., Any]]]  # over an array, and over CSR
    _learnt: ClassVar[Declared] = {
        "theta": Array(2, "J"),  # the coefficient first; what follows it is never negative
        "kept": Array("*", dtype="int64", low=0, high="J"),
    }

    _theta_: Floats
    _kept_: npt.NDArray[np.int64]

    @abstractmethod
    def _start(self) -> Floats:
        """What is known before the first row: some numbers per feature, the coefficient first."""

    @abstractmethod
    def _run(self, rows: Rows, signs: Floats) -> bool:
        """Learn from every row, in place in ``_theta_``; whether all went well.

        Entries outside the batch change only where ``_kept_`` lists them. Other attributes get
        new values, and never change in place.
        """

    @property
    def importances_(self) -> Floats:
        """The coefficient of every feature, for the greater label; read-only, yours to keep."""
        importances: Floats = self._computed("importances", self._coefficients)
        return importances

    def _coefficients(self) -> Floats:
        coefficients: Floats = self._theta_[0].copy()
        return coefficients

    def _weights(self) -> Floats:
        return np.abs(self._coefficients())

    def _learn(self, batch: CheckedBatch) -> None:
        signs, turned = self._take_signs(batch)
        X, signs = repeated(batch.X, signs, batch.weight, type(self).__name__)
        rows = _as_rows(X, batch.n_missing > 0)
        if not hasattr(self, "_theta_"):
            self._theta_, self._kept_ = _aligned(self._start()), np.zeros(0, dtype=np.int64)
        else:
            self._take_sides(turned)
        theta, done = self._theta_, False
        where: Any = ... if len(rows) == 1 else (slice(None), np.append(rows[1], self._kept_))
        before = theta[where].copy()
        try:
            done = self._run(rows, signs) and _is_finite(theta[where])
        finally:
            if not done:
                theta[where] = before
        if not done:
            raise ValueError("X holds values so large that a step would overflow; rescale them.")

    def _loop(self, rows: Rows) -> Callable[..., Any]:
        """The loop for rows of this form."""
        return self._loops[len(rows) > 1]

    def _room(self, rows: Rows) -> tuple[npt.NDArray[np.int64], int]:
        """The list of kept features with room for those that a row may add, and its length."""
        n = len(self._kept_)
        if len(rows) == 1:
            size = self.n_features_in_
        else:
            size = max(n, self._resolve_k()) + int(np.diff(rows[2]).max())
        place = np.empty(size, dtype=np.int64)
        place[:n] = self._kept_
        return place, n

    def _take_sides(self, turned: bool) -> None:
        """What was learnt of a first class as the positive one, when it turns out not to be."""
        if turned:
            self._theta_ = _aligned(self._theta_)
            self._theta_[0] *= -1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    def _restore(self, header: dict[str, Any], arrays: Arrays, model: Any) -> None:
        super()._restore(header, arrays, model)
        if (self._theta_[1:] < 0.0).any():
            raise StateError("theta holds variances or sums of squares that are negative")
        if len(np.unique(self._kept_)) < len(self._kept_):
            raise StateError("kept lists a feature twice")
        self._theta_ = _aligned(self._theta_)


def _as_rows(X: Any, missing: bool) -> Rows:
    """X in the one type that the loops are compiled for, with zeros for what is missing."""
    dense = isinstance(X, np.ndarray)
    values = X if dense else X.data
    if missing:
        values = np.where(np.isnan(values), 0.0, values)
    values = np.ascontiguousarray(values, dtype=np.float64)
    if dense:
        return tuple(read_only(values))
    return tuple(read_only(values, X.indices.astype(np.int64), X.indptr.astype(np.int64)))


def _aligned(theta: Floats) -> Floats:
    """A copy that begins with a cache line: elsewhere, loops take up to a fifth longer."""
    room = np.empty(theta.size + 8)
    start = -room.ctypes.data % 64 // 8
    copy = room[start : start + theta.size].reshape(theta.shape)
    copy[...] = theta
    return copy


def _is_finite(theta: Floats) -> bool:
    """Whether all squares are, of which weights and norms are made: their sum is not if one is."""
    return math.isfinite(np.vdot(theta, theta))
