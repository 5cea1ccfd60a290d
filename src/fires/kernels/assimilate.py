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
from fires.kernels.compiling import compiled, compiled_with, inner
from fires.kernels.linear import DenseRows, MixedRows
from fires.kernels.products import LANES, LINES, add_products

# What the loops keep for each row of parameters, besides the coefficients.
ALONG, ROWS, NOISE, NOISE_ROWS, INTERCEPT_MEAN, INTERCEPT_VAR, UNIT = range(7)
N_FACTS = 7
# Of these facts, the first are saved together.
N_SAVED = 4

# The settings of the loops, in one array.
GAMMA, PRIOR, OWN_PRIOR, NOISY, STRETCHES_AFTER, NOW = range(6)

# The share of its variance that a parameter keeps, whatever a row says.
LEAST = 1e-9
_LEAST_STRETCH, _MOST_STRETCH = 0.8, 1.25
_AT_ONCE = 32  # rows that stay in the fastest memory
N_LINES = 6  # what is kept of each row until its batch has been taken in
# Rows after which a score has faded to 1/e.
WINDOW = 500.0

moments: Any = None  # the family's log Z, slope and bend; filled in by assimilation
look: Any = None  # what a row says; filled in by assimilation

Moments = Callable[[float, float, float], tuple[float, float, float]]


def assimilation(family: str, moments: Moments) -> Callable[..., None]:
    """The compiled loop over rows for one family."""
    one_row = compiled_with(_look, f"{family}_look", inner=True, moments=moments)
    return compiled_with(_assimilate, f"{family}_assimilate", look=one_row)


# Lines of ``Seen.stats``: the variance of predictions (before, that of missing entries); what the
# features add to them.
WIDTH, ADDED = 4, 5
N_STATS = 6


class Seen(NamedTuple):
    """What a loop reads of rows besides X, and where it writes what they said.

    The lines of ``stats`` are the prediction, log Z, precision and distance of the row as an
    observation, :data:`WIDTH` and :data:`ADDED`.
    """

    y: Floats
    weight: Floats
    stats: Floats


class Believed(NamedTuple):
    """What a loop over rows moves, and the settings it goes by; ``seen_at`` is for mixed rows."""

    rule: Floats
    mu: Floats
    var: Floats
    facts: Floats
    seen_at: Floats


def _look(
    a: float,
    v: float,
    gaps: float,
    y: float,
    weight: float,
    gamma: float,
    rule: Floats,
    facts: Floats,
) -> tuple[float, float, float, float, float, float]:
    """What one row says: slope, bend, stretch, log Z; as an observation, precision, distance.

    What missing entries would add is not known: ``gaps`` is its variance, a part of the noise.
    """
    variance = v + gaps
    if rule[NOISY] > 0.0:
        variance += facts[NOISE] / facts[NOISE_ROWS]
    log_z, g, bend = moments(a, variance, y)
    if rule[NOISY] > 0.0:
        error = min((g * variance) * (g * variance), 25.0 * variance)
        facts[NOISE] = facts[NOISE] * gamma + weight * max(error - v - gaps, 0.0)
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


class Line(NamedTuple):
    """One row of parameters."""

    mean: Floats
    width: Floats
    seen_at: Floats


def named(rows: tuple[Any, ...]) -> DenseRows | MixedRows:
    """Rows by name: numba takes a plain tuple sooner than one with names."""
    return DenseRows(*rows) if len(rows) == 1 else MixedRows(*rows)


@overload(named, inline="always", strict=False)
def _named(rows: Any) -> Callable[..., DenseRows | MixedRows]:
    if len(rows) == 1:
        return lambda rows: DenseRows(rows[0])
    return lambda rows: MixedRows(rows[0], rows[1], rows[2], rows[3], rows[4], rows[5])


def is_lazy(rows: DenseRows | MixedRows) -> bool:
    """Whether columns are caught up with only when they are touched."""
    raise NotImplementedError("compiled loops only")


@overload(is_lazy, inline="always", strict=False)
def _is_lazy(rows: Any) -> Callable[..., bool]:
    return (lambda rows: True) if rows.instance_class is MixedRows else (lambda rows: False)


