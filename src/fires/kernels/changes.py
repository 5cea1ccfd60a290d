"""The loops of :mod:`fires.drift` and :mod:`fires.models.inflation`: what a batch says of changes.

``tests/kernels/test_changes.py`` has the definitions in NumPy that they are compared with.
"""

from __future__ import annotations

import math

import numpy as np

from fires.core.types import Floats, Ints
from fires.kernels.assimilate import ADDED, add_scores
from fires.kernels.compiling import compiled, inner

# How fast the usual increment follows.
SLOW = 1e-3
_STEP = 0.4  # of the way to a slope of 0 that is held against a slope of 1
_CUT = 2.0  # that a row may say of the slope
_SHARE = 0.75  # of the level in the mixture that is held against a rare class
_CAP = 3.0  # that a row of a rare class may add

# What :func:`take_batch` adds up.
N_SUMS = 7
# Rows of a short block; a long one has ten times as many.
BLOCK = 100
# Lines of a block: the sum of scores and their information, in the open block; squares and
# information in whole ones.
SUM, INFORMATION, SQUARES, EXPECTED = range(4)
# Blocks before which nothing is known.
LEAST = 3.0
_FEW = 6.0  # blocks of independent rows that are taken to have been seen before, or more if
_COLUMNS = 20.0  # fewer columns than this lead, whose median says less
_GROWING = 2.5  # times the inflation of short blocks
_OUTLYING = 9.0  # times the usual square

# The sum of the alarm beyond which rows may show a change, and no dependence.
SUSPICION = 5.0
# That of a row along all coefficients, below which nothing is known of these.
LEAST_INFORMATION = 0.025
_USUAL_ROWS, _FAR = 10_000.0, 16.0  # squared deviations along all coefficients
_MEDIAN = 0.455  # of the square of a standard normal variable
_SOME = 10  # columns whose median says something


