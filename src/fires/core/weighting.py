"""From a belief to weights and ranks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fires.core.belief import Belief, Floats


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


def rank(weights: Floats) -> npt.NDArray[np.intp]:
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
