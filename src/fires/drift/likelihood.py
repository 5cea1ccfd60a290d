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

from fires.core.belief import Floats
from fires.core.declared import Array, Declared
from fires.kernels.change import add_up

LIMIT = 14.0


class LikelihoodAlarm:
    """Watch the predictions of one or more rows of parameters.

    Parameters
    ----------
    n_rows : int
        Rows of parameters, each with predictions of its own.
    warm_up : float
        So many rows after the start, or after an alarm, nothing is raised.
    limit : float
        The sum above which an alarm is raised.

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
        """Take in the predictions of a batch.

        Parameters
        ----------
        log_p, log_level : ndarray (n_parameter_rows, n_rows)
            The log likelihood of each row by the model, and without any feature.
        weight : ndarray (n_rows,)
            How often each row counts.

        Returns
        -------
        ndarray (n_parameter_rows,)
            The greatest sum within the batch; above ``limit`` it is an alarm.
        """
        greatest = np.empty(len(self.total))
        add_up(
            *(log_p, log_level, weight, self.warm_up),
            *(self.total, self.usual, self.rows, greatest),
        )
        return greatest

    def restart(self, row: int) -> None:
        """Start again for one row of parameters, after an alarm.

        Parameters
        ----------
        row : int
            Which one.
        """
        self.total[row] = self.usual[row] = self.rows[row] = 0.0
