"""The step of the selection rule in one pass: see :mod:`fires.selectors.membership`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.kernels.compiling import compiled

Indices = npt.NDArray[np.int64]


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
    # The best newcomer and the weakest member first; of equal ones, the lower index is better.
    newcomers = np.flatnonzero(~inside & (score > least))
    leavers = np.flatnonzero(inside & (score < greatest))[::-1]
    newcomers = newcomers[np.argsort(-score[newcomers], kind="mergesort")]
    leavers = leavers[np.argsort(score[leavers], kind="mergesort")]
    came = 0
    for i in range(min(len(newcomers), len(leavers))):
        new, old = newcomers[i], leavers[i]
        if score[new] <= score[old]:
            break
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
