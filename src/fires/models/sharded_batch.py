"""One batch in several shards: its scale and its target, and the gradient step.

A learner steps by sums over rows (:mod:`fires.core.sharding`). What must be known of a whole batch
before it can be added up is the same for every update: the scale of a first one, and which columns
have moved.

The gradient step itself is a sum over rows. So shards return sums, and the driver takes the step:
equal to one process, up to rounding, however the rows are cut. It takes **one round** per batch,
and more only where something has to be known first:

=================================================  =============================================
the first batch                                    one round more, for its own scale and shares
entries are beyond 1.5 times the reach             one round more, for the sampled rows
and a column has moved indeed                      one round more, to add up by the new scale
the batch is a surprise that raises an alarm       one round more, after forgetting
=================================================  =============================================

Of dense rows, a shard returns ``2 R + 5`` numbers per feature, with R rows of parameters; of sparse
rows ``3 R + 3``, and only for the columns that its entries touch.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.sharding import Evaluate, Sums, Task, add_up, blocks_of, known_of, weight_of
from fires.core.types import Places
from fires.models import sharded_scale
from fires.models.base import Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.linear_learner import BatchFacts, LinearLearner
from fires.models.target import KEPT, BayesTarget, ClassTarget, LinearTarget, ScoredTarget

Target: TypeAlias = LinearTarget | BayesTarget


class ShardedBatch:
    """Scale and target of one batch on the driver, through its rounds.

    What learns is a copy, which counts once nothing can fail any more.
    """

    def __init__(
        self, learner: LinearLearner | BayesLearner, evaluate: Evaluate, *, sparse: bool = False
    ) -> None:
        self.x, self._evaluate = sharded_scale.scale_of(learner, sparse=sparse), evaluate
        # As the driver knows it, and as shards do.
        self._known, self.target = learner.target, copy.deepcopy(learner.target)
        self.scales, target = [self.x], self.target
        if learner.target.scale is not None:
            y = sharded_scale.ShardedStandard(learner.target.scale, "y")
            target.scale = y  # type: ignore[assignment]
            self.scales.insert(0, y)
        first = [one for one in self.scales if one.is_first]
        is_new = False
        if isinstance(target, ClassTarget):
            is_new = target.levelled and not target.class_weight.any()
        elif isinstance(target, ScoredTarget):
            is_new = target.scores is not None and not target.scores.ready
        if first or is_new:  # scale and level of a first batch come from itself
            sums = self.evaluate(partial(_opening, target, first))
            for one in first:
                one.begin(sums)
            if is_new:
                _learn_target(target, sums)

    def evaluate(self, task: Task) -> Sums:
        """The sums of a task over all shards."""
        return self._evaluate(partial(_of_blocks, task))

    def settled(self, task: Callable[[], Task]) -> Sums:
        """The sums of a task, once it is known which columns have moved."""
        sums = self.evaluate(task())
        scales = [part for one in self.scales for part in one.standards]
        doubtful = [(one, columns) for one in scales if len(columns := one.doubtful(sums))]
        if doubtful:
            asked = {one.what: one.places[columns] for one, columns in doubtful}
            found = self.evaluate(partial(_doubts, *sharded_scale.sampling(sums), asked))
            settled = [one.settle(columns, found) for one, columns in doubtful]
            if not all(settled):
                sums = self.evaluate(task())
        return sums

    def learn(self, sums: Sums) -> None:
        """Learn scale and level."""
        for one in self.scales:
            one.learn(sums, float(sums["batch weight"]))
        _learn_target(self._known, sums)


def _learn_target(target: Target, sums: Sums) -> None:
    if isinstance(target, ClassTarget):
        target.class_weight = target.class_weight + sums["class weight"]
    elif isinstance(target, ScoredTarget) and target.scores is not None:
        target.scores.learn(sums["list y last"])


# --- what shards do -------------------------------------------------------------------------


def _of_blocks(task: Task, shard: CheckedBatch) -> Sums:
    return add_up(map(task, blocks_of(shard)))


def target_sums(target: Target, shard: CheckedBatch) -> Sums:
    """What rows show of their target; their number, with a mark that tells them from others."""
    weight, y = known_of(shard)
    sums: Sums = {"list mark": np.array([[_mark(shard), shard.n_rows]])}
    if isinstance(target, ClassTarget):
        return sums | {"class weight": target.per_class(y, weight)}
    numbers = np.asarray(y, dtype=np.float64)
    if isinstance(target, ScoredTarget):  # those of all shards hold the last ones of the batch
        return sums | {"list y last": numbers[weight > 0.0][-KEPT:]}
    if isinstance(target.scale, sharded_scale.ShardedStandard):
        sums |= target.scale.scaled(numbers[:, None], weight)[1]()
    return sums


def _mark(shard: CheckedBatch) -> int:
    """A digest of the target and of some rows."""
    _, y = known_of(shard)
    X = shard.X.data[:4096] if sp.issparse(shard.X) else shard.X[:: shard.n_rows // 4 + 1]
    return zlib.crc32(np.ascontiguousarray(X).tobytes(), zlib.crc32(y.tobytes()))


def _opening(target: Target, scales: list[sharded_scale.ShardedScale], shard: CheckedBatch) -> Sums:
    """What a first batch shows of its own scales, and of its target."""
    sums, weight = target_sums(target, shard), weight_of(shard)
    for one in scales:
        if one.kind is None or one.kind != shard.scale:
            sums |= one.own(shard, weight)
    return sums


def _doubts(
    starts: dict[int, int], step: int, asked: dict[str, Places], shard: CheckedBatch
) -> Sums:
    """Sampled rows, and own mean and spread, of the columns that may have moved.

    A task is the same for all shards and does not know which rows it gets, but by their mark.
    """
    places = np.arange(-starts[_mark(shard)] % step, shard.n_rows, step)
    found: Sums = {}
    for what, columns in asked.items():
        X = sharded_scale.part_of(shard, what, columns)
        found[f"list {what} sample"] = X[places]
        found[f"moments {what}"] = sharded_scale.column_moments(X, weight_of(shard))
    return found


# --- the gradient step ----------------------------------------------------------------------


def gradient_step(
    learner: LinearLearner,
    evaluate: Evaluate,
    rates: Rates,
    watch: Callable[[float, float], bool] | None = None,
    *,
    sparse: bool = False,
) -> None:
    """The step on one batch: see :func:`fires.models.sharded_bayes.take_step`."""
    batch = ShardedBatch(learner, evaluate, sparse=sparse)
    if isinstance(batch.x, sharded_scale.CentredScale) and watch is not None:
        raise ValueError("With the gradient update, alarms need dense rows; use update='bayes'.")

    def task() -> Task:
        bare: Any = copy.copy(learner)
        bare.scaler = bare.target = None
        return partial(_step_sums, batch.target, batch.x, bare, rates, watch is not None)

    while True:
        sums = batch.settled(task)
        if watch is None or not watch(*sums["surprise"].tolist()):
            break
        watch = None
    batch.x.take_step(learner, sums, rates.shared(float(sums["batch weight"])))
    batch.learn(sums)


def _step_sums(
    known: Target,
    x: sharded_scale.ShardedScale,
    learner: LinearLearner,  # without its scale and its target
    rates: Rates,
    watched: bool,
    shard: CheckedBatch,
) -> Sums:
    """The sums over the rows of a shard that a step is taken by."""
    weight, y = known_of(shard)
    target, level = known.look(y, weight)
    level = np.zeros(learner.n_rows) if level is None else level
    Z, show = x.rows(shard, weight)
    rows = BatchFacts(weight, shard.weight is not None, 0.0, np.ascontiguousarray(target), level)
    sums = x.step_sums(learner, Z, rows, rates, watched=watched)
    return sums | target_sums(known, shard) | show()
