"""Predictors of our own: what can be said without any feature, and two linear ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.classes import NO_CLASSES, Classes, Codes, Labels, class_rows, encode
from fires.core.declared import Array, Declared, Value, collect, restore
from fires.core.sharding import weight_of
from fires.core.state import Arrays, State
from fires.core.types import Floats, Json, Label, Matrix
from fires.core.validation import repeated
from fires.kernels.linear import as_rows
from fires.kernels.online import least_squares_pass, perceptron_pass
from fires.predictors.base import Predictor

_SIGNS: Floats = np.array([-1.0, 1.0])


class BuiltIn(Predictor):
    """A predictor whose learnt attributes are declared, so that they can be saved."""

    _learnt: ClassVar[Declared]
    _attribute = "{}_"
    has_labels = True  # whether it learns classes
    _repeats_rows = False  # whether a row of weight w, a whole number, is learnt w times
    width: int | None = None  # how many features it has learnt

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
        header, arrays = collect(self, self._learnt, self._attribute)
        labels, more = self._classes_state() if self.has_labels else ({}, {})
        return header | labels, arrays | more

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
        if self.has_labels:
            self._restore_classes(header, arrays)
        if not self._learnt.keys().isdisjoint({*header, *arrays}):
            n = len(self._label_index_)
            sizes = {"K": n, "R": n if n > 2 else 1}
            restore(self, self._learnt, header, arrays, sizes, self._attribute)
        return self

    def check(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Raise an error if :meth:`learn` would refuse the batch. Nothing is learnt."""
        if self.has_labels:
            batch.labels(self._known(expected))
        else:
            y = np.asarray(batch.y)
            if y.dtype.kind not in "fiub" or not np.isfinite(y).all():
                raise ValueError(f"{self.name} learns finite numbers, and y holds something else.")
        known = self.width
        if known is not None and batch.X.shape[1] != known:
            # A compiled loop would follow them out of the coefficients.
            width = batch.X.shape[1]
            raise ValueError(f"X has {width} features, but this {self.name} has learnt {known}.")
        if self._repeats_rows and batch.weight is not None:
            repeated(batch.y, None, batch.weight, self.name)

    def predict(self, X: Matrix) -> Labels:
        """The label, or number, of each row."""
        return self.classes_[self.predict_codes(X)]


class Linear(BuiltIn):
    """A predictor with coefficients, from its first batch on."""

    coef_: Floats
    _repeats_rows = True

    @property
    def width(self) -> int | None:  # type: ignore[override]
        """How many features it has learnt; None before the first batch."""
        return self.coef_.shape[-1] if hasattr(self, "coef_") else None

    def restart_features(self, columns: npt.NDArray[np.intp]) -> None:
        """Set the coefficients of some features to 0. See :class:`Predictor`."""
        if self.width is not None:
            self.coef_[..., columns] = 0.0


class Majority(BuiltIn):
    """Predicts the most common label so far, whatever the features are.

    Features that do not beat this are worth nothing. Among equally common labels, it predicts the
    first.

    Attributes
    ----------
    counts_ : ndarray (n_classes,)
        The rows of each label so far, by their weight.

    Examples
    --------
    >>> model = Majority().partial_fit(np.zeros((3, 1)), np.array(["no", "yes", "no"]))
    >>> model.predict(np.ones((2, 1)))
    array(['no', 'no'], dtype='<U3')
    """

    _learnt: ClassVar[Declared] = {"counts": Array("K", low=0.0)}

    counts_: Floats = np.zeros(0)

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Count the labels of a batch."""
        before = self._known(expected)
        label_index, codes = batch.labels(before)
        counts = np.bincount(codes, batch.weight, len(label_index.labels)).astype(np.float64)
        if len(self.counts_):
            same = label_index is before
            places = slice(None) if same else encode(before.labels, label_index.labels)
            counts[places] += self.counts_
        self._label_index_, self.counts_ = label_index, counts

    @property
    def shares(self) -> dict[Label, float]:
        """The share of each label in the rows so far."""
        shares = self.counts_ / max(self.counts_.sum(), 1.0)
        return dict(zip(self.label_index.labels.tolist(), shares.tolist(), strict=True))

    def predict_codes(self, X: Matrix) -> Codes:
        """The index in ``classes_`` of the most common label, once for each row."""
        return np.full(X.shape[0], self.counts_.argmax(), dtype=np.intp)


class Mean(BuiltIn):
    """Predicts the mean of all numbers so far, whatever the features are.

    Examples
    --------
    >>> Mean().partial_fit(np.zeros((2, 1)), np.array([1.0, 2.0])).predict(np.ones((1, 1)))
    array([1.5])
    """

    _learnt: ClassVar[Declared] = {"weight": Value(float, low=0.0), "mean": Value(float)}
    _attribute, has_labels = "_{}", False

    _weight = _mean = 0.0

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Move the mean by the numbers of a batch."""
        y = np.asarray(batch.y, dtype=np.float64)
        weight = weight_of(batch)
        if (added := float(weight.sum())) > 0.0:
            self._weight += added
            self._mean += float(weight @ (y - self._mean)) / self._weight

    def predict(self, X: Matrix) -> Labels:
        """The mean, once for each row."""
        return np.full(X.shape[0], self._mean)


