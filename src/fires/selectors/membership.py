r"""Who is selected: members stay unless a newcomer is better beyond doubt.

The score of a feature is the mean of its scores since the start or the last alarm, over 4,000 rows
at most. The k best would be selected, but among features that matter equally, or not at all, that
choice would change with every batch. So a newcomer among the best takes the place of the weakest
member only if

1. it is surely above noise and the member is not: its mean exceeds :math:`\sqrt{2 \log J}` times
   its own standard deviation, which is how far the greatest of J means of nothing would go; or
2. its score is greater by more than one standard deviation of the difference. This bond grows with
   the evidence: the variance :math:`s` of each side counts with
   :math:`\sqrt{1 - s / s_0}`, which is 0 while nothing is known.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.core.declared import Array, Declared
from fires.kernels import top_k
from fires.kernels.members import renew

_ROWS = 4000.0  # that the mean of the scores reaches back

Columns = npt.NDArray[np.intp]


class Membership:
    """The selected features and the scores that decide about them.

    Parameters
    ----------
    n_features : int
        How many features there are.

    Examples
    --------
    >>> members = Membership(3)
    >>> prior = 0.1
    >>> members.renew(np.array([0.5, 0.1, 0.0]), np.full(3, 0.04), prior, 1, 100.0)
    >>> members.renew(np.array([0.4, 0.45, 0.0]), np.full(3, 0.04), prior, 1, 100.0)
    >>> members.columns
    array([0])
    """

    learnt: ClassVar[Declared] = {
        "score": Array("J"),
        "columns": Array("*", dtype="int64", low=0, high="J"),
        "rows": Array(low=0.0),
    }

    def __init__(self, n_features: int) -> None:
        self.score = np.zeros(n_features)
        self.columns: Columns = np.empty(0, dtype=np.int64)
        self.rows = 0.0
        self._inside = np.zeros(n_features, dtype=np.bool_)
        self._limit = math.sqrt(2.0 * math.log(max(n_features, 2)))

    def restart(self) -> None:
        """Forget the scores so far; the members stay until others are better."""
        self.rows = 0.0

    def renew(self, now: Floats, var: Floats, prior: float, k: int, n_rows: float) -> None:
        """Take in the scores after a batch, and let newcomers in.

        Parameters
        ----------
        now : ndarray (n_features,)
            The scores after this batch.
        var : ndarray (n_features,)
            The variance of each mean.
        prior : float
            The variance before any row.
        k : int
            How many are selected.
        n_rows : float
            The rows of the batch.
        """
        self.rows += n_rows
        share = min(n_rows / min(self.rows, _ROWS), 1.0)
        if len(self.columns) != k:
            self.score += share * (now - self.score)
            self._enter(top_k(self.score, k))
        elif renew(self.score, now, var, prior, share, self._limit, self._inside):
            self.columns = np.flatnonzero(self._inside)

    def _enter(self, columns: Columns) -> None:
        """Make these the members."""
        self.columns = columns
        self._inside = np.zeros(len(self.score), dtype=np.bool_)
        self._inside[columns] = True

    def refresh(self) -> None:
        """Note who is a member after the columns were loaded."""
        self._enter(np.unique(self.columns))
