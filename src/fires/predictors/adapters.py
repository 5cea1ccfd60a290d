"""Models of other libraries as predictors: estimators of scikit-learn, and classifiers of River.

Among those of River are the two that the paper used.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from fires.core.batch import CheckedBatch
from fires.core.classes import NO_CLASSES, Classes, Labels
from fires.core.estimators import learnt_state, take_up
from fires.core.optional import require
from fires.core.randomness import generator
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Floats, Label, Matrix, Seed
from fires.core.validation import repeated
from fires.predictors.base import Predictor, can


class Adapter(Predictor):
    """A model of another library: ``inner`` is the object that the user passed."""

    _learns_by: ClassVar[tuple[str, str]]  # its method, and what that calls the weights

    def __init__(self, wrapped: Any) -> None:
        self._wrapped = wrapped

    @property
    def inner(self) -> Any:
        """The object that the user passed."""
        return self._wrapped

    def _takes(self, option: str) -> bool:
        return option in inspect.signature(getattr(self.inner, self._learns_by[0])).parameters

    def _check_weights(self, batch: CheckedBatch) -> None:
        if not self._takes(self._learns_by[1]):
            repeated(batch.y, None, batch.weight, self.name)

    def _rows(self, batch: CheckedBatch) -> tuple[Matrix, Labels, dict[str, Floats]]:
        """Rows and target, with weights for a model that takes some; else rows are repeated."""
        name, weight = self._learns_by[1], batch.weight
        if self._takes(name):
            assert batch.y is not None
            return batch.X, batch.y, {} if weight is None else {name: weight}
        return *repeated(batch.X, batch.y, weight, self.name), {}


class SklearnPredictor(Adapter):
    """A scikit-learn estimator with ``partial_fit``, whose classes are fixed by the first batch."""

    _learns_by = "partial_fit", "sample_weight"

    def __init__(self, estimator: BaseEstimator) -> None:
        super().__init__(estimator)
        if self._has_started:
            self._label_index_ = Classes(np.asarray(estimator.classes_))

    @property
    def takes_classes(self) -> bool:
        """Whether the estimator learns classes, and has to know all of them beforehand."""
        return self._takes("classes")

    @property
    def _has_started(self) -> bool:
        return hasattr(self.inner, "classes_")

    def fresh(self) -> SklearnPredictor:
        """A clone of the estimator, which has learnt nothing."""
        return SklearnPredictor(clone(self.inner))

    def foresee(self, y: Labels) -> None:
        """Know the labels that will come, before the first batch."""
        if self.takes_classes:
            self._label_index_, _ = NO_CLASSES.take(y, None)

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Learn from a batch."""
        options: dict[str, Labels] = {}
        if self.takes_classes:
            self._label_index_, codes = batch.labels(self._known(expected))
            batch = replace(batch, y=self.classes_[codes])
            if not self._has_started:
                options["classes"] = self.classes_
        X, y, weights = self._rows(batch)
        self.inner.partial_fit(X, y, **options, **weights)

    def check(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Raise an error if :meth:`learn` would refuse the batch; the estimator is not called."""
        self._check_weights(batch)
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
        return np.asarray(self.inner.predict(X))

    @available_if(lambda self: can(self.inner, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Matrix) -> Floats:
        """The probability of each of ``classes_``, for each row."""
        return np.asarray(self.inner.predict_proba(X))

    def state(self) -> State:
        """What was learnt, as JSON values and arrays, without the settings of the estimator.

        An estimator with ``state()`` and ``restore(header, arrays)`` of its own is asked for it.
        """
        header, arrays = self._classes_state()
        own = can(self.inner, "state", "restore")
        learnt, found = self.inner.state() if own else learnt_state(self.inner)
        return header | {"estimator": learnt}, arrays | under("estimator", found)

    def restore(self, header: dict[str, Any], arrays: Arrays) -> Self:
        """Go on from :meth:`state`."""
        learnt, found = header["estimator"], part_of("estimator", arrays)
        if can(self.inner, "state", "restore"):
            self.inner.restore(learnt, found)
        else:
            self._wrapped = take_up(self.inner, learnt, found, "predictor", single=True)
        self._restore_classes(header, arrays)
        return self


class RiverPredictor(Adapter):
    """A classifier of River, which learns row by row from dictionaries.

    The model always sees features called x0, x1, ... A binary model, such as
    ``LogisticRegression``, is told True for the positive label: the greater label of the first
    batch, or the only one in it.
    """

    _learns_by = "learn_one", "w"

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self._sides: dict[Label, bool] = {}  # the label that a binary model knows as True or False

    def fresh(self) -> RiverPredictor:
        """River's own clone of the model, which has learnt nothing."""
        return RiverPredictor(self.inner.clone())

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Learn from every row in order."""
        self._label_index_, _ = batch.labels(self._known(expected))
        X, y, weights = self._rows(batch)
        each = weights.get("w", np.ones(len(y))).tolist()
        for x, label, w in zip(self.dicts(X), self._told(y), each, strict=True):
            if w:
                self.inner.learn_one(x, label, **({"w": w} if weights else {}))

    def check(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Raise an error if :meth:`learn` would refuse the batch, without calling the model."""
        self._check_weights(batch)
        known = batch.labels(self._known(expected))[0].labels
        if not self.inner._multiclass and len(known) > 2:
            raise ValueError(
                f"{self.name} of River tells two classes apart; these are {known.tolist()}: "
                "wrap it in river.multiclass.OneVsRestClassifier."
            )

    def predict(self, X: Matrix) -> Labels:
        """The label of each row."""
        place = {name: code for code, name in enumerate(self._names())}
        codes = [place.get(self.inner.predict_one(x), 0) for x in self.dicts(X)]
        return self.classes_[codes]

    @available_if(lambda self: _gives_probabilities(self.inner))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Matrix) -> Floats:
        """The probability of each of ``classes_``, for each row."""
        names = self._names()
        predicted = [self.inner.predict_proba_one(x) for x in self.dicts(X)]
        shares = [[row.get(name, 0.0) for name in names] for row in predicted]
        P = np.array(shares, dtype=np.float64).reshape(len(predicted), len(names))
        sums = P.sum(axis=1, keepdims=True)
        fair = np.isfinite(sums) & (sums > 0.0)
        equal: Floats = np.full_like(P, 1.0 / len(names))
        np.divide(P, sums, out=equal, where=fair)
        return equal

    def dicts(self, X: Matrix) -> Iterator[dict[Any, float]]:
        """The rows in the form the model takes."""
        names = [f"x{column}" for column in range(X.shape[1])]
        for b in range(X.shape[0]):
            row = X[b] if isinstance(X, np.ndarray) else X[[b]].toarray()[0]
            yield dict(zip(names, row.tolist(), strict=True))

    def _told(self, y: Labels) -> list[Label]:
        """The labels in the form the model takes."""
        if self.inner._multiclass:
            return list(y.tolist())
        for label in self.classes_.tolist()[::-1]:
            if label not in self._sides:
                self._sides[label] = not any(self._sides.values())
        return [self._sides[label] for label in y.tolist()]

    def _names(self) -> list[Label]:
        """The model's own names of ``classes_``, in the same order."""
        if not len(self._label_index_):
            raise NotFittedError("RiverPredictor has learnt nothing yet: call partial_fit first.")
        names = self.classes_.tolist()
        return list(names) if self.inner._multiclass else [self._sides[name] for name in names]


