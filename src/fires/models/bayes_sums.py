"""What shards compute in a round of the Bayesian step: see :mod:`fires.models.sharded_bayes`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.sharding import Sums, add_up, known_of
from fires.core.types import Floats, Ints
from fires.drift import increments, segment
from fires.kernels.assimilate import LEAST, add_information
from fires.kernels.compiling import compiled_with
from fires.kernels.linear import DenseRows, MixedRows
from fires.models.families import Family
from fires.models.families.base import LogMarginal
from fires.models.sharded_batch import target_sums
from fires.models.sharded_scale import ShardedScale
from fires.models.sparse_scale import Touched
from fires.models.target import BayesTarget

moments: Any = None  # the family's log Z, slope and bend; filled in by _every_row


class Point(NamedTuple):
    """Where the likelihood is looked at; each array has a line per row of parameters."""

    rows: Ints  # which rows of parameters
    theta: Floats  # their coefficients, the intercept last
    var: Floats  # the variances that predictions are made with
    noise: Floats
    columns: Ints | None  # the leading columns, if their sums are asked for


@dataclass(frozen=True, eq=False)
class PointSums:
    """The sums of one round."""

    family: Family
    target: BayesTarget
    x: ShardedScale
    point: Point
    watch: Point | None  # the belief before the batch, by which it is watched
    usual: Floats | None  # the usual increment of the alarm; None to ask for it
    is_look: bool  # whether what else the batch shows is asked for

    def __call__(self, shard: CheckedBatch) -> Sums:
        """See :class:`fires.core.sharding.Task`."""
        weight, y = known_of(shard)
        rows = self.target.look(y, weight)[0]
        sums = target_sums(self.target, shard, y, weight) if self.is_look else None
        parts, log_p = [], []
        for block, Z in self.x.rows(shard, weight, sums):
            assert not isinstance(Z, Touched)
            now = Z, np.ascontiguousarray(rows[:, block]), weight[block]
            parts.append(_of_point(self.family, self.point, *now))
            if self.watch is not None:
                log_p.append(_log_p(self.family, self.watch, *now))
        found = add_up(parts) | (sums or {})
        if self.watch is not None:
            level = self.target.log_level(rows)
            found |= _of_watch(np.concatenate(log_p, axis=1), level, weight, self.usual)
        return found


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
    return _moments_of(family)(a, v + point.noise[:, None], y)[0]


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
