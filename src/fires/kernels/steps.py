"""A whole step over C-ordered rows: all kernels of a step in one compiled call.

:class:`fires.models.linear_learner.LinearLearner` describes the step, for any family and any
storage. At fifty features, half of its time goes into calling one kernel after the other from
Python. Here compiled code calls the same kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fires.core.belief import Floats
from fires.kernels.compiling import compiled_with
from fires.kernels.dense import accumulate_rows, project_rows
from fires.kernels.features import fold, move
from fires.kernels.rows import RowPulls

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
    shift: Floats,
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
    fold(mu, sigma, gain, p, q)
    a, v = np.empty((n_classes, n_rows)), np.empty((n_classes, n_rows))
    project_rows(X, p, q, shift, a, v)
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
    accumulate_rows(X, c, d, shift, p, q)
    return move(
        mu,
        sigma,
        p,
        q,
        gain,
        c,
        d,
        intercept_mean,
        own_sigma,
        has_own,
        rate_mu,
        rate_sigma,
        least_change,
        most_change,
    )
