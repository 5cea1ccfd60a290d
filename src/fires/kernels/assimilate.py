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

The loop over rows is written once, for all families and both kinds of rows. Only :func:`advance`,
which goes through the columns of a row, has a form for each kind; the compiler chooses. In mixed
rows, the means are ``UNIT * mu``, and forgetting is caught up with when a column is touched, from
the row count in ``seen_at``. In dense rows, the unit is 1, and ``seen_at`` is not read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.extending import overload

from fires.core.belief import Floats
from fires.kernels.compiling import compiled, compiled_with, filled_in
from fires.kernels.linear import DenseRows, MixedRows
from fires.kernels.moments import rescale_rows

# What the loops keep for each row of parameters, besides the coefficients.
ALONG, ROWS, NOISE, NOISE_ROWS, INTERCEPT_MEAN, INTERCEPT_VAR, UNIT = range(7)
N_FACTS = 7
N_SAVED = 4
"""Of these facts, the first are saved together."""

# The settings of the loops, in one array.
GAMMA, PRIOR, OWN_PRIOR, NOISY, STRETCHES_AFTER, NOW = range(6)

LEAST = 1e-9
"""The share of its variance that a parameter keeps, whatever a row says."""
_LEAST_STRETCH, _MOST_STRETCH = 0.8, 1.25

moments: Any = None  # the family's log Z, slope and bend; filled in by assimilations
look: Any = None  # what a row says; filled in by assimilations
assimilate: Any = None  # the loop over scaled rows; filled in by assimilations

Loop = Callable[..., None]


class Loops(NamedTuple):
    """The loops of one family: over scaled rows, and over rows that are scaled on the way."""

    rows: Loop
    unscaled: Loop
    is_compiled: bool  # if not, rows must be dense


def assimilations(family: str, moments: Callable[[float, float, float], Any]) -> Loops:
    """The compiled loops for one family."""
    one_row = compiled_with(_look, f"{family}_look", inner=True, moments=moments)
    rows = compiled_with(_assimilate, f"{family}_assimilate", look=one_row)
    unscaled = compiled_with(_unscaled, f"{family}_assimilate_unscaled", assimilate=rows)
    return Loops(rows, unscaled, True)


def plain_assimilations(scores: Callable[[Any, Any, Any], tuple[Floats, Floats, Floats]]) -> Loops:
    """The same in plain Python, for a family that has only ``scores``."""

    def moments(a: float, v: float, y: float) -> tuple[float, float, float]:
        log_z, g, g_v = (float(np.reshape(one, ())) for one in scores(a, v, y))
        return log_z, g, max(g * g - 2.0 * g_v, 1e-300)

    rows = filled_in(_assimilate, "assimilate", look=filled_in(_look, "look", moments=moments))
    return Loops(rows, filled_in(_unscaled, "unscaled", assimilate=rows), False)


def _look(
    a: float, v: float, y: float, weight: float, gamma: float, rule: Floats, facts: Floats
) -> tuple[float, float, float, float, float, float]:
    """What one row says: slope, bend, stretch, log Z; as an observation, precision, distance."""
    variance = v
    if rule[NOISY] > 0.0:
        variance += facts[NOISE] / facts[NOISE_ROWS]
    log_z, g, bend = moments(a, variance, y)
    if rule[NOISY] > 0.0:
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
    if facts[ROWS] > rule[STRETCHES_AFTER] and facts[ALONG] > 0.0:
        stretch = min(max(1.0 + g * a / facts[ALONG], _LEAST_STRETCH), _MOST_STRETCH)
    return g, bend, stretch, log_z, precision, distance


class Step(NamedTuple):
    """What a row has said, and how much is forgotten before the next one."""

    factor: float  # of the means
    pull: float
    bend: float
    fade: float
    clock: float  # the row count at the next row
    forget: float  # minus the logarithm of gamma
    prior: float


def is_lazy(rows: DenseRows | MixedRows) -> bool:
    """Whether columns are caught up with only when they are touched."""
    return isinstance(rows, MixedRows)


@overload(is_lazy, inline="always", strict=False)
def _is_lazy(rows: Any) -> Callable[..., bool]:
    return (lambda rows: True) if rows.instance_class is MixedRows else (lambda rows: False)


