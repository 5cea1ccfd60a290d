"""OLI2DS: a linear learner of rows whose columns come and go, with a rare class."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared
from fires.core.settings import number
from fires.core.types import Floats
from fires.kernels import online
from fires.kernels.linear import Rows
from fires.rivals.base import settings
from fires.rivals.rows.base import RowByRowSelector


@settings
class OLI2DS(RowByRowSelector):
    r"""Online learning from incomplete and imbalanced data streams (You et al., 2023).

    The features of a row are those whose entry is not 0: those that the row before it had, too (s),
    and new ones (n). Each group counts by its share p of the sum of the variances of both,

    .. math::
        f = p_s\, w_s^\top x_s + p_n\, w_n^\top x_n, \qquad
        \tau = \min\Bigl(C, \frac{\max(0, 1 - y f)}
            {p_s^2 \lVert x_s \rVert^2 + p_n^2 \lVert x_n \rVert^2}\Bigr), \qquad
        w_g \leftarrow w_g + \alpha \theta \tau y\, p_g x_g

    where :math:`\alpha` is the share of the other class, so that a rare class takes greater steps.
    Features are ranked by :math:`|w_j|`. On rows that have all features it is the
    passive-aggressive learner with these steps.

    Projection and truncation of the paper are left out, as in the experiments of the authors'
    program. A variance there is not one (it only grows); here it is that of the entries so far. X
    is not scaled, and there is no intercept. A missing entry counts as 0.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        k: a number (all, if there are fewer) or a fraction in (0, 1).
    C : float, default=0.01
        Bounds :math:`\tau`.
    learning_rate : float, default=8.0
        :math:`\theta`, as in the authors' experiments.

    Attributes
    ----------
    weights_, importances_, ranking_ : ndarray (n_features,)
        :math:`|w|`, w and the rank (1 is best) of every feature.
    classes_ : ndarray
        The labels seen, sorted; the greater one is the positive one.

    References
    ----------
    D. You et al., "Online Learning From Incomplete and Imbalanced Data Streams", IEEE
    Transactions on Knowledge and Data Engineering 35(10), 2023.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> selector = OLI2DS(2)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 8))
    ...     X[rng.random(X.shape) < 0.3] = np.nan
    ...     y = np.nan_to_num(X[:, 3] - X[:, 5]) > 1
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 5])
    """

    C: float = number(0.01)
    learning_rate: float = number(8.0)

    _learnt: ClassVar[Declared] = {
        # w; sum of squares, number of entries, and the last row that has it
        "theta": Array(4, "J"),
        "mean": Array("J"),
        "own": Array(3, low=0.0),
    }

    _starts = (0.0, 0.0, 0.0, 0.0)
    _signed = slice(0, 1)

    def _start(self, batch: CheckedBatch) -> None:
        super()._start(batch)
        self._mean_ = np.zeros(self.n_features_in_)
        self._own_ = np.array([0.0, 1.0, 1.0])  # rows; as if each class had been seen once

    def _take_sides(self, turned: bool) -> None:
        super()._take_sides(turned)
        if turned:
            self._own_ = self._own_[[0, 2, 1]]

    def _run(self, rows: Rows, signs: Floats) -> bool:
        self._mean_, self._own_ = self._mean_.copy(), self._own_.copy()
        options = (float(self.C), float(self.learning_rate))
        done: int = online.oli2ds(rows, signs, self._theta_, self._mean_, self._own_, options)
        return done >= 0
