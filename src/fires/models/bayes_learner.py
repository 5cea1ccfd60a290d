"""A linear model that learns by Bayes' rule, row by row: what FIRES runs by default.

:mod:`fires.kernels.assimilate` has the formulas. Here they meet the scale, the target, the alarm
and the covariance of the leading features.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from operator import attrgetter
from types import SimpleNamespace
from typing import ClassVar, Self, TypeAlias

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch, gaps_in, nothing, ones, row_major
from fires.core.belief import Belief
from fires.core.blas import one_thread
from fires.core.classes import class_rows
from fires.core.declared import Array, Declared, View, collect, restore
from fires.core.errors import OVERFLOW, StateError
from fires.core.state import Arrays, part_of, under
from fires.core.types import Floats, Ints, Labels, Mask, Matrix, Places, RowIndex
from fires.drift import INTERCEPT, LEAST_UNIT, Led, Move, limits_of
from fires.kernels.assimilate import (
    GAMMA,
    INTERCEPT_MEAN,
    INTERCEPT_VAR,
    N_FACTS,
    N_SAVED,
    N_STATS,
    NOISE,
    NOISE_ROWS,
    NOW,
    UNIT,
    WIDTH,
    Seen,
    express,
    total_sizes,
)
from fires.kernels.at_once import addresses, take_at_once
from fires.kernels.linear import NO_COLUMNS, DenseRows, MixedRows, find_places
from fires.kernels.select import top_k
from fires.models.base import Learner, Rates, kept_rows
from fires.models.bayes_changes import Changes
from fires.models.covariance import MOST, CovarianceBlock, inverted
from fires.models.families import FAMILIES
from fires.models.mixed import Mixed, unscaled
from fires.models.scale import Scaler, Standard
from fires.models.sparse_scale import SparseScale, Touched
from fires.models.target import ClassTarget, bayes_target_of

# After an alarm, all evidence counts as that of so many rows.
KEPT_ROWS = 50.0
_TOLD = 0.08  # the information of a row below which classes are told without an error
_FLIP = 3.0  # deviations by which a feature must matter more for another class
_LEARNT = 0.99  # of its variance at first: what nothing is known of adds nothing
_MANY = 8192  # columns from which on they are added up by a compiled loop
_NOISE_ROWS = 10.0  # the noise starts as if it had been seen in so many rows
_MOST_GROWN = 1e80  # that variances may have
_SPARSE = {
    "unit": Array("R", low=1e-200),
    "grown": Array(low=1.0, high=_MOST_GROWN, optional=True),
    # In older files: the rows so far, and at which of them a column was last.
    "now": Array(1, low=0.0, optional=True),
    "seen_at": Array("R", "J", low=0.0, optional=True),
}


_STILL = np.empty((2, 0))  # no column has moved
_NO_LABELS = np.empty(0), 0.0, 0.0, np.empty(0)
_STATE = (
    *("_rule", "mu", "var", "facts", "evidence_rows", "scaler.dense.known"),
    *("leading.columns", "leading.sums", "leading.trust"),
    *(f"changes.tests.{name}" for name in ("total", "square", "shared", "usual")),
    *("changes.level.means", "changes.inflation.found", "changes.inflation.blocks"),
    *("changes.inflation.filled", "changes.alarm.sums"),
)
# What one compiled call changes.
_state_of = attrgetter(*_STATE)

_Kept: TypeAlias = tuple[Floats, Floats, Floats]


class BayesLearner(Learner):
    r"""Beliefs of a linear model, moved by every row.

    **Prior.** Each coefficient starts at mean 0 and variance :math:`s_0 = c / \max(J, 10)`, so that
    all J together explain about as much as there is to explain, however many they are: c = 3 for
    classes and counts, 1 for standardised numbers. J counts the columns that are there, see
    :meth:`attend`, not those of an array. The intercept starts at 0, that of
    counts at the logarithm of the first batch's mean, with variance 1.

    **Forgetting.** After ``memory`` rows, evidence has decayed to 1/e.

    **Changes.** When the features no longer predict, see :class:`fires.drift.SlopeAlarm`, all
    evidence so far counts as that of 50 rows. The intercept is kept: how often a class occurs has
    not changed. When single coefficients have moved, see :class:`fires.drift.ScoreTests`, they
    become less certain.

    **Dependent rows** count for less, see :mod:`fires.models.inflation`. **A missing entry** is at
    the mean of its column, and what it might have added is a part of the noise of its row.

    **Many classes** are learnt one against the rest, with one row of parameters per class.
    """

    takes_shards = True
    learnt: ClassVar[Declared] = {
        "mu": Array("R", "J"),
        "var": Array("R", "J", low=0.0),
        "intercept_mean": Array("R", key="own_mu"),
        "intercept_var": Array("R", low=0.0, key="own_var"),
        "saved_facts": Array("R", N_SAVED, low=0.0, key="facts"),
        "evidence_rows": Array("R", low=0.0),
    }

    saved_facts = View("facts", slice(None), slice(N_SAVED))
    intercept_mean = View("facts", slice(None), INTERCEPT_MEAN)
    intercept_var = View("facts", slice(None), INTERCEPT_VAR)
    unit = View("facts", slice(None), UNIT)  # of mu, for sparse rows

    def __init__(
        self,
        family: str,
        n_features: int,
        n_classes: int,
        *,
        fit_intercept: bool,
        scale: str | None,
        memory: float,
        watches: bool = True,
    ) -> None:
        self.family, self.fit_intercept, self.scale = FAMILIES[family], fit_intercept, scale
        self.n_features, self.watches = n_features, watches
        self.gamma = 1.0 - 1.0 / memory  # the share of its evidence that is kept from row to row
        # The likelihood of a class bends less along mu than across it; that of a number does not.
        self.stretches = self.family.kind == "classes"
        self._may_overflow = scale != "standard" or self.family.kind == "counts"
        self.own_prior = 1.0 if fit_intercept else 0.0
        self.changes = Changes(1, n_features, self.family, warm_up=0.0)
        self.count_columns(n_features)
        self._begin(n_classes if n_classes > 2 else 1)
        self.scaler = Scaler(scale, n_features)
        self.target = bayes_target_of(self.family, self.n_rows, scaled=scale is not None)
        self.renewed = False  # see JointPosterior
        self.strengths: list[float] = []  # of the alarms of the last batch
        self.moved: dict[int, float] = {}  # features whose alarm the last batch has raised
        # Below 0 for columns that are not there; None if all are.
        self._absent_offset: Floats | None = None
        self._n_seen = n_features  # columns that have ever been there
        self.row_stats = np.empty((self.n_rows, N_STATS, 0))  # of the last batch
        self.mixed = Mixed(0)
        # The columns that the last batch has moved; None for all.
        self.touched: Places | None = None
        # Whether coefficients that have moved become less certain. That is for the prior of leading
        # coefficients: with the narrower one of predictions, they would shrink.
        self.loosens = True
        self.groups: Places | None = None  # of features that are selected together
        # For sparse rows: by how much all variances have grown since they were written down.
        self.sparse: float | None = None

    def _begin(self, n_rows: int) -> None:
        """Know nothing, with this many rows of parameters: one, or one per class."""
        self.n_rows = n_rows
        self.mu = np.zeros((n_rows, self.n_features))
        self.var = np.full((n_rows, self.n_features), self.prior)
        self.facts = np.zeros((n_rows, N_FACTS))
        self.facts[:, [NOISE, NOISE_ROWS]] = self.family.noise * _NOISE_ROWS, _NOISE_ROWS
        self.facts[:, [INTERCEPT_VAR, UNIT]] = self.own_prior, 1.0
        self.evidence_rows = np.zeros(n_rows)
        warm_up = self.changes.alarm.warm_up
        self.changes = Changes(n_rows, self.n_features, self.family, warm_up=warm_up)
        self.leading = CovarianceBlock(self.n_features, n_rows)

    @property
    def sparse_scales(self) -> tuple[SparseScale | Mixed, ...]:
        """See :class:`fires.models.base.Learner`."""
        return self.scaler.sparse, self.mixed

    @property
    def joint_posterior(self) -> BayesLearner:
        """See :class:`fires.models.base.Learner`."""
        return self

    @property
    def owners(self) -> Places | None:
        """See :class:`fires.models.base.JointPosterior`."""
        return None

    @property
    def pairs(self) -> Ints:
        """See :class:`fires.models.base.JointPosterior`."""
        return np.empty((0, 2), dtype=np.int64)

    @property
    def inflation(self) -> Floats:
        """See :class:`fires.models.base.JointPosterior`."""
        return self.leading.inflation

    @property
    def _all_lead(self) -> bool:
        """Whether every column that has ever been there is among the leading ones."""
        return self.leading.holds_all or len(self.leading.columns) == self._n_seen

    @property
    def fewest_rows(self) -> float:
        """See :class:`fires.models.base.JointPosterior`."""
        rows, leading = min(self.evidence_rows.tolist()), self.leading
        if len(leading.late) and self._all_lead:
            rows *= float(leading.seen().min())
        return rows

    @property
    def takes_sparse(self) -> bool:
        """Whether sparse rows need not be made dense; see :meth:`ready_for_sparse`."""
        return self.sparse is not None

    @property
    def losses(self) -> Floats:
        """The log loss of each row of the last batch, before it was learnt from."""
        losses: Floats = -self.row_stats[:, 1].sum(axis=0)
        return losses

    # --- learning ---------------------------------------------------------------------------

    def step(self, batch: CheckedBatch, y: Labels, rates: Rates | None = None) -> None:
        """Learn from one batch. On an error, nothing changes."""
        X, leading = batch.X, self.leading
        weight = ones(X.shape[0]) if batch.weight is None else batch.weight
        target, level = self.target.look(y, weight)
        scaled = batch.scale is not None and batch.scale == self.scale
        if self._is_usual(batch, scaled):
            given = row_major(X), _NO_LABELS, target, weight, batch.change
            if self._take_at_once(*given, scales=not scaled):
                self.target.count(y, weight)
                return
        all_lead = leading.holds_all or self._all_lead
        before = None if all_lead else np.ascontiguousarray(self._means(leading.columns))
        if level is not None and self.fit_intercept and not self.evidence_rows[0]:
            self.intercept_mean = level
        seen = Seen(target, weight, np.zeros((self.n_rows, N_STATS, len(weight))))
        if self.scale == "standard" and (batch.n_missing or batch.gaps is not None):
            self._note_gaps(batch, seen.stats)
        if before is not None and not self.evidence_rows.any():
            self._lead_at_first(X, seen)
        self.touched = None
        units = None if self.sparse is None else self.units()
        led, rows = self._assimilate(*self._scaled(batch, weight, scaled), seen)
        self.target.count(y, weight)
        n_rows = float(len(weight) if batch.weight is None else weight.sum())
        evidence = self.evidence_rows
        self.evidence_rows = evidence + n_rows
        self.row_stats = seen.stats
        mean, others = self.mu, None
        if not leading.holds_all or self.sparse is not None:
            mean = np.ascontiguousarray(self._means(leading.columns))
        if before is not None:
            var = np.ascontiguousarray(self._variances(leading.columns))
            others = self.facts, before, mean, var
        leading.add(led, seen.stats, weight, others, gamma=self.gamma)
        self.express(units, batch.change if scaled else None)
        self.scaler.follow(batch.scale, batch.change)
        sums = self.changes.take(seen, rows, leading.columns, led, self.gamma, evidence)
        self._look_for_changes(sums if self.watches else None, evidence, float(len(weight)), mean)
        if not all_lead:
            self._find_leading()

    @property
    def _is_plain(self) -> bool:
        """Whether one compiled call may go on with what is known: the scale apart."""
        return (
            self.scale == "standard"
            and not self._may_overflow
            and self.watches
            and self.sparse is None
            and self._absent_offset is None
            and bool(self.evidence_rows[0])
        )

    def step_at_once(self, X: Floats, y: Labels, low: float, high: float, rates: Rates) -> bool:
        """See :class:`fires.models.base.Learner`."""
        target, scale = self.target, self.scaler.dense
        if self.n_rows > 1 or not (self._is_plain and scale.ready):
            return False
        assert isinstance(target, ClassTarget)
        labels = y.astype(np.float64), low, high, target.class_weight
        return self._take_at_once(row_major(X), labels, np.empty((1, len(y))), ones(len(y)))

    def _is_usual(self, batch: CheckedBatch, scaled: bool) -> bool:
        """Whether one compiled call may learn from a batch that is like those before."""
        X = batch.X
        return (
            self._is_plain
            and isinstance(X, np.ndarray)
            and X.dtype == np.float64
            and not batch.n_missing
            and batch.gaps is None
            and (scaled or (batch.scale is None and self.scaler.dense.ready))
        )

    def _take_at_once(
        self,
        X: Floats,
        labels: tuple[Floats, float, float, Floats],
        target: Floats,
        weight: Floats,
        change: Floats | None = None,
        *,
        scales: bool = True,
    ) -> bool:
        """Learn from a batch by one compiled call, or change nothing, if it is unusual.

        The target is filled in from labels, the lower and the higher one, if there are any.
        """
        changes, leading, n_rows = self.changes, self.leading, len(weight)
        tests, level, alarm = changes.tests, changes.level, changes.alarm
        total = float(n_rows if weight is ones(n_rows) else weight.sum())
        unit, pace = tests.decayed(total), level.pace(total)
        if unit < LEAST_UNIT or not changes.inflation.follows(leading.columns):
            return False
        limits, information = limits_of(self.n_present * self.n_rows), tests.least_information(unit)
        stats = np.empty((self.n_rows, N_STATS, n_rows))
        learnable, greatest, found = take_at_once(
            addresses(self.family.assimilate),
            (X, labels, target, weight, _STILL if change is None else change),
            (scales, self.fit_intercept, changes.even),
            (unit, level.share, pace / total, total, alarm.warm_up, information),
            *(limits, stats, _state_of(self)),
        )
        if learnable < 0.0:
            return False
        self.row_stats, self.touched = stats, None
        tests.unit, level.rows = unit, level.rows + total
        leading.waited += n_rows
        leading.count(self.gamma**total, learnable)
        leading.inflation = changes.inflation.found[0]
        self.strengths, self.moved = [], {}
        if len(found) or greatest > alarm.limit:
            moves = tests.noted(found, limits, float(n_rows)) if len(found) else []
            self._react(moves, alarm.greatest.tolist(), self.evidence_rows - total)
        if not leading.holds_all:
            self._find_leading()
        return True

    def _scaled(
        self, batch: CheckedBatch, weight: Floats, scaled: bool
    ) -> tuple[DenseRows | MixedRows, Callable[[], None]]:
        """The rows to learn from, and what learns their scale."""
        X, missing, learn = batch.X, batch.n_missing > 0, nothing
        if self.sparse is not None and isinstance(X, np.ndarray):
            X = sp.csr_array(X)
        if not scaled:
            if self.sparse is not None and self.scale == "standard":
                return self.mixed.scaled(X, weight, missing)
            dense = self.sparse is None and isinstance(X, np.ndarray)
            X, learn = (self.scaler.dense if dense else self.scaler).scaled(X, weight, missing)
        if self.sparse is None:
            full = X if isinstance(X, np.ndarray) else X.toarray()
            if full is batch.X or not full.flags.c_contiguous:
                full = row_major(full)
            full.setflags(write=False)  # it was made for this step
            return DenseRows(full), learn
        return unscaled(Touched(X, weight, missing, NO_COLUMNS)), learn

    def _note_gaps(self, batch: CheckedBatch, stats: Floats) -> None:
        """Note the variance of what missing entries would add to predictions."""
        gaps, var = gaps_in(batch.X) if batch.gaps is None else batch.gaps, self._variances()
        added = np.where(var < _LEARNT * self.prior, self._means() ** 2 + var, 0.0)
        n_missing = np.asarray(gaps.sum(axis=0)).ravel()
        added[:, n_missing == batch.n_rows] = 0.0  # no column of this batch
        stats[:, WIDTH] = (gaps @ added.T).T

    def _assimilate(
        self, rows: DenseRows | MixedRows, learn_scale: Callable[[], None], seen: Seen
    ) -> tuple[Floats, DenseRows | MixedRows]:
        """Learn from rows on their scale; returns the leading columns, and all of them."""
        if isinstance(rows, MixedRows):
            return self._assimilate_mixed(rows, learn_scale, seen)
        kept = self._belief() if self._may_overflow else None
        if self.scale is None:  # squares of rows that nobody has scaled may overflow
            self._refuse_overflow(kept, np.asarray(np.vdot(rows.full, rows.full)))
        belief = self._rule, self.mu, self.var, self.facts, self.var
        try:
            self.family.assimilate(tuple(rows), 0, tuple(seen), belief)
        except ZeroDivisionError:  # a variance was infinite
            seen.stats[:] = np.nan
        if kept is not None:
            self._refuse_overflow(kept, seen.stats)
        learn_scale()
        if self.leading.holds_all:
            return rows.full, rows
        return row_major(rows.take(self.leading.columns)), rows

    def _assimilate_mixed(
        self, rows: MixedRows, learn_scale: Callable[[], None], seen: Seen
    ) -> tuple[Floats, DenseRows | MixedRows]:
        """As :meth:`_assimilate`, from sparse rows: by what is known of the touched columns."""
        assert self.sparse is not None
        at, facts, total = rows.touched, self.facts.copy(), float(seen.weight.sum())
        mu, var = self.mu.take(at, axis=1), self.var.take(at, axis=1)
        np.minimum(var * self.sparse, self.prior, out=var)
        self._rule[NOW], seen_at = 0.0, np.zeros_like(mu)
        belief = self._rule, mu, var, facts, seen_at
        try:
            self.family.assimilate(tuple(rows), 0, tuple(seen), belief)
        except ZeroDivisionError:  # a variance was infinite
            seen.stats[:] = np.nan
        checked = mu, var, seen.stats, np.vdot(rows.data, rows.data)
        if self._may_overflow and not all(np.isfinite(part).all() for part in checked):
            raise ValueError(OVERFLOW)
        self._count_rows(total)
        var *= np.exp((seen_at - total) * math.log(self.gamma))
        np.minimum(var, self.prior, out=var)
        var /= self.sparse
        for k in range(self.n_rows):  # a row at a time: with two indices, it takes far longer
            self.mu[k][at], self.var[k][at] = mu[k], var[k]
        self.facts, self.touched = facts, at
        self._hold_unit()
        learn_scale()
        return row_major(rows.take(self.leading.columns)), rows

    def _belief(self) -> _Kept:
        """A copy of all that a loop over rows changes."""
        return self.mu.copy(), self.var.copy(), self.facts.copy()

    def _refuse_overflow(self, kept: _Kept | None, *parts: Floats) -> None:
        """ValueError if a number is not finite; then the belief is what was kept of it."""
        if not all(np.isfinite(part).all() for part in (self.mu, self.var, *parts)):
            assert kept is not None
            self.mu, self.var, self.facts = kept
            raise ValueError(OVERFLOW)

    def _count_rows(self, weight: float) -> None:
        """Let all variances grow by the weight of sparse rows."""
        assert self.sparse is not None
        self.sparse *= math.exp(min(-weight * math.log(self.gamma), 600.0))
        if self.sparse > _MOST_GROWN:
            self._write_variances()

    def _write_variances(self) -> None:
        """Write down by how much variances have grown."""
        if self.sparse is not None:
            self.var[:], self.sparse = self._variances(), 1.0

    def _hold_unit(self) -> None:
        """See to it that the unit of all coefficients does not run out of its range."""
        if self.unit.min() <= 1e-100 or self.unit.max() >= 1e100:
            self.mu *= self.unit[:, None]
            self.intercept_mean = self.intercept_mean * self.unit
            self.unit = np.ones(self.n_rows)

    def _means(self, columns: RowIndex = slice(None)) -> Floats:
        """The mean of the coefficients of some columns."""
        mu: Floats = self.mu[:, columns]
        return mu if self.sparse is None else mu * self.unit[:, None]

    def _variances(self, columns: RowIndex = slice(None)) -> Floats:
        """The variance of the coefficients of some columns, forgetting included."""
        var: Floats = self.var[:, columns]
        if self.sparse is None:
            return var
        return np.minimum(var * self.sparse, self.prior)

    def units(self) -> tuple[Floats, int] | None:
        """The units of the leading columns, and how many columns are full, of sparse rows."""
        units = self.units_of(self.leading.columns)
        return None if units is None else (units, len(self.mixed.columns))

    def express(self, before: tuple[Floats, int] | None, change: Floats | None = None) -> None:
        """Express the sums of the leading columns in the units of now.

        Units have changed since those before or, of dense rows, by what their scale says. The
        intercept of the belief takes up how the means of columns have moved.
        """
        scale, columns, mu = self.scaler.dense, self.leading.columns, self.mu
        if change is None:
            change, scale.change = scale.change, None
        moved = change
        if before is not None:
            moved, self.mixed.full.change = self.mixed.full.change, None
            change = self.mixed.change(columns, *before, moved)
            mu = self.mu[:, self.mixed.columns]
        elif change is not None and not self.leading.holds_all:
            change = np.take(change, columns, axis=1)
        if change is not None:
            moved = _STILL if moved is None or not self.fit_intercept else moved
            express(self.leading.sums, change, mu, moved, self.facts)

    def _lead_at_first(self, X: Matrix, seen: Seen) -> None:
        """Let those columns lead that go with the target in the first batch, each for itself."""
        weight = seen.weight / max(float(seen.weight.sum()), 1e-300)
        with np.errstate(all="ignore"):
            if isinstance(X, np.ndarray):
                finite = ~np.isnan(X)
                mean = np.sum(X, axis=0, where=finite) / np.maximum(finite.sum(axis=0), 1)
                known = np.where(finite, X - mean, 0.0)
            else:
                known = sp.csr_array((np.nan_to_num(X.data), X.indices, X.indptr), shape=X.shape)
            squares = weight @ (known * known)
            variance = squares - (weight @ known) ** 2
            target = seen.y - (seen.y @ weight)[:, None]
            scores = np.abs((weight * target) @ known).max(axis=0) / np.sqrt(variance)
        scores[~(variance > 1e-9 * squares)] = 0.0
        scores = self._present(self._of_groups(np.nan_to_num(scores)))
        self.leading.lead(top_k(scores, len(self.leading.columns)))

    def _present(self, scores: Floats) -> Floats:
        """Scores, below 0 for columns that are not there."""
        if self._absent_offset is None:
            return scores
        return np.where(self._absent_offset < 0.0, self._absent_offset, scores)

    def _find_leading(self) -> None:
        leading = self.leading
        if leading.is_due(float(self.evidence_rows.min())):
            scores = self._present(self._of_groups(self.scores()))

            def belief(columns: Ints) -> tuple[Floats, Floats]:
                return self._means(columns), self._variances(columns)

            leading.follow(scores, belief, self.prior)
            self.changes.inflation.follow(leading.columns)
            self._find_trust()

    def _find_trust(self) -> None:
        """Find out how much of what other columns add to predictions is more than chance.

        Of columns that do not matter, a belief has coefficients that are chance alone. What they
        add to predictions has nothing to do with the target: to take it off a row is to add noise.
        """
        squares, chance = self._total_sizes(self.leading.columns)
        self.leading.trust = np.maximum(1.0 - chance / np.maximum(squares, 1e-300), 0.0)

    def _total_sizes(self, left_out: Ints = NO_COLUMNS) -> Floats:
        """Sums over all columns but some: of squared means, and of how far chance may take these.

        Of many columns by a compiled loop, which needs no other arrays; that of a few would take
        longer to compile.
        """
        if self.n_features > _MANY:
            grown = 1.0 if self.sparse is None else self.sparse
            sizes = total_sizes(self.mu, self.var, grown, self.prior, left_out)
            sizes[0] *= 1.0 if self.sparse is None else self.unit**2
            return sizes
        sizes = np.stack([self._means() ** 2, self._chance()])
        sizes[:, :, left_out] = 0.0
        return np.asarray(sizes.sum(axis=2))

    def _of_groups(self, scores: Floats) -> Floats:
        """The best score in the group of each feature: groups lead as a whole, unless too large."""
        groups = self.groups
        if groups is None:
            return scores
        best = np.full(groups.max() + 1, -1.0)
        np.maximum.at(best, groups, scores)
        best[np.bincount(groups) > MOST] = -1.0
        return np.asarray(best[groups])

    # --- a batch in several shards ----------------------------------------------------------

    @property
    def noise(self) -> Floats:
        """The variance of the noise, for each row of parameters."""
        noise: Floats = self.facts[:, NOISE] / self.facts[:, NOISE_ROWS]
        return noise

    def coefficients(self) -> tuple[Floats, Floats]:
        """Means and variances of all coefficients, forgetting included."""
        return (
            np.column_stack([self._means(), self.intercept_mean * self.unit]),
            np.column_stack([self._variances(), self.intercept_var]),
        )

    def renew(self, theta: Floats, var: Floats) -> None:
        """Take another belief: see :meth:`coefficients`."""
        self.mu, self.var = theta[:, :-1].copy(), var[:, :-1].copy()
        if self.fit_intercept:
            self.intercept_mean, self.intercept_var = theta[:, -1], var[:, -1]
        self.unit = np.ones(self.n_rows)
        if self.sparse is not None:
            self.sparse = 1.0

    def end_rounds(
        self,
        sums: Floats | None,
        evidence: Floats,
        n_rows: float,
        touched: Places | None,
    ) -> None:
        """Do what comes after the belief has moved, as :meth:`step` does."""
        self.row_stats, self.touched = np.empty((self.n_rows, N_STATS, 0)), touched
        self._look_for_changes(sums, evidence, n_rows, self._means(self.leading.columns))

    # --- change -----------------------------------------------------------------------------

    def _look_for_changes(
        self, sums: Floats | None, evidence: Floats, n_rows: float, mean: Floats
    ) -> None:
        """After a batch: see what has moved, if predictions are watched."""
        self.leading.inflation = self.changes.inflation.pooled
        if sums is None:
            self.strengths, self.moved = [], {}
            return
        led = Led(self.leading.columns, mean, self.leading.sums)
        moves = self.changes.moved(evidence, n_rows, self.n_present, self.touched, led)
        self._react(moves, sums.tolist(), evidence)

    def _react(self, moves: list[Move], strengths: list[float], evidence: Floats) -> None:
        """Be less certain of what has moved, and raise alarms."""
        self.strengths, self.moved, alarm = [], {}, self.changes.alarm
        for move in moves if self.loosens else ():
            k, j = move[:2]
            if j < 0:
                self._loosen_shared(move)
                continue
            self._loosen(k, j, move.variance)
            # What moves in the first rows is still being learnt: no alarm.
            if move.excess > 0.0 and evidence[k] > 2.0 * alarm.warm_up:
                self.moved[j] = max(move.deviations, self.moved.get(j, 0.0))
        for row, strength in enumerate(strengths):
            if strength > alarm.limit:
                self.strengths.append(strength)
                self.forget_most(row)
                self.changes.restart(row)

    def _loosen(self, k: int, j: int, more: float) -> None:
        """Be less certain of a single coefficient."""
        leading = self.leading
        var = min(self._variances(slice(j, j + 1))[k, 0] + more, self.prior)
        self.var[k, j] = var if self.sparse is None else var / self.sparse
        for place in np.flatnonzero(leading.columns == j).tolist():
            leading.loosen(k, np.eye(1, len(leading.columns) + 1, place)[0], more)

    def _loosen_shared(self, move: Move) -> None:
        """Be less certain of the intercept, or of all coefficients together."""
        leading, k, more, own = self.leading, move.row, move.variance, move.place == INTERCEPT
        if own and not self.fit_intercept:
            return
        if own:
            self.intercept_var[k] = min(self.intercept_var[k] + more, self.own_prior)
            direction = np.zeros(len(leading.columns))
        else:
            # Of a rare class there are too few: the alarm is to say it. And the slope of
            # classes that are told without an error grows for ever, by itself.
            grows = move.size > 0.0 and self.changes.tests.information[k] < _TOLD
            if self.changes.level.share > 0.0 or grows:
                return
            direction = self._means(leading.columns)[k]
            self._stretch(k, min(max(1.0 + move.size, 0.8), 1.25))
        leading.loosen(k, np.append(direction, float(own)), more)

    def _stretch(self, row: int, factor: float) -> None:
        """Let all coefficients grow by a factor, the intercept apart."""
        if self.sparse is None:
            self.mu[row] *= factor
        else:
            self.unit[row] *= factor
            self.intercept_mean[row] /= factor

    def forget_most(self, row: int | None = None) -> None:
        """Let all evidence so far count as that of 50 rows, as after an alarm."""
        for one in range(self.n_rows) if row is None else [row]:
            seen = max(float(self.evidence_rows[one]), 2.0 * KEPT_ROWS)
            self.forget(KEPT_ROWS / seen, one)

    def forget(self, keep: float, row: int | slice = slice(None)) -> None:
        """Let all evidence so far count as a share of itself; the intercept is kept.

        It is the likelihood to a power, with the prior untouched.
        """
        self._write_variances()
        var = 1.0 / (keep / self.var[row] + (1.0 - keep) / self.prior)
        self.mu[row] *= var * keep / self.var[row]
        self.var[row] = var
        self.intercept_var[row] = np.maximum(self.intercept_var[row], 0.1 * self.own_prior)
        self.facts[row, :2] = 0.0
        self.evidence_rows[row] *= keep
        self.leading.forget(row, keep)

    def restart_features(self, columns: Places) -> None:
        """Forget some features, which are at the prior then, and of dense rows their scale."""
        before = self._drawn_out()
        self.mu[:, columns], self.var[:, columns] = 0.0, self.prior
        if self.mixed.n_features:
            self.mixed.restart(columns)
        self.leading.restart(columns)
        self.leading.pull *= self._drawn_out() / before
        self.changes.tests.restart_features(columns)
        if isinstance(scale := self.scaler.dense, Standard) and scale.ready:
            scale.restart(columns)

    # --- columns that come and go -----------------------------------------------------------

    def remember(self, rate: float) -> None:
        """From here on, let the evidence fade by exp(-rate) from row to row."""
        self._write_variances()
        self.gamma = self._rule[GAMMA] = math.exp(-rate)

    def count_columns(self, n_present: int) -> None:
        """Know how many columns are there, if fewer than there is room for."""
        self.n_present = n_present
        self.prior = (1.0 if self.family.kind == "numbers" else 3.0) / max(n_present, 10)
        self.changes.alarm.warm_up = max(500.0, 2.0 * n_present)  # rows without an alarm
        # The settings of a loop over rows: see fires.kernels.assimilate.
        after = 2.0 * n_present if self.stretches else math.inf
        noisy = float(self.family.noise > 0.0)
        self._rule = np.array([self.gamma, self.prior, self.own_prior, noisy, after, 0.0])

    def attend(self, resting: Mask, never: Mask, arrived: Places) -> None:
        """Know which columns are there, before a step. Without this, all are.

        All that depends on the number of columns depends on those that are there, and one that was
        never there is at the prior. So it does not matter how wide an array is.
        """
        self.count_columns(self.n_features - int(np.count_nonzero(resting)))
        self._absent_offset = -(resting.astype(np.float64) + never)
        self._n_seen = self.n_features - int(np.count_nonzero(never))
        fresh = never.copy()
        fresh[arrived] = True
        self.mu[:, fresh], self.var[:, fresh] = 0.0, self.prior
        if len(arrived):
            self.leading.welcome(arrived, alone=not self.evidence_rows.any())

    def rearranged(self, source: Places) -> Self:
        """A copy for other columns; new ones are at the prior."""
        other = copy.copy(self)
        new, n = source < 0, len(source)
        other.n_features = n
        # By take, they stay in C order: no other loops are compiled for them.
        other.mu, other.var = self.mu.take(source, axis=1), self.var.take(source, axis=1)
        other.mu[:, new], other.var[:, new] = 0.0, self.prior
        other.mixed = self.mixed.rearranged(source) if self.mixed.n_features else Mixed(0)
        other.scaler = self.scaler.rearranged(source)
        other.leading = self.leading.rearranged(source)
        other.changes = self.changes.rearranged(source)
        other._absent_offset, other.touched = None, None
        other._n_seen = n
        return other

    # --- classes and storage ----------------------------------------------------------------

    def with_classes(self, before: Labels, after: Labels) -> Self:
        """A copy for more classes. See :class:`fires.models.base.Learner`."""
        sources = class_rows(before, after)
        rows, old, signs = kept_rows(sources)
        other = copy.copy(self)
        other._begin(len(sources))
        other.leading.welcome(self.leading.columns, alone=True)
        other.mu[rows], other.var[rows] = signs[:, None] * self.mu[old], self.var[old]
        other.facts[rows], other.evidence_rows[rows] = self.facts[old], self.evidence_rows[old]
        other.facts[rows, INTERCEPT_MEAN] *= signs
        other.leading.sums[rows] = self.leading.sums[old]
        other.leading.sums[rows[:, None], [-3, -1]] *= signs[:, None, None]  # the pulls
        other.leading.trust[rows] = self.leading.trust[old]
        other.changes = self.changes.with_rows(len(sources), rows, old, signs)
        assert isinstance(self.target, ClassTarget)
        other.target = self.target.with_rows(sources)
        return other

    def ready_for_sparse(self) -> BayesLearner:
        """The first batch decides between dense and sparse rows for all later ones."""
        if self.sparse is not None or self.evidence_rows.any():
            return self
        other = copy.copy(self)
        other._expect_sparse()
        return other

    def _expect_sparse(self) -> None:
        self.sparse = 1.0
        if self.scale == "standard":
            self.mixed, self.scaler = Mixed(self.n_features), Scaler(self.scale, 0)

    # --- the belief -------------------------------------------------------------------------

    def scores(self, columns: RowIndex = slice(None)) -> Floats:
        """How much features matter, each for itself; greater for better."""
        mu = np.abs(self._means(columns))
        if self.n_rows == 1:
            one: Floats = mu[0]
            return one
        return np.asarray(np.maximum(mu - self._spread(columns), 0.0).max(axis=0))

    def _spread(self, columns: RowIndex = slice(None)) -> Floats:
        """The standard deviation of the means over other streams of the same kind."""
        return np.sqrt(self._chance(columns))

    def _chance(self, columns: RowIndex = slice(None)) -> Floats:
        """The variance of the means over other streams of the same kind."""
        var = self._variances(columns)
        return var * np.maximum(1.0 - var / self.prior, 0.0)

    def ranked(self, columns: Places) -> tuple[Floats, Floats]:
        """Importances of features, and how far chance may take each for itself.

        The deviations count the more, the more is known.
        """
        mu, var, leading = self._means(columns).copy(), self._variances(columns), self.leading
        place, leads = find_places(leading.columns, columns)
        mu[:, leads] = (leading.means() / self._drawn_out())[:, place[leads]]
        deviations = np.sqrt(var) * np.maximum(1.0 - var / self.prior, 0.0) ** 0.25
        leader = self._leader(columns)
        return _pick(mu, leader), _pick(deviations, leader)

    def _drawn_out(self) -> Floats:
        """By how much the leading coefficients are too large.

        What a row said was read off at the prediction of its time, which was off by chance, with
        variance v. For a class, that makes all coefficients too large: by v / 3, as measured; by
        half as much where what other columns add is not taken off rows.
        """
        wide = self.family.start_width * self._total_sizes()[1]
        wide /= 6.0 - 3.0 * self.leading.trust
        return np.asarray(1.0 + wide[:, None])

    def features(self) -> Belief:
        """Posterior mean and standard deviation. See :class:`fires.models.base.Learner`.

        With three or more classes, those of the class for which the feature matters most.
        """
        mu, sigma = self.by_class()
        leader = self._leader()
        return Belief(_pick(mu, leader), _pick(sigma, leader))

    def by_class(self) -> tuple[Floats, Floats]:
        """Posterior mean and standard deviation of every row of parameters."""
        mu, var, inflation = self._means().copy(), self._variances(), self.leading.inflation
        seen = (1.0 / var - 1.0 / self.prior) / inflation[:, None]
        sigma = 1.0 / np.sqrt(seen + 1.0 / self.prior)
        known, mean, covariance = self.leading_posterior()
        mu[:, known] = mean
        sigma[:, known] = np.sqrt(np.maximum(np.einsum("kii->ki", covariance), 0.0))
        return mu, sigma

    def leading_systems(self) -> tuple[Ints, Floats, Floats]:
        """See :class:`fires.models.base.JointPosterior`."""
        leading = self.leading
        # Where columns take turns to lead, much is known of them from before.
        seen = leading.seen() if self._all_lead else np.ones(len(leading.columns))
        return leading.columns, seen, leading.systems()

    def leading_posterior(self) -> tuple[Ints, Floats, Floats]:
        """What is known of the leading features, together."""
        columns = self.leading.columns
        mean, covariance = self.leading.posterior()
        mean = mean / self._drawn_out()
        lag = self.changes.tests.lag(self.leading.inflation)
        return columns, mean, covariance + np.einsum("k,ki,kj->kij", lag, mean, mean)

    def units_of(self, columns: Places) -> Floats | None:
        """See :class:`fires.models.base.JointPosterior`."""
        if self.sparse is None or self.scale != "standard":
            return None
        return self.mixed.units(np.asarray(columns))

    def predicted(self, X: Matrix, *, surely: bool = True) -> tuple[Floats, Floats]:
        """Mean and variance of the linear predictor of scaled rows, for each row of parameters.

        The leading coefficients are known together, with the prior that all others have. Where it
        does not matter how sure that is, variances are 0, and it is sooner done.
        """
        places, leads = self.leading.columns, np.arange(len(self.leading.columns) + 1)
        touched: RowIndex = slice(None)
        rows = X
        if not isinstance(X, np.ndarray):
            touched, local = np.unique(X.indices, return_inverse=True)
            rows = sp.csr_array((X.data, local, X.indptr), shape=(X.shape[0], len(touched)))
            places, known = find_places(touched, places)
            places, leads = places[known], leads[np.append(known, True)]
        mean, covariance = self._together(surely=surely)
        mu = self._means(touched).copy()
        mu[:, places] = mean[:, leads[:-1]]
        a = (rows @ mu.T).T + mean[:, -1:]
        if covariance is None:
            return a, np.zeros_like(a)
        var = self._variances(touched).copy()
        var[:, places] = 0.0
        if isinstance(rows, np.ndarray):
            v, led = (rows * rows @ var.T).T, rows[:, places]
        else:
            v, led = (rows.multiply(rows) @ var.T).T, rows[:, places].toarray()
        led = np.column_stack([led, np.ones(len(led))])
        with one_thread(len(leads)):
            for k, own in enumerate(covariance[:, leads[:, None], leads]):
                v[k] += np.einsum("bi,bi->b", led @ own, led)
        return a, v

    def _together(self, *, surely: bool) -> tuple[Floats, Floats | None]:
        """Mean of the leading coefficients, the intercept last, and their covariance, if wanted."""
        leading, phi = self.leading, self.inflation[:, None]
        precision, pull = leading.information / phi[:, :, None], (leading.pull / phi)[:, :, None]
        prior = np.full(len(leading.columns) + 1, self.prior)
        prior[-1] = max(self.own_prior, 1e-12)
        np.einsum("kii->ki", precision)[:] += 1.0 / prior
        with one_thread(len(prior)):
            if not surely:
                try:
                    return np.asarray(np.linalg.solve(precision, pull)[:, :, 0], np.float64), None
                except np.linalg.LinAlgError:  # see inverted
                    pass
            covariance = inverted(precision)
        return (covariance @ pull)[:, :, 0], covariance

    def _leader(self, columns: RowIndex = slice(None)) -> Places | None:
        """The row of parameters that each feature matters most for."""
        if self.n_rows == 1:
            return None
        sure = np.abs(self._means(columns)) - self._spread(columns)
        leader = sure.argmax(axis=0)
        everyone = np.arange(self.n_features)[columns]
        place, leads = find_places(self.leading.columns, everyone)
        settled = np.where(leads, self.leading.classes[place], -1) if len(place) else leader
        return np.where(settled >= 0, settled, leader)

    def settle_classes(self) -> None:
        """Note which class leading features matter most for; another one must be so for sure."""
        leading = self.leading
        if self.n_rows == 1:
            return
        mean, spread = np.abs(self._means(leading.columns)), self._spread(leading.columns)
        best = (mean - spread).argmax(axis=0)
        at, old = np.arange(len(best)), np.maximum(leading.classes, 0)
        bond = _FLIP * np.sqrt(spread[best, at] ** 2 + spread[old, at] ** 2)
        stays = (leading.classes >= 0) & (mean[best, at] - mean[old, at] < bond)
        leading.classes = np.where(stays, old, best)

    def state(self) -> Arrays:
        """See :class:`fires.models.base.Learner`."""
        _, arrays = collect(self, self.learnt)
        arrays |= self.changes.state()
        arrays |= under("leading", collect(self.leading, CovarianceBlock.learnt)[1])
        arrays |= under("target", self.target.state())
        if self.scaler.n_features:
            arrays |= self.scaler.state()
        if self.sparse is not None:
            rows = {"unit": self.unit.copy(), "grown": np.array(self.sparse)}
            arrays |= under("rows", rows)
            arrays |= under("mixed", self.mixed.state()) if self.mixed.n_features else {}
        return arrays

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_buffer": np.empty((0, 0))}

    def restore(self, arrays: Arrays) -> None:
        """See :class:`fires.models.base.Learner`."""
        size = min(np.size(arrays.get("leading.columns", self.leading.columns)), MOST)
        sizes = {"J": self.n_features, "R": self.n_rows, "C": size, "C1": size + 1}
        restore(self, self.learnt, {}, arrays, sizes)
        if not self.facts[:, NOISE_ROWS].all():
            raise StateError("facts holds no rows for the noise")
        self.changes.restore(arrays, sizes)
        self.leading.inflation = self.changes.inflation.pooled
        self.leading.lead(np.arange(size))
        restore(self.leading, CovarianceBlock.learnt, {}, part_of("leading", arrays), sizes)
        if not self.leading.learnable:  # in older files, all that is left of it
            self.leading.learnable = max(float(self.leading.information[:, -1, -1].sum()), 0.0)
        self.target.restore(part_of("target", arrays))
        if rows := part_of("rows", arrays):
            found = SimpleNamespace(grown=1.0, seen_at=None)
            restore(found, _SPARSE, {}, rows, sizes)
            self._expect_sparse()
            self.unit, self.sparse = found.unit, float(found.grown)
            if found.seen_at is not None:  # no prior is above 1
                grown = self.var * self.gamma ** (found.seen_at - found.now)
                self.var = np.minimum(grown, 1.0)
        if self.mixed.n_features:
            self.mixed.restore(part_of("mixed", arrays))
        else:
            self.scaler.restore(arrays)


def _pick(rows: Floats, leader: Places | None) -> Floats:
    """The entry of each feature's leading row."""
    if leader is None:
        one: Floats = rows[0]
        return one
    picked: Floats = np.take_along_axis(rows, leader[None], axis=0)[0]
    return picked
