r"""Twins: of features that say the same, one is selected.

**Candidates** are the columns that lead, 100 at most: see :mod:`fires.models.covariance`. Their
correlation is kept as sums over rows, which fade as all evidence does: all of the first 1,000 rows,
then one in four. It is about the rows alone. So an alarm, which is about the target, leaves it as
it is. The sums of :mod:`fires.models.covariance` cannot stand in for it: there, rows whose class is
clear hardly count, and two copies of a strong feature seem to have little in common.

**A twin** is a candidate of which one to three others leave less than a quarter:
:math:`1 - R^2 < 0.25`. So copies with a correlation beyond 0.87 are twins, whatever its sign, and
so is the sum of two columns. Two noisy copies of one column, with a correlation of 0.95 each, have
one of 0.90 to each other. Candidates are taken in turn, those with the greatest coefficients first,
correlation taken into account; twins of those before are left out. Members are favoured by three
standard deviations, so that equal twins do not take turns.

**What counts.** A twin is judged by what it adds, :math:`|\beta| \sqrt{1 - R^2}`, where
:math:`\beta` is its coefficient beside all other candidates. This is next to nothing for a copy.
It is not for a neighbour that matters as well, however correlated: such a one is selected. A
belief with one variance per feature shares an effect among copies. So a feature that is no twin is
judged by what it would say if its twins were not there: by :math:`\mu_j + \sum_m b_{mj} \mu_m`,
where :math:`b_{mj}` is its coefficient in twin m. It is never less than its own.

All that changes the choice, not ``weights_`` and ``ranking_``. If fewer than k features are no
twins, twins fill the places, those that add most first.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from fires.core.declared import Array, Declared
from fires.core.errors import StateError
from fires.core.types import Floats, Ints, Mask, Places, RowIndex
from fires.kernels.twins import add_some, correlate, find_twins, judge

if TYPE_CHECKING:
    from fires.models.base import JointPosterior

Judge = Callable[[RowIndex, Floats, Floats], tuple[Floats, Floats]]

LIMIT = 0.25
"""The share of its variance that a feature must have of its own, not to be a twin."""

_PER_CANDIDATE = {"sums": 0.0, "rows": 0.0, "own": 1.0, "more": 0.0, "most": np.inf}
_ROWS = 2000.0  # between two looks for twins
_KNOWN = 100.0  # rows after which a column may be a twin
_MAX_EXPLAINING = 3  # columns that explain a twin, at most
_HYSTERESIS = 3.0  # deviations by which a member is ahead of its twins


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
    """

    learnt: ClassVar[Declared] = {
        "columns": Array("C", dtype="int64", low=0, high="J"),
        "products": Array("C", "C"),
        "sums": Array("C"),
        "rows": Array("C", low=0.0),
        "seen": Array(low=0.0),
        "waited": Array(low=0.0),
        "own": Array("C", low=0.0, high=1.0),
        "part": Array("C", "C"),
        "more": Array("C", low=0.0),
        "most": Array("C", low=0.0, finite=False),
    }

    def __init__(self) -> None:
        self.columns = self._given = np.empty(0, dtype=np.int64)
        self.products = np.zeros((0, 0))
        self.sums = np.zeros(0)
        self.rows = np.zeros(0)  # added since each column is a candidate
        self.seen = 0.0  # rows, added or not
        self.waited = 0.0  # rows since the last look for twins
        # What was found then: the share of each column that is its own, 1 unless it is a twin; what
        # it is made of, the coefficients of every column on those that are no twins; what a column
        # says for its twins, on top of its own; and the most that a twin may say.
        self.own = np.zeros(0)
        self.part = np.zeros((0, 0))
        self.more, self.most = np.zeros(0), np.zeros(0)
        self.some = False  # whether there are twins

    def take(self, learner: JointPosterior, alone: Mask | None = None) -> None:
        """Take in the last batch of a learner, which lets go of its rows."""
        columns, Z, weight = learner.take_rows()
        if alone is not None:
            columns, Z = columns[alone[columns]], np.ascontiguousarray(Z[:, alone[columns]])
        self.add(columns, Z, weight, gamma=learner.gamma)

    def add(self, columns: Ints, Z: Floats, weight: Floats, *, gamma: float) -> None:
        """Take in the rows of a batch."""
        if columns is not self._given:  # who leads seldom changes, and then the array is another
            self._follow(columns)
        rows = np.ascontiguousarray(Z, dtype=np.float64)
        sums = self.products, self.sums, self.rows
        total = add_some(rows, weight, gamma, self.seen, *sums)
        self.seen += len(Z)
        self.waited += total

    def _follow(self, columns: Ints) -> None:
        """Let these be the candidates."""
        self._given = columns
        if np.array_equal(columns, self.columns):
            return
        old, new = np.isin(self.columns, columns), np.isin(columns, self.columns)
        if self.part[np.ix_(old, ~old)].any():  # who stood for others has left
            self.look_again()
        before, places, size = np.ix_(old, old), np.ix_(new, new), len(columns)
        known = vars(self)
        for name, start in _PER_CANDIDATE.items():
            values = np.full(size, start)
            values[new] = known[name][old]
            setattr(self, name, values)
        for name in ("products", "part"):
            square = np.zeros((size, size))
            square[places] = known[name][before]
            setattr(self, name, square)
        self.columns = columns.copy()
        self.some = bool((self.own < 1.0).any())

    def restart(self, columns: Places) -> None:
        """Forget some columns."""
        gone = np.isin(self.columns, columns)
        self.products[gone] = self.products[:, gone] = 0.0
        self.sums[gone] = self.rows[gone] = 0.0
        self.look_again()

    def rearranged(self, places: Places) -> Twins:
        """A copy for other columns."""
        other = copy.copy(self)
        other._follow(self.columns[places[self.columns] >= 0])
        other.columns = other._given = places[other.columns]
        return other

    def look_again(self) -> None:
        """Look for twins after the next batch: what features say has changed at once."""
        self.waited = _ROWS

    def refresh(self) -> None:
        """Note whether there are twins after loading; StateError if columns are out of order."""
        if (np.diff(self.columns) <= 0).any():
            raise StateError("columns of redundant features are not in order")
        self.some = bool((self.own < 1.0).any())

    def correlation(self) -> Floats:
        """The correlation among the candidates."""
        return correlate(self.products, self.sums, self.rows)

    def judge(
        self, learner: JointPosterior, places: Ints, members: Ints, resting: Mask | None = None
    ) -> Judge:
        """What the scores of all features become, when twins count for what they add."""
        if self.is_due:
            absent = None if resting is None else resting[places]
            self.look(learner, _is_in(places, members), absent)

        def judged(columns: RowIndex, score: Floats, now: Floats) -> tuple[Floats, Floats]:
            if not self.some:
                return score, now
            at = places if isinstance(columns, slice) else np.searchsorted(columns, places)
            found = at, self.more, self.most
            return judge(score, *found), judge(now, *found)

        return judged

    @property
    def is_due(self) -> bool:
        """Whether enough rows have come since the last look."""
        return self.waited >= min(_ROWS, 0.25 * self.seen)

    def look(self, learner: JointPosterior, inside: Mask, absent: Mask | None = None) -> None:
        """Find the twins, and what each candidate has to say."""
        mine, r, known = self.columns, self.correlation(), self.rows >= _KNOWN
        alone = learner.scores_together(mine)
        turn = alone + inside * (_HYSTERESIS * np.sqrt(learner.variances(mine)))
        if absent is not None:
            turn[absent] = -1.0
        # Exact copies differ by rounding; of equal ones, the lower index is better.
        order = np.argsort(-np.round(turn, 6), kind="stable")
        self.own, self.part = find_twins(r, known, order, LIMIT, _MAX_EXPLAINING)
        is_twin = self.own < 1.0
        self.waited, self.some = 0.0, bool(is_twin.any())
        more = learner.scores(mine, self.part) - learner.scores(mine)
        self.more = np.where(is_twin, 0.0, np.maximum(more, 0.0))
        self.most = np.where(is_twin, np.sqrt(self.own) * alone, np.inf)

    def of(self, selected: Places) -> dict[int, list[int]]:
        """Who stands for whom."""
        inside = np.isin(self.columns, selected)
        stands = (self.part != 0.0) & ((self.own < 1.0) & ~inside)[:, None] & inside
        return {
            int(self.columns[i]): self.columns[stands[:, i]].tolist()
            for i in np.flatnonzero(stands.any(axis=0))
        }


def _is_in(places: Ints, members: Ints) -> Mask:
    """Which places are those of members, which are sorted."""
    if not len(members):
        return np.zeros(len(places), dtype=np.bool_)
    return np.asarray(members[np.searchsorted(members[:-1], places)] == places)
