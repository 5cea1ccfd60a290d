"""The gradient step of a linear model on a batch in several shards.

The step of :class:`fires.models.linear_learner.LinearLearner` is a sum over rows. So shards return
sums, and the driver takes the step: equal to one process, up to rounding, however the rows are cut.
It takes **one round** per batch, and more only where something has to be known first:

=================================================  =============================================
the first batch                                    one round more, for its own scale and shares
sampled entries are beyond 1.5 times the reach     one round more, for the sampled rows
and a column has moved indeed                      one round more, to add up by the new scale
the batch is a surprise that raises an alarm       one round more, after forgetting
=================================================  =============================================

Of dense rows, a shard returns ``2 R + 5`` numbers per feature, with R rows of parameters; of sparse
rows ``2 R + 3``, and only for the columns that its entries touch.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.errors import OVERFLOW
from fires.core.sharding import Rounds, ShardTarget, Sums, Task
from fires.core.types import Floats, Ints, Places
from fires.kernels import project, read_only
from fires.kernels.linear import accumulate_rows, project_rows
from fires.models.base import Rates
from fires.models.linear_learner import BatchFacts, Gaps, LinearLearner
from fires.models.scale import DenseScale, MinMax, Standard
from fires.models.sharded_scale import (
    SampledRows,
    ScalePlan,
    ShardedStandard,
    mark_of,
    moments,
    show,
)
from fires.models.sparse_scale import SparseScale, Touched
from fires.models.target import ClassTarget, LinearTarget, counts, log_mean, signed

_BLOCK = 1 << 18  # entries of X that are worked on at a time, so that they stay in the cache


def rounds(
    learner: LinearLearner,
    target: ShardTarget,
    rates: Rates,
    watch: Callable[[float, float], bool] | None = None,
    *,
    sparse: bool = False,
) -> Rounds:
    """The step on one batch: see :func:`fires.models.sharded_bayes.step_rounds`."""
    sparse = sparse or learner.in_sparse_terms
    if sparse and watch is not None:
        raise ValueError("With the gradient update, alarms need dense rows; use update='bayes'.")
    driver: _Driver = (_Sparse if sparse else DenseDriver)(learner, target, rates)
    opening = driver.opening()
    if opening is not None:
        driver.begin((yield opening))
    while True:
        sums = yield driver.task(watched=watch is not None)
        doubts = driver.doubts(sums)
        if doubts is not None and not driver.settle(sums, doubts, (yield doubts)):
            sums = yield driver.task(watched=watch is not None)
        if watch is None or not watch(*sums["surprise"].tolist()):
            break
        watch = None
    driver.finish(sums, float(sums["batch weight"]))


# --- what shards do -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Opening:
    """What the first batch shows of its own scale, and of the shares of its classes."""

    target: ShardTarget
    learner_target: LinearTarget
    x_scale: (
        DenseScale | SparseScale | None
    )  # a scale that is to be taken from the batch; None if there is none
    y_scale: Standard | None

    def __call__(self, shard: CheckedBatch) -> Sums:
        weight, y = weight_of(shard), self.target(shard)
        sums: Sums = {}
        if isinstance(self.learner_target, ClassTarget):
            sums["class weight"] = self.learner_target.per_class(y, weight)
        if self.y_scale is not None:
            sums["moments y"] = moments(y[:, None], weight)
        if isinstance(self.x_scale, Standard):
            own = {} if shard.scale == "standard" else {"moments x": moments(shard.X, weight)}
            return sums | own
        if isinstance(self.x_scale, MinMax):
            return sums | (
                {} if shard.scale == "minmax" else range_sums(self.x_scale, shard, weight)
            )
        if self.x_scale is None:
            return sums
        touched = _touched(shard, weight)
        p, q = touched.accumulate(weight[None, :], weight[None, :])
        gaps = touched.gaps()[1], np.zeros((0, 0))
        return sums | _column_sums(touched, p, q, gaps, self.x_scale.kind)


@dataclass(frozen=True, eq=False)
class _StepTask:
    """What a step asks of shards, whether they are dense or sparse."""

    learner: LinearLearner  # without its scale
    target: ShardTarget
    rates: Rates
    level: Floats
    y_plan: ScalePlan | None

    def _read(self, shard: CheckedBatch) -> tuple[BatchFacts, Sums]:
        """What is known of the rows besides X, and what their target shows."""
        weight, y, kind = weight_of(shard), self.target(shard), self.learner.family.kind
        sums: Sums = {"list mark": np.array([mark_of(y)])}
        if kind == "classes":
            rows = signed(y, self.learner.n_rows)
            assert isinstance(self.learner.target, ClassTarget)
            sums["class weight"] = self.learner.target.per_class(y, weight)
        else:
            rows = counts(y) if kind == "counts" else y[None, :]
        if self.y_plan is not None:
            scaled, shown = np.empty((shard.n_rows, 1)), self.y_plan.empty_shown()
            self.y_plan.rescale(y[:, None], weight, scaled, shown)
            rows = scaled.T if kind == "numbers" else rows
            sums |= show(self.y_plan, shown, y[:, None], "y")
        is_weighted = shard.weight is not None
        return BatchFacts(weight, is_weighted, 0.0, rows, self.level), sums


@dataclass(frozen=True, eq=False)
class _DenseSums(_StepTask):
    """The sums over dense rows that a step is taken by."""

    x_plan: ScalePlan | MinMax | None
    watched: bool

    def __call__(self, shard: CheckedBatch) -> Sums:
        (weight, is_weighted, _, target, level), sums = self._read(shard)
        learner = self.learner
        n_rows, n_features = learner.mu.shape
        already = shard.scale is not None and shard.scale == learner.scale
        plan = None if already else self.x_plan
        shown = plan.empty_shown() if isinstance(plan, ScalePlan) else np.zeros(0)
        p, q, more_p, more_q = np.zeros((4, n_rows, n_features))
        own, surprise = np.zeros((2, n_rows)), np.zeros(2)
        variance, shift = learner.sigma**2, np.zeros(n_features)
        n_block = rows_at_once(n_features)
        out = np.empty((min(n_block, shard.n_rows), n_features))
        for start in range(0, shard.n_rows, n_block):
            block = slice(start, start + n_block)
            part = np.ascontiguousarray(target[:, block])
            rows = BatchFacts(weight[block], is_weighted, 0.0, part, level)
            Z = scaled_block(plan, shard, block, rows.weight, out, shown)
            a, v = np.empty((2, n_rows, len(Z)))
            project_rows(Z, learner.mu, variance, shift, a, v)
            if self.watched:
                surprise += learner.surprise_of(a, v, rows)
            c, d = learner.pulls(a, v, rows, self.rates, _Norms(Z), n_rows)
            accumulate_rows(Z, c, d, shift, more_p, more_q)
            p += more_p
            q += more_q
            own += c.sum(axis=1), d.sum(axis=1)
        sums |= {"p": p, "q": q, "own": own}
        if self.watched:
            sums["surprise"] = surprise
        if isinstance(plan, ScalePlan):
            return sums | show(plan, shown, shard.X, "x")
        return sums | (range_sums(plan, shard, weight) if isinstance(plan, MinMax) else {})


class AskedColumns(Protocol):
    """A task about columns that may have moved."""

    @property
    def rows(self) -> SampledRows:
        """The rows that are looked at."""

    @property
    def columns(self) -> dict[str, Places]:
        """The columns, of the rows and of the target."""

    def __call__(self, shard: CheckedBatch) -> Sums:
        """See :class:`fires.core.sharding.Task`."""


@dataclass(frozen=True, eq=False)
class Doubts:
    """Sampled rows, and own mean and spread, of the columns that may have moved."""

    target: ShardTarget
    rows: SampledRows
    columns: dict[str, Places]

    def __call__(self, shard: CheckedBatch) -> Sums:
        """See :class:`fires.core.sharding.Task`."""
        weight, y = weight_of(shard), self.target(shard)
        found: Sums = {}
        for what, columns in self.columns.items():
            if len(columns):
                X = shard.X[:, columns] if what == "x" else np.asarray(y, np.float64)[:, None]
                found |= self.rows.of(X, weight, mark_of(y), what)
                found[f"moments {what}"] = moments(X, weight)
        return found


@dataclass(frozen=True, eq=False)
class _SparseSums(_StepTask):
    """The sums over sparse rows that a step is taken by, for the columns that they touch."""

    scale: _SparseUnit
    n_sums: int  # rows of parameters, and one more if the scale learns

    def __call__(self, shard: CheckedBatch) -> Sums:
        rows, sums = self._read(shard)
        learner, touched = self.learner, _touched(shard, rows.weight)
        with np.errstate(all="ignore"):  # overflow is found before anything is changed
            terms = learner.sparse_terms(touched.columns, self.scale, first=False)
            pulls, (p, q), gaps = learner.sparse_sums(touched, terms, rows, self.rates, self.n_sums)
        sums["own"] = np.stack([one[: learner.n_rows].sum(axis=1) for one in pulls])
        return sums | _column_sums(touched, p, q, gaps, self.scale.kind)


@dataclass(frozen=True, eq=False)
class _SparseUnit:
    """What shards need of a scale of sparse rows; with the methods of such a scale."""

    kind: str | None
    pace: float
    gains: Floats
    pulls: Floats

    def gain(self, columns: Ints) -> Floats:
        return self.gains.take(columns)

    def pull(self, columns: Ints) -> Floats:
        return self.pulls.take(columns)


class _Norms:
    """The squared length of every row."""

    def __init__(self, Z: Floats) -> None:
        self.Z = Z

    def __call__(self) -> Floats:
        ones = np.ones((1, self.Z.shape[1]))
        return project(self.Z, ones, ones)[1]


def rows_at_once(n_features: int) -> int:
    """How many dense rows are worked on at a time."""
    return max(_BLOCK // n_features // 4 * 4, 16)


def weight_of(shard: CheckedBatch) -> Floats:
    """How often each row of a shard counts."""
    return np.ones(shard.n_rows) if shard.weight is None else shard.weight


def scaled_block(
    plan: ScalePlan | MinMax | None,
    shard: CheckedBatch,
    block: slice,
    weight: Floats,
    out: Floats,
    shown: Floats,
) -> Floats:
    """Some rows on their scale, in C order and read-only."""
    X = np.ascontiguousarray(shard.X[block])
    if isinstance(plan, ScalePlan):
        Z = out[: len(X)]
        plan.rescale(X, weight, Z, shown)
    elif isinstance(plan, MinMax):
        Z = plan.applied(X)
    else:
        Z = np.nan_to_num(X) if shard.n_missing else X
    found: Floats = read_only(Z)[0]
    return found


def range_sums(scale: MinMax, shard: CheckedBatch, weight: Floats) -> Sums:
    """What a shard adds to the range of dense columns."""
    low, high, count, total = scale.sums(shard.X, weight, shard.n_missing > 0)
    return {"max x low": -low, "max x high": high, "x count": np.asarray(count), "x total": total}


def _touched(shard: CheckedBatch, weight: Floats) -> Touched:
    X = shard.X if sp.issparse(shard.X) else sp.csr_array(shard.X)
    return Touched(X, weight, shard.n_missing > 0, np.zeros(X.shape[1], dtype=np.int32))


def _column_sums(touched: Touched, p: Floats, q: Floats, gaps: Gaps, kind: str | None) -> Sums:
    """What a shard says of the columns that it touches: a list for each row of sums."""
    sums: Sums = {"list columns": touched.columns}
    sums |= {f"list p {row}": values for row, values in enumerate(p)}
    sums |= {f"list q {row}": values for row, values in enumerate(q)}
    if kind == "minmax":
        sums["list low"] = touched.extreme(np.minimum)
        sums["list high"] = touched.extreme(np.maximum)
    if touched.missing:
        here, at = np.unique(gaps[0], return_inverse=True)
        sums["list gaps"] = touched.columns[here]
        sums["list absent"] = touched.absent()[here]
        for row, slopes in enumerate(gaps[1]):
            sums[f"list gap {row}"] = np.bincount(at, slopes, len(here))
    return sums


# --- what the driver does -------------------------------------------------------------------


class _Driver:
    """The target, and what both kinds of rows have in common."""

    def __init__(self, learner: LinearLearner, target: ShardTarget, rates: Rates) -> None:
        self.learner, self.target, self.rates = learner, target, rates
        scale: Standard | None = getattr(learner.target, "scale", None)
        self.y = None if scale is None else ShardedStandard(scale, "y")
        self.level = np.zeros(learner.n_rows)
        self.levelled: bool = getattr(learner.target, "levelled", False)
        if not self.levelled:
            return
        if isinstance(learner.target, ClassTarget) and learner.target.class_weight.any():
            self.level = learner.target.level_of(learner.target.class_weight.tolist())
        elif scale is not None and scale.ready:
            self.level = log_mean(scale.shift, scale.count)

    def opening(self) -> Task | None:
        """The task of the first batch, if this is one."""
        x_scale = self._first_scale()
        y_scale = None if self.y is None or self.y.scale.ready else self.y.scale
        target = self.learner.target
        shares = isinstance(target, ClassTarget) and self.levelled and not target.class_weight.any()
        if x_scale is None and y_scale is None and not shares:
            return None
        return _Opening(self.target, target, x_scale, y_scale)

    def begin(self, sums: Sums) -> None:
        """Take scale and level of a first batch from itself."""
        target = self.learner.target
        if self.y is not None and not self.y.scale.ready:
            self.y.begin(sums)
            if self.levelled and self.y.plan is not None:
                self.level = log_mean(self.y.plan.origin, sums["batch weight"])
        elif self.levelled and isinstance(target, ClassTarget) and not target.class_weight.any():
            self.level = target.level_of(sums["class weight"].tolist())
        self._begin_scale(sums)

    def doubts(self, sums: Sums) -> AskedColumns | None:
        """What to ask, if columns may have moved."""
        columns = {one.what: one.doubtful(sums) for one in self._standards()}
        if not any(map(len, columns.values())):
            return None
        return Doubts(self.target, SampledRows(sums["list mark"]), columns)

    def settle(self, sums: Sums, asked: AskedColumns, found: Sums) -> bool:
        """Whether the sums are good as they are, now that it is known which columns have moved."""
        settled = [
            one.settle(sums, asked.columns[one.what], asked.rows, found)
            for one in self._standards()
        ]
        return all(settled)

    def finish(self, sums: Sums, total: float) -> None:
        """Take the step, and learn the scales."""
        self._finish(sums, total)
        self.learn_target(sums, total)

    def learn_target(self, sums: Sums, total: float) -> None:
        """Learn the level of the target."""
        if self.y is not None:
            self.y.learn(sums, total)
        elif isinstance(self.learner.target, ClassTarget):
            self.learner.target.class_weight += sums["class weight"]

    def _standards(self) -> list[ShardedStandard]:
        return [] if self.y is None else [self.y]

    def _step_task(self) -> tuple[LinearLearner, ShardTarget, Rates, Floats, ScalePlan | None]:
        """What both kinds of rows need."""
        bare: Any = copy.copy(self.learner)
        bare.scaler = None
        y_plan = None if self.y is None else self.y.plan
        return bare, self.target, self.rates, self.level, y_plan

    def task(self, *, watched: bool) -> Task:
        raise NotImplementedError

    def _first_scale(self) -> DenseScale | SparseScale | None:
        raise NotImplementedError

    def _begin_scale(self, sums: Sums) -> None:
        raise NotImplementedError

    def _finish(self, sums: Sums, total: float) -> None:
        raise NotImplementedError


class DenseDriver(_Driver):
    """The scale of dense columns and the target, through the rounds of one batch."""

    def __init__(self, learner: LinearLearner, target: ShardTarget, rates: Rates) -> None:
        super().__init__(learner, target, rates)
        half = learner.scaler.dense
        self.x = ShardedStandard(half, "x") if isinstance(half, Standard) else None
        self.range: MinMax | None = half if isinstance(half, MinMax) else None

    def _standards(self) -> list[ShardedStandard]:
        return super()._standards() + ([] if self.x is None else [self.x])

    def _first_scale(self) -> DenseScale | SparseScale | None:
        half = self.learner.scaler.dense
        return None if half.ready else half

    def _begin_scale(self, sums: Sums) -> None:
        if self.x is not None and not self.x.scale.ready:
            self.x.begin(sums)
        elif self.range is not None and not self.range.ready and "x total" in sums:
            self.range = MinMax(self.learner.n_features)
            _merge_range(self.range, sums)
            self.range.refuse_overflow()

    def task(self, *, watched: bool) -> Task:
        """See :func:`rounds`."""
        return _DenseSums(*self._step_task(), self.x_plan, watched)

    @property
    def x_plan(self) -> ScalePlan | MinMax | None:
        """How shards scale their rows."""
        return self.range if self.x is None else self.x.plan

    def _finish(self, sums: Sums, total: float) -> None:
        learner, own = self.learner, sums["own"]
        moved = (np.array(sums["p"]), np.array(sums["q"]))
        gain, pulls = np.ones(learner.n_features), (own[0][:, None].copy(), own[1][:, None].copy())
        share = self.rates.shared(total)
        least = learner.move(learner.mu, learner.sigma, moved, gain, pulls, share)
        if least != least:
            raise ValueError(OVERFLOW)
        learner.least_sigma = least
        self.learn_scale(sums, total)

    def learn_scale(self, sums: Sums, total: float) -> None:
        """Learn the scale of the columns."""
        if self.x is not None:
            self.x.learn(sums, total)
        elif self.range is not None and "x total" in sums:
            if self.range is self.learner.scaler.dense:
                _merge_range(self.range, sums)
            self.learner.scaler.dense = self.range


class _Sparse(_Driver):
    def __init__(self, learner: LinearLearner, target: ShardTarget, rates: Rates) -> None:
        super().__init__(learner, target, rates)
        self.half = learner.scaler.sparse
        self.first = not self.half.ready
        self.pulled = learner.pulled, learner.pull_squares

    def _first_scale(self) -> DenseScale | SparseScale | None:
        return self.half if self.first else None

    def _begin_scale(self, sums: Sums) -> None:
        if not self.first:
            return
        merged = _Merged(sums)
        self.half = SparseScale.begun(self.learner.scale, self.learner.n_features, merged)
        terms = self.learner.sparse_terms(merged.columns, self.half, first=True)
        self.pulled = terms.pulled, terms.pull_squares

    def task(self, *, watched: bool) -> Task:
        step = self._step_task()
        step[0].pulled, step[0].pull_squares = self.pulled
        everything = np.arange(self.learner.n_features)
        gains, pulls = self.half.gain(everything), self.half.pull(everything)
        unit = _SparseUnit(self.half.kind, self.half.pace, gains, pulls)
        learns = not self.first and self.half.kind is not None
        return _SparseSums(*step, unit, self.learner.n_rows + learns)

    def _finish(self, sums: Sums, total: float) -> None:
        learner, merged, n = self.learner, _Merged(sums), self.learner.n_rows
        # As in one process: where rows are standardised, the sums of the scale are checked, too.
        n_sums = n + (self.half.kind == "standard" and not self.first)
        terms = learner.sparse_terms(merged.columns, self.half, first=False)
        terms = terms._replace(pulled=self.pulled[0], pull_squares=self.pulled[1])
        own = sums["own"]
        pulls = own[0][:, None].copy(), own[1][:, None].copy()
        step, half, first = merged.sums(n_sums), self.half, self.first
        with np.errstate(all="ignore"):
            learner.take_sparse(
                merged, half, first, terms, pulls, step, merged.missed(n), self.rates
            )


class _Merged(Touched):
    """The columns that all shards touch together; with what a step and a scale ask of them."""

    def __init__(self, sums: Sums) -> None:
        self.columns, self._at = np.unique(sums["list columns"], return_inverse=True)
        self.total = float(sums["batch weight"])
        self.missing = "list gaps" in sums
        self.weight = np.zeros(0)
        self._sums = sums

    def sums(self, n: int) -> tuple[Floats, Floats]:
        """The first n rows of sums."""
        p, q = np.empty((2, n, len(self.columns)))
        for row in range(n):
            p[row] = np.bincount(self._at, self._sums[f"list p {row}"], len(self.columns))
            q[row] = np.bincount(self._at, self._sums[f"list q {row}"], len(self.columns))
        return p, q

    def missed(self, n: int) -> Gaps:
        """The columns of missing entries, and the sums of the slopes of their rows."""
        if not self.missing:
            return np.zeros(0, dtype=np.intp), np.zeros((n, 0))
        slopes = [self._sums[f"list gap {row}"] for row in range(n)]
        return self._gaps(), np.array(slopes)

    def _gaps(self) -> Places:
        return np.searchsorted(self.columns, self._sums["list gaps"])

    def accumulate(self, c: Floats, d: Floats) -> tuple[Floats, Floats]:
        """The weighted sums of the columns, and of their squares: the last row of all."""
        p, q = self.sums(sum(name.startswith("list p ") for name in self._sums))
        return p[-1:], q[-1:]

    def absent(self) -> Floats:
        """The weight of the missing entries of each column."""
        absent = np.bincount(self._gaps(), self._sums["list absent"], len(self.columns))
        return absent.astype(np.float64)

    def extreme(self, pick: np.ufunc) -> Floats:
        """The smallest or greatest entry of each column, or 0."""
        extreme = np.zeros(len(self.columns))
        pick.at(extreme, self._at, self._sums["list low" if pick is np.minimum else "list high"])
        return extreme


def _merge_range(scale: MinMax, sums: Sums) -> None:
    scale.merge(-sums["max x low"], sums["max x high"], sums["x count"], sums["x total"])
