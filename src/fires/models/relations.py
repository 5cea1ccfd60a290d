"""Curves and pairs that earn their place in a linear belief.

A belief starts with the lines of its columns. A screen tests all curves and pairs that are not in
it (:mod:`fires.models.screen`). What it finds beyond doubt becomes a term of the belief
(:mod:`fires.models.terms`), and leaves again when it adds nothing. So where all effects are
straight lines, the belief is the linear one, to the bit.

**The race.** With ``"auto"``, a linear belief goes on beside the one with terms, and the one that
predicts better answers: by the sum of the differences of their log likelihoods, in which old rows
fade. Terms that are beyond doubt start with an advantage of ten; at 0 they lose it.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from fires.core.batch import CheckedBatch, gaps_in, nothing, ones, row_major
from fires.core.belief import Belief
from fires.core.declared import Array, Declared, collect, restore
from fires.core.errors import StateError
from fires.core.state import Arrays, part_of, under
from fires.core.types import Floats, Ints, Labels, Mask, Places
from fires.kernels.assimilate import WIDTH
from fires.kernels.select import top_k
from fires.models.base import JointPosterior, Learner, Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.scale import Standard
from fires.models.screen import Screen
from fires.models.terms import Terms
from fires.models.wide import Curve, WideLearner, scaled_at

_FIRST = 250.0  # rows before the first look at the screen
_EVERY = 500.0  # rows between two looks, later on
_ALL = 3000.0  # rows that the screen sees; of later ones, it sees every second batch
_GROWN = 0.2  # at the beginning: a look when the rows have grown by this share
_MOST_CURVES, _MOST_PAIRS = 8, 40
_NEEDLESS = 2.0  # deviations below which a curve leaves
_FOUND = 0.7  # the share of its limit beyond which a pair stays
_SETTLED = 1000.0  # rows that a term stays in any case
_AHEAD = 10.0  # of log likelihoods
_LEARNING = 20.0  # rows a column, in which the belief may predict worse than the level
_RACE = 3000.0  # rows in which the differences of log likelihoods fade to 1/e


class RelationsLearner(Learner):
    """A linear belief with the curves, and the pairs, that add to it."""

    learnt: ClassVar[Declared] = {
        "waited": Array(low=0.0),
        "owed": Array(low=0.0),
        "ahead": Array(),
        "gained": Array(),
        "leads": Array(dtype="bool"),
    }

    def __init__(self, learner: BayesLearner, relations: str) -> None:
        self.relations, self.scaler = relations, learner.scaler
        self.races = relations == "auto"
        self.plain: BayesLearner | None = learner if self.races else None
        self.wide: WideLearner | None = None if self.races else WideLearner(learner)
        self.screen = Screen(learner.n_features, learner.n_rows, pairs=relations != "curves")
        self.waited = 0.0  # rows since the last look
        self.owed = 0.0  # rows that the screen has not seen
        self.ahead, self.leads = 0.0, not self.races  # of the wide belief, in the race
        self.gained = 0.0  # of log likelihoods, by the columns against the level

    @property
    def _beliefs(self) -> list[BayesLearner]:
        return [one for one in (self.plain, self.wide) if one is not None]

    @property
    def _newest(self) -> BayesLearner:
        """The belief with terms, if there are any."""
        return self._beliefs[-1]

    @property
    def joint_posterior(self) -> JointPosterior:
        """The belief that answers: see :class:`fires.models.base.Learner`."""
        answers = self.wide if self.leads else self.plain
        assert answers is not None
        return answers

    @property
    def kind(self) -> str:
        """What the belief that answers is made of: "linear", "curves" or "pairs"."""
        if not self.leads or self.wide is None or not len(self.wide.terms):
            return "linear"
        return "pairs" if self.wide.terms.are_pairs.any() else "curves"

    def curve(self, column: int, scores: Floats) -> tuple[Floats, Curve]:
        """The values of a column at normal scores, and what it adds there; see WideLearner."""
        z = scaled_at(scores, self.screen.knots[:, column])
        scale = self.scaler.dense
        assert isinstance(scale, Standard)
        values = z / scale.gain[column] + scale.shift[column] if scale.gain[column] else z
        answers = self.wide
        if answers is None or not self.leads:
            assert self.plain is not None
            answers = WideLearner(self.plain)
            answers.knots = self.screen.knots
        return values, answers.curve(column, scores)

    # --- learning -----------------------------------------------------------------------------

    def step(self, batch: CheckedBatch, y: Labels, rates: Rates | None = None) -> None:
        """Learn from one batch. On an error, nothing changes."""
        weight = ones(batch.n_rows) if batch.weight is None else batch.weight
        if not isinstance(batch.X, np.ndarray):
            batch = replace(batch, X=batch.X.toarray())
        Z, learn_scale = batch.X, nothing
        gaps: Any = batch.gaps if batch.gaps is not None or not batch.n_missing else gaps_in(Z)
        change = batch.change
        if batch.scale != "standard":
            Z, learn_scale = self.scaler.dense.scaled(Z, weight, batch.n_missing > 0)
            change, self.scaler.dense.change = self.scaler.dense.change, None
        Z = row_major(Z)
        scaled = replace(batch, X=Z, scale="standard", n_missing=0, gaps=gaps, change=change)
        newest, wide, led = self._newest, self.wide, self.leads
        for one in self._beliefs:
            one.renewed = False
        kept = copy.deepcopy(self.plain) if newest.family.kind == "counts" else None
        values = (
            None if wide is None or not len(wide.terms) else wide.terms.values(Z, wide.knots, gaps)
        )
        target = newest.target.look(y, weight)[0]
        if self.plain is not None:
            self.plain.step(scaled, y)
        if wide is not None:
            rows = scaled if values is None else self._widened(scaled, values)
            try:
                wide.step(rows, y)
            except ValueError:  # sums of counts overflow
                self.plain = kept
                raise
        learn_scale()
        total = float(weight.sum())
        self.owed += total
        if self.screen.rows < _ALL or self.owed > 1.5 * total:  # then every second batch
            slopes = self._slopes(target, weight, values)
            self.screen.take(Z, weight, *slopes, newest.gamma**self.owed)
            self.owed = 0.0
        if wide is not None and values is not None:
            wide.terms.learn(values, weight)
        self._race(total)
        if self.joint_posterior.strengths:
            self.screen.restart()
        self.waited += float(len(weight))
        if self.screen.rows >= _FIRST and self.waited >= min(_EVERY, _GROWN * self.screen.rows):
            self.waited = 0.0
            self._look()
        self.joint_posterior.renewed |= led != self.leads

    def _widened(self, batch: CheckedBatch, values: Floats) -> CheckedBatch:
        assert self.wide is not None
        gaps, terms = batch.gaps, self.wide.terms
        if gaps is not None:
            gaps = np.hstack([gaps, gaps[:, terms.first] | gaps[:, terms.second]])
        change = batch.change
        if change is not None:  # terms have units of their own
            none = np.repeat([[0.0], [1.0]], len(terms), axis=1)
            change = np.hstack([change, none])
        return replace(batch, X=np.hstack([batch.X, values]), gaps=gaps, change=change)

    def _slopes(
        self, target: Floats, weight: Floats, values: Floats | None
    ) -> tuple[Floats, Floats]:
        """The slopes of the log likelihood of the last rows, and those without what pairs add.

        While the columns predict worse than the level, they are the slopes at the level.
        """
        learner, scores = self._newest, self._newest.family.scores
        stats, added = learner.row_stats, np.zeros(1)
        bend = stats[:, 2] / (1.0 + stats[:, WIDTH] * stats[:, 2])
        slope: Floats = bend * stats[:, 3]
        log_z, without = stats[:, 1], slope
        noise = learner.noise[:, None] if learner.family.noise else 0.0
        paired = self.wide is not None and bool(self.wide.terms.are_pairs.any())
        if values is not None and self.wide is not None and paired:
            pairs = self.wide.terms.are_pairs
            added = learner.mu[:, self.wide.n_columns + np.flatnonzero(pairs)] @ values[:, pairs].T
            log_z, without, _ = scores(stats[:, 0] - added, stats[:, WIDTH] + noise, target)
            without = weight * without
        if paired or self.screen.rows < _LEARNING * learner.n_present:
            level = learner.intercept_mean[:, None], learner.intercept_var[:, None] + noise
            of_level, at_level, _ = scores(*level, target)
            gain = float(weight @ (log_z - of_level).sum(axis=0))
            self.gained = self.gained * np.exp(-weight.sum() / _RACE) + gain
            if self.gained < 0.0:
                at_level = weight * at_level
                return (slope if paired else at_level), at_level
        return slope, without

    def _race(self, weight: float) -> None:
        """Let the belief answer that has predicted better."""
        if self.plain is None or self.wide is None:
            return
        gain = float(self.plain.losses.sum() - self.wide.losses.sum())
        self.ahead = self.ahead * np.exp(-weight / _RACE) + gain
        self.leads = self.ahead > (0.0 if self.leads else _AHEAD)

    def _look(self) -> None:
        """Let terms come and go."""
        screen, wide = self.screen, self.wide
        screen.follow_quantiles()
        terms = Terms() if wide is None else wide.terms
        # The squares in T know how much counts vary, which is most of their inflation.
        is_count = self._newest.family.kind == "counts"
        widening = 1.0 if is_count else float(np.sqrt(self._newest.inflation.max()))
        keep = self._useful() if wide is not None else np.ones(0, dtype=np.bool_)
        curved = terms.curved
        strength = screen.curves() / widening
        strength[curved] = 0.0
        room = _MOST_CURVES - len(np.unique(terms.first[keep & ~terms.are_pairs]))
        curves: Ints = np.argsort(-strength, kind="stable")[: max(room, 0)]
        curves = np.sort(curves[strength[curves] > 1.0])
        pairs: Ints = np.empty((0, 2), dtype=np.int64)
        if not screen.all_fit and len(screen.left):
            scores = self._newest.scores()[: screen.n_features]
            screen.follow(top_k(scores, len(screen.left)))
        if len(screen.left):
            found, beyond = screen.pairs()
            known = terms.first * screen.n_features + terms.second
            new = ~np.isin(found[:, 0] * screen.n_features + found[:, 1], known[terms.are_pairs])
            room = _MOST_PAIRS - int((keep & terms.are_pairs).sum())
            pairs = found[new & (beyond > widening)][: max(room, 0)]
        if len(curves) or len(pairs) or not keep.all():
            self._admit(terms.with_more(curves, pairs, keep), keep, screen.evidence(curves))
        if self.wide is not None:
            self.wide.knots = screen.knots
            # Where lines predict, what pairs say for themselves is mostly said already.
            counts = self.gained < 0.0 and self.wide.terms.are_pairs.any()
            none = np.zeros_like(self.wide.credit)
            self.wide.credit = np.stack(screen.credit()) if counts else none

    def _useful(self) -> Mask:
        """Which terms stay: new ones, and those that add to the others.

        What says the same as another would leave together with it. So curves leave one at a time,
        and pairs stay while the screen, which does not know of pairs in the belief, finds them.
        """
        assert self.wide is not None
        wide, terms, n = self.wide, self.wide.terms, self.screen.n_features
        found = self.screen.pairs(_FOUND)[0] if len(self.screen.left) else wide.pairs
        useful = np.isin(terms.first * n + terms.second, found[:, 0] * n + found[:, 1])
        columns, mean, covariance = wide.leading_posterior()
        at = np.searchsorted(columns, wide.n_columns + np.arange(len(terms)))
        spread = np.sqrt(np.maximum(np.einsum("kii->ki", covariance)[:, at], 1e-300))
        z = np.abs(mean[:, at] / spread).max(axis=0)
        young = terms.rows < _SETTLED
        useful |= ~terms.are_pairs | young
        if (old := ~terms.are_pairs & ~young).any():
            curved, of = np.unique(terms.first[old], return_inverse=True)
            most = np.zeros(len(curved))
            np.maximum.at(most, of, z[old])
            if most.min() < _NEEDLESS:
                useful &= terms.are_pairs | (terms.first != curved[most.argmin()])
        return np.asarray(useful)

    def _admit(
        self, terms: Terms, kept: Mask, evidence: tuple[Floats, Floats] | None = None
    ) -> None:
        if self.races and not len(terms):
            self.wide, self.ahead, self.leads = None, 0.0, False
            return
        if self.wide is None:
            assert self.plain is not None
            self.wide = WideLearner(self.plain)
            self.ahead, self.leads = _AHEAD, True
        before = np.union1d(self.wide.terms.first, self.wide.terms.second)
        self.wide = self.wide.with_terms(terms, kept, evidence)
        self.wide.renewed = not np.isin([terms.first, terms.second], before).all()
        self.wide.knots = self.screen.knots

    # --- the answer ---------------------------------------------------------------------------

    def features(self) -> Belief:
        """See :class:`fires.models.base.Learner`."""
        return self.joint_posterior.features()

    def by_class(self) -> tuple[Floats, Floats]:
        """See :class:`fires.models.base.Learner`."""
        return self.joint_posterior.by_class()

    # --- change -------------------------------------------------------------------------------

    def forget(self, keep: float) -> None:
        """See :class:`fires.models.base.Learner`."""
        for one in self._beliefs:
            one.forget(keep)
        self.screen.forget(keep)

    def remember(self, rate: float) -> None:
        """See :class:`fires.models.base.Learner`."""
        for one in self._beliefs:
            one.remember(rate)

    def attend(self, resting: Mask, never: Mask, arrived: Places) -> None:
        """See :class:`fires.models.base.Learner`."""
        for one in self._beliefs:
            one.attend(resting, never, arrived)

    def restart_features(self, columns: Places) -> None:
        """See :class:`fires.models.base.Learner`."""
        if self.wide is not None:
            kept = self.wide.terms.without(columns)
            none = np.empty(0, dtype=np.int64), np.empty((0, 2), dtype=np.int64)
            self._admit(self.wide.terms.with_more(*none, kept), kept)
        for one in self._beliefs:
            one.restart_features(columns)
        self.scaler.restart(columns)
        self.screen.restart()

    def with_classes(self, before: Labels, after: Labels) -> RelationsLearner:
        """A copy for more classes. See :class:`fires.models.base.Learner`."""
        other = copy.copy(self)
        if self.plain is not None:
            other.plain = self.plain.with_classes(before, after)
        if self.wide is not None:
            other.wide = self.wide.with_classes(before, after)
            other.wide.credit = np.zeros((2, other.wide.n_rows, self.screen.n_features))
        screen, n_rows = self.screen, other._newest.n_rows
        other.screen = Screen(screen.n_features, n_rows, pairs=len(screen.left) > 0)
        other.screen.knots, other.screen.rows = screen.knots, screen.rows
        return other

    def ready_for_sparse(self) -> Learner:
        """The linear belief, if the first rows are sparse; later ones are made dense."""
        if self._newest.evidence_rows.any():
            return self
        if self.plain is not None:
            return self.plain.ready_for_sparse()
        raise ValueError(
            f"relations={self.relations!r} is for dense rows: sparse ones need relations='linear'."
        )

    # --- state --------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """See :class:`fires.models.base.Learner`."""
        arrays = under("relations", collect(self, self.learnt)[1]) | self.scaler.state()
        arrays |= under("screen", collect(self.screen, Screen.learnt)[1])
        if self.plain is not None:
            arrays |= under("plain", self.plain.state())
        if self.wide is not None:
            arrays |= under("wide", self.wide.state())
            arrays |= under("terms", collect(self.wide.terms, Terms.learnt)[1])
            arrays["credit"] = self.wide.credit.copy()
        return arrays

    def restore(self, arrays: Arrays) -> None:
        """See :class:`fires.models.base.Learner`."""
        learner, size = self._newest, self.screen.n_features
        sizes = {"J": size, "R": learner.n_rows}
        restore(self, self.learnt, {}, part_of("relations", arrays), {})
        self.scaler.restore(arrays)
        restore(self.screen, Screen.learnt, {}, part_of("screen", arrays), sizes)
        if found := part_of("terms", arrays):
            terms = Terms()
            restore(terms, Terms.learnt, {}, found, dict(sizes))
            self.wide = WideLearner(learner).with_terms(terms, np.zeros(0, dtype=np.bool_))
            self.wide.restore(part_of("wide", arrays))
            self.wide.knots = self.screen.knots
            credit = Array(2, "R", "J", low=0.0)
            self.wide.credit = credit.read("credit", {}, arrays, sizes)
        if self.plain is not None:
            self.plain.restore(part_of("plain", arrays))
        if (self.wide if self.leads else self.plain) is None:
            raise StateError("relations.leads names a belief that is not there")
