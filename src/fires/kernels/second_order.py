"""AROW and SCW, row by row (see ``online`` for how such loops are built)."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from fires.core.types import Floats, Ints
from fires.kernels.compiling import compiled
from fires.kernels.linear import Rows, column, row
from fires.kernels.online import MOST
from fires.kernels.sequential import ALL, listed, truncate

AROW, SCW_1, SCW_2 = 0, 1, 2

Step: TypeAlias = tuple[float, float, float]  # of the mean, the noise, the variance of a row
Rule: TypeAlias = tuple[int, float, float]  # AROW and r (and nothing), or SCW with phi and C


@compiled
def _step(rule: Rule, margin: float, v: float) -> tuple[float, float]:
    """The step of the mean (0 for none), and the noise s in 1/(v + s) that shrinks variances.

    For SCW these are alpha and sqrt(u)/(alpha phi), written so that v = 1e300 does not overflow.
    """
    kind, phi, C = rule
    if v <= 0.0:  # a row without entries
        return 0.0, 1.0
    if kind == AROW:
        r = phi
        return max(0.0, 1.0 - margin) / (v + r), r
    square = phi * phi
    if phi * math.sqrt(v) <= margin:
        return 0.0, 1.0
    if kind == SCW_1:
        half = 0.5 * margin * square
        root = math.sqrt(half * half + v * square * (1.0 + square))
        alpha = min(C, (root - margin * (1.0 + 0.5 * square)) / (v * (1.0 + square)))
    else:
        n = v + 0.5 / C
        part = v / n
        bend = 1.0 + part * square
        half = phi * margin * part
        root = phi * math.sqrt(half * half + 4.0 * v * bend)
        alpha = (root - margin * (2.0 + square * part)) / (2.0 * n * bend)
    pull = alpha * phi
    if not pull > 1e-300:
        return 0.0, 1.0
    # sqrt(u) as the paper writes it is a difference of nearly equal numbers; this form is not.
    root_u = 2.0 * v / (pull * v + math.hypot(pull * v, 2.0 * math.sqrt(v)))
    return alpha, root_u / pull


@compiled
def second_order(
    rows: Rows,
    y: Floats,
    mu: Floats,
    var: Floats,
    place: Ints,
    n: int,
    k: int,
    kept: int,
    rule: Rule,
    inverse: bool,
    costs: tuple[float, float] = (1.0, 1.0),
) -> int:
    """See ``naive.second_order_plain``.

    ``place`` has room for every feature; of CSR, for n or k, and the entries of a row. C of SCW is
    multiplied by the cost of a row's class, the negative one first.
    """
    kind, phi, C = rule
    lists = listed(place, n, len(mu) if kept != ALL else 0)
    for b in range(len(y)):
        at, x = row(rows, b)
        a = v = 0.0
        for i in range(len(x)):
            a += mu[column(at, i)] * x[i]
            v += var[column(at, i)] * x[i] * x[i]
        if not abs(a) + v <= MOST:
            return -1
        cost = costs[1] if y[b] > 0.0 else costs[0]
        alpha, noise = _step((kind, phi, C * cost), y[b] * a, v)
        if alpha <= 0.0:
            continue
        _move(mu, var, at, x, (alpha * y[b], noise, v), inverse)
        if kept != ALL:
            n = truncate(at, len(x), mu, var, lists, n, k, kept)
    return n


@compiled
def _move(mu: Floats, var: Floats, at: Ints | None, x: Floats, by: Step, inverse: bool) -> None:
    """Move means and variances by one row, in place.

    A loop of its own, with a comparison in place of ``max``: it vectorises.
    """
    step, noise, v = by
    beta = 1.0 / (v + noise)
    least = noise * beta  # what rounding may not pass: a variance stays positive
    for i in range(len(x)):
        j = column(at, i)
        pull = var[j] * x[i]
        mu[j] += step * pull
        if inverse:
            # np.divide, since / would test every divisor for zero.
            var[j] *= np.divide(noise, noise + pull * x[i])
        else:
            left = 1.0 - beta * (pull * x[i])
            var[j] *= least if left < least else left
