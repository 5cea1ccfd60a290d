"""Loops over the features, run once per dense batch."""

from __future__ import annotations

import numpy as np

from fires.core.belief import Floats
from fires.core.validation import LARGEST
from fires.kernels.compiling import compiled


@compiled
def fold(mu: Floats, sigma: Floats, gain: Floats, coefficient: Floats, variance: Floats) -> None:
    """Coefficients and variances in the units of x: ``mu * gain`` and ``(sigma * gain)**2``."""
    for k in range(mu.shape[0]):
        m, s, c, v = mu[k], sigma[k], coefficient[k], variance[k]
        for j in range(len(gain)):
            c[j] = m[j] * gain[j]
            v[j] = (s[j] * gain[j]) ** 2


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
