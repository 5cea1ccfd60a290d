"""AROW, SCW, and ASCW: linear learners that know how sure they are of each coefficient."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared
from fires.core.errors import StateError
from fires.core.settings import choice, count, number
from fires.core.types import Floats
from fires.kernels import second_order, sequential, top_k
from fires.kernels.linear import Rows
from fires.rivals.base import settings
from fires.rivals.rows.base import RowByRowSelector

_KEPT = {None: sequential.ALL, "confidence": sequential.CONFIDENT, "weight": sequential.GREATEST}


@settings
class SecondOrder(RowByRowSelector):
    """A mean and a variance per coefficient."""

    uncertainty_penalty: float = number(0.01, ends="[)")
    truncate: str | None = choice(*_KEPT)
    diagonal: str = choice("drop", "inverse")

    _starts = (0.0, 1.0)

    @abstractmethod
    def _rule(self) -> tuple[int, float, float]:
        """Which rule of the kernel, and its two numbers."""

    @property
    def uncertainties_(self) -> Floats:
        """The standard deviation of every coefficient; a read-only copy."""
        return self._computed("uncertainties", lambda: np.sqrt(self._theta_[1]))

    def _weights(self) -> Floats:
        mu, var = self._theta_
        return np.asarray(mu**2 - self.uncertainty_penalty * var)

    def _take_sides(self, turned: bool) -> None:
        super()._take_sides(turned)
        if self.truncate is None:
            self._kept_ = self._kept_[:0]
        elif len(self._kept_) == 0:  # truncation may have been switched on between two batches
            self._kept_ = np.flatnonzero(self._theta_[0])

    def _run(self, rows: Rows, signs: Floats) -> bool:
        kept = _KEPT[self.truncate]
        place, before = (self._kept_, 0) if kept == sequential.ALL else self._room(rows)
        options = (self._resolve_k(), kept, self._rule(), self.diagonal == "inverse")
        given = (rows, signs, *self._theta_, place, before)
        return self._list(place, second_order.second_order(*given, *options, (1.0, 1.0)))


@settings
class AROW(SecondOrder):
    r"""Adaptive regularisation of weights, diagonal (Crammer et al., 2009), as a selector.

    The coefficients are normal, :math:`w_j \sim \mathcal{N}(\mu_j, \sigma_j^2)`, at first with
    mean 0 and variance 1. With :math:`v = \sum_j \sigma_j^2 x_j^2` and
    :math:`\beta = 1 / (v + r)`, a row with a margin :math:`m = y\, \mu^\top x < 1` moves them by

    .. math::
        \mu_j \leftarrow \mu_j + (1 - m) \beta\, y \sigma_j^2 x_j, \qquad
        \sigma_j^2 \leftarrow \sigma_j^2 - \beta\, \sigma_j^4 x_j^2

    Features are ranked as in FIRES, by :math:`\omega_j = \mu_j^2 - \lambda_s \sigma_j^2`.

    ``truncate="confidence"`` is second-order online feature selection (SOFS, Wu et al., 2017).
    After every step, only the k means with the least variance stay, the others become zero. These
    are the features that were present most often. On sparse data, such as text, that is a good
    sign; on dense data it says hardly anything. ``truncate="weight"`` keeps the k greatest
    :math:`|\mu_j|` instead, as :class:`OFS` does.

    X is not scaled: bring the columns to one scale, and centre them if they are dense,
    since there is no intercept. A missing entry counts as 0. A sparse row with m entries costs
    O(m), and O(m + k) with truncation.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        k: a number (all, if there are fewer) or a fraction in (0, 1).
    r : float, default=1.0
        The greater, the smaller the steps.
    uncertainty_penalty : float, default=0.01
        :math:`\lambda_s`: how much uncertainty counts against a feature.
    truncate : {None, "confidence", "weight"}, default=None
        Which k means may differ from zero; None keeps all.
    diagonal : {"drop", "inverse"}, default="drop"
        The variances after a step: the diagonal of the full update, or the inverse of the
        diagonal of its inverse, :math:`1 / (\sigma_j^{-2} + x_j^2 / r)`.

    Attributes
    ----------
    weights_, importances_, uncertainties_, ranking_ : ndarray (n_features,)
        omega, mu, sigma and the rank (1 is best) of every feature.
    classes_ : ndarray
        The labels seen, sorted; the greater one is the positive one.

    References
    ----------
    K. Crammer, A. Kulesza, M. Dredze, "Adaptive Regularization of Weight Vectors", NIPS 2009.

    Y. Wu, S. C. H. Hoi, T. Mei, N. Yu, "Large-Scale Online Feature Selection for Ultra-High
    Dimensional Sparse Data", ACM Transactions on Knowledge Discovery from Data 11(4), 2017.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> selector = AROW(2)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 8))
    ...     y = X[:, 3] - X[:, 5] > 0
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 5])
    """

    r: float = number(1.0)

    def _rule(self) -> tuple[int, float, float]:
        return second_order.AROW, float(self.r), 0.0


@settings
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

    confidence: float = number(0.75, 0.5, 1.0)
    C: float = number(1.0)
    variant: str = choice("I", "II")

    def _rule(self) -> tuple[int, float, float]:
        rule = second_order.SCW_1 if self.variant == "I" else second_order.SCW_2
        return rule, float(ndtri(self.confidence)), float(self.C)


@settings
class ASCW(RowByRowSelector):
    r"""Adaptive sparse confidence-weighted learning (Liu et al., AAAI 2019), for rare classes.

    Several learners of two classes differ only in what an error costs. That of cost
    :math:`\delta_i = i / (L + 1)` is :class:`SCW` (variant I, diagonal) with
    :math:`C_+ = 2 C \delta_i` for rows of the positive class, the greater label, and
    :math:`C_- = 2 C (1 - \delta_i)` for others. After each batch, only the k greatest
    :math:`|\mu_j|` of a learner stay, and the others become zero. Before a learner sees a batch,
    it predicts it, :math:`\hat y = [\mu^\top x > 0]`. Features are ranked by :math:`|\mu_j|` of the
    learner with the greatest F-measure so far:

    .. math::
        F = \frac{2\, TP}{2\, TP + FP + FN}

    With a rare class, a learner of equal costs finds it cheaper to ignore the class, and its
    features with it.

    The paper solves for sparse coefficients of a whole batch by cutting planes; how exactly is not
    certain. Here each row moves the learners, and truncation follows. The costs are ours, too.

    X is not scaled: bring the columns to one scale, and centre them if they are dense, since there
    is no intercept. A missing entry counts as 0.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        k: a number (all, if there are fewer) or a fraction in (0, 1).
    n_learners : int, default=9
        L. Read with the first batch only.
    confidence : float, default=0.75
        Each row should be classified rightly with this probability, between 0.5 and 1.
    C : float, default=0.01
        Bounds the step that a single row can take. Costs matter as far as this bound does.

    Attributes
    ----------
    weights_, importances_, ranking_ : ndarray (n_features,)
        :math:`|\mu|`, :math:`\mu` and the rank (1 is best) of every feature. Read-only.
    f_measures_ : ndarray (n_learners,)
        The F-measure of each learner so far; 0 before a row of the positive class.
    classes_ : ndarray
        The labels seen, sorted; the greater one is the positive one.

    References
    ----------
    Y. Liu, Y. Yan, L. Chen, Y. Han, Y. Yang, "Adaptive Sparse Confidence-Weighted Learning for
    Online Feature Selection", AAAI 2019.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> selector = ASCW(2)
    >>> for _ in range(50):
    ...     y = rng.random(100) < 0.05
    ...     X = rng.normal(size=(100, 8))
    ...     X[:, [3, 5]] += 1.5 * y[:, None]
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 5])
    """

    n_learners: int = count(9)
    confidence: float = number(0.75, 0.5, 1.0)
    C: float = number(0.01)

    _starts = (0.0, 1.0)
    _learnt: ClassVar[Declared] = {
        "theta": Array("2L", "J"),  # a row of means and a row of variances for each learner
        "hits": Array("L", 3, low=0.0),  # TP, FP and FN of each learner
    }

    @property
    def f_measures_(self) -> Floats:
        """The F-measure of each learner so far. Read-only."""
        return self._computed("f_measures", lambda: f_measures(self._hits_))

    def _first(self) -> Floats:
        return np.tile(self._starts, int(self.n_learners))

    def _start(self, batch: CheckedBatch) -> None:
        super()._start(batch)
        self._hits_ = np.zeros((int(self.n_learners), 3))

    def _coefficients(self) -> Floats:
        return np.array(self._theta_[2 * f_measures(self._hits_).argmax()])

    def _take_sides(self, turned: bool) -> None:
        super()._take_sides(turned)
        if turned:  # costs and hits were those of the other class
            pairs = self._theta_.reshape(len(self._hits_), 2, -1)
            pairs[...] = pairs[::-1].copy()
            self._hits_ = np.zeros_like(self._hits_)

    def _run(self, rows: Rows, signs: Floats) -> bool:
        means, n, k = self._theta_[::2], len(self._hits_), self._resolve_k()
        X = sp.csr_array(rows, (len(signs), means.shape[1])) if isinstance(rows, tuple) else rows
        predicted, positive = X @ means.T > 0.0, (signs > 0.0)[:, None]
        counts = (predicted & positive, predicted & ~positive, ~predicted & positive)
        self._hits_ = self._hits_ + np.stack([part.sum(axis=0) for part in counts], axis=1)
        rule = second_order.SCW_1, float(ndtri(self.confidence)), float(self.C)
        nothing = np.zeros(0, dtype=np.int64)
        for i, (mu, var) in enumerate(zip(means, self._theta_[1::2], strict=True)):
            cost = (i + 1) / (n + 1)
            given = (rows, signs, mu, var, nothing, 0, k, sequential.ALL, rule, False)
            if second_order.second_order(*given, (2.0 * (1.0 - cost), 2.0 * cost)) < 0:
                return False
            mu[np.delete(np.arange(len(mu)), top_k(np.abs(mu), k))] = 0.0
        self._kept_ = np.flatnonzero(means.any(axis=0))
        return True

    def _check_learnt(self) -> None:
        super()._check_learnt()
        if len(self._theta_) != 2 * len(self._hits_) or not len(self._hits_):
            raise StateError(f"{len(self._hits_)} learners have {len(self._theta_)} rows of theta")


def f_measures(hits: Floats) -> Floats:
    """The F-measure, from TP, FP and FN in the columns; 0 where there is none."""
    true, rest = 2.0 * hits[:, 0], hits[:, 1] + hits[:, 2]
    return np.asarray(true / np.maximum(true + rest, 1.0))
