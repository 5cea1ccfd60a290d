"""The step of a linear learner on a batch in several shards, as rounds of tasks.

:func:`fires.selectors.sharded.partial_fit_sharded` runs them. Around each task it puts a count of
the rows, so the sums of every round also have these names:

==================  =================================================
"batch rows"        how many rows the shards have together
"batch weight"      their weight
"batch missing"     their missing entries
"list batch rows"   the rows of each shard, in shard order
==================  =================================================

A task never sees a shard without rows, nor one with labels that the learner does not know: if
there are any, the learner is made to know them, and its rounds begin again. The learner changes
after the last round only; so on an error, nothing has changed.
"""

from __future__ import annotations

from collections.abc import Callable

from fires.core.sharding import Rounds, ShardTarget
from fires.models import sharded_bayes, sharded_gradient
from fires.models.base import Learner, Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.linear_learner import LinearLearner


def rounds(
    learner: Learner,
    target: ShardTarget,
    rates: Rates,
    watch: Callable[[float, float], bool] | None = None,
    *,
    sparse: bool = False,
) -> Rounds:
    """The step on one batch."""
    if isinstance(learner, BayesLearner):
        return sharded_bayes.rounds(learner, target, sparse=sparse)
    assert isinstance(learner, LinearLearner)
    return sharded_gradient.rounds(learner, target, rates, watch, sparse=sparse)
