"""Choose the learner for a model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from fires.models.base import BaseModel, Learner
from fires.models.bayes_learner import BayesLearner
from fires.models.linear import Linear
from fires.models.linear_learner import LinearLearner
from fires.models.model_learner import ModelLearner
from fires.models.monte_carlo import MonteCarlo
from fires.models.monte_carlo_learner import MonteCarloLearner


def start_learner(
    model: BaseModel,
    n_features: int,
    n_classes: int,
    *,
    scale: str | None,
    starts: tuple[npt.ArrayLike, npt.ArrayLike] = (0.0, 1.0),
    rng: Callable[[], np.random.Generator],
    memory: float | None = None,
    watches: bool = False,
) -> Learner:
    """A learner that has learnt nothing yet."""
    if isinstance(model, Linear) and memory is not None:
        return BayesLearner(
            model.family,
            n_features,
            n_classes,
            fit_intercept=model.fit_intercept,
            scale=scale,
            memory=memory,
            watches=watches,
        )
    if isinstance(model, Linear):
        mu, sigma = starts
        return LinearLearner(
            model.family,
            n_features,
            n_classes,
            fit_intercept=model.fit_intercept,
            scale=scale,
            mu_init=mu,
            sigma_init=sigma,
        )
    n_classes = max(n_classes, 2) if n_classes else 0
    if isinstance(model, MonteCarlo):
        return MonteCarloLearner(model, n_features, n_classes, scale=scale, rng=rng())
    return ModelLearner(model, n_features, n_classes, scale=scale, rng=rng())
