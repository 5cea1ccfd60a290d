"""FIRES-ANN and FIRES-SDT as the program of the paper's authors computes them.

Written by us, after the facts of their public research code (haugjo/pystreamfs, commit 2de3368).
It differs from the paper's equations, which :class:`fires.models.NeuralNet` and
:class:`fires.models.SoftTree` follow, in five ways:

1. draws have the standard deviation sqrt(2 / (inputs + outputs)), not 1;
2. every draw is trained by gradient descent within the batch, and its gradients are added up;
3. draws count equally, and their gradient is divided by the mean likelihood of the batch, that of
   a tree being the exponential of a score;
4. both learning rates are 0.1;
5. the leaves of a tree are drawn anew for every batch, and the penalty counts each node twice.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import expit, softmax

from fires.core.belief import Belief
from fires.core.types import Floats, Ints
from fires.models.base import Rng, Values, Weights

RATE = 0.1
_OUTPUTS = 2


@dataclass(frozen=True)
class AuthorsModel(ABC):
    """Draws that are trained within the batch: a base model for :class:`fires.FIRES`.

    Weights that meet the inputs come first, feature by feature. While a draw is trained they move
    within the span of the rows, by ``X.T @ moves``: so no step of the training depends on the
    number of features.
    """

    n_draws: int = 5
    n_epochs: int = 5
    n_rows: int = 20
    rate: float = 0.01
    dtype: type[np.floating] = np.float32

    @property
    @abstractmethod
    def nodes(self) -> int:
        """How many nodes an input meets."""

    @property
    @abstractmethod
    def n_later(self) -> int:
        """How many random weights there are behind these nodes."""

    def fresh(self, rng: Rng) -> Floats:
        """Weights of each draw that are not random variables, drawn anew for every batch."""
        return np.empty((self.n_draws, 0))

    @abstractmethod
    def slopes(self, sums: Floats, later: Floats, y: Ints) -> tuple[Floats, Floats, Floats]:
        """Likelihoods of some rows, and the gradient of their mean loss in sums and later weights.

        All have one entry per draw first; ``sums`` are those of the inputs at each node.
        """

    def init(self, n_features: int, n_classes: int, rng: Rng) -> Belief:
        """See :class:`fires.models.base.BaseModel`."""
        return Belief.standard(n_features * self.nodes + self.n_later)

    def gradient(self, belief: Belief, X: Floats, y: Values, weight: Weights, rng: Rng) -> Belief:
        """What the program takes for the gradient, times the rows: FIRES divides by them."""
        (n, n_features), codes = X.shape, y.astype(np.intp)
        r = rng.standard_normal((self.n_draws, belief.mu.size), dtype=self.dtype)
        r *= self.dtype((2.0 / (n_features + _OUTPUTS)) ** 0.5)
        theta = belief.mu.astype(self.dtype) + belief.sigma.astype(self.dtype) * r
        X = X.astype(self.dtype)
        inputs, n_inputs = X @ X.T, n_features * self.nodes
        sums = X @ theta[:, :n_inputs].reshape(self.n_draws, n_features, self.nodes)
        later = np.hstack([theta[:, n_inputs:], self.fresh(rng).astype(self.dtype)])
        start, moves, likelihood = later.copy(), np.zeros_like(sums), 0.0
        added = np.zeros_like(later)
        draws = np.arange(self.n_draws)[:, None]
        for _ in range(self.n_epochs):
            order = rng.permuted(np.tile(np.arange(n), (self.n_draws, 1)), axis=1)
            for first in range(0, n, self.n_rows):
                rows = order[:, first : first + self.n_rows]
                now = sums[draws, rows] - self.rate * (inputs[rows] @ moves)
                found, at_sums, at_later = self.slopes(now, later, codes[rows])
                likelihood += float(found.sum())
                moves[draws, rows] += at_sums
                added += at_later
                later = start - self.rate * added
        total = [(X.T @ moves).reshape(self.n_draws, -1), added[:, : self.n_later]]
        slope = np.hstack(total) * (-n * n * self.n_epochs / likelihood)
        return Belief(slope.sum(0, dtype=np.float64), (slope * r).sum(0, dtype=np.float64))

    def to_features(self, belief: Belief) -> Belief:
        """The mean of the weights that meet an input, plus those of all later layers."""
        end = belief.mu.size - self.n_later
        halves = (
            half[:end].reshape(-1, self.nodes).mean(1) + self.later_mean(half[end:])
            for half in (belief.mu, belief.sigma)
        )
        return Belief(*halves)

    def later_mean(self, later: Floats) -> float:
        """What the weights behind the first nodes add to every feature."""
        return 0.0


@dataclass(frozen=True)
class AuthorsNet(AuthorsModel):
    """Layers of softplus nodes without biases, and a softmax."""

    hidden: tuple[int, ...] = (100, 100, 100)

    @property
    def nodes(self) -> int:
        """See :class:`AuthorsModel`."""
        return self.hidden[0]

    @property
    def n_later(self) -> int:
        """See :class:`AuthorsModel`."""
        return sum(a * b for a, b in pairwise((*self.hidden, _OUTPUTS)))

    def _layers(self, later: Floats) -> list[Floats]:
        shapes = [*pairwise((*self.hidden, _OUTPUTS))]
        ends = np.cumsum([a * b for a, b in shapes])[:-1]
        parts = np.split(later, ends, axis=-1)
        return [W.reshape(*W.shape[:-1], *s) for W, s in zip(parts, shapes, strict=True)]

    def slopes(self, sums: Floats, later: Floats, y: Ints) -> tuple[Floats, Floats, Floats]:
        """See :class:`AuthorsModel`."""
        layers, outputs = self._layers(later), []
        for W in layers:
            outputs.append(np.maximum(sums, 0) + np.log(1 + np.exp(-np.abs(sums))))
            sums = outputs[-1] @ W
        likelihoods, slope = _softmax_slope(sums, y)
        found = []
        for W, out in zip(reversed(layers), reversed(outputs), strict=True):
            found.append((out.swapaxes(1, 2) @ slope).reshape(len(later), -1))
            slope = (slope @ W.swapaxes(1, 2)) * (1 - np.exp(-out))
        return likelihoods, slope, np.hstack(found[::-1])

    def later_mean(self, later: Floats) -> float:
        """See :class:`AuthorsModel`."""
        return float(sum(W.mean() for W in self._layers(later)))


@dataclass(frozen=True)
class AuthorsTree(AuthorsModel):
    """A soft decision tree whose leaves have scores."""

    depth: int = 3
    penalty: float = 0.001

    @property
    def nodes(self) -> int:
        """See :class:`AuthorsModel`."""
        return int(2**self.depth) - 1

    n_later = 0

    def fresh(self, rng: Rng) -> Floats:
        """The scores of the leaves."""
        n_leaves = self.nodes + 1
        bound = n_leaves**-0.5
        return rng.uniform(-bound, bound, (self.n_draws, n_leaves * _OUTPUTS))

    def slopes(self, sums: Floats, later: Floats, y: Ints) -> tuple[Floats, Floats, Floats]:
        """See :class:`AuthorsModel`."""
        left, reached = expit(sums), [np.ones_like(sums[:, :, :1])]
        levels = [slice(2**d - 1, 2 ** (d + 1) - 1) for d in range(self.depth)]
        for level in levels:
            sent = left[:, :, level] * reached[-1]
            both = np.stack([sent, reached[-1] - sent], axis=3)
            reached.append(both.reshape(*both.shape[:2], -1))
        leaves = later.reshape(len(later), -1, _OUTPUTS)
        scores = reached[-1] @ leaves
        _, slope = _softmax_slope(scores, y)
        at_leaves = (reached[-1].swapaxes(1, 2) @ slope).reshape(later.shape)
        least = np.finfo(sums.dtype).eps  # a node that sends all rows one way has no finite log
        slope, found = slope @ leaves.swapaxes(1, 2), np.empty_like(sums)
        for depth, level in reversed([*enumerate(levels)]):
            p, coming = left[:, :, level], reached[depth]
            all_coming = np.maximum(coming.sum(1, keepdims=True), least)
            share = ((p * coming).sum(1, keepdims=True) / all_coming).clip(least, 1 - least)
            pull = self.penalty * 2.0**-depth * (1 / (1 - share) - 1 / share) / all_coming
            one, other = slope[:, :, 0::2], slope[:, :, 1::2]
            found[:, :, level] = coming * (one - other + pull) * p * (1 - p)
            slope = other + p * (one - other) + pull * (p - share)
        return np.exp(np.take_along_axis(scores, y[:, :, None], 2)), found, at_leaves


def _softmax_slope(scores: Floats, y: Ints) -> tuple[Floats, Floats]:
    """The likelihood of each row, and the gradient of the mean loss in the scores."""
    chances = softmax(scores, axis=2)
    likelihoods = np.take_along_axis(chances, y[:, :, None], 2)
    return likelihoods, (chances - (y[:, :, None] == np.arange(_OUTPUTS))) / y.shape[1]
