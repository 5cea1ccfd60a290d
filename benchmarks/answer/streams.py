"""Streams whose truth is known, and questions that several parts ask."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import expit

Rng = np.random.Generator


def some(rng: Rng, n_features: int, n_relevant: int) -> Any:
    """Columns that matter, in random order."""
    return rng.permutation(n_features)[:n_relevant]


def coefficients(rng: Rng, size: int, low: float, high: float) -> Any:
    """Coefficients between two limits, of either sign."""
    return rng.choice([-1.0, 1.0], size) * rng.uniform(low, high, size)


def columns(rng: Rng, n_rows: int, n_features: int, kind: str = "independent") -> Any:
    """Normal columns of variance 1: independent, with "three factors" in common, or "AR(0.9)".

    The loadings of the factors are drawn from the first numbers of ``rng``: hand over the same
    generator for all rows of a stream, or draw them all at once.
    """
    if kind == "independent":
        return rng.standard_normal((n_rows, n_features))
    if kind == "three factors":
        loadings = rng.standard_normal((3, n_features))
        own = rng.standard_normal((n_rows, n_features))
        X = rng.standard_normal((n_rows, 3)) @ loadings + own
        return X / np.sqrt((loadings**2).sum(axis=0) + 1.0)
    X = rng.standard_normal((n_rows, n_features))
    for j in range(1, n_features):
        X[:, j] = 0.9 * X[:, j - 1] + math.sqrt(1.0 - 0.81) * X[:, j]
    return X


def target(rng: Rng, signal: Any, kind: str) -> Any:
    """A target of a signal whose variance is about 5, as the parts use it."""
    noise = rng.standard_normal(len(signal))
    if kind == "numbers":
        return signal + noise
    if kind.startswith("exp"):  # exp(1.5 y) of a y of variance 1
        return np.exp(float(kind[4:].split()[0]) * (signal + noise) / math.sqrt(6.0))
    if kind == "counts":
        return rng.poisson(np.exp(0.3 * signal)).astype(float)
    if kind == "logistic":
        return (rng.random(len(signal)) < expit(signal)).astype(int)
    limit = 1.28 * math.sqrt(6.0) if kind == "10 % positives" else 0.0
    return (signal + noise > limit).astype(int)


MODELS = {"counts": "poisson", "logistic": "logistic"}
"""The model of a target, where "auto" would not take it."""


def n_found(selector: Any, relevant: Any) -> int:
    """How many of these features are selected."""
    return len(np.intersect1d(selector.get_support(indices=True), relevant))


def alarm_batches(selector: Any) -> tuple[list[int], list[int]]:
    """The batches of the global alarms, and of those about one feature; counted from 0."""
    everywhere: list[int] = []
    single: list[int] = []
    for alarm in getattr(selector, "alarms_", ()):
        batch, feature = (alarm.batch, alarm.feature) if hasattr(alarm, "batch") else alarm[1:3]
        (everywhere if feature is None else single).append(int(batch))
    return everywhere, single


def limits(selector: Any) -> tuple[Any, Any]:
    """The ends of the 95 % interval of every importance."""
    if hasattr(selector, "interval"):
        ends = np.asarray(selector.interval(0.95))
        low, high = ends if ends.shape[0] == 2 else ends.T
        return low, high
    half = 1.959964 * selector.uncertainties_
    return selector.importances_ - half, selector.importances_ + half
