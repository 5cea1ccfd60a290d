"""A bad cell, a level that shifts, a change of units, one absurd y: how long is the answer wrong?

Five of thirty columns matter, one of them clearly the most. After 100 batches of 100
rows, something happens to that column. Counted are the batches until it is at rank 1 for the rest
of the run, alone and inside a pipeline. The spread is that of the column as the pipeline scales it,
30 batches later.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.answer.figures import Bench, Figure, Maker, judged
from benchmarks.answer.streams import columns, some, target
from fires import OnlinePipeline

TITLE = "batches until the best column is at rank 1 again, and its spread"
BATCH, N_FEATURES, EVENT, LAST = 100, 30, 100, 200
EVENTS = {
    "a bad cell of 1e3": ("cell", 1e3),
    "a bad cell of 1e4": ("cell", 1e4),
    "a bad cell of 1e5": ("cell", 1e5),
    "a bad cell of 1e6": ("cell", 1e6),
    "a level shift of 20 sd": ("shift", 20.0),
    "units times 1000": ("units", 1e3),
    "units over 1000": ("units", 1e-3),
}


def problem(seed: int) -> tuple[np.random.Generator, Any, Any]:
    """A generator, the relevant columns (the best first), and their coefficients."""
    rng = np.random.default_rng([seed, N_FEATURES])
    relevant = some(rng, N_FEATURES, 5)
    return rng, relevant, rng.choice([-1.0, 1.0], 5) * np.array([2.0, 1.4, 1.2, 1.0, 0.8])


def strike(X: Any, column: int, batch: int, event: tuple[str, float]) -> Any:
    """The rows of this batch as they arrive."""
    kind, size = event
    if batch < EVENT or (kind == "cell" and batch > EVENT):
        return X
    X = X.copy()
    if kind == "cell":
        X[len(X) // 2, column] = size
    elif kind == "shift":
        X[:, column] += size
    else:
        X[:, column] *= size
    return X


def recover(
    make: Maker, seed: int, kind: str, event: tuple[str, float], piped: bool
) -> tuple[float, float]:
    """Batches until rank 1 for good, and the spread of the column 30 batches after the event."""
    rng, relevant, theta = problem(seed)
    selector = make(5)
    learner: Any = OnlinePipeline(selector, None, "standard") if piped else selector
    ranks, spread = [], np.nan
    for t in range(LAST):
        X = columns(rng, BATCH, N_FEATURES)
        y = target(rng, X[:, relevant] @ theta, kind)
        X = strike(X, relevant[0], t, event)
        if piped and t == EVENT + 30:
            spread = float(learner._scaler_.applied(X)[:, relevant[0]].std())
        learner.partial_fit(X, y)
        ranks.append(int(selector.ranking_[relevant[0]]))
    wrong = [t for t in range(EVENT, LAST) if ranks[t] != 1]
    return (wrong[-1] - EVENT + 1 if wrong else 0), spread


def absurd(make: Maker, seed: int) -> tuple[float, float]:
    """One y of 1e6: relevant columns whose rank it changes, and how far it moves importances.

    Both against the same run without it, after the batch that holds it and ten batches later. The
    move is the greatest among all columns, as a share of the greatest importance.
    """
    plain, struck = (_after_absurd(make, seed, y) for y in (None, 1e6))
    changed = max(int((a != b).sum()) for (a, _), (b, _) in zip(plain, struck, strict=True))
    moved = [
        float(np.abs(b - a).max() / np.abs(a).max())
        for (_, a), (_, b) in zip(plain, struck, strict=True)
    ]
    return changed, max(moved)


def _after_absurd(make: Maker, seed: int, value: float | None) -> list[tuple[Any, Any]]:
    """Ranks of the relevant columns and importances, after the event and ten batches later."""
    (rng, relevant, theta), selector, seen = problem(seed), make(5), []
    for t in range(EVENT + 11):
        X = columns(rng, BATCH, N_FEATURES)
        y = target(rng, X[:, relevant] @ theta, "numbers")
        if value is not None and t == EVENT:
            y[BATCH // 2] = value
        selector.partial_fit(X, y)
        if t in (EVENT, EVENT + 10):
            seen.append((selector.ranking_[relevant], selector.importances_.copy()))
    return seen


def measure(bench: Bench) -> list[Figure]:
    """Every event with classes and with numbers; the worst of the seeds is judged."""
    figures, seeds = [], bench.seeds(5)
    for kind in ("classes", "numbers"):
        for what, event in EVENTS.items():
            needed = []
            for piped in (False, True):
                found = bench.map(recover, [(seed, kind, event, piped) for seed in seeds])
                needed.append([batches for batches, _ in found])
            spreads = [spread for _, spread in found]
            figures.append(_line(f"{kind}, {what}", needed[0], needed[1], spreads))
    found = bench.map(absurd, [(seed,) for seed in seeds])
    return [
        *figures,
        judged(
            "one y of 1e6: relevant columns whose rank changes",
            [c for c, _ in found],
            "<= 0",
            take=max,
        ),
        judged("one y of 1e6: importances move by", [m for _, m in found], "<= 0.1", take=max),
    ]


def _line(what: str, alone: list[float], piped: list[float], spreads: list[float]) -> Figure:
    worst, low, high = max(alone + piped), min(spreads), max(spreads)
    measured = (
        f"{max(alone):.0f} alone, {max(piped):.0f} in a pipeline; spread {low:.3g} to {high:.3g}"
    )
    asked = "<= 30, spread 0.5 to 2"
    values = [max(pair) for pair in zip(alone, piped, strict=True)]
    reached = worst <= 30 and low >= 0.5 and high <= 2.0
    headline = f"{what}: batches" if what.startswith("classes") else ""
    return Figure(what, measured, asked, reached, values, headline)
