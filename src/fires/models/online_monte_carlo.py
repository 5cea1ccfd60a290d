"""A Monte Carlo model that learns in place, on its device: what FIRES runs for nets and trees."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fires.core.belief import Belief, Floats
from fires.models.batch_scaling import BatchScaler
from fires.models.monte_carlo import INPUTS, MonteCarlo, Parameters, draw, slopes
from fires.models.online import OnlineModel
from fires.models.online_linear import Rates
from fires.models.scaling import State
from fires.models.target import Target

# Parameters that are not random are few and each weighs much: they cannot bear every rate, nor
# steps of more than 1.
_POINT_RATE = 300.0
_HALVES = ("mu", "sigma", "point", "fixed")


class OnlineMonteCarlo(OnlineModel):
    """The parameters of a model, its scale and its draws, moved one step per batch.

    The same step as :class:`fires.models.online.OnlineModel` takes through the model's
    ``gradient``, on tensors that stay where they are. A batch that is sparse moves only the
    parameters of the features it shows.
    """

    def __init__(
        self,
        model: MonteCarlo,
        n_features: int,
        n_classes: int,
        *,
        scale: str | None,
        rng: np.random.Generator,
    ) -> None:
        self.model: Any = model
        self.rng = rng
        self.generator = model.generator(rng)
        self.parameters = model.start(n_features, n_classes, self.generator)
        self.scaler = BatchScaler(scale, n_features)
        self.target = Target("gaussian", 1, scaled=scale is not None, levelled=False)
        self._numeric = n_classes == 0
        self._scratch: dict[str, Any] = {}
        self._bars: list[Any] | None = None  # mu and sigma of the features, and
        self._stale: list[Any] = []  # which of them have moved since

    def step(
        self, X: Any, y: npt.NDArray[Any], weight: Floats | None, rates: Rates, missing: bool
    ) -> None:
        """Learn from one batch. On an error, nothing moved."""
        before = self.generator.get_state()
        w = np.ones(X.shape[0]) if weight is None else weight
        target = self.target.look(y, w)[0][0] if self._numeric else y
        try:
            scaled, learn_scale = self.scaler.scaled(X, w, missing)
            rows = self.model.rows(scaled)
            noise = draw(self.model, self.parameters, rows, self.generator, self._scratch)
            codes, counts = self.model.target(target, weight)
            found = slopes(self.model, self.parameters, rows, codes, counts, noise)
            if not found.finite():
                raise ValueError(
                    f"The gradient of {self.model.name} is not finite on this batch; a smaller "
                    "learning_rate may help."
                )
        except BaseException:
            self.generator.set_state(before)
            raise
        self._move(found, rates, 1.0 / float(w.sum()))
        self._stale.append(rows.columns)
        learn_scale()
        if self._numeric:
            self.target.count(y, w)

    def _move(self, found: Any, rates: Rates, share: float) -> None:
        mu, sigma, point = self.parameters.mu, self.parameters.sigma, self.parameters.point
        rate_mu, rate_sigma = (rate * share * self.model.rate for rate in (rates.mu, rates.sigma))
        rate_point = rates.mu * share * min(self.model.rate, _POINT_RATE)
        for part, g_mu, g_sigma in found.inputs():
            mu[INPUTS][part] += rate_mu * g_mu
            sigma[INPUTS][part] = (sigma[INPUTS][part] + rate_sigma * g_sigma).clamp_(min=0.0)
        for name, g_mu in found.mu.items():
            mu[name].add_(g_mu, alpha=rate_mu)
            sigma[name].add_(found.sigma[name], alpha=rate_sigma).clamp_(min=0.0)
        for name, slope in found.point.items():
            point[name].add_((slope * rate_point).clamp_(-1.0, 1.0))

    def with_classes(self, before: npt.NDArray[Any], after: npt.NDArray[Any]) -> OnlineMonteCarlo:
        """A copy whose outputs are those of the classes there are now."""
        # One class alone has been called 1, and 0 is what is not it.
        first = 1 if len(before) == 1 else 0
        old = {label: code for code, label in enumerate(before.tolist(), start=first)}
        sources = [old.get(label) for label in after.tolist()]
        if first and len(after) == 2:
            sources = [0 if source is None else source for source in sources]
        other = object.__new__(OnlineMonteCarlo)
        vars(other).update(vars(self))
        other.generator = self.generator.clone_state()
        other.parameters = self.model.with_outputs(self.parameters, sources, other.generator)
        other._bars, other._stale, other._scratch = None, [], {}
        return other

    def features(self) -> Belief:
        """One mean and one standard deviation per feature; only what has moved is looked at."""
        torch = self.model.torch()
        if self._bars is None:
            self._bars = list(self.model.aggregated(self.parameters, slice(None)))
        elif self._stale:
            whole = any(isinstance(part, slice) for part in self._stale)
            moved = slice(None) if whole else torch.unique(torch.cat(self._stale))
            new = self.model.aggregated(self.parameters, moved)
            for bar, values in zip(self._bars, new, strict=True):
                bar[moved] = values
        self._stale = []
        offset = self.model.offset(self.parameters)
        mu, sigma = (
            (bar + shift).cpu().numpy() for bar, shift in zip(self._bars, offset, strict=True)
        )
        return Belief(mu, sigma)

    def state(self) -> State:
        """Everything needed to go on, as arrays."""
        kept = self.parameters
        arrays: State = {"generator": self.generator.get_state().numpy()}
        for half in _HALVES:
            for name, value in getattr(kept, half).items():
                arrays[f"{half}.{name}"] = value.cpu().numpy()
        arrays |= {f"target.{key}": value for key, value in self.target.state().items()}
        return arrays | self.scaler.state()

    def restore(self, arrays: State) -> None:
        """Go on from :meth:`state`."""
        torch = self.model.torch()
        halves = []
        for half in _HALVES:
            fresh = getattr(self.parameters, half)
            saved = {
                name.removeprefix(f"{half}."): value
                for name, value in arrays.items()
                if name.startswith(f"{half}.")
            }
            for name in fresh.keys() | saved.keys():
                shapes = [tuple(x[name].shape) if name in x else None for x in (saved, fresh)]
                if shapes[0] != shapes[1]:
                    raise ValueError(
                        f"The saved state has {name} of shape {shapes[0]}; in this "
                        f"{self.model.name} its shape is {shapes[1]}."
                    )
            halves.append(
                {name: torch.tensor(saved[name], device=self.model.device) for name in fresh}
            )
        self.parameters = Parameters(*halves)
        self.generator.set_state(torch.tensor(arrays["generator"]))
        self.scaler.restore(arrays)
        self.target.restore(
            {k.removeprefix("target."): v for k, v in arrays.items() if k.startswith("target.")}
        )
        self._bars, self._stale = None, []
