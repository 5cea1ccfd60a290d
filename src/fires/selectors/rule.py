r"""The selection rule: which features, and how many, by forward selection.

The leading features, at most 100, have a precision :math:`\Lambda` and a pull :math:`\eta`
(:mod:`fires.models.covariance`). These give the posterior of every subset S of them, as if there
were no other feature: precision :math:`\Lambda_{SS}`, mean :math:`m_S = \Lambda_{SS}^{-1} \eta_S`.
So the rule begins with the intercept and adds, again and again, the feature that adds most: that of
the greatest

.. math:: z_j = \frac{|\eta_j - \Lambda_{jS} m_S|}
                     {\sqrt{\Lambda_{jj} - \Lambda_{jS} \Lambda_{SS}^{-1} \Lambda_{Sj}}}

as long as that is beyond a limit. A copy of a selected feature adds nothing. One that is below its
limit beside the others leaves again.

**From both ends.** Two features that say something only together are not found from an empty set.
And for two classes the precision is that of a row beside all features: what one of them says alone
is then too little. So with two classes, and with numbers, the rule also begins with all leading
features, of which the weakest leaves, again and again. That set is taken if it explains more: the
squared deviations of all its features together, less the square of the limit of each.

**Several classes** have one posterior each. Features are taken in the order of the root mean square
of z over the classes, so that the set serves all of them. Whether one may enter is asked of the
class that it adds most for, and of all together. One place in five is for a class that no other
place serves. **A group** of features enters as one, by the tail area of its chi-squared distance; a
group that does not lead as a whole is judged by its importance.

**The limit.** Of J features, the s-th one enters if

.. math:: 2 \Phi(-z) < \frac{0.05 \, s}{J + 1 - 0.95 \, s}

(Benjamini and Gavrilov, 2009). As many false ones as that times the features that are left are
expected by chance, and that is to be 5 % of what is selected. What is promised holds if the model
is right: see :mod:`fires.selectors.significance`. Where nobody says how many, a newcomer must be a
little beyond its limit. If none enters, and yet all together surely predict better than the level,
the best one does.

**A fixed number.** Of those that enter, 20 % may be false. The z of members is greater by a bonus,
so that equal features do not take turns; after an alarm it is not, once. Where fewer than k enter,
or more than 100 are wanted, those of the greatest importance take the remaining places, members
with a bonus of their own.

**Where rows depend on each other**, what is left to a feature without the others depends on time,
as the feature does. So a feature must be significant beside all others. Copies, of which none would
be, count as one: the first.

**When.** The set is looked at whenever the rows have grown by a tenth, since the start, an alarm or
the last column that came, and at least every 1,000 rows.
"""

from __future__ import annotations

import copy
import math
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from fires.core.declared import Array, Declared, collect, restore
from fires.core.state import Arrays, part_of, under
from fires.core.types import Floats, Ints, Mask, Places
from fires.kernels import top_k
from fires.kernels.forward import Race, forward
from fires.kernels.linear import find_places
from fires.kernels.select import union
from fires.selectors.significance import LEVEL, Distances, Groups, expected_false

if TYPE_CHECKING:
    from fires.models.base import JointPosterior

_AUTO = 0  # the number of features where nobody says how many
_BOND = 0.2  # deviations beyond the limit of "auto" that a newcomer needs
_TOGETHER = 4.5  # deviations beyond which all together predict better than the level
_ASKED = 0.2  # the share of false ones, at most, among those that enter if k is fixed
_BONUS = 2.5  # deviations by which a member is ahead, if k is fixed or where rows are dependent
_MORE = 2.0  # squared deviations by which the set that comes from all must explain more
_FILL = 16.0  # deviations by which a member is ahead where importances decide
_COPY = 0.9  # the square of the correlation beyond which features of dependent rows count as one
_DEPENDENT = 2.0  # the inflation of dependent rows from which on all must be looked at together
_EVERY = 1000.0  # rows between two looks; fewer at the beginning
_GROWN = 0.1  # at the beginning: a look when the rows have grown by this share
_REPEATS = 0.5  # the share of its own below which a feature is redundant
_STANDS = 0.1  # the share of it that is made of a feature which stands for it

