"""Linear models of arriving columns: alpha-investing, grafting, and leverage scores."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

import numpy as np
from scipy.special import expit

from fires.core import validation
from fires.core.declared import Array, Declared, Random, Value
from fires.core.errors import StateError
from fires.core.randomness import generator, random_state
from fires.core.settings import check_number, choice, flag, number
from fires.core.types import Floats, Labels, Seed
from fires.rivals.arriving import base
from fires.rivals.arriving.base import ArrivingColumns, ArrivingFeatures, centred
from fires.rivals.base import settings

# The search ends when every slope is this close to its optimum; columns lie within [-1, 1].
_TOLERANCE = 1e-10
_LEAST_UNIT = 5e-324  # above 0


@settings
class Grafting(ArrivingFeatures):
    r"""Online feature selection by grafting.

    A linear model :math:`f(x) = w^\top x + b` of the selected features minimises

    .. math:: \frac{1}{n} \sum_i \ell(y_i, f(x_i)) + \lambda \|w\|_1

    An arriving feature is tested once, by the gradient of the mean loss at weight 0. It is added if
    :math:`|\partial L / \partial w_j| > \lambda`: only then can a weight lower the objective. All
    weights are then optimised again. A feature whose weight returns to 0 is dropped for good.

    Each test costs :math:`O(n |S|)` and each addition a few times :math:`O(n |S|^2)`. The columns
    of the selected features are stored. Dropped columns are gone, so the set depends on the order
    of arrival. The journal paper's algorithm for stored data, which always adds the column with
    the largest gradient, is not implemented.

    X is not scaled, and the penalty depends on the scale of a column: standardise columns before
    they arrive. A missing entry counts as 0.

    Parameters
    ----------
    n_features_to_select : int, float or None, default=None
        Keep at most this many selected features, those with the greatest :math:`|w_j|`. A fraction
        is a share of all columns seen.
    penalty : float, default=0.1
        :math:`\lambda`.
    loss : {"logistic", "squared"}, default="logistic"
        :math:`\log(1 + e^{-y f})` for two classes, the greater one as :math:`y = 1` and the other
        as :math:`-1`, or :math:`(y - f)^2 / 2` for numbers.
    fit_intercept : bool, default=True
        Learn :math:`b`, without a penalty; otherwise it is 0.

    Attributes
    ----------
    weights_ : ndarray (n_features_in_,)
        :math:`|w_j|` now.

    References
    ----------
    S. Perkins, J. Theiler: "Online feature selection using grafting". International Conference on
    Machine Learning, 2003. S. Perkins, K. Lacker, J. Theiler: "Grafting: fast, incremental feature
    selection by gradient descent in function space". Journal of Machine Learning Research 3, 2003.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 20))
    >>> y = np.where(X[:, 4] - X[:, 12] + 0.3 * rng.normal(size=300) > 0, "up", "down")
    >>> selector = Grafting().partial_fit_features(X[:, :10], y)
    >>> selector.partial_fit_features(X[:, 10:], y).get_support(indices=True)
    array([ 4, 12])
    """

    penalty: float = number(0.1)
    loss: str = choice("logistic", "squared")
    fit_intercept: bool = flag(True)

    _learnt: ClassVar[Declared] = {
        "logistic": Value(bool),
        "unit": Value(float, low=_LEAST_UNIT),
        "target": Array("N", low=-1.0, high=1.0),
        "rows": Array("R", "N", low=-1.0, high=1.0),
        "units": Array("R", low=_LEAST_UNIT, finite=False),
        "coef": Array("R"),
    }

    def _start(self, y: Labels) -> None:
        self._logistic_ = self.loss == "logistic"
        if self._logistic_:
            greater = base.two_classes(y, "Grafting(loss='logistic') learns two classes")
            self._target_, self._unit_ = 2.0 * greater - 1.0, 1.0
        else:
            numbers = validation.as_numbers(y, "Grafting(loss='squared')")
            self._unit_ = float(np.abs(numbers).max())  # the scale of the target
            self._target_ = numbers / self._unit_
        n_constant = int(bool(self.fit_intercept))
        # The constant, if any, then the selected columns within [-1, 1], one per row.
        self._rows_ = np.ones((n_constant, len(y)))
        # The scale of each row, infinite where there is no penalty, and its weight.
        self._units_, self._coef_ = np.full(n_constant, np.inf), np.zeros(n_constant)
        self._settle()

    def _arrive(self, columns: ArrivingColumns) -> None:
        for j, x in columns:
            column = np.where(np.isnan(x), 0.0, x)
            unit = float(np.abs(column).max())
            if unit == 0.0:
                continue
            column /= unit
            if abs(self._slope(column)) > float(self.penalty) / (unit * self._unit_):
                self._rows_ = np.vstack([self._rows_, column])
                self._units_ = np.append(self._units_, unit)
                self._coef_ = np.append(self._coef_, 0.0)
                self._chosen_[j] = 0.0
                self._settle()

    def _slope(self, column: Floats) -> float:
        """The slope of the mean loss in a weight that is 0."""
        margin = self._coef_ @ self._rows_
        return float(column @ slopes(self._target_, margin, self._logistic_) / len(column))

    def _settle(self) -> None:
        """Optimise all weights again, and drop the columns whose weight is 0."""
        penalties = float(self.penalty) / (self._units_ * self._unit_)
        coef = minimise(self._rows_, self._target_, penalties, self._coef_, self._logistic_)
        n_constant = int(np.isinf(self._units_).sum())
        stays = coef != 0.0
        stays[:n_constant] = True
        self._rows_, self._units_ = self._rows_[stays], self._units_[stays]
        self._coef_ = coef[stays]
        left = [j for j, here in zip(self._chosen_, stays[n_constant:], strict=True) if here]
        worth = np.abs(self._coef_ / self._units_ * self._unit_)[n_constant:]
        self._chosen_ = dict(zip(left, worth.tolist(), strict=True))

    def _check_learnt(self) -> None:
        n_selected = int(np.isfinite(self._units_).sum())
        if n_selected != len(self._chosen_):
            raise StateError(f"{len(self._chosen_)} columns are chosen, and {n_selected} held")


def slopes(target: Floats, margin: Floats, logistic: bool) -> Floats:
    """The derivative of each row's loss with respect to its margin f."""
    return np.asarray(-target * expit(-target * margin)) if logistic else margin - target


