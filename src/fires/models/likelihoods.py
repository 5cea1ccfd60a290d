"""Log likelihoods of the outputs of nets, trees and modules, and aggregation of weights.

The first axis of every tensor is the draws, the second the rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from fires.models.parameters import LOG_NOISE

if TYPE_CHECKING:
    from torch import Tensor


def log_likelihood_of(
    outputs: Tensor, point: Mapping[str, Tensor], y: Tensor, level: Tensor | None = None
) -> Tensor:
    """The log likelihood: a softmax for classes, a normal distribution for numbers."""
    if LOG_NOISE in point:
        return log_normal(y, outputs.squeeze(2), point[LOG_NOISE])
    return log_softmax(y, levelled(outputs, level))


def levelled(outputs: Tensor, level: Tensor | None) -> Tensor:
    """Outputs added to the level of each class."""
    return outputs if level is None else outputs + level


def log_softmax(y: Tensor, outputs: Tensor) -> Tensor:
    """The log probability of each row's class, from one number per class."""
    import torch

    codes = y.expand(outputs.shape[:2]).unsqueeze(2)
    return torch.log_softmax(outputs, 2).gather(2, codes).squeeze(2)


def log_normal(y: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """The log density of a normal distribution."""
    error = (y - mean).square() * (-log_variance).exp()
    return -0.5 * (error + log_variance + math.log(2.0 * math.pi))


def log_likelihood_limit(point: Mapping[str, Tensor]) -> float:
    """The greatest log likelihood of a row: predicted without error and without doubt."""
    if LOG_NOISE not in point:
        return 0.0
    return -0.5 * (float(point[LOG_NOISE]) + math.log(2.0 * math.pi))


AGGREGATES = ("paper", "abs", "rms")


def aggregated(mu: Tensor, sigma: Tensor, how: str) -> tuple[Tensor, Tensor]:
    """One mean and one standard deviation per row of parameters."""
    if how == "rms":
        return mu.square().mean(1).sqrt(), sigma.square().mean(1).sqrt()
    return (mu.abs() if how == "abs" else mu).mean(1), sigma.mean(1)
