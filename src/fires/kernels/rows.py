"""What is left of a step once X has been read: slopes and curvature of the rows, compiled."""

from __future__ import annotations

import math

from fires.core.belief import Floats
from fires.kernels._compile import compiled

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
def greatest_bend(c: Floats, d: Floats, reach: Floats, least: float) -> float:
    """The greatest of ``h (reach + least)``, with h = -d²logZ/da² by the heat identity."""
    greatest = 0.0
    for k in range(c.shape[0]):
        for b in range(c.shape[1]):
            bend = c[k, b] * c[k, b] - 2.0 * d[k, b]
            greatest = max(greatest, bend * (reach[k, b] + least))
    return greatest
