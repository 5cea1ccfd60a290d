"""Draw a model's parameters, and differentiate the log marginal likelihood."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fires.models.parameters import INPUTS, ModelParameters

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Generator, Tensor

    from fires.models.device_rows import DeviceBatch, InputSlopes


@dataclass(frozen=True)
class DrawnBatch:
    """A batch together with the parameters that were drawn for it."""

    features: Tensor
    theta: Mapping[str, Tensor]
    point: Mapping[str, Tensor]
    y: Tensor
    weight: Tensor
    level: Tensor | None = None


@dataclass(frozen=True)
class MarginalSlopes:
    """The log marginal likelihood of a batch, and its slopes."""

    value: Tensor
    mu: dict[str, Tensor]
    sigma: dict[str, Tensor]
    point: dict[str, Tensor]
    inputs: list[InputSlopes]


class DrawnModel(Protocol):
    """What a model must have for its parameters to be drawn."""

    n_draws: int
    device: str
    dtype: str

    @property
    def name(self) -> str:
        """Its name, for errors."""

    def torch(self) -> ModuleType:
        """The library."""

    def log_likelihood(self, batch: DrawnBatch) -> tuple[Tensor, Tensor | None]:
        """The log likelihood of every draw and row."""


def draw_noise(
    model: DrawnModel,
    parameters: ModelParameters,
    batch: DeviceBatch,
    generator: Generator,
    scratch: dict[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """Standard normal numbers for every draw of every parameter that the batch uses."""
    torch = model.torch()
    scratch = {} if scratch is None else scratch
    place = {"dtype": getattr(torch, model.dtype), "device": model.device}
    noise = {}
    for name, mu in parameters.mu.items():
        shape = (model.n_draws, *mu.shape)
        if name == INPUTS:
            shape = (batch.rows.n_columns, model.n_draws, mu.shape[1])
        n = math.prod(shape)
        if name not in scratch or len(scratch[name]) < n:
            scratch[name] = torch.empty(n, **place)
        noise[name] = scratch[name][:n].view(shape).normal_(generator=generator)
    return noise


def drawn_batch(
    model: DrawnModel, parameters: ModelParameters, batch: DeviceBatch, noise: Mapping[str, Tensor]
) -> DrawnBatch:
    """A batch together with these draws; what is learnt can be differentiated by."""
    rows, dtype = batch.rows, batch.weight.dtype
    theta = {
        name: (mu.to(dtype) + parameters.sigma[name].to(dtype) * noise[name]).requires_grad_()
        for name, mu in parameters.mu.items()
        if name != INPUTS
    }
    point = {name: p.to(dtype, copy=True).requires_grad_() for name, p in parameters.point.items()}
    fixed = {name: value.to(dtype) for name, value in parameters.fixed.items()}
    if INPUTS in parameters.mu:
        mu, sigma = parameters.mu[INPUTS][rows.columns], parameters.sigma[INPUTS][rows.columns]
        projected = rows.project(mu, sigma, noise[INPUTS])
        features = projected.transpose(0, 1).contiguous().requires_grad_()
    else:
        assert rows.matrix is not None
        features = rows.matrix
    return DrawnBatch(features, theta, point | fixed, batch.y, batch.weight, batch.level)


def marginal_slopes(
    model: DrawnModel, parameters: ModelParameters, batch: DeviceBatch, noise: Mapping[str, Tensor]
) -> MarginalSlopes:
    """Differentiate the log marginal likelihood, with these draws."""
    torch, rows, weight = model.torch(), batch.rows, batch.weight
    drawn = drawn_batch(model, parameters, batch, noise)
    theta, point = drawn.theta, {name: drawn.point[name] for name in parameters.point}
    wanted = [*theta.values(), *point.values()]
    if has_inputs := INPUTS in parameters.mu:
        wanted.append(drawn.features)
    F, penalty = model.log_likelihood(drawn)
    value = weight @ log_mean(F)
    if penalty is not None:
        value = value - weight.sum() * penalty
    try:
        found = torch.autograd.grad(value, wanted, allow_unused=True)
    except Exception as error:
        raise ValueError(f"{model.name} cannot be differentiated: {first_line(error)}") from error
    slopes = [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]
    by_draw = dict(zip(theta, slopes, strict=False))
    inputs = rows.pull(slopes[-1].transpose(0, 1), noise[INPUTS]) if has_inputs else ()
    return MarginalSlopes(
        value.detach(),
        {name: G.sum(0) for name, G in by_draw.items()},
        {name: (G * noise[name]).sum(0) for name, G in by_draw.items()},
        dict(zip(point, slopes[len(theta) :], strict=False)),
        list(inputs),
    )


def log_mean(F: Tensor) -> Tensor:
    """The log of the mean likelihood over the draws."""
    import torch

    return torch.logsumexp(F, 0) - math.log(len(F))


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    message = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__
