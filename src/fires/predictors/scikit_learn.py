"""Estimators of scikit-learn, and other objects, as predictors."""

from __future__ import annotations

import inspect
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.metaestimators import available_if

from fires.core.batch import CheckedBatch
from fires.core.classes import NO_CLASSES, Classes, Labels
from fires.core.estimators import learnt_state, take_up
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Floats, Matrix
from fires.core.validation import repeated
from fires.predictors.base import Predictor, can
from fires.predictors.river import RiverPredictor


class SklearnPredictor(Predictor):
    """A scikit-learn estimator with ``partial_fit``, whose classes are fixed by the first batch."""

    def __init__(self, estimator: BaseEstimator) -> None:
        self.estimator = estimator
        if self._has_started:
            self._label_index_ = Classes(np.asarray(estimator.classes_))

    @property
    def inner(self) -> BaseEstimator:
        """The estimator."""
        return self.estimator

    @property
    def takes_classes(self) -> bool:
        """Whether the estimator learns classes, and has to know all of them beforehand."""
        return self._takes("classes")

    def _takes(self, option: str) -> bool:
        return option in inspect.signature(self.estimator.partial_fit).parameters

    @property
    def _has_started(self) -> bool:
        return hasattr(self.estimator, "classes_")

    def fresh(self) -> SklearnPredictor:
        """A clone of the estimator, which has learnt nothing."""
        return SklearnPredictor(clone(self.estimator))

    def foresee(self, y: Labels) -> None:
        """Know the labels that will come, before the first batch."""
        if self.takes_classes:
            self._label_index_, _ = NO_CLASSES.take(y, None)

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Learn from a batch."""
        self.check(batch, expected)
        options: dict[str, Floats | Labels] = {}
        X, y = batch.X, batch.y
        if self.takes_classes:
            self._label_index_, codes = batch.labels(self._known(expected))
            y = self.classes_[codes]
            if not self._has_started:
                options["classes"] = self.classes_
        if not self._takes("sample_weight"):
            X, y = repeated(X, y, batch.weight, self.name)
        elif batch.weight is not None:
            options["sample_weight"] = batch.weight
        self.estimator.partial_fit(X, y, **options)

    def check(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Raise an error if :meth:`learn` would refuse the batch; the estimator is not called."""
        if not self._takes("sample_weight"):
            repeated(batch.y, None, batch.weight, self.name)
        if not self.takes_classes:
            return
        before = self._known(expected)
        known = batch.labels(before)[0].labels.tolist()
        if len(known) < 2:
            raise ValueError(
                f"{self.name} must know all classes from its first batch on, which holds only one "
                f"class, {known[0]!r}: pass them as classes=."
            )
        if self._has_started and len(before) < len(known):
            started = before.labels.tolist()
            new = next(label for label in known if label not in started)
            raise ValueError(
                f"{self.name} has started with the classes {started} and cannot add {new!r}: "
                "pass all of them as classes= to the first partial_fit."
            )

    def predict(self, X: Matrix) -> Labels:
        """The label of each row."""
        prediction: Labels = self.estimator.predict(X)
        return prediction

    @available_if(lambda self: can(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Matrix) -> Floats:
        """The probability of each of ``classes_``, for each row."""
        probabilities: Floats = self.estimator.predict_proba(X)
        return probabilities

    def state(self) -> State:
        """What was learnt, as JSON values and arrays, without the settings of the estimator.

        An estimator with ``state()`` and ``restore(header, arrays)`` of its own is asked for it.
        """
        header, arrays = self._classes_state()
        own = can(self.estimator, "state", "restore")
        learnt, found = self.estimator.state() if own else learnt_state(self.estimator)
        return header | {"estimator": learnt}, arrays | under("estimator", found)

    def restore(self, header: dict[str, Any], arrays: Arrays) -> Self:
        """Go on from :meth:`state`."""
        learnt, found = header["estimator"], part_of("estimator", arrays)
        if can(self.estimator, "state", "restore"):
            self.estimator.restore(learnt, found)
        else:
            self.estimator = take_up(self.estimator, learnt, found, "predictor", single=True)
        self._restore_classes(header, arrays)
        return self


def as_predictor(model: Any) -> Any:
    """Make a predictor of an object; a predictor is returned as it is."""
    if can(model, "learn_one") and not isinstance(model, type):
        return RiverPredictor(model)
    if not can(model, "partial_fit", "predict") or isinstance(model, type):
        raise TypeError(
            "A predictor is a classifier of River, or an object with partial_fit and predict; "
            f"this is {model!r}."
        )
    takes = inspect.signature(model.partial_fit).parameters
    # Estimators of scikit-learn take both too, but must know all classes beforehand: they are
    # wrapped below.
    if {"classes", "sample_weight"} <= set(takes) and not can(model, "get_params"):
        return model
    return SklearnPredictor(model)
