"""The running scale of dense columns: standardise a batch by it, then learn from the batch.

:class:`fires.scaling.dense.Standard` says what the rules are and keeps the arrays. What a batch
shows of a column lies between the two calls in one array, with a row for each of these:

=========  =====================================================================================
SUM        the weighted sum of ``x - origin`` over the entries that count
SQUARES    the weighted sum of its squares
LEFT_OUT   the weight of the entries that do not count: missing, or out of all proportion
REFUSED    the weight of the entries out of all proportion
FARTHEST   the greatest ``|x - origin|`` of the entries that count
BEYOND     how many sampled entries in a row were beyond the reach; MOVED: the scale starts anew
ORIGIN     the shift, or the batch's own mean if the scale starts anew
=========  =====================================================================================
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled

Dense = npt.NDArray[np.floating[Any]]

SUM, SQUARES, LEFT_OUT, REFUSED, FARTHEST, BEYOND, ORIGIN = range(7)

MEMORY = 10_000.0
"""The rows that a scale remembers."""
PROPORTION = 10.0
"""Entries this many times farther away than any before are out of all proportion."""
YOUNG = 16.0
"""Rows before which nothing is out of proportion."""
COMMON = 8.0
"""This many entries within the memory are not out of proportion any more."""
PATIENCE = 200.0
"""Rows that must be narrow before a scale starts anew."""
MOVED = np.inf
# A variance this far below the mean's own rounding error is rounding, not spread.
ROUNDING = (10.0 * np.finfo(np.float64).eps) ** 2

_SAMPLES = 16  # rows that are looked at for a column that has moved
_RUN = 8.0  # a column has moved when so many sampled entries in a row are beyond its reach
_BEYOND = 1.5  # so many times the reach
_NARROW = 0.05**2  # the share of the variance below which a batch is narrow
_AT_MOST = 20.0  # rows of one batch that count as narrow: it takes ten batches
_LOST = 1e-13  # of a sum of squares: variances below this have lost their digits
_BLOCK = 256  # columns at a time, whose sums stay in the fastest memory
_GREATEST = np.finfo(np.float64).max


@compiled
def limit_of(count: float, gain: float, reach: float) -> float:
    """The distance from the shift beyond which an entry is out of all proportion."""
    return PROPORTION * reach if count >= YOUNG and gain > 0.0 and reach > 0.0 else np.inf


@compiled
def gain_of(variance: float, mean: float) -> float:
    """One over the standard deviation; 0 if it is rounding, or has lost its digits."""
    return 1.0 / np.sqrt(variance) if variance > max(ROUNDING * mean * mean, 1e-300) else 0.0


@compiled
def _own_scale(X: Dense, weight: Floats, lo: int, hi: int, mean: Floats, gain: Floats) -> None:
    """The batch's own mean and gain of some columns, in two passes."""
    count, square = np.zeros(hi - lo), np.zeros(hi - lo)
    mean[lo:hi] = 0.0
    for b in range(X.shape[0]):
        for j in range(lo, hi):
            there = X[b, j] == X[b, j]
            count[j - lo] += weight[b] if there else 0.0
            mean[j] += weight[b] * X[b, j] if there else 0.0
    for j in range(lo, hi):
        mean[j] = mean[j] / count[j - lo] if count[j - lo] > 0.0 else 0.0
    for b in range(X.shape[0]):
        for j in range(lo, hi):
            t = X[b, j] - mean[j]
            square[j - lo] += weight[b] * t * t if t == t else 0.0
    for j in range(lo, hi):
        n = count[j - lo]
        gain[j] = gain_of(square[j - lo] / n, mean[j]) if n > 0.0 else 0.0


