"""Streams that break what the model assumes: columns and noise in time, coefficients that move.

Each function makes one piece, and a stream is put together from them: columns, the signal of
coefficients that may move, noise or a level, and a target.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.signal import lfilter
from scipy.stats import norm

from benchmarks.answer.streams import Rng, some

BATCH = 100
SIZES = np.array([1.0, 0.8, 0.7, 0.6, 0.5])


# --- columns and noise --------------------------------------------------------------------------


def in_time(rng: Rng, shape: tuple[int, ...], r: float) -> Any:
    """AR(r) down the rows, of mean 0 and variance 1 from the first row on; a walk if r is 1."""
    steps = rng.standard_normal(shape)
    if r == 1.0:
        return steps.cumsum(axis=0)
    steps[1:] *= math.sqrt(1.0 - r * r)
    return lfilter([1.0], [1.0, -r], steps, axis=0)


def standardised(X: Any) -> Any:
    """Of mean 0 and variance 1 in these rows: slow columns are not, and importances are by the sd.

    In 12,000 rows of AR(0.99) the standard deviation is off by 7 %, far more than an interval.
    """
    return (X - X.mean(axis=0)) / X.std(axis=0)


def stretches(rng: Rng, n_rows: int, values: tuple[float, float], shortest: int = 200) -> Any:
    """Two values in turns, each for ``shortest`` to three times as many rows."""
    lengths = rng.integers(shortest, 3 * shortest, n_rows // shortest + 1)
    return np.repeat(np.resize(values, len(lengths)), lengths)[:n_rows]


def season(n_rows: int, amplitude: float, period: float) -> Any:
    """A sine over the rows."""
    return amplitude * np.sin(2.0 * np.pi * np.arange(n_rows) / period)


# --- coefficients -------------------------------------------------------------------------------


def theta(rng: Rng, n_features: int, sizes: Any = SIZES) -> Any:
    """Coefficients of these sizes, of random sign, at random columns; 0 elsewhere."""
    found = np.zeros(n_features)
    found[some(rng, n_features, len(sizes))] = sizes * rng.choice([-1.0, 1.0], len(sizes))
    return found


def replaced(rng: Rng, old: Any, n_replaced: int) -> Any:
    """The same, but so many of the coefficients at columns that had none."""
    new, leave = old.copy(), rng.permutation(np.flatnonzero(old))[:n_replaced]
    enter = rng.permutation(np.flatnonzero(old == 0.0))[:n_replaced]
    new[enter], new[leave] = old[leave], 0.0
    return new


def moving(X: Any, old: Any, new: Any, share: Any) -> Any:
    """The signal, where ``share`` of a row goes from 0 (the old coefficients) to 1 (the new)."""
    return (1.0 - share) * (X @ old) + share * (X @ new)


def step(n_rows: int, at: int) -> Any:
    """0 before this row, then 1."""
    return (np.arange(n_rows) >= at).astype(float)


def ramp(n_rows: int, at: int) -> Any:
    """0 before this row, then up to 1 at the last."""
    return np.clip((np.arange(n_rows) - at + 1) / (n_rows - at), 0.0, 1.0)


# --- targets ------------------------------------------------------------------------------------


def target(kind: str, seen: Any) -> Any:
    """What is seen, as "numbers", or whether it is above 0, as "classes"."""
    return seen if kind == "numbers" else (seen > 0.0).astype(int)


def limit(share: Any, signal: Any) -> Any:
    """What is to be added to signal and noise for this share of positives."""
    return norm.ppf(share) * math.sqrt(1.0 + float(np.var(signal)))


def overdispersed(rng: Rng, log_mean: Any, shape: float) -> Any:
    """Negative binomial counts: their variance is mean + mean^2 / shape."""
    rate = np.exp(log_mean) * rng.gamma(shape, 1.0 / shape, len(log_mean))
    return rng.poisson(rate).astype(float)


def softmax(rng: Rng, scores: Any) -> Any:
    """The class of a row, by the softmax of its scores."""
    return (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)


# --- learning -----------------------------------------------------------------------------------


def learning(selector: Any, X: Any, y: Any) -> Iterator[int]:
    """How many rows have been learnt, after each batch."""
    for i in range(0, len(y), BATCH):
        selector.partial_fit(X[i : i + BATCH], y[i : i + BATCH])
        yield i + len(y[i : i + BATCH])


def learnt(selector: Any, X: Any, y: Any) -> Any:
    """The selector after all rows."""
    for _ in learning(selector, X, y):
        pass
    return selector
