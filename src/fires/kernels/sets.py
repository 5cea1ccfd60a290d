"""Sets of features in a window, counted in and out."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fires.kernels.compiling import compiled

Ints = npt.NDArray[np.int64]


@compiled
def count_sets(counts: Ints, out: Ints, into: Ints) -> int:
    r"""Count one set out and one in, in place; how much the sum of squared counts grows.

    With :math:`(c + s)^2 - c^2 = 2 s c + 1` for :math:`s = \pm 1`.
    """
    growth = 0
    for i in range(len(out)):
        growth += 1 - 2 * counts[out[i]]
        counts[out[i]] -= 1
    for i in range(len(into)):
        growth += 1 + 2 * counts[into[i]]
        counts[into[i]] += 1
    return growth


def count_sets_plain(counts: Ints, out: Ints, into: Ints) -> int:
    """The definition of :func:`count_sets`."""
    before = int((counts**2).sum())
    counts[out] -= 1
    counts[into] += 1
    return int((counts**2).sum()) - before
