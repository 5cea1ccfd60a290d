"""Scale a dense batch, or find the range of its columns, in one pass over the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled

Dense = npt.NDArray[np.floating]

_GREATEST = np.finfo(np.float64).max


def rescale(X: Dense, shift: Floats, gain: Floats, limit: Floats | None = None) -> Floats:
    r""":math:`(x_{bj} - \text{shift}_j) \, \text{gain}_j`, and 0 where :math:`x_{bj}` is missing.

    A result that would overflow becomes the greatest float.

    Examples
    --------
    >>> rescale(np.array([[1.0, 5.0], [np.nan, 1e308]]), np.array([0.0, 5.0]), np.array([2.0, 3.0]))
    array([[2.00000000e+000, 0.00000000e+000],
           [0.00000000e+000, 1.79769313e+308]])
    """
    if not X.flags.c_contiguous:
        return rescale_plain(X, shift, gain, limit)
    rows, out = X.view(), np.empty(X.shape)
    rows.flags.writeable = False  # one compiled form serves writable and read-only callers
    _rescale(rows, shift, gain, np.full(len(shift), np.inf) if limit is None else limit, out)
    return out


def rescale_plain(X: Dense, shift: Floats, gain: Floats, limit: Floats | None = None) -> Floats:
    """The definition of :func:`rescale`."""
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.abs(X - shift) > (np.inf if limit is None else limit)
        scaled: Floats = (X - shift) * gain
    scaled[far] = 0.0
    return np.nan_to_num(scaled, copy=False)


def keep_columns(X: Any, selected: npt.NDArray[np.intp]) -> Any:
    """Rows of full width, with zeros in all but some columns.

    Examples
    --------
    >>> keep_columns(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1]))
    array([[0., 2.],
           [0., 4.]])
    """
    if len(selected) == X.shape[1]:
        return X
    if not isinstance(X, np.ndarray):
        support = np.zeros(X.shape[1], dtype=bool)
        support[selected] = True
        keep = support[X.indices]
        ends = np.concatenate([[0], np.cumsum(keep)])[X.indptr].astype(X.indptr.dtype)
        return type(X)((X.data[keep], X.indices[keep], ends), shape=X.shape)
    kept = np.zeros(X.shape, dtype=X.dtype)
    if X.flags.c_contiguous:
        rows = X.view()
        rows.flags.writeable = False
        _keep_columns(rows, selected, kept)
    else:
        kept[:, selected] = X[:, selected]
    return kept


def widen(X: Dense, weight: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The least and the greatest value of every column, in this batch or before.

    Missing entries and rows of weight 0 are left out.

    Examples
    --------
    >>> X = np.array([[1.0, np.nan], [3.0, 2.0], [9.0, 9.0]])
    >>> widen(X, np.array([1.0, 1.0, 0.0]), np.array([2.0, 2.5]), np.array([2.0, 2.5]))
    (array([1., 2.]), array([3. , 2.5]))
    """
    if not X.flags.c_contiguous:
        return widen_plain(X, weight, low, high)
    rows = X.view()
    rows.flags.writeable = False
    low, high = low.copy(), high.copy()
    _widen(rows, weight, low, high)
    return low, high


def widen_plain(X: Dense, weight: Floats, low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """The definition of :func:`widen`."""
    weighted = X[weight > 0]
    return (
        np.fmin(low, np.fmin.reduce(weighted, axis=0, initial=np.inf)),
        np.fmax(high, np.fmax.reduce(weighted, axis=0, initial=-np.inf)),
    )


@compiled
def _rescale(X: Dense, shift: Floats, gain: Floats, limit: Floats, out: Floats) -> None:
    for b in range(X.shape[0]):
        x, t = X[b], out[b]
        for j in range(len(shift)):
            value = x[j] - shift[j]
            value = value * gain[j] if abs(value) <= limit[j] else 0.0  # 0 for NaN too
            value = value if value == value else 0.0  # infinity times a gain of 0
            t[j] = min(max(value, -_GREATEST), _GREATEST)


@compiled
def _keep_columns(X: Dense, selected: npt.NDArray[np.intp], kept: Dense) -> None:
    for b in range(X.shape[0]):
        x, t = X[b], kept[b]
        for i in range(len(selected)):
            t[selected[i]] = x[selected[i]]


@compiled
def _widen(X: Dense, weight: Floats, low: Floats, high: Floats) -> None:
    for b in range(X.shape[0]):
        if weight[b] > 0.0:
            x = X[b]
            for j in range(len(low)):
                low[j] = x[j] if x[j] < low[j] else low[j]  # skips NaN
                high[j] = x[j] if x[j] > high[j] else high[j]
