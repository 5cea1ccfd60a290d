"""Test, then train, on a batch in several shards: without another pass over its rows.

The test goes out together with the first task of a step, and its sums come back with those of the
task. What predicts is the belief before the batch: see :mod:`fires.models.sharded_scores`. Counts
and sums come back, never rows, so scores do not depend on how rows are cut.

Each row counts once in a score, whatever its weight; rows of weight 0 do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.classes import encode, merge_classes
from fires.core.sharding import Evaluate, Sums, Task
from fires.core.types import Floats, Labels, Places
from fires.core.validation import as_numbers
from fires.evaluation.scoring import usual_baselines
from fires.metrics.numbers import NumberMoments
from fires.metrics.prediction import Scores
from fires.models.sharded_gradient import weight_of
from fires.models.sharded_scores import RowScores, Unit, codes_of, row_scores, unit_of
from fires.run.totals import RunTotals
from fires.selectors.fires import FIRES

SELECTED, ALL = 0, 1
_OURS = "tested"  # a word in the names of our sums


class ShardedTest:
    """The test of one batch, by what was learnt before it.

    Examples
    --------
    >>> from fires.core.sharding import Shards
    >>> from fires.selectors.sharded import partial_fit_sharded
    >>> rng, selector, totals = np.random.default_rng(0), FIRES(1), RunTotals(3)
    >>> for _ in range(3):
    ...     X = rng.normal(size=(200, 3))
    ...     shards = Shards.cut(CheckedBatch(X, (X[:, 1] > 0).astype(int)), 4)
    ...     test = ShardedTest(selector, totals)
    ...     selector = partial_fit_sharded(selector, test.beside(shards.evaluate), n_features=3)
    ...     scores = test.scored(totals)
    >>> sorted(scores), bool(scores["accuracy"] > 0.9)
    (['accuracy', 'balanced_accuracy'], True)
    """

    def __init__(
        self, selector: FIRES, totals: RunTotals | None = None, *, sparse: bool = False
    ) -> None:
        self._selector, self._sparse = selector, sparse
        self._centre = _mean_before(totals)
        self._selected: Places | None = None
        self._labels: Labels = np.empty(0)
        if selector.learner is not None:
            self._selected = selector.get_support(indices=True)
            self._labels = selector.label_index.labels
        self._sums: Sums | None = None

    def beside(self, evaluate: Evaluate) -> Evaluate:
        """What evaluates a task, and beside the first one the test."""

        def both(task: Task) -> Sums:
            # What a first batch holds, classes or numbers, is known after its first round.
            if self._sums is not None or self._selector.learner is None:
                return evaluate(task)
            sums = evaluate(_Both(task, self._task()))
            self._sums = {name: value for name, value in sums.items() if _is_ours(name)}
            return {name: value for name, value in sums.items() if not _is_ours(name)}

        return both

    def _task(self) -> Task:
        learner: Any = self._selector.learner
        scores = None
        if self._selected is not None:
            scores = row_scores(learner, self._selected, sparse=self._sparse)
        if self._selector.target_kind == "classes":
            return _TestClasses(scores, self._labels)
        unit = None if scores is None else unit_of(learner)
        if self._centre is None:
            self._centre = 0.0 if unit is None else float(unit(np.zeros(1))[0])
        return _TestNumbers(scores, unit, self._centre)

    def scored(self, totals: RunTotals) -> dict[str, float]:
        """Count the batch in, once it has been learnt from."""
        classes = self._selector.target_kind == "classes"
        if totals.whole is None:
            names = ("accuracy", "balanced_accuracy") if classes else ("r2", "mae")
            totals.whole, totals.baselines = Scores(names), usual_baselines(None, names)
        for one in totals.baselines.values():
            one.latest = dict.fromkeys(one.latest, math.nan)
        count = self._count_classes if classes else self._count_numbers
        found = count(totals, self._sums) if self._sums else {}
        return found or dict.fromkeys(totals.whole.names, math.nan)

    def _count_classes(self, totals: RunTotals, sums: Sums) -> dict[str, float]:
        assert totals.whole is not None
        blind, rich = totals.baselines["majority"], totals.baselines["all"]
        found: dict[str, float] = {}
        if "list tested pairs" in sums:
            truth, (who, taken, times) = sums["list tested truth"], sums["list tested pairs"].T
            mine, other = who == SELECTED, who == ALL
            predicted = self._labels[taken]
            found = totals.whole.update(truth[mine], predicted[mine], times=times[mine])
            rich.latest = rich.scores.update(truth[other], predicted[other], times=times[other])
            if blind.has_learnt and blind.predictor is not None:
                same = blind.predictor.predict(np.zeros((int(mine.sum()), 0)))
                blind.latest = blind.scores.update(truth[mine], same, times=times[mine])
        labels, weight = sums["list tested labels"], sums["list tested weight"]
        self._learn(totals, labels, weight)
        return found

    def _count_numbers(self, totals: RunTotals, sums: Sums) -> dict[str, float]:
        assert totals.whole is not None
        assert self._centre is not None
        blind, rich = totals.baselines["mean"], totals.baselines["all"]
        found: dict[str, float] = {}
        if "tested errors" in sums:
            n, deviation, square, far = sums["tested numbers"].tolist()
            mean, spread = (
                self._centre + deviation / max(n, 1.0),
                square - deviation * deviation / max(n, 1.0),
            )
            facts = int(n), mean, max(spread, 0.0)
            mine, other = (NumberMoments(*facts, *one) for one in sums["tested errors"].tolist())
            found, rich.latest = totals.whole.add(mine), rich.scores.add(other)
            if blind.has_learnt:
                blind.latest = blind.scores.add(NumberMoments(*facts, far, square))
        weight, deviation = sums["tested weight"].tolist()
        if weight > 0.0:
            self._learn(totals, np.array([self._centre + deviation / weight]), np.array([weight]))
        return found

    def _learn(self, totals: RunTotals, y: Labels, weight: Floats) -> None:
        """Let the baselines learn, by one row for each label, or for all numbers."""
        for one in totals.baselines.values():
            one.learn(CheckedBatch(np.zeros((len(y), 0)), y, weight), self._selector.label_index)


def _mean_before(totals: RunTotals | None) -> float | None:
    """What the baseline of numbers says."""
    one = None if totals is None else totals.baselines.get("mean")
    if one is None or one.predictor is None or not one.has_learnt:
        return None
    return float(one.predictor.predict(np.zeros((1, 0)))[0])


def _is_ours(name: str) -> bool:
    return _OURS in name.split(" ", 2)[:2]


# --- what shards do -------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Both:
    """A task of a learner, and a test with sums of other names."""

    task: Task
    test: Task

    def __call__(self, shard: CheckedBatch) -> Sums:
        return self.task(shard) | (self.test(shard) if shard.n_rows else {})


@dataclass(frozen=True, eq=False)
class _TestClasses:
    """How often a class was taken for another, and the weight of each class."""

    scores: RowScores | None
    known: Labels

    def __call__(self, shard: CheckedBatch) -> Sums:
        weight = weight_of(shard)
        counts = weight > 0.0
        assert shard.y is not None
        y = shard.y[counts]
        if not len(y):
            return {}
        found, n_known = self.known, len(self.known)
        truth = encode(y, found) if n_known else None
        if truth is None:  # some are new
            found = merge_classes(None, y)
            truth = encode(y, found)
        assert truth is not None
        of_class = np.bincount(truth, weight[counts], len(found))
        sums: Sums = {"list tested labels": found, "list tested weight": of_class}
        if self.scores is None:
            return sums
        with np.errstate(all="ignore"):
            codes = codes_of(self.scores(shard), n_known)[:, counts]
        table = np.zeros((2, len(found), n_known), dtype=np.int64)
        for cells, taken in zip(table, codes, strict=True):
            counted = np.bincount(truth * n_known + taken, minlength=cells.size)
            cells[:] = counted.reshape(cells.shape)
        who, which, predicted = np.nonzero(table)
        pairs = np.stack([who, predicted, table[who, which, predicted]], axis=1)
        return sums | {"list tested truth": found[which], "list tested pairs": pairs}


@dataclass(frozen=True, eq=False)
class _TestNumbers:
    """The sums of numbers and of errors that R2 and the mean absolute error are made of."""

    scores: RowScores | None
    unit: Unit | None
    centre: float

    def __call__(self, shard: CheckedBatch) -> Sums:
        weight = weight_of(shard)
        counts = weight > 0.0
        assert shard.y is not None
        y = as_numbers(shard.y, "a test")
        with np.errstate(all="ignore"):  # what overflows is refused when it is learnt from
            deviation = y[counts] - self.centre
            sums = {"tested weight": np.array([weight.sum(), weight[counts] @ deviation])}
            if self.scores is None or self.unit is None:
                return sums
            error = y[counts] - self.unit(self.scores(shard))[:, 0, counts]
            facts = len(deviation), deviation.sum(), deviation @ deviation, np.abs(deviation).sum()
            errors = np.stack([np.abs(error).sum(axis=1), (error * error).sum(axis=1)], axis=1)
        return sums | {"tested numbers": np.array(facts), "tested errors": errors}
