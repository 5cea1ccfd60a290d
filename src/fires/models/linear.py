"""The linear base models: one formula for all families."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from fires.core.belief import Belief
from fires.core.types import Floats, Matrix
from fires.kernels import accumulate, project
from fires.models.base import Rng, Values, Weights
from fires.models.families import FAMILIES, Family
from fires.models.target import signed


class Linear:
    r"""A generalised linear model with Gaussian coefficients.

    Of a row only two numbers matter, since :math:`\theta^\top x \sim \mathcal{N}(a, v)`:

    .. math::
        a = \mu^\top x, \qquad v = \sum_j \sigma_j^2 x_j^2, \qquad
        Z(a, v, y) = \mathbb{E}\, p(y \mid \theta^\top x)

    and the gradient follows from the derivatives of :math:`\log Z`:

    .. math::
        g_{\mu_j} = \sum_b x_{bj} \frac{\partial \log Z_b}{\partial a}, \qquad
        g_{\sigma_j} = 2 \sigma_j \sum_b x_{bj}^2 \frac{\partial \log Z_b}{\partial v}

    Three or more classes are learnt one against the rest, with one row of parameters per class.

    Parameters
    ----------
    family : {"probit", "logistic", "gaussian", "poisson"}
        The likelihood; ``"probit"`` is the FIRES-GLM of the paper.
    fit_intercept : bool
        Add a random intercept, stored last and never ranked.

    Examples
    --------
    >>> model = Linear("probit", fit_intercept=False)
    >>> belief = model.init(2, n_classes=2)
    >>> slope = model.gradient(belief, np.array([[1.0, 0.0], [-1.0, 0.0]]), np.array([1, 0]))
    >>> slope.mu.round(3)
    array([1.128, 0.   ])
    """

    def __init__(self, family: str = "probit", fit_intercept: bool = True) -> None:
        if family not in FAMILIES:
            known = ", ".join(map(repr, FAMILIES))
            raise ValueError(f"There is no family {family!r}; there are {known}.")
        self.family = family
        self.fit_intercept = fit_intercept

    @property
    def task(self) -> str:
        """What the target is: classes, numbers or counts."""
        return self._likelihood.kind

    @property
    def _likelihood(self) -> Family:
        return FAMILIES[self.family]

    def __repr__(self) -> str:
        return f"Linear({self.family!r}, fit_intercept={self.fit_intercept})"

    def init(self, n_features: int, n_classes: int, rng: Rng | None = None) -> Belief:
        """Mean 0 and standard deviation 1 for every coefficient.

        Parameters
        ----------
        n_features, n_classes : int
            The size of the problem; 0 classes for a numeric target.
        rng : Generator, optional
            Nothing is drawn.

        Returns
        -------
        Belief
            One row of coefficients, or one per class if there are three or more.
        """
        n = n_features + self.fit_intercept
        start = Belief.standard(n) if n_classes <= 2 else Belief.standard(n_classes, n)
        noise = self._likelihood.noise
        point = {"noise": np.full(1, noise)} if noise else {}
        return Belief(start.mu, start.sigma, point)

    def log_marginal(
        self, belief: Belief, X: Matrix, y: Values, weight: Weights = None, rng: Rng | None = None
    ) -> float:
        """The log marginal likelihood of the batch, in closed form or by accurate quadrature.

        Parameters
        ----------
        belief : Belief
            The belief.
        X : ndarray or CSR matrix (n_rows, n_features)
            The rows.
        y : ndarray (n_rows,)
            Class codes, or numbers.
        weight : ndarray (n_rows,), optional
            How often each row counts.
        rng : Generator, optional
            Nothing is drawn.

        Returns
        -------
        float
        """
        log_z, _, _ = self._scores(belief, X, y)
        return float(np.sum(log_z if weight is None else log_z * weight))

    def gradient(
        self, belief: Belief, X: Matrix, y: Values, weight: Weights = None, rng: Rng | None = None
    ) -> Belief:
        """The gradient of :meth:`log_marginal`.

        Parameters
        ----------
        belief, X, y, weight, rng
            As in :meth:`log_marginal`.

        Returns
        -------
        Belief
            One derivative for each number of the belief.
        """
        _, g_a, g_v = self._scores(belief, X, y)
        if weight is not None:
            g_a, g_v = g_a * weight, g_v * weight
        p, q = accumulate(X, g_a, g_v)
        if self.fit_intercept:
            p = np.concatenate([p, g_a.sum(-1)[..., None]], axis=-1)
            q = np.concatenate([q, g_v.sum(-1)[..., None]], axis=-1)
        point = {name: np.array([g_v.sum()]) for name in belief.point}
        mu, sigma = p, 2.0 * belief.sigma * q.reshape(belief.sigma.shape)
        return Belief(mu.reshape(belief.mu.shape), sigma, point)

    def to_features(self, belief: Belief) -> Belief:
        """The coefficients of the features; with three or more classes, their root mean square.

        Parameters
        ----------
        belief : Belief
            The belief.

        Returns
        -------
        Belief
            One mean and one standard deviation per feature.
        """
        n = belief.mu.shape[-1] - self.fit_intercept
        mu, sigma = belief.mu[..., :n], belief.sigma[..., :n]
        if mu.ndim == 1:
            return Belief(mu, sigma)
        return over_classes(mu, sigma, np.full(len(mu), 1.0 / len(mu)))

    def _scores(self, belief: Belief, X: Matrix, y: Values) -> tuple[Floats, Floats, Floats]:
        n = X.shape[1]
        if not sp.issparse(X):
            X = np.asarray(X)
        a, v = project(X, belief.mu[..., :n].copy(), belief.sigma[..., :n] ** 2)
        if self.fit_intercept:
            a, v = a + belief.mu[..., n:], v + belief.sigma[..., n:] ** 2
        if "noise" in belief.point:
            v = v + belief.point["noise"]
        n_rows = len(belief.mu) if belief.mu.ndim == 2 else 1
        target = signed(y, n_rows) if self.task == "classes" else np.asarray(y, float)
        return self._likelihood.scores(a, v, target.reshape(a.shape))


def over_classes(mu: Floats, sigma: Floats, shares: Floats) -> Belief:
    r"""One importance and uncertainty per feature, from one row per class.

    .. math::
        \bar\mu_j = \sqrt{\textstyle\sum_k \pi_k \mu_{kj}^2}, \qquad
        \bar\sigma_j = \sqrt{\textstyle\sum_k \pi_k \sigma_{kj}^2}

    so that the paper's weight of the result is the mean of the classes' weights under the
    shares :math:`\pi`.

    Examples
    --------
    >>> over_classes(np.array([[3.0], [1.0]]), np.ones((2, 1)), np.array([0.5, 0.5])).mu
    array([2.23606798])
    """
    return Belief(np.sqrt(shares @ mu**2), np.sqrt(shares @ sigma**2))
