r"""Marginal likelihoods by Monte Carlo: models whose integral over theta has no closed form.

Parameters are drawn as :math:`\theta^l = \mu + \sigma \circ r^l`,
:math:`r^l \sim \mathcal{N}(0, 1)`. All rows of a batch share the draws:

.. math::
    \log P(y_b \mid x_b) \approx \log \frac{1}{L} \sum_l f_{\theta^l}(y_b \mid x_b)

With r held fixed, the slopes are :math:`\sum_l G_l` in mu and :math:`\sum_l G_l \circ r^l` in
sigma. :math:`G_l` is the slope of the log likelihood of draw l, in which each row is weighted by
the draw's responsibility for it. This is exactly :math:`\nabla P / P` of the estimate (section 4.2
of the paper). All draws go through the model in one pass.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.belief import Belief
from fires.core.optional import require
from fires.core.settings import check_count, check_declared, choice, flag, number
from fires.core.types import CsrRows, Floats, Matrix
from fires.models.base import Rng, Values, Weights

if TYPE_CHECKING:
    from torch import Generator, Tensor

    InputSlopes = tuple[slice | Tensor, Tensor, Tensor]
    Entries = tuple[Tensor, Tensor, Tensor]  # of a sparse matrix

_SIGMA = 0.1  # at the start of the scaled form of the paper's models
_NARROW = 10  # features, from which on the rate of the input weights grows with their number


# --- parameters ---------------------------------------------------------------------------------

# Our own names hold a space, so that no parameter of a module can have the same name.
# The name of the parameters that meet the features: one row of them per feature.
INPUTS = "input weights"

# The name of the point parameter of a numeric target: the log variance round its mean.
LOG_NOISE = "log noise"

# What the names of a module's buffers start with among the fixed numbers.
BUFFER = "buffer "

# The name of the fixed numbers that say which output of a module each class has.
CLASS_ORDER = "class order"

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
        point = {name: _tensor(value, device, "float64") for name, value in belief.point.items()}
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
        tensor = _tensor(part.reshape(shape), device, "float64")
        found[name] = tensor.T.contiguous() if name == INPUTS else tensor
    return found


def _tensor(values: npt.ArrayLike, device: str, kind: str) -> Tensor:
    import torch

    # In C order: torch cannot read arrays with negative strides.
    return torch.tensor(np.asarray(values, order="C"), dtype=getattr(torch, kind), device=device)


# --- rows on a device -----------------------------------------------------------------------------


@dataclass
class DeviceBatch:
    """A batch as tensors, and later with the parameters that were drawn for it.

    Sparse rows have no matrix, and cost what their entries cost, however wide X is.
    """

    y: Tensor
    weight: Tensor
    level: Tensor | None
    n_columns: int
    matrix: Tensor | None = None
    columns: slice | Tensor = field(default_factory=lambda: slice(None))  # the features shown
    entries: Sequence[Entries] = ()  # of sparse rows: by row, and by column
    # What a model sees of the rows in each draw, and its parameters there.
    features: Tensor = field(init=False)
    theta: Mapping[str, Tensor] = field(init=False)
    point: Mapping[str, Tensor] = field(init=False)

    @classmethod
    def of_sparse(cls, X: CsrRows, y: Tensor, weight: Tensor, level: Tensor | None) -> Self:
        """A batch of sparse rows: only columns with entries are held."""
        device, kind = weight.device.type, str(weight.dtype).removeprefix("torch.")
        columns, local = np.unique(X.indices, return_inverse=True)
        small = sp.csr_array((X.data, local, X.indptr), shape=(X.shape[0], len(columns)))
        entries = []
        for part in (small, sp.csr_array(small.T)):
            indices, starts = (_tensor(at, device, "int64") for at in (part.indices, part.indptr))
            entries.append((indices, starts, _tensor(part.data, device, kind)))
        shown = _tensor(columns, device, "int64")
        return cls(y, weight, level, len(columns), columns=shown, entries=entries)

    def project(self, mu: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        """``X @ (mu + sigma * noise)`` for every draw."""
        middle, width = (half.to(noise.dtype)[:, None, :] for half in (mu, sigma))
        theta = middle.addcmul(width, noise).flatten(1)
        found = _sum(theta, self.entries[0]) if self.matrix is None else self.matrix @ theta
        return found.view(-1, *noise.shape[1:])

    def pull(self, slope: Tensor, noise: Tensor) -> InputSlopes:
        """The slopes in mu and sigma of the features shown."""
        flat = slope.flatten(1).contiguous()
        G = _sum(flat, self.entries[1]) if self.matrix is None else self.matrix.T @ flat
        G = G.view(noise.shape)
        return self.columns, G.sum(1), G.mul_(noise).sum(1)


def _sum(table: Tensor, entries: Entries) -> Tensor:
    """A sparse matrix times a dense one."""
    import torch

    indices, offsets, values = entries
    return torch.nn.functional.embedding_bag(
        indices, table, offsets, mode="sum", per_sample_weights=values, include_last_offset=True
    )


# --- draws ----------------------------------------------------------------------------------------


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


def aggregated(mu: Tensor, sigma: Tensor, how: str) -> tuple[Tensor, Tensor]:
    """One mean and one standard deviation per row of parameters."""
    if how == "rms":
        root = mu.shape[1] ** 0.5
        return mu.norm(dim=1) / root, sigma.norm(dim=1) / root
    return (mu.abs() if how == "abs" else mu).mean(1), sigma.mean(1)


# --- models ---------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the settings that all these models have may be, besides ``n_draws``.

    A model may list its own settings first, and have its own defaults.
    """

    rate: float = number(1.0, wanted="a positive number")
    aggregate: str = choice("rms", "abs", "paper")
    balance: bool = flag(True)
    task: str = choice("auto", "classes", "numbers")
    device: str = choice("cpu", "cuda")
    dtype: str = choice("float32", "float64")


