"""A linear model that learns in place: what FIRES runs for its built-in families.

:class:`fires.models.linear.Linear` defines the gradient. Here the same step changes arrays in
place. The scale of a sparse batch is folded into the coefficients: the batch costs what its entries
cost, however many features there are.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import lru_cache
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.batch import CheckedBatch, nothing, ones, row_major
from fires.core.belief import Belief
from fires.core.classes import class_rows
from fires.core.declared import Array, Declared, collect, restore
from fires.core.errors import OVERFLOW
from fires.core.state import Arrays, part_of, under
from fires.core.types import Floats, Ints, Labels, Matrix, Places
from fires.kernels import oriented, project
from fires.kernels.at_once import admit
from fires.kernels.gradient import TOO_LONG, Coefficients, Pace, Start, find_heavy, weigh
from fires.kernels.gradient import move as move_in_place
from fires.kernels.linear import NO_COLUMNS
from fires.kernels.select import top_k, union
from fires.models.base import Learner, Rates, kept_rows
from fires.models.families import FAMILIES
from fires.models.linear import over_classes
from fires.models.scale import Scaler
from fires.models.sparse_scale import ColumnSums, SparseScale, Touched
from fires.models.target import (
    ClassTarget,
    start,
    surprise_of_classes,
    surprise_of_numbers,
    target_of,
)

# The share of itself that sigma may lose or gain in one step; usual steps change a thousandth.
_CAPPED = (-0.5, 1.0)
_AS_PUBLISHED = (-1.0, np.inf)  # the paper clips sigma at 0 and nowhere else
_MANY, _MAX_K = 50_000, 200  # the fewest columns, and the most wanted, of a search
_LATER = 16  # batches for which a search is to hold
_PART = 1 << 16  # columns that are searched at a time


_NO_COUNTS = np.empty(0)  # of labels


class BatchFacts(NamedTuple):
    """What a step knows of the rows besides X."""

    weight: Floats
    is_weighted: bool
    total: float
    target: Floats  # one row per row of parameters
    level: Floats  # where predictions start from, per row of parameters


class SparseTerms(NamedTuple):
    """What a step knows of the columns that sparse rows touch; names are those of the docstring."""

    pace: float
    gain: Floats
    pull: Floats
    kept: Floats  # u
    sigma: Floats
    pulled: Floats
    pull_squares: float


class Heavy(NamedTuple):
    """Columns that may be among those of the greatest weights, for as long as this holds."""

    asked: tuple[int, float, float]  # how many are wanted, and what weights are made with
    columns: Ints  # sorted
    limit: float  # all others that have not moved since are at most as heavy
    middle: float  # as long as the drift is not
    radius: float  # farther away from there

    def holds(self, asked: tuple[int, float, float], drift: float) -> bool:
        """Whether it holds for what is asked now."""
        return self.asked == asked and abs(drift - self.middle) <= self.radius


class StepSums(NamedTuple):
    """What a step is taken by: sums over rows, so those of shards add up."""

    p: Floats  # of slopes in a times x
    q: Floats  # of slopes in v times squared x
    own: Floats  # of slopes in a and v
    gaps: Floats | None = None  # of slopes in a over missing entries of sparse columns


class LinearLearner(Learner):
    r"""Beliefs of a linear model, moved by one step per batch.

    **Dense.** The step is taken on the rows that the scaler returns, and then the scale is learnt.

    **Sparse.** x is scaled but never shifted, which would fill it. Instead the gradient is centred,
    :math:`g_{\mu_j} = (X^\top c)_j - m_j \sum_b c_b`, and so is the prediction,
    :math:`a_b = \mu^\top x_b - \mu^\top m`. The centred gradient also moves columns that the batch
    does not touch: each by its pull times one common number. So ``mu`` stores
    :math:`u_j = \mu_j + \text{pull}_j A`, where A is the running sum of that number, and
    :math:`\mu_j = u_j - \text{pull}_j A` is computed exactly when it is needed. The centre of the
    prediction is
    :math:`\mu^\top m = \text{pace} (\sum_j u_j \text{pull}_j - A \sum_j \text{pull}_j^2)`, and only
    touched columns change these two sums.

    **Level.** At the paper's rate, an intercept needs thousands of batches to learn that one row
    in a hundred is positive. Until then all rows pull in one direction, rows with a small v most,
    and features that go with v get weights for the wrong reason. So, on scaled data with an
    intercept, predictions start from the running share of the class (or mean of the counts),
    :math:`a_b + \Phi^{-1}(\text{share}) \sqrt{1 + v_b}`, and the intercept learns the difference.

    **Step cap**, on scaled data only. If the step of a row would carry its own prediction past the
    optimum, it is shortened to reach just the optimum,
    :math:`\alpha h_b \lVert x_b \rVert^2 \le 1` with
    :math:`h = -\partial^2 \log Z / \partial a^2`. And sigma is at most halved or doubled in one
    step. Usual steps are far from both limits, and are exactly the paper's. So an outlier cannot
    destroy the belief, and sigma cannot be clipped to 0, which it would never leave.
    """

    takes_shards = True
    learnt: ClassVar[Declared] = {
        "mu": Array("R", "J"),
        "sigma": Array("R", "J", low=0.0),
        "drift": Array("R"),
        "pulled": Array("R"),
        "pull_squares": Array(),
        "noise": Array(low=0.0),
        "least_sigma": Array(low=0.0),
        "intercept_mean": Array("R", key="intercept.mu"),
        "intercept_sigma": Array("R", low=0.0, key="intercept.sigma"),
    }

    def __init__(
        self,
        family: str,
        n_features: int,
        n_classes: int,
        *,
        fit_intercept: bool,
        scale: str | None,
        mu_init: npt.ArrayLike = 0.0,
        sigma_init: npt.ArrayLike = 1.0,
    ) -> None:
        self.family, self.fit_intercept, self.scale = FAMILIES[family], fit_intercept, scale
        self.n_features = n_features
        self.init = (mu_init, sigma_init)
        self.in_sparse_terms, self.scaler = False, Scaler(scale, n_features)
        n_rows = n_classes if n_classes > 2 else 1
        self._begin(n_rows)
        self.noise = self.family.noise
        scaled = scale is not None
        published = not scaled and self.family.kind == "classes"
        self._sigma_change = _AS_PUBLISHED if published else _CAPPED
        levelled = scaled and fit_intercept
        self.target = target_of(self.family, self.n_rows, scaled=scaled, levelled=levelled)

    def _begin(self, n_rows: int) -> None:
        """Know nothing, with this many rows of parameters: one, or one per class."""
        self.n_rows = n_rows
        self.mu, self.sigma = (np.empty((n_rows, self.n_features)) for _ in range(2))
        self.mu[:], self.sigma[:] = self.init
        self._features = Belief(self.mu[0], self.sigma[0])  # views, which steps move
        self._room = np.empty((2, 0, 0))  # for the sums of a dense step
        # The intercept starts at mean 0 and standard deviation 1, whatever the features do.
        self.intercept_mean, self.intercept_sigma = np.zeros(n_rows), np.ones(n_rows)
        self.drift = np.zeros(n_rows)  # A of the docstring
        self._pace = 0.0  # by which it has moved in the last step
        # What sparse rows have moved since the heaviest columns were asked for; None for all.
        self._moved: tuple[Ints, ...] | None = None
        self._heavy: Heavy | None = None
        self.pulled, self.pull_squares = np.zeros(n_rows), 0.0  # the sum of u_j pull_j
        self.refresh()

    def refresh(self) -> None:
        """Compute what follows from the belief and the scale, where they have changed at once."""
        self._moved, self._heavy = None, None
        self.least_sigma = float(self.sigma.min())  # a lower bound, not always the minimum
        if self.in_sparse_terms and self.scaler.sparse.ready:
            pulls = self.scaler.sparse.pulls  # that of a feature never seen is 0
            self.pulled, self.pull_squares = self.mu @ pulls, float(pulls @ pulls)

    # --- learning ---------------------------------------------------------------------------

    def step(self, batch: CheckedBatch, y: Labels, rates: Rates) -> None:
        """Learn from one batch. On an error, nothing changes."""
        rows = self._look(batch, y)
        if self._is_sparse(batch.X):
            # Overflow is found later, when the sums are checked, before anything is changed.
            with np.errstate(all="ignore"):
                self._step_sparse(batch, rows, rates)
        else:
            self._step_dense(batch, rows, rates)
        self.target.count(y, rows.weight)

    def step_at_once(self, X: Floats, y: Labels, low: float, high: float, rates: Rates) -> bool:
        """See :class:`fires.models.base.Learner`."""
        is_plain = self.scale is None and not self.in_sparse_terms and self.n_rows == 1
        if not is_plain or self.family.gradient.step is None or self.family.kind != "classes":
            return False
        n_rows, rows, target = len(X), row_major(X), np.empty((1, len(X)))
        n_high = admit(rows, (y.astype(np.float64), low, high, _NO_COUNTS), target)
        if n_high < 0.0:
            return False
        facts = BatchFacts(ones(n_rows), False, float(n_rows), target, _zeros(1))
        least = self._step_compiled(rows, facts, rates)
        if not least >= 0.0:  # the general way finds out why
            return False
        self._moved, self.least_sigma = None, least
        assert isinstance(self.target, ClassTarget)
        self.target.class_weight[0] += n_rows - n_high
        self.target.class_weight[1] += n_high
        return True

    @property
    def takes_sparse(self) -> bool:
        """Whether sparse rows need not be made dense; see :meth:`ready_for_sparse`."""
        return self.in_sparse_terms or self.scale is None

    def _is_sparse(self, X: Matrix) -> bool:
        """Whether rows are learnt from as sparse ones."""
        return self.in_sparse_terms or not (self.scale or isinstance(X, np.ndarray))

    def _look(self, batch: CheckedBatch, y: Labels) -> BatchFacts:
        n, is_weighted = batch.n_rows, batch.weight is not None
        weight = ones(n) if batch.weight is None else batch.weight
        total = float(weight.sum()) if is_weighted else float(n)
        target, level = self.target.look(y, weight)
        level = _zeros(self.n_rows) if level is None else level
        return BatchFacts(weight, is_weighted, total, target, level)

    def _scaled(self, batch: CheckedBatch, weight: Floats) -> tuple[Floats, Callable[[], None]]:
        """Dense rows on their scale, and what learns the scale."""
        X = batch.X if isinstance(batch.X, np.ndarray) else batch.X.toarray()
        if batch.scale is not None and batch.scale == self.scale:
            return X, nothing
        return self.scaler.dense.scaled(X, weight, batch.n_missing > 0)

    def _step_dense(self, batch: CheckedBatch, rows: BatchFacts, rates: Rates) -> None:
        self._moved = None
        X, learn_scale = self._scaled(batch, rows.weight)
        least = TOO_LONG
        if self.family.gradient.step is not None and X.flags.c_contiguous:
            least = self._step_compiled(row_major(X), rows, rates)
        if least == TOO_LONG:  # a row is to be shortened, or there is no compiled step
            sums = self.dense_sums(X, rows, rates, room=self._room_now())[0]
            self.take_dense(sums, rates.shared(rows.total))
        else:
            self._settle(least)
        learn_scale()
        self.scaler.follow(batch.scale, batch.change)

    def _step_compiled(self, X: Floats, rows: BatchFacts, rates: Rates) -> float:
        """A step by one compiled call: the least sigma, NaN on overflow, or TOO_LONG."""
        start, step = self._start(rows), self.family.gradient.step
        assert step is not None
        least: float = step(
            *(X, rows.target, rows.weight, rows.is_weighted),
            (self.mu, self.sigma, self.intercept_mean, self.intercept_sigma),
            *(ones(self.n_features), self.fit_intercept, tuple(start)),
            np.inf if self.scale is None else start.least / rates.mu,
            rates.shared(rows.total) + self._sigma_change,
            self._room_now(),
        )
        return least

    def _room_now(self) -> Floats:
        """Room for the sums of a step."""
        if self._room.shape[1:] != self.mu.shape:
            self._room = np.empty((2, *self.mu.shape))
        return self._room

    def _start(self, rows: BatchFacts) -> Start:
        """What predictions start from."""
        none = _zeros(self.n_rows)
        own = (self.intercept_mean, self.intercept_sigma) if self.fit_intercept else (none, none)
        least = self.least_sigma * self.least_sigma
        return Start(*own, self.noise, rows.level, self.family.start_width, least)

    def dense_sums(
        self,
        X: Floats,
        rows: BatchFacts,
        rates: Rates,
        *,
        watched: bool = False,
        room: Floats | None = None,
    ) -> tuple[StepSums, tuple[float, float]]:
        """The sums over dense rows that a step is taken by, and how surprising the rows are."""
        view, project_into, accumulate_into = oriented(X)
        a, v = np.empty((2, self.n_rows, len(rows.weight)))
        p, q = np.empty((2, *self.mu.shape)) if room is None else room
        project_into(view, self.mu, np.square(self.sigma, out=q), a, v)
        surprise = self.surprise_of(a, v, rows) if watched else (0.0, 0.0)

        def norms() -> Floats:
            every = ones(self.n_features)[None, :]
            return project(X, every, every)[1]

        c, d = pulls = self.pulls(a, v, rows, rates, norms, self.n_rows)
        accumulate_into(view, c, d, p, q)
        return StepSums(p, q, np.add.reduce(pulls, axis=2)), surprise

    def take_dense(self, sums: StepSums, share: tuple[float, float]) -> None:
        """Take the step that sums over dense rows call for."""
        self._moved = None
        self._settle(self._move(self.mu, self.sigma, sums, ones(self.n_features), share))

    def _settle(self, least: float) -> None:
        """Know the least sigma after a step; ValueError if it would have overflowed."""
        if least != least:
            raise ValueError(OVERFLOW)
        self.least_sigma = least

    def _step_sparse(self, batch: CheckedBatch, rows: BatchFacts, rates: Rates) -> None:
        X = batch.X if sp.issparse(batch.X) else sp.csr_array(batch.X)
        touched = Touched(X, rows.weight, batch.n_missing > 0)
        half = self.scaler.sparse
        first = not half.ready
        if first:
            half = SparseScale.begun(self.scale, self.n_features, touched.own_sums(self.scale))
        terms = self.sparse_terms(touched.columns, half, first)
        learns = half.kind is not None and not first
        sums = self.sparse_sums(touched, terms, rows, rates, self.n_rows + learns)
        seen = touched.sums(half.kind, sums.p[-1], sums.q[-1]) if learns else None
        self.take_sparse(touched.columns, seen, half, terms, sums, rates.shared(rows.total))

    def sparse_terms(self, columns: Ints, half: SparseScale, first: bool) -> SparseTerms:
        """What a step on sparse rows needs to know of the columns they touch."""
        gain, pull = half.gain(columns), half.pull(columns)
        kept, sigma = self.mu.take(columns, axis=1), self.sigma.take(columns, axis=1)
        pulled, pull_squares = self.pulled, self.pull_squares
        if first:
            pulled, pull_squares = kept @ pull, float(pull @ pull)
        return SparseTerms(half.pace, gain, pull, kept, sigma, pulled, pull_squares)

    def sparse_sums(
        self, touched: Touched, terms: SparseTerms, rows: BatchFacts, rates: Rates, n_sums: int
    ) -> StepSums:
        """The sums over sparse rows that a step is taken by; one row more is for the scale."""
        pace, gain, pull, kept, sigma, pulled, pull_squares = terms
        mu = kept - pull * self.drift[:, None]
        a, v = touched.project(mu * gain, (sigma * gain) ** 2)
        a -= pace * (pulled - self.drift * pull_squares)[:, None]
        # A missing entry counts as the centre of its column, so its centring is undone.
        gap_rows, gaps = touched.gaps()
        if touched.missing:
            _add_at(a, gap_rows, mu[:, gaps] * (pace * pull[gaps]))

        def norms() -> Floats:
            square = (gain**2)[None, :]
            return touched.project(square, square)[1]

        c, d = pulls = self.pulls(a, v, rows, rates, norms, n_sums)
        own = np.add.reduce(pulls[:, : self.n_rows], axis=2)
        missed = None
        if touched.missing:
            missed = np.zeros_like(mu)
            _add_at(missed, gaps, c[: self.n_rows, gap_rows])
        return StepSums(*touched.accumulate(c, d), own, missed)

    def take_sparse(
        self,
        columns: Ints,
        seen: ColumnSums | None,
        half: SparseScale,
        terms: SparseTerms,
        sums: StepSums,
        share: tuple[float, float],
    ) -> None:
        """Take the step that sums over sparse rows call for, and let the scale learn."""
        pace, gain, pull, kept, sigma, pulled, pull_squares = terms
        drift = self.drift + share[0] * pace * sums.own[0]
        mu = kept - pull * drift[:, None]
        if sums.gaps is not None:
            mu += share[0] * sums.gaps * (pace * pull)
        # Where rows are standardised, the sums of the scale are checked, too.
        n = self.n_rows + (half.kind == "standard" and seen is not None)
        checked = StepSums(sums.p[:n], sums.q[:n], sums.own)
        before = self.least_sigma
        self._settle(self._move(mu, sigma, checked, gain, share))
        self._pace = float(np.abs(drift - self.drift).max())
        self.drift, self.least_sigma = drift, min(self.least_sigma, before)
        if self._moved is not None:
            self._moved = (*self._moved, columns) if len(self._moved) < _LATER else None
        self.scaler.adopt(half)
        if seen is not None:
            half.absorb(seen)
        new_pull = half.pull(columns)
        mu += new_pull * drift[:, None]
        for k in range(self.n_rows):  # a row at a time: with two indices, it takes far longer
            self.mu[k][columns], self.sigma[k][columns] = mu[k], sigma[k]
        self.pulled = pulled + mu @ new_pull - kept @ pull
        self.pull_squares = pull_squares + float(new_pull @ new_pull - pull @ pull)

    def pulls(
        self,
        a: Floats,
        v: Floats,
        rows: BatchFacts,
        rates: Rates,
        norms: Callable[[], Floats],
        n_sums: int,
    ) -> Floats:
        """Each row's weighted slopes in a and v, shortened by the step cap.

        If there is one more row of sums, for the scale, it gets the weights.
        """
        bend, n_rows, start = np.empty_like(a), self.n_rows, self._start(rows)
        c, d = pulls = np.empty((2, n_sums, a.shape[1]))
        pulls[:, n_rows:] = rows.weight
        # v bounds the norm of a row from above. Mostly that shows already that no cap is needed.
        greatest = self.family.gradient.rows(a, v, rows.target, start, c, d, bend)
        factor: Floats | None = rows.weight if rows.is_weighted else None
        if self.scale is not None and rates.mu * greatest > start.least:
            with np.errstate(all="ignore"):
                overshoot = rates.mu * np.maximum(bend, 0.0) * (norms() + self.fit_intercept)
                factor = rows.weight / np.maximum(overshoot, 1.0)
        if factor is not None:
            pulls[:, :n_rows] *= factor
        return pulls

    def _move(
        self, mu: Floats, sigma: Floats, sums: StepSums, gain: Floats, share: tuple[float, float]
    ) -> float:
        """Take the step that sums over rows call for."""
        c, d = sums.own[:, :, None]
        moved = Coefficients(mu, sigma, self.intercept_mean, self.intercept_sigma)
        pace = Pace(*share, *self._sigma_change)
        least = move_in_place(moved, sums.p, sums.q, gain, c, d, self.fit_intercept, pace)
        if self.noise and least == least:
            # The logarithm moves, so that the noise stays positive, by at most a factor e.
            growth = share[0] * self.noise * float(d.sum())
            self.noise *= math.exp(min(max(growth, -1.0), 1.0))
        return least

    # --- classes ----------------------------------------------------------------------------

    def with_classes(self, before: Labels, after: Labels) -> LinearLearner:
        """A copy for more classes. See :class:`fires.models.base.Learner`.

        Each row of parameters is an old row times a sign, or a new start.
        """
        sources = class_rows(before, after)
        rows, old, signs = kept_rows(sources)
        other = copy.copy(self)
        other._begin(len(sources))
        other.mu[rows], other.sigma[rows] = signs[:, None] * self.mu[old], self.sigma[old]
        other.drift[rows] = signs * self.drift[old]
        other.intercept_mean[rows] = signs * self.intercept_mean[old]
        other.intercept_sigma[rows] = self.intercept_sigma[old]
        assert isinstance(self.target, ClassTarget)
        other.target = self.target.with_rows(sources)
        other.refresh()
        return other

    def ready_for_sparse(self) -> LinearLearner:
        """On a scale the first batch decides between dense and sparse rows for all later ones."""
        if self.takes_sparse or self.scaler.dense.ready:
            return self
        other = copy.copy(self)
        other.in_sparse_terms = True
        return other

    # --- drift ------------------------------------------------------------------------------

    def surprise(self, batch: CheckedBatch, y: Labels) -> tuple[float, float]:
        """How much worse a batch is predicted than expected. Nothing is learnt."""
        if self._is_sparse(batch.X):
            raise ValueError(
                "With the gradient update, alarms need dense rows; use update='bayes'."
            )
        rows = self._look(batch, y)
        Z, _ = self._scaled(batch, rows.weight)
        return self.surprise_of(*project(Z, self.mu, self.sigma**2), rows)

    def surprise_of(self, a: Floats, v: Floats, rows: BatchFacts) -> tuple[float, float]:
        """How much worse rows are predicted than expected."""
        v = v + self.noise
        if self.fit_intercept:
            a, v = a + self.intercept_mean[:, None], v + self.intercept_sigma[:, None] ** 2
        a = a + start(self.family.start_width, rows.level[:, None], v)[0]
        if self.family.kind == "numbers":
            return surprise_of_numbers(((rows.target - a) ** 2 / v)[0], rows.weight)
        if self.family.kind == "counts":
            # Counts of a rate with a spread of its own: their mean and variance.
            mean = np.exp(np.minimum(a + 0.5 * v, 50.0))
            variance = mean + mean**2 * np.expm1(np.minimum(v, 50.0))
            return surprise_of_numbers(((rows.target - mean) ** 2 / variance)[0], rows.weight)
        p = np.exp(self.family.scores(a, v, 1.0)[0])
        sums = [
            surprise_of_classes(np.array([1.0 - one, one]), (signs > 0.0).astype(int), rows.weight)
            for one, signs in zip(p, rows.target, strict=True)
        ]
        return sum(one for one, _ in sums), sum(width for _, width in sums)

    def forget(self, keep: float) -> None:
        """Let the evidence so far count less: the belief goes back towards its start."""
        mu, sigma = self.init
        self.mu += (1.0 - keep) * (np.asarray(mu) - self.mu)
        self.sigma += (1.0 - keep) * (np.asarray(sigma) - self.sigma)
        self.refresh()

    def rearranged(self, source: Places) -> LinearLearner:
        """A copy for other columns; new ones are at the start of all."""
        other = copy.copy(self)
        other.n_features = len(source)
        # By take, they stay in C order: no other loops are compiled for them.
        other.mu, other.sigma = self.mu.take(source, axis=1), self.sigma.take(source, axis=1)
        for values, first in zip((other.mu, other.sigma), self.init, strict=True):
            values[:, source < 0] = first
        other.scaler = self.scaler.rearranged(source)
        other.refresh()
        return other

    # --- the belief -------------------------------------------------------------------------

    def features(self) -> Belief:
        """One mean and one standard deviation per feature. See :class:`fires.models.base.Learner`.

        The next step may change the arrays.
        """
        if self.n_rows == 1 and not self.in_sparse_terms and self._features.mu.base is self.mu:
            return self._features
        mu, sigma = self.by_class()
        if self.n_rows == 1:
            self._features = Belief(mu[0], sigma[0])
            return self._features
        assert isinstance(self.target, ClassTarget)
        seen = self.target.class_weight
        return over_classes(mu, sigma, seen / seen.sum())

    def heaviest(self, k: int, penalty: float, scale: float) -> Places | None:
        """See :class:`fires.models.base.Learner`: of millions of columns, a few have moved."""
        if self.n_rows > 1 or self.n_features < _MANY or k > _MAX_K:
            return None
        asked, drift, known, moved = (k, penalty, scale), self.drift[0], self._heavy, self._moved
        self._moved = ()
        if moved is not None and known is not None and known.holds(asked, drift):
            some = union(known.columns, np.concatenate([NO_COLUMNS, *moved]))
            self._heavy = self._sifted(known, some)
            chosen = self._top(self._heavy)
            if chosen is not None:
                return chosen
        known = Heavy(asked, NO_COLUMNS, -np.inf, drift, _LATER * self._pace)
        for i in range(0, self.n_features, _PART):
            part = np.arange(i, min(i + _PART, self.n_features))
            known = self._sifted(known, np.append(known.columns, part))
        self._heavy = known
        return self._top(known)

    def _sifted(self, known: Heavy, columns: Ints) -> Heavy:
        """Those of some columns that may become the heaviest."""
        own, found = (self.mu[0], self.sigma[0], self._pulls), np.empty_like(columns)
        most = np.empty(len(columns))
        most = most[: find_heavy(*own, known, columns, found, most)]
        kept = top_k(most, 10 * _MAX_K)
        limit = np.delete(most, kept).max(initial=known.limit)
        return known._replace(columns=found[kept], limit=float(limit))

    def _top(self, known: Heavy) -> Places | None:
        """The heaviest columns, unless others might be as heavy."""
        columns, (k, penalty, scale), pulls = known.columns, known.asked, self._pulls
        mu, weights = self.mu[0].take(columns), np.empty(len(columns))
        if len(pulls):
            mu -= pulls[columns] * self.drift[0]
        weigh(mu, self.sigma[0].take(columns), penalty, scale, weights)
        chosen = top_k(weights, k)
        return columns[chosen] if weights[chosen].min() > known.limit else None

    @property
    def _pulls(self) -> Floats:
        """What means move by with the drift; empty if they do not."""
        return self.scaler.sparse.pulls if self.in_sparse_terms else _zeros(0)

    def by_class(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of every row of parameters; the next step may change them."""
        mu = self.mu
        if self.in_sparse_terms:
            mu = self.scaler.sparse.pulls * self.drift[:, None]
            np.subtract(self.mu, mu, out=mu)
        return mu, self.sigma

    def state(self) -> Arrays:
        """See :class:`fires.models.base.Learner`."""
        arrays = collect(self, self.learnt)[1] | self.scaler.state()
        return arrays | under("target", self.target.state())

    def restore(self, arrays: Arrays) -> None:
        """See :class:`fires.models.base.Learner`."""
        sizes = {"J": self.n_features, "R": self.n_rows}
        restore(self, self.learnt, {}, arrays, sizes)
        self.scaler.restore(arrays)
        self.in_sparse_terms = self.scale is not None and bool(part_of("sparse", arrays))
        self.target.restore(part_of("target", arrays))


@lru_cache(maxsize=16)
def _zeros(n: int) -> Floats:
    """Zeros for a missing intercept, level or shift; nobody writes to this array."""
    return np.zeros(n)


def _add_at(rows: Floats, columns: Places, values: Floats) -> None:
    """Add values to columns of every row; a column may occur more than once."""
    for row, value in zip(rows, values, strict=True):
        np.add.at(row, columns, value)
