r"""The Bayesian step on a batch in several shards: recursive Laplace.

Bayes' rule row by row needs one row after the other. Over shards, a batch is taken at once. Its
prior is the belief so far, faded by the weight :math:`W` of the batch. Its posterior mean is the
maximum of

.. math::
    F(\theta) = \gamma^{W/2} \sum_b w_b \log Z(\theta^\top z_b, v_b, y_b)
        - \tfrac12 \sum_j (\theta_j - \mu_j)^2 / s_j, \qquad
    s_j = \min(\sigma_j^2 \gamma^{-W}, s_0)

and the variances are those of the diagonal of its bend there,
:math:`1 / (1/s_j + \gamma^{W/2} \sum_b \tau_b z_{bj}^2)`, with the precision :math:`\tau` of a row
as in :mod:`fires.kernels.assimilate`. F is a sum over rows, so the result does not depend on how
they are cut. The rows of a batch count as if all of them stood in its middle.

**Rounds.** One looks at the belief so far. The others climb F by L-BFGS, which starts from the
correlations of the leading features that are known from earlier batches. A point is good enough if
another step would move it by a small part of its own uncertainty. The last point also gives the
sums of :mod:`fires.models.covariance`. Two or three rounds are usual for up to 100 features, which
all lead; for more of them, four to eight where they are correlated. Twelve are the most. A first
batch has one more for its scale, and so has a batch with a column that may have moved.

**Changes.** The sum of :class:`fires.drift.SlopeAlarm` goes through the rows in order, by what the
belief before the batch says of them. Scores of coefficients are those of the first round; for them,
the batch is one block of rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from fires.core.batch import CheckedBatch, gaps_in
from fires.core.errors import OVERFLOW, InputError
from fires.core.sharding import Evaluate, Sums, Task, at_columns, columns_of, known_of
from fires.core.types import CsrRows, Floats, Ints, Mask
from fires.drift import segment
from fires.kernels.assimilate import ALONG, LEAST, NOISE, NOISE_ROWS, ROWS, add_information
from fires.kernels.compiling import compiled_with
from fires.kernels.linear import DenseRows, MixedRows
from fires.kernels.select import top_k
from fires.models.base import Learner, Rates
from fires.models.bayes_changes import Level
from fires.models.bayes_learner import BayesLearner
from fires.models.families import Family
from fires.models.lbfgs import TOL, Search
from fires.models.linear_learner import LinearLearner
from fires.models.sharded_batch import ShardedBatch, Target, gradient_step, target_sums
from fires.models.sharded_scale import ShardedScale

# Rounds of a batch, at most; those for its scale come on top.
MOST_ROUNDS = 12

_CLOSE = 10.0  # if so little is to gain, the next point may well be the last one
moments: Any = None  # the family's log Z, slope and bend; filled in by _every_row


def take_step(
    learner: Learner,
    evaluate: Evaluate,
    rates: Rates,
    watch: Callable[[float, float], bool] | None = None,
    *,
    sparse: bool = False,
) -> None:
    """The step of a linear learner on one batch; what learns is a copy.

    A task never sees a shard without rows, and its target is class codes or numbers, as a learner
    takes it. If there are new labels, ``evaluate`` raises an error of its own in the first round:
    the learner is made to know them, and its step begins again. The sums of every round also have
    "batch weight" and "batch rows".
    """
    assert isinstance(learner, BayesLearner | LinearLearner)
    if sparse and not learner.takes_sparse:
        raise InputError(
            "these rows are sparse, and those learnt from so far were dense",
            hint="make them dense, or start a new run.",
        )
    if isinstance(learner, LinearLearner):
        gradient_step(learner, evaluate, rates, watch, sparse=sparse)
        return
    if learner.sparse is not None and learner.scale == "minmax":
        raise InputError(
            "the Bayesian update cannot bring sparse rows in shards to [0, 1]",
            hint="use scale='standard' or None, or update='gradient'.",
        )
    step = _Step(learner, evaluate)
    step.start(step.settled(step.look))
    step.climb()
    step.move()


# --- what shards do ---------------------------------------------------------------------------


class Point(NamedTuple):
    """Where the likelihood is looked at; each array has a line per row of parameters."""

    theta: Floats  # their coefficients, the intercept last
    var: Floats  # the variances that predictions are made with
    noise: Floats
    columns: Ints | None  # the leading columns, if their sums are asked for


class Watched(NamedTuple):
    """The belief before the batch, what increments of the alarm are made with, the usual one."""

    point: Point
    level: Level
    inflation: Floats
    usual: Floats | None  # None to ask for it


def _point_sums(
    family: Family,
    target: Target,
    x: ShardedScale,
    point: Point,
    watch: Watched | None,  # None where predictions are not watched
    is_look: bool,  # whether what else the batch shows is asked for
    shard: CheckedBatch,
) -> Sums:
    """The sums of one round."""
    weight, y = known_of(shard)
    rows = np.ascontiguousarray(target.look(y, weight)[0])
    Z, show = x.rows(shard, weight)
    now = Z, rows, gaps_in(shard.X) if shard.n_missing else None
    found = _of_point(family, point, *now, weight)
    if is_look:
        found |= target_sums(target, shard) | show()
    if watch is not None:
        with np.errstate(over="ignore", invalid="ignore"):  # such rows are refused
            found |= _of_watch(watch, rows, _seen(family, watch.point, *now), weight)
    return found


_Rows: TypeAlias = DenseRows | MixedRows
_Gaps: TypeAlias = Mask | CsrRows | None


def _predicted(point: Point, Z: _Rows, gaps: _Gaps) -> tuple[Floats, Floats, Floats]:
    """Mean and variance of the predictions of a point, and the variance of missing entries."""
    mu, var = np.ascontiguousarray(point.theta[:, :-1]), np.ascontiguousarray(point.var[:, :-1])
    a, v = Z.project(mu, var)
    missing = np.zeros(a.shape) if gaps is None else (gaps @ (mu * mu + var).T).T
    return a + point.theta[:, -1:], v + point.var[:, -1:], missing


def _of_point(
    family: Family, point: Point, Z: _Rows, y: Floats, gaps: _Gaps, weight: Floats
) -> Sums:
    """What some rows say at a point."""
    a, v, missing = _predicted(point, Z, gaps)
    noisy = family.noise > 0.0
    # Where noise is part of the model, the likelihood is that of a number with this noise.
    variance = (point.noise[:, None] if noisy else v) + missing
    log_z, slope, bend = _moments(family, a, variance, y)
    tau = bend if noisy else bend / np.maximum(1.0 - v * bend, LEAST)
    c, d = weight * slope, weight * tau
    columns, *pair = Z.accumulate(c, d)
    lines: list[Any] = [
        np.column_stack([p, o.sum(axis=1)]) for p, o in zip(pair, (c, d), strict=True)
    ]
    if columns is not None:
        n = point.theta.shape[1]
        lines = [at_columns(np.append(columns, n - 1), one, n) for one in lines]
    sums: Sums = {"fit": (weight * log_z).sum(axis=1), "slope": lines[0], "bend": lines[1]}
    if point.columns is None:
        return sums
    leading = Z.take(point.columns)
    # What a row says of the leading columns, all others being where they are at this point.
    value = point.theta[:, point.columns] @ leading.T + point.theta[:, -1:] + slope / bend
    size = len(point.columns) + 1
    together = np.zeros((len(a), size + 1, size))
    for k in range(len(a)):
        add_information(leading, d[k], value[k], weight, 1.0, together[k])
    sums |= {"information": together[:, :-1], "pull": together[:, -1]}
    sums["along"] = (weight * bend * a * a).sum(axis=1)
    if noisy:
        error = np.minimum((y - a) ** 2, 25.0 * (v + point.noise[:, None]))
        sums["error"] = (weight * error).sum(axis=1)
    return sums


def _seen(family: Family, point: Point, Z: _Rows, y: Floats, gaps: _Gaps) -> Floats:
    """What the features add to the predictions of a belief; log likelihood, slope and bend."""
    a, v, missing = _predicted(point, Z, gaps)
    scores = _moments(family, a, v + missing + point.noise[:, None], y)
    return np.stack([a - point.theta[:, -1:], *scores])


def _of_watch(watch: Watched, y: Floats, seen: Floats, weight: Floats) -> Sums:
    """What the alarm has to know of a shard."""
    added, log_p, slope, bend = seen[0], seen[1], weight * seen[2], weight * seen[3]
    f = added - watch.level.added[:, None]
    more = watch.level.increments(np.stack([y, log_p, f, slope, bend]), watch.inflation)
    if watch.usual is not None:
        return {"list segments": segment(more, weight, watch.usual)[None]}
    along = [more, weight * added, weight * (y > 0.0), f * slope, f * f * bend]
    return {"watched": np.sum(along, axis=2)}


def _moments(family: Family, a: Floats, v: Floats, y: Floats) -> Floats:
    """Log Z, slope and bend of many rows."""
    found = np.empty((3, a.size))
    _loop_of(family)(a.ravel(), v.ravel(), y.ravel(), found)
    return found.reshape(3, *a.shape)


@cache
def _loop_of(family: Family) -> Callable[[Floats, Floats, Floats, Floats], None]:
    name = f"{type(family).__name__.lower()}_every_row"
    return compiled_with(_every_row, name, moments=family.moments)


def _every_row(a: Floats, v: Floats, y: Floats, found: Floats) -> None:
    for i in range(len(a)):
        found[0, i], found[1, i], found[2, i] = moments(a[i], v[i], y[i])


# --- on the driver ---


class _Step(ShardedBatch):
    """The rounds that climb F from the belief before the batch, for all rows of parameters."""

    def __init__(self, learner: BayesLearner, evaluate: Evaluate) -> None:
        super().__init__(learner, evaluate)
        self.learner, self.leading = learner, learner.leading
        self.before = Point(*learner.coefficients(), learner.noise, None)
        self.found: dict[int, Sums] = {}  # by row of parameters, once it is at its end
        self.segments: Floats | None = None
        self.touched: Ints | None = None  # the columns that the batch has moved; None for all

    def look(self) -> Task:
        """What the batch shows at the belief before it."""
        learner = self.learner
        level = self.target.look(np.zeros(0, dtype=np.intp), np.zeros(0))[1]
        if level is not None and learner.fit_intercept and not learner.evidence_rows[0]:
            self.before.theta[:, -1] = level  # that of the first counts
        asks = not learner.evidence_rows.any() and learner.leading.holds_all
        point = self.before._replace(columns=learner.leading.columns if asks else None)
        # Predictions are watched once the target has a scale from before, or if it needs none.
        unscaled = any(one.is_first for one in self.scales[:-1])
        watch = None if unscaled else self._watched(None)
        return self._task(point, watch, True)

    def _task(self, point: Point, watch: Watched | None, is_look: bool) -> Task:
        facts = self.learner.family, self.target, self.x
        return partial(_point_sums, *facts, point, watch, is_look)

    def _watched(self, usual: Floats | None) -> Watched:
        changes = self.learner.changes
        return Watched(self.before, changes.level, changes.slope_inflation, usual)

    def _gathered(self, sums: Sums) -> Sums:
        """The sums, with slope and bend of all columns."""
        if sp.issparse(sums["bend"]):
            columns = columns_of(sums["bend"])[0]
            self.touched = columns[columns < self.learner.n_features]
            sums = sums | {name: sums[name].toarray() for name in ("slope", "bend")}
        return sums

    def start(self, sums: Sums) -> None:
        """Begin to climb from what the batch shows."""
        learner, before = self.learner, self.before
        self.looked = looked = self._gathered(sums)
        self.total = float(looked["batch weight"])
        self.kept = learner.gamma**self.total  # the share of its evidence that the belief keeps
        self.share = learner.gamma ** (0.5 * self.total)  # what a row of the batch counts
        if not np.isfinite(looked["bend"]).all():
            raise ValueError(OVERFLOW)
        most = np.full(before.var.shape, learner.prior)
        most[:, -1] = learner.own_prior
        self.prior = np.minimum(before.var / self.kept, most)
        places = np.append(learner.leading.columns, learner.n_features)
        known = looked.get("information", learner.leading.information)
        self.searches = []
        for k, theta in enumerate(before.theta):
            pair = looked["bend"][k], looked["slope"][k]
            self.searches.append(Search(theta, self.prior[k], self.share, *pair))
            self.searches[k].begin(places, known[k])
        self.var = self._variances(looked["bend"])

    def _variances(self, bend: Floats) -> Floats:
        with np.errstate(divide="ignore"):  # without a prior, there is no variance
            return np.asarray(1.0 / (1.0 / self.prior + self.share * bend))

    def climb(self) -> None:
        """Look at one point after the other, until each row of parameters is at its end."""
        n_rounds, closing, noise = 1, False, self.before.noise
        while len(self.found) < len(self.searches):
            n_rounds += 1
            last = n_rounds >= MOST_ROUNDS
            if not closing and (last or all(search.gain <= _CLOSE for search in self.searches)):
                closing = True
                self._choose_leading()
            for search in self.searches if last else ():
                search.stay()
            theta = np.array([search.trial for search in self.searches])
            point = Point(theta, self.var, noise, self.leading.columns if closing else None)
            watch = self._watched_again() if closing else None
            sums = self._gathered(self.evaluate(self._task(point, watch, False)))
            for k, search in enumerate(self.searches):
                if k not in self.found:
                    one = {name: sums[name][k] for name in _OF_POINT if name in sums}
                    better = search.take(float(one["fit"]), one["slope"])
                    if closing and ((better and search.gain <= TOL) or last):
                        self.found[k] = one | {"theta": search.best_theta}
            self.segments = sums.get("list segments", self.segments)

    def _watched_again(self) -> Watched | None:
        """With the usual increment in the middle of the batch, if there may be an alarm."""
        alarm = self.learner.changes.alarm
        early = (alarm.rows < alarm.warm_up).all()
        if "watched" not in self.looked or self.segments is not None or early:
            return None
        mean = self.looked["watched"][0] / self.total
        return self._watched(alarm.usual_after(mean, 0.5 * self.total))

    def _choose_leading(self) -> None:
        """Let the best features lead, before the sums over the batch are made."""
        learner, leading, before = self.learner, self.leading, self.before
        leading.waited += float(self.looked["batch rows"])
        n_rows = float(learner.evidence_rows.min()) + self.total
        is_first = not learner.evidence_rows.any()
        if leading.holds_all or not (is_first or leading.is_due(n_rows)):
            return
        after = copy.copy(learner)
        after.mu = np.array([search.trial[:-1] for search in self.searches])
        after.var, after.sparse = self.var[:, :-1], None

        def belief(columns: Ints) -> tuple[Floats, Floats]:
            return before.theta[:, columns], before.var[:, columns]

        scores = after._of_groups(after.scores())
        if is_first:  # none has led on merit yet
            leading.lead(top_k(scores, len(leading.columns)))
        leading.follow(scores, belief, learner.prior)

    def move(self) -> None:
        """Move the belief and all that goes with it, once nothing can fail any more."""
        learner, kept, share, total = self.learner, self.kept, self.share, self.total
        ends = [self.found[k] for k in range(learner.n_rows)]
        found = {name: np.array([end[name] for end in ends]) for name in ends[0]}
        facts = learner.facts.copy()
        facts[:, ROWS] += total
        facts[:, ALONG] = kept * facts[:, ALONG] + share * found["along"]
        scale = np.ones(learner.n_rows)
        if learner.family.noise > 0.0:
            before = self.before.noise
            unsure = (self.var * before[:, None] * found["bend"]).sum(axis=1)
            facts[:, NOISE] = kept * facts[:, NOISE] + share * (found["error"] + unsure)
            facts[:, NOISE_ROWS] = kept * facts[:, NOISE_ROWS] + share * total
            # What a row says is in units of the noise, which is known better now.
            scale = before * facts[:, NOISE_ROWS] / facts[:, NOISE]
        var, weight = self._variances(scale[:, None] * found["bend"]), share * scale
        information = weight[:, None, None] * found["information"]
        pull = weight[:, None] * found["pull"]
        checked = found["theta"], var, facts, information, pull
        if not all(np.isfinite(one).all() for one in checked):
            raise ValueError(OVERFLOW)
        evidence, n_rows = learner.evidence_rows, float(self.looked["batch rows"])
        learner.facts = facts
        learner.renew(found["theta"], var)
        learner.evidence_rows = evidence + total
        units = learner.units()
        self.learn(self.looked)
        learner.leading.add_sums(information, pull, kept)
        learner.express(units)
        greatest = self._take_changes(evidence) if "watched" in self.looked else None
        sums = greatest if learner.watches else None
        learner.end_rounds(sums, evidence, n_rows, self.touched)

    def _take_changes(self, evidence: Floats) -> Floats:
        """Take in the scores of the batch; the greatest sums of the alarm."""
        learner, total = self.learner, self.total
        changes, leading = learner.changes, learner.leading.columns
        more, added, positive, *along = self.looked["watched"]
        # The belief does not move within the batch: how uncertain it is comes on top.
        seen = self.looked["bend"]
        pair = np.stack([self.looked["slope"], seen * (1.0 + seen * self.before.var)])
        blocks = np.concatenate([pair[:, :, leading], np.stack(along)[:, :, None]], axis=2)
        changes.inflation.add(leading, blocks, float(self.looked["batch rows"]), learner.gamma)
        columns = self.touched
        sums = pair[:, :, slice(-1) if columns is None else columns]
        changes.tests.fade(total)
        changes.tests.add(columns, *(sums / changes.tests.powers))
        changes.tests.shared += np.stack([pair[:, :, -1], along], axis=2) / changes.tests.powers
        changes.level.learn(np.stack([added, positive]), total)
        return changes.alarm.take(self.segments, more / total, total, evidence)


_OF_POINT = ("fit", "slope", "bend", "information", "pull", "along", "error")
