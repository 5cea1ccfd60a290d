"""Nets and trees under imbalance, and after a drift."""

from __future__ import annotations

from typing import Any

from benchmarks.answer.figures import Bench, Figure, Maker, judged
from benchmarks.answer.streams import n_found
from fires.models import NeuralNet, SoftTree
from fires.streams.synthetic import KnownTruth

TITLE = "relevant of 5 that are selected after 20,000 rows of 50 features"
MODELS: dict[str, Any] = {"NeuralNet()": NeuralNet, "SoftTree()": SoftTree}
ASKED = {0.1: "", 0.05: ">= 4.5", 0.01: ">= 4"}


def found(make: Maker, seed: int, model: str, rate: float, drift_at: float) -> int:
    """How many relevant columns are selected in the end."""
    stream = KnownTruth(20_000, 50, 5, positive_rate=rate, drift_at=drift_at, random_state=seed)
    selector = make(5, model=MODELS[model](), random_state=seed)
    for batch in stream.batches(100):
        selector.partial_fit(batch.X, batch.y)
    return n_found(selector, stream.relevant_at(19_999))


def measure(bench: Bench) -> list[Figure]:
    """Three rates of positives; and a balanced stream whose features change half-way."""
    figures = []
    for model in MODELS:
        for rate, asked in ASKED.items():
            cases = [(seed, model, rate, 1.0) for seed in bench.seeds(3)]
            values = bench.map(found, cases)
            figures.append(judged(f"{model}, {rate:.0%} positives", values, asked, digits=2))
        values = bench.map(found, [(seed, model, 0.5, 0.5) for seed in bench.seeds(3)])
        figures.append(judged(f"{model}, 10,000 rows after a drift", values, digits=2))
    return figures
