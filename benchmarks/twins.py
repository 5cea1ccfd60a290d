"""Of twins, one: are all groups of copies represented, is nothing else lost, what does it cost?

**Copies.** Five columns matter, with effects from 1 to 0.4 beside noise of 0.5, and each of them
has four noisy copies (r = 0.95); all other columns are noise. After 10,000 rows it is counted how
many of the five groups are among the five columns selected. "Changes" are sets that differ from the
set before, over the second half of the stream.

**Nothing lost.** Streams of known truth: independent columns, on many scales or on one, three
factors, AR(0.9); 10 relevant of 200. Recall is the mean over the second half. And data sets, tested
before they are learnt from, in three orders of their rows: accuracy of a Perceptron, and stability
over 10 batches. They are looked for in FIRES_DATA_DIR.

**Cost.** ``partial_fit`` and ``get_support`` on batches of 100 rows, five of whose columns are
copies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.answer.datasets import run
from benchmarks.answer.streams import columns, n_found, some
from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires import FIRES
from fires.streams import KnownTruth

KINDS = "ignore", "drop"
EFFECTS = np.linspace(1.0, 0.4, 5)
N_COPIES, CLOSE, BATCH = 4, 0.95, 100
N_ROWS, N_SEEDS = 10_000, 10
NAMES, N_ORDERS = ("Spambase", "KDD"), 3

Batch = tuple[Any, Any]


def copies(seed: int, n_features: int) -> tuple[list[Batch], Any]:
    """Batches, and the columns of each group."""
    rng = np.random.default_rng([seed, n_features])
    groups = rng.permutation(n_features)[: 5 * (1 + N_COPIES)].reshape(5, -1)
    X = rng.standard_normal((N_ROWS, n_features))
    signal = X[:, groups[:, 0]] @ (EFFECTS * rng.choice([-1.0, 1.0], 5))
    for group in groups:
        own = np.sqrt(1.0 - CLOSE**2) * X[:, group[1:]]
        X[:, group[1:]] = CLOSE * X[:, group[:1]] + own
    y = (signal + 0.5 * rng.standard_normal(N_ROWS) > 0).astype(int)
    return list(cut(X, y)), groups


def cut(X: Any, y: Any) -> Iterator[Batch]:
    for i in range(0, len(y), BATCH):
        yield X[i : i + BATCH], y[i : i + BATCH]


def found_groups(n_features: int) -> list[Row]:
    out = []
    for kind in KINDS:
        found, changes = [], 0
        for seed in range(N_SEEDS):
            batches, groups = copies(seed, n_features)
            selector, sets = FIRES(5, redundancy=kind), []
            for X, y in batches:
                sets.append(frozenset(selector.partial_fit(X, y).get_support(indices=True)))
            half = len(sets) // 2
            changes += sum(a != b for a, b in zip(sets[half:], sets[half + 1 :], strict=False))
            found.append(sum(bool(set(group) & sets[-1]) for group in groups.tolist()))
        whole = sum(n == 5 for n in found)
        measured = f"{whole} of {N_SEEDS} seeds, {np.mean(found):.1f} of 5 groups"
        figure = ("10 of 10", whole == N_SEEDS) if kind == "drop" else ()
        size = f"J = {n_features}, {changes / N_SEEDS:.1f} changes"
        out.append(Row(f"all groups found, {kind}", size, "", measured, *figure))
    return out


def of_known_truth(seed: int, kind: str) -> tuple[list[Batch], Any]:
    """Batches, and the columns that matter."""
    if kind == "known_truth":
        stream = KnownTruth(N_ROWS, n_features=200, n_relevant=10, random_state=seed)
        return [(b.X, b.y) for b in stream.batches(BATCH)], stream.relevant_at(0)
    rng = np.random.default_rng(seed)
    relevant = some(rng, 200, 10)
    X = columns(rng, N_ROWS, 200, kind)
    signal = X[:, relevant] @ (0.6 * rng.choice([-1.0, 1.0], 10))
    return list(cut(X, (signal + rng.standard_normal(N_ROWS) > 0).astype(int))), relevant


def recall(kind: str, k: int) -> Row:
    found: dict[str, list[float]] = {redundancy: [] for redundancy in KINDS}
    for seed in range(N_SEEDS):
        batches, relevant = of_known_truth(seed, kind)
        for redundancy, recalls in found.items():
            selector = FIRES(k, redundancy=redundancy)
            for i, (X, y) in enumerate(batches):
                selector.partial_fit(X, y)
                if 2 * i >= len(batches):
                    recalls.append(n_found(selector, relevant) / len(relevant))
    ignore, drop = (float(np.mean(found[redundancy])) for redundancy in KINDS)
    measured = f"{ignore:.3f}, {drop:.3f}: {drop - ignore:+.3f}"
    return Row(f"recall, {kind}", f"k = {k}", "", measured, ">= -0.02", drop - ignore >= -0.02)


def on_data(name: str, share: float) -> list[Row]:
    found = {
        kind: np.mean(
            [run(_maker(kind), name, seed, BATCH, share) for seed in range(1, N_ORDERS + 1)], axis=0
        )
        for kind in KINDS
    }
    rows, size = [], f"{share:.0%} of the features"
    for i, what in enumerate(("accuracy", "stability")):
        ignore, drop = (float(found[kind][i]) for kind in KINDS)
        measured = f"{ignore:.4f}, {drop:.4f}: {drop - ignore:+.4f}"
        rows.append(Row(f"{what}, {name}", size, "", measured))
    return rows


def _maker(redundancy: str) -> Callable[[int], FIRES]:
    return lambda k: FIRES(k, redundancy=redundancy)


def cost(n_features: int, k: int, asked: float | None) -> Row:
    rng = np.random.default_rng(n_features)
    X = rng.standard_normal((1000, n_features))
    y = (X[:, :5].sum(axis=1) + rng.standard_normal(1000) > 0).astype(int)
    X[:, 5:10] = X[:, :5]
    batches = list(cut(X, y))

    def learning(selector: FIRES) -> Callable[[int], object]:
        return lambda i: selector.partial_fit(*batches[i % 10]).get_support(indices=True)

    things = {kind: learning(FIRES(k, redundancy=kind)) for kind in KINDS}
    # Twenty calls in a turn: twins are looked for once in 2,000 rows.
    ignore, drop = take_turns(things, 200, 20).values()
    ratio = Ratio.of(drop, ignore)
    figure = (f"<= {asked:g}", ratio.value <= asked) if asked else ()
    size = f"J = {n_features}, k = {k}"
    return Row("drop over ignore, partial_fit, get_support", size, shown(drop), ratio, *figure)


def main() -> list[Row]:
    rows = show("twins: groups of copies", [*found_groups(50), *found_groups(500)])
    kinds = "known_truth", "independent", "three factors", "AR(0.9)"
    lost = [recall(kind, k) for kind in kinds for k in (10, 20)]
    rows += show("twins: ignore, drop: difference; streams of known truth", lost)
    data = [row for name in NAMES for share in (0.1, 0.2) for row in on_data(name, share)]
    rows += show("twins: ignore, drop: difference; data sets", data)
    costs = [cost(500, 20, 1.3), cost(500, 5, None), cost(50, 10, None)]
    return rows + show(f"twins: what it costs, batches of {BATCH}", costs)
