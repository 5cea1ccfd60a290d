r"""The baseline: FIRES with a probit as its authors' code computes it, written down plainly.

The formulas of the paper, each as it stands there and none simplified: everything has one number
per row *and* feature until the mean over the batch is taken, the density is evaluated anew in each
gradient, and what surrounds the formulas (label encoding, shuffling, scaling of the weights) is
done in every call. Our own text; only the mathematics and the order of the work are theirs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import norm
from sklearn.preprocessing import MinMaxScaler

Floats = npt.NDArray[np.float64]


class Authors:
    r"""Marginal :math:`P(y \mid x) = \Phi(y\,a/\rho)`, one step of ascent on its logarithm a batch.

    .. math::
        a = \mu^\top x, \qquad \rho = \sqrt{1 + \sum_j \sigma_j^2 x_j^2}, \qquad
        \nabla_\mu P = \varphi\Bigl(\frac{y a}{\rho}\Bigr) \frac{y}{\rho}\, x, \qquad
        \nabla_\sigma P = -\varphi\Bigl(\frac{y a}{\rho}\Bigr) \frac{y a}{2 \rho^3}\,
        2 x^2 \circ \sigma
    """

    def __init__(self, n_features: int, classes: tuple[int, int] = (0, 1)) -> None:
        self.mu, self.sigma = np.zeros(n_features), np.ones(n_features)
        self.classes = classes

    def weigh(self, X: Floats, y: npt.NDArray[np.int64]) -> Floats:
        """A whole call: encode and shuffle the batch, take the step, weigh the features."""
        signs = y.copy()
        signs[signs == self.classes[0]] = -1
        signs[signs == self.classes[1]] = 1
        order = np.random.permutation(len(signs))  # noqa: NPY002, the global generator, as there
        self.step(X[order], signs[order])
        return self.weights()

    def step(self, X: Floats, y: npt.NDArray[np.int64]) -> None:
        """The formulas on labels -1 and 1."""
        a = X @ self.mu
        rho = np.sqrt(1.0 + X**2 @ self.sigma**2)
        marginal = norm.cdf(y / rho * a)[:, None]
        slope_mu = norm.pdf(y / rho * a)[:, None] * (y / rho)[:, None] * X
        slope_sigma = norm.pdf(y / rho * a)[:, None] * (
            (-y / (2.0 * rho**3) * a)[:, None] * (2.0 * X**2 * self.sigma)
        )
        self.mu += 0.01 * np.mean(slope_mu / marginal, axis=0)
        self.sigma += 0.01 * np.mean(slope_sigma / marginal, axis=0)
        if any([s < 0 for s in self.sigma]):  # noqa: C419, every sigma is looked at, as there
            self.sigma[self.sigma < 0] = 0.0

    def weights(self) -> Floats:
        """omega with both penalties at 0.01, scaled to [0, 1] over the features."""
        omega = (self.mu**2 - 0.01 * self.sigma**2) / (2.0 * 0.01)
        scaled: Floats = MinMaxScaler().fit_transform(omega.reshape(-1, 1)).ravel()
        return scaled
