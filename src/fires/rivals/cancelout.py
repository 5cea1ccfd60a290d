"""CancelOut: features ranked by gates in front of a neural net, learnt together with it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fires.core.batch import CheckedBatch
from fires.core.classes import are_numbers, encode
from fires.core.declared import Array, Declared, Value
from fires.core.optional import require
from fires.core.randomness import check_seed, generator
from fires.core.settings import check_choice, check_number, is_count, plain
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Estimator, Floats, Header, Labels, Matrix, Places, Seed
from fires.core.validation import as_numbers
from fires.models.likelihoods import log_likelihood_of
from fires.models.parameters import LOG_NOISE
from fires.models.target import NumberTarget
from fires.selectors.base import OnlineSelector

if TYPE_CHECKING:
    from torch import Tensor

    from fires.models.base import BaseModel

Tensors = dict[str, "Tensor"]

# How much of its running means Adam keeps from step to step. The squares fade faster than usual
# (0.999): otherwise one extreme batch would slow down learning for thousands of batches.
_KEEP_SLOPE, _KEEP_SQUARE = 0.9, 0.99
_EPS = 1e-8


_PARTS = ("theta", "slope", "square")
_N_STEPS = Value(int, low=0, high=2**53)


@dataclass(frozen=True)
class Net:
    """Everything a step changes, as tensors by name. A step makes a new ``Net``."""

    theta: Tensors
    slope: Tensors  # Adam's running mean of the gradient
    square: Tensors  # and of its square
    n_steps: int

    def changed(self, change: Callable[[str, Tensor], Tensor]) -> Net:
        """A copy with every tensor replaced."""
        theta, slope, square = (
            {name: change(name, tensor) for name, tensor in part.items()}
            for part in (self.theta, self.slope, self.square)
        )
        return Net(theta, slope, square, self.n_steps)


class CancelOut(OnlineSelector):
    r"""Features ranked by learnt gates in front of a neural net (Borisov et al., ICANN 2019).

    Every feature passes a gate before it meets the net, :math:`x \circ g(w)`, and gates and net
    are learnt together by gradient steps on the mean loss of each batch and

    .. math::
        -\lambda_1 \operatorname{var}\left(\frac{w}{N}\right)
        + \lambda_2 \left\lVert \frac{w}{N} \right\rVert_1

    for :math:`N` features, with the unbiased variance. Features are ranked by :math:`g(w)`. The
    loss is that of a softmax over the classes, or of a normal distribution with a learnt variance.
    New classes may be added. Public code trains a fresh net for every batch; this one keeps its
    net from batch to batch.

    X is not scaled: its columns should have one scale, about standard normal or in [0, 1]. An
    extreme value does no lasting harm, but slows down learning for a hundred batches or more. A
    missing entry counts as 0. Sparse batches are made dense, one at a time.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    hidden : tuple of int, default=(100,)
        Nodes of each hidden layer of rectified linear units; ``()`` is a linear model.
    gate : {"sigmoid", "softmax"}, default="sigmoid"
        g: independent gates between 0 and 1, or gates that add up to 1.
    gate_init : float, default=1.0
        Where all of w starts.
    variance_bonus : float, default=0.002
        :math:`\lambda_1`: drives gates apart.
    l1_penalty : float, default=0.001
        :math:`\lambda_2`: pulls w to 0. For the sigmoid, that is a gate half open, so a large
        penalty opens the gates of useless features again.
    learning_rate : float, default=0.01
        The size of the steps, by Adam (Kingma, Ba, ICLR 2015).
    n_epochs : int, default=1
        Steps on each batch.
    target : {"auto", "classes", "numbers"}, default="auto"
        What y is. "auto" means numbers if the first batch holds fractions, otherwise classes.
        Numbers are standardised by the batches seen before.
    device : {"cpu", "cuda"}, default="cpu"
        Where to compute, in float64.
    missing : {"ignore", "error"}, default="ignore"
        A missing entry of X counts as 0, or is refused.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.
    random_state : int, Generator, RandomState or None
        For the first values of the hidden layers. The last layer starts at 0.

    Attributes
    ----------
    weights_, ranking_ : ndarray (n_features,)
        g(w) and the rank (1 is best) of every feature. Read-only, and yours to keep.
    classes_ : ndarray
        The labels seen, sorted, unless the target is numbers.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    Notes
    -----
    Among 20 standard normal features, the two features of :math:`y = [x_0 > x_1]` are on top
    within 20 batches of 100. Those of :math:`y = [x_0 x_1 > 0]`, where neither feature tells
    anything alone, are on top within 50; without hidden layers they are not found.

    While only one class is known, nothing is learnt. The last layer starts at 0, so that random
    first values do not close a gate. Steps are Adam's: their size does not depend on the scale of
    X, and a gate moves by about ``learning_rate`` at most. So after a drift, gates that are far
    apart take many batches to change places.

    A step costs what a dense net costs: :math:`O(N h)` per row for :math:`h` nodes in the first
    hidden layer, and as much memory as three such layers.

    References
    ----------
    V. Borisov, J. Haug, G. Kasneci, "CancelOut: A Layer for Feature Selection in Deep Neural
    Networks", ICANN 2019.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> selector = CancelOut(2, random_state=0)
    >>> for _ in range(50):
    ...     X = rng.normal(size=(100, 8))
    ...     selector = selector.partial_fit(X, X[:, 3] * X[:, 5] > 0)
    >>> selector.get_support(indices=True)
    array([3, 5])
    """

    _weights_repeat_rows = True
    _learnt: ClassVar[Declared] = {"numeric": Value(bool)}
    _for_numbers = "say target='numbers'."

    _net_: Net
    _target_: NumberTarget
    _numeric_: bool

    def __init__(
        self,
        n_features_to_select: int | float = 10,
        *,
        hidden: tuple[int, ...] = (100,),
        gate: str = "sigmoid",
        gate_init: float = 1.0,
        variance_bonus: float = 0.002,
        l1_penalty: float = 0.001,
        learning_rate: float = 0.01,
        n_epochs: int = 1,
        target: str = "auto",
        device: str = "cpu",
        missing: str = "ignore",
        batch_size: int = 100,
        random_state: Seed = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.hidden = hidden
        self.gate = gate
        self.gate_init = gate_init
        self.variance_bonus = variance_bonus
        self.l1_penalty = l1_penalty
        self.learning_rate = learning_rate
        self.n_epochs = n_epochs
        self.target = target
        self.device = device
        self.missing = missing
        self.batch_size = batch_size
        self.random_state = random_state

    def _weighting(self) -> tuple[Hashable, ...]:
        return (self.gate,)

    def _weights(self) -> Floats:
        weights: Floats = gates(self._net_.theta["gates"], self.gate).cpu().numpy()
        return weights

    # --- learning ---------------------------------------------------------------------------

    def _learn(self, batch: CheckedBatch) -> None:
        self._check_parameters()
        y, rows = batch.y, _dense(batch.X, batch.n_missing > 0)
        assert y is not None
        w = np.ones(len(rows)) if batch.weight is None else batch.weight
        started = hasattr(self, "_net_")
        if not started:
            self._numeric_ = are_numbers(y, batch.classes, self.target)
            self._target_ = NumberTarget(scaled=True)
        if self._numeric_:
            if batch.classes is not None:
                raise ValueError("classes is for class labels; this selector learns numbers.")
            y = as_numbers(y, "CancelOut")
            goal, before, n_outputs = self._target_.look(y, w)[0][0], None, 0
        else:
            goal, before = self._take_whole_labels(batch)
            n_outputs = len(self.classes_)
        with self._started(n_outputs) as net:
            if before is not None and len(before) < n_outputs:
                net = with_classes(net, before, self.classes_)
            if n_outputs != 1:
                net = self._steps(net, rows, goal, w / w.sum())
            self._net_ = net
        if self._numeric_:
            self._target_.count(y, w)

    def _restart_features(self, columns: Places) -> None:
        net, device = self._net_, self.device
        widths = [net.theta[f"bias {layer}"].shape[0] for layer in range(_n_layers(net.theta))]
        sizes, rng = (self.n_features_in_, *widths), np.random.default_rng(net.n_steps)
        new = fresh(sizes, self.gate_init, self._numeric_, rng, device)
        parts = {}
        for part in _PARTS:
            tensors = {name: tensor.clone() for name, tensor in getattr(net, part).items()}
            for name in ("gates", "layer 0"):  # those with a row for each feature
                tensors[name][columns] = getattr(new, part)[name][columns].to(tensors[name].device)
            parts[part] = tensors
        self._net_ = Net(**parts, n_steps=net.n_steps)

    @contextmanager
    def _started(self, n_outputs: int) -> Iterator[Net]:
        """The net so far, or a fresh one. On an error, the random numbers it used are put back."""
        if hasattr(self, "_net_"):
            # The net may have been loaded, or ``device`` may have changed.
            yield self._net_.changed(lambda _, tensor: tensor.to(self.device))
            return
        rng = generator(self.random_state, "cancelout")
        before = rng.bit_generator.state
        try:
            sizes = (self.n_features_in_, *self.hidden, max(n_outputs, 1))
            yield fresh(sizes, self.gate_init, n_outputs == 0, rng, self.device)
        except BaseException:
            rng.bit_generator.state = before
            raise

    def _steps(self, net: Net, X: Floats, y: Labels, share: Floats) -> Net:
        """The net after its steps on one batch; ``share`` weighs the rows and sums to 1."""
        torch = require("torch", "CancelOut")
        place = {"device": self.device, "dtype": torch.float64}
        codes = {} if self._numeric_ else {"dtype": torch.int64}
        with torch.inference_mode(False):
            batch = (
                torch.tensor(X, **place),
                torch.tensor(y, **(place | codes)),
                torch.tensor(share, **place),
            )
        for _ in range(self.n_epochs):
            # The caller's torch code may have switched gradients off.
            with torch.inference_mode(False), torch.enable_grad():
                theta = {name: t.clone().requires_grad_() for name, t in net.theta.items()}
                slopes = torch.autograd.grad(self._loss(theta, *batch), list(theta.values()))
            net = adam(net, dict(zip(theta, slopes, strict=True)), self.learning_rate)
        # If a slope was not finite in any step, the running squares are not finite either.
        if not all(t.isfinite().all() for t in (*net.theta.values(), *net.square.values())):
            raise ValueError(
                "X or a setting is so large that a step would overflow: rescale X, or take a "
                "smaller learning_rate."
            )
        return net

    def _loss(self, theta: Tensors, X: Tensor, y: Tensor, share: Tensor) -> Tensor:
        w = theta["gates"]
        likelihood = log_likelihood_of(scores(theta, X * gates(w, self.gate))[None], theta, y)[0]
        return (
            regulariser(w, float(self.variance_bonus), float(self.l1_penalty)) - share @ likelihood
        )

    def _check_parameters(self) -> None:
        torch = require("torch", "CancelOut")
        check_choice("gate", self.gate, ("sigmoid", "softmax"))
        check_choice("target", self.target, ("auto", "classes", "numbers"))
        check_choice("missing", self.missing, ("ignore", "error"))
        check_choice("device", self.device, ("cpu", "cuda"))
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device='cuda', but torch sees no GPU on this machine.")
        check_number("gate_init", self.gate_init, -np.inf)
        check_number("variance_bonus", self.variance_bonus, ends="[)")
        check_number("l1_penalty", self.l1_penalty, ends="[)")
        check_number("learning_rate", self.learning_rate)
        if not is_count(self.n_epochs):
            raise ValueError(f"n_epochs must be a positive integer; got {self.n_epochs!r}.")
        listed = isinstance(self.hidden, (tuple, list))
        if not listed or not all(is_count(n) for n in self.hidden):
            raise ValueError(
                f"hidden must be a tuple of positive numbers of nodes; got {self.hidden!r}."
            )
        check_seed(self.random_state)

    # --- state ------------------------------------------------------------------------------

    def _from_plain(self, value: Any, model: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    def _plain(self, value: Any) -> Any:
        return [plain(n) for n in value] if isinstance(value, (tuple, list)) else plain(value)

    def _state(self) -> State:
        arrays = under("target", self._target_.state())
        for part in _PARTS:
            tensors = getattr(self._net_, part)
            arrays |= under(part, {name: tensor.cpu().numpy() for name, tensor in tensors.items()})
        return super()._state()[0] | {"n_steps": self._net_.n_steps}, arrays

    def _restore(self, header: Header, arrays: Arrays, model: BaseModel | Estimator | None) -> None:
        torch = require("torch", "CancelOut")
        super()._restore(header, arrays, model)
        self._target_ = NumberTarget(scaled=True)
        self._target_.restore(part_of("target", arrays))
        sizes = self._sizes()
        sizes["T"] = 1 if self._numeric_ else sizes["K"]
        declared = net_declared(_n_layers(part_of("theta", arrays)), self._numeric_)
        parts: dict[str, Tensors] = {}
        for part in _PARTS:
            found = part_of(part, arrays)
            parts[part] = {
                name: torch.tensor(each.read(name, header, found, sizes), device="cpu")
                for name, each in declared.items()
            }
        self._net_ = Net(**parts, n_steps=_N_STEPS.read("n_steps", header, arrays, sizes))


# --- the formula ----------------------------------------------------------------------------


def gates(w: Tensor, kind: str) -> Tensor:
    """g(w): how far each gate is open."""
    return w.sigmoid() if kind == "sigmoid" else w.softmax(0)


def regulariser(w: Tensor, variance_bonus: float, l1_penalty: float) -> Tensor:
    r"""The term added to the loss: lower when gates differ, higher when they are far from 0."""
    scaled = w / len(w)
    value = l1_penalty * scaled.abs().sum()
    return value - variance_bonus * scaled.var() if len(w) > 1 else value


def scores(theta: Mapping[str, Tensor], X: Tensor) -> Tensor:
    """The outputs of the net for features that have passed the gates.

    Parameters
    ----------
    theta : mapping of str to Tensor
        The parameters of the net.
    X : Tensor (n_rows, n_features)
        Features after the gates.

    Returns
    -------
    Tensor (n_rows, n_outputs)
    """
    for layer in range(_n_layers(theta)):
        nodes = X.relu() if layer else X
        X = nodes @ theta[f"layer {layer}"] + theta[f"bias {layer}"]
    return X


def _n_layers(theta: Mapping[str, Tensor | npt.NDArray[np.generic]]) -> int:
    return sum(name.startswith("bias") for name in theta)


def net_declared(n_layers: int, numeric: bool) -> Declared:
    """The declared shapes of a net's tensors, from J features to T outputs."""
    widths = ["J", *(f"H{layer}" for layer in range(1, n_layers)), "T"]
    declared = {"gates": Array("J")}
    for layer, (n_in, n_out) in enumerate(pairwise(widths)):
        declared |= {f"layer {layer}": Array(n_in, n_out), f"bias {layer}": Array(n_out)}
    return declared | {LOG_NOISE: Array(1)} if numeric else declared


