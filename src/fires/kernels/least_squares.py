"""A linear regression that learns from rows one by one."""

from __future__ import annotations

import scipy.sparse as sp

from fires.core.belief import Floats
from fires.kernels import Matrix, read_only
from fires.kernels.compiling import compiled
from fires.kernels.linear import Ints

RATE = 0.05
"""The share of a row's own error that one step removes."""
LIMIT = 3.0
"""An error counts for so many times the mean absolute error at the most."""
PACE = 0.01
"""The share of the latest row in the running mean absolute error."""


def least_squares_pass(X: Matrix, y: Floats, weights: Floats, own: Floats) -> None:
    """Learn from every row of X in order, in place; a sparse row costs what its entries cost.

    See :class:`fires.predictors.LinearRegressor` for the formula.
    """
    if sp.issparse(X):
        rows = X.tocsr()  # itself, if it is CSR
        least_squares_csr(*read_only(rows.data, rows.indices, rows.indptr), y, weights, own)
    else:
        least_squares_rows(X, y, weights, own)


@compiled
def least_squares_rows(X: Floats, y: Floats, weights: Floats, own: Floats) -> None:
    """See ``naive.least_squares_pass_plain``."""
    for b in range(X.shape[0]):
        x = X[b]
        score, norm = own[0], 1.0
        for j in range(len(x)):
            score += weights[j] * x[j]
            norm += x[j] * x[j]
        step = _step(y[b] - score, norm, own)
        for j in range(len(x)):
            weights[j] += step * x[j]
        own[0] += step


@compiled
def least_squares_csr(
    data: Floats, indices: Ints, indptr: Ints, y: Floats, weights: Floats, own: Floats
) -> None:
    """See ``naive.least_squares_pass_plain``."""
    for b in range(len(indptr) - 1):
        first, last = indptr[b], indptr[b + 1]
        score, norm = own[0], 1.0
        for i in range(first, last):
            score += weights[indices[i]] * data[i]
            norm += data[i] * data[i]
        step = _step(y[b] - score, norm, own)
        for i in range(first, last):
            weights[indices[i]] += step * data[i]
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
