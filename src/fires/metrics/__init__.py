"""How stable, how accurate, how right a selection is."""

from fires.metrics.prediction import Scores
from fires.metrics.recovery import Recovery, precision, recall, recoveries
from fires.metrics.stability import StabilityWindow, stability, stability_interval

__all__ = [
    "Recovery",
    "Scores",
    "StabilityWindow",
    "precision",
    "recall",
    "recoveries",
    "stability",
    "stability_interval",
]
