"""The belief as a predictor: what FIRES learns of all features, learnt of those it has selected."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import ClassVar, Self

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if

from fires.core.batch import CheckedBatch, WeightSums, columns_present, effective_weights
from fires.core.classes import NO_CLASSES, Classes, Codes, Labels
from fires.core.declared import Array, Declared, Value, restore
from fires.core.errors import StateError
from fires.core.settings import check_choice
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Floats, Ints, Json, Matrix, Places
from fires.kernels.linear import find_places
from fires.kernels.select import filled, union
from fires.models.bayes_learner import BayesLearner
from fires.models.families import FAMILIES
from fires.models.learners import decided
from fires.models.target import ScoredTarget, counts
from fires.predictors.built_in import BuiltIn

_FEW = 1000  # columns with entries in a first sparse batch: so few are a selection
_MAX_SCORE = 30.0  # of the logarithm of a count: its exponential stays finite
_MODELS = ("auto", *FAMILIES)


class BayesLinear(BuiltIn):
    """The linear model of :class:`fires.FIRES`, for rows of which some features are shown.

    It learns row by row by Bayes' rule, forgets as FIRES does, and forgets most after a concept
    drift of its own. Features that are not selected are NaN, which is ignored, as any missing value
    is. A feature that is shown for the first time starts at the prior. Rows that no pipeline has
    standardised are standardised here; sparse rows are taken as they are.

    The label that it predicts is the most probable one, so a rare class is seldom predicted: to
    find more of it, compare ``predict_proba`` with a threshold, such as the share of the class.

    Parameters
    ----------
    model : {"auto", "probit", "logistic", "gaussian", "poisson"}
        What the target is: classes, numbers or counts. "auto" decides by the first batch.
    memory : float
        After so many rows, evidence has faded to 1/e.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3))
    >>> y = np.where(X[:, 1] > 0.0, "up", "down")
    >>> model = BayesLinear().partial_fit(X, y)
    >>> model.predict(np.array([[0.0, 2.0, 0.0], [0.0, -2.0, np.nan]]))
    array(['up', 'down'], dtype='<U4')
    >>> bool(model.predict_proba(np.array([[0.0, 2.0, 0.0]]))[0, 1] > 0.95)
    True
    >>> BayesLinear("gaussian").partial_fit(X, 5.0 + X[:, 0]).predict(np.zeros((1, 3))).round(1)
    array([5.])
    """

    fill = np.nan
    _learnt: ClassVar[Declared] = {
        "model": Value(str),
        "memory": Value(float, low=1.0),
        "family": Value(str),
        "width": Value(int, low=0, optional=True),
        "columns": Array("C", dtype="int64", low=0, high="W"),
        "n_present": Value(int, low=0),
        "weight_sums": Array(3, low=0.0),
    }
    _attribute = "{}"

    learner: BayesLearner | None = None
    columns: Ints = np.empty(0, dtype=np.int64)  # those that were ever shown
    n_present = 0  # those that were shown last, by which the prior goes
    weight_sums = WeightSums()
    _shown: Ints | None = None  # in the last batch

    def __init__(self, model: str = "auto", memory: float = 10_000.0) -> None:
        check_choice("model", model, _MODELS)
        self.model = self.family = model
        self.memory = memory

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.model!r})"

    def fresh(self) -> BayesLinear:
        """A predictor with the same settings that has learnt nothing."""
        return BayesLinear(self.model, self.memory)

    @property
    def has_labels(self) -> bool:  # type: ignore[override]
        """Whether it learns classes, as far as is known."""
        return self.family == "auto" or FAMILIES[self.family].kind == "classes"

    def check(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Raise an error if :meth:`learn` would refuse the batch. Nothing is learnt."""
        one = self
        if self.family == "auto":
            one = copy.copy(self)
            one.family = self._family_of(batch, expected)
        super(BayesLinear, one).check(batch, expected)
        if FAMILIES[one.family].kind == "counts":
            counts(np.asarray(batch.y))

    def _family_of(self, batch: CheckedBatch, expected: Classes) -> str:
        """The family that fits the first target, for "auto"."""
        y = np.asarray(batch.y)
        return "probit" if len(expected) else str(decided("auto", y, batch.classes))

    def learn(self, batch: CheckedBatch, expected: Classes = NO_CLASSES) -> None:
        """Learn from every row in order; weights count as their effective number of rows."""
        if self.family == "auto":
            self.family = self._family_of(batch, expected)
        y, n_before, n_classes = np.asarray(batch.y), 0, 0
        weight, sums = effective_weights(batch.weight, len(y), self.weight_sums, self.memory)
        before = classes = NO_CLASSES
        if FAMILIES[self.family].kind == "classes":
            before = self._known(expected)
            classes, y = batch.labels(before)
            n_before, n_classes = len(before.labels), len(classes.labels)
            y = y + 1 if n_classes == 1 else y  # a class that is alone is the positive one
        X = batch.X
        shown, columns, learner = self._columns_with(X)
        if learner is None:
            learner = self._start(len(columns), n_classes)
            if len(columns) > _FEW and not isinstance(X, np.ndarray):
                learner = learner.ready_for_sparse()
        elif n_before != n_classes:
            learner = learner.with_classes(before.labels, classes.labels)
        rows, scale, n_missing = _taken(X, columns, learner), batch.scale, 0
        if not isinstance(X, np.ndarray) and not learner.scaler.ready:
            scale = "standard"  # as far as sparse rows can be
        if isinstance(rows, np.ndarray) and (gaps := np.isnan(rows)).any():
            n_missing = 0 if scale == "standard" else int(gaps.sum())
            rows = rows if n_missing else np.where(gaps, 0.0, rows)
        # As a standardised column wanders, so may its coefficient: predictions follow the rows.
        change = None if scale == "standard" or batch.change is None else batch.change[:, columns]
        learner.step(CheckedBatch(rows, None, weight, n_missing, scale=scale, change=change), y)
        self.learner, self.columns, self._shown = learner, columns, shown
        self.width, self.n_present, self.weight_sums = X.shape[1], learner.n_present, sums
        self._label_index_ = classes

    def _start(self, n_features: int, n_classes: int) -> BayesLearner:
        size = self.family, n_features, n_classes
        learner = BayesLearner(*size, fit_intercept=True, scale="standard", memory=self.memory)
        learner.loosens = False
        return learner

    def _columns_with(self, X: Matrix) -> tuple[Ints, Ints, BayesLearner | None]:
        """The columns that a batch shows, all that were ever shown, and a learner for those."""
        learner, known, dense = self.learner, self.columns, isinstance(X, np.ndarray)
        if not isinstance(X, np.ndarray):  # those with an entry
            shown = np.unique(X.indices).astype(np.int64)
        elif (present := columns_present(X)) is None:
            shown = np.arange(X.shape[1])
        else:
            shown = present.nonzero()[0]
        shown = shown if len(shown) else np.zeros(1, dtype=np.int64)  # a learner has one at least
        if learner is None:
            every = len(shown) > _FEW and not dense
            return shown, (np.arange(X.shape[1]) if every else shown), None
        before = self._shown
        same = before is not None and len(before) == len(shown) and bool((before == shown).all())
        if same or learner.sparse is not None:
            return shown, known, learner
        columns = union(known, shown)
        place, old = find_places(known, columns)
        if not old.all():
            learner = learner.rearranged(np.where(old, place, -1))
        # A column of sparse rows may be shown without an entry.
        absent = ~find_places(shown, columns)[1] & dense
        learner.attend(absent, np.zeros_like(absent), np.flatnonzero(~old))
        return shown, columns, learner

    def restart_features(self, columns: Places) -> None:
        """Forget some features. See :class:`Predictor`."""
        if self.learner is not None:
            place, known = find_places(self.columns, columns)
            self.learner.restart_features(place[known])

    # --- predicting -----------------------------------------------------------------------------

    def _predicted(self, X: Matrix, *, surely: bool = True) -> tuple[BayesLearner, Floats, Floats]:
        """The learner; mean and variance of its linear predictor, a line per weight vector."""
        learner = self.learner
        if learner is None:
            raise NotFittedError(f"This {self.name} has learnt nothing yet.")
        rows = _taken(X, self.columns, learner)
        if isinstance(rows, np.ndarray):
            if (scaler := learner.scaler.dense).ready:
                rows = scaler.applied(rows)
            else:
                rows = filled(rows, 0.0)
        return learner, *learner.predicted(rows, surely=surely)

    def predict(self, X: Matrix) -> Labels:
        """The label of each row, or the expected number or count."""
        if self.has_labels:
            return super().predict(X)
        learner, a, v = self._predicted(X)
        if isinstance(learner.target, ScoredTarget):
            return learner.target.means(a[0], learner.noise[0] + v[0])
        return np.asarray(np.exp(np.minimum(a[0] + 0.5 * v[0], _MAX_SCORE)))

    def predict_codes(self, X: Matrix) -> Codes:
        """The index of each row's label in ``classes_``."""
        if len(self._label_index_.labels) == 2:  # without the probabilities it is sooner done
            return np.asarray((self._predicted(X, surely=False)[1][0] > 0.0).astype(np.intp))
        return np.asarray(self.predict_proba(X).argmax(axis=1))

    @available_if(lambda self: self.has_labels)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Matrix) -> Floats:
        """The probability of each of ``classes_``; of three or more, one against the rest."""
        learner, a, v = self._predicted(X)
        p = np.exp(learner.family.scores(a, v, 1.0)[0])
        if len(self.classes_) == 2:
            p = np.concatenate([1.0 - p, p])
        return np.asarray((p / p.sum(axis=0)).T)

    # --- state ----------------------------------------------------------------------------------

    def state(self) -> State:
        """Everything there is to save. See :class:`BuiltIn`."""
        header, arrays = super().state()
        learnt = {} if self.learner is None else self.learner.state()
        return header, arrays | under("learner", learnt)

    def restore(self, header: Mapping[str, Json], arrays: Arrays) -> Self:
        """Go on from :meth:`state`."""
        vars(self).clear()
        width = self._learnt["width"].read("width", header, arrays, {})
        restore(self, self._learnt, header, arrays, {"W": width or 0})
        if {self.model, self.family} - {"auto", *FAMILIES} or (np.diff(self.columns) <= 0).any():
            raise StateError("the model or the columns of a predictor are not what they should be")
        self.weight_sums = WeightSums(*self.weight_sums)
        if self.has_labels:
            self._restore_classes(header, arrays)
        if learnt := part_of("learner", arrays):
            self.learner = self._start(len(self.columns), len(self._label_index_))
            self.learner.count_columns(self.n_present)
            self.learner.restore(learnt)
        return self


def _taken(X: Matrix, columns: Ints, learner: BayesLearner) -> Matrix:
    """Some columns of rows, in the form that a learner takes."""
    if learner.sparse is not None:
        rows = filled(X, 0.0)
        return sp.csr_array(rows) if isinstance(rows, np.ndarray) else rows
    if isinstance(X, np.ndarray):
        every = len(columns) == X.shape[1]
        return np.asarray(X if every else np.take(X, columns, axis=1), np.float64, order="C")
    return X[:, columns].toarray()
