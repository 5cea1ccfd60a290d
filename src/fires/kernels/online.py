"""Linear learners that go row by row: each row moves the coefficients that the next one meets.

Every loop is written once and compiled for dense rows and for CSR: what :func:`row` and
:func:`column` mean is settled at compile time. Loops change arrays with one entry per feature in
place; ``tests/naive.py`` defines them in NumPy. X has no missing entries. ``y`` holds -1 and 1, and
numbers for least squares. If the score of a row is not finite, a selector's loop ends with the
result -1, and the caller restores what was there before. Results do not depend on how rows are cut
into batches, to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import overload

from fires.core.belief import Floats
from fires.kernels.compiling import compiled, inner, read_only

Ints: TypeAlias = npt.NDArray[np.int64]
Four: TypeAlias = tuple[float, float, float, float]

MOST = float(np.finfo(np.float64).max)


# --- dense or CSR -------------------------------------------------------------------------------


class Dense(NamedTuple):
    """Rows of a C-ordered array."""

    X: Floats


class Csr(NamedTuple):
    """Rows of a CSR matrix."""

    data: Floats
    indices: Ints
    indptr: Ints


Rows: TypeAlias = Dense | Csr


def as_rows(X: Any) -> Rows:
    """A dense array or a CSR matrix as the loops take it, read-only."""
    if isinstance(X, np.ndarray):
        return Dense(*read_only(X))
    X = X.tocsr()  # itself, if it is CSR
    return Csr(*read_only(X.data, X.indices, X.indptr))


@inner
def row(rows: Rows, b: int) -> tuple[Ints | None, Floats]:
    """Where the entries of a row are, None for everywhere, and the entries."""
    return _row(rows, b)


def column(at: Ints | None, i: int) -> int:
    """The column of an entry of a row, by what :func:`row` said of them."""
    raise NotImplementedError("compiled loops only")


def _row(rows: Rows, b: int) -> tuple[Ints | None, Floats]:
    raise NotImplementedError("compiled loops only")


@overload(_row, strict=False)
def _row_of(rows: Any, b: Any) -> Callable[..., Any]:
    if rows.instance_class is Dense:
        return lambda rows, b: (None, rows.X[b])

    def entries(rows: Csr, b: int) -> tuple[Ints, Floats]:
        here = slice(rows.indptr[b], rows.indptr[b + 1])
        return rows.indices[here], rows.data[here]

    return entries


@overload(column, strict=False)
def _column_of(at: Any, i: Any) -> Callable[..., Any]:
    return (lambda at, i: i) if isinstance(at, types.NoneType) else (lambda at, i: at[i])


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


RATE = 0.05
"""The share of a row's own error that one step removes."""
LIMIT = 3.0
"""An error counts for so many times the mean absolute error at the most."""
PACE = 0.01
"""The share of the latest row in the running mean absolute error."""


@compiled
def least_squares_pass(rows: Rows, y: Floats, weights: Floats, own: Floats) -> None:
    """See ``naive.least_squares_pass_plain``; ``own``: the intercept and the mean error."""
    for b in range(len(y)):
        at, x = row(rows, b)
        score, norm = own[0], 1.0
        for i in range(len(x)):
            score += weights[column(at, i)] * x[i]
            norm += x[i] * x[i]
        step = _step(y[b] - score, norm, own)
        for i in range(len(x)):
            weights[column(at, i)] += step * x[i]
        own[0] += step


@compiled
def _step(error: float, norm: float, own: Floats) -> float:
    """How far to go along a row; the mean error takes the row in."""
    size = abs(error)
    if own[1] > 0.0:
        limit = LIMIT * own[1]
        error = min(max(error, -limit), limit)
        own[1] += PACE * (min(size, limit) - own[1])
    else:
        own[1] = size
    return RATE * error / norm


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
        _move_bias(bias, y[b], promotion * (1.0 + share), demotion * (1.0 - share))


@compiled
def _move_bias(bias: Floats, sign: float, more: float, less: float) -> None:
    up, down = (0, 1) if sign > 0.0 else (1, 0)
    bias[up] = min(max(bias[up] * more, LEAST), GREATEST)
    bias[down] = min(max(bias[down] * less, LEAST), GREATEST)


# --- logistic regression by FTRL-proximal -------------------------------------------------------


@compiled
def ftrl(
    rows: Rows, y: Floats, z: Floats, root: Floats, bias: Floats, intercept: bool, settings: Four
) -> int:
    """See ``naive.ftrl_plain``; ``bias`` holds z and root of the intercept.

    z and the root of n are stored: every row needs the root, none needs n itself.
    """
    rate, beta, l1, l2 = settings
    longest = 0
    for b in range(len(y)):
        longest = max(longest, len(row(rows, b)[1]))
    w = np.empty(longest)
    drag, inverse = beta + rate * l2, 1.0 / rate
    for b in range(len(y)):
        at, x = row(rows, b)
        score = _coefficient(bias[0], bias[1], rate, drag, 0.0) if intercept else 0.0
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
            own = _coefficient(bias[0], bias[1], rate, drag, 0.0)
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
