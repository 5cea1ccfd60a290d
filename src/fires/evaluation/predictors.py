"""Predictors that live through changes of the selected set."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fires.core import labels
from fires.core.belief import Floats
from fires.kernels.perceptron import perceptron_pass


class Perceptron:
    """Rosenblatt's perceptron over full-width rows, unselected features being zeros.

    The update is that of scikit-learn's ``Perceptron`` without shuffling; it is compiled and has
    no checks of its own, so that at a hundred rows a batch it does not take longer than the
    selector it serves. New classes are added as they arrive, one against the rest.

    Examples
    --------
    >>> X = np.array([[1.0, 0.5, 0.0, 0.2], [0.3, 1.0, 0.8, 0.0], [0.0, 0.4, 1.0, 0.6]])
    >>> model = Perceptron().partial_fit(X, np.array(["b", "a", "a"]))
    >>> model.predict(X)
    array(['b', 'a', 'a'], dtype='<U1')
    """

    classes_: npt.NDArray[Any]

    def partial_fit(self, X: Floats, y: npt.NDArray[Any]) -> Self:
        """Learn from every row in order."""
        before = getattr(self, "classes_", None)
        self.classes_, codes = labels.take(before, y)
        if before is None:
            n_rows = len(self.classes_) if len(self.classes_) > 2 else 1
            self.coef_, self.intercept_ = np.zeros((n_rows, X.shape[1])), np.zeros(n_rows)
        elif len(before) != len(self.classes_):
            self._take_rows(labels.class_rows(before, self.classes_))
        perceptron_pass(X, self._signs(codes), self.coef_, self.intercept_)
        return self

    def predict(self, X: Floats) -> npt.NDArray[Any]:
        """The label of each row."""
        score = X @ self.coef_.T + self.intercept_
        if len(self.classes_) == 1:
            return np.full(len(X), self.classes_[0])
        best = score.argmax(axis=1) if score.shape[1] > 1 else (score[:, 0] > 0).astype(np.intp)
        prediction: npt.NDArray[Any] = self.classes_[best]
        return prediction

    def _signs(self, codes: Any) -> Floats:
        if len(self.coef_) == 1:  # one class so far is the positive one, until another comes
            return np.where(codes == len(self.classes_) - 1, 1.0, -1.0)[None, :]
        return np.where(codes == np.arange(len(self.coef_))[:, None], 1.0, -1.0)

    def _take_rows(self, sources: list[tuple[int, float] | None]) -> None:
        rows = [
            (sign * self.coef_[old], sign * self.intercept_[old])
            for old, sign in (source or (0, 0.0) for source in sources)
        ]
        self.coef_ = np.array([coefficients for coefficients, _ in rows])
        self.intercept_ = np.array([intercept for _, intercept in rows])
