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

from fires.core.belief import Floats
from fires.kernels import accumulate
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


class SparseUnscaled:
    """X as it comes, not centred either."""

    kind: ClassVar[str | None] = None
    ready = True
    pace = 0.0

    def __init__(self, n_features: int) -> None:
        pass

    def begin(self, columns: Columns, sums: SparseSums) -> None:
        """Nothing to learn."""

    def gain(self, columns: Any) -> Floats:
        """One."""
        return np.ones(1)

    def pull(self, columns: Any) -> Floats:
        """Nothing pulls."""
        return np.zeros(1)

    def absorb(self, columns: Columns, sums: SparseSums) -> None:
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
    separate so. ``observed`` is the share of a column's entries that are not missing.
    """

    kind: ClassVar[str | None] = "standard"

    def __init__(self, n_features: int) -> None:
        self.count = np.zeros(1)
        self.total = np.zeros(n_features)
        self.squares = np.zeros(n_features)
        self.absent: Floats = np.zeros(0)  # grows to one entry a column with the first missing one
        self.observed: Floats = np.ones(0)

    @property
    def ready(self) -> bool:
        """Whether a batch was seen."""
        return bool(self.count[0] > 0)

    @property
    def pace(self) -> float:
        """What the pull is multiplied by at this point of the stream."""
        return float(self.count[0] ** -0.5)

    def begin(self, columns: Columns, sums: SparseSums) -> None:
        """Take the scale of the first batch from the batch itself."""
        self.absorb(columns, sums)

    def gain(self, columns: Any) -> Floats:
        """One over the root mean square; 0 for columns never seen."""
        squares = self.squares[columns]
        safe = np.where(squares > 0.0, squares, np.inf)
        gain: Floats = np.sqrt(self.count[0] * self._observed(columns) / safe)
        return gain

    def pull(self, columns: Any) -> Floats:
        """What centring takes off the mean of a column, per pace."""
        squares = self.squares[columns]
        safe = np.where(squares > 0.0, squares, np.inf)
        pull: Floats = self.total[columns] / np.sqrt(safe * self._observed(columns))
        return pull

    def absorb(self, columns: Columns, sums: SparseSums) -> None:
        """Add a batch."""
        self.count = self.count + sums.weight
        self.total[columns] += sums.total
        self.squares[columns] += sums.squares
        if sums.absent is not None and not len(self.absent):
            self.absent, self.observed = np.zeros_like(self.total), np.ones_like(self.total)
        if len(self.absent):
            self.absent[columns] += 0.0 if sums.absent is None else sums.absent
            # A column of missing entries only has no scale: its squares are 0 and so is its gain.
            share = 1.0 - self.absent[columns] / self.count[0]
            self.observed[columns] = np.maximum(share, np.finfo(float).eps)

    def take_over(self, dense: Standard) -> None:
        """Go on from the sums of a dense scaler."""
        count = np.broadcast_to(dense.count, self.total.shape)
        self.count = np.full(1, count.max())
        self.total = count * dense.shift
        self.squares = dense.spread + count * dense.shift**2
        if len(dense.count) > 1:
            self.absent = self.count - count
            self.observed = np.maximum(count / self.count, np.finfo(float).eps)

    def state(self) -> State:
        """The sums."""
        return {
            "count": self.count,
            "total": self.total,
            "squares": self.squares,
            "absent": self.absent,
            "observed": self.observed,
        }

    def _observed(self, columns: Any) -> Floats:
        return self.observed[columns] if len(self.observed) else np.ones(1)


class SparseMinMax:
    """Width 1 of the range that holds 0 and every value seen, its lower end centred in effect."""

    kind: ClassVar[str | None] = "minmax"
    pace = 1.0

    def __init__(self, n_features: int) -> None:
        self.low = np.zeros(n_features)
        self.high = np.zeros(n_features)
        self.batches = np.zeros(1)

    @property
    def ready(self) -> bool:
        """Whether a batch was seen."""
        return bool(self.batches[0] > 0)

    def begin(self, columns: Columns, sums: SparseSums) -> None:
        """Take the scale of the first batch from the batch itself."""
        self.absorb(columns, sums)

    def gain(self, columns: Any) -> Floats:
        """One over the width of the range; 0 for columns never seen."""
        width = self.high[columns] - self.low[columns]
        return 1.0 / np.where(width > 0.0, width, np.inf)

    def pull(self, columns: Any) -> Floats:
        """The lower end of the range, scaled."""
        pull: Floats = self.low[columns] * self.gain(columns)
        return pull

    def absorb(self, columns: Columns, sums: SparseSums) -> None:
        """Widen the range by a batch."""
        self.batches = self.batches + 1.0
        self.low[columns] = np.minimum(self.low[columns], sums.low)
        self.high[columns] = np.maximum(self.high[columns], sums.high)

    def take_over(self, dense: MinMax) -> None:
        """Go on from the range of a dense scaler."""
        self.low, self.high = np.minimum(dense.low, 0.0), np.maximum(dense.high, 0.0)
        self.batches = np.ones(1)

    def state(self) -> State:
        """The range."""
        return {"low": self.low, "high": self.high, "batches": self.batches}


class SparseSums:
    """What a batch holds of each touched column."""

    def __init__(
        self, data: Floats, local: Columns, row_weight: Floats, n_touched: int, total: float
    ) -> None:
        self._data, self._local, self._row_weight, self._n = data, local, row_weight, n_touched
        self.weight = total
        missing = np.isnan(data)
        self._values = np.where(missing, 0.0, data)
        self.total = np.bincount(local, row_weight * self._values, n_touched)
        self.squares = np.bincount(local, row_weight * self._values**2, n_touched)
        self.absent = np.bincount(local, row_weight * missing, n_touched) if missing.any() else None

    @property
    def low(self) -> Floats:
        """The smallest value, or 0."""
        return self._extreme(np.minimum)

    @property
    def high(self) -> Floats:
        """The greatest value, or 0."""
        return self._extreme(np.maximum)

    def _extreme(self, pick: np.ufunc) -> Floats:
        extreme = np.zeros(self._n)
        pick.at(extreme, self._local, np.where(self._row_weight > 0, self._values, 0.0))
        return extreme


def _count(X: Any, weight: Floats, missing: bool) -> Floats:
    """The weight of the rows in which a column is there: one number if it always is."""
    return weight @ ~np.isnan(X) if missing else np.full(1, weight.sum())


DENSE = {scaler.kind: scaler for scaler in (Unscaled, Standard, MinMax)}
SPARSE = {scaler.kind: scaler for scaler in (SparseUnscaled, SparseStandard, SparseMinMax)}
