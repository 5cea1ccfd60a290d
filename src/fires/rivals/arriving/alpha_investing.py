"""Alpha-investing: each arriving feature is a bet, and a good one pays for more."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fires.core.declared import Array, Declared, Value
from fires.core.settings import number
from fires.core.types import Floats, Labels
from fires.rivals.arriving.base import ArrivingColumns, ArrivingFeatures, as_numbers, centred
from fires.rivals.base import settings

# A column, or target, whose remaining norm is below this share of its first norm is explained:
# what remains is rounding.
_EXPLAINED = 1e-10
_EXHAUSTED = 1e-12


@settings
class AlphaInvesting(ArrivingFeatures):
    r"""Streamwise feature selection by alpha-investing.

    Each arriving feature :math:`i` = 1, 2, ... is a bet. A linear model with a constant takes it in
    if the likelihood ratio bound on its p-value is below the stake that the wealth :math:`w`
    allows:

    .. math::
        \alpha_i = \frac{w}{2 i}, \qquad
        p_i = \exp\left(-\frac{SSE_\text{old} - SSE_\text{new}}{2 \sigma^2}\right), \qquad
        \sigma^2 = \frac{SSE_\text{old}}{n}

    If :math:`p_i < \alpha_i` the feature is added for good and :math:`w` grows by
    :math:`\alpha_\Delta - \alpha_i`; otherwise :math:`w` falls by :math:`\alpha_i`. So the rate of
    false discoveries stays under control however many features arrive. Early features are
    accepted more easily. A feature costs :math:`O(n |S|)`: the selected columns are kept as an
    orthonormal basis.

    The scale of a column does not matter. A missing entry counts as the column's mean. The target
    holds numbers or two classes. The paper's alternative, the t-test, is not implemented.

    Parameters
    ----------
    n_features_to_select : int, float or None, default=None
        Keep at most this many selected features, those with the smallest p. A fraction is a share
        of all columns seen.
    wealth : float, default=0.5
        :math:`w` at the start.
    alpha_delta : float, default=0.5
        :math:`\alpha_\Delta`: what an accepted feature earns.

    Attributes
    ----------
    wealth_ : float
        :math:`w` now.
    weights_ : ndarray (n_features_in_,)
        :math:`-\log p_i` of each selected column at its arrival; 0 for all others.

    References
    ----------
    J. Zhou, D. P. Foster, R. A. Stine, L. H. Ungar: "Streamwise feature selection". Journal of
    Machine Learning Research 7, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(100, 40))
    >>> y = 2.0 * X[:, 3] + X[:, 30] + rng.normal(size=100)
    >>> selector = AlphaInvesting()
    >>> for start in range(0, 40, 5):
    ...     selector = selector.partial_fit_features(X[:, start : start + 5], y)
    >>> selector.get_support(indices=True)
    array([ 3, 30])
    """

    wealth: float = number(0.5)
    alpha_delta: float = number(0.5, ends="[)")

    _learnt: ClassVar[Declared] = {
        "wealth": Value(float, low=0.0),
        "total": Value(float, low=0.0),
        "basis": Array("C", "N"),
        "residual": Array("N"),
    }

    @property
    def wealth_(self) -> float:
        """The wealth w now."""
        self._check_fitted()
        return self._wealth_

    def _start(self, y: Labels) -> None:
        self._wealth_ = float(self.wealth)
        self._residual_ = centred(as_numbers(y, type(self).__name__))
        self._total_ = float(np.linalg.norm(self._residual_))
        self._basis_ = np.empty((0, len(y)))

    def _arrive(self, columns: ArrivingColumns) -> None:
        for j, x in columns:
            alpha = self._wealth_ / (2.0 * (j + 1.0))
            direction, surprise = self._bet(x)
            if surprise > 0.0 and np.exp(-surprise) < alpha:
                pull = direction @ self._residual_
                self._residual_ = self._residual_ - pull * direction
                self._basis_ = np.vstack([self._basis_, direction])
                self._chosen_[j] = surprise
                self._wealth_ += float(self.alpha_delta) - alpha
            else:
                self._wealth_ -= alpha

    def _bet(self, x: Floats) -> tuple[Floats, float]:
        """The new direction that the column adds to the model, and -log p."""
        direction = centred(x)
        size = np.linalg.norm(direction)
        for _ in range(2):  # a column that the model nearly explains needs a second pass
            direction -= (self._basis_ @ direction) @ self._basis_
        left = np.linalg.norm(direction)
        error = np.linalg.norm(self._residual_)
        if left <= _EXPLAINED * size or error <= _EXHAUSTED * self._total_:
            return direction, 0.0
        direction /= left
        share = min(float(abs(direction @ self._residual_) / error), 1.0)
        return direction, float(0.5 * len(x) * share**2)
