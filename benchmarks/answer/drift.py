"""How soon the new features are selected after a drift, how often it is called without one.

First, ten of a hundred uniform columns decide a class, and after 10,000 batches ten others. Then
the streams of ``KnownTruth``, which have scales of five powers of ten, and a rare class.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from benchmarks.answer.figures import Bench, Figure, Maker, judged
from benchmarks.answer.streams import alarm_batches, columns, n_found, some
from fires.streams.synthetic import KnownTruth

TITLE = "batches or rows until 80 % of the new features are selected, alarms that are false, churn"
BATCH, BEFORE, AFTER = 50, 10_000, 200
KNOWN = (
    ((50, 5, 0.5), 900, "50 features, 5 relevant"),
    ((500, 10, 0.5), 1_100, "500 features, 10 relevant"),
    ((50, 5, 0.01), 2_500, "50 features, 5 relevant, 1 % positives"),
)
NEVER = 10_000  # rows after the drift in KnownTruth


def replaced(make: Maker, seed: int, before: int = BEFORE) -> tuple[float, int, int]:
    """Batches until 8 of the 10 new features are selected, and the two kinds of false alarms."""
    rng, selector = np.random.default_rng(seed), make(10)
    first, then = some(rng, 100, 20).reshape(2, 10)
    for t in range(before + AFTER):
        _learn_uniform(selector, rng, 100, first if t < before else then)
        if t >= before and n_found(selector, then) >= 8:
            break
        selector.get_support(indices=True)
    needed = t - before + 1 if n_found(selector, then) >= 8 else math.inf
    everywhere, single = alarm_batches(selector)
    return needed, sum(b < before for b in everywhere), sum(b < before for b in single)


def _learn_uniform(selector: Any, rng: np.random.Generator, n_features: int, relevant: Any) -> None:
    X = rng.random((BATCH, n_features))
    signal = (X[:, relevant] - 0.5).sum(axis=1) * math.sqrt(12.0)
    selector.partial_fit(X, (signal + rng.standard_normal(BATCH) > 0).astype(int))


def quiet(make: Maker, seed: int, kind: str) -> tuple[int, int]:
    """Alarms on a stream without drift: global ones, and those about one feature."""
    rng, selector = np.random.default_rng(seed), make(10)
    if kind == "500 features":
        relevant = some(rng, 500, 10)
        for _ in range(3_000):
            _learn_uniform(selector, rng, 500, relevant)
    else:
        relevant = some(rng, 100, 10)
        for _ in range(6_000):
            X = columns(rng, BATCH, 100, "AR(0.9)")
            signal = X[:, relevant].sum(axis=1) + rng.standard_normal(BATCH)
            selector.partial_fit(X, (signal > 0).astype(int))
    everywhere, single = alarm_batches(selector)
    return len(everywhere), len(single)


def known(
    make: Maker, seed: int, n_features: int, n_relevant: int, rate: float
) -> tuple[float, ...]:
    """Rows to 80 % of the new features, churn, and alarms before the drift."""
    stream = KnownTruth(
        20_000, n_features, n_relevant, drift_at=0.5, positive_rate=rate, random_state=seed
    )
    selector, (change,) = make(n_relevant), stream.drifts
    new, needed = stream.relevant_at(change), math.inf
    selected, kept = None, []
    for batch in stream.batches(100):
        selector.partial_fit(batch.X, batch.y)
        now = selector.get_support(indices=True)
        if selected is not None:
            kept.append(len(np.intersect1d(now, selected)) / n_relevant)
        selected = now
        rows = batch.position.rows
        if rows > change and len(np.intersect1d(now, new)) >= 0.8 * n_relevant:
            needed = min(needed, rows - change)
    false = sum(b < change // 100 for b in alarm_batches(selector)[0])
    return min(needed, NEVER), 1.0 - float(np.mean(kept)), false


def measure(bench: Bench) -> list[Figure]:
    """The long stream, three without drift, and the streams of KnownTruth."""
    figures = _long(bench)
    seeds = bench.seeds(3)
    for kind in ("AR(0.9)", "500 features"):
        found = bench.map(quiet, [(seed, kind) for seed in seeds])
        figures.append(_false(f"no drift, {kind}", [a for a, _ in found], [b for _, b in found]))
    seeds = bench.seeds(5)
    for settings, limit, what in KNOWN:
        cases = [(seed, *settings) for seed in seeds]
        rows, churn, false = zip(*bench.map(known, cases), strict=True)
        figures += [
            judged(
                f"{what}: rows", rows, f"<= {limit:,}", headline=f"drift, {what}: rows", digits=0
            ),
            judged(f"{what}: churn", churn, "<= 0.01", headline=f"drift, {what}: churn", digits=4),
            judged(f"{what}: false alarms", false, "<= 0", take=sum, digits=0),
        ]
    return figures


def _long(bench: Bench) -> list[Figure]:
    found = bench.map(replaced, [(seed,) for seed in bench.seeds(10)])
    needed = [min(batches, AFTER) for batches, _, _ in found]
    what = f"all replaced after {BEFORE:,} batches: "
    in_time = np.mean([batches <= 20 for batches in needed])
    shown = " ".join(f"{batches:.0f}" for batches in needed)
    return [
        Figure(what + "batches", shown, "", None, needed, "drift, all replaced: batches"),
        judged(what + "share of seeds within 20", [float(in_time)], ">= 0.9"),
        _false(what + "before", [a for _, a, _ in found], [b for _, _, b in found]),
    ]


def _false(what: str, everywhere: list[int], single: list[int]) -> Figure:
    note = f" global, {sum(single)} about one feature"
    total = sum(everywhere) + sum(single)
    values = [a + b for a, b in zip(everywhere, single, strict=True)]
    return Figure(f"{what}: false alarms", f"{sum(everywhere)}{note}", "<= 0", total == 0, values)
