"""Correlations of columns with missing entries (NaN), on their own and given other columns."""

from __future__ import annotations

import numpy as np

from fires.core.belief import Floats
from fires.kernels.compiling import compiled
from fires.kernels.online import Ints

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
    place = np.empty(m + 2, dtype=np.int64)
    place[:m] = given
    place[m], place[m + 1] = i, j
    rest = np.empty((m + 2, m + 2))
    for a in range(m + 2):
        for b in range(m + 2):
            rest[a, b] = r[place[a], place[b]]
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
def some_set_separates(
    r: Floats, n: Ints, place: int, fixed: Ints, others: Ints, most: int, bound: float
) -> bool:
    """Whether some set of up to ``most`` columns makes a column independent of the first one.

    Every set holds the ``fixed`` columns and some of the ``others``. ``tests/naive.py``
    has its definition.
    """
    for size in range(1, most + 1):
        free = size - len(fixed)
        if free > len(others):
            break
        given = np.empty(size, dtype=np.int64)
        given[: len(fixed)] = fixed
        choice = np.arange(free)
        more = True
        while more:
            for t in range(free):
                given[len(fixed) + t] = others[choice[t]]
            rows = _common_rows(n, place, given)
            if rows > size + 3:  # with fewer rows there is no test
                value = abs(partial_correlation(r, place, 0, given))
                if bound > np.sqrt(rows - size - 3.0) * np.arctanh(min(value, NEARLY_ONE)):
                    return True
            more = _next_choice(choice, len(others))
    return False


@compiled
def _common_rows(n: Ints, place: int, given: Ints) -> int:
    """The least number of common rows among the pairs of these columns."""
    rows: int = n[place, 0]
    for a in range(len(given)):
        rows = min(rows, n[given[a], place], n[given[a], 0])
        for b in range(a):
            rows = min(rows, n[given[a], given[b]])
    return rows


@compiled
def _next_choice(choice: Ints, n: int) -> bool:
    """Change a choice out of n into the next one, in place; False if it was the last.

    The last entry that can be raised is raised by 1; those after it follow directly.
    """
    t = len(choice) - 1
    while t >= 0 and choice[t] == n - len(choice) + t:
        t -= 1
    if t < 0:
        return False
    choice[t] += 1
    for u in range(t + 1, len(choice)):
        choice[u] = choice[u - 1] + 1
    return True
