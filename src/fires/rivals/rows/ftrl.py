"""FTRL: logistic regression with an L1 penalty, learnt online."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared
from fires.core.settings import flag, number
from fires.core.types import Floats
from fires.kernels import online
from fires.kernels.linear import Rows
from fires.rivals.base import settings
from fires.rivals.rows.base import RowByRowSelector


@settings
class FTRL(RowByRowSelector):
    r"""Logistic regression by FTRL-proximal with L1, ranked by :math:`|w|` (McMahan et al., 2013).

    For every feature it keeps a sum of gradients :math:`z_j` and a sum of their squares
    :math:`n_j`. They give the coefficient

    .. math::
        w_j = \begin{cases} 0 & |z_j| \le \lambda_1 \\
        - \left(\frac{\beta + \sqrt{n_j}}{\alpha} + \lambda_2\right)^{-1}
        (z_j - \operatorname{sign}(z_j) \lambda_1) & \text{otherwise} \end{cases}

    A row moves them by :math:`z_j \leftarrow z_j + g_j - \sigma_j w_j` and
    :math:`n_j \leftarrow n_j + g_j^2` with :math:`g_j = (p - [y = 1])\, x_j`, p the predicted
    probability and :math:`\sigma_j = (\sqrt{n_j + g_j^2} - \sqrt{n_j}) / \alpha`. Each feature
    learns at its own rate, and coefficients that help little stay exactly zero. If fewer than k
    coefficients differ from zero, the selection is filled up with the first columns.

    X is not scaled: bring the columns to one scale, and centre them if they are dense. The
    intercept learns too slowly for a rare class, so columns whose mean is not 0 would get weights
    in its place. A missing entry counts as 0. A sparse row costs what its entries cost.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    learning_rate : float, default=0.1
        :math:`\alpha`.
    beta : float, default=1.0
        Holds back the first steps.
    l1, l2 : float, default=1.0 and 0.0
        :math:`\lambda_1` and :math:`\lambda_2`. They are weighed against sums over all rows, not
        against means.
    fit_intercept : bool, default=True
        Learn an intercept, which has no L1 penalty and is never ranked.

    Attributes
    ----------
    weights_, importances_, ranking_ : ndarray (n_features,)
        :math:`|w|`, w and the rank (1 is best) of every feature.
    classes_ : ndarray
        The labels seen, sorted; the greater one is the positive one.

    References
    ----------
    H. B. McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> selector = FTRL(2, l1=20.0)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 8))
    ...     y = X[:, 3] - X[:, 5] > 0
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 5])
    >>> int((selector.weights_ > 0).sum())
    2
    """

    learning_rate: float = number(0.1)
    beta: float = number(1.0)
    l1: float = number(1.0, ends="[)")
    l2: float = number(0.0, ends="[)")
    fit_intercept: bool = flag(True)

    _learnt: ClassVar[Declared] = {"bias": Array(2)}

    _starts = (0.0, 0.0)  # z and the root of n

    def _numbers(self) -> tuple[float, float, float, float]:
        return float(self.learning_rate), float(self.beta), float(self.l1), float(self.l2)

    def _start(self, batch: CheckedBatch) -> None:
        super()._start(batch)
        self._bias_ = np.zeros(2)

    def _take_sides(self, turned: bool) -> None:
        super()._take_sides(turned)
        if turned:
            self._bias_ = self._bias_ * [-1.0, 1.0]

    def _run(self, rows: Rows, signs: Floats) -> bool:
        self._bias_ = self._bias_.copy()
        options = (bool(self.fit_intercept), self._numbers())
        done: int = online.ftrl(rows, signs, *self._theta_, self._bias_, *options)
        return done >= 0

    def _coefficients(self) -> Floats:
        z, root = self._theta_
        return online.coefficients_plain(z, root, float(self.l1), self._numbers())
