"""What shards cost: the sums of one shard against a step of one process, and several cores.

First, on one core: the partial sums that a shard returns against the whole step of the learner on
the same rows, in rows per second. They work on a few rows at a time, which stay in the cache, so
they may well be faster than the step, which writes all scaled rows to memory first.

Then what the test of a batch, by the belief before it, adds to the first task of its step.

Then, by the clock on the wall and so depending on what else the machine does: a batch by
:class:`fires.Sharded` on one core and on two against the selector's own ``partial_fit``.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires import FIRES, Sharded
from fires.core.batch import CheckedBatch
from fires.core.sharding import Shards, Sums, Task
from fires.models.base import Rates
from fires.models.sharded_bayes import take_step
from fires.run.sharded_scoring import ShardedTest
from fires.selectors.sharded import partial_fit_sharded

RATES, SHARE, ROUNDS = Rates(0.01, 0.01), 0.8, 12
Batch = tuple[Any, Any]


class _Enough(Exception):  # noqa: N818 - it is no error
    """A round is over, and no other one is to begin."""


def batch(n_rows: int, n_features: int, model: str = "probit", density: float = 1.0) -> Batch:
    rng = np.random.default_rng(0)
    if density < 1.0:
        X: Any = sp.random_array((n_rows, n_features), density=density, format="csr", rng=rng)
        return X, rng.integers(0, 2, n_rows)
    X = rng.standard_normal((n_rows, n_features))
    score = X[:, 0] - X[:, 1] + 0.5 * rng.standard_normal(n_rows)
    return X, score if model == "gaussian" else (score > 0.0).astype(int)


def sums(n_rows: int, n_features: int, model: str, n_shards: int, density: float = 1.0) -> Row:
    """The step on shards in this process, less the step itself, against one process."""
    X, y = batch(n_rows, n_features, model, density)
    learner: Any = FIRES(10, update="gradient", model=model).partial_fit(X, y)._learner_
    whole = CheckedBatch(X, y)
    shards = Shards.cut(whole, n_shards)

    def once(task: Task) -> Sums:
        shards.evaluate(task)
        raise _Enough

    def first_round(i: int) -> None:
        with suppress(_Enough):
            take_step(learner, once, RATES, sparse=density < 1.0)

    things: dict[str, Callable[[int], object]] = {
        "one process": lambda i: learner.step(whole, y, RATES),
        "shards": first_round,
    }
    one, many = take_turns(things, ROUNDS).values()
    ratio = Ratio.of(one, many)
    stored = f", {density:.1%} filled" if density < 1.0 else ""
    size = f"{n_rows:,} x {n_features:,}{stored}, {n_shards} shards"
    judged = n_rows == 20_000
    asked = (f">= {SHARE:.0%} of the rows/s", ratio.value >= SHARE) if judged else ()
    what = f"{model}: {n_rows / many.min():,.0f} rows/s, one process {n_rows / one.min():,.0f}"
    return Row(what, size, shown(many), ratio, *asked)


def with_test(n_rows: int, n_features: int, update: str, density: float = 1.0) -> Row:
    """The first task of a step with the test of the batch beside it, against the task alone."""
    X, y = batch(n_rows, n_features, density=density)
    sparse, shards = density < 1.0, Shards([CheckedBatch(X, y)])
    selector = FIRES(10, update=update)
    partial_fit_sharded(selector, shards.evaluate, n_features=n_features, sparse=sparse)
    sent: list[Any] = []

    def keep(task: Task) -> Sums:
        sent.append(task)
        return shards.evaluate(task)

    test = ShardedTest(selector, sparse=sparse)
    partial_fit_sharded(selector, test.beside(keep), n_features=n_features, sparse=sparse)
    both = sent[0]
    things = {"alone": lambda i: both.task(shards[0]), "both": lambda i: both(shards[0])}
    alone, beside = take_turns(things, ROUNDS).values()
    stored = f", {density:.1%} filled" if sparse else ""
    size = f"{n_rows:,} x {n_features:,}{stored}, {update}"
    return Row("a task, and the test beside it", size, shown(beside), Ratio.of(beside, alone))


def cores(n_rows: int, n_features: int, update: str, rounds: int) -> list[Row]:
    X, y = batch(n_rows, n_features)
    selectors: dict[str, Any] = {
        "partial_fit": FIRES(10, update=update),
        "Sharded(n_jobs=1)": Sharded(FIRES(10, update=update), 1),
        "Sharded(n_jobs=2)": Sharded(FIRES(10, update=update), 2),
    }
    for selector in selectors.values():
        selector.partial_fit(X, y)
    things = {
        name: (lambda i, selector=selector: selector.partial_fit(X, y))
        for name, selector in selectors.items()
    }
    seconds = take_turns(things, rounds, clock=time.perf_counter)
    size = f"{n_rows:,} x {n_features:,}, {update}"
    alone = seconds["partial_fit"]
    return [Row(name, size, shown(own), Ratio.of(alone, own)) for name, own in seconds.items()]


def main() -> list[Row]:
    rows = [
        sums(20_000, 500, model, n_shards)
        for model in ("probit", "logistic", "gaussian")
        for n_shards in (1, 8)
    ]
    rows += [sums(2_000, 50_000, "probit", n) for n in (1, 8)]
    rows += [sums(20_000, 50_000, "probit", n, density=0.001) for n in (1, 8)]
    show("sharding: time of one process over that of the partial sums, on one core", rows)
    tests = [
        with_test(*size, update, density)
        for update in ("gradient", "bayes")
        for *size, density in ((20_000, 500, 1.0), (2_000, 50_000, 0.01))
    ]
    show("sharding: time of a first task with the test beside it over that of the task", tests)
    several = [
        row
        for update in ("gradient", "bayes")
        for size in ((20_000, 500, 8), (2_000, 50_000, 4), (1_000, 50, 50))
        for row in cores(*size[:2], update, size[2])
    ]
    show("sharding: time of partial_fit over that of Sharded, by the clock on the wall", several)
    return rows + tests + several