class Perceptron(Linear):
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

    _learnt: ClassVar[Declared] = {"coef": Array("R", "J"), "intercept": Array("R")}

    intercept_: Floats

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Learn from every row in order. A row of weight w, a whole number, is learnt w times."""
        before = self._known(expected)
        label_index, codes = batch.labels(before)
        X = batch.X
        if batch.weight is not None:
            X, codes = repeated(X, codes, batch.weight, self.name)
        self._label_index_ = label_index
        if self.width is None:
            n_classes = len(label_index.labels)
            n_rows = n_classes if n_classes > 2 else 1
            self.coef_, self.intercept_ = np.zeros((n_rows, X.shape[1])), np.zeros(n_rows)
        elif label_index is not before:
            known = self.coef_, self.intercept_
            self.coef_, self.intercept_ = with_classes(*known, before.labels, label_index.labels)
        perceptron_pass(as_rows(X), self._signs(codes), self.coef_, self.intercept_)

    def predict_codes(self, X: Matrix) -> Codes:
        """The index of each row's label in ``classes_``."""
        n_classes = len(self._label_index_.labels)
        if n_classes == 1:
            return np.zeros(X.shape[0], dtype=np.intp)
        if n_classes == 2:
            return np.asarray((X @ self.coef_[0] > -self.intercept_[0]).astype(np.intp))
        if sp.issparse(X):  # SciPy would copy coef_.T, however few entries there are
            scores = np.column_stack([X @ row for row in self.coef_])
        else:
            scores = X @ self.coef_.T
        return np.asarray((scores + self.intercept_).argmax(axis=1))

    def _signs(self, codes: Codes) -> Floats:
        if len(self.coef_) == 1:  # while only one class is known, it is the positive one
            alone = len(self._label_index_.labels) == 1
            signs: Floats = _SIGNS[codes + 1 if alone else codes]
            return signs[None]
        return np.where(codes == np.arange(len(self.coef_))[:, None], 1.0, -1.0)


class LinearRegressor(Linear):
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

    _learnt: ClassVar[Declared] = {"coef": Array("J"), "own": Array(2)}
    has_labels = False

    own_: Floats

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Learn from every row in order. A row of weight w, a whole number, is learnt w times."""
        X, y = repeated(batch.X, batch.y, batch.weight, self.name)
        y = y.astype(np.float64)
        if self.width is None:
            middle = np.median(y)
            off = np.sort(np.abs(y - middle))[: max(int(0.9 * len(y)), 1)]
            self.coef_, self.own_ = np.zeros(X.shape[1]), np.array([middle, off.mean()])
        least_squares_pass(as_rows(X), y, self.coef_, self.own_)

    def predict(self, X: Matrix) -> Labels:
        """The number of each row."""
        return np.asarray(X @ self.coef_ + self.own_[0])


def with_classes(
    coef: Floats, intercept: Floats, before: Labels, after: Labels, share: float = 1.0
) -> tuple[Floats, Floats]:
    """The coefficients for more classes, a share of the old ones; those of new classes are 0."""
    sources = [source or (0, 0.0) for source in class_rows(before, after)]
    return (
        np.array([share * sign * coef[old] for old, sign in sources]),
        np.array([share * sign * intercept[old] for old, sign in sources]),
    )
