"""What shards compute in a round of the Bayesian step: see :mod:`fires.models.sharded_bayes`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.sharding import ShardTarget, Sums, Task, add_up
from fires.core.types import Floats, Ints, Labels
from fires.drift import increments, segment
from fires.kernels.assimilate import LEAST, add_information
from fires.kernels.compiling import compiled_with
from fires.kernels.linear import DenseRows, MixedRows
from fires.models.families import Family
from fires.models.families.base import LogMarginal
from fires.models.scale import MinMax
from fires.models.sharded_gradient import range_sums, rows_at_once, scaled_block, weight_of
from fires.models.sharded_scale import ScalePlan, mark_of, show
from fires.models.sharded_sparse import MixedPlan, sparse_rows
from fires.models.target import KEPT, BayesTarget, ClassTarget, ScoredTarget

moments: Any = None  # the family's log Z, slope and bend; filled in by _every_row


class Point(NamedTuple):
    """Where the likelihood is looked at; each array has a line per row of parameters."""

    rows: Ints  # which rows of parameters
    theta: Floats  # their coefficients, the intercept last
    var: Floats  # the variances that predictions are made with
    noise: Floats
    columns: Ints | None  # the leading columns, if their sums are asked for


class Watch(NamedTuple):
    """The belief before the batch, and the usual increment of the alarm: None to ask for it."""

    point: Point
    usual: Floats | None


@dataclass(frozen=True, eq=False)
class Tail:
    """The task of a first batch of numbers: their last ones, too, by which they become scores."""

    task: Task | None
    target: ShardTarget

    def __call__(self, shard: CheckedBatch) -> Sums:
        """See :class:`fires.core.sharding.Task`."""
        sums = {} if self.task is None else self.task(shard)
        return sums | _tail(self.target(shard), weight_of(shard))


@dataclass(frozen=True, eq=False)
class PointSums:
    """The sums of one round."""

    target: ShardTarget
    family: Family
    learner_target: BayesTarget
    scale: str | None
    x_plan: ScalePlan | MixedPlan | MinMax | None
    y_plan: ScalePlan | None
    point: Point
    watch: Watch | None
    is_look: bool  # whether what else the batch shows is asked for

    def __call__(self, shard: CheckedBatch) -> Sums:
        """See :class:`fires.core.sharding.Task`."""
        weight, y = weight_of(shard), self.target(shard)
        rows = self.learner_target.look(y, weight)[0]
        already = shard.scale is not None and shard.scale == self.scale
        plan = None if already else self.x_plan
        shown = plan.empty_shown() if isinstance(plan, ScalePlan) else np.zeros(0)
        of_scale: Sums = {}
        blocks: Iterable[tuple[slice, _Rows]]
        if isinstance(plan, MixedPlan) or (plan is None and sp.issparse(shard.X)):
            whole, of_scale = sparse_rows(plan, shard, weight)
            blocks = [(slice(None), whole)]
        else:
            blocks = _blocks(plan, shard, weight, shown)
        parts, log_p = [], []
        for block, Z in blocks:
            now = Z, np.ascontiguousarray(rows[:, block]), weight[block]
            parts.append(_of_point(self.family, self.point, *now))
            if self.watch is not None:
                log_p.append(_log_p(self.family, self.watch.point, *now))
        sums = add_up(parts)
        if self.watch is not None:
            level = self.learner_target.log_level(rows)
            sums |= _of_watch(np.concatenate(log_p, axis=1), level, weight, self.watch.usual)
        if not self.is_look:
            return sums
        sums |= self._of_target(y, weight) | of_scale
        if isinstance(plan, ScalePlan):
            return sums | show(plan, shown, shard.X, "x")
        return sums | (range_sums(plan, shard, weight) if isinstance(plan, MinMax) else {})

    def _of_target(self, y: Labels, weight: Floats) -> Sums:
        sums: Sums = {"list mark": np.array([mark_of(y)])}
        if isinstance(self.learner_target, ClassTarget):
            sums["class weight"] = self.learner_target.per_class(y, weight)
        elif isinstance(self.learner_target, ScoredTarget):
            sums |= _tail(y, weight)
        if self.y_plan is not None:
            scaled, shown = np.empty((len(y), 1)), self.y_plan.empty_shown()
            numbers = np.asarray(y, dtype=np.float64)[:, None]
            self.y_plan.rescale(numbers, weight, scaled, shown)
            sums |= show(self.y_plan, shown, numbers, "y")
        return sums


def _tail(y: Labels, weight: Floats) -> Sums:
    """The last numbers of a shard; those of all shards hold the last ones of the batch."""
    return {"list y last": np.asarray(y, dtype=np.float64)[weight > 0.0][-KEPT:]}


def _blocks(
    plan: ScalePlan | MinMax | None, shard: CheckedBatch, weight: Floats, shown: Floats
) -> Iterator[tuple[slice, _Rows]]:
    """The rows of a shard on their scale, a few at a time, so that they stay in the cache."""
    n_block = rows_at_once(shard.X.shape[1])
    out = np.empty((min(n_block, shard.n_rows), shard.X.shape[1]))
    for start in range(0, shard.n_rows, n_block):
        block = slice(start, start + n_block)
        yield block, DenseRows(scaled_block(plan, shard, block, weight[block], out, shown))


_Rows: TypeAlias = DenseRows | MixedRows


def _sums_of(Z: _Rows, c: Floats, d: Floats) -> Sums:
    """The sums of rows times c, and of squared rows times d; the intercept's, too."""
    columns, p, q = Z.accumulate(c, d)
    own = c.sum(axis=1), d.sum(axis=1)
    if columns is None:
        return {"slope": np.column_stack([p, own[0]]), "bend": np.column_stack([q, own[1]])}
    sums: Sums = {"own slope": own[0], "own bend": own[1]}
    return sums | {"list columns": columns, "list parts": np.concatenate([p, q]).T}


