"""The two loops over X against one product with it: the least that any linear model must do."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires.kernels import accumulate, project

JUDGED, ASKED = (5000, np.float64, "C"), 3.0


def measure(n_features: int, dtype: Any, order: Any) -> list[Row]:
    rng = np.random.default_rng(n_features)
    X = [rng.normal(size=(100, n_features)).astype(dtype, order=order) for _ in range(4)]
    mu, var = rng.normal(size=n_features), rng.random(n_features)
    narrow = mu.astype(dtype)  # so that the product need not convert X first
    c, d = rng.normal(size=100), rng.normal(size=100)
    seconds = take_turns(
        {
            "X @ mu": lambda i: X[i % 4] @ narrow,
            "project and accumulate": lambda i: (
                project(X[i % 4], mu, var),
                accumulate(X[i % 4], c, d),
            ),
        },
        rounds=200,
        calls=max(4, 20_000 // n_features),  # long enough for the clock
    )
    size = f"J = {n_features}, {np.dtype(dtype)}, {'rows' if order == 'C' else 'columns'}"
    product, pair = seconds.values()
    ratio = Ratio.of(pair, product)
    judged = (n_features, dtype, order) == JUDGED
    figure = (f"<= {ASKED:g}", ratio.value <= ASKED) if judged else ()
    return [
        Row("X @ mu", size, shown(product), "1"),
        Row("project and accumulate", size, shown(pair), ratio, *figure),
    ]


def main() -> list[Row]:
    rows = [
        row
        for n_features in (57, 562, 5000)
        for dtype in (np.float64, np.float32)
        for order in "CF"
        for row in measure(n_features, dtype, order)
    ]
    return show("kernels: the pair over one product, batch 100", rows)
