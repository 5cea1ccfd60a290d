"""The base class of selectors that learn two classes row by row."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import field
from types import EllipsisType
from typing import ClassVar

import numpy as np
from sklearn.utils import ClassifierTags, Tags

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared
from fires.core.errors import StateError
from fires.core.types import Floats, Ints
from fires.core.validation import repeated
from fires.kernels.linear import Rows, as_rows
from fires.rivals.arrays import entries, filled
from fires.rivals.base import Rival, settings


@settings
class RowByRowSelector(Rival):
    """A linear learner of two classes, with a few numbers for every feature.

    A subclass writes :meth:`_run` and says what the numbers start at. The
    result does not depend on how the rows are cut into batches, to the last bit. A missing entry
    counts as 0.
    """

    n_features_to_select: int | float = field(default=10, kw_only=False)

    _weights_repeat_rows = True

    _learnt: ClassVar[Declared] = {
        "theta": Array(2, "J"),  # row 0: coefficients; row 1: numbers that are never negative
        "kept": Array("*", dtype="int64", low=0, high="J"),
    }

    _starts: ClassVar[tuple[float, ...]]  # of the numbers of a feature, the coefficient first

    def _first(self) -> Floats:
        """The numbers of a feature of which nothing is known."""
        return np.array(self._starts)

    def _start(self, batch: CheckedBatch) -> None:
        theta = np.repeat(self._first()[:, None], self.n_features_in_, axis=1)
        self._theta_, self._kept_ = _aligned(theta), np.zeros(0, dtype=np.int64)

    @abstractmethod
    def _run(self, rows: Rows, signs: Floats) -> bool:
        """Learn from every row, changing ``_theta_`` in place; False if it did not stay finite.

        Features that the batch does not show change only if ``_kept_`` lists them. Other
        attributes are replaced, never changed in place.
        """

    @property
    def importances_(self) -> Floats:
        """The coefficient of every feature; positive favours the greater label. Read-only."""
        return self._computed("importances", self._coefficients)

    def _coefficients(self) -> Floats:
        return np.array(self._theta_[0])

    def _weights(self) -> Floats:
        return np.abs(self._coefficients())

    def _step(self, batch: CheckedBatch) -> None:
        signs, turned = self._take_signs(batch)
        X, signs = repeated(batch.X, signs, batch.weight, type(self).__name__)
        rows = as_rows(X, filled(entries(X), batch.n_missing > 0))
        self._take_sides(turned)
        theta, done = self._theta_, False
        where: EllipsisType | tuple[slice, Ints] = ...
        if isinstance(rows, tuple):
            where = (slice(None), np.append(rows[1], self._kept_))
        before = theta[where].copy()
        try:
            # Weights and norms are made of squares: the sum of all shows whether they are finite.
            moved = theta[where] if self._run(rows, signs) else np.array(np.nan)
            done = math.isfinite(np.vdot(moved, moved))
        finally:
            if not done:
                theta[where] = before
        if not done:
            raise ValueError("X holds values so large that a step would overflow; rescale them.")

    def _room(self, rows: Rows) -> tuple[Ints, int]:
        """The list of kept features, with room for what a row may add, and its present length."""
        n, k, most = len(self._kept_), self._resolve_k(), self.n_features_in_
        if isinstance(rows, tuple):
            most = int(np.diff(rows[2]).max())
        size = max(n, k) + most
        place = np.empty(size, dtype=np.int64)
        place[:n] = self._kept_
        return place, n

    def _list(self, place: Ints, n: int) -> bool:
        """Take over the list that a loop has left; False if the loop has failed."""
        self._kept_ = place[: max(n, 0)].copy()
        return n >= 0

    # The rows of theta that hold coefficients.
    _signed: ClassVar[slice] = slice(0, None, 2)

    def _take_sides(self, turned: bool) -> None:
        """If the first class turns out to be the negative one, flip the sign of what was learnt."""
        if turned:
            self._theta_ = _aligned(self._theta_)
            self._theta_[self._signed] *= -1.0

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags = ClassifierTags(multi_class=False)
        return tags

    def _check_learnt(self) -> None:
        if (self._theta_[1::2] < 0.0).any():
            raise StateError("theta holds variances or sums of squares that are negative")
        if len(np.unique(self._kept_)) < len(self._kept_):
            raise StateError("kept lists a feature twice")
        self._theta_ = _aligned(self._theta_)


def _aligned(theta: Floats) -> Floats:
    """A copy that starts at a cache line; without it, loops take up to a fifth longer."""
    room = np.empty(theta.size + 8)
    start = -room.ctypes.data % 64 // 8
    copy = room[start : start + theta.size].reshape(theta.shape)
    copy[...] = theta
    return copy
