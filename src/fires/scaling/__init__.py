"""The scale of columns, learnt while the stream flows."""

from fires.scaling.scaler import SCALES, Scaler

__all__ = ["SCALES", "Scaler"]
