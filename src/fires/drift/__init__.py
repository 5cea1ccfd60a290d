"""Changes of the world: alarms, for all features together and for single ones."""

from fires.drift.alarms import Alarm
from fires.drift.likelihood import LikelihoodAlarm

__all__ = ["Alarm", "LikelihoodAlarm"]
