"""A soft decision tree whose inner weights are random: FIRES-SDT."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from fires.core.belief import Belief
from fires.core.settings import check_choice, check_number, is_count
from fires.models.monte_carlo import (
    INPUTS,
    LOG_NOISE,
    MonteCarlo,
    Parameters,
    head,
    log_normal,
)

if TYPE_CHECKING:
    from torch import Generator, Tensor

_INPUTS = 1.0  # what mu is drawn with at the start of the scaled form


@dataclass(frozen=True)
class SoftTree(MonteCarlo):
    r"""The paper's soft decision tree (FIRES-SDT), after Frosst and Hinton (2017).

    Inner node n sends a row to its first child with probability
    :math:`p_n = 1/(1 + \exp(-\theta_n^\top x))` and to its second with :math:`1 - p_n`; a leaf is
    reached with the product :math:`P^{\text{leaf}}` along its path. The inner weights are random,
    and what is known of a feature is gathered over the nodes; the leaves are learnt along as
    plain parameters.

    For every inner node i at depth :math:`d_i`, with the share :math:`\alpha_i` of the rows that
    reach it which it sends to its first child, the objective is reduced by

    .. math::
        C = -\lambda \sum_i 2^{-d_i}
            \left(\tfrac12 \log \alpha_i + \tfrac12 \log (1 - \alpha_i)\right)

    per row, so that no node sends all rows one way.

    Parameters
    ----------
    depth : int, default=3
        Inner nodes on each path.
    n_draws : int, default=5
        :math:`L`, how many trees are drawn for each batch.
    leaves : {"logit", "mixture"}, default="logit"
        Whether scores are mixed, :math:`\operatorname{softmax}(\sum P^{\text{leaf}} \phi)`, as in
        the paper's experiments, or distributions,
        :math:`\sum P^{\text{leaf}} \operatorname{softmax}(\phi)`.
    penalty : float, default=0.01
        :math:`\lambda`.
    form : {"scaled", "paper"}, default="scaled"
        ``"paper"``: mu = 0 and sigma = 1 at the start. ``"scaled"``: :math:`\theta_n^\top x` is
        divided by :math:`\sqrt{J}` and mu starts at random.
    rate : float, default=3000.0
        What the selector's learning rates are multiplied by, as in
        :class:`fires.models.NeuralNet`; 1 in the paper.
    aggregate : {"rms", "abs", "paper"}, default="rms"
        What the weights of a feature come to over the nodes: their root mean square, their mean
        size, or their plain mean, in which opposite signs cancel. Measured on three streams of
        known truth (docs/models.md): the first two find all or nearly all of the relevant features,
        the last one three quarters.
    task, device, dtype
        As in :class:`fires.models.NeuralNet`.

    Examples
    --------
    >>> import numpy as np
    >>> from fires import FIRES
    >>> rng = np.random.default_rng(0)
    >>> selector = FIRES(2, model=SoftTree(), random_state=0)
    >>> for _ in range(60):
    ...     X = rng.normal(size=(100, 8))
    ...     y = X[:, 3] - X[:, 5] > 0
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 5])
    """

    depth: int = 3
    n_draws: int = 5
    leaves: str = "logit"
    penalty: float = 0.01
    form: str = "scaled"
    rate: float = 3000.0
    aggregate: str = "rms"
    task: str = "auto"
    device: str = "cpu"
    dtype: str = "float32"

    def __post_init__(self) -> None:
        if not is_count(self.depth) or self.depth > 16:
            raise ValueError(f"depth must be an integer from 1 to 16; got {self.depth!r}.")
        object.__setattr__(self, "depth", int(self.depth))
        check_choice("leaves", self.leaves, ("logit", "mixture"))
        check_number("penalty", self.penalty, ends="[)")
        self.check()

    @classmethod
    def as_published(cls, **changes: Any) -> Self:
        """The paper's tree: mu = 0, sigma = 1, the selector's own rates, its aggregation.

        Examples
        --------
        >>> SoftTree.as_published().aggregate
        'paper'
        """
        paper: dict[str, Any] = {"form": "paper", "rate": 1.0, "aggregate": "paper"}
        return cls(**(paper | changes))

    @property
    def n_nodes(self) -> int:
        """Inner nodes, breadth first: the children of n are 2n + 1 and 2n + 2."""
        return (1 << self.depth) - 1

    def start(self, n_features: int, n_classes: int, generator: Generator) -> Parameters:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        torch = self.torch()
        place = {"dtype": torch.float64, "device": self.device}
        mu, sigma = self.fresh((n_features, self.n_nodes), _INPUTS, generator)
        point = {"leaves": self._fresh_leaves(max(n_classes, 1), generator)}
        fixed = {"n_features": torch.tensor([n_features], **place)}
        if not n_classes:
            point[LOG_NOISE] = torch.zeros(1, **place)
        return Parameters({INPUTS: mu}, {INPUTS: sigma}, point, fixed)

    def _fresh_leaves(self, n_outputs: int, generator: Generator) -> Tensor:
        # Not zero: leaves that are all alike give the inner nodes nothing to learn.
        torch = self.torch()
        n_leaves = self.n_nodes + 1
        place = {"dtype": torch.float64, "device": self.device}
        drawn: Tensor = torch.rand(n_leaves, n_outputs, generator=generator, **place)
        return (2.0 * drawn - 1.0) / math.sqrt(n_leaves)

    def shapes(self, belief: Belief) -> dict[str, tuple[int, ...]]:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        return {INPUTS: (self.n_nodes, belief.mu.size // self.n_nodes)}

    def log_likelihood(
        self,
        features: Tensor,
        theta: Mapping[str, Tensor],
        point: Mapping[str, Tensor],
        y: Tensor,
        weight: Tensor,
    ) -> tuple[Tensor, Tensor | None]:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        import torch

        if self.form == "scaled":
            features = features * float(point["n_features"]) ** -0.5
        first, second = (torch.nn.functional.logsigmoid(z) for z in (features, -features))
        reached = torch.zeros_like(features[:, :, :1])  # logarithms of path probabilities
        penalty = features.new_zeros(())
        for depth in range(self.depth):
            nodes = slice(2**depth - 1, 2 ** (depth + 1) - 1)
            children = torch.stack([first[:, :, nodes], second[:, :, nodes]], dim=3)
            after = (reached.unsqueeze(3) + children).flatten(2)
            if self.penalty:
                penalty = penalty + _imbalance(reached, after, weight) * 2.0**-depth
            reached = after
        phi = point["leaves"]
        if self.leaves == "logit":
            F = head(reached.exp() @ phi, point, y)
        elif LOG_NOISE in point:
            F = torch.logsumexp(
                reached + log_normal(y[:, None], phi[:, 0], point[LOG_NOISE]), dim=2
            )
        else:
            F = torch.logsumexp(reached + torch.log_softmax(phi, 1).T[y], dim=2)
        return F, float(self.penalty) * penalty / self.n_draws

    def with_outputs(
        self, parameters: Parameters, sources: list[int | None], generator: Generator
    ) -> Parameters:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        leaves = self._fresh_leaves(len(sources), generator)
        for column, source in enumerate(sources):
            if source is not None:
                leaves[:, column] = parameters.point["leaves"][:, source]
        point = parameters.point | {"leaves": leaves}
        return Parameters(parameters.mu, parameters.sigma, point, parameters.fixed)


def _imbalance(reached: Tensor, after: Tensor, weight: Tensor) -> Tensor:
    """What the nodes of one depth add to the penalty, before its factors; summed over draws."""
    least = 1e-6
    weight = weight / weight.mean()  # so that tiny weights are not taken for no rows
    coming = weight @ reached.exp()
    sent = weight @ after[:, :, 0::2].exp()
    share = (sent / coming.clamp(min=least)).clamp(least, 1.0 - least)
    return -0.5 * (share.log() + (1.0 - share).log()).sum()
