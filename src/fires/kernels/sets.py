"""Counts of how often each feature is selected in a window."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fires.kernels.compiling import compiled

Ints = npt.NDArray[np.int64]


@compiled
def count_sets(counts: Ints, out: Ints, into: Ints) -> int:
    r"""Remove one set from the counts and add another, in place.

    Returns how much the sum of squared counts grows, from
    :math:`(c + s)^2 - c^2 = 2 s c + 1` for :math:`s = \pm 1`.
    """
    growth = 0
    for i in range(len(out)):
        growth += 1 - 2 * counts[out[i]]
        counts[out[i]] -= 1
    for i in range(len(into)):
        growth += 1 + 2 * counts[into[i]]
        counts[into[i]] += 1
    return growth