def hoeffding_tree(**settings: Any) -> RiverPredictor:
    """River's Hoeffding tree with majority class in the leaves: VFDT, with the paper's settings.

    Parameters
    ----------
    **settings
        Other settings of ``river.tree.HoeffdingTreeClassifier``, or other values of these:
        ``grace_period=200``, ``delta=1e-7``, ``tau=0.05``, ``leaf_prediction="mc"``.

    Returns
    -------
    RiverPredictor

    References
    ----------
    P. Domingos and G. Hulten, "Mining High-Speed Data Streams", KDD 2000.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> model = hoeffding_tree().partial_fit(X, X[:, 1] > 0)
    >>> float((model.predict(X) == (X[:, 1] > 0)).mean()) > 0.95
    True
    """
    tree = require("river.tree", "hoeffding_tree")
    defaults = {"grace_period": 200, "delta": 1e-7, "tau": 0.05, "leaf_prediction": "mc"}
    return RiverPredictor(tree.HoeffdingTreeClassifier(**(defaults | settings)))


def boosting(random_state: Seed = 0, *, n_models: int = 3) -> RiverPredictor:
    r"""River's online boosting of Gaussian naive Bayes, in place of the paper's.

    One member after the other learns a row Poisson(:math:`\lambda`) times. :math:`\lambda` starts
    at 1 and grows with every member that predicts the row wrongly.

    **This is not the method of the paper's tables.** The paper used the variant of
    scikit-multiflow. There, a member that learns a row zero times leaves :math:`\lambda` as it is,
    a perfect member has no vote, and densities are multiplied without logarithms, which fails for
    many features. River's method also differs a little from that of Oza and Russell. They multiply
    :math:`\lambda` by :math:`N / (2 s_m)`, with N the rows so far and :math:`s_m` the weight that
    member m got right (or wrong). River uses the weight that the member has seen in place of N.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None
        For the Poisson numbers.
    n_models : int
        How many members there are.

    Returns
    -------
    RiverPredictor

    References
    ----------
    N. C. Oza and S. Russell, "Online Bagging and Boosting", AISTATS 2001.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 3))
    >>> model = boosting().partial_fit(X, X[:, 1] > 0)
    >>> float((model.predict(X) == (X[:, 1] > 0)).mean()) > 0.9
    True
    """
    ensemble = require("river.ensemble", "boosting")
    bayes = require("river.naive_bayes", "boosting")
    seed = int(generator(random_state, "boosting").integers(2**31))
    model = ensemble.AdaBoostClassifier(bayes.GaussianNB(), n_models=n_models, seed=seed)
    return RiverPredictor(model)


def _gives_probabilities(model: Any) -> bool:
    base = require("river.base", "RiverPredictor")
    return type(model).predict_proba_one is not base.Classifier.predict_proba_one


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
