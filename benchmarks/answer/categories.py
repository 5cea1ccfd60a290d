"""Does a column of categories that decides the target rank where it should?

Ten streams: 2 to 1,000 categories, evenly or by Zipf's law, with categories that come only
half-way; two classes, four classes and numbers. Beside the deciding column stand five other columns
of categories and six of numbers, all of them noise.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from benchmarks.answer.figures import Bench, Figure, Maker, judged

TITLE = "rank of the column of categories that decides the target, after 10,000 rows"
N_ROWS, BATCH_SIZE = 10_000, 100
# How many classes (0 for numbers), how many categories, by Zipf's law, with new ones half-way.
STREAMS = {
    "2 categories, two classes": (2, 2, False, False),
    "3 categories, two classes": (2, 3, False, False),
    "21 categories, two classes": (2, 21, False, False),
    "100 categories, new ones half-way": (2, 100, False, True),
    "1,000 categories, two classes": (2, 1000, False, False),
    "1,000 by Zipf's law, two classes": (2, 1000, True, False),
    "21 categories, four classes": (4, 21, False, False),
    "300 categories, four classes": (4, 300, False, False),
    "21 categories, numbers": (0, 21, False, False),
    "1,000 by Zipf's law, numbers": (0, 1000, True, False),
}


def rows(seed: int, name: str) -> tuple[pl.DataFrame, Any]:
    """A table whose first column decides the target."""
    n_classes, n_levels, zipf, late = STREAMS[name]
    rng = np.random.default_rng(seed)
    shares = 1.0 / np.arange(1, n_levels + 1) if zipf else np.ones(n_levels)
    levels = rng.choice(n_levels, N_ROWS, p=shares / shares.sum())
    if late:
        levels = np.where(np.arange(N_ROWS) > N_ROWS // 2, levels + n_levels // 2, levels)
    n_known = int(levels.max()) + 1
    if n_classes == 0:
        y: Any = rng.normal(size=n_known)[levels] + 0.5 * rng.normal(size=N_ROWS)
    else:
        of_level = rng.permutation(np.arange(n_known) % n_classes)
        noise = rng.integers(0, n_classes, N_ROWS)
        y = np.where(rng.random(N_ROWS) < 0.8, of_level[levels], noise)
    columns: dict[str, Any] = {"decides": [f"v{level}" for level in levels]}
    for i, n_other in enumerate((2, 5, 21, 100, 1000)):
        columns[f"noise{i}"] = [f"w{level}" for level in rng.integers(0, n_other, N_ROWS)]
    columns |= {f"x{i}": rng.normal(size=N_ROWS) for i in range(6)}
    return pl.DataFrame(columns), y


def encoded(frame: pl.DataFrame, how: str) -> tuple[Any, list[str]]:
    """The table in another form: codes in order of appearance, or a column per category."""
    parts, groups = [], []
    for series in frame.iter_columns():
        X = series.to_numpy()[:, None]
        if series.dtype == pl.String:
            levels = series.unique(maintain_order=True)
            codes = series.replace_strict(levels, list(range(len(levels)))).to_numpy()
            X = codes[:, None].astype(float)
            if how == "a column each" and len(levels) > 2:
                # As many as the first batch shows, 30 at most; all later ones share the last.
                n_known = min(series[:BATCH_SIZE].n_unique(), 30)
                X = (np.minimum(codes, n_known)[:, None] == np.arange(n_known + 1)).astype(float)
        parts.append(X)
        groups += [series.name] * X.shape[1]
    return np.hstack(parts), groups


def rank(make: Maker, seed: int, name: str, how: str) -> int:
    """Where the deciding column stands among all columns."""
    frame, y = rows(seed, name)
    X: Any = frame
    selector = make(3, random_state=seed)
    if how != "target":
        X, groups = encoded(frame, how)
        selector = make(3, random_state=seed, groups=groups)
    for start in range(0, N_ROWS, BATCH_SIZE):
        stop = start + BATCH_SIZE
        selector.partial_fit(X[start:stop], y[start:stop])
    own = selector.columns_.of_features if how == "target" else tuple(groups)
    better = selector.weights_ > selector.weights_[own.index("decides")]
    return 1 + len({column for column, is_better in zip(own, better, strict=True) if is_better})


def measure(bench: Bench) -> list[Figure]:
    """Ten streams, five seeds each; beside what is done, what else was tried."""
    figures = []
    for name in STREAMS:
        for how in ("target", "codes", "a column each"):
            found = bench.map(rank, [(seed, name, how) for seed in bench.seeds(5)])
            if how == "target":
                figures.append(judged(name, [max(found)], "<= 3", digits=2))
            else:
                shown = " ".join(map(str, found))
                figures.append(Figure(f"  {how}", shown, "", None, found, ""))
    return figures
