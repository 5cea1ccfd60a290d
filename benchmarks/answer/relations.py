"""Relations: curves and pairs. What issue 31 asks for.

Five of 50 normal columns matter, by curves or in pairs; 20,000 rows in batches of 100. Madelon has
20 columns that matter, together only. LightGBM is refitted every 500 rows on the last 3,000 rows of
the selected columns, and tested before.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.answer import datasets
from benchmarks.answer.field import Line
from benchmarks.answer.field_cases import Values
from benchmarks.answer.figures import Bench, Figure, Maker
from benchmarks.answer.streams import n_found
from fires import stability
from fires.evaluation.loop import prequential

TITLE = "curves and pairs, data sets, cost"
N, BATCH, J = 20_000, 100, 50
SIZES = np.array([1.0, 0.8, 0.7, 0.6, 0.5])
SHAPES: dict[str, Any] = {  # of variance about 1 for a standard normal x
    "linear": lambda x: x,
    "quadratic": lambda x: (x**2 - 1.0) / np.sqrt(2.0),
    "abs(x) > 1": lambda x: ((np.abs(x) > 1.0) - 0.3173) / 0.4654,
    "sin 3x": lambda x: np.sin(3.0 * x) * np.sqrt(2.0),
    "maximum": lambda x: (np.maximum(x, 0.0) - 0.3989) / 0.5838,
}
MADELON = "28 48 64 105 128 153 241 281 318 336 338 378 433 442 451 453 455 472 475 493"


def _shaped(rng: np.random.Generator, shape: str) -> tuple[Any, Any, Any, Any]:
    X, relevant = rng.standard_normal((N, J)), rng.permutation(J)[:5]
    sizes = SIZES * rng.choice([-1.0, 1.0], 5)
    signal = SHAPES[shape](X[:, relevant]) @ sizes
    return X, (signal + rng.standard_normal(N) > 0.0).astype(int), relevant, sizes


def _batches(X: Any, y: Any) -> Iterator[tuple[int, Any, Any]]:
    for i in range(0, len(y), BATCH):
        yield i + BATCH, X[i : i + BATCH], y[i : i + BATCH]


def _found(selector: Any, X: Any, y: Any, relevant: Any, since: int) -> float:
    """How many that matter are selected, on average from a row on."""
    found = []
    for row, A, b in _batches(X, y):
        selector.partial_fit(A, b)
        if row > since:
            found.append(n_found(selector, relevant))
    return float(np.mean(found))


def shape(make: Maker, seed: int, name: str, relations: str) -> Values:
    """How many of five are selected from row 5,000 on."""
    X, y, relevant, _ = _shaped(np.random.default_rng(seed), name)
    return (_found(make(5, relations=relations), X, y, relevant, 5_000),)


def xor(make: Maker, seed: int, n_features: int, n_relevant: int) -> Values:
    """The share of columns in pairs that are selected from row 2,500 on."""
    rng = np.random.default_rng(seed)
    X, c = rng.standard_normal((N, n_features)), rng.permutation(n_features)[:n_relevant]
    pairs = [(0, 1), (2, 3), (3, 4)][: 3 if n_relevant == 5 else 1]
    signal = sum(1.2 * np.sign(X[:, c[i]] * X[:, c[j]]) for i, j in pairs)
    y = (signal + rng.standard_normal(N) > 0.0).astype(int)
    return (_found(make(n_relevant, relations="auto"), X, y, c, 2_500) / n_relevant,)


def madelon(make: Maker, seed: int) -> Values:
    """Of 20 columns that matter, selected after 500, 1,500, 2,500 rows; stability from 1,500 on."""
    X, y = datasets.rows("Madelon", seed)
    relevant, selector = np.array(MADELON.split(), dtype=int), make(20, relations="auto")
    found, masks = {}, []
    for row, A, b in _batches(X, y):
        selector.partial_fit(A, b)
        found[row] = n_found(selector, relevant)
        if row >= 1_500:
            masks.append(selector.get_support())
    return found[500], found[1_500], found[2_500], float(stability(np.array(masks)))


def nothing(make: Maker, seed: int, n_features: int) -> Values:
    """Whether a pair was ever admitted, and whether a curve was, where all effects are lines."""
    rng = np.random.default_rng([seed, n_features])
    relevant, sizes = rng.permutation(n_features)[:5], SIZES * rng.choice([-1.0, 1.0], 5)
    selector, pairs, curves = make(5, relations="pairs"), False, False
    for _ in range(N // BATCH):
        X = rng.standard_normal((BATCH, n_features))
        y = (X[:, relevant] @ sizes + rng.standard_normal(BATCH) > 0.0).astype(int)
        selector.partial_fit(X, y)
        pairs |= selector.relations_ == "pairs"
        curves |= selector.relations_ == "curves"
    return float(pairs), float(curves)


def band(make: Maker, seed: int, name: str) -> Values:
    """The share of the middle 90 % in which the band holds the true curve."""
    X, y, relevant, sizes = _shaped(np.random.default_rng(seed), name)
    selector = make(5, relations="curves")
    for _, A, b in _batches(X, y):
        selector.partial_fit(A, b)
    held = []
    for column, size in zip(relevant.tolist(), sizes.tolist(), strict=True):
        values, _, low, high = selector.curve(column, n_points=101)
        true = size * SHAPES[name](values)
        true -= np.average(true, weights=np.exp(-0.5 * values**2))
        middle = np.abs(values) < 1.645
        held.append(((low <= true) & (true <= high))[middle].mean())
    return (float(np.mean(held)),)


def forest(make: Maker, seed: int, name: str, share: float) -> Values:
    """Accuracy of LightGBM on what "auto" selects, less that on what "linear" selects."""
    return (
        _lightgbm(make, name, seed, share, "auto") - _lightgbm(make, name, seed, share, "linear"),
    )


def _lightgbm(make: Maker, name: str, seed: int, share: float, relations: str) -> float:
    from lightgbm import LGBMClassifier

    X, y = datasets.rows(name, seed)
    X, y = X[:10_000], y[:10_000]
    selector = make(max(1, int(share * X.shape[1])), relations=relations)
    hits, tested = 0, 0
    for start in range(0, len(y), 500):
        stop = start + 500
        if start:
            chosen, first = selector.get_support(indices=True), max(0, start - 3_000)
            model = LGBMClassifier(n_estimators=60, num_leaves=15, verbose=-1, n_jobs=1)
            model.fit(X[first:start][:, chosen], y[first:start])
            hits += int((model.predict(X[start:stop][:, chosen]) == y[start:stop]).sum())
            tested += len(y[start:stop])
        for i in range(start, min(stop, len(y)), BATCH):
            selector.partial_fit(X[i : i + BATCH], y[i : i + BATCH])
    return hits / tested


def linear(make: Maker, seed: int, name: str, share: float) -> Values:
    """Accuracy of BayesLinear on what "auto" selects, less that on what "linear" selects."""
    X, y = datasets.rows(name, seed)
    found = []
    for relations in ("auto", "linear"):
        batches = ((A, b) for _, A, b in _batches(X, y))
        selector = make(max(1, int(share * X.shape[1])), relations=relations)
        steps = list(prequential(batches, selector, "auto", classes=np.unique(y)))
        tested = [(s.scores["accuracy"], s.n_rows) for s in steps if s.scores["accuracy"] >= 0.0]
        found.append(np.average([a for a, _ in tested], weights=[n for _, n in tested]))
    return (float(found[0] - found[1]),)


def cost(make: Maker, seed: int, n_features: int, relations: str, name: str) -> Values:
    """Processor time of a batch of 100, as a multiple of that of straight lines."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N, n_features))
    y = (SHAPES[name](X[:, :5]) @ SIZES + rng.standard_normal(N) > 0.0).astype(int)
    least = []
    for one in ("linear", relations):
        selector, times = make(5, relations=one), []
        for _, A, b in _batches(X, y):
            began = time.process_time()
            selector.partial_fit(A, b)
            times.append(time.process_time() - began)
        # Looks at terms come every fifth batch: the mean of the quietest rounds of 20 batches.
        rounds = np.reshape(times, (-1, 20)).mean(axis=1)
        least.append(float(rounds[2:].min()))
    return least[1] / least[0], 1e6 * least[0]


