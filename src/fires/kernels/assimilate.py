r"""One row at a time, a belief takes in what the row says: assumed-density filtering.

A linear model sees a row through :math:`a = \mu^\top z` and :math:`v = \sum_j s_j z_j^2`, with the
variances :math:`s_j = \sigma_j^2`. With the slope :math:`g` of its log marginal likelihood in a and
its bend :math:`h`, minus the curvature, the belief becomes

.. math::
    \mu_j \leftarrow f \mu_j + s_j z_j g, \qquad
    s_j \leftarrow s_j \, (1 - s_j z_j^2 h), \qquad
    s_j \leftarrow \min(s_j / \gamma,\, s_0) .

The last step is forgetting: without news, a belief goes back to the prior :math:`s_0`.

*The stretch f.* A diagonal filter freezes with a common factor in :math:`\mu`, since the likelihood
of a class bends less along :math:`\mu` than across it. f is a Newton step along :math:`\mu`:
:math:`f = 1 + g a / \sum h a^2`.

*A weight w.* The row counts as a normal observation of :math:`\theta^\top z` that says the same as
its likelihood, with w times its precision. For w = 1 that is the likelihood itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from fires.core.belief import Floats
from fires.kernels.compiling import compiled_with
from fires.kernels.moments import ScalePlan, rescale_rows

# What the loops keep for each row of parameters, besides the belief.
ALONG, ROWS, NOISE, NOISE_ROWS = range(4)
N_FACTS = 4

LEAST = 1e-9
"""The share of its variance that a parameter keeps, whatever a row says."""
_LEAST_STRETCH, _MOST_STRETCH = 0.8, 1.25

moments: Any = None  # the family's log Z, slope and bend; filled in by assimilations
look: Any = None  # what a row says; filled in by assimilations
dense: Any = None  # the loop over scaled rows; filled in by assimilations

Loop = Callable[..., None]


class Loops(NamedTuple):
    """The compiled loops of one family, see :func:`assimilate_plain`."""

    dense: Loop
    unscaled: Loop
    sparse: Loop


def assimilations(family: str, moments: Callable[[float, float, float], Any]) -> Loops:
    """The compiled loops for one family."""
    one_row = compiled_with(_look, f"{family}_look", inner=True, moments=moments)
    rows = compiled_with(_dense, f"{family}_assimilate", look=one_row)
    return Loops(
        rows,
        compiled_with(_unscaled, f"{family}_assimilate_unscaled", dense=rows),
        compiled_with(_sparse, f"{family}_assimilate_sparse", look=one_row),
    )


def _look(
    a: float,
    v: float,
    y: float,
    weight: float,
    gamma: float,
    noisy: bool,
    stretches_after: float,
    facts: Floats,
) -> tuple[float, float, float, float, float, float]:
    """What one row says: slope, bend, stretch, log Z; as an observation, precision, distance."""
    variance = v
    if noisy:
        variance += facts[NOISE] / facts[NOISE_ROWS]
    log_z, g, bend = moments(a, variance, y)
    if noisy:
        error = min((g * variance) * (g * variance), 25.0 * variance)
        facts[NOISE] = facts[NOISE] * gamma + weight * max(error - v, 0.0)
        facts[NOISE_ROWS] = facts[NOISE_ROWS] * gamma + weight
    distance = g / bend
    precision = bend / max(1.0 - v * bend, LEAST)
    if weight != 1.0:
        precision *= weight
        bend = precision / (1.0 + v * precision)
        g = bend * distance
    facts[ROWS] += weight
    facts[ALONG] = gamma * facts[ALONG] + bend * a * a
    stretch = 1.0
    if facts[ROWS] > stretches_after and facts[ALONG] > 0.0:
        stretch = min(max(1.0 + g * a / facts[ALONG], _LEAST_STRETCH), _MOST_STRETCH)
    return g, bend, stretch, log_z, precision, distance


def _dense(
    Z: Floats,
    start: int,
    y: Floats,
    weight: Floats,
    gamma: float,
    prior: float,
    own_prior: float,
    noisy: bool,
    stretches_after: float,
    mu: Floats,
    var: Floats,
    intercept_mean: Floats,
    intercept_var: Floats,
    facts: Floats,
    row_stats: Floats,
) -> None:
    """The rows of ``Z`` are those from ``start`` on of the targets, weights and facts of rows."""
    n_rows, n_features = Z.shape
    usual = 1.0 / gamma
    for k in range(len(mu)):
        mean, width = mu[k], var[k]
        # The update with a row and the projection of the next one share a pass over the belief.
        g = bend = 0.0
        stretch, before = 1.0, 0
        for b in range(n_rows + 1):
            a = v = 0.0
            last = b == n_rows
            fade = 1.0
            i = start + b
            if not last:
                fade = usual if weight[i] == 1.0 else gamma ** -weight[i]
            z0, z1 = Z[before], Z[before if last else b]
            for j in range(n_features):
                z = z0[j]
                s = width[j]
                m = mean[j] * stretch + s * z * g
                s = min(s * max(1.0 - s * z * z * bend, LEAST) * fade, prior)
                mean[j], width[j] = m, s
                z = z1[j]
                a += m * z
                v += s * z * z
            s = intercept_var[k]
            intercept_mean[k] = intercept_mean[k] * stretch + s * g
            intercept_var[k] = min(s * max(1.0 - s * bend, LEAST) * fade, own_prior)
            if last:
                break
            a, v, before = a + intercept_mean[k], v + intercept_var[k], b
            g, bend, stretch, row_stats[k, 1, i], row_stats[k, 2, i], row_stats[k, 3, i] = look(
                a, v, y[k, i], weight[i], 1.0 / fade, noisy, stretches_after, facts[k]
            )
            row_stats[k, 0, i] = a


def _unscaled(
    X: Floats,
    plan: ScalePlan,
    shown: Floats,
    scaled: Floats,
    rows: Floats,
    columns: Any,
    leading: Floats,
    y: Floats,
    weight: Floats,
    gamma: float,
    prior: float,
    own_prior: float,
    noisy: bool,
    stretches_after: float,
    mu: Floats,
    var: Floats,
    intercept_mean: Floats,
    intercept_var: Floats,
    facts: Floats,
    row_stats: Floats,
) -> None:
    """As :func:`_dense`, on ``X`` scaled into ``scaled``; some columns are kept in ``leading``.

    ``rows`` is a read-only view of ``scaled``, so that one form of :func:`_dense` is enough.
    """
    at_once = len(scaled)
    for start in range(0, len(X), at_once):
        stop = min(start + at_once, len(X))
        rescale_rows(X[start:stop], weight[start:stop], plan, scaled, shown)
        for b in range(start, stop):
            for i in range(len(columns)):
                leading[b, i] = scaled[b - start, columns[i]]
        dense(
            *(rows[: stop - start], start, y, weight),
            *(gamma, prior, own_prior, noisy, stretches_after),
            *(mu, var, intercept_mean, intercept_var, facts, row_stats),
        )


def _sparse(
    data: Floats,
    indices: Any,
    indptr: Any,
    full: Floats,
    full_columns: Any,
    y: Floats,
    weight: Floats,
    gamma: float,
    prior: float,
    own_prior: float,
    noisy: bool,
    stretches_after: float,
    mu: Floats,
    var: Floats,
    intercept_mean: Floats,
    intercept_var: Floats,
    facts: Floats,
    row_stats: Floats,
    unit: Floats,
    now: float,
    seen_at: Floats,
) -> None:
    """As :func:`_dense`. Columns of ``full`` have an entry in every row, others where CSR has one.

    The belief is ``unit * mu``. Forgetting is caught up with when a column is touched, from the row
    count in ``seen_at``.
    """
    n_rows, n_full = full.shape
    forget = -math.log(gamma)
    for k in range(len(mu)):
        mean, width, scale, clock = mu[k], var[k], unit[k], now
        for b in range(n_rows):
            fade = gamma ** -weight[b]
            clock += weight[b]
            intercept_var[k] = min(intercept_var[k] * fade, own_prior)
            a, v = intercept_mean[k] * scale, intercept_var[k]
            for i in range(n_full):
                z, j = full[b, i], full_columns[i]
                s = min(width[j] * math.exp((clock - seen_at[k, j]) * forget), prior)
                width[j], seen_at[k, j] = s, clock
                a += mean[j] * scale * z
                v += s * z * z
            for i in range(indptr[b], indptr[b + 1]):
                z, j = data[i], indices[i]
                s = min(width[j] * math.exp((clock - seen_at[k, j]) * forget), prior)
                width[j], seen_at[k, j] = s, clock
                a += mean[j] * scale * z
                v += s * z * z
            g, bend, stretch, row_stats[k, 1, b], row_stats[k, 2, b], row_stats[k, 3, b] = look(
                a, v, y[k, b], weight[b], 1.0 / fade, noisy, stretches_after, facts[k]
            )
            row_stats[k, 0, b] = a
            scale *= stretch
            pull = g / scale
            intercept_mean[k] += intercept_var[k] * pull
            intercept_var[k] *= max(1.0 - intercept_var[k] * bend, LEAST)
            for i in range(n_full):
                z, j = full[b, i], full_columns[i]
                mean[j] += width[j] * z * pull
                width[j] *= max(1.0 - width[j] * z * z * bend, LEAST)
            for i in range(indptr[b], indptr[b + 1]):
                z, j = data[i], indices[i]
                mean[j] += width[j] * z * pull
                width[j] *= max(1.0 - width[j] * z * z * bend, LEAST)
        unit[k] = scale


def assimilate_plain(
    scores: Callable[[Any, Any, Any], tuple[Floats, Floats, Floats]],
    Z: Floats,
    y: Floats,
    weight: Floats,
    gamma: float,
    prior: float,
    own_prior: float,
    noisy: bool,
    stretches_after: float,
    mu: Floats,
    var: Floats,
    intercept_mean: Floats,
    intercept_var: Floats,
    facts: Floats,
    row_stats: Floats,
) -> None:
    """The definition of the compiled loops, for a family that has only ``scores``."""
    for k in range(len(mu)):
        for b, w in enumerate(weight.tolist()):
            z, fade = Z[b], gamma**-w
            var[k] = np.minimum(var[k] * fade, prior)
            intercept_var[k] = min(intercept_var[k] * fade, own_prior)
            a = float(mu[k] @ z + intercept_mean[k])
            v = float(var[k] @ (z * z) + intercept_var[k])
            fact = facts[k]
            variance = v + (fact[NOISE] / fact[NOISE_ROWS] if noisy else 0.0)
            log_z, g, g_v = (float(np.reshape(one, ())) for one in scores(a, variance, y[k, b]))
            bend = max(g * g - 2.0 * g_v, 1e-300)
            if noisy:
                error = min((g * variance) ** 2, 25.0 * variance)
                fact[NOISE] = fact[NOISE] / fade + w * max(error - v, 0.0)
                fact[NOISE_ROWS] = fact[NOISE_ROWS] / fade + w
            distance, precision = g / bend, bend / max(1.0 - v * bend, LEAST)
            if w != 1.0:
                precision *= w
                bend = precision / (1.0 + v * precision)
                g = bend * distance
            fact[ROWS] += w
            fact[ALONG] = fact[ALONG] / fade + bend * a * a
            stretch = 1.0
            if fact[ROWS] > stretches_after and fact[ALONG] > 0.0:
                stretch = min(max(1.0 + g * a / fact[ALONG], _LEAST_STRETCH), _MOST_STRETCH)
            row_stats[k, :, b] = a, log_z, precision, distance
            mu[k] = mu[k] * stretch + var[k] * z * g
            intercept_mean[k] = intercept_mean[k] * stretch + intercept_var[k] * g
            var[k] *= np.maximum(1.0 - var[k] * z * z * bend, LEAST)
            intercept_var[k] *= max(1.0 - intercept_var[k] * bend, LEAST)
