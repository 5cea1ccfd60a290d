"""Online leverage scores: keep columns that point in a direction no kept column has."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

import numpy as np

from fires.core.declared import Array, Declared, Random
from fires.core.randomness import generator, random_state
from fires.core.settings import check_number, number
from fires.core.types import Labels, Seed
from fires.rivals.arriving.base import ArrivingColumns, ArrivingFeatures
from fires.rivals.base import settings


@settings
class LeverageScores(ArrivingFeatures):
    r"""Unsupervised selection of arriving features by online ridge leverage scores.

    Let :math:`A` hold the kept, rescaled columns. A new column :math:`a_j` has the score

    .. math:: l_j = \min(1, (1 + \epsilon) \, a_j^\top (A A^\top + \lambda I)^{-1} a_j)

    and is kept with probability :math:`p_j = \min(1, c \, l_j)`, as :math:`a_j / \sqrt{p_j}`. The
    inverse is updated by the Sherman-Morrison formula. So a feature costs :math:`O(n^2)`, and only
    an n x n matrix is stored. The method is meant for many more columns than rows.

    X is not scaled, and the scores depend on the scale of a column: standardise columns before
    they arrive. A missing entry counts as 0. The target is ignored.

    The choice is random; ``random_state`` makes it repeatable. The default :math:`c` is large: few
    columns are dropped unless there are many thousands. Set ``oversampling`` to keep fewer, or
    ``n_features_to_select`` to keep those with the best scores. ``epsilon=0`` keeps every column
    that is not 0, without chance.

    The paper's own constants, and the guarantees that depend on them, are not used:
    :math:`\lambda` and :math:`c` are settings here.

    Parameters
    ----------
    n_features_to_select : int, float or None, default=None
        Keep at most this many features, those with the greatest score. A fraction is a share of
        all columns seen.
    ridge : float, default=1.0
        :math:`\lambda`.
    epsilon : float, default=0.5
        :math:`\epsilon`: 0 or more.
    oversampling : float, optional
        :math:`c`; by default :math:`8 \log(n) / \epsilon^2` for n rows, n at least 2.
    random_state : int, Generator, RandomState or None
        One number is drawn for each column.

    Attributes
    ----------
    weights_ : ndarray (n_features_in_,)
        :math:`l_j` of each kept column; 0 for all others.

    References
    ----------
    J. Wang, J. Shen, P. Li: "Provable variable selection for streaming features". International
    Conference on Machine Learning, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.outer(rng.normal(size=20), np.ones(50))  # fifty times one column,
    >>> X[:, 33] = rng.normal(size=20)  # and another one
    >>> selector = LeverageScores(2, epsilon=0.0).partial_fit_features(X)
    >>> selector.get_support(indices=True)
    array([ 0, 33])
    """

    ridge: float = number(1.0)
    epsilon: float = number(0.5, ends="[)")
    oversampling: float | None = None
    random_state: Seed = random_state()

    _supervised = False
    _learnt: ClassVar[Declared] = {"inverse": Array("N", "N"), "rng": Random()}

    _rng_: np.random.Generator = field(init=False)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.oversampling is not None:
            check_number("oversampling", self.oversampling)

    def _start(self, y: Labels) -> None:
        self._inverse_ = np.eye(self.n_samples_) / self.ridge
        self._rng_ = generator(self.random_state, "leverage")

    def _arrive(self, columns: ArrivingColumns) -> None:
        for j, x in columns:
            a = np.where(np.isnan(x), 0.0, x)
            with np.errstate(over="ignore", invalid="ignore"):
                u = self._inverse_ @ a
                quadratic = float(a @ u)
            if not np.isfinite(quadratic):
                raise ValueError(
                    f"Column {j} is so large, or ridge={self.ridge!r} so small, that its leverage "
                    "overflows: standardise the columns."
                )
            quadratic = max(quadratic, 0.0)
            leverage = min(1.0, (1.0 + self.epsilon) * quadratic)
            p = self._probability(leverage)
            if self._rng_.random() < p:
                # The Sherman-Morrison formula for a / sqrt(p); v v' cannot overflow.
                v = u / np.sqrt(p + quadratic)
                self._inverse_ = self._inverse_ - np.outer(v, v)
                self._chosen_[j] = leverage

    def _probability(self, leverage: float) -> float:
        spread = float(self.epsilon) ** 2
        if leverage == 0.0 or (self.oversampling is None and spread == 0.0):
            return float(leverage > 0.0)  # nothing new, or an infinite c
        c = self.oversampling
        if c is None:
            c = 8.0 * float(np.log(max(self.n_samples_, 2))) / spread
        return min(1.0, float(c) * leverage)
