"""Correlations of columns with missing entries (NaN), on their own and given other columns."""

from __future__ import annotations

import numpy as np

from fires.core.types import Floats, Ints
from fires.kernels.compiling import compiled

NEARLY_ONE = 1.0 - 2.0**-53  # greater correlations are cut off here: Fisher's z would be infinite
_NO_SPREAD = 1e-30  # a smaller variance, in columns within [-1, 1], is rounding
_NO_REST = 1e-12  # a smaller share of a variance, not explained by other columns, is rounding


@compiled
def correlations(x: Floats, columns: Floats) -> tuple[Floats, Ints]:
    r"""Pearson's r of a column with each of several others, and the number of rows it uses.

    Examples
    --------
    >>> x = np.array([0.0, 0.5, 1.0, np.nan])
    >>> r, n = correlations(x, np.array([[1.0, 0.5, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0]]))
    >>> r, n
    (array([-1.,  0.]), array([3, 3]))
    """
    r, n = np.zeros(len(columns)), np.zeros(len(columns), dtype=np.int64)
    for i in range(len(columns)):
        c = columns[i]
        count, sum_x, sum_c = 0, 0.0, 0.0
        for b in range(len(x)):
            if x[b] == x[b] and c[b] == c[b]:
                count += 1
                sum_x += x[b]
                sum_c += c[b]
        n[i] = count
        if count == 0:
            continue
        mean_x, mean_c = sum_x / count, sum_c / count
        xx, cc, xc = 0.0, 0.0, 0.0
        for b in range(len(x)):
            if x[b] == x[b] and c[b] == c[b]:
                xx += (x[b] - mean_x) ** 2
                cc += (c[b] - mean_c) ** 2
                xc += (x[b] - mean_x) * (c[b] - mean_c)
        if xx > count * _NO_SPREAD and cc > count * _NO_SPREAD:
            r[i] = min(1.0, max(-1.0, xc / np.sqrt(xx * cc)))
    return r, n


@compiled
def partial_correlation(r: Floats, i: int, j: int, given: Ints) -> float:
    """The correlation of two columns given others, from the correlations of all pairs.

    The given columns are eliminated one by one. If they explain one of the two columns completely,
    the result is 0. A given column that the other given ones explain is skipped.
    """
    m = len(given)
    place = np.append(given, np.array([i, j]))
    rest = r[place][:, place]
    for p in range(m):
        if rest[p, p] <= _NO_REST:
            continue
        for a in range(p + 1, m + 2):
            share = rest[a, p] / rest[p, p]
            for b in range(p + 1, m + 2):
                rest[a, b] -= share * rest[p, b]
    if rest[m, m] <= _NO_REST or rest[m + 1, m + 1] <= _NO_REST:
        return 0.0
    value: float = rest[m, m + 1] / np.sqrt(rest[m, m] * rest[m + 1, m + 1])
    return min(1.0, max(-1.0, value))


@compiled
def separates(r: Floats, n: Ints, place: int, given: Ints, bound: float) -> bool:
    """Whether some columns make another one independent of the first one.

    r and n are the correlations and the numbers of common rows of all pairs. Columns are dependent
    if Fisher's z, from the least number of common rows among the pairs, reaches the bound.
    """
    rows, size = n[place, 0], len(given)
    for a in range(size):
        rows = min(rows, n[given[a], place], n[given[a], 0])
        for b in range(a):
            rows = min(rows, n[given[a], given[b]])
    if rows <= size + 3:  # with fewer rows there is no test
        return False
    value = min(abs(partial_correlation(r, place, 0, given)), NEARLY_ONE)
    return bool(np.sqrt(rows - size - 3.0) * np.arctanh(value) < bound)
