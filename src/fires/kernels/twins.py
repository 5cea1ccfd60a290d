"""What columns have in common with others: see :mod:`fires.selectors.twins`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled

Indices = npt.NDArray[np.int64]


@compiled
def correlate(products: Floats, sums: Floats, rows: Floats) -> Floats:
    """The correlation of columns from sums; those of two columns are over the rows of the newer.

    A column that does not vary has nothing in common with others.
    """
    n = len(rows)
    level, unit, out = np.zeros(n), np.zeros(n), np.empty((n, n))
    for i in range(n):
        if rows[i] > 0.0:
            square = products[i, i] / rows[i]
            level[i] = sums[i] / rows[i]
            var = square - level[i] * level[i]
            if var > 1e-12 * square:
                unit[i] = 1.0 / math.sqrt(var)
    for i in range(n):
        for j in range(i):
            common = min(rows[i], rows[j])
            r = 0.0
            if common > 0.0:
                r = (products[i, j] / common - level[i] * level[j]) * unit[i] * unit[j]
            out[i, j] = out[j, i] = min(max(r, -1.0), 1.0)
        out[i, i] = 1.0
    return out


@compiled
def what_is_left(
    correlation: Floats, rows: Floats, order: Indices, k: int, limit: float
) -> Floats:
    """Take k columns in turn, and leave out twins: those with less than the limit of their own.

    Returns, for every twin, the share of its variance that the columns taken do not explain; for
    every other column 1.
    """
    n = len(order)
    share, own = np.ones(n), np.ones(n)
    taken = np.zeros(n, dtype=np.bool_)
    basis = np.empty((min(k, n), n))  # all columns along the directions of those taken
    n_taken = 0
    for place in range(n):
        j = order[place]
        if n_taken == len(basis) or adjusted(share[j], rows[j], n_taken) < limit:
            continue
        line = basis[n_taken]
        line[:] = correlation[j]
        for q in range(n_taken):
            part = basis[q, j]
            for i in range(n):
                line[i] -= part * basis[q, i]
        root = math.sqrt(max(share[j], limit))
        for i in range(n):
            line[i] /= root
            share[i] -= line[i] * line[i]
        taken[j] = True
        n_taken += 1
    for j in range(n):
        left = adjusted(share[j], rows[j], n_taken)
        if not taken[j] and left < limit:
            own[j] = left
    return own


@compiled
def adjusted(share: float, rows: float, n_taken: int) -> float:
    """What so many columns do not explain of another, in rows to come; 1 if nobody can know."""
    free = rows - 1.0 - n_taken
    return max(share, 0.0) * (rows - 1.0) / free if free > 0.5 * rows else 1.0
