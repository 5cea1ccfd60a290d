"""Test, then train: what was known before a batch, and nothing else, is what it is tested with."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.validation import is_missing
from fires.evaluation.records import Step
from fires.metrics.prediction import Metric, Scores
from fires.metrics.stability import StabilityWindow
from fires.pipeline import OnlinePipeline, Scaled
from fires.streams.base import Stream

ORDERS = ("test-then-train", "as-published")


def prequential(
    stream: Stream,
    selector: Any,
    predictor: Any = None,
    *,
    batch_size: int = 100,
    order: str = "test-then-train",
    preprocess: str | None = "standard",
    scores: Iterable[Metric] = ("accuracy",),
    window: int = 10,
    label_delay: int = 0,
    keep_weights: bool = False,
    classes: Iterable[Any] | None = None,
) -> Iterator[Step]:
    """Evaluate a selector and a predictor on a stream, batch by batch.

    What is evaluated is an :class:`fires.OnlinePipeline` of the two: one scale feeds both. Each
    batch is predicted with the set, the model and the scale learnt before it, and then learnt
    from. Rows without a label (None or NaN) are neither scored nor learnt from.

    Parameters
    ----------
    stream : Stream
        Where the batches come from.
    selector : OnlineSelector
        What chooses features.
    predictor : object, optional
        A classifier, see :func:`fires.predictors.as_predictor`. Without one, nothing
        is scored.
    batch_size : int
        Rows of a batch.
    order : {"test-then-train", "as-published"}
        ``"as-published"`` is the order of the paper's own code: the selector sees a batch and its
        labels before the batch is tested, the predictor after. Its scores are a little too good.
    preprocess : {"standard", "minmax", None}
        The scale of the pipeline.
    scores : iterable of str or callable
        See :class:`fires.metrics.prediction.Scores`. With none, nothing is predicted either.
    window : int
        How many of the last selected sets make up the stability; one for each batch that was
        learnt from.
    label_delay : int
        By how many batches the labels come later than the rows.
    keep_weights : bool
        Put the weight of every feature into the records.
    classes : iterable, optional
        All labels there will ever be, which most estimators of scikit-learn have to know from
        their first batch on. By default those that the stream says it has, if it does.

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
    if order not in ORDERS:
        raise ValueError(f"order must be one of {', '.join(map(repr, ORDERS))}; got {order!r}.")
    if isinstance(label_delay, bool) or not isinstance(label_delay, Integral) or label_delay < 0:
        raise ValueError(f"label_delay must be a whole number of batches; got {label_delay!r}.")
    known = stream.schema.classes if classes is None else tuple(classes)
    if isinstance(selector, OnlinePipeline):
        pipeline = selector
    else:
        pipeline = OnlinePipeline(selector, predictor, preprocess)
    totals = None
    if pipeline.predictor is not None:
        totals = _running(scores, known, pipeline.predictor)
    return _steps(
        stream, pipeline, totals, known, batch_size, order, window, int(label_delay), keep_weights
    )


def _running(
    scores: Iterable[Metric], classes: tuple[Any, ...] | None, predictor: Any
) -> Scores | None:
    """The scores, if there are any that this predictor can have."""
    totals = Scores(scores, classes)
    if totals.needs_probabilities and not hasattr(predictor, "predict_proba"):
        raise ValueError(
            f"{predictor!r} gives no probabilities, which one of these scores needs: "
            f"{', '.join(totals.names)}."
        )
    return totals if totals.names else None


def _steps(
    stream: Stream,
    pipeline: OnlinePipeline,
    totals: Scores | None,
    classes: tuple[Any, ...] | None,
    batch_size: int,
    order: str,
    window: int,
    label_delay: int,
    keep_weights: bool,
) -> Iterator[Step]:
    selector = pipeline.selector
    published, waiting = order == "as-published", deque[Scaled]()
    stabilities = StabilityWindow(window, stream.schema.n_features)
    names = np.array(stream.schema.feature_names, dtype=object)
    learnt, selected, stable = False, np.empty(0, dtype=np.intp), np.nan
    with closing(_closable(stream.batches(batch_size))) as batches:
        for index, batch in enumerate(batches):
            scaled, learn_scale = pipeline.scale(batch.X)
            labelled = _labelled(batch.y)
            waiting.append(Scaled(scaled.X[labelled], batch.y[labelled], names=names))
            now = waiting.popleft() if len(waiting) > label_delay else None
            if now is not None and len(now.y) == 0:  # type: ignore[arg-type]
                now = None
            seconds = [0.0, 0.0]
            if now is not None:
                pipeline.check(now, classes)
            if published and now is not None:
                selected, seconds[0] = pipeline.select(now, classes)
                learnt = True
            found = {} if totals is None else dict.fromkeys(totals.names, np.nan)
            if totals is not None and learnt and pipeline.can_predict:
                shown, truth = scaled.X[labelled], batch.y[labelled]
                if len(truth):
                    found = _tested(totals, pipeline.predictor, pipeline.masked(shown), truth)
            if now is not None:
                if not published:
                    selected, seconds[0] = pipeline.select(now, classes)
                seconds[1] = pipeline.train(now, pipeline.masked(now.X), classes)
                learnt = True
            learn_scale()
            if now is not None:  # a set that nothing was done to is not stable, but the same
                stable = stabilities.update(selected)
            yield Step(
                index=index,
                position=batch.position,
                n_rows=batch.n_rows,
                scores=found,
                selected=selected,
                stability=stable,
                seconds_select=seconds[0],
                seconds_train=seconds[1],
                weights=selector.weights_ if keep_weights and learnt else None,
            )


def _tested(totals: Scores, predictor: Any, rows: Any, y: npt.NDArray[Any]) -> dict[str, float]:
    if not totals.needs_probabilities:
        return totals.update(y, predictor.predict(rows))
    probabilities = predictor.predict_proba(rows)
    return totals.update(y, predictor.predict(rows), probabilities, predictor.classes_)


def _labelled(y: npt.NDArray[Any]) -> Any:
    """The rows that have a label; all of them, in the usual case."""
    if y.dtype.kind == "f":
        missing = np.isnan(y)
    elif y.dtype == object:
        missing = np.array([is_missing(label) for label in y], dtype=bool)
    else:
        return slice(None)
    return ~missing if missing.any() else slice(None)


def _closable(batches: Iterator[Any]) -> Any:
    """An iterator that can be closed, so that a reader stops when nobody asks any more."""
    if hasattr(batches, "close"):
        return batches
    return (batch for batch in batches)
