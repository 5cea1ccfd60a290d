"""ASCW: sparse confidence-weighted learners of several class costs, the best of which selects."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtri

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared
from fires.core.errors import StateError
from fires.core.settings import count, number
from fires.core.types import Floats
from fires.kernels import second_order, sequential, top_k
from fires.kernels.linear import Rows
from fires.rivals.base import settings
from fires.rivals.rows.base import RowByRowSelector


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
            best = top_k(np.abs(mu), k)
            left = mu[best]
            mu[:] = 0.0
            mu[best] = left
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