class MonteCarlo(ABC):
    """The base class of models whose marginal likelihood is a mean over draws.

    A model may have parameters named ``"input weights"``, one row per feature, and see X only
    through its product with them. Then sparse batches cost what their entries cost, and input
    weights of features that a batch does not show are neither drawn nor changed, which is exact.
    """

    n_draws: int
    rate: float
    balance: bool
    aggregate: str
    task: str
    device: str
    dtype: str

    # --- what a subclass writes -------------------------------------------------------------

    @abstractmethod
    def start(self, n_features: int, n_classes: int, generator: Generator) -> ModelParameters:
        """The parameters before the first batch."""

    @abstractmethod
    def shapes(self, belief: Belief) -> dict[str, tuple[int, ...]]:
        """The shape of each random parameter in a belief, outputs first."""

    @abstractmethod
    def log_likelihood(self, batch: DeviceBatch) -> tuple[Tensor, Tensor | None]:
        """The log likelihood of every draw and row."""

    @abstractmethod
    def with_outputs(
        self, parameters: ModelParameters, sources: list[int | None], generator: Generator
    ) -> ModelParameters:
        """A copy for other classes."""

    def input_weights(self, parameters: ModelParameters) -> tuple[Tensor, Tensor] | None:
        """Means and deviations of the weights that meet the features, one row per feature."""
        return parameters.mu[INPUTS], parameters.sigma[INPUTS]

    def per_feature(self, parameters: ModelParameters) -> tuple[Tensor, Tensor]:
        """One mean and one standard deviation for each feature."""
        weights = self.input_weights(parameters)
        assert weights is not None
        return aggregated(*weights, self.aggregate)

    def input_steps(self, n_features: int) -> tuple[float, float]:
        """What multiplies the rate of the input weights, and how fast they decay."""
        return 1.0, 0.0

    # --- a base model, on beliefs -----------------------------------------------------------

    def init(self, n_features: int, n_classes: int, rng: Rng) -> Belief:
        """See :class:`fires.models.base.BaseModel`."""
        with self.default_mode():
            return self.start(n_features, n_classes, self.generator(rng)).as_belief()

    def log_marginal(
        self, belief: Belief, X: Matrix, y: Values, weight: Weights, rng: Rng
    ) -> float:
        """The log marginal likelihood, estimated from ``n_draws`` draws."""
        with self.default_mode():
            return float(self._slopes_at(self.unpack(belief), X, y, weight, rng).value)

    def gradient(self, belief: Belief, X: Matrix, y: Values, weight: Weights, rng: Rng) -> Belief:
        """The gradient of :meth:`log_marginal` with the same draws."""
        torch = self.torch()
        with self.default_mode():
            parameters = self.unpack(belief)
            found = self._slopes_at(parameters, X, y, weight, rng)
            # A belief holds its numbers in the order of the parameters.
            mu, sigma = (
                {name: half.get(name, torch.zeros_like(at)) for name, at in parameters.mu.items()}
                for half in (found.mu, found.sigma)
            )
            for columns, g_mu, g_sigma in found.inputs:
                mu[INPUTS][columns], sigma[INPUTS][columns] = g_mu.double(), g_sigma.double()
            fixed = {name: value * 0.0 for name, value in parameters.fixed.items()}
            return ModelParameters(mu, sigma, found.point, fixed).as_belief()

    def _slopes_at(
        self, parameters: ModelParameters, X: Matrix, y: Values, weight: Weights, rng: Rng
    ) -> MarginalSlopes:
        batch = self.on_device(X, y, weight)
        noise = self.draw_noise(parameters, batch, self.generator(rng))
        return self.marginal_slopes(parameters, batch, noise)

    def to_features(self, belief: Belief) -> Belief:
        """One mean and one standard deviation per feature, as ``aggregate`` says."""
        return self.features_of(self.unpack(belief))

    # --- on tensors -------------------------------------------------------------------------

    def draw_noise(
        self, parameters: ModelParameters, batch: DeviceBatch, generator: Generator
    ) -> dict[str, Tensor]:
        """Standard normal numbers for every draw of every parameter that the batch uses."""
        noise = {}
        for name, mu in parameters.mu.items():
            shape = (self.n_draws, *mu.shape)
            if name == INPUTS:
                shape = (batch.n_columns, self.n_draws, mu.shape[1])
            noise[name] = batch.weight.new_empty(shape).normal_(generator=generator)
        return noise

    def drawn_batch(
        self, parameters: ModelParameters, batch: DeviceBatch, noise: Mapping[str, Tensor]
    ) -> DeviceBatch:
        """A batch together with these draws; what is learnt can be differentiated by."""
        dtype = batch.weight.dtype
        theta = {
            name: (mu.to(dtype) + parameters.sigma[name].to(dtype) * noise[name]).requires_grad_()
            for name, mu in parameters.mu.items()
            if name != INPUTS
        }
        point = {
            name: p.to(dtype, copy=True).requires_grad_() for name, p in parameters.point.items()
        }
        fixed = {name: value.to(dtype) for name, value in parameters.fixed.items()}
        if INPUTS in parameters.mu:
            mu, sigma = (half[INPUTS][batch.columns] for half in (parameters.mu, parameters.sigma))
            projected = batch.project(mu, sigma, noise[INPUTS])
            features = projected.transpose(0, 1).contiguous().requires_grad_()
        else:
            assert batch.matrix is not None
            features = batch.matrix
        drawn = copy.copy(batch)
        drawn.features, drawn.theta, drawn.point = features, theta, point | fixed
        return drawn

    def marginal_slopes(
        self, parameters: ModelParameters, batch: DeviceBatch, noise: Mapping[str, Tensor]
    ) -> MarginalSlopes:
        """Differentiate the log marginal likelihood, with these draws."""
        torch, weight = self.torch(), batch.weight
        drawn = self.drawn_batch(parameters, batch, noise)
        theta, point = drawn.theta, {name: drawn.point[name] for name in parameters.point}
        wanted = [*theta.values(), *point.values()]
        if has_inputs := INPUTS in parameters.mu:
            wanted.append(drawn.features)
        F, penalty = self.log_likelihood(drawn)
        value = weight @ log_mean(F)
        if penalty is not None:
            value = value - weight.sum() * penalty
        try:
            found = torch.autograd.grad(value, wanted, allow_unused=True)
        except Exception as error:
            raise ValueError(
                f"{self.name} cannot be differentiated: {first_line(error)}"
            ) from error
        slopes = [
            torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)
        ]
        by_draw = dict(zip(theta, slopes, strict=False))
        inputs = [batch.pull(slopes[-1].transpose(0, 1), noise[INPUTS])] if has_inputs else []
        return MarginalSlopes(
            value.detach(),
            {name: G.sum(0) for name, G in by_draw.items()},
            {name: (G * noise[name]).sum(0) for name, G in by_draw.items()},
            dict(zip(point, slopes[len(theta) :], strict=False)),
            inputs,
        )

    def log_marginals(
        self,
        parameters: ModelParameters,
        batch: DeviceBatch,
        targets: list[Tensor],
        generator: Generator,
    ) -> Floats:
        """The log marginal likelihood of each row, had it these targets."""
        noise = self.draw_noise(parameters, batch, generator)
        drawn = self.drawn_batch(parameters, batch, noise)
        rows = []
        for drawn.y in targets:
            rows.append(log_mean(self.log_likelihood(drawn)[0]))
        found: Floats = self.torch().stack(rows).detach().double().cpu().numpy()
        return found

    @property
    def predicts(self) -> bool:
        """Whether the likelihood of classes adds up to 1, and that of numbers is normal."""
        return True

    def greatest_log_likelihood(self, point: Mapping[str, Tensor]) -> float:
        """That of a row predicted without error; infinite for a likelihood of the user's."""
        return log_likelihood_limit(point) if self.predicts else math.inf

    def features_of(self, parameters: ModelParameters) -> Belief:
        """The result of :meth:`per_feature` as arrays."""
        mu, sigma = self.per_feature(parameters)
        return Belief(mu.cpu().numpy(), sigma.cpu().numpy())

    def unpack(self, belief: Belief) -> ModelParameters:
        """The parameters of a belief, on the model's device."""
        return ModelParameters.from_belief(belief, self.shapes(belief), self.device)

    def on_device(
        self, X: Matrix, y: Values, weight: Weights, level: Floats | None = None
    ) -> DeviceBatch:
        """A batch as tensors, ready to meet the parameters."""
        codes, place = np.asarray(y).dtype.kind in "biu", (self.device, self.dtype)
        w = _tensor(np.ones(len(y)) if weight is None else weight, *place)
        target = _tensor(y, self.device, "int64" if codes else self.dtype)
        start = None if level is None else _tensor(level, *place)
        if not isinstance(X, np.ndarray):
            return DeviceBatch.of_sparse(sp.csr_array(X), target, w, start)
        return DeviceBatch(target, w, start, X.shape[1], _tensor(X, *place))

    def generator(self, rng: Rng) -> Generator:
        """A torch generator on the model's device, seeded from a NumPy generator."""
        found: Generator = self.torch().Generator(self.device)
        return found.manual_seed(int(rng.integers(2**63)))

    @property
    def place(self) -> dict[str, Any]:
        """Device and type of parameters, as arguments for a new tensor."""
        return {"dtype": self.torch().float64, "device": self.device}

    def start_of_noise(self, n_classes: int) -> dict[str, Tensor]:
        """The log variance of a numeric target, as a point parameter; nothing for classes."""
        return {} if n_classes else {LOG_NOISE: self.torch().zeros(1, **self.place)}

    @contextmanager
    def default_mode(self) -> Iterator[None]:
        """A context with gradients and our own precision, whatever the caller's torch mode."""
        torch = self.torch()
        with torch.inference_mode(False), torch.autocast(self.device, enabled=False):
            yield

    # --- settings ---------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The model's name in messages and files."""
        return type(self).__name__

    def torch(self) -> ModuleType:
        """The torch library, or an error that says what to install."""
        return require("torch", type(self).__name__)

    def check(self) -> None:
        """Raise an error if a setting makes no sense."""
        torch = self.torch()
        check_count("n_draws", self.n_draws)
        check_declared(Settings, vars(self))
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device='cuda', but torch sees no GPU on this machine.")


