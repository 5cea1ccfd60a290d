"""CancelOut: features ranked by gates in front of a neural net, learnt together with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fires.core.batch import CheckedBatch
from fires.core.classes import encode
from fires.core.declared import Array, Declared, Value
from fires.core.optional import require
from fires.core.randomness import generator, random_state
from fires.core.settings import choice, count, is_count, number
from fires.core.sharding import weight_of
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Floats, Header, Labels, Seed
from fires.models.monte_carlo import LOG_NOISE, log_likelihood_of
from fires.models.target import NumberTarget
from fires.rivals.arrays import as_dense, filled
from fires.rivals.base import TargetSelector, settings

if TYPE_CHECKING:
    from torch import Tensor

Tensors = dict[str, "Tensor"]

# How much of its running means Adam keeps from step to step. The squares fade faster than usual
# (0.999): otherwise one extreme batch would slow down learning for thousands of batches.
_KEEP_SLOPE, _KEEP_SQUARE = 0.9, 0.99
_EPS = 1e-8
# The parameters, and Adam's running means of their gradient and of its square.
_PARTS = ("theta", "slope", "square")


@settings
class CancelOut(TargetSelector):
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
        :math:`\lambda_2`: shrinks w to 0. For the sigmoid, that is a gate half open, so a large
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
        g(w) and the rank (1 is best) of every feature. A read-only copy.
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

    hidden: tuple[int, ...] = (100,)
    gate: str = choice("sigmoid", "softmax")
    gate_init: float = number(1.0, -np.inf)
    variance_bonus: float = number(0.002, ends="[)")
    l1_penalty: float = number(0.001, ends="[)")
    learning_rate: float = number(0.01)
    n_epochs: int = count(1)
    device: str = choice("cpu", "cuda")
    random_state: Seed = random_state()

    _weights_repeat_rows = True
    _learnt: ClassVar[Declared] = {"n_steps": Value(int, low=0, high=2**53)}

    _net_: Tensors = field(init=False)  # each name begins with one of _PARTS
    _rng_: np.random.Generator = field(init=False)  # until the net is there

    def _weights(self) -> Floats:
        return gates(self._net_["theta.gates"], self.gate).cpu().numpy()

    # --- learning ---------------------------------------------------------------------------

    def _start(self, batch: CheckedBatch) -> None:
        super()._start(batch)
        self._target_, self._n_steps_ = NumberTarget(scaled=True), 0
        self._rng_ = generator(self.random_state, "cancelout")

    def _step(self, batch: CheckedBatch) -> None:
        X = np.ascontiguousarray(filled(as_dense(batch.X), batch.n_missing > 0))
        w = weight_of(batch)
        y, before = self._goal(batch)
        goal = self._target_.look(y, w)[0][0] if self._numeric_ else y
        torch = require("torch", "CancelOut")
        known = self._net_ if self.is_fitted else self._fresh()
        # It may have been loaded, or ``device`` may have changed.
        net = {name: torch.as_tensor(part, device=self.device) for name, part in known.items()}
        if before is not None:
            net = with_classes(net, before, self.classes_)
        if self._numeric_ or len(self.classes_) > 1:
            net = self._steps(net, X, goal, w / w.sum())
        self._net_ = net
        if self._numeric_:
            self._target_.count(y, w)

    def _fresh(self, seed: int | None = None, hidden: Sequence[int] = ()) -> Arrays:
        """A new net: gates equally open, random hidden layers, last layer 0."""
        rng = self._rng_ if seed is None else np.random.default_rng(seed)
        widths = (self.n_features_in_, *(self.hidden if seed is None else hidden))
        theta = {"gates": np.full(self.n_features_in_, float(self.gate_init))}
        for layer, (n_in, n_out) in enumerate(pairwise((*widths, self._sizes()["T"]))):
            spread = np.sqrt(2.0 / max(n_in, 1)) if layer < len(widths) - 1 else 0.0
            theta[f"layer {layer}"] = spread * rng.normal(size=(n_in, n_out))
            theta[f"bias {layer}"] = np.zeros(n_out)
        if self._numeric_:
            theta[LOG_NOISE] = np.zeros(1)
        return with_means(theta)

    def _steps(self, net: Tensors, X: Floats, y: Labels, share: Floats) -> Tensors:
        """The net after its steps on one batch; ``share`` weighs the rows and sums to 1."""
        torch = require("torch", "CancelOut")
        with torch.inference_mode(False):
            batch = [torch.tensor(part, device=self.device) for part in (X, y, share)]
        for _ in range(self.n_epochs):
            self._n_steps_ += 1
            net = descend(net, partial(self._loss, *batch), self._n_steps_, self.learning_rate)
        # If a slope was not finite in any step, the running squares are not finite either.
        if not all(tensor.isfinite().all() for tensor in net.values()):
            raise ValueError(
                "X or a setting is so large that a step would overflow: rescale X, or take a "
                "smaller learning_rate."
            )
        return net

    def _loss(self, X: Tensor, y: Tensor, share: Tensor, theta: Tensors) -> Tensor:
        w = theta["gates"]
        likelihood = log_likelihood_of(scores(theta, X * gates(w, self.gate))[None], theta, y)[0]
        penalty = regulariser(w, float(self.variance_bonus), float(self.l1_penalty))
        return penalty - share @ likelihood

    def _check_parameters(self) -> None:
        torch = require("torch", "CancelOut")
        super()._check_parameters()
        if self.device == "cuda" and not torch.cuda.is_available():
            raise ValueError("device='cuda', but torch sees no GPU on this machine.")
        if not isinstance(self.hidden, (tuple, list)) or not all(map(is_count, self.hidden)):
            raise ValueError(
                f"hidden must be a tuple of positive numbers of nodes; got {self.hidden!r}."
            )

    # --- state ------------------------------------------------------------------------------

    def _from_plain(self, value: Any, model: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    def _state(self) -> State:
        tensors = {name: tensor.cpu().numpy() for name, tensor in self._net_.items()}
        return super()._state()[0], tensors | under("target", self._target_.state())

    def _restore(self, header: Header, arrays: Arrays, model: Any) -> None:
        super()._restore(header, arrays, model)
        self._target_ = NumberTarget(scaled=True)
        self._target_.restore(part_of("target", arrays))
        self._net_ = read_net(self._fresh(0, _hidden(arrays)), arrays)


# --- the formula ----------------------------------------------------------------------------


def gates(w: Tensor, kind: str) -> Tensor:
    """g(w): how far each gate is open."""
    return w.sigmoid() if kind == "sigmoid" else w.softmax(0)


def regulariser(w: Tensor, variance_bonus: float, l1_penalty: float) -> Tensor:
    r"""The term added to the loss: lower when gates differ, higher when they are far from 0."""
    scaled = w / len(w)
    value = l1_penalty * scaled.abs().sum()
    return value - variance_bonus * scaled.var() if len(w) > 1 else value


def scores(theta: Tensors, X: Tensor) -> Tensor:
    """The outputs of the net for features that have passed the gates."""
    for layer in range(sum(name.startswith("bias") for name in theta)):
        nodes = X.relu() if layer else X
        X = nodes @ theta[f"layer {layer}"] + theta[f"bias {layer}"]
    return X


def _hidden(net: Mapping[str, Tensor | npt.NDArray[np.generic]]) -> list[int]:
    """How many nodes each hidden layer has: a bias for each of them."""
    n_layers = sum(name.startswith("theta.bias") for name in net)
    return [len(net[f"theta.bias {layer}"]) for layer in range(n_layers - 1)]


def with_classes(net: Tensors, before: Labels, after: Labels) -> Tensors:
    """A net with more outputs; those of new classes start at 0."""
    last, places = len(_hidden(net)), encode(before, after)
    assert places is not None
    wider = {}
    for name, tensor in net.items():
        if name.endswith((f"layer {last}", f"bias {last}")):
            wider[name] = tensor.new_zeros(*tensor.shape[:-1], len(after))
            wider[name][..., places.tolist()] = tensor
    return net | wider


# --- Adam; the class of torch would load torch's compiler first, which takes seconds --------------


def with_means(theta: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters, and Adam's running means of their slopes and of the squares of these: 0."""
    parts = [(part, name) for part in _PARTS for name in theta]
    return {f"{part}.{name}": theta[name] * (part == "theta") for part, name in parts}


