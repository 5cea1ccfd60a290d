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
from functools import partial
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.polynomial import Polynomial

from fires.core.batch import CheckedBatch, gaps_in
from fires.core.classes import Classes
from fires.core.sharding import Evaluate, Sums, Task, add_up, blocks_of, counting, weight_of
from fires.core.types import Floats, Labels, Places
from fires.core.validation import as_numbers
from fires.evaluation.scoring import usual_baselines
from fires.metrics.prediction import NumberMoments, Scores
from fires.models.bayes_learner import BayesLearner
from fires.models.linear_learner import LinearLearner
from fires.models.sharded_scale import CentredScale, ShardedScale, scale_of
from fires.models.target import ScoredTarget, start
from fires.run.totals import RunTotals
from fires.selectors.fires import FIRES

_MAX_SCORE = 30.0  # of the score of a count: its exponential stays finite, and so does its square
_GRID = np.linspace(-6.0, 6.0, 241)  # scores of numbers; there is nothing beyond 4
# From scores to numbers; it can be pickled.
Unit: TypeAlias = Callable[[Floats], Floats]
Scorer: TypeAlias = Callable[[CheckedBatch], Floats]


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
        self._scores: Scorer | None = None  # none for a first batch
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
            test = partial(_numbers, self._scores, self._unit, self._mean)
            if self._selector.target_kind_ == "classes":
                test = partial(_classes, self._scores, self._labels)
            sums = evaluate(partial(_tested, task, test))
            self._sums = {name: sums.pop(name) for name in list(sums) if "tested" in name}
            return sums

        return both

    def scored(self, totals: RunTotals) -> dict[str, float]:
        """Count the batch in, once it has been learnt from."""
        is_classes, sums = self._selector.target_kind_ == "classes", self._sums
        if totals.whole is None:
            names = ("accuracy", "balanced_accuracy") if is_classes else ("r2", "mae")
            totals.whole, totals.baselines = Scores(names), usual_baselines(None, names)
        for one in totals.baselines.values():
            one.latest = dict.fromkeys(one.latest, math.nan)
        found = dict.fromkeys(totals.whole.names, math.nan)
        if not sums:
            return found
        rich = totals.baselines["all"]
        blind: Any = totals.baselines["majority" if is_classes else "mean"]
        if "list tested truth" in sums:
            truth, (mine, other, times) = sums["list tested truth"], sums["list tested taken"].T
            found = totals.whole.update(truth, self._labels[mine], times=times)
            rich.latest = rich.scores.update(truth, self._labels[other], times=times)
            if blind.has_learnt:
                predicted = blind.predictor.predict(np.zeros((len(truth), 0)))
                blind.latest = blind.scores.update(truth, predicted, times=times)
        elif "moments tested" in sums:
            n, mean, spread = sums["moments tested"][:, 0].tolist()
            own, every, same = (
                NumberMoments(int(n), mean, error, squares, spread)
                for error, squares in sums["tested errors"].tolist()
            )
            found, rich.latest = totals.whole.add(own), rich.scores.add(every)
            if blind.has_learnt:
                blind.latest = blind.scores.add(same)
        # The baselines learn by one row for each label, or for all numbers of a shard.
        y, weight = sums["list tested y"], sums["list tested weight"]
        for one in totals.baselines.values():
            one.learn(CheckedBatch(np.zeros((len(y), 0)), y, weight), self._selector.label_index)
        return found


def _tested(task: Task, test: Task, shard: CheckedBatch) -> Sums:
    """A task of a learner, and a test: the names of its sums have the word "tested"."""
    sums, tested = task(shard), counting(shard)
    if not tested.n_rows:
        return sums
    with np.errstate(all="ignore"):  # what overflows is refused when it is learnt from
        return sums | add_up(map(test, blocks_of(tested)))


def _classes(scorer: Scorer | None, known: Labels, shard: CheckedBatch) -> Sums:
    """How often a class was taken for another, and the weight of each class."""
    assert shard.y is not None
    index, truth = Classes(known).take(shard.y)
    of_class = np.bincount(truth, weight_of(shard), len(index))
    sums: Sums = {"list tested y": index.labels, "list tested weight": of_class}
    if scorer is None:
        return sums
    n, scores = len(known), scorer(shard)
    above = (scores[:, 0] > 0.0) & (n > 1)
    mine, other = scores.argmax(axis=1) if scores.shape[1] > 1 else above.astype(np.intp)
    cells, times = np.unique((truth * n + mine) * n + other, return_counts=True)
    which, *taken = np.unravel_index(cells, (len(index), n, n))
    sums["list tested taken"] = np.stack([*taken, times], axis=1)
    return sums | {"list tested truth": index.labels[which]}


