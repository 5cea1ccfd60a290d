"""Whole batches put to scale, dense or sparse, by what the batches before have shown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from fires.core.belief import Floats
from fires.kernels import accumulate
from fires.kernels.scaled import rescale
from fires.scaling.dense import DENSE, State, restore_scaler
from fires.scaling.sparse import SPARSE, Touched

_NO_SUMS = np.empty(0), np.empty(0)


class BatchScaler:
    """Scales batches for a model that is shown them; missing entries become zeros.

    Dense batches are standardised or brought to [0, 1]; sparse ones are divided by the root mean
    square or the range of their columns and not centred, since that would fill them. The first
    batch is scaled by its own values. What was learnt from dense batches does not fit sparse ones:
    those of the other kind than the first batch are brought to its kind.

    Parameters
    ----------
    scale : {"standard", "minmax", None}
        What is done.
    n_features : int
        Columns of a batch.

    Examples
    --------
    >>> scaler = BatchScaler("standard", 1)
    >>> scaled, learn = scaler.scaled(np.array([[1.0], [3.0]]), np.ones(2), missing=False)
    >>> scaled.ravel(), scaler.ready
    (array([-1.,  1.]), False)
    >>> learn()
    >>> scaler.scaled(np.array([[5.0], [np.nan]]), np.ones(2), missing=True)[0].ravel()
    array([3., 0.])
    """

    def __init__(self, scale: str | None, n_features: int) -> None:
        self.scale, self.n_features = scale, n_features
        self.dense: Any = DENSE[scale](n_features)
        self.sparse: Any = SPARSE[scale](n_features)

    @property
    def ready(self) -> bool:
        """Whether it has learnt from a batch."""
        return bool(self.dense.ready or self.sparse.ready)

    def scaled(self, X: Any, weight: Floats, missing: bool) -> tuple[Any, Callable[[], None]]:
        """The batch by the scale before it, and how to learn from it: nothing is learnt yet."""
        X = self._alike(X)
        return (self._sparse if sp.issparse(X) else self._dense)(X, weight, missing)

    def _dense(self, X: Any, w: Floats, missing: bool) -> tuple[Any, Callable[[], None]]:
        scaler = self.dense
        if scaler.kind is None:
            return (np.nan_to_num(X) if missing else X), lambda: None
        if scaler.ready:
            # The range needs no sums.
            sums = accumulate(X, w, w, scaler.shift) if scaler.kind == "standard" else _NO_SUMS
            return _applied(scaler, X), lambda: scaler.absorb(X, *sums, w, missing)
        scaler = DENSE[self.scale](self.n_features)
        scaler.begin(X, w, missing)
        return _applied(scaler, X), lambda: setattr(self, "dense", scaler)

    def _sparse(self, X: Any, w: Floats, missing: bool) -> tuple[Any, Callable[[], None]]:
        batch, scaler = self._touched(X, w, missing), self.sparse
        if scaler.ready:
            p, q = batch.accumulate(w[None, :], w[None, :])
            scaled = batch.scaled(scaler.gain(batch.columns))
            return scaled, lambda: scaler.absorb(batch, p[0], q[0])
        scaler = SPARSE[self.scale](self.n_features)
        scaler.begin(batch)
        return batch.scaled(scaler.gain(batch.columns)), lambda: setattr(self, "sparse", scaler)

    def applied(self, X: Any) -> Any:
        """X by the scale as it is; what has not been seen yet is 0."""
        X = self._alike(X)
        if not sp.issparse(X):
            return _applied(self.dense, X)
        batch = self._touched(X, np.ones(X.shape[0]), True)
        return batch.scaled(self.sparse.gain(batch.columns))

    def _alike(self, X: Any) -> Any:
        """X dense or sparse, as the batches learnt from."""
        if self.scale is None or self.dense.ready == self.sparse.ready:
            return X
        if self.dense.ready:
            return X.toarray() if sp.issparse(X) else X
        return X if sp.issparse(X) else sp.csr_array(X)

    def _touched(self, X: Any, w: Floats, missing: bool) -> Touched:
        slot = np.zeros(self.n_features, dtype=np.int32)
        return Touched(X, w, float(w.sum()), missing, slot)

    def state(self) -> State:
        """Everything needed to go on, as arrays."""
        parts = (("dense", self.dense), ("sparse", self.sparse))
        return {f"{name}.{key}": v for name, part in parts for key, v in part.state().items()}

    def restore(self, arrays: State) -> None:
        """Go on from :meth:`state`."""
        restore_scaler(self.dense, "dense", arrays)
        restore_scaler(self.sparse, "sparse", arrays)


def _applied(scaler: Any, X: Any) -> Any:
    return rescale(X, scaler.shift, scaler.gain)
