"""FIRES with one choice undone, for the page of ablations."""

from __future__ import annotations

from typing import Any

import numpy as np

from fires import FIRES
from fires.core.belief import Belief
from fires.kernels import top_k
from fires.models.base import JointPosterior


class WithoutBond(FIRES):
    """The k best scores are selected; no member is kept."""

    def _choose(self, learner: JointPosterior | None, n_rows: int, weight: float) -> None:
        super()._choose(learner, n_rows, weight)
        members: Any = self._rule_.members
        members.choose(top_k(members.score, self._resolve_k()))


class WithoutSmoothing(FIRES):
    """Scores are those of the last batch."""

    def _choose(self, learner: JointPosterior | None, n_rows: int, weight: float) -> None:
        members: Any = self._rule_.members
        members.restart()
        super()._choose(learner, n_rows, weight)


class WithoutStretch(FIRES):
    """No Newton step along mu."""

    def _start(self, n_classes: int) -> None:
        super()._start(n_classes)
        learner: Any = self._learner_
        learner.stretches = False
        learner.count_columns(learner.n_present)


class WithoutCovariance(FIRES):
    """Importances and uncertainties come from the diagonal belief."""

    def _belief(self) -> Belief:
        learner: Any = self._learner_
        leader = learner._leader()
        mu, var = learner._means(), learner._variances()
        if leader is None:
            return Belief(mu[0], np.sqrt(var[0]))
        picked = (np.take_along_axis(one, leader[None], axis=0)[0] for one in (mu, np.sqrt(var)))
        return Belief(*picked)
