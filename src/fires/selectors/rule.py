r"""The selection rule: from what a learner knows of each feature to the selected ones.

**Hysteresis.** Members stay unless a newcomer is better beyond doubt.

The score of a feature is the mean of its scores since the start or the last alarm, over 1,000 rows
at most. The k best would be selected, but among features that matter equally, or not at all, that
choice would change with every batch. So a newcomer among the best takes the place of the weakest
member only if

1. it is surely above noise and the member is not: its mean exceeds :math:`\sqrt{2 \log J}` times
   its own standard deviation, which is how far the greatest of J means of nothing would go; or
2. its score is greater by more than one standard deviation of the difference. This bond grows with
   the evidence: the variance :math:`s` of each side counts with
   :math:`\sqrt{1 - s / s_0}`, which is 0 while nothing is known; or
3. the score of the member is 0, as that of a constant is: it tells nothing at all.

With sparse rows, only the columns that a batch touches can enter with it. A feature whose column is
not there any more rests: any other that is there takes its place. The score of a new one is its
first, not a mean with the time before it came.

**As many as are significant**, where nobody says how many: :mod:`fires.selectors.significance`.
**Groups** of features are judged as one each. **Redundant features** count for what they add:
:mod:`fires.selectors.twins`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np

from fires.core.declared import Array, Declared, collect, rearrange, restore
from fires.core.errors import StateError
from fires.core.state import Arrays, part_of, under
from fires.core.types import Floats, Mask, Places, RowIndex
from fires.kernels import top_k
from fires.kernels.select import renew, union
from fires.selectors import significance
from fires.selectors.significance import Distances, Groups, ReviewSchedule
from fires.selectors.twins import Judge, Twins

if TYPE_CHECKING:
    from fires.models.base import JointPosterior

_LEAST = 1e-300  # nothing, nearly: its logarithm is finite
_ROWS = 1000.0  # that the mean of the scores reaches back

_NONE: Places = np.empty(0, dtype=np.intp)


class Present(NamedTuple):
    """Which columns are there: their number if there is room for more, and who rests or came."""

    n_features: int | None = None
    resting: Mask | None = None
    arrived: Places = _NONE


ALL_PRESENT = Present()


class SelectionRule:
    """Selects features, or groups of them: ``update`` after a batch, then ``selected``.

    Of a learner without a posterior, it selects those of the greatest weight.
    """

    def __init__(
        self, n_features: int, groups: Groups | None, *, scored: bool, drops_twins: bool
    ) -> None:
        self.groups = groups
        self.n_features = n_features
        n_candidates = n_features if groups is None else groups.n
        self.members = Membership(n_candidates) if scored else None
        self.twins = Twins() if drops_twins else None
        self._schedule: ReviewSchedule | None = None  # where nobody says how many

    def update(
        self,
        learner: JointPosterior,
        k: int | None,
        weight: float,
        present: Present = ALL_PRESENT,
        *,
        anew: bool = False,
    ) -> None:
        """Choose after a step on rows of this weight; anew, if there was an alarm."""
        members, groups, resting = self.members, self.groups, present.resting
        assert members is not None
        if anew:
            members.restart()
            if self.twins is not None:
                self.twins.look_again()
        judge: Judge | None = None
        if groups is None:
            if present.n_features is not None:
                members.count_features(present.n_features)
            touched = learner.touched
            if self.twins is not None:
                judge, touched = self._judge(self.twins, learner, touched, resting)
            facts = learner.scores, learner.variances, learner.prior, k, weight, touched
            members.renew(*facts, resting, present.arrived, judge)
        else:
            belief = groups.belief(*learner.scored())
            mu, var = np.abs(belief.mu), belief.sigma**2
            of_groups = mu.__getitem__, var.__getitem__
            if self.twins is not None:
                judge, _ = self._judge(self.twins, learner, None, None)
            members.renew(*of_groups, learner.prior, k, weight, judge=judge)
        if k is not None:
            self._schedule = None
            return
        if self._schedule is None:  # those of a fixed number were chosen by another rule
            self._schedule = ReviewSchedule()
            members.choose(_NONE)
        if self._schedule.is_due(weight, *_evidence(learner)):
            members.choose(self._significant(learner, members.columns, resting))

    def selected(
        self,
        k: int | None,
        weights: Callable[[], Floats],
        *,
        keeps_members: bool,
        learner: JointPosterior | None,
        resting: Mask | None,
    ) -> Places:
        """The selected features: members, or those of the greatest weights; k is None for auto."""
        members, groups = self.members, self.groups
        if k is None:
            assert members is not None
            assert learner is not None
            chosen = members.columns
            if self._schedule is None:
                known = significance.has_enough_rows(*_evidence(learner))
                chosen = self._significant(learner, _NONE, resting) if known else _NONE
        elif keeps_members and members is not None and len(members.columns) == k:
            chosen = members.columns
        else:
            worth = weights()
            chosen = top_k(worth if groups is None else groups.best(worth), k)
        return chosen.copy() if groups is None else np.flatnonzero(np.isin(groups.of, chosen))

    def distances(self, learner: JointPosterior, resting: Mask | None) -> Distances:
        """How sure each feature is, or each group, of those whose columns are there."""
        groups, twins, members = self.groups, self.twins, self.members
        known = significance.distances(learner, groups).without(None if groups else resting)
        if groups is not None or twins is None or not twins.some:
            return known
        assert members is not None
        sure = significance.choose(known, members.columns)
        weak = np.setdiff1d(twins.columns[twins.own < 1.0], sure)
        return significance.distances(learner, None, weak).without(resting)

    def _significant(
        self, learner: JointPosterior, members: Places, resting: Mask | None
    ) -> Places:
        try:
            return significance.choose(self.distances(learner, resting), members)
        except np.linalg.LinAlgError:  # weights so large that nothing else counts beside them
            return members

    def _judge(
        self, twins: Twins, learner: JointPosterior, touched: Places | None, resting: Mask | None
    ) -> tuple[Judge | None, Places | None]:
        """Take in the rows of a batch; how to judge, and which columns to look at."""
        groups, members = self.groups, self.members
        assert members is not None
        twins.take(learner, None if groups is None else groups.size[groups.of] == 1.0)
        places = twins.columns if groups is None else groups.of[twins.columns]
        if touched is not None:
            touched = union(touched, places)
        return twins.judge(learner, places, members.columns, resting), touched

    # --- a part of FIRES ----------------------------------------------------------------------

    def restart_features(self, columns: Places) -> None:
        """Forget the scores of some features; members stay until others are better."""
        if self.members is not None:
            of = columns if self.groups is None else np.unique(self.groups.of[columns])
            self.members.restart_features(of)
        if self.twins is not None:
            self.twins.restart(columns)

    def rearranged(self, source: Places, places: Places) -> Self:
        """A copy for other columns: where each comes from, and where each goes."""
        other = copy.copy(self)
        other.n_features = len(source)
        other.members = self.members and self.members.rearranged(source)
        other.twins = self.twins and self.twins.rearranged(places)
        return other

    def _parts(self) -> dict[str, Membership | ReviewSchedule | Twins]:
        parts = {"members": self.members, "looks": self._schedule, "twins": self.twins}
        return {name: part for name, part in parts.items() if part is not None}

    def state(self) -> Arrays:
        """All that was learnt, by its name in a file."""
        arrays: Arrays = {}
        for name, part in self._parts().items():
            arrays |= under(name, collect(part, part.learnt)[1])
        return arrays

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError if the arrays do not fit."""
        if self.members is not None and part_of("looks", arrays):
            self._schedule = ReviewSchedule()
        for name, part in self._parts().items():
            n = len(part.score) if isinstance(part, Membership) else self.n_features
            restore(part, part.learnt, {}, part_of(name, arrays), {"J": n})
        if self.members is not None:
            self.members.refresh()
        if self.twins is not None:
            self.twins.refresh()


