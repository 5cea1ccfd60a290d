"""Statistics of columns of categories.

A category is a code from 0. The code -1 is a missing entry, which is left out.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fires.core.types import Floats, Ints
from fires.kernels.compiling import compiled

Codes: TypeAlias = npt.NDArray[np.int16]


def uncertainties(x: Codes, columns: Codes) -> Floats:
    """The symmetrical uncertainty of a column of codes with each of several others."""
    shared: Floats = information(x, columns, np.ones(len(x)))[1]
    return shared


@compiled
def information(x: Codes, columns: Codes, weight: Floats) -> Floats:
    """What a column of codes and each of several others share; a row counts by its weight.

    Row 0 has the mutual information in nats, row 1 the symmetrical uncertainty.
    """
    out = np.zeros((2, len(columns)))
    levels_x = x.max() + 1
    for i in range(len(columns)):
        c = columns[i]
        levels_c = c.max() + 1
        count = 0.0
        of_x, of_c = np.zeros(levels_x), np.zeros(levels_c)
        cells = np.zeros((levels_x, levels_c))
        for b in range(len(x)):
            if x[b] >= 0 and c[b] >= 0:
                count += weight[b]
                of_x[x[b]] += weight[b]
                of_c[c[b]] += weight[b]
                cells[x[b], c[b]] += weight[b]
        # The sums in the entropy H = log n - (1/n) sum k log k.
        sum_x, sum_c, sum_both = _k_log_k(of_x), _k_log_k(of_c), _k_log_k(cells.ravel())
        whole = count * np.log(count) if count > 0.0 else 0.0
        single, both = 2.0 * whole - sum_x - sum_c, whole - sum_x - sum_c + sum_both
        if single > 1e-12 * abs(whole):
            out[0, i] = max(0.0, both / count)
            out[1, i] = min(1.0, max(0.0, 2.0 * both / single))
    return out


@compiled
def _k_log_k(counts: Floats) -> float:
    total = 0.0
    for k in counts:
        total += k * np.log(k) if k > 0.0 else 0.0
    return total


def contingency(x: Codes, y: Codes, given: Codes, chi2: bool) -> float:
    """The G² or chi² statistic of two columns of codes, summed over the strata of others."""
    present = (np.vstack([given, x, y]) >= 0).all(axis=0)
    x, y = x[present], y[present]
    strata, n = np.zeros(len(x), dtype=np.int64), 1
    for column in given[:, present]:
        strata, n = numbered(strata, n, column)
    with_x, n_with_x = numbered(strata, n, x)
    groups = strata, numbered(with_x, n_with_x, y)[0], with_x, numbered(strata, n, y)[0]
    rows, seen, of_x, of_y = (np.bincount(group)[group] for group in groups)
    share = rows * seen / (of_x * of_y)  # of a cell, by what is expected, in each of its rows
    total = share.sum() - len(x) if chi2 else 2.0 * np.log(share).sum()
    return max(float(total), 0.0)


@compiled
def numbered(groups: Ints, n: int, codes: Codes) -> tuple[Ints, int]:
    """The group of each row, once n groups are divided by a column, and how many there are."""
    # Only combinations that occur are numbered, so there are never more groups than rows.
    levels = codes.max() + 1 if len(codes) else 1
    number, found = np.full(n * levels, -1, dtype=np.int64), np.empty(len(codes), dtype=np.int64)
    n = 0
    for b in range(len(codes)):
        at = groups[b] * levels + codes[b]
        if number[at] < 0:
            number[at] = n
            n += 1
        found[b] = number[at]
    return found, n
