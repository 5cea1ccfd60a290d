"""A scaler, a selector and a predictor that learn batch by batch, as one object."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Sequence, Sized
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError

from fires import rivals
from fires.core import validation
from fires.core.batch import (
    CheckedBatch,
    WeightSums,
    effective_weights,
    gaps_in,
    nothing,
    ones,
)
from fires.core.classes import Classes, KnowsClasses
from fires.core.declared import Declared, Value, restore
from fires.core.errors import InputError, StateError
from fires.core.settings import check_choice
from fires.core.state import Arrays, State, part_of, under, write_state
from fires.core.types import (
    Estimator,
    Floats,
    Header,
    Labels,
    Matrix,
    OptionalArray,
    OptionalClasses,
    Places,
    RowsLike,
)
from fires.core.version import __version__
from fires.kernels.select import filled, keep_columns
from fires.models.base import BaseModel
from fires.models.families import FAMILIES
from fires.models.learners import task_of
from fires.models.scale import SCALES, Scaler
from fires.predictors import BayesLinear, as_predictor
from fires.predictors.adapters import SklearnPredictor
from fires.predictors.base import can
from fires.predictors.step import PredictorStep, Slots, step_from_state, step_state
from fires.selectors.base import OnlineSelector
from fires.selectors.columns import (
    FixedColumns,
    InputValidator,
    KnownColumns,
    forget,
    framed,
)
from fires.selectors.open_columns import OpenColumns
from fires.selectors.relations import Contributions, FeatureCurve

if TYPE_CHECKING:
    from fires.columns import Columns
    from fires.selectors.fires import FIRES


_FACTS: Declared = {"n_missing": Value(int, low=0)}


class OnlinePipeline(InputValidator, BaseEstimator):  # type: ignore[misc]
    """Scale, select, predict: one object that learns from a stream and predicts in between.

    scikit-learn's ``Pipeline`` has no ``partial_fit``, and the width of its output changes with the
    selected set. Here the predictor sees rows of full width, with zeros in the features that are
    not selected (NaN for ``BayesLinear``). So it keeps working when the set changes.

    Selector and predictor see the same scaled rows. The scale of a batch comes from the batches
    before it; the first batch is scaled by its own values. A missing entry becomes the mean of its
    column so far, so that it has no effect. Without a scale it stays missing; predictors
    other than ``BayesLinear`` see 0, and so does that one in sparse rows.

    The settings are checked with the first batch, not in the constructor, as in scikit-learn.

    Parameters
    ----------
    selector : OnlineSelector
        Learns from every batch. It is not copied. One in a :class:`fires.Sharded` learns on several
        cores, and is saved as the selector that it is.
    predictor : object, "auto" or None, default="auto"
        Anything with ``partial_fit`` and ``predict`` as in scikit-learn, or a classifier of
        River. It is not copied. "auto" is a :class:`fires.predictors.BayesLinear` with the model
        and the memory of the selector, if it has them; it learns where there is a target. With
        None, the pipeline scales and selects.
    preprocess : {"standard", "minmax", None}, default="standard"
        The scale. A selector with the same ``scale`` does not scale the rows again. Sparse batches
        are divided by the root mean square or the range of their columns, but not centred. If the
        first batch is dense, later sparse ones are made dense, and the other way round.
    slots : int, optional
        With open columns: how many columns the predictor has room for, since its width is fixed.
        Each column gets a slot when it is first selected, and keeps it as long as there are free
        slots. If all are taken, a new column replaces the one that has gone unselected for longest,
        and the predictor learns the slot anew: built-in predictors reset its coefficients to 0 or
        to the prior, other estimators adapt. The default is four per feature to select, and at
        least 64; 1,024 if that is a fraction or "auto".

    Attributes
    ----------
    n_missing_ : int
        Missing entries seen so far. If ``missing`` of the selector is "error", they are refused.

    Notes
    -----
    A batch that the selector or the predictor refuses changes nothing. One case is different: if an
    estimator fails in the middle of its own ``partial_fit``, the selector has already learnt from
    the batch.

    Examples
    --------
    >>> from fires import FIRES, OnlinePipeline
    >>> rng = np.random.default_rng(0)
    >>> model = OnlinePipeline(FIRES(2))
    >>> for _ in range(30):
    ...     X = rng.normal(size=(100, 8), scale=50.0)
    ...     y = np.where(X[:, 3] > X[:, 5], "up", "down")
    ...     model = model.partial_fit(X, y)
    >>> model.selector.get_support(indices=True)
    array([3, 5])
    >>> bool((model.predict(X) == y).mean() > 0.9)
    True
    >>> model.predict_proba(X).shape
    (100, 2)
    """

    n_missing_: int = 0
    _scaler_: Scaler | None = None  # None before the first batch
    _step_ = PredictorStep()  # with the predictor in the form that is worked with
    _made_of_: Any = NotImplemented  # the object that this form was made of
    _trained_ = False  # whether it can predict
    _weight_sums_ = WeightSums()

    def __init__(
        self,
        selector: Any,
        predictor: Any = "auto",
        preprocess: str | None = "standard",
        slots: int | None = None,
    ) -> None:
        self.selector = selector
        self.predictor = predictor
        self.preprocess = preprocess
        self.slots = slots

    @property
    def missing(self) -> str:  # type: ignore[override]
        """The selector's setting for missing entries."""
        return str(getattr(self.selector, "missing", "ignore"))

    @property
    def time(self) -> str | None:  # type: ignore[override]
        """The selector's setting for the column with the time of each row."""
        time: str | None = getattr(self.selector, "time", None)
        return time

    # --- learning -----------------------------------------------------------------------------

    def partial_fit(
        self,
        X: RowsLike,
        y: OptionalArray = None,
        classes: OptionalClasses = None,
        sample_weight: OptionalArray = None,
    ) -> Self:
        """Learn from one batch: first the selector, then, on the new set, the predictor.

        Parameters
        ----------
        X : array, sparse matrix, pandas or polars frame, list of dicts (n_samples, n_features)
            Named columns may come in any order. Text, categories and dates become numbers; see
            :class:`fires.columns.Columns`, and ``columns_`` afterwards.
        y : array (n_samples,)
            Labels of any kind, or numbers.
        classes : array, optional
            All labels there will ever be. Without it, new labels are added as they arrive.
        sample_weight : array (n_samples,), optional
            How much each row counts; a row of weight 0 is absent.

        Returns
        -------
        self
        """
        if self._teaches(X, sample_weight):
            self.all_or_nothing(self._learn, X, y, classes, sample_weight)
        return self

    def fit(
        self, X: RowsLike, y: OptionalArray = None, sample_weight: OptionalArray = None
    ) -> Self:
        """Forget everything, then learn from X as :meth:`partial_fit` does, batch by batch.

        The batches have the ``batch_size`` of the selector, or 100 rows. The selector itself
        learns; of the predictor, a clone does, as in a meta-estimator of scikit-learn.

        Parameters
        ----------
        X : array, sparse matrix, pandas or polars frame, list of dicts (n_samples, n_features)
            All rows.
        y : array (n_samples,)
            Their labels or numbers.
        sample_weight : array (n_samples,), optional
            How much each row counts; a row of weight 0 is absent.

        Returns
        -------
        self
        """
        everything = self._learn_anew, X, y, sample_weight
        self.all_or_nothing(InputValidator.all_or_nothing, self._own_selector, *everything)
        return self

    def _learn_anew(self, X: RowsLike, y: OptionalArray, sample_weight: OptionalArray) -> None:
        forget(self)
        forget(self._own_selector)
        self.start()
        if self.predictor is not None:
            self._wrap(self._fresh_predictor())
        predictor = self._step_.predictor
        if isinstance(predictor, SklearnPredictor) and isinstance(y, Sized):
            predictor.foresee(validation.as_target(y, len(y), type(self).__name__))
        size = int(getattr(self.selector, "batch_size", 100))
        for part, target, weight in self._cut(X, y, sample_weight, size):
            self._learn(part, target, None, weight)

    def _fresh_predictor(self) -> Any:
        """A predictor with the same settings that has learnt nothing."""
        if can(self.predictor, "learn_one"):  # a model of River, which scikit-learn would copy
            return self.predictor.clone()
        return clone(self.predictor, safe=False)

    def _learn(self, *given: Any) -> None:
        batch, learn_scale = self.admit(*given)
        self.check(batch)
        selected, _ = self.select(batch)
        self.train(batch, self.shown(batch.X, batch.known, selected))
        learn_scale()

    def start(self) -> Self:
        """Check the settings and wrap the predictor. The first batch calls this."""
        scaler = self._scaler_
        if scaler is not None and scaler.scale != self.preprocess:
            raise ValueError(
                f"preprocess was {scaler.scale!r} when this pipeline began to learn, and "
                f"cannot become {self.preprocess!r}: create a new pipeline."
            )
        if self._made_of_ is self.predictor:
            return self
        check_choice("preprocess", self.preprocess, SCALES, "'standard', 'minmax' or None")
        if not isinstance(self._own_selector, OnlineSelector):
            raise TypeError(
                f"{self.selector!r} is not an online selector: it cannot learn from batches."
            )
        self._wrap(self.predictor)
        return self

    def _wrap(self, predictor: Any) -> None:
        """Work with this predictor, or a form of it, from here on."""
        wrapped = predictor
        if isinstance(predictor, str):
            check_choice("predictor", predictor, ("auto",), "'auto', None or a predictor")
            wrapped = self._own_predictor()
        elif predictor is not None:
            wrapped = as_predictor(predictor)
        self._trained_ = hasattr(wrapped, "classes_")  # here, or before it came here
        slots = None
        if wrapped is not None and self._open is not None:
            slots = Slots.for_features(self.selector.n_features_to_select, self.slots)
        self._step_, self._made_of_ = PredictorStep(wrapped, slots), self.predictor

    def _own_predictor(self) -> BayesLinear:
        """The learner of FIRES, by the settings of the selector."""
        selector = self.selector
        model: Any = getattr(selector, "model", "auto")
        memory = getattr(selector, "memory_rows", 10_000.0)
        known = getattr(selector, "model_", model)
        if isinstance(known, str) and known in FAMILIES:
            return BayesLinear(known, memory)
        numeric = "numbers" in (getattr(selector, "target", "auto"), task_of(model))
        return BayesLinear("gaussian" if numeric else "auto", memory)

    def admit(
        self,
        X: RowsLike,
        y: OptionalArray = None,
        classes: OptionalClasses = None,
        sample_weight: OptionalArray = None,
        columns: Columns | None = None,
        times: Floats | None = None,
    ) -> tuple[CheckedBatch, Callable[[], None]]:
        """Check a batch, and scale it by the batches before it, without gaps.

        ``columns`` is what X was encoded with, and ``times`` when its rows were, if a stream has
        done that. The second result learns
        the scale, and what the columns are; until it is called, nothing has changed.
        """
        self.start()
        given = X, y, classes, sample_weight
        raw = self._admit(self.known_columns, *given, learn=True, times=times)
        known, is_open = raw.known, isinstance(raw.known, OpenColumns)
        if columns is not None:
            if is_open:
                known.encoder = columns
            else:
                known = replace(known, encoder=columns)
        scaler = self._scaler_ or Scaler(self.preprocess, known.width)
        if raw.source is not None:
            scaler = scaler.rearranged(raw.source)
        n_rows, n_missing = raw.X.shape[0], raw.n_missing - raw.n_absent
        weight, sums = effective_weights(raw.weight, n_rows, self._weight_sums_)
        w = ones(n_rows) if weight is None else weight
        rows, learn = scaler.alike(raw.X), nothing
        if self.preprocess is not None:  # else nothing is known that could stand for a gap
            raw.gaps = gaps_in(rows) if raw.n_missing else None
            rows, learn = scaler.scaled(rows, w, raw.n_missing > 0)
            raw.n_missing = raw.n_absent = 0
            # Sparse rows are not centred. A selector that wants them centred does so itself.
            if isinstance(rows, np.ndarray):
                raw.scale, raw.change = self.preprocess, scaler.dense.change

        def learn_scale() -> None:
            learn()
            self._known_, self._scaler_, self._weight_sums_ = known, scaler, sums
            self.n_missing_ += n_missing

        raw.X, raw.known = rows, known
        return raw, learn_scale

    @property
    def known_columns(self) -> KnownColumns:
        """What is known of the columns; the selector may have met them before, or they are open."""
        if self._scaler_ is not None and isinstance(self._known_, FixedColumns):
            return self._known_
        return self._joined()

    def _joined(self) -> KnownColumns:
        """What selector and pipeline know of the columns together."""
        known, own = self._own_selector.known_columns, self._known_
        if isinstance(known, OpenColumns):
            return known
        own = own if isinstance(own, FixedColumns) else FixedColumns()
        return own.beside(known, named_apart=known.named_apart)

    @property
    def _open(self) -> OpenColumns | None:
        """The selector's columns, if they may come and go; None if they are fixed."""
        known = self._own_selector.known_columns
        return known if isinstance(known, OpenColumns) else None

    @property
    def open_names(self) -> list[str] | None:
        """What columns that come and go are called, in the order of the features."""
        known = self._open
        return None if known is None else known.known

    def name_features(self, names: Sequence[str] | npt.NDArray[np.object_]) -> Self:
        """Name the columns of a stream of plain arrays, for the selector too."""
        names = list(names)
        known = self._own_selector.known_columns.names
        if known is not None and list(known) != names:
            raise ValueError(
                f"The selector knows its columns as {list(known)[:5]}, in this order; they cannot "
                f"be named {names[:5]}."
            )
        return super().name_features(names)

    def sync(self) -> Self:
        """Know what the selector has learnt without this pipeline, as it does on a cluster.

        It can be saved then. It scales nothing: the selector does that for itself.
        """
        self._known_ = known = self.start()._joined()
        if not self.has_learnt:
            self._scaler_ = Scaler(self.preprocess, known.width)
        self.n_missing_ = self.selector.n_missing_
        return self

    def to_cluster(self) -> FIRES:
        """The selector, which scales for itself from here on, as this pipeline has done.

        Where rows are on a cluster, nothing but sums travels: a predictor cannot learn there, and
        the selector scales. This pipeline is of no use afterwards.
        """
        if self.preprocess is not None:
            scaler = self._scale("a scale")
            sparse = not scaler.dense.ready
            if self.preprocess != self.selector.scale or (sparse and self.preprocess == "minmax"):
                of = "of sparse rows" if sparse else f"before {self.selector.scale!r}"
                raise InputError(
                    f"the scale of this run cannot be used on Spark: it is {self.preprocess!r} {of}"
                )
            self.selector.take_scale(scaler)
        selector: FIRES = self.selector
        return selector

    def check(self, batch: CheckedBatch) -> None:
        """Raise an error if the predictor would refuse the batch, before the selector learns."""
        if batch.y is not None:
            self._step_.check(batch, self.label_index)
        elif self._teaches_predictor(batch):
            raise ValueError(f"{type(self).__name__} requires y, for its predictor to learn from.")

    def select(self, batch: CheckedBatch) -> tuple[Places, float]:
        """Let the selector learn; what is selected now, and the seconds that it took."""
        started = time.perf_counter()
        self.selector.learn(batch)
        selected = self.selector.get_support(indices=True)
        if self._step_.slots is not None:
            self._step_.give_slots(batch.known.named(selected))
        return selected, time.perf_counter() - started

    def shown(self, X: Matrix, known: KnownColumns, selected: Places) -> Matrix:
        """Rows as the predictor sees them.

        They have zeros or NaN where a feature is not selected; of open columns, it sees the slots.
        Missing entries of rows without a scale are zeros or NaN, too.
        """
        fill = self._step_.fill
        X = filled(X, fill) if self.preprocess is None else X
        if not isinstance(known, OpenColumns):
            rows: Matrix = keep_columns(X, selected, fill)
            return rows
        slots = self._step_.slots
        return X if slots is None else slots.shown(X, selected, known.named(selected), fill)

    def train(self, batch: CheckedBatch, rows: Matrix, expected: Classes | None = None) -> float:
        """Let the predictor learn from what it is :meth:`shown`; the seconds that it took.

        ``expected`` is the :attr:`label_index`, if that is at hand.
        """
        started = time.perf_counter()
        if self._teaches_predictor(batch):
            self._step_.train(batch, rows, self.label_index if expected is None else expected)
            self._trained_ = True
        return time.perf_counter() - started

    def _teaches_predictor(self, batch: CheckedBatch) -> bool:
        """Whether there is a predictor; the usual one needs no target, and learns nothing then."""
        usual = isinstance(self.predictor, str)
        return self._step_.predictor is not None and not (usual and batch.y is None)

    @property
    def _own_selector(self) -> OnlineSelector:
        """The selector itself, where it is wrapped for several cores."""
        wrapped = getattr(type(self.selector), "wraps_selector", False)
        selector: OnlineSelector = self.selector.selector if wrapped else self.selector
        return selector

    @property
    def label_index(self) -> Classes:
        """The labels that the selector knows; if it knows none, those of the predictor."""
        known: Classes = self.selector.label_index
        predictor = self._step_.predictor
        if not len(known.labels) and isinstance(predictor, KnowsClasses):
            return predictor.label_index
        return known

    def __sklearn_clone__(self) -> Self:
        return type(self)(
            clone(self.selector), self._fresh_predictor(), self.preprocess, self.slots
        )

    # --- predicting ---------------------------------------------------------------------------

    def predict(self, X: RowsLike) -> Labels:
        """The label, or number, of each row.

        Parameters
        ----------
        X : array, sparse matrix, pandas or polars frame (n_samples, n_features)
            Named columns may come in any order.

        Returns
        -------
        ndarray (n_samples,)
        """
        return np.asarray(self.ready_predictor.predict(self._shown(X)))

    def predict_proba(self, X: RowsLike) -> Floats:
        """The probability of each class, for each row as in :meth:`predict`."""
        predictor = self.ready_predictor
        if not can(predictor, "predict_proba"):
            raise AttributeError(f"{predictor!r} gives no probabilities.")
        return np.asarray(predictor.predict_proba(self._shown(X)))

    def transform(self, X: RowsLike) -> Matrix:
        """X reduced to the selected columns: numbers for text, and not scaled."""
        self._scale("what to select")
        if self._open is not None:
            rows: Matrix = self.selector.transform(X)
        else:
            rows = self._admit(self.known_columns, X).X[:, self.selector.get_support(indices=True)]
        return rows

    @property
    def selected_columns(self) -> tuple[str, ...]:
        """What the selected columns of a table are called, in the order of the table.

        Without names, they are called by their numbers: x0, x1, ...
        """
        self._scale("what to select")
        names = self.selector.get_feature_names_out().tolist()
        columns = self.known_columns.encoder
        if columns is None:
            return tuple(map(str, names))
        of_features = dict(zip(columns.names, columns.of_features, strict=True))
        chosen = {of_features.get(name, name) for name in names}
        return tuple(column.name for column in columns.used if column.name in chosen)

    @property
    def classes_(self) -> Labels:
        """The labels the predictor knows, sorted."""
        return np.asarray(self.ready_predictor.classes_)

    def _shown(self, X: RowsLike) -> Matrix:
        """Rows in the form the predictor sees: scaled, with zeros where not selected."""
        scaler, scaled = self._scale("a scale"), self._admit(self.known_columns, X).X
        scaled = scaled if self.preprocess is None else scaler.applied(scaled)
        selected = self.selector.get_support(indices=True)
        return self.shown(scaled, self.known_columns, selected)

    @property
    def can_predict(self) -> bool:
        """Whether the predictor has learnt, in this pipeline or before."""
        return self._trained_ and self._made_of_ is self.predictor

    @property
    def has_learnt(self) -> bool:
        """Whether the pipeline has learnt from a batch."""
        return self._scaler_ is not None

    def _scale(self, what: str) -> Scaler:
        """The scale; an error before the first batch, which says what is missing."""
        if self._scaler_ is None:
            raise _not_fitted(what)
        return self._scaler_

    def column_moments(self) -> tuple[Floats, Floats] | None:
        """Mean and standard deviation of each column, over some 10,000 of the last rows.

        None unless ``preprocess`` is "standard" and rows are dense. Where columns come and go,
        there is room behind them for more.
        """
        return None if self._scaler_ is None else self._scaler_.moments()

    def curve(self, feature: int | str, *args: Any, **kwargs: Any) -> FeatureCurve:
        """The curve of a feature, in its own units: see :meth:`fires.FIRES.curve`."""
        curve: FeatureCurve = self.selector.curve(feature, *args, **kwargs)
        moments, names, scaler = self.column_moments(), self.known_columns.names, self._scaler_
        place = validation.as_columns([feature], self.n_features_in_, names, "FIRES")
        if scaler is not None and scaler.sparse.ready and scaler.scale is not None:
            return curve._replace(values=curve.values / scaler.sparse.gain(place))
        if moments is None or self.selector.own_scale() is not None:
            return curve
        return curve._replace(values=moments[0][place] + moments[1][place] * curve.values)

    def contributions(
        self, X: RowsLike, label: Hashable | None = None, *, confidence: float = 0.95
    ) -> Contributions:
        """What each selected feature adds: see :meth:`fires.FIRES.contributions`."""
        found = self.selector.contributions_of(self._shown(X), label, confidence)
        names = self.selector.get_feature_names_out()
        return Contributions(*(framed(X, part, names) for part in found))

    @property
    def explains(self) -> bool:
        """Whether there are :meth:`contributions`."""
        learner = getattr(self.selector, "learner", None)
        return learner is not None and learner.joint_posterior is not None

    @property
    def gives_probabilities(self) -> bool:
        """Whether the predictor has ``predict_proba``."""
        return can(self.wrapped_predictor, "predict_proba")

    @property
    def wrapped_predictor(self) -> Any:
        """The predictor in the form that is worked with; None if there is none."""
        return self.start()._step_.predictor

    @property
    def ready_predictor(self) -> Any:
        """The predictor, wrapped if need be; an error before the first batch."""
        if self._scaler_ is None or not self._trained_:
            raise _not_fitted("anything to predict with")
        return self._step_.predictor

    # --- state --------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything needed to go on to a file, for :func:`fires.load`.

        The file holds no code. It is written under another name and then moved into place, so a
        crash leaves the old file whole. Predictors of fires itself, such as ``BayesLinear``, are
        restored from the file alone. An estimator of scikit-learn, or your own predictor with
        ``state()`` and ``restore(header, arrays)``, must be passed to :func:`fires.load` again,
        with its settings. A model of River cannot be saved.

        Parameters
        ----------
        path : path
            The file; an existing one is replaced.

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
        write_state(path, *self.saved())

    def saved(self) -> State:
        """Everything that goes into a file."""
        scaler = self._scale("anything to save")
        kind = type(self._own_selector)
        if not rivals.is_registered(kind):
            raise ValueError(
                f"{kind.__name__} cannot be saved: it is not a selector of fires itself."
            )
        columns = self.known_columns.state()
        columns.pop("open", None)  # the selector has it
        header: Header = {
            "class": "OnlinePipeline",
            "fires": __version__,
            "preprocess": self.preprocess,
            "n_missing": self.n_missing_,
            **columns,
        }
        sums = {"weight_sums": np.array(self._weight_sums_)}
        arrays = under("scaler", scaler.state() | sums)
        selector, learnt = self._own_selector.saved()
        step, of_predictor = step_state(self._step_)
        arrays |= under("selector", learnt) | under("predictor", of_predictor)
        return header | step | {"selector": selector}, arrays

    @classmethod
    def from_state(
        cls,
        header: dict[str, Any],
        arrays: Arrays,
        model: BaseModel | Estimator | None,
        predictor: Any,
        where: str,
    ) -> Self:
        """Make a pipeline from what :meth:`saved` gave, and what was passed to ``fires.load``."""
        selector = rivals.from_state(header["selector"], part_of("selector", arrays), model)
        learnt = part_of("predictor", arrays)
        step = step_from_state(header, learnt, predictor, selector.n_features_in_, where)
        n_slots = None if step.slots is None else len(step.slots)
        pipeline = cls(selector, step.inner, header["preprocess"], n_slots).start()
        if (pipeline._step_.slots is None) != (step.slots is None):
            raise StateError("slots are for a predictor of open columns, and for no other")
        pipeline._step_ = step
        known = selector.known_columns
        if isinstance(known, FixedColumns):
            known = FixedColumns.read(header, known.width)
        pipeline._known_ = known
        pipeline._scaler_ = scaler = Scaler(pipeline.preprocess, known.width)
        scaler.restore(part_of("scaler", arrays))
        restore(pipeline, _FACTS, header, arrays, {}, "{}_")
        pipeline._weight_sums_ = WeightSums.read(part_of("scaler", arrays))
        pipeline._trained_ = True
        return pipeline


def _not_fitted(what: str) -> NotFittedError:
    return NotFittedError(
        f"This OnlinePipeline has not learnt {what} yet: call partial_fit with a batch first."
    )
