"""The two loops over X against one product with it: the least that any linear model must do."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires.kernels import accumulate, project

N_BATCHES, ASKED = 16, 3.0


def measure(n_features: int, dtype: Any, order: Any, asked: float | None = None) -> list[Row]:
    rng = np.random.default_rng(n_features)
    data = [
        np.asarray(rng.normal(size=(100, n_features)), dtype=dtype, order=order)
        for _ in range(N_BATCHES)
    ]
    mu, var = rng.normal(size=n_features), rng.random(n_features)
    narrow = mu.astype(dtype)  # so that the product does not convert X first
    c, d = rng.normal(size=100), rng.normal(size=100)

    def pair(i: int) -> object:
        X = data[(i + N_BATCHES // 2) % N_BATCHES]
        return project(X, mu, var), accumulate(X, c, d)

    seconds = take_turns(
        {"product": lambda i: data[i % N_BATCHES] @ narrow, "pair": pair}, rounds=300, calls=4
    )
    ratio = Ratio.of(seconds["pair"], seconds["product"])
    form = f"J = {n_features}, {np.dtype(dtype)}, {'rows' if order == 'C' else 'columns'}"
    figure = () if asked is None else (f"<= {asked:g}", ratio.value <= asked)
    return [
        Row("X @ mu", form, shown(seconds["product"]), "1"),
        Row("project and accumulate", form, shown(seconds["pair"]), ratio, *figure),
    ]


def main() -> list[Row]:
    rows = measure(5000, np.float64, "C", ASKED)
    for n_features in (5000, 562, 57):
        for dtype in (np.float64, np.float32):
            for order in ("C", "F"):
                if (n_features, dtype, order) != (5000, np.float64, "C"):
                    rows += measure(n_features, dtype, order)
    return show("kernels: the pair over one product X @ mu, batch 100", rows)
