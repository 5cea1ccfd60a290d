"""EFS, FTRL and OLI2DS: linear learners with a loop of their own."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared
from fires.core.settings import flag, number
from fires.core.types import Floats, Mask, Places
from fires.kernels import online, top_k
from fires.kernels.linear import Rows
from fires.rivals.base import settings
from fires.rivals.rows.base import RowByRowSelector


@settings
class EFS(RowByRowSelector):
    r"""Extremal feature selection with the modified balanced Winnow (Carvalho and Cohen, 2006).

    Two models with positive weights, u for and v against the positive class, see each row with a
    bias feature added and divided by its L1 norm, :math:`x \leftarrow [x, 1] / \lVert [x, 1]
    \rVert_1`. If :math:`y\,(u^\top x - v^\top x - \theta) \le M`, then for every feature with
    :math:`x_j \ne 0`

    .. math::
        u_j \leftarrow u_j\, \alpha (1 + x_j), \quad v_j \leftarrow v_j\, \beta (1 - x_j)
        \qquad (y = 1)

    and the other way round for y = -1. Features are ranked by :math:`|u_j - v_j|`. A feature that
    no step has moved yet (u = 2, v = 1) has weight 0 and comes last.

    The authors stop raising weights above :math:`2^{200}` and lowering them below
    :math:`2^{-200}`. Here weights always stay within that range. Otherwise a factor
    :math:`1 - x_j` that is rounded to 0 would remove a feature for good.

    Made for sparse features that are not negative, such as counts of words: rescale others to
    [0, 1]. A negative entry is demoted where a positive one would be promoted, and a missing one
    counts as 0. Two steps for opposite classes multiply a weight by :math:`\alpha \beta (1 -
    x_j^2)`. So features that are not 0 in any row sink to the lower bound together, and can hardly
    be told apart there. The paper's voted form, which averages u and v over time, is not
    implemented.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    promotion : float, default=1.5
        :math:`\alpha`, at least 1.
    demotion : float, default=0.5
        :math:`\beta`, in (0, 1].
    threshold : float, default=1.0
        :math:`\theta`.
    margin : float, default=1.0
        M: rows that are right by no more than this still count as mistakes.
    bottom_fraction : float, default=0.0
        The share of the selected features, rounded, that are taken from the other end of the
        ranking: the least weights among the features that were moved. The paper found that 0.1
        helps; later papers compare without it, as the default does. ``ranking_`` ignores it.

    Attributes
    ----------
    weights_, importances_, ranking_ : ndarray (n_features,)
        :math:`|u - v|`, u - v and the rank (1 is best) of every feature.
    classes_ : ndarray
        The labels seen, sorted; the greater one is the positive one.

    References
    ----------
    V. R. Carvalho, W. W. Cohen, "Single-Pass Online Learning: Performance, Voting Schemes and
    Online Feature Selection", KDD 2006.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1, 0.5, 0, 0.2], [0.3, 1, 0.8, 0], [0, 0.4, 1, 0.6]])
    >>> selector = EFS(2).partial_fit(X, [1, -1, -1])
    >>> selector.weights_.round(3)
    array([1.339, 0.852, 3.527, 0.456])
    >>> selector.get_support(indices=True)
    array([0, 2])
    """

    promotion: float = number(1.5, 1.0, ends="[)")
    demotion: float = number(0.5, high=1.0, ends="(]")
    threshold: float = number(1.0, -np.inf)
    margin: float = number(1.0, -np.inf)
    bottom_fraction: float = number(0.0, high=1.0, ends="[]")

    _learnt: ClassVar[Declared] = {"theta": Array("M", "J", low=0.0), "bias": Array("M")}

    _starts = (2.0, 1.0)  # of u and v, the authors' choice

    # --- learning ---------------------------------------------------------------------------

    def _first(self) -> Floats:
        # The two sides of a Winnow are not mirror images. While only one class is known, it may
        # still become either side. So two pairs of models learn, one for each case.
        return np.tile(self._starts, self._sizes()["M"] // 2)

    def _start(self, batch: CheckedBatch) -> None:
        self._take_labels(batch)
        super()._start(batch)
        self._bias_ = self._first()

    def _take_sides(self, turned: bool) -> None:
        if len(self._theta_) == 4 and len(self.classes_) == 2:
            pair = slice(2, 4) if turned else slice(0, 2)
            self._theta_, self._bias_ = self._theta_[pair].copy(), self._bias_[pair]

    def _run(self, rows: Rows, signs: Floats) -> bool:
        numbers = (self.promotion, self.demotion, self.threshold, self.margin)
        options = tuple(map(float, numbers))
        self._bias_ = self._bias_.copy()
        for first in range(0, len(self._theta_), 2):
            pair, towards = slice(first, first + 2), signs if first == 0 else -signs
            online.winnow(rows, towards, *self._theta_[pair], self._bias_[pair], options)
        return True

    def _sizes(self) -> dict[str, int]:
        return super()._sizes() | {"M": 4 if len(self._label_index_) == 1 else 2}

    # --- what was learnt --------------------------------------------------------------------

    def _coefficients(self) -> Floats:
        return np.asarray(self._theta_[0] - self._theta_[1])

    def _moved(self) -> Mask:
        u, v = self._theta_[:2]
        return np.asarray((u != self._starts[0]) | (v != self._starts[1]))

    def _weights(self) -> Floats:
        return np.where(self._moved(), np.abs(self._coefficients()), 0.0)

    def _selected(self) -> Places:
        k = self._resolve_k()
        n_bottom = round(self.bottom_fraction * k)
        if n_bottom == 0:
            return super()._selected()
        return self._computed(f"selected {k} {n_bottom}", lambda: self._extremes(k, n_bottom))

    def _extremes(self, k: int, n_bottom: int) -> Places:
        top = top_k(self.weights_, k - n_bottom)
        others = np.setdiff1d(np.arange(self.n_features_in_), top, assume_unique=True)
        low = np.where(self._moved(), -self.weights_, -np.inf)[others]
        return np.sort(np.concatenate([top, others[top_k(low, n_bottom)]]))


@settings
class FTRL(RowByRowSelector):
    r"""Logistic regression by FTRL-proximal with L1, ranked by :math:`|w|` (McMahan et al., 2013).

    For every feature it keeps a sum of gradients :math:`z_j` and a sum of their squares
    :math:`n_j`. They give the coefficient

    .. math::
        w_j = \begin{cases} 0 & |z_j| \le \lambda_1 \\
        - \left(\frac{\beta + \sqrt{n_j}}{\alpha} + \lambda_2\right)^{-1}
        (z_j - \operatorname{sign}(z_j) \lambda_1) & \text{otherwise} \end{cases}

    A row moves them by :math:`z_j \leftarrow z_j + g_j - \sigma_j w_j` and
    :math:`n_j \leftarrow n_j + g_j^2` with :math:`g_j = (p - [y = 1])\, x_j`, p the predicted
    probability and :math:`\sigma_j = (\sqrt{n_j + g_j^2} - \sqrt{n_j}) / \alpha`. Each feature
    learns at its own rate, and coefficients that help little stay exactly zero. If fewer than k
    coefficients differ from zero, the selection is filled up with the first columns.

    X is not scaled: bring the columns to one scale, and centre them if they are dense. The
    intercept learns too slowly for a rare class, so columns whose mean is not 0 would get weights
    in its place. A missing entry counts as 0. A sparse row costs what its entries cost.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    learning_rate : float, default=0.1
        :math:`\alpha`.
    beta : float, default=1.0
        Holds back the first steps.
    l1, l2 : float, default=1.0 and 0.0
        :math:`\lambda_1` and :math:`\lambda_2`. They are weighed against sums over all rows, not
        against means.
    fit_intercept : bool, default=True
        Learn an intercept, which has no L1 penalty and is never ranked.

    Attributes
    ----------
    weights_, importances_, ranking_ : ndarray (n_features,)
        :math:`|w|`, w and the rank (1 is best) of every feature.
    classes_ : ndarray
        The labels seen, sorted; the greater one is the positive one.

    References
    ----------
    H. B. McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> selector = FTRL(2, l1=20.0)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 8))
    ...     y = X[:, 3] - X[:, 5] > 0
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 5])
    >>> int((selector.weights_ > 0).sum())
    2
    """

    learning_rate: float = number(0.1)
    beta: float = number(1.0)
    l1: float = number(1.0, ends="[)")
    l2: float = number(0.0, ends="[)")
    fit_intercept: bool = flag(True)

    _learnt: ClassVar[Declared] = {"bias": Array(2)}

    _starts = (0.0, 0.0)  # z and the root of n

    def _numbers(self) -> tuple[float, float, float, float]:
        return float(self.learning_rate), float(self.beta), float(self.l1), float(self.l2)

    def _start(self, batch: CheckedBatch) -> None:
        super()._start(batch)
        self._bias_ = np.zeros(2)

    def _take_sides(self, turned: bool) -> None:
        super()._take_sides(turned)
        if turned:
            self._bias_ = self._bias_ * [-1.0, 1.0]

    def _run(self, rows: Rows, signs: Floats) -> bool:
        self._bias_ = self._bias_.copy()
        options = (bool(self.fit_intercept), self._numbers())
        done: int = online.ftrl(rows, signs, *self._theta_, self._bias_, *options)
        return done >= 0

    def _coefficients(self) -> Floats:
        z, root = self._theta_
        return online.coefficients_plain(z, root, float(self.l1), self._numbers())


@settings
class OLI2DS(RowByRowSelector):
    r"""Online learning from incomplete and imbalanced data streams (You et al., 2023).

    The features of a row are those whose entry is not 0: those that the row before it had, too (s),
    and new ones (n). Each group counts by its share p of the sum of the variances of both,

    .. math::
        f = p_s\, w_s^\top x_s + p_n\, w_n^\top x_n, \qquad
        \tau = \min\Bigl(C, \frac{\max(0, 1 - y f)}
            {p_s^2 \lVert x_s \rVert^2 + p_n^2 \lVert x_n \rVert^2}\Bigr), \qquad
        w_g \leftarrow w_g + \alpha \theta \tau y\, p_g x_g

    where :math:`\alpha` is the share of the other class, so that a rare class takes greater steps.
    Features are ranked by :math:`|w_j|`. On rows that have all features it is the
    passive-aggressive learner with these steps.

    Projection and truncation of the paper are left out, as in the experiments of the authors'
    program. A variance there is not one (it only grows); here it is that of the entries so far. X
    is not scaled, and there is no intercept. A missing entry counts as 0.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        k: a number (all, if there are fewer) or a fraction in (0, 1).
    C : float, default=0.01
        Bounds :math:`\tau`.
    learning_rate : float, default=8.0
        :math:`\theta`, as in the authors' experiments.

    Attributes
    ----------
    weights_, importances_, ranking_ : ndarray (n_features,)
        :math:`|w|`, w and the rank (1 is best) of every feature.
    classes_ : ndarray
        The labels seen, sorted; the greater one is the positive one.

    References
    ----------
    D. You et al., "Online Learning From Incomplete and Imbalanced Data Streams", IEEE
    Transactions on Knowledge and Data Engineering 35(10), 2023.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> selector = OLI2DS(2)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 8))
    ...     X[rng.random(X.shape) < 0.3] = np.nan
    ...     y = np.nan_to_num(X[:, 3] - X[:, 5]) > 1
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 5])
    """

    C: float = number(0.01)
    learning_rate: float = number(8.0)

    _learnt: ClassVar[Declared] = {
        # w; sum of squares, number of entries, and the last row that has it
        "theta": Array(4, "J"),
        "mean": Array("J"),
        "own": Array(3, low=0.0),
    }

    _starts = (0.0, 0.0, 0.0, 0.0)
    _signed = slice(0, 1)

    def _start(self, batch: CheckedBatch) -> None:
        super()._start(batch)
        self._mean_ = np.zeros(self.n_features_in_)
        self._own_ = np.array([0.0, 1.0, 1.0])  # rows; as if each class had been seen once

    def _take_sides(self, turned: bool) -> None:
        super()._take_sides(turned)
        if turned:
            self._own_ = self._own_[[0, 2, 1]]

    def _run(self, rows: Rows, signs: Floats) -> bool:
        self._mean_, self._own_ = self._mean_.copy(), self._own_.copy()
        options = (float(self.C), float(self.learning_rate))
        done: int = online.oli2ds(rows, signs, self._theta_, self._mean_, self._own_, options)
        return done >= 0
