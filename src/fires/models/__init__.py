"""Base models: likelihoods whose parameters are random variables."""

from fires.models.base import BaseModel
from fires.models.linear import Linear
from fires.models.module import TorchModel
from fires.models.neural import NeuralNet
from fires.models.soft_tree import SoftTree

__all__ = ["BaseModel", "Linear", "NeuralNet", "SoftTree", "TorchModel"]
