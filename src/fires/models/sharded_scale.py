"""The scales of a batch in several shards: what shards do with them, and what the driver does.

:class:`fires.models.scale.Standard` plans a batch from a look at all of it: which columns have
moved, and with that origin, gain and limit of each. Then it only adds. Here the plan is made
without the rows: no column has moved. That is right unless a column shows entries beyond 1.5 times
its reach, or has been narrow for too long. Shards tell where such entries are, as long as they are
few. If there are some in the sampled rows, another round asks for these rows and for the batch's
own mean and spread, of these columns only. If a column has moved indeed, the batch is added up
again with the new plan.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch, row_major
from fires.core.errors import OVERFLOW
from fires.core.sharding import Sums
from fires.core.types import CsrRows, Floats, Ints, Labels, Mask, Places
from fires.kernels import moments
from fires.kernels.compiling import read_only
from fires.kernels.linear import NO_COLUMNS, SQUARES, DenseRows, MixedRows
from fires.models.base import Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.linear_learner import BatchFacts, LinearLearner, StepSums
from fires.models.mixed import unscaled
from fires.models.scale import MinMax, Scaler, Standard
from fires.models.sparse_scale import ColumnSums, SparseScale, Touched

_BLOCK = 1 << 18  # entries of X that are worked on at a time, so that they stay in the cache
_TOO_MANY = -1
_NOWHERE = np.zeros(0, dtype=np.intp)
ScaledRows: TypeAlias = DenseRows | MixedRows | Touched
# Some rows at a time, and which ones they are.
Blocks: TypeAlias = Iterator[tuple[slice, ScaledRows]]


class ShardedScale:
    """Rows as they come; the base class of the scales of shards.

    Tasks hold it, so it goes out to the shards: without what only the driver needs.
    """

    kind: ClassVar[str | None] = None
    is_first = False  # whether it has to be taken from the batch itself
    is_sparse = False
    standards: Sequence[ShardedStandard] = ()  # the scales whose columns may have moved

    def rows(self, shard: CheckedBatch, weight: Floats, sums: Sums | None = None) -> Blocks:
        """The rows of a shard on their scale; what they show of it is added to the sums, if any."""
        if self.kind is not None and shard.scale != self.kind:
            yield from self._scaled(shard, weight, sums)
        elif self.is_sparse:
            some = Touched(csr(shard), weight, shard.n_missing > 0, NO_COLUMNS)
            yield slice(None), unscaled(some)
        else:
            for block, X in _blocks(shard):
                yield block, _read_only(np.nan_to_num(X) if shard.n_missing else X)

    def _scaled(self, shard: CheckedBatch, weight: Floats, sums: Sums | None) -> Blocks:
        raise NotImplementedError

    def project(self, Z: ScaledRows, mu: Floats, var: Floats) -> tuple[Floats, Floats]:
        """Mean and variance of predictions, without an intercept and :meth:`centre`."""
        return Z.project(mu, var)

    def own(self, shard: CheckedBatch, y: Labels, weight: Floats) -> Sums:
        """What a shard of a first batch shows of its own scale."""
        return {}

    def centre(self, mu: Floats) -> Floats | float:
        """What predictions by these coefficients are off by, where rows are not centred."""
        return 0.0

    def begin(self, sums: Sums) -> None:
        """Take the scale of a first batch from itself."""

    def learn(self, sums: Sums, total: float) -> None:
        """Learn from the batch, unless it was scaled already."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: part for name, part in vars(self).items() if name not in _OF_DRIVER}


_OF_DRIVER = {"scale", "scaler", "learner", "standards"}


