"""A soft decision tree whose inner weights are random: FIRES-SDT."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING

from fires.core.belief import Belief
from fires.core.settings import choice, is_count, number
from fires.models import monte_carlo as mc

if TYPE_CHECKING:
    from torch import Generator, Tensor

_INPUTS = 1.0  # the standard deviation of mu at the start of the scaled form


@dataclass(frozen=True, repr=False)
class SoftTree(mc.PaperModel):
    r"""The paper's soft decision tree (FIRES-SDT), after Frosst and Hinton (2017).

    Inner node n sends a row to its first child with probability
    :math:`p_n = 1/(1 + \exp(-\theta_n^\top x))` and to its second with :math:`1 - p_n`; a leaf is
    reached with the product :math:`P^{\text{leaf}}` along its path. The inner weights are random;
    the importance of a feature comes from its weights in all nodes. The leaves are point
    parameters.

    Inner node i at depth :math:`d_i` sends a share :math:`\alpha_i` of the rows that reach it to
    its first child. The objective is reduced by

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
        Multiplies the selector's learning rates, as in :class:`fires.models.NeuralNet`. The paper
        has 1.
    aggregate : {"rms", "abs", "paper"}, default="rms"
        How the weights of a feature are combined over the nodes: their root mean square, their mean
        absolute value, or their plain mean, in which opposite signs cancel. On three streams of
        known truth (docs/models.md), the first two find every relevant feature, the last one nearly
        all.
    balance, task, device, dtype, decay
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
    _: KW_ONLY
    leaves: str = choice("logit", "mixture")
    penalty: float = number(0.01, ends="[)")
    rate: float = 3000.0

    def __post_init__(self) -> None:
        if not is_count(self.depth) or self.depth > 16:
            raise ValueError(f"depth must be an integer from 1 to 16; got {self.depth!r}.")
        object.__setattr__(self, "depth", int(self.depth))
        self.check()

    @property
    def n_nodes(self) -> int:
        """Inner nodes, breadth first: the children of n are 2n + 1 and 2n + 2."""
        return (1 << self.depth) - 1

    def start(self, n_features: int, n_classes: int, generator: Generator) -> mc.ModelParameters:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        mu, sigma = self.fresh_weights((n_features, self.n_nodes), _INPUTS, generator)
        leaves = self._fresh_leaves(max(n_classes, 1), generator)
        point = {"leaves": leaves} | self.start_of_noise(n_classes)
        fixed = {"n_features": self.torch().tensor([n_features], **self.place)}
        return mc.ModelParameters({mc.INPUTS: mu}, {mc.INPUTS: sigma}, point, fixed)

    def _fresh_leaves(self, n_outputs: int, generator: Generator) -> Tensor:
        # Not zero: if all leaves are equal, the inner nodes cannot learn.
        n_leaves = self.n_nodes + 1
        shape = (n_leaves, n_outputs)
        drawn: Tensor = self.torch().rand(shape, generator=generator, **self.place)
        return (2.0 * drawn - 1.0) / math.sqrt(n_leaves)

    def shapes(self, belief: Belief) -> dict[str, tuple[int, ...]]:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        return {mc.INPUTS: (self.n_nodes, belief.mu.size // self.n_nodes)}

    def log_likelihood(self, batch: mc.DeviceBatch) -> tuple[Tensor, Tensor | None]:
        """The likelihood of the leaves, and a penalty for nodes that send all rows one way.

        See :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        torch, sums = self.torch(), batch.features
        if self.form == "scaled":
            sums = sums * float(batch.point["n_features"]) ** -0.5
        first, second = (torch.nn.functional.logsigmoid(z) for z in (sums, -sums))
        reached = torch.zeros_like(sums[:, :, :1])  # logarithms of path probabilities
        penalty = sums.new_zeros(())
        for depth in range(self.depth):
            nodes = slice(2**depth - 1, 2 ** (depth + 1) - 1)
            children = torch.stack([first[:, :, nodes], second[:, :, nodes]], dim=3)
            after = (reached.unsqueeze(3) + children).flatten(2)
            if self.penalty:
                penalty = penalty + _imbalance(reached, after, batch.weight) * 2.0**-depth
            reached = after
        return self._at_leaves(reached, batch), float(self.penalty) * penalty / self.n_draws

    def _at_leaves(self, reached: Tensor, batch: mc.DeviceBatch) -> Tensor:
        """The log likelihood of each draw and row, from the log probabilities of the leaves."""
        torch, point, y = self.torch(), batch.point, batch.y
        leaves = point["leaves"]
        if self.leaves == "logit":
            return mc.log_likelihood_of(reached.exp() @ leaves, point, y, batch.level)
        if mc.LOG_NOISE in point:
            by_leaf = mc.log_normal(y[:, None], leaves[:, 0], point[mc.LOG_NOISE])
        else:
            by_leaf = torch.log_softmax(mc.levelled(leaves, batch.level), 1).T[y]
        mixture: Tensor = torch.logsumexp(reached + by_leaf, dim=2)
        return mixture

    def with_outputs(
        self, parameters: mc.ModelParameters, sources: list[int | None], generator: Generator
    ) -> mc.ModelParameters:
        """The leaves get one column per class. See :class:`fires.models.monte_carlo.MonteCarlo`."""
        leaves = self._fresh_leaves(len(sources), generator)
        mc.copy_outputs(leaves.T, parameters.point["leaves"].T, sources)
        point = parameters.point | {"leaves": leaves}
        return mc.ModelParameters(parameters.mu, parameters.sigma, point, parameters.fixed)


def _imbalance(reached: Tensor, after: Tensor, weight: Tensor) -> Tensor:
    """The penalty of the nodes of one depth, without its factors; summed over draws."""
    least = 1e-6
    weight = weight / weight.mean()  # so that tiny weights do not look like no rows
    coming = weight @ reached.exp()
    sent = weight @ after[:, :, 0::2].exp()
    share = (sent / coming.clamp(min=least)).clamp(least, 1.0 - least)
    return -0.5 * (share.log() + (1.0 - share).log()).sum()