def minimise(
    rows: Floats, target: Floats, penalties: Floats, start: Floats, logistic: bool
) -> Floats:
    """The weights that minimise mean loss plus penalty.

    Newton's method. As long as no weight changes its sign, the penalty is linear. The first weight
    that would change it stays 0. When all others have settled, the zero weight whose slope exceeds
    its penalty most is set free. A step is shortened where the objective would rise.
    """
    n = rows.shape[1]

    def objective(weights: Floats) -> float:
        margin = weights @ rows
        loss = np.logaddexp(0.0, -target * margin) if logistic else 0.5 * (margin - target) ** 2
        return float(loss.mean() + penalties @ np.abs(weights))

    weights = start
    for _ in range(100 + 20 * len(start)):
        margin = weights @ rows
        gradient = rows @ slopes(target, margin, logistic) / n
        off, free = _off(gradient, penalties, weights), (weights != 0.0) | (penalties == 0.0)
        sign = np.sign(weights)
        if off[free].max(initial=0.0) <= _TOLERANCE:
            if off.max(initial=0.0) <= _TOLERANCE:
                break
            j = int(off.argmax())
            free[j], sign[j] = True, -np.sign(gradient[j])
        some, pull = rows[free], gradient + penalties * sign
        bend = expit(margin) * expit(-margin) if logistic else np.ones(n)
        curvature = (some * bend) @ some.T / n
        # A little extra curvature keeps the step finite in directions where the loss is flat.
        curvature.flat[:: len(some) + 1] += 1e-12
        move = np.zeros(len(weights))
        move[free] = np.linalg.solve(curvature, -pull[free])
        turns = (penalties > 0.0) & (weights * (weights + move) < 0.0)
        way = np.where(turns, np.abs(weights), np.inf) / np.where(turns, np.abs(move), 1.0)
        now, fall, step = objective(weights), 1e-4 * (pull @ move), min(1.0, float(way.min()))
        while objective(weights + step * move) > now + step * fall + 1e-15 * (1.0 + now):
            step /= 2.0
            if step < 1e-12:
                return weights
        weights = np.where(way == step, 0.0, weights + step * move)
    return weights


def _off(gradient: Floats, penalties: Floats, weights: Floats) -> Floats:
    """How far each slope is from its value at the minimum."""
    at_zero = np.maximum(np.abs(gradient) - penalties, 0.0)
    return np.where(weights == 0.0, at_zero, np.abs(gradient + penalties * np.sign(weights)))


