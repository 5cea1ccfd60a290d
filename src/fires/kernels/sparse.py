"""The same two loops over a CSR matrix, and a loop that finds the columns with entries."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled

Ints = npt.NDArray[np.signedinteger]


@compiled
def project_csr(
    data: Floats, indices: Ints, indptr: Ints, mu: Floats, var: Floats, a: Floats, v: Floats
) -> None:
    """``a[k] = X mu[k]`` and ``v[k] = (X∘X) var[k]``."""
    for b in range(len(indptr) - 1):
        for k in range(mu.shape[0]):
            m, w = mu[k], var[k]
            a0 = v0 = 0.0
            for i in range(indptr[b], indptr[b + 1]):
                x = float(data[i])
                x = x if x == x else 0.0
                a0 += m[indices[i]] * x
                v0 += w[indices[i]] * x * x
            a[k, b], v[k, b] = a0, v0


@compiled
def accumulate_csr(
    data: Floats, indices: Ints, indptr: Ints, c: Floats, d: Floats, p: Floats, q: Floats
) -> None:
    """``p[k] += X'c[k]`` and ``q[k] += (X∘X)'d[k]``."""
    for b in range(len(indptr) - 1):
        for k in range(c.shape[0]):
            pk, qk, c0, d0 = p[k], q[k], c[k, b], d[k, b]
            for i in range(indptr[b], indptr[b + 1]):
                x = float(data[i])
                x = x if x == x else 0.0
                pk[indices[i]] += c0 * x
                qk[indices[i]] += d0 * x * x


@compiled
def touched_columns(indices: Ints, slot: npt.NDArray[np.int32], local: Ints) -> Ints:
    """The columns that have entries, in order of first occurrence.

    ``local`` gets, for each entry, the index of its column in the result. ``slot`` is a scratch
    array with one zero per column of X, and is left all zeros. So the cost is O(nnz), however wide
    X is.
    """
    columns = np.empty(len(indices), dtype=np.int64)
    n = 0
    for i in range(len(indices)):
        j = indices[i]
        if slot[j] == 0:
            columns[n] = j
            n += 1
            slot[j] = n
        local[i] = slot[j] - 1
    for i in range(n):
        slot[columns[i]] = 0
    return columns[:n].copy()
