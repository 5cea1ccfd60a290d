"""FIRES with one choice undone, for the page of ablations."""

from __future__ import annotations

from typing import Any

import numpy as np

from fires import FIRES
from fires.core.belief import Belief
from fires.core.types import Places
from fires.kernels import top_k
from fires.models.base import JointPosterior


class WithoutBond(FIRES):
    """The best are selected after each batch; no member is ahead."""

    def _choose(self, learner: JointPosterior | None, n_rows: int, weight: float) -> None:
        rule: Any = vars(self).get("_rule_")
        if rule is not None:
            rule.columns, rule.k = rule.columns[:0], -1
        super()._choose(learner, n_rows, weight)


class WithoutForward(FIRES):
    """Those of the greatest importance are selected, whatever they add to each other."""

    def _selected_now(self) -> Places:
        return top_k(self.weights_, self._resolve_k())


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
