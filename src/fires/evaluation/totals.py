"""Running totals over the steps of a run: nothing grows with its length."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from fires.core.belief import Floats
from fires.evaluation.records import Step


class Tally:
    """What the steps of a run add up to.

    Parameters
    ----------
    n_features : int
        Features of the stream.
    recent : int
        How many steps count as "now" in :attr:`recent_scores`.

    Examples
    --------
    >>> from fires.streams.base import Position
    >>> tally = Tally(3)
    >>> for index, accuracy in enumerate([float("nan"), 0.5, 1.0]):
    ...     scores, selected = {"accuracy": accuracy}, np.array([index])
    ...     tally.add(Step(index, Position(10 * index), 10, scores, selected, 0.5, 0.0, 0.0))
    >>> tally.n_rows, tally.scores, tally.share_selected
    (30, {'accuracy': 0.75}, array([0.33333333, 0.33333333, 0.33333333]))
    """

    def __init__(self, n_features: int, recent: int = 100) -> None:
        self.n_batches = self.n_rows = 0
        self.seconds_select = self.seconds_train = 0.0
        self._times_selected = np.zeros(n_features, dtype=np.int64)
        self._stability = [0.0, 0]
        self._scores: dict[str, list[float]] = {}
        self._recent: deque[tuple[dict[str, float], int]] = deque(maxlen=recent)

    def add(self, step: Step) -> None:
        """Count one step in, all rows of which have a label."""
        self.n_batches += 1
        self.n_rows += step.n_rows
        self.seconds_select += step.seconds_select
        self.seconds_train += step.seconds_train
        self._times_selected[step.selected] += 1
        if step.stability == step.stability:
            self._stability[0] += step.stability
            self._stability[1] += 1
        self._recent.append((step.scores, step.n_rows))
        for name, value in step.scores.items():
            total = self._scores.setdefault(name, [0.0, 0.0])
            if value == value:
                total[0] += value * step.n_rows
                total[1] += step.n_rows

    @property
    def scores(self) -> dict[str, float]:
        """The mean of each score over the steps, weighted by rows.

        Of accuracy that is the accuracy over all rows; of f1 or balanced accuracy, which
        :class:`fires.metrics.Scores` adds up by counts, it is not.
        """
        return {
            name: total / rows if rows else np.nan for name, (total, rows) in self._scores.items()
        }

    @property
    def recent_scores(self) -> dict[str, float]:
        """The same of the last steps."""
        means = {}
        for name in self._scores:
            found = ((scores.get(name, np.nan), n) for scores, n in self._recent)
            tested = [(value, n) for value, n in found if value == value]
            rows = sum(n for _, n in tested)
            means[name] = sum(value * n for value, n in tested) / rows if rows else np.nan
        return means

    @property
    def stability(self) -> float:
        """The mean stability of the windows in which it is defined."""
        return self._stability[0] / self._stability[1] if self._stability[1] else np.nan

    @property
    def share_selected(self) -> Floats:
        """The share of the batches after which each feature was selected."""
        return self._times_selected / max(self.n_batches, 1)

    def as_dict(self) -> dict[str, Any]:
        """The totals as JSON values."""
        return {
            "rows": self.n_rows,
            "batches": self.n_batches,
            "scores": {name: None if v != v else v for name, v in self.scores.items()},
            "stability": None if self.stability != self.stability else self.stability,
            "seconds_select": self.seconds_select,
            "seconds_train": self.seconds_train,
        }
