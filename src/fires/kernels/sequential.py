"""OFS: linear learners with at most k coefficients that are not zero, row by row.

They are built as those of ``online``. The first n entries of ``place`` list the coefficients that
are not zero, and a loop returns n. So a sparse row costs what its entries and k cost, however many
features there are.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import overload

from fires.core.belief import Floats
from fires.kernels.compiling import compiled
from fires.kernels.linear import Rows, row
from fires.kernels.online import MOST, Four, Ints

Flags: TypeAlias = npt.NDArray[np.bool_]


# --- truncation ---------------------------------------------------------------------------------


@compiled
def keep_best(place: Ints, key: Floats, n: int, k: int) -> int:
    """Move the k greatest of n keys to the front, with their places. Return how many there are.

    Of equal keys, the one with the lower place counts as greater. A quickselect: O(n).
    """
    low, high = 0, n - 1
    while low < high and k < n:
        middle = (low + high) // 2
        pivot, where = key[middle], place[middle]
        i, j = low, high
        while i <= j:
            while key[i] > pivot or (key[i] == pivot and place[i] < where):
                i += 1
            while key[j] < pivot or (key[j] == pivot and place[j] > where):
                j -= 1
            if i <= j:
                key[i], key[j] = key[j], key[i]
                place[i], place[j] = place[j], place[i]
                i += 1
                j -= 1
        if k <= j:
            high = j
        elif k > i:
            low = i
        else:
            break
    return min(n, k)


@compiled
def find_best(size: Floats, floor: float, k: int, place: Ints, n: int, key: Floats) -> int:
    """List the k greatest sizes above ``floor``. Return how many there are.

    Often these are the n that are listed already; that case is fast.
    """
    if n == k:
        least = np.inf
        for i in range(n):
            least = min(least, size[place[i]])
        reached = 0.0
        for j in range(len(size)):
            reached += 1.0 if size[j] >= least else 0.0
        if reached == k and least > floor:
            return n
    bound = _bound(size, k, key)
    n = 0
    for j in range(len(size)):  # without a branch, which would be mispredicted too often
        place[n], key[n] = j, size[j]
        n += (size[j] >= bound) & (size[j] > floor)
    return keep_best(place, key, n, k)


@compiled
def _bound(size: Floats, k: int, scratch: Floats) -> float:
    """A lower bound of the k-th greatest size that is not much too low.

    Cut the sizes into k parts: the k maxima are k sizes, so the least of them is such a bound. A
    part is a stride, and several strides run side by side, so that the loop vectorises.
    """
    width = k * max(1, 64 // k)
    if 2 * width > len(size):
        return -np.inf
    greatest = scratch[:width]
    greatest[:] = size[:width]
    for start in range(width, len(size), width):
        part = size[start : start + width]
        for i in range(len(part)):
            greatest[i] = max(greatest[i], part[i])
    least = np.inf
    for i in range(k):
        most = greatest[i]
        for other in range(i + k, width, k):
            most = max(most, greatest[other])
        least = min(least, most)
    return least


# --- OFS: the perceptron and its kin, with projection and truncation ----------------------------


def ofs(rows: Rows, *arguments: Any) -> int:
    """See ``naive.ofs_plain``. Of CSR, only the coefficients that are listed are looked at."""
    if isinstance(rows, np.ndarray):
        return ofs_rows(rows, *arguments)
    return ofs_csr(*rows, *arguments)


@compiled
def ofs_rows(X: Floats, y: Floats, w: Floats, place: Ints, n: int, k: int, settings: Four) -> int:
    """See ``naive.ofs_plain``; ``place`` has room for every feature."""
    rate, keep, radius, threshold = settings
    moved, size, key = np.empty(len(w)), np.empty(len(w)), np.empty(len(w))
    for b in range(X.shape[0]):
        x = X[b]
        score = 0.0
        for i in range(n):
            score += w[place[i]] * x[place[i]]
        if not abs(score) <= MOST:
            return -1
        if y[b] * score > threshold:
            for i in range(n):
                w[place[i]] *= keep
            continue
        step = rate * y[b]
        squares = 0.0
        for j in range(len(moved)):
            moved[j] = keep * w[j] + step * x[j]
            size[j] = abs(moved[j])
            squares += moved[j] * moved[j]
        if not squares <= MOST:
            return -1
        for i in range(n):
            w[place[i]] = 0.0
        n = find_best(size, 0.0, k, place, n, key)
        scale = radius / math.sqrt(squares) if squares > radius * radius else 1.0
        for i in range(n):
            w[place[i]] = scale * moved[place[i]]
    return n


@compiled
def ofs_csr(
    data: Floats,
    indices: Ints,
    indptr: Ints,
    y: Floats,
    w: Floats,
    place: Ints,
    n: int,
    k: int,
    settings: Four,
) -> int:
    """See ``naive.ofs_plain``; ``place`` has room for n or k, and the entries of a row."""
    rate, keep, radius, threshold = settings
    key = np.empty(len(place))
    for b in range(len(indptr) - 1):
        first, last = indptr[b], indptr[b + 1]
        score = 0.0
        for i in range(first, last):
            score += w[indices[i]] * data[i]
        if not abs(score) <= MOST:
            return -1
        n = _decay(w, place, n, keep)
        if y[b] * score > threshold:
            continue
        n = _add(w, place, n, indices[first:last], data[first:last], rate * y[b])
        n = _project(w, place, key, n, k, radius)
        if n < 0:
            return -1
    return n


@compiled
def _decay(w: Floats, place: Ints, n: int, keep: float) -> int:
    """Multiply by ``keep``; coefficients that become zero leave the list."""
    m = 0
    for i in range(n):
        j = place[i]
        w[j] *= keep
        if w[j] != 0.0:
            place[m] = j
            m += 1
    return m


@compiled
def _add(w: Floats, place: Ints, n: int, columns: Ints, x: Floats, step: float) -> int:
    """Add ``step * x``; coefficients that are no longer zero join the list."""
    for i in range(len(columns)):
        j = columns[i]
        before = w[j]
        w[j] = before + step * x[i]
        if before == 0.0 and w[j] != 0.0:
            place[n] = j
            n += 1
    return n


@compiled
def _project(w: Floats, place: Ints, key: Floats, n: int, k: int, radius: float) -> int:
    """Scale all coefficients into the ball, then keep the k greatest."""
    squares = 0.0
    for i in range(n):
        key[i] = abs(w[place[i]])
        squares += key[i] * key[i]
    if not squares <= MOST:
        return -1
    m = keep_best(place, key, n, k)
    for i in range(m, n):
        w[place[i]] = 0.0
    return _decay(w, place, m, radius / math.sqrt(squares) if squares > radius * radius else 1.0)


# --- OFS that may look at k entries of a row ----------------------------------------------------


@compiled
def ofs_partial(
    rows: Rows, y: Floats, draws: Floats, w: Floats, place: Ints, n: int, k: int, settings: Four
) -> int:
    """See ``naive.partial_plain``.

    ``place`` has room for n or k, and k more; of CSR, for n or k, and the entries of a row.
    """
    key, is_wanted = np.empty(len(place)), np.zeros(len(w), dtype=np.bool_)
    chosen = np.empty(k, dtype=np.int64)
    seen, x = np.empty(len(place), dtype=np.int64), np.empty(len(place))
    n = _decay(w, place, n, 1.0)
    for b in range(len(y)):
        if n == 0 or draws[b, 0] < settings[1]:
            wanted = chosen[: _draw(draws[b], is_wanted, chosen, k)]
        else:
            wanted = place[:n]
            for j in wanted:
                is_wanted[j] = True
        at, entries = row(rows, b)
        m = _look(at, entries, wanted, is_wanted, seen, x)
        for j in wanted:
            is_wanted[j] = False
        n = _learn_seen(seen[:m], x[:m], y[b], w, place, key, n, k, settings)
        if n < 0:
            return -1
    return n


def _look(
    at: Ints | None, entries: Floats, wanted: Ints, is_wanted: Flags, seen: Ints, x: Floats
) -> int:
    """Write down the wanted entries of a row, and where they are. Return how many there are."""
    raise NotImplementedError("compiled loops only")


@overload(_look, strict=False)
def _look_of(at: Any, *others: Any) -> Callable[..., int]:
    return _look_dense if isinstance(at, types.NoneType) else _look_csr


def _look_dense(
    at: None, entries: Floats, wanted: Ints, is_wanted: Flags, seen: Ints, x: Floats
) -> int:
    for i in range(len(wanted)):
        seen[i], x[i] = wanted[i], entries[wanted[i]]
    return len(wanted)


def _look_csr(
    at: Ints, entries: Floats, wanted: Ints, is_wanted: Flags, seen: Ints, x: Floats
) -> int:
    m = 0
    for i in range(len(entries)):
        if is_wanted[at[i]]:
            seen[m], x[m] = at[i], entries[i]
            m += 1
    return m


@compiled
def _draw(uniform: Floats, drawn: Flags, chosen: Ints, k: int) -> int:
    """Draw k different features as ``naive.draw_plain`` does from ``uniform[1:]``; flag them."""
    for i in range(k):
        last = len(drawn) - k + i
        j = min(int(uniform[1 + i] * (last + 1)), last)
        if drawn[j]:
            j = last
        drawn[j] = True
        chosen[i] = j
    return k


@compiled
def _learn_seen(
    seen: Ints,
    x: Floats,
    sign: float,
    w: Floats,
    place: Ints,
    key: Floats,
    n: int,
    k: int,
    settings: Four,
) -> int:
    """Learn from the part of a row that was looked at; this part is changed in place."""
    rate, explore, radius, threshold = settings
    score = 0.0
    for i in range(len(seen)):
        score += w[seen[i]] * x[i]
    if not abs(score) <= MOST:
        return -1
    if sign * score > threshold:
        return n
    chance = explore * k / len(w)
    for i in range(len(seen)):
        x[i] /= chance + (1.0 - explore if w[seen[i]] != 0.0 else 0.0)
    n = _add(w, place, n, seen, x, rate * sign)
    return _project(w, place, key, n, k, radius)