def _predicted(point: Point, Z: _Rows) -> tuple[Floats, Floats]:
    """Mean and variance of the predictions of a point."""
    mu, var = np.ascontiguousarray(point.theta[:, :-1]), np.ascontiguousarray(point.var[:, :-1])
    a, v = Z.project(mu, var)
    return a + point.theta[:, -1:], v + point.var[:, -1:]


def _of_point(family: Family, point: Point, Z: _Rows, y: Floats, weight: Floats) -> Sums:
    """What some rows say at a point."""
    a, v = _predicted(point, Z)
    y, noisy = y[point.rows], family.noise > 0.0
    # Where noise is part of the model, the likelihood is that of a number with this noise.
    variance = np.broadcast_to(point.noise[:, None], v.shape) if noisy else v
    log_z, slope, bend = _moments_of(family)(a, variance, y)
    tau = bend if noisy else bend / np.maximum(1.0 - v * bend, LEAST)
    c, d = weight * slope, weight * tau
    sums: Sums = {"fit": (weight * log_z).sum(axis=1)} | _sums_of(Z, c, d)
    if point.columns is None:
        return sums
    leading = Z.take(point.columns)
    # What a row says of the leading columns, all others being where they are at this point.
    value = point.theta[:, point.columns] @ leading.T + point.theta[:, -1:] + slope / bend
    size = len(point.columns) + 1
    together = np.zeros((len(a), size + 1, size))
    for k in range(len(a)):
        add_information(leading, d[k], value[k], weight, 1.0, together[k])
    sums |= {"information": together[:, :-1], "pull": together[:, -1]}
    sums["along"] = (weight * bend * a * a).sum(axis=1)
    if noisy:
        error = np.minimum((y - a) ** 2, 25.0 * (v + point.noise[:, None]))
        sums["error"] = (weight * error).sum(axis=1)
    return sums


def _log_p(family: Family, point: Point, Z: _Rows, y: Floats, weight: Floats) -> Floats:
    """The log likelihood of some rows by a belief."""
    a, v = _predicted(point, Z)
    log_p: Floats = _moments_of(family)(a, v + point.noise[:, None], y)[0]
    return log_p


def _of_watch(log_p: Floats, level: Floats | None, weight: Floats, usual: Floats | None) -> Sums:
    """What the alarm has to know of a shard."""
    if level is None:
        return {}
    more = increments(log_p, level, weight)
    if usual is None:
        return {"more": (weight * more).sum(axis=1)}
    return {"list segments": segment(more, weight, usual)[None]}


Moments = Callable[[Floats, Floats, Floats], LogMarginal]


@cache
def _moments_of(family: Family) -> Moments:
    """Log Z, slope and bend of many rows, compiled."""
    loop = compiled_with(
        _every_row, f"{type(family).__name__.lower()}_every_row", moments=family.moments
    )

    def every_row(a: Floats, v: Floats, y: Floats) -> LogMarginal:
        log_z, slope, bend = np.empty((3, *a.shape))
        loop(a, np.ascontiguousarray(v), y, log_z, slope, bend)
        return log_z, slope, bend

    return every_row


def _every_row(a: Floats, v: Floats, y: Floats, log_z: Floats, slope: Floats, bend: Floats) -> None:
    for k in range(a.shape[0]):
        for b in range(a.shape[1]):
            log_z[k, b], slope[k, b], bend[k, b] = moments(a[k, b], v[k, b], y[k, b])