def advance(
    rows: DenseRows | MixedRows, before: int, b: int, line: Line, step: Step
) -> tuple[float, float]:
    """Move the belief by what the row ``before`` has said, and project row ``b``, if it is there.

    A row that is not there gives any numbers. ``tests/naive.py`` has the definition.
    """
    raise NotImplementedError("compiled loops only")


@overload(advance, inline="always", strict=False)
def _advance(rows: Any, *_: Any) -> Callable[..., tuple[float, float]]:
    return _advance_dense if rows.instance_class is DenseRows else _advance_mixed


def _advance_dense(
    rows: DenseRows, before: int, b: int, line: Line, step: Step
) -> tuple[float, float]:
    # The update with a row and the projection of the next one share a pass over the belief.
    a = v = 0.0
    mean, width = line.mean, line.width
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


@compiled
def _move(j: int, z: float, line: Line, step: Step) -> None:
    """Move one column by its entry in a row."""
    mean, width = line.mean, line.width
    mean[j] += width[j] * z * step.pull
    width[j] *= max(1.0 - width[j] * z * z * step.bend, LEAST)


@compiled
def _catch_up(j: int, line: Line, step: Step) -> float:
    """Forget what one column has missed; its variance."""
    width, seen_at = line.width, line.seen_at
    s: float = min(width[j] * math.exp((step.clock - seen_at[j]) * step.forget), step.prior)
    width[j], seen_at[j] = s, step.clock
    return s


def _advance_mixed(
    rows: MixedRows, before: int, b: int, line: Line, step: Step
) -> tuple[float, float]:
    a = v = 0.0
    n_full = rows.full.shape[1]
    for i in range(n_full):
        _move(rows.columns[i], rows.full[before, i], line, step)
    for i in range(rows.indptr[before], rows.indptr[before + 1]):
        _move(np.int64(rows.indices[i]), rows.data[i], line, step)
    if b == rows.full.shape[0]:
        return a, v
    for i in range(n_full):
        z, j = rows.full[b, i], rows.columns[i]
        s = _catch_up(j, line, step)
        a += line.mean[j] * z
        v += s * z * z
    for i in range(rows.indptr[b], rows.indptr[b + 1]):
        z, j = rows.data[i], np.int64(rows.indices[i])
        s = _catch_up(j, line, step)
        a += line.mean[j] * z
        v += s * z * z
    return a, v


def _assimilate(entries: tuple[Any, ...], start: int, seen: Seen, belief: Believed) -> None:
    """The rows are those from ``start`` on of what is seen."""
    rows = named(entries)
    y, weight, stats = seen
    rule, mu, var, facts, seen_at = belief
    n_rows, gamma, prior = rows.full.shape[0], rule[GAMMA], rule[PRIOR]
    usual, forget, lazy = 1.0 / gamma, -math.log(gamma), is_lazy(rows)
    for k in range(len(mu)):
        line, fact = Line(mu[k], var[k], seen_at[k]), facts[k]
        pull = bend = 0.0
        factor, before, clock = 1.0, 0, rule[NOW]
        for b in range(n_rows + 1):
            last = b == n_rows
            fade, i = 1.0, start + b
            if not last:
                fade = usual if weight[i] == 1.0 else gamma ** -weight[i]
                clock += weight[i]
            step = Step(factor, pull, bend, fade, clock, forget, prior)
            a, v = advance(rows, before, b, line, step)
            s = fact[INTERCEPT_VAR]
            fact[INTERCEPT_MEAN] = fact[INTERCEPT_MEAN] * factor + s * pull
            fact[INTERCEPT_VAR] = min(s * max(1.0 - s * bend, LEAST) * fade, rule[OWN_PRIOR])
            if last:
                break
            stats[k, ADDED, i], before = a * fact[UNIT], b
            a = (a + fact[INTERCEPT_MEAN]) * fact[UNIT]
            v += fact[INTERCEPT_VAR]
            g, bend, stretch, stats[k, 1, i], stats[k, 2, i], stats[k, 3, i] = look(
                a, v, stats[k, WIDTH, i], y[k, i], weight[i], 1.0 / fade, rule, fact
            )
            stats[k, 0, i], stats[k, WIDTH, i] = a, v
            if lazy:
                fact[UNIT] *= stretch
                pull = g / fact[UNIT]
            else:
                factor, pull = stretch, g


