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
from typing import Any

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.sharding import Rounds, Sums, add_up, known_of
from fires.core.types import Floats, Labels
from fires.kernels.linear import DenseRows
from fires.models.base import Rates
from fires.models.linear_learner import BatchFacts, LinearLearner, StepSums
from fires.models.sharded_batch import ShardedBatch, target_sums
from fires.models.sharded_scale import (
    Blocks,
    ScaledRows,
    ShardedScale,
    by_column,
    dense_scale,
    touched,
)
from fires.models.sparse_scale import ColumnSums, SparseScale, Touched
from fires.models.target import LinearTarget


def gradient_rounds(
    learner: LinearLearner,
    rates: Rates,
    watch: Callable[[float, float], bool] | None = None,
    *,
    sparse: bool = False,
) -> Rounds:
    """The step on one batch: see :func:`fires.models.sharded_bayes.step_rounds`."""
    sparse = sparse or learner.in_sparse_terms
    if sparse and watch is not None:
        raise ValueError("With the gradient update, alarms need dense rows; use update='bayes'.")
    x = CentredScale(learner) if sparse else dense_scale(learner.scaler)
    batch = ShardedBatch[LinearTarget](learner.target, x)
    yield from batch.begin()

    def task() -> _StepTask:
        bare: Any = copy.copy(learner)
        bare.scaler = bare.target = None
        return _StepTask(batch.target, x, bare, rates, watch is not None)

    while True:
        sums = yield from batch.settled(task)
        if watch is None or not watch(*sums["surprise"].tolist()):
            break
        watch = None
    share = rates.shared(float(sums["batch weight"]))
    if isinstance(x, CentredScale):
        x.take_step(sums, share)
    else:
        step = StepSums(*(np.array(sums[name]) for name in ("p", "q", "own")))
        learner.take_dense(step, share)
    batch.learn(sums)


@dataclass(frozen=True, eq=False)
class _StepTask:
    """The sums over the rows of a shard that a step is taken by."""

    target: LinearTarget
    x: ShardedScale
    learner: LinearLearner  # without its scale and its target
    rates: Rates
    watched: bool

    def __call__(self, shard: CheckedBatch) -> Sums:
        weight, y = known_of(shard)
        target, level = self.target.look(y, weight)
        level = np.zeros(self.learner.n_rows) if level is None else level
        sums, parts = target_sums(self.target, shard, y, weight), []
        for block, Z in self.x.rows(shard, weight, sums):
            part = np.ascontiguousarray(target[:, block])
            rows = BatchFacts(weight[block], shard.weight is not None, 0.0, part, level)
            if isinstance(self.x, CentredScale) and isinstance(Z, Touched):
                parts.append(self.x.sums(self.learner, Z, rows, self.rates))
            elif isinstance(Z, DenseRows):
                step, surprise = self.learner.dense_sums(
                    Z.full, rows, self.rates, watched=self.watched
                )
                found = {"p": step.p, "q": step.q, "own": step.own}
                parts.append(found | {"surprise": np.array(surprise)})
        return sums | add_up(parts)


class CentredScale(ShardedScale):
    """The scale of sparse rows for the gradient update, which centres its predictions instead."""

    is_sparse = True

    def __init__(self, learner: LinearLearner) -> None:
        self.learner, self.half = learner, learner.scaler.sparse
        self.is_first = not self.half.ready
        self.pulled = learner.pulled, learner.pull_squares
        self.learns = not self.is_first and self.half.kind is not None

    def rows(self, shard: CheckedBatch, weight: Floats, sums: Sums | None = None) -> Blocks:
        """See :class:`fires.models.sharded_scale.ShardedScale`; the scale is folded in later."""
        yield slice(None), touched(shard, weight)

    def project(self, Z: ScaledRows, mu: Floats, var: Floats) -> tuple[Floats, Floats]:
        """See :class:`fires.models.sharded_scale.ShardedScale`: rows are not shifted."""
        assert isinstance(Z, Touched)
        columns, half = Z.columns, self.half
        gain, mu = half.gain(columns), mu.take(columns, axis=1)
        a, v = Z.project(mu * gain, var.take(columns, axis=1) * gain**2)
        if Z.missing:  # a missing entry counts as the centre of its column
            rows, gaps = Z.gaps()
            np.add.at(a.T, rows, (mu * half.pull(columns) * half.pace)[:, gaps].T)
        return a, v

    def centre(self, mu: Floats) -> Floats:
        """See :class:`fires.models.sharded_scale.ShardedScale`."""
        pulls = self.half.pull(np.arange(self.half.n_features))
        return np.asarray(mu @ (self.half.pace * pulls))

    def own(self, shard: CheckedBatch, y: Labels, weight: Floats) -> Sums:
        """See :class:`fires.models.sharded_scale.ShardedScale`."""
        batch = touched(shard, weight)
        p, q = batch.accumulate(weight[None, :], weight[None, :])
        return self._listed(batch, StepSums(p, q, np.empty((2, 0))))

    def begin(self, sums: Sums) -> None:
        """See :class:`fires.models.sharded_scale.ShardedScale`."""
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
