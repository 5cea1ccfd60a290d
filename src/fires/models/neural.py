"""A fully connected net with random weights: FIRES-ANN."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from fires.core.belief import Belief
from fires.core.settings import is_count
from fires.models import monte_carlo as mc
from fires.models.monte_carlo import INPUTS, ModelParameters

if TYPE_CHECKING:
    from torch import Generator, Tensor

# The standard deviations of mu at the start of the scaled form. Input weights start small, so that
# learning soon outgrows the random start. Later layers start at 2, since softplus has slope 1/2.
_INPUTS, _LAYERS = 0.2, 2.0
_INTERCEPT = "intercept"  # the name of the point parameter
_LOG_2 = math.log(2.0)


@dataclass(frozen=True, repr=False)
class NeuralNet(mc.PaperModel):
    r"""The paper's neural net (FIRES-ANN): softplus layers without biases, a softmax at the end.

    All weights are random. The importance of a feature comes from its input weights, a row of
    :math:`W^{(1)}`.

    Parameters
    ----------
    hidden : tuple of int, default=(100, 100, 100)
        Nodes of each hidden layer; ``()`` is a linear softmax model by Monte Carlo.
    n_draws : int, default=5
        :math:`L`, how many nets are drawn for each batch.
    form : {"scaled", "paper"}, default="scaled"
        ``"paper"``: softplus of plain sums, mu = 0 and sigma = 1 at the start. ``"scaled"``: sums
        over n nodes are divided by :math:`\sqrt{n}`, softplus is shifted to be 0 at 0, mu starts at
        random, and each output has an intercept. Such a net learns equally well at any width.
    rate : float, default=2000.0
        Multiplies the selector's learning rates. The default rate 0.01 suits a linear model; the
        many small weights of the scaled form need a rate of 20. The paper has 1. In the scaled
        form, the rate of the input weights grows with the number of features, from 10 on.
    aggregate : {"rms", "abs", "paper"}, default="rms"
        How the weights of a feature are combined: their root mean square, their mean absolute
        value, or their plain mean plus the means of all later layers. In the last form, weights of
        opposite sign cancel, and the common summand changes the order, since it is squared. On
        three streams of known truth (docs/models.md), the first two find every relevant feature,
        the last one 60 % of them.
    balance : bool, default=True
        Let every class count as much as the others, however rare it is: see
        :class:`fires.models.target.ClassBalance`. The paper lets every row count the same.
    task : {"auto", "classes", "numbers"}, default="auto"
        What the target is. ``"auto"`` means numbers if the first batch holds fractions.
    device : {"cpu", "cuda"}, default="cpu"
        Where to compute.
    dtype : {"float32", "float64"}, default="float32"
        The precision of computation. Parameters are always kept in float64.
    decay : float, default=1.0
        With a batch of 100 rows or more, the means of the input weights shrink by this share of the
        selector's learning rate, so that features that no longer matter lose their weights; with
        smaller batches, in proportion. The paper's form has none.

    Examples
    --------
    >>> import numpy as np
    >>> from fires import FIRES
    >>> rng = np.random.default_rng(0)
    >>> selector = FIRES(2, model=NeuralNet(), random_state=0)
    >>> for _ in range(40):
    ...     X = rng.normal(size=(100, 8))
    ...     y = X[:, 3] * X[:, 5] > 0
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 5])
    """

    hidden: tuple[int, ...] = (100, 100, 100)
    n_draws: int = 5
    _: KW_ONLY
    rate: float = 2000.0

    def __post_init__(self) -> None:
        if not isinstance(self.hidden, (tuple, list)) or not all(map(is_count, self.hidden)):
            raise ValueError(
                f"hidden must be a tuple of positive numbers of nodes; got {self.hidden!r}."
            )
        object.__setattr__(self, "hidden", tuple(int(n) for n in self.hidden))
        self.check()

    def start(self, n_features: int, n_classes: int, generator: Generator) -> ModelParameters:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        sizes = self.torch().tensor([n_features, max(n_classes, 1)], **self.place)
        mu, sigma = {}, {}
        for name, (n_out, n_in) in self._layers(n_features, max(n_classes, 1)).items():
            shape = (n_in, n_out) if name == INPUTS else (n_out, n_in)
            spread = _INPUTS if name == INPUTS and self.hidden else _LAYERS
            mu[name], sigma[name] = self.fresh_weights(shape, spread, generator)
        point = self._fresh_intercept(max(n_classes, 1)) | self.start_of_noise(n_classes)
        return ModelParameters(mu, sigma, point, {"sizes": sizes})

    def _fresh_intercept(self, n_outputs: int) -> dict[str, Tensor]:
        # Without it, only large weights of all features together could shift an output.
        scaled = self.form == "scaled"
        return {_INTERCEPT: self.torch().zeros(n_outputs, **self.place)} if scaled else {}

    def _layers(self, n_features: int, n_outputs: int) -> dict[str, tuple[int, int]]:
        nodes = (n_features, *self.hidden, n_outputs)
        names = [INPUTS, *(f"layer {i}" for i in range(2, len(nodes)))]
        return {name: (b, a) for name, (a, b) in zip(names, pairwise(nodes), strict=True)}

    def shapes(self, belief: Belief) -> dict[str, tuple[int, ...]]:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        n_features, n_outputs = belief.point["fixed sizes"].astype(int).tolist()
        return dict(self._layers(n_features, n_outputs))

    def log_likelihood(self, batch: mc.DeviceBatch) -> tuple[Tensor, Tensor | None]:
        """The softmax, or the mean, of the last layer; there is no penalty.

        See :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        torch, sums, scaled = self.torch(), batch.features, self.form == "scaled"
        if scaled:
            sums = sums * float(batch.point["sizes"][0]) ** -0.5
        for W in batch.theta.values():
            nodes = torch.nn.functional.softplus(sums)
            if scaled:
                nodes = (nodes - _LOG_2) * W.shape[2] ** -0.5
            sums = torch.bmm(nodes, W.transpose(1, 2))
        if scaled:
            sums = sums + batch.point[_INTERCEPT]
        return mc.log_likelihood_of(sums, batch.point, batch.y, batch.level), None

    def per_feature(self, parameters: ModelParameters) -> tuple[Tensor, Tensor]:
        """In the paper's aggregation, the means of all layers but the first are added.

        See :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        found = super().per_feature(parameters)
        if self.aggregate != "paper":
            return found
        mu, sigma = (
            own + sum(W.mean() for name, W in values.items() if name != INPUTS)
            for own, values in zip(found, (parameters.mu, parameters.sigma), strict=True)
        )
        return mu, sigma

    def with_outputs(
        self, parameters: ModelParameters, sources: list[int | None], generator: Generator
    ) -> ModelParameters:
        """The last layer gets one row per class; the others stay.

        See :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        last = list(parameters.mu)[-1]
        axis = 1 if last == INPUTS else 0
        shape = list(parameters.mu[last].shape)
        shape[axis] = len(sources)
        mu, sigma = self.fresh_weights(tuple(shape), _LAYERS, generator)
        for new, old in ((mu, parameters.mu[last]), (sigma, parameters.sigma[last])):
            mc.copy_outputs(new.movedim(axis, 0), old.movedim(axis, 0), sources)
        sizes = parameters.fixed["sizes"].clone()
        sizes[1] = len(sources)
        point = parameters.point | self._fresh_intercept(len(sources))
        if _INTERCEPT in point:
            mc.copy_outputs(point[_INTERCEPT], parameters.point[_INTERCEPT], sources)
        return ModelParameters(
            parameters.mu | {last: mu}, parameters.sigma | {last: sigma}, point, {"sizes": sizes}
        )
