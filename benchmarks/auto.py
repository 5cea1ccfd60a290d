"""How many features: what ``FIRES("auto")`` finds where the truth is known, and what it costs.

Some of 200 columns decide the target, with coefficients of +-0.6 beside noise of 1. After 20,000
rows it is asked how many of them are selected (recall) and which share of the selected ones does
not matter (false share). Three classes are the greatest of the signal and two numbers of noise.

Then, with 50 columns, what changes: features at the edge of what can be seen should not come and
go all the time, and after a drift the set should follow without being empty in between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.answer.figures import Figure, judged, show
from benchmarks.answer.streams import columns, some
from benchmarks.timing import Ratio, take_turns
from fires import FIRES

N_ROWS, N_FEATURES, BATCH, EFFECT = 20_000, 200, 100, 0.6
MOST_FALSE = {"independent": 0.10, "three factors": 0.10, "AR(0.9)": 0.20}
N_RELEVANT = (0, 3, 10, 30)
SEEDS = {"two classes": 10, "numbers": 5, "three classes": 5}


def rows(seed: int, kind: str, n_relevant: int, target: str) -> tuple[Any, Any, Any]:
    """X, y and the columns that matter."""
    rng = np.random.default_rng([seed, N_FEATURES, n_relevant])
    relevant, theta = some(rng, N_FEATURES, n_relevant), np.zeros(N_FEATURES)
    theta[relevant] = EFFECT * rng.choice([-1.0, 1.0], n_relevant)
    X = columns(rng, N_ROWS, N_FEATURES, kind)
    seen = X @ theta + rng.standard_normal(N_ROWS)
    if target == "numbers":
        return X, seen, relevant
    if target == "two classes":
        return X, (seen > 0).astype(int), relevant
    others = rng.standard_normal((N_ROWS, 2))
    return X, np.column_stack([seen, others]).argmax(axis=1), relevant


def found(X: Any, y: Any, relevant: Any) -> tuple[float, float, int]:
    """Recall, false share and number of selected features at the end."""
    selector = FIRES("auto", batch_size=BATCH).fit(X, y)
    chosen = selector.get_support(indices=True)
    hits = len(np.intersect1d(chosen, relevant))
    false = (len(chosen) - hits) / max(len(chosen), 1)
    return hits / max(len(relevant), 1), false, len(chosen)


def known_truth(target: str) -> list[Figure]:
    figures = []
    for kind, most in MOST_FALSE.items():
        for n_relevant in N_RELEVANT:
            seeds = range(SEEDS[target])
            results = [found(*rows(seed, kind, n_relevant, target)) for seed in seeds]
            recall, false, n = zip(*results, strict=True)
            what = f"{target}, {kind}, {n_relevant} relevant: "
            if n_relevant:
                figures += [
                    judged(what + "recall", recall, ">= 0.9"),
                    judged(what + "false share", false, f"<= {most}"),
                ]
            else:
                figures.append(judged(what + "most selected", n, "<= 1", take=max, digits=0))
    return figures


def edge() -> Figure:
    """How often features come and go that can hardly be seen."""
    changes = []
    for seed in range(5):
        rng = np.random.default_rng([seed, 50])
        theta = np.zeros(50)
        theta[:20] = 0.06
        selector, before, n_changes = FIRES("auto"), np.zeros(50, dtype=bool), 0
        for batch in range(400):
            X = rng.standard_normal((BATCH, 50))
            selector.partial_fit(X, X @ theta + rng.standard_normal(BATCH) > 0)
            now = selector.get_support()
            n_changes += int((now != before).sum()) if batch >= 100 else 0
            before = now
        changes.append(n_changes / 3.0)
    return judged("20 effects of 0.06: changes of the set in 10,000 rows", changes, digits=1)


def drift(n_staying: int) -> list[Figure]:
    """Six features matter; after half of the rows, all but some of them are replaced."""
    recall, false, least = [], [], []
    for seed in range(5):
        rng = np.random.default_rng([seed, n_staying])
        order = rng.permutation(50)
        first, second = order[:6], order[6 - n_staying : 12 - n_staying]
        signs, selector = rng.choice([-1.0, 1.0], 50), FIRES("auto")
        n_now, hits, wrong = [], [], []
        for batch in range(200):
            relevant = first if batch < 100 else second
            X = rng.standard_normal((BATCH, 50))
            signal = EFFECT * X[:, relevant] @ signs[relevant]
            selector.partial_fit(X, signal + rng.standard_normal(BATCH) > 0)
            chosen = selector.get_support(indices=True)
            if batch >= 100:
                hits.append(len(np.intersect1d(chosen, relevant)) / 6.0)
                wrong.append(1.0 - len(np.intersect1d(chosen, relevant)) / max(len(chosen), 1))
                n_now.append(len(chosen))
        recall.append(np.mean(hits))
        false.append(np.mean(wrong))
        least.append(min(n_now))
    what = f"drift, {n_staying} of 6 stay: "
    return [
        judged(what + "mean recall after it", recall),
        judged(what + "mean false share after it", false),
        judged(what + "fewest selected after it", least, ">= 1", take=min, digits=0),
    ]


def cost() -> list[Figure]:
    """What a batch costs, over what it costs with a fixed number."""
    rng, figures = np.random.default_rng(0), []
    X = [rng.standard_normal((BATCH, N_FEATURES)) for _ in range(6)]
    wide = [
        sp.random_array((BATCH, 1_000_000), density=1e-4, format="csr", rng=rng) for _ in range(6)
    ]
    y = [rng.integers(0, 2, BATCH) for _ in range(6)]
    for what, batches, n_rounds in (("200 columns", X, 30), ("CSR, 1,000,000 columns", wide, 5)):

        def taking(selector: FIRES, batches: list[Any] = batches) -> Callable[[int], object]:
            return lambda i: selector.partial_fit(batches[i % 6], y[i % 6]).get_support(True)

        things = {"fixed": taking(FIRES(10)), "auto": taking(FIRES("auto"))}
        fixed, auto = take_turns(things, n_rounds, 20).values()  # with four looks in each round
        ratio = Ratio.of(auto, fixed)
        figures.append(Figure(f"{what}: time of a batch over that of FIRES(10)", str(ratio)))
    return figures


def main() -> list[Figure]:
    figures = [figure for target in SEEDS for figure in known_truth(target)]
    figures += [edge(), *drift(0), *drift(4), *cost()]
    show("auto: FIRES('auto') on known truth; means over seeds", figures)
    return figures
