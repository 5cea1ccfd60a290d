"""What streams with known truth share: which features decide when, and how rows are drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fires.core.belief import Floats
from fires.streams.base import Batch, Position, Schema, check_batch_size

# Rows drawn at a time, fewer where they are wide: part of what a seed means, never to be changed.
BLOCK, BLOCK_VALUES = 1_000, 1_000_000

Labels = npt.NDArray[np.int64]
Columns = npt.NDArray[np.intp]
Block = tuple[Any, Labels]


class Synthetic(ABC):
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
        for name, value in (
            ("n_samples", n_samples),
            ("n_features", n_features),
            ("n_relevant", n_relevant),
        ):
            if value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}.")
        shares = np.atleast_1d(np.asarray(drift_at, dtype=np.float64))
        if shares.ndim > 1 or not ((shares > 0.0) & (shares <= 1.0)).all():
            raise ValueError(f"drift_at must lie in (0, 1], not {drift_at}.")
        if not 0.0 <= drift_width < 1.0:
            raise ValueError(f"drift_width must lie in [0, 1), not {drift_width}.")
        self.n_samples = int(n_samples)
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
        self._relevant: Columns = np.empty((self._n_sets, n_relevant), dtype=np.intp)
        self._block_rows = min(BLOCK, max(BLOCK_VALUES // n_features, 1))
        names = tuple(f"x{column}" for column in range(n_features))
        self.schema = Schema(names, target="label", classes=(0, 1))

    @property
    def drifts(self) -> tuple[int, ...]:
        """The rows from which on other features begin to decide."""
        return tuple(self._starts[self._starts < self.n_samples].tolist())

    def relevant_at(self, row: int) -> Columns:
        """The columns that decide the label of this row, ascending.

        While a gradual drift lasts, the columns of both sets.
        """
        if not 0 <= row < self.n_samples:
            raise IndexError(f"The stream has rows 0 to {self.n_samples - 1}; there is no {row}.")
        turn = int(np.searchsorted(self._starts, row, side="right"))
        lasts = turn > 0 and row < self._starts[turn - 1] + self._width
        return np.unique(self._relevant[self._turns[turn - lasts : turn + 1]])

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows in order; the last batch may be shorter."""
        batch_size = check_batch_size(batch_size)
        block = lru_cache(maxsize=1)(self._block)
        for start in range(0, self.n_samples, batch_size):
            stop = min(start + batch_size, self.n_samples)
            yield Batch(*self._rows(start, stop, block), Position(rows=stop, offset=stop))

    def _rows(self, start: int, stop: int, block: Callable[[int], Block]) -> Block:
        size = self._block_rows
        parts = []
        for number in range(start // size, (stop - 1) // size + 1):
            X, y = block(number)
            within = slice(max(start - number * size, 0), stop - number * size)
            parts.append((X[within], y[within]))
        Xs, ys = zip(*parts, strict=True)
        # Always a copy: what is done to a batch must not reach the next one.
        return _stacked(Xs), np.concatenate(ys)

    @abstractmethod
    def _block(self, number: int) -> Block:
        """Rows from ``number * _block_rows`` on, drawn whole even where the stream ends before."""

    def _numbers(self, number: int) -> npt.NDArray[np.intp]:
        return number * self._block_rows + np.arange(self._block_rows)

    def _sets(self, number: int, rng: np.random.Generator) -> Columns:
        """Which set decides each row of a block."""
        rows = self._numbers(number)
        turn = np.searchsorted(self._starts, rows, side="right")
        since = rows - np.append(self._starts, -self.n_samples)[turn - 1]  # long ago for turn 0
        is_old = rng.random(len(rows)) >= (since + 1) / (self._width + 1)
        sets: Columns = self._turns[turn - is_old]
        return sets

    def _by_set(self, sets: Columns, margin: Callable[[int], Floats]) -> Floats:
        """For each row the margin that its own set gives it."""
        out = np.empty(len(sets))
        for chosen in np.unique(sets).tolist():
            rows = sets == chosen
            out[rows] = margin(chosen)[rows]
        return out


def directions(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Coefficients of random sign and similar size; each row has length 1."""
    signed = rng.choice([-1.0, 1.0], shape) * rng.uniform(0.7, 1.3, shape)
    directions: Floats = signed / np.linalg.norm(signed, axis=1, keepdims=True)
    return directions


def check_rate(positive_rate: float) -> None:
    """Raise unless it is a share of positives."""
    if not 0.0 < positive_rate < 1.0:
        raise ValueError(f"positive_rate must lie between 0 and 1, not {positive_rate}.")


def _stacked(parts: Sequence[Any]) -> Any:
    if sparse.issparse(parts[0]):
        return sparse.vstack(parts, format="csr")
    return np.concatenate(parts)
