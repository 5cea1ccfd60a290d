"""How much worse a batch was predicted than the prediction itself let one expect."""

from __future__ import annotations

import numpy as np

from fires.core.types import Floats
from fires.models.base import Values

_LEAST = 1e-6  # no class is less likely, so that one row cannot weigh more than all others
_FARTHEST = 16.0  # squared errors count as at most so many variances, for the same reason


def surprise_of_classes(probabilities: Floats, y: Values, weight: Floats) -> tuple[float, float]:
    r"""The log loss of a batch minus its expectation, and the variance of that.

    If a row has class k with probability :math:`p_k`, as the model says, its log loss has the
    expectation :math:`-\sum_k p_k \log p_k` and the variance
    :math:`\sum_k p_k (\log p_k)^2 - (\sum_k p_k \log p_k)^2`.

    Examples
    --------
    >>> even = np.full((2, 1), 0.5)
    >>> surprise_of_classes(even, np.array([1]), np.ones(1))
    (0.0, 0.0)
    >>> sure = np.array([[0.9], [0.1]])
    >>> [round(surprise_of_classes(sure, np.array([y]), np.ones(1))[0], 3) for y in (0, 1)]
    [-0.22, 1.978]
    """
    p = np.clip(probabilities, _LEAST, 1.0)
    p = p / p.sum(axis=0)
    log_p = np.log(p)
    expected = (p * log_p).sum(axis=0)
    variance = (p * (log_p - expected) ** 2).sum(axis=0)
    surprise = expected - log_p[y, np.arange(len(y))]
    return float(weight @ surprise), float(weight**2 @ variance)


def surprise_of_numbers(squares: Floats, weight: Floats) -> tuple[float, float]:
    r"""The same for numbers whose distribution is normal.

    With the error e and the variance V, the surprise of a row is
    :math:`\tfrac12 (e^2 / V - 1)`, and its variance is 1/2.

    Examples
    --------
    >>> surprise_of_numbers(np.array([1.0, 3.0]), np.ones(2))
    (1.0, 1.0)
    """
    surprise = 0.5 * (np.clip(squares, 0.0, _FARTHEST) - 1.0)
    return float(weight @ surprise), 0.5 * float(weight @ weight)
