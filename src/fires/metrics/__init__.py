"""How stable, how accurate, how right a selection is."""

from fires.metrics.stability import StabilityWindow, stability, stability_interval

__all__ = ["StabilityWindow", "stability", "stability_interval"]
