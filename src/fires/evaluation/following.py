"""Follow a selector along a stream: what ``fires select`` does, as fast as it can be done."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from fires.evaluation.lookahead import Lookahead, Outcome
from fires.evaluation.records import Step
from fires.evaluation.shown import Shown
from fires.metrics.stability import StabilityWindow
from fires.streams.base import Batch, Stream


def follow(
    stream: Stream,
    selector: Any,
    predictor: Any = None,
    *,
    batch_size: int = 100,
    window: int = 10,
) -> Iterator[Step]:
    """Run a selector over a stream, and a predictor on what it selects.

    The selector sees the rows as they come, as if it were fed by hand; to compare selectors on one
    footing, all fed by one scale, take :func:`fires.evaluation.prequential`. Each batch is
    predicted with the set and the model learnt before it, and then learnt from. The predictor sees
    rows of full width: standardised by what the batches before have shown, missing entries and
    unselected features zero, in test and in training alike.

    Parameters
    ----------
    stream : Stream
        Where the batches come from.
    selector : OnlineSelector
        Learns from every batch as it comes.
    predictor : object with partial_fit and predict, optional
        Scored by its accuracy; left out where the selector has found the target to be numeric.
    batch_size : int
        Rows of a batch.
    window : int
        How many of the last selected sets make up the stability.

    Yields
    ------
    Step
        One record per batch. Nothing of a batch is kept but what is learnt from it.

    Examples
    --------
    >>> from fires import FIRES
    >>> from fires.predictors import Perceptron
    >>> from fires.streams.synthetic import DriftingFeatures
    >>> stream = DriftingFeatures(1000, n_features=20, random_state=0)
    >>> steps = list(follow(stream, FIRES(5), Perceptron()))
    >>> len(steps), bool(np.mean([step.scores["accuracy"] for step in steps[1:]]) > 0.6)
    (10, True)
    """
    shown = None if predictor is None else Shown(predictor, stream.schema.n_features)
    lookahead = Lookahead(selector)
    stabilities: StabilityWindow | None = None
    selected = np.empty(0, dtype=np.intp)
    for index, batch in enumerate(stream.batches(batch_size)):
        outcome = lookahead.outcome(batch, selected, shown) if index else None
        if outcome is None:
            outcome = _test_then_train(batch, selector, shown, selected)
        if shown is not None and not outcome.scores:
            shown = None  # a numeric target: there is nothing to be accurate about
        if stabilities is None:
            stabilities = StabilityWindow(window, selector.n_features_in_)
        selected = outcome.selected
        yield Step(
            index=index,
            position=batch.position,
            n_rows=batch.n_rows,
            scores=outcome.scores,
            selected=selected,
            stability=stabilities.update(selected),
            seconds_select=outcome.seconds_select,
            seconds_train=outcome.seconds_train,
        )


def _test_then_train(
    batch: Batch, selector: Any, shown: Shown | None, selected: npt.NDArray[np.intp]
) -> Outcome:
    """One batch: tested with the set selected before, learnt from with the set selected after."""
    scores: dict[str, float] = {}
    if shown is not None:
        shown.look(batch.X)
        tested = len(selected) > 0
        scores["accuracy"] = shown.test(batch.X, batch.y, selected) if tested else np.nan

    started = time.perf_counter()
    selector.partial_fit(batch.X, batch.y)
    selected = selector.get_support(indices=True)
    trained = time.perf_counter()
    if not hasattr(selector, "classes_"):
        scores.clear()
    elif shown is not None:
        shown.train(batch.X, batch.y, selected)
    return Outcome(scores, selected, trained - started, time.perf_counter() - trained)
