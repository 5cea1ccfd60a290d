"""The base class of the paper's net and tree: two forms, and input weights."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from fires.core.settings import check_choice
from fires.models.likelihoods import aggregated, log_likelihood_limit
from fires.models.monte_carlo import MonteCarlo
from fires.models.parameters import INPUTS, ModelParameters

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from fires.models.device_rows import Columns

_SIGMA = 0.1  # at the start of the scaled form


class PaperModel(MonteCarlo):
    """A model of the paper, as published or in a scaled form that learns well at any width."""

    form: str

    @classmethod
    def as_published(cls, **changes: Any) -> Self:
        """The paper's model: mu = 0, sigma = 1, the selector's own rates, its aggregation.

        Every row counts the same, whatever its class.

        Examples
        --------
        >>> from fires.models import NeuralNet
        >>> NeuralNet.as_published().aggregate
        'paper'
        """
        paper: dict[str, Any] = {
            "form": "paper",
            "rate": 1.0,
            "aggregate": "paper",
            "balance": False,
        }
        return cls(**(paper | changes))

    def fresh_weights(
        self, shape: tuple[int, ...], spread: float, generator: Generator
    ) -> tuple[Tensor, Tensor]:
        """The belief of new weights."""
        torch, place = self.torch(), self.place
        if self.form == "paper":
            return torch.zeros(shape, **place), torch.ones(shape, **place)
        mu = torch.randn(shape, generator=generator, **place) * spread
        return mu, torch.full(shape, _SIGMA, **place)

    def per_feature(self, parameters: ModelParameters, columns: Columns) -> tuple[Tensor, Tensor]:
        """From the input weights of each feature, as ``aggregate`` says.

        See :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        mu, sigma = parameters.mu[INPUTS][columns], parameters.sigma[INPUTS][columns]
        return aggregated(mu, sigma, self.aggregate)

    def input_weights(self, parameters: ModelParameters) -> Tensor:
        """See :class:`fires.models.monte_carlo.MonteCarlo`."""
        return parameters.mu[INPUTS]

    def greatest_log_likelihood(self, point: Mapping[str, Tensor]) -> float:
        """That of a row predicted without error; infinite in the published form.

        Steps of the published form have no cap. See :class:`fires.models.monte_carlo.MonteCarlo`.
        """
        return math.inf if self.form == "paper" else log_likelihood_limit(point)

    def check(self) -> None:
        """Raise an error if a setting makes no sense."""
        super().check()
        check_choice("form", self.form, ("scaled", "paper"))


def copy_outputs(new: Tensor, old: Tensor, sources: list[int | None]) -> None:
    """Write old outputs into new ones, in place; both have one row per output."""
    for output, source in enumerate(sources):
        if source is not None:
            new[output] = old[source]