_NONE: Places = np.empty(0, dtype=np.int64)
_NO_PAIRS: Ints = np.empty((0, 2), dtype=np.int64)


class Chosen(NamedTuple):
    """Who is in, the deviations of all candidates beside them, and what they explain."""

    numbers: Places
    z: Floats
    explained: float


@lru_cache(maxsize=16)
def _limits(n_candidates: int, n: int, level: float) -> Floats:
    s = np.arange(1, n_candidates + 1)
    return np.asarray(-ndtri(0.5 * level / expected_false(1.0, s, n, level)))


class Candidates(NamedTuple):
    """Who may enter by what it adds, and a system of equations for each row of parameters."""

    numbers: Places
    columns: Places  # their places in the systems, one candidate after the other
    starts: Places  # of each candidate in columns
    seen: Floats  # the share of rows that tell of each column of the systems
    systems: Floats
    n: int  # how many there are to choose from, also of those that do not lead
    pairs: Ints = _NO_PAIRS  # the two of each pair; pairs are numbered after all others
    n_own: int = sys.maxsize  # from which number on

    def forward(
        self,
        limits: Floats,
        first: Mask | None = None,
        ahead: Floats | None = None,
        sure: float = np.inf,
    ) -> Chosen:
        """Who is in at last, if the first have joined before; each has its limit."""
        n = len(self.numbers)
        limits, z = limits[:n], np.empty(n)
        ahead = np.zeros(n) if ahead is None else ahead
        state = np.zeros(n, np.int64) if first is None else first.astype(np.int64)
        late = 1.0 / np.sqrt(self.seen[self.columns[self.starts[:-1]]])
        race = Race(self.columns, self.starts, ahead, late, limits, sure, z, state)
        explained, inside = forward(self.systems, race), np.flatnonzero(state == 1)
        costs = np.maximum(limits[: len(inside)] - ahead[inside], 0.0)
        return Chosen(self.numbers[inside], z, explained - float(costs @ costs))

    def beside(self, chosen: Mask) -> Floats:
        """The deviations of all, beside those that are chosen."""
        return self.forward(np.zeros(np.count_nonzero(chosen)), chosen).z

    def limits(self, level: float = LEVEL) -> Floats:
        """How far the first, the second, ... must be away from 0 to be significant."""
        return _limits(len(self.numbers), max(self.n, len(self.numbers)), level)

    @property
    def sure(self) -> float:
        """How far one must be away from 0 to serve a class beyond doubt."""
        return float(-ndtri(0.5 * LEVEL / (max(self.n, 1) * len(self.systems))))

    def are_in(self, chosen: Places) -> Mask:
        """Which candidates are among some."""
        return find_places(np.sort(chosen), self.numbers)[1]

    def were_in(self, members: Places) -> Mask:
        """Which candidates are among members; a pair is, if both of it are."""
        if not len(self.pairs):  # the usual case, fast
            return find_places(np.sort(members), self.numbers)[1]
        return np.asarray(np.isin(self.ends(self.numbers), members).all(axis=1))

    def features_of(self, chosen: Places) -> Places:
        """The features, or groups, of candidates."""
        return np.unique(self.ends(chosen)) if len(self.pairs) else chosen

    def ends(self, chosen: Places) -> Ints:
        """The two features, or groups, of candidates that are pairs; of others, the one twice."""
        both, is_pair = np.column_stack([chosen, chosen]), chosen >= self.n_own
        both[is_pair] = self.pairs[chosen[is_pair] - self.n_own]
        return both

    def of_features(self, z: Floats) -> tuple[Places, Floats]:
        """Features, or groups, and their deviations: of themselves, or of a pair of theirs."""
        found, at = np.unique(self.ends(self.numbers), return_inverse=True)
        most = np.zeros(len(found))
        np.maximum.at(most, at.ravel(), np.repeat(z, 2))
        return found, most

    def among(self, chosen: Mask) -> Candidates:
        """The same for some candidates only."""
        sizes = np.diff(self.starts)
        columns, starts = self.columns[np.repeat(chosen, sizes)], np.cumsum([0, *sizes[chosen]])
        return self._replace(numbers=self.numbers[chosen], columns=columns, starts=starts)

    def grouped(self, labels: Places) -> Candidates:
        """The same, where those of one label enter as one; they are called by the label."""
        order = np.argsort(labels, kind="stable")
        found, size = np.unique(labels, return_counts=True)
        starts = np.cumsum([0, *size])
        return self._replace(numbers=found, columns=self.columns[order], starts=starts)

    def sure_beside_all(self, members: Places) -> Places:
        """Those that are significant beside all others; copies count as one."""
        known = self
        if len(self.columns) == len(self.numbers) and not len(self.pairs):
            precision = self.systems[:, self.columns[:, None], self.columns].sum(axis=0)
            own = np.diag(precision)
            repeats = (precision**2 > _COPY * np.outer(own, own)).argmax(axis=1)
            known = self.grouped(self.numbers[repeats[repeats]])
        z = known.beside(np.ones(len(known.numbers), bool))
        z -= _BONUS * ~known.were_in(members)
        order = np.argsort(-z)
        enough = z[order] > known.limits()
        return known.numbers[order[: len(z) if enough.all() else enough.argmin()]]

    def fitting(self, chosen: Places, k: int, members: Places) -> Places:
        """The features of those chosen; if these are more than k, the weakest leave."""
        n, features = len(chosen), self.features_of(chosen)
        while len(features) > k > _AUTO:
            n -= 1
            ahead = np.where(self.were_in(members), _BONUS, 0.0)
            chosen = self.forward(np.zeros(n), self.are_in(chosen), ahead).numbers
            features = self.features_of(chosen)
        return features

    def together(self) -> float:
        """The deviations of all together."""
        all_of = self._replace(numbers=self.numbers[:1], starts=self.starts[[0, -1]])
        return float(all_of.forward(np.empty(0)).z[0])


