"""The parameters of a Monte Carlo model, its rows on a device, its draws and its likelihoods.

Parameters are tensors by name. They are drawn for each batch, and the log marginal likelihood is
differentiated. In the tensors of draws, the first axis is the draws, the second the rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.belief import Belief
from fires.core.types import CsrRows, Floats

if TYPE_CHECKING:
    from torch import Tensor, dtype

    Columns = slice | Tensor
    InputSlopes = tuple[Columns, Tensor, Tensor]

# --- parameters ---------------------------------------------------------------------------------

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


# --- rows on a device -----------------------------------------------------------------------------

# Numbers handled at once; on a processor they should fit into its cache.
AT_ONCE = {"cpu": 1 << 19, "cuda": 1 << 26}
"""By device; its keys are the devices there are."""


class DeviceBatch:
    """A batch as tensors.

    Of dense rows, features are handled in parts that fit into the cache. Sparse rows have no
    matrix, and cost what their entries cost, however wide X is.
    """

    def __init__(
        self, X: Tensor | CsrRows, y: Tensor, weight: Tensor, level: Tensor | None, device: str
    ) -> None:
        import torch

        self.y, self.weight, self.level = y, weight, level
        self.matrix: Tensor | None = None
        self.columns: Columns = slice(None)  # the features shown
        if isinstance(X, torch.Tensor):
            self.matrix, self.n_columns = X, X.shape[1]
            return
        columns, local = np.unique(X.indices, return_inverse=True)
        small = sp.csr_array((X.data, local, X.indptr), shape=(X.shape[0], len(columns)))
        self.columns, self.n_columns = _integers(columns, device), len(columns)
        self._by_row, self._by_column = (
            _entries(part, weight.dtype, device) for part in (small, sp.csr_array(small.T))
        )

    def project(self, mu: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        """``X @ (mu + sigma * noise)`` for every draw."""

        def theta(part: slice) -> Tensor:
            r = noise[part]
            middle, width = (half[part].to(r.dtype)[:, None, :] for half in (mu, sigma))
            return middle.addcmul(width, r).flatten(1)

        if self.matrix is None:
            return _sum(theta(slice(None)), self._by_row).view(-1, *noise.shape[1:])
        Z = self.matrix.new_zeros(len(self.matrix), noise[0].numel())
        for part in _parts(noise):
            Z.addmm_(self.matrix[:, part], theta(part))
        return Z.view(-1, *noise.shape[1:])

    def pull(self, slope: Tensor, noise: Tensor) -> Iterator[InputSlopes]:
        """The slopes in mu and sigma of the features shown, part by part."""
        flat = slope.flatten(1).contiguous()
        if self.matrix is None:
            G = _sum(flat, self._by_column).view(noise.shape)
            yield self.columns, G.sum(1), G.mul_(noise).sum(1)
            return
        for part in _parts(noise):
            G = (self.matrix[:, part].T @ flat).view(noise[part].shape)
            yield part, G.sum(1), G.mul_(noise[part]).sum(1)


def _parts(noise: Tensor) -> Iterator[slice]:
    size = max(1, AT_ONCE[noise.device.type] // max(noise[0].numel(), 1))
    for first in range(0, len(noise), size):
        yield slice(first, first + size)


def _entries(X: sp.csr_array, dtype: dtype, device: str) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    values = torch.tensor(X.data, dtype=dtype, device=device)
    return _integers(X.indices, device), _integers(X.indptr, device), values


def _integers(values: npt.NDArray[np.generic], device: str) -> Tensor:
    import torch

    return torch.tensor(values, dtype=torch.int64, device=device)


def _sum(table: Tensor, entries: tuple[Tensor, Tensor, Tensor]) -> Tensor:
    """A sparse matrix times a dense one."""
    import torch

    indices, offsets, values = entries
    if len(indices) == 0:
        return table.new_zeros(len(offsets) - 1, table.shape[1])
    return torch.nn.functional.embedding_bag(
        indices, table, offsets, mode="sum", per_sample_weights=values, include_last_offset=True
    )


# --- draws ----------------------------------------------------------------------------------------


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


def log_mean(F: Tensor) -> Tensor:
    """The log of the mean likelihood over the draws."""
    import torch

    return torch.logsumexp(F, 0) - math.log(len(F))


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    message = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


# --- likelihoods ----------------------------------------------------------------------------------


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
