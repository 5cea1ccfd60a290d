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
from fires.kernels.twins import correlate, find_twins
from fires.models.bayes_learner import BayesLearner
from fires.selectors.membership import Judge

LIMIT = 0.25
"""The share of its variance that a feature must have of its own, not to be a twin."""

_ROWS = 1000.0  # between two looks for twins
_KNOWN = 100.0  # rows after which a column may be a twin
_MOST = 3  # columns that explain a twin, at most
_HOME = 3.0  # deviations by which a member is ahead of its twins

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
    >>> twins.look(np.array([0.5, 0.4, 0.3]))
    >>> twins.of(np.array([0, 1]))
    {0: [2]}
    """

    learnt: ClassVar[Declared] = {
        "columns": Array("C", dtype="int64", low=0, high="J"),
        "products": Array("C", "C"),
        "sums": Array("C"),
        "rows": Array("C", low=0.0),
        "waited": Array(low=0.0),
        "own": Array("C", low=0.0, high=1.0),
        "part": Array("C", "C"),
        "more": Array("C", low=0.0),
        "most": Array("C", low=0.0, finite=False),
    }

    def __init__(self) -> None:
        self.columns: Columns = np.empty(0, dtype=np.int64)
        self.products = np.zeros((0, 0))
        self.sums = np.zeros(0)
        self.rows = np.zeros(0)  # since each column is a candidate
        self.waited = 0.0  # rows since the last look for twins
        # What was found then: the share of each column that is its own, 1 unless it is a twin; what
        # it is made of, the coefficients of every column on those that are no twins; what a column
        # says for its twins, on top of its own; and the most that a twin may say.
        self.own = np.zeros(0)
        self.part = np.zeros((0, 0))
        self.more, self.most = np.zeros(0), np.zeros(0)
        self.some = False  # whether there are twins

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
        self.waited += total

    def _follow(self, columns: Columns) -> None:
        """Let these be the candidates."""
        size = len(columns)
        old, new = np.isin(self.columns, columns), np.isin(columns, self.columns)
        products, sums, rows = np.zeros((size, size)), np.zeros(size), np.zeros(size)
        products[np.ix_(new, new)] = self.products[np.ix_(old, old)]
        sums[new], rows[new] = self.sums[old], self.rows[old]
        self.columns, self.products, self.sums, self.rows = columns.copy(), products, sums, rows
        self._look_again()

    def _look_again(self) -> None:
        """Nobody is a twin until the next look, which is due."""
        size = len(self.columns)
        self.own, self.part = np.ones(size), np.eye(size)
        self.more, self.most = np.zeros(size), np.full(size, np.inf)
        self.waited, self.some = _ROWS, False

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
        self._look_again()

    def refresh(self) -> None:
        """StateError if the columns that were loaded are not in order."""
        if (np.diff(self.columns) <= 0).any():
            raise StateError("columns of twins are not in order")
        self.some = bool((self.own < 1.0).any())

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
        resting : ndarray of bool, optional
            Those whose columns are not there. They come last, so they stand for nobody as long as
            others can.

        Returns
        -------
        callable (columns, mean_scores, scores) -> mean_scores, scores
            The columns are sorted numbers, or a slice, and hold all candidates.
        """
        if self.is_due:
            away = None if resting is None else resting[places]
            self.look(learner, np.isin(places, members), away)

        def judged(columns: Any, score: Floats, now: Floats) -> tuple[Floats, Floats]:
            if not self.some:
                return score, now
            at = places if isinstance(columns, slice) else np.searchsorted(columns, places)
            score, now = score.copy(), now.copy()
            for values in (score, now):
                values[at] = np.minimum(values[at] + self.more, self.most)
            return score, now

        return judged

    @property
    def is_due(self) -> bool:
        """Whether enough rows have come since the last look."""
        return self.waited >= min(_ROWS, 0.25 * float(self.rows.max(initial=0.0)))

    def look(self, learner: BayesLearner, inside: Mask, away: Mask | None = None) -> None:
        """Find the twins, and what each candidate has to say.

        Parameters
        ----------
        learner : BayesLearner
            What the coefficients are.
        inside : ndarray of bool (n_candidates,)
            Which candidates are selected so far.
        away : ndarray of bool (n_candidates,), optional
            Which ones are not there.
        """
        mine = self.columns
        alone = learner.scores_together(mine)
        turn = alone + np.where(inside, _HOME * np.sqrt(learner.variances(mine)), 0.0)
        if away is not None:
            turn[away] = -1.0
        order = np.argsort(-turn, kind="stable")
        r = self.correlation()
        self.own, self.part = find_twins(r, self.rows >= _KNOWN, order, LIMIT, _MOST)
        is_twin = self.own < 1.0
        self.waited, self.some = 0.0, bool(is_twin.any())
        if self.some:
            self.more = learner.scores(mine, self.part) - learner.scores(mine)
            self.more = np.where(is_twin, 0.0, np.maximum(self.more, 0.0))
            self.most = np.where(is_twin, np.sqrt(self.own) * alone, np.inf)

    def of(self, selected: npt.NDArray[np.intp]) -> dict[int, list[int]]:
        """Who stands for whom.

        Parameters
        ----------
        selected : ndarray of int
            The selected columns.

        Returns
        -------
        dict of int to list of int
            For selected columns, the twins that are not selected and for which they stand. The sum
            of two stands with both.
        """
        inside = np.isin(self.columns, selected)
        stands = (self.part != 0.0) & ((self.own < 1.0) & ~inside)[:, None] & inside
        return {
            int(self.columns[i]): self.columns[stands[:, i]].tolist()
            for i in np.flatnonzero(stands.any(axis=0))
        }
