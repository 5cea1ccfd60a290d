"""Any base model that learns batch by batch: the shell FIRES puts round a model object."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.belief import Belief, Floats
from fires.core.errors import Diverged
from fires.models.base import BaseModel
from fires.models.online_linear import Rates
from fires.scaling.batches import BatchScaler
from fires.scaling.dense import State


class OnlineModel:
    """The belief of a user's model, its scale and its random numbers, moved one step per batch.

    The model is shown batches as :class:`fires.scaling.batches.BatchScaler` scales them.
    """

    def __init__(
        self,
        model: BaseModel,
        n_features: int,
        n_classes: int,
        *,
        scale: str | None,
        rng: np.random.Generator,
    ) -> None:
        self.model, self.rng = model, rng
        self.belief = model.init(n_features, n_classes, rng)
        self.scaler = BatchScaler(scale, n_features)

    def step(
        self, X: Any, y: npt.NDArray[Any], weight: Floats | None, rates: Rates, missing: bool
    ) -> None:
        """Learn from one batch. On an error, nothing moved."""
        before = self.rng.bit_generator.state
        w = np.ones(X.shape[0]) if weight is None else weight
        try:
            scaled, learn_scale = self.scaler.scaled(X, w, missing)
            gradient = self.model.gradient(self.belief, scaled, y, weight, self.rng)
            share = 1.0 / w.sum()
            belief = self.belief.step(gradient, rates.mu * share, rates.sigma * share)
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

    def with_classes(self, before: npt.NDArray[Any], after: npt.NDArray[Any]) -> OnlineModel:
        """A user's model keeps the classes it was started with."""
        raise ValueError(
            f"{type(self.model).__name__} cannot take up new classes as they arrive: pass "
            "classes=[...] with all of them to the first partial_fit."
        )

    def ready_for(self, X: Any) -> OnlineModel:
        """Dense and sparse batches are scaled apart, so there is nothing to prepare."""
        return self

    def features(self) -> Belief:
        """One mean and one standard deviation per feature."""
        return self.model.to_features(self.belief)

    def state(self) -> State:
        """Everything needed to go on, as arrays."""
        arrays: State = {"mu": self.belief.mu, "sigma": self.belief.sigma}
        arrays |= {f"point.{name}": value for name, value in self.belief.point.items()}
        return arrays | self.scaler.state()

    def restore(self, arrays: State) -> None:
        """Go on from :meth:`state`."""
        point = {
            name.removeprefix("point."): value
            for name, value in arrays.items()
            if name.startswith("point.")
        }
        fresh = {"mu": self.belief.mu, "sigma": self.belief.sigma} | dict(self.belief.point)
        for name, value in ({"mu": arrays["mu"], "sigma": arrays["sigma"]} | point).items():
            if name not in fresh or fresh[name].shape != value.shape:
                raise ValueError(
                    f"The saved state has {name} of shape {value.shape}; in this "
                    f"{type(self.model).__name__} its shape is "
                    f"{fresh[name].shape if name in fresh else 'unknown'}."
                )
        self.belief = Belief(arrays["mu"], arrays["sigma"], point)
        self.scaler.restore(arrays)
