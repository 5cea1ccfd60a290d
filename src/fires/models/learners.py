"""Which model, for which target; its learner; and a model in a state file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.classes import are_numbers, has_fractions
from fires.core.settings import plain, same_kind
from fires.core.types import GivenClasses, Labels
from fires.models.base import BaseModel, Learner
from fires.models.bayes_learner import BayesLearner
from fires.models.linear import Linear
from fires.models.linear_learner import LinearLearner
from fires.models.model_learner import ModelLearner, MonteCarloLearner
from fires.models.monte_carlo import MonteCarlo
from fires.models.neural import NeuralNet
from fires.models.relations import RelationsLearner
from fires.models.soft_tree import SoftTree
from fires.models.variational import VariationalLearner

# Models that a file describes completely: they need not be passed to load again.
BUILT_IN = (Linear, NeuralNet, SoftTree)


def decided(model: str | BaseModel, y: Labels, classes: GivenClasses | None) -> str | BaseModel:
    """The model, where "auto" stands for one that fits the first target."""
    if model != "auto":
        return model
    choices = "numbers ({model=gaussian}), counts ({model=poisson}) or classes ({model=probit})"
    return "gaussian" if are_numbers(y, classes, choices=choices) else "probit"


def kind_of_target(model: BaseModel, y: Labels, classes: GivenClasses | None) -> str:
    """What a target is, by the model or by the first batch: classes, numbers or counts."""
    task = task_of(model)
    if task != "auto":
        return task
    numeric = has_fractions(y)
    if isinstance(model, MonteCarlo):
        choices = f"numbers ({name_of(model)}(task='numbers')) or classes (task='classes')"
        numeric = are_numbers(y, classes, choices=choices)
    return "numbers" if numeric else "classes"


def task_of(model: BaseModel) -> str:
    """What a model says of its target; one of the user's own may say nothing."""
    return getattr(model, "task", "auto")


def name_of(model: str | BaseModel) -> str:
    """What errors call a model."""
    return model if isinstance(model, str) else type(model).__name__


def model_to_json(model: BaseModel) -> Any:
    """A model as a state file holds it; of one that is not built in, only what it is called."""
    if type(model) in BUILT_IN:
        return {"model": type(model).__name__, "settings": plain(dict(vars(model)))}
    return {"object": _saved_name(model)}


def model_from_json(saved: dict[str, Any], passed: Any) -> Any:
    """A model from :func:`model_to_json`; ``passed`` is what the user passed to ``fires.load``."""
    wanted = saved.get("model", saved.get("object"))
    if wanted is None:
        return saved
    if "model" in saved and passed is None:  # else, perhaps it is for another device
        kinds = {kind.__name__: kind for kind in BUILT_IN}
        return kinds[wanted](**saved["settings"])
    return same_kind(passed, _saved_name(passed), wanted, "a model of your own")


def _saved_name(model: Any) -> str:
    return getattr(model, "name", type(model).__qualname__)


def start_learner(
    model: BaseModel,
    n_features: int,
    n_classes: int,
    *,
    scale: str | None,
    starts: tuple[npt.ArrayLike, npt.ArrayLike] = (0.0, 1.0),
    rng: Callable[[], np.random.Generator],
    memory: float | None = None,
    variational: bool = False,
    watches: bool = False,
    relations: str = "linear",
) -> Learner:
    """A learner that has learnt nothing yet."""
    if isinstance(model, Linear):
        size, own = (model.family, n_features, n_classes), model.fit_intercept
        if memory is None:
            mu, sigma = starts
            linear = VariationalLearner if variational else LinearLearner
            return linear(*size, fit_intercept=own, scale=scale, mu_init=mu, sigma_init=sigma)
        learner = BayesLearner(
            *size, fit_intercept=own, scale=scale, memory=memory, watches=watches
        )
        return learner if relations == "linear" else RelationsLearner(learner, relations)
    n_classes = max(n_classes, 2) if n_classes else 0
    kind = MonteCarloLearner if isinstance(model, MonteCarlo) else ModelLearner
    return kind(model, n_features, n_classes, scale=scale, rng=rng())
