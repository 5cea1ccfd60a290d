"""Scales of columns, learnt while the stream flows.

A scale turns x into ``(x - shift) * gain``. It comes from the batches before; only the first batch
is scaled by its own values. A column that has not varied yet has gain 0: it becomes 0 until it
varies.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp

from fires.core.batch import nothing, row_major
from fires.core.declared import Array, Declared, View, rearrange, restore
from fires.core.errors import OVERFLOW
from fires.core.state import Arrays, part_of, under
from fires.core.types import CsrRows, Floats, Matrix, Places
from fires.kernels import accumulate, moments
from fires.kernels.moments import CLIP, MOVED, PATIENCE, PROPORTION, rescale, widen
from fires.models.sparse_scale import ColumnScale, SparseScale, Touched

_TINY = np.finfo(np.float64).tiny
_KNOWN: Declared = {"known": Array(moments.N_KNOWN, "J")}
# The rows on a scale, and what learns the scale from them.
Scaled = tuple[Floats, Callable[[], None]]


class DenseScale(ColumnScale):
    """X as it comes; the base class of the scales of dense rows."""

    kind: ClassVar[str | None] = None
    # Of units with a batch, until somebody takes it: see fires.kernels.moments.learn.
    change: Floats | None = None

    def restate(self, change: Floats) -> None:
        """Know that rows come in other units from here on: x becomes unit x + origin."""

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self.ready = True

    def scaled(self, X: Floats, weight: Floats, missing: bool = True) -> Scaled:
        """Scale a batch by the batches before it."""
        return (np.nan_to_num(X) if missing else X), nothing

    def applied(self, X: Floats) -> Floats:
        """Scale rows without learning; a column not seen yet becomes 0."""
        return rescale(X, np.zeros(self.n_features), np.ones(self.n_features))


_STANDARD: Declared = {
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


class Standard(DenseScale):
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

    kind = "standard"
    learnt = _STANDARD

    count = View("known", moments.COUNT)
    shift = View("known", moments.SHIFT)
    spread = View("known", moments.SPREAD)
    gain = View("known", moments.GAIN)
    max_abs = View("known", moments.MAX_ABS)
    beyond = View("known", moments.BEYOND)  # sampled entries in a row beyond the reach
    waiting = View("known", moments.WAITING)  # the reach once entries are within it again
    refused = View("known", moments.OUTLIERS)  # entries out of all proportion, fading
    narrow = View("known", moments.NARROW)  # rows for which the column has hardly varied
    settled = View("known", moments.SETTLED)  # about which value
    reset_threshold = View("known", moments.RESET)  # how many such rows are too many

    def __init__(self, n_features: int) -> None:
        self.n_features, self.ready = n_features, False
        self.known = np.zeros((moments.N_KNOWN, n_features))
        self.reset_threshold = np.full(n_features, PATIENCE)

    def scaled(self, X: Floats, weight: Floats, missing: bool = True) -> Scaled:
        """Scale a batch by the batches before it."""
        rows = row_major(X)
        plan, out = self.plan(rows, weight), np.empty(X.shape)
        shown = np.zeros((moments.N_SHOWN, self.n_features))
        if not math.isfinite(moments.rescale_rows(rows, weight, plan, out, shown)[0]):
            raise ValueError(OVERFLOW)
        known, self.change = self.known.copy(), np.empty((2, self.n_features))
        moments.learn(shown, plan, weight, known, self.change)
        ready = self.ready or bool(known[moments.COUNT].any())
        return out, partial(vars(self).update, known=known, ready=ready)

    def plan(self, rows: Floats, weight: Floats) -> Floats:
        """How to scale a batch: see :mod:`fires.kernels.moments`."""
        plan = np.empty((moments.N_PLAN, self.n_features))
        some_moved = moments.look_at(rows, weight, self.known, plan)
        if not self.ready:
            own = moments.own_scale(moments.own_moments(rows, weight))
            plan[moments.ORIGIN], plan[moments.UNIT] = own
            plan[moments.RUN] = MOVED
        elif some_moved:
            moments.find_moved(rows, weight, self.known, plan)
        return plan

    def learn(self, shown: Floats, plan: Floats, weight: Floats) -> None:
        """Learn from a batch."""
        self.change = np.empty((2, self.n_features))
        moments.learn(shown, plan, weight, self.known, self.change)
        self.ready = self.ready or bool(self.count.any())

    def applied(self, X: Floats) -> Floats:
        """Scale rows without learning. See :class:`DenseScale`."""
        return rescale(X, self.shift, self.gain, self.limit, CLIP)

    def restart(self, columns: Places) -> None:
        """Forget some columns: the next batch in which one varies gives it its scale."""
        self.known[:, columns] = 0.0
        # Whatever is wider than nothing is a new scale, taken from the batch itself.
        self.narrow[columns] = self.reset_threshold[columns] = PATIENCE
        self.ready = bool(self.count.any())

    def rearranged(self, source: Places) -> Standard:
        """The scale of other columns. See :class:`DenseScale`."""
        fresh = Standard(len(source))
        fresh.known[moments.NARROW] = PATIENCE
        other = rearrange(self, _KNOWN, source, fresh)
        other.n_features = len(source)
        return other

    def joined(self, other: Standard) -> Standard:
        """The scale of these columns and then of those of another one."""
        both = Standard(self.n_features + other.n_features)
        both.known, both.ready = np.hstack([self.known, other.known]), self.ready or other.ready
        if self.change is not None:
            none = np.stack([np.zeros(other.n_features), np.ones(other.n_features)])
            both.change = np.hstack([self.change, none])
        return both

    def restate(self, change: Floats) -> None:
        """See :meth:`DenseScale.restate`."""
        origin, unit = change
        self.shift, self.settled = unit * self.shift + origin, unit * self.settled + origin
        self.max_abs, self.waiting = unit * self.max_abs, unit * self.waiting
        self.spread = unit * unit * self.spread
        self.refresh()

    def undo(self, gain: Floats) -> None:
        """See :meth:`fires.models.sparse_scale.SparseScale.undo`."""
        self.restate(np.stack([np.zeros(len(gain)), 1.0 / gain]))

    @property
    def limit(self) -> Floats:
        """The distance from the shift beyond which entries are out of all proportion."""
        judged = (self.count >= moments.YOUNG) & (self.gain > 0.0) & (self.max_abs > 0.0)
        return np.where(judged, PROPORTION * self.max_abs, np.inf)

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`. See :class:`DenseScale`."""
        learnt = self.learnt
        if arrays.keys() == {"count", "shift", "spread"}:  # a file from before it forgot
            learnt = {name: learnt[name] for name in arrays}
        restore(self, learnt, {}, arrays, {"J": self.n_features})
        self.refresh()

    def refresh(self) -> None:
        """Compute the gain from the sums, and what older files do not have."""
        self.ready = bool(self.count.any())
        # In the same order as the compiled loop, so that a loaded scale goes on bit for bit.
        variance = self.spread * np.where(
            self.count > 0.0, 1.0 / np.maximum(self.count, _TINY), 0.0
        )
        deviation = np.sqrt(variance)
        likely = np.minimum(np.sqrt(self.spread), 10.0 * deviation)
        self.max_abs = np.where(self.max_abs > 0.0, self.max_abs, likely)
        floor = np.maximum(moments.ROUNDING * self.shift**2, 1e-300)
        seen = variance > floor
        self.gain = np.where(seen, 1.0 / np.where(seen, deviation, 1.0), 0.0)


