"""Running totals over the steps of a run: nothing grows with its length."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fires.core.errors import StateError
from fires.core.events import JOINED
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Floats, Header, Label, Places
from fires.evaluation.records import Step, number_or_none, plain
from fires.evaluation.scoring import Baseline, beats
from fires.metrics.prediction import Scores
from fires.metrics.stability import StabilityWindow
from fires.predictors import Majority

_COUNTS = ("n_batches", "n_rows", "seconds_select", "seconds_train")


class RunTotals:
    """What the steps of a run add up to.

    Examples
    --------
    >>> from fires.streams.base import Position
    >>> totals = RunTotals(3)
    >>> for index, accuracy in enumerate([float("nan"), 0.5, 1.0]):
    ...     scores, selected = {"accuracy": accuracy}, np.array([index])
    ...     totals.add(Step(index, Position(10 * index), 10, scores, selected, 0.5, 0.0, 0.0))
    >>> totals.n_rows, totals.recent_scores, totals.share_selected
    (30, {'accuracy': 0.75}, array([0.33333333, 0.33333333, 0.33333333]))
    """

    def __init__(self, n_features: int | None, recent: int = 100, window: int = 10) -> None:
        self.whole: Scores | None = None
        self.baselines: dict[str, Baseline] = {}
        self.changes = Changes()
        self.window = StabilityWindow(window, n_features)
        self.n_batches = self.n_rows = 0
        self.seconds_select = self.seconds_train = 0.0
        self._times_selected = np.zeros(n_features or 0, dtype=np.int64)
        self._is_open = n_features is None
        self._stability, self._n_stable = 0.0, 0.0  # their sum, and in how many windows it is known
        self._recent: deque[tuple[dict[str, float], int]] = deque(maxlen=recent)

    def add(self, step: Step) -> None:
        """Count one step in, all rows of which have a label."""
        self.n_batches += 1
        self.n_rows += step.n_rows
        self.seconds_select += step.seconds_select
        self.seconds_train += step.seconds_train
        if self._is_open:
            n_more = int(step.selected.max(initial=-1)) + 1 - len(self._times_selected)
            self._times_selected = np.pad(self._times_selected, (0, max(n_more, 0)))
        self._times_selected[step.selected] += 1
        if step.stability == step.stability:
            self._stability += step.stability
            self._n_stable += 1.0
        self._recent.append((step.scores, step.n_rows))
        self.changes.add(step)

    @property
    def scores(self) -> dict[str, float]:
        """Each score over all rows, if rows are scored."""
        return {} if self.whole is None else self.whole.total

    @property
    def recent_scores(self) -> dict[str, float]:
        """The mean of each score over the last steps, weighted by rows."""
        return _means_of(self._recent, self._recent[-1][0] if self._recent else ())

    @property
    def beaten(self) -> dict[str, dict[str, bool]]:
        """Which baselines the pipeline beats, by which scores: see :func:`beats`."""
        if self.whole is None:
            return {}
        return {name: beats(self.whole, one.scores) for name, one in self.baselines.items()}

    @property
    def class_shares(self) -> dict[Label, float]:
        """The share of rows of each class, if one of the baselines counts them."""
        predictors = (one.predictor for one in self.baselines.values())
        return next((one.shares for one in predictors if isinstance(one, Majority)), {})

    @property
    def stability(self) -> float:
        """The mean stability of the windows in which it is defined."""
        return self._stability / self._n_stable if self._n_stable else math.nan

    @property
    def share_selected(self) -> Floats:
        """The share of the batches after which each feature was selected.

        Where features come and go, those behind the last one that was ever selected are left out.
        """
        return self._times_selected / max(self.n_batches, 1)

    def saved(self) -> State:
        """Everything there is to save."""
        baselines: Header = {}
        header: Header = {name: vars(self)[name] for name in _COUNTS} | {
            "scores": None if self.whole is None else list(self.whole.names),
            "stability": (self._stability, self._n_stable),
            "recent": list(self._recent),
            "most_recent": self._recent.maxlen,
            "open": self._is_open,
            "changes": self.changes.as_json(),
            "baselines": baselines,
        }
        arrays: Arrays = {"times_selected": self._times_selected.copy()}
        arrays |= under("window", self.window.state())
        arrays |= {} if self.whole is None else under("whole", self.whole.state())
        for name, one in self.baselines.items():
            baselines[name], learnt = one.saved()
            arrays |= under(name, learnt)
        return header, arrays

    @classmethod
    def from_saved(cls, header: dict[str, Any], arrays: Arrays) -> RunTotals:
        """The totals that gave this :meth:`saved`."""
        times = arrays["times_selected"]
        is_open = header.get("open", False)
        totals = cls(None if is_open else len(times), header["most_recent"])
        totals.window = StabilityWindow.from_state(part_of("window", arrays))
        fits = is_open or totals.window.n_features == len(times)
        if not fits or times.dtype != np.int64:
            raise StateError("the totals of the run do not fit together")
        for name in _COUNTS:
            setattr(totals, name, header[name])
        totals._times_selected = times
        totals._stability, totals._n_stable = header["stability"]
        totals._recent.extend((scores, n_rows) for scores, n_rows in header["recent"])
        totals.changes = Changes.from_json(header["changes"])
        if (names := header["scores"]) is not None:
            totals.whole = Scores.from_state(part_of("whole", arrays), names)
            totals.baselines = {
                name: Baseline.from_saved(part, part_of(name, arrays), names)
                for name, part in header["baselines"].items()
            }
        return totals

    def as_dict(self) -> Header:
        """The totals as JSON values."""
        beaten = self.beaten
        baselines: dict[str, Header] = {
            name: {"scores": plain(one.scores.total), "beaten": beaten[name]}
            for name, one in self.baselines.items()
        }
        return {
            "rows": self.n_rows,
            "batches": self.n_batches,
            "scores": plain(self.scores),
            "baselines": baselines,
            "class_shares": {str(label): share for label, share in self.class_shares.items()},
            "stability": number_or_none(self.stability),
            "seconds_select": self.seconds_select,
            "seconds_train": self.seconds_train,
        }


# How many batches before an alarm, and after it, are looked at.
WINDOW = 20

_KEPT = 100  # alarms of a run that notes are kept of, the last ones
_SIGNIFICANT = 3.0  # standard deviations from 0
_MEANS = ("accuracy", "mae")  # the mean over batches is that of all their rows


@dataclass(eq=False)
class Change:
    """What is known about one event: see :func:`fires.drift.events`."""

    selected_before: list[int]
    selected_after: list[int]
    before: dict[str, float]
    after: dict[str, float]
    n_before: int
    n_after: int = 0
    flipped: list[int] = field(default_factory=list)  # features whose importance changed its sign

    @property
    def left(self) -> list[int]:
        """The features that are not selected any more."""
        return sorted({*self.selected_before}.difference(self.selected_after))

    @property
    def came(self) -> list[int]:
        """The features that were not selected before."""
        return sorted({*self.selected_after}.difference(self.selected_before))


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
    ([3], [7], {'accuracy': 0.9}, {'accuracy': 0.8})
    """

    def __init__(self) -> None:
        self.by_batch: dict[int, Change] = {}
        self._now: Change | None = None
        self._recent: deque[tuple[dict[str, float], int]] = deque(maxlen=WINDOW)
        self._selected: list[int] = []
        self._last_row: int | None = None  # of the last alarm
        self._signs: list[int] = []  # before the last event

    def add(self, step: Step) -> None:
        """Follow one step."""
        selected = step.selected.tolist()
        if step.alarms:
            first, last = step.alarms[0], self._last_row
            if self._now is None or last is None or first.row - last > JOINED:
                n_before = len(self._recent)
                self._now = Change(self._selected, selected, self._means(), {}, n_before)
                self.by_batch[first.batch] = self._now
                if len(self.by_batch) > _KEPT:
                    del self.by_batch[next(iter(self.by_batch))]
            self._recent.clear()  # what comes now is measured against what came before
            self._now.n_after, self._last_row = 0, step.alarms[-1].row
        else:
            self._recent.append((step.scores, step.n_rows))
            if self._now is not None and self._now.n_after < WINDOW:
                self._now.n_after += 1
                self._now.selected_after, self._now.after = selected, self._means()
        self._selected = selected

    def look(self, places: Places, mu: Floats, sigma: Floats) -> None:
        """Now and then, take note of the signs of those selected features that are significant."""
        signed = np.sign(mu) * (1 + places)
        signs = signed[np.abs(mu) > _SIGNIFICANT * sigma].astype(int).tolist()
        if self._now is None or self._now.n_after >= WINDOW:
            self._signs = signs
        else:
            self._now.flipped = [abs(sign) - 1 for sign in signs if -sign in self._signs]

    def as_json(self) -> Header:
        """Everything there is to save, as JSON values; :meth:`from_json` takes it back."""
        return {
            "by_batch": [[batch, dict(vars(change))] for batch, change in self.by_batch.items()],
            "follows": self._now is not None,
            "recent": list(self._recent),
            "selected": self._selected,
            "last_row": self._last_row,
            "signs": self._signs,
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any]) -> Changes:
        """What :meth:`as_json` wrote down."""
        changes = cls()
        for batch, change in saved["by_batch"]:
            changes.by_batch[int(batch)] = Change(**change)
        if saved["follows"]:
            changes._now = list(changes.by_batch.values())[-1]  # the last alarm is followed
        changes._recent.extend((scores, n_rows) for scores, n_rows in saved["recent"])
        changes._selected, changes._last_row = saved["selected"], saved.get("last_row")
        changes._signs = saved.get("signs", [])
        return changes

    def _means(self) -> dict[str, float]:
        """The scores of the steps since the last alarm, as far as they are looked at."""
        means = _means_of(self._recent, _MEANS)
        return {name: mean for name, mean in means.items() if mean == mean}


def _means_of(
    steps: Collection[tuple[dict[str, float], int]], names: Iterable[str]
) -> dict[str, float]:
    """The mean of each score over the rows of some steps; NaN where there is none."""
    means = {}
    for name in names:
        known = [(s[name], n) for s, n in steps if name in s and s[name] == s[name]]
        n_rows = sum(n for _, n in known)
        means[name] = sum(value * n for value, n in known) / n_rows if n_rows else math.nan
    return means
