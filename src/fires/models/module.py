"""Any torch module, with its parameters made random."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fires.core.belief import Belief
from fires.core.settings import check_number
from fires.core.types import Floats, Matrix
from fires.models import monte_carlo as mc
from fires.models.base import Values, Weights
from fires.models.monte_carlo import ModelParameters, first_line

if TYPE_CHECKING:
    from torch import Generator, Tensor
    from torch.nn import Module

ToFeatures = Callable[[dict[str, Floats], dict[str, Floats]], tuple[npt.ArrayLike, npt.ArrayLike]]
_N_FEATURES = "n features"


class TorchModel(mc.MonteCarlo):
    r"""A ``torch.nn.Module`` as a base model: a likelihood from its outputs.

    The module is copied and run in evaluation mode; only its parameters are random. It is called
    with X (n_rows, n_features) and gives one number per row or one per class:

    - classes, one output: :math:`\log p = \log \operatorname{sigmoid}(\pm\text{output})`
    - classes, several outputs: the log softmax of the label's output
    - a numeric target: normal round the output, with a variance that is learnt

    Parameters
    ----------
    module : torch.nn.Module
        mu starts from its present parameters.
    n_draws : int, default=5
        How many modules are drawn for each batch; they run as one, under ``torch.func.vmap``.
    random : iterable of str, optional
        The names of the parameters that are random; all floating ones by default. The others are
        learnt as plain numbers. Buffers are kept as they are.
    likelihood : callable, optional
        ``likelihood(outputs, y)`` gives the log likelihood of each row, in place of those above.
        ``y`` holds indices of labels in ``classes_``, or numbers. The selector standardises
        numbers unless its ``scale`` is None.
    sigma_init : float, default=0.1
        Where sigma starts, divided by the root of the number of inputs of a weight.
    rate : float, default=1.0
        What the selector's learning rates are multiplied by.
    to_features : callable, optional
        ``to_features(mu, sigma)`` takes dictionaries of arrays by parameter name and gives one mu
        and one sigma per feature. By default they come from the first random matrix with one
        column per feature, as ``aggregate`` says.
    balance : bool, default=True
        As in :class:`fires.models.NeuralNet`. With a ``likelihood`` of your own, rows count as they
        are, in any case.
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
        balance: bool = True,
        task: str = "auto",
        device: str = "cpu",
        dtype: str = "float32",
    ) -> None:
        if not isinstance(module, self.torch().nn.Module):
            raise TypeError(f"module must be a torch.nn.Module; got {module!r}.")
        self.n_draws, self.rate, self.sigma_init = n_draws, rate, sigma_init
        self.aggregate, self.task, self.device, self.dtype = aggregate, task, device, dtype
        self.likelihood, self.own_to_features, self.balance = likelihood, to_features, balance
        self.check()
        self.balance = balance and likelihood is None
        check_number("sigma_init", sigma_init, wanted="a positive number")
        for what, function in (("likelihood", likelihood), ("to_features", to_features)):
            if function is not None and not callable(function):
                raise TypeError(f"{what} must be a function; got {function!r}.")
        self.module = copy.deepcopy(module).eval().requires_grad_(False).to(device)
        self.random = self._names_of(random)

    def _names_of(self, random: Iterable[str] | None) -> list[str]:
        """The random parameters, in the module's order; the user may pass a set."""
        floating = [name for name, p in self._all().items() if p.is_floating_point()]
        if random is None:
            random = floating
        wanted = {random} if isinstance(random, str) else set(random)
        if unknown := wanted - set(floating):
            raise ValueError(
                f"{self.name} has no floating-point parameter {min(map(str, unknown))!r}; it has "
                f"{', '.join(floating) or 'none'}."
            )
        if not wanted:
            raise ValueError(f"{self.name} has no parameters that could be random.")
        return [name for name in floating if name in wanted]

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The wrapper and the module's class."""
        return f"TorchModel({type(self.module).__name__})"

    def _all(self) -> dict[str, Tensor]:
        return dict(self.module.named_parameters())

    def start(self, n_features: int, n_classes: int, generator: Generator) -> ModelParameters:
        """The module's own parameters. See :class:`fires.models.monte_carlo.MonteCarlo`."""
        torch, place = self.torch(), self.place

        def floating(named: Iterable[tuple[str, Tensor]], mark: str = "") -> dict[str, Tensor]:
            found = ((name, value) for name, value in named if value.is_floating_point())
            return {mark + name: value.to(**place, copy=True) for name, value in found}

        learnt = floating(self.module.named_parameters())
        mu = {name: learnt.pop(name) for name in self.random}
        sigma = {
            name: torch.full_like(value, self.sigma_init / math.prod(value.shape[1:]) ** 0.5)
            for name, value in mu.items()
        }
        fixed = floating(self.module.named_buffers(), mc.BUFFER)
        if n_classes:
            fixed[mc.CLASS_ORDER] = torch.arange(n_classes, **place)
        fixed[_N_FEATURES] = torch.tensor([n_features], **place)
        started = ModelParameters(mu, sigma, learnt | self.start_of_noise(n_classes), fixed)
        self.per_feature(started)  # raises now, if features cannot be ranked later
        return started

    def shapes(self, belief: Belief) -> dict[str, tuple[int, ...]]:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        return {name: tuple(self._all()[name].shape) for name in self.random}

    @property
    def predicts(self) -> bool:
        """Whether the likelihood is one of those above, and not the user's.

        See :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        return self.likelihood is None

    def on_device(
        self, X: Matrix, y: Values, weight: Weights, level: Floats | None = None
    ) -> mc.DeviceBatch:
        """A batch as dense tensors. See :class:`fires.models.monte_carlo.MonteCarlo`."""
        dense = X if isinstance(X, np.ndarray) else X.toarray()
        return super().on_device(dense, y, weight, level)

    # --- from outputs to a likelihood -------------------------------------------------------

    def log_likelihood(self, batch: mc.DeviceBatch) -> tuple[Tensor, Tensor | None]:
        """The likelihood of the module's outputs.

        See :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        torch, X, point, y = self.torch(), batch.features, batch.point, batch.y
        level = batch.level
        if mc.CLASS_ORDER in point:
            order = point[mc.CLASS_ORDER].long()
            y = order[y]
            level = None if level is None else level[order.argsort()]
        try:
            outputs = self._outputs(X, batch.theta, point)
            if self.likelihood is not None:
                F = torch.stack([self.likelihood(output, y) for output in outputs])
                if tuple(F.shape) != (self.n_draws, len(y)):
                    raise ValueError(f"likelihood gave {tuple(F.shape[1:])} for {len(y)} rows")
                return F.to(X.dtype), None
        except Exception as error:
            where = f"on {len(X)} rows of {X.shape[1]} features"
            raise ValueError(f"{self.name} failed {where}: {first_line(error)}") from error
        return self._by_outputs(outputs, point, y, level), None

    def _outputs(
        self, X: Tensor, theta: Mapping[str, Tensor], point: Mapping[str, Tensor]
    ) -> Tensor:
        """What the module gives, draws first."""
        torch = self.torch()
        buffers = {
            name: point.get(mc.BUFFER + name, value).clone()  # a module may write into its buffers
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
        except RuntimeError:  # some operations cannot be batched: run one draw after the other
            each = ({name: value[i] for name, value in theta.items()} for i in range(self.n_draws))
            outputs = torch.stack([run(drawn) for drawn in each])
        if not outputs.requires_grad:
            raise ValueError("its outputs do not depend on its parameters")
        return outputs

    def _by_outputs(
        self, outputs: Tensor, point: Mapping[str, Tensor], y: Tensor, level: Tensor | None
    ) -> Tensor:
        shape, n_rows = tuple(outputs.shape[1:]), len(y)
        given = f"{self.name} gives outputs of shape {shape} for {n_rows} rows"
        single = shape in ((n_rows,), (n_rows, 1)) or (shape == () and n_rows == 1)
        if mc.LOG_NOISE in point:
            if not single:
                raise ValueError(f"{given}; a numeric target needs one number per row.")
            return mc.log_normal(y, outputs.reshape(-1, n_rows), point[mc.LOG_NOISE])
        n_classes = len(point[mc.CLASS_ORDER])
        if single and n_classes == 2:
            odds = mc.levelled(outputs.reshape(-1, n_rows), None if level is None else level.diff())
            odds = (2.0 * y.to(outputs.dtype) - 1.0) * odds
            bernoulli: Tensor = self.torch().nn.functional.logsigmoid(odds)
            return bernoulli
        if shape != (n_rows, n_classes):
            raise ValueError(
                f"{given} and {n_classes} classes; if it has more classes than were seen so far, "
                "pass them as classes=[...]."
            )
        return mc.log_softmax(y, mc.levelled(outputs, level))

    def with_outputs(
        self, parameters: ModelParameters, sources: list[int | None], generator: Generator
    ) -> ModelParameters:
        """Two classes may be exchanged; a third is an error, since a module has no output for it.

        See :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        order = parameters.fixed[mc.CLASS_ORDER]
        if len(sources) != len(order) or None in sources:
            raise ValueError(
                f"{self.name} cannot add new classes as they arrive: pass classes=[...] with "
                "all of them to the first partial_fit."
            )
        fixed = parameters.fixed | {mc.CLASS_ORDER: order[sources]}
        return ModelParameters(parameters.mu, parameters.sigma, parameters.point, fixed)

    # --- from parameters to features --------------------------------------------------------

    def per_feature(self, parameters: ModelParameters) -> tuple[Tensor, Tensor]:
        """By the user's function, or from the first layer.

        See :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        if self.own_to_features is None:
            return super().per_feature(parameters)
        return self._by_own_function(parameters, int(parameters.fixed[_N_FEATURES]))

    def input_weights(self, parameters: ModelParameters) -> tuple[Tensor, Tensor] | None:
        """Of the first layer; None with a function of the user's.

        See :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        if self.own_to_features is not None:
            return None
        first = self._first_layer(parameters.mu, int(parameters.fixed[_N_FEATURES]))
        return parameters.mu[first].T, parameters.sigma[first].T

    def _first_layer(self, mu: Mapping[str, Tensor], n_features: int) -> str:
        for name, value in mu.items():
            if value.ndim == 2 and value.shape[1] == n_features:
                return name
        raise ValueError(
            f"{self.name} has no random matrix with one column for each of the {n_features} "
            "features; say with to_features= what its parameters mean for them."
        )

    def _by_own_function(
        self, parameters: ModelParameters, n_features: int
    ) -> tuple[Tensor, Tensor]:
        assert self.own_to_features is not None
        halves = (
            {name: value.cpu().numpy().copy() for name, value in half.items()}
            for half in (parameters.mu, parameters.sigma)
        )
        try:
            found = [np.asarray(part, dtype=np.float64) for part in self.own_to_features(*halves)]
        except Exception as error:
            raise ValueError(f"to_features of {self.name} failed: {first_line(error)}") from error
        if [part.shape for part in found] != [(n_features,)] * 2:
            raise ValueError(
                f"to_features of {self.name} must give a mu and a sigma for each of the "
                f"{n_features} features; got {' and '.join(str(part.shape) for part in found)}."
            )
        # A copy, since torch cannot read arrays with negative strides.
        mu, sigma = (self.torch().tensor(part.copy(), device=self.device) for part in found)
        return mu, sigma
