"""What an alarm about all features was followed by: who left, who came, and how the score went."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from fires.core.types import Header, Places
from fires.evaluation.records import Step, WeightedMean

WINDOW = 20
"""How many batches before an alarm, and after it, are looked at."""

_KEPT = 100  # alarms of a run that notes are kept of, the last ones
_MEANS = ("accuracy", "mae")  # the mean over batches is that of all their rows


@dataclass(eq=False)
class Change:
    """What is known about one alarm."""

    selected_before: Places
    selected_after: Places
    before: dict[str, float]
    after: dict[str, float]
    n_before: int
    n_after: int = 0

    def as_json(self) -> Header:
        """All of it, as JSON values."""
        sets = ("selected_before", "selected_after")
        return vars(self) | {name: getattr(self, name).tolist() for name in sets}

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Change:
        """What :meth:`as_json` wrote down."""
        change = cls(**saved)
        change.selected_before = np.array(change.selected_before, dtype=np.intp)
        change.selected_after = np.array(change.selected_after, dtype=np.intp)
        return change

    @property
    def left(self) -> Places:
        """The features that are not selected any more."""
        return np.setdiff1d(self.selected_before, self.selected_after)

    @property
    def came(self) -> Places:
        """The features that were not selected before."""
        return np.setdiff1d(self.selected_after, self.selected_before)


class Changes:
    """Follows the steps of a run, in bounded memory.

    Examples
    --------
    >>> from fires.drift import Alarm
    >>> from fires.streams.base import Position
    >>> changes = Changes()
    >>> for i, (accuracy, column) in enumerate([(0.9, 3), (0.9, 3), (0.5, 3), (0.8, 7)]):
    ...     alarms = (Alarm(30, 2, None, 20.0),) if i == 2 else ()
    ...     facts = {"accuracy": accuracy}, np.array([column]), 1.0, 0.0, 0.0, None, alarms
    ...     changes.add(Step(i, Position(10 * i), 10, *facts))
    >>> change = changes.by_batch[2]
    >>> change.left, change.came, change.before, change.after
    (array([3]), array([7]), {'accuracy': 0.9}, {'accuracy': 0.8})
    """

    def __init__(self) -> None:
        self.by_batch: dict[int, Change] = {}
        self._now: Change | None = None
        self._recent: deque[tuple[dict[str, float], int]] = deque(maxlen=WINDOW)
        self._selected: Places = np.empty(0, dtype=np.intp)

    def add(self, step: Step) -> None:
        """Follow one step."""
        alarm = next((alarm for alarm in step.alarms if alarm.feature is None), None)
        if alarm is not None:
            sets = self._selected, step.selected
            self._now = Change(*sets, self._means(), {}, n_before=len(self._recent))
            self.by_batch[alarm.batch] = self._now
            if len(self.by_batch) > _KEPT:
                del self.by_batch[next(iter(self.by_batch))]
            self._recent.clear()  # what comes now is measured against what came since
        else:
            self._recent.append((step.scores, step.n_rows))
            if self._now is not None and self._now.n_after < WINDOW:
                self._now.n_after += 1
                self._now.selected_after, self._now.after = step.selected, self._means()
        self._selected = step.selected

    def as_json(self) -> Header:
        """Everything there is to save, as JSON values; :meth:`from_json` takes it back."""
        return {
            "by_batch": [[batch, change.as_json()] for batch, change in self.by_batch.items()],
            "follows": self._now is not None,
            "recent": list(self._recent),
            "selected": self._selected.tolist(),
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Changes:
        """What :meth:`as_json` wrote down."""
        changes = cls()
        for batch, change in saved["by_batch"]:
            changes.by_batch[int(batch)] = Change.from_json(change)
        if saved["follows"]:
            changes._now = list(changes.by_batch.values())[-1]  # the last alarm is followed
        changes._recent.extend((scores, n_rows) for scores, n_rows in saved["recent"])
        changes._selected = np.array(saved["selected"], dtype=np.intp)
        return changes

    def _means(self) -> dict[str, float]:
        """The scores of the steps since the last alarm, as far as they are looked at."""
        means = {name: WeightedMean() for name in _MEANS}
        for scores, n_rows in self._recent:
            for name in means.keys() & scores.keys():
                means[name].add(scores[name], n_rows)
        return {name: mean.value for name, mean in means.items() if mean.value == mean.value}
