"""AROW and SCW: linear learners that know how sure they are of each coefficient."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
from scipy.special import ndtri

from fires.core.settings import choice, number
from fires.core.types import Floats
from fires.kernels import second_order, sequential
from fires.kernels.linear import Rows
from fires.rivals.base import settings
from fires.rivals.rows.base import RowByRowSelector

_KEPT = {
    None: sequential.ALL,
    "confidence": sequential.CONFIDENT,
    "weight": sequential.GREATEST,
}


@settings
class SecondOrder(RowByRowSelector):
    """A mean and a variance per coefficient."""

    uncertainty_penalty: float = number(0.01, ends="[)")
    truncate: str | None = choice(*_KEPT)
    diagonal: str = choice("drop", "inverse")

    _starts = (0.0, 1.0)

    @abstractmethod
    def _rule(self) -> tuple[int, float, float]:
        """Which rule of the kernel, and its two numbers."""

    @property
    def uncertainties_(self) -> Floats:
        """The standard deviation of every coefficient; a read-only copy."""
        return self._computed("uncertainties", lambda: np.sqrt(self._theta_[1]))

    def _weights(self) -> Floats:
        mu, var = self._theta_
        return np.asarray(mu**2 - self.uncertainty_penalty * var)

    def _take_sides(self, turned: bool) -> None:
        super()._take_sides(turned)
        if self.truncate is None:
            if len(self._kept_):
                self._kept_ = self._kept_[:0]
        elif len(self._kept_) == 0:  # truncation may have been switched on between two batches
            self._kept_ = np.flatnonzero(self._theta_[0])

    def _run(self, rows: Rows, signs: Floats) -> bool:
        kept = _KEPT[self.truncate]
        place, before = (self._kept_, 0) if kept == sequential.ALL else self._room(rows)
        options = (self._resolve_k(), kept, self._rule(), self.diagonal == "inverse")
        given = (rows, signs, *self._theta_, place, before)
        return self._list(place, second_order.second_order(*given, *options))


@settings
class AROW(SecondOrder):
    r"""Adaptive regularisation of weights, diagonal (Crammer et al., 2009), as a selector.

    The coefficients are normal, :math:`w_j \sim \mathcal{N}(\mu_j, \sigma_j^2)`, at first with
    mean 0 and variance 1. With :math:`v = \sum_j \sigma_j^2 x_j^2` and
    :math:`\beta = 1 / (v + r)`, a row with a margin :math:`m = y\, \mu^\top x < 1` moves them by

    .. math::
        \mu_j \leftarrow \mu_j + (1 - m) \beta\, y \sigma_j^2 x_j, \qquad
        \sigma_j^2 \leftarrow \sigma_j^2 - \beta\, \sigma_j^4 x_j^2

    Features are ranked as in FIRES, by :math:`\omega_j = \mu_j^2 - \lambda_s \sigma_j^2`.

    ``truncate="confidence"`` is second-order online feature selection (SOFS, Wu et al., 2017).
    After every step, only the k means with the least variance stay, the others become zero. These
    are the features that were present most often. On sparse data, such as text, that is a good
    sign; on dense data it says hardly anything. ``truncate="weight"`` keeps the k greatest
    :math:`|\mu_j|` instead, as :class:`OFS` does.

    X is not scaled: bring the columns to one scale, and centre them if they are dense,
    since there is no intercept. A missing entry counts as 0. A sparse row with m entries costs
    O(m), and O(m + k) with truncation.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        k: a number (all, if there are fewer) or a fraction in (0, 1).
    r : float, default=1.0
        The greater, the smaller the steps.
    uncertainty_penalty : float, default=0.01
        :math:`\lambda_s`: how much uncertainty counts against a feature.
    truncate : {None, "confidence", "weight"}, default=None
        Which k means may differ from zero; None keeps all.
    diagonal : {"drop", "inverse"}, default="drop"
        The variances after a step: the diagonal of the full update, or the inverse of the
        diagonal of its inverse, :math:`1 / (\sigma_j^{-2} + x_j^2 / r)`.

    Attributes
    ----------
    weights_, importances_, uncertainties_, ranking_ : ndarray (n_features,)
        omega, mu, sigma and the rank (1 is best) of every feature.
    classes_ : ndarray
        The labels seen, sorted; the greater one is the positive one.

    References
    ----------
    K. Crammer, A. Kulesza, M. Dredze, "Adaptive Regularization of Weight Vectors", NIPS 2009.

    Y. Wu, S. C. H. Hoi, T. Mei, N. Yu, "Large-Scale Online Feature Selection for Ultra-High
    Dimensional Sparse Data", ACM Transactions on Knowledge Discovery from Data 11(4), 2017.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> selector = AROW(2)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 8))
    ...     y = X[:, 3] - X[:, 5] > 0
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 5])
    """

    r: float = number(1.0)

    def _rule(self) -> tuple[int, float, float]:
        return second_order.AROW, float(self.r), 0.0


@settings
class SCW(SecondOrder):
    r"""Soft confidence-weighted learning, diagonal (Wang et al., 2012), as a selector.

    As in :class:`AROW`, every coefficient is normal with its own mean and variance. Each row should
    be classified rightly with probability :math:`\eta`, that is,
    :math:`m = y\, \mu^\top x \ge \phi \sqrt{v}` with :math:`\phi = \Phi^{-1}(\eta)` and
    :math:`v = \sum_j \sigma_j^2 x_j^2`. If it is not,

    .. math::
        \mu_j \leftarrow \mu_j + \alpha\, y \sigma_j^2 x_j, \qquad
        \sigma_j^2 \leftarrow \sigma_j^2 - \beta\, \sigma_j^4 x_j^2, \qquad
        \beta = \frac{\alpha \phi}{\sqrt{u} + v \alpha \phi}, \quad
        \sqrt{u} = \tfrac12 \left(\sqrt{\alpha^2 v^2 \phi^2 + 4 v} - \alpha v \phi\right)

    where variant I, with :math:`\psi = 1 + \phi^2/2` and :math:`\zeta = 1 + \phi^2`, has

    .. math::
        \alpha = \min\left(C, \frac{\sqrt{m^2 \phi^4 / 4 + v \phi^2 \zeta} - m \psi}{v \zeta}
        \right)

    and variant II, with :math:`n = v + 1/(2C)`, has

    .. math::
        \alpha = \frac{\phi \sqrt{\phi^2 m^2 v^2 + 4 n v (n + v \phi^2)} - 2 m n - \phi^2 m v}
        {2 (n^2 + n v \phi^2)}.

    Ranking, truncation and the advice on X are those of :class:`AROW`.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        k: a number (all, if there are fewer) or a fraction in (0, 1).
    confidence : float, default=0.75
        :math:`\eta`, between 0.5 and 1.
    C : float, default=1.0
        Bounds the step that a single row can take.
    variant : {"I", "II"}, default="I"
        Whether the loss counts as it is, or squared.
    uncertainty_penalty : float, default=0.01
        :math:`\lambda_s`: how much uncertainty counts against a feature.
    truncate : {None, "confidence", "weight"}, default=None
        Which k means differ from zero: see :class:`AROW`.
    diagonal : {"drop", "inverse"}, default="drop"
        The variances after a step: see :class:`AROW`.

    Attributes
    ----------
    weights_, importances_, uncertainties_, ranking_ : ndarray (n_features,)
        omega, mu, sigma and the rank (1 is best) of every feature.
    classes_ : ndarray
        The labels seen, sorted; the greater one is the positive one.

    References
    ----------
    J. Wang, P. Zhao, S. C. H. Hoi, "Exact Soft Confidence-Weighted Learning", ICML 2012.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> selector = SCW(2)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 8))
    ...     y = X[:, 3] - X[:, 5] > 0
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 5])
    """

    confidence: float = number(0.75, 0.5, 1.0)
    C: float = number(1.0)
    variant: str = choice("I", "II")

    def _rule(self) -> tuple[int, float, float]:
        rule = second_order.SCW_1 if self.variant == "I" else second_order.SCW_2
        return rule, float(ndtri(self.confidence)), float(self.C)
