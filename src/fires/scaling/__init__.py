"""The online scaler, for dense and sparse rows."""

from fires.scaling.scaler import SCALES, Scaler

__all__ = ["SCALES", "Scaler"]
