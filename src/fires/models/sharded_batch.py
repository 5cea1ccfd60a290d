"""One batch in several shards: its scale and its target, and the gradient step.

A learner steps by sums over rows (:mod:`fires.core.sharding`). What must be known of a whole batch
before it can be added up is the same for every update: the scale of a first one, and which columns
have moved.

The gradient step itself is a sum over rows. So shards return sums, and the driver takes the step:
equal to one process, up to rounding, however the rows are cut. It takes **one round** per batch,
and more only where something has to be known first:

=================================================  =============================================
the first batch                                    one round more, for its own scale and shares
sampled entries are beyond 1.5 times the reach     one round more, for the sampled rows
and a column has moved indeed                      one round more, to add up by the new scale
the batch is a surprise that raises an alarm       one round more, after forgetting
=================================================  =============================================

Of dense rows, a shard returns ``2 R + 5`` numbers per feature, with R rows of parameters; of sparse
rows ``2 R + 3``, and only for the columns that its entries touch.
"""

from __future__ import annotations

import copy
import zlib
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.sharding import Rounds, Sums, Task, add_up, known_of
from fires.core.types import Floats, Labels, Places
from fires.kernels.linear import DenseRows
from fires.models import sharded_scale
from fires.models.base import Rates
from fires.models.linear_learner import BatchFacts, LinearLearner, StepSums
from fires.models.sparse_scale import Touched
from fires.models.target import KEPT, BayesTarget, ClassTarget, LinearTarget, ScoredTarget

_Target = TypeVar("_Target", bound=LinearTarget | BayesTarget)


class ShardedBatch(Generic[_Target]):
    """Scale and target of one batch on the driver, through its rounds.

    The learner changes in :meth:`learn` only.
    """

    def __init__(self, target: _Target, x: sharded_scale.ShardedScale) -> None:
        self.x, self.scales = x, [x]
        self._known, self.target = target, copy.copy(target)  # the other as shards know it
        if target.scale is not None:
            y = sharded_scale.ShardedStandard(target.scale, "y")
            self.target.scale = y  # type: ignore[assignment]
            self.scales = [y, x]

    def begin(self) -> Rounds:
        """The round of a first batch, if this is one, whose scale and level come from itself."""
        first, target = [one for one in self.scales if one.is_first], self.target
        is_new = False
        if isinstance(target, ClassTarget):
            is_new = target.levelled and not target.class_weight.any()
        elif isinstance(target, ScoredTarget):
            is_new = target.scores is not None and not target.scores.ready
        if not first and not is_new:
            return
        sums = yield _Opening(target, first)
        for one in first:
            one.begin(sums)
        if is_new and isinstance(target, ClassTarget):
            target.class_weight = sums["class weight"]
        elif is_new and isinstance(target, ScoredTarget):
            target.scores = copy.deepcopy(target.scores)
            _learn_scores(target, sums)

    def settled(self, task: Callable[[], Task]) -> Generator[Task, Sums, Sums]:
        """The sums of a task, once it is known which columns have moved."""
        sums = yield task()
        scales = [part for one in self.scales for part in one.standards]
        doubtful = [(one, one.doubtful(sums)) for one in scales]
        if any(len(columns) for _, columns in doubtful):
            starts, step = sharded_scale.sampling(sums)
            by_mark = dict(zip(sums["list mark"].tolist(), starts.tolist(), strict=True))
            asked = {one.what: one.among_all(columns) for one, columns in doubtful if len(columns)}
            found = yield _Doubts(by_mark, step, asked)
            settled = [one.settle(sums, columns, found) for one, columns in doubtful]
            if not all(settled):
                sums = yield task()
        return sums

    def learn(self, sums: Sums) -> None:
        """Learn scale and level, now that nothing can fail any more."""
        for one in self.scales:
            one.learn(sums, float(sums["batch weight"]))
        if isinstance(self._known, ClassTarget):
            self._known.class_weight += sums["class weight"]
        elif isinstance(self._known, ScoredTarget):
            _learn_scores(self._known, sums)


def _learn_scores(target: ScoredTarget, sums: Sums) -> None:
    if target.scores is not None:
        target.scores.learn(sums["list y last"])


# --- what shards do -------------------------------------------------------------------------


