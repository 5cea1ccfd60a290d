r"""An alarm when the features have stopped telling the target.

Let :math:`p` be the probability (density) that the model gave a target before it learnt from it,
and :math:`p_0` that of a model which knows the level of the target and no features. With
:math:`q = \tfrac14 p + \tfrac34 p_0`, each row adds :math:`\log q / p` to a sum that is never below
zero (Page's CUSUM). While the model is right, :math:`q / p` is 1 on average. So on average a false
alarm comes at most once in :math:`e^{\text{limit}}` rows, whatever the data look like (Lorden,
1971). One row adds at most 3: a few outliers do not raise an alarm.

A model may be wrong all the time, so that the level alone would do better. Then it is measured
against itself: the usual increment, if it is above zero, is taken off. Then there is no bound.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from fires.core.declared import Array, Declared
from fires.core.types import Floats
from fires.kernels.change import MOST, SHARE, SLOW, add_up

LIMIT = 14.0


class LikelihoodAlarm:
    """Watch the predictions of one or more rows of parameters.

    Examples
    --------
    >>> alarm, level = LikelihoodAlarm(1, warm_up=100), np.full((1, 200), np.log(0.5))
    >>> alarm.update(np.log(np.full((1, 200), 0.9)), level, np.ones(200))
    array([0.])
    >>> bool(alarm.update(np.log(np.full((1, 200), 0.3)), level, np.ones(200)) > alarm.limit)
    True
    """

    learnt: ClassVar[Declared] = {
        "total": Array("R", low=0.0),
        "usual": Array("R"),
        "rows": Array("R", low=0.0),
    }

    def __init__(self, n_rows: int, *, warm_up: float, limit: float = LIMIT) -> None:
        self.warm_up = warm_up
        # With several sums, each may raise a false alarm.
        self.limit = limit + math.log(n_rows)
        self.total, self.usual, self.rows = np.zeros((3, n_rows))

    def update(self, log_p: Floats, log_level: Floats, weight: Floats) -> Floats:
        """Take in the predictions of a batch."""
        greatest = np.empty(len(self.total))
        add_up(
            *(np.ascontiguousarray(log_p), np.ascontiguousarray(log_level), weight, self.warm_up),
            *(self.total, self.usual, self.rows, greatest),
        )
        return greatest

    # --- a batch in several shards ------------------------------------------------------------

    def usual_after(self, mean: Floats, weight: float) -> Floats:
        """The usual increment after some rows, whatever their order."""
        pace = np.maximum(1.0 - (1.0 - SLOW) ** weight, weight / (self.rows + weight))
        return np.asarray(self.usual + (mean - self.usual) * pace)

    def take(
        self, segments: Floats | None, mean: Floats, weight: float, evidence: Floats
    ) -> Floats:
        """Take in a batch that lay in several shards.

        It is as :meth:`update`, with the predictions of the belief before the batch. A belief that
        has seen less than the warm-up does not say what is usual: it is left out. A batch counts
        as a whole or not at all: not, if it begins within the warm-up. And the usual increment
        that is taken off is that of the middle of the batch.
        """
        greatest, knows = self.total.copy(), evidence >= self.warm_up
        counts = knows & (self.rows >= self.warm_up)
        for whole, end, highest, alone in () if segments is None else segments:
            greatest = np.where(counts, np.maximum(greatest, self.total + highest), greatest)
            greatest = np.where(counts, np.maximum(greatest, alone), greatest)
            self.total = np.where(counts, np.maximum(self.total + whole, end), self.total)
        self.usual = np.where(knows, self.usual_after(mean, weight), self.usual)
        self.rows = np.where(knows, self.rows + weight, self.rows)
        return greatest

    def restart(self, row: int) -> None:
        """Start again for one row of parameters, after an alarm."""
        self.total[row] = self.usual[row] = self.rows[row] = 0.0


def increments(log_p: Floats, log_level: Floats, weight: Floats) -> Floats:
    """What each row adds to the sum by unit of weight, before the usual increment is taken off."""
    odds = np.exp(np.minimum(log_level - log_p, 50.0))
    return np.asarray(np.minimum(np.log(1.0 - SHARE + SHARE * odds), MOST / weight))


def segment(more: Floats, weight: Floats, usual: Floats) -> Floats:
    """What some rows in order do to a sum T that is never below zero.

    After them it is max(T + whole, end), and within them at most max(T + highest, alone). So
    segments of rows combine exactly, one after the other.

    Examples
    --------
    >>> segment(np.array([[-1.0, 3.0, -2.0]]), np.ones(3), np.zeros(1)).ravel()
    array([0., 1., 2., 3.])
    """
    path = np.cumsum(weight * (more - np.maximum(usual, 0.0)[:, None]), axis=1)
    lowest = np.minimum(np.minimum.accumulate(path, axis=1), 0.0)
    highest = np.maximum(path.max(axis=1), 0.0)
    return np.stack(
        [path[:, -1], path[:, -1] - lowest[:, -1], highest, (path - lowest).max(axis=1)]
    )