def advance(
    rows: DenseRows | MixedRows,
    before: int,
    b: int,
    mean: Floats,
    width: Floats,
    seen_at: Floats,
    step: Step,
) -> tuple[float, float]:
    """Move the belief by what the row ``before`` has said, and project row ``b``, if it is there.

    This is the definition, for dense rows; a row that is not there gives any numbers.
    """
    z = rows.full[before]
    mean[:] = mean * step.factor + width * z * step.pull
    width *= np.maximum(1.0 - width * z * z * step.bend, LEAST) * step.fade
    np.minimum(width, step.prior, out=width)
    z = rows.full[min(b, len(rows.full) - 1)]
    return float(mean @ z), float(width @ (z * z))


@overload(advance, inline="always", strict=False)
def _advance(rows: Any, *_: Any) -> Callable[..., tuple[float, float]]:
    return _advance_dense if rows.instance_class is DenseRows else _advance_mixed


def _advance_dense(
    rows: DenseRows,
    before: int,
    b: int,
    mean: Floats,
    width: Floats,
    seen_at: Floats,
    step: Step,
) -> tuple[float, float]:
    # The update with a row and the projection of the next one share a pass over the belief.
    a = v = 0.0
    factor, pull, bend, fade, prior = step.factor, step.pull, step.bend, step.fade, step.prior
    z0, z1 = rows.full[before], rows.full[min(b, rows.full.shape[0] - 1)]
    for j in range(rows.full.shape[1]):
        z = z0[j]
        s = width[j]
        m = mean[j] * factor + s * z * pull
        s = min(s * max(1.0 - s * z * z * bend, LEAST) * fade, prior)
        mean[j], width[j] = m, s
        z = z1[j]
        a += m * z
        v += s * z * z
    return a, v


def _advance_mixed(
    rows: MixedRows,
    before: int,
    b: int,
    mean: Floats,
    width: Floats,
    seen_at: Floats,
    step: Step,
) -> tuple[float, float]:
    a = v = 0.0
    n_full = rows.full.shape[1]
    for i in range(n_full):
        z, j = rows.full[before, i], rows.columns[i]
        mean[j] += width[j] * z * step.pull
        width[j] *= max(1.0 - width[j] * z * z * step.bend, LEAST)
    for i in range(rows.indptr[before], rows.indptr[before + 1]):
        z, j = rows.data[i], rows.indices[i]
        mean[j] += width[j] * z * step.pull
        width[j] *= max(1.0 - width[j] * z * z * step.bend, LEAST)
    if b == rows.full.shape[0]:
        return a, v
    for i in range(n_full):
        z, j = rows.full[b, i], rows.columns[i]
        s = min(width[j] * math.exp((step.clock - seen_at[j]) * step.forget), step.prior)
        width[j], seen_at[j] = s, step.clock
        a += mean[j] * z
        v += s * z * z
    for i in range(rows.indptr[b], rows.indptr[b + 1]):
        z, j = rows.data[i], rows.indices[i]
        s = min(width[j] * math.exp((step.clock - seen_at[j]) * step.forget), step.prior)
        width[j], seen_at[j] = s, step.clock
        a += mean[j] * z
        v += s * z * z
    return a, v


def _assimilate(
    rows: DenseRows | MixedRows,
    start: int,
    y: Floats,
    weight: Floats,
    rule: Floats,
    mu: Floats,
    var: Floats,
    facts: Floats,
    seen_at: Floats,
    row_stats: Floats,
) -> None:
    """The rows are those from ``start`` on of the targets, weights and statistics of rows."""
    n_rows, gamma, prior = rows.full.shape[0], rule[GAMMA], rule[PRIOR]
    usual, forget, lazy = 1.0 / gamma, -math.log(gamma), is_lazy(rows)
    for k in range(len(mu)):
        mean, width, seen, fact = mu[k], var[k], seen_at[k], facts[k]
        pull = bend = 0.0
        factor, before, clock = 1.0, 0, rule[NOW]
        for b in range(n_rows + 1):
            last = b == n_rows
            fade, i = 1.0, start + b
            if not last:
                fade = usual if weight[i] == 1.0 else gamma ** -weight[i]
                clock += weight[i]
            step = Step(factor, pull, bend, fade, clock, forget, prior)
            a, v = advance(rows, before, b, mean, width, seen, step)
            s = fact[INTERCEPT_VAR]
            fact[INTERCEPT_MEAN] = fact[INTERCEPT_MEAN] * factor + s * pull
            fact[INTERCEPT_VAR] = min(s * max(1.0 - s * bend, LEAST) * fade, rule[OWN_PRIOR])
            if last:
                break
            a, v, before = (a + fact[INTERCEPT_MEAN]) * fact[UNIT], v + fact[INTERCEPT_VAR], b
            g, bend, stretch, row_stats[k, 1, i], row_stats[k, 2, i], row_stats[k, 3, i] = look(
                a, v, y[k, i], weight[i], 1.0 / fade, rule, fact
            )
            row_stats[k, 0, i] = a
            if lazy:
                fact[UNIT] *= stretch
                pull = g / fact[UNIT]
            else:
                factor, pull = stretch, g


