"""What raises alarms when the relation between features and target has changed."""

from __future__ import annotations

import copy
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from fires.core.declared import Array, Declared, Value, collect, restore
from fires.core.settings import check_choice
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Header, Places
from fires.drift import ERICS, Alarm, Detector, SurpriseAlarm, alarms_from_array, alarms_to_array
from fires.models.bayes_learner import KEPT_ROWS

if TYPE_CHECKING:
    from fires.models.base import JointPosterior, Learner


class DriftMonitor:
    """Watches the losses of a learner and the importances of its features.

    A learner with a posterior watches its own likelihood: its alarms are taken over. That of others
    is asked for its surprise before it learns, or :class:`fires.drift.ERICS` reads its belief after
    it has learnt. As published, ERICS leaves the belief as it is.
    """

    learnt: ClassVar[Declared] = {
        "alarms": Array("*", 4),
        "n_batches": Value(int, low=0),
        "rows_since_alarm": Value(float, low=0.0),
    }

    def __init__(self, drift: str | Detector | None, learner: Learner) -> None:
        self._erics: ERICS | None = None
        self.follow(drift, learner)
        self.alarms: list[Alarm] = []
        self.n_batches, self.rows_since_alarm = 0, 0.0
        self.detector = None if isinstance(drift, str | None) else copy.deepcopy(drift)
        self._surprise = SurpriseAlarm()

    def follow(self, drift: str | Detector | None, learner: Learner) -> None:
        """Go by the setting of now."""
        self._is_on = drift is not None
        # Whether check_loss is to be told the surprise of a batch that a gradient will learn from.
        self.watches_loss = not isinstance(drift, str | None) or drift == "alarm"
        if not (isinstance(drift, str) and drift == "erics"):
            self._erics = None
        elif self._erics is None:
            self._erics = ERICS(*learner.by_class())

    def check_loss(
        self, learner: Learner, surprise: float, variance: float, n_rows: int, row: int
    ) -> bool:
        """For models that learn by gradient: forget before a batch if it is a surprise."""
        if self.detector is None:
            strength = self._surprise.update(surprise, variance)
            found = strength > self._surprise.limit
        else:
            strength = surprise / n_rows
            found = _detects(self.detector, [strength])
        if found:
            learner.forget(KEPT_ROWS / max(self.rows_since_alarm, 2.0 * KEPT_ROWS))
            self.alarms = [*self.alarms, Alarm(row, self.n_batches, None, strength)]
            self._surprise.restart()
            self.rows_since_alarm = 0.0
        self.rows_since_alarm += n_rows
        return found

    def update(self, learner: Learner, posterior: JointPosterior | None, row: int) -> bool:
        """After a step that ended with this row; whether there is an alarm."""
        self.n_batches, batch = self.n_batches + 1, self.n_batches
        found: list[Alarm] = []
        if posterior is not None:
            strengths, moved = posterior.strengths, posterior.moved if self._is_on else {}
            if self.detector is None and not (strengths or moved):
                return False
            if self.detector is not None and _detects(self.detector, posterior.losses.tolist()):
                posterior.forget_most()
                strengths = [float(posterior.losses.mean())]
            found = list(map(partial(Alarm, row, batch, None), strengths))
            if moved and not strengths:
                found = [Alarm(row, batch, feature, far) for feature, far in moved.items()]
        elif self._erics is not None:
            rises = self._erics.update(*learner.by_class())
            for place in np.flatnonzero(rises).tolist():
                feature = place - 1 if place else None
                found.append(Alarm(row, batch, feature, float(rises[place])))
        if found:
            self.alarms = [*self.alarms, *found]
        return bool(found)

    # --- a part of FIRES ----------------------------------------------------------------------

    def rearranged(self, source: Places, places: Places, learner: Learner) -> Self:
        """A copy for other columns: where each comes from, and where each goes."""
        other = copy.copy(self)
        if self._erics is not None:
            other._erics = self._erics.rearranged(source, *learner.by_class())
        other.alarms = [
            alarm if alarm.feature is None else alarm._replace(feature=int(places[alarm.feature]))
            for alarm in self.alarms
            if alarm.feature is None or places[alarm.feature] >= 0
        ]
        return other

    def state(self) -> State:
        """All that was learnt, by its name in a file."""
        facts = SimpleNamespace(**vars(self) | {"alarms": alarms_to_array(self.alarms)})
        header, arrays = collect(facts, self.learnt)
        arrays |= under("surprise", collect(self._surprise, SurpriseAlarm.learnt)[1])
        if self._erics is not None:
            arrays |= under("erics", collect(self._erics, ERICS.learnt)[1])
        return header, arrays

    def restore(self, header: Header, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError if it does not fit."""
        found = SimpleNamespace()
        restore(found, self.learnt, header, arrays, {})
        restore(self._surprise, SurpriseAlarm.learnt, {}, part_of("surprise", arrays), {})
        if self._erics is not None and (parts := part_of("erics", arrays)):
            restore(self._erics, ERICS.learnt, {}, parts, self._erics.sizes)
        self.n_batches, self.rows_since_alarm = found.n_batches, found.rows_since_alarm
        self.alarms = alarms_from_array(found.alarms)


def check_drift(name: str, drift: str | Detector | None) -> None:
    """Raise if the setting makes no sense."""
    if isinstance(drift, str | None):
        known = "'auto', 'alarm', 'erics', None or a detector"
        check_choice(name, drift, ("auto", "alarm", "erics", None), known)
    elif not (hasattr(drift, "update") and hasattr(drift, "drift_detected")):
        raise ValueError(
            "drift must be 'auto', 'alarm', 'erics', None, or a detector with the method update "
            f"and the attribute drift_detected, as River's have; got {drift!r}."
        )


def _detects(detector: Detector, losses: list[float]) -> bool:
    """Whether a detector finds a drift when it is told how badly rows were predicted."""
    found = False
    for loss in losses:
        detector.update(loss)
        found = found or bool(detector.drift_detected)
    return found
