"""Alarms about single features: an importance has moved beyond its uncertainty.

It must also have moved by half of its size: where classes are told without an error, importances
go on growing, and that is no change of the world. An importance that owes next to nothing to the
rows, and all to its prior, says nothing about a change: in a million rare columns, that is most of
them.
"""

from __future__ import annotations

import copy
import math
from statistics import NormalDist
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from fires.core.declared import Array, Declared
from fires.core.types import Floats

LIMIT = 5.0
"""How many standard deviations of the difference are an alarm, among a hundred or fewer."""

_MANY = 100  # importances; the more beyond that, the further one of them moves by chance
_UNKNOWN = 1e150  # the standard deviation of an importance that nothing is known of
_LEARNT = 0.9  # of the variance of the prior: below, the rows have said something
_SHARE = 0.5  # of its size that an importance must have moved by


class FeatureAlarms:
    """Compare importances with what they were some thousand rows ago.

    Examples
    --------
    >>> alarms = FeatureAlarms(every=100)
    >>> alarms.update(np.array([1.0, 0.0]), np.array([0.1, 0.1]))
    {}
    >>> moved = alarms.update(np.array([0.9, 0.8]), np.array([0.1, 0.1]))
    >>> list(moved), round(moved[1], 2)
    ([1], 5.66)
    """

    learnt: ClassVar[Declared] = {
        "mu": Array("*"),
        "sigma": Array("*", low=0.0),
        "rows": Array(low=0.0),
    }

    def __init__(self, every: float) -> None:
        self.every = every
        self.restart()

    def restart(self) -> None:
        """Start again, after an alarm about all features."""
        self.mu: Floats = np.empty(0)
        self.sigma: Floats = np.empty(0)
        self.rows = 0.0

    def restart_features(self, columns: npt.NDArray[np.intp], n_features: int) -> None:
        """Forget what some features were: no change of theirs is an alarm at the next look."""
        if len(self.sigma):
            self.sigma.reshape(-1, n_features)[:, columns] = _UNKNOWN

    def rearranged(self, source: npt.NDArray[np.intp], n_features: int) -> FeatureAlarms:
        """A copy for other features; of new ones nothing is known."""
        other = copy.copy(self)
        if len(self.mu):
            mu = self.mu.reshape(-1, n_features)[:, source]
            sigma = self.sigma.reshape(-1, n_features)[:, source]
            mu[:, source < 0], sigma[:, source < 0] = 0.0, _UNKNOWN
            other.mu, other.sigma = mu.ravel(), sigma.ravel()
        return other

    def is_due(self, n_rows: float) -> bool:
        """Count the rows of a batch; whether it is time to look again."""
        self.rows += n_rows
        return self.rows >= self.every

    def update(
        self, mu: Floats, sigma: Floats, prior: Floats | float = math.inf
    ) -> dict[int, float]:
        """Look at the importances of now."""
        found: dict[int, float] = {}
        sigma = np.where(sigma**2 < _LEARNT * np.square(prior), sigma, _UNKNOWN)
        n_features, mu, sigma = mu.shape[-1], mu.ravel(), sigma.ravel()
        if len(self.mu) == len(mu):
            change = np.abs(mu - self.mu)
            moved = change / np.maximum(np.hypot(sigma, self.sigma), 1e-300)
            moved[change < _SHARE * np.maximum(np.abs(mu), np.abs(self.mu))] = 0.0
            limit = _limit(int(((sigma < _UNKNOWN) & (self.sigma < _UNKNOWN)).sum()))
            moved = moved.reshape(-1, n_features).max(axis=0)
            found = {int(j): float(moved[j]) for j in np.flatnonzero(moved > limit)}
        self.mu, self.sigma, self.rows = mu.copy(), sigma, 0.0
        return found


def _limit(n: int) -> float:
    """The limit for the greatest of n, which is passed by chance as seldom as that for a few."""
    tail = NormalDist().cdf(-LIMIT) * _MANY
    return LIMIT if n <= _MANY else -NormalDist().inv_cdf(tail / n)
