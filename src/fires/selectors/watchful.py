"""A selector that raises alarms when what the features say has changed."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from fires.core.settings import check_choice
from fires.drift.alarms import Alarm
from fires.drift.features import FeatureAlarms
from fires.drift.surprise import SurpriseAlarm
from fires.models.bayes_learner import KEPT_ROWS, BayesLearner
from fires.selectors.modelled import Modelled

if TYPE_CHECKING:
    from fires.drift.alarms import Detector


class Watchful(Modelled):
    """A selector of which some settings say which changes raise an alarm."""

    _alarms_: list[Alarm]
    _n_batches_: int
    _rows_since_alarm_: float
    _surprise_: SurpriseAlarm
    _feature_alarms_: FeatureAlarms
    _detector_: Detector | None

    @property
    def alarms_(self) -> list[Alarm]:
        """The changes noticed so far, in order. See :class:`fires.drift.Alarm`."""
        self._check_fitted()
        return list(getattr(self, "_alarms_", []))

    def _count_batch(self) -> None:
        if not hasattr(self, "_n_batches_"):
            self._n_batches_, self._alarms_ = 0, []
            self._rows_since_alarm_ = 0.0
            self._surprise_ = SurpriseAlarm()
            self._feature_alarms_ = FeatureAlarms(max(0.5 * float(self.memory), 1.0))
            drift = self.drift
            self._detector_ = None if isinstance(drift, str | None) else copy.deepcopy(drift)
        self._n_batches_ += 1

    def _raise_alarm(self, n_rows: int, strength: float, feature: int | None) -> None:
        row = getattr(self, "n_samples_seen_", 0) + n_rows
        alarm = Alarm(row, self._n_batches_ - 1, feature, strength)
        self._alarms_ = [*self._alarms_, alarm]

    def _watches_surprise(self) -> bool:
        """Whether a model that learns by gradient is watched."""
        if self.drift is None or (isinstance(self.drift, str) and self.drift == "auto"):
            return False
        return not isinstance(self._learner_, BayesLearner)

    def _check_loss_drift(self, surprise: float, variance: float, n_rows: int) -> bool:
        """For models that learn by gradient: forget before a batch if it is a surprise."""
        learner: Any = self._learner_
        if self._detector_ is None:
            strength = self._surprise_.update(surprise, variance)
            found = strength > self._surprise_.limit
        else:
            strength = surprise / n_rows
            found = _detects(self._detector_, [strength])
        if found:
            learner.forget(KEPT_ROWS / max(self._rows_since_alarm_, 2.0 * KEPT_ROWS))
            self._raise_alarm(n_rows, strength, None)
            self._surprise_.restart()
            self._rows_since_alarm_ = 0.0
        self._rows_since_alarm_ += n_rows
        return found

    def _take_note(self, n_rows: int, weight: float) -> bool:
        """After a Bayesian step: raise alarms; whether there was one about all features."""
        learner = self._learner_
        assert isinstance(learner, BayesLearner)
        strengths = learner.strengths
        if self._detector_ is not None and _detects(self._detector_, learner.losses.tolist()):
            learner.forget_most()
            strengths = [float(learner.losses.mean())]
        for strength in strengths:
            self._raise_alarm(n_rows, strength, None)
        if strengths:
            self._feature_alarms_.restart()
        elif self.drift is not None and self._feature_alarms_.is_due(weight):
            # Class by class: which class a feature matters most for may change without any drift.
            moved = self._feature_alarms_.update(*learner.by_class(), learner.prior_deviations())
            for feature, strength in moved.items():
                self._raise_alarm(n_rows, strength, feature)
        return bool(strengths)

    def _check_drift(self) -> None:
        """Raise if the setting makes no sense."""
        if _is_plain(self.drift):
            known = "'auto', 'alarm', None or a detector"
            check_choice("drift", self.drift, ("auto", "alarm", None), known)
        elif not (hasattr(self.drift, "update") and hasattr(self.drift, "drift_detected")):
            raise ValueError(
                "drift must be 'auto', 'alarm', None, or a detector with the method update and the "
                f"attribute drift_detected, as River's have; got {self.drift!r}."
            )


def _is_plain(drift: str | Detector | None) -> bool:
    """Whether it is a setting, not a detector."""
    return drift is None or isinstance(drift, str)


def _detects(detector: Detector, losses: list[float]) -> bool:
    """Whether a detector finds a drift when it is told how badly rows were predicted."""
    found = False
    for loss in losses:
        detector.update(loss)
        found = found or bool(detector.drift_detected)
    return found
