"""The Bayesian step of a batch in one compiled call.

It calls the loops that :class:`fires.models.bayes_learner.BayesLearner` calls one by one, in the
same order and on the same arrays; the tests compare the two to the bit. What is unusual about a
batch is found before anything has changed, and left to the loops one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np
from numba.core import types

from fires.core.types import Floats, Ints
from fires.kernels.assimilate import WIDTH, add_to_sums, express
from fires.kernels.changes import (
    LEAST,
    N_SUMS,
    fill_blocks,
    find_moves,
    inflate,
    take_batch,
)
from fires.kernels.compiling import addresses_of, by_address, compiled, inner
from fires.kernels.moments import N_PLAN, N_SHOWN, learn, look_at, rescale_rows

# The largest value a step bears: its square can still be summed.
LARGEST = 1e150

_REAL, _INT, _FLAG = types.float64, types.int64, types.boolean
_VECTOR, _TABLE, _CUBE, _BLOCKS = (types.Array(_REAL, n, "C") for n in (1, 2, 3, 4))
_ROWS = types.Array(_REAL, 2, "C", readonly=True)
_PLACES = types.Array(_INT, 1, "C")

_look_at = by_address(_INT, _ROWS, _VECTOR, _TABLE, _TABLE)
_rescale = by_address(_REAL, _ROWS, _VECTOR, _TABLE, _TABLE, _TABLE)
_learn = by_address(types.none, _TABLE, _TABLE, _VECTOR, _TABLE, _TABLE)
_assimilate = by_address(
    types.none,
    types.UniTuple(_ROWS, 1),
    _INT,
    types.Tuple((_TABLE, _VECTOR, _CUBE)),
    types.Tuple((_VECTOR, _TABLE, _TABLE, _TABLE, _TABLE)),
)
_add_to_sums = by_address(
    _REAL, _ROWS, _VECTOR, _CUBE, _TABLE, _TABLE, _TABLE, _TABLE, _VECTOR, _REAL, _CUBE
)
_express = by_address(types.none, _CUBE, _TABLE, _TABLE, _TABLE, _TABLE)
_take_batch = by_address(
    *(types.none, _ROWS, _TABLE, _VECTOR, _CUBE, _REAL, _FLAG, _TABLE, _REAL, _REAL, _TABLE),
    *(_REAL, _TABLE, _TABLE, _TABLE, _CUBE, _CUBE, _TABLE),
)
_fill_blocks = by_address(_FLAG, _ROWS, _CUBE, _REAL, _BLOCKS, _TABLE)
_inflate = by_address(types.none, _BLOCKS, _TABLE, _VECTOR, _VECTOR)
_find_moves = by_address(
    *(_TABLE, _TABLE, _TABLE, _CUBE, _VECTOR, _REAL, _VECTOR, _REAL, _VECTOR, _PLACES, _INT),
    *(_PLACES, _PLACES, _TABLE, _CUBE),
)


@cache
def addresses(assimilate: Callable[..., None]) -> Ints:
    """Where the loops are, for the family that this one is of."""
    loops = {
        look_at: _look_at,
        rescale_rows: _rescale,
        learn: _learn,
        assimilate: _assimilate,
        add_to_sums: _add_to_sums,
        express: _express,
        take_batch: _take_batch,
        fill_blocks: _fill_blocks,
        inflate: _inflate,
        find_moves: _find_moves,
    }
    return addresses_of(loops)


@compiled
def _columns_of(rows: Floats, columns: Ints) -> Floats:
    """Some columns."""
    some = np.empty((len(rows), len(columns)))
    for k in range(len(rows)):
        for i in range(len(columns)):
            some[k, i] = rows[k, columns[i]]
    return some


@compiled
def admit(X: Floats, labels: tuple[Floats, float, float, Floats], y: Floats) -> float:
    """Two labels as signs, where all entries of X are numbers that a step bears.

    Returns how many are the higher one, or -1 if there is anything else. Without labels, there are
    none of them.
    """
    (given, low, high, _), n_high, n_strange = labels, 0, 0
    for b in range(len(X)):
        row = X[b]
        for j in range(X.shape[1]):
            n_strange += 0 if abs(row[j]) <= LARGEST else 1
    for b in range(len(given)):
        is_high = given[b] == high
        y[0, b] = 1.0 if is_high else -1.0
        n_high += 1 if is_high else 0
        n_strange += 0 if is_high or given[b] == low else 1
    return -1.0 if n_strange > 0 else 1.0 * n_high


@inner
def _scale(
    loops: Ints, X: Floats, weight: Floats, known: Floats, out: Floats, moved: Floats
) -> bool:
    """Put rows on their scale, and learn it; if they cannot be scaled, nothing has changed."""
    plan, shown = np.empty((N_PLAN, X.shape[1])), np.zeros((N_SHOWN, X.shape[1]))
    if _look_at(loops[0], (X, weight, known, plan)) > 0:
        return False
    if not math.isfinite(_rescale(loops[1], (X, weight, plan, out, shown))):
        return False
    _learn(loops[2], (shown, plan, weight, known, moved))
    return True


@inner
def _sums_of_old(tests: tuple[Floats, Floats, Floats, Floats], old: Floats, warm_up: float) -> bool:
    """Let the sums of rows of parameters that are still warming up be 0; whether others are."""
    total, square, shared, usual = tests
    some = False
    for k in range(len(old)):
        if old[k] < warm_up:
            shared[:, k] = 0.0
            usual[k] = 1.0
            total[k] = 0.0
            square[k] = 0.0
        else:
            some = True
    return some


@compiled
def take_at_once(
    loops: Ints,
    rows: tuple[Floats, tuple[Floats, float, float, Floats], Floats, Floats, Floats],
    how: tuple[bool, bool, bool],
    numbers: tuple[float, float, float, float, float, float],
    limits: Floats,
    stats: Floats,
    state: tuple[Floats, ...],
) -> tuple[float, float, Floats]:
    """Learn from a batch: how much there was to learn, below 0 if nothing was done.

    Then the greatest sum of the alarm, and what has moved.

    The target is in ``y``, or there are labels, the lower and the higher one, and their counts.
    ``change`` is that of the units of rows that are scaled already.
    """
    X, labels, y, weight, change = rows
    scales, moves_level, even = how
    unit, share, pace, total_weight, warm_up, information = numbers
    # fmt: off
    (
        rule, mu, var, facts, evidence, known, columns, products, trust,
        total, square, shared, usual, level, inflation, blocks, filled, alarm,
    ) = state
    # fmt: on
    n_rows, size, n_lines = len(X), X.shape[1], len(mu)
    all_lead, gamma, nothing = len(columns) == size, rule[0], np.empty((n_lines, 0))
    n_high, moves = admit(X, labels, y), np.empty((0, 5))
    if n_high < 0.0:
        return -1.0, 0.0, moves
    scaled, moved = X, change
    if scales:
        out, moved = np.empty((n_rows, size)), np.empty((2, size))
        if not _scale(loops, X, weight, known, out, moved):
            return -1.0, 0.0, moves
        scaled = out
    if len(labels[0]) > 0:
        labels[3][0] += n_rows - n_high
        labels[3][1] += n_high
    before = nothing if all_lead else _columns_of(mu, columns)
    stats[:, WIDTH] = 0.0
    _assimilate(loops[3], ((scaled,), 0, (y, weight, stats), (rule, mu, var, facts, var)))
    Z, mean, width, units = scaled, mu, nothing, moved
    if not all_lead:
        Z, mean = _columns_of(scaled, columns), _columns_of(mu, columns)
        width, units = _columns_of(var, columns), _columns_of(moved, columns)
    sums = Z, weight, stats, facts, before, mean, width, trust, gamma, products
    learnable = _add_to_sums(loops[4], sums)
    if moved.shape[1] > 0:
        origin = moved if moves_level else np.empty((2, 0))
        _express(loops[5], (products, units, mu, origin, facts))
    lines, told = np.empty((5, n_lines, n_rows)), np.zeros((n_lines, N_SUMS))
    # fmt: off
    _take_batch(loops[6], (
        scaled, y, weight, stats, unit, even, level, share, pace, inflation, warm_up,
        alarm, total, square, shared, lines, told,
    ))
    # fmt: on
    if _fill_blocks(loops[7], (Z, lines, gamma, blocks, filled)):
        inflation[:] = 1.0
        if max(filled[0, 1], filled[1, 1]) >= LEAST:
            _inflate(loops[8], (blocks, filled, inflation[0], inflation[1]))
    if _sums_of_old((total, square, shared, usual), evidence, warm_up):
        everyone = np.empty(0, np.int64)
        # fmt: off
        moves = _find_moves(loops[9], (
            total, square, shared, usual, information, inflation[0], 1.0 * n_rows, limits,
            everyone, size, columns, columns, mean, products,
        ))
        # fmt: on
    greatest = 0.0
    for k in range(n_lines):
        evidence[k] += total_weight
        alarm[3, k] = told[k, N_SUMS - 1]
        greatest = max(greatest, alarm[3, k])
    return learnable, greatest, moves
