"""What rows say of curves, one column at a time: see :mod:`fires.models.relations`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fires.core.types import Floats, Ints
from fires.kernels.compiling import compiled, inner

Scores = npt.NDArray[np.float32]
Sums = tuple[Floats, Floats, Floats]

# Normal scores lie between minus and plus this.
REACH = 3.0
# The normal scores at which the running quantiles of a column are known.
KNOTS = np.linspace(-2.0, 2.0, 7)
# How many half periods each cosine has between minus and plus the reach.
ORDERS = np.arange(2, 8)
_GAP = (KNOTS[-1] - KNOTS[0]) / (len(KNOTS) - 1)
_LAST = len(KNOTS) - 1
_FIRST = KNOTS[0]
_TURN = math.pi / (2.0 * REACH)
_S1, _S2, _S3, _S4 = 1.0 / 6.0, 1.0 / 20.0, 1.0 / 42.0, 1.0 / 72.0  # of the series of the sine


def _moments_of_cosines() -> tuple[Floats, Floats]:
    """Mean and standard deviation of each cosine of a standard normal score."""
    points, mass = np.polynomial.hermite_e.hermegauss(80)
    scores = np.clip(points, -REACH, REACH)
    cosines = np.cos(np.pi / (2.0 * REACH) * ORDERS[:, None] * (scores + REACH))
    mean = cosines @ mass / mass.sum()
    return mean, np.sqrt((cosines - mean[:, None]) ** 2 @ mass / mass.sum())


MEANS, DEVIATIONS = _moments_of_cosines()
_EVEN_MEANS = MEANS.copy()


@inner
def _slopes(knots: Floats) -> Floats:
    """How fast normal scores grow between two quantiles."""
    slopes = np.empty((_LAST, knots.shape[1]))
    for k in range(_LAST):
        for j in range(knots.shape[1]):
            slopes[k, j] = _GAP / max(knots[k + 1, j] - knots[k, j], 1e-9)
    return slopes


@inner
def _minus_sine(x: float) -> float:
    """Minus the sine, between minus and plus half of pi; right to 4e-6."""
    s = x * x
    return -x * (1.0 - _S1 * s * (1.0 - _S2 * s * (1.0 - _S3 * s * (1.0 - _S4 * s))))


@inner
def _look_at(row: Floats, knots: Floats, slopes: Floats, w: Floats, cosine: Floats) -> None:
    """The normal scores of one row, by the quantiles of its columns; and all cosines of these."""
    n_columns = len(w)
    for j in range(n_columns):  # the first and the last line go on beyond the quantiles
        first = min((row[j] - knots[0, j]) * slopes[0, j], _GAP)
        w[j] = _FIRST + first + max((row[j] - knots[_LAST - 1, j]) * slopes[_LAST - 1, j], 0.0)
    for k in range(1, _LAST - 1):
        for j in range(n_columns):
            w[j] += min(max((row[j] - knots[k, j]) * slopes[k, j], 0.0), _GAP)
    for j in range(n_columns):
        w[j] = min(max(w[j], -REACH), REACH)
        cosine[0, j], cosine[1, j] = 1.0, _minus_sine(w[j] * _TURN)
    for q in range(2, len(cosine)):
        for j in range(n_columns):
            cosine[q, j] = 2.0 * cosine[1, j] * cosine[q - 1, j] - cosine[q - 2, j]


@compiled
def term_values(
    Z: Floats,
    knots: Floats,
    terms: tuple[Ints, Ints, Ints],
    scale: tuple[Floats, Floats],
    out: Floats,
) -> None:
    """The terms of scaled columns: cosines, and products of two normal scores for order 0.

    Terms are their first and second columns and their orders. The values of term m become
    ``(value - mean[m]) / spread[m]``, with the mean and the spread of their scale.
    """
    (first, second, order), (mean, spread) = terms, scale
    n_columns, slopes = Z.shape[1], _slopes(knots)
    w, cosine = np.empty(n_columns), np.empty((ORDERS[-1] + 1, n_columns))
    for b in range(len(Z)):
        _look_at(Z[b], knots, slopes, w, cosine)
        for m in range(len(order)):
            i, j, q = first[m], second[m], order[m]
            value = cosine[q, i] if q else w[i] * w[j]
            out[b, m] = (value - mean[m]) / spread[m]


@compiled
def screen_rows(
    Z: Floats, weight: Floats, slope: Floats, knots: Floats, out: Scores, below: Floats, sums: Sums
) -> None:
    """Add up what rows say of each column and its cosines, and write their normal scores.

    For each row of parameters, the first of the sums holds the products of the slope with z and
    with each cosine, the second the squares of these, and the third the products of the first of
    them with each other one. ``below`` holds the weight below each knot.
    """
    total, square, crossed = sums
    n_columns, n_functions = Z.shape[1], crossed.shape[1]
    cosine, w, slopes = np.empty((n_functions + 2, n_columns)), np.empty(n_columns), _slopes(knots)
    for b in range(len(Z)):
        row, own = Z[b], weight[b]
        _look_at(row, knots, slopes, w, cosine)
        for j in range(n_columns):
            out[b, j] = w[j]
        for k in range(_LAST + 1):
            for j in range(n_columns):
                below[k, j] += own if row[j] < knots[k, j] else 0.0
        for r in range(len(slope)):
            g = slope[r, b]
            for j in range(n_columns):
                score = g * row[j]
                total[r, 0, j] += score
                square[r, 0, j] += score * score
            for q in range(n_functions):
                mean = _EVEN_MEANS[q]
                for j in range(n_columns):
                    score = g * (cosine[q + 2, j] - mean)
                    total[r, q + 1, j] += score
                    square[r, q + 1, j] += score * score
                    crossed[r, q, j] += score * g * row[j]
