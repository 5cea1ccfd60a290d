r"""Features that belong together: they are ranked and selected as one.

The importance of a group is the standard deviation of what it adds to the linear predictor, for
standardised features that are not correlated: the root of the sum of squares. Chance alone makes
that greater than 0, so the variances of the coefficients are taken off. With :math:`m` features,
:math:`\lambda = \sum (\mu_j^2 - \sigma_j^2) / \bar\sigma^2` and :math:`\bar\sigma^2` the mean
variance,

.. math:: \mu = \bar\sigma \sqrt{\max(\lambda, 0)}, \qquad
          \sigma = \bar\sigma \frac{\sqrt{2 m + 4 \lambda}}
                   {\sqrt{\max(\lambda, \sqrt{m / 2})} \, (1 + \lambda / (\lambda + 2 m))}

:math:`2 m + 4 \lambda` is the variance of a non-central chi-squared variable. For a large
:math:`\lambda` this is the standard deviation of its root; for a small one it is greater, so that
an interval leaves out 0 as seldom as it should where there is nothing. A group of one feature is
that feature, sign and all.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from fires.core.belief import Belief
from fires.core.types import Floats


class Groups:
    """Which features belong together.

    Examples
    --------
    >>> groups = Groups(["town", "town", "age"])
    >>> groups.n, groups.of
    (2, array([0, 0, 1]))
    >>> belief = groups.belief(np.array([[3.0, 4.0, -1.0]]), np.full((1, 3), 0.1))
    >>> belief.mu.round(2), belief.sigma.round(2)
    (array([ 5., -1.]), array([0.1, 0.1]))
    """

    def __init__(self, labels: Sequence[Hashable]) -> None:
        numbers: dict[Hashable, int] = {}
        found = [numbers.setdefault(label, len(numbers)) for label in labels]
        self.of = np.array(found, dtype=np.intp)
        self.n = len(numbers)
        self.size = np.bincount(self.of, minlength=self.n).astype(np.float64)
        self._alone = self.size == 1.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Groups) and np.array_equal(self.of, other.of)

    __hash__ = None  # type: ignore[assignment]

    def of_rows(self, mu: Floats, sigma: Floats) -> tuple[Floats, Floats]:
        """The importance of each group, and its standard deviation, for each row of parameters."""
        summed = [self._sum(values) for values in (mu, mu * mu, sigma * sigma)]
        alone, squares, variances = summed
        mean_variance = np.maximum(variances / self.size, 1e-300)
        excess = np.maximum((squares - variances) / mean_variance, 0.0)
        least = np.sqrt(0.5 * self.size)
        wide = np.sqrt((2.0 * self.size + 4.0 * excess) / np.maximum(excess, least))
        wide /= 1.0 + excess / (excess + 2.0 * self.size)
        scale = np.sqrt(mean_variance)
        return (
            np.where(self._alone, alone, scale * np.sqrt(excess)),
            np.where(self._alone, scale, scale * wide),
        )

    def belief(self, mu: Floats, sigma: Floats) -> Belief:
        """The importance of each group, of the row of parameters for which it matters most."""
        means, spreads = self.of_rows(mu, sigma)
        leader = (np.abs(means) - spreads).argmax(axis=0)
        return Belief(
            np.take_along_axis(means, leader[None], axis=0)[0],
            np.take_along_axis(spreads, leader[None], axis=0)[0],
        )

    def best(self, weights: Floats) -> Floats:
        """The greatest weight in each group."""
        best = np.full(self.n, -np.inf)
        np.maximum.at(best, self.of, weights)
        return best

    def _sum(self, values: Floats) -> Floats:
        out = np.zeros((len(values), self.n))
        for row, total in zip(values, out, strict=True):
            total[:] = np.bincount(self.of, weights=row, minlength=self.n)
        return out
