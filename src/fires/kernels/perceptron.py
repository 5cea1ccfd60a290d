"""What a predictor does with a batch: scale and mask its rows, then learn from them one by one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels._compile import compiled

Indices = npt.NDArray[np.intp]


@compiled
def perceptron_pass(X: Floats, y: Floats, weights: Floats, bias: Floats) -> None:
    """Learn from every row of X in order, in place; ``y`` has a row of -1 and +1 per class."""
    for b in range(X.shape[0]):
        x = X[b]
        for k in range(weights.shape[0]):
            w = weights[k]
            score = bias[k]
            for j in range(len(x)):
                score += w[j] * x[j]
            if y[k, b] * score <= 0.0:
                for j in range(len(x)):
                    w[j] += y[k, b] * x[j]
                bias[k] += y[k, b]


def perceptron_pass_plain(
    X: Floats, y: Floats, weights: Floats, bias: Floats
) -> tuple[Floats, Floats]:
    """The definition of :func:`perceptron_pass`."""
    weights, bias = weights.copy(), bias.copy()
    for x, labels in zip(X, y.T, strict=True):
        wrong = labels * (weights @ x + bias) <= 0.0
        weights[wrong] += np.outer(labels[wrong], x)
        bias[wrong] += labels[wrong]
    return weights, bias


@compiled
def mask_rows(X: Floats, selected: Indices, shift: Floats, gain: Floats, rows: Floats) -> None:
    """Write ``(X - shift) * gain`` into the selected columns of ``rows``, missing ones as zeros."""
    for b in range(X.shape[0]):
        for i in range(len(selected)):
            j = selected[i]
            t = (X[b, j] - shift[j]) * gain[j]
            rows[b, j] = t if t == t else 0.0


@compiled
def column_sums(X: Floats, shift: Floats, count: Floats, p: Floats, q: Floats) -> None:
    """Add to ``count`` the rows in which a column is there; sums and squares about ``shift``."""
    p[:] = 0.0
    q[:] = 0.0
    for b in range(X.shape[0]):
        x = X[b]
        for j in range(len(x)):
            t = x[j] - shift[j]
            count[j] += 1.0 if t == t else 0.0
            t = t if t == t else 0.0
            p[j] += t
            q[j] += t * t
