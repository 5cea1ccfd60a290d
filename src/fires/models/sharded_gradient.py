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
from fires.kernels import read_only
from fires.models.base import Rates
from fires.models.linear_learner import BatchFacts, LinearLearner, StepSums
from fires.models.scale import DenseScale, MinMax, Standard
from fires.models.sharded_scale import (
    SampledRows,
    ScalePlan,
    ShardedStandard,
    mark_of,
    moments,
    show,
)
from fires.models.sparse_scale import ColumnSums, SparseScale, Touched
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
    driver = (_SparseDriver if sparse else DenseDriver)(learner, target, rates)
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
        touched, kind = _touched(shard, weight), self.x_scale.kind
        p, q = touched.accumulate(weight[None, :], weight[None, :])
        return sums | _column_sums(touched, StepSums(p, q, np.empty((2, 0))), kind)


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
        n_block = rows_at_once(n_features)
        out = np.empty((min(n_block, shard.n_rows), n_features))
        for start in range(0, shard.n_rows, n_block):
            block = slice(start, start + n_block)
            part = np.ascontiguousarray(target[:, block])
            rows = BatchFacts(weight[block], is_weighted, 0.0, part, level)
            Z = scaled_block(plan, shard, block, rows.weight, out, shown)
            more, surprising = learner.dense_sums(
                Z, rows, self.rates, more_p, more_q, watched=self.watched
            )
            p += more_p
            q += more_q
            own += more
            surprise += surprising
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
            step = learner.sparse_sums(touched, terms, rows, self.rates, self.n_sums)
        return sums | {"own": step.own} | _column_sums(touched, step, self.scale.kind)


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


def _column_sums(touched: Touched, step: StepSums, kind: str | None) -> Sums:
    """What a shard says of the columns that it touches, in the form that adds up."""
    seen = touched.sums(kind, step.p[-1], step.q[-1])
    sums: Sums = {"list columns": seen.columns, "list parts": np.concatenate([step.p, step.q]).T}
    if kind == "minmax":
        sums["list ends"] = seen.ends.T
    if seen.absent is not None:
        here = np.unique(touched.gaps()[1])
        lines = np.vstack([seen.absent] if step.gaps is None else [seen.absent, step.gaps])
        sums |= {"list gap columns": seen.columns[here], "list gap parts": lines[:, here].T}
    return sums


def _merged(sums: Sums, kind: str | None) -> tuple[ColumnSums, StepSums]:
    """What all shards say together of the columns that they touch."""
    columns, at = np.unique(sums["list columns"], return_inverse=True)
    n, absent, gaps, ends = len(columns), None, None, np.zeros((2, len(columns)))
    p, q = np.split(_lines(at, sums["list parts"], n), 2)
    if "list gap columns" in sums:
        at_gaps = np.searchsorted(columns, sums["list gap columns"])
        lines = _lines(at_gaps, sums["list gap parts"], n)
        absent, gaps = lines[0], lines[1:]
    if kind == "minmax":
        np.minimum.at(ends[0], at, sums["list ends"][:, 0])
        np.maximum.at(ends[1], at, sums["list ends"][:, 1])
    seen = ColumnSums(columns, float(sums["batch weight"]), p[-1], q[-1], absent, ends)
    return seen, StepSums(p, q, np.array(sums.get("own", np.empty((2, 0)))), gaps)


def _lines(at: Places, parts: Floats, n: int) -> Floats:
    """Numbers of shards added up by column, a line for each of them."""
    return np.array([np.bincount(at, line, n) for line in parts.T])


# --- what the driver does -------------------------------------------------------------------


class DenseDriver:
    """The scale of dense columns and the target, through the rounds of one batch."""

    def __init__(self, learner: LinearLearner, target: ShardTarget, rates: Rates) -> None:
        self.learner, self.target, self.rates = learner, target, rates
        half = learner.scaler.dense
        self.x = ShardedStandard(half, "x") if isinstance(half, Standard) else None
        self.range: MinMax | None = half if isinstance(half, MinMax) else None
        scale = learner.target.scale
        self.y = None if scale is None else ShardedStandard(scale, "y")
        self.level = np.zeros(learner.n_rows)
        self.levelled = learner.target.levelled
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
        return [one for one in (self.y, self.x) if one is not None]

    def _step_task(self) -> tuple[LinearLearner, ShardTarget, Rates, Floats, ScalePlan | None]:
        """What both kinds of rows need."""
        bare: Any = copy.copy(self.learner)
        bare.scaler = None
        y_plan = None if self.y is None else self.y.plan
        return bare, self.target, self.rates, self.level, y_plan

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
        learner = self.learner
        step = StepSums(*(np.array(sums[name]) for name in ("p", "q", "own")))
        least = learner.take_dense(step, self.rates.shared(total))
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


class _SparseDriver(DenseDriver):
    """The same for sparse rows, whose sums are about the columns that they touch."""

    def __init__(self, learner: LinearLearner, target: ShardTarget, rates: Rates) -> None:
        super().__init__(learner, target, rates)
        self.x, self.half = None, learner.scaler.sparse
        self.first = not self.half.ready
        self.pulled = learner.pulled, learner.pull_squares

    def _first_scale(self) -> DenseScale | SparseScale | None:
        return self.half if self.first else None

    def _begin_scale(self, sums: Sums) -> None:
        if self.first:
            seen, _ = _merged(sums, self.half.kind)
            self.half = SparseScale.begun(self.half.kind, self.learner.n_features, seen)
            terms = self.learner.sparse_terms(seen.columns, self.half, first=True)
            self.pulled = terms.pulled, terms.pull_squares

    def task(self, *, watched: bool) -> Task:
        """See :func:`rounds`."""
        step = self._step_task()
        step[0].pulled, step[0].pull_squares = self.pulled
        everything = np.arange(self.learner.n_features)
        gains, pulls = self.half.gain(everything), self.half.pull(everything)
        unit = _SparseUnit(self.half.kind, self.half.pace, gains, pulls)
        return _SparseSums(*step, unit, self.learner.n_rows + self._learns)

    @property
    def _learns(self) -> bool:
        return not self.first and self.half.kind is not None

    def _finish(self, sums: Sums, total: float) -> None:
        learner = self.learner
        seen, step = _merged(sums, self.half.kind)
        terms = learner.sparse_terms(seen.columns, self.half, first=False)
        terms = terms._replace(pulled=self.pulled[0], pull_squares=self.pulled[1])
        learns, share = seen if self._learns else None, self.rates.shared(total)
        with np.errstate(all="ignore"):
            learner.take_sparse(seen.columns, learns, self.half, terms, step, share)


def _merge_range(scale: MinMax, sums: Sums) -> None:
    scale.merge(-sums["max x low"], sums["max x high"], sums["x count"], sums["x total"])
