"""Rosenblatt's perceptron, which takes up new classes as they arrive."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from fires.core import classes as labels
from fires.core.belief import Floats
from fires.core.state import Arrays, State
from fires.core.validation import as_weights, repeated
from fires.kernels.perceptron import perceptron_pass
from fires.predictors.classes import Classes, Labels


class Perceptron(Classes):
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

    def partial_fit(
        self, X: Floats, y: Labels, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from every row in order.

        Parameters
        ----------
        X : ndarray (n_rows, n_features)
            Rows of full width.
        y : ndarray (n_rows,)
            Their labels.
        classes : sequence, optional
            All labels there will ever be. Without it, new ones are added as they arrive.
        sample_weight : array-like of whole numbers, optional
            How often each row is learnt.
        """
        _refuse_sparse(X)
        X, y = repeated(X, y, as_weights(sample_weight, len(y)), "Perceptron")
        before = getattr(self, "classes_", None)
        known, codes = self._take(y, classes)
        self._keep(known, classes)
        if before is None:
            n_rows = len(self.classes_) if len(self.classes_) > 2 else 1
            self.coef_, self.intercept_ = np.zeros((n_rows, X.shape[1])), np.zeros(n_rows)
        elif len(before) != len(self.classes_):
            self._take_rows(labels.class_rows(before, self.classes_))
        perceptron_pass(X, self._signs(codes), self.coef_, self.intercept_)
        return self

    def check_batch(
        self, X: Any, y: Labels, classes: Any = None, sample_weight: Any = None
    ) -> None:
        """Raise what :meth:`partial_fit` would refuse; nothing is learnt."""
        _refuse_sparse(X)
        repeated(y, None, as_weights(sample_weight, len(y)), "Perceptron")
        self._take(y, classes)

    def predict(self, X: Floats) -> Labels:
        """The label of each row."""
        score = X @ self.coef_.T + self.intercept_
        if len(self.classes_) == 1:
            return np.full(len(X), self.classes_[0])
        best = score.argmax(axis=1) if score.shape[1] > 1 else (score[:, 0] > 0).astype(np.intp)
        prediction: Labels = self.classes_[best]
        return prediction

    def state(self) -> State:
        """Everything there is to save: a header of JSON values, and arrays.

        Examples
        --------
        >>> model = Perceptron().partial_fit(np.eye(2), np.array([0, 1]))
        >>> again = Perceptron().restore(*model.state())
        >>> again.predict(np.eye(2))
        array([0, 1])
        """
        header, arrays = self._classes_state()
        if hasattr(self, "classes_"):
            arrays |= {"coef": self.coef_.copy(), "intercept": self.intercept_.copy()}
        return header, arrays

    def restore(self, header: dict[str, Any], arrays: Arrays) -> Self:
        """Become what gave this :meth:`state`."""
        vars(self).clear()
        self._restore_classes(header, arrays)
        if header["classes"] is None:  # it had learnt nothing yet
            return self
        self.coef_, self.intercept_ = arrays["coef"].copy(), arrays["intercept"].copy()
        n_rows = len(self.classes_) if len(self.classes_) > 2 else 1
        if self.coef_.shape[:1] != (n_rows,) or self.intercept_.shape != (n_rows,):
            raise ValueError(
                f"Not the state of a Perceptron: coefficients of shape {self.coef_.shape} and "
                f"intercepts of shape {self.intercept_.shape} for {len(self.classes_)} classes."
            )
        return self

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


def _refuse_sparse(X: Any) -> None:
    if sp.issparse(X):
        raise ValueError(
            "This Perceptron needs dense rows; scikit-learn's SGDClassifier takes sparse ones."
        )
