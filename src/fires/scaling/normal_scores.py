r"""Numbers as normal scores: by rank among the numbers before them.

.. math:: s = \Phi^{-1}\bigl(F(y)\bigr)

where F is the share of the last numbers seen that are below y (ties count half). For a normal y
that is the standardised y. For a skewed or heavy-tailed one, a linear model of s still finds what
moves y, and one wild number cannot move s beyond 4.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from fires.core.declared import Array, Declared
from fires.core.types import Floats

KEPT = 2000
"""The last numbers seen, by which others become scores."""


class NormalScores:
    """Turn numbers into normal scores, by the batches before; the first batch by itself.

    Examples
    --------
    >>> scores = NormalScores()
    >>> y = np.array([1.0, 10.0, 100.0])
    >>> scores.of(y).round(2)
    array([-0.67,  0.  ,  0.67])
    >>> scores.learn(y)
    >>> scores.of(np.array([-5.0, 10.0, 1e6])).round(2)
    array([-1.15,  0.  ,  1.15])
    """

    learnt: ClassVar[Declared] = {
        "sample": Array("*"),
        "known": Array("*"),
        "n_fresh": Array(low=0.0),
    }

    def __init__(self) -> None:
        self.sample: Floats = np.empty(0)  # in order of arrival
        self.known: Floats = np.empty(0)  # sorted; a tenth of the sample may be newer
        self.n_fresh = 0.0

    @property
    def ready(self) -> bool:
        """Whether it has seen numbers."""
        return len(self.sample) > 0

    def of(self, y: Floats, weight: Floats | None = None) -> Floats:
        """The scores of numbers."""
        known = self.known if self.ready else np.sort(y if weight is None else y[weight > 0.0])
        n = len(known)
        below = np.searchsorted(known, y, side="left")
        upto = np.searchsorted(known, y, side="right")
        share = (below + upto + 1.0) / (2.0 * (n + 1.0))
        # A first batch may be greater than all that is kept later; its ends are not farther out.
        edge = 0.5 / (min(n, KEPT) + 1.0)
        scores: Floats = ndtri(np.clip(share, edge, 1.0 - edge))
        return scores

    def learn(self, y: Floats) -> None:
        """Remember numbers."""
        self.sample = np.concatenate([self.sample, y])[-KEPT:]
        self.n_fresh += len(y)
        if 10.0 * self.n_fresh > len(self.known):
            self.known, self.n_fresh = np.sort(self.sample), 0.0
