"""Any base model, learning batch by batch: what FIRES runs for a user's model object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.belief import Belief, Floats
from fires.core.classes import Labels
from fires.core.errors import Diverged, StateError
from fires.core.state import Arrays, part_of, under
from fires.models.base import BaseModel, Rates, Rng, Values
from fires.scaling import Scaler


class ModelLearner:
    """The belief of a user's model, its scale and its random numbers, moved one step per batch.

    The model is shown batches as :class:`fires.scaling.Scaler` scales them. What every method takes
    and gives back is said in :class:`fires.models.base.Learner`.

    Parameters
    ----------
    model : BaseModel
        Says what is believed at the start, its slope, and what it means for the features.
    n_features, n_classes : int
        The size of the problem; 0 classes for a numeric target.
    scale : {"standard", "minmax", None}
        What is done to X.
    rng : Generator
        For models that draw random numbers.
    """

    def __init__(
        self,
        model: BaseModel,
        n_features: int,
        n_classes: int,
        *,
        scale: str | None,
        rng: Rng,
    ) -> None:
        self.model, self.rng = model, rng
        self.scaler = Scaler(scale, n_features)
        self._start(n_features, n_classes)

    def _start(self, n_features: int, n_classes: int) -> None:
        self.belief = self.model.init(n_features, n_classes, self.rng)

    def step(self, batch: CheckedBatch, y: Values, rates: Rates) -> None:
        """Learn from one batch. On an error, nothing moved."""
        before = self.rng.bit_generator.state
        w = np.ones(batch.n_rows) if batch.weight is None else batch.weight
        try:
            scaled, learn_scale = self._scaled(batch.X, w, batch)
            gradient = self.model.gradient(self.belief, scaled, y, batch.weight, self.rng)
            belief = self.belief.step(gradient, *rates.shared(w.sum()))
            numbers = [belief.mu, belief.sigma, *belief.point.values()]
            if not all(np.isfinite(part).all() for part in numbers):
                raise Diverged(
                    f"The gradient of {type(self.model).__name__} is not finite on this batch."
                )
        except BaseException:
            self.rng.bit_generator.state = before
            raise
        self.belief = belief
        learn_scale()

    def _scaled(self, X: Any, w: Floats, batch: CheckedBatch) -> tuple[Any, Callable[[], None]]:
        """Rows of a batch at the learner's scale, and how to learn the scale from them."""
        if batch.scale is not None and batch.scale == self.scaler.scale:
            return X, lambda: None
        return self.scaler.scaled(X, w, batch.n_missing > 0)

    def with_classes(self, before: Labels, after: Labels) -> Self:
        """A user's model keeps the classes it was started with."""
        raise ValueError(
            f"{type(self.model).__name__} cannot take up new classes as they arrive: pass "
            "classes=[...] with all of them to the first partial_fit."
        )

    def ready_for(self, X: Any) -> Self:
        """Dense and sparse batches are scaled apart, so there is nothing to prepare."""
        return self

    def features(self) -> Belief:
        """One mean and one standard deviation per feature."""
        return self.model.to_features(self.belief)

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays."""
        arrays = {"mu": self.belief.mu, "sigma": self.belief.sigma}
        return arrays | under("point", dict(self.belief.point)) | self.scaler.state()

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; the shapes must be those of this model."""
        point, owner = part_of("point", arrays), type(self.model).__name__
        mu, sigma = arrays["mu"], arrays["sigma"]
        check_saved(point | {"mu": mu}, {**self.belief.point, "mu": self.belief.mu}, owner)
        check_saved({"sigma": sigma}, {"sigma": self.belief.sigma}, owner, least=0.0)
        self.belief = Belief(mu, sigma, point)
        self.scaler.restore(arrays)


def check_saved(
    saved: Arrays, fresh: Mapping[str, Any], owner: str, least: float = -np.inf
) -> None:
    """Raise unless what was saved has the names and shapes of a fresh model, in finite numbers.

    Parameters
    ----------
    saved, fresh : mapping of str to array
        What was read, and what the model starts with.
    owner : str
        What errors call the model.
    least : float
        The least number allowed.
    """
    for name in sorted(fresh.keys() | saved.keys()):
        shapes = [tuple(x[name].shape) if name in x else None for x in (saved, fresh)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"The saved state has {name} of shape {shapes[0]}; in this {owner} its shape is "
                f"{shapes[1]}."
            )
        numbers = saved[name]
        if numbers.dtype != np.float64 or not np.isfinite(numbers).all() or (numbers < least).any():
            raise StateError(f"{name} holds something else than finite numbers from {least}")
