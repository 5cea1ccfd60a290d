"""Any base model that learns batch by batch: the shell FIRES puts round a model object."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.belief import Belief, Floats
from fires.kernels import accumulate
from fires.models.base import BaseModel
from fires.models.online_linear import Rates
from fires.models.scaling import DENSE, State, restore_scaler
from fires.models.sparse_scaling import SPARSE, Touched


class OnlineModel:
    """The belief of a user's model, its scale and its random numbers, moved one step per batch.

    The model is shown scaled batches. Dense ones are standardised; sparse ones are divided by the
    root mean square of their columns and not centred, since that would fill them.
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
        self.model, self.n_features, self.scale, self.rng = model, n_features, scale, rng
        self.belief = model.init(n_features, n_classes, rng)
        self.dense: Any = DENSE[scale](n_features)
        self.sparse: Any = SPARSE[scale](n_features)

    def step(
        self, X: Any, y: npt.NDArray[Any], weight: Floats | None, rates: Rates, missing: bool
    ) -> None:
        """Learn from one batch. On an error, nothing moved."""
        before = self.rng.bit_generator.state
        w = np.ones(X.shape[0]) if weight is None else weight
        try:
            scaled, commit = (self._sparse if sp.issparse(X) else self._dense)(X, w, missing)
            gradient = self.model.gradient(self.belief, scaled, y, weight, self.rng)
            share = 1.0 / w.sum()
            belief = self.belief.step(gradient, rates.mu * share, rates.sigma * share)
            numbers = [belief.mu, belief.sigma, *belief.point.values()]
            if not all(np.isfinite(part).all() for part in numbers):
                raise ValueError(
                    f"The gradient of {type(self.model).__name__} is not finite on this batch."
                )
        except BaseException:
            self.rng.bit_generator.state = before
            raise
        self.belief = belief
        commit()

    def _dense(self, X: Any, w: Floats, missing: bool) -> tuple[Any, Any]:
        scaler = self.dense
        if scaler.kind is None:
            return (np.nan_to_num(X) if missing else X), lambda: None
        if scaler.ready:
            sums = accumulate(X, w, w, scaler.shift)
            scaled = (X - scaler.shift) * scaler.gain
            return np.nan_to_num(scaled, copy=False), lambda: scaler.absorb(X, *sums, w, missing)
        scaler = DENSE[self.scale](self.n_features)
        scaler.begin(X, w, missing)
        scaled = (X - scaler.shift) * scaler.gain
        return np.nan_to_num(scaled, copy=False), lambda: setattr(self, "dense", scaler)

    def _sparse(self, X: Any, w: Floats, missing: bool) -> tuple[Any, Any]:
        slot = np.zeros(self.n_features, dtype=np.int32)
        batch, scaler = Touched(X, w, float(w.sum()), missing, slot), self.sparse
        if scaler.ready:
            p, q = batch.accumulate(w[None, :], w[None, :])
            scaled = batch.scaled(scaler.gain(batch.columns))
            return scaled, lambda: scaler.absorb(batch, p[0], q[0])
        scaler = SPARSE[self.scale](self.n_features)
        scaler.begin(batch)
        return batch.scaled(scaler.gain(batch.columns)), lambda: setattr(self, "sparse", scaler)

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
        for name, part in (("dense", self.dense), ("sparse", self.sparse)):
            arrays |= {f"{name}.{key}": value for key, value in part.state().items()}
        return arrays

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
        self.restore_scales(arrays)

    def restore_scales(self, arrays: State) -> None:
        """Go on from the scales in a state."""
        restore_scaler(self.dense, "dense", arrays)
        restore_scaler(self.sparse, "sparse", arrays)
