"""OFS: linear learners with at most k coefficients that are not zero, row by row.

They are built as those of ``online``. The first n entries of ``place`` list the coefficients that
are not zero, and a loop returns n. So a sparse row costs what its entries and k cost, however many
features there are.
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from fires.core.types import Floats, Ints
from fires.kernels.compiling import compiled
from fires.kernels.linear import Rows, column, row
from fires.kernels.online import MOST, Four

Flags: TypeAlias = npt.NDArray[np.uint8]

ALL, CONFIDENT, GREATEST = 0, 1, 2  # which means stay: all, k of least variance, k greatest


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


class Listed(NamedTuple):
    """The features whose means are not zero, and room to find them."""

    place: Ints
    key: Floats
    size: Floats
    is_listed: Flags


@compiled
def listed(place: Ints, n: int, n_features: int) -> Listed:
    """The first n entries of ``place`` as a list with room."""
    is_listed = np.zeros(n_features, dtype=np.uint8)
    for i in range(n):
        is_listed[place[i]] = 1
    return Listed(place, np.empty(len(place)), np.empty(len(place))[:n_features], is_listed)


@compiled
def truncate(
    at: Ints | None, width: int, mu: Floats, var: Floats, lists: Listed, n: int, k: int, kept: int
) -> int:
    """Keep k means after a row of so many entries, and list them. Return how many there are.

    Of a row with all entries, all means are looked through; of others, those that are listed.
    """
    place, key, size, is_listed = lists
    if width == len(mu):
        for i in range(n):
            is_listed[place[i]] = 0
        for j in range(len(mu)):
            size[j] = abs(mu[j]) if kept == GREATEST else -var[j]
        n = find_best(size, 0.0 if kept == GREATEST else -1.0, k, place, n, key)
        for i in range(n):
            key[i] = mu[place[i]]
        mu[:] = 0.0
        for i in range(n):
            mu[place[i]] = key[i]
            is_listed[place[i]] = 1
        return n
    for i in range(width):  # list what the step has moved, or set its mean back to zero
        j = column(at, i)
        if not is_listed[j]:
            if mu[j] != 0.0 if kept == GREATEST else var[j] < 1.0:
                place[n] = j
                is_listed[j] = 1
                n += 1
            else:
                mu[j] = 0.0
    m = 0
    for i in range(n):
        j = place[i]
        place[m], key[m] = j, abs(mu[j]) if kept == GREATEST else -var[j]
        is_listed[j] = key[m] != 0.0
        m += is_listed[j]
    for i in range(keep_best(place, key, m, k), m):
        mu[place[i]] = 0.0
        is_listed[place[i]] = 0
    return min(m, k)


# --- OFS: the perceptron and its kin, with projection and truncation ----------------------------


@compiled
def ofs(rows: Rows, y: Floats, w: Floats, place: Ints, n: int, k: int, settings: Four) -> int:
    """See ``naive.ofs_plain``.

    ``place`` has room for every feature; of CSR, for n or k, and the entries of a row.
    """
    rate, keep, radius, threshold = settings
    lists = listed(place, n, len(w))
    for b in range(len(y)):
        at, x = row(rows, b)
        score = 0.0
        for i in range(len(x)):
            score += w[column(at, i)] * x[i]
        if not abs(score) <= MOST:
            return -1
        for i in range(n):
            w[place[i]] *= keep
        if y[b] * score <= threshold:
            n = _learn(at, x, rate * y[b], w, lists, n, k, radius)
            if n < 0:
                return -1
    return n


@compiled
def _learn(
    at: Ints | None, x: Floats, step: float, w: Floats, lists: Listed, n: int, k: int, radius: float
) -> int:
    """Add ``step * x``, keep the k greatest, and scale them as all would be, into the ball."""
    squares = 0.0
    for i in range(n):
        squares += w[lists.place[i]] * w[lists.place[i]]
    for i in range(len(x)):
        j = column(at, i)
        before = w[j]
        w[j] = before + step * x[i]
        squares += w[j] * w[j] - before * before
    if not squares <= MOST:
        return -1
    n = truncate(at, len(x), w, w, lists, n, k, GREATEST)
    if squares > radius * radius:
        for i in range(n):
            w[lists.place[i]] *= radius / math.sqrt(squares)
    return n


# --- OFS that may look at k entries of a row ----------------------------------------------------


@compiled
def ofs_partial(
    rows: Rows, y: Floats, draws: Floats, w: Floats, place: Ints, n: int, k: int, settings: Four
) -> int:
    """See ``naive.partial_plain``.

    ``place`` has room for n or k, and k more; of CSR, for n or k, and the entries of a row.
    """
    rate, explore, radius, threshold = settings
    lists, chosen = listed(place, n, len(w)), np.empty(k, dtype=np.int64)
    flags = lists.is_listed  # 1 for what is listed, and 2 for what is wanted
    seen, x = np.empty(len(place), dtype=np.int64), np.empty(len(place))
    n = truncate(chosen, 0, w, w, lists, n, n, GREATEST)
    for b in range(len(y)):
        if n == 0 or draws[b, 0] < explore:
            wanted = chosen
            for i in range(k):  # k different features, as ``naive.draw_plain`` draws them
                last = len(w) - k + i
                drawn = min(int(draws[b, 1 + i] * (last + 1)), last)
                chosen[i] = last if flags[drawn] & 2 else drawn
                flags[chosen[i]] |= 2
        else:
            wanted = place[:n]
            for j in wanted:
                flags[j] |= 2
        at, entries = row(rows, b)
        m, score = 0, 0.0
        for i in range(len(entries)):
            feature = column(at, i)
            if flags[feature] & 2:
                seen[m], x[m] = feature, entries[i]
                score += w[feature] * x[m]
                m += 1
        for j in wanted:
            flags[j] &= 1
        if not abs(score) <= MOST:
            return -1
        if y[b] * score > threshold:
            continue
        for i in range(m):
            x[i] /= explore * k / len(w) + (1.0 - explore if w[seen[i]] != 0.0 else 0.0)
        n = _learn(seen[:m], x[:m], rate * y[b], w, lists, n, k, radius)
        if n < 0:
            return -1
    return n
