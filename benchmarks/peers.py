"""A batch in processor time: ours beside what people use instead, over widths and batch sizes.

All learn the same rows in one run, on one thread, in turns; the figure is the least time of a
batch. Ours has its checks, intervals, drift alarms and the selected set in it; the others only
learn, unless said otherwise. ``X.sum()`` reads every value once, ``X @ mu`` multiplies it: what no
method can beat. LightGBM is fitted to the last 3,000 rows, every 500: its time is the share of a
batch.

``python -m benchmarks peers`` writes docs/benchmarks.md, and says what has become slower by more
than 20 % beside ``X.sum()`` since benchmarks/ratios.json was written; ``FIRES_RATIOS=write`` writes
that anew. CapyMOA wants another pandas than we do: ``FIRES_CAPYMOA`` names the Python that has it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from time import thread_time
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier

from benchmarks.authors import Authors
from benchmarks.sharding import cores
from benchmarks.timing import Ratio, Row, shown, take_turns
from fires import FIRES

Learn = Callable[[int], object]
DENSE = ((20, 1), (50, 1), (50, 100), (50, 1000), (500, 100), (5000, 100), (50_000, 100))
SPARSE = (10_000, 1_000_000, 10_000_000)
N_ENTRIES, N_BATCHES, K = 100, 8, 10
BY_ROW = 5_000  # values of a batch up to which methods that learn row by row are tried
WINDOW, EVERY = 3_000, 500
RATIOS = Path(__file__).with_name("ratios.json")
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
OURS = "**fires**, everything on"
LIMIT = "`X.sum()`"
CAPYMOA = """
import sys, time
import numpy as np
from capymoa.feature import MOAFeatureImportanceClassifier
from capymoa.stream import NumpyStream
n_features, n_rows = int(sys.argv[1]), int(sys.argv[2])
rng = np.random.default_rng(0)
X = rng.normal(size=(4_000, n_features))
y = (X[:, :5].sum(axis=1) + rng.normal(size=len(X)) > 0).astype(int)
stream = NumpyStream(X, y, target_type="categorical")
model = MOAFeatureImportanceClassifier(stream.get_schema())
rows = [stream.next_instance() for _ in range(len(X))]
for row in rows[:2_000]:
    model.train(row)
model.get_feature_importances()
begin = time.process_time()
for start in range(2_000, 4_000, n_rows):
    for row in rows[start : start + n_rows]:
        model.train(row)
    model.get_feature_importances()
print((time.process_time() - begin) * n_rows / 2_000)
"""
WIDE = ((1_000, 500), (1_000, 5_000), (10_000, 500), (2_000, 50_000))


def dense_batches(n_features: int, n_rows: int) -> list[tuple[Any, Any]]:
    rng = np.random.default_rng(n_features)
    theta = rng.normal(size=n_features) * (np.arange(n_features) < 10)
    made = [rng.normal(size=(n_rows, n_features)) for _ in range(N_BATCHES)]
    return [(X, (X @ theta + rng.normal(size=n_rows) > 0).astype(np.int64)) for X in made]


def sparse_batches(n_features: int) -> list[tuple[Any, Any]]:
    rng, data = np.random.default_rng(n_features), []
    for _ in range(N_BATCHES):
        columns = (n_features * rng.random((100, N_ENTRIES)) ** 3).astype(np.int32)
        X = sp.csr_array(
            (
                np.ones(columns.size),
                columns.ravel(),
                np.arange(0, columns.size + 1, N_ENTRIES, dtype=np.int32),
            ),
            shape=(100, n_features),
        )
        X.sum_duplicates()
        data.append((X, (rng.random(100) < 0.3).astype(np.int64)))
    return data


def lean_step(n_features: int, data: list[tuple[Any, Any]]) -> Learn:
    """The paper's step in NumPy, without checks, scaling, or a choice."""
    from scipy.special import log_ndtr

    mu, sigma = np.zeros(n_features), np.ones(n_features)

    def learn(i: int) -> None:
        X, y = data[i % N_BATCHES]
        sign, squares = 2.0 * y - 1.0, X * X
        rho = np.sqrt(1.0 + squares @ (sigma * sigma))
        z = sign * (X @ mu) / rho
        ratio = np.exp(-0.5 * z * z - 0.9189385332046727 - log_ndtr(z))
        mu[:] += 0.01 * (X.T @ (sign * ratio / rho)) / len(y)
        sigma[:] -= 0.01 * sigma * (squares.T @ (ratio * z / rho**2)) / len(y)

    return learn


