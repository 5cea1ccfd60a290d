"""The places of many names at once, by their hashes.

With a million names, each look-up in a dict reads three places of memory that no cache holds: the
slot, the entry, and the text that is compared. A table of hashes reads one.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from fires.core.named import Names
from fires.kernels.compiling import compiled

Ints = npt.NDArray[np.int64]


class ManyNames(Names):
    """A book of names of which there may be millions; many are looked up at once.

    Two names count as one if Python's hashes of them are equal. The hashes have 64 bits and depend
    on a secret of the process: among a million words it happens once in some thirty million runs.

    Examples
    --------
    >>> names = ManyNames(["oil"])
    >>> names.add(["gold", "oil", "gold"]), list(names)
    (array([1, 0, 1]), ['oil', 'gold'])
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names = list(dict.fromkeys(names))
        self._forget_table()

    def _forget_table(self) -> None:
        self._table, self._n_placed = _empty(1), -1

    def add(self, names: Iterable[str]) -> npt.NDArray[np.intp]:
        """Take names in; those that are new come last."""
        names = names if isinstance(names, list) else list(names)
        n_known, hashes = len(self._names), _hashes(names)
        self._make_room(n_known + len(names))
        places, new = np.empty_like(hashes), np.empty_like(hashes)
        self._n_placed = find_or_add(hashes, n_known, self._table, places, new)
        self._names += [names[i] for i in new[: self._n_placed - n_known].tolist()]
        return places

    def places(self, names: Iterable[str]) -> npt.NDArray[np.intp]:
        """The place of each name; -1 for one that is not known."""
        hashes = _hashes(names if isinstance(names, list) else list(names))
        self._make_room(len(self._names))
        places = np.empty_like(hashes)
        find_or_add(hashes, 0, self._table, places, places[:0])
        return places

    def cut(self, n: int) -> None:
        """Keep the first names only."""
        if n < len(self._names):
            del self._names[n:]
            self._forget_table()

    def _make_room(self, n: int) -> None:
        """See to it that half of the table stays free with so many names."""
        if self._n_placed != len(self._names):  # there is none yet, or a call was interrupted
            self._table = _empty(4 * n)
            put_places(_hashes(self._names), np.arange(len(self._names)), self._table)
            self._n_placed = len(self._names)
        elif 2 * n > len(self._table):
            held = self._table[self._table[:, 1] >= 0]
            self._table = _empty(4 * n)
            put_places(*np.ascontiguousarray(held.T), self._table)

    def __getstate__(self) -> list[str]:
        """Without the table: in another process, hashes are others."""
        return self._names

    def __setstate__(self, names: list[str]) -> None:
        self._names = names
        self._forget_table()


def _hashes(names: list[str]) -> Ints:
    return np.fromiter(map(hash, names), np.int64, len(names))


def _empty(size: int) -> Ints:
    """A table: hash and place, or -1; its length is a power of two."""
    return np.full((1 << max(size - 1, 0).bit_length(), 2), -1, dtype=np.int64)


@compiled
def put_places(hashes: Ints, places: Ints, table: Ints) -> None:
    """Write hashes that are not there yet, and their places, into a table."""
    mask = len(table) - 1
    for i in range(len(hashes)):
        slot = hashes[i] & mask
        while table[slot, 1] >= 0:
            slot = (slot + 1) & mask
        table[slot, 0], table[slot, 1] = hashes[i], places[i]


@compiled
def find_or_add(hashes: Ints, n_known: int, table: Ints, places: Ints, new: Ints) -> int:
    """Write down the place of each hash, and which are new. Returns how many are known then.

    New ones get the next places, in the order in which they come. At least half of the table must
    stay free. Where there is no room to write down which are new, they get -1, and stay new.
    """
    mask, n = len(table) - 1, n_known
    for i in range(len(hashes)):
        slot = hashes[i] & mask
        while table[slot, 1] >= 0 and table[slot, 0] != hashes[i]:
            slot = (slot + 1) & mask
        if table[slot, 1] < 0 and len(new) > 0:
            table[slot, 0], table[slot, 1] = hashes[i], n
            new[n - n_known] = i
            n += 1
        places[i] = table[slot, 1]
    return n