def descend(net: Tensors, loss: Callable[[Tensors], Tensor], n: int, rate: float) -> Tensors:
    """The n-th step of Adam down a loss of the parameters."""
    torch = require("torch", "a net")
    # The caller's torch code may have switched gradients off.
    with torch.inference_mode(False), torch.enable_grad():
        named = {n.removeprefix("theta."): t for n, t in net.items() if n.startswith("theta.")}
        theta = {name: t.clone().requires_grad_() for name, t in named.items()}
        slopes = torch.autograd.grad(loss(theta), list(theta.values()), materialize_grads=True)
    new: Tensors = {}
    for name, g in zip(theta, slopes, strict=True):
        now, mean, square = (f"{part}.{name}" for part in _PARTS)
        new[mean] = _KEEP_SLOPE * net[mean] + (1.0 - _KEEP_SLOPE) * g
        new[square] = _KEEP_SQUARE * net[square] + (1.0 - _KEEP_SQUARE) * g * g
        size = (new[square] / (1.0 - _KEEP_SQUARE**n)).sqrt() + _EPS
        new[now] = net[now] - rate / (1.0 - _KEEP_SLOPE**n) * new[mean] / size
    return new


def read_net(fresh: Mapping[str, Any], arrays: Arrays) -> Tensors:
    """A net from a state; StateError if its shapes are not those of a fresh one."""
    torch = require("torch", "a net")
    read = {name: Array(*like.shape).read(name, {}, arrays, {}) for name, like in fresh.items()}
    return {name: torch.tensor(value, device="cpu") for name, value in read.items()}