def vowpal(data: list[tuple[Any, Any]]) -> Learn:
    import vowpalwabbit

    model = vowpalwabbit.Workspace("--loss_function logistic --quiet -b 18")
    lines = [
        [
            model.parse(f"{2 * t - 1} | " + " ".join(f"{j}:{v:.6g}" for j, v in enumerate(row)))
            for row, t in zip(X.tolist(), y.tolist(), strict=True)
        ]
        for X, y in data
    ]

    def learn(i: int) -> None:
        for example in lines[i % N_BATCHES]:
            model.learn(example)

    return learn


def river_peers(data: list[tuple[Any, Any]]) -> dict[str, Learn]:
    from river import feature_selection, linear_model, stats

    rows = [
        [(dict(enumerate(row)), bool(t)) for row, t in zip(X.tolist(), y.tolist(), strict=True)]
        for X, y in data
    ]

    def by_row(model: Any) -> Learn:
        def learn(i: int) -> None:
            for x, y in rows[i % N_BATCHES]:
                model.learn_one(x, y)

        return learn

    frames = [(pd.DataFrame(X), pd.Series(y)) for X, y in data]
    many = linear_model.LogisticRegression()
    return {
        "River LogisticRegression": by_row(linear_model.LogisticRegression())
        if len(rows[0]) == 1
        else lambda i: many.learn_many(*frames[i % N_BATCHES]),
        "River SelectKBest": by_row(feature_selection.SelectKBest(stats.PearsonCorr(), k=K)),
        "River AdPredictor": by_row(linear_model.AdPredictor()),
    }


def lightgbm_share(n_features: int, n_rows: int) -> float:
    """Processor seconds of LightGBM for one batch."""
    import lightgbm

    rng = np.random.default_rng(0)
    X = rng.normal(size=(WINDOW, n_features))
    y = X[:, :5].sum(axis=1) + rng.normal(size=WINDOW) > 0
    begin = thread_time()
    lightgbm.LGBMClassifier(n_jobs=1, verbose=-1).fit(X, y)
    return (thread_time() - begin) * n_rows / EVERY


