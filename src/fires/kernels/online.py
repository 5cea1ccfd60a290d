"""Linear learners that go row by row: each row moves the coefficients that the next one meets.

Every loop is written once and compiled for dense rows and for CSR: what ``row`` and
``column`` mean is settled at compile time. Loops change arrays with one entry per feature in
place; ``tests/naive.py`` defines them in NumPy. X has no missing entries. ``y`` holds -1 and 1, and
numbers for least squares. If the score of a row is not finite, a selector's loop ends with the
result -1, and the caller restores what was there before. Results do not depend on how rows are cut
into batches, to the last bit.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from fires.core.types import Floats
from fires.kernels.compiling import compiled
from fires.kernels.linear import Rows, column, row

Four: TypeAlias = tuple[float, float, float, float]

MOST = float(np.finfo(np.float64).max)


# --- predictors ---------------------------------------------------------------------------------


@compiled
def perceptron_pass(rows: Rows, y: Floats, weights: Floats, bias: Floats) -> None:
    """See ``naive.perceptron_pass_plain``; y has a row for each row of weights."""
    for b in range(y.shape[1]):
        at, x = row(rows, b)
        for k in range(weights.shape[0]):
            w = weights[k]
            score = bias[k]
            for i in range(len(x)):
                score += w[column(at, i)] * x[i]
            if y[k, b] * score <= 0.0:
                for i in range(len(x)):
                    w[column(at, i)] += y[k, b] * x[i]
                bias[k] += y[k, b]


# The share of a row's own error that one step removes.
RATE = 0.05
# An error counts for so many times the mean absolute error at the most.
LIMIT = 3.0
# The share of the latest row in the running mean absolute error.
PACE = 0.01


@compiled
def least_squares_pass(rows: Rows, y: Floats, weights: Floats, own: Floats) -> None:
    """See ``naive.least_squares_pass_plain``; ``own``: the intercept and the mean error."""
    for b in range(len(y)):
        at, x = row(rows, b)
        score, norm = own[0], 1.0
        for i in range(len(x)):
            score += weights[column(at, i)] * x[i]
            norm += x[i] * x[i]
        error, size = y[b] - score, abs(y[b] - score)
        if own[1] > 0.0:
            limit = LIMIT * own[1]
            error = min(max(error, -limit), limit)
            own[1] += PACE * (min(size, limit) - own[1])
        else:
            own[1] = size
        step = RATE * error / norm
        for i in range(len(x)):
            weights[column(at, i)] += step * x[i]
        own[0] += step


# --- the modified balanced Winnow ---------------------------------------------------------------

GREATEST, LEAST = 2.0**200, 2.0**-200


@compiled
def winnow(rows: Rows, y: Floats, u: Floats, v: Floats, bias: Floats, settings: Four) -> None:
    """See ``naive.winnow_plain``; ``bias`` holds u and v of the bias feature."""
    promotion, demotion, threshold, margin = settings
    for b in range(len(y)):
        at, x = row(rows, b)
        score, total = bias[0] - bias[1], 1.0
        for i in range(len(x)):
            score += (u[column(at, i)] - v[column(at, i)]) * x[i]
            total += abs(x[i])
        if y[b] * (score / total - threshold) > margin:
            continue
        up, down = (u, v) if y[b] > 0.0 else (v, u)
        share = 1.0 / total
        for i in range(len(x)):
            j, t = column(at, i), x[i] * share
            more = min(max(up[j] * (promotion * (1.0 + t)), LEAST), GREATEST)
            less = min(max(down[j] * (demotion * (1.0 - t)), LEAST), GREATEST)
            up[j] = more if x[i] != 0.0 else up[j]
            down[j] = less if x[i] != 0.0 else down[j]
        raised = 0 if y[b] > 0.0 else 1
        for i in range(2):
            factor = promotion * (1.0 + share) if i == raised else demotion * (1.0 - share)
            bias[i] = min(max(bias[i] * factor, LEAST), GREATEST)


# --- logistic regression by FTRL-proximal -------------------------------------------------------


@compiled
def ftrl(
    rows: Rows, y: Floats, z: Floats, root: Floats, bias: Floats, intercept: bool, settings: Four
) -> int:
    """See ``naive.ftrl_plain``; ``bias`` holds z and root of the intercept.

    z and the root of n are stored: every row needs the root, none needs n itself.
    """
    rate, beta, l1, l2 = settings
    drag, inverse = beta + rate * l2, 1.0 / rate
    for b in range(len(y)):
        at, x = row(rows, b)
        w, own = np.empty(len(x)), _coefficient(bias[0], bias[1], rate, drag, 0.0)
        score = own if intercept else 0.0
        for i in range(len(x)):
            j = column(at, i)
            w[i] = _coefficient(z[j], root[j], rate, drag, l1)
            score += w[i] * x[i]
        if not abs(score) <= MOST:
            return -1
        slope = -y[b] / (1.0 + math.exp(y[b] * score))
        for i in range(len(x)):
            j, g = column(at, i), slope * x[i]
            longer = np.sqrt(root[j] * root[j] + g * g)
            z[j] += g - (longer - root[j]) * inverse * w[i]
            root[j] = longer
        if intercept:
            longer = np.sqrt(bias[1] * bias[1] + slope * slope)
            bias[0] += slope - (longer - bias[1]) / rate * own
            bias[1] = longer
    return 0


@compiled
def _coefficient(z: float, root: float, rate: float, drag: float, l1: float) -> float:
    # np.divide, since / would test every divisor for zero, and the loop would not vectorise.
    size: float = max(abs(z) - l1, 0.0) * np.divide(rate, drag + root)
    return -size if z > 0.0 else size


def coefficients_plain(z: Floats, root: Floats, l1: float | Floats, settings: Four) -> Floats:
    """The coefficients that z and the root of n stand for."""
    rate, beta, _, l2 = settings
    return -np.sign(z) * np.maximum(np.abs(z) - l1, 0.0) / ((beta + root) / rate + l2)


# --- OLI2DS: columns that come and go, weighed by their variances -------------------------------


@compiled
def oli2ds(
    rows: Rows, y: Floats, theta: Floats, mean: Floats, own: Floats, settings: tuple[float, float]
) -> int:
    """See ``naive.oli2ds_plain``; ``own``: rows with entries, negative rows, positive rows."""
    w, squares, count, last = theta[0], theta[1], theta[2], theta[3]
    limit, rate = settings
    for b in range(len(y)):
        at, x = row(rows, b)
        t, spread = own[0], np.zeros(2)  # of features that the last row had, and of others
        score, norm = np.zeros(2), np.zeros(2)
        if t > 0.0:
            own[2 if y[b] > 0.0 else 1] += 1.0
        for i in range(len(x)):
            if x[i] != 0.0:
                j = column(at, i)
                count[j] += 1.0
                off = x[i] - mean[j]
                mean[j] += off / count[j]
                squares[j] += off * (x[i] - mean[j])
                side = 0 if last[j] == t else 1
                spread[side] += squares[j] / count[j]
                score[side] += w[j] * x[i]
                norm[side] += x[i] * x[i]
        length = norm[0] + norm[1]
        if length == 0.0:
            continue
        total = spread[0] + spread[1]
        share = spread[0] / total if total > 0.0 else 1.0
        predicted = share * score[0] + (1.0 - share) * score[1]
        if not (abs(predicted) <= MOST and length <= MOST):
            return -1
        length = share * share * norm[0] + (1.0 - share) * (1.0 - share) * norm[1]
        loss = max(0.0, 1.0 - y[b] * predicted)
        rarity = own[1 if y[b] > 0.0 else 2] / max(own[1] + own[2], 1.0)
        step = y[b] * rarity * rate * min(limit, loss / length if length > 0.0 else loss)
        for i in range(len(x)):
            if x[i] != 0.0:
                j = column(at, i)
                w[j] += step * (share if last[j] == t else 1.0 - share) * x[i]
                last[j] = t + 1.0
        own[0] += 1.0
    return 0
