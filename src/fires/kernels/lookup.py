"""The places of many names at once, by their hashes.

With a million names, each look-up in a dict reads three places of memory that no cache holds: the
slot, the entry, and the text that is compared. A table of hashes reads one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.named import Names
from fires.kernels.compiling import compiled

Ints = npt.NDArray[np.int64]


class Lookup:
    """A book of names that takes in many words at once.

    Two words count as one if Python's hashes of them are equal. The hashes have 64 bits and depend
    on a secret of the process: among a million words it happens once in some thirty million runs.

    Parameters
    ----------
    names : Names
        The book. New words are added to it. Others may add to it, too.

    Examples
    --------
    >>> lookup = Lookup(Names(["oil"]))
    >>> lookup.add(["gold", "oil", "gold"]), list(lookup.names)
    (array([1, 0, 1]), ['oil', 'gold'])
    """

    def __init__(self, names: Names) -> None:
        self.names = names
        self._n_placed = 0
        self._table = _empty(1)

    def add(self, words: Sequence[str]) -> npt.NDArray[np.intp]:
        """Take words in; what :meth:`fires.core.named.Names.add` does.

        Parameters
        ----------
        words : sequence of str
            Some words.

        Returns
        -------
        ndarray of int
            The place of each.
        """
        n_known, n_words = len(self.names), len(words)
        if self._n_placed != n_known:  # others have added names, or the last call was interrupted
            self._table = _empty(4 * (n_known + n_words))
            hashes = np.fromiter(map(hash, self.names), np.int64, n_known)
            put_places(hashes, np.arange(n_known), self._table)
        elif 2 * (n_known + n_words) > len(self._table):
            held = self._table[self._table[:, 1] >= 0]
            self._table = _empty(4 * (n_known + n_words))
            put_places(held[:, 0], held[:, 1], self._table)
        places, new = np.empty(n_words, dtype=np.int64), np.empty(n_words, dtype=np.int64)
        hashes = np.fromiter(map(hash, words), np.int64, n_words)
        self._n_placed = find_or_add(hashes, n_known, self._table, places, new)
        self.names.add([words[i] for i in new[: self._n_placed - n_known].tolist()])
        return places

    def __getstate__(self) -> dict[str, Any]:
        """Without the table: in another process, hashes are others."""
        return {"names": self.names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["names"])  # type: ignore[misc]


def _empty(size: int) -> Ints:
    """A table: hash and place, or -1; its length is a power of two."""
    return np.full((1 << (size - 1).bit_length(), 2), -1, dtype=np.int64)


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
    stay free.
    """
    mask, n = len(table) - 1, n_known
    for i in range(len(hashes)):
        slot = hashes[i] & mask
        while table[slot, 1] >= 0 and table[slot, 0] != hashes[i]:
            slot = (slot + 1) & mask
        if table[slot, 1] < 0:
            table[slot, 0], table[slot, 1] = hashes[i], n
            new[n - n_known] = i
            n += 1
        places[i] = table[slot, 1]
    return n
