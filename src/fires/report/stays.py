"""How long sets of features stay selected: who came when, what lasted, and how stable it was."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fires.metrics.stability import stability_interval
from fires.report.spans import Numbers, Whole, width_of
from fires.report.steps import StepBlock

WINDOW = 10
"""How many of the last sets a stability is of. A set that stays as many batches has settled."""

_KEPT = 20  # sets that have lasted


class Stay(NamedTuple):
    """A set that was selected for some batches."""

    batch: int
    row: int
    features: Whole


class Stays:
    """Follows the selected set."""

    def __init__(self, n_features: int, most: int) -> None:
        self._n_batches = self.n_changes = 0
        self.times = np.zeros(n_features, dtype=np.int64)
        self.since = np.zeros(n_features, dtype=np.int64)
        self._recent: list[Stay] = []  # those of the last ten sets
        self._settled: list[Stay] = []  # the last ones that have lasted, each another set
        self._windows = _Windows(most)

    def grow(self, n_features: int) -> None:
        """Have room for more features."""
        more = (0, n_features - len(self.times))
        self.times, self.since = np.pad(self.times, more), np.pad(self.since, more)

    @property
    def selected(self) -> Whole:
        """The features that are selected now."""
        return self._recent[-1].features if self._recent else np.empty(0, dtype=np.int64)

    @property
    def now(self) -> Stay | None:
        """The set that is selected now."""
        return self._recent[-1] if self._recent else None

    def settled(self) -> list[Stay]:
        """The last sets that have lasted, each another one than the one before it."""
        if not self._recent:
            return []
        return _settled(self._settled, self._recent[-1], self._n_batches)

    def intervals(self) -> Numbers:
        """The stability at the end of each span, and the ends of its 95 % interval."""
        return self._windows.intervals()

    def add(self, block: StepBlock) -> None:
        """Add the next batches."""
        first, self._n_batches = self._n_batches, self._n_batches + len(block)
        lasts = np.diff(np.append(block.starts, len(block)))
        n_each = list(map(len, block.sets))
        np.add.at(self.times, np.concatenate(block.sets), np.repeat(lasts, n_each))
        self.n_changes += int((block.changed + first > 0).sum())
        for at, came in zip(block.changed.tolist(), block.came, strict=True):
            self.since[came] = block.rows[at]
        is_new = np.isin(block.starts, block.changed)
        is_new[0] |= not self._recent
        for place in np.flatnonzero(is_new).tolist():
            at = int(block.starts[place])
            stay = Stay(first + at, int(block.rows[at]), block.sets[place])
            if self._recent:
                self._settled = _settled(self._settled, self._recent[-1], stay.batch)
            self._recent.append(stay)
        # Where columns come and go, each record tells how many there were.
        counts = np.where(np.isnan(block.n_present), len(self.times), block.n_present)
        self._windows.add(self._recent, first, counts.astype(np.int64))
        old = sum(stay.batch <= self._n_batches - WINDOW for stay in self._recent)
        del self._recent[: old - 1 if old else 0]


def _settled(before: list[Stay], stay: Stay, until: int) -> list[Stay]:
    """The last sets that lasted, with one that was selected until some batch."""
    if until - stay.batch < WINDOW:
        return before
    if before and np.array_equal(before[-1].features, stay.features):
        return before
    return [*before[1 - _KEPT :], stay]


class _Windows:
    """The last ten sets at the end of each of some spans of batches."""

    def __init__(self, most: int) -> None:
        self._most, self._width = most, 1
        self._sets: list[tuple[list[Whole], int]] = []  # and how many features there were
        self._intervals: list[tuple[float, float, float] | None] = []  # None: not asked for yet

    def add(self, stays: Sequence[Stay], first: int, n_features: Whole) -> None:
        """Add the batches from one on; the stays reach back ten batches before them."""
        n_batches = first + len(n_features)
        while self._width < width_of(n_batches, self._most):
            self._width *= 2  # the end of two spans is that of the second
            for ends in (self._sets, self._intervals):
                del ends[0 : len(ends) // 2 * 2 : 2]
        if first % self._width:
            del self._sets[-1], self._intervals[-1]  # the last one was not at its end
        begins = np.array([stay.batch for stay in stays])
        for span in range(first // self._width, -(-n_batches // self._width)):
            end = min((span + 1) * self._width, n_batches)
            which = np.searchsorted(begins, np.arange(max(end - WINDOW, 0), end), "right") - 1
            sets = [stays[place].features for place in which.tolist()]
            self._sets.append((sets, int(n_features[end - 1 - first])))
            self._intervals.append(None)

    def intervals(self) -> Numbers:
        """The stability of each window, and the ends of its interval."""
        for place, known in enumerate(self._intervals):
            if known is None:
                self._intervals[place] = _interval(*self._sets[place])
        return np.array(self._intervals, dtype=np.float64).reshape(-1, 3)


def _interval(sets: Sequence[Whole], n_features: int) -> tuple[float, float, float]:
    """The stability of some sets, and the ends of its 95 % interval."""
    if len(sets) > 1 and all(one is sets[0] for one in sets) and 0 < len(sets[0]) < n_features:
        return 1.0, 1.0, 1.0  # nearly always, and at no cost
    # Only how many there are beside the selected ones matters, not which.
    each, where = np.unique(np.concatenate(sets), return_inverse=True)
    masks = np.zeros((len(sets), max(n_features, len(each))), dtype=bool)
    masks[np.repeat(np.arange(len(sets)), list(map(len, sets))), where] = True
    value, _, low, high = stability_interval(masks)
    return value, low, high
