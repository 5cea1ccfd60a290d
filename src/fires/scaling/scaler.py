"""The online scaler: columns are scaled by the batches before."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from fires.core.batch import nothing
from fires.core.declared import collect, restore
from fires.core.state import Arrays, part_of, under
from fires.core.types import CsrRows, Floats, Matrix, Places
from fires.kernels.running import CLIP
from fires.kernels.scaled import rescale
from fires.scaling.dense import DENSE, DenseScale, MinMax, Standard, Unscaled, declared_in
from fires.scaling.sparse import SPARSE, SparseScale, Touched

SCALES = tuple(DENSE)
"""What can be done to columns."""


class Scaler:
    """Standardises columns or brings them to [0, 1].

    A missing entry becomes the mean of its column so far, so that it says nothing. On standardised
    columns that is 0; without a scale it becomes 0 too.

    Sparse rows are divided by the root mean square or the range of their columns. They are not
    centred, since that would fill them. The first batch is scaled by its own values. If it is
    dense, later sparse rows are made dense, and the other way round. Linear models do not need
    scaled rows: they use the shift and gain in ``dense`` or ``sparse`` directly.

    Examples
    --------
    >>> scaler = Scaler("standard", 1)
    >>> scaled, learn = scaler.scaled(np.array([[1.0], [3.0]]), np.ones(2), missing=False)
    >>> scaled.ravel(), scaler.ready
    (array([-1.,  1.]), False)
    >>> learn()
    >>> scaler.scaled(np.array([[5.0], [np.nan]]), np.ones(2), missing=True)[0].ravel()
    array([3., 0.])
    """

    def __init__(self, scale: str | None, n_features: int) -> None:
        self.scale, self.n_features = scale, n_features
        self.dense: DenseScale = DENSE[scale](n_features)
        self.sparse: SparseScale = SPARSE[scale](n_features)
        self._slot = np.zeros(0, dtype=np.int32)

    @property
    def ready(self) -> bool:
        """Whether it has learnt from a batch."""
        return bool(self.dense.ready or self.sparse.ready)

    def scaled(self, X: Matrix, weight: Floats, missing: bool) -> tuple[Matrix, Callable[[], None]]:
        """Scale a batch by the batches before it."""
        X = self._alike(X)
        if isinstance(X, np.ndarray):
            return self._dense(X, weight, missing)
        return self._sparse(X, weight, missing)

    def _dense(self, X: Floats, w: Floats, missing: bool) -> tuple[Floats, Callable[[], None]]:
        half = self.dense
        if isinstance(half, Unscaled):
            return (np.nan_to_num(X) if missing else X), nothing
        if isinstance(half, Standard):
            return half.scaled(X, w)
        if half.ready:
            return _rescaled(X, half), lambda: half.absorb(X, w, w, w, missing)
        half = MinMax(self.n_features)
        half.begin(X, w, missing)
        refuse_overflow(half.shift)
        refuse_overflow(half.gain)
        return _rescaled(X, half), lambda: setattr(self, "dense", half)

    def _sparse(self, X: CsrRows, w: Floats, missing: bool) -> tuple[CsrRows, Callable[[], None]]:
        batch, half = self.touched(X, w, missing), self.sparse
        if half.ready:
            p, q = batch.accumulate(w[None, :], w[None, :])
            return _scaled(batch, half), lambda: half.absorb(batch, p[0], q[0])
        half = SPARSE[self.scale](self.n_features)
        half.begin(batch)
        return _scaled(batch, half), lambda: setattr(self, "sparse", half)

    def applied(self, X: Matrix) -> Matrix:
        """Scale rows without learning; a column not seen yet becomes 0."""
        X = self._alike(X)
        if isinstance(X, np.ndarray):
            return _rescaled(X, self.dense)
        return _scaled(self.touched(X, np.ones(X.shape[0]), True), self.sparse)

    def touched(self, X: CsrRows, weight: Floats, missing: bool) -> Touched:
        """A sparse batch reduced to the columns that have entries."""
        if len(self._slot) != self.n_features:
            self._slot = np.zeros(self.n_features, dtype=np.int32)
        return Touched(X, weight, missing, self._slot)

    def _alike(self, X: Matrix) -> Matrix:
        """X made dense or sparse, like the batches learnt from."""
        if self.dense.ready if isinstance(X, np.ndarray) else self.sparse.ready:
            return X
        if self.scale is None or not self.ready:
            return X
        if isinstance(X, np.ndarray):
            rows: CsrRows = sp.csr_array(X)
            return rows
        return X.toarray()

    def in_sparse_terms(self) -> Scaler:
        """A copy for sparse rows that goes on from what dense rows have taught."""
        other = Scaler(self.scale, self.n_features)
        if self.dense.ready and self.scale is not None:
            half: Any = other.sparse  # of the same kind as the dense one
            half.take_over(self.dense)
        return other

    def restart(self, columns: Places) -> None:
        """Forget the scale of some columns.

        The next dense batch is standardised by its own values there, as a first batch is. On other
        scales, and in sparse rows, a column never seen becomes 0 until the batch after.
        """
        for half in (self.dense, self.sparse):
            if half.ready:
                half.restart(columns)

    def rearranged(self, source: Places) -> Scaler:
        """A copy for other columns: see :func:`fires.core.declared.rearrange`."""
        other = copy.copy(self)
        other.n_features = len(source)
        other.dense, other.sparse = self.dense.rearranged(source), self.sparse.rearranged(source)
        return other

    def moments(self) -> tuple[Floats, Floats] | None:
        """Where each column has been lately, and how far it spreads."""
        half = self.dense
        if not isinstance(half, Standard) or not half.ready:
            return None
        varies = half.gain > 0.0
        return half.shift.copy(), np.divide(
            1.0, half.gain, out=np.zeros_like(half.gain), where=varies
        )

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays."""
        name = "sparse" if self.sparse.ready and self.scale is not None else "dense"
        half = getattr(self, name)
        return under(name, collect(half, half.learnt)[1])

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError if the arrays do not fit."""
        for name in [half for half in ("dense", "sparse") if part_of(half, arrays)] or ["dense"]:
            half, own = getattr(self, name), part_of(name, arrays)
            restore(half, declared_in(own, half), {}, own, {"J": self.n_features})
            half.refresh()

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_slot": np.zeros(0, dtype=np.int32)}


def _rescaled(X: Floats, half: DenseScale) -> Floats:
    """Dense rows on a scale, with no gaps."""
    if not isinstance(half, Standard):
        return rescale(half.filled(X) if isinstance(half, MinMax) else X, half.shift, half.gain)
    scaled = rescale(X, half.shift, half.gain, half.limit)
    return np.clip(scaled, -CLIP, CLIP, out=scaled)


def _scaled(batch: Touched, half: SparseScale) -> CsrRows:
    """Sparse rows on a scale, with no gaps."""
    return batch.scaled(half.gain(batch.columns), half.fill(batch.columns))


def refuse_overflow(sums: Floats) -> None:
    """Raise if a range is not finite."""
    if not math.isfinite(np.add.reduce(sums)):
        raise ValueError("X holds values so large that sums overflow; rescale them.")
