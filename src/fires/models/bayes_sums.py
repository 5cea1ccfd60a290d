"""What shards compute in a round of the Bayesian step: see :mod:`fires.models.sharded_bayes`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fires.core.batch import CheckedBatch, gaps_in
from fires.core.sharding import Sums, add_up, known_of
from fires.core.types import CsrRows, Floats, Ints, Mask
from fires.drift import segment
from fires.kernels.assimilate import LEAST, add_information
from fires.kernels.compiling import compiled_with
from fires.kernels.linear import DenseRows, MixedRows
from fires.models.bayes_changes import Level
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


class Watched(NamedTuple):
    """The belief before the batch, what increments of the alarm are made with, the usual one."""

    point: Point
    level: Level
    inflation: Floats
    usual: Floats | None  # None to ask for it


@dataclass(frozen=True, eq=False)
class PointSums:
    """The sums of one round."""

    family: Family
    target: BayesTarget
    x: ShardedScale
    point: Point
    watch: Watched | None  # None where predictions are not watched
    is_look: bool  # whether what else the batch shows is asked for

    def __call__(self, shard: CheckedBatch) -> Sums:
        """See :class:`fires.core.sharding.Task`."""
        weight, y = known_of(shard)
        rows = self.target.look(y, weight)[0]
        sums = target_sums(self.target, shard, y, weight) if self.is_look else None
        parts, seen, gaps = [], [], gaps_in(shard.X) if shard.n_missing else None
        for block, Z in self.x.rows(shard, weight, sums):
            assert not isinstance(Z, Touched)
            now = Z, np.ascontiguousarray(rows[:, block]), None if gaps is None else gaps[block]
            parts.append(_of_point(self.family, self.point, *now, weight[block]))
            if self.watch is not None:
                seen.append(_seen(self.family, self.watch.point, *now))
        found = add_up(parts) | (sums or {})
        if self.watch is not None:
            with np.errstate(over="ignore", invalid="ignore"):  # such rows are refused
                found |= _of_watch(self.watch, rows, np.concatenate(seen, axis=2), weight)
        return found


_Rows: TypeAlias = DenseRows | MixedRows
_Gaps: TypeAlias = Mask | CsrRows | None


def _sums_of(Z: _Rows, c: Floats, d: Floats) -> Sums:
    """The sums of rows times c, and of squared rows times d; the intercept's, too."""
    columns, p, q = Z.accumulate(c, d)
    own = c.sum(axis=1), d.sum(axis=1)
    if columns is None:
        return {"slope": np.column_stack([p, own[0]]), "bend": np.column_stack([q, own[1]])}
    sums: Sums = {"own slope": own[0], "own bend": own[1]}
    return sums | {"list columns": columns, "list parts": np.concatenate([p, q]).T}


def _predicted(point: Point, Z: _Rows, gaps: _Gaps) -> tuple[Floats, Floats, Floats]:
    """Mean and variance of the predictions of a point, and the variance of missing entries."""
    mu, var = np.ascontiguousarray(point.theta[:, :-1]), np.ascontiguousarray(point.var[:, :-1])
    a, v = Z.project(mu, var)
    missing = np.zeros(a.shape) if gaps is None else (gaps @ (mu * mu + var).T).T
    return a + point.theta[:, -1:], v + point.var[:, -1:], missing


def _of_point(
    family: Family,
    point: Point,
    Z: _Rows,
    y: Floats,
    gaps: _Gaps,
    weight: Floats,
) -> Sums:
    """What some rows say at a point."""
    a, v, missing = _predicted(point, Z, gaps)
    y, noisy = y[point.rows], family.noise > 0.0
    # Where noise is part of the model, the likelihood is that of a number with this noise.
    variance = (point.noise[:, None] if noisy else v) + missing
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


def _seen(family: Family, point: Point, Z: _Rows, y: Floats, gaps: _Gaps) -> Floats:
    """What the features add to the predictions of a belief; log likelihood, slope and bend."""
    a, v, missing = _predicted(point, Z, gaps)
    scores = _moments_of(family)(a, v + missing + point.noise[:, None], y)
    return np.stack([a - point.theta[:, -1:], *scores])


def _of_watch(watch: Watched, y: Floats, seen: Floats, weight: Floats) -> Sums:
    """What the alarm has to know of a shard."""
    added, log_p, slope, bend = seen[0], seen[1], weight * seen[2], weight * seen[3]
    f = added - watch.level.added[:, None]
    more = watch.level.increments(np.stack([y, log_p, f, slope, bend]), watch.inflation)
    if watch.usual is not None:
        return {"list segments": segment(more, weight, watch.usual)[None]}
    along = [more, weight * added, weight * (y > 0.0), f * slope, f * f * bend]
    return {"watched": np.sum(along, axis=2)}


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
