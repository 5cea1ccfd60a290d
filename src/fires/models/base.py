"""What a base model is: any likelihood whose parameters are random variables."""

from __future__ import annotations

from typing import NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from fires.core.batch import CheckedBatch
from fires.core.belief import Belief
from fires.core.state import Arrays
from fires.core.types import Floats, Labels, Matrix, Places

Rng = np.random.Generator
Values = npt.NDArray[np.generic]
"""The target of each row: class codes, or numbers."""
Weights = Floats | None
"""How often each row counts; once without them."""


@runtime_checkable
class BaseModel(Protocol):
    r"""A likelihood :math:`p(y \mid x, \theta)`, :math:`\theta \sim \mathcal{N}(\mu, \sigma^2)`.

    These three methods are all that FIRES needs. They are pure: they read the belief and the batch
    and change neither. ``X`` is scaled, dense or CSR; missing entries are zeros. ``y`` holds class
    codes 0, 1, ..., or numbers. Results are sums over rows, not means: the selector divides by the
    total weight. So the parts of a batch add up.
    """

    def init(self, n_features: int, n_classes: int, rng: Rng) -> Belief:
        """The belief before the first batch."""
        ...

    def gradient(self, belief: Belief, X: Matrix, y: Values, weight: Weights, rng: Rng) -> Belief:
        r"""The slope of the log marginal likelihood in every number of the belief.

        It is the slope of the sum over rows of :math:`w_b \log \mathbb{E}_\theta\, p(y_b \mid x_b,
        \theta)`. A model may also have ``log_marginal``, with the same arguments, which gives that
        sum itself. Then :func:`fires.checks.check_model` compares the two.
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
        """The rates divided by the total weight, for slopes that are sums over rows."""
        return self.mu * (1.0 / total), self.sigma * (1.0 / total)


class Learner(Protocol):
    """A model that learns batch by batch: what FIRES runs.

    The model, its update rule and the storage of rows (dense or CSR) are independent choices. A
    learner hides all three.
    """

    def step(self, batch: CheckedBatch, y: Labels, rates: Rates) -> None:
        """Learn from one batch. On an error, nothing changes."""

    def with_classes(self, before: Labels, after: Labels) -> Self:
        """A copy for more classes, or an error that says why there can be none."""

    def ready_for(self, X: Matrix) -> Self:
        """The learner itself, or a copy that can learn from rows stored like these."""

    def restart_features(self, columns: Places) -> None:
        """Forget some features and their scale; everything else stays."""

    def features(self) -> Belief:
        """One mean and one standard deviation per feature."""

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays."""

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError if the arrays do not fit."""
