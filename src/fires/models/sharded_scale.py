"""The scales of a batch in several shards: what shards do with them, and what the driver does.

:class:`fires.models.scale.Standard` plans a batch from a look at all of it: which columns have
moved, and with that origin, gain and limit of each. Then it only adds. Here the plan is made
without the rows: no column has moved. That is right unless a column shows entries beyond 1.5 times
its reach, or has been narrow for too long. Then another round asks for the sampled rows and for
the batch's own mean and spread, of these columns only. If a column has moved indeed, the batch is
added up again with the new plan.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch, row_major
from fires.core.errors import OVERFLOW
from fires.core.sharding import Sums, at_columns, columns_of
from fires.core.types import CsrRows, Floats, Places
from fires.kernels import moments
from fires.kernels.linear import NO_COLUMNS, SQUARES, DenseRows
from fires.models.base import Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.linear_learner import BatchFacts, LinearLearner, StepSums
from fires.models.mixed import unscaled
from fires.models.scale import MinMax, Standard
from fires.models.sparse_scale import ColumnSums, SparseScale, Touched

# Rows on their scale, dense, mixed or touched; and what they show of the scale.
Scaled: TypeAlias = tuple[Any, Callable[[], Sums]]


class ShardedScale:
    """Rows as they come; the base class of the scales of shards.

    Tasks hold it, so it goes out to the shards: without what only the driver needs.
    """

    kind: str | None = None
    is_first = False  # whether it has to be taken from the batch itself
    standards: Sequence[ShardedStandard] = ()  # the scales whose columns may have moved

    def rows(self, shard: CheckedBatch, weight: Floats) -> Scaled:
        """The rows of a shard on their scale, and what they show of it."""
        if self.kind is not None and shard.scale != self.kind:
            return self._scaled(shard, weight)
        if sp.issparse(shard.X):
            return unscaled(Touched(shard.X, weight, shard.n_missing > 0, NO_COLUMNS)), dict
        return DenseRows(row_major(np.nan_to_num(shard.X) if shard.n_missing else shard.X)), dict

    def _scaled(self, shard: CheckedBatch, weight: Floats) -> Scaled:
        raise NotImplementedError

    def step_sums(
        self, learner: LinearLearner, Z: Any, rows: BatchFacts, rates: Rates, *, watched: bool
    ) -> Sums:
        """The sums over rows that a step is taken by."""
        (p, q, own, _), surprise = learner.dense_sums(Z.full, rows, rates, watched=watched)
        return {"p": p, "q": q, "own": own, "surprise": np.array(surprise)}

    def take_step(self, learner: LinearLearner, sums: Sums, share: tuple[float, float]) -> None:
        """Take the step of the gradient update."""
        learner.take_dense(StepSums(*(np.array(sums[name]) for name in ("p", "q", "own"))), share)

    def own(self, shard: CheckedBatch, weight: Floats) -> Sums:
        """What a shard of a first batch shows of its own scale, unless it is on it already."""
        return {}

    def begin(self, sums: Sums) -> None:
        """Take the scale of a first batch from itself."""

    def learn(self, sums: Sums, total: float) -> None:
        """Learn from the batch, unless it was scaled already."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name not in _OF_DRIVER}


_OF_DRIVER = {"scale", "learner", "standards", "places"}


