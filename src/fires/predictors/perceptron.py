"""Rosenblatt's perceptron. New classes are added as they arrive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.classes import NO_CLASSES, Classes, Codes, Labels, class_rows
from fires.core.declared import Array, Declared, collect, restore
from fires.core.state import Arrays, State
from fires.core.types import Floats, Json, Matrix
from fires.core.validation import repeated
from fires.kernels.perceptron import perceptron_pass
from fires.predictors.base import Predictor

_SIGNS: Floats = np.array([-1.0, 1.0])
_LEARNT: Declared = {"coef": Array("R", "J"), "intercept": Array("R")}


class Perceptron(Predictor):
    """Rosenblatt's perceptron, for rows with zeros in the features that are not selected.

    The update is that of scikit-learn's ``Perceptron`` without shuffling. It is compiled and checks
    nothing itself, so that a batch of a hundred rows takes no longer than in the selector. New
    classes are added as they arrive, one against the rest. A sparse row costs what its entries
    cost.

    Examples
    --------
    >>> X = np.array([[1.0, 0.5, 0.0, 0.2], [0.3, 1.0, 0.8, 0.0], [0.0, 0.4, 1.0, 0.6]])
    >>> model = Perceptron().partial_fit(X, np.array(["b", "a", "a"]))
    >>> model.predict(X)
    array(['b', 'a', 'a'], dtype='<U1')
    """

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Learn from every row in order. A row of weight w, a whole number, is learnt w times."""
        self._check_rows(batch.X)
        before = self._known(expected)
        label_index, codes = batch.labels(before)
        X, codes = repeated(batch.X, codes, batch.weight, "Perceptron")
        self._label_index_ = label_index
        if not hasattr(self, "coef_"):
            n_rows = len(label_index) if len(label_index) > 2 else 1
            self.coef_, self.intercept_ = np.zeros((n_rows, X.shape[1])), np.zeros(n_rows)
        elif len(before) != len(label_index):
            self._take_rows(class_rows(before.labels, label_index.labels))
        perceptron_pass(X, self._signs(codes), self.coef_, self.intercept_)

    def check(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Raise an error if :meth:`learn` would refuse the batch. Nothing is learnt."""
        self._check_rows(batch.X)
        repeated(batch.y, None, batch.weight, "Perceptron")
        super().check(batch, expected)

    def _check_rows(self, X: Matrix) -> None:
        if hasattr(self, "coef_") and X.shape[1] != self.coef_.shape[1]:
            # A compiled loop would follow them out of the coefficients.
            raise ValueError(
                f"X has {X.shape[1]} features, but this Perceptron has learnt "
                f"{self.coef_.shape[1]}."
            )

    def predict(self, X: Matrix) -> Labels:
        """The label of each row.

        Parameters
        ----------
        X : ndarray or CSR matrix (n_rows, n_features)
            Rows of full width.

        Returns
        -------
        ndarray (n_rows,)
        """
        prediction: Labels = self.classes_[self.predict_codes(X)]
        return prediction

    def predict_codes(self, X: Matrix) -> Codes:
        """The index of each row's label in ``classes_``.

        Parameters
        ----------
        X : ndarray or CSR matrix (n_rows, n_features)
            Rows of full width.

        Returns
        -------
        ndarray of int (n_rows,)
        """
        n_classes = len(self._label_index_)
        if n_classes == 2:
            positive: Codes = (X @ self.coef_[0] > -self.intercept_[0]).astype(np.intp)
            return positive
        if n_classes == 1:
            return np.zeros(X.shape[0], dtype=np.intp)
        if sp.issparse(X):  # SciPy would copy coef_.T, however few entries there are
            scores = np.column_stack([X @ row for row in self.coef_])
        else:
            scores = X @ self.coef_.T
        best: Codes = (scores + self.intercept_).argmax(axis=1)
        return best

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
        >>> model = Perceptron().partial_fit(np.eye(2), np.array([0, 1]))
        >>> again = Perceptron().restore(*model.state())
        >>> again.predict(np.eye(2))
        array([0, 1])
        """
        header, arrays = self._classes_state()
        return header, arrays | collect(self, _LEARNT, "{}_")[1]

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
        self._restore_classes(header, arrays)
        if len(self._label_index_):
            n_rows = len(self._label_index_) if len(self._label_index_) > 2 else 1
            restore(self, _LEARNT, header, arrays, {"R": n_rows}, "{}_")
        return self

    def _signs(self, codes: Codes) -> Floats:
        if len(self.coef_) == 1:  # while only one class is known, it is the positive one
            alone = len(self._label_index_) == 1
            signs: Floats = _SIGNS[codes + 1 if alone else codes]
            return signs[None]
        return np.where(codes == np.arange(len(self.coef_))[:, None], 1.0, -1.0)

    def _take_rows(self, sources: list[tuple[int, float] | None]) -> None:
        rows = [
            (sign * self.coef_[old], sign * self.intercept_[old])
            for old, sign in (source or (0, 0.0) for source in sources)
        ]
        self.coef_ = np.array([coefficients for coefficients, _ in rows])
        self.intercept_ = np.array([intercept for _, intercept in rows])