@inner
def score(stats: Floats, b: int, even: bool) -> tuple[float, float, float]:
    """The slope of a row's log likelihood, its bend, and the expectation of the squared slope.

    Where noise is even, the square itself is that; it knows what the noise is like just now. Rare
    classes and counts are uneven: before they come, squares are too small.
    """
    precision = stats[2, b]
    bend = precision / (1.0 + stats[WIDTH, b] * precision)
    g = bend * stats[3, b]
    return g, bend, g * g if even else max(g * g, bend)


@compiled
def kept_of(weight: Floats, unit: float) -> Floats:
    """What is left of the score of each row of a batch at its end, in units."""
    kept, left, usual = np.empty(len(weight)), 1.0 / unit, math.exp(-1.0 / WINDOW)
    for b in range(len(weight) - 1, -1, -1):
        kept[b] = left
        left *= usual if weight[b] == 1.0 else math.exp(-weight[b] / WINDOW)
    return kept


@compiled
def note_scores(
    stats: Floats, start: int, stop: int, kept: Floats, even: bool, lines: Floats
) -> None:
    """Write what some rows of a batch say, in :data:`N_LINES` lines.

    The score of each row as it counts at the end, and its square; what the features add, for
    :func:`fires.kernels.changes.take_batch` to write; score and bend; the square that counts along
    the predictor: there is one slope, and whatever is rare comes often enough in it.
    """
    for k in range(len(stats)):
        for b in range(start, stop):
            g, bend, expected = score(stats[k], b, even)
            squared = kept[b] * kept[b]
            lines[0, k, b], lines[1, k, b] = kept[b] * g, squared * expected
            lines[3, k, b], lines[4, k, b] = g, bend
            lines[5, k, b] = squared * (expected if even else bend)


@compiled
def add_scores(Z: Floats, start: int, lines: Floats, sums: Floats) -> None:
    """Add rows times the first line, and their squares times the second, four rows at a time.

    They are those from ``start`` on. The last one is met again, with zeros.
    """
    last, size = len(Z) - 1, Z.shape[1]
    for k in range(lines.shape[1]):
        p, q, c, d = sums[0, k], sums[1, k], np.zeros(4), np.zeros(4)
        once, squared = lines[0, k], lines[1, k]
        for b in range(0, last + 1, 4):
            for i in range(4):
                is_one, at = b + i <= last, start + min(b + i, last)
                c[i], d[i] = once[at] if is_one else 0.0, squared[at] if is_one else 0.0
            one, two = Z[b], Z[min(b + 1, last)]
            three, four = Z[min(b + 2, last)], Z[min(b + 3, last)]
            c0, c1, c2, c3, d0, d1, d2, d3 = c[0], c[1], c[2], c[3], d[0], d[1], d[2], d[3]
            for j in range(size):
                x0, x1, x2, x3 = one[j], two[j], three[j], four[j]
                p[j] += c0 * x0 + c1 * x1 + c2 * x2 + c3 * x3
                q[j] += d0 * x0 * x0 + d1 * x1 * x1 + d2 * x2 * x2 + d3 * x3 * x3


@compiled
def total_sizes(
    mu: Floats, var: Floats, grown: float, prior: float, left_out: npt.NDArray[np.int64]
) -> Floats:
    """Sums over all columns but some: of squared means, and of how far chance may take these.

    A variance has grown since it was written down, at most to that of the prior.
    """
    totals = np.zeros((2, len(mu)))
    for k in range(len(mu)):
        squares, chance, start = 0.0, 0.0, 0
        for i in range(len(left_out) + 1):
            stop = left_out[i] if i < len(left_out) else mu.shape[1]
            means, widths = mu[k, start:stop], var[k, start:stop]
            for j in range(stop - start):
                s = min(widths[j] * grown, prior)
                squares += means[j] * means[j]
                chance += s * (1.0 - s / prior)
            start = stop + 1
        totals[0, k], totals[1, k] = squares, chance
    return totals


# --- what rows say about several coefficients together: fires.models.covariance ----------------


