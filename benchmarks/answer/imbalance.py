"""Rare classes: two classes of 10, 5 and 1 % positives, and one class in two hundred of four.

Of the four classes, columns 0 and 1 tell the frequent ones apart, and only 2 and 3 tell the rare
one: by three standard deviations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.answer.figures import Bench, Figure, Maker, judged
from benchmarks.answer.streams import n_found
from fires.streams.synthetic import KnownTruth

TITLE = "relevant of 5 that are selected after 20,000 rows, and the ranks of a rare class's columns"
SHARES = (0.4, 0.3, 0.295, 0.005)
# Row: class; column: where its rows lie in the first four columns.
CENTRES = np.array(
    [[-1.0, 0.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 3.0, -3.0]]
)


def rare_rows(rng: np.random.Generator, n_rows: int) -> tuple[Any, Any]:
    """Rows of four classes in thirty columns."""
    y = rng.choice(4, n_rows, p=SHARES)
    X = rng.standard_normal((n_rows, 30))
    X[:, :4] += CENTRES[y]
    return X, y


def positives(make: Maker, seed: int, rate: float) -> int:
    """How many of five relevant columns are selected in the end."""
    stream = KnownTruth(20_000, 50, 5, positive_rate=rate, random_state=seed)
    selector = make(5, random_state=seed)
    for batch in stream.batches(100):
        selector.partial_fit(batch.X, batch.y)
    return n_found(selector, stream.relevant_at(0))


def ranks(make: Maker, seed: int) -> tuple[int, int]:
    """The ranks of the two columns that tell the rare class, the better one first."""
    rng, selector = np.random.default_rng(seed), make(5, random_state=seed)
    for _ in range(200):
        selector.partial_fit(*rare_rows(rng, 100))
    first, second = sorted(int(selector.ranking_[j]) for j in (2, 3))
    return first, second


def measure(bench: Bench) -> list[Figure]:
    """Linear models; nets and trees have a part of their own."""
    figures = []
    for rate in (0.1, 0.05, 0.01):
        found = bench.map(positives, [(seed, rate) for seed in bench.seeds(5)])
        what = f"{rate:.0%} positives"
        figures.append(
            judged(what, found, ">= 4.5", headline=what if rate == 0.01 else "", digits=2)
        )
    found = bench.map(ranks, [(seed,) for seed in bench.seeds(10)])
    shown = " ".join(f"{first},{second}" for first, second in found)
    worst = [second for _, second in found]
    share = float(np.mean([second <= 5 for second in worst]))
    return [
        *figures,
        Figure(
            "a class of 0.5 %: ranks of its columns", shown, "", None, worst, "rare class: rank"
        ),
        judged("a class of 0.5 %: share of seeds with both in the top 5", [share], ">= 1"),
    ]
