"""Predictors that live through changes of the selected set: ours, scikit-learn's and River's.

All have ``partial_fit(X, y, classes=None, sample_weight=None)`` and ``predict(X)``, those that can
also ``predict_proba(X)``, and then ``classes_``. :func:`as_predictor` makes them of other objects.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from fires.core import labels
from fires.core.belief import Floats
from fires.core.optional import require
from fires.core.randomness import generator
from fires.core.validation import as_classes, as_weights
from fires.kernels.perceptron import perceptron_pass
from fires.selectors.base import repeated

Labels = npt.NDArray[Any]


def as_predictor(model: Any) -> Any:
    """A predictor of whatever can be one; what is one already is handed back.

    Parameters
    ----------
    model : object
        A classifier of River (with ``learn_one``), or anything with scikit-learn's ``partial_fit``
        and ``predict``. It is wrapped and not copied: what is learnt, it learns itself.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> type(as_predictor(GaussianNB())).__name__
    'SklearnPredictor'
    """
    if hasattr(model, "learn_one") and not isinstance(model, type):
        return RiverPredictor(model)
    if not (hasattr(model, "partial_fit") and hasattr(model, "predict")) or isinstance(model, type):
        raise TypeError(
            "A predictor is a classifier of River, or an object with partial_fit and predict; "
            f"this is {model!r}."
        )
    takes = inspect.signature(model.partial_fit).parameters
    # An estimator of scikit-learn takes both, and yet has to know all classes beforehand.
    if {"classes", "sample_weight"} <= set(takes) and not hasattr(model, "get_params"):
        return model
    return SklearnPredictor(model)


class _Classes:
    """The labels that a predictor knows: as they arrive, or all of them given beforehand."""

    classes_: Labels
    _given: Any = None

    def _take(self, y: Labels, classes: Any) -> tuple[Labels, labels.Codes]:
        """The classes once ``y`` has been seen, and the places of its labels among them."""
        known: Labels | None = getattr(self, "classes_", None)
        if classes is not None and classes is not self._given:
            given = labels.merge_classes(None, as_classes(classes))
            if known is not None and labels.encode(known, given) is None:
                raise ValueError(
                    f"classes={given.tolist()} does not hold all the classes known so far, "
                    f"{known.tolist()}."
                )
            known = given
        elif known is None or self._given is None:
            return labels.take(known, y)
        codes = labels.encode(y, known)
        if codes is None:
            unknown = next(label for label in y.tolist() if label not in known.tolist())
            raise ValueError(
                f"y holds the label {unknown!r}, which is not in classes={known.tolist()}."
            )
        return known, codes

    def _keep(self, known: Labels, classes: Any) -> None:
        self.classes_ = known
        if classes is not None:
            self._given = classes


class Perceptron(_Classes):
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
        if sp.issparse(X):
            raise ValueError(
                "This Perceptron needs dense rows; scikit-learn's SGDClassifier takes sparse ones."
            )
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

    def predict(self, X: Floats) -> Labels:
        """The label of each row."""
        score = X @ self.coef_.T + self.intercept_
        if len(self.classes_) == 1:
            return np.full(len(X), self.classes_[0])
        best = score.argmax(axis=1) if score.shape[1] > 1 else (score[:, 0] > 0).astype(np.intp)
        prediction: Labels = self.classes_[best]
        return prediction

    def state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Everything there is to save: a header of JSON values, and arrays.

        Examples
        --------
        >>> model = Perceptron().partial_fit(np.eye(2), np.array([0, 1]))
        >>> again = Perceptron().restore(*model.state())
        >>> again.predict(np.eye(2))
        array([0, 1])
        """
        header: dict[str, Any] = {"classes_given": self._given is not None}
        if not hasattr(self, "classes_"):
            return header, {}
        arrays = {"coef": self.coef_.copy(), "intercept": self.intercept_.copy()}
        if self.classes_.dtype.kind in "OUS":
            header["classes"] = [self.classes_.dtype.str, self.classes_.tolist()]
        else:
            arrays["classes"] = self.classes_.copy()
        return header, arrays

    def restore(self, header: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Self:
        """Become what gave this :meth:`state`."""
        vars(self).clear()
        if "coef" not in arrays:
            return self
        if "classes" in header:
            kind, values = header["classes"]
            self.classes_ = np.array(values, dtype=object if kind == "|O" else kind)
        else:
            self.classes_ = arrays["classes"].copy()
        self.coef_, self.intercept_ = arrays["coef"].copy(), arrays["intercept"].copy()
        n_rows = len(self.classes_) if len(self.classes_) > 2 else 1
        if self.coef_.shape[:1] != (n_rows,) or self.intercept_.shape != (n_rows,):
            raise ValueError(
                f"Not the state of a Perceptron: coefficients of shape {self.coef_.shape} and "
                f"intercepts of shape {self.intercept_.shape} for {len(self.classes_)} classes."
            )
        if header["classes_given"]:
            self._given = self.classes_
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


class SklearnPredictor(_Classes):
    """A scikit-learn estimator with ``partial_fit``, whose classes are fixed by the first batch.

    Parameters
    ----------
    estimator : estimator
        Has ``partial_fit`` and ``predict``. It has to know all classes from its first batch on;
        where that batch does not hold them all, they are to be given as ``classes=``. Where its
        ``partial_fit`` takes no ``sample_weight``, weights must be whole numbers and rows are
        repeated; where it takes no ``classes``, y is handed on as it is.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> model = SklearnPredictor(SGDClassifier(random_state=0))
    >>> _ = model.partial_fit(np.eye(3), np.array(["a", "b", "a"]))
    >>> model.predict(np.eye(3))
    array(['a', 'b', 'a'], dtype='<U1')
    >>> model.partial_fit(np.eye(3), np.array(["a", "b", "c"]))
    Traceback (most recent call last):
    ...
    ValueError: SGDClassifier has started with the classes ['a', 'b'] and cannot add 'c': give all
    of them with the first batch, as classes=.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        if hasattr(estimator, "classes_"):  # it has learnt before
            self.classes_ = estimator.classes_

    def partial_fit(
        self, X: Any, y: Labels, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from a batch; ``classes`` are all labels there will ever be."""
        name = type(self.estimator).__name__
        takes = inspect.signature(self.estimator.partial_fit).parameters
        options: dict[str, Any] = {}
        weight = as_weights(sample_weight, len(y))
        if "sample_weight" not in takes:
            X, y = repeated(X, y, weight, name)
        elif weight is not None:
            options["sample_weight"] = weight
        if "classes" in takes:
            before = getattr(self, "classes_", None)
            known, _ = self._take(y, classes)
            if len(known) < 2:
                raise ValueError(
                    f"{name} must know all classes from its first batch on, which holds only "
                    f"{known.tolist()[0]!r}: give them as classes=."
                )
            if before is not None and len(before) < len(known):
                new = next(label for label in known.tolist() if label not in before.tolist())
                raise ValueError(
                    f"{name} has started with the classes {before.tolist()} and cannot add "
                    f"{new!r}: give all of them with the first batch, as classes=."
                )
            if before is None:
                options["classes"] = known
            self._keep(known, classes)
        self.estimator.partial_fit(X, y, **options)
        return self

    def predict(self, X: Any) -> Labels:
        """The label of each row."""
        prediction: Labels = self.estimator.predict(X)
        return prediction

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """The probability of each of ``classes_``, for each row."""
        probabilities: Floats = self.estimator.predict_proba(X)
        return probabilities


class RiverPredictor(_Classes):
    """A classifier of River, which learns row by row from dictionaries.

    Features are called x0, x1, ..., always. A River model that is binary by nature, such as
    ``LogisticRegression``, is told which of two labels is the positive one: the greater of those in
    the first batch, or the only one there.

    Parameters
    ----------
    model : river.base.Classifier
        What learns.
    features : {"all", "nonzero"}, default="all"
        Which features of a row the model is shown. Zeros are values like others with ``"all"``,
        and a row costs as much as it is wide, a sparse one too. With ``"nonzero"`` they are not
        there at all: a tree follows its more travelled branch, naive Bayes leaves the feature out.
        That is cheaper, and another model.
    mini_batches : bool, default=False
        Whether to use ``learn_many``, ``predict_many`` and ``predict_proba_many``, which some
        models of River have; needs pandas. That is faster, and another model too: linear ones take
        one step for each batch and not one for each row.

    Notes
    -----
    ``sample_weight`` is passed on to a model whose ``learn_one`` takes ``w``; otherwise weights
    must be whole numbers, and a row is learnt that often. Where a model predicts nothing, as
    boosting may when it has learnt little, the prediction is the first class, and all classes are
    equally probable.

    Examples
    --------
    >>> model = hoeffding_tree().partial_fit(np.eye(3), np.array(["a", "b", "a"]))
    >>> model.predict(np.eye(3)), model.predict_proba(np.eye(3)[:1])
    (array(['a', 'a', 'a'], dtype='<U1'), array([[0.66666667, 0.33333333]]))
    """

    def __init__(self, model: Any, *, features: str = "all", mini_batches: bool = False) -> None:
        if features not in ("all", "nonzero"):
            raise ValueError(f"features must be 'all' or 'nonzero', not {features!r}.")
        if mini_batches and not hasattr(model, "learn_many"):
            raise ValueError(f"{type(model).__name__} of River has no learn_many.")
        if mini_batches and features != "all":
            raise ValueError("Mini-batches show a model of River all features.")
        self.model = model
        self.features = features
        self.mini_batches = mini_batches
        self._sides: dict[Any, bool] = {}  # what a binary model calls the labels

    def partial_fit(
        self, X: Any, y: Labels, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from every row in order.

        Parameters
        ----------
        X : ndarray or CSR matrix (n_rows, n_features)
            Rows of full width.
        y : ndarray (n_rows,)
            Their labels.
        classes : sequence, optional
            All labels there will ever be. Without it, new ones are added as they arrive.
        sample_weight : array-like, optional
            How often each row appears.
        """
        weight = as_weights(sample_weight, len(y))
        weighs = "w" in inspect.signature(self.model.learn_one).parameters
        if not weighs or self.mini_batches:
            X, y = repeated(X, y, weight, type(self.model).__name__)
            weight = None
        known, _ = self._take(y, classes)
        told = self._told(known, y)
        self._keep(known, classes)
        if self.mini_batches:
            self.model.learn_many(self._frame(X), _pandas().Series(told))
        elif weight is None:
            for x, label in zip(self._rows(X), told, strict=True):
                self.model.learn_one(x, label)
        else:
            for x, label, w in zip(self._rows(X), told, weight.tolist(), strict=True):
                if w:
                    self.model.learn_one(x, label, w=w)
        return self

    def predict(self, X: Any) -> Labels:
        """The label of each row."""
        self._check_fitted()
        if self.mini_batches:
            said = self.model.predict_many(self._frame(X)).tolist()
        else:
            said = [self.model.predict_one(x) for x in self._rows(X)]
        place = {name: code for code, name in enumerate(self._names())}
        prediction: Labels = self.classes_[[place.get(name, 0) for name in said]]
        return prediction

    @available_if(lambda self: _gives_probabilities(self.model))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Floats:
        """The probability of each of ``classes_``, for each row."""
        self._check_fitted()
        if self.mini_batches:
            said = self.model.predict_proba_many(self._frame(X)).to_dict("records")
        else:
            said = [self.model.predict_proba_one(x) for x in self._rows(X)]
        names = self._names()
        shares = [[row.get(name, 0.0) for name in names] for row in said]
        P = np.array(shares, dtype=np.float64).reshape(len(said), len(names))
        sums = P.sum(axis=1, keepdims=True)
        fair = np.isfinite(sums) & (sums > 0.0)
        equal: Floats = np.full_like(P, 1.0 / len(names))
        np.divide(P, sums, out=equal, where=fair)
        return equal

    def _check_fitted(self) -> None:
        if not hasattr(self, "classes_"):
            raise NotFittedError("RiverPredictor has learnt nothing yet: call partial_fit first.")

    def _told(self, known: Labels, y: Labels) -> list[Any]:
        """The labels as the model is told them."""
        if self.model._multiclass:
            return list(y.tolist())
        name = type(self.model).__name__
        if len(known) > 2:
            raise ValueError(
                f"{name} of River tells two classes apart; these are {known.tolist()}: wrap it in "
                "river.multiclass.OneVsRestClassifier."
            )
        for label in known.tolist()[::-1]:
            if label not in self._sides:
                self._sides[label] = not any(self._sides.values())
        return [self._sides[label] for label in y.tolist()]

    def _names(self) -> list[Any]:
        """What the model calls ``classes_``, in their order."""
        names = self.classes_.tolist()
        return list(names) if self.model._multiclass else [self._sides[name] for name in names]

    def _rows(self, X: Any) -> Iterator[dict[str, float]]:
        names = _feature_names(X.shape[1])
        if sp.issparse(X) and self.features == "nonzero":
            X = X.tocsr()
            for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
                columns, values = X.indices[start:stop].tolist(), X.data[start:stop].tolist()
                yield {names[j]: v for j, v in zip(columns, values, strict=True) if v}
            return
        for b in range(X.shape[0]):
            row = X[[b]].toarray()[0] if sp.issparse(X) else X[b]
            pairs = zip(names, row.tolist(), strict=True)
            yield dict(pairs) if self.features == "all" else {j: v for j, v in pairs if v}

    def _frame(self, X: Any) -> Any:
        values = X.toarray() if sp.issparse(X) else X
        return _pandas().DataFrame(values, columns=_feature_names(X.shape[1]))


def hoeffding_tree(**settings: Any) -> RiverPredictor:
    """River's Hoeffding tree with majority class in the leaves: VFDT, with the paper's settings.

    Parameters
    ----------
    **settings
        Other settings of ``river.tree.HoeffdingTreeClassifier``, or other values of these:
        ``grace_period=200``, ``delta=1e-7``, ``tau=0.05``, ``leaf_prediction="mc"``.

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


def boosting(random_state: Any = 0, *, n_models: int = 3) -> RiverPredictor:
    r"""River's online boosting of Gaussian naive Bayes, in place of the paper's.

    Each row is learnt Poisson(:math:`\lambda`) times by one member after the other, with a
    :math:`\lambda` that starts from 1 and grows with every member that is wrong about it. The paper
    used the variant of scikit-multiflow: there a member that learns a row zero times leaves
    :math:`\lambda` as it is, a perfect member has no vote, and densities are multiplied without
    logarithms, which degenerates for many features. So figures beside the paper's are not of the
    same method. River's is not quite that of Oza and Russell either: where these multiply
    :math:`\lambda` by :math:`N / (2 s_m)`, with N the rows so far and :math:`s_m` the weight that
    member m got right (or wrong), River has the weight that the member has seen in place of N.

    Parameters
    ----------
    random_state : int, Generator, RandomState or None
        For the Poisson numbers.
    n_models : int
        How many members there are.

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


def _river(part: str, who: str) -> Any:
    require("river", who)
    return require(f"river.{part}", who)


def _pandas() -> Any:
    return require("pandas", "RiverPredictor with mini_batches", extra="river")


def _gives_probabilities(model: Any) -> bool:
    base = _river("base", "RiverPredictor")
    return type(model).predict_proba_one is not base.Classifier.predict_proba_one


def _feature_names(n_features: int) -> list[str]:
    return [f"x{column}" for column in range(n_features)]
