"""Streaming variational Bayes: the alternative to its gradient that the paper names."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared
from fires.core.errors import OVERFLOW
from fires.core.types import Floats, Labels, Matrix
from fires.kernels.compiling import compiled
from fires.models.base import Rates
from fires.models.linear_learner import LinearLearner
from fires.models.target import target_of

_SWEEPS = 10


class VariationalLearner(LinearLearner):
    r"""Beliefs of a linear model: the posterior of a batch is the prior of the next one.

    The posterior of a batch is approximated by independent normals, by coordinate ascent on the
    evidence lower bound. The log likelihood of each row is bounded from below by a parabola in
    :math:`t = \theta^\top x`, of the slope g and the bend h where :math:`t \sim \mathcal{N}(a, v)`
    is now (:meth:`fires.models.families.Family.bound`). With the prior
    :math:`\mathcal{N}(m_j, s_j)`,

    .. math::
        \frac{1}{\sigma_j^2} = \frac{1}{s_j} + \sum_b w_b h_b x_{bj}^2, \qquad
        \mu_j \leftarrow \mu_j + \sigma_j^2 \Bigl(
            \sum_b w_b g_b x_{bj} - \frac{\mu_j - m_j}{s_j} \Bigr)

    one coefficient after the other, g following each move, ten times over. An intercept is one
    more column. The variance of a numeric target's noise is the mean over all rows of
    :math:`(y - a)^2 + v`.

    There is no learning rate and no forgetting: evidence only adds up, so a belief that has seen
    many rows hardly follows a drift. It is too sure, of correlated columns most: their covariance
    is left out, and a bend of a bound is more than that of the likelihood. Sparse rows are made
    dense. A batch in shards is refused: shards return changes in natural parameters, and on
    correlated columns their sum diverges.

    References
    ----------
    T. Broderick, N. Boyd, A. Wibisono, A. Wilson, M. I. Jordan, "Streaming Variational Bayes",
    NIPS 2013. For the bounds: J. Albert, S. Chib, JASA 88, 1993 (probit); T. Jaakkola, M. Jordan,
    Statistics and Computing 10, 2000 (logistic).
    """

    takes_shards = False
    learnt: ClassVar[Declared] = {**LinearLearner.learnt, "rows_seen": Array(low=0.0)}

    def __init__(self, family: str, n_features: int, n_classes: int, **settings: Any) -> None:
        super().__init__(family, n_features, n_classes, **settings)
        # The intercept learns at once where predictions start.
        scaled = self.scale is not None
        self.target = target_of(self.family, self.n_rows, scaled=scaled, levelled=False)
        self.rows_seen = 0.0

    def step_at_once(self, X: Floats, y: Labels, low: float, high: float, rates: Rates) -> bool:
        """There is no compiled step."""
        return False

    def _is_sparse(self, X: Matrix) -> bool:
        return False

    def ready_for_sparse(self) -> LinearLearner:
        """The learner itself: sparse rows are made dense."""
        return self

    def step(self, batch: CheckedBatch, y: Labels, rates: Rates) -> None:
        """Learn from one batch. On an error, nothing changes."""
        rows = self._look(batch, y)
        X, learn_scale = self._scaled(batch, rows.weight)
        own = int(self.fit_intercept)
        Z = np.concatenate([X.T, np.ones((own, len(X)))])
        with np.errstate(all="ignore"):
            found = [
                self._posterior(Z, rows.target[k], rows.weight, *self._prior(k, own))
                for k in range(self.n_rows)
            ]
            mu, variance = (np.array(part) for part in zip(*found, strict=True))
            noise = self._noise(Z, rows.target, rows.weight, mu, variance)
        if not (np.isfinite(mu).all() and np.isfinite(variance).all() and np.isfinite(noise)):
            raise ValueError(OVERFLOW)
        n, sigma = self.n_features, np.sqrt(variance)
        self.mu[:], self.sigma[:], self.noise = mu[:, :n], sigma[:, :n], noise
        if own:
            self.intercept_mean, self.intercept_sigma = mu[:, n].copy(), sigma[:, n].copy()
        self.rows_seen += rows.total
        self.refresh()
        learn_scale()
        self.target.count(y, rows.weight)

    def _prior(self, k: int, own: int) -> tuple[Floats, Floats]:
        """Means and variances of a row of parameters, that of the intercept last."""
        mu = np.append(self.mu[k], self.intercept_mean[k : k + own])
        sigma = np.append(self.sigma[k], self.intercept_sigma[k : k + own])
        return mu, sigma**2

    def _posterior(
        self, Z: Floats, y: Floats, weight: Floats, start: Floats, prior: Floats
    ) -> tuple[Floats, Floats]:
        """Means and variances after the rows, the columns of Z."""
        mu, variance, squares = start.copy(), prior.copy(), Z * Z
        for _ in range(_SWEEPS):
            slope, bend = self.family.bound(mu @ Z, variance @ squares, y, self.noise)
            slope, bend = weight * slope, weight * bend
            variance = prior / (1.0 + prior * (squares @ bend))
            _sweep(Z, slope, bend, start, prior, mu)
        return mu, variance

    def _noise(self, Z: Floats, y: Floats, weight: Floats, mu: Floats, variance: Floats) -> float:
        """The variance of the noise of numbers: its mean over all rows so far."""
        if not self.noise:
            return 0.0
        square = weight @ ((y[0] - mu[0] @ Z) ** 2 + variance[0] @ (Z * Z))
        before = max(self.rows_seen, 1.0)  # the start counts as one row
        return float((before * self.noise + square) / (before + weight.sum()))


@compiled
def _sweep(
    columns: Floats, slope: Floats, bend: Floats, start: Floats, variance: Floats, mu: Floats
) -> None:
    """Move each coefficient in turn to the best place, given the others, in place.

    The log likelihood of a row is bounded by a parabola, of this slope and bend where the row is
    predicted now; ``slope`` follows the prediction. The prior has the means ``start`` and these
    variances.
    """
    for j in range(len(mu)):
        x = columns[j]
        pull = 0.0
        information = 0.0
        for b in range(len(x)):
            pull += slope[b] * x[b]
            information += bend[b] * x[b] * x[b]
        step = (variance[j] * pull - (mu[j] - start[j])) / (1.0 + variance[j] * information)
        mu[j] += step
        for b in range(len(x)):
            slope[b] -= bend[b] * x[b] * step