# A column, or target, whose remaining norm is below this share of its first norm is explained:
# what remains is rounding.
_EXPLAINED = 1e-10
_EXHAUSTED = 1e-12


@settings
class AlphaInvesting(ArrivingFeatures):
    r"""Streamwise feature selection by alpha-investing.

    Each arriving feature :math:`i` = 1, 2, ... is a bet. A linear model with a constant takes it in
    if the likelihood ratio bound on its p-value is below the stake that the wealth :math:`w`
    allows:

    .. math::
        \alpha_i = \frac{w}{2 i}, \qquad
        p_i = \exp\left(-\frac{SSE_\text{old} - SSE_\text{new}}{2 \sigma^2}\right), \qquad
        \sigma^2 = \frac{SSE_\text{old}}{n}

    If :math:`p_i < \alpha_i` the feature is added for good and :math:`w` grows by
    :math:`\alpha_\Delta - \alpha_i`; otherwise :math:`w` falls by :math:`\alpha_i`. So the rate of
    false discoveries stays under control however many features arrive. Early features are
    accepted more easily. A feature costs :math:`O(n |S|)`: the selected columns are kept as an
    orthonormal basis.

    The scale of a column does not matter. A missing entry counts as the column's mean. The target
    holds numbers or two classes. The paper's alternative, the t-test, is not implemented.

    Parameters
    ----------
    n_features_to_select : int, float or None, default=None
        Keep at most this many selected features, those with the smallest p. A fraction is a share
        of all columns seen.
    wealth : float, default=0.5
        :math:`w` at the start.
    alpha_delta : float, default=0.5
        :math:`\alpha_\Delta`: what an accepted feature earns.

    Attributes
    ----------
    wealth_ : float
        :math:`w` now.
    weights_ : ndarray (n_features_in_,)
        :math:`-\log p_i` of each selected column at its arrival; 0 for all others.

    References
    ----------
    J. Zhou, D. P. Foster, R. A. Stine, L. H. Ungar: "Streamwise feature selection". Journal of
    Machine Learning Research 7, 2006.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(100, 40))
    >>> y = 2.0 * X[:, 3] + X[:, 30] + rng.normal(size=100)
    >>> selector = AlphaInvesting()
    >>> for start in range(0, 40, 5):
    ...     selector = selector.partial_fit_features(X[:, start : start + 5], y)
    >>> selector.get_support(indices=True)
    array([ 3, 30])
    """

    wealth: float = number(0.5)
    alpha_delta: float = number(0.5, ends="[)")

    _learnt: ClassVar[Declared] = {
        "wealth": Value(float, low=0.0),
        "total": Value(float, low=0.0),
        "basis": Array("C", "N"),
        "residual": Array("N"),
    }

    @property
    def wealth_(self) -> float:
        """The wealth w now."""
        self._check_fitted()
        return self._wealth_

    def _start(self, y: Labels) -> None:
        self._wealth_ = float(self.wealth)
        self._residual_ = centred(base.as_numbers(y, type(self).__name__))
        self._total_ = float(np.linalg.norm(self._residual_))
        self._basis_ = np.empty((0, len(y)))

    def _arrive(self, columns: ArrivingColumns) -> None:
        for j, x in columns:
            alpha = self._wealth_ / (2.0 * (j + 1.0))
            direction, surprise = self._bet(x)
            if surprise > 0.0 and np.exp(-surprise) < alpha:
                pull = direction @ self._residual_
                self._residual_ = self._residual_ - pull * direction
                self._basis_ = np.vstack([self._basis_, direction])
                self._chosen_[j] = surprise
                self._wealth_ += float(self.alpha_delta) - alpha
            else:
                self._wealth_ -= alpha

    def _bet(self, x: Floats) -> tuple[Floats, float]:
        """The new direction that the column adds to the model, and -log p."""
        direction = centred(x)
        size = np.linalg.norm(direction)
        for _ in range(2):  # a column that the model nearly explains needs a second pass
            direction -= (self._basis_ @ direction) @ self._basis_
        left = np.linalg.norm(direction)
        error = np.linalg.norm(self._residual_)
        if left <= _EXPLAINED * size or error <= _EXHAUSTED * self._total_:
            return direction, 0.0
        direction /= left
        share = min(float(abs(direction @ self._residual_) / error), 1.0)
        return direction, float(0.5 * len(x) * share**2)


