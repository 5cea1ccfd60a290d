"""A CSR batch must cost what its entries cost: a million features against a hundred thousand.

Every batch is seen once, as in a stream: no call finds in the cache what another left there.
``transform`` chooses, and so looks at every weight: what contains it is only reported.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires import FIRES

NARROW, WIDE, ASKED = 100_000, 1_000_000, 2.0
ROUNDS = {"partial_fit": 100, "partial_fit and transform": 40}
SELECTORS: dict[str, Callable[[int], FIRES]] = {
    "default": FIRES,
    "as_published": FIRES.as_published,
}

Columns = Callable[[np.random.Generator, int], Any]


def uniform(rng: np.random.Generator, n_features: int) -> Any:
    """100 different columns, each as likely as any other."""
    return rng.choice(n_features, 100, replace=False, shuffle=False)


def zipf(rng: np.random.Generator, n_features: int) -> Any:
    """100 different columns, the r-th most frequent with probability about 1/r, as words are."""
    ranks = np.unique((n_features ** rng.random(400)).astype(np.int64))
    # Frequent columns lie apart, as hashed ones do; no two ranks meet, 7919 being a prime.
    return rng.permutation(ranks)[:100] * 7919 % n_features


def batches(n_features: int, columns: Columns, n_batches: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(n_features)
    starts = np.arange(0, 10_001, 100, dtype=np.int32)
    out = []
    for _ in range(n_batches):
        rows = [np.sort(columns(rng, n_features)) for _ in range(100)]
        entries = (rng.random(10_000), np.concatenate(rows).astype(np.int32), starts)
        X = sp.csr_matrix(entries, shape=(100, n_features))
        out.append((X, rng.integers(0, 2, size=100)))
    return out


def thing(what: str, selector: FIRES, data: list[tuple[Any, Any]]) -> Callable[[int], object]:
    if what == "partial_fit":
        return lambda i: selector.partial_fit(*data[i])
    return lambda i: selector.partial_fit(*data[i]).transform(data[i][0])


def measure(columns: Columns) -> Iterator[Row]:
    rounds = max(ROUNDS.values())
    data = {n: batches(n, columns, 2 * rounds) for n in (NARROW, WIDE)}
    for name, make in SELECTORS.items():
        for what, rounds in ROUNDS.items():
            seconds = take_turns({str(n): thing(what, make(10), data[n]) for n in data}, rounds)
            narrow, wide = seconds.values()
            ratio = Ratio.of(wide, narrow)
            figure = (f"<= {ASKED:g}", ratio.value <= ASKED) if what == "partial_fit" else ()
            where = f"{columns.__name__} columns"
            yield Row(f"{name}, {what}", f"J = {NARROW:,}, {where}", shown(narrow), "1")
            yield Row(f"{name}, {what}", f"J = {WIDE:,}, {where}", shown(wide), ratio, *figure)


def memory() -> Iterator[Row]:
    """What a selector holds, what a step needs for a while, what asking for weights keeps."""
    data = batches(WIDE, uniform, 4)
    for name, make in SELECTORS.items():
        tracemalloc.start()
        selector = make(10)
        for X, y in data[:3]:
            selector.partial_fit(X, y)
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        selector.partial_fit(*data[3])
        _, peak = tracemalloc.get_traced_memory()
        selector.transform(data[3][0])
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        for what, size in (
            ("held", held),
            ("more during a step", peak - held),
            ("more after transform", kept - held),
        ):
            yield Row(f"{name}, memory {what}", f"J = {WIDE:,}", f"{size / WIDE:.1f} B per feature")


def main() -> list[Row]:
    rows = [*measure(uniform), *measure(zipf), *memory()]
    return show("sparse: CSR of 100 rows with 100 entries each, float64", rows)
