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
from types import SimpleNamespace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.batch import CheckedBatch, nothing, ones
from fires.core.belief import Belief
from fires.core.classes import class_rows
from fires.core.declared import Array, Declared, collect, restore
from fires.core.errors import OVERFLOW
from fires.core.state import Arrays, part_of, under
from fires.core.types import Floats, Ints, Labels, Matrix, Places
from fires.kernels import oriented, project, read_only
from fires.kernels.gradient import TOO_LONG
from fires.kernels.gradient import move as move_in_place
from fires.models.base import Learner, Rates
from fires.models.families import FAMILIES
from fires.models.linear import over_classes
from fires.models.scale import MinMax, Scaler, Standard
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


class BatchFacts(NamedTuple):
    """What a step knows of the rows besides X."""

    weight: Floats
    is_weighted: bool
    total: float
    target: Floats  # one row per row of parameters
    level: Floats  # where predictions start from, per row of parameters


class _SparseUnit(Protocol):
    """A scale of sparse rows, or what shards need of it."""

    @property
    def pace(self) -> float: ...
    def gain(self, columns: Ints) -> Floats: ...
    def pull(self, columns: Ints) -> Floats: ...


class SparseTerms(NamedTuple):
    """What a step knows of the columns that sparse rows touch; names are those of the docstring."""

    pace: float
    gain: Floats
    pull: Floats
    kept: Floats  # u
    sigma: Floats
    pulled: Floats
    pull_squares: float


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
    }
    learnt_intercept: ClassVar[Declared] = {"mu": Array("R"), "sigma": Array("R", low=0.0)}

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
        n_rows = n_classes if n_classes > 2 else 1
        self.mu = np.empty((n_rows, n_features))
        self.sigma = np.empty((n_rows, n_features))
        self.mu[:], self.sigma[:] = mu_init, sigma_init
        # The intercept starts at mean 0 and standard deviation 1, whatever the features do.
        self.intercept = Belief.standard(n_rows)
        self.drift = np.zeros(n_rows)  # A of the docstring
        self.pulled = np.zeros(n_rows)  # sum of u_j pull_j
        self.pull_squares = 0.0
        self.noise = self.family.noise
        self.least_sigma = float(self.sigma.min())  # a lower bound, not always the minimum
        published = scale is None and self.family.kind == "classes"
        self._sigma_change = _AS_PUBLISHED if published else _CAPPED
        self.scaler = Scaler(scale, n_features)
        self.in_sparse_terms = False
        scaled = scale is not None
        levelled = scaled and fit_intercept
        self.target = target_of(self.family, n_rows, scaled=scaled, levelled=levelled)
        self._buffers: dict[str, Floats] = {}
        self._believed: Belief | None = None  # views of the arrays that steps move in place

    @property
    def n_rows(self) -> int:
        """Rows of parameters: one, or one per class."""
        return len(self.mu)

    # --- learning ---------------------------------------------------------------------------

    def step(self, batch: CheckedBatch, y: Labels, rates: Rates) -> None:
        """Learn from one batch. On an error, nothing changes."""
        rows = self._look(batch, y)
        if self.in_sparse_terms or not isinstance(batch.X, np.ndarray):
            # Overflow is found later, when the sums are checked, before anything is changed.
            with np.errstate(all="ignore"):
                self._step_sparse(batch, rows, rates)
        else:
            self._step_dense(batch, rows, rates)
        self.target.count(y, rows.weight)

    def _look(self, batch: CheckedBatch, y: Labels) -> BatchFacts:
        n, is_weighted = batch.n_rows, batch.weight is not None
        weight = ones(n) if batch.weight is None else batch.weight
        total = float(weight.sum()) if is_weighted else float(n)
        target, level = self.target.look(y, weight)
        level = _zeros(self.n_rows) if level is None else level
        return BatchFacts(weight, is_weighted, total, target, level)

    def _step_dense(self, batch: CheckedBatch, rows: BatchFacts, rates: Rates) -> None:
        scaled, learn_scale = batch.X, nothing
        if batch.scale is None or batch.scale != self.scale:
            scaled, learn_scale = self.scaler.scaled(batch.X, rows.weight, batch.n_missing > 0)
        p, q = self._buffer("p", self.n_rows), self._buffer("q", self.n_rows)
        least = self._whole_step(scaled, rows, rates, p, q)
        if least == TOO_LONG:
            least = self._step_by_step(scaled, rows, rates, p, q)
        if least != least:
            raise ValueError(OVERFLOW)
        self.least_sigma = least
        learn_scale()

    def _whole_step(self, X: Floats, rows: BatchFacts, rates: Rates, p: Floats, q: Floats) -> float:
        """The step in one compiled call, if the family has one and the step needs no cap."""
        step = self.family.whole_step
        if step is None or not X.flags.c_contiguous:
            return TOO_LONG
        own, least = self.intercept, self.least_sigma * self.least_sigma
        longest = np.inf if self.scale is None else least / rates.mu
        return step(
            *(*read_only(X), rows.target, rows.weight, rows.is_weighted),
            *(self.mu, self.sigma, ones(self.n_features)),
            *(own.mu, own.sigma, self.fit_intercept),
            *(rows.level, self.family.start_width, least, longest),
            *(*rates.shared(rows.total), *self._sigma_change),
            *(p, q),
        )

    def _step_by_step(
        self, X: Floats, rows: BatchFacts, rates: Rates, p: Floats, q: Floats
    ) -> float:
        """The step part by part: works for every family and every memory order."""
        own, _ = self.dense_sums(X, rows, rates, p, q)
        return self.take_dense(StepSums(p, q, own), rates.shared(rows.total))

    def dense_sums(
        self,
        X: Floats,
        rows: BatchFacts,
        rates: Rates,
        p: Floats,
        q: Floats,
        *,
        watched: bool = False,
    ) -> tuple[Floats, tuple[float, float]]:
        """Fill in the sums over dense rows; the intercept's, and how surprising the rows are."""
        gain = ones(self.n_features)
        view, project_into, accumulate_into = oriented(X)
        a, v = np.empty((2, self.n_rows, len(rows.weight)))
        project_into(view, self.mu, np.square(self.sigma, out=q), a, v)
        surprise = self.surprise_of(a, v, rows) if watched else (0.0, 0.0)

        def norms() -> Floats:
            return project(X, gain[None, :], gain[None, :])[1]

        c, d = pulls = self.pulls(a, v, rows, rates, norms, self.n_rows)
        accumulate_into(view, c, d, p, q)
        return np.add.reduce(pulls, axis=2), surprise

    def take_dense(self, sums: StepSums, share: tuple[float, float]) -> float:
        """Take the step that sums over dense rows call for; returns the least sigma, or NaN."""
        return self._move(self.mu, self.sigma, sums, ones(self.n_features), share)

    def _step_sparse(self, batch: CheckedBatch, rows: BatchFacts, rates: Rates) -> None:
        X = batch.X if sp.issparse(batch.X) else sp.csr_array(batch.X)
        touched = self.scaler.touched(X, rows.weight, batch.n_missing > 0)
        half = self.scaler.sparse
        first = not half.ready
        if first:
            half = SparseScale.begun(self.scale, self.n_features, touched.own_sums(self.scale))
        terms = self.sparse_terms(touched.columns, half, first)
        learns = half.kind is not None and not first
        sums = self.sparse_sums(touched, terms, rows, rates, self.n_rows + learns)
        seen = touched.sums(half.kind, sums.p[-1], sums.q[-1]) if learns else None
        self.take_sparse(touched.columns, seen, half, terms, sums, rates.shared(rows.total))

    def sparse_terms(self, columns: Ints, half: _SparseUnit, first: bool) -> SparseTerms:
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
        least = self._move(mu, sigma, checked, gain, share)
        if least != least:
            raise ValueError(OVERFLOW)
        self.drift, self.least_sigma = drift, min(least, self.least_sigma)
        self.scaler.sparse = half
        if seen is not None:
            half.absorb(seen)
        new_pull = half.pull(columns)
        mu += new_pull * drift[:, None]
        self.mu[:, columns], self.sigma[:, columns] = mu, sigma
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
        family, bend, n_rows = self.family, np.empty_like(a), self.n_rows
        c, d = pulls = np.empty((2, n_sums, a.shape[1]))
        pulls[:, n_rows:] = rows.weight
        none = _zeros(n_rows)
        own = (self.intercept.mu, self.intercept.sigma) if self.fit_intercept else (none, none)
        # v bounds the norm of a row from above. Mostly that shows already that no cap is needed.
        least = self.least_sigma * self.least_sigma
        start = rows.level, family.start_width, least
        greatest = family.pull_rows(a, v, rows.target, *own, self.noise, *start, c, d, bend)
        factor: Floats | None = rows.weight if rows.is_weighted else None
        if self.scale is not None and rates.mu * greatest > least:
            with np.errstate(all="ignore"):
                overshoot = rates.mu * np.maximum(bend, 0.0) * (norms() + self.fit_intercept)
                factor = rows.weight / np.maximum(overshoot, 1.0)
        if factor is not None:
            pulls[:, :n_rows] *= factor
        return pulls

    def _move(
        self,
        mu: Floats,
        sigma: Floats,
        sums: StepSums,
        gain: Floats,
        share: tuple[float, float],
    ) -> float:
        """Take the step that sums over rows call for."""
        own, (c, d) = self.intercept, sums.own[:, :, None]
        intercept = own.mu, own.sigma, self.fit_intercept
        step = mu, sigma, sums.p, sums.q, gain, c, d
        least = move_in_place(*step, *intercept, *share, *self._sigma_change)
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
        other = copy.copy(self)
        other._buffers = {}
        other.mu, other.sigma = np.empty((2, len(sources), self.n_features))
        other.mu[:], other.sigma[:] = self.init
        other.intercept = Belief.standard(len(sources))
        other.drift, other.pulled = np.zeros((2, len(sources)))
        kept = [row for row, source in enumerate(sources) if source is not None]
        pairs = [source for source in sources if source is not None]
        old = np.array([row for row, _ in pairs], dtype=np.intp)
        sign = np.array([sign for _, sign in pairs])
        other.mu[kept], other.sigma[kept] = sign[:, None] * self.mu[old], self.sigma[old]
        other.drift[kept], other.pulled[kept] = sign * self.drift[old], sign * self.pulled[old]
        other.intercept.mu[kept] = sign * self.intercept.mu[old]
        other.intercept.sigma[kept] = self.intercept.sigma[old]
        assert isinstance(self.target, ClassTarget)
        other.target = self.target.with_rows(sources)
        other.least_sigma = float(other.sigma.min())
        return other

    def ready_for(self, X: Matrix) -> LinearLearner:
        """The learner itself, or a copy for sparse rows. See :class:`fires.models.base.Learner`.

        A learner on scaled dense rows changes when the first sparse batch comes. The coefficients
        of x itself stay the same. Only their unit changes, from the standard deviation of a column
        to its root mean square.
        """
        if self.scale is None or self.in_sparse_terms or isinstance(X, np.ndarray):
            return self
        other = copy.copy(self)
        other.target, other.intercept = copy.deepcopy((self.target, self.intercept))
        other.scaler, other.in_sparse_terms = self.scaler.in_sparse_terms(), True
        dense = self.scaler.dense
        if isinstance(dense, Standard | MinMax) and dense.ready:
            gain = other.scaler.sparse.gain(np.arange(self.n_features))
            now = dense.gain
            unit = np.where(gain > 0.0, now / np.where(gain > 0.0, gain, 1.0), 1.0)
            other.mu, other.sigma = self.mu * unit, self.sigma * unit
            other.least_sigma = float(other.sigma.min())
            pulls = other._pulls()
            other.pulled, other.pull_squares = other.mu @ pulls, float(pulls @ pulls)
        return other

    # --- drift ------------------------------------------------------------------------------

    def surprise(self, batch: CheckedBatch, y: Labels) -> tuple[float, float]:
        """How much worse a batch is predicted than expected. Nothing is learnt."""
        if self.in_sparse_terms or not isinstance(batch.X, np.ndarray):
            raise ValueError(
                "With the gradient update, alarms need dense rows; use update='bayes'."
            )
        rows = self._look(batch, y)
        Z: Matrix = batch.X
        if batch.scale is None or batch.scale != self.scale:
            Z, _ = self.scaler.scaled(batch.X, rows.weight, batch.n_missing > 0)
        return self.surprise_of(*project(Z, self.mu, self.sigma**2), rows)

    def surprise_of(self, a: Floats, v: Floats, rows: BatchFacts) -> tuple[float, float]:
        """How much worse rows are predicted than expected."""
        v = v + self.noise
        if self.fit_intercept:
            a, v = a + self.intercept.mu[:, None], v + self.intercept.sigma[:, None] ** 2
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
        self.least_sigma = float(self.sigma.min())

    def _pulls(self) -> Floats:
        return self.scaler.sparse.pulls

    def restart_features(self, columns: Places) -> None:
        """Forget some features: they start anew. See :class:`fires.models.base.Learner`."""
        for values, first in zip((self.mu, self.sigma), self.init, strict=True):
            values[:, columns] = np.broadcast_to(first, self.n_features)[columns]
        self.least_sigma = float(self.sigma.min())
        self.scaler.restart(columns)
        if self.in_sparse_terms and self.scaler.sparse.ready:
            pulls = self._pulls()  # that of a feature never seen is 0
            self.pulled, self.pull_squares = self.mu @ pulls, float(pulls @ pulls)

    def rearranged(self, source: Places) -> LinearLearner:
        """A copy for other columns; new ones are at the start of all."""
        other = copy.copy(self)
        other.n_features, other._buffers, other._believed = len(source), {}, None
        other.mu, other.sigma = self.mu[:, source], self.sigma[:, source]
        for values, first in zip((other.mu, other.sigma), self.init, strict=True):
            values[:, source < 0] = first
        other.least_sigma = float(other.sigma.min())
        other.scaler = self.scaler.rearranged(source)
        if self.in_sparse_terms and self.scaler.sparse.ready:
            pulls = other._pulls()  # that of a feature never seen is 0
            other.pulled, other.pull_squares = other.mu @ pulls, float(pulls @ pulls)
        return other

    # --- the belief -------------------------------------------------------------------------

    def features(self) -> Belief:
        """One mean and one standard deviation per feature. See :class:`fires.models.base.Learner`.

        The next step may change the arrays.
        """
        if self.n_rows == 1 and not self.in_sparse_terms:
            if self._believed is None or self._believed.mu.base is not self.mu:
                self._believed = Belief(self.mu[0], self.sigma[0])
            return self._believed
        mu, sigma = self.by_class()
        if self.n_rows == 1:
            return Belief(mu[0], sigma[0])
        assert isinstance(self.target, ClassTarget)
        seen = self.target.class_weight
        return over_classes(mu, sigma, seen / seen.sum())

    def by_class(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of every row of parameters; the next step may change them."""
        mu = self.mu
        if self.in_sparse_terms:
            mu = self._pulls() * self.drift[:, None]
            np.subtract(self.mu, mu, out=mu)
        return mu, self.sigma

    def state(self) -> Arrays:
        """See :class:`fires.models.base.Learner`."""
        _, arrays = collect(self, self.learnt)
        arrays |= under("intercept", collect(self.intercept, self.learnt_intercept)[1])
        return arrays | self.scaler.state() | under("target", self.target.state())

    def restore(self, arrays: Arrays) -> None:
        """See :class:`fires.models.base.Learner`."""
        sizes = {"J": self.n_features, "R": self.n_rows}
        restore(self, self.learnt, {}, arrays, sizes)
        intercept = SimpleNamespace()
        restore(intercept, self.learnt_intercept, {}, part_of("intercept", arrays), sizes)
        self.intercept = Belief(intercept.mu, intercept.sigma)
        self.scaler.restore(arrays)
        self.in_sparse_terms = self.scale is not None and bool(part_of("sparse", arrays))
        self.target.restore(part_of("target", arrays))

    # --- helpers ----------------------------------------------------------------------------

    def _buffer(self, name: str, n_rows: int) -> Floats:
        """Scratch space of the size of the features, kept between steps."""
        buffer = self._buffers.get(name)
        if buffer is None or len(buffer) < n_rows:
            buffer = self._buffers[name] = np.empty((n_rows, self.n_features))
        return buffer[:n_rows]

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_buffers": {}, "_believed": None}


@lru_cache(maxsize=16)
def _zeros(n: int) -> Floats:
    """Zeros for a missing intercept, level or shift; nobody writes to this array."""
    return np.zeros(n)


def _add_at(rows: Floats, columns: Places, values: Floats) -> None:
    """Add values to columns of every row; a column may occur more than once."""
    for row, value in zip(rows, values, strict=True):
        np.add.at(row, columns, value)
