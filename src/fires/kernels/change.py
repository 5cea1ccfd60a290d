"""The sums that tell of a change: see :class:`fires.drift.LikelihoodAlarm`."""

from __future__ import annotations

import math

from fires.core.belief import Floats
from fires.kernels.compiling import compiled

SHARE = 0.75  # of the model without features in the mixture that is held against the model
MOST = 3.0  # that one row adds, whatever its weight
SLOW = 1e-3  # how fast the usual increment follows


@compiled
def add_up(
    log_p: Floats,
    log_level: Floats,
    weight: Floats,
    warm_up: float,
    total: Floats,
    usual: Floats,
    rows: Floats,
    greatest: Floats,
) -> None:
    """Page's sum of ``log((1 - share) + share p_0 / p)`` over the rows of a batch, in place."""
    for k in range(len(total)):
        greatest[k] = total[k]
        for b in range(len(weight)):
            w = weight[b]
            if w == 0.0:
                continue
            odds = math.exp(min(log_level[k, b] - log_p[k, b], 50.0))
            more = min(math.log(1.0 - SHARE + SHARE * odds), MOST / w)
            rows[k] += w
            usual[k] += (more - usual[k]) * min(max(SLOW, 1.0 / rows[k]) * w, 1.0)
            if rows[k] > warm_up:
                total[k] = max(total[k] + w * (more - max(usual[k], 0.0)), 0.0)
                greatest[k] = max(greatest[k], total[k])