@inner
def _lowest(values: Floats, n: int, at: int) -> float:
    """The value at this place in the order of the first n, which change places (quickselect).

    NumPy's sorts take seconds to compile.
    """
    low, high = 0, n - 1
    while low < high:
        pivot, i, j = values[(low + high) // 2], low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        low, high = low if at <= j else i, j if at <= j else high
        if j < at < i:
            break
    found: float = values[at]
    return found


@inner
def _increment(
    y: float, log_p: float, f: float, g: float, bend: float, wide: float, even: bool, share: float
) -> float:
    """What a row adds to the sum: see :class:`fires.drift.SlopeAlarm`.

    If one of two classes is rare, there is a share of positives above 0.
    """
    if share > 0.0:
        level = math.log(share if y > 0.0 else 1.0 - share)
        return min(math.log(1.0 - _SHARE + _SHARE * math.exp(min(level - log_p, 50.0))), _CAP)
    u, expected = f * g, f * f * bend
    cut = min(max(u, -_CUT), _CUT)
    if even:
        u, expected = cut, min(expected, _CUT * _CUT)
    else:
        expected *= wide
    step = _STEP / wide
    return min(-step * u - 0.5 * step * step * max(cut * cut, expected), _CAP)


@compiled
def increments(seen: Floats, inflation: Floats, even: bool, share: float) -> Floats:
    """What each row adds to the sums, by what is seen of it: y, log p, f, slope and bend."""
    more = np.empty((seen.shape[1], seen.shape[2]))
    for k in range(seen.shape[1]):
        for b in range(seen.shape[2]):
            one, wide = seen[:, k, b], inflation[k]
            more[k, b] = _increment(one[0], one[1], one[2], one[3], one[4], wide, even, share)
    return more


@inner
def page(
    more: float, w: float, warm_up: float, total: float, usual: float, rows: float
) -> tuple[float, float, float]:
    """Page's sum after one more row, the usual increment, and the weight of the rows."""
    if w == 0.0:
        return total, usual, rows
    rows += w
    usual += (more / w - usual) * min(max(SLOW, 1.0 / rows) * w, 1.0)
    if rows > warm_up:
        total = max(total + more - w * max(usual, 0.0), 0.0)
    return total, usual, rows


@inner
def _add_rows(Z: Floats, lines: Floats, start: int, blocks: Floats) -> None:
    """Add what rows from ``start`` on say of leading columns, and of the predictor, to open blocks.

    There are two for each row of parameters.
    """
    size, n_lines = Z.shape[1], len(blocks)
    sums = np.zeros((2, n_lines, size))
    add_scores(Z, start, lines[3:5], sums)
    for k in range(n_lines):
        along = seen = 0.0
        for b in range(start, start + len(Z)):
            f = lines[2, k, b]
            along += f * lines[3, k, b]
            seen += f * f * lines[4, k, b]
        for i in range(2):
            block = blocks[k, i]
            for j in range(size):
                block[SUM, j] += sums[0, k, j]
                block[INFORMATION, j] += sums[1, k, j]
            block[SUM, size] += along
            block[INFORMATION, size] += seen


@inner
def _end_block(block: Floats, fade: float) -> None:
    """Let an open block be a whole one."""
    total, information, squares, expected = block[0], block[1], block[2], block[3]
    for j in range(len(total)):
        usual = squares[j] / expected[j] if expected[j] > 0.0 else 0.0
        square = min(total[j] * total[j], _OUTLYING * max(usual, 1.0) * information[j])
        squares[j] = squares[j] * fade + square
        expected[j] = expected[j] * fade + information[j]
        total[j] = information[j] = 0.0


@compiled
def fill_blocks(Z: Floats, lines: Floats, gamma: float, blocks: Floats, filled: Floats) -> bool:
    """Add rows to the open blocks; whether one of these was full, and is a whole one now.

    Z are the leading columns; for the lines, see :func:`take_batch`.
    """
    some_ended, start = False, 0
    while True:
        stop, length = min(start + max(BLOCK - int(filled[0, 0]), 1), len(Z)), 1.0 * BLOCK
        _add_rows(Z[start:stop], lines, start, blocks)
        for i in range(2):
            count = filled[i]
            count[0] += stop - start
            if count[0] >= length:
                fade, some_ended = gamma ** count[0], True
                count[0], count[1] = 0.0, count[1] * fade + 1.0
                for k in range(len(blocks)):
                    _end_block(blocks[k, i], fade)
            length *= 10.0
        start = stop
        if start == len(Z):
            return some_ended


@compiled
def inflate(blocks: Floats, filled: Floats, pooled: Floats, of_predictor: Floats) -> None:
    """The inflation of each row of parameters, and that along the predictor, by whole blocks."""
    size = blocks.shape[3] - 1
    few, ratios = _FEW * max(_COLUMNS / max(size, 1), 1.0), np.empty(size + 1)
    for k in range(len(blocks)):
        low = along = 1.0
        for i in range(2):
            n, known = filled[i, 1], 0
            if n < LEAST:
                continue
            squares, expected = blocks[k, i, SQUARES], blocks[k, i, EXPECTED]
            for j in range(size + 1):
                ratios[known] = squares[j] / expected[j] if expected[j] > 0.0 else 0.0
                if j < size and blocks[0, i, EXPECTED, j] > 0.0:
                    known += 1
            along = max(along, (n * ratios[known] + few) / (n + few))
            if known > 0:
                # Against that of a mean of n squares of normal variables (Wilson, Hilferty).
                part = 2.0 / (9.0 * n)
                quartile = _lowest(ratios, known, (known - 1) // 4)
                quartile /= (1.0 - part - 0.6745 * math.sqrt(part)) ** 3
                more = (n * quartile + few) / (n + few)
                if i == 1:  # where so much longer blocks make it so much greater, it goes on
                    more *= max(more / (_GROWING * low), 1.0)
                low = max(low, more)
        pooled[k], of_predictor[k] = low, max(along, low)


@compiled
def take_batch(
    y: Floats,
    weight: Floats,
    stats: Floats,
    even: bool,
    level: Floats,
    share: float,
    pace: float,
    inflation: Floats,
    warm_up: float,
    alarm: Floats,
    shared: Floats,
    lines: Floats,
    sums: Floats,
) -> None:
    """Let the rows of a batch add to the sums of the alarm and to those of shared coefficients.

    For the lines, see :func:`fires.kernels.assimilate.note_scores`; what the features add is
    written here. The sums are those of scores, alone and along the predictor, and of squares; those
    for new local means, which follow at their pace, in a row of weight 1; and the greatest one of
    the alarm.
    """
    total, usual, rows, n_rows = alarm[0], alarm[1], alarm[2], 0.0
    for b in range(len(weight)):
        n_rows += weight[b]
    for k in range(len(stats)):
        stat, mean, one, wide = stats[k], level[0, k], sums[k], inflation[1, k]
        # Along the predictor, changes make it greater, too.
        wide = wide if even else min(wide, 2.0 * inflation[0, k])
        one[6] = total[k]
        for b in range(len(weight)):
            u, q, g, bend = lines[0, k, b], lines[1, k, b], lines[3, k, b], lines[4, k, b]
            added, w = stat[ADDED, b], weight[b]
            f = added - mean
            one[0] += u
            one[1] += f * u
            one[2] += q
            one[3] += f * f * lines[5, k, b]
            one[4] += w * added
            one[5] += w if y[k, b] > 0.0 else 0.0
            more = _increment(y[k, b], stat[1, b], f, g, bend, wide, even, share)
            total[k], usual[k], rows[k] = page(more, w, warm_up, total[k], usual[k], rows[k])
            one[6] = max(one[6], total[k])
            lines[2, k, b] = f
        for i in range(4):
            shared[i // 2, k, i % 2] += one[i]
        for i in range(2):
            level[i, k] += pace * (one[4 + i] - level[i, k] * n_rows)
        if not even and one[6] >= SUSPICION:
            for b in range(len(weight)):
                lines[3, k, b] = lines[4, k, b] = 0.0


@compiled
def find_moves(
    total: Floats,
    square: Floats,
    shared: Floats,
    usual: Floats,
    information: float,
    inflation: Floats,
    n_rows: float,
    limits: Floats,
    columns: Ints,
    n: int,
    leading: Ints,
    where: Ints,
    mu: Floats,
    together: Floats,
) -> Floats:
    """Sums beyond limits: shared ones, then those of n columns; of all, if none are named.

    A line has the row of parameters, the place, below 0 for shared ones, total, square and
    inflation. ``where`` the leading columns are among the n is below 0 for those that are not.
    What they owe to a change along all coefficients is what their covariance with the predictor is.
    """
    size, every, at = len(leading), len(columns) == 0, 0
    moves, own, rest = np.empty((len(total) * (n + 2), 5)), np.empty(n), np.empty(size)
    for k in range(len(total)):
        m, variance, slope, far = mu[k], 0.0, shared[0, k, 1], 1.0
        # Where features say nothing, or classes are told without an error, the slope is not known.
        is_known, wide = shared[1, k, 1] > information, inflation[k]
        if is_known:
            far = min(slope * slope / (shared[1, k, 1] * wide), _FAR)
        usual[k] += (far - usual[k]) * min(n_rows / _USUAL_ROWS, 1.0)
        for i in range(size):
            line, covariance = together[k, i], 0.0
            for j in range(size):
                covariance += line[j] * m[j]
            rest[i] = covariance
            variance += covariance * m[i]
        along = slope / variance if variance > 0.0 else 0.0
        for i in range(n):
            own[i] = total[k, i if every else columns[i]]
        for i in range(size):
            left, seen = total[k, leading[i]] - rest[i] * along, square[k, leading[i]]
            if where[i] >= 0:
                own[where[i]] = left
            rest[i] = left * left / seen if seen > 0.0 else _MEDIAN
        for i in range(-2, n):
            if i < 0:
                j, left, seen = i, shared[0, k, i], shared[1, k, i]
            else:
                j = i if every else columns[i]
                left, seen = own[i], square[k, j]
            if i == 0 and size >= _SOME:
                wide = max(wide, _lowest(rest, size, size // 2) / _MEDIAN)
            limit = limits[min(i, 0)]
            if seen > 0.0 and left * left > seen * wide * limit * limit and (is_known or i != -1):
                moves[at, 0], moves[at, 1], moves[at, 2] = k, j, left
                moves[at, 3], moves[at, 4] = seen, wide
                at += 1
    return moves[:at]
