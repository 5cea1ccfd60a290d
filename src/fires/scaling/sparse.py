"""Scales of sparse rows, learnt while the stream flows, at the cost of the entries alone.

As :mod:`fires.scaling.dense`, for the columns that have entries in a batch, the *touched* columns.
x is never shifted, since that would fill it. Instead each column has a *pull*, with which a linear
model centres it (see :mod:`fires.models.linear_learner`).
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.declared import Array, Declared, rearrange, restart
from fires.core.types import CsrRows, Floats, Ints, Places, RowIndex
from fires.kernels import read_only, sparse, touched_columns
from fires.scaling.dense import MinMax, Standard

_NOWHERE = np.zeros(0, dtype=np.intp)
_LEAST = 1e-300  # sums of squares below this have lost their digits


class Touched:
    """A CSR batch reduced to the columns with entries, so that cost does not grow with J."""

    def __init__(
        self, X: CsrRows, weight: Floats, missing: bool, slot: npt.NDArray[np.int32]
    ) -> None:
        self.local = np.empty(len(X.indices), dtype=X.indptr.dtype)
        self.columns = touched_columns(*read_only(X.indices), slot, self.local)
        self._entries = read_only(X.data, self.local, X.indptr)
        self._X, self.weight, self.missing = X, weight, missing
        self.total = float(weight.sum())

    def project(self, mu: Floats, var: Floats) -> tuple[Floats, Floats]:
        """As :func:`fires.kernels.project`, for these columns."""
        a, v = np.empty((len(mu), len(self.weight))), np.empty((len(mu), len(self.weight)))
        sparse.project_csr(*self._entries, mu, var, a, v)
        return a, v

    def accumulate(self, c: Floats, d: Floats) -> tuple[Floats, Floats]:
        """As :func:`fires.kernels.accumulate`, for these columns."""
        p, q = np.zeros((len(c), len(self.columns))), np.zeros((len(c), len(self.columns)))
        sparse.accumulate_csr(*self._entries, c, d, p, q)
        return p, q

    def scaled(self, gain: Floats, fill: Floats) -> CsrRows:
        """The batch times the gain of its columns."""
        data = np.nan_to_num(self._X.data * gain[self.local])
        if self.missing:
            data = np.where(np.isnan(self._X.data), fill[self.local], data)
        scaled: CsrRows = sp.csr_array((data, self._X.indices, self._X.indptr), shape=self._X.shape)
        return scaled

    def gaps(self) -> tuple[Places, Places]:
        """The positions of missing entries."""
        if not self.missing:
            return _NOWHERE, _NOWHERE
        (entries,) = np.nonzero(np.isnan(self._X.data))
        rows = np.searchsorted(self._X.indptr, entries, side="right") - 1
        return rows, self.local[entries]

    def absent(self) -> Floats:
        """The weight of the missing entries of each column."""
        missing = self._row_weight() * np.isnan(self._X.data)
        return np.bincount(self.local, missing, len(self.columns)).astype(np.float64)

    def extreme(self, pick: np.ufunc) -> Floats:
        """The smallest or greatest entry of each column, or 0; rows of weight 0 are left out."""
        extreme = np.zeros(len(self.columns))
        present = (self._row_weight() > 0) & ~np.isnan(self._X.data)
        pick.at(extreme, self.local, np.where(present, self._X.data, 0.0))
        return extreme

    def _row_weight(self) -> Floats:
        return np.repeat(self.weight, np.diff(self._X.indptr))


class SparseUnscaled:
    """X as it comes, and not centred."""

    kind: ClassVar[str | None] = None
    ready = True
    pace = 0.0

    def __init__(self, n_features: int) -> None:
        pass

    def begin(self, batch: Touched) -> None:
        """Nothing to learn. See :class:`SparseStandard`."""

    def gain(self, columns: Ints) -> Floats:
        """One for every column. See :class:`SparseStandard`."""
        return np.ones(len(columns))

    def pull(self, columns: Ints) -> Floats:
        """Zero for every column. See :class:`SparseStandard`."""
        return np.zeros(len(columns))

    def fill(self, columns: Ints) -> Floats:
        """Zero for every column. See :class:`SparseStandard`."""
        return np.zeros(len(columns))

    def absorb(self, batch: Touched, p: Floats, q: Floats) -> None:
        """Nothing to learn. See :class:`SparseStandard`."""

    learnt: ClassVar[Declared] = {}

    def refresh(self) -> None:
        """Nothing to compute."""

    def restart(self, columns: Ints) -> None:
        """Nothing to forget. See :class:`SparseStandard`."""

    def rearranged(self, source: Places) -> SparseUnscaled:
        """For other columns. See :class:`SparseStandard`."""
        return self


class SparseStandard:
    r"""Root mean square 1, and a pull with which a linear model centres.

    Let :math:`S_j` and :math:`Q_j` be the sums of a column and of its squares over :math:`n` rows.
    x is divided by :math:`r_j = \sqrt{Q_j / n}`. The mean to be subtracted is then
    :math:`m_j / r_j = \frac{S_j}{\sqrt{Q_j}} \frac{1}{\sqrt n}`. Its first factor is the *pull*,
    which does not change while a column is not touched. The second is the *pace*, the same for all
    columns. So untouched columns can be centred later, and exactly. The standard deviation could
    not be split in this way. If entries are missing, n is multiplied by the share of rows in which
    the column had an entry when it was last touched.
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
        self.absent: Floats = np.zeros(0)  # one entry per column once an entry was missing
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
        """Learn the scale of the first batch from the batch itself."""
        weight = batch.weight[None, :]
        p, q = batch.accumulate(weight, weight)
        self.absorb(batch, p[0], q[0])

    def gain(self, columns: Ints) -> Floats:
        """One over the root mean square; 0 for columns never seen."""
        squares = self.squares[columns]
        gain: Floats = np.sqrt(self.count[0] / np.where(squares > _LEAST, squares, np.inf))
        if len(self.observed):
            gain *= np.sqrt(self.observed[columns])
        return gain

    def pull(self, columns: Ints) -> Floats:
        """The scaled mean of a column divided by the pace."""
        pull: Floats = self.pulls[columns]
        return pull

    def fill(self, columns: Ints) -> Floats:
        """What missing entries become: the mean of the column so far, on the new scale."""
        return self.pace * self.pull(columns)

    def absorb(self, batch: Touched, p: Floats, q: Floats) -> None:
        """Add the sums of a batch."""
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

    def refresh(self, columns: RowIndex = slice(None)) -> None:
        """Compute the pull from the sums."""
        squares = self.squares[columns]
        squares = np.where(squares > _LEAST, squares, np.inf)
        if len(self.observed):
            squares *= self.observed[columns]
        self.pulls[columns] = self.sums[columns] / np.sqrt(squares)

    def restart(self, columns: Ints) -> None:
        """Forget some columns: they are then as if missing in all rows so far."""
        restart(self, self.learnt, columns, len(self.sums))
        if not len(self.absent):
            self.absent, self.observed = np.zeros_like(self.sums), np.ones_like(self.sums)
        self.absent[columns], self.observed[columns] = self.count[0], np.finfo(float).eps
        self.refresh(columns)

    def rearranged(self, source: Places) -> SparseStandard:
        """The scale of other columns: see :func:`fires.core.declared.rearrange`."""
        fresh = SparseStandard(len(source))
        fresh.absent, fresh.observed = np.zeros(len(source)), np.ones(len(source))
        return rearrange(self, self.learnt, source, fresh, "pulls")

    def undo(self, gain: Floats) -> None:
        """Go on with rows that are not multiplied by a gain any more before they come here."""
        self.sums, self.squares = self.sums / gain, self.squares / gain**2
        self.refresh()

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
    """A range of width 1 with 0 and every value seen; a linear model shifts its lower end to 0.

    A missing entry becomes the mean of its column over the rows in which it is not missing, those
    without an entry, which are zeros, included.
    """

    kind: ClassVar[str | None] = "minmax"
    pace = 1.0
    learnt: ClassVar[Declared] = {
        "low": Array("J", high=0.0),
        "high": Array("J", low=0.0),
        "batches": Array(1, low=0.0),
        # Files of earlier versions have none of these: their means begin with the next batch.
        "count": Array(1, low=0.0, optional=True),
        "sums": Array("J", optional=True),
        "absent": Array("0|J", low=0.0, optional=True),
    }

    def __init__(self, n_features: int) -> None:
        self.low = np.zeros(n_features)
        self.high = np.zeros(n_features)
        self.pulls = np.zeros(n_features)
        self.batches = np.zeros(1)
        self.count = np.zeros(1)
        self.sums = np.zeros(n_features)
        self.absent: Floats = np.zeros(0)  # one entry per column once an entry was missing

    @property
    def ready(self) -> bool:
        """Whether a batch was seen."""
        return bool(self.batches[0] > 0)

    def begin(self, batch: Touched) -> None:
        """Learn the scale of the first batch from itself. See :class:`SparseStandard`."""
        self.absorb(batch, self.low, self.high)

    def gain(self, columns: RowIndex) -> Floats:
        """One over the width of the range; 0 for new columns. See :class:`SparseStandard`."""
        width = self.high[columns] - self.low[columns]
        return 1.0 / np.where(width > 1e-150, width, np.inf)

    def pull(self, columns: Ints) -> Floats:
        """The lower end of the range, scaled. See :class:`SparseStandard`."""
        pull: Floats = self.pulls[columns]
        return pull

    def absorb(self, batch: Touched, p: Floats, q: Floats) -> None:
        """Widen the range by a batch. See :class:`SparseStandard`."""
        columns = batch.columns
        self.batches = self.batches + 1.0
        self.count = self.count + batch.total
        weight = batch.weight[None, :]
        p = batch.accumulate(weight, weight)[0][0]
        with np.errstate(over="ignore", invalid="ignore"):  # see fill
            self.sums[columns] = np.nan_to_num(self.sums[columns] + p)
        if batch.missing:
            if not len(self.absent):
                self.absent = np.zeros_like(self.sums)
            self.absent[columns] += batch.absent()
        self.low[columns] = np.minimum(self.low[columns], batch.extreme(np.minimum))
        self.high[columns] = np.maximum(self.high[columns], batch.extreme(np.maximum))
        self.refresh(columns)

    def fill(self, columns: Ints) -> Floats:
        """The mean of the column so far, on the new scale. See :class:`SparseStandard`."""
        rows = self.count[0] - (self.absent[columns] if len(self.absent) else 0.0)
        mean = self.sums[columns] / np.maximum(rows, np.finfo(float).tiny)
        # Sums of huge values overflow; the mean stays within the range all the same.
        mean = np.fmin(np.fmax(mean, self.low[columns]), self.high[columns])
        fill: Floats = mean * self.gain(columns)
        return fill

    def refresh(self, columns: RowIndex = slice(None)) -> None:
        """Compute the pull from the range. See :class:`SparseStandard`."""
        self.pulls[columns] = self.low[columns] * self.gain(columns)

    def restart(self, columns: Ints) -> None:
        """Forget some columns. See :class:`SparseStandard`."""
        restart(self, self.learnt, columns, len(self.low))
        if not len(self.absent):
            self.absent = np.zeros_like(self.sums)
        self.absent[columns] = self.count[0]
        self.refresh(columns)

    def rearranged(self, source: Places) -> SparseMinMax:
        """The scale of other columns. See :class:`SparseStandard`."""
        fresh = SparseMinMax(len(source))
        fresh.absent = np.zeros(len(source))
        return rearrange(self, self.learnt, source, fresh, "pulls")

    def take_over(self, dense: MinMax) -> None:
        """Go on from the range of a dense scaler. See :class:`SparseStandard`."""
        self.low, self.high = np.minimum(dense.low, 0.0), np.maximum(dense.high, 0.0)
        self.batches = np.ones(1)
        count = np.broadcast_to(dense.count, self.sums.shape)
        self.count, self.sums = np.full(1, count.max()), count * dense.mean
        if len(dense.count) > 1:
            self.absent = self.count - count
        self.refresh()


SparseScale: TypeAlias = SparseUnscaled | SparseStandard | SparseMinMax
SPARSE: dict[str | None, type[SparseScale]] = {
    scaler.kind: scaler for scaler in (SparseUnscaled, SparseStandard, SparseMinMax)
}
