"""Scales of dense rows, learnt while the stream flows.

A scale turns x into ``(x - shift) * gain``. It comes from the batches before; only the first batch
is scaled by its own values. A column that has not varied yet has gain 0: it becomes 0 until it
varies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar, Protocol, TypeAlias

import numpy as np

from fires.core.declared import Array, Declared, rearrange, restart
from fires.core.errors import OVERFLOW
from fires.core.state import Arrays
from fires.core.types import Floats, Mask, Places
from fires.kernels import accumulate
from fires.kernels.running import (
    BEYOND,
    MOVED,
    ORIGIN,
    PATIENCE,
    PROPORTION,
    ROUNDING,
    YOUNG,
    find_moved,
    learn,
    look_at,
    own_moments,
    own_scale,
    rescale_rows,
)
from fires.kernels.scaled import widen

_TINY = np.finfo(np.float64).tiny


class HasLearnt(Protocol):
    """A scale of dense or of sparse rows."""

    learnt: ClassVar[Declared]


class Unscaled:
    """X as it comes."""

    kind: ClassVar[str | None] = None
    ready = True

    def __init__(self, n_features: int) -> None:
        self.shift = np.zeros(n_features)
        self.gain = np.ones(n_features)

    learnt: ClassVar[Declared] = {}

    def refresh(self) -> None:
        """Nothing to compute."""

    def restart(self, columns: Places) -> None:
        """Nothing to forget. See :class:`Standard`."""

    def rearranged(self, source: Places) -> Unscaled:
        """For other columns. See :class:`Standard`."""
        return Unscaled(len(source))


class Standard:
    r"""Mean 0 and standard deviation 1, by what the last 10,000 rows or so have shown.

    **Forgetting.** Let :math:`n`, :math:`\bar x` and :math:`M_2` be the count, mean and sum of
    squares so far. Count and sum of squares first fade by :math:`(1 - 1/10000)^w`. Then a batch of
    weight :math:`w` is merged. With :math:`p = \sum_b w_b t_b`, :math:`q = \sum_b w_b t_b^2` and
    :math:`t = x - \bar x`,

    .. math::
        \bar x' = \bar x + \frac{p}{n + w}, \qquad M_2' = M_2 + q - \frac{p^2}{n + w}

    which loses no digits, whatever the offset of the column.

    **Bad entries.** The *reach* of a column is the greatest :math:`|t|` so far; it fades, too. An
    entry beyond ten times the reach is out of all proportion. It becomes 0 and does not count, as
    if it were missing. If there are five of them within the memory, such entries belong to the
    column: from then on they count.

    **A column that moved.** Sixteen rows of a batch are looked at before it is scaled. If eight
    entries in a row are beyond 1.5 times the reach, the level or the unit of the column has
    changed, and its scale starts anew from the batch itself. It also does if for ten batches the
    column has stayed about one value with less than a fifth of the standard deviation. Then the
    unit has become smaller, or the scale came from a bad entry. Places that are narrow at times,
    or move again and again would start anew for ever. So each start makes the next one harder, and
    this is forgotten ten times as slowly.

    Examples
    --------
    >>> scaler = Standard(1)
    >>> X = np.array([[1.0], [3.0], [np.nan]])
    >>> scaled, learn = scaler.scaled(X, np.ones(3))
    >>> scaled.ravel()
    array([-1.,  1.,  0.])
    >>> learn()
    >>> scaler.shift, scaler.gain
    (array([2.]), array([1.]))
    """

    kind: ClassVar[str | None] = "standard"
    learnt: ClassVar[Declared] = {
        "count": Array("1|J", low=0.0),
        "shift": Array("J"),
        "spread": Array("J", low=0.0),
        "max_abs": Array("J", low=0.0, key="reach"),
        "beyond": Array("J", low=0.0),
        "waiting": Array("J", low=0.0),
        "refused": Array("J", low=0.0),
        "narrow": Array("J", low=0.0),
        "settled": Array("J"),
        "reset_threshold": Array("J", low=1.0, key="patience"),
    }

    def __init__(self, n_features: int) -> None:
        self.count: Floats = np.zeros(n_features)
        self.shift = np.zeros(n_features)
        self.spread = np.zeros(n_features)
        self.gain = np.zeros(n_features)
        self.max_abs = np.zeros(n_features)
        self.beyond = np.zeros(n_features)  # sampled entries in a row beyond the reach
        self.waiting = np.zeros(n_features)  # the reach once entries are within it again
        self.refused = np.zeros(n_features)  # entries out of all proportion, fading
        self.narrow = np.zeros(n_features)  # rows for which the column has hardly varied
        self.settled = np.zeros(n_features)  # about which value
        self.reset_threshold = np.full(n_features, PATIENCE)  # how many such rows are too many
        self.ready = False

    def scaled(self, X: Floats, weight: Floats) -> tuple[Floats, Callable[[], None]]:
        """Scale a batch by the batches before it."""
        rows = np.ascontiguousarray(X).view()
        rows.flags.writeable = False  # one compiled form serves writable and read-only callers
        out, (scale, limit, common, shown) = np.empty(X.shape), self.look(rows, weight)
        if not math.isfinite(rescale_rows(rows, weight, scale, limit, common, out, shown)):
            raise ValueError(OVERFLOW)
        return out, lambda: self.learn(shown, weight)

    def look(self, rows: Floats, weight: Floats) -> tuple[Floats, Floats, Mask, Floats]:
        """Gain, limit, what is common: how to scale a batch; and an array for what it shows."""
        n = len(self.shift)
        shown, scale, limit = self.empty_shown(), np.empty(n), np.empty(n)
        common = np.empty(n, dtype=np.bool_)
        some_moved = look_at(rows, weight, *self.running(), shown, scale, limit, common)
        if not self.ready:
            own = np.empty((4, n))
            own_moments(rows, weight, 0, n, own)
            own_scale(own, 0, shown[ORIGIN], scale)
            shown[BEYOND] = MOVED
        elif some_moved:
            find_moved(
                *(rows, weight, self.gain, self.narrow, self.reset_threshold, self.count),
                *(shown[BEYOND], shown[ORIGIN], scale, limit, common),
            )
        return scale, limit, common, shown

    def running(self) -> tuple[Floats, ...]:
        """What a compiled loop needs to look at a batch: see :mod:`fires.kernels.running`."""
        return (
            *(self.count, self.shift, self.gain, self.max_abs, self.beyond),
            *(self.refused, self.narrow, self.reset_threshold),
        )

    def empty_shown(self) -> Floats:
        """Space for what a batch shows."""
        return np.empty((7, len(self.shift)))

    def learn(self, shown: Floats, weight: Floats) -> None:
        """Learn from a batch."""
        learn(
            *(shown, weight, self.count, self.shift, self.spread, self.gain),
            *(self.max_abs, self.beyond, self.waiting, self.refused),
            *(self.narrow, self.settled, self.reset_threshold),
        )
        self.ready = self.ready or bool(self.count.any())

    def restart(self, columns: Places) -> None:
        """Forget some columns: the next batch in which one varies gives it its scale."""
        restart(self, self.learnt, columns, len(self.shift), fresh=Standard(len(self.shift)))
        self.gain[columns] = 0.0
        # Whatever is wider than nothing is a new scale, taken from the batch itself.
        self.narrow[columns] = self.reset_threshold[columns]
        self.ready = bool(self.count.any())

    def rearranged(self, source: Places) -> Standard:
        """The scale of other columns: see :func:`fires.core.declared.rearrange`."""
        fresh = Standard(len(source))
        fresh.narrow[:] = PATIENCE
        return rearrange(self, self.learnt, source, fresh, "gain")

    def joined(self, other: Standard) -> Standard:
        """The scale of these columns and then of those of another one."""
        both = Standard(0)
        for name in (*self.learnt, "gain"):
            setattr(both, name, np.concatenate([getattr(self, name), getattr(other, name)]))
        both.ready = self.ready or other.ready
        return both

    def undo(self, gain: Floats) -> None:
        """See :meth:`fires.scaling.sparse.SparseStandard.undo`."""
        for name in ("shift", "max_abs", "waiting", "settled"):
            setattr(self, name, getattr(self, name) / gain)
        self.spread = self.spread / gain**2
        self.refresh()

    @property
    def limit(self) -> Floats:
        """The distance from the shift beyond which entries are out of all proportion."""
        judged = (self.count >= YOUNG) & (self.gain > 0.0) & (self.max_abs > 0.0)
        return np.where(judged, PROPORTION * self.max_abs, np.inf)

    def refresh(self) -> None:
        """Compute the gain from the sums, and what older files do not have."""
        self.count = np.array(np.broadcast_to(self.count, self.shift.shape))
        self.ready = bool(self.count.any())
        # In the same order as the compiled loop, so that a loaded scale goes on bit for bit.
        variance = self.spread * np.where(
            self.count > 0.0, 1.0 / np.maximum(self.count, _TINY), 0.0
        )
        deviation = np.sqrt(variance)
        likely = np.minimum(np.sqrt(self.spread), 10.0 * deviation)
        self.max_abs = np.where(self.max_abs > 0.0, self.max_abs, likely)
        floor = np.maximum(ROUNDING * self.shift**2, 1e-300)
        seen = variance > floor
        self.gain = np.where(seen, 1.0 / np.where(seen, deviation, 1.0), 0.0)


class MinMax:
    """0 for the smallest and 1 for the greatest value seen.

    A missing entry must say nothing, and 0 would say that it is the smallest. So :meth:`filled`
    puts the mean of its column in its place.

    Examples
    --------
    >>> scaler = MinMax(1)
    >>> X = np.array([[2.0], [3.0], [7.0], [np.nan]])
    >>> scaler.begin(X, np.ones(4), missing=True)
    >>> (scaler.filled(X) - scaler.shift) * scaler.gain
    array([[0. ], [0.2], [1. ], [0.4]])
    """

    kind: ClassVar[str | None] = "minmax"
    learnt: ClassVar[Declared] = {
        "low": Array("J", finite=False),
        "high": Array("J", finite=False),
        # Files of earlier versions have neither: their means begin with the next batch.
        "count": Array("1|J", low=0.0, optional=True),
        "mean": Array("J", optional=True),
    }

    def __init__(self, n_features: int) -> None:
        self.low = np.full(n_features, np.inf)
        self.high = np.full(n_features, -np.inf)
        self.count: Floats = np.zeros(1)  # one number; one per column once entries are missing
        self.mean = np.zeros(n_features)
        self.refresh()

    @property
    def ready(self) -> bool:
        """Whether a batch was seen."""
        return bool(np.isfinite(self.low).any())

    def begin(self, X: Floats, weight: Floats, missing: bool) -> None:
        """Learn the scale of the first batch from the batch itself. See :class:`Standard`."""
        self.absorb(X, self.low, self.high, weight, missing)

    def absorb(self, X: Floats, p: Floats, q: Floats, weight: Floats, missing: bool) -> None:
        """Widen the range by a batch; rows of weight 0 are left out. See :class:`Standard`."""
        self.merge(*self.sums(X, weight, missing))

    def sums(
        self, X: Floats, weight: Floats, missing: bool
    ) -> tuple[Floats, Floats, Floats | np.float64, Floats]:
        """What a batch adds to the scale."""
        with np.errstate(over="ignore", invalid="ignore"):
            total, _ = accumulate(X, weight, weight, self.mean)
        return *widen(X, weight, self.low, self.high), _count(X, weight, missing), total

    def merge(self, low: Floats, high: Floats, count: Floats | np.float64, total: Floats) -> None:
        """Learn from what :meth:`sums` gave, for one batch or for its parts together."""
        self.low, self.high, self.count = low, high, self.count + count
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.mean + total / np.maximum(self.count, _TINY)
        # Sums of huge values overflow; the mean stays within the range all the same.
        seen = np.isfinite(self.low)
        self.mean = np.where(seen, np.fmin(np.fmax(mean, self.low), self.high), 0.0)
        self.refresh()

    def restart(self, columns: Places) -> None:
        """Forget some columns. See :class:`Standard`."""
        restart(self, self.learnt, columns, len(self.low), fresh=MinMax(len(self.low)))
        self.refresh()

    def rearranged(self, source: Places) -> MinMax:
        """The scale of other columns. See :class:`Standard`."""
        other = rearrange(self, self.learnt, source, MinMax(len(source)))
        other.refresh()
        return other

    def filled(self, X: Floats) -> Floats:
        """Rows without gaps, for :func:`fires.kernels.scaled.rescale`."""
        gaps = np.isnan(X)
        return np.where(gaps, self.mean, X) if gaps.any() else X

    def refresh(self) -> None:
        """Compute shift and gain from the range."""
        seen = self.high - self.low > 1e-150
        self.shift = np.where(np.isfinite(self.low), self.low, 0.0)
        width = np.subtract(self.high, self.low, out=np.full(len(seen), np.inf), where=seen)
        self.gain = 1.0 / width


def _count(X: Floats, weight: Floats, missing: bool) -> Floats | np.float64:
    """The weight of the rows in which a column has entries; one number if nothing is missing."""
    return weight @ ~np.isnan(X) if missing else np.add.reduce(weight)


def declared_in(arrays: Arrays, half: HasLearnt) -> Declared:
    """What a scale has learnt; in a file from before it forgot, only count, mean and spread."""
    learnt = half.learnt
    if isinstance(half, Standard) and arrays.keys() == {"count", "shift", "spread"}:
        return {name: learnt[name] for name in arrays}
    return learnt


DenseScale: TypeAlias = Unscaled | Standard | MinMax
DENSE: dict[str | None, type[DenseScale]] = {
    scaler.kind: scaler for scaler in (Unscaled, Standard, MinMax)
}