@dataclass(frozen=True, kw_only=True)
class PaperModel(Settings, MonteCarlo):
    """A model of the paper, as published or in a scaled form that learns well at any width.

    A subclass is a dataclass, which declares its settings.
    """

    form: str = choice("scaled", "paper")
    decay: float = number(1.0, ends="[)")

    @classmethod
    def as_published(cls, **changes: Any) -> Self:
        """The paper's model: mu = 0, sigma = 1, the selector's own rates, its aggregation.

        Every row counts the same, whatever its class.

        Examples
        --------
        >>> from fires.models import NeuralNet
        >>> NeuralNet.as_published().aggregate
        'paper'
        """
        paper: dict[str, Any] = {
            "form": "paper",
            "rate": 1.0,
            "aggregate": "paper",
            "balance": False,
        }
        return cls(**(paper | changes))

    def __repr__(self) -> str:
        shared = {each.name for each in fields(PaperModel)}
        settings = sorted(vars(self).items(), key=lambda each: each[0] in shared)
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in settings)})"

    def fresh_weights(
        self, shape: tuple[int, ...], spread: float, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """The belief of new weights."""
        torch, place = self.torch(), self.place
        if self.form == "paper":
            return torch.zeros(shape, **place), torch.ones(shape, **place)
        mu = torch.randn(shape, generator=generator, **place) * spread
        return mu, torch.full(shape, _SIGMA, **place)

    def greatest_log_likelihood(self, point: Mapping[str, Tensor]) -> float:
        """That of a row predicted without error; infinite in the published form.

        Steps of the published form have no cap. See :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        return math.inf if self.form == "paper" else super().greatest_log_likelihood(point)

    def input_steps(self, n_features: int) -> tuple[float, float]:
        """In the scaled form, the rate grows with the number of features J, and weights decay.

        Sums over features are divided by the root of J. So a weight has to grow by that root to
        count in them, while its gradient is smaller by that root. See
        :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        scaled = max(1.0, n_features / _NARROW), self.decay
        return (1.0, 0.0) if self.form == "paper" else scaled

    def check(self) -> None:
        """Raise an error if a setting makes no sense."""
        super().check()
        check_declared(self, vars(self))


def copy_outputs(new: Tensor, old: Tensor, sources: list[int | None]) -> None:
    """Write old outputs into new ones, in place; both have one row per output."""
    for output, source in enumerate(sources):
        if source is not None:
            new[output] = old[source]
