"""Numbers and counts: are the five relevant columns selected, and from which batch on?

A linear signal of five among J normal columns, with coefficients of 0.7 to 1.3 of either sign. The
target is the signal with noise of 1, the exponential of that, a count or a class. A figure "from
batch 5 on" is the worst of these batches, as a mean over the seeds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.answer.figures import Bench, Figure, Maker, judged
from benchmarks.answer.streams import MODELS, coefficients, columns, n_found, some, target

TITLE = "how many of 5 relevant columns are selected"
BATCH, N_RELEVANT = 100, 5


def found_by_batch(make: Maker, seed: int, n_features: int, kind: str, n_batches: int) -> Any:
    """How many relevant columns are selected after each batch."""
    rng = np.random.default_rng([seed, n_features])
    relevant = some(rng, n_features, N_RELEVANT)
    theta = coefficients(rng, N_RELEVANT, 0.7, 1.3)
    selector = make(N_RELEVANT, model=MODELS.get(kind, "auto"))
    found = []
    for _ in range(n_batches):
        X = columns(rng, BATCH, n_features)
        selector.partial_fit(X, target(rng, X[:, relevant] @ theta, kind))
        found.append(n_found(selector, relevant))
    return np.array(found)


def from_batch(
    bench: Bench, kind: str, n_features: int, first: int, asked: str, headline: bool
) -> Figure:
    """The worst batch from the first one on; after 1, 5, 20 and 50 batches beside it."""
    cases = [(seed, n_features, kind, 50) for seed in bench.seeds(5)]
    found = np.array(bench.map(found_by_batch, cases))
    worst = first - 1 + int(found.mean(axis=0)[first - 1 :].argmin())
    after = ", ".join(f"{batch}: {found[:, batch - 1].mean():.1f}" for batch in (1, 5, 20, 50))
    name = f"{kind}, J = {n_features}: from batch {first} on"
    note = f"; after batch {after}"
    shown = f"{kind}, J = {n_features}" if headline else ""
    return judged(name, found[:, worst], asked, note=note, digits=2, headline=shown)


def measure(bench: Bench) -> list[Figure]:
    """Linear and skewed targets, counts, and classes of a logistic model."""
    figures = [
        from_batch(bench, "numbers", J, 5, ">= 5", headline=J == 1_000) for J in (30, 200, 1_000)
    ]
    for kind in ("exp(1.5 y)", "exp(2 y)"):
        cases = [(seed, 200, kind, 200) for seed in bench.seeds(5)]
        last = [float(found[-1]) for found in bench.map(found_by_batch, cases)]
        figures.append(
            judged(f"{kind}, J = 200: after 20,000 rows", last, ">= 4.5", headline=kind, digits=2)
        )
    for kind in ("counts", "logistic"):
        figures += [
            from_batch(bench, kind, J, 20, ">= 4.5", headline=J == 1_000) for J in (200, 1_000)
        ]
    return figures
