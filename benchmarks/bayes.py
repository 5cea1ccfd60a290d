"""The Bayesian update: what a step costs, in units of reading the batch once.

A step is ``BayesLearner.step`` on a checked batch, with scale, alarm and the sums for intervals.
It is held against ``X.sum()`` on the same batch. The whole call, ``partial_fit`` and
``get_support``, is held against that of the gradient update, which was the default before. On
sparse rows the same number of entries should cost the same, however many features there are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires import FIRES
from fires.core.batch import CheckedBatch
from fires.models.bayes_learner import BayesLearner

N_ROWS, N_BATCHES, K = 100, 6, 10


def batches(n_features: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(n_features)
    rows = [rng.normal(size=(N_ROWS, n_features)) for _ in range(N_BATCHES)]
    return [(X, (X[:, :5].sum(1) + rng.normal(size=N_ROWS) > 0).astype(np.int64)) for X in rows]


def sparse_batches(n_features: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(1)
    return [
        (
            sp.random_array((N_ROWS, n_features), density=20 / n_features, format="csr", rng=rng),
            rng.integers(0, 2, N_ROWS),
        )
        for _ in range(N_BATCHES)
    ]


def whole(selector: FIRES, data: list[tuple[Any, Any]]) -> Callable[[int], object]:
    return lambda i: selector.partial_fit(*data[i % N_BATCHES]).get_support(indices=True)


def step_against_sum(n_features: int, asked: float) -> Row:
    data = batches(n_features)
    learner = BayesLearner(
        "probit", n_features, 2, fit_intercept=True, scale="standard", memory=1e4
    )
    checked = [(CheckedBatch(X, y), y) for X, y in data]
    for i in range(30):
        learner.step(*checked[i % N_BATCHES])
    things: dict[str, Callable[[int], object]] = {
        "sum": lambda i: data[i % N_BATCHES][0].sum(),
        "step": lambda i: learner.step(*checked[i % N_BATCHES]),
    }
    reading, ours = take_turns(things, 40, 6).values()
    ratio = Ratio.of(ours, reading)
    figure = f"<= {asked:g}", ratio.value <= asked
    return Row("step over X.sum()", f"J = {n_features}", shown(ours), ratio, *figure)


def default_against_gradient(n_features: int, asked: float) -> Row:
    data = batches(n_features)
    things = {
        "gradient": whole(FIRES(K, update="gradient", score="omega"), data),
        "bayes": whole(FIRES(K), data),
    }
    gradient, ours = take_turns(things, 100, 4).values()
    ratio = Ratio.of(ours, gradient)
    figure = f"<= {asked:g}", ratio.value <= asked
    return Row(
        "partial_fit, get_support over gradient", f"J = {n_features}", shown(ours), ratio, *figure
    )


def wide_against_narrow(asked: float) -> Row:
    things = {
        "narrow": whole(FIRES(K), sparse_batches(10_000)),
        "wide": whole(FIRES(K), sparse_batches(1_000_000)),
    }
    narrow, wide = take_turns(things, 20, 2).values()
    ratio = Ratio.of(wide, narrow)
    figure = f"<= {asked:g}", ratio.value <= asked
    return Row(
        "CSR, J = 1,000,000 over J = 10,000", "20 entries a row", shown(wide), ratio, *figure
    )


def main() -> list[Row]:
    rows = [step_against_sum(5_000, 8.0), default_against_gradient(50, 1.0)]
    rows += [wide_against_narrow(3.0)]
    return show("bayes: our time over that of something simpler, batch 100, float64", rows)
