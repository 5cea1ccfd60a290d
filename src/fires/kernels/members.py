"""The step of the selection rule in one pass: see :mod:`fires.selectors.rule`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled, inner

Indices = npt.NDArray[np.int64]


@inner
def _is_first(a: int, b: int, score: Floats, sign: float) -> bool:
    """Whether a is better than b; if the sign is negative, whether it is worse."""
    return sign * score[a] > sign * score[b] or (score[a] == score[b] and sign * (a - b) < 0.0)


@compiled
def _sink(places: Indices, at: int, n: int, score: Floats, sign: float) -> None:
    """Let one of n places sink in a heap, so that the first of all is on top.

    A heap, since NumPy's sorts take seconds to compile.
    """
    while 2 * at + 1 < n:
        child = 2 * at + 1
        if child + 1 < n and _is_first(places[child + 1], places[child], score, sign):
            child += 1
        if not _is_first(places[child], places[at], score, sign):
            break
        places[at], places[child] = places[child], places[at]
        at = child


@compiled
def renew(
    score: Floats,
    now: Floats,
    var: Floats,
    prior: float,
    share: float,
    limit: float,
    inside: npt.NDArray[np.bool_],
) -> int:
    """Move the scores towards ``now`` by a share; let newcomers in. Returns how many came in."""
    n = len(score)
    least, greatest = np.inf, -np.inf  # of the members, and of the others
    for j in range(n):
        s = score[j] + share * (now[j] - score[j])
        score[j] = s
        if inside[j]:
            least = min(least, s)
        else:
            greatest = max(greatest, s)
    if greatest <= least:
        return 0
    newcomers, leavers = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    n_new = n_old = top = np.int64(0)  # a literal 0 would be a type of its own
    for j in range(n):
        if inside[j] and score[j] < greatest:
            leavers[n_old] = j
            n_old += 1
        if not inside[j] and score[j] > least:
            newcomers[n_new] = j
            n_new += 1
    # The best newcomer and the weakest member first; of equal ones, the lower index is better.
    for i in range(n_new // 2 - 1, -1, -1):
        _sink(newcomers, i, n_new, score, 1.0)
    for i in range(n_old // 2 - 1, -1, -1):
        _sink(leavers, i, n_old, score, -1.0)
    came = 0
    while n_new > 0 and n_old > 0:
        new, old = newcomers[0], leavers[0]
        if score[new] <= score[old]:
            break
        n_new, n_old = n_new - 1, n_old - 1
        newcomers[0], leavers[0] = newcomers[n_new], leavers[n_old]
        _sink(newcomers, top, n_new, score, 1.0)
        _sink(leavers, top, n_old, score, -1.0)
        new_learnt = max(1.0 - var[new] / prior, 0.0)
        old_learnt = max(1.0 - var[old] / prior, 0.0)
        new_is_sure = now[new] > limit * math.sqrt(var[new] * new_learnt)
        old_is_sure = now[old] > limit * math.sqrt(var[old] * old_learnt)
        bond = math.sqrt(var[new] * math.sqrt(new_learnt) + var[old] * math.sqrt(old_learnt))
        better = score[old] == 0.0 or score[new] - score[old] > bond
        if better or (new_is_sure and not old_is_sure):
            inside[old], inside[new] = False, True
            came += 1
    return came