class SelectionRule:
    """Selects features, or groups of them: ``update`` after a batch, then ``selected``.

    Of a learner without a posterior, it selects those of the greatest weight.
    """

    learnt: ClassVar[Declared] = {
        "columns": Array("*", dtype="int64", low=0, high="J"),
        "waited": Array(low=0.0),
        "k": Array(dtype="int64", low=0),
    }

    def __init__(self, n_features: int, groups: Groups | None, *, scored: bool) -> None:
        self.groups, self.n_features, self.scored = groups, n_features, scored
        self.columns = _NONE  # the members, or the numbers of their groups
        self.waited = 0.0  # rows since the last look
        self.k = -1  # how many were asked for at the last look

    def update(
        self,
        learner: JointPosterior,
        k: int,
        weight: float,
        resting: Mask | None = None,
        *,
        anew: bool = False,
    ) -> None:
        """Look at who is selected after a step on rows of this weight, if it is time."""
        self.waited += weight
        if learner.strengths and k == self.k == _AUTO:  # next to nothing is known now
            self.waited = 0.0
            return
        anew |= learner.renewed
        anew |= resting is not None and bool(resting[self.columns].any())
        if anew or k != self.k or self.waited >= min(_EVERY, _GROWN * learner.fewest_rows):
            learner.settle_classes()
            if learner.renewed and not learner.by_importance:  # chosen for what holds no more
                self.columns = _NONE
            self.columns, self.k, self.waited = self._chosen(learner, k, resting), k, 0.0

    def selected(
        self,
        k: int,
        weights: Callable[[], Floats],
        *,
        by_weight: bool,
        learner: JointPosterior | None,
        resting: Mask | None,
    ) -> Places:
        """The selected features: members, or those of the greatest weights; k is 0 for auto."""
        groups = self.groups
        if learner is None or (by_weight and k != _AUTO):
            worth = weights()
            chosen = top_k(worth if groups is None else groups.best(worth), k)
        else:
            chosen = self.columns if k == self.k else self._chosen(learner, k, resting)
        return chosen.copy() if groups is None else np.flatnonzero(np.isin(groups.of, chosen))

    def candidates(self, learner: JointPosterior, resting: Mask | None = None) -> Candidates:
        """Those among the leading features, or groups that lead as a whole."""
        columns, seen, systems = learner.leading_systems()
        groups, owners, places = self.groups, learner.owners, np.arange(len(columns))
        if groups is None and resting is not None:
            places = places[~resting[columns]]
        starts, n = np.arange(len(places) + 1), learner.n_present if groups is None else groups.n
        known = Candidates(columns[places], places, starts, seen, systems, n)
        if groups is None and owners is None:
            return known
        # What is called by a feature, or by its group; pairs are numbered after all of these.
        of = np.arange(self.n_features) if groups is None else groups.of
        owners = np.arange(len(of)) if owners is None else owners
        n_own, own = len(self._all()), of[np.minimum(owners, len(of) - 1)]
        numbers = np.where(owners < len(of), own, owners - len(of) + n_own)
        known = known._replace(pairs=of[learner.pairs], n_own=n_own)
        known = known.grouped(numbers[columns[places]])
        return known.among(np.diff(known.starts) == np.bincount(numbers)[known.numbers])

    def _chosen(self, learner: JointPosterior, k: int, resting: Mask | None) -> Places:
        known = self.candidates(learner, resting)
        if not len(known.numbers) or (learner.by_importance and k != _AUTO):
            return _NONE if k == _AUTO else self._filled(learner, _NONE, k, resting)
        # After an alarm, they were chosen for what holds no more: they only fill places.
        members = _NONE if learner.strengths else self.columns
        if float(learner.inflation.max()) > _DEPENDENT:
            chosen = known.sure_beside_all(members)
        else:
            chosen = self._forward(learner, known, k, members)
        chosen = known.fitting(chosen, k, members)
        return np.sort(chosen if len(chosen) >= k else self._filled(learner, chosen, k, resting))

    def _forward(
        self, learner: JointPosterior, known: Candidates, k: int, members: Places
    ) -> Places:
        several, sure = learner.n_rows > 1, np.inf
        if k == _AUTO:
            limits, bonus = known.limits() + _BOND, _BOND
        else:
            # The root mean square over classes varies less than what it is of.
            limits, bonus = known.limits(_ASKED)[:k], _BONUS / math.sqrt(learner.n_rows)
            sure = known.sure if several else np.inf
        ahead = np.where(known.were_in(members), bonus, 0.0)
        chosen, _, explained = known.forward(limits, None, ahead, sure)
        if not several:
            other = known.forward(limits, np.ones(len(ahead), bool), ahead)
            # Of columns that came late, less is explained so far than they say.
            if other.explained > explained + _MORE or known.seen.min() < 1.0:
                chosen = other.numbers
        if k == _AUTO and not len(chosen) and known.together() > _TOGETHER:
            alone = known.beside(np.zeros(len(ahead), bool))
            chosen = known.numbers[[alone.argmax()]]  # none is for itself, but all together are
        return chosen

    def _filled(
        self, learner: JointPosterior, chosen: Places, k: int, resting: Mask | None
    ) -> Places:
        """Those chosen, and others by their importance, members with a bonus."""
        numbers = _NONE
        if learner.touched is not None:  # of millions, a few have moved
            numbers = union(union(learner.touched, self.columns), chosen)
        if self.groups is not None or len(numbers) < k:
            numbers = self._all()
        if self.groups is not None:
            belief = self.groups.belief(*learner.by_class())
            worth, bond = belief.mu, belief.sigma
        else:
            worth, bond = learner.ranked(numbers)
        worth = np.abs(worth)
        place, stays = find_places(numbers, self.columns)
        worth[place[stays]] += _FILL * bond[place[stays]]
        if resting is not None:
            worth = np.where(resting[numbers], -1.0, worth)
        worth[find_places(numbers, chosen)[0]] = np.inf
        return numbers[top_k(worth, k)]

    # --- what is said of the answer -----------------------------------------------------------

    def distances(self, learner: JointPosterior, chosen: Places, resting: Mask | None) -> Distances:
        """How sure each is, beside those that are selected."""
        known = self.candidates(learner, resting)
        return Distances(*known.of_features(known.beside(known.were_in(chosen))), known.n)

    def significant(self, learner: JointPosterior, chosen: Places, above: Mask) -> Mask:
        """Who is significant: of those selected beside each other, of others beside all of them.

        Of the selected ones, the weakest leaves as long as it is not. Of those that do not lead, it
        is said already.
        """
        known, found = self.candidates(learner), above.copy()
        limits = known.limits()
        some = known.among(known.were_in(chosen))
        members = some.forward(limits, np.ones(len(some.numbers), bool)).numbers
        columns, z = known.of_features(known.beside(known.are_in(members)))
        found[columns] = z > limits[len(members) : len(members) + 1].sum()
        found[known.ends(members)] = True
        return found

    def redundant(self, learner: JointPosterior, selected: Places) -> dict[int, list[int]]:
        """Which selected feature stands for which others, of those that lead.

        Less than a half of these is their own, beside all that are selected. A feature stands for
        another of which it makes up a tenth.
        """
        columns, _, systems = learner.leading_systems()
        own = np.flatnonzero(columns < self.n_features)  # terms stand for nothing
        columns, kept = columns[own], np.append(own, len(columns))
        systems = systems[:, kept[:, None], np.append(kept, systems.shape[2] - 1)]
        inside = find_places(np.sort(selected), columns)[1]
        outside = ~inside
        if self.groups is not None:
            alone = self.groups.size[self.groups.of[columns]] == 1.0
            inside, outside = inside & alone, outside & alone
        if not inside.any():
            return {}
        precision = systems[:, :, :-1].sum(axis=0)
        level = precision[:-1, -1]
        shared = precision[:-1, :-1] - np.outer(level, level) / precision[-1, -1]
        with_members = shared[np.ix_(inside, outside)]
        part = np.linalg.solve(shared[np.ix_(inside, inside)], with_members)
        total = np.diag(shared)[outside]
        repeats = (part * with_members).sum(axis=0) > (1.0 - _REPEATS) * total
        explains = part**2 * np.diag(shared)[inside, None] > _STANDS * total
        one, others = columns[inside], columns[outside]
        stands = {int(one[i]): others[explains[i] & repeats].tolist() for i in range(len(one))}
        return {feature: others for feature, others in stands.items() if others}

    # --- a part of FIRES ----------------------------------------------------------------------

    def rearranged(self, places: Places, n_features: int) -> Self:
        """A copy for other columns: where each goes."""
        other = copy.copy(self)
        columns = places[self.columns]
        other.n_features, other.columns = n_features, np.sort(columns[columns >= 0])
        if len(other.columns) < len(columns):
            other.k = -1  # look again
        return other

    def state(self) -> Arrays:
        """All that was learnt, by its name in a file."""
        return under("members", collect(self, self.learnt)[1]) if self.k >= 0 else {}

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError if the arrays do not fit."""
        if not self.scored:
            return
        parts, sizes = part_of("members", arrays), {"J": len(self._all())}
        if "score" not in parts:
            restore(self, self.learnt, {}, parts, sizes)
            return
        restore(self, {"columns": self.learnt["columns"]}, {}, parts, sizes)  # of older versions
        self.columns = np.unique(self.columns)
        self.k = _AUTO if part_of("looks", arrays) else len(self.columns)

    def _all(self) -> Places:
        """The numbers of all features, or groups."""
        return np.arange(self.n_features if self.groups is None else self.groups.n)
