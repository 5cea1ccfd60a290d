"""Row weights: do they raise alarms, lose features, or make intervals too narrow?

12,000 rows of 50 columns, five of them relevant, in batches of 100: with a constant weight, with
lognormal weights, and with balanced weights for 5 % and 1 % positives. Beside each, the same rows
without weights: `algorithms.md` C17 has the figures of before.
"""

from __future__ import annotations

import numpy as np

from benchmarks.timing import Row, show
from fires import FIRES

N_SEEDS, N_ROWS, N_FEATURES, N_RELEVANT, BATCH = 10, 12_000, 50, 5, 100
EFFECTS = np.array([1.0, 0.8, 0.7, 0.6, 0.5])
RARE = {"balanced, 5 % positives": 3.2, "balanced, 1 % positives": 4.5}
KINDS = ("constant 10", "lognormal(1.5)", *RARE)
# Alarms at most, recall over time at least that without weights less this, null coverage at least.
# Lognormal rows count as a tenth of themselves, exp(-1.5^2), so their features are found later.
LIMITS = {"balanced, 1 % positives": (0.5, 0.03, 0.95), "lognormal(1.5)": (0.0, 0.05, 0.95)}
USUAL = (0.0, 0.02, 0.95)


def rows(kind: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N_ROWS, N_FEATURES))
    effects = EFFECTS * rng.choice([-1, 1], N_RELEVANT)
    noise = rng.normal(size=N_ROWS)
    y = (X[:, :N_RELEVANT] @ effects + noise > RARE.get(kind, 0.0)).astype(int)
    if kind == "constant 10":
        return X, y, np.full(N_ROWS, 10.0)
    if kind == "lognormal(1.5)":
        return X, y, rng.lognormal(0.0, 1.5, N_ROWS)
    share = y.mean()
    return X, y, np.where(y == 1, 0.5 / share, 0.5 / (1.0 - share))


def answer(X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> tuple[float, float, float]:
    """Alarms, recall over time, and the share of intervals of irrelevant columns that hold 0."""
    selector, found = FIRES(N_RELEVANT), []
    for start in range(0, N_ROWS, BATCH):
        part = slice(start, start + BATCH)
        of_part = None if weight is None else weight[part]
        selector.partial_fit(X[part], y[part], classes=[0, 1], sample_weight=of_part)
        found.append(selector.get_support()[:N_RELEVANT].mean())
    low, high = selector.interval(0.95)
    covered = (low[N_RELEVANT:] <= 0.0) & (high[N_RELEVANT:] >= 0.0)
    return float(len(selector.alarms_)), float(np.mean(found)), float(covered.mean())


def main() -> list[Row]:
    table = []
    for kind in KINDS:
        data = [rows(kind, seed) for seed in range(N_SEEDS)]
        weighted = np.mean([answer(X, y, w) for X, y, w in data], axis=0)
        plain = np.mean([answer(X, y, None) for X, y, _ in data], axis=0)
        alarms, less, coverage = LIMITS.get(kind, USUAL)
        bounds = (f"<= {alarms}", f">= {plain[1] - less:.3f}", f">= {coverage}")
        reached = (
            weighted[0] <= alarms,
            weighted[1] >= plain[1] - less,
            weighted[2] >= coverage,
        )
        names = ("alarms", "recall over time", "null coverage")
        for name, mine, its, bound, good in zip(
            names, weighted, plain, bounds, reached, strict=True
        ):
            setting = f"without weights {its:.3f}"
            table.append(
                Row(
                    f"{kind}: {name}", f"{N_SEEDS} seeds", setting, f"{mine:.3f}", bound, bool(good)
                )
            )
    return show("weights", table)
