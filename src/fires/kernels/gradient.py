"""The gradient step besides the reading of X: slopes of rows, the move, and all in one call.

:class:`fires.models.linear_learner.LinearLearner` describes the step, for any family and any
storage. At fifty features, half of its time goes into calling one kernel after the other from
Python. In a whole step, compiled code calls the same kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fires.core.belief import Floats
from fires.core.validation import LARGEST
from fires.kernels.compiling import compiled, compiled_with
from fires.kernels.linear import accumulate_rows, project_rows

RowPulls = Callable[..., float]
"""See :func:`row_pulls`."""


slopes: Any = None  # filled in with the slopes of a family, by row_pulls


def row_pulls(family: str, slopes: Callable[[float, float, float], Any]) -> RowPulls:
    """A compiled loop over the rows of a batch, for the compiled slopes of one family."""
    return compiled_with(_pull_rows, f"{family}_rows", slopes=slopes)


def _pull_rows(
    a: Floats,
    v: Floats,
    y: Floats,
    mu: Floats,
    sigma: Floats,
    noise: float,
    level: Floats,
    width: float,
    least: float,
    c: Floats,
    d: Floats,
    bend: Floats,
) -> float:
    greatest = 0.0
    for k in range(a.shape[0]):
        own = sigma[k] * sigma[k] + noise
        for b in range(a.shape[1]):
            variance = v[k, b] + own
            root = math.sqrt(1.0 + width * variance)
            g_a, g_v = slopes(a[k, b] + (mu[k] + level[k] * root), variance, y[k, b])
            bend[k, b] = g_a * g_a - 2.0 * g_v
            greatest = max(greatest, bend[k, b] * (variance - own + least))
            c[k, b] = g_a
            d[k, b] = g_v + g_a * (level[k] * (0.5 * width / root))
    return greatest


def pull_rows_plain(
    scores: Callable[[Any, Any, Any], tuple[Floats, Floats, Floats]],
    a: Floats,
    v: Floats,
    y: Floats,
    mu: Floats,
    sigma: Floats,
    noise: float,
    level: Floats,
    width: float,
    least: float,
    c: Floats,
    d: Floats,
    bend: Floats,
) -> float:
    """The slopes of log Z in a and v for every row, and its curvature in a.

    First the terms that do not come from features are added: the intercept, the noise, and the
    level ``level * sqrt(1 + width * v)``. The slope of the level in v is part of ``d``.
    """
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
    mu: Floats,
    sigma: Floats,
    p: Floats,
    q: Floats,
    gain: Floats,
    c: Floats,
    d: Floats,
    intercept_mean: Floats,
    own_sigma: Floats,
    has_own: bool,
    rate_mu: float,
    rate_sigma: float,
    least_change: float,
    most_change: float,
) -> float:
    """One step of ascent in place. Return the smallest sigma, or NaN if nothing was changed.

    ``mu += rate_mu * gain * p``, and sigma is multiplied by 1 plus ``2 rate_sigma * gain² * q``,
    clipped to the changes allowed. The intercepts ``own`` move in the same way: their x is 1 in
    every row, so their p and q are the sums of ``c`` and ``d``. Nothing is changed if the new
    values or their squares, or the sums in any row of ``q``, would not be finite.
    """
    strange = 0.0
    for k in range(mu.shape[0]):
        m, s, pk, qk = mu[k], sigma[k], p[k], q[k]
        for j in range(len(gain)):
            change = 2.0 * rate_sigma * gain[j] * gain[j] * qk[j]
            change = 1.0 + min(max(change, least_change), most_change)
            magnitude = abs(m[j] + rate_mu * gain[j] * pk[j]) + s[j] * change + 0.0 * qk[j]
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
            m[j] += rate_mu * gain[j] * pk[j]
            change = 2.0 * rate_sigma * gain[j] * gain[j] * qk[j]
            s[j] *= 1.0 + min(max(change, least_change), most_change)
            least = min(least, s[j])
        if has_own:
            change = 2.0 * rate_sigma * _total(d[k : k + 1])
            intercept_mean[k] += rate_mu * _total(c[k : k + 1])
            own_sigma[k] *= 1.0 + min(max(change, least_change), most_change)
    return least


@compiled
def weigh(mu: Floats, sigma: Floats, penalty: float, scale: float, weights: Floats) -> None:
    """``(mu² - penalty sigma²) / scale``: fires.core.belief.stable_weights is the definition."""
    for j in range(len(mu)):
        weights[j] = (mu[j] * mu[j] - penalty * sigma[j] * sigma[j]) / scale


TOO_LONG = -1.0
"""What a step returns that has moved nothing since it has to be shortened first."""

pull_rows: Any = None  # filled in with the compiled rows of a family, by whole_step


def whole_step(family: str, pull_rows: RowPulls) -> RowPulls:
    """A compiled step, for the compiled rows of one family."""
    return compiled_with(_step, f"{family}_step", pull_rows=pull_rows)


def _step(
    X: Floats,
    y: Floats,
    weight: Floats,
    is_weighted: bool,
    mu: Floats,
    sigma: Floats,
    gain: Floats,
    intercept_mean: Floats,
    own_sigma: Floats,
    has_own: bool,
    level: Floats,
    width: float,
    least: float,
    longest: float,
    rate_mu: float,
    rate_sigma: float,
    least_change: float,
    most_change: float,
    p: Floats,
    q: Floats,
) -> float:
    n_classes, n_rows = mu.shape[0], X.shape[0]
    for k in range(n_classes):
        for j in range(len(gain)):
            q[k, j] = sigma[k, j] * sigma[k, j]
    a, v = np.empty((n_classes, n_rows)), np.empty((n_classes, n_rows))
    project_rows(X, mu, q, a, v)
    c, d = np.empty((n_classes, n_rows)), np.empty((n_classes, n_rows))
    bend, none = np.empty((n_classes, n_rows)), np.zeros(n_classes)
    mine, width_of_mine = (intercept_mean, own_sigma) if has_own else (none, none)
    greatest = pull_rows(a, v, y, mine, width_of_mine, 0.0, level, width, least, c, d, bend)
    if greatest > longest:
        return TOO_LONG
    for k in range(n_classes):
        for b in range(n_rows):
            c[k, b] *= weight[b] if is_weighted else 1.0
            d[k, b] *= weight[b] if is_weighted else 1.0
    accumulate_rows(X, c, d, p, q)
    pace = rate_mu, rate_sigma, least_change, most_change
    return move(mu, sigma, p, q, gain, c, d, intercept_mean, own_sigma, has_own, *pace)