def capymoa_share(python: str, n_features: int, n_rows: int) -> float:
    """Processor seconds of CapyMOA for one batch, its virtual machine included."""
    command = [python, "-c", CAPYMOA, str(n_features), str(n_rows)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(ended.stdout.split()[-1])


def dense_peers(n_features: int, n_rows: int) -> tuple[dict[str, Learn], dict[str, float]]:
    data = dense_batches(n_features, n_rows)
    ours, paper = FIRES(K), FIRES.as_published(K)
    sgd, authors = SGDClassifier(loss="log_loss"), Authors(n_features)
    mu = np.zeros(n_features)
    things: dict[str, Learn] = {
        OURS: lambda i: ours.partial_fit(*data[i % N_BATCHES]).get_support(),
        "fires, as published": lambda i: paper.partial_fit(*data[i % N_BATCHES]).get_support(),
        "scikit-learn SGDClassifier": lambda i: sgd.partial_fit(
            *data[i % N_BATCHES], classes=[0, 1]
        ),
        "the authors' formulas": lambda i: authors.weigh(*data[i % N_BATCHES]),
        "the paper's step in lean NumPy": lean_step(n_features, data),
        "`X @ mu`": lambda i: data[i % N_BATCHES][0] @ mu,
        LIMIT: lambda i: data[i % N_BATCHES][0].sum(),
    }
    if n_features * n_rows <= BY_ROW:
        things |= river_peers(data)
    if find_spec("vowpalwabbit") and n_features * n_rows <= 100 * BY_ROW:
        things["Vowpal Wabbit"] = vowpal(data)
    shares = {}
    if n_features <= BY_ROW and find_spec("lightgbm"):
        shares["LightGBM on a window"] = lightgbm_share(n_features, n_rows)
    if (python := os.environ.get("FIRES_CAPYMOA")) and n_features <= BY_ROW:
        shares["CapyMOA feature importance"] = capymoa_share(python, n_features, n_rows)
    return things, shares


def sparse_peers(n_features: int) -> dict[str, Learn]:
    data = sparse_batches(n_features)
    ours, paper, gradient = FIRES(K), FIRES.as_published(K), FIRES(K, update="gradient")
    sgd = SGDClassifier(loss="log_loss")
    return {
        OURS: lambda i: ours.partial_fit(*data[i % N_BATCHES]).get_support(indices=True),
        "fires, gradient update": lambda i: gradient.partial_fit(*data[i % N_BATCHES]).get_support(
            indices=True
        ),
        "fires, as published": lambda i: paper.partial_fit(*data[i % N_BATCHES]).get_support(
            indices=True
        ),
        "scikit-learn SGDClassifier": lambda i: sgd.partial_fit(
            *data[i % N_BATCHES], classes=[0, 1]
        ),
        LIMIT: lambda i: data[i % N_BATCHES][0].sum(),
    }


def timed(things: dict[str, Learn]) -> dict[str, float]:
    """The least seconds of a batch; every thing learns its batches once before."""
    slowest = 0.0
    for thing in things.values():
        for i in range(N_BATCHES):
            begin = thread_time()
            thing(i)
        slowest = max(slowest, thread_time() - begin)
    rounds = int(min(200, max(8, 3.0 / max(slowest, 1e-6) / len(things))))
    seconds = take_turns(things, rounds, calls=2)
    return {name: float(values.min()) for name, values in seconds.items()}


def measured() -> Iterator[tuple[str, dict[str, float]]]:
    for n_features, n_rows in DENSE:
        things, shares = dense_peers(n_features, n_rows)
        yield f"{n_features:,} x {n_rows:,}", timed(things) | shares
    for n_features in SPARSE:
        yield f"sparse {n_features:,}", timed(sparse_peers(n_features))


def table(found: dict[str, dict[str, float]]) -> list[str]:
    names = list(dict.fromkeys(name for one in found.values() for name in one))
    lines = [f"| columns x rows of a batch | {' | '.join(found)} |"]
    lines.append("|---" * (len(found) + 1) + "|")
    for name in names:
        cells = [shown(one[name]) if name in one else "" for one in found.values()]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def two_cores() -> list[str]:
    """What a second core brings, by the clock on the wall."""
    lines = ["| rows x columns of a batch | `partial_fit` | `Sharded(n_jobs=2)` | speed-up |"]
    lines.append("|---|---|---|---|")
    for n_rows, n_features in WIDE:
        alone, _, both = cores(n_rows, n_features, "bayes", 6)
        faster = both.ratio.value if isinstance(both.ratio, Ratio) else np.nan
        size = f"{n_rows:,} x {n_features:,}"
        lines.append(f"| {size} | {alone.time} | {both.time} | {faster:.2f} |")
    return lines


def write_page(found: dict[str, dict[str, float]]) -> None:
    dense = {size: one for size, one in found.items() if not size.startswith("sparse")}
    sparse = {size.removeprefix("sparse "): one for size, one in found.items() if size not in dense}
    cores, today = os.cpu_count(), datetime.now(UTC).date()
    text = f"""# Benchmarks

Written by `python -m benchmarks peers` on {today}, on a shared machine with {cores} cores. Each
figure is the least processor time of one batch, on one thread, in one run: compare ratios, not
seconds.

- **fires** has everything on: checks, scaling, intervals, drift alarms, and the selected set after
  each batch. The others only learn, except `SelectKBest`, and report neither uncertainty nor
  concept drift.
- **LightGBM** is refitted on the last {WINDOW:,} rows every {EVERY} rows: its figure is the share
  of one batch.
- `X.sum()` reads every value once, `X @ mu` also multiplies it: no method that reads all values is
  faster.
- **CapyMOA** is its Hoeffding tree with feature importances, which are read after each batch: the
  mean over 2,000 rows after 2,000 others, in a separate process. The figure has the processor time
  of all threads of the JVM.

## Dense

{chr(10).join(table(dense))}

## Sparse: 100 rows of {N_ENTRIES} entries, by the number of columns

{chr(10).join(table(sparse))}

## Two cores, wall-clock time

{chr(10).join(two_cores())}

Small batches do not justify a second process.
"""
    PAGE.write_text(text, encoding="utf-8")


def main() -> list[Row]:
    found: dict[str, dict[str, float]] = {}
    for size, one in measured():
        found[size] = one
        print(size, {name: shown(value) for name, value in one.items()}, flush=True)
    write_page(found)
    ratios = {
        size: {name: one[name] / one[LIMIT] for name in one if "fires" in name}
        for size, one in found.items()
    }
    if os.environ.get("FIRES_RATIOS") == "write" or not RATIOS.exists():
        RATIOS.write_text(json.dumps(ratios, indent=1), encoding="utf-8")
        return []
    before = json.loads(RATIOS.read_text(encoding="utf-8"))
    for size, one in ratios.items():
        for name, ratio in one.items():
            was = before.get(size, {}).get(name, np.inf)
            if ratio > 1.2 * was:
                print(f"slower: {name}, {size}: {ratio:.3g} times {LIMIT}, was {was:.3g}")
    return []