_MINMAX: Declared = {
    "low": Array("J", finite=False),
    "high": Array("J", finite=False),
    # Files of earlier versions have neither: their means begin with the next batch.
    "count": Array("1|J", low=0.0, optional=True),
    "mean": Array("J", optional=True),
}


class MinMax(DenseScale):
    """0 for the smallest and 1 for the greatest value seen.

    A missing entry must say nothing, and 0 would say that it is the smallest. So :meth:`applied`
    puts the mean of its column in its place.

    Examples
    --------
    >>> scaler = MinMax(1)
    >>> X = np.array([[2.0], [3.0], [7.0], [np.nan]])
    >>> scaler.merge(*scaler.sums(X, np.ones(4), missing=True))
    >>> scaler.applied(X)
    array([[0. ], [0.2], [1. ], [0.4]])
    """

    kind = "minmax"
    learnt = _MINMAX

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self.low = np.full(n_features, np.inf)
        self.high = np.full(n_features, -np.inf)
        self.count: Floats = np.zeros(1)  # one number; one per column once entries are missing
        self.mean = np.zeros(n_features)
        self.refresh()

    def scaled(self, X: Floats, weight: Floats, missing: bool = True) -> Scaled:
        """Scale a batch by the batches before it, the first by itself."""
        after = copy.copy(self)
        after.merge(*self.sums(X, weight, missing))
        if self.ready:
            known = np.isfinite(self.low) & (after.gain > 0.0)
            width, origin = np.where(known, self.high - self.low, 1.0), self.shift - after.shift
            gain = np.where(known, after.gain, 1.0)
            after.change = np.stack([np.where(known, origin * gain, 0.0), width * gain])
            self.change = after.change
            return self.applied(X), lambda: vars(self).update(vars(after))
        after.refuse_overflow()
        return after.applied(X), lambda: vars(self).update(vars(after))

    def restate(self, change: Floats) -> None:
        """See :meth:`DenseScale.restate`."""
        origin, unit = change
        self.low, self.high = unit * self.low + origin, unit * self.high + origin
        self.mean = unit * self.mean + origin
        self.refresh()

    def refuse_overflow(self) -> None:
        """Raise if a range is not finite."""
        if not math.isfinite(np.add.reduce(self.shift) + np.add.reduce(self.gain)):
            raise ValueError("X holds values so large that sums overflow; rescale them.")

    def sums(
        self, X: Floats, weight: Floats, missing: bool
    ) -> tuple[Floats, Floats, Floats | np.float64, Floats]:
        """What a batch adds to the scale; rows of weight 0 are left out."""
        count = weight @ ~np.isnan(X) if missing else np.add.reduce(weight)
        with np.errstate(over="ignore", invalid="ignore"):
            total = accumulate(X, weight, weight)[0] - count * self.mean
        return *widen(X, weight, self.low, self.high), count, total

    def merge(self, low: Floats, high: Floats, count: Floats | np.float64, total: Floats) -> None:
        """Learn from what :meth:`sums` gave, for one batch or for its parts together."""
        self.low, self.high, self.count = low, high, self.count + count
        with np.errstate(over="ignore", invalid="ignore"):
            mean = self.mean + total / np.maximum(self.count, _TINY)
        # Sums of huge values overflow; the mean stays within the range all the same.
        seen = np.isfinite(self.low)
        self.mean = np.where(seen, np.fmin(np.fmax(mean, self.low), self.high), 0.0)
        self.refresh()

    def applied(self, X: Floats) -> Floats:
        """Scale rows without learning. See :class:`DenseScale`."""
        gaps = np.isnan(X)
        return rescale(np.where(gaps, self.mean, X) if gaps.any() else X, self.shift, self.gain)

    def refresh(self) -> None:
        """Compute shift and gain from the range."""
        self.ready = bool(np.isfinite(self.low).any())
        seen = self.high - self.low > 1e-150
        self.shift = np.where(np.isfinite(self.low), self.low, 0.0)
        width = np.subtract(self.high, self.low, out=np.full(len(seen), np.inf), where=seen)
        self.gain = 1.0 / width


