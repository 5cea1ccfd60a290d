"""Scales of sparse rows, learnt while the stream flows, at the cost of the entries alone.

As :mod:`fires.models.scale`, for the columns that have entries in a batch, the *touched* columns.
x is never shifted, since that would fill it. The gradient update has a *pull* for each column
instead, with which it centres (:class:`SparseScale`). The Bayesian update takes full columns as
dense ones (:class:`Mixed`).
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from fires.core.declared import Array, Declared, collect, rearrange, restore
from fires.core.state import Arrays
from fires.core.types import CsrRows, Floats, Ints, Places, RowIndex
from fires.kernels.compiling import read_only
from fires.kernels.linear import accumulate_csr, project_csr, touched_columns

_NOWHERE = np.zeros(0, dtype=np.intp)
_NO_ENDS = np.empty((2, 0))
_NOTHING: Declared = {}
_LEAST = 1e-300  # sums of squares below this have lost their digits
_EPSILON = float(np.finfo(np.float64).eps)


class ColumnScale:
    """What has been learnt of columns, as declared in ``learnt``: the base class of all scales."""

    learnt: Declared = _NOTHING

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features

    def fresh(self, n_features: int) -> Self:
        """A scale of the same kind that knows nothing."""
        return type(self)(n_features)

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays."""
        return collect(self, self.learnt)[1]

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError if the arrays do not fit."""
        restore(self, self.learnt, {}, arrays, {"J": self.n_features})
        self.refresh()

    def rearranged(self, source: Places) -> Self:
        """The scale of other columns: see :func:`fires.core.declared.rearrange`."""
        other = rearrange(self, self.learnt, source, self.fresh(len(source)))
        other.n_features = len(source)
        other.refresh()
        return other

    def refresh(self) -> None:
        """Compute what follows from what was learnt."""


class ColumnSums(NamedTuple):
    """What sparse rows show of the columns that they touch, in one batch or in all its shards."""

    columns: Ints
    total: float  # the weight of all rows
    p: Floats  # weighted sums
    q: Floats  # of squares
    absent: Floats | None  # the weight of missing entries, if there are any
    ends: Floats  # the smallest and the greatest entry, or 0; only for ranges


class Touched:
    """A CSR batch reduced to the columns with entries, and more ones: cost does not grow with J."""

    def __init__(self, X: CsrRows, weight: Floats, missing: bool, more: Ints | None = None) -> None:
        self.local = np.empty(len(X.indices), dtype=X.indptr.dtype)
        self.columns = touched_columns(X.indices, self.local, X.shape[1], more)
        data, local, indptr = read_only(X.data, self.local, X.indptr)
        self.entries = data, local, indptr
        self._X, self.weight, self.missing = X, weight, missing
        self.total = float(weight.sum())

    def project(self, mu: Floats, var: Floats) -> tuple[Floats, Floats]:
        """As :func:`fires.kernels.project`, for these columns."""
        a, v = np.empty((len(mu), len(self.weight))), np.empty((len(mu), len(self.weight)))
        project_csr(*self.entries, mu, var, a, v)
        return a, v

    def accumulate(self, c: Floats, d: Floats) -> tuple[Floats, Floats]:
        """As :func:`fires.kernels.accumulate`, for these columns."""
        p, q = np.zeros((len(c), len(self.columns))), np.zeros((len(c), len(self.columns)))
        accumulate_csr(*self.entries, c, d, p, q)
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

    def sums(self, kind: str | None, p: Floats, q: Floats) -> ColumnSums:
        """What a scale learns from, with the weighted sums of the rows."""
        X, absent, ends = self._X, None, _NO_ENDS
        if not self.missing and kind != "minmax":
            return ColumnSums(self.columns, self.total, p, q, absent, ends)
        row_weight = np.repeat(self.weight, np.diff(X.indptr))
        if self.missing:
            lacking = row_weight * np.isnan(X.data)
            absent = np.bincount(self.local, lacking, len(self.columns)).astype(np.float64)
        if kind == "minmax":  # rows of weight 0 are left out
            ends = np.zeros((2, len(self.columns)))
            values = np.where((row_weight > 0) & ~np.isnan(X.data), X.data, 0.0)
            np.minimum.at(ends[0], self.local, values)
            np.maximum.at(ends[1], self.local, values)
        return ColumnSums(self.columns, self.total, p, q, absent, ends)

    def own_sums(self, kind: str | None) -> ColumnSums:
        """The same, where nobody has added up the rows."""
        p, q = self.accumulate(self.weight[None, :], self.weight[None, :])
        return self.sums(kind, p[0], q[0])


_LEARNT: dict[str | None, Declared] = {
    None: {},
    "standard": {
        "count": Array(1, low=0.0),
        "sums": Array("J"),
        "squares": Array("J", low=0.0),
        "absent": Array("0|J", low=0.0),
        "observed": Array("0|J", low=0.0, high=1.0),
    },
    "minmax": {
        "low": Array("J", high=0.0),
        "high": Array("J", low=0.0),
        "batches": Array(1, low=0.0),
        # Files of earlier versions have none of these: their means begin with the next batch.
        "count": Array(1, low=0.0, optional=True),
        "sums": Array("J", optional=True),
        "absent": Array("0|J", low=0.0, optional=True),
    },
}


class SparseScale(ColumnScale):
    r"""The gain of sparse columns, and a pull with which a linear model centres.

    **Standard.** Let :math:`S_j` and :math:`Q_j` be the sums of a column and of its squares over
    :math:`n` rows. x is divided by :math:`r_j = \sqrt{Q_j / n}`. The mean to be subtracted is then
    :math:`m_j / r_j = \frac{S_j}{\sqrt{Q_j}} \frac{1}{\sqrt n}`. Its first factor is the *pull*,
    which does not change while a column is not touched. The second is the *pace*, the same for all
    columns. So untouched columns can be centred later, and exactly. The standard deviation could
    not be split in this way. If entries are missing, n is multiplied by the share of rows in which
    the column had an entry when it was last touched.

    **Min-max.** A range of width 1 with 0 and every value seen; a linear model shifts its lower end
    to 0. A missing entry becomes the mean of its column over the rows in which it is not missing,
    those without an entry, which are zeros, included.

    **None.** X as it comes, and not centred.
    """

    def __init__(self, kind: str | None, n_features: int) -> None:
        super().__init__(n_features)
        self.kind, self.learnt = kind, _LEARNT[kind]
        n = n_features if kind is not None else 0
        self.count, self.batches = np.zeros(1), np.zeros(1)
        self.sums, self.pulls = np.zeros((2, n))
        self.squares = np.zeros(n if kind == "standard" else 0)
        self.low, self.high = np.zeros((2, n if kind == "minmax" else 0))
        self.absent: Floats = np.zeros(0)  # one entry per column once an entry was missing
        self.observed: Floats = np.ones(0)

    @classmethod
    def begun(cls, kind: str | None, n_features: int, sums: ColumnSums) -> SparseScale:
        """The scale of a first batch, from the batch itself."""
        scale = cls(kind, n_features)
        scale.absorb(sums)
        return scale

    def fresh(self, n_features: int) -> Self:
        """See :class:`ColumnScale`."""
        other = type(self)(self.kind, n_features)
        other.absent, other.observed = np.zeros(n_features), np.ones(n_features)
        return other

    @property
    def ready(self) -> bool:
        """Whether a batch was seen."""
        return self.kind is None or bool(self.count[0] > 0 or self.batches[0] > 0)

    @property
    def pace(self) -> float:
        """What the pull is multiplied by at this point of the stream."""
        if self.kind == "standard":
            return float(self.count[0] ** -0.5)
        return 0.0 if self.kind is None else 1.0

    def gain(self, columns: RowIndex | Ints) -> Floats:
        """One over the root mean square, or the width of the range; 0 for columns never seen."""
        if self.kind is None:
            assert not isinstance(columns, slice)
            return np.ones(len(columns))
        if self.kind == "minmax":
            width = self.high[columns] - self.low[columns]
            return 1.0 / np.where(width > 1e-150, width, np.inf)
        squares = self.squares[columns]
        gain: Floats = np.sqrt(self.count[0] / np.where(squares > _LEAST, squares, np.inf))
        if len(self.observed):
            gain *= np.sqrt(self.observed[columns])
        return gain

    def pull(self, columns: Ints) -> Floats:
        """The scaled mean of a column, or the lower end of its range, divided by the pace."""
        return np.zeros(len(columns)) if self.kind is None else self.pulls[columns]

    def fill(self, columns: Ints) -> Floats:
        """What missing entries become: the mean of the column so far, on the new scale."""
        if self.kind != "minmax":
            return self.pace * self.pull(columns)
        rows = self.count[0] - (self.absent[columns] if len(self.absent) else 0.0)
        mean = self.sums[columns] / np.maximum(rows, np.finfo(float).tiny)
        # Sums of huge values overflow; the mean stays within the range all the same.
        mean = np.fmin(np.fmax(mean, self.low[columns]), self.high[columns])
        fill: Floats = mean * self.gain(columns)
        return fill

    def applied(self, batch: Touched) -> CsrRows:
        """Rows on the scale, with no gaps."""
        return batch.scaled(self.gain(batch.columns), self.fill(batch.columns))

    def absorb(self, sums: ColumnSums) -> None:
        """Add the sums of a batch, and of its squares; widen the range."""
        if self.kind is None:
            return
        columns = sums.columns
        self.count, self.batches = self.count + sums.total, self.batches + 1.0
        if sums.absent is not None:
            self._expect_gaps()
            self.absent[columns] += sums.absent
        if self.kind == "minmax":
            with np.errstate(over="ignore", invalid="ignore"):  # see fill
                self.sums[columns] = np.nan_to_num(self.sums[columns] + sums.p)
            self.low[columns] = np.minimum(self.low[columns], sums.ends[0])
            self.high[columns] = np.maximum(self.high[columns], sums.ends[1])
        else:
            self.sums[columns] += sums.p
            self.squares[columns] += sums.q
            if len(self.absent):
                share = 1.0 - self.absent[columns] / self.count[0]
                self.observed[columns] = np.maximum(share, _EPSILON)
        self.refresh(columns)

    def _expect_gaps(self) -> None:
        if not len(self.absent):
            self.absent, self.observed = np.zeros_like(self.sums), np.ones_like(self.sums)

    def refresh(self, columns: RowIndex = slice(None)) -> None:
        """Compute the pull from the sums, or from the range."""
        if isinstance(columns, slice):
            self.pulls = np.empty_like(self.sums)  # there may be other columns than before
        if self.kind == "minmax":
            self.pulls[columns] = self.low[columns] * self.gain(columns)
            return
        squares = self.squares[columns]
        squares = np.where(squares > _LEAST, squares, np.inf)
        if len(self.observed):
            squares *= self.observed[columns]
        self.pulls[columns] = self.sums[columns] / np.sqrt(squares)

    def undo(self, gain: Floats) -> None:
        """Go on with rows that are not multiplied by a gain any more before they come here."""
        if self.kind is None:
            return
        self.sums = self.sums / gain
        if self.kind == "standard":
            self.squares = self.squares / gain**2
        else:
            self.low, self.high = self.low / gain, self.high / gain
        self.refresh()