def _evidence(learner: JointPosterior) -> tuple[float, int]:
    """Rows since the start or an alarm, of the class that had one last; columns there."""
    return float(learner.evidence_rows.min()), learner.n_present


class Membership:
    """The selected features and the scores that decide about them.

    Examples
    --------
    >>> members = Membership(3)
    >>> for scores in ([0.5, 0.1, 0.0], [0.4, 0.45, 0.0]):
    ...     now, var = np.array(scores), np.full(3, 0.04)
    ...     members.renew(now.__getitem__, var.__getitem__, prior=0.1, k=1, n_rows=100.0)
    >>> members.columns
    array([0])
    """

    learnt: ClassVar[Declared] = {
        "score": Array("J"),
        "columns": Array("*", dtype="int64", low=0, high="J"),
        "rows": Array(low=0.0),
        "kept": Array(),
        "since": Array("0|J"),
        "last": Array("0|J"),
    }

    def __init__(self, n_features: int) -> None:
        self.score = np.zeros(n_features)
        self.columns: Places = np.empty(0, dtype=np.int64)
        self.rows = 0.0
        # Places that a batch does not touch are not looked at, but made up for later. For this:
        # the logarithm of the share that batches leave of an old mean, all together; for each
        # column, that of the batches it has taken in; and its score then.
        self.kept = 0.0
        self.since: Floats = np.empty(0)
        self.last: Floats = np.empty(0)
        self._inside = np.zeros(n_features, dtype=np.bool_)
        self._limit = _limit(n_features)

    def count_features(self, n_features: int) -> None:
        """Say how many features there are, if fewer than there is room for."""
        self._limit = _limit(n_features)

    def restart(self) -> None:
        """Forget the scores so far; the members stay until others are better."""
        self.rows = 0.0

    def restart_features(self, columns: Places) -> None:
        """Forget the scores of some features; members stay until others are better."""
        nothing = np.zeros(len(columns))
        self._note(columns, nothing, nothing)

    def renew(
        self,
        scores: Callable[[RowIndex], Floats],
        variances: Callable[[RowIndex], Floats],
        prior: float,
        k: int | None,
        n_rows: float,
        touched: Places | None = None,
        resting: Mask | None = None,
        arrived: Places = _NONE,
        judge: Judge | None = None,
    ) -> None:
        """Take in the scores after a batch, and let newcomers in."""
        self.rows += n_rows
        share = min(n_rows / min(self.rows, _ROWS), 1.0)
        if touched is not None and not len(self.since):
            self.since, self.last = np.full(len(self.score), self.kept), self.score.copy()
        if touched is None or (k is not None and len(self.columns) != k):
            places: Places | None = None
        else:
            places = union(touched, self.columns)
        columns = slice(None) if places is None else places
        now = scores(columns)
        score = self._caught_up(columns) if len(self.since) else self.score[columns]
        if len(arrived):
            score[arrived] = now[arrived]
        self.kept += math.log(max(1.0 - share, _LEAST))
        if k is None or len(self.columns) != k:
            self._note(columns, score + share * (now - score), now)
        if k is None:
            return
        if len(self.columns) != k:
            score = self.score if judge is None else judge(columns, self.score, now)[0]
            self.choose(top_k(_of_those_there(score, resting), k))
            return
        inside, limit = self._inside[columns], self._limit
        if resting is None and judge is None:
            came = renew(score, now, variances(columns), prior, share, limit, inside)
        else:
            score = score + share * (now - score)
            judged = (score, now) if judge is None else judge(columns, score, now)
            if resting is not None:
                limit = _limit(len(resting) - int(np.count_nonzero(resting)))
            present = [_of_those_there(values, resting) for values in judged]
            came = renew(*present, variances(columns), prior, 0.0, limit, inside)
        if score.base is not self.score or len(self.since):  # else it was moved in place
            self._note(columns, score, now)
        if came:
            self._inside[columns] = inside
            self.columns = np.flatnonzero(inside) if places is None else places[inside]

    def _caught_up(self, columns: RowIndex) -> Floats:
        """The mean scores of columns, with all batches that did not touch them."""
        score, last = self.score[columns], self.last[columns]
        kept = np.exp(np.maximum(self.kept - self.since[columns], -700.0))
        return np.asarray(last + (score - last) * kept)

    def _note(self, columns: RowIndex, score: Floats, now: Floats) -> None:
        """Keep mean scores that are up to date."""
        self.score[columns] = score
        if len(self.since):
            self.since[columns], self.last[columns] = self.kept, now

    def rearranged(self, source: Places) -> Membership:
        """A copy for other features: see :func:`fires.core.declared.rearrange`."""
        fresh = Membership(len(source))
        fresh.since = np.full(len(source), self.kept)
        fresh.last = np.zeros(len(source))
        other = rearrange(self, self.learnt, source, fresh)
        other._limit = _limit(len(source))
        other.choose(np.flatnonzero(np.isin(source, self.columns)))
        return other

    def means(self) -> Floats:
        """The mean score of every feature."""
        return self._caught_up(slice(None)) if len(self.since) else self.score.copy()

    def choose(self, columns: Places) -> None:
        """Make these the members."""
        self.columns = columns
        self._inside = np.zeros(len(self.score), dtype=np.bool_)
        self._inside[columns] = True

    def refresh(self) -> None:
        """Note who is a member after the columns were loaded; StateError if parts do not fit."""
        if len(self.last) != len(self.since):
            raise StateError("last and since are not of one length")
        self.choose(np.unique(self.columns))


def _limit(n_features: int) -> float:
    """How many standard deviations the greatest of so many means of nothing would go."""
    return math.sqrt(2.0 * math.log(max(n_features, 2)))


def _of_those_there(scores: Floats, resting: Mask | None) -> Floats:
    """Scores, with those of resting features below all others."""
    return scores if resting is None else np.where(resting, -1.0, scores)
