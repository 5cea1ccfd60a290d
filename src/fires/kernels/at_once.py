"""The Bayesian step of a batch in one compiled call.

It calls the loops that :class:`fires.models.bayes_learner.BayesLearner` calls one by one, in the
same order and on the same arrays; the tests compare the two to the bit. What is unusual about a
batch is found before anything has changed, and left to the loops one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numba.core import types

from fires.core.types import Floats, Ints
from fires.kernels.assimilate import (
    N_LINES,
    WIDTH,
    add_scores,
    add_to_sums,
    express,
    kept_of,
    note_scores,
)
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

_CACHED = 60_000  # entries that are scaled at a time
# The largest value a step bears: its square can still be summed.
LARGEST = 1e150

_REAL, _INT, _FLAG = types.float64, types.int64, types.boolean
_VECTOR, _TABLE, _CUBE, _BLOCKS = (types.Array(_REAL, n, "C") for n in (1, 2, 3, 4))
_ROWS = types.Array(_REAL, 2, "C", readonly=True)
_PLACES = types.Array(_INT, 1, "C")

_look_at = by_address(_INT, _ROWS, _VECTOR, _TABLE, _TABLE)
_rescale = by_address(types.Tuple((_REAL, _INT)), _ROWS, _VECTOR, _TABLE, _TABLE, _TABLE)
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
_note_scores = by_address(types.none, _CUBE, _INT, _INT, _VECTOR, _FLAG, _CUBE)
_add_scores = by_address(types.none, _ROWS, _INT, _CUBE, _CUBE)
_take_batch = by_address(
    *(types.none, _TABLE, _VECTOR, _CUBE, _FLAG, _TABLE, _REAL, _REAL, _TABLE, _REAL, _TABLE),
    *(_CUBE, _CUBE, _TABLE),
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
        note_scores: _note_scores,
        add_scores: _add_scores,
        add_to_sums: _add_to_sums,
        express: _express,
        take_batch: _take_batch,
        fill_blocks: _fill_blocks,
        inflate: _inflate,
        find_moves: _find_moves,
    }
    return addresses_of(loops)


@inner
def _columns_of(rows: Floats, columns: Ints, some: Floats) -> None:
    """Fill in some columns."""
    for k in range(len(rows)):
        for i in range(len(columns)):
            some[k, i] = rows[k, columns[i]]


@inner
def _put(some: Floats, table: Floats) -> None:
    """Fill in rows: NumPy's way to copy takes seconds to compile."""
    for k in range(len(some)):
        for j in range(some.shape[1]):
            table[k, j] = some[k, j]


@inner
def _are_numbers(X: Floats) -> bool:
    """Whether all entries are numbers that a step bears."""
    total = 0.0
    for b in range(len(X)):
        row = X[b]
        for j in range(X.shape[1]):
            total += abs(row[j])
    return total <= LARGEST


@compiled
def admit(X: Floats, labels: tuple[Floats, float, float, Floats], y: Floats) -> float:
    """Two labels as signs, where all entries of X are numbers that a step bears.

    Returns how many are the higher one, or -1 if there is anything else. Without labels, there are
    none of them.
    """
    (given, low, high, _), n_high, n_strange = labels, 0, 0
    for b in range(len(given)):
        is_high = given[b] == high
        y[0, b] = 1.0 if is_high else -1.0
        n_high += 1 if is_high else 0
        n_strange += 0 if is_high or given[b] == low else 1
    return 1.0 * n_high if n_strange == 0 and _are_numbers(X) else -1.0


