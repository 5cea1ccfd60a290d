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
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch, gaps_in, nothing, ones, row_major
from fires.core.belief import Belief
from fires.core.declared import Array, Declared, collect, restore
from fires.core.state import Arrays, part_of, under
from fires.core.types import Floats, Ints, Labels, Mask, Places
from fires.kernels.assimilate import WIDTH
from fires.kernels.linear import find_places
from fires.kernels.select import top_k
from fires.models.base import Learner, Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.mixed import Mixed
from fires.models.scale import Standard
from fires.models.screen import PresenceScreen, Screen
from fires.models.sparse_scale import SparseScale
from fires.models.terms import Terms
from fires.models.wide import Effects, WideLearner

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
        self.screen = Screen(learner.n_features, learner.n_rows, pairs=relations != "curves")
        self.wide = WideLearner(learner, Terms(self.screen.knots))
        self.plain: WideLearner | None = None  # the linear belief, while there are terms to race
        self.waited = 0.0  # rows since the last look
        self.owed = 0.0  # rows that the screen has not seen
        self.ahead, self.leads = 0.0, not self.races  # of the belief with terms, in the race
        self.gained = 0.0  # of log likelihoods, by the columns against the level

    @property
    def _beliefs(self) -> list[WideLearner]:
        return [self.wide] if self.plain is None else [self.plain, self.wide]

    @property
    def joint_posterior(self) -> WideLearner:
        """The belief that answers: see :class:`fires.models.base.Learner`."""
        return self.wide if self.leads or self.plain is None else self.plain

    @property
    def sparse_scales(self) -> tuple[SparseScale | Mixed, ...]:
        """See :class:`fires.models.base.Learner`."""
        return self.scaler.sparse, *(one.mixed for one in self._beliefs)

    def effects(self) -> Effects:
        """Curves and pairs of the belief that answers."""
        scale = self.scaler.dense
        assert isinstance(scale, Standard)
        return Effects(self.joint_posterior, scale)

    # --- learning -----------------------------------------------------------------------------

    def step(self, batch: CheckedBatch, y: Labels, rates: Rates | None = None) -> None:
        """Learn from one batch. On an error, nothing changes."""
        weight = ones(batch.n_rows) if batch.weight is None else batch.weight
        rows, learn_scale = self._scaled(batch, weight)
        wide, led = self.wide, self.leads
        for one in self._beliefs:
            one.renewed = False
        kept = copy.deepcopy(self.plain) if wide.family.kind == "counts" else None
        target, widened = wide.target.look(y, weight)[0], wide.terms.widened(rows)
        if self.plain is not None:
            self.plain.step(rows, y)
        try:
            wide.step(widened, y)
        except ValueError:  # sums of counts overflow
            self.plain = kept
            raise
        learn_scale()
        self.scaler.follow(batch.scale, batch.change)
        total = float(weight.sum())
        self.owed += total
        values = widened.X[:, wide.n_columns :] if wide.sparse is None else np.empty((0, 0))
        if self.screen.rows < _ALL or self.owed > 1.5 * total:  # then every second batch
            slopes = self._slopes(target, weight, values)
            self.screen.take(rows.X, weight, *slopes, wide.gamma**self.owed)
            self.owed = 0.0
        if len(wide.terms):
            wide.terms.learn(values, weight)
        self._race(total)
        if self.joint_posterior.strengths:
            self.screen.restart()
        self.waited += float(len(weight))
        if self.screen.rows >= _FIRST and self.waited >= min(_EVERY, _GROWN * self.screen.rows):
            self.waited = 0.0
            self._look()
        self.joint_posterior.renewed |= led != self.leads

    def _scaled(
        self, batch: CheckedBatch, weight: Floats
    ) -> tuple[CheckedBatch, Callable[[], None]]:
        """The rows to learn from, and what learns their scale; beliefs scale sparse ones."""
        X, learn, change, gaps = batch.X, nothing, batch.change, batch.gaps
        if self.wide.sparse is not None:
            return replace(batch, X=sp.csr_array(X) if isinstance(X, np.ndarray) else X), learn
        Z = X if isinstance(X, np.ndarray) else X.toarray()
        if gaps is None and batch.n_missing:
            gaps = gaps_in(Z)
        if batch.scale != "standard":
            Z, learn = self.scaler.dense.scaled(Z, weight, batch.n_missing > 0)
            change, self.scaler.dense.change = self.scaler.dense.change, None
        facts: dict[str, Any] = {"scale": "standard", "n_missing": 0, "gaps": gaps}
        return replace(batch, X=row_major(Z), change=change, **facts), learn

    def _slopes(self, target: Floats, weight: Floats, values: Floats) -> tuple[Floats, Floats]:
        """The slopes of the log likelihood of the last rows, and those without what pairs add.

        While the columns predict worse than the level, they are the slopes at the level.
        """
        learner, scores, pairs = self.wide, self.wide.family.scores, self.wide.terms.are_pairs
        stats, paired = learner.row_stats, bool(pairs.any())
        slope: Floats = stats[:, 3] * stats[:, 2] / (1.0 + stats[:, WIDTH] * stats[:, 2])
        log_z, without = stats[:, 1], slope
        noise = learner.noise[:, None] if learner.family.noise else 0.0
        if paired:
            added = learner.mu[:, learner.n_columns + np.flatnonzero(pairs)] @ values[:, pairs].T
            log_z, without, _ = scores(stats[:, 0] - added, stats[:, WIDTH] + noise, target)
            without = weight * without
        if paired or self.screen.rows < _LEARNING * learner.n_present:
            level = (learner.intercept_mean * learner.unit)[:, None]
            of_level, at_level, _ = scores(level, learner.intercept_var[:, None] + noise, target)
            gain = float(weight @ (log_z - of_level).sum(axis=0))
            self.gained = self.gained * np.exp(-weight.sum() / _RACE) + gain
            if self.gained < 0.0:
                at_level = weight * at_level
                return (slope if paired else at_level), at_level
        return slope, without

    def _race(self, weight: float) -> None:
        """Let the belief answer that has predicted better."""
        if self.plain is None:
            return
        gain = float(self.plain.losses.sum() - self.wide.losses.sum())
        self.ahead = self.ahead * np.exp(-weight / _RACE) + gain
        self.leads = self.ahead > (0.0 if self.leads else _AHEAD)

    def _look(self) -> None:
        """Let terms come and go."""
        screen, wide, terms, n = self.screen, self.wide, self.wide.terms, self.screen.n_features
        screen.refresh()
        terms.knots = screen.knots
        # The squares in T know how much counts vary, which is most of their inflation.
        is_count = wide.family.kind == "counts"
        widening = 1.0 if is_count else float(np.sqrt(wide.inflation.max()))
        keep = self._useful()
        strength = screen.curves() / widening
        strength[terms.curved] = 0.0
        room = _MOST_CURVES - len(np.unique(terms.first[keep & ~terms.are_pairs]))
        curves: Ints = np.argsort(-strength, kind="stable")[: max(room, 0)]
        curves = np.sort(curves[strength[curves] > 1.0])
        pairs: Ints = np.empty((0, 2), dtype=np.int64)
        if len(screen.left):
            if not screen.all_fit:
                screen.follow(top_k(wide.scores()[:n], len(screen.left)))
            found, beyond = screen.pairs()
            new = ~np.isin(found @ [n, 1], terms.pairs @ [n, 1])
            room = _MOST_PAIRS - int((keep & terms.are_pairs).sum())
            pairs = found[new & (beyond > widening)][: max(room, 0)]
        if len(curves) or len(pairs) or not keep.all():
            more = terms.with_more(curves, pairs, keep, screen.orders)
            self._admit(more, keep, screen.evidence(curves))
        # Where lines predict, what pairs say for themselves is mostly said already.
        counts = self.gained < 0.0 and self.wide.terms.are_pairs.any()
        self.wide.credit = np.stack(screen.credit()) if counts else np.zeros_like(wide.credit)
        self.wide.renewed |= bool(counts)

    def _useful(self) -> Mask:
        """Which terms stay: new ones, and those that add to the others.

        What says the same as another would leave together with it. So curves leave one at a time,
        and pairs stay while the screen, which does not know of pairs in the belief, finds them.
        """
        wide, terms, n = self.wide, self.wide.terms, self.screen.n_features
        useful = ~terms.are_pairs | (terms.rows < _SETTLED)
        if not useful.all():
            found = self.screen.pairs(_FOUND)[0]
            useful |= np.isin(n * terms.first + terms.second, found @ [n, 1])
        old = ~terms.are_pairs & (terms.rows >= _SETTLED)
        if old.any():
            curved, of = np.unique(terms.first[old], return_inverse=True)
            at = wide.n_columns + np.flatnonzero(old)

            def deviations(mean: Floats, variance: Floats) -> Floats:
                most = np.zeros(len(curved))
                z = np.abs(mean) / np.sqrt(np.maximum(variance, 1e-300))
                np.maximum.at(most, of, z.max(axis=0))
                return most

            # What is far beyond doubt for itself need not be looked at together with all others.
            mean, variance = wide.coefficients()
            most = deviations(mean[:, at], variance[:, at])
            if most.min() < 2.0 * _NEEDLESS:
                columns, mean, covariance = wide.leading_posterior()
                place, _ = find_places(columns, at)
                most = deviations(mean[:, place], np.einsum("kii->ki", covariance)[:, place])
            if most.min() < _NEEDLESS:
                useful &= terms.are_pairs | (terms.first != curved[most.argmin()])
        return np.asarray(useful)

    def _admit(
        self, terms: Terms, kept: Mask, evidence: tuple[Floats, Floats] | None = None
    ) -> None:
        if self.plain is not None and not len(terms):
            self.wide, self.plain, self.ahead, self.leads = self.plain, None, 0.0, False
            return
        if self.races and self.plain is None:
            self.plain = copy.deepcopy(self.wide)
            self.ahead, self.leads = _AHEAD, True
        before = np.union1d(self.wide.terms.first, self.wide.terms.second)
        self.wide = self.wide.with_terms(terms, kept, evidence)
        self.wide.renewed = not np.isin([terms.first, terms.second], before).all()

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
        kept = self.wide.terms.without(columns)
        if not kept.all():
            self._admit(self.wide.terms.kept(kept), kept)
        for one in self._beliefs:
            one.restart_features(columns)
        self.scaler.restart(columns)
        self.screen.restart()

    def with_classes(self, before: Labels, after: Labels) -> RelationsLearner:
        """A copy for more classes. See :class:`fires.models.base.Learner`."""
        other = copy.copy(self)
        if self.plain is not None:
            other.plain = self.plain.with_classes(before, after)
        other.wide = self.wide.with_classes(before, after)
        other.screen = self.screen.with_rows(other.wide.n_rows)
        return other

    def ready_for_sparse(self) -> RelationsLearner:
        """The first batch decides between dense and sparse rows for all later ones."""
        wide = self.wide
        if wide.evidence_rows.any() or wide.sparse is not None:
            return self
        if self.relations == "pairs":
            raise ValueError("relations='pairs' is for dense rows; of sparse ones, use 'curves'.")
        other = copy.copy(self)
        other.wide = WideLearner(wide.ready_for_sparse(), wide.terms)
        other.screen = PresenceScreen(wide.n_columns, wide.n_rows)
        return other

    # --- state --------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """See :class:`fires.models.base.Learner`."""
        arrays = under("relations", collect(self, self.learnt)[1]) | self.scaler.state()
        arrays |= under("screen", collect(self.screen, self.screen.learnt)[1])
        plain, wide = self.plain, self.wide
        if self.races:
            arrays |= under("plain", (wide if plain is None else plain).state())
        if plain is not None or not self.races:
            arrays |= under("wide", wide.state())
            arrays |= under("terms", collect(wide.terms, Terms.learnt)[1])
            arrays["credit"] = wide.credit.copy()
        return arrays

    def restore(self, arrays: Arrays) -> None:
        """See :class:`fires.models.base.Learner`."""
        plain, found = part_of("plain", arrays), part_of("terms", arrays)
        restore(self, self.learnt, {}, part_of("relations", arrays), {})
        self.scaler.restore(arrays)
        if part_of("rows", plain or part_of("wide", arrays)):
            vars(self).update(vars(self.ready_for_sparse()))
        sizes = {"J": self.screen.n_features, "R": self.wide.n_rows}
        restore(self.screen, self.screen.learnt, {}, part_of("screen", arrays), sizes)
        self.wide.terms.knots = self.screen.knots
        if found:
            terms = Terms(self.screen.knots)
            restore(terms, Terms.learnt, {}, found, dict(sizes))
            linear, none = copy.deepcopy(self.wide), np.zeros(0, dtype=np.bool_)
            self.wide = self.wide.with_terms(terms, none)
            self.wide.restore(part_of("wide", arrays))
            self.wide.credit = Array(2, "R", "J", low=0.0).read("credit", {}, arrays, sizes)
            self.plain = linear if self.races else None
        if self.races:
            self._beliefs[0].restore(plain)
