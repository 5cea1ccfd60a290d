"""Linear scores of dense rows by a belief, in one pass over rows that are not scaled yet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled


@compiled
def score_rows(
    X: Floats,
    origin: Floats,
    gain: Floats,
    limit: Floats,
    fill: Floats,
    clip: float,
    mu: Floats,
    var: Floats,
    columns: npt.NDArray[np.intp],
    a: Floats,
    v: Floats,
) -> None:
    """Mean and variance of ``theta.z`` for C-ordered X, by some columns and by all.

    An entry becomes ``z = (x - origin) * gain``, at most ``clip`` from 0; one that is missing or
    farther than ``limit`` from the origin becomes ``fill``. ``a[0]`` and ``v[0]`` are for some
    columns, ``a[1]`` and ``v[1]`` for all, each with a line for every row of parameters. Where
    ``v`` has none, no variances are computed.
    """
    z, n_columns = np.empty(X.shape[1]), X.shape[1]
    for b in range(X.shape[0]):
        x = X[b]
        for j in range(n_columns):
            deviation = x[j] - origin[j]
            unit = min(max(deviation * gain[j], -clip), clip)
            z[j] = unit if abs(deviation) <= limit[j] else fill[j]
        for k in range(mu.shape[0]):
            m, total = mu[k], 0.0
            for j in range(n_columns):
                total += m[j] * z[j]
            a[1, k, b], total = total, 0.0
            for j in columns:
                total += m[j] * z[j]
            a[0, k, b] = total
        for k in range(v.shape[1]):
            w, total = var[k], 0.0
            for j in range(n_columns):
                total += w[j] * z[j] * z[j]
            v[1, k, b], total = total, 0.0
            for j in columns:
                total += w[j] * z[j] * z[j]
            v[0, k, b] = total
