"""The running scale of dense columns, for a batch in several shards.

:class:`fires.scaling.dense.Standard` plans a batch from a look at all of it: which columns have
moved, and with that origin, gain and limit of each. Then it only adds. Here the plan is made
without the rows: no column has moved. That is right unless a column shows entries beyond 1.5 times
its reach, or has been narrow for too long. Shards tell where such entries are, as long as they are
few. If there are some in the sampled rows, another round asks for these rows and for the batch's
own mean and spread, of these columns only. If a column has moved indeed, the batch is added up
again with the new plan.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace

import numpy as np

from fires.core.errors import OVERFLOW
from fires.core.sharding import Sums
from fires.core.types import Floats, Ints, Labels, Mask, Places
from fires.kernels import read_only
from fires.kernels.running import (
    BEYOND,
    EDGE,
    FARTHEST,
    MOVED,
    ORIGIN,
    REFUSED,
    SQUARES,
    find_moved_among,
    gain_of,
    look_at,
    own_moments,
    rescale_rows,
    sample_step,
)
from fires.scaling.dense import Standard

_TOO_MANY = -1


@dataclass(frozen=True, eq=False)
class ScalePlan:
    """What shards need to scale their rows."""

    origin: Floats
    gain: Floats
    limit: Floats
    common: Mask
    beyond: Floats

    @classmethod
    def of(cls, scale: Standard) -> ScalePlan:
        """The plan if no column has moved."""
        n = len(scale.shift)
        shown, gain, limit = scale.empty_shown(), np.empty(n), np.empty(n)
        common = np.empty(n, dtype=np.bool_)
        look_at(
            *(*read_only(np.empty((0, n))), np.empty(0), *scale.running()),
            *(shown, gain, limit, common),
        )
        return cls(shown[ORIGIN], gain, limit, common, shown[BEYOND])

    @classmethod
    def first(cls, scale: Standard, own: Floats) -> ScalePlan:
        """The plan of a first batch, which is scaled by its own values."""
        mean, gain = _mean_and_gain(own)
        beyond = np.full(len(mean), MOVED)
        return replace(cls.of(scale), origin=mean, gain=gain, beyond=beyond)

    def rescale(self, X: Floats, weight: Floats, out: Floats, shown: Floats) -> None:
        """Scale rows, and add what they show to an array from :meth:`empty_shown`."""
        rows = X.view()
        rows.flags.writeable = False
        rescale_rows(rows, weight, self.gain, self.limit, self.common, out, shown)

    def empty_shown(self) -> Floats:
        """Space for what the rows of a shard show."""
        shown = np.zeros((ORIGIN + 1, len(self.origin)))
        shown[ORIGIN] = self.origin
        return shown

    def shown(self, sums: Sums, what: str) -> Floats:
        """What the whole batch has shown, for :meth:`fires.scaling.dense.Standard.learn`."""
        far = sums[f"max {what} far"]
        return np.vstack([sums[f"{what} shown"], far, self.beyond, self.origin])

    def doubtful(self, shown: Floats, scale: Standard) -> Places:
        """The columns that may have moved."""
        if not np.isfinite(shown[SQUARES]).all() or not np.isfinite(shown[ORIGIN]).all():
            raise ValueError(OVERFLOW)
        if not scale.ready:
            return np.zeros(0, dtype=np.intp)
        beyond = (shown[FARTHEST] > EDGE * self.limit) | (shown[REFUSED] > 0.0)
        return np.flatnonzero(
            beyond | (self.beyond > 0.0) | (scale.narrow >= scale.reset_threshold)
        )

    def judged(
        self, scale: Standard, columns: Places, samples: Floats, own: Floats, n_rows: int
    ) -> ScalePlan:
        """The plan after a look at doubtful columns."""
        arrays = [
            getattr(scale, name)[columns] for name in ("gain", "narrow", "reset_threshold", "count")
        ]
        before = ScalePlan.of(scale)
        changed = [before.beyond, before.origin, before.gain, before.limit, before.common]
        some = [array[columns] for array in changed]
        find_moved_among(samples, *_mean_and_gain(own), n_rows, *arrays, *some)
        for array, values in zip(changed, some, strict=True):
            array[columns] = values
        return before

    def same_sums(self, other: ScalePlan, shown: Floats) -> bool:
        """Whether another plan gives the same sums."""
        counted = (self.common != other.common) & (shown[REFUSED] > 0.0)
        return not counted.any() and np.array_equal(self.beyond == MOVED, other.beyond == MOVED)


def show(plan: ScalePlan, shown: Floats, X: Floats, what: str) -> Sums:
    """What the rows of a shard have shown, in the form that adds up.

    Parameters
    ----------
    plan : ScalePlan
        How they were scaled.
    shown : ndarray
        What :meth:`ScalePlan.rescale` has filled.
    X : ndarray (n_rows, n_columns)
        The rows. Where entries are beyond 1.5 times the reach, it is also told where they are, if
        they are few: mostly that shows that no column has moved.
    what : str
        Tells the columns of X and the target apart.

    Returns
    -------
    dict of str to ndarray
    """
    sums = {f"{what} shown": shown[:FARTHEST], f"max {what} far": shown[FARTHEST]}
    edge = EDGE * plan.limit
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
    """Weight, mean and sum of squares of every column of a shard.

    Parameters
    ----------
    X : ndarray (n_rows, n_columns)
        The rows, with NaN for missing entries.
    weight : ndarray (n_rows,)
        How often each row counts.

    Returns
    -------
    ndarray (3, n_columns)
        See :func:`fires.core.sharding.add_up`.
    """
    own = np.empty((4, X.shape[1]))
    rows = np.ascontiguousarray(X).view()
    rows.flags.writeable = False
    own_moments(rows, weight, 0, X.shape[1], own)
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
        self.plan: ScalePlan | None = ScalePlan.of(scale) if scale.ready else None

    def begin(self, sums: Sums) -> None:
        """Take the scale of a first batch from itself."""
        own = sums.get(f"moments {self.what}")
        self.plan = None if own is None else ScalePlan.first(self.scale, own)

    def doubtful(self, sums: Sums) -> Places:
        """The columns that may have moved."""
        if self.plan is None or f"{self.what} shown" not in sums:
            return np.zeros(0, dtype=np.intp)
        columns = self.plan.doubtful(self.plan.shown(sums, self.what), self.scale)
        n_found = sums[f"list {self.what} n beyond"]
        if not len(columns) or (n_found == _TOO_MANY).any():
            return columns
        # A column whose sampled entries are all within its reach has not moved.
        places = sums.get(f"list {self.what} beyond", np.zeros((0, 2), dtype=np.intp))
        sampled = SampledRows(sums["list mark"]).are_sampled(places[:, 0], n_found)
        found = np.isin(columns, places[sampled, 1])
        narrow = self.scale.narrow >= self.scale.reset_threshold
        return columns[found | (self.plan.beyond[columns] > 0.0) | narrow[columns]]

    def settle(self, sums: Sums, columns: Places, rows: SampledRows, found: Sums) -> bool:
        """Decide about the columns that may have moved."""
        if not len(columns) or self.plan is None:
            return True
        samples, own = rows.joined(found, self.what), found[f"moments {self.what}"]
        before, shown = self.plan, self.plan.shown(sums, self.what)
        self.plan = before.judged(self.scale, columns, samples, own, rows.n_rows)
        return before.same_sums(self.plan, shown)

    def learn(self, sums: Sums, total: float) -> None:
        """Learn from the batch, unless it was scaled already."""
        if self.plan is not None and f"{self.what} shown" in sums:
            self.scale.learn(self.plan.shown(sums, self.what), np.array([total]))
