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
def find_twins(
    correlation: Floats, known: npt.NDArray[np.bool_], order: Indices, limit: float, most: int
) -> tuple[Floats, Floats]:
    """Take columns in turn, but for twins: of these less than the limit is their own.

    What a column has in common with others is what a few of those taken explain of it, at most
    ``most``. Of all that are taken, the next is the one that has most in common with the rest.

    Returns, for every column, the share of its variance that is its own, 1 for those taken; and of
    what it is made, the coefficients of every column on those taken.
    """
    n = len(order)
    own, part = np.ones(n), np.eye(n)
    taken = np.empty(n, dtype=np.int64)
    chosen, basis, scale = np.empty(most, dtype=np.int64), np.empty((most, n)), np.empty(most)
    n_taken = 0
    for place in range(n):
        j = order[place]
        rest = correlation[j].copy()
        left, n_chosen = 1.0, 0
        while known[j] and left >= limit and n_chosen < min(most, n_taken):
            best = taken[0]
            for q in range(n_taken):
                if abs(rest[taken[q]]) > abs(rest[best]):
                    best = taken[q]
            # The direction of the best one that the ones before it do not have.
            line = basis[n_chosen]
            line[:] = correlation[best]
            for q in range(n_chosen):
                line -= basis[q, best] * basis[q]
            if line[best] < limit:
                break
            line /= math.sqrt(line[best])
            scale[n_chosen] = rest[best] / line[best]
            left -= scale[n_chosen] ** 2
            rest -= scale[n_chosen] * line
            chosen[n_chosen] = best
            n_chosen += 1
        if left >= limit:
            taken[n_taken] = j
            n_taken += 1
            continue
        own[j] = max(left, 0.0)
        part[j] = 0.0
        for q in range(n_chosen - 1, -1, -1):  # from directions back to columns
            one = scale[q]
            for p in range(q + 1, n_chosen):
                one -= part[j, chosen[p]] * basis[q, chosen[p]]
            part[j, chosen[q]] = one / basis[q, chosen[q]]
    return own, part
