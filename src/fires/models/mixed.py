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
from fires.core.declared import Array, Declared, View, rearrange
from fires.core.state import Arrays, part_of, under
from fires.core.types import CsrRows, Floats, Ints, Places
from fires.kernels import linear
from fires.kernels.compiling import read_only
from fires.kernels.linear import NO_COLUMNS, MixedRows, find_places
from fires.kernels.moments import GAIN, SHIFT
from fires.models.scale import Standard
from fires.models.sparse_scale import ColumnScale, Touched

# The share of rows with an entry from which a column is full.
FULL = 0.2


_MIXED: Declared = {
    "count": Array(low=0.0),
    "sums": Array("J"),
    "squares": Array("J", low=0.0),
    "entries": Array("J", low=0.0),
    "absent": Array("J", low=0.0, optional=True),
    "columns": Array("F", dtype="int64", low=0, high="J"),
}
_KNOWN: Declared = {"known": Array("J", 4)}


class Mixed(ColumnScale):
    """Scale sparse rows, the full columns as dense ones."""

    learnt = _MIXED

    sums = View("known", slice(None), linear.SUMS)
    squares = View("known", slice(None), linear.SQUARES)
    entries = View("known", slice(None), linear.ENTRIES)
    absent = View("known", slice(None), linear.ABSENT)

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self.count = 0.0
        # The numbers of a column lie side by side: memory is the limit, and read by the line.
        self.known = np.zeros((n_features, 4))
        self.columns: Ints = np.empty(0, dtype=np.int64)  # the full ones, in order of arrival
        self.full = Standard(0)

    @property
    def ready(self) -> bool:
        """Whether a batch was seen."""
        return self.count > 0.0

    def scaled(
        self, X: CsrRows, weight: Floats, missing: bool
    ) -> tuple[MixedRows, Callable[[], None]]:
        """Scale a batch by the batches before it; the first by itself."""
        batch = self.touched(X, weight, missing)
        shown = self.show(batch)
        if not np.isfinite(shown[:, linear.SQUARES]).all():
            raise ValueError("X holds values so large that sums overflow; rescale them.")
        if not self.ready:
            self.learn(batch, shown)
            return self.rows(batch)[0], nothing
        rows, learn_full = self.rows(batch)

        def learn() -> None:
            learn_full()
            self.learn(batch, shown)

        return rows, learn

    def touched(self, X: CsrRows, weight: Floats, missing: bool) -> Touched:
        """A batch reduced to the columns that have entries, and the full ones."""
        return Touched(X, weight, missing, self.columns)

    def show(self, batch: Touched) -> Floats:
        """What the entries show of each column: see :func:`fires.kernels.linear.show_csr`."""
        shown = np.zeros((len(batch.columns), 4))
        linear.show_csr(batch.entries, batch.weight, shown)
        return shown

    def rows(self, batch: Touched) -> tuple[MixedRows, Callable[[], None]]:
        """Rows on the scale that is known."""
        columns, (data, local, indptr) = batch.columns, batch.entries
        full, place = np.searchsorted(columns, self.columns), np.full(len(columns), -1)
        place[full] = np.arange(len(full))
        block = np.zeros((len(batch.weight), len(full)))
        rare = np.empty(len(data)), np.empty_like(local), np.zeros_like(indptr)
        n = linear.scale_csr(
            batch.entries, place, linear.gains(self.known, columns, self.count), block, rare
        )
        scaled, learn = self.full.scaled(block, batch.weight)
        entries = rare[0][:n], rare[1][:n], rare[2]
        return MixedRows(*read_only(scaled, full, *entries, columns)), learn

    def _places(self, columns: Ints) -> Ints:
        """Where columns are among the full ones, or -1."""
        order = np.argsort(self.columns)
        place, is_full = find_places(self.columns[order], columns)
        return np.append(order, -1)[np.where(is_full, place, -1)]

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
        units, place = np.zeros((2, len(columns))), self._places(columns)
        units[1] = linear.gains(self.known, columns, self.count)
        units[:, place >= 0] = self.full.known[SHIFT : GAIN + 1 : 2, place[place >= 0]]
        return units

    def change(self, columns: Ints, before: Floats, n_full: int, moved: Floats | None) -> Floats:
        """How the units of some columns have changed: see :func:`fires.kernels.moments.learn`.

        Known are these units before, the number of full columns then, and how those have changed.
        """
        now, place = self.units(columns), self._places(columns)
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
        risen = linear.add_shown(self.known, columns, shown, FULL * self.count)
        self._grow(risen[self._places(risen) < 0])

    def _grow(self, new: Ints) -> None:
        """Take columns among the full ones, with what is known of them."""
        if not len(new):
            return
        known, (sums, squares, _, absent) = Standard(len(new)), self.known[new].T
        known.count = np.maximum(self.count - absent, 0.0)
        known.shift = sums / np.where(known.count > 0.0, known.count, 1.0)
        known.spread = np.maximum(squares - sums * known.shift, 0.0)
        known.refresh()
        self.full = self.full.joined(known)
        self.columns = np.concatenate([self.columns, new])

    def undo(self, gain: Floats) -> None:
        """See :meth:`fires.models.sparse_scale.SparseScale.undo`."""
        self.sums, self.squares = self.sums / gain, self.squares / gain**2
        self.full.undo(gain[self.columns])

    def restart(self, columns: Places) -> None:
        """Forget some columns."""
        # As if missing in all rows so far; whether such a column is full, later rows decide alone.
        self.known[columns] = 0.0, 0.0, FULL * self.count, self.count
        full = self._places(columns)
        self.full.restart(full[full >= 0])

    def rearranged(self, source: Places) -> Self:
        """A copy for other columns: see :func:`fires.core.declared.rearrange`."""
        other = rearrange(self, _KNOWN, source, Mixed(len(source)))
        other.n_features = len(source)
        place = np.full(self.n_features, -1)
        place[source[source >= 0]] = np.flatnonzero(source >= 0)
        now = place[self.columns]
        other.full = self.full.rearranged(np.flatnonzero(now >= 0))
        other.columns = now[now >= 0]
        return other

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays."""
        arrays = super().state()
        if not self.absent.any():
            del arrays["absent"]
        return arrays | under("full", self.full.state())

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError if the arrays do not fit."""
        super().restore(arrays)
        full = Standard(len(self.columns))
        full.restore(part_of("full", arrays))
        self.full = full


def unscaled(batch: Touched) -> MixedRows:
    """Rows as they come, missing entries at 0; no column is full."""
    data, *places = batch.entries
    data = np.nan_to_num(data) if batch.missing else data
    none = np.empty((len(batch.weight), 0)), NO_COLUMNS
    return MixedRows(*read_only(*none, data, *places, batch.columns))
