"""Test, then train: what the predictor was shown, anyone can see."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.belief import Floats
from fires.evaluation.records import Step
from fires.kernels import read_only
from fires.kernels.features import merge
from fires.kernels.perceptron import column_sums, mask_rows
from fires.metrics.stability import StabilityWindow
from fires.models.scaling import ROUNDING
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
    >>> from fires.evaluation.predictors import Perceptron
    >>> from fires.streams.synthetic import DriftingFeatures
    >>> stream = DriftingFeatures(1000, n_features=20, random_state=0)
    >>> steps = list(prequential(stream, FIRES(5), Perceptron()))
    >>> len(steps), bool(np.mean([step.scores["accuracy"] for step in steps[1:]]) > 0.6)
    (10, True)
    """
    seen = None if predictor is None else _Scaled(stream.schema.n_features)
    stabilities: StabilityWindow | None = None
    selected = np.empty(0, dtype=np.intp)
    for index, batch in enumerate(stream.batches(batch_size)):
        scores: dict[str, float] = {}
        rows: Floats | None = None
        if seen is not None:
            seen.look(batch.X)
            scores["accuracy"] = np.nan
            if index:
                rows = seen.masked(batch.X, selected)
                scores["accuracy"] = int((predictor.predict(rows) == batch.y).sum()) / batch.n_rows

        started = time.perf_counter()
        before = selected
        selector.partial_fit(batch.X, batch.y)
        selected = selector.get_support(indices=True)
        if seen is not None and not hasattr(selector, "classes_"):
            seen = None  # a numeric target: there is nothing to be accurate about
            scores.clear()
        trained = time.perf_counter()
        if seen is not None:
            if rows is None or not np.array_equal(before, selected):
                rows = seen.masked(batch.X, selected)
            predictor.partial_fit(rows, batch.y)
            seen.learn(batch.X)
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


class _Scaled:
    """Rows as a predictor sees them, standardised by the batches before; the first by itself.

    What :class:`fires.models.scaling.Standard` does, for rows without weights and in fewer calls:
    it must not cost more than the selector that is looked at.
    """

    def __init__(self, n_features: int) -> None:
        self._count, self._shift, self._spread, self._gain = np.zeros((4, n_features))
        self._sums = np.empty((2, n_features))
        self._first = True

    def look(self, X: Floats) -> None:
        """Take the scale of the first batch from the batch itself."""
        if sp.issparse(X):
            raise ValueError("A predictor needs dense batches: scaled, sparse rows would fill up.")
        if self._first:
            self._shift = np.nan_to_num(X[0])  # any point among the values, so that sums are exact
            self._absorb(X)

    def masked(self, X: Floats, selected: npt.NDArray[np.intp]) -> Floats:
        """X in its full width, with zeros for what is missing or not selected."""
        rows = np.zeros(X.shape)
        mask_rows(*read_only(X), selected, self._shift, self._gain, rows)
        return rows

    def learn(self, X: Floats) -> None:
        """Let the batch count for the scale of those to come."""
        if not self._first:
            self._absorb(X)
        self._first = False

    def _absorb(self, X: Floats) -> None:
        p, q = self._sums
        column_sums(*read_only(X), self._shift, self._count, p, q)
        merge(self._count, self._shift, self._spread, self._gain, p, q, ROUNDING)
