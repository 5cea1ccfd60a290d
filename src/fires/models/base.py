"""What a base model is: any likelihood whose parameters are random variables."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fires.core.belief import Belief, Floats


@runtime_checkable
class BaseModel(Protocol):
    r"""A likelihood :math:`p(y \mid x, \theta)`, :math:`\theta \sim \mathcal{N}(\mu, \sigma^2)`.

    Everything FIRES needs to know of a model. All four methods are pure: they read the belief and
    the batch and change neither. ``X`` comes scaled, dense or CSR; missing entries are zeros.
    ``y`` holds class codes 0..n_classes-1, or numbers. Sums over rows are returned, not means: the
    selector divides by the total weight, so the parts of a sharded batch simply add up.
    """

    def init(self, n_features: int, n_classes: int, rng: np.random.Generator) -> Belief:
        """What is believed before the first batch; ``n_classes`` is 0 for a numeric target."""
        ...

    def log_marginal(
        self,
        belief: Belief,
        X: Any,
        y: npt.NDArray[Any],
        weight: Floats | None,
        rng: np.random.Generator,
    ) -> float:
        r"""The sum over rows of :math:`w_b \log \mathbb{E}_\theta\, p(y_b \mid x_b, \theta)`."""
        ...

    def gradient(
        self,
        belief: Belief,
        X: Any,
        y: npt.NDArray[Any],
        weight: Floats | None,
        rng: np.random.Generator,
    ) -> Belief:
        """The slope of :meth:`log_marginal` in every number of the belief."""
        ...

    def to_features(self, belief: Belief) -> Belief:
        """One mean and one standard deviation per feature."""
        ...
