"""Scales learnt while the stream flows, dense and sparse.

A scaler turns x into ``(x - shift) * gain``. What it knows comes from the batches before; only the
first batch is scaled by its own values. A column that has shown no spread so far has gain 0: it
sits out until it varies.

The dense scalers work on whole columns. The sparse ones work on the columns a batch touches and
never shift x, which would fill it; they give the *pull* with which an untouched column's mean is
to be centred (see :mod:`fires.models.online_linear`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.belief import Floats
from fires.kernels import accumulate, read_only, sparse, touched_columns
from fires.kernels.features import merge

State = dict[str, npt.NDArray[Any]]
Columns = npt.NDArray[np.int64]

# A variance this far below the mean's own rounding error is rounding, not spread.
_ROUNDING = (10.0 * np.finfo(np.float64).eps) ** 2
_TINY = np.finfo(np.float64).tiny


class Unscaled:
    """X as it comes."""

    kind: ClassVar[str | None] = None
    ready = True

    def __init__(self, n_features: int) -> None:
        self.shift = np.zeros(n_features)
        self.gain = np.ones(n_features)

    def begin(self, X: Any, weight: Floats, missing: bool) -> None:
        """Nothing to learn."""

    def absorb(self, X: Any, p: Floats, q: Floats, weight: Floats, missing: bool) -> None:
        """Nothing to learn."""

    def state(self) -> State:
        """Nothing to keep."""
        return {}


class Standard:
    r"""Mean 0 and standard deviation 1.

    With :math:`p = \sum_b w_b t_b` and :math:`q = \sum_b w_b t_b^2`, :math:`t = x - \bar x`, a
    batch of weight :math:`w` is merged into :math:`n` rows by

    .. math::
        \bar x' = \bar x + \frac{p}{n + w}, \qquad M_2' = M_2 + q - \frac{p^2}{n + w}

    which does not cancel, whatever the offset of the column. Missing entries do not count.

    Examples
    --------
    >>> scaler = Standard(1)
    >>> X = np.array([[1.0], [3.0], [np.nan]])
    >>> scaler.begin(X, np.ones(3), missing=True)
    >>> (X - scaler.shift) * scaler.gain
    array([[-1.], [ 1.], [nan]])
    """

    kind: ClassVar[str | None] = "standard"

    def __init__(self, n_features: int) -> None:
        self.count: Floats = np.zeros(1)  # one number while nothing is missing, then one a column
        self.shift = np.zeros(n_features)
        self.spread = np.zeros(n_features)
        self.gain = np.zeros(n_features)

    @property
    def ready(self) -> bool:
        """Whether a batch was seen."""
        return bool(self.count.any())

    def begin(self, X: Any, weight: Floats, missing: bool) -> None:
        """Take the scale of the first batch from the batch itself."""
        total, _ = accumulate(X, weight, weight)
        self.shift = total / np.maximum(_count(X, weight, missing), _TINY)
        # A second look, at the distances from that mean, also puts its own rounding right.
        p, q = accumulate(X, weight, weight, self.shift)
        self.absorb(X, p, q, weight, missing)

    def absorb(self, X: Any, p: Floats, q: Floats, weight: Floats, missing: bool) -> None:
        """Merge a batch whose sums about the present shift are ``p`` and ``q``."""
        self.count = self.count + _count(X, weight, missing)
        merge(self.count, self.shift, self.spread, self.gain, p, q, _ROUNDING)

    def refresh(self) -> None:
        """The gain that belongs to the sums."""
        nothing = np.zeros_like(self.shift)
        merge(self.count, self.shift, self.spread, self.gain, nothing, nothing, _ROUNDING)

    def state(self) -> State:
        """The sums."""
        return {"count": self.count, "shift": self.shift, "spread": self.spread}


class MinMax:
    """From 0 for the smallest to 1 for the greatest value seen.

    Examples
    --------
    >>> scaler = MinMax(1)
    >>> X = np.array([[2.0], [4.0], [6.0]])
    >>> scaler.begin(X, np.ones(3), missing=False)
    >>> (X - scaler.shift) * scaler.gain
    array([[0. ], [0.5], [1. ]])
    """

    kind: ClassVar[str | None] = "minmax"

    def __init__(self, n_features: int) -> None:
        self.low = np.full(n_features, np.inf)
        self.high = np.full(n_features, -np.inf)
        self.refresh()

    @property
    def ready(self) -> bool:
        """Whether a batch was seen."""
        return bool(np.isfinite(self.low).any())

    def begin(self, X: Any, weight: Floats, missing: bool) -> None:
        """Take the scale of the first batch from the batch itself."""
        self.absorb(X, self.low, self.high, weight, missing)

    def absorb(self, X: Any, p: Floats, q: Floats, weight: Floats, missing: bool) -> None:
        """Widen the range by a batch; a row of weight 0 was not there."""
        X = X[weight > 0]
        self.low = np.fmin(self.low, np.fmin.reduce(X, axis=0))
        self.high = np.fmax(self.high, np.fmax.reduce(X, axis=0))
        self.refresh()

    def refresh(self) -> None:
        """Shift and gain that belong to the range."""
        seen = self.low < self.high
        self.shift = np.where(np.isfinite(self.low), self.low, 0.0)
        width = np.subtract(self.high, self.low, out=np.full(len(seen), np.inf), where=seen)
        self.gain = 1.0 / width

    def state(self) -> State:
        """The range."""
        return {"low": self.low, "high": self.high}


class Touched:
    """A CSR batch seen through the columns it touches, so that nothing costs more than its entries.

    ``slot`` is scratch space of one zero per feature, left as it was found.
    """

    def __init__(
        self, X: Any, weight: Floats, total: float, missing: bool, slot: npt.NDArray[np.int32]
    ) -> None:
        self._local = np.empty(len(X.indices), dtype=X.indptr.dtype)
        self.columns = touched_columns(*read_only(X.indices), slot, self._local)
        self._entries = read_only(X.data, self._local, X.indptr)
        self._X, self.weight, self.total, self.missing = X, weight, total, missing

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

    def state(self) -> State:
        """Nothing to keep."""
        return {}


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
        gain: Floats = np.sqrt(self.count[0] / np.where(squares > 0.0, squares, np.inf))
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
        squares = np.where(squares > 0.0, squares, np.inf)
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

    def state(self) -> State:
        """The sums."""
        names = ("count", "sums", "squares", "absent", "observed")
        return {name: getattr(self, name) for name in names}


class SparseMinMax:
    """Width 1 of the range that holds 0 and every value seen, its lower end centred in effect."""

    kind: ClassVar[str | None] = "minmax"
    pace = 1.0

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
        return 1.0 / np.where(width > 0.0, width, np.inf)

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

    def state(self) -> State:
        """The range."""
        return {"low": self.low, "high": self.high, "batches": self.batches}


def _count(X: Any, weight: Floats, missing: bool) -> Floats:
    """The weight of the rows in which a column is there: one number if it always is."""
    return weight @ ~np.isnan(X) if missing else np.full(1, weight.sum())


def restore_scaler(scaler: Any, prefix: str, arrays: State) -> None:
    """Put back what ``state`` gave, found under ``prefix.`` among other arrays."""
    for name, value in arrays.items():
        if name.startswith(prefix + "."):
            setattr(scaler, name.removeprefix(prefix + "."), value)
    if scaler.kind is not None:
        scaler.refresh()


DENSE = {scaler.kind: scaler for scaler in (Unscaled, Standard, MinMax)}
SPARSE = {scaler.kind: scaler for scaler in (SparseUnscaled, SparseStandard, SparseMinMax)}
