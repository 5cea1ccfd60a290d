"""What columns have in common with others: see :mod:`fires.selectors.twins`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled

Indices = npt.NDArray[np.int64]

ALL = 1000.0
"""Rows of a stream that are all added."""
GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0


@compiled
def add_some(
    Z: Floats,
    weight: Floats,
    gamma: float,
    first: float,
    products: Floats,
    sums: Floats,
    rows: Floats,
) -> float:
    """Let sums fade by the weight of a batch, and add rows of it; returns that weight.

    All of the first 1,000 rows are added, then one in four, in steps of the golden ratio, so that
    no rhythm of a stream is met. Of the products, only the half below the diagonal is filled in.
    """
    n_rows, size = Z.shape
    total, n_added = 0.0, 0
    added = np.empty(n_rows, dtype=np.int64)
    for b in range(n_rows):
        total += weight[b]
        if first + b < ALL or (first + b) * GOLDEN % 1.0 < 0.25:
            added[n_added] = b
            n_added += 1
    keep = gamma**total
    for i in range(size):
        sums[i] *= keep
        rows[i] *= keep
        for j in range(i + 1):
            products[i, j] *= keep
    for a in range(0, n_added, 4):
        # Four rows at a time; if there are fewer, the others have no weight.
        b0, b1, b2, b3 = added[a], added[a], added[a], added[a]
        v0, v1, v2, v3 = weight[b0], 0.0, 0.0, 0.0
        if a + 1 < n_added:
            b1 = added[a + 1]
            v1 = weight[b1]
        if a + 2 < n_added:
            b2 = added[a + 2]
            v2 = weight[b2]
        if a + 3 < n_added:
            b3 = added[a + 3]
            v3 = weight[b3]
        x0, x1, x2, x3 = Z[b0], Z[b1], Z[b2], Z[b3]
        for i in range(size):
            w0, w1, w2, w3 = v0 * x0[i], v1 * x1[i], v2 * x2[i], v3 * x3[i]
            line = products[i]
            for j in range(i + 1):
                line[j] += w0 * x0[j] + w1 * x1[j] + w2 * x2[j] + w3 * x3[j]
            sums[i] += w0 + w1 + w2 + w3
            rows[i] += v0 + v1 + v2 + v3
    return total


@compiled
def judge(values: Floats, places: Indices, more: Floats, most: Floats) -> Floats:
    """A copy of scores, in which those at some places are raised, or held down."""
    judged = values.copy()
    for i in range(len(places)):
        judged[places[i]] = min(judged[places[i]] + more[i], most[i])
    return judged


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
    rest, basis = np.empty(n), np.empty((most, n))  # along the columns taken
    chosen, scale = np.empty(most, dtype=np.int64), np.empty(most)
    n_taken = 0
    for place in range(n):
        j = order[place]
        for t in range(n_taken):
            rest[t] = correlation[j, taken[t]]
        left, n_chosen = 1.0, 0
        while known[j] and left >= limit and n_chosen < min(most, n_taken):
            best, greatest = 0, -1.0
            for t in range(n_taken):
                if abs(rest[t]) > greatest:
                    best, greatest = t, abs(rest[t])
            # The direction of the best one that the ones before it do not have.
            line = basis[n_chosen]
            for t in range(n_taken):
                line[t] = correlation[taken[best], taken[t]]
            for q in range(n_chosen):
                one = basis[q, best]
                for t in range(n_taken):
                    line[t] -= one * basis[q, t]
            if line[best] < limit:
                break
            one = 1.0 / math.sqrt(line[best])
            share = rest[best] * one
            for t in range(n_taken):
                line[t] *= one
                rest[t] -= share * line[t]
            left -= share * share
            chosen[n_chosen], scale[n_chosen] = best, share
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
                one -= part[j, taken[chosen[p]]] * basis[q, chosen[p]]
            part[j, taken[chosen[q]]] = one / basis[q, chosen[q]]
    return own, part
