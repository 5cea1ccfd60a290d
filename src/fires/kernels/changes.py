"""The loops of :mod:`fires.drift` and :mod:`fires.models.inflation`: what a batch says of changes.

``tests/kernels/test_changes.py`` has the definitions in NumPy that they are compared with.
"""

from __future__ import annotations

import math

import numpy as np

from fires.core.types import Floats, Ints
from fires.kernels.assimilate import ADDED, add_scores, kept_of, score
from fires.kernels.compiling import compiled, inner

# How fast the usual increment follows.
SLOW = 1e-3
_STEP = 0.4  # of the way to a slope of 0 that is held against a slope of 1
_CUT = 2.0  # that a row may say of the slope
_SHARE = 0.75  # of the level in the mixture that is held against a rare class
_CAP = 3.0  # that a row of a rare class may add

# What :func:`take_rows` adds up.
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
    """The value at this place among the first n, which are put in order.

    NumPy's sorts take seconds to compile.
    """
    for i in range(1, n):
        value, place = values[i], i
        while place > 0 and values[place - 1] > value:
            values[place] = values[place - 1]
            place -= 1
        values[place] = value
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
def _add_rows(
    Z: Floats, lines: Floats, k: int, start: int, stop: int, one: Floats, other: Floats
) -> None:
    """Add what rows say of leading columns, and of the predictor, to two open blocks."""
    size, fs, slopes, bends = Z.shape[1], lines[2, k], lines[3, k], lines[4, k]
    sums = np.zeros((2, size + 1))
    total, seen = sums[SUM], sums[INFORMATION]
    for b in range(start, stop):
        row, f, g, bend = Z[b], fs[b], slopes[b], bends[b]
        for j in range(size):
            total[j] += row[j] * g
            seen[j] += row[j] * row[j] * bend
        total[size] += f * g
        seen[size] += f * f * bend
    for i in range(2):
        for j in range(size + 1):
            one[i, j] += sums[i, j]
            other[i, j] += sums[i, j]


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

    Z are the leading columns; for the lines, see :func:`take_rows`.
    """
    some_ended, start = False, 0
    while True:
        stop, length = min(start + max(BLOCK - int(filled[0, 0]), 1), len(Z)), 1.0 * BLOCK
        for k in range(len(blocks)):
            _add_rows(Z, lines, k, start, stop, blocks[k, 0], blocks[k, 1])
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


@inner
def take_rows(
    y: Floats,
    weight: Floats,
    stats: Floats,
    kept: Floats,
    even: bool,
    local: Floats,
    share: float,
    inflation: Floats,
    warm_up: float,
    total: Floats,
    usual: Floats,
    rows: Floats,
    lines: Floats,
    sums: Floats,
) -> None:
    """Let the rows of a batch add to the sums of the alarm, and write what else they say.

    The lines are the score of each row as it counts at the end, and its square; what the features
    add, score and bend. The sums are those of scores, alone and along the predictor, and of
    squares; those for new local means; and the greatest one of the alarm.
    """
    for k in range(len(total)):
        stat, wide, mean, one = stats[k], inflation[k], local[0, k], sums[k]
        one[6] = total[k]
        for b in range(len(weight)):
            g, bend, expected = score(stat, b, even)
            added, keep, w = stat[ADDED, b], kept[b], weight[b]
            f, u, q = added - mean, keep * g, keep * keep * expected
            one[0] += u
            one[1] += f * u
            one[2] += q
            # There is one slope, and whatever is rare comes often enough in it.
            one[3] += f * f * (q if even else keep * keep * bend)
            one[4] += w * added
            one[5] += w if y[k, b] > 0.0 else 0.0
            more = _increment(y[k, b], stat[1, b], f, g, bend, wide, even, share)
            total[k], usual[k], rows[k] = page(more, w, warm_up, total[k], usual[k], rows[k])
            one[6] = max(one[6], total[k])
            lines[0, k, b], lines[1, k, b], lines[2, k, b] = u, q, f
            lines[3, k, b], lines[4, k, b] = g, bend


@compiled
def take_batch(
    full: Floats,
    y: Floats,
    weight: Floats,
    stats: Floats,
    unit: float,
    even: bool,
    level: Floats,
    share: float,
    pace: float,
    inflation: Floats,
    warm_up: float,
    alarm: Floats,
    total: Floats,
    square: Floats,
    shared: Floats,
    lines: Floats,
    sums: Floats,
) -> None:
    """Take in a batch as :func:`take_rows` does; the greatest sum of the alarm is the last one.

    Local means follow at their pace, in a row of weight 1. ``full`` are the scaled rows, or none if
    their scores were added to the sums of the tests before.
    """
    n_lines, n_rows = len(stats), 0.0
    kept, along = kept_of(weight, unit), np.empty(n_lines)
    for b in range(len(weight)):
        n_rows += weight[b]
    for k in range(n_lines):
        # Along the predictor, changes make it greater, too.
        along[k] = inflation[1, k] if even else min(inflation[1, k], 2.0 * inflation[0, k])
    if full.shape[1] > 0:
        add_scores(full, 0, stats, kept, even, total, square)
    sum_, usual, rows = alarm[0], alarm[1], alarm[2]
    take_rows(
        y, weight, stats, kept, even, level, share, along, warm_up, sum_, usual, rows, lines, sums
    )
    for k in range(n_lines):
        for i in range(4):
            shared[i // 2, k, i % 2] += sums[k, i]
        for i in range(2):
            level[i, k] += pace * (sums[k, 4 + i] - level[i, k] * n_rows)
        if not even and sums[k, 6] >= SUSPICION:
            for b in range(len(weight)):
                lines[3, k, b] = lines[4, k, b] = 0.0


@compiled
def row_scores(weight: Floats, stats: Floats, unit: float, even: bool) -> Floats:
    """The score of each row as it counts at the end of a batch, and its square."""
    lines, kept = np.empty((2, len(stats), len(weight))), kept_of(weight, unit)
    for k in range(len(stats)):
        for b in range(len(weight)):
            g, _, expected = score(stats[k], b, even)
            lines[0, k, b], lines[1, k, b] = kept[b] * g, kept[b] * kept[b] * expected
    return lines


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
