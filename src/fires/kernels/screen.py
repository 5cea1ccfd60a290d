"""What rows say of curves, one column at a time: see :mod:`fires.models.screen`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fires.core.types import Floats, Ints
from fires.kernels.compiling import compiled, inner

REACH = 3.0
"""Normal scores lie between minus and plus this."""
KNOTS = np.linspace(-2.0, 2.0, 7)
"""The normal scores at which the running quantiles of a column are known."""
ORDERS = np.arange(2, 8)
"""How many half periods each cosine has between minus and plus the reach."""
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
def _normal_scores(row: Floats, knots: Floats, slopes: Floats, out: Floats) -> None:
    """The normal scores of one row, by the running quantiles of its columns."""
    n_columns = len(out)
    for j in range(n_columns):  # the first and the last line go on beyond the quantiles
        first = min((row[j] - knots[0, j]) * slopes[0, j], _GAP)
        out[j] = _FIRST + first + max((row[j] - knots[_LAST - 1, j]) * slopes[_LAST - 1, j], 0.0)
    for k in range(1, _LAST - 1):
        for j in range(n_columns):
            out[j] += min(max((row[j] - knots[k, j]) * slopes[k, j], 0.0), _GAP)
    for j in range(n_columns):
        out[j] = min(max(out[j], -REACH), REACH)


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


@compiled
def term_values(
    Z: Floats,
    knots: Floats,
    first: Ints,
    second: Ints,
    order: Ints,
    mean: Floats,
    spread: Floats,
    out: Floats,
) -> None:
    """The terms of scaled columns: cosines, in ascending order for each column, and pairs.

    The values of term m become ``(value - mean[m]) / spread[m]``.
    """
    n_rows, n_terms = out.shape
    slopes, w, cosine = _slopes(knots), np.empty(Z.shape), np.empty((3, n_rows))
    for b in range(n_rows):
        _normal_scores(Z[b], knots, slopes, w[b])
    for m in range(n_terms):
        i, j, q = first[m], second[m], order[m]
        for b in range(n_rows):
            if q == 0:
                value = w[b, i] * w[b, j]
            else:
                if q == ORDERS[0]:
                    cosine[0, b], cosine[1, b] = 1.0, _minus_sine(w[b, i] * _TURN)
                    cosine[2, b] = cosine[1, b]
                value = 2.0 * cosine[2, b] * cosine[1, b] - cosine[0, b]
                cosine[0, b], cosine[1, b] = cosine[1, b], value
            out[b, m] = (value - mean[m]) / spread[m]


@compiled
def screen_rows(
    Z: Floats,
    weight: Floats,
    slope: Floats,
    knots: Floats,
    out: npt.NDArray[np.float32],
    below: Floats,
    total: Floats,
    square: Floats,
    crossed: Floats,
) -> None:
    """Add up what rows say of each column and its cosines, and write their normal scores.

    For each row of parameters, ``total`` holds the products of the slope with z and with each
    cosine, ``square`` the squares of these, and ``crossed`` the products of the first of them with
    each other one. ``below`` holds the weight below each knot.
    """
    n_columns, n_functions = Z.shape[1], crossed.shape[1]
    cosine, w, slopes = np.empty((n_functions + 2, n_columns)), np.empty(n_columns), _slopes(knots)
    for b in range(len(Z)):
        row, own = Z[b], weight[b]
        _normal_scores(row, knots, slopes, w)
        for j in range(n_columns):
            out[b, j] = w[j]
            cosine[0, j], cosine[1, j] = 1.0, _minus_sine(w[j] * _TURN)
        for k in range(_LAST + 1):
            for j in range(n_columns):
                below[k, j] += own if row[j] < knots[k, j] else 0.0
        for q in range(n_functions):
            for j in range(n_columns):
                cosine[q + 2, j] = 2.0 * cosine[1, j] * cosine[q + 1, j] - cosine[q, j]
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
