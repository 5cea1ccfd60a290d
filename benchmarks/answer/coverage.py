"""How often the 95 % interval holds the true coefficient, and how wide it is.

Five columns decide a class through a probit of noise 1, with coefficients of 0.3 to 1 of either
sign. Columns have mean 0 and variance 1, so that the truth is on the scale of ``importances_``. The
hard case is that of the five among correlated columns: intervals of the others often hold 0 anyway.
"""

from __future__ import annotations

import numpy as np

from benchmarks.answer.figures import Bench, Figure, Maker, judged
from benchmarks.answer.streams import coefficients, columns, limits, some

TITLE = "share of 95 % intervals that hold the truth after 12,000 rows"
N_ROWS, BATCH, N_RELEVANT = 12_000, 100, 5
ASKED = {"independent": (0.85, 0.85), "three factors": (0.85, 0.85), "AR(0.9)": (0.80, 0.65)}


def cover(make: Maker, seed: int, n_features: int, kind: str) -> tuple[float, float, float]:
    """The share over the relevant columns, the share over all, and the mean sigma."""
    rng = np.random.default_rng([seed, n_features])
    theta = np.zeros(n_features)
    relevant = some(rng, n_features, N_RELEVANT)
    theta[relevant] = coefficients(rng, N_RELEVANT, 0.3, 1.0)
    X = columns(rng, N_ROWS, n_features, kind)
    y = (X @ theta + rng.standard_normal(N_ROWS) > 0).astype(int)
    selector = make(N_RELEVANT)
    for i in range(0, N_ROWS, BATCH):
        selector.partial_fit(X[i : i + BATCH], y[i : i + BATCH])
    low, high = limits(selector)
    inside = (low <= theta) & (theta <= high)
    sigma = selector.uncertainties_
    return float(inside[relevant].mean()), float(inside.mean()), float(sigma.mean())


def measure(bench: Bench) -> list[Figure]:
    """Three kinds of columns, forty and two hundred of them."""
    figures, seeds = [], bench.seeds(20)
    for kind, asked in ASKED.items():
        for n_features, limit in zip((40, 200), asked, strict=True):
            found = bench.map(cover, [(seed, n_features, kind) for seed in seeds])
            relevant, everywhere, sigma = zip(*found, strict=True)
            what = f"{kind}, J = {n_features}: "
            headline = f"coverage, {kind}, J = {n_features}"
            figures += [
                judged(what + "relevant columns", relevant, f">= {limit}", headline=headline),
                judged(what + "all columns", everywhere, "<= 0.998"),
                judged(what + "mean sigma", sigma, "<= 0.10"),
            ]
    return figures