def target_sums(
    target: LinearTarget | BayesTarget, shard: CheckedBatch, y: Labels, weight: Floats
) -> Sums:
    """What a shard shows of its target, and a mark that tells it from others."""
    sums: Sums = {"list mark": np.array([_mark(shard, y)])}
    if isinstance(target, ClassTarget):
        return sums | {"class weight": target.per_class(y, weight)}
    numbers = np.asarray(y, dtype=np.float64)
    if isinstance(target, ScoredTarget):  # those of all shards hold the last ones of the batch
        return sums | {"list y last": numbers[weight > 0.0][-KEPT:]}
    if isinstance(target.scale, sharded_scale.ShardedStandard):
        sums |= target.scale.scaled(numbers[:, None], weight)[1]()
    return sums


def _mark(shard: CheckedBatch, y: Labels) -> int:
    """A digest of a shard's target and of some of its rows."""
    X = shard.X.data[:4096] if sp.issparse(shard.X) else shard.X[:: shard.n_rows // 16 + 1]
    return zlib.crc32(np.ascontiguousarray(X).tobytes(), zlib.crc32(y.tobytes()))


@dataclass(frozen=True, eq=False)
class _Opening:
    """What a first batch shows of its own scales, and of its target."""

    target: LinearTarget | BayesTarget
    scales: list[sharded_scale.ShardedScale]

    def __call__(self, shard: CheckedBatch) -> Sums:
        weight, y = known_of(shard)
        sums = target_sums(self.target, shard, y, weight)
        for one in self.scales:
            sums |= one.own(shard, y, weight)
        return sums


@dataclass(frozen=True, eq=False)
class _Doubts:
    """Sampled rows, and own mean and spread, of the columns that may have moved.

    A task is the same for all shards and does not know which shard it gets, but by its mark.
    """

    starts: dict[int, int]
    step: int
    columns: dict[str, Places]

    def __call__(self, shard: CheckedBatch) -> Sums:
        weight, y = known_of(shard)
        places = np.arange(-self.starts[_mark(shard, y)] % self.step, shard.n_rows, self.step)
        found: Sums = {}
        for what, columns in self.columns.items():
            X = sharded_scale.columns_of(shard, y, what, columns)
            found |= {
                f"list {what} sample": X[places],
                f"moments {what}": sharded_scale.column_moments(X, weight),
            }
        return found


# --- the gradient step ----------------------------------------------------------------------


def gradient_rounds(
    learner: LinearLearner,
    rates: Rates,
    watch: Callable[[float, float], bool] | None = None,
    *,
    sparse: bool = False,
) -> Rounds:
    """The step on one batch: see :func:`fires.models.sharded_bayes.step_rounds`."""
    x = sharded_scale.scale_of(learner, sparse=sparse)
    if isinstance(x, sharded_scale.CentredScale) and watch is not None:
        raise ValueError("With the gradient update, alarms need dense rows; use update='bayes'.")
    batch = ShardedBatch[LinearTarget](learner.target, x)
    yield from batch.begin()

    def task() -> _StepTask:
        bare: Any = copy.copy(learner)
        bare.scaler = bare.target = None
        return _StepTask(batch.target, x, bare, rates, watch is not None)

    while True:
        sums = yield from batch.settled(task)
        if watch is None or not watch(*sums["surprise"].tolist()):
            break
        watch = None
    share = rates.shared(float(sums["batch weight"]))
    if isinstance(x, sharded_scale.CentredScale):
        x.take_step(sums, share)
    else:
        step = StepSums(*(np.array(sums[name]) for name in ("p", "q", "own")))
        learner.take_dense(step, share)
    batch.learn(sums)


@dataclass(frozen=True, eq=False)
class _StepTask:
    """The sums over the rows of a shard that a step is taken by."""

    target: LinearTarget
    x: sharded_scale.ShardedScale
    learner: LinearLearner  # without its scale and its target
    rates: Rates
    watched: bool

    def __call__(self, shard: CheckedBatch) -> Sums:
        weight, y = known_of(shard)
        target, level = self.target.look(y, weight)
        level = np.zeros(self.learner.n_rows) if level is None else level
        sums, parts = target_sums(self.target, shard, y, weight), []
        for block, Z in self.x.rows(shard, weight, sums):
            part = np.ascontiguousarray(target[:, block])
            rows = BatchFacts(weight[block], shard.weight is not None, 0.0, part, level)
            if isinstance(self.x, sharded_scale.CentredScale) and isinstance(Z, Touched):
                parts.append(self.x.sums(self.learner, Z, rows, self.rates))
            elif isinstance(Z, DenseRows):
                step, surprise = self.learner.dense_sums(
                    Z.full, rows, self.rates, watched=self.watched
                )
                found = {"p": step.p, "q": step.q, "own": step.own}
                parts.append(found | {"surprise": np.array(surprise)})
        return sums | add_up(parts)
