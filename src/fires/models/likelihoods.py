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
    """The log likelihood: a softmax for classes, a normal distribution for numbers.

    Parameters
    ----------
    outputs : Tensor (n_draws, n_rows, n_outputs)
        One number per class, or the mean of a number.
    point : mapping of str to Tensor
        Holds the learnt log variance, if the target is numeric.
    y : Tensor (n_rows,)
        Class codes, or numbers.
    level : Tensor (n_classes,), optional
        What is added to the outputs of each class.

    Returns
    -------
    Tensor (n_draws, n_rows)
    """
    if LOG_NOISE in point:
        return log_normal(y, outputs.squeeze(2), point[LOG_NOISE])
    return log_softmax(y, levelled(outputs, level))


def levelled(outputs: Tensor, level: Tensor | None) -> Tensor:
    """Outputs added to the level of each class.

    Parameters
    ----------
    outputs : Tensor (..., n_classes)
        One number per class.
    level : Tensor (n_classes,) or None
        Where outputs start from, if they do not start from 0.

    Returns
    -------
    Tensor (..., n_classes)
    """
    return outputs if level is None else outputs + level


def log_softmax(y: Tensor, outputs: Tensor) -> Tensor:
    """The log probability of each row's class, from one number per class.

    Parameters
    ----------
    y : Tensor (n_rows,)
        Class codes.
    outputs : Tensor (n_draws, n_rows, n_classes)
        One number per class.

    Returns
    -------
    Tensor (n_draws, n_rows)
    """
    import torch

    codes = y.expand(outputs.shape[:2]).unsqueeze(2)
    return torch.log_softmax(outputs, 2).gather(2, codes).squeeze(2)


def log_normal(y: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """The log density of a normal distribution.

    Parameters
    ----------
    y : Tensor
        Where the density is taken.
    mean, log_variance : Tensor
        Mean and log variance of the distribution.

    Returns
    -------
    Tensor
    """
    error = (y - mean).square() * (-log_variance).exp()
    return -0.5 * (error + log_variance + math.log(2.0 * math.pi))


def log_likelihood_limit(point: Mapping[str, Tensor]) -> float:
    """The greatest log likelihood of a row: predicted without error and without doubt.

    Parameters
    ----------
    point : mapping of str to Tensor
        As in :func:`log_likelihood_of`.

    Returns
    -------
    float
    """
    if LOG_NOISE not in point:
        return 0.0
    return -0.5 * (float(point[LOG_NOISE]) + math.log(2.0 * math.pi))


AGGREGATES = ("paper", "abs", "rms")


def aggregated(mu: Tensor, sigma: Tensor, how: str) -> tuple[Tensor, Tensor]:
    """One mean and one standard deviation per row of parameters.

    Parameters
    ----------
    mu, sigma : Tensor (n_features, n_weights)
        The belief of the weights of each feature.
    how : {"paper", "abs", "rms"}
        ``"paper"``: plain means, in which opposite signs cancel. ``"abs"``: the mean size of mu.
        ``"rms"``: root mean squares.

    Returns
    -------
    mu, sigma : Tensor (n_features,)
    """
    if how == "rms":
        return mu.square().mean(1).sqrt(), sigma.square().mean(1).sqrt()
    return (mu.abs() if how == "abs" else mu).mean(1), sigma.mean(1)
