r"""Who is selected: members stay unless a newcomer is better beyond doubt.

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
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from fires.core.declared import Array, Declared, rearrange
from fires.core.errors import StateError
from fires.core.types import Floats, Mask, Places, RowIndex
from fires.kernels import top_k
from fires.kernels.members import renew

_LEAST = 1e-300  # nothing, nearly: its logarithm is finite
_ROWS = 1000.0  # that the mean of the scores reaches back

Judge = Callable[[RowIndex, Floats, Floats], tuple[Floats, Floats]]
_NONE: Places = np.empty(0, dtype=np.intp)


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
            places = np.union1d(touched, self.columns)
        columns = slice(None) if places is None else places
        now = scores(columns)
        score = self._caught_up(columns)
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
        self._note(columns, score, now)
        if came:
            self._inside[columns] = inside
            self.columns = np.flatnonzero(inside) if places is None else places[inside]

    def _caught_up(self, columns: RowIndex) -> Floats:
        """The mean scores of columns, with all batches that did not touch them."""
        score: Floats = self.score[columns]
        if not len(self.since):
            return score
        last = self.last[columns]
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
        return self._caught_up(slice(None)).copy()

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
