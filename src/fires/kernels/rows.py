"""What is left of a step once X has been read: slopes and curvature of the rows, compiled."""

from __future__ import annotations

import math

from fires.core.belief import Floats
from fires.kernels.compiling import compiled

_ROOT = math.sqrt(2.0 / math.pi)
_HALF = math.sqrt(0.5)
_TERMS = 60  # of the continued fraction: full precision from z = -7 downwards


@compiled
def probit_slopes(a: Floats, v: Floats, y: Floats, g_a: Floats, g_v: Floats) -> None:
    """The slopes of log Phi(y a / sqrt(1 + v)); fires.models.families.Probit is the definition."""
    for k in range(a.shape[0]):
        for b in range(a.shape[1]):
            rho = math.sqrt(1.0 + v[k, b])
            z = y[k, b] * (a[k, b] / rho)
            if z > -7.0:
                ratio = _ROOT * math.exp(-0.5 * z * z) / math.erfc(-z * _HALF)
            else:
                # exp and erfc both vanish here; their ratio is -z + 1/(-z + 2/(-z + 3/(...))).
                ratio = -z
                for n in range(_TERMS, 0, -1):
                    ratio = -z + n / ratio
            ratio /= rho
            g_a[k, b] = y[k, b] * ratio
            g_v[k, b] = -0.5 * (z / rho) * ratio


@compiled
def lift(
    a: Floats,
    v: Floats,
    mu: Floats,
    sigma: Floats,
    noise: float,
    level: Floats,
    width: float,
    slope: Floats,
) -> None:
    """Add what belongs to no feature to a and v: intercept, noise, and the level to start from.

    The start is ``level * sqrt(1 + width * v)``, and ``slope`` gets its slope in v.
    """
    for k in range(a.shape[0]):
        for b in range(a.shape[1]):
            v[k, b] += sigma[k] * sigma[k] + noise
            root = math.sqrt(1.0 + width * v[k, b])
            a[k, b] += mu[k] + level[k] * root
            slope[k, b] = level[k] * (0.5 * width / root)


@compiled
def greatest_bend(c: Floats, d: Floats, v: Floats, own: Floats, least: float) -> float:
    """The greatest of ``h (reach + least)``, with h = -d²logZ/da² by the heat identity.

    ``reach`` is the part of v that comes from the features: v less what is the row's ``own``.
    """
    greatest = 0.0
    for k in range(c.shape[0]):
        for b in range(c.shape[1]):
            bend = c[k, b] * c[k, b] - 2.0 * d[k, b]
            greatest = max(greatest, bend * (v[k, b] - own[k] + least))
    return greatest


@compiled
def move_intercept(
    c: Floats,
    d: Floats,
    mu: Floats,
    sigma: Floats,
    rate_mu: float,
    rate_sigma: float,
    least_change: float,
    most_change: float,
) -> None:
    """One step of ascent of the intercepts, in place: their x is 1 in every row."""
    for k in range(c.shape[0]):
        p = q = 0.0
        for b in range(c.shape[1]):
            p += c[k, b]
            q += d[k, b]
        mu[k] += rate_mu * p
        sigma[k] *= 1.0 + min(max(2.0 * rate_sigma * q, least_change), most_change)


@compiled
def grand_total(c: Floats, d: Floats, q: Floats) -> float:
    """The sum of all entries: not finite if one of them is not."""
    total = 0.0
    for k in range(c.shape[0]):
        for b in range(c.shape[1]):
            total += c[k, b] + d[k, b]
    for j in range(len(q)):
        total += q[j]
    return total
