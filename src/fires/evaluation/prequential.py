"""Test, then train: what the predictor was shown, anyone can see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from fires.core.belief import Floats
from fires.evaluation.records import Step
from fires.kernels import accumulate, scan
from fires.metrics.stability import StabilityWindow
from fires.models.scaling import Standard
from fires.streams.base import Stream


def prequential(
    stream: Stream,
    selector: Any,
    predictor: Any = None,
    *,
    batch_size: int = 100,
    window: int = 10,
) -> Iterator[Step]:
    """Run a selector over a stream, and a predictor on what it selects.

    Each batch is predicted with the set and the model learnt before it, and then learnt from. The
    predictor sees rows of full width: standardised by what the batches before have shown, missing
    entries and unselected features zero, in test and in training alike.

    Parameters
    ----------
    stream : Stream
        Where the batches come from.
    selector : OnlineSelector
        Learns from every batch as it comes.
    predictor : object with partial_fit and predict, optional
        Scored by its accuracy; for class labels.
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
    >>> from fires.evaluation.predictors import Perceptron
    >>> from fires.streams.synthetic import DriftingFeatures
    >>> stream = DriftingFeatures(1000, n_features=20, random_state=0)
    >>> steps = list(prequential(stream, FIRES(5), Perceptron()))
    >>> len(steps), bool(np.mean([step.scores["accuracy"] for step in steps[1:]]) > 0.6)
    (10, True)
    """
    scaler, stabilities = Standard(stream.schema.n_features), None
    for index, batch in enumerate(stream.batches(batch_size)):
        scores: dict[str, float] = {}
        rows: Floats | None = None
        if predictor is not None:
            weight = np.ones(batch.n_rows)
            first = not scaler.ready
            if first:
                scaler.begin(batch.X, weight, missing=scan(batch.X)[0] > 0)
            rows = np.nan_to_num((batch.X - scaler.shift) * scaler.gain, copy=False)
            if not first:
                sums = accumulate(batch.X, weight, weight, scaler.shift)
                scaler.absorb(batch.X, *sums, weight, missing=scan(batch.X)[0] > 0)
            scores["accuracy"] = np.nan
            if index:
                scores["accuracy"] = _accuracy(predictor, _masked(rows, selector), batch.y)

        started = time.perf_counter()
        selector.partial_fit(batch.X, batch.y)
        selected = selector.get_support(indices=True)
        trained = time.perf_counter()
        if rows is not None:
            predictor.partial_fit(_masked(rows, selector), batch.y)
        ended = time.perf_counter()

        if stabilities is None:
            stabilities = StabilityWindow(window, selector.n_features_in_)
        yield Step(
            index=index,
            position=batch.position,
            n_rows=batch.n_rows,
            scores=scores,
            selected=selected,
            stability=stabilities.update(selected),
            seconds_select=trained - started,
            seconds_train=ended - trained,
        )


def _masked(rows: Floats, selector: Any) -> Floats:
    masked = np.zeros_like(rows)
    selected = selector.get_support(indices=True)
    masked[:, selected] = rows[:, selected]
    return masked


def _accuracy(predictor: Any, rows: Floats, y: Any) -> float:
    return float(np.mean(predictor.predict(rows) == y))
