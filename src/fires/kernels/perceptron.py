"""What a predictor does with batches: scale and mask their rows, then learn from them one by one.

``perceptron_steps`` does all of it for two classes, and for any number of batches in one call; the
others do a part of it each, for any number of classes and for predictors of any kind.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled, released
from fires.kernels.features import merge_plain

Indices = npt.NDArray[np.intp]

SHOWN = ("coef", "count", "shift", "spread", "gain")
"""What is known of each feature: the rows of the state of :func:`perceptron_steps`."""


@released
def perceptron_steps(
    X: Floats,
    codes: Indices,
    before: Indices,
    after: Indices,
    tests: bool,
    trains: bool,
    weight: float,
    states: Floats,
    biases: Floats,
    tiny: float,
    rows: Floats,
    sums: Floats,
    right: Indices,
) -> None:
    """Test a perceptron on each batch, then let it learn from it, and the scale with it.

    Parameters
    ----------
    X : ndarray (n_batches * n_rows, n_features), C-ordered
        The rows of batches of equal length; what is missing counts as 0 once it is scaled.
    codes : ndarray (n_batches * n_rows,)
        0 and 1.
    before, after : ndarray (n_batches, k)
        The features it is tested with on each batch, and those it learns with.
    tests, trains : bool
        Whether to test it, and whether to let it learn.
    weight : float
        What a row counts for the scale: 1, or 0 if it is to stay.
    states : ndarray (n_batches + 1, 5, n_features)
        The rows :data:`SHOWN` before the first batch; gets those after each, if it learns.
    biases : ndarray (n_batches + 1, 1)
        Likewise the intercept.
    tiny : float
        As in fires.kernels.features.merge.
    rows : ndarray (n_rows + 1, k)
        Scratch space.
    sums : ndarray (2, n_features)
        Scratch space.
    right : ndarray (n_batches,)
        Gets the number of rows that were predicted right.
    """
    n_batches, n_columns, k = before.shape[0], X.shape[1], before.shape[1]
    n_rows = len(codes) // n_batches
    weights, p, q = rows[n_rows], sums[0], sums[1]
    for batch in range(n_batches):
        first, n_right, bias = batch * n_rows, 0, biases[batch, 0]
        old, new = states[batch], states[batch + 1]
        for turn in range(0 if tests else 1, 2 if trains else 1):
            chosen = after[batch] if turn else before[batch]
            for i in range(k):
                weights[i] = old[0, chosen[i]]
            for b in range(n_rows):
                for i in range(k):
                    j = chosen[i]
                    t = (X[first + b, j] - old[2, j]) * old[4, j]
                    rows[b, i] = t if t == t else 0.0
            for b in range(n_rows):
                y, score = 1.0 if codes[first + b] else -1.0, bias
                for i in range(k):
                    score += weights[i] * rows[b, i]
                if turn == 0:
                    n_right += 1 if (score > 0.0) == (y > 0.0) else 0
                elif y * score <= 0.0:
                    for i in range(k):
                        weights[i] += y * rows[b, i]
                    bias += y
        right[batch] = n_right
        if not trains:
            continue
        biases[batch + 1, 0] = bias
        for j in range(n_columns):
            new[0, j], new[1, j] = old[0, j], old[1, j]
            p[j] = q[j] = 0.0
        for i in range(k):
            new[0, after[batch, i]] = weights[i]
        for b in range(n_rows):
            for j in range(n_columns):
                t = X[first + b, j] - old[2, j]
                new[1, j] += weight if t == t else 0.0
                t = weight * t if t == t else 0.0
                p[j] += t
                q[j] += t * t
        for j in range(n_columns):
            count = max(new[1, j], 1.0)
            change = p[j] / count
            centre = old[2, j] + change
            new[2, j] = centre
            new[3, j] = old[3, j] + q[j] - p[j] * change
            variance = new[3, j] / count
            spreads = variance > max(tiny * centre * centre, 1e-300)
            new[4, j] = 1.0 / np.sqrt(variance) if spreads else 0.0


def perceptron_steps_plain(
    X: Floats,
    codes: Indices,
    before: Indices,
    after: Indices,
    tests: bool,
    trains: bool,
    weight: float,
    states: Floats,
    biases: Floats,
    tiny: float,
    rows: Floats,
    sums: Floats,
    right: Indices,
) -> None:
    """The definition of :func:`perceptron_steps`; it needs no scratch space."""
    n_rows = len(codes) // len(right)
    for batch, (one, other) in enumerate(zip(before, after, strict=True)):
        coef, count, shift, spread, gain = states[batch].copy()
        bias, part = biases[batch].copy(), slice(batch * n_rows, (batch + 1) * n_rows)
        T, y = X[part] - shift, np.where(codes[part], 1.0, -1.0)
        scaled = np.nan_to_num(T * gain)
        right[batch] = 0
        if tests:
            score = scaled[:, one] @ coef[one] + bias
            right[batch] = np.count_nonzero((score > 0.0) == (y > 0.0))
        if trains:
            learnt = perceptron_pass_plain(scaled[:, other], y[None], coef[None, other], bias)
            coef[other], biases[batch + 1] = learnt[0][0], learnt[1]
            there = ~np.isnan(T)
            T = np.where(there, T, 0.0)
            count += weight * there.sum(axis=0)
            p, q = weight * T.sum(axis=0), weight * np.einsum("bj,bj->j", T, T)
            states[batch + 1] = coef, count, *merge_plain(count, shift, spread, p, q, tiny)


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