def _numbers(scorer: Scorer | None, unit: Unit, mean: float, shard: CheckedBatch) -> Sums:
    """The sums of numbers and of errors that R2 and the mean absolute error are made of."""
    assert shard.y is not None
    y, weight = as_numbers(shard.y, "a test"), weight_of(shard)
    sums: Sums = {"list tested y": np.array([weight @ y / weight.sum()])}
    sums["list tested weight"] = np.array([weight.sum()])
    if scorer is None:
        return sums
    predictions = [*unit(scorer(shard))[:, 0], np.full(len(y), mean)]
    found = [NumberMoments.of(y, one) for one in predictions]
    own, errors = found[0], np.array([[one.error, one.squares] for one in found])
    moments = np.array([[own.n], [own.mean], [own.spread]])
    return sums | {"moments tested": moments, "tested errors": errors}


# --- the scores of rows ---------------------------------------------------------------------


def row_scores(learner: LinearLearner | BayesLearner, selected: Places, *, sparse: bool) -> Scorer:
    """What scores the rows of a shard by what a learner has learnt so far; it can be pickled."""
    ready = learner.ready_for_sparse() if sparse else learner
    level, width = np.zeros(ready.n_rows), 0.0
    if isinstance(ready, LinearLearner):
        mu, sigma = ready.by_class()
        var, width = sigma**2, ready.family.start_width
        own = ready.intercept_mean if ready.fit_intercept else level
        known = ready.target.look(np.zeros(0, dtype=np.intp), np.zeros(0))[1]
        level = level if known is None else known
    else:
        theta, spread = ready.coefficients()
        mu, var, own = theta[:, :-1], spread[:, :-1], theta[:, -1]
    # The selected features, with 0 for the others, and then all.
    every = np.arange(ready.n_features)
    kept = np.stack([np.isin(every, selected), every >= 0])[:, None]
    mu, var = ((kept * part).reshape(-1, len(every)) for part in (mu, var))
    x, own, missing = scale_of(ready, sparse=sparse), np.tile(own, 2), None
    if isinstance(x, CentredScale):  # of rows as they come; a missing entry counts as the centre
        gain, missing = x.half.gain(every), mu * (x.half.pace * x.half.pull(every))
        x = ShardedScale()
        mu, var, own = mu * gain, var * gain**2, own - missing.sum(axis=1)
    return partial(_scores_of_rows, x, mu, var, own, missing, np.tile(level, 2), width)


def _scores_of_rows(
    x: ShardedScale,
    mu: Floats,
    var: Floats,
    own: Floats,
    missing: Floats | None,
    level: Floats,
    width: float,
    shard: CheckedBatch,
) -> Floats:
    """The linear scores of rows by a belief."""
    Z, _ = x.rows(shard, weight_of(shard))
    scores, v = Z.project(mu, var)
    if missing is not None and shard.n_missing:
        scores += (gaps_in(shard.X) @ missing.T).T
    scores += start(width, level[:, None], v)[0]
    found: Floats = (scores + own[:, None]).reshape(2, -1, shard.n_rows)
    return found


def unit_of(learner: LinearLearner | BayesLearner) -> Unit:
    """What the scores of a learner of numbers or counts mean."""
    target = learner.target
    if learner.family.kind == "counts":
        return _rates
    scores = target.scores if isinstance(target, ScoredTarget) else None
    if scores is not None and isinstance(learner, BayesLearner):
        noise, curve = np.full(len(_GRID), learner.noise[0]), cast(Any, np.interp)
        return partial(curve, xp=_GRID, fp=scores.means(_GRID, noise))
    if target.scale is None:
        return Polynomial([0.0, 1.0])
    gain = float(target.scale.gain[0])
    return Polynomial([float(target.scale.shift[0]), 1.0 / gain if gain > 0.0 else 0.0])


def _rates(scores: Floats) -> Floats:
    return np.exp(np.minimum(scores, _MAX_SCORE))
