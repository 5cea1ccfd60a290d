"""A linear regression for numbers, on any scale of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
import numpy.typing as npt

from fires.core.batch import CheckedBatch
from fires.core.classes import NO_CLASSES, Classes, Labels
from fires.core.declared import Array, Declared, collect, restore
from fires.core.state import Arrays, State
from fires.core.types import Floats, Json, Matrix
from fires.core.validation import repeated
from fires.kernels.least_squares import least_squares_pass
from fires.predictors.base import Predictor

_LEARNT: Declared = {"coef": Array("J"), "own": Array(2)}


class LinearRegressor(Predictor):
    r"""Linear regression that learns row by row, for rows with zeros where not selected.

    The prediction is :math:`\hat y = b + w^\top x`. Each row moves it a twentieth of the way to its
    number (normalised least mean squares):

    .. math::
        w \leftarrow w + \eta \frac{e}{1 + x^\top x} x, \qquad
        b \leftarrow b + \eta \frac{e}{1 + x^\top x}, \qquad
        e = \max(-3 s, \min(3 s, y - \hat y))

    with :math:`\eta = 0.05`. Numbers of any scale are learnt alike, as e has the scale of y. s is
    the running mean of the absolute error, so a single bad number cannot spoil what was learnt.
    b and s start with the median of the first batch and the mean absolute deviation from it,
    without the largest tenth. A sparse row costs what its entries cost.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = 1e6 + 1e4 * X[:, 1]
    >>> y[1000] = 1e12
    >>> model = LinearRegressor().partial_fit(X, y)
    >>> (model.predict(np.eye(3)) / 1e4).round(1)
    array([100., 101., 100.])
    """

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Learn from every row in order. A row of weight w, a whole number, is learnt w times."""
        self.check(batch)
        X, y = repeated(batch.X, batch.y, batch.weight, "LinearRegressor")
        if len(y) == 0:
            return
        y = y.astype(np.float64)
        if not hasattr(self, "coef_"):
            middle = np.median(y)
            off = np.sort(np.abs(y - middle))[: max(int(0.9 * len(y)), 1)]
            self.coef_, self.own_ = np.zeros(X.shape[1]), np.array([middle, off.mean()])
        least_squares_pass(X, y, self.coef_, self.own_)

    def check(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Raise an error if :meth:`learn` would refuse the batch. Nothing is learnt."""
        if hasattr(self, "coef_") and batch.X.shape[1] != len(self.coef_):
            # A compiled loop would follow them out of the coefficients.
            raise ValueError(
                f"X has {batch.X.shape[1]} features, but this LinearRegressor has learnt "
                f"{len(self.coef_)}."
            )
        check_target(batch.y, "LinearRegressor")
        repeated(batch.y, None, batch.weight, "LinearRegressor")

    def predict(self, X: Matrix) -> Labels:
        """The number of each row.

        Parameters
        ----------
        X : ndarray or CSR matrix (n_rows, n_features)
            Rows of full width.

        Returns
        -------
        ndarray (n_rows,)
        """
        prediction: Floats = X @ self.coef_ + self.own_[0]
        return prediction

    def restart_features(self, columns: npt.NDArray[np.intp]) -> None:
        """Set the coefficients of some features to 0. See :class:`Predictor`."""
        if hasattr(self, "coef_"):
            self.coef_[..., columns] = 0.0

    def state(self) -> State:
        """Everything there is to save: a header of JSON values, and arrays.

        Returns
        -------
        header, arrays : dict

        Examples
        --------
        >>> model = LinearRegressor().partial_fit(np.eye(2), np.array([0.5, 1.0]))
        >>> again = LinearRegressor().restore(*model.state())
        >>> bool((again.predict(np.eye(2)) == model.predict(np.eye(2))).all())
        True
        """
        return collect(self, _LEARNT, "{}_")

    def restore(self, header: Mapping[str, Json], arrays: Arrays) -> Self:
        """Go on from :meth:`state`.

        Parameters
        ----------
        header, arrays : dict
            What was saved.

        Returns
        -------
        self
        """
        vars(self).clear()
        if arrays:  # there are none of one that had learnt nothing
            restore(self, _LEARNT, header, arrays, {}, "{}_")
        return self


def check_target(target: npt.ArrayLike | None, owner: str) -> None:
    """Raise an error unless these are finite numbers."""
    y = np.asarray(target)
    if y.dtype.kind not in "fiub" or not np.isfinite(y).all():
        raise ValueError(f"{owner} learns finite numbers, and y holds something else.")
