"""Classifiers of River as predictors, among them the two that the paper used."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from fires.core.batch import CheckedBatch
from fires.core.classes import NO_CLASSES, Classes, Labels
from fires.core.optional import require
from fires.core.randomness import generator
from fires.core.types import Floats, Label, Matrix, Seed
from fires.core.validation import repeated
from fires.predictors.base import Predictor


class RiverPredictor(Predictor):
    """A classifier of River, which learns row by row from dictionaries.

    The model always sees features called x0, x1, ... A binary model, such as
    ``LogisticRegression``, is told True for the positive label: the greater label of the first
    batch, or the only one in it.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._sides: dict[Label, bool] = {}  # the label that a binary model knows as True or False

    @property
    def inner(self) -> Any:
        """The model of River."""
        return self.model

    def fresh(self) -> RiverPredictor:
        """River's own clone of the model, which has learnt nothing."""
        return RiverPredictor(self.model.clone())

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Learn from every row in order."""
        self.check(batch, expected)
        X, y, weight = batch.X, batch.y, batch.weight
        self._label_index_, _ = batch.labels(self._known(expected))
        if not self._takes_weights:
            X, y = repeated(X, y, weight, self.name)
            weight = None
        told = self._told(y)
        if weight is None:
            for x, label in zip(_rows(X), told, strict=True):
                self.model.learn_one(x, label)
        else:
            for x, label, w in zip(_rows(X), told, weight.tolist(), strict=True):
                if w:
                    self.model.learn_one(x, label, w=w)

    def check(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Raise an error if :meth:`learn` would refuse the batch, without calling the model."""
        if not self._takes_weights:
            repeated(batch.y, None, batch.weight, self.name)
        known = batch.labels(self._known(expected))[0].labels
        if not self.model._multiclass and len(known) > 2:
            raise ValueError(
                f"{self.name} of River tells two classes apart; these are {known.tolist()}: "
                "wrap it in river.multiclass.OneVsRestClassifier."
            )

    @property
    def _takes_weights(self) -> bool:
        return "w" in inspect.signature(self.model.learn_one).parameters

    def predict(self, X: Matrix) -> Labels:
        """The label of each row."""
        place = {name: code for code, name in enumerate(self._names())}
        codes = [place.get(self.model.predict_one(x), 0) for x in _rows(X)]
        return self.classes_[codes]

    @available_if(lambda self: _gives_probabilities(self.model))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Matrix) -> Floats:
        """The probability of each of ``classes_``, for each row."""
        names = self._names()
        predicted = [self.model.predict_proba_one(x) for x in _rows(X)]
        shares = [[row.get(name, 0.0) for name in names] for row in predicted]
        P = np.array(shares, dtype=np.float64).reshape(len(predicted), len(names))
        sums = P.sum(axis=1, keepdims=True)
        fair = np.isfinite(sums) & (sums > 0.0)
        equal: Floats = np.full_like(P, 1.0 / len(names))
        np.divide(P, sums, out=equal, where=fair)
        return equal

    def _told(self, y: Labels | None) -> list[Label]:
        """The labels in the form the model takes."""
        assert y is not None
        if self.model._multiclass:
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
        return list(names) if self.model._multiclass else [self._sides[name] for name in names]


def _rows(X: Matrix) -> Iterator[dict[str, float]]:
    names = [f"x{column}" for column in range(X.shape[1])]
    for b in range(X.shape[0]):
        row = X[b] if isinstance(X, np.ndarray) else X[[b]].toarray()[0]
        yield dict(zip(names, row.tolist(), strict=True))


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
    tree = _river("tree", "hoeffding_tree")
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
    ensemble, bayes = _river("ensemble", "boosting"), _river("naive_bayes", "boosting")
    seed = int(generator(random_state, "boosting").integers(2**31))
    model = ensemble.AdaBoostClassifier(bayes.GaussianNB(), n_models=n_models, seed=seed)
    return RiverPredictor(model)


def _river(part: str, who: str) -> ModuleType:
    require("river", who)
    return require(f"river.{part}", who)


def _gives_probabilities(model: Any) -> bool:
    base = _river("base", "RiverPredictor")
    return type(model).predict_proba_one is not base.Classifier.predict_proba_one
