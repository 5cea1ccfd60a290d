"""Choose columns: the k greatest weights, without sorting all; rows with the others zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled, row_major

Indices = npt.NDArray[np.int64]


@compiled
def _heap_top(weights: Floats, heap: Floats, place: Indices) -> None:
    """Indices of the greatest, unsorted; a heap holds the best so far, the worst of them on top."""
    k = len(heap)
    size = 0
    for j in range(len(weights)):
        w = weights[j]
        w = w if w == w else -np.inf
        if size < k:
            # Sift up. Of equal weights, the one with the greater index is worse: nearer the top.
            i = size
            size += 1
            while i > 0 and heap[(i - 1) // 2] >= w:
                heap[i], place[i] = heap[(i - 1) // 2], place[(i - 1) // 2]
                i = (i - 1) // 2
        elif w > heap[0]:  # not >=: of equal weights the lower index stays
            i = 0
            while True:
                child = 2 * i + 1
                if child >= k:
                    break
                right = child + 1
                if right < k and (
                    heap[right] < heap[child]
                    or (heap[right] == heap[child] and place[right] > place[child])
                ):
                    child = right
                # j is the greatest index so far: among equals it belongs above the others.
                if heap[child] >= w:
                    break
                heap[i], place[i] = heap[child], place[child]
                i = child
        else:
            continue
        heap[i], place[i] = w, j


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
    if k >= n:
        return np.arange(n)
    if 32 * k < n or n <= 1024:
        view, place = weights.view(), np.empty(k, dtype=np.int64)
        view.flags.writeable = False
        _heap_top(view, np.empty(k), place)
        place.sort()  # in NumPy: compiling a sort would take longer than all the rest
        return place
    # A heap of this size would be slow; a partition costs the same for every k.
    if np.isnan(weights.min()):
        weights = np.where(np.isnan(weights), -np.inf, weights)
    threshold = np.partition(weights, n - k)[n - k]
    above = np.flatnonzero(weights > threshold)
    tied = np.flatnonzero(weights == threshold)[: k - len(above)]
    return np.sort(np.concatenate([above, tied])) if len(above) < k else above


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
        _keep_columns(row_major(X), selected, kept)
    else:
        kept[:, selected] = X[:, selected]
    return kept


@compiled
def _keep_columns(X: Floats, selected: npt.NDArray[np.intp], kept: Floats) -> None:
    for b in range(X.shape[0]):
        x, t = X[b], kept[b]
        for i in range(len(selected)):
            t[selected[i]] = x[selected[i]]
