"""From a belief to weights of features and ranks; and weights of rows in units of rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from fires.core.belief import Belief, Floats
from fires.core.declared import Array
from fires.core.state import Arrays


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


class WeightSums(NamedTuple):
    """The weights of the rows so far; older rows have faded.

    Weights are taken in units of the first ones, so that a constant weight is 1 to the bit.
    """

    unit: float = 0.0
    total: float = 0.0
    squares: float = 0.0

    @property
    def ratio(self) -> float:
        """What a weight of one unit counts in rows."""
        return self.total / self.squares

    @classmethod
    def read(cls, arrays: Arrays) -> WeightSums:
        """The sums in a state file; older files have none."""
        saved = Array(3, low=0.0, optional=True).read("weight_sums", {}, arrays, {})
        return cls() if saved is None else cls(*saved.tolist())

    def after(self, total: float, squares: float, n_rows: int, memory: float) -> WeightSums:
        """The sums with those of a batch, in units."""
        keep = (1.0 - 1.0 / memory) ** n_rows
        return WeightSums(self.unit, keep * self.total + total, keep * self.squares + squares)


def effective_weights(
    weight: Floats | None, n_rows: int, known: WeightSums, memory: float = 10_000.0
) -> tuple[Floats | None, WeightSums]:
    r"""Weights in units of rows: w times the running :math:`\sum w / \sum w^2` (Kish, 1965).

    A constant weight becomes 1. Unequal weights count as their effective number of rows.

    Examples
    --------
    >>> effective_weights(np.array([10.0, 10.0]), 2, WeightSums())
    (array([1., 1.]), WeightSums(unit=10.0, total=2.0, squares=2.0))
    >>> effective_weights(np.array([3.0, 1.0]), 2, WeightSums())[0]
    array([1.2, 0.4])
    """
    if not known.unit:
        known = known._replace(unit=1.0 if weight is None else float(weight.max()))
    if weight is None and known.unit == 1.0:
        known = known.after(n_rows, n_rows, n_rows, memory)
        return (None if known.ratio == 1.0 else np.full(n_rows, known.ratio)), known
    units = np.full(n_rows, 1.0 / known.unit) if weight is None else weight / known.unit
    known = known.after(float(units.sum()), float(units @ units), n_rows, memory)
    return units * known.ratio, known


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