@inner
def add_information(
    Z: Floats, precision: Floats, value: Floats, weight: Floats, gamma: float, sums: Floats
) -> None:
    """Let the sums fade by the weight of a batch, then add its rows; the last column is 1.

    The sums are the information, the pull and, if there are any, lines that only fade.
    """
    n_rows, size = Z.shape
    wide, tall = (size + LANES) // LANES * LANES, (size + 1 + LINES) // LINES * LINES
    # Columns: those of Z, the intercept, the value.
    n_most = min(n_rows, _AT_ONCE)
    rows, weighted = np.zeros((n_most, wide)), np.zeros((n_most, tall))
    made, kept, whole = np.zeros((tall, wide)), np.empty(n_rows), 1.0
    for b in range(n_rows - 1, -1, -1):
        kept[b] = whole * precision[b]
        whole *= gamma if weight[b] == 1.0 else gamma ** weight[b]
    for start in range(0, n_rows, _AT_ONCE):
        some = min(n_rows - start, _AT_ONCE)
        for b in range(some):
            z, row, line, factor = Z[start + b], rows[b], weighted[b], kept[start + b]
            for j in range(size):
                row[j] = z[j]
                line[j] = z[j] * factor
            row[size] = 1.0
            line[size], line[size + 1] = factor, factor * value[start + b]
        add_products(weighted[:some], rows[:some], made)
    for i in range(len(sums)):
        line, more = sums[i], made[min(i, size + 1)]
        counts = 1.0 if i < size + 2 else 0.0
        for j in range(min(i, size) + 1):
            line[j] = whole * line[j] + counts * more[j]
    for i in range(size + 1):
        line = sums[i]
        for j in range(i):
            sums[j, i] = line[j]


@compiled
def add_to_sums(
    Z: Floats,
    weight: Floats,
    stats: Floats,
    facts: Floats,
    before: Floats,
    mean: Floats,
    var: Floats,
    trust: Floats,
    gamma: float,
    sums: Floats,
) -> float:
    """Add rows to the sums of the leading columns Z; how much there was to learn.

    Where others do not lead, there is the mean of the leading coefficients before the batch.
    What the others add is taken off, and its variance is a part of the noise.
    """
    n_rows, size, all_lead, learnable = len(weight), Z.shape[1], before.shape[1] == 0, 0.0
    precision, value = np.empty(n_rows), np.empty(n_rows)
    for k in range(len(sums)):
        stat, share, own = stats[k], trust[k], facts[k, INTERCEPT_VAR]
        for b in range(n_rows):
            known, told = stat[2, b], stat[0, b] + stat[3, b]
            if not all_lead:
                row, led, wide = Z[b], 0.0, own
                for j in range(size):
                    # In the middle of a batch, it was between its values before and after.
                    led += 0.5 * (before[k, j] + mean[k, j]) * row[j]
                    wide += var[k, j] * row[j] * row[j]
                told -= share * (stat[ADDED, b] - led)
                known /= 1.0 + known * share * max(stat[WIDTH, b] - wide, 0.0)
            precision[b], value[b] = known, told
            learnable += known
        add_information(Z, precision, value, weight, gamma, sums[k])
    return learnable


@compiled
def express(sums: Floats, change: Floats, mu: Floats, moved: Floats, facts: Floats) -> None:
    """Express sums in the units of now: a row z of theirs is unit z + origin there.

    After the pull, sums have lines with what columns brought of both. The intercept of a belief
    takes up what columns of means mu have moved by.
    """
    size, origin, unit = change.shape[1], change[0], change[1]
    for k in range(len(sums)):
        one = sums[k]
        for j in range(moved.shape[1]):
            facts[k, INTERCEPT_MEAN] -= mu[k, j] * moved[0, j]
        level, pull, total = one[size], one[size + 1], one[size, size]
        for i in range(size):
            line, r, s = one[i], unit[i], origin[i]
            mean = r * line[size] + s * total
            for j in range(size):
                line[j] = unit[j] * (r * line[j] + s * level[j]) + origin[j] * mean
            line[size] = mean
        for j in range(size):
            level[j] = one[j, size]
            pull[j] = unit[j] * pull[j] + origin[j] * pull[size]
            one[size + 2, j] *= unit[j] * unit[j]
            one[size + 3, j] *= unit[j]
