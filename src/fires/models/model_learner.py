"""Any base model, learning batch by batch: what FIRES runs for a user's model object."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from fires.core.batch import CheckedBatch
from fires.core.belief import Belief
from fires.core.errors import Diverged, StateError
from fires.core.state import Arrays, part_of, under
from fires.core.types import Floats, Labels, Matrix, Places
from fires.models.base import BaseModel, HasMarginal, Learner, Rates, Rng, Values
from fires.models.scale import Scaler
from fires.models.target import surprise_of_classes

if TYPE_CHECKING:
    import torch


class ModelLearner(Learner):
    """The belief of a user's model, its scale and its random numbers; one step per batch.

    The model sees batches scaled by :class:`fires.models.scale.Scaler`. All methods are described
    in :class:`fires.models.base.Learner`.
    """

    def __init__(
        self, model: BaseModel, n_features: int, n_classes: int, *, scale: str | None, rng: Rng
    ) -> None:
        self.model, self.rng, self.size = model, rng, (n_features, n_classes)
        self.scaler = Scaler(scale, n_features)
        self._start(n_features, n_classes)

    def _start(self, n_features: int, n_classes: int) -> None:
        self.belief = self.model.init(n_features, n_classes, self.rng)

    def step(self, batch: CheckedBatch, y: Values, rates: Rates) -> None:
        """See :class:`fires.models.base.Learner`."""
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

    def _scaled(
        self, X: Matrix, w: Floats, batch: CheckedBatch
    ) -> tuple[Matrix, Callable[[], None]]:
        """The scaled rows of a batch, and a function that learns the scale from them."""
        if batch.scale is not None and batch.scale == self.scaler.scale:
            return X, lambda: None
        return self.scaler.scaled(X, w, batch.n_missing > 0)

    def surprise(self, batch: CheckedBatch, y: Values) -> tuple[float, float]:
        """How much worse a batch is predicted than expected. Nothing is learnt.

        It needs the model's ``log_marginal``, and calls it for every row and class.
        """
        n_classes, model = self.size[1], self.model
        if not n_classes or not isinstance(model, HasMarginal):
            lacks = "no method log_marginal" if n_classes else "a numeric target"
            raise ValueError(
                f"{type(self.model).__name__} has {lacks}: how likely it finds a batch, compared "
                "with others, is not known."
            )
        w = np.ones(batch.n_rows) if batch.weight is None else batch.weight
        scaled, _ = self._scaled(batch.X, w, batch)
        log_p = np.empty((n_classes, batch.n_rows))
        for k, row in np.ndindex(log_p.shape):
            one, code = scaled[row : row + 1], np.full(1, k)
            rng = copy.deepcopy(self.rng)
            log_p[k, row] = model.log_marginal(self.belief, one, code, None, rng)
        return surprise_of_classes(np.exp(log_p), y, w)

    def forget(self, keep: float) -> None:
        """Let the evidence so far count less, as after a drift.

        The whole belief goes back towards a fresh start; point parameters stay.
        """
        fresh = self.model.init(*self.size, copy.deepcopy(self.rng))
        now = self.belief
        self.belief = Belief(
            fresh.mu + keep * (now.mu - fresh.mu),
            fresh.sigma + keep * (now.sigma - fresh.sigma),
            now.point,
        )

    def restart_features(self, columns: Places) -> None:
        """Forget the scale of some features; the belief stays.

        Which of its parameters belong to a feature, only the model knows. See
        :class:`fires.models.base.Learner`.
        """
        self.scaler.restart(columns)

    def with_classes(self, before: Labels, after: Labels) -> Self:
        """An error: a user's model keeps its first classes.

        See :class:`fires.models.base.Learner`.
        """
        raise ValueError(
            f"{type(self.model).__name__} cannot take up new classes as they arrive: pass "
            "classes=[...] with all of them to the first partial_fit."
        )

    def features(self) -> Belief:
        """See :class:`fires.models.base.Learner`."""
        return self.model.to_features(self.belief)

    def state(self) -> Arrays:
        """See :class:`fires.models.base.Learner`."""
        arrays = {"mu": self.belief.mu, "sigma": self.belief.sigma}
        return arrays | under("point", dict(self.belief.point)) | self.scaler.state()

    def restore(self, arrays: Arrays) -> None:
        """See :class:`fires.models.base.Learner`."""
        point, owner = part_of("point", arrays), type(self.model).__name__
        mu, sigma = arrays["mu"], arrays["sigma"]
        check_saved(point | {"mu": mu}, {**self.belief.point, "mu": self.belief.mu}, owner)
        check_saved({"sigma": sigma}, {"sigma": self.belief.sigma}, owner, least=0.0)
        self.belief = Belief(mu, sigma, point)
        self.scaler.restore(arrays)


def check_saved(
    saved: Arrays,
    fresh: Mapping[str, npt.NDArray[np.generic] | torch.Tensor],
    owner: str,
    least: float = -np.inf,
) -> None:
    """Raise StateError unless names, shapes and bounds are those of a fresh model."""
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
