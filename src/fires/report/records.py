"""What the records of a run add up to: read as they come, in memory that does not grow."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from fires.report.members import Members
from fires.report.spans import Numbers, Spans, Whole
from fires.report.stays import Stays
from fires.report.steps import SCORES, StepBlock
from fires.run.records import Latencies

N_SPANS, N_MEMBER_SPANS = 256, 200
_MOST_ALARMS = 200
_MEANS = ("accuracy", "mae")  # the mean over batches is that of all their rows
_NONE = np.empty(0)


class Records:
    """What is known of all batches so far."""

    def __init__(self, n_features: int) -> None:
        self.n_batches = self.n_rows = self.n_waited = self.n_missing = self.n_alarms = 0
        self.scores, self.stability = Spans(N_SPANS), Spans(N_SPANS)
        self.score_names: dict[str, None] = {}
        self.who: dict[str, None] = {}
        self.members = Members(N_MEMBER_SPANS)
        self.stays = Stays(n_features, N_SPANS)
        self.alarms: deque[dict[str, Any]] = deque(maxlen=_MOST_ALARMS)
        self.alarms_of = np.zeros(n_features, dtype=np.int64)
        self.latencies = Latencies()
        self.known: tuple[int, Whole, Numbers, Numbers] = (-1, _NONE.astype(int), _NONE, _NONE)

    def add(self, block: StepBlock) -> None:
        """Add the next batches."""
        if block.n_places > len(self.alarms_of):
            self.grow(block.n_places)
        self._add_known(block)
        self.n_batches = block.last + 1  # also of those whose records are lost
        self.n_rows = int(block.rows[-1])
        self.n_waited += block.n_waited
        self.n_missing = self.n_missing if block.n_missing is None else block.n_missing
        self.who |= dict.fromkeys(block.who)
        self.score_names |= dict.fromkeys(block.score_names)
        series = {f"{who} {score}": values for (who, score), values in block.scores.items()}
        self.scores.add(block.rows, series, block.n_rows)
        series = {"stability": block.stability, "seconds": block.seconds}
        self.stability.add(block.rows, series, np.ones(len(block)))
        self.latencies.add_all(block.seconds)
        self.members.add(block)
        self.stays.add(block)
        for alarm in block.alarms:
            self.n_alarms += 1
            self.alarms.append(alarm)
            if alarm["feature"] is not None:
                self.alarms_of[alarm["feature"]] += 1

    @property
    def n_features(self) -> int:
        """How many features there is room for."""
        return len(self.alarms_of)

    def grow(self, n_features: int) -> None:
        """Have room for more features: where columns come and go, there will be more."""
        self.stays.grow(n_features)
        self.alarms_of = np.pad(self.alarms_of, (0, n_features - len(self.alarms_of)))

    def _add_known(self, block: StepBlock) -> None:
        known = block.known
        if len(known.batches):
            last = known.batches == known.batches[-1]
            self.known = (
                self.n_batches + int(known.batches[-1]),
                known.places[last],
                known.importance[last],
                known.uncertainty[last],
            )

    @property
    def score(self) -> str | None:
        """The score that is shown over time."""
        first = next(iter(self.score_names), None)
        return next((name for name in SCORES if name in self.score_names), first)

    def total_scores(self) -> dict[str, dict[str, float | None]]:
        """Means over all rows, by score and predictor; only of scores for which that is exact."""
        return {
            score: {who: self._total(who, score) for who in self.who} for score in self.score_names
        }

    def _total(self, who: str, score: str) -> float:
        series = f"{who} {score}"
        is_exact = score in _MEANS and series in self.scores
        return self.scores.total(series) if is_exact else float("nan")
