"""What goes into service: a scaler, a selector and a predictor that learn batch by batch."""

from __future__ import annotations

import os
import time
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError

from fires import selectors
from fires.core import classes as labels
from fires.core import validation
from fires.core.belief import Floats
from fires.core.state import Arrays, State, part_of, under, write_state
from fires.core.version import __version__
from fires.kernels import scan
from fires.predictors import as_predictor
from fires.predictors.state import predictor_state, revived_predictor
from fires.scaling.batches import BatchScaler
from fires.scaling.dense import DENSE
from fires.selectors.loading import revive


class Scaled(NamedTuple):
    """A batch as selector and predictor are shown it."""

    X: Any
    y: npt.NDArray[Any] | None = None
    weight: Floats | None = None
    names: npt.NDArray[np.object_] | None = None


class OnlinePipeline:
    """Scale, select, predict: one object that learns from a stream and predicts in between.

    scikit-learn's ``Pipeline`` has no ``partial_fit``, and what its selector hands on changes
    width with the selected set. Here the predictor sees rows of full width, in which features
    that are not selected are zeros; so it lives through every change of the set. Selector and
    predictor see the same numbers: scaled by what the batches before have shown, the first batch
    by its own values, missing entries as zeros.

    Parameters
    ----------
    selector : OnlineSelector
        Learns from every batch. It is used itself, not a copy.
    predictor : object
        Anything with ``partial_fit`` and ``predict`` as in scikit-learn, or a classifier of
        River; used itself too.
    preprocess : {"standard", "minmax", None}, default="standard"
        The scale. Sparse batches are divided by the root mean square or the range of their
        columns, and not centred. Rows of the other kind, dense or sparse, than the first batch are
        brought to its kind.

    Attributes
    ----------
    n_missing_ : int
        Missing entries seen. The selector sees none; where its ``missing`` is "error" they are
        refused.

    Notes
    -----
    A batch that selector or predictor refuse changes nothing. Only an error that an estimator
    finds in the midst of its own learning comes when the selector has learnt already.

    Examples
    --------
    >>> from fires import FIRES, OnlinePipeline
    >>> from fires.predictors import Perceptron
    >>> rng = np.random.default_rng(0)
    >>> model = OnlinePipeline(FIRES(2), Perceptron())
    >>> for _ in range(30):
    ...     X = rng.normal(size=(100, 8), scale=50.0)
    ...     y = np.where(X[:, 3] > X[:, 5], "up", "down")
    ...     model = model.partial_fit(X, y)
    >>> model.selector.get_support(indices=True)
    array([3, 5])
    >>> bool((model.predict(X) == y).mean() > 0.9)
    True
    """

    def __init__(self, selector: Any, predictor: Any, preprocess: str | None = "standard") -> None:
        if preprocess not in DENSE:
            raise ValueError(
                f"preprocess must be 'standard', 'minmax' or None; got {preprocess!r}."
            )
        for method in ("partial_fit", "get_support", "mask"):
            if not hasattr(selector, method):
                raise TypeError(f"{selector!r} is no online selector: it has no {method}.")
        self.selector = selector
        self.predictor = None if predictor is None else as_predictor(predictor)
        self.preprocess = preprocess
        self.n_missing_ = 0
        self._scaler: BatchScaler | None = None
        self._names: npt.NDArray[np.object_] | None = None
        self._trained = False

    def __repr__(self) -> str:
        return f"OnlinePipeline({self.selector!r}, {self.predictor!r}, {self.preprocess!r})"

    # --- learning -----------------------------------------------------------------------------

    def partial_fit(
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Learn from one batch: the scale, the set, and with the new set the predictor.

        Parameters are those of ``OnlineSelector.partial_fit``.
        """
        batch, learn_scale = self.scale(X, y, sample_weight)
        self.check(batch, classes)
        self.select(batch, classes)
        self.train(batch, self.masked(batch.X), classes)
        learn_scale()
        return self

    def scale(self, X: Any, y: Any = None, sample_weight: Any = None) -> tuple[Scaled, Any]:
        """A batch by the scale before it, and how to learn the scale from it."""
        owner = type(self).__name__
        names = validation.column_names(X)
        matrix = validation.as_matrix(X, owner)
        if self._scaler is not None:
            n_features, known = self._scaler.n_features, self._names
        else:  # the selector may have learnt before
            n_features = getattr(self.selector, "n_features_in_", matrix.shape[1])
            known = names if names is None else getattr(self.selector, "feature_names_in_", names)
        order = validation.match_columns(names, matrix.shape[1], known, n_features, owner)
        if order is not None:
            matrix = matrix[:, order]
        n_missing = self._refuse(matrix, known)
        n_rows = matrix.shape[0]
        weight = validation.as_weights(sample_weight, n_rows)
        target = None if y is None else validation.as_target(y, n_rows, owner)
        scaler = self._scaler or BatchScaler(self.preprocess, n_features)
        w = _ones(n_rows) if weight is None else weight
        scaled, learn = scaler.scaled(matrix, w, n_missing > 0)

        def learn_scale() -> None:
            learn()
            self._scaler, self._names = scaler, known
            self.n_missing_ += n_missing

        return Scaled(scaled, target, weight, known), learn_scale

    def _refuse(self, matrix: Any, names: npt.NDArray[np.object_] | None) -> int:
        """Raise if there are entries that cannot be used; the number of missing ones."""
        counts = scan(matrix.data if sp.issparse(matrix) else matrix)
        if any(counts):
            missing, owner = getattr(self.selector, "missing", "ignore"), type(self).__name__
            validation.refuse(matrix, counts, names, missing=missing, owner=owner)
        return counts[0]

    def check(self, batch: Scaled, classes: Any = None) -> None:
        """Raise what the predictor would refuse, before the selector learns from a batch."""
        if self.predictor is None:
            return
        if batch.y is None:
            raise ValueError(f"{type(self).__name__} requires y, for its predictor to learn from.")
        if not hasattr(self.predictor, "check_batch"):
            return
        known = getattr(self.selector, "classes_", None)
        if classes is None and known is not None:  # what the selector will know then
            fixed = getattr(self.selector, "_classes_given_", False)
            classes = known if fixed else labels.merge_classes(known, batch.y)
        self.predictor.check_batch(batch.X, batch.y, classes, batch.weight)

    def select(self, batch: Scaled, classes: Any = None) -> tuple[npt.NDArray[np.intp], float]:
        """Let the selector learn from a scaled batch; its choice, and the seconds both took."""
        if batch.names is not None and not getattr(self.selector, "_named_apart_", False):
            known = getattr(self.selector, "feature_names_in_", None)
            if known is None or np.array_equal(known, batch.names):
                self.selector.name_features(batch.names)  # what it is shown are plain arrays
        started = time.perf_counter()
        self.selector.partial_fit(batch.X, batch.y, classes, batch.weight)
        selected = self.selector.get_support(indices=True)
        return selected, time.perf_counter() - started

    def train(self, batch: Scaled, rows: Any, classes: Any = None) -> float:
        """Let the predictor learn from masked rows; the seconds it took."""
        started = time.perf_counter()
        if self.predictor is not None:
            if classes is None:
                classes = getattr(self.selector, "classes_", None)
            self.predictor.partial_fit(rows, batch.y, classes, batch.weight)
            self._trained = True
        return time.perf_counter() - started

    def masked(self, X: Any) -> Any:
        """Scaled rows in which features that are not selected are zeros."""
        return self.selector.mask(X)

    # --- predicting ---------------------------------------------------------------------------

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The label, or number, of each row."""
        prediction: npt.NDArray[Any] = self._ready().predict(self._shown(X))
        return prediction

    def predict_proba(self, X: Any) -> Floats:
        """The probability of each class, if the predictor knows it."""
        predictor = self._ready()
        if not hasattr(predictor, "predict_proba"):
            raise AttributeError(f"{predictor!r} gives no probabilities.")
        probabilities: Floats = predictor.predict_proba(self._shown(X))
        return probabilities

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The labels the predictor knows, sorted."""
        classes: npt.NDArray[Any] = self._ready().classes_
        return classes

    def _shown(self, X: Any) -> Any:
        assert self._scaler is not None
        owner = type(self).__name__
        matrix = validation.as_matrix(X, owner)
        order = validation.match_columns(
            validation.column_names(X),
            matrix.shape[1],
            self._names,
            self._scaler.n_features,
            owner,
        )
        matrix = matrix if order is None else matrix[:, order]
        self._refuse(matrix, self._names)
        return self.masked(self._scaler.applied(matrix))

    @property
    def can_predict(self) -> bool:
        """Whether the predictor has learnt, here or before it came here."""
        return self._trained or hasattr(self.predictor, "classes_")

    def _ready(self) -> Any:
        if self._scaler is None or self.predictor is None:
            raise NotFittedError(
                "This OnlinePipeline has not learnt anything to predict with yet: call partial_fit "
                "with a batch first."
            )
        return self.predictor

    # --- state --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to go on to a file, for :func:`fires.load`.

        No code is in the file. It is written beside and moved into place, so a crash leaves the
        old file whole. The built-in ``Perceptron`` comes back by itself; an estimator of
        scikit-learn, or a predictor of your own that has ``state()`` and
        ``restore(header, arrays)``, is passed to :func:`fires.load` again, with its settings. A
        model of River cannot be saved.

        Examples
        --------
        >>> import tempfile
        >>> import fires
        >>> from sklearn.naive_bayes import GaussianNB
        >>> X, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]]), ["a", "a", "b"]
        >>> model = OnlinePipeline(fires.FIRES(1), GaussianNB()).partial_fit(X, y)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(f"{folder}/model.fires")
        ...     again = fires.load(f"{folder}/model.fires", predictor=GaussianNB())
        >>> again.predict(X)
        array(['a', 'a', 'b'], dtype='<U1')
        """
        write_state(path, *self._saved())

    def _saved(self) -> State:
        if self._scaler is None:
            raise NotFittedError(
                "This OnlinePipeline has not learnt anything to save yet: call partial_fit with a "
                "batch first."
            )
        kind = type(self.selector)
        if getattr(selectors, kind.__name__, None) is not kind:
            raise ValueError(f"{kind.__name__} cannot be saved: it is no selector of fires itself.")
        header: dict[str, Any] = {
            "class": "OnlinePipeline",
            "fires": __version__,
            "preprocess": self.preprocess,
            "n_missing": self.n_missing_,
            "feature_names": None if self._names is None else self._names.tolist(),
            "predictor": None,
        }
        arrays = under("scaler", self._scaler.state())
        header["selector"], learnt = self.selector._saved()
        arrays |= under("selector", learnt)
        if self.predictor is not None:
            header["predictor"], learnt = predictor_state(self.predictor)
            arrays |= under("predictor", learnt)
        return header, arrays

    @classmethod
    def _revived(
        cls, header: dict[str, Any], arrays: Arrays, model: Any, predictor: Any, where: str
    ) -> Self:
        """The pipeline whose :meth:`_saved` this is."""
        selector = revive(header["selector"], part_of("selector", arrays), model, where)
        saved = header["predictor"]
        if saved is not None:
            learnt = part_of("predictor", arrays)
            predictor = revived_predictor(saved, learnt, predictor, where)
        elif predictor is not None:
            raise ValueError(f"The pipeline in {where} was saved without a predictor: pass none.")
        pipeline = cls(selector, predictor, header["preprocess"])
        pipeline._scaler = BatchScaler(pipeline.preprocess, selector.n_features_in_)
        pipeline._scaler.restore(part_of("scaler", arrays))
        pipeline.n_missing_, pipeline._trained = header["n_missing"], True
        if header["feature_names"] is not None:
            pipeline._names = np.array(header["feature_names"], dtype=object)
        return pipeline


@lru_cache(maxsize=8)
def _ones(n: int) -> Floats:
    ones = np.ones(n)
    ones.flags.writeable = False
    return ones
