r"""Dependent rows: by how much what they say varies more than the model expects.

The variance of a posterior is that of independent rows whose noise is as the model has it. Rows
that depend on each other, rows that come several times, and counts that vary more than a Poisson's
say less than they seem to. It is seen in the scores :math:`u_j = z_j g` of rows, the slopes of
their log likelihood. Over a block of rows, the square of their sum should be the information of the
block, :math:`\sum h z_j^2` with the bend h. So

.. math:: \varphi_j = \sum_{\text{blocks}} \Bigl(\sum u_j\Bigr)^2 \Big/ \sum h z_j^2

over blocks of 100 and of 1,000 rows (batch means). The **inflation** is the greater one of the two
lengths, and at least 1: information counts for its :math:`\varphi`-th part. Columns whose
coefficients change have a greater one. So it is that of the lower quartile of the leading columns,
against the lower quartile that independent rows would have. Blocks fade as all evidence does. A
block with more than nine times the usual square is a change rather than noise, and counts as nine.
"""

from __future__ import annotations

import copy
import math
from typing import ClassVar, Self

import numpy as np

from fires.core.declared import Array, Declared
from fires.core.types import Floats, Ints, Places

BLOCK = 100
"""Rows of a short block."""
_LENGTHS = (BLOCK, 10 * BLOCK)
_LEAST = 3.0  # blocks before which nothing is known
_FEW = 6.0  # blocks of independent rows that are taken to have been seen before, or more if
_COLUMNS = 20  # fewer columns than this lead, whose median says less
_GROWING = 2.5  # times the inflation of short blocks
_OUTLYING = 9.0  # times the usual square
# Lines of a block: the sum of scores and their information, in the open block; squares and
# information in whole ones.
_SUM, _INFORMATION, _SQUARES, _EXPECTED = range(4)


class Inflation:
    """The inflation of each row of parameters, and that along the linear predictor alone."""

    learnt: ClassVar[Declared] = {
        "columns": Array("C", dtype="int64", low=-1, high="J"),
        "blocks": Array("R", 2, 4, "C1"),
        # For each length: the rows of the open block, and how many whole ones there were, fading.
        "filled": Array(2, 2, low=0.0),
    }

    def __init__(self, n_rows: int) -> None:
        self.columns: Ints = np.empty(0, dtype=np.int64)
        self.blocks = np.zeros((n_rows, 2, 4, 1))  # the predictor comes last
        self.filled = np.zeros((2, 2))
        self._led = self.columns  # the very array that was given last
        self.pooled, self.of_predictor = np.ones((2, n_rows))

    def room(self) -> int:
        """How many more rows there are in the open short block."""
        return max(BLOCK - int(self.filled[0, 0]), 1)

    def add(self, columns: Ints, sums: Floats, n_rows: float, gamma: float) -> None:
        """Take in sums over rows that end with the open block, or within it.

        They are of scores, then of information; of these columns, then of the predictor.
        """
        if columns is not self._led:
            if not np.array_equal(columns, self.columns):
                self._follow(columns)
            self._led = columns
        blocks, filled = self.blocks, self.filled
        blocks[:, :, :_SQUARES] += sums.swapaxes(0, 1)[:, None]
        filled[:, 0] += n_rows
        for i in [i for i, length in enumerate(_LENGTHS) if filled[i, 0] >= length]:
            block, fade = blocks[:, i], gamma ** filled[i, 0]
            usual = np.maximum(self._ratio(i), 1.0)
            square = np.minimum(block[:, _SUM] ** 2, _OUTLYING * usual * block[:, _INFORMATION])
            block[:, _SQUARES:] *= fade
            block[:, _SQUARES] += square
            block[:, _EXPECTED] += block[:, _INFORMATION]
            block[:, :_SQUARES] = 0.0
            filled[i] = 0.0, filled[i, 1] * fade + 1.0
            self.refresh()

    def _ratio(self, i: int) -> Floats:
        squares, expected = self.blocks[:, i, _SQUARES], self.blocks[:, i, _EXPECTED]
        return np.divide(squares, expected, out=np.zeros(squares.shape), where=expected > 0.0)

    def _follow(self, columns: Ints) -> None:
        """Go by other columns; of new ones nothing is known."""
        before, here = self.blocks, np.flatnonzero(np.isin(columns, self.columns))
        self.blocks = np.zeros((*before.shape[:-1], len(columns) + 1))
        order = np.argsort(self.columns)
        places = order[np.searchsorted(self.columns, columns[here], sorter=order)]
        self.blocks[..., np.append(here, -1)] = before[..., np.append(places, -1)]
        self.columns = columns.copy()

    def refresh(self) -> None:
        """Compute the inflation from the blocks."""
        self.pooled, self.of_predictor = np.ones((2, len(self.blocks)))
        for i, n in enumerate(self.filled[:, 1].tolist()):
            if n >= _LEAST:
                few = _FEW * max(_COLUMNS / max(len(self.columns), 1), 1.0)
                ratio = self._ratio(i)
                along = (n * ratio[:, -1] + few) / (n + few)
                self.of_predictor = np.maximum(self.of_predictor, along)
                seen = self.blocks[0, i, _EXPECTED, :-1] > 0.0
                if seen.any():
                    some = np.sort(ratio[:, :-1][:, seen], axis=1)
                    low = some[:, (some.shape[1] - 1) // 4] / _quartile(n)
                    low = (n * low + few) / (n + few)
                    # Where ten times as long a block makes it so much greater, it goes on growing.
                    growing = np.maximum(low / (_GROWING * self.pooled), 1.0) if i else 1.0
                    self.pooled = np.maximum(self.pooled, low * growing)
        self.of_predictor = np.maximum(self.of_predictor, self.pooled)

    def rearranged(self, places: Places) -> Self:
        """A copy for other columns, by the new place of each, below 0 if it is gone."""
        other = copy.copy(self)
        other.columns = places[self.columns].astype(np.int64)
        return other

    def with_rows(self, n_rows: int, rows: Places, old: Places, signs: Floats) -> Inflation:
        """A copy for other rows of parameters."""
        other = Inflation(n_rows)
        other.columns, other.filled = self.columns, self.filled.copy()
        other.blocks = np.zeros((n_rows, *self.blocks.shape[1:]))
        other.blocks[rows] = self.blocks[old]
        other.blocks[rows, :, _SUM, :-1] *= signs[:, None, None]
        other.refresh()
        return other


def _quartile(n: float) -> float:
    """The lower quartile of a mean of n squares of standard normal variables (Wilson, Hilferty)."""
    part = 2.0 / (9.0 * n)
    return float((1.0 - part - 0.6745 * math.sqrt(part)) ** 3)
