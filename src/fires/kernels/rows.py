"""The slopes of every row, computed once X has been read."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fires.core.belief import Floats
from fires.kernels.compiling import compiled_with

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
