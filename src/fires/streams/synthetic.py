"""Streams whose truth is known: which features matter, and from which row on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.core.randomness import generator
from fires.streams.base import Batch, Position, Schema, check_batch_size

_BLOCK = 1_000  # rows drawn at a time: part of what a seed means, so never to be changed


class DriftingFeatures:
    r"""Two classes told apart by a few features, and from some row on by others.

    With independent standard normal :math:`z_j`, the relevant features :math:`R`, coefficients
    :math:`\beta` of random sign and length 1, and :math:`\varepsilon \sim \mathcal{N}(0, s^2)`:

    .. math::
        x_j = \text{offset}_j + \text{scale}_j\, z_j, \qquad
        y = \Big[ \sum_{j \in R} \beta_j z_j + \varepsilon > c \Big]

    where :math:`s` is ``noise`` and :math:`c` is such that the positives have their rate. Scales
    span five powers of ten and offsets are several scales wide, so the features cannot be
    compared as they come. When the stream has reached ``drift_at`` of its length, another
    :math:`R`, disjoint from the first, and another :math:`\beta` take over; x itself does not
    change.

    Parameters
    ----------
    n_samples, n_features : int
        The size of the stream.
    n_relevant : int
        How many features matter at a time; at most half of them.
    drift_at : float
        The share of the rows before the change, in (0, 1]; 1 is a stream without one.
    positive_rate : float
        The expected share of the label 1, in (0, 1).
    noise : float
        Standard deviation of what no feature explains, beside a signal of 1.
    random_state : int, Generator, RandomState or None
        The rows depend on it and on nothing else: not on the batch size, and every iteration
        gives them again.

    Attributes
    ----------
    schema : Schema
        The names of the columns, x0, x1, ..., and the classes 0 and 1.
    n_samples : int
        How many rows there are.
    change : int
        The first row that other features decide; ``n_samples`` if there is none.

    Examples
    --------
    >>> stream = DriftingFeatures(n_samples=1_000, n_features=20, n_relevant=2)
    >>> stream.relevant_at(0), stream.relevant_at(999)
    (array([10, 11]), array([3, 6]))
    >>> for batch in stream.batches(400):
    ...     print(batch.X.shape, batch.position.rows)
    (400, 20) 400
    (400, 20) 800
    (200, 20) 1000
    """

    def __init__(
        self,
        n_samples: int = 20_000,
        n_features: int = 50,
        n_relevant: int = 5,
        *,
        drift_at: float = 0.5,
        positive_rate: float = 0.5,
        noise: float = 0.5,
        random_state: Any = 0,
    ) -> None:
        if n_samples < 1:
            raise ValueError(f"n_samples must be at least 1, not {n_samples}.")
        if not 1 <= n_relevant <= n_features // 2:
            raise ValueError(
                f"n_relevant must lie between 1 and half of n_features={n_features}, "
                f"not {n_relevant}: the features that matter later are others."
            )
        if not 0.0 < drift_at <= 1.0:
            raise ValueError(f"drift_at must lie in (0, 1], not {drift_at}.")
        if not 0.0 < positive_rate < 1.0:
            raise ValueError(f"positive_rate must lie between 0 and 1, not {positive_rate}.")
        if not 0.0 <= noise < np.inf:
            raise ValueError(f"noise must be finite and not negative, not {noise}.")
        rng = generator(random_state, "drifting features")
        # A generator moves on when it is used: its seed is drawn once, so that rows come again.
        self._seed = int(rng.integers(2**63))
        self._scale = 10.0 ** rng.uniform(-2.0, 3.0, n_features)
        self._offset = self._scale * rng.uniform(-5.0, 5.0, n_features)
        chosen = rng.permutation(n_features)[: 2 * n_relevant].reshape(2, n_relevant)
        self._relevant = np.sort(chosen, axis=1)
        signed = rng.choice([-1.0, 1.0], (2, n_relevant)) * rng.uniform(0.7, 1.3, (2, n_relevant))
        self._beta = signed / np.linalg.norm(signed, axis=1, keepdims=True)
        self._noise = noise
        self._threshold = NormalDist(0.0, float(np.hypot(1.0, noise))).inv_cdf(1.0 - positive_rate)

        self.n_samples = n_samples
        self.change = round(drift_at * n_samples)
        names = tuple(f"x{column}" for column in range(n_features))
        self.schema = Schema(names, target="label", classes=(0, 1))

    def relevant_at(self, row: int) -> npt.NDArray[np.intp]:
        """The columns that decide the label of this row, ascending."""
        if not 0 <= row < self.n_samples:
            raise IndexError(f"The stream has rows 0 to {self.n_samples - 1}; there is no {row}.")
        relevant: npt.NDArray[np.intp] = self._relevant[int(row >= self.change)].copy()
        return relevant

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows in order; the last batch may be shorter."""
        batch_size = check_batch_size(batch_size)
        block = lru_cache(maxsize=1)(self._block)
        for start in range(0, self.n_samples, batch_size):
            stop = min(start + batch_size, self.n_samples)
            parts = []
            for number in range(start // _BLOCK, (stop - 1) // _BLOCK + 1):
                X, y = block(number)
                within = slice(max(start - number * _BLOCK, 0), stop - number * _BLOCK)
                parts.append((X[within], y[within]))
            X, y = map(np.concatenate, zip(*parts, strict=True))
            yield Batch(X, y, Position(rows=stop, offset=stop))

    def _block(self, number: int) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Rows from ``number * _BLOCK`` on, drawn whole even where the stream ends before."""
        rng = generator(self._seed, "block", str(number))
        z = rng.standard_normal((_BLOCK, len(self._scale)))
        unexplained = self._noise * rng.standard_normal(_BLOCK)
        rows = number * _BLOCK + np.arange(_BLOCK)
        before, after = (
            z[:, relevant] @ beta for relevant, beta in zip(self._relevant, self._beta, strict=True)
        )
        margin = np.where(rows < self.change, before, after) + unexplained
        return self._offset + self._scale * z, (margin > self._threshold).astype(np.int64)
