"""What streams with known truth share: which features decide when, and how rows are drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from fires.core.belief import Floats
from fires.core.randomness import generator
from fires.core.types import Ints, Mask, Matrix, Places, Seed
from fires.streams.base import Batch, CountedRows, Schema, check_count, numbered_columns
from fires.streams.cutting import stacked

# Rows drawn at a time, fewer where they are wide: part of what a seed means, never to be changed.
BLOCK, BLOCK_VALUES = 1_000, 1_000_000

SyntheticBlock = tuple[Matrix, Ints]
LabelsBySet = Callable[[int], Mask]
"""The labels that all rows of a block would have if one set of features decided them."""


class Synthetic(CountedRows, ABC):
    """Sets of relevant features that take turns, and rows drawn in blocks.

    Set 0 decides the labels up to the first drift, and after every drift another one does: a new
    one, or, with ``recurring``, set 1 and set 0 in turn. Over the rows that a drift takes, each row
    belongs to the new set with a probability that grows from 0 to 1.
    """

    def __init__(
        self,
        n_samples: int,
        n_features: int,
        n_relevant: int,
        drift_at: float | Sequence[float],
        drift_width: float,
        recurring: bool,
    ) -> None:
        self.n_samples = check_count("n_samples", n_samples, 1)
        check_count("n_features", n_features, 1)
        check_count("n_relevant", n_relevant, 1)
        shares = np.atleast_1d(np.asarray(drift_at, dtype=np.float64))
        are_shares = shares.ndim == 1 and bool(((shares > 0.0) & (shares <= 1.0)).all())
        check_within(are_shares, "drift_at", "lie in (0, 1]", drift_at)
        check_within(0.0 <= drift_width < 1.0, "drift_width", "lie in [0, 1)", drift_width)
        self._starts = np.round(shares * n_samples).astype(np.intp)
        self._width = round(drift_width * n_samples)
        ends = self._starts[self._starts < n_samples] + self._width
        if (np.diff(self._starts) < max(self._width, 1)).any() or (ends > n_samples).any():
            raise ValueError(
                f"drift_at={drift_at} must ascend, each drift ending before the next one and "
                f"before the stream does; with drift_width={drift_width} one takes "
                f"{self._width} rows."
            )
        self._turns = np.arange(len(self._starts) + 1)
        if recurring:
            self._turns %= 2
        self._n_sets = int(self._turns.max()) + 1
        self._relevant: Places = np.empty((self._n_sets, n_relevant), dtype=np.intp)
        self._block_rows = min(BLOCK, max(BLOCK_VALUES // n_features, 1))
        self.schema = Schema(numbered_columns(n_features), target="label", classes=(0, 1))

    def _seeded(self, random_state: Seed, purpose: str) -> np.random.Generator:
        """Fix the seed of all rows; the generator returned is for what else a stream draws."""
        rng = generator(random_state, purpose)
        # A generator moves on when it is used: its seed is drawn once, so that rows come again.
        self._seed = int(rng.integers(2**63))
        return rng

    @property
    def drifts(self) -> tuple[int, ...]:
        """Tell the rows from which on other features begin to decide."""
        return tuple(self._starts[self._starts < self.n_samples].tolist())

    def relevant_at(self, row: int) -> Places:
        """Tell the columns that decide the label of a row."""
        if not 0 <= row < self.n_samples:
            raise IndexError(f"The stream has rows 0 to {self.n_samples - 1}; there is no {row}.")
        turn = int(np.searchsorted(self._starts, row, side="right"))
        lasts = turn > 0 and row < self._starts[turn - 1] + self._width
        return np.unique(self._relevant[self._turns[turn - lasts : turn + 1]])

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows in order."""
        block = lru_cache(maxsize=1)(self._block)
        for start, stop, position in self._ranges(self.n_samples, batch_size):
            yield Batch(*self._rows(start, stop, block), position)

    def _rows(
        self, start: int, stop: int, block: Callable[[int], SyntheticBlock]
    ) -> SyntheticBlock:
        size = self._block_rows
        parts = []
        for number in range(start // size, (stop - 1) // size + 1):
            X, y = block(number)
            within = slice(max(start - number * size, 0), stop - number * size)
            parts.append((X[within], y[within]))
        Xs, ys = zip(*parts, strict=True)
        # Always a copy: what is done to a batch must not reach the next one.
        return stacked(Xs), np.concatenate(ys)

    def _block(self, number: int) -> SyntheticBlock:
        """Draw the rows from ``number * _block_rows`` on, even those after the stream's end."""
        rng = generator(self._seed, "block", str(number))
        X, labels_by_set = self._draw(rng)
        sets = self._sets(number, rng)
        y = np.empty(len(sets), dtype=np.int64)
        for chosen in np.unique(sets).tolist():
            rows = sets == chosen
            y[rows] = labels_by_set(chosen)[rows]
        return X, y

    @abstractmethod
    def _draw(self, rng: np.random.Generator) -> tuple[Matrix, LabelsBySet]:
        """Draw the features of a block, and all that is needed to give them labels."""

    def _sets(self, number: int, rng: np.random.Generator) -> Places:
        """Which set decides each row of a block."""
        rows = number * self._block_rows + np.arange(self._block_rows)
        turn = np.searchsorted(self._starts, rows, side="right")
        since = rows - np.append(self._starts, -self.n_samples)[turn - 1]  # long ago for turn 0
        is_old = rng.random(len(rows)) >= (since + 1) / (self._width + 1)
        sets: Places = self._turns[turn - is_old]
        return sets


def directions(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Coefficients of random sign and similar size; each row has length 1."""
    signed = rng.choice([-1.0, 1.0], shape) * rng.uniform(0.7, 1.3, shape)
    directions: Floats = signed / np.linalg.norm(signed, axis=1, keepdims=True)
    return directions


def check_within(is_within: bool, name: str, bounds: str, value: object) -> None:
    """Raise, naming the bounds, unless a setting lies within them.

    Examples
    --------
    >>> check_within(2.0 < 1.0, "noise", "be below 1", 2.0)
    Traceback (most recent call last):
    ValueError: noise must be below 1, not 2.0.
    """
    if not is_within:
        raise ValueError(f"{name} must {bounds}, not {value}.")


def check_share(name: str, value: float) -> None:
    """Raise unless a setting is a share: more than none, and less than all."""
    check_within(0.0 < value < 1.0, name, "lie between 0 and 1", value)
