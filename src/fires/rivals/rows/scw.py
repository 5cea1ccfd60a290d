"""SCW: soft confidence-weighted learning."""

from __future__ import annotations

from scipy.special import ndtri

from fires.core.settings import check_choice, check_number
from fires.kernels import second_order
from fires.rivals.rows.second_order import SecondOrder


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

    def __init__(
        self,
        n_features_to_select: int | float = 10,
        *,
        confidence: float = 0.75,
        C: float = 1.0,
        variant: str = "I",
        uncertainty_penalty: float = 0.01,
        truncate: str | None = None,
        diagonal: str = "drop",
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.confidence = confidence
        self.C = C
        self.variant = variant
        self.uncertainty_penalty = uncertainty_penalty
        self.truncate = truncate
        self.diagonal = diagonal

    def _check_parameters(self) -> None:
        check_number("confidence", self.confidence, low=0.5, high=1.0)
        check_number("C", self.C)
        check_choice("variant", self.variant, ("I", "II"))
        super()._check_parameters()

    def _rule(self) -> tuple[int, float, float]:
        rule = second_order.SCW_1 if self.variant == "I" else second_order.SCW_2
        return rule, float(ndtri(self.confidence)), float(self.C)