class ShardedStandard(ShardedScale):
    """The running scale of dense columns: of rows, of their full columns, or of the target.

    In a target, and in :class:`fires.models.mixed.Mixed`, it stands for the scale itself.
    """

    ready = True

    def __init__(self, scale: Standard, what: str = "x", places: Places | None = None) -> None:
        self.scale, self.what, self.is_first = scale, what, not scale.ready
        self.kind = "standard" if what == "x" else None
        self.places = np.arange(scale.n_features) if places is None else places  # among all
        self.lines, self.standards, self.count = _plan(scale), [self], scale.count

    @property
    def shift(self) -> Floats:
        """What is subtracted."""
        return np.asarray(self.lines[moments.ORIGIN])

    # --- on shards ----------------------------------------------------------------------------

    def scaled(self, X: Floats, weight: Floats) -> tuple[Floats, Callable[[], Sums]]:
        """Scaled rows, and what they show."""
        out, shown = np.empty(X.shape), np.zeros((moments.N_SHOWN, X.shape[1]))
        moments.rescale_rows(row_major(X), weight, self.lines, out, shown)
        return out, lambda: self._show(shown)

    def _scaled(self, shard: CheckedBatch, weight: Floats) -> Scaled:
        Z, show = self.scaled(shard.X, weight)
        return DenseRows(row_major(Z)), show

    def _show(self, shown: Floats) -> Sums:
        """What rows have shown, in the form that adds up."""
        far = moments.FARTHEST
        return {f"{self.what} shown": shown[:far], f"max {self.what} far": shown[far]}

    def own(self, shard: CheckedBatch, weight: Floats) -> Sums:
        """See :class:`ShardedScale`."""
        X = part_of(shard, self.what, slice(None))
        return {f"moments {self.what}": column_moments(X, weight)}

    # --- on the driver ------------------------------------------------------------------------

    def begin(self, sums: Sums) -> None:
        """See :class:`ShardedScale`."""
        if (own := sums.get(f"moments {self.what}")) is not None:
            self.lines[moments.ORIGIN], self.lines[moments.UNIT] = _mean_and_gain(own)
            self.count = own[0]

    def _shown(self, sums: Sums) -> Floats:
        """What the whole batch has shown, for :meth:`fires.models.scale.Standard.learn`."""
        shown = np.vstack([sums[f"{self.what} shown"], sums[f"max {self.what} far"]])
        if not np.isfinite(shown[moments.SQUARES]).all() or not np.isfinite(self.shift).all():
            raise ValueError(OVERFLOW)
        return shown

    def doubtful(self, sums: Sums) -> Places:
        """The columns that may have moved."""
        if f"{self.what} shown" not in sums or not self.scale.ready:
            return np.zeros(0, dtype=np.intp)
        *_, refused, farthest = self._shown(sums)
        sure = (self.lines[moments.RUN] > 0.0) | (self.scale.narrow >= self.scale.reset_threshold)
        is_beyond = farthest > moments.EDGE * self.lines[moments.LIMIT]
        return np.flatnonzero(is_beyond | (refused > 0.0) | sure)

    def settle(self, columns: Places, found: Sums) -> bool:
        """Decide about columns that may have moved; whether the sums are good as they are."""
        before, self.lines = self.lines, _plan(self.scale)
        samples = np.ascontiguousarray(found[f"list {self.what} sample"])
        own, n_rows = _mean_and_gain(found[f"moments {self.what}"]), int(found["batch rows"])
        moments.find_moved_among(columns, samples, *own, n_rows, self.scale.known, self.lines)
        return np.array_equal(before, self.lines)

    def learn(self, sums: Sums, total: float) -> None:
        """See :class:`ShardedScale`."""
        if f"{self.what} shown" in sums:
            self.scale.learn(self._shown(sums), self.lines, np.array([total]))


class ShardedRange(ShardedScale):
    """The range of dense columns."""

    kind = "minmax"

    def __init__(self, scale: MinMax) -> None:
        self.range, self.is_first = scale, not scale.ready

    def _scaled(self, shard: CheckedBatch, weight: Floats) -> Scaled:
        rows = DenseRows(row_major(self.range.applied(shard.X)))
        return rows, partial(self.own, shard, weight)

    def own(self, shard: CheckedBatch, weight: Floats) -> Sums:
        """See :class:`ShardedScale`."""
        low, high, count, total = self.range.sums(shard.X, weight, shard.n_missing > 0)
        ends = {"max x low": -low, "max x high": high}
        return ends | {"x count": np.asarray(count), "x total": total}

    def begin(self, sums: Sums) -> None:
        """See :class:`ShardedScale`."""
        if "x total" in sums:
            ends = -sums["max x low"], sums["max x high"]
            self.range.merge(*ends, sums["x count"], sums["x total"])
            if self.is_first:
                self.range.refuse_overflow()

    def learn(self, sums: Sums, total: float) -> None:
        """See :class:`ShardedScale`; a first batch has been learnt from already."""
        if not self.is_first:
            self.begin(sums)


