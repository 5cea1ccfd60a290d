"""The modified balanced Winnow, row by row (see ``sequential`` for how such loops are built)."""

from __future__ import annotations

from fires.core.belief import Floats
from fires.kernels.compiling import compiled
from fires.kernels.sequential import Four, Ints

GREATEST, LEAST = 2.0**200, 2.0**-200


@compiled
def winnow_rows(X: Floats, y: Floats, u: Floats, v: Floats, bias: Floats, settings: Four) -> None:
    """See ``naive.winnow_plain``; ``bias`` holds u and v of the bias feature."""
    promotion, demotion, threshold, margin = settings
    for b in range(X.shape[0]):
        x = X[b]
        score, total = bias[0] - bias[1], 1.0
        for j in range(len(x)):
            score += (u[j] - v[j]) * x[j]
            total += abs(x[j])
        if y[b] * (score / total - threshold) > margin:
            continue
        up, down = (u, v) if y[b] > 0.0 else (v, u)
        share = 1.0 / total
        for j in range(len(x)):
            t = x[j] * share
            more = min(max(up[j] * (promotion * (1.0 + t)), LEAST), GREATEST)
            less = min(max(down[j] * (demotion * (1.0 - t)), LEAST), GREATEST)
            up[j] = more if x[j] != 0.0 else up[j]
            down[j] = less if x[j] != 0.0 else down[j]
        _move_bias(bias, y[b], promotion * (1.0 + share), demotion * (1.0 - share))


@compiled
def winnow_csr(
    data: Floats,
    indices: Ints,
    indptr: Ints,
    y: Floats,
    u: Floats,
    v: Floats,
    bias: Floats,
    settings: Four,
) -> None:
    """See ``naive.winnow_plain``."""
    promotion, demotion, threshold, margin = settings
    for b in range(len(indptr) - 1):
        score, total = bias[0] - bias[1], 1.0
        for i in range(indptr[b], indptr[b + 1]):
            score += (u[indices[i]] - v[indices[i]]) * data[i]
            total += abs(data[i])
        if y[b] * (score / total - threshold) > margin:
            continue
        up, down = (u, v) if y[b] > 0.0 else (v, u)
        share = 1.0 / total
        for i in range(indptr[b], indptr[b + 1]):
            if data[i] != 0.0:
                j, t = indices[i], data[i] * share
                up[j] = min(max(up[j] * (promotion * (1.0 + t)), LEAST), GREATEST)
                down[j] = min(max(down[j] * (demotion * (1.0 - t)), LEAST), GREATEST)
        _move_bias(bias, y[b], promotion * (1.0 + share), demotion * (1.0 - share))


@compiled
def _move_bias(bias: Floats, sign: float, more: float, less: float) -> None:
    up, down = (0, 1) if sign > 0.0 else (1, 0)
    bias[up] = min(max(bias[up] * more, LEAST), GREATEST)
    bias[down] = min(max(bias[down] * less, LEAST), GREATEST)
