"""The pass of streaming variational Bayes over the coefficients of a linear model."""

from __future__ import annotations

from fires.core.types import Floats
from fires.kernels.compiling import compiled


@compiled
def sweep(
    columns: Floats, slope: Floats, bend: Floats, start: Floats, variance: Floats, mu: Floats
) -> None:
    """Move each coefficient in turn to the best place, given the others, in place.

    The log likelihood of a row is bounded by a parabola, of this slope and bend where the row is
    predicted now; ``slope`` follows the prediction. The prior has the means ``start`` and these
    variances.
    """
    for j in range(len(mu)):
        x = columns[j]
        pull = 0.0
        information = 0.0
        for b in range(len(x)):
            pull += slope[b] * x[b]
            information += bend[b] * x[b] * x[b]
        step = (variance[j] * pull - (mu[j] - start[j])) / (1.0 + variance[j] * information)
        mu[j] += step
        for b in range(len(x)):
            slope[b] -= bend[b] * x[b] * step