@inner
def _take_rows(
    loops: Ints,
    rows: tuple[Floats, bool, bool],
    known: Floats,
    seen: tuple[Floats, Floats, Floats],
    belief: tuple[Floats, Floats, Floats, Floats, Floats],
    notes: tuple[Floats, bool, Floats, Floats],
    columns: Ints,
    leading: Floats,
    moved: Floats,
) -> tuple[bool, Floats]:
    """Scale rows and learn from them, a few at a time: so they stay in the fastest memory.

    Returns whether that could be done, else nothing has changed, and the rows scaled last. Rows
    may have been checked, or scaled. The leading columns are filled in if there is room.
    """
    (X, is_checked, scales), (_, weight, stats), (_, mu, var, facts, _) = rows, seen, belief
    (kept, even, lines, scores), n_rows = notes, len(X)
    plan, shown = np.empty((N_PLAN, X.shape[1])), np.zeros((N_SHOWN, X.shape[1]))
    if scales and _look_at(loops[0], (X, weight, known, plan)) > 0:
        return False, X
    at_once = min(max(_CACHED // X.shape[1] // 4, 1) * 4, n_rows) if scales else n_rows
    out, n_copies = np.empty((at_once, X.shape[1] * scales)), len(mu) * (at_once < n_rows)
    before, scaled = (mu[:n_copies].copy(), var[:n_copies].copy(), facts[:n_copies].copy()), X
    for start in range(0, n_rows, at_once):
        stop = min(start + at_once, n_rows)
        if scales:
            part, scaled = X[start:stop], out[: stop - start]
            squares, n_strange = _rescale(loops[1], (part, weight[start:stop], plan, out, shown))
            are_numbers = is_checked or n_strange == 0 or _are_numbers(part)
            if not (squares <= LARGEST * LARGEST and are_numbers):
                _put(before[0], mu)
                _put(before[1], var)
                _put(before[2], facts)
                return False, X
        _assimilate(loops[3], ((scaled,), start, seen, belief))
        _note_scores(loops[4], (stats, start, stop, kept, even, lines))
        _add_scores(loops[5], (scaled, start, lines[:2], scores))
        _columns_of(scaled[: len(leading)], columns, leading[start : start + len(scaled)])
    if scales:
        _learn(loops[2], (shown, plan, weight, known, moved))
    return True, scaled


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


@inner
def _add(more: Floats, sums: Floats) -> None:
    """Add one table to another."""
    for k in range(len(more)):
        for j in range(more.shape[1]):
            sums[k, j] += more[k, j]


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
    n_rows, size, n_lines, n_leading = len(X), X.shape[1], len(mu), len(columns)
    all_lead, gamma, n_given = n_leading == size, rule[0], len(labels[0])
    moves, n_high = np.empty((0, 5)), admit(X[:0], labels, y)
    if n_high < 0.0:
        return -1.0, 0.0, moves
    others = columns[: 0 if all_lead else n_leading]
    room = np.empty((3, n_lines, len(others)))
    before, mean, width = room[0], room[1], room[2]
    _columns_of(mu, others, before)
    moved = np.empty((2, size)) if scales else change
    lines, scores = np.empty((N_LINES, n_lines, n_rows)), np.zeros((2, n_lines, size))
    is_cut = scales and n_rows * size > _CACHED
    leading = np.empty((n_rows if is_cut or not all_lead else 0, n_leading))
    stats[:, WIDTH] = 0.0
    done, Z = _take_rows(
        loops,
        (X, n_given == 0, scales),
        known,
        (y, weight, stats),
        (rule, mu, var, facts, var),
        (kept_of(weight, unit), even, lines, scores),
        columns,
        leading,
        moved,
    )
    if not done:
        return -1.0, 0.0, moves
    if n_given > 0:
        labels[3][0] += n_rows - n_high
        labels[3][1] += n_high
    Z = leading if len(leading) > 0 else Z
    _columns_of(mu, others, mean)
    _columns_of(var, others, width)
    sums = Z, weight, stats, facts, before, mean, width, trust, gamma, products
    learnable = _add_to_sums(loops[6], sums)
    if moved.shape[1] > 0:
        units = np.empty((2, n_leading))
        _columns_of(moved, columns, units)
        origin = moved if moves_level else np.empty((2, 0))
        _express(loops[7], (products, units, mu, origin, facts))
    _add(scores[0], total)
    _add(scores[1], square)
    told = np.zeros((n_lines, N_SUMS))
    # fmt: off
    _take_batch(loops[8], (
        y, weight, stats, even, level, share, pace, inflation, warm_up, alarm, shared, lines, told,
    ))
    # fmt: on
    if _fill_blocks(loops[9], (Z, lines, gamma, blocks, filled)):
        inflation[:] = 1.0
        if max(filled[0, 1], filled[1, 1]) >= LEAST:
            _inflate(loops[10], (blocks, filled, inflation[0], inflation[1]))
    if _sums_of_old((total, square, shared, usual), evidence, warm_up):
        everyone = np.empty(0, np.int64)
        # fmt: off
        moves = _find_moves(loops[11], (
            total, square, shared, usual, information, inflation[0], 1.0 * n_rows, limits,
            everyone, size, columns, columns, mu if all_lead else mean, products,
        ))
        # fmt: on
    greatest = 0.0
    for k in range(n_lines):
        evidence[k] += total_weight
        alarm[3, k] = told[k, N_SUMS - 1]
        greatest = max(greatest, alarm[3, k])
    return learnable, greatest, moves
