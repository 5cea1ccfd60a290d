"""Columns that come and go: are the relevant ones found, and what does it cost?

A stream of 200 batches of 100 rows has 40 columns at a time, 5 of them relevant. Every five batches
one column is replaced by a new one, until all are others; the successor of a relevant column is
relevant, with an effect of its own. After each batch it is looked at how many of the relevant
columns that are there are selected, and how many columns are known.

The cost is that of frames with named columns, beside the same rows as plain arrays of fixed width.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires import FIRES

N_BATCHES, N_ROWS, N_COLUMNS, N_RELEVANT, EFFECT = 200, 100, 40, 5, 0.6
N_SEEDS, LEAST, FORGET_AFTER = 10, 0.9, 2000


def batches(seed: int) -> Iterator[tuple[pd.DataFrame, np.ndarray, set[str]]]:
    """Frames, targets, and the names of the relevant columns."""
    rng = np.random.default_rng(seed)
    names = [f"c{place}" for place in range(N_COLUMNS)]
    effects = np.zeros(N_COLUMNS)
    effects[rng.permutation(N_COLUMNS)[:N_RELEVANT]] = EFFECT * rng.choice([-1, 1], N_RELEVANT)
    order, every = rng.permutation(N_COLUMNS), N_BATCHES // N_COLUMNS
    for number in range(N_BATCHES):
        if number % every == every - 1:
            place = order[number // every]
            names[place] = f"c{N_COLUMNS + number // every}"
            effects[place] *= rng.choice([-1, 1])
        X = rng.normal(size=(N_ROWS, N_COLUMNS))
        y = (X @ effects + rng.normal(size=N_ROWS) > 0).astype(int)
        relevant = {names[place] for place in np.flatnonzero(effects)}
        yield pd.DataFrame(X, columns=names), y, relevant


def share_found(seed: int, **how: object) -> tuple[float, int]:
    """The mean share of the relevant columns that are selected, and the most columns known."""
    selector, shares, most = FIRES(N_RELEVANT, columns="open", **how), [], 0
    for X, y, relevant in batches(seed):
        selector.partial_fit(X, y)
        shares.append(len(relevant & set(selector.get_feature_names_out())) / N_RELEVANT)
        most = max(most, selector.n_features_in_)
    return float(np.mean(shares)), most


def main() -> list[Row]:
    rows = []
    for what, how in (("kept", {}), ("forgotten", {"forget_after": FORGET_AFTER})):
        found = [share_found(seed, **how) for seed in range(N_SEEDS)]
        mean, most = np.mean([share for share, _ in found]), max(most for _, most in found)
        least = min(share for share, _ in found)
        rows.append(
            Row(
                f"relevant columns found, old ones {what}",
                f"{N_SEEDS} seeds",
                f"{most} columns known at most",
                f"{mean:.3f} (least {least:.3f})",
                f">= {LEAST}",
                bool(mean >= LEAST),
            )
        )
    return show("open columns", [*rows, *_cost(40), *_cost(500)])


def _cost(n_columns: int) -> list[Row]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, N_ROWS, n_columns))
    y = (X[:, :, 0] + rng.normal(size=(20, N_ROWS)) > 0).astype(int)
    names = [f"c{place}" for place in range(n_columns)]
    frames = [pd.DataFrame(rows, columns=names) for rows in X]
    fixed, named, opened = FIRES(10), FIRES(10), FIRES(10, columns="open")
    seconds = take_turns(
        {
            "array": lambda i: fixed.partial_fit(X[i % 20], y[i % 20]),
            "frame": lambda i: named.partial_fit(frames[i % 20], y[i % 20]),
            "open": lambda i: opened.partial_fit(frames[i % 20], y[i % 20]),
        },
        rounds=30,
        calls=5,
    )
    size = f"{N_ROWS} x {n_columns}"
    return [
        Row(
            f"partial_fit, {what}",
            size,
            shown(seconds[what]),
            Ratio.of(seconds[what], seconds["array"]),
        )
        for what in seconds
    ]
