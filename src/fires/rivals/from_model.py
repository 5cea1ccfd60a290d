"""Rivals with an estimator or a model of the user's; FromModel ranks by its own weights."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from sklearn.utils import Tags, get_tags

from fires.core.batch import CheckedBatch
from fires.core.errors import StateError
from fires.core.estimators import learnt_state, seeded_clone, take_up
from fires.core.randomness import generator, random_state
from fires.core.settings import plain, same_kind
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Floats, Header, Labels, Matrix, Seed
from fires.core.validation import as_numbers
from fires.predictors import Predictor, SklearnPredictor, as_predictor
from fires.predictors.base import can, unwrapped
from fires.predictors.step import predictor_from_state, predictor_state
from fires.rivals.arrays import without_gaps
from fires.rivals.base import BatchSelector, Rival, TargetSelector, settings


class TakesEstimator(Rival):
    """A selector with an estimator or a model of the user's among its settings.

    Its code is not saved: the user passes it to ``fires.load`` again.
    """

    _weights_repeat_rows = True
    _given: ClassVar[str] = "estimator"  # the name of that setting

    def _theirs(self) -> Any:
        return unwrapped(self.get_params(deep=False)[self._given])

    def __sklearn_tags__(self) -> Tags:
        tags, estimator = super().__sklearn_tags__(), self._theirs()
        if can(estimator, "__sklearn_tags__"):
            inner = get_tags(estimator)
            tags.input_tags.sparse = inner.input_tags.sparse
            tags.input_tags.positive_only = inner.input_tags.positive_only
        return tags

    def _plain(self, value: Any) -> Any:
        if any(can(value, method) for method in ("get_params", "predict", "predict_one")):
            return {self._given: type(unwrapped(value)).__qualname__}
        return plain(value)

    def _from_plain(self, value: Any, model: Any) -> Any:
        if not isinstance(value, dict):
            return value
        found = type(unwrapped(model)).__qualname__
        return same_kind(model, found, value[self._given], f"your {self._given}")


class ModelSelector(TakesEstimator, TargetSelector):
    """A rival with the setting ``model``: None, or a predictor whose copy learns every batch."""

    _given = "model"
    _model_: Any = None  # a predictor that learns
    model: Any

    def _foresee(self, y: Labels) -> None:
        self._check_parameters()  # columns are not known yet
        batch = CheckedBatch(None, y)
        if self.model is not None and not self._is_numeric(batch):
            self._take_whole_labels(batch)  # so a model knows every label from the start

    def _fresh_model(self, rng: np.random.Generator) -> Any:
        """A predictor that has learnt nothing and does not use NumPy's global random state."""
        predictor = as_predictor(self.model)
        if isinstance(predictor, SklearnPredictor):
            return SklearnPredictor(seeded_clone(predictor.inner, rng))
        return predictor.fresh() if isinstance(predictor, Predictor) else copy.deepcopy(predictor)

    def _teach(self, model: Any, batch: CheckedBatch) -> None:
        if isinstance(model, Predictor):
            model.check(batch, self._label_index_)
            model.learn(batch, self._label_index_)
        else:
            model.partial_fit(batch.X, batch.y, classes=batch.classes)

    def _try_model(self, model: Any) -> None:
        """Raise any error if a model that was loaded cannot be used."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        try:
            self._check_model()
        except TypeError as error:
            raise ValueError(f"model must be None or a predictor. {error}") from None

    def _check_model(self) -> None:
        """Raise TypeError if the model is none that this method takes."""
        if self.model is not None:
            as_predictor(self.model)

    # --- state ------------------------------------------------------------------------------

    def _state(self) -> State:
        header, arrays = super()._state()
        if self._model_ is not None:
            header["predictor"], learnt = predictor_state(self._model_)
            arrays |= under("predictor", learnt)
        return header, arrays

    def _restore(self, header: Header, arrays: Arrays, model: Any) -> None:
        super()._restore(header, arrays, model)
        if "predictor" in header:
            fresh = self._fresh_model(np.random.default_rng(0))  # its seeds are replaced
            saved: Any = header["predictor"]
            learnt = part_of("predictor", arrays)
            self._model_ = predictor_from_state(saved, learnt, fresh, "this state")
            try:
                self._try_model(self._model_)
            except Exception as error:
                raise StateError(f"the model cannot predict ({error!r:.200})") from None


@settings
class FromModel(TakesEstimator, BatchSelector):
    r"""Features ranked by the coefficients or importances of a scikit-learn estimator.

    .. math::
        \omega_j = \sum_c |\theta_{cj}| \quad \text{or} \quad \omega_j = \text{importance}_j

    The first is taken from ``coef_``, summed over its rows as in scikit-learn's
    ``SelectFromModel``; the second from ``feature_importances_``. The estimator is cloned and
    never changed.

    Coefficients can be compared only if the features have one scale: standardise X first. A
    missing entry counts as 0.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    estimator : estimator
        Has ``partial_fit`` and, once fitted, ``coef_`` or ``feature_importances_``, such as
        ``SGDClassifier()``. A classifier must know all classes from its first batch on. If that
        batch may lack one, pass ``classes`` to the first ``partial_fit``. If its ``partial_fit``
        takes no ``sample_weight``, weights must be whole numbers, and a row of weight w is passed
        w times.
    random_state : int, Generator, RandomState or None
        Seeds the estimator if its own ``random_state`` is None. So NumPy's global random state is
        never used.
    missing : {"ignore", "error"}, default="ignore"
        A missing entry of X counts as 0, or is refused.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.

    Attributes
    ----------
    estimator_ : estimator
        The fitted clone.
    weights_, ranking_ : ndarray (n_features,)
        omega and the rank (1 is best) of every feature. A read-only copy.
    classes_ : ndarray
        The labels of a classifier, sorted.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    Notes
    -----
    :meth:`save` works if the estimator has learnt nothing but arrays, numbers, text, flags, None
    and random states, as scikit-learn's linear models do; others are refused. The file holds no
    code, so ``fires.load(path, model=SGDClassifier())`` needs the estimator again, with its
    settings.

    References
    ----------
    F. Pedregosa et al., "Scikit-learn: Machine Learning in Python", JMLR 12, 2011.

    Examples
    --------
    >>> from sklearn.linear_model import SGDClassifier
    >>> rng = np.random.default_rng(0)
    >>> selector = FromModel(2, estimator=SGDClassifier(random_state=0))
    >>> for _ in range(20):
    ...     X = rng.normal(size=(50, 6))
    ...     selector = selector.partial_fit(X, X[:, 1] > X[:, 4])
    >>> selector.get_support(indices=True)
    array([1, 4])
    """

    estimator: Any = None
    random_state: Seed = random_state()

    def _weights(self) -> Floats:
        return weights_of(self.estimator_, self.n_features_in_)

    # --- learning ---------------------------------------------------------------------------

    def _foresee(self, y: Labels) -> None:
        self._check_parameters()  # columns are not known yet
        if SklearnPredictor(self.estimator).takes_classes:
            # So the first batch already knows every label.
            self._take_whole_labels(CheckedBatch(None, y))

    def _start(self, batch: CheckedBatch) -> None:
        self.estimator_ = seeded_clone(self.estimator, generator(self.random_state, "from model"))

    def _step(self, batch: CheckedBatch) -> None:
        # A copy learns: if it fails half-way, the old one is untouched.
        learner = SklearnPredictor(copy.deepcopy(self.estimator_))
        name, known = type(learner.inner).__name__, self._label_index_
        rows = batch.with_rows(_ready(batch.X, batch.n_missing > 0))
        if learner.takes_classes:
            self._take_whole_labels(batch)
        elif batch.classes is not None:
            raise ValueError(f"classes is for class labels; {name} takes none.")
        else:
            assert batch.y is not None
            rows.y = as_numbers(batch.y, name)
        with np.errstate(over="ignore", invalid="ignore"):
            learner.check(rows, known)
            learner.learn(rows, known)
        weights_of(learner.inner, self.n_features_in_)  # or an error
        self.estimator_ = learner.inner

    def _check_parameters(self) -> None:
        super()._check_parameters()
        estimator = self.estimator
        if not can(estimator, "get_params", "partial_fit") or isinstance(estimator, type):
            raise ValueError(
                "estimator must be a scikit-learn estimator that has partial_fit, such as "
                f"SGDClassifier(); got {estimator!r}."
            )

    # --- state ------------------------------------------------------------------------------

    def _state(self) -> State:
        return learnt_state(self.estimator_)

    def _restore(self, header: Header, arrays: Arrays, model: Any) -> None:
        super()._restore(header, arrays, model)
        self.estimator_ = take_up(self.estimator, header, arrays)
        weights_of(self.estimator_, self.n_features_in_)  # or an error


def weights_of(estimator: Any, n_features: int) -> Floats:
    """The weights of the features according to a fitted estimator."""
    name = type(estimator).__name__
    if hasattr(estimator, "coef_"):
        coef = estimator.coef_.toarray() if sp.issparse(estimator.coef_) else estimator.coef_
        with np.errstate(over="ignore", invalid="ignore"):
            weights: Floats = np.abs(np.atleast_2d(coef)).sum(axis=0, dtype=np.float64)
    elif hasattr(estimator, "feature_importances_"):
        weights = np.array(estimator.feature_importances_, dtype=np.float64)
    else:
        raise ValueError(f"{name} has neither coef_ nor feature_importances_ to rank features by.")
    if weights.shape != (n_features,):
        raise ValueError(f"{name} gives {weights.size} weights to {n_features} features.")
    if not np.isfinite(weights).all():
        raise ValueError(f"The weights of {name} are not finite; rescale X.")
    return weights


def _ready(X: Matrix, missing: bool) -> Matrix:
    """X as every estimator takes it: float64, zeros for what is missing, short indices."""
    rows: Any = without_gaps(X, missing)
    if not isinstance(X, np.ndarray) and max(*X.shape, X.nnz) < 2**31:
        rows.indices, rows.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    ready: Matrix = rows
    return ready
