"""Statistics of columns of categories.

A category is a code from 0. The code -1 is a missing entry, which is left out.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled
from fires.kernels.online import Ints

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


@compiled
def contingency(x: Codes, y: Codes, given: Codes, chi2: bool) -> float:
    """The G² or chi² statistic of two columns of codes, summed over the strata of others."""
    stratum, n_strata = _strata(x, y, given)
    rows, ends = _grouped(stratum, n_strata)
    of_x, of_y = np.zeros(x.max() + 1), np.zeros(y.max() + 1)
    cells = np.zeros((x.max() + 1, y.max() + 1))
    total = 0.0
    for s in range(n_strata):
        here = rows[ends[s] : ends[s + 1]]
        for b in here:
            of_x[x[b]] += 1.0
            of_y[y[b]] += 1.0
            cells[x[b], y[b]] += 1.0
        for b in here:
            seen = cells[x[b], y[b]]
            if seen > 0.0:  # each cell once
                expected = of_x[x[b]] * of_y[y[b]] / len(here)
                total += seen * seen / expected if chi2 else 2.0 * seen * np.log(seen / expected)
                cells[x[b], y[b]] = 0.0
        total -= len(here) if chi2 else 0.0
        for b in here:
            of_x[x[b]], of_y[y[b]] = 0.0, 0.0
    return max(total, 0.0)


@compiled
def _strata(x: Codes, y: Codes, given: Codes) -> tuple[Ints, int]:
    """The stratum of each row, and how many there are; -1 where an entry is missing."""
    n = len(x)
    stratum, n_strata = np.zeros(n, dtype=np.int64), 1
    for b in range(n):
        if x[b] < 0 or y[b] < 0:
            stratum[b] = -1
    for g in given:
        # Only combinations that occur are numbered, so there are never more strata than rows.
        levels = g.max() + 1
        number = np.full(n_strata * levels, -1, dtype=np.int64)
        n_strata = 0
        for b in range(n):
            if stratum[b] < 0 or g[b] < 0:
                stratum[b] = -1
                continue
            at = stratum[b] * levels + g[b]
            if number[at] < 0:
                number[at] = n_strata
                n_strata += 1
            stratum[b] = number[at]
    return stratum, n_strata


@compiled
def _grouped(stratum: Ints, n_strata: int) -> tuple[Ints, Ints]:
    """The rows sorted by stratum, and where each stratum begins and ends."""
    ends = np.zeros(n_strata + 1, dtype=np.int64)
    for s in stratum:
        if s >= 0:
            ends[s + 1] += 1
    for i in range(n_strata):
        ends[i + 1] += ends[i]
    rows, free = np.empty(len(stratum), dtype=np.int64), ends[:-1].copy()
    for b in range(len(stratum)):
        if stratum[b] >= 0:
            rows[free[stratum[b]]] = b
            free[stratum[b]] += 1
    return rows, ends
