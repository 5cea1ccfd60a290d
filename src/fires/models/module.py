"""Any module of torch's, its parameters made random."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from fires.core.belief import Belief, Floats
from fires.core.settings import check_number
from fires.models.monte_carlo import (
    LOG_NOISE,
    MonteCarlo,
    Parameters,
    Rows,
    aggregated,
    best_of_head,
    first_line,
    log_normal,
)

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.nn import Module

ToFeatures = Callable[[dict[str, Floats], dict[str, Floats]], tuple[Any, Any]]
_BUFFER = "buffer "


class TorchModel(MonteCarlo):
    r"""A ``torch.nn.Module`` as a base model: a likelihood from its outputs.

    The module is copied and run in evaluation mode: what is random are its parameters. It is
    called with X (n_rows, n_features) and gives one number per row or one per class:

    - classes, one output: :math:`\log p = \log \operatorname{sigmoid}(\pm\text{output})`
    - classes, several outputs: the log softmax of the label's output
    - a numeric target: normal round the output, with a variance that is learnt

    Parameters
    ----------
    module : torch.nn.Module
        Its present parameters are where mu starts.
    n_draws : int, default=5
        How many modules are drawn for each batch; they run as one, under ``torch.func.vmap``.
    random : iterable of str, optional
        The names of the parameters that are random; all floating ones by default. The others are
        learnt as plain numbers. Buffers are kept as they are.
    likelihood : callable, optional
        ``likelihood(outputs, y)`` gives the log likelihood of each row, in place of those above.
        ``y`` holds the places of the labels among ``classes_``, or numbers, which the selector
        standardises unless it has ``scale=None``.
    sigma_init : float, default=0.1
        Where sigma starts, divided by the root of the number of inputs of a weight.
    rate : float, default=1.0
        What the selector's learning rates are multiplied by.
    to_features : callable, optional
        ``to_features(mu, sigma)`` takes dictionaries of arrays by parameter name and gives one mu
        and one sigma per feature. By default they come from the first random matrix with one
        column per feature, as ``aggregate`` says.
    aggregate, task, device, dtype
        As in :class:`fires.models.NeuralNet`.

    Notes
    -----
    Sparse batches are made dense before the module sees them.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from fires import FIRES
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    >>> selector = FIRES(2, model=TorchModel(net, rate=100.0), random_state=0)
    >>> rng = np.random.default_rng(0)
    >>> for _ in range(100):
    ...     X = rng.normal(size=(100, 6))
    ...     selector = selector.partial_fit(X, X[:, 1] * X[:, 4] > 0)
    >>> selector.get_support(indices=True)
    array([1, 4])
    """

    form = "paper"

    def __init__(
        self,
        module: Module,
        n_draws: int = 5,
        *,
        random: Iterable[str] | None = None,
        likelihood: Callable[[Tensor, Tensor], Tensor] | None = None,
        sigma_init: float = 0.1,
        rate: float = 1.0,
        to_features: ToFeatures | None = None,
        aggregate: str = "rms",
        task: str = "auto",
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        torch = self.torch()
        if not isinstance(module, torch.nn.Module):
            raise TypeError(f"module must be a torch.nn.Module; got {module!r}.")
        self.n_draws, self.rate, self.sigma_init = n_draws, rate, sigma_init
        self.aggregate, self.task, self.device, self.dtype = aggregate, task, device, dtype
        self.likelihood, self.gather = likelihood, to_features
        self.check()
        check_number("sigma_init", sigma_init, wanted="a positive number")
        for what, function in (("likelihood", likelihood), ("to_features", to_features)):
            if function is not None and not callable(function):
                raise TypeError(f"{what} must be a function; got {function!r}.")
        self.module = copy.deepcopy(module).eval().requires_grad_(False).to(device)
        floating = [name for name, p in self._all().items() if p.is_floating_point()]
        wanted = (
            {random} if isinstance(random, str) else set(floating if random is None else random)
        )
        if unknown := wanted - set(floating):
            raise ValueError(
                f"{self.name} has no floating-point parameter {min(map(str, unknown))!r}; it has "
                f"{', '.join(floating) or 'none'}."
            )
        # In the module's order: draws must not depend on the order of a set.
        self.random = [name for name in floating if name in wanted]
        if not self.random:
            raise ValueError(f"{self.name} has no parameters that could be random.")

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The wrapper and the module's class."""
        return (
            f"TorchModel({type(self.module).__name__})" if "module" in vars(self) else "TorchModel"
        )

    def _all(self) -> dict[str, Tensor]:
        return dict(self.module.named_parameters())

    def start(self, n_features: int, n_classes: int, generator: Generator) -> Parameters:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        torch = self.torch()
        place = {"dtype": torch.float64, "device": self.device}
        mu = {name: self._all()[name].to(**place, copy=True) for name in self.random}
        sigma = {
            name: torch.full_like(value, self.sigma_init / math.prod(value.shape[1:]) ** 0.5)
            for name, value in mu.items()
        }
        point = {
            name: value.to(**place, copy=True)
            for name, value in self._all().items()
            if name not in mu and value.is_floating_point()
        }
        fixed = {
            _BUFFER + name: value.to(**place, copy=True)
            for name, value in self.module.named_buffers()
            if value.is_floating_point()
        }
        if not n_classes:
            point[LOG_NOISE] = torch.zeros(1, **place)
        else:
            fixed["class order"] = torch.arange(n_classes, **place)
        fixed["n features"] = torch.tensor([n_features], **place)
        started = Parameters(mu, sigma, point, fixed)
        self.aggregated(started, slice(None))  # what cannot be ranked is not to be learnt
        return started

    def best(self, point: Mapping[str, Tensor]) -> float:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        return math.inf if self.likelihood is not None else best_of_head(point)

    def _first_layer(self, mu: Mapping[str, Tensor], n_features: int) -> str:
        for name, value in mu.items():
            if value.ndim == 2 and value.shape[1] == n_features:
                return name
        raise ValueError(
            f"{self.name} has no random matrix with one column for each of the {n_features} "
            "features; say with to_features= what its parameters mean for them."
        )

    def shapes(self, belief: Belief) -> dict[str, tuple[int, ...]]:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        return {name: tuple(self._all()[name].shape) for name in self.random}

    def rows(self, X: Any) -> Rows:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        return super().rows(X.toarray() if sp.issparse(X) else X)

    def log_likelihood(
        self,
        features: Tensor,
        theta: Mapping[str, Tensor],
        point: Mapping[str, Tensor],
        y: Tensor,
        weight: Tensor,
    ) -> tuple[Tensor, Tensor | None]:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        torch = self.torch()
        if LOG_NOISE not in point:
            y = point["class order"].long()[y]
        try:
            outputs = self._outputs(features, theta, point)
            if self.likelihood is not None:
                F = torch.stack([self.likelihood(output, y) for output in outputs])
                wanted = (self.n_draws, len(y))
                if tuple(F.shape) != wanted:
                    raise ValueError(f"likelihood gave {tuple(F.shape[1:])} for {len(y)} rows")
                return F.to(features.dtype), None
        except Exception as error:
            raise ValueError(
                f"{self.name} failed on {len(features)} rows of {features.shape[1]} features: "
                f"{first_line(error)}"
            ) from error
        return self._by_outputs(outputs, point, y), None

    def _outputs(
        self, X: Tensor, theta: Mapping[str, Tensor], point: Mapping[str, Tensor]
    ) -> Tensor:
        """What the module gives, draws first."""
        torch = self.torch()
        buffers = {
            name: point.get(_BUFFER + name, value).clone()  # a module may count in its buffers
            for name, value in self.module.named_buffers()
        }
        learnt = {name: point[name] for name in self._all() if name in point}

        def run(drawn: dict[str, Tensor]) -> Tensor:
            found = torch.func.functional_call(self.module, learnt | buffers | drawn, (X,))
            if not isinstance(found, torch.Tensor):
                raise TypeError(f"it gives a {type(found).__name__}, not a tensor")
            outputs: Tensor = found.to(X.dtype)
            return outputs

        try:
            outputs: Tensor = torch.func.vmap(run)(dict(theta))
        except RuntimeError:  # some operations cannot be batched: one draw after the other
            each = ({name: value[i] for name, value in theta.items()} for i in range(self.n_draws))
            outputs = torch.stack([run(drawn) for drawn in each])
        if not outputs.requires_grad:
            raise ValueError("its outputs do not follow from its parameters")
        return outputs

    def _by_outputs(self, outputs: Tensor, point: Mapping[str, Tensor], y: Tensor) -> Tensor:
        torch = self.torch()
        shape, n_rows = tuple(outputs.shape[1:]), len(y)
        single = shape in ((n_rows,), (n_rows, 1)) or (shape == () and n_rows == 1)
        if LOG_NOISE in point:
            if not single:
                raise ValueError(
                    f"{self.name} gives outputs of shape {shape} for {n_rows} rows; a numeric "
                    "target needs one number per row."
                )
            return log_normal(y, outputs.reshape(-1, n_rows), point[LOG_NOISE])
        n_classes = len(point["class order"])
        if single and n_classes == 2:
            sign = 2.0 * y.to(outputs.dtype) - 1.0
            bernoulli: Tensor = torch.nn.functional.logsigmoid(sign * outputs.reshape(-1, n_rows))
            return bernoulli
        if shape != (n_rows, n_classes):
            raise ValueError(
                f"{self.name} gives outputs of shape {shape} for {n_rows} rows and {n_classes} "
                "classes; if it knows more classes than have been met, pass them as classes=[...]."
            )
        picked = y.expand(outputs.shape[:2]).unsqueeze(2)
        softmax: Tensor = torch.log_softmax(outputs, 2)
        return softmax.gather(2, picked).squeeze(2)

    def with_outputs(
        self, parameters: Parameters, sources: list[int | None], generator: Generator
    ) -> Parameters:
        """Two classes may change places; a module has no output for a third."""
        order = parameters.fixed["class order"]
        if len(sources) != len(order) or None in sources:
            raise ValueError(
                f"{self.name} cannot take up new classes as they arrive: pass classes=[...] with "
                "all of them to the first partial_fit."
            )
        fixed = parameters.fixed | {"class order": order[sources]}
        return Parameters(parameters.mu, parameters.sigma, parameters.point, fixed)

    def aggregated(self, parameters: Parameters, rows: Any) -> tuple[Tensor, Tensor]:
        """One mean and one standard deviation per feature."""
        torch = self.torch()
        n_features = int(parameters.fixed["n features"])
        if self.gather is None:
            first = self._first_layer(parameters.mu, n_features)
            mu, sigma = parameters.mu[first].T, parameters.sigma[first].T
            return aggregated(mu[rows], sigma[rows], self.aggregate)
        halves = (
            {name: value.cpu().numpy().copy() for name, value in half.items()}
            for half in (parameters.mu, parameters.sigma)
        )
        try:
            found = [np.asarray(part, dtype=np.float64) for part in self.gather(*halves)]
        except Exception as error:
            raise ValueError(f"to_features of {self.name} failed: {first_line(error)}") from error
        if [part.shape for part in found] != [(n_features,)] * 2:
            raise ValueError(
                f"to_features of {self.name} must give a mu and a sigma for each of the "
                f"{n_features} features; got {' and '.join(str(part.shape) for part in found)}."
            )
        # A copy, since torch reads no array that runs backwards through memory.
        mu, sigma = (torch.tensor(part.copy(), device=self.device)[rows] for part in found)
        return mu, sigma
