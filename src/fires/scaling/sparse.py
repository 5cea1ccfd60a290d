"""Scales of sparse data, learnt while the stream flows, at the cost of the entries alone.

As :mod:`fires.scaling.dense`, for the columns that a batch touches. x is never shifted, which
would fill it; in place of a shift there is the *pull* with which the mean of a column, touched or
not, is to be centred (see :mod:`fires.models.linear_learner`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.belief import Floats
from fires.core.declared import Array, Declared
from fires.kernels import read_only, sparse, touched_columns
from fires.scaling.dense import MinMax, Standard

Columns = npt.NDArray[np.int64]
_NOWHERE = np.zeros(0, dtype=np.intp)
_LEAST = 1e-300  # sums of squares below this have lost their digits


class Touched:
    """A CSR batch seen through the columns it touches, so that nothing costs more than its entries.

    ``slot`` is scratch space of one zero per feature, left as it was found.
    """

    def __init__(self, X: Any, weight: Floats, missing: bool, slot: npt.NDArray[np.int32]) -> None:
        self._local = np.empty(len(X.indices), dtype=X.indptr.dtype)
        self.columns = touched_columns(*read_only(X.indices), slot, self._local)
        self._entries = read_only(X.data, self._local, X.indptr)
        self._X, self.weight, self.missing = X, weight, missing
        self.total = float(weight.sum())

    def project(self, mu: Floats, var: Floats) -> tuple[Floats, Floats]:
        """``a`` and ``v`` of :func:`fires.kernels.project`, for parameters of these columns."""
        a, v = np.empty((len(mu), len(self.weight))), np.empty((len(mu), len(self.weight)))
        sparse.project_csr(*self._entries, mu, var, a, v)
        return a, v

    def accumulate(self, c: Floats, d: Floats) -> tuple[Floats, Floats]:
        """``p`` and ``q`` of :func:`fires.kernels.accumulate`, for these columns."""
        p, q = np.zeros((len(c), len(self.columns))), np.zeros((len(c), len(self.columns)))
        sparse.accumulate_csr(*self._entries, c, d, p, q)
        return p, q

    def scaled(self, gain: Floats) -> Any:
        """The batch times the gain of its columns, missing entries as zeros."""
        data = np.nan_to_num(self._X.data * gain[self._local])
        return sp.csr_array((data, self._X.indices, self._X.indptr), shape=self._X.shape)

    def gaps(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """The rows and, among the touched ones, the columns of missing entries."""
        if not self.missing:
            return _NOWHERE, _NOWHERE
        (entries,) = np.nonzero(np.isnan(self._X.data))
        rows = np.searchsorted(self._X.indptr, entries, side="right") - 1
        return rows, self._local[entries]

    def absent(self) -> Floats:
        """The weight of the missing entries of each column."""
        missing = self._row_weight() * np.isnan(self._X.data)
        return np.bincount(self._local, missing, len(self.columns)).astype(np.float64)

    def extreme(self, pick: np.ufunc) -> Floats:
        """The smallest or greatest entry of each column, or 0; a row of weight 0 was not there."""
        extreme = np.zeros(len(self.columns))
        there = (self._row_weight() > 0) & ~np.isnan(self._X.data)
        pick.at(extreme, self._local, np.where(there, self._X.data, 0.0))
        return extreme

    def _row_weight(self) -> Floats:
        return np.repeat(self.weight, np.diff(self._X.indptr))


class SparseUnscaled:
    """X as it comes, not centred either."""

    kind: ClassVar[str | None] = None
    ready = True
    pace = 0.0

    def __init__(self, n_features: int) -> None:
        pass

    def begin(self, batch: Touched) -> None:
        """Nothing to learn."""

    def gain(self, columns: Columns) -> Floats:
        """One."""
        return np.ones(len(columns))

    def pull(self, columns: Columns) -> Floats:
        """Nothing pulls."""
        return np.zeros(len(columns))

    def absorb(self, batch: Touched, p: Floats, q: Floats) -> None:
        """Nothing to learn."""

    learnt: ClassVar[Declared] = {}

    def refresh(self) -> None:
        """Nothing follows from nothing."""


class SparseStandard:
    r"""Root mean square 1, and centring in effect.

    With :math:`S_j` and :math:`Q_j` the sums of a column and of its squares over :math:`n` rows,
    x is divided by :math:`r_j = \sqrt{Q_j / n}`, and the mean to be taken off is
    :math:`m_j / r_j = \frac{S_j}{\sqrt{Q_j}} \frac{1}{\sqrt n}`: the *pull* of the column, constant
    while it is not touched, times the *pace*, the same for all columns. That is what makes the
    centring of untouched columns exact and lazy at once; the standard deviation would not
    separate so. Where entries are missing, n is the share of the rows in which the column was
    there when it was last touched.
    """

    kind: ClassVar[str | None] = "standard"
    learnt: ClassVar[Declared] = {
        "count": Array(1, low=0.0),
        "sums": Array("J"),
        "squares": Array("J", low=0.0),
        "absent": Array("0|J", low=0.0),
        "observed": Array("0|J", low=0.0, high=1.0),
    }

    def __init__(self, n_features: int) -> None:
        self.count = np.zeros(1)
        self.sums = np.zeros(n_features)
        self.squares = np.zeros(n_features)
        self.absent: Floats = np.zeros(0)  # grows to one entry a column with the first missing one
        self.observed: Floats = np.ones(0)
        self.pulls = np.zeros(n_features)

    @property
    def ready(self) -> bool:
        """Whether a batch was seen."""
        return bool(self.count[0] > 0)

    @property
    def pace(self) -> float:
        """What the pull is multiplied by at this point of the stream."""
        return float(self.count[0] ** -0.5)

    def begin(self, batch: Touched) -> None:
        """Take the scale of the first batch from the batch itself."""
        weight = batch.weight[None, :]
        p, q = batch.accumulate(weight, weight)
        self.absorb(batch, p[0], q[0])

    def gain(self, columns: Columns) -> Floats:
        """One over the root mean square; 0 for columns never seen."""
        squares = self.squares[columns]
        gain: Floats = np.sqrt(self.count[0] / np.where(squares > _LEAST, squares, np.inf))
        if len(self.observed):
            gain *= np.sqrt(self.observed[columns])
        return gain

    def pull(self, columns: Columns) -> Floats:
        """What centring takes off the mean of a column, per pace."""
        pull: Floats = self.pulls[columns]
        return pull

    def absorb(self, batch: Touched, p: Floats, q: Floats) -> None:
        """Add a batch whose weighted sums and squares are ``p`` and ``q``."""
        columns = batch.columns
        self.count = self.count + batch.total
        self.sums[columns] += p
        self.squares[columns] += q
        if batch.missing and not len(self.absent):
            self.absent, self.observed = np.zeros_like(self.sums), np.ones_like(self.sums)
        if len(self.absent):
            if batch.missing:
                self.absent[columns] += batch.absent()
            share = 1.0 - self.absent[columns] / self.count[0]
            self.observed[columns] = np.maximum(share, np.finfo(float).eps)
        self.refresh(columns)

    def refresh(self, columns: Any = slice(None)) -> None:
        """The pull that belongs to the sums."""
        squares = self.squares[columns]
        squares = np.where(squares > _LEAST, squares, np.inf)
        if len(self.observed):
            squares *= self.observed[columns]
        self.pulls[columns] = self.sums[columns] / np.sqrt(squares)

    def take_over(self, dense: Standard) -> None:
        """Go on from the sums of a dense scaler."""
        count = np.broadcast_to(dense.count, self.sums.shape)
        self.count = np.full(1, count.max())
        self.sums = count * dense.shift
        self.squares = dense.spread + count * dense.shift**2
        if len(dense.count) > 1:
            self.absent = self.count - count
            self.observed = np.maximum(count / self.count, np.finfo(float).eps)
        self.refresh()


class SparseMinMax:
    """Width 1 of the range that holds 0 and every value seen, its lower end centred in effect."""

    kind: ClassVar[str | None] = "minmax"
    pace = 1.0
    learnt: ClassVar[Declared] = {
        "low": Array("J", high=0.0),
        "high": Array("J", low=0.0),
        "batches": Array(1, low=0.0),
    }

    def __init__(self, n_features: int) -> None:
        self.low = np.zeros(n_features)
        self.high = np.zeros(n_features)
        self.pulls = np.zeros(n_features)
        self.batches = np.zeros(1)

    @property
    def ready(self) -> bool:
        """Whether a batch was seen."""
        return bool(self.batches[0] > 0)

    def begin(self, batch: Touched) -> None:
        """Take the scale of the first batch from the batch itself."""
        self.absorb(batch, self.low, self.high)

    def gain(self, columns: Any) -> Floats:
        """One over the width of the range; 0 for columns never seen."""
        width = self.high[columns] - self.low[columns]
        return 1.0 / np.where(width > 1e-150, width, np.inf)

    def pull(self, columns: Columns) -> Floats:
        """The lower end of the range, scaled."""
        pull: Floats = self.pulls[columns]
        return pull

    def absorb(self, batch: Touched, p: Floats, q: Floats) -> None:
        """Widen the range by a batch."""
        columns = batch.columns
        self.batches = self.batches + 1.0
        self.low[columns] = np.minimum(self.low[columns], batch.extreme(np.minimum))
        self.high[columns] = np.maximum(self.high[columns], batch.extreme(np.maximum))
        self.refresh(columns)

    def refresh(self, columns: Any = slice(None)) -> None:
        """The pull that belongs to the range."""
        self.pulls[columns] = self.low[columns] * self.gain(columns)

    def take_over(self, dense: MinMax) -> None:
        """Go on from the range of a dense scaler."""
        self.low, self.high = np.minimum(dense.low, 0.0), np.maximum(dense.high, 0.0)
        self.batches = np.ones(1)
        self.refresh()


SPARSE = {scaler.kind: scaler for scaler in (SparseUnscaled, SparseStandard, SparseMinMax)}