def fresh(
    sizes: tuple[int, ...], gate_init: float, numeric: bool, rng: np.random.Generator, device: str
) -> Net:
    """A new net: gates equally open, random hidden layers, last layer 0."""
    torch = require("torch", "CancelOut")
    theta: dict[str, Floats] = {"gates": np.full(sizes[0], float(gate_init))}
    for layer, (n_in, n_out) in enumerate(pairwise(sizes)):
        spread = np.sqrt(2.0 / n_in) if layer < len(sizes) - 2 else 0.0
        theta[f"layer {layer}"] = spread * rng.normal(size=(n_in, n_out))
        theta[f"bias {layer}"] = np.zeros(n_out)
    if numeric:
        theta[LOG_NOISE] = np.zeros(1)
    tensors = {name: torch.tensor(value, device=device) for name, value in theta.items()}
    zeros = {name: torch.zeros_like(tensor) for name, tensor in tensors.items()}
    return Net(tensors, zeros, zeros, 0)


def with_classes(net: Net, before: npt.NDArray[np.generic], after: npt.NDArray[np.generic]) -> Net:
    """A net with more outputs; those of new classes start at 0."""
    last = _n_layers(net.theta) - 1
    places = encode(before, after)
    assert places is not None

    def wider(name: str, tensor: Tensor) -> Tensor:
        if name not in (f"layer {last}", f"bias {last}"):
            return tensor
        new = tensor.new_zeros(*tensor.shape[:-1], len(after))
        new[..., places.tolist()] = tensor
        return new

    return net.changed(wider)


def adam(net: Net, slopes: Tensors, rate: float) -> Net:
    """One step of Adam against these slopes."""
    n = net.n_steps + 1
    theta, slope, square = {}, {}, {}
    for name, g in slopes.items():
        slope[name] = _KEEP_SLOPE * net.slope[name] + (1.0 - _KEEP_SLOPE) * g
        square[name] = _KEEP_SQUARE * net.square[name] + (1.0 - _KEEP_SQUARE) * g * g
        size = (square[name] / (1.0 - _KEEP_SQUARE**n)).sqrt() + _EPS
        theta[name] = net.theta[name] - rate / (1.0 - _KEEP_SLOPE**n) * slope[name] / size
    return Net(theta, slope, square, n)


def _dense(X: Matrix, missing: bool) -> Floats:
    """X as one dense array of float64; missing entries are zeros."""
    rows = X if isinstance(X, np.ndarray) else X.toarray()
    if missing:
        rows = np.where(np.isnan(rows), 0.0, rows)
    return np.ascontiguousarray(rows, dtype=np.float64)
