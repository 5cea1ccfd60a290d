"""LICON: how much each input adds to the outputs of a model that is linear near every row."""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.declared import Array, Declared, Value
from fires.core.optional import require
from fires.core.randomness import generator, random_state
from fires.core.settings import number
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Codes, Floats, Header, Matrix, Seed
from fires.core.validation import repeated
from fires.predictors import LinearRegressor, Perceptron
from fires.predictors.base import can, unwrapped
from fires.rivals.arrays import as_dense, decay, entries, filled, kept, with_entries
from fires.rivals.base import settings
from fires.rivals.cancelout import descend, read_net, with_means
from fires.rivals.from_model import ModelSelector


@settings
class LICON(ModelSelector):
    r"""Features ranked by their linear contribution to a model (Kasneci and Gottron, CIKM 2016).

    Near a row x, a model with the outputs f is about linear. For a linear model, and for a net of
    piecewise linear units, what feature j adds to output c is then input times gradient. Features
    are ranked by the mean of its absolute value, summed over outputs:

    .. math::
        \omega_j = \frac{\sum_t \gamma^{T - t} \sum_c
        \left| x_{tj} \, \partial f_c(x_t) / \partial x_{tj} \right|}{\sum_t \gamma^{T - t}}

    where :math:`\gamma` is 1 minus ``forgetting``: about the last ``1 / forgetting`` rows matter.
    A batch is learnt first, and then explained with the model as it is.

    The paper explains trained nets and does not select. The window, the sum over outputs, and that
    the model learns on are our choice. X is not scaled: bring the columns to one scale and centre
    them, since a column far from 0 adds much to every row. A missing entry counts as 0.

    Parameters
    ----------
    n_features_to_select : int or float, default=10
        How many features to select: a number (all, if there are fewer) or a fraction in (0, 1).
    model : None, linear predictor or torch.nn.Module
        None is a linear model: :class:`fires.predictors.Perceptron`, or
        :class:`~fires.predictors.LinearRegressor` for numbers. A predictor that
        :func:`fires.predictors.as_predictor` takes must have ``coef_`` once it has learnt. A module
        gives one number for each row of X, or one for each class, and is learnt by a gradient step
        (Adam) on the mean loss of each batch: the logistic loss, the cross-entropy, or half the
        squared error of numbers, which should be about standard normal. It runs in float64 and in
        evaluation mode. Copies learn, never the object itself.
    forgetting : float, default=0.001
        In [0, 1): every new row reduces the weight of older rows by this share; 0 keeps everything.
    learning_rate : float, default=0.01
        The size of the steps of a module.
    target : {"auto", "classes", "numbers"}, default="auto"
        What y is. "auto" means numbers if the first batch holds fractions, otherwise classes. A
        model that is a classifier or a regressor decides it by itself.
    missing : {"ignore", "error"}, default="ignore"
        A missing entry of X counts as 0, or is refused.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.
    random_state : int, Generator, RandomState or None
        Seeds a model whose own ``random_state`` is None.

    Attributes
    ----------
    weights_, ranking_ : ndarray (n_features,)
        omega and the rank (1 is best) of every feature. Read-only.
    classes_ : ndarray
        The labels seen, sorted, unless the target is numbers.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    Notes
    -----
    Weights must be whole numbers: a row of weight w is learnt w times. A module, and a classifier
    of scikit-learn, must know all classes from its first batch on: pass ``classes`` to the first
    ``partial_fit``. For a module, sparse batches are made dense. The file of :meth:`save` holds no
    code of others, so ``fires.load(path, model=...)`` needs a model of yours again.

    References
    ----------
    G. Kasneci, T. Gottron, "LICON: A Linear Weighting Scheme for the Contribution of Input
    Variables in Deep Artificial Neural Networks", CIKM 2016.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> selector = LICON(2)
    >>> for _ in range(20):
    ...     X = rng.normal(size=(100, 6))
    ...     selector = selector.partial_fit(X, X[:, 1] > X[:, 4])
    >>> selector.get_support(indices=True)
    array([1, 4])
    """

    model: Any = None
    forgetting: float = number(0.001, high=1.0, ends="[)")
    learning_rate: float = number(0.01)
    random_state: Seed = random_state()

    _learnt: ClassVar[Declared] = {"sums": Array("J", low=0.0), "mass": Value(float, low=0.0)}

    def _weights(self) -> Floats:
        return self._sums_ / max(self._mass_, 1e-300)

    # --- learning ---------------------------------------------------------------------------

    def _start(self, batch: CheckedBatch) -> None:
        super()._start(batch)
        self._sums_, self._mass_ = np.zeros(self.n_features_in_), 0.0

    def _step(self, batch: CheckedBatch) -> None:
        X = kept(with_entries(batch.X, filled(entries(batch.X), batch.n_missing > 0)))
        goal, before = self._goal(batch)
        name = type(self).__name__
        rows, y = repeated(X, goal if self._numeric_ else batch.y, batch.weight, name)
        model = copy.deepcopy(self._model_)  # if it fails half-way, the old one is untouched
        if model is None:
            model = self._fresh_model(generator(self.random_state, "licon"))
        elif isinstance(model, Net) and before is not None:
            raise ValueError(
                "A module must know all classes from its first batch on: pass them as classes= to "
                "the first partial_fit."
            )
        if isinstance(model, Net):
            n_classes = 0 if self._numeric_ else len(self.classes_)
            model.learn(as_dense(rows), repeated(goal, None, batch.weight, name)[0], n_classes)
        else:
            self._teach(model, CheckedBatch(rows, y, classes=batch.classes))
        mass, keep = decay(batch.weight, batch.n_rows, float(self.forgetting))
        sums = keep * self._sums_ + contributions(model, X, mass)
        if not np.isfinite(sums).all():
            raise ValueError("X holds values so large that a step would overflow; rescale them.")
        self._sums_, self._mass_ = sums, keep * self._mass_ + float(mass.sum())
        self._model_ = model

    def _fresh_model(self, rng: np.random.Generator) -> Any:
        if self.model is None:
            return LinearRegressor() if self._numeric_ else Perceptron()
        is_module = _is_module(self.model)
        return Net(self.model, self.learning_rate) if is_module else super()._fresh_model(rng)

    # --- settings and state -----------------------------------------------------------------

    def _check_model(self) -> None:
        if not _is_module(self.model):
            super()._check_model()

    def _plain(self, value: Any) -> Any:
        found = {self._given: type(value).__qualname__}
        return found if _is_module(value) else super()._plain(value)

    def _try_model(self, model: Any) -> None:
        contributions(model, np.zeros((1, self.n_features_in_)), np.ones(1))


