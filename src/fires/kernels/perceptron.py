"""A perceptron that learns from rows one by one."""

from __future__ import annotations

import numpy as np

from fires.core.belief import Floats
from fires.kernels.compiling import compiled


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
