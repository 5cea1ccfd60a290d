"""One batch of 100 rows: our step against the authors' formulas as written.

Behind the gate means after validation: the step on a float array and class codes, and the weights.
``as_published`` is the same mathematics as the authors', which is checked first; the default
standardises and learns an intercept as well. The whole call has the gate in it on our side, and
the choice of the features on both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.authors import Authors
from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires import FIRES
from fires.models.online_linear import Rates

ASKED = {57: 20, 562: 20, 5000: 15}
N_BATCHES, K = 16, 10
RATES = Rates(0.01, 0.01)

Batch = tuple[Any, Any]


def batches(n_features: int) -> list[Batch]:
    """Uniform features, as after the paper's scaling; a tenth of them decide the class."""
    rng = np.random.default_rng(n_features)
    theta = rng.normal(size=n_features) * (rng.random(n_features) < 0.1)
    out = []
    for _ in range(N_BATCHES):
        X = rng.random((100, n_features))
        margin = (X - 0.5) @ theta + 0.1 * rng.normal(size=100)
        out.append((X, (margin > 0).astype(np.int64)))
    return out


def check_equals(data: list[Batch]) -> None:
    """The two implementations agree, so that equals are compared."""
    authors, ours = Authors(data[0][0].shape[1]), FIRES.as_published(K)
    for i in range(20):
        X, y = data[i % N_BATCHES]
        theirs = authors.weigh(X, y)
        ours.partial_fit(X, y)
    np.testing.assert_allclose(ours.importances_, authors.mu, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.uncertainties_, authors.sigma, rtol=1e-9, atol=1e-9)
    best_first = np.argsort(-theirs, kind="stable")
    # Weights closer than rounding may trade places; nothing else may.
    assert (np.diff(ours.weights_[best_first]) < 1e-9).all()
    assert set(best_first[:K]) == set(ours.get_support(indices=True))


def behind_gate(selector: FIRES, data: list[Batch]) -> Callable[[int], object]:
    selector.partial_fit(*data[0])

    def call(i: int) -> object:
        X, codes = data[i % N_BATCHES]
        selector._learner_.step(X, codes, None, RATES, False)
        selector._seen_ = {}
        return selector.weights_

    return call


def whole(selector: FIRES, data: list[Batch]) -> Callable[[int], object]:
    return lambda i: selector.partial_fit(*data[i % N_BATCHES]).get_support()


def measure(n_features: int, asked: int) -> list[Row]:
    data = batches(n_features)
    check_equals(data)
    # Each starts elsewhere in the rotation, so that none finds the batch its neighbour just read.
    order = [data[3 * i :] + data[: 3 * i] for i in range(5)]
    authors = Authors(n_features)
    seconds = take_turns(
        {
            "authors": lambda i: authors.weigh(*order[0][i % N_BATCHES]),
            "as_published, step and weights": behind_gate(FIRES.as_published(K), order[1]),
            "default, step and weights": behind_gate(FIRES(K), order[2]),
            "as_published, partial_fit and get_support": whole(FIRES.as_published(K), order[3]),
            "default, partial_fit and get_support": whole(FIRES(K), order[4]),
        },
        rounds=150,
        calls=4,
    )
    size = f"J = {n_features}"
    theirs = seconds.pop("authors")
    rows = [Row("the authors' formulas as written", size, shown(theirs), "1")]
    for i, (what, ours) in enumerate(seconds.items()):
        ratio = Ratio.of(theirs, ours)
        figure = (f">= {asked}", ratio.value >= asked) if i == 0 else ()
        rows.append(Row(what, size, shown(ours), ratio, *figure))
    return rows


def main() -> list[Row]:
    rows = [row for n_features, asked in ASKED.items() for row in measure(n_features, asked)]
    return show("step: how many times faster than the authors, batch 100, float64", rows)
