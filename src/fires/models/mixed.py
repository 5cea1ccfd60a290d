"""A scale for sparse rows that gives what dense rows would give, at the cost of the entries.

A missing cell of a sparse matrix is a zero, and a standardised zero is not zero. So a column that
is full enough, with an entry in at least every fifth row, is scaled as a dense one: that costs at
most five times its entries. A rarer column is divided by its standard deviation and not centred:
its zeros would be within half a standard deviation of 0 anyway, and an intercept takes up their
mean.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np

from fires.core.batch import nothing
from fires.core.declared import Array, Declared
from fires.core.state import Arrays, part_of, under
from fires.core.types import CsrRows, Floats, Indices, Ints, Places, RowIndex
from fires.kernels.linear import MixedRows
from fires.kernels.moments import CLIP, GAIN, SHIFT
from fires.models.scale import Standard
from fires.models.sparse_scale import ColumnScale, Touched

FULL = 0.2
"""The share of rows with an entry from which a column is full."""


_MIXED: Declared = {
    "count": Array(low=0.0),
    "sums": Array("J"),
    "squares": Array("J", low=0.0),
    "entries": Array("J", low=0.0),
    "absent": Array("J", low=0.0),
    "columns": Array("F", dtype="int64", low=0, high="J"),
}


class Mixed(ColumnScale):
    """Scale sparse rows, the full columns as dense ones."""

    learnt = _MIXED

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self.count = 0.0
        self.sums, self.squares, self.entries, self.absent = np.zeros((4, n_features))
        self.columns: Ints = np.empty(0, dtype=np.int64)  # the full ones, in order of arrival
        self.full = Standard(0)
        self._place = np.full(n_features, -1)
        self._slot = np.zeros(n_features, dtype=np.int32)

    @property
    def ready(self) -> bool:
        """Whether a batch was seen."""
        return self.count > 0.0

    def scaled(
        self, X: CsrRows, weight: Floats, missing: bool
    ) -> tuple[MixedRows, Callable[[], None]]:
        """Scale a batch by the batches before it; the first by itself."""
        batch = Touched(X, weight, missing, self._slot)
        shown = self.show(batch, X, weight)
        if not np.isfinite(shown[1]).all():
            raise ValueError("X holds values so large that sums overflow; rescale them.")
        if not self.ready:
            self.learn(batch, shown)
            return self.rows(X, weight)[0], nothing
        rows, learn_full = self.rows(X, weight)

        def learn() -> None:
            learn_full()
            self.learn(batch, shown)

        return rows, learn

    def show(self, batch: Touched, X: CsrRows, weight: Floats) -> Floats:
        """Sums, sums of squares, weights of all entries and of missing ones, by touched column."""
        one = weight[None, :]
        with np.errstate(over="ignore"):
            p, q = batch.accumulate(one, one)
        entries = np.bincount(batch.local, np.repeat(weight, np.diff(X.indptr)), len(p[0]))
        absent = batch.sums(None, p[0], q[0]).absent
        return np.array([p[0], q[0], entries, np.zeros(len(p[0])) if absent is None else absent])

    def rows(self, X: CsrRows, weight: Floats) -> tuple[MixedRows, Callable[[], None]]:
        """Rows on the scale that is known."""
        place = self._place[X.indices]
        is_full = place >= 0
        block = np.zeros((X.shape[0], len(self.columns)))
        row = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
        block[row[is_full], place[is_full]] = X.data[is_full]
        full, learn = self.full.scaled(block, weight)
        rare = ~is_full
        indices = X.indices[rare]
        many = len(indices) > len(self.sums)  # then it is less work to ask for each column once
        gain = self.gain(slice(None)).take(indices) if many else self.gain(indices)
        data = np.nan_to_num(X.data[rare] * gain).clip(-CLIP, CLIP)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row[rare], minlength=X.shape[0]))])
        return MixedRows(full, self.columns, data, indices, indptr), learn

    def gain(self, columns: RowIndex | Indices) -> Floats:
        """One over the standard deviation of rare columns; 0 for those never seen."""
        count = np.maximum(self.count - self.absent[columns], 1.0)
        variance = self.squares[columns] / count - (self.sums[columns] / count) ** 2
        # A column of ones has no variance, but is full by then; this one has had a single row.
        seen = variance > 1e-300
        return np.where(seen, 1.0 / np.sqrt(np.where(seen, variance, 1.0)), 0.0)

    def entries_of(self, column: int) -> tuple[float, float, float]:
        """The share of rows in which a column has an entry; mean and deviation of its entries."""
        present = max(float(self.entries[column] - self.absent[column]), 1e-300)
        mean = float(self.sums[column]) / present
        variance = max(float(self.squares[column]) / present - mean**2, 0.0)
        return present / max(self.count - self.absent[column], present), mean, variance**0.5

    def know_presence(self, columns: Ints, first: int) -> None:
        """From this place on, columns are the presence of others: an entry of 1 where they have."""
        new = slice(first, first + len(columns))
        self.absent[new], self.entries[new] = self.absent[columns], self.entries[columns]
        self.sums[new] = self.squares[new] = self.entries[new] - self.absent[new]

    def units(self, columns: Ints) -> Floats:
        """Shift and gain of some columns."""
        units, place = np.zeros((2, len(columns))), self._place[columns]
        units[1] = self.gain(columns)
        units[:, place >= 0] = self.full.known[SHIFT : GAIN + 1 : 2, place[place >= 0]]
        return units

    def change(self, columns: Ints, before: Floats, n_full: int, moved: Floats | None) -> Floats:
        """How the units of some columns have changed: see :func:`fires.kernels.moments.learn`.

        Known are these units before, the number of full columns then, and how those have changed.
        """
        now, place = self.units(columns), self._place[columns]
        known = (now[1] > 0.0) & (before[1] > 0.0)
        unit = np.divide(now[1], before[1], out=np.ones(len(columns)), where=known)
        change = np.stack([(before[0] - now[0]) * now[1] * known, unit])
        if moved is not None:
            was_full = (place >= 0) & (place < n_full)
            change[:, was_full] = moved[:, place[was_full]]
        return change

    def learn(self, batch: Touched, shown: Floats) -> None:
        """Learn from what a batch has shown; the full columns learn for themselves."""
        columns = batch.columns
        self.count += batch.total
        self.sums[columns] += shown[0]
        self.squares[columns] += shown[1]
        self.entries[columns] += shown[2]
        self.absent[columns] += shown[3]
        risen = self.entries[columns] >= FULL * self.count
        self._grow(columns[risen & (self._place[columns] < 0)])

    def _grow(self, new: Ints) -> None:
        """Take columns among the full ones, with what is known of them."""
        if not len(new):
            return
        known = Standard(len(new))
        known.count = np.maximum(self.count - self.absent[new], 0.0)
        known.shift = self.sums[new] / np.where(known.count > 0.0, known.count, 1.0)
        known.spread = np.maximum(self.squares[new] - self.sums[new] * known.shift, 0.0)
        known.refresh()
        self.full = self.full.joined(known)
        self.columns = np.concatenate([self.columns, new])
        self._place[self.columns] = np.arange(len(self.columns))

    def undo(self, gain: Floats) -> None:
        """See :meth:`fires.models.sparse_scale.SparseScale.undo`."""
        self.sums, self.squares = self.sums / gain, self.squares / gain**2
        self.full.undo(gain[self.columns])

    def restart(self, columns: Places) -> None:
        """Forget some columns."""
        super().restart(columns)
        # As if missing in all rows so far; whether such a column is full, later rows decide alone.
        self.absent[columns], self.entries[columns] = self.count, FULL * self.count
        full = self._place[columns]
        self.full.restart(full[full >= 0])

    def rearranged(self, source: Places) -> Self:
        """A copy for other columns: see :func:`fires.core.declared.rearrange`."""
        other, n = super().rearranged(source), len(source)
        place = np.full(self.n_features, -1)
        place[source[source >= 0]] = np.flatnonzero(source >= 0)
        now = place[self.columns]
        other.full = self.full.rearranged(np.flatnonzero(now >= 0))
        other.columns = now[now >= 0]
        other._place, other._slot = np.full(n, -1), np.zeros(n, dtype=np.int32)
        other._place[other.columns] = np.arange(len(other.columns))
        return other

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays."""
        return super().state() | under("full", self.full.state())

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError if the arrays do not fit."""
        super().restore(arrays)
        full = Standard(len(self.columns))
        full.restore(part_of("full", arrays))
        self.full = full
        self._place[self.columns] = np.arange(len(self.columns))

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"_slot": np.zeros(self.n_features, dtype=np.int32)}
