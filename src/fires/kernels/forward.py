"""Forward selection on the information matrix: see :mod:`fires.selectors.rule`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fires.core.types import Floats
from fires.kernels.compiling import compiled, inner

Indices = npt.NDArray[np.int64]
_SERVING = 5  # one place in so many goes to a class that no other place serves


Flags = npt.NDArray[np.bool_]


class Race(NamedTuple):
    """Candidates, what they have to reach, and what is known of them so far."""

    columns: Indices  # their places in the systems, one candidate after the other
    starts: Indices  # of each candidate in columns
    ahead: Floats  # deviations by which some are ahead
    late: Floats  # what the deviations of those that were seen in fewer rows are multiplied by
    limits: Floats  # of the first, the second, ...
    sure: float  # beyond which one serves a class beyond doubt
    z: Floats  # the deviations of all
    state: Indices  # 1 for those that have joined, 2 for those that have left, else 0


@inner
def exchange(system: Floats, line: Floats, p: int, gone: Flags) -> None:
    """Let a coefficient join those that are estimated, or leave them: it undoes itself.

    A system is the lower triangle of precision, pull (the last line) and 0. Among the coefficients
    that have joined, it then holds their covariance, below 0, and their mean; for all others,
    precision and pull that are left; and in the corner, below 0, the squared deviations of all that
    have joined. Lines of those that are gone for good are no longer kept.
    """
    # Sums near the greatest number cancel to 0.
    n, inverse = len(system), 1.0 / (system[p, p] or 1e-300)
    for j in range(p):
        line[j] = system[p, j]
    for i in range(p, n):
        line[i] = system[i, p]
    for i in range(n):
        own, factor = system[i], line[i] * inverse
        for j in range(0 if gone[i] else i + 1):  # with an if, it would not vectorise
            own[j] -= factor * line[j]
    for j in range(p):
        system[p, j] = line[j] * abs(inverse)
    for i in range(p + 1, n):
        system[i, p] = line[i] * abs(inverse)
    system[p, p] = -inverse


@compiled
def chi_deviations(squared: float, m: int) -> float:
    """The deviations of one variable whose tails are as great as that of a chi-squared one.

    By a saddle point (Lugannani and Rice).
    """
    if m == 1:
        return math.sqrt(squared)
    if squared <= 1.01 * m:
        return 0.67 * squared / m
    root = math.sqrt(squared - m - m * math.log(squared / m))
    tail = root + math.log((squared / m - 1.0) * math.sqrt(0.5 * m) / root) / root
    return math.sqrt(tail * tail + 1.39) if tail > 0.0 else 0.67  # of both tails


@inner
def _together(system: Floats, columns: Indices, block: Floats) -> float:
    """How far 0 is away, in deviations: of what columns add, or of the mean of those that joined.

    Several together count by the tail area of their chi-squared distance.
    """
    m, squared = len(columns), 0.0
    sign = -1.0 if system[columns[0], columns[0]] < 0.0 else 1.0
    for i in range(m):
        for j in range(m):
            one, other = max(columns[i], columns[j]), min(columns[i], columns[j])
            block[i, j] = sign * system[one, other]
        block[i, m] = system[-1, columns[i]]
    for p in range(m):
        pivot = max(block[p, p], 1e-300)
        squared += block[p, m] * block[p, m] / pivot
        for i in range(p + 1, m):
            factor = block[i, p] / pivot
            for j in range(p, m + 1):
                block[i, j] -= factor * block[p, j]
    return chi_deviations(squared, m)


@inner
def _measure(systems: Floats, race: Race, block: Floats, now: Floats) -> None:
    """The deviations of candidates: for each class, and for the one or for all that they serve.

    Classes are told one against the rest: the last one follows from the others.
    """
    n, columns, starts, z = len(systems), race.columns, race.starts, race.z
    for c in range(len(z)):
        if race.state[c] == 2:
            continue
        squared, highest = 0.0, 0.0
        for r in range(n):
            system, first = systems[r], columns[starts[c]]
            if starts[c + 1] - starts[c] == 1:
                one = abs(system[-1, first]) / math.sqrt(max(abs(system[first, first]), 1e-300))
            else:
                one = _together(system, columns[starts[c] : starts[c + 1]], block)
            now[c, r] = one
            squared += one * one
            highest = max(highest, one)
        z[c] = now[c, n] = highest
        if n > 1:
            of_one = math.sqrt(max(highest * highest - 2.0 * math.log(n), 0.0))
            z[c] = max(of_one, chi_deviations(squared * (n - 1) / n, n - 1))
            now[c, n] = math.sqrt(squared / n)


@inner
def _neediest(served: Floats, now: Floats, state: Indices, sure: float) -> tuple[int, int]:
    """How many classes that are not served could be, and the candidate that would be best there."""
    n_wanting, best, greatest = 0, -1, sure
    for r in range(len(served)):
        wants = False
        for c in range(len(now)):
            if served[r] <= sure and state[c] == 0 and now[c, r] > sure:
                wants = True
                if now[c, r] > greatest:
                    best, greatest = c, now[c, r]
        n_wanting += wants
    return n_wanting, best


@inner
def _next(served: Floats, now: Floats, race: Race, n_in: int) -> tuple[int, int]:
    """Who joins or leaves next, -1 for nobody, and how many are in then."""
    z, ahead, late, limits, state = race.z, race.ahead, race.late, race.limits, race.state
    moved, greatest, weakest, least = -1, -1.0, -1, np.inf
    n_left = len(limits) - n_in
    for c in range(len(z)):
        worth = late[c] * now[c, len(served)] + ahead[c]
        if state[c] == 1 and late[c] * z[c] + ahead[c] < least:
            weakest, least = c, late[c] * z[c] + ahead[c]
        may = state[c] == 0 and n_left > 0 and z[c] + ahead[c] > limits[n_in]
        if may and worth > greatest:
            moved, greatest = c, worth
    if weakest >= 0 and (n_left < 0 or z[weakest] + ahead[weakest] < limits[n_in - 1]):
        state[weakest] = 2
        return weakest, n_in - 1
    if n_left > 0:
        n_wanting, neediest = _neediest(served, now, state, race.sure)
        if n_left <= n_wanting and _SERVING * n_left <= len(limits):
            moved = neediest
        if moved >= 0:
            state[moved] = 1
            n_in += 1
            for r in range(len(served)):
                served[r] = max(served[r], now[moved, r])
    return moved if n_left > 0 else -1, n_in


def forward(systems: Floats, race: Race) -> float:
    """Let candidates join, the one that adds most first, while it is beyond its limit.

    Systems are precision and pull, which is the last column. What candidates add is multiplied by
    ``late``, for those that were seen in fewer rows, and some are ahead by so many deviations. One
    that is below its limit beside the others leaves, and the weakest does where there are more than
    limits. A class that no candidate that has joined is sure to serve gets one of the last places.
    ``state`` is 1 for those that have joined, before and after, 2 for those that have left, else 0.
    ``z`` becomes the deviations of all candidates beside those that have joined, but for those that
    have left; returned are the squared deviations of those that have joined.
    """
    n_systems, n = systems.shape[:2]
    work = np.zeros((n_systems, n + 1, n + 1))
    work[:, :n, :n], work[:, n, :n] = systems[:, :, :n], systems[:, :, n]
    widest = 1 if len(race.columns) == len(race.z) else int(np.diff(race.starts).max())
    return _forward(work, race, np.empty((widest, widest + 1)))


@compiled
def _forward(work: Floats, race: Race, block: Floats) -> float:
    columns, starts, state = race.columns, race.starts, race.state
    n_systems, n, n_candidates = len(work), work.shape[1], len(starts) - 1
    line, now, served = np.empty(n), np.empty((n_candidates, n_systems + 1)), np.zeros(n_systems)
    gone = np.zeros(n, np.bool_)
    n_in, c = 0, -1  # first the intercept joins, then those that have joined before
    while True:
        begins, first, stop = c < n_candidates, 0, 0
        if begins:
            joins = c >= 0 and state[c] == 1
            n_in += joins
            if joins:
                first, stop = starts[c], starts[c + 1]
            c += 1
        else:
            _measure(work, race, block, now)
            moved, n_in = _next(served, now, race, n_in)
            if moved < 0:
                break
            first, stop = starts[moved], starts[moved + 1]
        for i in range(-1 if begins and c == 0 else first, stop):
            for r in range(n_systems):
                exchange(work[r], line, columns[i] if i >= 0 else n - 2, gone)
            if not begins and state[moved] == 2:
                gone[columns[i]] = True
    explained = 0.0
    for r in range(n_systems):
        explained -= work[r, n - 1, n - 1]
    return explained