def _is_module(model: Any) -> bool:
    """Whether it is a module of torch, which need not be installed."""
    return can(model, "forward", "named_parameters") and not isinstance(model, type)


def contributions(model: Any, X: Matrix, mass: Floats) -> Floats:
    """The absolute input times gradient of rows, by their mass, summed over rows and outputs."""
    if isinstance(model, Net):
        return model.contributions(as_dense(X), mass)
    inner = unwrapped(model)
    if not isinstance(getattr(inner, "coef_", None), np.ndarray):
        raise ValueError(
            f"LICON explains linear models, which have coef_, and modules of torch; "
            f"{type(inner).__name__} is neither."
        )
    size: Any = with_entries(X, np.abs(entries(X)))
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray((mass @ size) * np.abs(np.atleast_2d(inner.coef_)).sum(axis=0))


class Net:
    """A copy of a module, which learns by Adam."""

    def __init__(self, module: Any, rate: float) -> None:
        self.module, self.rate, self.n_steps = copy.deepcopy(module), rate, 0
        self.module.cpu().double().eval()
        self.net = with_means({n: value.detach() for n, value in self.module.named_parameters()})

    def _outputs(self, theta: Any, X: Any) -> Any:
        torch = require("torch", "LICON")
        return torch.func.functional_call(self.module, theta, (X,)).reshape(len(X), -1)

    def learn(self, X: Floats, y: Floats | Codes, n_classes: int) -> None:
        """One step on the mean loss of the rows; ``n_classes`` is 0 if y holds numbers."""
        torch = require("torch", "LICON")

        def loss(theta: Any) -> Any:
            f, goal = self._outputs(theta, torch.tensor(X)), torch.tensor(y)
            if n_classes == 0:
                return (0.5 * (f[:, 0] - goal) ** 2).mean()
            if f.shape[1] == 1 and n_classes <= 2:
                return torch.nn.functional.softplus(f[:, 0] * (1.0 - 2.0 * goal)).mean()
            if f.shape[1] < n_classes:
                raise ValueError(f"The module has {f.shape[1]} outputs for {n_classes} classes.")
            return torch.nn.functional.cross_entropy(f, goal.long())

        self.n_steps += 1
        self.net = descend(self.net, loss, self.n_steps, self.rate)

    def contributions(self, X: Floats, mass: Floats) -> Floats:
        """See :func:`contributions`."""
        torch = require("torch", "LICON")
        with torch.inference_mode(False), torch.enable_grad():
            x = torch.tensor(X, requires_grad=True)
            parts = self._outputs(part_of("theta", self.net), x).sum(dim=0)
            found = [torch.autograd.grad(part, x, retain_graph=True)[0] for part in parts]
            total = sum((x.detach() * gradient).abs() for gradient in found)
        return np.asarray(mass @ total.numpy())

    def state(self) -> State:
        """What was learnt, as JSON values and arrays."""
        arrays = {name: value.numpy() for name, value in self.net.items()}
        return {"n_steps": self.n_steps}, under("net", arrays)

    def restore(self, header: Header, arrays: Arrays) -> Self:
        """Go on from :meth:`state`."""
        self.n_steps = Value(int, low=0, high=2**53).read("n_steps", header, {}, {})
        self.net = read_net(self.net, part_of("net", arrays))
        return self
