"""A belief: one mean and one standard deviation for each parameter; and weights from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from fires.core.types import Floats as Floats
from fires.core.types import Places


@dataclass(frozen=True, eq=False)
class Belief:
    r"""Independent normal parameters :math:`\theta_k \sim \mathcal{N}(\mu_k, \sigma_k^2)`.

    A gradient has the same form: one derivative for each number.

    Parameters
    ----------
    mu, sigma : ndarray of float64
        Means and standard deviations, of one shape. With several classes there is one row per
        class. An intercept is the last entry of its row.
    point : mapping of str to ndarray
        Learnt parameters that are not random, such as the noise of a Gaussian target.

    Examples
    --------
    >>> belief = Belief.standard(3)
    >>> belief.mu, belief.sigma
    (array([0., 0., 0.]), array([1., 1., 1.]))
    """

    mu: Floats
    sigma: Floats
    point: Mapping[str, Floats] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("mu", "sigma"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        if self.mu.shape != self.sigma.shape:
            raise ValueError(f"mu has shape {self.mu.shape}, sigma has shape {self.sigma.shape}.")
        if self.point:
            point = {name: np.asarray(value, np.float64) for name, value in self.point.items()}
            object.__setattr__(self, "point", point)

    @classmethod
    def standard(cls, *shape: int) -> Belief:
        """The paper's start: mean 0 and standard deviation 1.

        Parameters
        ----------
        *shape : int
            The shape of mu and sigma.

        Returns
        -------
        Belief
        """
        return cls(np.zeros(shape), np.ones(shape))

    def step(self, gradient: Belief, rate_mu: float, rate_sigma: float) -> Belief:
        r"""One step of gradient ascent.

        .. math::
            \mu' = \mu + \alpha_\mu g_\mu, \qquad
            \sigma' = \max(\sigma + \alpha_\sigma g_\sigma, 0)

        Parameters
        ----------
        gradient : Belief
            The gradient at this belief.
        rate_mu, rate_sigma : float
            The learning rates. Point parameters learn at ``rate_mu``.

        Returns
        -------
        Belief
            A new one; this one stays as it is.

        Examples
        --------
        >>> slope = Belief(mu=[1.0], sigma=[-200.0])
        >>> Belief.standard(1).step(slope, 0.01, 0.01)
        Belief(mu=array([0.01]), sigma=array([0.]), point={})
        """
        point = {name: value + rate_mu * gradient.point[name] for name, value in self.point.items()}
        return Belief(
            self.mu + rate_mu * gradient.mu,
            np.maximum(self.sigma + rate_sigma * gradient.sigma, 0.0),
            point,
        )


# --- weights of features -------------------------------------------------------------------------


def stable_weights(
    belief: Belief, uncertainty_penalty: float = 0.01, weight_penalty: float = 0.01
) -> Floats:
    r"""Feature weights that reward importance and punish uncertainty.

    The maximiser of the paper's weight objective, for one importance and one uncertainty
    per feature:

    .. math::
        \omega_j = \frac{\mu_j^2 - \lambda_s \sigma_j^2}{2 \lambda_r}

    where :math:`\lambda_s` is ``uncertainty_penalty`` and :math:`\lambda_r` is
    ``weight_penalty``. The weights are attentive (:math:`\mu_j = 0` gives
    :math:`\omega_j \le 0`) and monotonic, strictly so for :math:`\lambda_s > 0`.
    :math:`\lambda_r` rescales them and never changes their order.

    Parameters
    ----------
    belief : Belief
        One importance mu and one uncertainty sigma per feature.
    uncertainty_penalty, weight_penalty : float
        :math:`\lambda_s` and :math:`\lambda_r`.

    Returns
    -------
    ndarray (n_features,)

    Examples
    --------
    >>> stable_weights(Belief(mu=[0.4, -0.4, 0.0], sigma=[1.0, 2.0, 1.0]))
    array([ 7.5,  6. , -0.5])
    """
    return (belief.mu**2 - uncertainty_penalty * belief.sigma**2) / (2.0 * weight_penalty)


def rank(weights: Floats) -> Places:
    """The rank of each feature, 1 for the best; ties go to the lower index.

    Parameters
    ----------
    weights : ndarray (n_features,)
        Greater is better.

    Returns
    -------
    ndarray of int (n_features,)

    Examples
    --------
    >>> rank(np.array([0.5, 2.0, 0.5]))
    array([2, 1, 3])
    """
    order = np.argsort(-np.where(np.isnan(weights), -np.inf, weights), kind="stable")
    ranks = np.empty(len(weights), dtype=np.intp)
    ranks[order] = np.arange(1, len(weights) + 1)
    return ranks
