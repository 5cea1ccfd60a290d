"""Logistic regression by FTRL-proximal, row by row (see ``sequential`` for how it is built).

z and the root of n are stored: every row needs the root, none needs n itself.
"""

from __future__ import annotations

import math

import numpy as np

from fires.core.belief import Floats
from fires.kernels.compiling import compiled
from fires.kernels.sequential import MOST, Four, Ints


@compiled
def ftrl_rows(
    X: Floats,
    y: Floats,
    z: Floats,
    root: Floats,
    bias: Floats,
    intercept: bool,
    settings: Four,
) -> int:
    """See ``naive.ftrl_plain``; ``bias`` holds z and root of the intercept."""
    rate, beta, l1, l2 = settings
    w = np.empty(len(z))
    drag, inverse = beta + rate * l2, 1.0 / rate
    for b in range(X.shape[0]):
        x = X[b]
        score = _coefficient(bias[0], bias[1], rate, drag, 0.0) if intercept else 0.0
        for j in range(len(x)):
            w[j] = _coefficient(z[j], root[j], rate, drag, l1)
            score += w[j] * x[j]
        if not abs(score) <= MOST:
            return -1
        slope = -y[b] / (1.0 + math.exp(y[b] * score))
        for j in range(len(x)):
            g = slope * x[j]
            longer = np.sqrt(root[j] * root[j] + g * g)
            z[j] += g - (longer - root[j]) * inverse * w[j]
            root[j] = longer
        if intercept:
            _move_bias(bias, slope, rate, drag)
    return 0


@compiled
def ftrl_csr(
    data: Floats,
    indices: Ints,
    indptr: Ints,
    y: Floats,
    z: Floats,
    root: Floats,
    bias: Floats,
    intercept: bool,
    settings: Four,
) -> int:
    """See ``naive.ftrl_plain``."""
    rate, beta, l1, l2 = settings
    drag, inverse = beta + rate * l2, 1.0 / rate
    for b in range(len(indptr) - 1):
        score = _coefficient(bias[0], bias[1], rate, drag, 0.0) if intercept else 0.0
        for i in range(indptr[b], indptr[b + 1]):
            j = indices[i]
            score += _coefficient(z[j], root[j], rate, drag, l1) * data[i]
        if not abs(score) <= MOST:
            return -1
        slope = -y[b] / (1.0 + math.exp(y[b] * score))
        for i in range(indptr[b], indptr[b + 1]):
            j = indices[i]
            w = _coefficient(z[j], root[j], rate, drag, l1)
            g = slope * data[i]
            longer = np.sqrt(root[j] * root[j] + g * g)
            z[j] += g - (longer - root[j]) * inverse * w
            root[j] = longer
        if intercept:
            _move_bias(bias, slope, rate, drag)
    return 0


@compiled
def _coefficient(z: float, root: float, rate: float, drag: float, l1: float) -> float:
    # np.divide, since / would test every divisor for zero, and the loop would not vectorise.
    size: float = max(abs(z) - l1, 0.0) * np.divide(rate, drag + root)
    return -size if z > 0.0 else size


@compiled
def _move_bias(bias: Floats, slope: float, rate: float, drag: float) -> None:
    w = _coefficient(bias[0], bias[1], rate, drag, 0.0)
    longer = np.sqrt(bias[1] * bias[1] + slope * slope)
    bias[0] += slope - (longer - bias[1]) / rate * w
    bias[1] = longer


def coefficients_plain(z: Floats, root: Floats, l1: float | Floats, settings: Four) -> Floats:
    """The coefficients that z and the root of n stand for."""
    rate, beta, _, l2 = settings
    w: Floats = -np.sign(z) * np.maximum(np.abs(z) - l1, 0.0) / ((beta + root) / rate + l2)
    return w
