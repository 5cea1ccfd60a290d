"""What columns have in common with others: see :mod:`fires.selectors.twins`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled
from fires.kernels.linear import add_products

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
    total, extra, n_added = 0.0, 0.0, 0
    added, weighted, more = np.empty((n_rows, size)), np.empty((n_rows, size)), np.zeros(size)
    for b in range(n_rows):
        total += weight[b]
        if first + b < ALL or (first + b) * GOLDEN % 1.0 < 0.25:
            for j in range(size):
                added[n_added, j], weighted[n_added, j] = Z[b, j], weight[b] * Z[b, j]
                more[j] += weight[b] * Z[b, j]
            extra += weight[b]
            n_added += 1
    keep = gamma**total
    add_products(added[:n_added], weighted[:n_added], keep, products)
    for i in range(size):
        sums[i] = keep * sums[i] + more[i]
        rows[i] = keep * rows[i] + extra
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
    ``most``.

    Returns, for every column, the share of its variance that is its own, 1 for those taken; and of
    what it is made, the coefficients of every column on those taken.
    """
    n = len(order)
    own, part = np.ones(n), np.eye(n)
    taken, n_taken = np.empty(n, dtype=np.int64), 0
    rest, basis = np.empty(n), np.empty((most, n))
    chosen, scale = np.empty(most, dtype=np.int64), np.empty(most)
    for place in range(n):
        j = order[place]
        left, n_chosen = 1.0, 0
        if known[j]:
            so_far = taken[:n_taken]
            left, n_chosen = _explain(correlation, j, so_far, limit, rest, basis, chosen, scale)
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


@compiled
def _explain(
    correlation: Floats,
    j: int,
    taken: Indices,
    limit: float,
    rest: Floats,
    basis: Floats,
    chosen: Indices,
    scale: Floats,
) -> tuple[float, int]:
    """Explain a column by others until less than the limit is left; the next is always the best.

    Returns what is left and how many it took. Fills in which columns these are, the directions
    in which they go on from each other, and how far the column goes in each.
    """
    n = len(taken)
    for t in range(n):
        rest[t] = correlation[j, taken[t]]
    left, n_chosen = 1.0, 0
    while left >= limit and n_chosen < min(len(basis), n):
        best = 0
        for t in range(n):
            if abs(rest[t]) > abs(rest[best]):
                best = t
        line = basis[n_chosen]
        for t in range(n):
            line[t] = correlation[taken[best], taken[t]]
        for q in range(n_chosen):
            one = basis[q, best]
            for t in range(n):
                line[t] -= one * basis[q, t]
        if line[best] < limit:  # it has nothing of its own
            break
        one = 1.0 / math.sqrt(line[best])
        share = rest[best] * one
        for t in range(n):
            line[t] *= one
            rest[t] -= share * line[t]
        left -= share * share
        chosen[n_chosen], scale[n_chosen] = best, share
        n_chosen += 1
    return left, n_chosen
