"""The Bayesian update on batches in shards: is its answer as good as that of rows one by one?

Batches of 1,000 rows. Over ten orders of the rows of four data sets, FIRES selects a tenth of the
features for a Perceptron; rows are tested before they are learnt from. Each order is run row by
row and in shards, and the differences are averaged. Where the truth is known, 12,000 rows of forty
and two hundred columns, it is held against what is selected (recall, the mean over the batches) and
against the intervals. It is also measured how many rounds a batch takes, and how far the beliefs of
different cuts are apart.

The data sets are looked for in FIRES_DATA_DIR.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.linear_model import Perceptron

from benchmarks.answer.coverage import N_RELEVANT, N_ROWS
from benchmarks.answer.datasets import rows
from benchmarks.answer.figures import Figure, show
from benchmarks.answer.streams import coefficients, columns, limits, n_found, some
from fires import FIRES
from fires.core.batch import CheckedBatch
from fires.core.sharding import Shards, Sums, Task
from fires.evaluation.loop import prequential
from fires.selectors.sharded import partial_fit_sharded

NAMES = ("Spambase", "Dota", "KDD", "MNIST")
KINDS = ("independent", "three factors", "AR(0.9)")
CUTS = (1, 2, 8, 32)
N_ORDERS, BATCH, SHARE = 10, 1000, 0.1


class InShards(FIRES):
    """FIRES that cuts every batch into shards."""

    n_shards = 8

    def learn(self, batch: CheckedBatch) -> InShards:
        """Learn from a batch, and note the rounds that it took."""
        shards, n_rounds = Shards.cut(batch, self.n_shards), 0

        def evaluate(task: Task) -> Sums:
            nonlocal n_rounds
            n_rounds += 1
            return shards.evaluate(task)

        width = batch.X.shape[1]
        partial_fit_sharded(self, evaluate, n_features=width, classes=batch.classes)
        self.__dict__.setdefault("rounds", []).append(n_rounds)
        return self


def accuracy(selector: FIRES, name: str, seed: int) -> float:
    X, y = rows(name, seed)
    batches = ((X[i : i + BATCH], y[i : i + BATCH]) for i in range(0, len(y), BATCH))
    steps = prequential(batches, selector, Perceptron(random_state=seed), classes=np.unique(y))
    tested = [(step.scores["accuracy"], step.n_rows) for step in steps]
    known = [(score, n) for score, n in tested if score >= 0.0]
    return float(np.average([score for score, _ in known], weights=[n for _, n in known]))


def on_data(name: str) -> Figure:
    found = []
    for seed in range(1, N_ORDERS + 1):
        k = max(1, int(SHARE * rows(name, seed)[0].shape[1]))
        found.append((accuracy(FIRES(k), name, seed), accuracy(InShards(k), name, seed)))
    one_by_one, sharded = np.array(found).T
    apart = sharded - one_by_one
    error = float(apart.std(ddof=1) / np.sqrt(len(apart)))
    measured = f"{one_by_one.mean():.4f}, {sharded.mean():.4f}: {apart.mean():+.4f} +- {error:.4f}"
    reached = apart.mean() >= -min(0.01, 2.0 * error)
    return Figure(f"accuracy, {name}", measured, ">= -0.01 and -2 standard errors", bool(reached))


def known_truth(selector: Any, seed: int, n_features: int, kind: str) -> tuple[float, ...]:
    """Mean recall, and the share of relevant and of all intervals that hold the truth."""
    rng = np.random.default_rng([seed, n_features])
    theta, relevant = np.zeros(n_features), some(rng, n_features, N_RELEVANT)
    theta[relevant] = coefficients(rng, N_RELEVANT, 0.3, 1.0)
    X = columns(rng, N_ROWS, n_features, kind)
    y = (X @ theta + rng.standard_normal(N_ROWS) > 0).astype(int)
    recall = []
    for i in range(0, N_ROWS, BATCH):
        selector.learn(CheckedBatch(X[i : i + BATCH], y[i : i + BATCH]))
        recall.append(n_found(selector, relevant) / N_RELEVANT)
    low, high = limits(selector)
    inside = (low <= theta) & (theta <= high)
    return float(np.mean(recall)), float(inside[relevant].mean()), float(inside.mean())


def on_known_truth(n_features: int, kind: str) -> list[Figure]:
    found, n_rounds = [], []
    for seed in range(2 * N_ORDERS):
        sharded = InShards(N_RELEVANT)
        ours = known_truth(sharded, seed, n_features, kind)
        found.append((known_truth(FIRES(N_RELEVANT), seed, n_features, kind), ours))
        n_rounds += sharded.__dict__["rounds"]
    theirs, ours = np.array(found).mean(axis=0)
    what, figures = f"{kind}, J = {n_features}: ", []
    names = ("recall", 0.05), ("coverage, relevant columns", 0.03), ("coverage, all columns", 0.03)
    for (name, most), one, sharded in zip(names, theirs, ours, strict=True):
        measured = f"{one:.3f}, {sharded:.3f}: {sharded - one:+.3f}"
        # An answer may be better: a higher recall, and a coverage that is nearer to 0.95.
        worse = one - sharded if name == "recall" else abs(sharded - 0.95) - abs(one - 0.95)
        figures.append(
            Figure(what + name, measured, f"worse by <= {most}", bool(round(worse, 9) <= most))
        )
    measured = f"{np.mean(n_rounds):.2f}, at most {max(n_rounds)}"
    return [*figures, Figure(what + "rounds of a batch", measured)]


def cuts() -> Figure:
    """How far beliefs are apart, of the same rows in 1, 2, 8 and 32 shards."""
    beliefs = []
    for n_shards in CUTS:
        selector = InShards(N_RELEVANT)
        selector.n_shards = n_shards
        known_truth(selector, 0, 200, "three factors")
        beliefs.append([selector.importances_, selector.uncertainties_, selector.weights_])
    apart = max(float(np.abs(np.array(belief) - beliefs[0]).max()) for belief in beliefs)
    return Figure(
        "greatest difference between 1, 2, 8, 32 shards", f"{apart:.1e}", "<= 1e-8", apart <= 1e-8
    )


def main() -> list[Figure]:
    figures = [on_data(name) for name in NAMES]
    for n_features in (40, 200):
        for kind in KINDS:
            figures += on_known_truth(n_features, kind)
    figures.append(cuts())
    show("sharded_answer: row by row, in 8 shards: difference; batches of 1,000", figures)
    return figures
