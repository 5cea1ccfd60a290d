r"""Test, then train, on a batch in several shards: without another pass over its rows.

The test goes out together with the first task of a step, and its sums come back with those of the
task. Counts and sums come back, never rows, so scores do not depend on how rows are cut. Each row
counts once in a score, whatever its weight; rows of weight 0 do not.

A predictor that learns row by row cannot learn in shards. But the belief before the batch predicts:
by its linear score :math:`\mu^\top z + \text{intercept}`, with rows :math:`z` on the scale that is
known, all features or only the selected ones, and an intercept that is the same for both.

================  ==================================================================
classes           the class with the greatest score; of two, the greater one above 0
counts            the exponential of the score
numbers           the score on their own scale. Bayes' rule learns normal scores: the
                  mean of the numbers that belong to scores about this one
================  ==================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.classes import Classes
from fires.core.sharding import Evaluate, Sums, Task, counting, weight_of
from fires.core.types import Floats, Labels, Places
from fires.core.validation import as_numbers
from fires.evaluation.scoring import usual_baselines
from fires.metrics.prediction import NumberMoments, Scores
from fires.models.bayes_learner import BayesLearner
from fires.models.linear_learner import LinearLearner
from fires.models.sharded_scale import ShardedScale, scale_of
from fires.models.target import ScoredTarget, start
from fires.run.totals import RunTotals
from fires.selectors.fires import FIRES

_OURS = "tested"  # a word in the names of our sums
_MAX_SCORE = 30.0  # of the score of a count: its exponential stays finite, and so does its square
_GRID = np.linspace(-6.0, 6.0, 241)  # scores of numbers; there is nothing beyond 4
# From scores to numbers; it can be pickled.
Unit: TypeAlias = Callable[[Floats], Floats]


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
        self._selector, self._mean = selector, 0.0
        self._labels: Labels = np.empty(0)
        self._scores: RowScores | None = None  # none for a first batch
        self._unit: Unit = _rates
        self._sums: Sums | None = None
        learner: Any = selector.learner
        if learner is not None:
            self._labels = selector.label_index.labels
            self._scores = row_scores(learner, selector.get_support(indices=True), sparse=sparse)
            if selector.target_kind_ != "classes":
                self._unit = unit_of(learner)
        blind = None if totals is None else totals.baselines.get("mean")
        if blind is not None and blind.predictor is not None:
            self._mean = float(blind.predictor.predict(np.zeros((1, 0)))[0])

    def beside(self, evaluate: Evaluate) -> Evaluate:
        """What evaluates a task, and beside the first one the test."""

        def both(task: Task) -> Sums:
            # What a first batch holds, classes or numbers, is known after its first round.
            if self._sums is not None or self._selector.learner is None:
                return evaluate(task)
            is_classes = self._selector.target_kind_ == "classes"
            known = self._labels if is_classes else None
            sums = evaluate(_Tested(task, self._scores, known, self._unit, self._mean))
            self._sums = {name: value for name, value in sums.items() if _is_ours(name)}
            return {name: value for name, value in sums.items() if not _is_ours(name)}

        return both

    def scored(self, totals: RunTotals) -> dict[str, float]:
        """Count the batch in, once it has been learnt from."""
        is_classes = self._selector.target_kind_ == "classes"
        if totals.whole is None:
            names = ("accuracy", "balanced_accuracy") if is_classes else ("r2", "mae")
            totals.whole, totals.baselines = Scores(names), usual_baselines(None, names)
        for one in totals.baselines.values():
            one.latest = dict.fromkeys(one.latest, math.nan)
        found, sums = dict.fromkeys(totals.whole.names, math.nan), self._sums
        if not sums:
            return found
        blind, rich = (
            totals.baselines["majority" if is_classes else "mean"],
            totals.baselines["all"],
        )
        if "list tested truth" in sums:
            truth, (mine, other, times) = sums["list tested truth"], sums["list tested taken"].T
            found = totals.whole.update(truth, self._labels[mine], times=times)
            rich.latest = rich.scores.update(truth, self._labels[other], times=times)
            if blind.has_learnt and blind.predictor is not None:
                predicted = blind.predictor.predict(np.zeros((len(truth), 0)))
                blind.latest = blind.scores.update(truth, predicted, times=times)
        elif "moments tested" in sums:
            (n,), (mean,), (spread,) = sums["moments tested"].tolist()
            own, every, same = (
                NumberMoments(int(n), mean, *errors, spread)
                for errors in sums["tested errors"].tolist()
            )
            found, rich.latest = totals.whole.add(own), rich.scores.add(every)
            if blind.has_learnt:
                blind.latest = blind.scores.add(same)
        # The baselines learn by one row for each label, or for all numbers of a shard.
        y, weight = sums["list tested y"], sums["list tested weight"]
        for one in totals.baselines.values():
            one.learn(CheckedBatch(np.zeros((len(y), 0)), y, weight), self._selector.label_index)
        return found


def _is_ours(name: str) -> bool:
    return _OURS in name.split(" ", 2)[:2]


@dataclass(frozen=True, eq=False)
class _Tested:
    """A task of a learner, and a test with sums of other names."""

    task: Task
    scores: RowScores | None
    known: Labels | None  # the labels; None for numbers
    unit: Unit
    mean: float

    def __call__(self, shard: CheckedBatch) -> Sums:
        sums, tested = self.task(shard), counting(shard)
        if not tested.n_rows:
            return sums
        test = self._numbers if self.known is None else self._classes
        with np.errstate(all="ignore"):  # what overflows is refused when it is learnt from
            return sums | test(tested, weight_of(tested))

    def _classes(self, shard: CheckedBatch, weight: Floats) -> Sums:
        """How often a class was taken for another, and the weight of each class."""
        assert shard.y is not None
        assert self.known is not None
        index, truth = Classes(self.known).take(shard.y)
        of_class = np.bincount(truth, weight, len(index))
        sums: Sums = {"list tested y": index.labels, "list tested weight": of_class}
        if self.scores is None:
            return sums
        n = len(self.known)
        mine, other = codes_of(self.scores(shard), n)
        cells, times = np.unique((truth * n + mine) * n + other, return_counts=True)
        which, *taken = np.unravel_index(cells, (len(index), n, n))
        sums["list tested taken"] = np.stack([*taken, times], axis=1)
        return sums | {"list tested truth": index.labels[which]}

    def _numbers(self, shard: CheckedBatch, weight: Floats) -> Sums:
        """The sums of numbers and of errors that R2 and the mean absolute error are made of."""
        assert shard.y is not None
        y = as_numbers(shard.y, "a test")
        total, mean = weight.sum(), y.mean()
        sums: Sums = {"list tested y": np.array([weight @ y / total])}
        sums["list tested weight"] = np.array([total])
        if self.scores is None:
            return sums
        predictions = [*self.unit(self.scores(shard))[:, 0], self.mean]
        errors = np.array([[np.abs(y - one).sum(), ((y - one) ** 2).sum()] for one in predictions])
        moments = np.array([[len(y)], [mean], [((y - mean) ** 2).sum()]])
        return sums | {"moments tested": moments, "tested errors": errors}


# --- the scores of rows ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RowScores:
    """The linear scores of rows by a belief; it can be pickled."""

    x: ShardedScale
    mu: Floats  # of the selected features, with 0 for the others, and then of all
    own: Floats
    var: Floats | None
    level: Floats
    width: float

    def __call__(self, shard: CheckedBatch) -> Floats:
        """The scores of the rows of a shard."""
        scores = np.empty((len(self.mu), shard.n_rows))
        for block, Z in self.x.rows(shard, weight_of(shard)):
            a, v = self.x.project(Z, self.mu, self.mu if self.var is None else self.var)
            if self.var is not None:
                a += start(self.width, self.level[:, None], v)[0]
            scores[:, block] = a + self.own[:, None]
        return scores.reshape(2, -1, shard.n_rows)


def row_scores(
    learner: LinearLearner | BayesLearner, selected: Places, *, sparse: bool
) -> RowScores:
    """How shards score their rows by what a learner has learnt so far."""
    ready = learner.ready_for_sparse() if sparse else learner
    level, var, width = np.zeros(ready.n_rows), None, 0.0
    if isinstance(ready, LinearLearner):
        mu, sigma = ready.by_class()
        own = ready.intercept_mean if ready.fit_intercept else level
        known = ready.target.look(np.zeros(0, dtype=np.intp), np.zeros(0))[1]
        if known is not None and known.any():
            level, var, width = known, _twice(sigma**2, selected), ready.family.start_width
    else:
        theta, _ = ready.coefficients()
        mu, own = theta[:, :-1], theta[:, -1]
    x, mu, own = scale_of(ready, sparse=sparse), _twice(mu, selected), np.tile(own, 2)
    return RowScores(x, mu, own - x.centre(mu), var, np.tile(level, 2), width)


def _twice(values: Floats, selected: Places) -> Floats:
    """Values with zeros for features that are not selected, and all of them."""
    some = np.zeros_like(values)
    some[:, selected] = values[:, selected]
    return np.concatenate([some, values])


# --- from scores to predictions -------------------------------------------------------------


def codes_of(scores: Floats, n_classes: int) -> Places:
    """The class of each row by its scores.

    Examples
    --------
    >>> codes_of(np.array([[-0.5, 2.0]]), 2)
    array([0, 1])
    """
    if scores.shape[-2] > 1:
        return np.asarray(scores.argmax(axis=-2))
    above = scores[..., 0, :] > 0.0
    return above.astype(np.intp) if n_classes > 1 else np.zeros(above.shape, dtype=np.intp)


def unit_of(learner: LinearLearner | BayesLearner) -> Unit:
    """What the scores of a learner of numbers or counts mean."""
    target = learner.target
    if learner.family.kind == "counts":
        return _rates
    scores = target.scores if isinstance(target, ScoredTarget) else None
    if scores is not None and isinstance(learner, BayesLearner):
        noise = np.full(len(_GRID), learner.noise[0])
        return partial(_curve, scores.means(_GRID, noise))
    scale = target.scale
    if scale is None:
        return partial(_line, 0.0, 1.0)
    gain = float(scale.gain[0])
    return partial(_line, float(scale.shift[0]), 1.0 / gain if gain > 0.0 else 0.0)


def _rates(scores: Floats) -> Floats:
    return np.exp(np.minimum(scores, _MAX_SCORE))


def _curve(means: Floats, scores: Floats) -> Floats:
    return np.interp(scores, _GRID, means)


def _line(shift: float, width: float, scores: Floats) -> Floats:
    return shift + scores * width
