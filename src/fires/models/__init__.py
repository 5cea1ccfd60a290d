"""Base models: likelihoods whose parameters are random variables."""

from fires.models.base import BaseModel
from fires.models.linear import Linear

__all__ = ["BaseModel", "Linear"]
