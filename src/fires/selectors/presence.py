"""Which columns are there now, and which rest.

A column rests when it has had no entry for 100 rows, and for ten times as long as is usual for it:
a rare one is not taken for gone. It is the batches that are counted: a column is there in all rows
of a batch in which it has an entry.
"""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from fires.core.declared import Array, Declared, rearrange
from fires.core.types import Mask, Places

_ROWS = 100.0  # without an entry, before a column rests
_TIMES = 10.0  # as long as is usual for it
_NEVER = -1.0


class Presence:
    """When each column was there. Objects are not changed: :meth:`after` gives the next one.

    Examples
    --------
    >>> presence = Presence(2, rows=500.0).after(np.array([True, False]), 100.0)
    >>> presence.resting, presence.n_present
    (array([False,  True]), 1)
    """

    learnt: ClassVar[Declared] = {
        "rows": Array(low=0.0),
        "first": Array("J"),
        "last": Array("J"),
        "seen": Array("J", low=0.0),
        "looked": Array(low=0.0, optional=True),
    }

    def __init__(self, n_features: int, rows: float = 0.0) -> None:
        self.rows = rows
        self.first = np.full(n_features, 0.0 if rows else _NEVER)  # rows before it came
        self.last = np.full(n_features, rows or _NEVER)  # rows when it was last there
        self.seen = np.full(n_features, rows)  # rows of the batches in which it was there
        self.looked = rows  # rows when stale columns were last looked for
        self.arrived: Places = np.empty(0, dtype=np.intp)

    def after(self, present: slice | Mask, n_rows: float) -> Presence:
        """What is known after one more batch."""
        other = Presence(0)
        other.rows, other.looked = self.rows + n_rows, self.looked
        other.first, other.last, other.seen = self.first.copy(), self.last.copy(), self.seen.copy()
        came = np.zeros(len(self.last), dtype=np.bool_)
        came[present] = True
        came &= self.never
        other.arrived = np.flatnonzero(came)
        other.first[came] = self.rows
        other.last[present] = other.rows
        other.seen[present] += n_rows
        return other

    def note(self, present: Places, n_rows: float) -> None:
        """Take in a batch of sparse rows, in place: when each column was last there."""
        self.rows += n_rows
        self.last[present] = self.rows

    def is_due(self, n_rows: float) -> bool:
        """Whether so many rows have come since it was last time."""
        if self.rows - self.looked < n_rows:
            return False
        self.looked = self.rows
        return True

    @property
    def never(self) -> Mask:
        """The columns that have never had an entry."""
        return np.asarray(self.last == _NEVER)

    @property
    def resting(self) -> Mask:
        """The columns that are not there: see above."""
        usual = (self.last - self.first) / np.maximum(self.seen, 1.0)
        too_long = self.rows - self.last >= np.maximum(_ROWS, _TIMES * usual)
        return np.asarray(too_long | self.never)

    @property
    def n_present(self) -> int:
        """How many columns do not rest."""
        return int(len(self.last) - np.count_nonzero(self.resting))

    def absent_for(self, n_rows: float) -> Places:
        """The columns that have not been there for so many rows.

        Those that never were count from the batch with which they became known.
        """
        since = np.where(self.never, np.maximum(self.first, 0.0), self.last)
        return np.flatnonzero(self.rows - since >= n_rows)

    def rearranged(self, source: Places) -> Self:
        """For other columns: see :func:`fires.core.declared.rearrange`."""
        fresh = Presence(len(source))
        fresh.first[:] = self.rows
        return rearrange(self, self.learnt, source, fresh)
