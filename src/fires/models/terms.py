r"""Terms that a straight line lacks: cosines of a column, and products of two columns.

A term is made of normal scores w: what a standard normal variable would be at the same quantile. So
a skewed column is as good as any other, and an outlier has no weight of its own. A column's curve
is its line and the cosines

.. math:: \cos \frac{\pi q (w + 3)}{6}, \qquad q = 2, \dots, 7

each standardised, and divided by q / 2: the prior prefers curves that turn seldom. A pair is the
product of two normal scores, standardised by what was seen of it.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from fires.core.declared import Array, Declared
from fires.core.types import Floats, Ints, Mask, Places
from fires.kernels.screen import DEVIATIONS, MEANS, ORDERS, REACH, term_values

_MEMORY = 10_000.0  # rows in which the moments of products fade to 1/e
_START = 100.0  # rows that they start with


def cosines(scores: Floats) -> Floats:
    """The cosines of normal scores, standardised, as the last axis."""
    turns = np.pi / (2.0 * REACH) * ORDERS
    values = (np.cos(turns * (scores[..., None] + REACH)) - MEANS) / DEVIATIONS
    return np.asarray(values * (2.0 / ORDERS))


class Terms:
    """Which cosines and products there are, in the order of their parameters.

    ``order`` is that of a cosine of the column ``first``; 0 for its product with ``second``.
    """

    learnt: ClassVar[Declared] = {
        "first": Array("M", dtype="int64", low=0, high="J"),
        "second": Array("M", dtype="int64", low=0, high="J"),
        "order": Array("M", dtype="int64", low=0, high=float(ORDERS[-1])),
        "mean": Array("M"),
        "square": Array("M", low=0.0),
        "rows": Array("M", low=0.0),
    }

    def __init__(self) -> None:
        self.first, self.second, self.order = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self.mean, self.square, self.rows = (np.zeros(0) for _ in range(3))

    def __len__(self) -> int:
        return len(self.first)

    @property
    def are_pairs(self) -> Mask:
        """Which terms are products."""
        return np.asarray(self.order == 0)

    @property
    def curved(self) -> Ints:
        """The columns that have a curve, sorted."""
        return np.unique(self.first[~self.are_pairs])

    def with_more(self, curves: Ints, pairs: Ints, keep: Mask) -> Self:
        """A copy with some of the terms, and then those of other columns and pairs."""
        other = copy.copy(self)
        n_cosines = len(ORDERS)
        more: dict[str, npt.NDArray[Any]] = {
            "first": np.append(np.repeat(curves, n_cosines), pairs[:, 0]),
            "second": np.append(np.repeat(curves, n_cosines), pairs[:, 1]),
            "order": np.append(np.tile(ORDERS, len(curves)), np.zeros(len(pairs), dtype=np.int64)),
        }
        new = len(more["first"])
        more |= {"mean": np.zeros(new), "square": np.ones(new), "rows": np.full(new, _START)}
        for name, added in more.items():
            setattr(other, name, np.concatenate([getattr(self, name)[keep], added]))
        return other

    def _scale(self) -> tuple[Floats, Floats]:
        """What is taken off each term, and what the rest is divided by."""
        at, pairs = np.maximum(self.order - ORDERS[0], 0), self.are_pairs
        spread = np.sqrt(np.maximum(self.square - self.mean**2, 0.01))
        mean = np.where(pairs, self.mean, MEANS[at])
        return mean, np.where(pairs, spread, DEVIATIONS[at] * (0.5 * self.order))

    def values(self, Z: Floats, knots: Floats, gaps: Mask | None = None) -> Floats:
        """The terms of scaled rows; 0 where an entry is missing."""
        values = np.empty((len(Z), len(self)))
        term_values(Z, knots, self.first, self.second, self.order, *self._scale(), values)
        if gaps is not None:
            values[gaps[:, self.first] | gaps[:, self.second]] = 0.0
        return values

    def learn(self, values: Floats, weight: Floats) -> None:
        """Learn the moments of products from what :meth:`values` gave."""
        total = float(weight.sum())
        self.rows = np.minimum(self.rows, _MEMORY) + total
        if (pairs := self.are_pairs).any():
            mean, spread = self._scale()
            raw, share = (mean + spread * values)[:, pairs], weight / total
            pace = total / self.rows[pairs]
            self.mean[pairs] += pace * (share @ raw - self.mean[pairs])
            self.square[pairs] += pace * (share @ raw**2 - self.square[pairs])

    def without(self, columns: Places) -> Mask:
        """Which terms are of none of these columns."""
        return ~(np.isin(self.first, columns) | np.isin(self.second, columns))