_DENSE: dict[str | None, type[DenseScale]] = {
    scale.kind: scale for scale in (DenseScale, Standard, MinMax)
}
# What can be done to columns.
SCALES = tuple(_DENSE)


class Scaler:
    """Standardises columns or brings them to [0, 1].

    A missing entry becomes the mean of its column so far, so that it says nothing. On standardised
    columns that is 0; without a scale it becomes 0 too.

    Sparse rows are divided by the root mean square or the range of their columns. They are not
    centred, since that would fill them. The first batch is scaled by its own values. If it is
    dense, later sparse rows are made dense, and the other way round. Linear models do not need
    scaled rows: they use the shift and gain in ``dense`` or ``sparse`` directly.

    Examples
    --------
    >>> scaler = Scaler("standard", 1)
    >>> scaled, learn = scaler.scaled(np.array([[1.0], [3.0]]), np.ones(2), missing=False)
    >>> scaled.ravel(), scaler.ready
    (array([-1.,  1.]), False)
    >>> learn()
    >>> scaler.scaled(np.array([[5.0], [np.nan]]), np.ones(2), missing=True)[0].ravel()
    array([3., 0.])
    """

    def __init__(self, scale: str | None, n_features: int) -> None:
        self.scale, self.n_features = scale, n_features
        self.dense = _DENSE[scale](n_features)
        self.sparse = SparseScale(scale, n_features)

    @property
    def ready(self) -> bool:
        """Whether it has learnt from a batch."""
        return self.dense.ready or self.sparse.ready

    def follow(self, scale: str | None, change: Floats | None) -> None:
        """After a batch on another scale: know by what the units of that one have changed."""
        if change is not None and scale != self.scale:
            self.dense.restate(change)

    def scaled(self, X: Matrix, weight: Floats, missing: bool) -> tuple[Matrix, Callable[[], None]]:
        """Scale a batch by the batches before it."""
        X = self.alike(X)
        if isinstance(X, np.ndarray):
            return self.dense.scaled(X, weight, missing)
        batch, half = Touched(X, weight, missing), self.sparse
        sums = batch.own_sums(self.scale)
        if half.ready:
            return half.applied(batch), lambda: half.absorb(sums)
        half = SparseScale.begun(self.scale, self.n_features, sums)
        return half.applied(batch), lambda: self.adopt(half)

    def adopt(self, half: SparseScale) -> None:
        """Go on with a scale of sparse rows: there is none of dense ones from here on."""
        self.sparse = half
        if self.scale is not None and self.dense.n_features:
            self.dense = _DENSE[self.scale](0)

    def applied(self, X: Matrix) -> Matrix:
        """Scale rows without learning; a column not seen yet becomes 0."""
        X = self.alike(X)
        if isinstance(X, np.ndarray):
            return self.dense.applied(X)
        return self.sparse.applied(Touched(X, np.ones(X.shape[0]), True))

    def alike(self, X: Matrix) -> Matrix:
        """X made dense or sparse, like the batches learnt from."""
        if self.dense.ready if isinstance(X, np.ndarray) else self.sparse.ready:
            return X
        if self.scale is None or not self.ready:
            return X
        if isinstance(X, np.ndarray):
            rows: CsrRows = sp.csr_array(X)
            return rows
        return X.toarray()

    def rearranged(self, source: Places) -> Self:
        """A copy for other columns: see :func:`fires.core.declared.rearrange`."""
        other = copy.copy(self)
        other.n_features = len(source)
        other.dense, other.sparse = self.dense.rearranged(source), self.sparse.rearranged(source)
        return other

    def moments(self) -> tuple[Floats, Floats] | None:
        """Where each column has been lately, and how far it spreads."""
        half = self.dense
        if not isinstance(half, Standard) or not half.ready:
            return None
        gain = half.gain
        return half.shift.copy(), np.divide(1.0, gain, out=np.zeros_like(gain), where=gain > 0.0)

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays."""
        if self.sparse.ready and self.scale is not None:
            return under("sparse", self.sparse.state())
        return under("dense", self.dense.state())

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError if the arrays do not fit."""
        sparse, dense = part_of("sparse", arrays), part_of("dense", arrays)
        if sparse:
            self.sparse.restore(sparse)
            self.adopt(self.sparse)
        if dense or not sparse:
            self.dense.restore(dense)
