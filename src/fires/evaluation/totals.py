"""Running totals over the steps of a run: nothing grows with its length."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from fires.core.belief import Floats
from fires.evaluation.records import Step, number_or_none
from fires.metrics.prediction import Scores


class RunTotals:
    """What the steps of a run add up to.

    Parameters
    ----------
    n_features : int
        Features of the stream.
    recent : int
        How many steps count as "now" in :attr:`recent_scores`.

    Attributes
    ----------
    whole : Scores or None
        The scores that :func:`fires.evaluation.prequential` updates, where it was given some.

    Examples
    --------
    >>> from fires.streams.base import Position
    >>> totals = RunTotals(3)
    >>> for index, accuracy in enumerate([float("nan"), 0.5, 1.0]):
    ...     scores, selected = {"accuracy": accuracy}, np.array([index])
    ...     totals.add(Step(index, Position(10 * index), 10, scores, selected, 0.5, 0.0, 0.0))
    >>> totals.n_rows, totals.scores, totals.share_selected
    (30, {'accuracy': 0.75}, array([0.33333333, 0.33333333, 0.33333333]))
    """

    def __init__(self, n_features: int, recent: int = 100) -> None:
        self.whole: Scores | None = None
        self.n_batches = self.n_rows = 0
        self.seconds_select = self.seconds_train = 0.0
        self._times_selected = np.zeros(n_features, dtype=np.int64)
        self._stability = _Mean()
        self._scores: dict[str, _Mean] = {}
        self._recent: deque[tuple[dict[str, float], int]] = deque(maxlen=recent)

    def add(self, step: Step) -> None:
        """Count one step in, all rows of which have a label.

        Parameters
        ----------
        step : Step
            The record of the next batch.
        """
        self.n_batches += 1
        self.n_rows += step.n_rows
        self.seconds_select += step.seconds_select
        self.seconds_train += step.seconds_train
        self._times_selected[step.selected] += 1
        self._stability.add(step.stability)
        self._recent.append((step.scores, step.n_rows))
        for name, value in step.scores.items():
            self._scores.setdefault(name, _Mean()).add(value, step.n_rows)

    @property
    def scores(self) -> dict[str, float]:
        """Each score over all rows: the total of :attr:`whole`, if it is there.

        Without it, the mean over the steps, weighted by rows. Of accuracy and mae that is the same;
        of r2, f1 and balanced accuracy it is not.
        """
        if self.whole is not None:
            return self.whole.total
        return {name: mean.value for name, mean in self._scores.items()}

    @property
    def recent_scores(self) -> dict[str, float]:
        """The same over the last steps only."""
        means = {name: _Mean() for name in self._scores}
        for scores, n_rows in self._recent:
            for name, value in scores.items():
                means[name].add(value, n_rows)
        return {name: mean.value for name, mean in means.items()}

    @property
    def stability(self) -> float:
        """The mean stability of the windows in which it is defined."""
        return self._stability.value

    @property
    def share_selected(self) -> Floats:
        """The share of the batches after which each feature was selected."""
        return self._times_selected / max(self.n_batches, 1)

    def as_dict(self) -> dict[str, Any]:
        """The totals as JSON values.

        Returns
        -------
        dict
            Rows, batches, scores, stability and seconds; None for what is not defined.
        """
        return {
            "rows": self.n_rows,
            "batches": self.n_batches,
            "scores": {name: number_or_none(value) for name, value in self.scores.items()},
            "stability": number_or_none(self.stability),
            "seconds_select": self.seconds_select,
            "seconds_train": self.seconds_train,
        }


class _Mean:
    """A weighted mean of the values that are defined; NaN if none is."""

    def __init__(self) -> None:
        self._total = self._weight = 0.0

    def add(self, value: float, weight: float = 1.0) -> None:
        if value == value:
            self._total += value * weight
            self._weight += weight

    @property
    def value(self) -> float:
        return self._total / self._weight if self._weight else np.nan