def _unscaled(
    X: Floats,
    plan: Floats,
    shown: Floats,
    scaled: Floats,
    view: Floats,
    columns: Any,
    leading: Floats,
    y: Floats,
    weight: Floats,
    rule: Floats,
    mu: Floats,
    var: Floats,
    facts: Floats,
    row_stats: Floats,
) -> None:
    """As :func:`_assimilate`, on ``X`` scaled into ``scaled``; ``leading`` gets some columns.

    ``view`` is a read-only view of ``scaled``, so that one form of :func:`_assimilate` is enough.
    """
    at_once = len(scaled)
    for start in range(0, len(X), at_once):
        stop = min(start + at_once, len(X))
        rescale_rows(X[start:stop], weight[start:stop], plan, scaled, shown)
        for b in range(start, stop):
            for i in range(len(columns)):
                leading[b, i] = scaled[b - start, columns[i]]
        rows = DenseRows(view[: stop - start])
        assimilate(rows, start, y, weight, rule, mu, var, facts, var, row_stats)


# --- what rows say about several coefficients together: fires.models.covariance ----------------


@compiled
def add_information(
    Z: Floats,
    precision: Floats,
    value: Floats,
    weight: Floats,
    gamma: float,
    information: Floats,
    pull: Floats,
) -> None:
    """Let the sums fade by the weight of a batch, then add its rows; the last column is 1."""
    n_rows, size = Z.shape
    last, kept, whole = size + 1, np.empty(n_rows), 1.0
    for b in range(n_rows - 1, -1, -1):
        kept[b] = whole * precision[b]
        whole *= gamma if weight[b] == 1.0 else gamma ** weight[b]
    # Columns: those of Z, the intercept, the value. Rows of zeros fill them up to fours.
    rows = np.zeros(((n_rows + 3) // 4 * 4, size + 2))
    weighted = np.zeros(rows.shape)
    for b in range(n_rows):
        for j in range(size):
            rows[b, j] = Z[b, j]
            weighted[b, j] = Z[b, j] * kept[b]
        rows[b, size] = 1.0
        weighted[b, size], weighted[b, last] = kept[b], kept[b] * value[b]
    for i in range(size + 1):
        pull[i] *= whole
        for j in range(i + 1):
            information[i, j] *= whole
    for b in range(0, len(rows), 4):
        x0, x1, x2, x3 = rows[b], rows[b + 1], rows[b + 2], rows[b + 3]
        for i in range(size + 1):
            w0, w1, w2, w3 = (
                weighted[b, i],
                weighted[b + 1, i],
                weighted[b + 2, i],
                weighted[b + 3, i],
            )
            line = information[i]
            for j in range(i + 1):
                line[j] += w0 * x0[j] + w1 * x1[j] + w2 * x2[j] + w3 * x3[j]
            pull[i] += (
                weighted[b, last] * x0[i]
                + weighted[b + 1, last] * x1[i]
                + weighted[b + 2, last] * x2[i]
                + weighted[b + 3, last] * x3[i]
            )
    for i in range(size + 1):
        for j in range(i):
            information[j, i] = information[i, j]


@compiled
def some_repeat_level(information: Floats, share: float) -> bool:
    """Whether there is any column of which :func:`repeats_level` is true."""
    n_rows, last = len(information), information.shape[1] - 1
    for k in range(n_rows):
        total = information[k, last, last]
        for j in range(last):
            if information[k, last, j] ** 2 > share * total * max(information[k, j, j], total):
                return True
    return False


def repeats_level(information: Floats, share: float) -> npt.NDArray[np.bool_]:
    """Of which columns the squared mean exceeds this share of the mean square, and of 1."""
    squares = np.diagonal(information, axis1=1, axis2=2)
    total = squares[:, -1:]
    least = share * total * np.maximum(squares[:, :-1], total)
    return np.asarray(information[:, -1, :-1] ** 2 > least)