class ShardedMixed(ShardedScale):
    """The scale of sparse rows for the Bayesian update: full columns are scaled as dense ones."""

    kind = "standard"

    def __init__(self, learner: BayesLearner) -> None:
        self.mixed = learner.mixed
        self.is_first = not self.mixed.ready
        self._follow()

    def _follow(self) -> None:
        self._full = ShardedStandard(self.mixed.full, "x", self.mixed.columns)
        self.standards = [self._full]

    def _scaled(self, shard: CheckedBatch, weight: Floats) -> Scaled:
        mixed: Any = copy.copy(self.mixed)
        mixed.full = self._full
        rows, shown = mixed.rows(self._touched(shard, weight))
        if self.is_first:
            return rows, dict
        return rows, lambda: self.own(shard, weight) | shown()

    def own(self, shard: CheckedBatch, weight: Floats) -> Sums:
        """See :class:`ShardedScale`; of the columns that it touches."""
        batch = self._touched(shard, weight)
        shown = self.mixed.show(batch).T
        return {"sparse scale": at_columns(batch.columns, shown, self.mixed.n_features)}

    def _touched(self, shard: CheckedBatch, weight: Floats) -> Touched:
        return self.mixed.touched(csr(shard), weight, shard.n_missing > 0)

    def begin(self, sums: Sums) -> None:
        """See :class:`ShardedScale`."""
        self._learn(sums)
        self._follow()

    def learn(self, sums: Sums, total: float) -> None:
        """See :class:`ShardedScale`; a first batch has been learnt from already."""
        if not self.is_first:
            self._full.learn(sums, total)
            self._learn(sums)

    def _learn(self, sums: Sums) -> None:
        if "sparse scale" in sums:
            columns, parts = columns_of(sums["sparse scale"])
            if not np.isfinite(parts[SQUARES]).all():
                raise ValueError(OVERFLOW)
            batch: Any = SimpleNamespace(columns=columns, total=float(sums["batch weight"]))
            self.mixed.learn(batch, np.ascontiguousarray(parts.T))


