"""Scales of dense rows, learnt while the stream flows.

A scale turns x into ``(x - shift) * gain``. It comes from the batches before; only the first batch
is scaled by its own values. A column that has not varied yet has gain 0: it becomes 0 until it
varies.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fires.core.belief import Floats
from fires.core.declared import Array, Declared
from fires.kernels import accumulate
from fires.kernels.features import merge
from fires.kernels.scaled import widen

# A variance this far below the mean's own rounding error is rounding, not spread.
ROUNDING = (10.0 * np.finfo(np.float64).eps) ** 2
_TINY = np.finfo(np.float64).tiny


class Unscaled:
    """X as it comes."""

    kind: ClassVar[str | None] = None
    ready = True

    def __init__(self, n_features: int) -> None:
        self.shift = np.zeros(n_features)
        self.gain = np.ones(n_features)

    def begin(self, X: Any, weight: Floats, missing: bool) -> None:
        """Nothing to learn. See :class:`Standard`."""

    def absorb(self, X: Any, p: Floats, q: Floats, weight: Floats, missing: bool) -> None:
        """Nothing to learn. See :class:`Standard`."""

    learnt: ClassVar[Declared] = {}

    def refresh(self) -> None:
        """Nothing to compute."""


class Standard:
    r"""Mean 0 and standard deviation 1.

    With :math:`p = \sum_b w_b t_b` and :math:`q = \sum_b w_b t_b^2`, :math:`t = x - \bar x`, a
    batch of weight :math:`w` is merged into :math:`n` rows by

    .. math::
        \bar x' = \bar x + \frac{p}{n + w}, \qquad M_2' = M_2 + q - \frac{p^2}{n + w}

    which loses no digits, whatever the offset of the column. Missing entries do not count.

    Examples
    --------
    >>> scaler = Standard(1)
    >>> X = np.array([[1.0], [3.0], [np.nan]])
    >>> scaler.begin(X, np.ones(3), missing=True)
    >>> (X - scaler.shift) * scaler.gain
    array([[-1.], [ 1.], [nan]])
    """

    kind: ClassVar[str | None] = "standard"
    learnt: ClassVar[Declared] = {
        "count": Array("1|J", low=0.0),
        "shift": Array("J"),
        "spread": Array("J", low=0.0),
    }

    def __init__(self, n_features: int) -> None:
        self.count: Floats = np.zeros(1)  # one number; one per column once entries are missing
        self.shift = np.zeros(n_features)
        self.spread = np.zeros(n_features)
        self.gain = np.zeros(n_features)
        self.ready = False

    def begin(self, X: Any, weight: Floats, missing: bool) -> None:
        """Learn the scale of the first batch from the batch itself.

        Parameters
        ----------
        X : ndarray (n_rows, n_features)
            The rows.
        weight : ndarray (n_rows,)
            How often each row counts.
        missing : bool
            Whether entries are missing.
        """
        total, _ = accumulate(X, weight, weight)
        self.shift = total / np.maximum(_count(X, weight, missing), _TINY)
        # A second pass, about that mean, also corrects its rounding error.
        p, q = accumulate(X, weight, weight, self.shift)
        self.absorb(X, p, q, weight, missing)

    def absorb(self, X: Any, p: Floats, q: Floats, weight: Floats, missing: bool) -> None:
        """Merge a batch into the running mean and spread.

        Parameters
        ----------
        X : ndarray (n_rows, n_features)
            The rows.
        p, q : ndarray (n_features,)
            Their sums, and sums of squares, about the present shift.
        weight : ndarray (n_rows,)
            How often each row counts.
        missing : bool
            Whether entries are missing.
        """
        self.count = self.count + _count(X, weight, missing)
        self.ready = self.ready or bool(self.count.any())
        merge(self.count, self.shift, self.spread, self.gain, p, q, ROUNDING)

    def refresh(self) -> None:
        """Compute the gain from the sums."""
        self.ready = bool(self.count.any())
        nothing = np.zeros_like(self.shift)
        merge(self.count, self.shift, self.spread, self.gain, nothing, nothing, ROUNDING)


class MinMax:
    """0 for the smallest and 1 for the greatest value seen.

    A missing entry must say nothing, and 0 would say that it is the smallest. So :meth:`filled`
    puts the mean of its column in its place.

    Examples
    --------
    >>> scaler = MinMax(1)
    >>> X = np.array([[2.0], [3.0], [7.0], [np.nan]])
    >>> scaler.begin(X, np.ones(4), missing=True)
    >>> (scaler.filled(X) - scaler.shift) * scaler.gain
    array([[0. ], [0.2], [1. ], [0.4]])
    """

    kind: ClassVar[str | None] = "minmax"
    learnt: ClassVar[Declared] = {
        "low": Array("J", finite=False),
        "high": Array("J", finite=False),
        # Files of earlier versions have neither: their means begin with the next batch.
        "count": Array("1|J", low=0.0, optional=True),
        "mean": Array("J", optional=True),
    }

    def __init__(self, n_features: int) -> None:
        self.low = np.full(n_features, np.inf)
        self.high = np.full(n_features, -np.inf)
        self.count: Floats = np.zeros(1)  # one number; one per column once entries are missing
        self.mean = np.zeros(n_features)
        self.refresh()

    @property
    def ready(self) -> bool:
        """Whether a batch was seen."""
        return bool(np.isfinite(self.low).any())

    def begin(self, X: Any, weight: Floats, missing: bool) -> None:
        """Learn the scale of the first batch from the batch itself. See :class:`Standard`."""
        self.absorb(X, self.low, self.high, weight, missing)

    def absorb(self, X: Any, p: Floats, q: Floats, weight: Floats, missing: bool) -> None:
        """Widen the range by a batch; rows of weight 0 are left out. See :class:`Standard`."""
        self.low, self.high = widen(X, weight, self.low, self.high)
        self.count = self.count + _count(X, weight, missing)
        with np.errstate(over="ignore", invalid="ignore"):
            total, _ = accumulate(X, weight, weight, self.mean)
            mean = self.mean + total / np.maximum(self.count, _TINY)
        # Sums of huge values overflow; the mean stays within the range all the same.
        seen = np.isfinite(self.low)
        self.mean = np.where(seen, np.fmin(np.fmax(mean, self.low), self.high), 0.0)
        self.refresh()

    def filled(self, X: Any) -> Any:
        """Rows without gaps, for :func:`fires.kernels.scaled.rescale`.

        Parameters
        ----------
        X : ndarray (n_rows, n_features)
            The rows.

        Returns
        -------
        ndarray (n_rows, n_features)
            With the mean of the column so far for each missing entry; X itself if there is none.
        """
        gaps = np.isnan(X)
        return np.where(gaps, self.mean, X) if gaps.any() else X

    def refresh(self) -> None:
        """Compute shift and gain from the range."""
        seen = self.high - self.low > 1e-150
        self.shift = np.where(np.isfinite(self.low), self.low, 0.0)
        width = np.subtract(self.high, self.low, out=np.full(len(seen), np.inf), where=seen)
        self.gain = 1.0 / width


def _count(X: Any, weight: Floats, missing: bool) -> Any:
    """The weight of the rows in which a column has entries; one number if nothing is missing."""
    return weight @ ~np.isnan(X) if missing else np.add.reduce(weight)


DENSE = {scaler.kind: scaler for scaler in (Unscaled, Standard, MinMax)}