@compiled
def _find_moved(
    X: Dense,
    weight: Floats,
    gain: Floats,
    narrow: Floats,
    patience: Floats,
    beyond: Floats,
    origin: Floats,
    scale: Floats,
    limit: Floats,
) -> None:
    """Mark the columns whose scale starts anew in ``beyond``, and give them the batch's own."""
    n_rows = X.shape[0]
    for b in range(0, n_rows, (n_rows + _SAMPLES - 1) // _SAMPLES):
        if weight[b] > 0.0:
            x = X[b]
            for j in range(len(gain)):
                value, edge = abs(x[j] - origin[j]), limit[j] * (_BEYOND / PROPORTION)
                run = beyond[j] if value != value else 0.0
                beyond[j] = beyond[j] + 1.0 if value > edge else run
    for j in range(len(gain)):
        if beyond[j] >= _RUN or narrow[j] >= patience[j]:
            shift = origin[j]
            _own_scale(X, weight, j, j + 1, origin, scale)
            narrower = scale[j] * scale[j] * _NARROW > gain[j] * gain[j]
            if beyond[j] >= _RUN:
                # A jump to a value that hardly varies is no new scale: it may jump back.
                moved = n_rows < _RUN or (scale[j] > 0.0 and not narrower)
            else:
                moved = narrower
            if moved:
                beyond[j], limit[j] = MOVED, np.inf
            else:
                beyond[j], origin[j], scale[j] = 0.0, shift, gain[j]


@compiled
def standardise(
    X: Dense,
    weight: Floats,
    first: bool,
    count: Floats,
    shift: Floats,
    gain: Floats,
    reach: Floats,
    beyond: Floats,
    refused: Floats,
    narrow: Floats,
    patience: Floats,
    out: Floats,
    shown: Floats,
) -> float:
    """Write the standardised rows, and what the batch shows. The running scale stays as it is.

    The result is not finite if sums overflow.
    """
    n_columns = len(shift)
    shown[:BEYOND] = 0.0
    shown[BEYOND], shown[ORIGIN] = beyond, shift
    origin, scale, limit = shown[ORIGIN], gain.copy(), np.empty(n_columns)
    for j in range(n_columns):
        limit[j] = limit_of(count[j], gain[j], reach[j])
    if first:
        _own_scale(X, weight, 0, n_columns, origin, scale)
        shown[BEYOND] = MOVED
    elif X.shape[0] > 0:
        _find_moved(X, weight, gain, narrow, patience, shown[BEYOND], origin, scale, limit)
    for lo in range(0, n_columns, _BLOCK):
        hi = min(lo + _BLOCK, n_columns)
        p, q, far = shown[SUM, lo:hi], shown[SQUARES, lo:hi], shown[FARTHEST, lo:hi]
        middle, factor, edge = origin[lo:hi], scale[lo:hi], limit[lo:hi]
        for b in range(X.shape[0]):
            x, t, w = X[b, lo:hi], out[b, lo:hi], weight[b]
            counts = 1.0 if w > 0.0 else 0.0
            strange = 0
            for j in range(hi - lo):
                value = x[j] - middle[j]
                fits = abs(value) <= edge[j]  # not if it is NaN
                value = value if fits else 0.0
                strange += 0 if fits else 1
                p[j] += w * value
                q[j] += w * value * value
                far[j] = max(far[j], counts * abs(value))
                t[j] = min(max(value * factor[j], -_GREATEST), _GREATEST)
            if strange > 0:
                for j in range(lo, hi):
                    value = X[b, j] - origin[j]
                    if not abs(value) <= limit[j]:
                        if abs(value) == np.inf:
                            return np.inf
                        if value == value and refused[j] >= COMMON:
                            shown[SUM, j] += w * value
                            shown[SQUARES, j] += w * value * value
                            shown[FARTHEST, j] = max(shown[FARTHEST, j], counts * abs(value))
                        else:
                            shown[LEFT_OUT, j] += w
                            shown[REFUSED, j] += w if value == value else 0.0
    total = 0.0
    for j in range(n_columns):
        total += shown[SQUARES, j] + 0.0 * origin[j]
    return total


@compiled
def learn(
    shown: Floats,
    weight: Floats,
    count: Floats,
    shift: Floats,
    spread: Floats,
    gain: Floats,
    reach: Floats,
    beyond: Floats,
    refused: Floats,
    narrow: Floats,
    settled: Floats,
    patience: Floats,
) -> None:
    """Merge what :func:`standardise` has shown into the running scale, in place."""
    total = 0.0
    for b in range(len(weight)):
        total += weight[b]
    keep = 1.0 - 1.0 / MEMORY
    usual = keep**total
    for j in range(len(shift)):
        beyond[j] = shown[BEYOND, j]
        if beyond[j] == MOVED:
            count[j] = spread[j] = reach[j] = beyond[j] = refused[j] = narrow[j] = 0.0
            shift[j] = shown[ORIGIN, j]
        n = total - shown[LEFT_OUT, j]
        fade = usual if shown[LEFT_OUT, j] == 0.0 else keep ** max(n, 0.0)
        p, q, far = shown[SUM, j], shown[SQUARES, j], shown[FARTHEST, j]
        _look_for_narrowness(j, n, p, q, count, shift, spread, narrow, settled)
        if refused[j] >= COMMON and far > PROPORTION * reach[j]:
            # Now such entries count. The column is one that is narrow at times: take longer.
            refused[j] = 0.0
            patience[j] = min(8.0 * patience[j], 1e9)
        refused[j] = usual * refused[j] + shown[REFUSED, j]
        reach[j] = max(fade * reach[j], far)
        count[j] = fade * count[j] + max(n, 0.0)
        change = p / count[j] if count[j] > 0.0 else 0.0
        shift[j] += change
        spread[j] = max(fade * spread[j] + q - p * change, 0.0)
        variance = spread[j] / count[j] if count[j] > 0.0 else 0.0
        gain[j] = gain_of(variance, shift[j])


@compiled
def _look_for_narrowness(
    j: int,
    n: float,
    p: float,
    q: float,
    count: Floats,
    shift: Floats,
    spread: Floats,
    narrow: Floats,
    settled: Floats,
) -> None:
    """Count the rows for which a column has hardly varied, and always about the same value."""
    if not (n > 0.0 and count[j] > 0.0):
        return
    variance = (q - p * p / n) / n
    if variance <= _LOST * q / n:
        return  # constant in this batch
    if variance * count[j] >= _NARROW * spread[j]:
        narrow[j] = 0.0
        return
    mean = shift[j] + p / n
    if narrow[j] == 0.0 or (mean - settled[j]) ** 2 > variance:
        narrow[j], settled[j] = 0.0, mean
    narrow[j] += min(n, _AT_MOST)
