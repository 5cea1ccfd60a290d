"""ERICS and our alarms on streams whose drift is known: power, delay and false alarms.

Five of twenty columns decide a class. After 500 batches of 100 rows all five are replaced, or one
of them is, or the coefficient of one is halved, or nothing happens. What alarms say within 50
batches after the drift is set beside what they say within 50 batches in which nothing happens: an
alarm that is always on sees every drift. The gradient learns at ten times the paper's rate, as
ERICS takes ten steps on each batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.answer.figures import Bench, Figure, Maker, judged
from benchmarks.answer.streams import coefficients, columns, some
from fires import FIRES

TITLE = "windows of 50 batches with an alarm, after a drift and without one"
N_FEATURES, N_RELEVANT, BATCH = 20, 5, 100
BEFORE, WINDOW, QUIET = 500, 50, 3_000
GRADIENT = {"update": "gradient", "learning_rate": 0.1}
WATCHES: dict[str, dict[str, Any]] = {
    "bayes": {},
    "gradient, alarm": GRADIENT | {"drift": "alarm"},
    "gradient, erics": GRADIENT | {"drift": "erics"},
}


DRIFTS = {"five replaced": 5, "one replaced": 1, "one halved": 1, "no drift": 0}


def watched(make: Maker, seed: int, watch: str, drift: str, n_batches: int) -> Any:
    """When there was an alarm: batches by all together and each feature; and what has changed."""
    rng = np.random.default_rng(seed)
    selector = FIRES(N_RELEVANT, **WATCHES[watch], **make.settings)
    places = some(rng, N_FEATURES, 2 * N_RELEVANT)
    theta = np.zeros((2, N_FEATURES))
    theta[:, places[:N_RELEVANT]] = coefficients(rng, N_RELEVANT, 0.5, 1.5)
    n_changed = DRIFTS[drift]
    leave, come = places[:n_changed], places[N_RELEVANT:][:n_changed]
    if drift == "one halved":
        theta[1, leave] /= 2.0
    else:
        theta[1, leave], theta[1, come] = 0.0, theta[0, leave]
    for t in range(n_batches):
        X = columns(rng, BATCH, N_FEATURES)
        noise = rng.standard_normal(BATCH)
        selector.partial_fit(X, X @ theta[int(t >= BEFORE)] + noise > 0)
    alarms = np.zeros((n_batches, 1 + N_FEATURES), dtype=bool)
    for alarm in selector.alarms_:
        alarms[alarm.batch, 0 if alarm.feature is None else 1 + alarm.feature] = True
    return alarms, theta[0] != theta[1]


def _delay(alarms: Any) -> float:
    """Batches until the first alarm after the drift; a whole window if there is none."""
    return float(np.argmax(alarms) + 1 if alarms.any() else WINDOW)


def _drift(bench: Bench, watch: str, drift: str) -> list[Figure]:
    seeds = bench.seeds(20)
    found = bench.map(watched, [(seed, watch, drift, BEFORE + WINDOW) for seed in seeds])
    calm = [alarms[BEFORE - 4 * WINDOW : BEFORE].reshape(4, WINDOW, -1) for alarms, _ in found]
    after = [alarms[BEFORE:] for alarms, _ in found]
    changed = [a[:, 1:][:, moved].any(0).mean() for (_, moved), a in zip(found, after, strict=True)]
    others = [a[:, 1:][:, ~moved].any(0).mean() for (_, moved), a in zip(found, after, strict=True)]
    what = f"{watch}, {drift}: "
    delays = [_delay(a.any(1)) for a in after]
    return [
        judged(what + "power, of either kind", [a.any() for a in after]),
        judged(what + "the same without a drift", [a.any((1, 2)).mean() for a in calm]),
        judged(what + "batches until then", delays, take=np.median, digits=0),
        judged(what + "power, all together", [a[:, 0].any() for a in after]),
        judged(
            what + "the same without a drift, all together", [a[..., 0].any(1).mean() for a in calm]
        ),
        judged(what + "power, a feature that changed", changed),
        judged(what + "a feature that did not", others),
        judged(what + "a feature without a drift", [a[..., 1:].any(1).mean() for a in calm]),
    ]


def _quiet(bench: Bench, watch: str) -> list[Figure]:
    """Without any drift: alarms in each thousand batches, and the longest time without one."""
    found = bench.map(watched, [(seed, watch, "no drift", QUIET) for seed in bench.seeds(5)])
    figures = []
    for first in range(0, QUIET, 1_000):
        part = [alarms[first : first + 1_000] for alarms, _ in found]
        where = f"{watch}, no drift, batches from {first:,} on: "
        each = [a[:, 1:].sum() / N_FEATURES for a in part]
        figures += [
            judged(where + "alarms, all together", [a[:, 0].sum() for a in part], digits=1),
            judged(where + "alarms of a feature", each, digits=1),
        ]
    gaps = [np.diff(np.flatnonzero(np.append(a[:, 0], True)), prepend=0).max() for a, _ in found]
    return [*figures, judged(f"{watch}, no drift: longest time without one", gaps, digits=0)]


def measure(bench: Bench) -> list[Figure]:
    """Each way to watch, on all streams."""
    figures: list[Figure] = []
    for watch in WATCHES:
        if bench.wanted(watch):
            figures += [f for drift in list(DRIFTS)[:3] for f in _drift(bench, watch, drift)]
            figures += _quiet(bench, watch)
    return figures
