"""Choose entries and columns: those out of range, the k greatest, rows with the others zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.types import CsrRows, Floats, Matrix, Places
from fires.core.validation import LARGEST
from fires.kernels.compiling import compiled

Indices = npt.NDArray[np.int64]
_FEW = 2048  # entries up to which a partition of all of them is as fast


@compiled
def _total(values: npt.NDArray[np.floating]) -> float:
    """The sum of all sizes: beyond LARGEST, or NaN, if one value is."""
    total = 0.0
    for i in range(len(values)):
        total += abs(values[i])
    return total


def scan(values: npt.NDArray[np.floating]) -> tuple[int, int, int]:
    """How many entries are missing (NaN), how many infinite, how many huge.

    Examples
    --------
    >>> scan(np.array([[1.0, np.nan], [np.inf, 1e200], [0.0, np.nan]]))
    (2, 1, 1)
    """
    if values.flags.c_contiguous or values.flags.f_contiguous:
        flat = values.ravel(order="K").view()
        flat.setflags(write=False)
        if _total(flat) <= LARGEST:
            return 0, 0, 0
    n_infinite = int(np.isinf(values).sum())
    n_large = int((np.abs(values) > np.float64(LARGEST)).sum())
    return int(np.isnan(values).sum()), n_infinite, n_large - n_infinite


def top_k(weights: Floats, k: int) -> Indices:
    """Indices of the ``k`` greatest weights, ascending; ties go to the lower index.

    NaN never ranks before a number.

    Examples
    --------
    >>> top_k(np.array([0.5, 2.0, 0.5, 0.5]), 2)
    array([0, 1])
    >>> top_k(np.array([np.nan, -3.0]), 1)
    array([1])
    """
    n = len(weights)
    if not 0 < k < n:
        return np.arange(min(k, n))
    if n > _FEW and 32 * k < n:
        # Of the greatest in each of many parts, k are at least as great as the k-th of these.
        greatest = weights[: n - n % 16].reshape(16, -1).max(axis=0)
        near = np.flatnonzero(weights >= np.partition(greatest, -k)[-k])
        if k <= len(near) < n // 2:  # unless there are many ties, or NaN hides some
            return near[top_k(weights[near], k)]
    ordered = weights.copy()  # NumPy's functions would take longer than their methods
    ordered.partition(n - k)
    threshold = ordered[n - k]
    found: Indices = (weights >= threshold).nonzero()[0]
    if len(found) == k and threshold > -np.inf:  # NaN ties with it
        return found
    if np.isnan(weights.min()):
        weights = np.where(np.isnan(weights), -np.inf, weights)
        threshold = np.partition(weights, n - k)[n - k]
    above = np.flatnonzero(weights > threshold)
    tied = np.flatnonzero(weights == threshold)[: k - len(above)]
    return np.sort(np.concatenate([above, tied]))


def union(one: Places, other: Places) -> Places:
    """All places of two lists, sorted, each once: ``np.union1d`` hashes, which takes far longer.

    Examples
    --------
    >>> union(np.array([4, 1, 1]), np.array([2, 4]))
    array([1, 2, 4])
    """
    both = np.concatenate([one, other])
    both.sort()
    is_first = np.ones(len(both), dtype=np.bool_)
    np.not_equal(both[1:], both[:-1], out=is_first[1:])
    return both[is_first]


def placed(X: Matrix, places: Places, width: int, absent: float = 0.0) -> Matrix:
    """The columns of X in other places; those of place -1 are left out.

    Examples
    --------
    >>> placed(np.array([[1.0, 2.0, 3.0]]), np.array([3, -1, 0]), 4)
    array([[3., 0., 0., 1.]])
    """
    if isinstance(X, np.ndarray):
        out, known = np.full((len(X), width), absent), places >= 0
        out[:, places[known]] = X if known.all() else X[:, known]
        return out
    # Most estimators of scikit-learn refuse places of 64 bits.
    short: type[np.signedinteger] = np.int32 if max(width, X.nnz) < 2**31 else np.int64
    data, starts = X.data, X.indptr
    indices = places.astype(short)[X.indices]
    known = indices >= 0
    if not known.all():
        ends = np.concatenate([[0], np.cumsum(known)])
        data, indices, starts = data[known], indices[known], ends[starts]
    rows = sp.csr_array((data, indices, starts.astype(short)), shape=(X.shape[0], width))
    rows.sort_indices()
    found: CsrRows = rows
    return found


def filled(X: Matrix, value: float) -> Matrix:
    """Rows with a number in place of what is missing; the same rows if nothing is to change.

    Examples
    --------
    >>> filled(np.array([[1.0, np.nan]]), 0.0)
    array([[1., 0.]])
    """
    gaps = np.isnan(X if isinstance(X, np.ndarray) else X.data)
    if np.isnan(value) or not gaps.any():
        return X
    out = X.copy()
    (out if isinstance(out, np.ndarray) else out.data)[gaps] = value
    return out


def keep_columns(X: Any, selected: npt.NDArray[np.intp], absent: float = 0.0) -> Any:
    """Rows of full width, with zeros, or another number, in all but some columns.

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
    kept = np.full(X.shape, absent, dtype=X.dtype) if absent else np.zeros(X.shape, X.dtype)
    kept[:, selected] = X[:, selected]
    return kept
