"""One batch of 100 rows: our step against the authors' formulas as written.

Behind the gate means after validation: ``learn`` on a checked batch, and the weights.
``as_published`` is the same mathematics as the authors', which is checked first; the default
standardises and learns an intercept as well. The whole call has the gate in it on our side, and
the choice of the features on both.

What full temporaries cost depends on where their memory comes from. In a process that has done
nothing else, glibc hands it back to the system after each call and every page is made anew. Once
something larger was freed it keeps the memory, and the authors' formulas are the faster for it:
those figures are reported too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.authors import Authors
from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires import FIRES
from fires.core.batch import CheckedBatch

ASKED = {20: None, 57: 20, 562: 20, 5000: 15}
TURNS = {20: (200, 4), 57: (200, 4), 562: (150, 4), 5000: (60, 2)}  # rounds, and calls in a turn
K = 10

Batch = tuple[Any, Any]


def batches(n_features: int) -> list[Batch]:
    """Uniform features, as after the paper's scaling; a tenth of them decide the class."""
    rng = np.random.default_rng(n_features)
    theta = rng.normal(size=n_features) * (rng.random(n_features) < 0.1)
    out = []
    for _ in range(4):
        X = rng.random((100, n_features))
        margin = (X - 0.5) @ theta + 0.1 * rng.normal(size=100)
        out.append((X, (margin > 0).astype(np.int64)))
    return out


def check_equals(data: list[Batch]) -> None:
    """The two implementations agree, so that equals are compared."""
    authors, ours = Authors(data[0][0].shape[1]), FIRES.as_published(K)
    for X, y in 5 * data:
        theirs = authors.weigh(X, y)
        ours.partial_fit(X, y)
    np.testing.assert_allclose(ours.importances_, authors.mu, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(ours.uncertainties_, authors.sigma, rtol=1e-9, atol=1e-9)
    best_first = np.argsort(-theirs, kind="stable")
    # Weights closer than rounding may trade places; nothing else may.
    assert (np.diff(ours.weights_[best_first]) < 1e-9).all()
    assert set(best_first[:K]) == set(ours.get_support(indices=True))


def formulas(data: list[Batch]) -> Callable[[int], object]:
    authors, signed = Authors(data[0][0].shape[1]), [(X, 2 * y - 1) for X, y in data]

    def call(i: int) -> object:
        authors.step(*signed[i % 4])
        return authors.weights()

    return call


def behind_gate(selector: FIRES, data: list[Batch]) -> Callable[[int], object]:
    """Learn from batches that were checked, and whose labels were looked up, beforehand."""
    selector.partial_fit(*data[0])
    checked = [CheckedBatch(X, codes) for X, codes in data]
    for batch in checked:
        batch.labels(selector.label_index)
    return lambda i: selector.learn(checked[i % 4]).weights_


def whole(selector: FIRES, data: list[Batch]) -> Callable[[int], object]:
    return lambda i: selector.partial_fit(*data[i % 4]).get_support()


def measure(n_features: int, asked: int | None, kept: bool = False) -> list[Row]:
    data = batches(n_features)
    check_equals(data)
    authors = Authors(n_features)
    things = {
        "as_published, step and weights": behind_gate(FIRES.as_published(K), data),
        "default, step and weights": behind_gate(FIRES(K), data),
    }
    if not kept:
        things |= {
            "as_published, partial_fit, get_support": whole(FIRES.as_published(K), data),
            "default, partial_fit, get_support": whole(FIRES(K), data),
            "authors, neither encoding nor shuffling": formulas(data),
        }
    size = f"J = {n_features}" + ", memory kept" * kept
    rows: list[Row] = []
    for what, thing in things.items():
        # In pairs: the more there is to take turns, the colder the caches.
        pair = {"authors": lambda i: authors.weigh(*data[i % 4]), what: thing}
        theirs, ours = take_turns(pair, *TURNS[n_features]).values()
        ratio = Ratio.of(theirs, ours)
        if not rows:
            rows.append(Row("authors, as written", size, shown(theirs), "1"))
        judged = what == "as_published, step and weights"
        figure = (f">= {asked}", ratio.value >= asked) if asked and judged else ()
        rows.append(Row(what, size, shown(ours), ratio, *figure))
    return rows


def main() -> list[Row]:
    rows = [row for n_features, asked in ASKED.items() for row in measure(n_features, asked)]
    np.empty(30 << 17)  # 30 MiB, freed at once: from here on glibc keeps up to 60 MiB
    rows += [row for n_features in ASKED for row in measure(n_features, None, kept=True)]
    return show("step: the authors' time over ours, batch 100, float64", rows)
