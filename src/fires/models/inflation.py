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
from typing import ClassVar, Self

import numpy as np

from fires.core.batch import row_major
from fires.core.declared import Array, Declared, View
from fires.core.types import Floats, Ints, Places
from fires.kernels.changes import LEAST, SQUARES, SUM, fill_blocks, inflate

_NO_ROWS, _NO_LINES = row_major(np.empty((0, 0))), np.empty((5, 0, 0))


class Inflation:
    """The inflation of each row of parameters, and that along the linear predictor alone."""

    learnt: ClassVar[Declared] = {
        "columns": Array("C", dtype="int64", low=-1, high="J"),
        "blocks": Array("R", 2, 4, "C1"),
        # For each length: the rows of the open block, and how many whole ones there were, fading.
        "filled": Array(2, 2, low=0.0),
    }

    pooled = View("found", 0)
    of_predictor = View("found", 1)

    def __init__(self, n_rows: int) -> None:
        self.columns: Ints = np.empty(0, dtype=np.int64)
        self.blocks = np.zeros((n_rows, 2, 4, 1))  # the predictor comes last
        self.filled = np.zeros((2, 2))
        self._led = self.columns  # the very array that was given last
        self.found = np.ones((2, n_rows))

    def take(self, columns: Ints, Z: Floats, lines: Floats, gamma: float) -> None:
        """Take in rows: the leading columns Z, and what they say (:mod:`fires.kernels.changes`)."""
        self.follow(columns)
        if fill_blocks(Z, lines, gamma, self.blocks, self.filled):
            self.refresh()

    def add(self, columns: Ints, sums: Floats, n_rows: float, gamma: float) -> None:
        """Take in sums over rows that end with the open block, or within it.

        They are of scores, then of information; of these columns, then of the predictor.
        """
        self.follow(columns)
        self.blocks[:, :, :SQUARES] += sums.swapaxes(0, 1)[:, None]
        self.filled[:, 0] += n_rows
        fill_blocks(_NO_ROWS, _NO_LINES, gamma, self.blocks, self.filled)
        self.refresh()

    def follows(self, columns: Ints) -> bool:
        """Whether it goes by these columns."""
        return columns is self._led

    def follow(self, columns: Ints) -> None:
        """Go by these columns; of new ones nothing is known."""
        if self.follows(columns):
            return
        self._led = columns
        if np.array_equal(columns, self.columns):
            return
        before, here = self.blocks, np.flatnonzero(np.isin(columns, self.columns))
        self.blocks = np.zeros((*before.shape[:-1], len(columns) + 1))
        order = np.argsort(self.columns)
        places = order[np.searchsorted(self.columns, columns[here], sorter=order)]
        self.blocks[..., np.append(here, -1)] = before[..., np.append(places, -1)]
        self.columns = columns.copy()
        self.refresh()

    def refresh(self) -> None:
        """Compute the inflation from whole blocks: at any time, it is what these say."""
        if max(self.filled[:, 1].tolist()) < LEAST:
            self.found[:] = 1.0
        else:
            inflate(self.blocks, self.filled, *self.found)

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
        other.blocks[rows, :, SUM, :-1] *= signs[:, None, None]
        other.refresh()
        return other
