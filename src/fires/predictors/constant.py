"""What one can say without any feature: the class that was most common so far, or the mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.classes import NO_CLASSES, Classes, Codes, Labels, encode
from fires.core.declared import Array, Value, collect, restore
from fires.core.state import Arrays, State
from fires.core.types import Floats, Json, Label, Matrix
from fires.predictors.base import Predictor
from fires.predictors.regressor import check_target

_COUNTS = {"counts": Array("K", low=0.0)}
_MEAN = {"weight": Value(float, low=0.0), "mean": Value(float)}


class Majority(Predictor):
    """Says the label that was most common so far, whatever the features are.

    Features that do not lead to more than this are worth nothing. Of equally common labels, it says
    the first.

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

    def __init__(self) -> None:
        self.counts_: Floats = np.zeros(0)

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Count the labels of a batch."""
        before = self._known(expected)
        label_index, codes = batch.labels(before)
        counts = np.bincount(codes, weights=batch.weight, minlength=len(label_index)).astype(
            np.float64
        )
        if len(self.counts_):
            kept = (
                slice(None) if label_index is before else encode(before.labels, label_index.labels)
            )
            counts[kept] += self.counts_
        self._label_index_, self.counts_ = label_index, counts

    @property
    def shares(self) -> dict[Label, float]:
        """The share of each label in the rows so far."""
        shares = self.counts_ / max(self.counts_.sum(), 1.0)
        return dict(zip(self.label_index.labels.tolist(), shares.tolist(), strict=True))

    def predict(self, X: Matrix) -> Labels:
        """The most common label, once for each row."""
        label: Labels = self.classes_[self.predict_codes(X)]
        return label

    def predict_codes(self, X: Matrix) -> Codes:
        """The index in ``classes_`` of the most common label, once for each row."""
        return np.full(X.shape[0], self.counts_.argmax(), dtype=np.intp)

    def state(self) -> State:
        """Everything there is to save: a header of JSON values, and arrays.

        Returns
        -------
        header, arrays : dict
        """
        header, arrays = self._classes_state()
        return header, arrays | collect(self, _COUNTS, "{}_")[1]

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
        self._restore_classes(header, arrays)
        restore(self, _COUNTS, header, arrays, {"K": len(self._label_index_)}, "{}_")
        return self


class Mean(Predictor):
    """Says the mean of all numbers so far, whatever the features are.

    Examples
    --------
    >>> Mean().partial_fit(np.zeros((2, 1)), np.array([1.0, 2.0])).predict(np.ones((1, 1)))
    array([1.5])
    """

    def __init__(self) -> None:
        self._weight = self._mean = 0.0

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Move the mean by the numbers of a batch."""
        self.check(batch)
        y = np.asarray(batch.y, dtype=np.float64)
        weight = np.ones(len(y)) if batch.weight is None else batch.weight
        if (added := float(weight.sum())) > 0.0:
            self._weight += added
            self._mean += float(weight @ (y - self._mean)) / self._weight

    def check(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Raise an error if :meth:`learn` would refuse the batch. Nothing is learnt."""
        check_target(batch.y, "Mean")

    def predict(self, X: Matrix) -> Labels:
        """The mean, once for each row."""
        return np.full(X.shape[0], self._mean)

    def state(self) -> State:
        """Everything there is to save: a header of JSON values, and no arrays.

        Returns
        -------
        header, arrays : dict
        """
        return collect(self, _MEAN, "_{}")

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
        restore(self, _MEAN, header, arrays, {}, "_{}")
        return self