class ShardedStandard(ShardedScale):
    """The running scale of dense columns: of rows, of their full columns, or of the target.

    In a target, and in :class:`fires.models.mixed.Mixed`, it stands for the scale itself.
    """

    kind, ready = "standard", True

    def __init__(self, scale: Standard, what: str = "x", places: Places | None = None) -> None:
        self.scale, self.what, self.is_first = scale, what, not scale.ready
        self._places = places  # of the columns among all; None if they are all
        self.lines, self.standards = _plan(scale), [self]
        self.count = scale.count if what == "y" else np.empty(0)

    @property
    def shift(self) -> Floats:
        """What is subtracted."""
        return np.asarray(self.lines[moments.ORIGIN])

    # --- on shards ----------------------------------------------------------------------------

    def scaled(self, X: Floats, weight: Floats) -> tuple[Floats, Callable[[], Sums]]:
        """Scaled rows, and what they show."""
        out, shown = np.empty(X.shape), np.zeros((moments.N_SHOWN, X.shape[1]))
        moments.rescale_rows(row_major(X), weight, self.lines, out, shown)
        return out, lambda: self._show(shown, X)

    def _scaled(self, shard: CheckedBatch, weight: Floats, sums: Sums | None) -> Blocks:
        shown, out = np.zeros((moments.N_SHOWN, self.lines.shape[1])), np.empty((0, 0))
        shift, unit, limit, *_ = self.lines
        for block, X in _blocks(shard):
            out = out if len(out) else np.empty(X.shape)
            Z = out[: len(X)]
            if sums is None:  # less work, if nobody asks
                moments.rescale(X, shift, unit, limit, moments.CLIP, Z)
            else:
                moments.rescale_rows(row_major(X), weight[block], self.lines, Z, shown)
            yield block, _read_only(Z)
        if sums is not None:
            sums.update(self._show(shown, shard.X))

    def _show(self, shown: Floats, X: Floats) -> Sums:
        """What rows have shown, in the form that adds up.

        Where entries are beyond 1.5 times the reach, it is also told where they are, if they are
        few: mostly that shows that no column has moved.
        """
        what, edge, far = self.what, moments.EDGE * self.lines[moments.LIMIT], moments.FARTHEST
        sums = {f"{what} shown": shown[:far], f"max {what} far": shown[far]}
        columns, n_found = np.flatnonzero(self._is_beyond(shown)), 0
        if len(columns):
            n_found = _TOO_MANY
            if len(columns) * len(X) <= max(X.size // 4, 1 << 12):
                distance = np.abs(X[:, columns] - self.shift[columns])
                rows, which = np.nonzero(distance > edge[columns])
                if len(rows) <= 1 << 12:
                    n_found = len(rows)
                    sums[f"list {what} beyond"] = np.stack([rows, columns[which]], axis=1)
        return sums | {f"list {what} n beyond": np.array([n_found])}

    def _is_beyond(self, shown: Floats) -> Mask:
        """The columns with entries beyond 1.5 times the reach."""
        *_, refused, farthest = shown
        return np.asarray((farthest > moments.EDGE * self.lines[moments.LIMIT]) | (refused > 0.0))

    def own(self, shard: CheckedBatch, y: Labels, weight: Floats) -> Sums:
        """See :class:`ShardedScale`."""
        if self.what == "x" and shard.scale == self.kind:
            return {}
        X = columns_of(shard, y, self.what, slice(None))
        return {f"moments {self.what}": column_moments(X, weight)}

    # --- on the driver ------------------------------------------------------------------------

    def begin(self, sums: Sums) -> None:
        """See :class:`ShardedScale`."""
        if (own := sums.get(f"moments {self.what}")) is not None:
            self.lines[moments.ORIGIN], self.lines[moments.UNIT] = _mean_and_gain(own)
            self.count = own[0] if self.what == "y" else self.count

    def _shown(self, sums: Sums) -> Floats:
        """What the whole batch has shown, for :meth:`fires.models.scale.Standard.learn`."""
        shown = np.vstack([sums[f"{self.what} shown"], sums[f"max {self.what} far"]])
        if not np.isfinite(shown[moments.SQUARES]).all() or not np.isfinite(self.shift).all():
            raise ValueError(OVERFLOW)
        return shown

    def doubtful(self, sums: Sums) -> Places:
        """The columns that may have moved."""
        if f"{self.what} shown" not in sums:
            return _NOWHERE
        shown = self._shown(sums)
        if not self.scale.ready:
            return _NOWHERE
        sure = (self.lines[moments.RUN] > 0.0) | (self.scale.narrow >= self.scale.reset_threshold)
        columns = np.flatnonzero(self._is_beyond(shown) | sure)
        n_found = sums[f"list {self.what} n beyond"]
        if not len(columns) or (n_found == _TOO_MANY).any():
            return columns
        # A column whose sampled entries are all within its reach has not moved.
        places = sums.get(f"list {self.what} beyond", np.zeros((0, 2), dtype=np.intp))
        starts, step = sampling(sums)
        sampled = (np.repeat(starts, n_found) + places[:, 0]) % step == 0
        return np.asarray(columns[np.isin(columns, places[sampled, 1]) | sure[columns]])

    def among_all(self, columns: Places) -> Places:
        """Which columns of the rows these are."""
        return columns if self._places is None else self._places[columns]

    def settle(self, sums: Sums, columns: Places, found: Sums) -> bool:
        """Decide about columns that may have moved; whether the sums are good as they are."""
        if not len(columns):
            return True
        before, shown, self.lines = self.lines, self._shown(sums), _plan(self.scale)
        samples = np.ascontiguousarray(found[f"list {self.what} sample"])
        own, n_rows = _mean_and_gain(found[f"moments {self.what}"]), int(found["batch rows"])
        moments.find_moved_among(columns, samples, *own, n_rows, self.scale.known, self.lines)
        differ = before[moments.IS_COMMON] != self.lines[moments.IS_COMMON]
        moved, now = (lines[moments.RUN] == moments.MOVED for lines in (before, self.lines))
        return not (differ & (shown[moments.REFUSED] > 0.0)).any() and np.array_equal(moved, now)

    def learn(self, sums: Sums, total: float) -> None:
        """See :class:`ShardedScale`."""
        if f"{self.what} shown" in sums:
            self.scale.learn(self._shown(sums), self.lines, np.array([total]))


class SparseRows(ShardedScale):
    """Sparse rows as they come."""

    is_sparse = True


class ShardedRange(ShardedScale):
    """The range of dense columns."""

    kind = "minmax"

    def __init__(self, scaler: Scaler, scale: MinMax) -> None:
        self.scaler, self.range, self.is_first = scaler, scale, not scale.ready

    def _scaled(self, shard: CheckedBatch, weight: Floats, sums: Sums | None) -> Blocks:
        for block, X in _blocks(shard):
            yield block, _read_only(self.range.applied(X))
        if sums is not None:
            sums.update(self.own(shard, np.empty(0), weight))

    def own(self, shard: CheckedBatch, y: Labels, weight: Floats) -> Sums:
        """See :class:`ShardedScale`."""
        if shard.scale == self.kind:
            return {}
        low, high, count, total = self.range.sums(shard.X, weight, shard.n_missing > 0)
        ends = {"max x low": -low, "max x high": high}
        return ends | {"x count": np.asarray(count), "x total": total}

    def begin(self, sums: Sums) -> None:
        """See :class:`ShardedScale`."""
        if "x total" in sums:
            self.range = MinMax(self.range.n_features)
            self._merge(sums)
            self.range.refuse_overflow()

    def _merge(self, sums: Sums) -> None:
        ends = -sums["max x low"], sums["max x high"]
        self.range.merge(*ends, sums["x count"], sums["x total"])

    def learn(self, sums: Sums, total: float) -> None:
        """See :class:`ShardedScale`; a first batch has been learnt from already."""
        if "x total" in sums:
            if not self.is_first:
                self._merge(sums)
            self.scaler.dense = self.range


class ShardedMixed(ShardedScale):
    """The scale of sparse rows for the Bayesian update: full columns are scaled as dense ones."""

    kind = "standard"
    is_sparse = True

    def __init__(self, learner: BayesLearner) -> None:
        self.learner, self.mixed = learner, copy.deepcopy(learner.mixed)
        self.is_first = not self.mixed.ready
        self._follow()

    def _follow(self) -> None:
        self._full = ShardedStandard(self.mixed.full, "x", self.mixed.columns)
        self.standards = [self._full]

    def _scaled(self, shard: CheckedBatch, weight: Floats, sums: Sums | None) -> Blocks:
        mixed: Any = copy.copy(self.mixed)
        mixed.full = self._full
        rows, shown = mixed.rows(self._touched(shard, weight))
        yield slice(None), rows
        if sums is not None and not self.is_first:
            sums.update(self.own(shard, np.empty(0), weight) | shown())

    def own(self, shard: CheckedBatch, y: Labels, weight: Floats) -> Sums:
        """See :class:`ShardedScale`; of the columns that it touches."""
        if shard.scale == self.kind:
            return {}
        batch = self._touched(shard, weight)
        shown = self.mixed.show(batch)
        return {"list scale columns": batch.columns, "list scale": shown}

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
        self.learner.mixed = self.mixed

    def _learn(self, sums: Sums) -> None:
        if "list scale" not in sums:
            return
        columns, parts = by_column(sums["list scale columns"], sums["list scale"])
        if not np.isfinite(parts[SQUARES]).all():
            raise ValueError(OVERFLOW)
        batch: Any = SimpleNamespace(columns=columns, total=float(sums["batch weight"]))
        self.mixed.learn(batch, np.ascontiguousarray(parts.T))


class CentredScale(ShardedScale):
    """The scale of sparse rows for the gradient update, which centres its predictions instead."""

    is_sparse = True

    def __init__(self, learner: LinearLearner) -> None:
        self.learner, self.half = learner, learner.scaler.sparse
        self.is_first = not self.half.ready
        self.pulled = learner.pulled, learner.pull_squares
        self.learns = not self.is_first and self.half.kind is not None

    def rows(self, shard: CheckedBatch, weight: Floats, sums: Sums | None = None) -> Blocks:
        """See :class:`ShardedScale`; the scale is folded in later."""
        yield slice(None), touched(shard, weight)

    def project(self, Z: ScaledRows, mu: Floats, var: Floats) -> tuple[Floats, Floats]:
        """See :class:`ShardedScale`: rows are not shifted."""
        assert isinstance(Z, Touched)
        columns, half = Z.columns, self.half
        gain, mu = half.gain(columns), mu.take(columns, axis=1)
        a, v = Z.project(mu * gain, var.take(columns, axis=1) * gain**2)
        if Z.missing:  # a missing entry counts as the centre of its column
            rows, gaps = Z.gaps()
            np.add.at(a.T, rows, (mu * half.pull(columns) * half.pace)[:, gaps].T)
        return a, v

    def centre(self, mu: Floats) -> Floats:
        """See :class:`ShardedScale`."""
        pulls = self.half.pull(np.arange(self.half.n_features))
        return np.asarray(mu @ (self.half.pace * pulls))

    def own(self, shard: CheckedBatch, y: Labels, weight: Floats) -> Sums:
        """See :class:`ShardedScale`."""
        batch = touched(shard, weight)
        p, q = batch.accumulate(weight[None, :], weight[None, :])
        return self._listed(batch, StepSums(p, q, np.empty((2, 0))))

    def begin(self, sums: Sums) -> None:
        """See :class:`ShardedScale`."""
        seen, _ = self._merged(sums)
        self.half = SparseScale.begun(self.half.kind, self.learner.n_features, seen)
        terms = self.learner.sparse_terms(seen.columns, self.half, first=True)
        self.pulled = terms.pulled, terms.pull_squares

    def sums(self, learner: LinearLearner, batch: Touched, rows: BatchFacts, rates: Rates) -> Sums:
        """The sums over sparse rows that a step is taken by."""
        with np.errstate(all="ignore"):  # overflow is found before anything is changed
            terms = learner.sparse_terms(batch.columns, self.half, first=False)
            terms = terms._replace(pulled=self.pulled[0], pull_squares=self.pulled[1])
            step = learner.sparse_sums(batch, terms, rows, rates, learner.n_rows + self.learns)
        return {"own": step.own} | self._listed(batch, step)

    def take_step(self, sums: Sums, share: tuple[float, float]) -> None:
        """Take the step, and let the scale learn."""
        seen, step = self._merged(sums)
        terms = self.learner.sparse_terms(seen.columns, self.half, first=False)
        terms = terms._replace(pulled=self.pulled[0], pull_squares=self.pulled[1])
        learns = seen if self.learns else None
        with np.errstate(all="ignore"):
            self.learner.take_sparse(seen.columns, learns, self.half, terms, step, share)

    def _listed(self, batch: Touched, step: StepSums) -> Sums:
        """What a shard says of the columns that it touches, in the form that adds up."""
        seen = batch.sums(self.half.kind, step.p[-1], step.q[-1])
        parts = np.concatenate([step.p, step.q]).T
        sums: Sums = {"list columns": seen.columns, "list parts": parts}
        if self.half.kind == "minmax":
            sums["list ends"] = seen.ends.T
        if seen.absent is not None:
            here = np.unique(batch.gaps()[1])
            lines = np.vstack([seen.absent] if step.gaps is None else [seen.absent, step.gaps])
            sums |= {"list gap columns": seen.columns[here], "list gap parts": lines[:, here].T}
        return sums

    def _merged(self, sums: Sums) -> tuple[ColumnSums, StepSums]:
        """What all shards say together of the columns that they touch."""
        listed = sums["list columns"]
        columns, lines = by_column(listed, sums["list parts"])
        absent, gaps, ends = None, None, np.zeros((2, len(columns)))
        p, q = np.split(lines, 2)
        if "list gap columns" in sums:
            some, lines = by_column(sums["list gap columns"], sums["list gap parts"])
            every = np.zeros((len(lines), len(columns)))
            every[:, np.searchsorted(columns, some)] = lines
            absent, gaps = every[0], every[1:]
        if self.half.kind == "minmax":
            at = np.searchsorted(columns, listed)
            np.minimum.at(ends[0], at, sums["list ends"][:, 0])
            np.maximum.at(ends[1], at, sums["list ends"][:, 1])
        seen = ColumnSums(columns, float(sums["batch weight"]), p[-1], q[-1], absent, ends)
        return seen, StepSums(p, q, np.array(sums.get("own", np.empty((2, 0)))), gaps)

    def __getstate__(self) -> dict[str, Any]:
        half = copy.copy(self.half)
        unused = ("low", "high") if half.kind == "standard" else ("squares",)
        vars(half).update(dict.fromkeys(("sums", "absent", *unused), np.empty(0)))
        return super().__getstate__() | {"half": half}


def scale_of(learner: LinearLearner | BayesLearner, *, sparse: bool = False) -> ShardedScale:
    """The scale of a learner's rows, as shards know it."""
    if isinstance(learner, LinearLearner) and (sparse or learner.in_sparse_terms):
        return CentredScale(learner)
    if isinstance(learner, BayesLearner) and learner.sparse is not None:
        return SparseRows() if learner.scale is None else ShardedMixed(learner)
    dense = learner.scaler.dense
    if isinstance(dense, Standard):
        return ShardedStandard(dense)
    return ShardedRange(learner.scaler, dense) if isinstance(dense, MinMax) else ShardedScale()


def by_column(listed: Ints, parts: Floats) -> tuple[Ints, Floats]:
    """The columns that shards have listed, and their numbers added up, a line for each of them."""
    columns, at = np.unique(listed, return_inverse=True)
    return columns, np.array([np.bincount(at, line, len(columns)) for line in parts.T])


def sampling(sums: Sums) -> tuple[Ints, int]:
    """Where shards begin in the batch, and every how manieth row of it is looked at."""
    sizes = sums["list batch rows"]
    sizes = sizes[sizes > 0]
    return np.cumsum(sizes) - sizes, moments.sample_step(int(sizes.sum()))


def columns_of(shard: CheckedBatch, y: Labels, what: str, columns: Places | slice) -> Floats:
    """Some columns of the rows, or the target as one, dense."""
    if what == "y":
        return np.asarray(y, dtype=np.float64)[:, None]
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


def touched(shard: CheckedBatch, weight: Floats) -> Touched:
    """The rows of a sparse shard, reduced to the columns with entries."""
    return Touched(csr(shard), weight, shard.n_missing > 0)


def _blocks(shard: CheckedBatch) -> Iterator[tuple[slice, Floats]]:
    """The dense rows of a shard, a few at a time and in C order."""
    n = max(_BLOCK // shard.X.shape[1] // 4 * 4, 16)
    for start in range(0, shard.n_rows, n):
        yield slice(start, start + n), np.ascontiguousarray(shard.X[start : start + n])


def _read_only(Z: Floats) -> DenseRows:
    return DenseRows(*read_only(Z))


def _plan(scale: Standard) -> Floats:
    """The plan of a batch in which no column has moved."""
    return scale.plan(row_major(np.empty((0, scale.n_features))), np.empty(0))


def _mean_and_gain(own: Floats) -> tuple[Floats, Floats]:
    """Mean and gain of every column, by its moments over all shards."""
    return moments.own_scale(np.vstack([own, np.zeros(own.shape[1])]))
