"""Sparse rows in shards, for the Bayesian update: their scale, and sums over what they touch.

:class:`fires.models.mixed.Mixed` scales full columns as dense ones, and rarer columns by their
standard deviation. A shard returns sums for the columns that it touches, and for the full ones.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.sharding import Sums, Task
from fires.core.types import CsrRows, Floats, Ints, Places
from fires.kernels.linear import MixedRows
from fires.models.mixed import Mixed
from fires.models.sharded_gradient import AskedColumns, weight_of
from fires.models.sharded_scale import SampledRows, ScalePlan, ShardedStandard, show
from fires.models.sparse_scale import Touched


@dataclass(frozen=True, eq=False)
class MixedPlan:
    """What shards need to scale sparse rows."""

    mixed: Mixed
    full: ScalePlan | None
    is_shown: bool


def sparse_rows(
    plan: MixedPlan | None, shard: CheckedBatch, weight: Floats
) -> tuple[MixedRows, Sums]:
    """The rows of a sparse shard on their scale, and what they show of it."""
    X = shard.X if sp.issparse(shard.X) else sp.csr_array(shard.X)
    if plan is None:
        nothing = np.empty((X.shape[0], 0)), np.empty(0, dtype=np.int64)
        return MixedRows(*nothing, np.nan_to_num(X.data), X.indices, X.indptr), {}
    mixed: Any = copy.copy(plan.mixed)
    mixed.full = _Planned(plan.full)
    rows, shown = mixed.rows(X, weight)
    if not plan.is_shown:
        return rows, {}
    sums = _shown(mixed, X, weight, shard.n_missing > 0)
    return rows, sums | shown()


class _Planned:
    """The scale of the full columns in a shard: a plan, in place of a scale that learns."""

    def __init__(self, plan: ScalePlan | None) -> None:
        self.plan = plan

    def scaled(self, block: Floats, weight: Floats) -> tuple[Floats, Callable[[], Sums]]:
        if self.plan is None:
            return block, dict
        plan, out, shown = self.plan, np.empty(block.shape), self.plan.empty_shown()
        plan.rescale(block, weight, out, shown)
        return out, lambda: show(plan, shown, block, "x")


def _shown(mixed: Mixed, X: CsrRows, weight: Floats, missing: bool) -> Sums:
    """What a shard shows of the columns that it touches."""
    batch = Touched(X, weight, missing, np.zeros(X.shape[1], dtype=np.int32))
    return {
        "list scale columns": batch.columns,
        "list scale": mixed.show(batch, X, weight).T,
    }


@dataclass(frozen=True, eq=False)
class _Opening:
    """What a first sparse batch shows of its own scale, besides what another task asks."""

    task: Task | None
    mixed: Mixed

    def __call__(self, shard: CheckedBatch) -> Sums:
        X = shard.X if sp.issparse(shard.X) else sp.csr_array(shard.X)
        sums = {} if self.task is None else self.task(shard)
        if shard.scale == "standard":
            return sums
        return sums | _shown(self.mixed, X, weight_of(shard), shard.n_missing > 0)


@dataclass(frozen=True, eq=False)
class _FullDoubts:
    """As :class:`fires.models.sharded_gradient.Doubts`, about full columns of sparse rows."""

    asked: AskedColumns
    full: Ints

    @property
    def columns(self) -> dict[str, Places]:
        return self.asked.columns

    @property
    def rows(self) -> SampledRows:
        return self.asked.rows

    def __call__(self, shard: CheckedBatch) -> Sums:
        asked = self.full[self.asked.columns["x"]]
        few = np.zeros((shard.n_rows, len(self.full)))
        few[:, self.asked.columns["x"]] = sp.csr_array(shard.X)[:, asked].toarray()
        return self.asked(shard.with_rows(few))


class MixedScale:
    """The scale of sparse rows on the driver, through the rounds of one batch."""

    def __init__(self, mixed: Mixed, *, is_used: bool) -> None:
        self.mixed, self.is_used = copy.deepcopy(mixed), is_used
        self.is_first = is_used and not mixed.ready

    def full(self) -> ShardedStandard | None:
        """The scale of the full columns, if there are any."""
        ready = self.is_used and len(self.mixed.columns) > 0
        return ShardedStandard(self.mixed.full, "x") if ready else None

    def opening(self, task: Task | None) -> Task | None:
        """The task of a first batch."""
        return _Opening(task, self.mixed) if self.is_first else task

    def begin(self, sums: Sums) -> None:
        """Take the scale of a first batch from itself."""
        if self.is_first:
            self._learn(sums)

    def plan(self, full: ShardedStandard | None) -> MixedPlan | None:
        """How shards scale their rows."""
        if not self.is_used:
            return None
        return MixedPlan(self.mixed, None if full is None else full.plan, not self.is_first)

    def doubts(self, asked: AskedColumns | None) -> AskedColumns | None:
        """What to ask of columns that may have moved."""
        if asked is None or not len(asked.columns.get("x", ())):
            return asked
        return _FullDoubts(asked, self.mixed.columns)

    def learn(self, sums: Sums) -> None:
        """Learn from a batch; a first one has been learnt from already."""
        if not self.is_first:
            self._learn(sums)

    def _learn(self, sums: Sums) -> None:
        if "list scale" not in sums:
            return
        listed = sums["list scale columns"]
        columns = np.flatnonzero(np.bincount(listed))
        parts = np.zeros((sums["list scale"].shape[1], len(columns)))
        for line, values in zip(parts, sums["list scale"].T, strict=True):
            line[:] = np.bincount(listed, values)[columns]
        if not np.isfinite(parts[1]).all():
            raise ValueError("X holds values so large that sums overflow; rescale them.")
        batch: Any = SimpleNamespace(columns=columns, total=float(sums["batch weight"]))
        self.mixed.learn(batch, parts)
