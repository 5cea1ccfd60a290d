"""A Monte Carlo model that learns in place, on its device: what FIRES runs for nets and trees."""

from __future__ import annotations

import hashlib
import math
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fires.core.batch import CheckedBatch
from fires.core.belief import Belief
from fires.core.classes import Labels
from fires.core.errors import Diverged, StateError
from fires.core.state import Arrays, part_of, under
from fires.models.base import Rates
from fires.models.model_learner import ModelLearner, check_shapes
from fires.models.monte_carlo import INPUTS, MonteCarlo, Parameters, Slopes, draw, slopes
from fires.models.target import Target
from fires.scaling import Scaler

# Parameters that are not random are few and each weighs much: they cannot bear every rate, nor
# steps of more than 1.
_POINT_RATE = 300.0
_HALVES = ("mu", "sigma", "point", "fixed")
_SIZES = {"sizes", "n_features", "n features"}  # what models call the sizes they are made for
_REMEMBERED = 100  # batches of which it is known what they moved


class MonteCarloLearner(ModelLearner):
    r"""The parameters of a model, its scale and its draws, moved one step per batch.

    The same step as :class:`fires.models.model_learner.ModelLearner` takes through the model's
    ``gradient``, on tensors that stay where they are. A batch that is sparse moves only the
    parameters of the features it shows.

    **Step cap**, in the scaled form: a step of rate :math:`\alpha` promises the log likelihood
    :math:`\alpha \lVert g \rVert^2` more, and no step promises more than the batch lacks:
    :math:`\alpha \le (\text{best} - \text{value}) / \lVert g \rVert^2`. That is Polyak's step as
    an upper bound (Loizou et al., 2021). Ordinary batches of a hundred rows stay far below it and
    move as they would without it; a batch of one row, or an outlier, cannot throw a net away.
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
        with model.ordinarily():
            self.parameters = model.start(n_features, n_classes, self.generator)
        self.scaler = Scaler(scale, n_features)
        self.target = Target("gaussian", 1, scaled=scale is not None, levelled=False)
        self._numeric = n_classes == 0
        self._scratch: dict[str, Any] = {}
        self._bars: list[Any] | None = None  # mu and sigma of the features, and
        self._stale: list[Any] = []  # which of them have moved since

    def step(self, batch: CheckedBatch, y: npt.NDArray[Any], rates: Rates) -> None:
        """Learn from one batch. On an error, nothing moved."""
        X, weight = batch.X, batch.weight
        if weight is not None and not weight.all():  # a row of weight 0 is not there
            X, y, weight = X[weight > 0.0], y[weight > 0.0], weight[weight > 0.0]
        before = self.generator.get_state()
        w = np.ones(X.shape[0]) if weight is None else weight
        target = self.target.look(y, w)[0][0] if self._numeric else y
        with self.model.ordinarily():
            try:
                scaled, learn_scale = self._scaled(X, w, batch)
                rows = self.model.rows(scaled)
                noise = draw(self.model, self.parameters, rows, self.generator, self._scratch)
                codes, counts = self.model.target(target, weight)
                found = slopes(self.model, self.parameters, rows, codes, counts, noise)
                inputs = list(found.inputs())
                factors = self._factors(found, inputs, rates, 1.0 / float(w.sum()))
            except BaseException:
                self.generator.set_state(before)
                raise
            self._move(found, inputs, *factors)
        self._outdate(rows.columns)
        learn_scale()
        if self._numeric:
            self.target.count(y, w)

    def _factors(
        self, found: Slopes, inputs: list[Any], rates: Rates, share: float
    ) -> tuple[float, float, float]:
        """What the slopes of mu, sigma and the point parameters are multiplied by."""
        model = self.model
        mu, sigma = (rate * share * model.rate for rate in (rates.mu, rates.sigma))
        point = rates.mu * share * min(model.rate, _POINT_RATE)
        promised = (
            mu * _square([*found.mu.values(), *(g_mu for _, g_mu, _ in inputs)])
            + sigma * _square([*found.sigma.values(), *(g_sigma for _, _, g_sigma in inputs)])
            + point * _square([*found.point.values()])
        )
        lacking = model.best(self.parameters.point) / share - float(found.value)
        if not math.isfinite(promised) or math.isnan(lacking):
            raise Diverged(
                f"The gradient of {model.name} is not finite on this batch: X or y holds values "
                f"too large for {model.dtype}, or the learning rate is too high."
            )
        cap = min(1.0, max(lacking, 0.0) / promised) if promised > 0.0 else 1.0
        return cap * mu, cap * sigma, cap * point

    def _move(
        self, found: Slopes, inputs: list[Any], by_mu: float, by_sigma: float, by_point: float
    ) -> None:
        mu, sigma, point = self.parameters.mu, self.parameters.sigma, self.parameters.point
        for part, g_mu, g_sigma in inputs:
            mu[INPUTS][part] += by_mu * g_mu.double()
            sigma[INPUTS][part] = (sigma[INPUTS][part] + by_sigma * g_sigma.double()).clamp_(min=0)
        for name, g_mu in found.mu.items():
            mu[name].add_(g_mu, alpha=by_mu)
            sigma[name].add_(found.sigma[name], alpha=by_sigma).clamp_(min=0.0)
        for name, slope in found.point.items():
            point[name].add_((slope * by_point).clamp_(-1.0, 1.0))

    def with_classes(self, before: Labels, after: Labels) -> Self:
        """A copy whose outputs are those of the classes there are now."""
        # One class alone has been called 1, and 0 is what is not it.
        first = 1 if len(before) == 1 else 0
        old = {label: code for code, label in enumerate(before.tolist(), start=first)}
        sources = [old.get(label) for label in after.tolist()]
        if first and len(after) == 2:
            sources = [0 if source is None else source for source in sources]
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        other.generator = self.generator.clone_state()
        with self.model.ordinarily():
            other.parameters = self.model.with_outputs(self.parameters, sources, other.generator)
        other._bars, other._stale, other._scratch = None, [], {}
        return other

    def _outdate(self, moved: Any) -> None:
        """What is known of these features no longer holds."""
        if isinstance(moved, slice) or len(self._stale) == _REMEMBERED:
            self._bars, self._stale = None, []
        elif self._bars is not None:
            self._stale.append(moved)

    def features(self) -> Belief:
        """One mean and one standard deviation per feature; only what has moved is looked at."""
        torch = self.model.torch()
        with self.model.ordinarily():
            if self._bars is None:
                self._bars = list(self.model.aggregated(self.parameters, slice(None)))
            elif self._stale:
                moved = torch.unique(torch.cat(self._stale))
                new = self.model.aggregated(self.parameters, moved)
                for bar, values in zip(self._bars, new, strict=True):
                    bar[moved] = values
        self._stale = []
        offset = self.model.offset(self.parameters)
        mu, sigma = (
            (bar + shift).cpu().numpy() for bar, shift in zip(self._bars, offset, strict=True)
        )
        return Belief(mu, sigma)

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays."""
        arrays = {"generator": self.generator.get_state().numpy()}
        for half in _HALVES:
            tensors = getattr(self.parameters, half).items()
            arrays |= under(half, {name: value.cpu().numpy() for name, value in tensors})
        return arrays | under("target", self.target.state()) | self.scaler.state()

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; the shapes must be those of this model."""
        torch = self.model.torch()
        halves = []
        for half in _HALVES:
            fresh, saved = getattr(self.parameters, half), part_of(half, arrays)
            check_shapes(saved, fresh, self.model.name)
            for name in _SIZES & fresh.keys():
                if saved[name].tolist() != fresh[name].tolist():
                    raise StateError(f"{name} is {saved[name]}, not {fresh[name].tolist()}")
            with self.model.ordinarily():
                halves.append(
                    {
                        name: torch.tensor(saved[name], device=self.model.device, dtype=like.dtype)
                        for name, like in fresh.items()
                    }
                )
        self.parameters = Parameters(*halves)
        self._restore_generator(arrays["generator"])
        self.scaler.restore(arrays)
        self.target.restore(part_of("target", arrays))
        self._bars, self._stale = None, []

    def _restore_generator(self, saved: npt.NDArray[Any]) -> None:
        if saved.size == self.generator.get_state().numel():
            try:
                self.generator.set_state(self.model.torch().tensor(saved, device="cpu"))
            except (RuntimeError, TypeError) as error:
                raise StateError(f"generator is no state of a random generator ({error})") from None
        else:  # from another kind of device, whose numbers cannot be had here: go on with our own
            seed = hashlib.sha256(saved.tobytes()).digest()[:7]
            self.generator.manual_seed(int.from_bytes(seed, "little"))

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_scratch": {}}


def _square(tensors: list[Any]) -> float:
    """The sum of the squares of all their numbers."""
    import torch

    norms = [torch.linalg.vector_norm(part, dtype=torch.float64) for part in tensors]
    return float(torch.stack(norms).square().sum()) if norms else 0.0
