"""AROW: adaptive regularisation of weight vectors."""

from __future__ import annotations

from fires.core.settings import check_number
from fires.kernels import second_order
from fires.rivals.rows.second_order import SecondOrder


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

    def __init__(
        self,
        n_features_to_select: int | float = 10,
        *,
        r: float = 1.0,
        uncertainty_penalty: float = 0.01,
        truncate: str | None = None,
        diagonal: str = "drop",
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.r = r
        self.uncertainty_penalty = uncertainty_penalty
        self.truncate = truncate
        self.diagonal = diagonal

    def _check_parameters(self) -> None:
        check_number("r", self.r)
        super()._check_parameters()

    def _rule(self) -> tuple[int, float, float]:
        return second_order.AROW, float(self.r), 0.0
