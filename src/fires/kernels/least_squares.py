"""A linear regression that learns from rows one by one."""

from __future__ import annotations

import numpy as np

from fires.core.belief import Floats
from fires.kernels.compiling import compiled

RATE = 0.05
"""The share of a row's own error that one step removes."""
LIMIT = 3.0
"""An error counts for so many times the mean absolute error at the most."""
PACE = 0.01
"""The share of the latest row in the running mean absolute error."""


@compiled
def least_squares_pass(X: Floats, y: Floats, weights: Floats, own: Floats) -> None:
    """Learn from every row of X in order, in place; ``own`` holds the intercept and the mean error.

    See :class:`fires.predictors.LinearRegressor` for the formula.
    """
    for b in range(X.shape[0]):
        x = X[b]
        score, norm = own[0], 1.0
        for j in range(len(x)):
            score += weights[j] * x[j]
            norm += x[j] * x[j]
        error = y[b] - score
        size = abs(error)
        if own[1] > 0.0:
            limit = LIMIT * own[1]
            error = min(max(error, -limit), limit)
            own[1] += PACE * (min(size, limit) - own[1])
        else:
            own[1] = size
        step = RATE * error / norm
        for j in range(len(x)):
            weights[j] += step * x[j]
        own[0] += step


def least_squares_pass_plain(X: Floats, y: Floats, weights: Floats, own: Floats) -> None:
    """The definition of :func:`least_squares_pass`."""
    for x, value in zip(X, y, strict=True):
        error = value - (own[0] + weights @ x)
        size, limit = abs(error), LIMIT * own[1] if own[1] > 0.0 else np.inf
        own[1] = own[1] + PACE * (min(size, limit) - own[1]) if own[1] > 0.0 else size
        step = RATE * np.clip(error, -limit, limit) / (1.0 + x @ x)
        weights += step * x
        own[0] += step
