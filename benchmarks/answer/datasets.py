"""Six data sets of the paper: accuracy of a Perceptron on what is selected, and stability.

Rows are tested before they are learnt from. Selector and Perceptron see online-standardised
columns, the Perceptron with zeros where a column is not selected. Tasks are the paper's, all of two
classes: KDD tells normal from attacks, MNIST the digit 3 from the others. Spambase, KDD and Dota
come in random order, at most 15,000 rows of each data set.

With several seeds, each is another order of the rows, and another seed of the Perceptron. Usenet
has an order of its own, which is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.linear_model import Perceptron

from benchmarks.answer.figures import Bench, Figure, Maker, judged
from fires import stability
from fires.bench.datasets.loading import load
from fires.evaluation.loop import prequential

TITLE = "accuracy, stability over 10 batches, stability of the whole run"
NAMES = ("Spambase", "Usenet", "Madelon", "Dota", "KDD", "MNIST")
SETTINGS = ((25, 0.1), (100, 0.2))
N_ROWS = 15_000
# Mean accuracy over five orders of the gradient update, before the Bayesian one became the default.
GRADIENT = dict(zip(NAMES, (0.8078, 0.5670, 0.5278, 0.5144, 0.9638, 0.9251), strict=True))


@lru_cache(maxsize=2)
def rows(name: str, seed: int) -> tuple[Any, Any]:
    """The rows of a data set in the order of this seed; seed 0 is that of the loader."""
    if name in ("Usenet", "Madelon", "MNIST"):
        X, y = load(name, n_rows=None if seed else N_ROWS, download=False).to_arrays(np.float32)
        if seed and name != "Usenet":
            order = np.random.default_rng(seed).permutation(len(y))[:N_ROWS]
            X, y = X[order], y[order]
    else:
        X, y = load(name, n_rows=N_ROWS, seed=seed, download=False).to_arrays(np.float32)
    return X.astype(np.float64), y


def run(make: Maker, name: str, seed: int, batch_size: int, share: float) -> tuple[float, ...]:
    """Accuracy, mean stability over 10 batches, stability of all sets that were selected."""
    X, y = rows(name, seed)
    k = max(1, int(share * X.shape[1]))
    batches = ((X[i : i + batch_size], y[i : i + batch_size]) for i in range(0, len(y), batch_size))
    steps = list(
        prequential(
            batches, make(k), Perceptron(random_state=seed), classes=np.unique(y), window=10
        )
    )
    tested = [(s.scores["accuracy"], s.n_rows) for s in steps if s.scores["accuracy"] >= 0.0]
    accuracy = np.average([a for a, _ in tested], weights=[n for _, n in tested])
    masks = np.zeros((len(steps), X.shape[1]), dtype=bool)
    for i, step in enumerate(steps):
        masks[i, step.selected] = True
    windows = float(np.nanmean([step.stability for step in steps]))
    return float(accuracy), windows, float(stability(masks))


def measure(bench: Bench) -> list[Figure]:
    """Two settings of each data set, and the mean over all."""
    seeds = bench.seeds(1)
    cases = [(name, seed, *setting) for name in NAMES for seed in seeds for setting in SETTINGS]
    found = np.array(bench.map(run, cases)).reshape(len(NAMES), len(seeds), len(SETTINGS), 3)
    figures = [_line(name, found[i].mean(axis=1)) for i, name in enumerate(NAMES)]
    below = {name: GRADIENT[name] - found[i, :, :, 0].mean() for i, name in enumerate(NAMES)}
    worst = max(below, key=lambda name: below[name])
    enough = len(seeds) >= 5  # a single order is no figure
    figures.append(
        Figure(
            "furthest below the gradient update",
            f"{worst}: {below[worst]:+.4f}",
            "<= 0.01" if enough else "",
            bool(below[worst] <= 0.01) if enough else None,
        )
    )
    for s, (batch_size, share) in enumerate(SETTINGS):
        name = f"mean, batch {batch_size}, {share:.0%} of the features"
        figures.append(_line(name, found[:, :, s].mean(axis=0)))
    accuracy, windows, whole = found.mean(axis=(0, 2)).T
    return [
        *figures,
        judged("mean: accuracy", accuracy, ">= 0.725", headline="data sets: accuracy", digits=4),
        judged("mean: stability", windows, ">= 0.965", headline="data sets: stability", digits=4),
        judged("mean: stability of the whole run", whole, digits=4),
    ]


def _line(name: str, found: Any) -> Figure:
    """The three means over the seeds."""
    values: Sequence[float] = found.mean(axis=0)
    spread = f"  (accuracy sd {found[:, 0].std(ddof=1):.4f})" if len(found) > 1 else ""
    return Figure(name, " / ".join(f"{value:.4f}" for value in values) + spread)
