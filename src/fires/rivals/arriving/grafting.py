"""Grafting: a lasso that takes in a feature if its slope exceeds the penalty."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from scipy.special import expit

from fires.core.declared import Array, Declared, Value
from fires.core.errors import StateError
from fires.core.settings import choice, flag, number
from fires.core.types import Floats, Labels
from fires.core.validation import as_numbers
from fires.rivals.arriving.base import ArrivingColumns, ArrivingFeatures, two_classes
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
            greater = two_classes(y, "Grafting(loss='logistic') learns two classes")
            self._target_, self._unit_ = 2.0 * greater - 1.0, 1.0
        else:
            numbers = as_numbers(y, "Grafting(loss='squared')")
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
