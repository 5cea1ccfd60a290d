"""What a base model is: any likelihood whose parameters are random variables."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from fires.core.batch import CheckedBatch
from fires.core.belief import Belief, Floats
from fires.core.classes import Labels
from fires.core.state import Arrays

Rng = np.random.Generator
Values = npt.NDArray[Any]
"""The target of each row: class codes, or numbers."""
Weights = Floats | None
"""How often each row counts; once without them."""


@runtime_checkable
class BaseModel(Protocol):
    r"""A likelihood :math:`p(y \mid x, \theta)`, :math:`\theta \sim \mathcal{N}(\mu, \sigma^2)`.

    Everything FIRES needs to know of a model. All three methods are pure: they read the belief and
    the batch and change neither. ``X`` comes scaled, dense or CSR; missing entries are zeros.
    ``y`` holds class codes 0..n_classes-1, or numbers. Sums over rows are returned, not means: the
    selector divides by the total weight, so the parts of a sharded batch simply add up.
    """

    def init(self, n_features: int, n_classes: int, rng: Rng) -> Belief:
        """What is believed before the first batch; ``n_classes`` is 0 for a numeric target."""
        ...

    def gradient(self, belief: Belief, X: Any, y: Values, weight: Weights, rng: Rng) -> Belief:
        r"""The slope of the log marginal likelihood in every number of the belief.

        That is the sum over rows of :math:`w_b \log \mathbb{E}_\theta\, p(y_b \mid x_b, \theta)`. A
        model may offer the sum itself as ``log_marginal``, with the same arguments: then
        :func:`fires.checks.check_model` holds the one against the other.
        """
        ...

    def to_features(self, belief: Belief) -> Belief:
        """One mean and one standard deviation per feature."""
        ...


class Rates(NamedTuple):
    """Learning rates of the means and of the standard deviations."""

    mu: float
    sigma: float

    def shared(self, total: float) -> tuple[float, float]:
        """The rates for sums over rows of this total weight: the step is of their mean."""
        return self.mu * (1.0 / total), self.sigma * (1.0 / total)


class Learner(Protocol):
    """A model that learns batch by batch: what FIRES runs.

    Which model, by which rule it learns and how its rows are stored are choices of their own; a
    learner hides all three.
    """

    def step(self, batch: CheckedBatch, y: npt.NDArray[Any], rates: Rates) -> None:
        """Learn from one batch; ``y`` holds class codes or numbers. On an error, nothing moved."""

    def with_classes(self, before: Labels, after: Labels) -> Self:
        """A copy for more classes, or an error that says why there is none."""

    def ready_for(self, X: Any) -> Self:
        """The learner itself, or a copy that can learn from rows stored like these."""

    def features(self) -> Belief:
        """One mean and one standard deviation per feature."""

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays."""

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError unless the arrays fit together."""
