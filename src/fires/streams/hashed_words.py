"""Words in a fixed number of columns, by their hashes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.errors import StateError
from fires.core.types import Header
from fires.streams.base import check_count
from fires.streams.words import Split, as_csr, same_split, words_of_rows

if TYPE_CHECKING:
    from sklearn.feature_extraction import FeatureHasher

_SHOWN = 3


class Collisions(NamedTuple):
    """How many words share a slot.

    Examples
    --------
    >>> print(Collisions(n_words=100, n_shared=10, n_used=95, n_slots=1_000, is_all=True))
    100 words in 95 of 1,000 slots; 10.0 % of them share a slot
    """

    n_words: int
    n_shared: int
    n_used: int
    n_slots: int
    is_all: bool

    def __str__(self) -> str:
        share = 100.0 * self.n_shared / max(self.n_words, 1)
        return (
            f"{'' if self.is_all else 'at least '}{self.n_words:,} words in {self.n_used:,} of "
            f"{self.n_slots:,} slots; {share:.1f} % of them share a slot"
        )


class HashedWords:
    """Turns texts into rows of a fixed width: a word's column, its slot, is a hash of it.

    No vocabulary is kept, so the width never grows and any selector can take the rows: also those
    that have no open columns. The price: different words may fall into one slot, and the selector
    takes them for one. :attr:`collisions` says how many. :class:`fires.streams.Words` has no
    collisions.

    The hashing is that of scikit-learn's ``FeatureHasher``, without signs.

    Parameters
    ----------
    n_slots : int
        The width.
    binary, split
        As in :class:`fires.streams.Words`.

    Notes
    -----
    For each slot, the four words that came last are kept, so that the answer is words. The memory
    is bounded by the number of slots.

    Examples
    --------
    >>> words = HashedWords(4)
    >>> words.rows(["Gold and oil", "the oil price"]).shape
    (2, 4)
    >>> words.names(range(4))
    ['oil', 'and', 'price|the', 'gold']
    >>> print(words.collisions)
    5 words in 4 of 4 slots; 40.0 % of them share a slot
    """

    def __init__(
        self, n_slots: int = 2**20, *, binary: bool = True, split: Split | None = None
    ) -> None:
        self.n_slots = check_count("n_slots", n_slots, 1)
        self.binary = binary
        self.split = split
        self._words: dict[int, tuple[str, ...]] = {}  # by slot; the one seen last comes first

    def rows(self, texts: Iterable[Any]) -> sp.csr_matrix:
        """The next rows of the stream.

        Parameters
        ----------
        texts : iterable
            As in :meth:`fires.streams.Words.rows`.

        Returns
        -------
        csr_matrix (n_rows, n_slots)
        """
        words, lengths = words_of_rows(texts, self.split)
        slots = dict.fromkeys(words, 0)  # different words: each is hashed once
        slots.update(zip(slots, self._slots_of(slots).tolist(), strict=True))
        for word, slot in slots.items():
            known = self._words.get(slot)
            if known is None:
                self._words[slot] = (word,)
            elif known[0] != word:
                others = [other for other in known if other != word]
                self._words[slot] = (word, *others[:_SHOWN])
        places = np.fromiter(map(slots.__getitem__, words), np.int64, len(words))
        return as_csr(places, lengths, self.n_slots, binary=self.binary)

    def _slots_of(self, words: Iterable[str]) -> npt.NDArray[np.int32]:
        if not words:
            return np.zeros(0, dtype=np.int32)  # which scikit-learn refuses
        slots: npt.NDArray[np.int32] = self._hasher.transform([word] for word in words).indices
        return slots

    @cached_property
    def _hasher(self) -> FeatureHasher:
        from sklearn.feature_extraction import FeatureHasher  # here, since it takes a while to load

        return FeatureHasher(self.n_slots, input_type="string", alternate_sign=False)

    def names(self, slots: Iterable[int]) -> list[str]:
        """What fell into slots: ``"gold"``, ``"gold|oil"`` where words collide.

        Parameters
        ----------
        slots : iterable of int
            Such as ``selector.get_support(indices=True)``.

        Returns
        -------
        list of str
            Up to three words for each slot, and ``...`` if there were more; ``"slot 7"`` if there
            was none.
        """
        return [self._name(int(slot)) for slot in slots]

    def _name(self, slot: int) -> str:
        words = self._words.get(slot, ())
        more = ("...",) if len(words) > _SHOWN else ()
        return "|".join([*words[:_SHOWN], *more]) or f"slot {slot}"

    @property
    def collisions(self) -> Collisions:
        """How many words share a slot."""
        sizes = np.fromiter(map(len, self._words.values()), np.int64, len(self._words))
        return Collisions(
            n_words=int(sizes.sum()),
            n_shared=int(sizes[sizes > 1].sum()),
            n_used=len(sizes),
            n_slots=self.n_slots,
            is_all=not (sizes > _SHOWN).any(),
        )

    def as_json(self) -> Header:
        """All that a state file has to hold.

        Returns
        -------
        dict
            JSON values, for :meth:`from_json`.
        """
        return {
            "n_slots": self.n_slots,
            "binary": self.binary,
            "split": self.split is not None,
            "words": [[slot, *words] for slot, words in self._words.items()],
        }

    @classmethod
    def from_json(cls, saved: Any, split: Split | None = None) -> Self:
        """The words that :meth:`as_json` wrote down.

        Parameters
        ----------
        saved : dict
            JSON values.
        split : callable, optional
            What was ``split`` then: a state holds no code.

        Returns
        -------
        HashedWords
        """
        try:
            words = cls(saved["n_slots"], binary=bool(saved["binary"]), split=split)
            words._words = {int(slot): tuple(known) for slot, *known in saved["words"]}
            had_split = bool(saved["split"])
        except (KeyError, TypeError, ValueError) as error:
            raise StateError(f"the words are damaged ({error!r})") from None
        same_split(split, had_split)
        return words
