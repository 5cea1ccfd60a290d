r"""Twins: of features that say the same, one is selected.

**Who is a candidate.** The columns that lead, 100 at most: see :mod:`fires.models.leading`. Their
correlation is kept as sums over rows, which fade as all evidence does. It is about the rows alone,
so an alarm, which is about the target, leaves it as it is.

**Who is a twin.** Candidates are taken in turn, the best first, until there are k. Of each next one
counts what those taken do not explain: the share :math:`1 - R^2` of its variance, adjusted for
chance as in :math:`\bar R^2`. If that is less than 0.25, it is a twin and is left out. So a copy
with a correlation above 0.87 is a twin, whatever its sign, and so is the sum of two columns that
are taken. Two noisy copies of one column, each with a correlation of 0.95 to it, have one of 0.90.

**What counts.** A twin is judged by what it adds: its score times :math:`\sqrt{1 - R^2}`. Copies
share the effect of what they copy. So a feature that is no twin is judged by what it would say if
its copies were not there: its coefficient is :math:`\sum_m r_{jm} \mu_m` over those m with
:math:`1 - r_{jm}^2` below the limit. It is never less than its own.

**Who stays.** The turn of a member is that of a feature better by one standard deviation. So
equal twins do not take each other's place.

With k features that are no twins, no twin is selected that adds less than they say. If there are
fewer of them, twins fill the places.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.core.declared import Array, Declared
from fires.core.errors import StateError
from fires.kernels.twins import adjusted, correlate, what_is_left
from fires.models.bayes_learner import BayesLearner
from fires.selectors.membership import Judge

LIMIT = 0.25
"""The share of its variance that a feature must have of its own, not to be a twin."""

_LEAST = 1e-3  # the factor of a twin that adds nothing: there may be places to fill

Columns = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


class Twins:
    """The running correlation among the candidates, and what follows from it.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> Z = rng.normal(size=(500, 3))
    >>> Z[:, 2] = -Z[:, 0]
    >>> twins = Twins()
    >>> twins.add(np.arange(3), Z, np.ones(500), gamma=0.9999)
    >>> twins.correlation().round(1) + 0.0
    array([[ 1.,  0., -1.],
           [ 0.,  1.,  0.],
           [-1.,  0.,  1.]])
    >>> twins.of(np.array([0, 1]))
    {0: [2]}
    """

    learnt: ClassVar[Declared] = {
        "columns": Array("C", dtype="int64", low=0, high="J"),
        "products": Array("C", "C"),
        "sums": Array("C"),
        "rows": Array("C", low=0.0),
    }

    def __init__(self) -> None:
        self.columns: Columns = np.empty(0, dtype=np.int64)
        self.products = np.zeros((0, 0))
        self.sums = np.zeros(0)
        self.rows = np.zeros(0)  # since each column is a candidate

    def take(self, learner: BayesLearner, alone: Mask | None = None) -> None:
        """Take in the last batch of a learner, which lets go of its rows.

        Parameters
        ----------
        learner : BayesLearner
            It keeps the rows of its leading columns.
        alone : ndarray of bool (n_features,), optional
            The features that are in no group with others. Only they are candidates.
        """
        columns, Z, weight = learner.take_rows()
        if alone is not None:
            columns, Z = columns[alone[columns]], np.ascontiguousarray(Z[:, alone[columns]])
        self.add(columns, Z, weight, gamma=learner.gamma)

    def add(self, columns: Columns, Z: Floats, weight: Floats, *, gamma: float) -> None:
        """Take in the rows of a batch.

        Parameters
        ----------
        columns : ndarray of int
            The candidates, sorted. Columns that were none before have no past.
        Z : ndarray (n_rows, n_candidates)
            Their scaled rows.
        weight : ndarray (n_rows,)
            How often each row counts.
        gamma : float
            The share of its evidence that a belief keeps from row to row.
        """
        if len(columns) != len(self.columns) or (columns != self.columns).any():
            self._follow(columns)
        total = float(weight.sum())
        keep, weighted = gamma**total, Z if total == len(weight) else Z * weight[:, None]
        self.products *= keep
        self.products += weighted.T @ Z
        self.sums *= keep
        self.sums += weighted.sum(axis=0)
        self.rows *= keep
        self.rows += total

    def _follow(self, columns: Columns) -> None:
        """Let these be the candidates."""
        size = len(columns)
        old, new = np.isin(self.columns, columns), np.isin(columns, self.columns)
        products, sums, rows = np.zeros((size, size)), np.zeros(size), np.zeros(size)
        products[np.ix_(new, new)] = self.products[np.ix_(old, old)]
        sums[new], rows[new] = self.sums[old], self.rows[old]
        self.columns, self.products, self.sums, self.rows = columns.copy(), products, sums, rows

    def restart(self, columns: npt.NDArray[np.intp]) -> None:
        """Forget some columns.

        Parameters
        ----------
        columns : ndarray of int
            Which columns.
        """
        gone = np.isin(self.columns, columns)
        self.products[gone] = self.products[:, gone] = 0.0
        self.sums[gone] = self.rows[gone] = 0.0

    def refresh(self) -> None:
        """StateError if the columns that were loaded are not in order."""
        if (np.diff(self.columns) <= 0).any():
            raise StateError("columns of twins are not in order")

    def correlation(self) -> Floats:
        """The correlation among the candidates.

        Returns
        -------
        ndarray (n_candidates, n_candidates)
        """
        return correlate(self.products, self.sums, self.rows)

    def judge(
        self,
        learner: BayesLearner,
        places: Columns,
        members: Columns,
        k: int,
        resting: Mask | None = None,
    ) -> Judge:
        """What the scores of all features become, when twins count for what they add.

        Parameters
        ----------
        learner : BayesLearner
            What the coefficients are.
        places : ndarray of int
            The number of each candidate among the features, or the groups of them.
        members : ndarray of int
            The numbers of those that are selected so far.
        k : int
            How many are selected.
        resting : ndarray of bool, optional
            Those whose columns are not there. They come last, so they stand for nobody as long as
            others can.

        Returns
        -------
        callable (columns, mean_scores, scores) -> mean_scores, scores
            The columns are sorted numbers, or a slice, and hold all candidates.
        """
        mine, r = self.columns, self.correlation()
        near = np.where(r * r > 1.0 - LIMIT, r, 0.0)
        lift = np.maximum(learner.scores(mine, near) - learner.scores(mine), 0.0)
        ahead = lift + np.where(np.isin(places, members), np.sqrt(learner.variances(mine)), 0.0)

        def judged(columns: Any, score: Floats, now: Floats) -> tuple[Floats, Floats]:
            at = places if isinstance(columns, slice) else np.searchsorted(columns, places)
            turn = score[at] + ahead
            if resting is not None:
                turn[resting[places]] = -1.0
            order = np.argsort(-turn, kind="stable")
            own = what_is_left(r, self.rows, order, k, LIMIT)
            is_twin = own < 1.0
            factor = np.where(is_twin, np.maximum(np.sqrt(own), _LEAST), 1.0)
            more = np.where(is_twin, 0.0, lift)
            score, now = score.copy(), now.copy()
            score[at] = factor * score[at] + more
            now[at] = factor * now[at] + more
            return score, now

        return judged

    def of(self, selected: npt.NDArray[np.intp]) -> dict[int, list[int]]:
        """Who stands for whom.

        Parameters
        ----------
        selected : ndarray of int
            The selected columns.

        Returns
        -------
        dict of int to list of int
            For selected columns, the candidates that are not selected and for which they stand. A
            sum of two stands with both.
        """
        r, inside = self.correlation(), np.isin(self.columns, selected)
        members = np.flatnonzero(inside)
        found: dict[int, list[int]] = {}
        for j in np.flatnonzero(~inside):
            for member in _explaining(r, members, int(j), float(self.rows[j])):
                found.setdefault(int(self.columns[member]), []).append(int(self.columns[j]))
        return dict(sorted(found.items()))


def _explaining(r: Floats, members: Columns, j: int, rows: float) -> list[int]:
    """The members that together leave too little of a column, the closest first; or nobody."""
    taken: list[int] = []
    rest, used = r[members, j], np.zeros(0)
    while len(taken) < len(members):
        taken.append(int(members[np.abs(rest).argmax()]))
        used = np.linalg.lstsq(r[np.ix_(taken, taken)], r[taken, j], rcond=1e-6)[0]
        if adjusted(1.0 - float(used @ r[taken, j]), rows, len(taken)) < LIMIT:
            return taken
        rest = r[members, j] - r[np.ix_(members, taken)] @ used
        if np.abs(rest).max() < 0.1:
            break
    return []
