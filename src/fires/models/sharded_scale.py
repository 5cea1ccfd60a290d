"""The running scale of dense columns, for a batch in several shards.

:class:`fires.models.scale.Standard` plans a batch from a look at all of it: which columns have
moved, and with that origin, gain and limit of each. Then it only adds. Here the plan is made
without the rows: no column has moved. That is right unless a column shows entries beyond 1.5 times
its reach, or has been narrow for too long. Shards tell where such entries are, as long as they are
few. If there are some in the sampled rows, another round asks for these rows and for the batch's
own mean and spread, of these columns only. If a column has moved indeed, the batch is added up
again with the new plan.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np

from fires.core.errors import OVERFLOW
from fires.core.sharding import Sums
from fires.core.types import Floats, Ints, Labels, Mask, Places
from fires.kernels.compiling import row_major
from fires.kernels.moments import (
    EDGE,
    FARTHEST,
    IS_COMMON,
    LIMIT,
    MOVED,
    N_SHOWN,
    ORIGIN,
    REFUSED,
    RUN,
    SQUARES,
    UNIT,
    find_moved_among,
    gain_of,
    own_moments,
    rescale_rows,
    sample_step,
)
from fires.models.scale import Standard

_TOO_MANY = -1


class ScalePlan:
    """How shards scale their rows: the plan of a batch if no column has moved, or after a look."""

    def __init__(self, scale: Standard, own: Floats | None = None) -> None:
        """With its own moments, the plan of a first batch, which is scaled by its own values."""
        self.lines = scale.plan(row_major(np.empty((0, scale.n_features))), np.empty(0))
        if own is not None:
            self.lines[ORIGIN], self.lines[UNIT] = _mean_and_gain(own)

    @property
    def origin(self) -> Floats:
        """What is subtracted."""
        origin: Floats = self.lines[ORIGIN]
        return origin

    def empty_shown(self) -> Floats:
        """Space for what the rows of a shard show."""
        return np.zeros((N_SHOWN, self.lines.shape[1]))

    def rescale(self, X: Floats, weight: Floats, out: Floats, shown: Floats) -> None:
        """Scale rows, and add what they show to an array from :meth:`empty_shown`."""
        rescale_rows(row_major(X), weight, self.lines, out, shown)

    def shown(self, sums: Sums, what: str) -> Floats:
        """What the whole batch has shown, for :meth:`fires.models.scale.Standard.learn`."""
        shown = np.vstack([sums[f"{what} shown"], sums[f"max {what} far"]])
        if not np.isfinite(shown[SQUARES]).all() or not np.isfinite(self.origin).all():
            raise ValueError(OVERFLOW)
        return shown

    def same_sums(self, other: ScalePlan, shown: Floats) -> bool:
        """Whether another plan gives the same sums."""
        one, two = self.lines, other.lines
        counted = (one[IS_COMMON] != two[IS_COMMON]) & (shown[REFUSED] > 0.0)
        return not counted.any() and np.array_equal(one[RUN] == MOVED, two[RUN] == MOVED)


def show(plan: ScalePlan, shown: Floats, X: Floats, what: str) -> Sums:
    """What the rows of a shard have shown, in the form that adds up.

    Where entries are beyond 1.5 times the reach, it is also told where they are, if they are few:
    mostly that shows that no column has moved. ``what`` tells columns of X and the target apart.
    """
    sums = {f"{what} shown": shown[:FARTHEST], f"max {what} far": shown[FARTHEST]}
    edge = EDGE * plan.lines[LIMIT]
    columns = np.flatnonzero((shown[FARTHEST] > edge) | (shown[REFUSED] > 0.0))
    n_found = 0
    if len(columns):
        n_found = _TOO_MANY
        if len(columns) * len(X) <= max(X.size // 4, 1 << 12):
            which_rows, which = np.nonzero(
                np.abs(X[:, columns] - plan.origin[columns]) > edge[columns]
            )
            if len(which_rows) <= 1 << 12:
                n_found = len(which_rows)
                places = np.stack([which_rows, columns[which]], axis=1)
                sums[f"list {what} beyond"] = places
    return sums | {f"list {what} n beyond": np.array([n_found])}


def moments(X: Floats, weight: Floats) -> Floats:
    """Weight, mean and sum of squares of every column of a shard."""
    own = np.empty((4, X.shape[1]))
    own_moments(row_major(X), weight, 0, X.shape[1], own)
    count, mean, square, rest = own
    more = np.divide(rest, count, out=np.zeros_like(rest), where=count > 0.0)
    return np.stack([count, mean + more, np.maximum(square - rest * more, 0.0)])


def _mean_and_gain(own: Floats) -> tuple[Floats, Floats]:
    """Mean and gain of every column, by its moments over all shards."""
    count, mean, square = own
    with np.errstate(all="ignore"):  # overflow is found when sums are checked
        variance = np.divide(square, count, out=np.zeros_like(count), where=count > 0.0)
    gain = [gain_of(*pair) for pair in zip(variance.tolist(), mean.tolist(), strict=True)]
    return mean, np.array(gain)


@dataclass(frozen=True, eq=False)
class SampledRows:
    """The rows of a batch that are looked at for columns that have moved.

    A task is the same for all shards and does not know which shard it gets. So a shard is known by
    its mark, and where several have the same, each gives the rows that any of them should give.
    """

    marks: Ints

    @property
    def n_rows(self) -> int:
        """The rows of the batch."""
        return int((self.marks >> 32).sum())

    def _places(self, shard: int) -> Ints:
        """The sampled rows of a shard, counted from its first."""
        sizes = self.marks >> 32
        start, step = int(sizes[:shard].sum()), sample_step(self.n_rows)
        return np.arange(-start % step, sizes[shard], step)

    def of(self, X: Floats, weight: Floats, mark: int, what: str) -> Sums:
        """The sampled rows of a shard."""
        found: Sums = {}
        for shard in np.flatnonzero(self.marks == mark).tolist():
            places = self._places(shard)
            counts = weight[places, None] > 0.0
            found[f"list {what} sample {shard}"] = np.where(counts, X[places], np.nan)
        return found

    def are_sampled(self, places: Places, n_found: Places) -> Mask:
        """Whether rows are among the sampled ones."""
        sizes = self.marks >> 32
        starts = np.repeat(np.cumsum(sizes) - sizes, n_found)
        sampled: Mask = (starts + places) % sample_step(self.n_rows) == 0
        return sampled

    def joined(self, sums: Sums, what: str) -> Floats:
        """The sampled rows of the whole batch, in order."""
        parts = []
        for shard, mark in enumerate(self.marks):
            n = len(self._places(shard))
            before = int((self.marks[:shard] == mark).sum())
            parts.append(sums[f"list {what} sample {shard}"][before * n : (before + 1) * n])
        return np.ascontiguousarray(np.concatenate(parts))


def mark_of(y: Labels) -> int:
    """A number that tells shards apart: how many rows they have, and a digest of their targets."""
    return (len(y) << 32) + zlib.crc32(np.ascontiguousarray(y).tobytes())


class ShardedStandard:
    """The scale of some columns on the driver, through the rounds of one batch."""

    def __init__(self, scale: Standard, what: str) -> None:
        self.scale, self.what = scale, what
        self.plan: ScalePlan | None = ScalePlan(scale) if scale.ready else None

    def begin(self, sums: Sums) -> None:
        """Take the scale of a first batch from itself."""
        own = sums.get(f"moments {self.what}")
        self.plan = None if own is None else ScalePlan(self.scale, own)

    def doubtful(self, sums: Sums) -> Places:
        """The columns that may have moved."""
        plan, nowhere = self.plan, np.zeros(0, dtype=np.intp)
        if plan is None or f"{self.what} shown" not in sums:
            return nowhere
        shown = plan.shown(sums, self.what)
        if not self.scale.ready:
            return nowhere
        sure = (plan.lines[RUN] > 0.0) | (self.scale.narrow >= self.scale.reset_threshold)
        beyond = (shown[FARTHEST] > EDGE * plan.lines[LIMIT]) | (shown[REFUSED] > 0.0)
        columns = np.flatnonzero(beyond | sure)
        n_found = sums[f"list {self.what} n beyond"]
        if not len(columns) or (n_found == _TOO_MANY).any():
            return columns
        # A column whose sampled entries are all within its reach has not moved.
        places = sums.get(f"list {self.what} beyond", np.zeros((0, 2), dtype=np.intp))
        sampled = SampledRows(sums["list mark"]).are_sampled(places[:, 0], n_found)
        found: Places = columns[np.isin(columns, places[sampled, 1]) | sure[columns]]
        return found

    def settle(self, sums: Sums, columns: Places, rows: SampledRows, found: Sums) -> bool:
        """Decide about the columns that may have moved."""
        if not len(columns) or self.plan is None:
            return True
        before, self.plan = self.plan, ScalePlan(self.scale)
        samples, own = rows.joined(found, self.what), found[f"moments {self.what}"]
        find_moved_among(
            columns, samples, *_mean_and_gain(own), rows.n_rows, self.scale.known, self.plan.lines
        )
        return before.same_sums(self.plan, before.shown(sums, self.what))

    def learn(self, sums: Sums, total: float) -> None:
        """Learn from the batch, unless it was scaled already."""
        if self.plan is not None and f"{self.what} shown" in sums:
            shown = self.plan.shown(sums, self.what)
            self.scale.learn(shown, self.plan.lines, np.array([total]))
