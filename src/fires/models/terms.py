r"""Terms that a straight line lacks: of a column, and products of two columns.

A term is made of normal scores w: what a standard normal variable would be at the same quantile. So
a skewed column is as good as any other, and an outlier has no weight of its own. A column's curve
is its line and the cosines

.. math:: \cos \frac{\pi q (w + 3)}{6}, \qquad q = 2, \dots, 7

each standardised, and divided by q / 2: the prior prefers curves that turn seldom. A pair is the
product of two normal scores, standardised by what was seen of it. The curve of a column of sparse
rows is its line and its presence: 1 where it has an entry.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared
from fires.core.types import CsrRows, Floats, Ints, Mask, Places
from fires.kernels.linear import find_places
from fires.kernels.screen import DEVIATIONS, KNOTS, MEANS, ORDERS, REACH, term_values

PRESENCE = np.ones(1, dtype=np.int64)
"""The order of the only term of a column of sparse rows."""
_MEMORY = 10_000.0  # rows in which the moments of products fade to 1/e
_START = 100.0  # rows that they start with


def cosines(scores: Floats) -> Floats:
    """The cosines of normal scores, standardised, as the last axis."""
    turns = np.pi / (2.0 * REACH) * ORDERS
    values = (np.cos(turns * (scores[..., None] + REACH)) - MEANS) / DEVIATIONS
    return np.asarray(values * (2.0 / ORDERS))


def scaled_at(scores: Floats, knots: Floats) -> Floats:
    """The scaled values of a column at normal scores; the last lines go on beyond the knots."""
    inside = np.interp(scores, KNOTS, knots)
    slopes = np.diff(knots)[[0, -1]] / (KNOTS[1] - KNOTS[0])
    below, above = np.minimum(scores - KNOTS[0], 0.0), np.maximum(scores - KNOTS[-1], 0.0)
    return np.asarray(inside + slopes[0] * below + slopes[1] * above)


def with_presence(X: CsrRows, columns: Ints) -> CsrRows:
    """Rows with the presence of some columns behind; what is missing is so there, too.

    Examples
    --------
    >>> with_presence(sp.csr_array([[0.0, 3.0], [2.0, 0.0]]), np.array([1])).toarray()
    array([[0., 3., 1.],
           [2., 0., 0.]])
    """
    order = np.argsort(columns, kind="stable")
    place, known = find_places(columns[order], X.indices)
    known &= X.data != 0.0
    row, n = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.shape[1]
    data = np.append(X.data, np.where(np.isnan(X.data[known]), np.nan, 1.0))
    at = np.append(row, row[known]), np.append(X.indices, n + order[place[known]])
    wide = sp.csr_array((data, at), shape=(X.shape[0], n + len(columns)))
    wide.sort_indices()
    rows: CsrRows = wide
    return rows


class Terms:
    """Which terms there are, in the order of their parameters.

    ``order`` is that of a cosine of the column ``first``; 1 for its presence, 0 for its product
    with ``second``.
    """

    learnt: ClassVar[Declared] = {
        "first": Array("M", dtype="int64", low=0, high="J"),
        "second": Array("M", dtype="int64", low=0, high="J"),
        "order": Array("M", dtype="int64", low=0, high=float(ORDERS[-1])),
        "mean": Array("M"),
        "square": Array("M", low=0.0),
        "rows": Array("M", low=0.0),
    }

    def __init__(self, knots: Floats) -> None:
        self.knots = knots  # the running quantiles of columns
        self.first, self.second, self.order = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self.mean, self.square, self.rows = (np.zeros(0) for _ in range(3))

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def are_pairs(self) -> Mask:
        """Which terms are products."""
        return np.asarray(self.order == 0)

    @cached_property
    def curved(self) -> Ints:
        """The columns that have a curve, sorted."""
        return np.unique(self.first[~self.are_pairs])

    @property
    def pairs(self) -> Ints:
        """The two columns of each pair."""
        return np.column_stack([self.first, self.second])[self.are_pairs]

    def with_more(self, curves: Ints, pairs: Ints, keep: Mask, orders: Ints = ORDERS) -> Self:
        """Some of the terms, and then those of other columns and pairs."""
        n, other = len(orders), type(self)(self.knots)
        more: dict[str, npt.NDArray[Any]] = {
            "first": np.append(np.repeat(curves, n), pairs[:, 0]),
            "second": np.append(np.repeat(curves, n), pairs[:, 1]),
            "order": np.append(np.tile(orders, len(curves)), np.zeros(len(pairs), dtype=np.int64)),
        }
        new = len(more["first"])
        more |= {"mean": np.zeros(new), "square": np.ones(new), "rows": np.full(new, _START)}
        for name, added in more.items():
            setattr(other, name, np.concatenate([getattr(self, name)[keep], added]))
        return other

    def kept(self, keep: Mask) -> Self:
        """Some of the terms."""
        return self.with_more(self.first[:0], self.pairs[:0], keep)

    @cached_property
    def _scale(self) -> tuple[Floats, Floats]:
        """What is taken off each term, and what the rest is divided by."""
        at, pairs = np.maximum(self.order - ORDERS[0], 0), self.are_pairs
        spread = np.sqrt(np.maximum(self.square - self.mean**2, 0.01))
        mean = np.where(pairs, self.mean, MEANS[at])
        return mean, np.where(pairs, spread, DEVIATIONS[at] * (0.5 * self.order))

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        """The columns that terms are of, and where those of each term are among them."""
        columns, at = np.unique([self.first, self.second], return_inverse=True)
        return columns, np.reshape(at, (2, -1)).astype(np.int64)

    def values(self, Z: Floats, gaps: Mask | None = None) -> Floats:
        """The terms of scaled rows; 0 where an entry is missing."""
        values, (columns, at) = np.empty((len(Z), len(self))), self._places
        terms = at[0], at[1], self.order
        term_values(Z[:, columns], self.knots[:, columns], terms, self._scale, values)
        if gaps is not None:
            values[gaps[:, self.first] | gaps[:, self.second]] = 0.0
        return values

    def widened(self, batch: CheckedBatch) -> CheckedBatch:
        """Rows, dense and scaled or sparse, with their terms behind the columns."""
        X, gaps, change = batch.X, batch.gaps, batch.change
        if not len(self):
            return batch
        if not isinstance(X, np.ndarray):
            gaps = None if gaps is None else with_presence(gaps, self.first)
            return replace(batch, X=with_presence(X, self.first), gaps=gaps)
        X = np.hstack([X, self.values(X, gaps)])
        if gaps is not None:
            gaps = np.hstack([gaps, gaps[:, self.first] | gaps[:, self.second]])
        if change is not None:  # terms have units of their own
            change = np.hstack([change, np.repeat([[0.0], [1.0]], len(self), axis=1)])
        return replace(batch, X=X, gaps=gaps, change=change)

    def learn(self, values: Floats, weight: Floats) -> None:
        """Learn the moments of products from what :meth:`values` gave."""
        total = float(weight.sum())
        self.rows = np.minimum(self.rows, _MEMORY) + total
        if (pairs := self.are_pairs).any():
            mean, spread = self._scale
            del self._scale
            raw, share = (mean + spread * values)[:, pairs], weight / total
            pace = total / self.rows[pairs]
            self.mean[pairs] += pace * (share @ raw - self.mean[pairs])
            self.square[pairs] += pace * (share @ raw**2 - self.square[pairs])

    def without(self, columns: Places) -> Mask:
        """Which terms are of none of these columns."""
        return ~(np.isin(self.first, columns) | np.isin(self.second, columns))
