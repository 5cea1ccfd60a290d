r"""Terms that a straight line lacks: cosines of a column, and products of two columns.

A term is made of normal scores w: what a standard normal variable would be at the same quantile. So
a skewed column is as good as any other, and an outlier has no weight of its own. A column's curve
is its line and the cosines

.. math:: \cos \frac{\pi q (w + 3)}{6}, \qquad q = 2, \dots, 6

each standardised, and divided by q / 2: the prior prefers curves that turn seldom. A pair is the
product of two normal scores, standardised by what was seen of it.
"""

from __future__ import annotations

import copy
from typing import ClassVar, Self

import numpy as np

from fires.core.declared import Array, Declared
from fires.core.types import Floats, Ints, Mask, Places
from fires.kernels.screen import DEVIATIONS, MEANS, ORDERS, REACH, normal_scores

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
        return self.order == 0

    @property
    def curved(self) -> Ints:
        """The columns that have a curve, sorted."""
        return np.unique(self.first[~self.are_pairs])

    def with_more(self, curves: Ints, pairs: Ints, keep: Mask) -> Self:
        """A copy with some of the terms, and then those of other columns and pairs."""
        other = copy.copy(self)
        n_cosines = len(ORDERS)
        more = {
            "first": np.append(np.repeat(curves, n_cosines), pairs[:, 0]),
            "second": np.append(np.repeat(curves, n_cosines), pairs[:, 1]),
            "order": np.append(np.tile(ORDERS, len(curves)), np.zeros(len(pairs), dtype=np.int64)),
        }
        new = len(more["first"])
        more |= {"mean": np.zeros(new), "square": np.ones(new), "rows": np.full(new, _START)}
        for name, added in more.items():
            setattr(other, name, np.concatenate([getattr(self, name)[keep], added]))
        return other

    def values(self, Z: Floats, knots: Floats, gaps: Mask | None = None) -> Floats:
        """The terms of scaled rows; 0 where an entry is missing."""
        used, place = np.unique(np.concatenate([self.first, self.second]), return_inverse=True)
        scores = np.empty((len(Z), len(used)))
        normal_scores(np.ascontiguousarray(Z[:, used]), np.ascontiguousarray(knots[:, used]), scores)
        first, second = np.split(place, 2)
        values, pairs = np.empty((len(Z), len(self))), self.are_pairs
        turns = np.pi / (2.0 * REACH) * self.order[~pairs]
        at = self.order[~pairs] - ORDERS[0]
        waves = np.cos(turns * (scores[:, first[~pairs]] + REACH)) - MEANS[at]
        values[:, ~pairs] = waves * (2.0 / (DEVIATIONS[at] * self.order[~pairs]))
        products = scores[:, first[pairs]] * scores[:, second[pairs]]
        mean, square = self.mean[pairs], self.square[pairs]
        values[:, pairs] = (products - mean) / np.sqrt(np.maximum(square - mean**2, 0.01))
        if gaps is not None:
            values[gaps[:, self.first] | gaps[:, self.second]] = 0.0
        return values

    def learn(self, values: Floats, weight: Floats) -> None:
        """Learn the moments of products from what :meth:`values` gave."""
        total = float(weight.sum())
        spread = np.sqrt(np.maximum(self.square - self.mean**2, 0.01))
        raw = self.mean + spread * values
        self.rows = np.minimum(self.rows, _MEMORY) + total
        pace = total / self.rows
        share = weight / total
        self.mean = self.mean + pace * (share @ raw - self.mean)
        self.square = self.square + pace * (share @ raw**2 - self.square)

    def without(self, columns: Places) -> Mask:
        """Which terms are of none of these columns."""
        return ~(np.isin(self.first, columns) | np.isin(self.second, columns))
