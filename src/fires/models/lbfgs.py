r"""L-BFGS in rounds: the maximum of a concave sum over rows and a normal prior, point by point.

Who asks the rows decides when: a search proposes a point, and is told value and slope there.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from fires.core.types import Floats, Ints

# What another step would gain, in nats, if a point is good enough.
TOL = 0.2
_MEMORY = 12  # steps that are remembered


class Search:
    """L-BFGS for one row of parameters. It climbs, and it stays finite.

    F is concave, so what every point shows of its bend is true, whether it was better or not.
    """

    def __init__(
        self, start: Floats, prior: Floats, share: float, bend: Floats, slope: Floats
    ) -> None:
        self.start, self.share = start, share
        self.free = prior > 0.0
        self.precision = 1.0 / np.where(self.free, prior, 1.0)
        self.best_theta, self.best = start, -np.inf
        self.steps: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
        self.bend, self.slope = bend, np.where(self.free, share * slope, 0.0)

    def begin(self, places: Ints, information: Floats) -> None:
        """The first step, by what is known of how F bends: also by correlations in some places."""
        self.diagonal = self.precision + self.share * self.bend
        self.places = places
        # With the prior, it is positive definite, whatever has become less certain meanwhile.
        information = information + np.eye(len(information))
        unit = 1.0 / np.sqrt(np.diagonal(information))
        alike = information * unit[:, None] * unit
        np.fill_diagonal(alike, 1.0)
        size = np.sqrt(self.share * self.bend[places])
        block = alike * size[:, None] * size
        block[np.diag_indices(len(block))] += self.precision[places]
        self.factor = cho_factor(block)
        self._plan()

    def stay(self) -> None:
        """Look at the best point again, if there is one."""
        if np.isfinite(self.best):
            self.trial = self.best_theta

    def take(self, fit: float, slope: Floats) -> bool:
        """Take in what the likelihood says at the trial; returns whether it is the best so far."""
        theta, delta = self.trial, self.trial - self.start
        value = self.share * fit - 0.5 * float((self.precision * delta) @ delta)
        slope = np.where(self.free, self.share * slope - self.precision * delta, 0.0)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            self.trial = self.best_theta + (theta - self.best_theta) / 16.0
            return False
        step, change = theta - self.best_theta, self.slope - slope
        along = float(step @ change)
        if along > 0.0:
            self.steps.append((step, change, along))
        better = value >= self.best - 0.01 * TOL
        if better:
            self.best_theta, self.best, self.slope = theta, value, slope
        self._plan()
        return better

    def _plan(self) -> None:
        """Plan the next point, and what it should gain."""
        ahead = self._uphill(self.slope)
        self.gain = float(self.slope @ ahead)
        self.trial = self.best_theta + ahead

    def _solve(self, slope: Floats) -> Floats:
        """The step by what is known of the bend of F from the start."""
        ahead = slope / self.diagonal
        ahead[self.places] = cho_solve(self.factor, slope[self.places])
        return ahead

    def _uphill(self, slope: Floats) -> Floats:
        """The step that a slope calls for: L-BFGS in two loops."""
        slope, shares = slope.copy(), []
        for step, change, along in reversed(self.steps):
            shares.append(float(step @ slope) / along)
            slope -= shares[-1] * change
        ahead = self._solve(slope)
        if self.steps:  # columns with much in common bend F more than each of them for itself
            _, change, along = self.steps[-1]
            ahead *= min(along / float(change @ self._solve(change)), 1.0)
        for (step, change, along), part in zip(self.steps, reversed(shares), strict=True):
            ahead += (part - float(change @ ahead) / along) * step
        return ahead
