"""What a row costs in River: our selector against River's own model and River's own selection.

All learn the same rows, dictionaries with the same keys, one after the other. Ours learns in
batches, and every turn has whole ones, so that nothing is left out. How many rows make a batch
matters, so several sizes are shown; the figures are for the selector's own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from river import feature_selection, linear_model, stats

from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires import FIRES
from fires.integrations.river import FiresSelector

N_ROWS, K, JUDGED = 2_000, 5, 20
WIDTHS, SIZES = (JUDGED, 200), (25, 100, 400)
ROUNDS, CALLS = 30, 400
LEAST = {"LogisticRegression": 1.0, "SelectKBest": 10.0}


def rows(n_features: int) -> list[tuple[dict[str, float], bool]]:
    rng = np.random.default_rng(n_features)
    X = rng.normal(size=(N_ROWS, n_features))
    y = X[:, 3] - X[:, 7] + rng.normal(size=N_ROWS) > 0
    names = [f"x{j}" for j in range(n_features)]
    return [
        (dict(zip(names, row, strict=True)), label)
        for row, label in zip(X.tolist(), y.tolist(), strict=True)
    ]


def learning(model: Any, data: list[tuple[dict[str, float], bool]]) -> Callable[[int], None]:
    learn_one = model.learn_one

    def learn(i: int) -> None:
        learn_one(*data[i % N_ROWS])

    return learn


def measure(n_features: int) -> list[Row]:
    data, size = rows(n_features), f"J = {n_features}"
    theirs = {
        "LogisticRegression": linear_model.LogisticRegression(),
        "SelectKBest": feature_selection.SelectKBest(stats.PearsonCorr(), k=K),
    }
    ours = {f"FIRES, batches of {n}": FiresSelector(FIRES(K), n) for n in SIZES}
    things = {name: learning(model, data) for name, model in (theirs | ours).items()}
    seconds = take_turns(things, ROUNDS, CALLS)
    out = []
    for name, least in LEAST.items():
        out.append(Row(name, size, shown(seconds[name]), "1"))
        for n, mine in zip(SIZES, ours, strict=True):
            ratio = Ratio.of(seconds[name], seconds[mine])
            judged = n_features == JUDGED and n == FIRES().batch_size
            figure = (f">= {least:g}", bool(ratio.value >= least)) if judged else ("", None)
            out.append(Row(mine, size, shown(seconds[mine]), ratio, *figure))
    return out


def main() -> list[Row]:
    found = [row for n_features in WIDTHS for row in measure(n_features)]
    return show("river: their learn_one over ours", found)
