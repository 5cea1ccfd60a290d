"""Sparse rows lead to the choice that dense rows lead to, also where columns have a mean.

The same rows as an array and as CSR, to two selectors. Compared is what they select in the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.answer.figures import Bench, Figure, Maker
from benchmarks.answer.imbalance import rare_rows
from benchmarks.answer.streams import MODELS, coefficients, columns, target
from fires.streams.synthetic import KnownTruth

TITLE = "features that dense and CSR rows both lead to"
BATCH, N_BATCHES, K = 100, 100, 5

Rng = np.random.Generator
Shape = Callable[[Rng, int], Any]  # (generator, rows) -> the columns


def plain(rng: Rng, n_rows: int) -> Any:
    return columns(rng, n_rows, 30)


def with_mean(level: float, n_columns: int | None) -> Shape:
    """Normal columns, of which the first ones have this mean."""

    def shape(rng: Rng, n_rows: int) -> Any:
        X = columns(rng, n_rows, 30)
        X[:, :n_columns] += level
        return X

    return shape


def binary(fill: float, n_features: int) -> Shape:
    """Columns of 0 and 1."""
    return lambda rng, n_rows: (rng.random((n_rows, n_features)) < fill).astype(float)


def words(rng: Rng, n_rows: int) -> Any:
    """Counts of 1,000 words, the frequent ones first; most cells are 0."""
    rates = 0.5 / (1.0 + 0.1 * np.arange(1_000))
    return rng.poisson(rates, (n_rows, 1_000)).astype(float)


CASES: dict[str, tuple[Shape, str]] = {
    "best column +10": (with_mean(10.0, 1), "classes"),
    "all columns +100": (with_mean(100.0, None), "classes"),
    "binary columns, 99 % full": (binary(0.99, 100), "classes"),
    "binary columns, 1 % full": (binary(0.01, 100), "classes"),
    "binary columns, 20 % full": (binary(0.20, 100), "classes"),
    "words": (words, "classes"),
    "10 % positives, all columns +100": (with_mean(100.0, None), "10 % positives"),
    "numbers": (plain, "numbers"),
    "numbers, all columns +100": (with_mean(100.0, None), "numbers"),
    "numbers, 99 % full": (binary(0.99, 100), "numbers"),
    "counts": (plain, "counts"),
    "counts, all columns +100": (with_mean(100.0, None), "counts"),
    "logistic": (plain, "logistic"),
    "logistic, all columns +100": (with_mean(100.0, None), "logistic"),
}


def batches(seed: int, case: str) -> tuple[Any, list[tuple[Any, Any]], str]:
    """The relevant columns, batches, and the model."""
    rng = np.random.default_rng([seed, len(case)])
    if case.startswith("drift"):
        stream = KnownTruth(20_000, 50, K, drift_at=0.5, random_state=seed)
        pairs = [(batch.X, batch.y) for batch in stream.batches(BATCH)]
        return stream.relevant_at(19_999), pairs, "auto"
    if case.startswith("rare"):
        pairs = [rare_rows(rng, BATCH) for _ in range(200)]
        return np.arange(4), pairs, "auto"
    shape, kind = CASES[case]
    sample = shape(rng, 4_000)
    # The most frequent words matter; of other columns, the first ones, with the shifted one.
    theta = coefficients(rng, K, 0.7, 1.3) / sample[:, :K].std(axis=0)
    theta[0] *= 2.0
    centre = sample[:, :K].mean(axis=0)
    pairs = []
    for _ in range(N_BATCHES):
        X = shape(rng, BATCH)
        pairs.append((X, target(rng, (X[:, :K] - centre) @ theta, kind)))
    return np.arange(K), pairs, MODELS.get(kind, "auto")


def both(make: Maker, seed: int, case: str) -> tuple[Any, ...]:
    """Relevant found dense and sparse, common to both, whether the relevant are the same, ranks.

    The ranks are those of the first relevant column, which has the greatest coefficient.
    """
    relevant, pairs, model = batches(seed, case)
    chosen, ranks = [], []
    for form in (np.asarray, sp.csr_array):
        selector = make(K, model=model)
        for X, y in pairs:
            selector.partial_fit(form(X), y)
        chosen.append(set(selector.get_support(indices=True).tolist()))
        ranks.append(int(selector.ranking_[relevant[0]]))
    dense, sparse = (found & set(relevant.tolist()) for found in chosen)
    return len(dense), len(sparse), len(chosen[0] & chosen[1]), dense == sparse, tuple(ranks)


def measure(bench: Bench) -> list[Figure]:
    """Columns of every shape; every seed has to agree."""
    figures, seeds = [], bench.seeds(3)
    for case in (*CASES, "drift, 50 features", "rare class"):
        found = bench.map(both, [(seed, case) for seed in seeds])
        dense, sparse, common, same, ranks = zip(*found, strict=True)
        measured = (
            f"relevant: dense {np.mean(dense):.1f}, CSR {np.mean(sparse):.1f}, "
            f"the same on {sum(same)} of {len(same)}; common: {min(common)} of {K}; "
            f"rank of the best {' '.join(f'{a},{b}' for a, b in ranks)}"
        )
        asked = f"same, >= {K - 1} common"
        reached = all(same) and min(common) >= K - 1
        figures.append(Figure(case, measured, asked, reached, common))
    return figures
