"""Changes of the world: alarms, for all features together and for single ones."""

from fires.drift.alarms import Alarm
from fires.drift.features import FeatureAlarms
from fires.drift.likelihood import LikelihoodAlarm
from fires.drift.surprise import SurpriseAlarm

__all__ = ["Alarm", "FeatureAlarms", "LikelihoodAlarm", "SurpriseAlarm"]
