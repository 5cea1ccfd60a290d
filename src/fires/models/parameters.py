"""The parameters of a Monte Carlo model, as tensors by name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from fires.core.belief import Belief
from fires.core.types import Floats

if TYPE_CHECKING:
    from torch import Tensor

# Our own names hold a space, so that no parameter of a module can have the same name.
INPUTS = "input weights"
"""The name of the parameters that meet the features: one row of them per feature."""

LOG_NOISE = "log noise"
"""The name of the point parameter of a numeric target: the log variance round its mean."""

BUFFER = "buffer "
"""What the names of a module's buffers start with among the fixed numbers."""

CLASS_ORDER = "class order"
"""The name of the fixed numbers that say which output of a module each class has."""

_FIXED = "fixed "


@dataclass
class ModelParameters:
    """The belief of a model, as tensors by name.

    All are float64, whatever precision the model computes in, so that small steps are not lost.
    """

    mu: dict[str, Tensor]
    sigma: dict[str, Tensor]
    point: dict[str, Tensor] = field(default_factory=dict)
    fixed: dict[str, Tensor] = field(default_factory=dict)

    def as_belief(self) -> Belief:
        """The same as arrays."""
        point = self.point | {_FIXED + name: value for name, value in self.fixed.items()}
        arrays = {name: value.detach().cpu().numpy() for name, value in point.items()}
        return Belief(_flat(self.mu), _flat(self.sigma), arrays)

    @classmethod
    def from_belief(
        cls, belief: Belief, shapes: Mapping[str, tuple[int, ...]], device: str
    ) -> ModelParameters:
        """The inverse of :meth:`as_belief`."""
        point = {name: _tensor(value, device) for name, value in belief.point.items()}
        ours = [name for name in point if name.startswith(_FIXED)]
        fixed = {name.removeprefix(_FIXED): point.pop(name) for name in ours}
        mu, sigma = (_cut(half, shapes, device) for half in (belief.mu, belief.sigma))
        return cls(mu, sigma, point, fixed)


def _flat(values: Mapping[str, Tensor]) -> Floats:
    outputs_first = (v.T if name == INPUTS else v for name, v in values.items())
    return np.concatenate([value.cpu().numpy().ravel() for value in outputs_first])


def _cut(values: Floats, shapes: Mapping[str, tuple[int, ...]], device: str) -> dict[str, Tensor]:
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
    found = {}
    for (name, shape), part in zip(shapes.items(), np.split(values, ends[:-1]), strict=True):
        tensor = _tensor(part.reshape(shape), device)
        found[name] = tensor.T.contiguous() if name == INPUTS else tensor
    return found


def _tensor(values: Floats, device: str) -> Tensor:
    import torch

    return torch.tensor(values, dtype=torch.float64, device=device)
