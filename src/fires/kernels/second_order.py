"""AROW and SCW, row by row (see ``sequential`` for how such loops are built)."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np

from fires.core.belief import Floats
from fires.kernels.compiling import compiled
from fires.kernels.sequential import MOST, Flags, Ints, find_best, keep_best

AROW, SCW_1, SCW_2 = 0, 1, 2
ALL, CONFIDENT, GREATEST = 0, 1, 2  # which means stay: all, k of least variance, k greatest

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
def second_order_rows(
    X: Floats,
    y: Floats,
    mu: Floats,
    var: Floats,
    place: Ints,
    n: int,
    k: int,
    kept: int,
    rule: Rule,
    inverse: bool,
) -> int:
    """See ``naive.second_order_plain``; ``place`` has room for every feature."""
    size, key = np.empty(len(mu)), np.empty(len(mu))
    for b in range(X.shape[0]):
        x = X[b]
        a = v = 0.0
        for j in range(len(x)):
            a += mu[j] * x[j]
            v += var[j] * x[j] * x[j]
        if not abs(a) + v <= MOST:
            return -1
        alpha, noise = _step(rule, y[b] * a, v)
        if alpha <= 0.0:
            continue
        if inverse:
            _move_inverse(mu, var, x, alpha * y[b], noise)
        else:
            _move(mu, var, x, alpha * y[b], noise, v)
        if kept != ALL:
            n = _truncate(mu, var, size, place, key, n, k, kept)
    return n


@compiled
def _move(mu: Floats, var: Floats, x: Floats, step: float, noise: float, v: float) -> None:
    """Move means and variances by one row, in place.

    A loop of its own, without a branch and with a comparison in place of ``max``: it vectorises.
    """
    beta = 1.0 / (v + noise)
    least = noise * beta  # what rounding may not pass: a variance stays positive
    for j in range(len(x)):
        pull = var[j] * x[j]
        mu[j] += step * pull
        left = 1.0 - beta * (pull * x[j])
        var[j] *= least if left < least else left


@compiled
def _move_inverse(mu: Floats, var: Floats, x: Floats, step: float, noise: float) -> None:
    """As :func:`_move`, with the inverse of the diagonal of the inverse."""
    for j in range(len(x)):
        pull = var[j] * x[j]
        mu[j] += step * pull
        # np.divide, since / would test every divisor for zero, and the loop would not vectorise.
        var[j] *= np.divide(noise, noise + pull * x[j])


@compiled
def _truncate(
    mu: Floats,
    var: Floats,
    size: Floats,
    place: Ints,
    key: Floats,
    n: int,
    k: int,
    kept: int,
) -> int:
    """Keep k of all means. Return how many are listed."""
    for j in range(len(mu)):
        size[j] = abs(mu[j]) if kept == GREATEST else -var[j]
    n = find_best(size, 0.0 if kept == GREATEST else -1.0, k, place, n, key)
    for i in range(n):
        key[i] = mu[place[i]]
    mu[:] = 0.0
    for i in range(n):
        mu[place[i]] = key[i]
    return n


@compiled
def second_order_csr(
    data: Floats,
    indices: Ints,
    indptr: Ints,
    y: Floats,
    mu: Floats,
    var: Floats,
    place: Ints,
    n: int,
    k: int,
    kept: int,
    rule: Rule,
    inverse: bool,
) -> int:
    """See ``naive.second_order_plain``; ``place`` has room for n or k, and the entries of a row."""
    key = np.empty(len(place))
    listed = np.zeros(len(mu) if kept != ALL else 0, dtype=np.bool_)
    for i in range(n):
        listed[place[i]] = True
    for b in range(len(indptr) - 1):
        a = v = 0.0
        for i in range(indptr[b], indptr[b + 1]):
            a += mu[indices[i]] * data[i]
            v += var[indices[i]] * data[i] * data[i]
        if not abs(a) + v <= MOST:
            return -1
        alpha, noise = _step(rule, y[b] * a, v)
        if alpha <= 0.0:
            continue
        step, beta = alpha * y[b], 1.0 / (v + noise)
        least = noise * beta  # what rounding may not pass: a variance stays positive
        for i in range(indptr[b], indptr[b + 1]):
            j = indices[i]
            pull = var[j] * data[i]
            mu[j] += step * pull
            if inverse:
                var[j] *= noise / (noise + pull * data[i])
            else:
                var[j] *= max(1.0 - beta * (pull * data[i]), least)
            if kept != ALL and not listed[j]:
                n = _list(j, mu, var, place, listed, n, kept)
        if n > k and kept != ALL:
            n = _unlist(mu, var, place, listed, key, n, k, kept)
    return n


@compiled
def _list(j: int, mu: Floats, var: Floats, place: Ints, listed: Flags, n: int, kept: int) -> int:
    """List a feature that a step has moved, or set its mean back to zero."""
    if mu[j] != 0.0 if kept == GREATEST else var[j] < 1.0:
        place[n] = j
        listed[j] = True
        return n + 1
    mu[j] = 0.0
    return n


@compiled
def _unlist(
    mu: Floats,
    var: Floats,
    place: Ints,
    listed: Flags,
    key: Floats,
    n: int,
    k: int,
    kept: int,
) -> int:
    """Keep k of the n listed means. Return how many there are."""
    for i in range(n):
        key[i] = abs(mu[place[i]]) if kept == GREATEST else -var[place[i]]
    for i in range(keep_best(place, key, n, k), n):
        mu[place[i]] = 0.0
        listed[place[i]] = False
    return k
