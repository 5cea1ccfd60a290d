"""The gradient step besides the reading of X: slopes of rows, the move, and all in one call.

:class:`fires.models.linear_learner.LinearLearner` describes the step, for any family and any
storage. At fifty features, half of its time goes into calling one kernel after the other from
Python. In a whole step, compiled code calls the same kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from fires.core.types import Floats, Ints
from fires.core.validation import LARGEST
from fires.kernels.compiling import compiled, compiled_with
from fires.kernels.linear import accumulate_rows, project_rows

# What a step returns that has moved nothing since it has to be shortened first.
TOO_LONG = -1.0

slopes: Any = None  # the family's slopes; filled in by gradient_loops
pull_rows: Any = None  # the loop over rows; filled in by gradient_loops


# See ``Family.scores`` of :mod:`fires.models.families`.
Scores = Callable[[Floats, Floats, Floats], tuple[Floats, Floats, Floats]]


class Coefficients(NamedTuple):
    """What a step moves: a line of coefficients and an intercept for each row of parameters."""

    mu: Floats
    sigma: Floats
    intercept_mu: Floats
    intercept_sigma: Floats


class Start(NamedTuple):
    """What predictions have besides features, and the least variance of a coefficient."""

    intercept_mu: Floats
    intercept_sigma: Floats
    noise: float
    level: Floats
    width: float
    least: float


class Pace(NamedTuple):
    """Rates, and the least and the greatest share of itself by which sigma changes."""

    mu: float
    sigma: float
    least: float
    most: float


class GradientLoops(NamedTuple):
    """The slopes of rows, and a step in one call if the family has compiled slopes."""

    rows: Callable[..., float]
    step: Callable[..., float] | None


def gradient_loops(
    family: str, slopes: Callable[[float, float, float], tuple[float, float]] | None, scores: Scores
) -> GradientLoops:
    """The loops of one family; in NumPy, if it has no compiled slopes."""
    if slopes is None:
        return GradientLoops(partial(pull_rows_plain, scores), None)
    rows = compiled_with(_pull_rows, f"{family}_rows", slopes=slopes)
    return GradientLoops(rows, compiled_with(_step, f"{family}_step", pull_rows=rows))


def _pull_rows(
    a: Floats, v: Floats, y: Floats, start: Start, c: Floats, d: Floats, bend: Floats
) -> float:
    greatest, width, level = 0.0, start.width, start.level
    for k in range(a.shape[0]):
        own = start.intercept_sigma[k] * start.intercept_sigma[k] + start.noise
        for b in range(a.shape[1]):
            variance = v[k, b] + own
            root = math.sqrt(1.0 + width * variance)
            g_a, g_v = slopes(
                a[k, b] + (start.intercept_mu[k] + level[k] * root), variance, y[k, b]
            )
            bend[k, b] = g_a * g_a - 2.0 * g_v
            greatest = max(greatest, bend[k, b] * (variance - own + start.least))
            c[k, b] = g_a
            d[k, b] = g_v + g_a * (level[k] * (0.5 * width / root))
    return greatest


def pull_rows_plain(
    scores: Scores,
    a: Floats,
    v: Floats,
    y: Floats,
    start: Start,
    c: Floats,
    d: Floats,
    bend: Floats,
) -> float:
    """The slopes of log Z in a and v for every row, and its curvature in a.

    First the terms that do not come from features are added: the intercept, the noise, and the
    level ``level * sqrt(1 + width * v)``. The slope of the level in v is part of ``d``.
    """
    mu, sigma, noise, level, width, least = start
    n = len(mu)
    own = (sigma * sigma + noise)[:, None]
    with np.errstate(all="ignore"):  # overflow is found later, before anything is changed
        variance = v + own
        root = np.sqrt(1.0 + width * variance)
        _, g_a, g_v = scores(a + (mu[:, None] + level[:, None] * root), variance, y)
        bend[:] = g_a * g_a - 2.0 * g_v
        c[:n], d[:n] = g_a, g_v + g_a * (level[:, None] * (0.5 * width / root))
        return float(np.max(bend * (variance - own + least), initial=0.0))


@compiled
def _total(rows: Floats) -> float:
    """The sum of all entries."""
    total = 0.0
    for k in range(rows.shape[0]):
        for b in range(rows.shape[1]):
            total += rows[k, b]
    return total


@compiled
def move(
    moved: Coefficients,
    p: Floats,
    q: Floats,
    gain: Floats,
    c: Floats,
    d: Floats,
    has_own: bool,
    pace: Pace,
) -> float:
    """One step of ascent in place. Return the smallest sigma, or NaN if nothing was changed.

    ``mu += pace.mu * gain * p``, and sigma is multiplied by 1 plus ``2 pace.sigma * gain² * q``,
    clipped to the changes allowed. The intercepts ``own`` move in the same way: their x is 1 in
    every row, so their p and q are the sums of ``c`` and ``d``. Nothing is changed if the new
    values or their squares, or the sums in any row of ``q``, would not be finite.
    """
    mu, sigma, strange = moved.mu, moved.sigma, 0.0
    for k in range(mu.shape[0]):
        m, s, pk, qk = mu[k], sigma[k], p[k], q[k]
        for j in range(len(gain)):
            change = 2.0 * pace.sigma * gain[j] * gain[j] * qk[j]
            change = 1.0 + min(max(change, pace.least), pace.most)
            magnitude = abs(m[j] + pace.mu * gain[j] * pk[j]) + s[j] * change + 0.0 * qk[j]
            strange += 0.0 if magnitude <= LARGEST else 1.0  # also counts NaN
    for k in range(mu.shape[0], q.shape[0]):
        qk = q[k]
        for j in range(len(gain)):
            strange += 0.0 if abs(qk[j]) < np.inf else 1.0
    if strange > 0.0 or (has_own and not abs(_total(c) + _total(d)) < np.inf):
        return np.nan
    least = np.inf
    for k in range(mu.shape[0]):
        m, s, pk, qk = mu[k], sigma[k], p[k], q[k]
        for j in range(len(gain)):
            m[j] += pace.mu * gain[j] * pk[j]
            change = 2.0 * pace.sigma * gain[j] * gain[j] * qk[j]
            s[j] *= 1.0 + min(max(change, pace.least), pace.most)
            least = min(least, s[j])
        if has_own:
            change = 2.0 * pace.sigma * _total(d[k : k + 1])
            moved.intercept_mu[k] += pace.mu * _total(c[k : k + 1])
            moved.intercept_sigma[k] *= 1.0 + min(max(change, pace.least), pace.most)
    return least


@compiled
def weigh(mu: Floats, sigma: Floats, penalty: float, scale: float, weights: Floats) -> None:
    """``(mu² - penalty sigma²) / scale``: fires.core.belief.stable_weights is the definition."""
    for j in range(len(mu)):
        weights[j] = (mu[j] * mu[j] - penalty * sigma[j] * sigma[j]) / scale


@compiled
def find_heavy(
    mu: Floats, sigma: Floats, pulls: Floats, known: Any, columns: Ints, found: Ints, most: Floats
) -> int:
    """Find columns that may be heavier than a limit while the drift is near the middle.

    Beside them go the weights that they may have at most, and a little more than rounding. Returns
    how many there are. What is ``known`` is a :class:`fires.models.linear_learner.Heavy`.
    """
    n, (_, penalty, scale) = 0, known.asked
    for i in range(len(columns)):
        j = columns[i]
        pull = pulls[j] if len(pulls) > 0 else 0.0
        mean = abs(mu[j] - pull * known.middle) + abs(pull) * known.radius
        gain, loss = mean * mean, penalty * sigma[j] * sigma[j]
        weight = (gain - loss + 1e-12 * (gain + loss)) / scale
        if weight > known.limit:
            found[n], most[n] = j, weight
            n += 1
    return n


def _step(
    X: Floats,
    y: Floats,
    weight: Floats,
    is_weighted: bool,
    coefficients: tuple[Floats, Floats, Floats, Floats],
    gain: Floats,
    has_own: bool,
    begins: tuple[Floats, Floats, float, Floats, float, float],
    longest: float,
    paces: tuple[float, float, float, float],
    room: Floats,
) -> float:
    """A whole step on C-ordered rows, unless a row asks for more than ``longest``.

    It is called with plain tuples, since named ones cost a microsecond each at the door, and with
    ``room`` for the sums: with many features, new memory each time costs more than they do.
    """
    moved, start, pace = Coefficients(*coefficients), Start(*begins), Pace(*paces)
    mu, sigma, n_rows = moved.mu, moved.sigma, X.shape[0]
    p, q, n_classes = room[0], room[1], mu.shape[0]
    for k in range(n_classes):
        for j in range(len(gain)):
            q[k, j] = sigma[k, j] * sigma[k, j]
    a, v = np.empty((n_classes, n_rows)), np.empty((n_classes, n_rows))
    project_rows(X, mu, q, a, v)
    c, d = np.empty((n_classes, n_rows)), np.empty((n_classes, n_rows))
    bend = np.empty((n_classes, n_rows))
    if pull_rows(a, v, y, start, c, d, bend) > longest:
        return TOO_LONG
    for k in range(n_classes):
        for b in range(n_rows):
            c[k, b] *= weight[b] if is_weighted else 1.0
            d[k, b] *= weight[b] if is_weighted else 1.0
    accumulate_rows(X, c, d, p, q)
    return move(moved, p, q, gain, c, d, has_own, pace)
