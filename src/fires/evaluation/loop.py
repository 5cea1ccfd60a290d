"""Test, then train: what was known before a batch, and nothing else, is what it is tested with."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError

from fires.core.batch import CheckedBatch, nothing
from fires.core.named import NamedRows, RunNames
from fires.core.settings import check_choice
from fires.core.types import Labels, Matrix, Places, RowsLike
from fires.core.validation import as_target, is_missing, unmixed
from fires.drift import Alarm
from fires.evaluation.records import Step
from fires.evaluation.scoring import Baseline, scored
from fires.metrics.prediction import Metric, Scores
from fires.metrics.stability import StabilityWindow
from fires.pipeline import OnlinePipeline
from fires.streams.base import Batch, Position, Stream

ORDERS = ("test-then-train", "as-published")


def prequential(
    stream: Stream | Iterable[tuple[RowsLike, npt.ArrayLike]],
    pipeline: Any,
    predictor: Any = None,
    *,
    batch_size: int = 100,
    order: str = "test-then-train",
    preprocess: str | None = "standard",
    scores: Iterable[Metric] | Scores = ("accuracy",),
    window: int | StabilityWindow = 10,
    first_index: int = 0,
    label_delay: int = 0,
    keep_weights: bool = False,
    classes: Iterable[Hashable] | None = None,
    baselines: Mapping[str, Baseline] | None = None,
    names: RunNames | None = None,
) -> Iterator[Step]:
    """Evaluate a pipeline on a stream, batch by batch: the one loop of every evaluation.

    It evaluates an :class:`fires.OnlinePipeline`: selector and predictor share one scale.
    Each batch is predicted with the set, the model and the scale learnt before it, and then learnt
    from. Rows without a label (None or NaN) are neither scored nor learnt from.

    Parameters
    ----------
    stream : Stream or iterable of (X, y)
        Where the batches come from.
    pipeline : OnlinePipeline or OnlineSelector
        What is evaluated; a selector makes a pipeline with ``predictor`` and ``preprocess``.
    predictor : object, optional
        What predicts classes or numbers, see :func:`fires.predictors.as_predictor`. Without one,
        nothing is scored.
    batch_size : int
        Rows of a batch, for a stream.
    order : {"test-then-train", "as-published"}
        ``"as-published"`` is the order of the paper's own code: the selector sees a batch and its
        labels before the batch is tested, the predictor after. Its scores are slightly optimistic.
    preprocess : {"standard", "minmax", None}
        The scale of the pipeline that is made of a selector.
    scores : iterable of str or callable, or Scores
        See :class:`fires.metrics.prediction.Scores`; ``("r2", "mae")`` where the target holds
        numbers. A ``Scores`` is updated with each batch: its ``total`` is the score of all rows so
        far. With none, nothing is predicted either.
    window : int, or StabilityWindow
        How many of the last selected sets make up the stability; one for each batch that was
        learnt from. A ``StabilityWindow`` is updated with each of them.
    first_index : int
        The number of the first record: of the batches before, if the pipeline goes on.
    label_delay : int
        By how many batches the labels come later than the rows.
    keep_weights : bool
        Put the weight of every feature into the records.
    classes : iterable, optional
        All labels there will ever be, which most estimators of scikit-learn have to know from
        their first batch on. By default those that the stream says it has, if it does.
    baselines : mapping of str to Baseline
        Predictors that are tested and learn beside the pipeline, on the same scaled rows, with
        all features: see :func:`fires.evaluation.scoring.usual_baselines`. The seconds of a
        record do not count them.
    names : RunNames, optional
        If the columns of the selector are open: where all names are kept. The features of a record
        are places in it.

    Yields
    ------
    Step
        One record per batch. Nothing of a batch is kept but what is learnt from it, and the
        batches whose labels are still to come. Nothing is read that is not asked for.

    Examples
    --------
    >>> from fires import FIRES
    >>> from fires.predictors import Perceptron
    >>> from fires.streams.synthetic import DriftingFeatures
    >>> stream = DriftingFeatures(1000, n_features=20, random_state=0)
    >>> steps = list(prequential(stream, FIRES(5), Perceptron(), scores=["accuracy", "f1"]))
    >>> len(steps), sorted(steps[-1].scores)
    (10, ['accuracy', 'f1'])
    """
    check_choice("order", order, ORDERS)
    if isinstance(label_delay, bool) or not isinstance(label_delay, Integral) or label_delay < 0:
        raise ValueError(f"label_delay must be a whole number of batches; got {label_delay!r}.")
    if not isinstance(pipeline, OnlinePipeline):
        pipeline = OnlinePipeline(pipeline, predictor, preprocess)
    elif predictor is not None:
        raise ValueError("A pipeline has its own predictor: do not pass another one.")
    pipeline.start()
    schema = getattr(stream, "schema", None)
    known = None if classes is None else tuple(classes)
    if schema is not None and known is None:
        known = schema.classes
    if pipeline.open_names is None:
        names = None
    elif label_delay:
        raise ValueError("label_delay requires fixed columns, and these are open.")
    else:
        names = RunNames() if names is None else names
    if schema is not None and names is None:
        _name_columns(pipeline, list(schema.feature_names))
    totals = _running(scores, known, pipeline)
    evaluation = _Evaluation(
        pipeline, totals, known, order, window, int(label_delay), baselines or {}, names
    )
    return evaluation.steps(_batches(stream, batch_size), keep_weights, first_index)


def _name_columns(pipeline: OnlinePipeline, names: list[str]) -> None:
    """Let the pipeline know what the columns are called: a stream hands out plain arrays."""
    known = pipeline.known_columns.names
    if known is None:
        pipeline.name_features(names)
    elif list(known) != names and set(known) == set(names):
        raise ValueError(
            f"The columns of the stream are {names[:5]}, but were learnt as {list(known)[:5]}: "
            "restore the learnt order."
        )


def _running(
    scores: Iterable[Metric] | Scores,
    classes: tuple[Hashable, ...] | None,
    pipeline: OnlinePipeline,
) -> Scores | None:
    """The scores, if there are any that this predictor can have."""
    if pipeline.predictor is None:
        return None
    totals = scores if isinstance(scores, Scores) else Scores(scores, classes)
    if totals.needs_probabilities and not pipeline.gives_probabilities:
        raise ValueError(
            f"{pipeline.predictor!r} gives no probabilities, which one of these scores needs: "
            f"{', '.join(totals.names)}."
        )
    return totals if totals.names else None


def _batches(stream: Any, batch_size: int) -> Generator[Batch, None, None]:
    """The batches of a stream, or those of an iterable of (X, y)."""
    if hasattr(stream, "batches"):
        yield from stream.batches(batch_size)
        return
    rows = 0
    for X, y in stream:
        y = np.asarray(unmixed(y))
        rows += len(y)
        yield Batch(X, y, Position(rows=rows, offset=rows))


@dataclass(eq=False)
class _Evaluation:
    """A pipeline on its way along a stream, and what is known of it."""

    pipeline: OnlinePipeline
    totals: Scores | None
    classes: tuple[Hashable, ...] | None
    order: str
    window: int | StabilityWindow
    label_delay: int
    baselines: Mapping[str, Baseline]
    names: RunNames | None

    def __post_init__(self) -> None:
        alarms, window = getattr(self.pipeline.selector, "alarms_", ()), self.window
        self._last_alarm, self.has_learnt = alarms[-1].batch if alarms else -1, False
        self.selected = np.empty(0, dtype=np.intp)
        if self.pipeline.has_learnt:
            with suppress(NotFittedError):
                self.selected = self.pipeline.selector.get_support(indices=True)
                self.has_learnt = True
                if self.names is not None:
                    self.names.follow(self.pipeline.open_names or ())
        self.in_run = self.selected
        if self.names is not None:
            self.in_run = np.sort(self.names.of_run(self.selected))
        self.stability = window.value if isinstance(window, StabilityWindow) else np.nan
        self._waiting: deque[Batch] = deque()
        self._shown: tuple[CheckedBatch, Places, Matrix] | None = None

    def steps(
        self, source: Generator[Batch], keep_weights: bool, first_index: int
    ) -> Iterator[Step]:
        """One record per batch."""
        names = self.names
        with closing(source) as batches:  # so that a reader stops when nobody asks any more
            for index, batch in enumerate(batches, first_index):
                scores, seconds_select, seconds_train = self.step(batch)
                window, weights, n_present = self.window, None, None
                if names is not None and isinstance(window, StabilityWindow):
                    n_present = window.n_features
                if keep_weights and self.has_learnt:
                    weights = self.pipeline.selector.weights_
                    weights = weights if names is None else names.spread(weights)
                yield Step(
                    index,
                    batch.position,
                    batch.n_rows,
                    scores,
                    self.in_run,
                    self.stability,
                    seconds_select,
                    seconds_train,
                    weights,
                    alarms=self.new_alarms(),
                    baselines={name: one.latest for name, one in self.baselines.items()},
                    waited=batch.waited,
                    n_present=n_present,
                )

    def new_alarms(self) -> tuple[Alarm, ...]:
        """What the selector has noticed since it was asked last, with places in the run."""
        # Those of features that were forgotten are gone, so they cannot be counted. A rival, or a
        # selector that has learnt nothing, has none.
        known, names = getattr(self.pipeline.selector, "alarms_", ()), self.names
        if not known or known[-1].batch <= self._last_alarm:
            return ()
        new = [alarm for alarm in known if alarm.batch > self._last_alarm]
        self._last_alarm = new[-1].batch
        return tuple(
            alarm
            if alarm.feature is None or names is None
            else alarm._replace(feature=int(names.of_run(np.array([alarm.feature]))[0]))
            for alarm in new
        )

    def step(self, batch: Batch) -> tuple[dict[str, float], float, float]:
        """Test and learn: the scores, and the seconds that selector and predictor took to learn."""
        before = self.selected
        tested, learn_scale = self._admit(batch)
        if self.totals is not None and tested.y is not None and not self.has_learnt:
            self.totals.check_target(tested.y)
        now = tested
        if self.label_delay:  # a copy, since the rows are the caller's own
            X, y = copy.deepcopy((batch.X, batch.y))
            self._waiting.append(replace(batch, X=X, y=y))
            late = len(self._waiting) <= self.label_delay
            now, learn_scale = (_EMPTY, nothing) if late else self._admit(self._waiting.popleft())
        # Without a label, nothing is learnt, nor is the scale: what learns has to go along with it.
        if now.X.shape[0] == 0:
            scores = self._test(tested)
            self.selected = before
            return scores, 0.0, 0.0
        pipeline, names = self.pipeline, self.names
        pipeline.check(now)
        scores = {} if self.order == "as-published" else self._test(tested)
        self.selected, seconds = pipeline.select(now)
        self.has_learnt = True
        if self.order == "as-published":  # the order of the paper's own code
            scores = self._test(tested)
        expected = pipeline.label_index
        seconds_train = pipeline.train(now, self._masked(now), expected)
        for one in self.baselines.values():
            one.learn(now, expected)
        learn_scale()
        self.in_run, present, width = self.selected, None, now.X.shape[1]
        if names is not None:  # the features that have an entry in one of the rows
            names.follow(pipeline.open_names or ())
            n_known = now.known.n_features
            has_entries = np.ones(n_known, bool) if now.present is None else now.present[:n_known]
            present = names.of_run(np.flatnonzero(has_entries))
            self.in_run, width = np.sort(names.of_run(self.selected)), None
        if not isinstance(self.window, StabilityWindow):
            self.window = StabilityWindow(self.window, width)
        self.stability = self.window.update(self.in_run, present)
        return scores, seconds, seconds_train

    def _admit(self, batch: Batch) -> tuple[CheckedBatch, Callable[[], None]]:
        """The rows of a batch that have a label, on the scale of now, and what learns the scale."""
        X = batch.X if batch.names is None else NamedRows(batch.X, batch.names)
        rows, learn_scale = self.pipeline.admit(X, columns=batch.columns, times=batch.times)
        if rows.source is not None:  # features are in other places than before
            self.selected = np.flatnonzero(np.isin(rows.source, self.selected))
        return _labelled(rows, batch.y, self.classes), learn_scale

    def _test(self, batch: CheckedBatch) -> dict[str, float]:
        """The scores of a batch; NaN as long as nothing can be predicted."""
        totals, pipeline = self.totals, self.pipeline
        if totals is None or not (self.has_learnt and pipeline.can_predict and batch.X.shape[0]):
            for one in self.baselines.values():
                one.latest = dict.fromkeys(one.latest, np.nan)
            return {} if totals is None else dict.fromkeys(totals.names, np.nan)
        for one in self.baselines.values():
            one.test(batch)
        return scored(totals, pipeline.ready_predictor, batch, self._masked(batch))

    def _masked(self, batch: CheckedBatch) -> Matrix:
        """The rows of a batch as the predictor sees them; found once where the set stays."""
        if self._shown is not None and self._shown[0] is batch:
            _, selected, rows = self._shown
            if len(selected) == len(self.selected) and (selected == self.selected).all():
                return rows
        rows = self.pipeline.shown(batch.X, batch.known, self.selected)
        self._shown = batch, self.selected, rows
        return rows


_EMPTY = CheckedBatch(np.empty((0, 0)))


def _labelled(rows: CheckedBatch, y: Labels, classes: tuple[Hashable, ...] | None) -> CheckedBatch:
    """The rows that have a label, with their labels; all of them, in the usual case."""
    labelled = ~np.isnan(y) if y.dtype.kind == "f" else None
    if y.dtype == object:
        labelled = np.array([not is_missing(label) for label in y], dtype=bool)
    if labelled is not None and not labelled.all():
        rows.X, y = rows.X[labelled], y[labelled]
        rows.gaps = None if rows.gaps is None else rows.gaps[labelled]
        rows.times = None if rows.times is None else rows.times[labelled]
    rows.y = as_target(y, rows.X.shape[0], "prequential") if len(y) else y
    rows.classes = classes
    return rows