class CentredScale(ShardedScale):
    """The scale of sparse rows for the gradient update, which centres its predictions instead."""

    def __init__(self, learner: LinearLearner) -> None:
        self.learner, self.half = learner, learner.scaler.sparse
        self.n_features = learner.n_features
        self.is_first = not self.half.ready
        self.learns = not self.is_first and self.half.kind is not None

    def rows(self, shard: CheckedBatch, weight: Floats) -> Scaled:
        """See :class:`ShardedScale`; the scale is folded in later."""
        return Touched(csr(shard), weight, shard.n_missing > 0), dict

    def own(self, shard: CheckedBatch, weight: Floats) -> Sums:
        """See :class:`ShardedScale`."""
        batch, _ = self.rows(shard, weight)
        p, q = batch.accumulate(weight[None, :], weight[None, :])
        return self._listed(batch, StepSums(p, q, np.empty((2, 0))))

    def begin(self, sums: Sums) -> None:
        """See :class:`ShardedScale`."""
        seen, _ = self._merged(sums)
        learner, self.half = self.learner, SparseScale.begun(self.half.kind, self.n_features, seen)
        terms = learner.sparse_terms(seen.columns, self.half, first=True)
        learner.pulled, learner.pull_squares = terms.pulled, terms.pull_squares

    def step_sums(
        self, learner: LinearLearner, Z: Any, rows: BatchFacts, rates: Rates, *, watched: bool
    ) -> Sums:
        """See :class:`ShardedScale`."""
        with np.errstate(all="ignore"):  # overflow is found before anything is changed
            terms = learner.sparse_terms(Z.columns, self.half, first=False)
            step = learner.sparse_sums(Z, terms, rows, rates, learner.n_rows + self.learns)
        return {"own": step.own} | self._listed(Z, step)

    def take_step(self, learner: LinearLearner, sums: Sums, share: tuple[float, float]) -> None:
        """See :class:`ShardedScale`; the scale learns, too."""
        seen, step = self._merged(sums)
        terms = learner.sparse_terms(seen.columns, self.half, first=False)
        learns = seen if self.learns else None
        with np.errstate(all="ignore"):
            learner.take_sparse(seen.columns, learns, self.half, terms, step, share)

    def _listed(self, batch: Touched, step: StepSums) -> Sums:
        """What a shard says of the columns that it touches, in the form that adds up."""
        seen, n_rows = batch.sums(self.half.kind, step.p[-1], step.q[-1]), step.own.shape[1]
        gaps = np.zeros((1 + n_rows, len(seen.columns)))
        if seen.absent is not None:
            gaps[0] = seen.absent
            gaps[1:] = gaps[1:] if step.gaps is None else step.gaps
        lines = np.concatenate([step.p, step.q, gaps])
        sums: Sums = {"sparse parts": at_columns(seen.columns, lines, self.n_features)}
        if self.half.kind == "minmax":
            sums["max ends"] = at_columns(seen.columns, _SIDES * seen.ends, self.n_features)
        return sums

    def _merged(self, sums: Sums) -> tuple[ColumnSums, StepSums]:
        """What all shards say together of the columns that they touch."""
        columns, lines = columns_of(sums["sparse parts"])
        own, ends = sums.get("own", np.empty((2, 0))), np.zeros((2, len(columns)))
        p, q, gaps = np.split(lines, (len(lines) - 1 - own.shape[1]) // 2 * np.array([1, 2]))
        if self.half.kind == "minmax":
            ends = _SIDES * sums["max ends"][:, columns].toarray()
        absent, missed = (gaps[0], gaps[1:]) if gaps[0].any() else (None, None)
        seen = ColumnSums(columns, float(sums["batch weight"]), p[-1], q[-1], absent, ends)
        return seen, StepSums(p, q, np.array(own), missed)


_SIDES = np.array([[-1.0], [1.0]])  # the least entries are the greatest of their opposites


def scale_of(learner: LinearLearner | BayesLearner, *, sparse: bool = False) -> ShardedScale:
    """The scale of a learner's rows, as shards know it."""
    if isinstance(learner, LinearLearner) and (sparse or learner.in_sparse_terms):
        return CentredScale(learner)
    if isinstance(learner, BayesLearner) and learner.sparse is not None:
        return ShardedScale() if learner.scale is None else ShardedMixed(learner)
    dense = learner.scaler.dense
    if isinstance(dense, Standard):
        return ShardedStandard(dense)
    return ShardedRange(dense) if isinstance(dense, MinMax) else ShardedScale()


def sampling(sums: Sums) -> tuple[dict[int, int], int]:
    """By its mark, where each part begins in the batch; and every how manieth row is looked at."""
    marks, sizes = sums["list mark"].T
    starts = np.cumsum(sizes) - sizes
    by_mark = dict(zip(marks.tolist(), starts.tolist(), strict=True))
    return by_mark, moments.sample_step(int(sizes.sum()))


def part_of(shard: CheckedBatch, what: str, columns: Places | slice) -> Floats:
    """Some columns of the rows, or the target as one, dense."""
    if what == "y":
        return np.asarray(shard.y, dtype=np.float64)[:, None]
    X = shard.X[:, columns]
    return np.asarray(X.toarray() if sp.issparse(X) else X)


def column_moments(X: Floats, weight: Floats) -> Floats:
    """Weight, mean and sum of squares of every column of a shard."""
    count, mean, square, rest = moments.own_moments(X, weight)
    more = np.divide(rest, count, out=np.zeros_like(rest), where=count > 0.0)
    return np.stack([count, mean + more, np.maximum(square - rest * more, 0.0)])


def csr(shard: CheckedBatch) -> CsrRows:
    """The rows of a shard as sparse ones."""
    rows: CsrRows = shard.X if sp.issparse(shard.X) else sp.csr_array(shard.X)
    return rows


def _plan(scale: Standard) -> Floats:
    """The plan of a batch in which no column has moved."""
    return scale.plan(row_major(np.empty((0, scale.n_features))), np.empty(0))


def _mean_and_gain(own: Floats) -> tuple[Floats, Floats]:
    """Mean and gain of every column, by its moments over all shards."""
    return moments.own_scale(np.vstack([own, np.zeros(own.shape[1])]))
