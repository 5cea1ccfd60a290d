"""A CSR batch must cost what its entries cost: a million features against a hundred thousand.

Every batch is seen once, as in a stream: no call finds in the cache what another left there.
What contains ``transform`` is only reported: once in a while it looks at every weight.

At ten million features, a step and its choice are held against a step of scikit-learn's
SGDClassifier on the same rows, which chooses nothing. A feature is to cost few bytes, in memory
and in a saved state.
"""

from __future__ import annotations

import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier

from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires import FIRES

NARROW, WIDE, ASKED = 100_000, 1_000_000, 2.0
HUGE = 10_000_000
NANOSECONDS, BYTES = 250.0, 96.0  # of an entry, of a feature
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


def per_entry(columns: Columns) -> Row:
    """What an entry costs the default, looks at all columns now and then left out or included."""
    data, rounds = batches(WIDE, columns, 120), 60
    seconds = take_turns({"": thing("partial_fit", FIRES(10), data)}, rounds)[""]
    least, mean = seconds.min() * 1e5, seconds.mean() * 1e5
    size = f"J = {WIDE:,}, {columns.__name__} columns"
    figure = f"<= {NANOSECONDS:g} ns", bool(least <= NANOSECONDS)
    return Row("default, an entry", size, f"{least:.0f} ns", f"mean {mean:.0f} ns", *figure)


def against_sgd() -> Iterator[Row]:
    """A step of the gradient update and its choice, over a step of scikit-learn's."""
    data, rounds = batches(HUGE, uniform, 60), 30
    theirs = SGDClassifier()
    makers = SELECTORS | {"gradient": lambda k: FIRES(k, update="gradient", drift=None)}
    things: dict[str, Callable[[int], object]] = {
        "SGDClassifier": lambda i: theirs.partial_fit(*data[i], classes=[0, 1])
    }
    for name, make in makers.items():
        things[name] = choosing(make(10), data)
    seconds = take_turns(things, rounds)
    sgd = seconds.pop("SGDClassifier")
    size = f"J = {HUGE:,}, uniform columns"
    yield Row("SGDClassifier, partial_fit", size, shown(sgd), "1")
    for name, ours in seconds.items():
        ratio = Ratio.of(sgd, ours)
        figure = () if name == "default" else ("> 1", ratio.value > 1.0)
        yield Row(f"{name}, partial_fit and get_support", size, shown(ours), ratio, *figure)


def choosing(selector: FIRES, data: list[tuple[Any, Any]]) -> Callable[[int], object]:
    return lambda i: selector.partial_fit(*data[i]).get_support(indices=True)


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
        with tempfile.TemporaryDirectory() as folder:
            selector.save(Path(folder) / "state")
            saved = (Path(folder) / "state").stat().st_size
        for what, size in (
            ("held", held),
            ("in a file", saved),
            ("more during a step", peak - held),
            ("more after transform", kept - held),
        ):
            each, asked = size / WIDE, what in ("held", "in a file")
            figure = (f"<= {BYTES:g} B", each <= BYTES) if asked else ()
            yield Row(f"{name}, {what}", f"J = {WIDE:,}", f"{each:.1f} B per feature", "", *figure)


def main() -> list[Row]:
    rows = [*measure(uniform), *measure(zipf), per_entry(uniform), per_entry(zipf)]
    rows += [*against_sgd(), *memory()]
    return show("sparse: CSR of 100 rows with 100 entries each, float64", rows)
