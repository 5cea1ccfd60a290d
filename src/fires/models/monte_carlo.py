r"""Marginal likelihoods by Monte Carlo: models whose integral over theta has no closed form.

With draws :math:`\theta^l = \mu + \sigma \circ r^l`, :math:`r^l \sim \mathcal{N}(0, 1)`, shared by
the rows of a batch,

.. math::
    \log P(y_b \mid x_b) \approx \log \frac{1}{L} \sum_l f_{\theta^l}(y_b \mid x_b)

and its slopes with r held fixed are :math:`\sum_l G_l` in mu and :math:`\sum_l G_l \circ r^l` in
sigma, where :math:`G_l` is the slope of the log likelihood of draw l, each row weighed by that
draw's responsibility for it: exactly :math:`\nabla P / P` of the estimate (section 4.2 of the
paper). All draws go through the model in one pass.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.belief import Belief, Floats
from fires.core.optional import require
from fires.core.settings import check_choice, check_count, check_number

if TYPE_CHECKING:
    from torch import Generator, Tensor

# Names of our own have a space in them, so that no parameter of a module can be called the same.
INPUTS = "input weights"
"""The name of the parameters that meet the features: one row of them per feature."""

LOG_NOISE = "log noise"
"""The name of the point parameter of a numeric target: the log variance round its mean."""

_AGGREGATES = ("paper", "abs", "rms")
_FIXED = "fixed "
_SIGMA = 0.1  # at the start of the scaled form
# Numbers worked on at once: on a processor so many that they stay in its cache.
_AT_ONCE = {"cpu": 1 << 19, "cuda": 1 << 26}


@dataclass
class Parameters:
    """What is believed of a model, as tensors by name: the torch side of a ``Belief``.

    All are float64 whatever the model computes in, so that small steps count. ``point`` is learnt
    and not random; ``fixed`` is not even learnt.
    """

    mu: dict[str, Tensor]
    sigma: dict[str, Tensor]
    point: dict[str, Tensor] = field(default_factory=dict)
    fixed: dict[str, Tensor] = field(default_factory=dict)


class MonteCarlo(ABC):
    """What models have in common whose marginal likelihood is a mean over draws.

    A model writes :meth:`start` and :meth:`log_likelihood`. If it has parameters named
    ``"input weights"``, one row per feature, it sees the features only through their product with
    X: then sparse batches cost what their entries cost, and parameters of features that a batch
    does not show are neither drawn nor moved, which is exact.
    """

    n_draws: int
    form: str
    rate: float
    aggregate: str
    task: str
    device: str
    dtype: str

    @abstractmethod
    def start(self, n_features: int, n_classes: int, generator: Generator) -> Parameters:
        """What is believed before the first batch; ``n_classes`` is 0 for a numeric target."""

    @abstractmethod
    def log_likelihood(
        self,
        features: Tensor,
        theta: Mapping[str, Tensor],
        point: Mapping[str, Tensor],
        y: Tensor,
        weight: Tensor,
    ) -> tuple[Tensor, Tensor | None]:
        """The log likelihood of every draw and row, and a penalty to be taken off per row.

        ``features`` holds X times the input weights (n_draws, n_rows, n_columns) of a model that
        has them, else X itself; ``theta`` all other parameters, draws first; ``point`` what is
        fixed, too.
        """

    @abstractmethod
    def with_outputs(
        self, parameters: Parameters, sources: list[int | None], generator: Generator
    ) -> Parameters:
        """A copy for other classes: each takes the output of an old one, or a fresh one."""

    def best(self, point: Mapping[str, Tensor]) -> float:
        """The greatest log likelihood a row can have; infinite: steps are not shortened for it."""
        if self.form == "paper":
            return math.inf
        return best_of_head(point)

    # --- the base model's four methods, on beliefs ------------------------------------------

    def init(self, n_features: int, n_classes: int, rng: np.random.Generator) -> Belief:
        """See :class:`fires.models.base.BaseModel`."""
        with self.ordinarily():
            return self.pack(self.start(n_features, n_classes, self.generator(rng)))

    def log_marginal(
        self,
        belief: Belief,
        X: Any,
        y: npt.NDArray[Any],
        weight: Floats | None,
        rng: np.random.Generator,
    ) -> float:
        """The estimate from ``n_draws`` draws; equal generators give equal draws."""
        return float(self._slopes_at(belief, X, y, weight, rng)[1].value)

    def gradient(
        self,
        belief: Belief,
        X: Any,
        y: npt.NDArray[Any],
        weight: Floats | None,
        rng: np.random.Generator,
    ) -> Belief:
        """The slope of the estimate, with its draws held fixed."""
        torch = self.torch()
        with self.ordinarily():
            parameters, found = self._slopes_at(belief, X, y, weight, rng)
            # In the order of the parameters, in which they are packed.
            mu, sigma = (
                {name: half.get(name, torch.zeros_like(at)) for name, at in parameters.mu.items()}
                for half in (found.mu, found.sigma)
            )
            for rows, g_mu, g_sigma in found.inputs():
                mu[INPUTS][rows], sigma[INPUTS][rows] = g_mu.double(), g_sigma.double()
            fixed = {name: value * 0.0 for name, value in parameters.fixed.items()}
            return self.pack(Parameters(mu, sigma, found.point, fixed))

    def to_features(self, belief: Belief) -> Belief:
        """One mean and one standard deviation per feature, as ``aggregate`` says."""
        parameters = self.unpack(belief)
        mu, sigma = self.aggregated(parameters, slice(None))
        offset_mu, offset_sigma = self.offset(parameters)
        return Belief((mu + offset_mu).cpu().numpy(), (sigma + offset_sigma).cpu().numpy())

    def _slopes_at(
        self,
        belief: Belief,
        X: Any,
        y: npt.NDArray[Any],
        weight: Floats | None,
        rng: np.random.Generator,
    ) -> tuple[Parameters, Slopes]:
        with self.ordinarily():
            parameters, rows = self.unpack(belief), self.rows(X)
            noise = draw(self, parameters, rows, self.generator(rng))
            return parameters, slopes(self, parameters, rows, *self.target(y, weight), noise)

    # --- beliefs and tensors ----------------------------------------------------------------

    def pack(self, parameters: Parameters) -> Belief:
        """The parameters as one belief: in order, each matrix with its outputs as rows."""

        def flat(values: dict[str, Tensor]) -> Floats:
            outputs_first = (v.T if name == INPUTS else v for name, v in values.items())
            return np.concatenate([value.cpu().numpy().ravel() for value in outputs_first])

        point = parameters.point | {_FIXED + name: v for name, v in parameters.fixed.items()}
        arrays = {name: value.detach().cpu().numpy() for name, value in point.items()}
        return Belief(flat(parameters.mu), flat(parameters.sigma), arrays)

    def unpack(self, belief: Belief) -> Parameters:
        """The parameters that :meth:`pack` made a belief of."""
        torch = self.torch()
        place = {"dtype": torch.float64, "device": self.device}

        def parts(values: Floats) -> dict[str, Tensor]:
            found, at = {}, 0
            for name, shape in self.shapes(belief).items():
                n = math.prod(shape)
                part = torch.tensor(values[at : at + n].reshape(shape), **place)
                found[name] = part.T.contiguous() if name == INPUTS else part
                at += n
            return found

        halves: tuple[dict[str, Tensor], dict[str, Tensor]] = {}, {}
        for name, value in belief.point.items():
            half = halves[name.startswith(_FIXED)]
            half[name.removeprefix(_FIXED)] = torch.tensor(value, **place)
        return Parameters(parts(belief.mu), parts(belief.sigma), *halves)

    @abstractmethod
    def shapes(self, belief: Belief) -> dict[str, tuple[int, ...]]:
        """The shape of each random parameter in a belief, outputs first."""

    def rows(self, X: Any) -> Rows:
        """A batch, ready to meet the parameters."""
        torch = self.torch()
        dtype = getattr(torch, self.dtype)
        if sp.issparse(X):
            return _SparseRows(sp.csr_array(X), dtype, self.device)
        return _DenseRows(torch.tensor(_forward(X), dtype=dtype, device=self.device))

    def target(self, y: npt.NDArray[Any], weight: Floats | None) -> tuple[Tensor, Tensor]:
        """Class codes or numbers, and weights."""
        torch = self.torch()
        dtype = getattr(torch, self.dtype)
        w = np.ones(len(y)) if weight is None else weight
        codes = np.asarray(y).dtype.kind in "biu"
        return (
            torch.tensor(_forward(y), dtype=torch.int64 if codes else dtype, device=self.device),
            torch.tensor(_forward(w), dtype=dtype, device=self.device),
        )

    def generator(self, rng: np.random.Generator) -> Generator:
        """A generator of torch's on the model's device, from one of NumPy's."""
        found: Generator = self.torch().Generator(self.device)
        return found.manual_seed(int(rng.integers(2**63)))

    def fresh(
        self, shape: tuple[int, ...], spread: float, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """What is believed of new parameters: mu and sigma."""
        torch = self.torch()
        place = {"dtype": torch.float64, "device": self.device}
        if self.form == "paper":
            return torch.zeros(shape, **place), torch.ones(shape, **place)
        mu = torch.randn(shape, generator=generator, **place) * spread
        return mu, torch.full(shape, _SIGMA, **place)

    # --- features ---------------------------------------------------------------------------

    def aggregated(self, parameters: Parameters, rows: Any) -> tuple[Tensor, Tensor]:
        """One mean and one standard deviation for each of these features."""
        return aggregated(
            parameters.mu[INPUTS][rows], parameters.sigma[INPUTS][rows], self.aggregate
        )

    def offset(self, parameters: Parameters) -> tuple[float, float]:
        """What the paper's aggregation adds to every feature alike."""
        return 0.0, 0.0

    # --- settings ---------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What the model is called in messages and files."""
        return type(self).__name__

    def torch(self) -> Any:
        """The library, or what to install."""
        return require("torch", type(self).__name__)

    @contextmanager
    def ordinarily(self) -> Iterator[None]:
        """Compute with slopes and in our own precision, whatever mode the caller's torch is in."""
        torch = self.torch()
        with torch.inference_mode(False), torch.autocast(self.device, enabled=False):
            yield

    def check(self) -> None:
        """Raise if a setting cannot be."""
        torch = self.torch()
        check_count("n_draws", self.n_draws)
        check_number("rate", self.rate, wanted="a positive number")
        for name, known in (
            ("form", ("scaled", "paper")),
            ("aggregate", _AGGREGATES),
            ("task", ("auto", "classes", "numbers")),
            ("device", tuple(_AT_ONCE)),
            ("dtype", ("float32", "float64")),
        ):
            check_choice(name, getattr(self, name), known)
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device='cuda', but torch sees no GPU on this machine.")


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    said = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def aggregated(mu: Tensor, sigma: Tensor, how: str) -> tuple[Tensor, Tensor]:
    """One mean and one standard deviation per row of parameters.

    ``"paper"``: plain means, in which opposite signs cancel. ``"abs"``: the mean size of mu.
    ``"rms"``: root mean squares.
    """
    if how == "rms":
        return mu.square().mean(1).sqrt(), sigma.square().mean(1).sqrt()
    return (mu.abs() if how == "abs" else mu).mean(1), sigma.mean(1)


def head(scores: Tensor, point: Mapping[str, Tensor], y: Tensor) -> Tensor:
    """The log likelihood of each draw and row from scores (n_draws, n_rows, n_outputs).

    Classes by the softmax; numbers by a normal distribution whose variance is learnt.
    """
    import torch

    if LOG_NOISE not in point:
        picked = y.expand(scores.shape[:2]).unsqueeze(2)
        return torch.log_softmax(scores, 2).gather(2, picked).squeeze(2)
    return log_normal(y, scores.squeeze(2), point[LOG_NOISE])


def best_of_head(point: Mapping[str, Tensor]) -> float:
    """The log likelihood of a row that is predicted without error and without doubt."""
    if LOG_NOISE not in point:
        return 0.0
    return -0.5 * (float(point[LOG_NOISE]) + math.log(2.0 * math.pi))


def log_normal(y: Tensor, mean: Tensor, log_variance: Tensor) -> Tensor:
    """The log density of a normal distribution."""
    error = (y - mean).square() * (-log_variance).exp()
    return -0.5 * (error + log_variance + math.log(2.0 * math.pi))


def _forward(values: Any) -> npt.NDArray[Any]:
    """An array that torch can read: it does not run backwards through memory."""
    array = np.asarray(values)
    return array.copy() if any(stride < 0 for stride in array.strides) else array


# --- the batch, and its meeting with the parameters -----------------------------------------


class Rows(ABC):
    """A batch on the model's device."""

    matrix: Any
    columns: Any  # of the features it shows: a slice or indices
    n_columns: int

    @abstractmethod
    def project(self, mu: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        """``X @ (mu + sigma * noise)`` for every draw: (n_rows, n_draws, n_outputs)."""

    @abstractmethod
    def pull(self, slope: Tensor, noise: Tensor) -> Iterator[tuple[Any, Tensor, Tensor]]:
        """Part by part of the features: which, and the slopes of their mu and sigma."""


class _DenseRows(Rows):
    def __init__(self, X: Tensor) -> None:
        self.matrix, self.columns, self.n_columns = X, slice(None), X.shape[1]

    def project(self, mu: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        dtype = self.matrix.dtype
        Z: Tensor = self.matrix.new_zeros(len(self.matrix), noise[0].numel())
        for part in self._parts(noise):
            r = noise[part]
            theta = mu[part].to(dtype)[:, None, :].addcmul(sigma[part].to(dtype)[:, None, :], r)
            Z.addmm_(self.matrix[:, part], theta.view(len(r), -1))
        return Z.view(-1, *noise.shape[1:])

    def pull(self, slope: Tensor, noise: Tensor) -> Iterator[tuple[Any, Tensor, Tensor]]:
        flat = slope.reshape(len(slope), -1)
        for part in self._parts(noise):
            G = (self.matrix[:, part].T @ flat).view(noise[part].shape)
            yield part, G.sum(1), G.mul_(noise[part]).sum(1)

    def _parts(self, noise: Tensor) -> Iterator[slice]:
        size = max(1, _AT_ONCE[noise.device.type] // max(noise[0].numel(), 1))
        for first in range(0, len(noise), size):
            yield slice(first, first + size)


class _SparseRows(Rows):
    """Sums over entries, and nothing but them: a bag of parameters for each row."""

    def __init__(self, X: Any, dtype: Any, device: str) -> None:
        import torch

        columns, local = np.unique(X.indices, return_inverse=True)
        small = sp.csr_array((X.data, local, X.indptr), shape=(X.shape[0], len(columns)))
        self.columns = torch.tensor(columns, dtype=torch.int64, device=device)
        self.n_columns = len(columns)
        self._bags, self._back = (
            (
                torch.tensor(part.indices, dtype=torch.int64, device=device),
                torch.tensor(part.indptr, dtype=torch.int64, device=device),
                torch.tensor(part.data, dtype=dtype, device=device),
            )
            for part in (small, sp.csr_array(small.T))
        )
        self.matrix = X

    def project(self, mu: Tensor, sigma: Tensor, noise: Tensor) -> Tensor:
        theta = mu.to(noise.dtype)[:, None, :].addcmul(sigma.to(noise.dtype)[:, None, :], noise)
        return self._sum(theta.flatten(1), self._bags).view(-1, *noise.shape[1:])

    def pull(self, slope: Tensor, noise: Tensor) -> Iterator[tuple[Any, Tensor, Tensor]]:
        G = self._sum(slope.flatten(1).contiguous(), self._back).view(noise.shape)
        yield slice(None), G.sum(1), G.mul_(noise).sum(1)

    @staticmethod
    def _sum(table: Tensor, entries: tuple[Tensor, Tensor, Tensor]) -> Tensor:
        import torch

        indices, offsets, values = entries
        if len(indices) == 0:
            return table.new_zeros(len(offsets) - 1, table.shape[1])
        return torch.nn.functional.embedding_bag(
            indices, table, offsets, mode="sum", per_sample_weights=values, include_last_offset=True
        )


# --- draws and slopes -----------------------------------------------------------------------


def draw(
    model: MonteCarlo,
    parameters: Parameters,
    rows: Rows,
    generator: Generator,
    scratch: dict[str, Tensor] | None = None,
) -> dict[str, Tensor]:
    """Standard normal numbers for every draw of every parameter that the batch meets.

    ``scratch`` keeps the memory from one batch to the next: to get it anew takes as long as to
    fill it.
    """
    torch = model.torch()
    noise = {}
    for name, mu in parameters.mu.items():
        if name == INPUTS:
            shape = (rows.n_columns, model.n_draws, mu.shape[1])
        else:
            shape = (model.n_draws, *mu.shape)
        n = math.prod(shape)
        held = None if scratch is None else scratch.get(name)
        if held is None or len(held) < n:
            held = torch.empty(n, dtype=getattr(torch, model.dtype), device=model.device)
            if scratch is not None:
                scratch[name] = held
        noise[name] = held[:n].view(shape).normal_(generator=generator)
    return noise


@dataclass
class Slopes:
    """The log marginal likelihood of a batch, and its slopes in all but the inputs."""

    value: Tensor
    mu: dict[str, Tensor]
    sigma: dict[str, Tensor]
    point: dict[str, Tensor]
    _rows: Rows
    _noise: dict[str, Tensor]
    _slope: Tensor | None

    def inputs(self) -> Iterator[tuple[Any, Tensor, Tensor]]:
        """The slopes in the inputs, part by part: which features, mu, sigma."""
        if self._slope is not None:
            columns = self._rows.columns
            for part, g_mu, g_sigma in self._rows.pull(self._slope, self._noise[INPUTS]):
                yield (part if isinstance(columns, slice) else columns[part]), g_mu, g_sigma


def slopes(
    model: MonteCarlo,
    parameters: Parameters,
    rows: Rows,
    y: Tensor,
    weight: Tensor,
    noise: dict[str, Tensor],
) -> Slopes:
    """Differentiate the log marginal likelihood, with these draws."""
    torch = model.torch()
    dtype = weight.dtype
    theta = {
        name: (mu.to(dtype) + parameters.sigma[name].to(dtype) * noise[name]).requires_grad_()
        for name, mu in parameters.mu.items()
        if name != INPUTS
    }
    point = {
        name: value.to(dtype, copy=True).requires_grad_()
        for name, value in parameters.point.items()
    }
    tied = INPUTS in parameters.mu
    if tied:
        mu, sigma = parameters.mu[INPUTS], parameters.sigma[INPUTS]
        met = rows.project(mu[rows.columns], sigma[rows.columns], noise[INPUTS])
        features = met.transpose(0, 1).contiguous().requires_grad_()
    else:
        features = rows.matrix
    fixed = {name: value.to(dtype) for name, value in parameters.fixed.items()}
    F, penalty = model.log_likelihood(features, theta, point | fixed, y, weight)
    value = weight @ (torch.logsumexp(F, 0) - math.log(model.n_draws))
    if penalty is not None:
        value = value - weight.sum() * penalty
    wanted = [*theta.values(), *point.values(), *([features] if tied else [])]
    try:
        found = torch.autograd.grad(value, wanted, allow_unused=True)
    except Exception as error:
        raise ValueError(f"{model.name} cannot be differentiated: {first_line(error)}") from error
    grads = [torch.zeros_like(w) if g is None else g for w, g in zip(wanted, found, strict=True)]
    by_draw = dict(zip(theta, grads, strict=False))
    return Slopes(
        value.detach(),
        {name: G.sum(0) for name, G in by_draw.items()},
        {name: (G * noise[name]).sum(0) for name, G in by_draw.items()},
        dict(zip(point, grads[len(theta) :], strict=False)),
        rows,
        noise,
        grads[-1].transpose(0, 1) if tied else None,
    )