def _lines() -> Iterator[Line]:
    for relations in ("curves", "auto"):
        for name in SHAPES:
            asked: dict[str, str | None] = {"of five": ">= 4.8"}
            yield Line(f"{relations}: {name}", shape, (name, relations), asked)
    asked = {"share of columns": ">= 0.99"}
    yield Line("XOR, five of 50", xor, (J, 5), asked)
    yield Line("XOR, two of 200", xor, (200, 2), asked)
    wanted = ">= 8", ">= 16", ">= 18", ">= 0.85"
    rows = "after 500", "after 1,500", "after 2,500", "stability"
    yield Line("Madelon", madelon, (), dict(zip(rows, wanted, strict=True)))
    for n_features in (J, 200):
        asked = {"runs with a pair": "<= 0.05", "with a curve": None}
        yield Line(f"lines only, J = {n_features}", nothing, (n_features,), asked, n_seeds=20)
    for name in ("linear", "quadratic", "sin 3x", "maximum"):
        yield Line(f"band, {name}", band, (name,), {"coverage": ">= 0.90"})
    for name in datasets.NAMES:
        for share in (0.1, 0.2):
            least = ">= 0.10" if name == "Madelon" else ">= -0.005"
            asked = {'"auto" above "linear"': least}
            yield Line(f"LightGBM, {name}, {share:.0%}", forest, (name, share), asked, n_seeds=2)
    for name in datasets.NAMES:
        for share in (0.1, 0.2):
            asked = {'"auto" above "linear"': ">= -0.01"}
            yield Line(f"BayesLinear, {name}, {share:.0%}", linear, (name, share), asked, n_seeds=2)
    for n_features, relations, most in ((J, "curves", 2.5), (J, "pairs", 4.0), (500, "pairs", 8.0)):
        for name in ("linear", "quadratic"):
            asked = {"times the cost of lines": f"<= {most}", "of which are us": None}
            what = f"cost, J = {n_features}, {relations}, {name} stream"
            yield Line(what, cost, (n_features, relations, name), asked, n_seeds=1)


def measure(bench: Bench) -> list[Figure]:
    """All lines, or those that are wanted."""
    figures = []
    for line in [line for line in _lines() if line.wanted(bench)]:
        cases = [(seed, *line.args) for seed in bench.seeds(line.n_seeds)]
        figures += line.figures(bench.map(line.measure, cases))
    return figures