@settings
class LeverageScores(ArrivingFeatures):
    r"""Unsupervised selection of arriving features by online ridge leverage scores.

    Let :math:`A` hold the kept, rescaled columns. A new column :math:`a_j` has the score

    .. math:: l_j = \min(1, (1 + \epsilon) \, a_j^\top (A A^\top + \lambda I)^{-1} a_j)

    and is kept with probability :math:`p_j = \min(1, c \, l_j)`, as :math:`a_j / \sqrt{p_j}`. The
    inverse is updated by the Sherman-Morrison formula. So a feature costs :math:`O(n^2)`, and only
    an n x n matrix is stored. The method is meant for many more columns than rows.

    X is not scaled, and the scores depend on the scale of a column: standardise columns before
    they arrive. A missing entry counts as 0. The target is ignored.

    The choice is random; ``random_state`` makes it repeatable. The default :math:`c` is large: few
    columns are dropped unless there are many thousands. Set ``oversampling`` to keep fewer, or
    ``n_features_to_select`` to keep those with the best scores. ``epsilon=0`` keeps every column
    that is not 0, without chance.

    The paper's own constants, and the guarantees that depend on them, are not used:
    :math:`\lambda` and :math:`c` are settings here.

    Parameters
    ----------
    n_features_to_select : int, float or None, default=None
        Keep at most this many features, those with the greatest score. A fraction is a share of
        all columns seen.
    ridge : float, default=1.0
        :math:`\lambda`.
    epsilon : float, default=0.5
        :math:`\epsilon`: 0 or more.
    oversampling : float, optional
        :math:`c`; by default :math:`8 \log(n) / \epsilon^2` for n rows, n at least 2.
    random_state : int, Generator, RandomState or None
        One number is drawn for each column.

    Attributes
    ----------
    weights_ : ndarray (n_features_in_,)
        :math:`l_j` of each kept column; 0 for all others.

    References
    ----------
    J. Wang, J. Shen, P. Li: "Provable variable selection for streaming features". International
    Conference on Machine Learning, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = np.outer(rng.normal(size=20), np.ones(50))  # fifty times one column,
    >>> X[:, 33] = rng.normal(size=20)  # and another one
    >>> selector = LeverageScores(2, epsilon=0.0).partial_fit_features(X)
    >>> selector.get_support(indices=True)
    array([ 0, 33])
    """

    ridge: float = number(1.0)
    epsilon: float = number(0.5, ends="[)")
    oversampling: float | None = None
    random_state: Seed = random_state()

    _supervised = False
    _learnt: ClassVar[Declared] = {"inverse": Array("N", "N"), "rng": Random()}

    _rng_: np.random.Generator = field(init=False)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.oversampling is not None:
            check_number("oversampling", self.oversampling)

    def _start(self, y: Labels) -> None:
        self._inverse_ = np.eye(self.n_samples_) / self.ridge
        self._rng_ = generator(self.random_state, "leverage")

    def _arrive(self, columns: ArrivingColumns) -> None:
        for j, x in columns:
            a = np.where(np.isnan(x), 0.0, x)
            with np.errstate(over="ignore", invalid="ignore"):
                u = self._inverse_ @ a
                quadratic = float(a @ u)
            if not np.isfinite(quadratic):
                raise ValueError(
                    f"Column {j} is so large, or ridge={self.ridge!r} so small, that its leverage "
                    "overflows: standardise the columns."
                )
            quadratic = max(quadratic, 0.0)
            leverage = min(1.0, (1.0 + self.epsilon) * quadratic)
            p = self._probability(leverage)
            if self._rng_.random() < p:
                # The Sherman-Morrison formula for a / sqrt(p); v v' cannot overflow.
                v = u / np.sqrt(p + quadratic)
                self._inverse_ = self._inverse_ - np.outer(v, v)
                self._chosen_[j] = leverage

    def _probability(self, leverage: float) -> float:
        spread = float(self.epsilon) ** 2
        if leverage == 0.0 or (self.oversampling is None and spread == 0.0):
            return float(leverage > 0.0)  # nothing new, or an infinite c
        c = self.oversampling
        if c is None:
            c = 8.0 * float(np.log(max(self.n_samples_, 2))) / spread
        return min(1.0, float(c) * leverage)
