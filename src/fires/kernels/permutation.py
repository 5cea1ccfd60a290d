"""How much the loss of a linear model grows when one feature is replaced, for all features.

If feature j takes another value, the score of a linear model changes by its coefficient times the
difference. So all J losses of a row cost O(J), where another model needs J predictions. The model
may learn from a row once it has been explained.
"""

from __future__ import annotations

import math

import numpy as np

from fires.core.belief import Floats
from fires.kernels.compiling import compiled
from fires.kernels.online import MOST, Ints


@compiled
def permute_rows(
    X: Floats,
    others: Floats,
    drawn: Ints,
    y: Floats,
    mass: Floats,
    coef: Floats,
    intercept: Floats,
    numeric: bool,
    rate: float,
    sums: Floats,
) -> int:
    """See ``naive.permute_plain``; 0, or -1 if a score is not finite."""
    scores = np.empty(len(intercept))
    for b in range(X.shape[0]):
        x, other = X[b], others[drawn[b]]
        for k in range(len(scores)):
            score = intercept[k]
            for j in range(len(x)):
                score += coef[k, j] * x[j]
            if not abs(score) <= MOST:
                return -1
            scores[k] = score
        before = _loss(scores, coef, 0, 0.0, y[b], numeric)
        for j in range(len(x)):
            more = _loss(scores, coef, j, other[j] - x[j], y[b], numeric) - before
            sums[0, j] += mass[b] * more
            sums[1, j] += mass[b] * more * more
        if rate > 0.0:
            _slopes(scores, y[b], numeric, rate, _reach(x))
            for k in range(len(scores)):
                for j in range(len(x)):
                    coef[k, j] -= scores[k] * x[j]
                intercept[k] -= scores[k]
    return 0


@compiled
def permute_csr(
    data: Floats,
    indices: Ints,
    indptr: Ints,
    other_data: Floats,
    other_indices: Ints,
    other_indptr: Ints,
    drawn: Ints,
    y: Floats,
    mass: Floats,
    coef: Floats,
    intercept: Floats,
    numeric: bool,
    rate: float,
    sums: Floats,
) -> int:
    """See ``naive.permute_plain``; entries that neither row has are not touched."""
    scores = np.empty(len(intercept))
    other = np.zeros(sums.shape[1])  # the row that values are taken from; zeros in between
    for b in range(len(indptr) - 1):
        first, end = indptr[b], indptr[b + 1]
        start, stop = other_indptr[drawn[b]], other_indptr[drawn[b] + 1]
        for k in range(len(scores)):
            score = intercept[k]
            for i in range(first, end):
                score += coef[k, indices[i]] * data[i]
            if not abs(score) <= MOST:
                return -1
            scores[k] = score
        before = _loss(scores, coef, 0, 0.0, y[b], numeric)
        for i in range(start, stop):
            other[other_indices[i]] = other_data[i]
        for i in range(first, end):
            j = indices[i]
            more = _loss(scores, coef, j, other[j] - data[i], y[b], numeric) - before
            sums[0, j] += mass[b] * more
            sums[1, j] += mass[b] * more * more
            other[j] = 0.0
        for i in range(start, stop):
            j = other_indices[i]
            if other[j] != 0.0:  # only where x has no entry
                more = _loss(scores, coef, j, other[j], y[b], numeric) - before
                sums[0, j] += mass[b] * more
                sums[1, j] += mass[b] * more * more
                other[j] = 0.0
        if rate > 0.0:
            _slopes(scores, y[b], numeric, rate, _reach(data[first:end]))
            for k in range(len(scores)):
                for i in range(first, end):
                    coef[k, indices[i]] -= scores[k] * data[i]
                intercept[k] -= scores[k]
    return 0


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
def _reach(x: Floats) -> float:
    """How far a step along the row and the intercept moves the score."""
    norm = 1.0
    for i in range(len(x)):
        norm += x[i] * x[i]
    return norm


@compiled
def _slopes(scores: Floats, y: float, numeric: bool, rate: float, norm: float) -> None:
    """Turn scores into steps along x."""
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
