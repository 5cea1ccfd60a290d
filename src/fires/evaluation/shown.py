"""A predictor and what it is shown: scaled rows, with zeros for what is not selected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core import classes as labels
from fires.core.belief import Floats
from fires.kernels import read_only
from fires.kernels.features import merge
from fires.kernels.perceptron import (
    SHOWN,
    column_sums,
    mask_rows,
    perceptron_steps,
    perceptron_steps_plain,
)
from fires.models.online_linear import first_scale
from fires.predictors import Perceptron
from fires.scaling.dense import ROUNDING

Indices = npt.NDArray[np.intp]

_PLAIN = 50
"""So many batches are learnt from without what would have to be compiled first."""


class Shown:
    """A predictor that sees rows standardised by the batches before; the first by itself.

    The scale is that of :class:`fires.scaling.dense.Standard`, for rows without weights and in
    fewer calls: it must not cost more than the selector that is looked at. For the same reason the
    built-in perceptron is not handed rows of full width; it is one compiled loop over what is
    selected of them.

    Parameters
    ----------
    predictor : object with partial_fit and predict
        It is handed rows of full width.
    n_features : int
        Their width.
    """

    def __init__(self, predictor: Any, n_features: int) -> None:
        self.predictor = predictor
        self._state = np.zeros((len(SHOWN), n_features))
        self._sums = np.empty((2, n_features))
        self._n_batches = 0
        self._masked: tuple[Indices, Floats] | None = None

    def look(self, X: Floats) -> None:
        """Check a batch before anything learns from it; the first one gives its own scale."""
        if sp.issparse(X):
            raise ValueError("A predictor needs dense batches: scaled, sparse rows would fill up.")
        if self._n_batches == 0:
            scale = first_scale(X, missing=True)
            self._state[1:] = scale.count, scale.shift, scale.spread, scale.gain

    def test(self, X: Floats, y: npt.NDArray[Any], selected: Indices) -> float:
        """The share of rows that are predicted right, with these features."""
        codes = self._codes(X, y)
        if codes is not None:
            packed = self.packed(0)
            n_right = self.steps(X, codes, selected[None], selected[None], packed, trains=False)[0]
        else:
            self._masked = selected, self._mask(X, selected)
            n_right = (self.predictor.predict(self._masked[1]) == y).sum()
        return int(n_right) / len(y)

    def train(self, X: Floats, y: npt.NDArray[Any], selected: Indices) -> None:
        """Learn from a batch, with these features; then let it count for the scale."""
        codes = self._codes(X, y, first=self._n_batches == 0)
        if codes is not None:
            states, biases = packed = self.packed(1)
            sets, weight = selected[None], float(self._n_batches > 0)
            self.steps(X, codes, sets, sets, packed, tests=False, weight=weight)
            self.adopt(states[1], biases[1])
        else:
            if self._masked is None or not np.array_equal(self._masked[0], selected):
                self._masked = selected, self._mask(X, selected)
            self.predictor.partial_fit(self._masked[1], y)
            if self._n_batches:
                (p, q), (_, count, shift, spread, gain) = self._sums, self._state
                column_sums(*read_only(X), shift, count, p, q)
                merge(count, shift, spread, gain, p, q, ROUNDING)
        self._n_batches, self._masked = self._n_batches + 1, None

    def goes_fast(self, classes: npt.NDArray[Any]) -> bool:
        """Whether the predictor is the built-in perceptron of these classes, and compiled."""
        model = self.predictor
        fast = type(model) is Perceptron and self._n_batches >= _PLAIN
        return fast and np.array_equal(model.classes_, classes)

    def _codes(self, X: Floats, y: npt.NDArray[Any], first: bool = False) -> Indices | None:
        """The labels as 0 and 1, if they are the two classes of the built-in perceptron.

        Those of the ``first`` batch become its classes.
        """
        model = self.predictor
        if type(model) is not Perceptron or X.dtype != np.float64 or not X.flags.c_contiguous:
            return None
        if first and not hasattr(model, "classes_"):
            classes = np.unique(y)
            if len(classes) == 2:
                model.classes_, model.intercept_ = classes, np.zeros(1)
                model.coef_ = np.zeros((1, X.shape[1]))
        two = hasattr(model, "classes_") and len(model.classes_) == 2
        return known_codes(y, model.classes_) if two else None

    def packed(self, n_batches: int) -> tuple[Floats, Floats]:
        """What :meth:`steps` moves: the coefficients and the scale, and the intercept.

        What they are now, and room for what they will be after each batch.
        """
        states = np.empty((n_batches + 1, *self._state.shape))
        biases = np.empty((n_batches + 1, 1))
        states[0], states[0, 0] = self._state, self.predictor.coef_[0]
        biases[0] = self.predictor.intercept_
        return states, biases

    def steps(
        self,
        X: Floats,
        codes: Indices,
        before: Indices,
        after: Indices,
        packed: tuple[Floats, Floats],
        *,
        tests: bool = True,
        trains: bool = True,
        weight: float = 1.0,
    ) -> Indices:
        """Test what is :meth:`packed` on batches of equal length, and let it learn from them.

        Returns how many rows of each were predicted right; see
        :func:`fires.kernels.perceptron.perceptron_steps`.
        """
        n_batches, k = before.shape
        right = np.empty(n_batches, dtype=np.intp)
        rows = np.empty((len(codes) // n_batches + 1, k))
        early = self._n_batches < _PLAIN
        kernel: Callable[..., None] = perceptron_steps_plain if early else perceptron_steps
        kernel(
            *read_only(X),
            codes,
            before,
            after,
            tests,
            trains,
            weight,
            *packed,
            ROUNDING,
            rows,
            self._sums,
            right,
        )
        return right

    def adopt(self, state: Floats, bias: Floats) -> None:
        """Become what :meth:`steps` has led to; the arrays are taken over."""
        self._state = state
        self.predictor.coef_, self.predictor.intercept_ = state[:1], bias

    def _mask(self, X: Floats, selected: Indices) -> Floats:
        rows = np.zeros(X.shape)
        mask_rows(*read_only(X), selected, self._state[2], self._state[4], rows)
        return rows


def known_codes(y: npt.NDArray[Any], classes: npt.NDArray[Any]) -> Indices | None:
    """The place of each label among sorted classes; None if one is not among them.

    Examples
    --------
    >>> known_codes(np.array([1.0, 0.0]), np.array([0, 1]))
    array([1, 0])
    """
    if (y.dtype.kind in "biuf") != (classes.dtype.kind in "biuf"):
        return None  # a number is never the text that it is written as
    return labels.encode(y, classes)
