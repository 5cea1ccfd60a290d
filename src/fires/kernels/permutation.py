"""How much the loss of a linear model grows when one feature is replaced, for all features.

If feature j takes another value, the score of a linear model changes by its coefficient times the
difference. So all J losses of a row cost O(J), where another model needs J predictions. The model
may learn from a row once it has been explained.
"""

from __future__ import annotations

import math

import numpy as np

from fires.core.types import Floats, Ints
from fires.kernels.compiling import compiled
from fires.kernels.linear import Rows, column, row
from fires.kernels.online import MOST


@compiled
def permute(
    rows: Rows,
    others: Rows,
    drawn: Ints,
    y: Floats,
    mass: Floats,
    coef: Floats,
    intercept: Floats,
    numeric: bool,
    rate: float,
    sums: Floats,
) -> int:
    """See ``naive.permute_plain``; 0, or -1 if a score is not finite.

    Of CSR, entries that neither row has are not touched.
    """
    scores, other = np.empty(len(intercept)), np.zeros(sums.shape[1])
    for b in range(len(y)):
        at, x = row(rows, b)
        for k in range(len(scores)):
            score = intercept[k]
            for i in range(len(x)):
                score += coef[k, column(at, i)] * x[i]
            if not abs(score) <= MOST:
                return -1
            scores[k] = score
        before = _loss(scores, coef, 0, 0.0, y[b], numeric)
        places, entries = row(others, drawn[b])
        for i in range(len(entries)):
            other[column(places, i)] = entries[i]
        for i in range(len(x)):
            j = column(at, i)
            more = _loss(scores, coef, j, other[j] - x[i], y[b], numeric) - before
            _add(sums, j, mass[b], more)
            other[j] = 0.0
        for i in range(len(entries)):
            j = column(places, i)
            if other[j] != 0.0:  # only where x has no entry
                _add(sums, j, mass[b], _loss(scores, coef, j, other[j], y[b], numeric) - before)
                other[j] = 0.0
        if rate > 0.0:
            _slopes(scores, y[b], numeric, rate, x)
            for k in range(len(scores)):
                for i in range(len(x)):
                    coef[k, column(at, i)] -= scores[k] * x[i]
                intercept[k] -= scores[k]
    return 0


@compiled
def _add(sums: Floats, j: int, mass: float, more: float) -> None:
    sums[0, j] += mass * more
    sums[1, j] += mass * more * more


@compiled
def _loss(scores: Floats, coef: Floats, j: int, change: float, y: float, numeric: bool) -> float:
    """The loss if feature j is greater by ``change``."""
    first: float = scores[0] + coef[0, j] * change
    if numeric:
        return (first - y) * (first - y)
    if len(scores) == 1:
        return max(-y * first, 0.0) + math.log1p(math.exp(-abs(first)))
    greatest: float = first
    for k in range(1, len(scores)):
        greatest = max(greatest, scores[k] + coef[k, j] * change)
    total = 0.0
    for k in range(len(scores)):
        total += math.exp(scores[k] + coef[k, j] * change - greatest)
    right: float = scores[int(y)] + coef[int(y), j] * change
    return greatest + math.log(total) - right


@compiled
def _slopes(scores: Floats, y: float, numeric: bool, rate: float, x: Floats) -> None:
    """Turn scores into steps along x."""
    norm = 1.0  # how far a step along the row and the intercept moves the score
    for i in range(len(x)):
        norm += x[i] * x[i]
    if numeric:
        scores[0] = (scores[0] - y) * rate / (1.0 + rate * norm)
    elif len(scores) == 1:
        slope = -y / (1.0 + math.exp(min(y * scores[0], 700.0)))
        scores[0] = slope * rate / (1.0 + 0.25 * rate * norm)
    else:
        greatest = scores.max()
        total = 0.0
        for k in range(len(scores)):
            scores[k] = math.exp(scores[k] - greatest)
            total += scores[k]
        for k in range(len(scores)):
            slope = scores[k] / total - (1.0 if k == int(y) else 0.0)
            scores[k] = slope * rate / (1.0 + 0.5 * rate * norm)
