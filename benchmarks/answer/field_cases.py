"""What is measured on the streams of the field: one value or more for a seed.

50 columns of which five matter, with coefficients 1, 0.8, 0.7, 0.6 and 0.5 of random sign, a probit
of noise 1 and 12,000 rows in batches of 100, unless a function says otherwise.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.answer.field_streams import (
    BATCH,
    in_time,
    learning,
    learnt,
    limit,
    moving,
    overdispersed,
    ramp,
    replaced,
    season,
    softmax,
    standardised,
    step,
    stretches,
    target,
    theta,
)
from benchmarks.answer.figures import Maker
from benchmarks.answer.streams import alarm_batches, columns, limits, n_found

N_ROWS, J = 12_000, 50
BEFORE, CAP = 20_000, 12_000  # rows before a change, and the most that are waited for after it

Values = tuple[float, ...]


# --- drift --------------------------------------------------------------------------------------


def exact_set(make: Maker, seed: int, n_replaced: int) -> Values:
    """Rows until the set is exactly right after some of the features were replaced."""
    rng, selector = np.random.default_rng([seed, n_replaced]), make(5)
    old = theta(rng, J)
    new = replaced(rng, old, n_replaced)
    n = BEFORE + CAP
    X = columns(rng, n, J)
    seen = moving(X, old, new, step(n, BEFORE)) + rng.standard_normal(n)
    for rows in learning(selector, X, target("classes", seen)):
        if rows > BEFORE and n_found(selector, np.flatnonzero(new)) == 5:
            return (rows - BEFORE,)
    return (CAP,)


def rotation(make: Maker, seed: int) -> Values:
    """Recall at the end of a full rotation over 12,000 rows, after 8,000 quiet ones."""
    rng, n = np.random.default_rng(seed), 20_000
    old = theta(rng, J)
    new = replaced(rng, old, 5)
    X = columns(rng, n, J)
    seen = moving(X, old, new, ramp(n, 8_000)) + rng.standard_normal(n)
    selector = learnt(make(5), X, target("classes", seen))
    return n_found(selector, np.flatnonzero(new)) / 5, sum(map(len, alarm_batches(selector)))


def breathing(make: Maker, seed: int) -> Values:
    """Coverage of the relevant while all coefficients go up and down by a half."""
    rng, selector, n = np.random.default_rng(seed), make(5), 120_000
    truth, size = theta(rng, J), 1.0 + season(n, 0.5, 60_000)
    X = columns(rng, n, J)
    seen = size * (X @ truth) + rng.standard_normal(n)
    inside = [
        _covered(selector, size[rows - 1] * truth)[0]
        for rows in learning(selector, X, target("classes", seen))
        if rows > 20_000 and rows % 5_000 == 0
    ]
    return float(np.mean(inside)), sum(map(len, alarm_batches(selector)))


# --- alarms -------------------------------------------------------------------------------------


def false_alarms(make: Maker, seed: int, kind: str, n: int = 100_000) -> Values:
    """Alarms on a stream whose coefficients never change: all, global, and of a feature."""
    rng = np.random.default_rng(seed)
    selector = make(5, model="poisson" if kind == "overdispersed counts" else "auto")
    X = in_time(rng, (n, J), 0.9 if kind.endswith("columns") else 0.0)
    learnt(selector, X, _quiet(rng, kind, X))
    everywhere, single = alarm_batches(selector)
    return len(everywhere) + len(single), len(everywhere), len(single)


def _quiet(rng: np.random.Generator, kind: str, X: Any) -> Any:
    """The target of a stream whose coefficients never change."""
    n = len(X)
    if kind.startswith("50 classes"):
        size = 0.2 if "weak" in kind else 1.0
        return softmax(rng, size * X[:, :5] @ rng.standard_normal((5, 50)))
    signal, noise = X @ theta(rng, J), rng.standard_normal(n)
    if kind == "overdispersed counts":
        return overdispersed(rng, 0.7 + 0.3 * signal, 1.0)
    if kind == "volatility clusters":
        return signal + stretches(rng, n, (0.5, 3.0)) * noise
    if kind.startswith("season of the level"):
        return signal + noise + season(n, 2.5, 5_000 if "5,000" in kind else 2_000)
    if kind == "random-walk level":
        return signal + noise + 0.1 * in_time(rng, (n,), 1.0)
    if kind.startswith("class prior"):
        prior = np.resize(np.repeat([0.2, 0.8 if "0.8" in kind else 0.5], 5_000), n)
        return target("classes", signal + noise + limit(prior, signal))
    what = "numbers" if "numbers" in kind else "classes"
    return target(what, signal + in_time(rng, (n,), 0.9))


def power(make: Maker, seed: int, kind: str) -> Values:
    """Rows from a change of everything to the first alarm, and to 80 % of the set.

    Where signs are flipped, a feature counts if it is selected and its sign is right.
    """
    rng, selector, n = np.random.default_rng(seed), make(5), BEFORE + CAP
    old = theta(rng, J)
    new = -old if kind == "signs flipped" else replaced(rng, old, 5)
    X = columns(rng, n, J)
    signal = moving(X, old, new, step(n, BEFORE))
    share = 0.01 if kind.startswith("1 %") else 0.5
    seen = signal + rng.standard_normal(n) + limit(share, signal)
    alarm = found = CAP
    for rows in learning(selector, X, target("classes", seen)):
        if rows <= BEFORE:
            continue
        everywhere, single = alarm_batches(selector)
        if alarm == CAP and max(everywhere + single, default=0) >= BEFORE // BATCH:
            alarm = rows - BEFORE
        right = np.flatnonzero(selector.importances_ * new > 0.0)
        if found == CAP and n_found(selector, right) >= 4:
            found = rows - BEFORE
        if max(alarm, found) < CAP:
            break
    return alarm, found


# --- intervals ----------------------------------------------------------------------------------


def _covered(selector: Any, truth: Any) -> tuple[float, float]:
    """The share of the 95 % intervals that hold the truth: of the relevant columns, and of all."""
    low, high = limits(selector)
    inside = (low <= truth) & (truth <= high)
    return float(inside[truth != 0.0].mean()), float(inside.mean())


def dependent(make: Maker, seed: int, kind: str) -> Values:
    """Coverage of all columns and of the relevant, where rows are no independent evidence."""
    rng = np.random.default_rng(seed)
    if kind == "counts":
        truth = theta(rng, J, np.array([0.4, 0.3, 0.25, 0.2, 0.1]))
        X = columns(rng, N_ROWS, J)
        selector = learnt(make(5, model="poisson"), X, overdispersed(rng, 0.7 + X @ truth, 1.0))
    else:
        truth, X = theta(rng, J), standardised(in_time(rng, (N_ROWS, J), 0.9))
        y = target(kind, X @ truth + in_time(rng, (N_ROWS,), 0.9))
        selector = learnt(make(5), X, y)
        if kind == "numbers":  # they become normal scores
            truth = truth / y.std()
    relevant, everywhere = _covered(selector, truth)
    return everywhere, relevant


def wide(make: Maker, seed: int, n_features: int, kind: str) -> Values:
    """Coverage of the relevant and of all columns in a wide, slow or gappy table.

    Coefficients are 0.3 to 1, as in the part ``coverage``.
    """
    rng = np.random.default_rng([seed, n_features])
    truth = theta(rng, n_features, rng.uniform(0.3, 1.0, 5))
    slow = kind == "AR(0.99) in time"
    X = (
        standardised(in_time(rng, (N_ROWS, n_features), 0.99))
        if slow
        else columns(rng, N_ROWS, n_features, kind.removesuffix(", 30 % missing"))
    )
    y = target("classes", X @ truth + rng.standard_normal(N_ROWS))
    if kind.endswith("missing"):
        X[rng.random(X.shape) < 0.3] = np.nan
    return _covered(learnt(make(5), X, y), truth)


# --- how many -----------------------------------------------------------------------------------


def how_many(make: Maker, seed: int, kind: str, r: float, repeats: int = 1) -> Values:
    """False share and recall of "auto" at the end; rows come ``repeats`` times."""
    rng, n = np.random.default_rng(seed), N_ROWS // repeats
    truth, X = theta(rng, J), in_time(rng, (n, J), r)
    y = target(kind, X @ truth + in_time(rng, (n,), r))
    selector = learnt(make("auto"), np.repeat(X, repeats, axis=0), np.repeat(y, repeats))
    n_selected, found = selector.get_support().sum(), n_found(selector, np.flatnonzero(truth))
    return (n_selected - found) / max(n_selected, 1), found / 5


def nothing(make: Maker, seed: int, kind: str, of_columns: float, of_noise: float) -> Values:
    """How many "auto" selects at the end where no column says anything."""
    rng = np.random.default_rng(seed)
    X = in_time(rng, (N_ROWS, J), of_columns)
    y = target(kind, in_time(rng, (N_ROWS,), of_noise))
    return (float(learnt(make("auto"), X, y).get_support().sum()),)


# --- open columns -------------------------------------------------------------------------------


def alternating(make: Maker, seed: int) -> Values:
    """Share of batches after which the strongest column, which one of two sources has, is out."""
    import pandas as pd

    rng, selector = np.random.default_rng(seed), make(5, columns="open")
    truth = theta(rng, J)
    mine = rng.permutation(J) % 3  # 0 and 1: of one source; 2: of both
    strongest = int(np.abs(truth).argmax())
    mine[strongest] = 0
    out = []
    for batch in range(N_ROWS // BATCH):
        there = np.flatnonzero(mine != 1 - batch % 2)
        X = columns(rng, BATCH, len(there))
        y = target("classes", X @ truth[there] + rng.standard_normal(BATCH))
        selector.partial_fit(pd.DataFrame(X, columns=[f"c{j}" for j in there]), y)
        if (batch + 1) * BATCH > 2_000:
            names = selector.get_feature_names_out()
            out.append(f"c{strongest}" not in names)
    return (float(np.mean(out)),)
