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

**Alarm.** The sum of :mod:`fires.drift.likelihood` goes through the rows in order, by what the
belief before the batch says of them.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from fires.core.batch import CheckedBatch
from fires.core.errors import OVERFLOW, InputError
from fires.core.sharding import Rounds, ShardTarget, Sums, Task, add_up
from fires.core.types import Floats, Ints, Labels
from fires.drift.likelihood import increments, segment
from fires.kernels.assimilate import ALONG, LEAST, NOISE, NOISE_ROWS, ROWS
from fires.kernels.compiling import compiled_with
from fires.kernels.information import add_information
from fires.kernels.linear import DenseRows, MixedRows
from fires.models.base import Rates
from fires.models.families import Family
from fires.models.families.base import TINY, LogMarginal
from fires.models.scale import MinMax
from fires.models.sharded_gradient import (
    AskedColumns,
    DenseDriver,
    range_sums,
    rows_at_once,
    scaled_block,
    weight_of,
)
from fires.models.sharded_scale import ScalePlan, mark_of, show
from fires.models.sharded_sparse import MixedPlan, MixedScale, sparse_rows
from fires.models.target import KEPT, BayesTarget, ClassTarget, ScoredTarget

if TYPE_CHECKING:
    from fires.models.bayes_learner import BayesLearner

MOST_ROUNDS = 12
"""Rounds of a batch, at most; those for its scale come on top."""

_TOL = 0.2  # what another step would gain in F, in nats, if a point is good enough
_CLOSE = 10.0  # if so little is to gain, the next point may well be the last one
_MEMORY = 12  # steps that L-BFGS remembers

moments: Any = None  # the family's log Z, slope and bend; filled in by _every_row


def rounds(learner: BayesLearner, target: ShardTarget, *, sparse: bool = False) -> Rounds:
    """The step on one batch: see :mod:`fires.models.sharded`."""
    if sparse and learner.sparse is None:
        raise InputError(
            "these rows are sparse, and those learnt from so far were dense",
            hint="make them dense, or begin anew.",
        )
    if learner.sparse is not None and learner.scale == "minmax":
        raise InputError(
            "the Bayesian update cannot bring sparse rows in shards to [0, 1]",
            hint="use scale='standard' or None, or update='gradient'.",
        )
    driver = _Driver(learner, target) if learner.sparse is None else _SparseDriver(learner, target)
    opening = driver.opening()
    if opening is not None:
        driver.begin((yield opening))
    looked = driver.gathered((yield driver.look()))
    doubts = driver.doubts(looked)
    if doubts is not None and not driver.settle(looked, doubts, (yield doubts)):
        looked = driver.gathered((yield driver.look()))
    climb = _Climb(driver, looked)
    while not climb.is_over:
        climb.take(driver.gathered((yield climb.task())))
    driver.learn(looked, climb)


# --- what shards do -------------------------------------------------------------------------


class _Point(NamedTuple):
    """Where the likelihood is looked at; each array has a line per row of parameters."""

    rows: Ints  # which rows of parameters
    theta: Floats  # their coefficients, the intercept last
    var: Floats  # the variances that predictions are made with
    noise: Floats
    columns: Ints | None  # the leading columns, if their sums are asked for


class _Watch(NamedTuple):
    """The belief before the batch, and the usual increment of the alarm: None to ask for it."""

    point: _Point
    usual: Floats | None


@dataclass(frozen=True, eq=False)
class _Tail:
    """The task of a first batch of numbers: their last ones, too, by which they become scores."""

    task: Task | None
    target: ShardTarget

    def __call__(self, shard: CheckedBatch) -> Sums:
        return ({} if self.task is None else self.task(shard)) | _tail(
            self.target(shard), weight_of(shard)
        )


@dataclass(frozen=True, eq=False)
class _Sums:
    """The sums of one round."""

    target: ShardTarget
    family: Family
    learner_target: BayesTarget
    scale: str | None
    x_plan: ScalePlan | MixedPlan | MinMax | None
    y_plan: ScalePlan | None
    point: _Point
    watch: _Watch | None
    is_look: bool  # whether what else the batch shows is asked for

    def __call__(self, shard: CheckedBatch) -> Sums:
        weight, y = weight_of(shard), self.target(shard)
        rows = self.learner_target.look(y, weight)[0]
        already = shard.scale is not None and shard.scale == self.scale
        plan = None if already else self.x_plan
        shown = plan.empty_shown() if isinstance(plan, ScalePlan) else np.zeros(0)
        of_scale: Sums = {}
        blocks: Iterable[tuple[slice, _Rows]]
        if isinstance(plan, MixedPlan) or (plan is None and sp.issparse(shard.X)):
            whole, of_scale = sparse_rows(plan, shard, weight)
            blocks = [(slice(None), whole)]
        else:
            blocks = _blocks(plan, shard, weight, shown)
        parts, log_p = [], []
        for block, Z in blocks:
            now = Z, np.ascontiguousarray(rows[:, block]), weight[block]
            parts.append(_of_point(self.family, self.point, *now))
            if self.watch is not None:
                log_p.append(_log_p(self.family, self.watch.point, *now))
        sums = add_up(parts)
        if self.watch is not None:
            level = self.learner_target.log_level(rows)
            sums |= _of_watch(np.concatenate(log_p, axis=1), level, weight, self.watch.usual)
        if not self.is_look:
            return sums
        sums |= self._of_target(y, weight) | of_scale
        if isinstance(plan, ScalePlan):
            return sums | show(plan, shown, shard.X, "x")
        return sums | (range_sums(plan, shard, weight) if isinstance(plan, MinMax) else {})

    def _of_target(self, y: Labels, weight: Floats) -> Sums:
        sums: Sums = {"list mark": np.array([mark_of(y)])}
        if isinstance(self.learner_target, ClassTarget):
            sums["class weight"] = self.learner_target.per_class(y, weight)
        elif isinstance(self.learner_target, ScoredTarget):
            sums |= _tail(y, weight)
        if self.y_plan is not None:
            scaled, shown = np.empty((len(y), 1)), self.y_plan.empty_shown()
            numbers = np.asarray(y, dtype=np.float64)[:, None]
            self.y_plan.rescale(numbers, weight, scaled, shown)
            sums |= show(self.y_plan, shown, numbers, "y")
        return sums


def _tail(y: Labels, weight: Floats) -> Sums:
    """The last numbers of a shard; those of all shards hold the last ones of the batch."""
    return {"list y last": np.asarray(y, dtype=np.float64)[weight > 0.0][-KEPT:]}


def _blocks(
    plan: ScalePlan | MinMax | None, shard: CheckedBatch, weight: Floats, shown: Floats
) -> Iterator[tuple[slice, _Rows]]:
    """The rows of a shard on their scale, a few at a time, so that they stay in the cache."""
    n_block = rows_at_once(shard.X.shape[1])
    out = np.empty((min(n_block, shard.n_rows), shard.X.shape[1]))
    for start in range(0, shard.n_rows, n_block):
        block = slice(start, start + n_block)
        yield block, DenseRows(scaled_block(plan, shard, block, weight[block], out, shown))


_Rows: TypeAlias = DenseRows | MixedRows


def _sums_of(Z: _Rows, c: Floats, d: Floats) -> Sums:
    """The sums of rows times c, and of squared rows times d; the intercept's, too."""
    columns, p, q = Z.accumulate(c, d)
    own = c.sum(axis=1), d.sum(axis=1)
    if columns is None:
        return {"slope": np.column_stack([p, own[0]]), "bend": np.column_stack([q, own[1]])}
    sums: Sums = {"own slope": own[0], "own bend": own[1]}
    return sums | {"list columns": columns, "list parts": np.concatenate([p, q]).T}


def _predicted(point: _Point, Z: _Rows) -> tuple[Floats, Floats]:
    """Mean and variance of the predictions of a point."""
    mu, var = np.ascontiguousarray(point.theta[:, :-1]), np.ascontiguousarray(point.var[:, :-1])
    a, v = Z.project(mu, var)
    return a + point.theta[:, -1:], v + point.var[:, -1:]


def _of_point(family: Family, point: _Point, Z: _Rows, y: Floats, weight: Floats) -> Sums:
    """What some rows say at a point."""
    a, v = _predicted(point, Z)
    y, noisy = y[point.rows], family.noise > 0.0
    # Where noise is part of the model, the likelihood is that of a number with this noise.
    variance = np.broadcast_to(point.noise[:, None], v.shape) if noisy else v
    log_z, slope, bend = _moments_of(family)(a, variance, y)
    tau = bend if noisy else bend / np.maximum(1.0 - v * bend, LEAST)
    c, d = weight * slope, weight * tau
    sums: Sums = {"fit": (weight * log_z).sum(axis=1)} | _sums_of(Z, c, d)
    if point.columns is None:
        return sums
    leading = Z.take(point.columns)
    # What a row says of the leading columns, all others being where they are at this point.
    value = point.theta[:, point.columns] @ leading.T + point.theta[:, -1:] + slope / bend
    size = len(point.columns) + 1
    information, pull = np.zeros((len(a), size, size)), np.zeros((len(a), size))
    for k in range(len(a)):
        add_information(leading, d[k], value[k], weight, 1.0, information[k], pull[k])
    sums |= {"information": information, "pull": pull, "along": (weight * bend * a * a).sum(axis=1)}
    if noisy:
        error = np.minimum((y - a) ** 2, 25.0 * (v + point.noise[:, None]))
        sums["error"] = (weight * error).sum(axis=1)
    return sums


def _log_p(family: Family, point: _Point, Z: _Rows, y: Floats, weight: Floats) -> Floats:
    """The log likelihood of some rows by a belief."""
    a, v = _predicted(point, Z)
    log_p: Floats = _moments_of(family)(a, v + point.noise[:, None], y)[0]
    return log_p


def _of_watch(log_p: Floats, level: Floats | None, weight: Floats, usual: Floats | None) -> Sums:
    """What the alarm has to know of a shard."""
    if level is None:
        return {}
    more = increments(log_p, level, weight)
    if usual is None:
        return {"more": (weight * more).sum(axis=1)}
    return {"list segments": segment(more, weight, usual)[None]}


Moments = Callable[[Floats, Floats, Floats], LogMarginal]


@cache
def _moments_of(family: Family) -> Moments:
    """Log Z, slope and bend of many rows: compiled, if the family has compiled moments."""
    if family.moments is None:
        return lambda a, v, y: _plain_moments(family, a, v, y)
    loop = compiled_with(
        _every_row, f"{type(family).__name__.lower()}_every_row", moments=family.moments
    )

    def every_row(a: Floats, v: Floats, y: Floats) -> LogMarginal:
        log_z, slope, bend = np.empty((3, *a.shape))
        loop(a, np.ascontiguousarray(v), y, log_z, slope, bend)
        return log_z, slope, bend

    return every_row


def _every_row(a: Floats, v: Floats, y: Floats, log_z: Floats, slope: Floats, bend: Floats) -> None:
    for k in range(a.shape[0]):
        for b in range(a.shape[1]):
            log_z[k, b], slope[k, b], bend[k, b] = moments(a[k, b], v[k, b], y[k, b])


def _plain_moments(family: Family, a: Floats, v: Floats, y: Floats) -> LogMarginal:
    log_z, slope, slope_v = family.scores(a, v, y)
    return log_z, slope, np.maximum(slope * slope - 2.0 * slope_v, TINY)


# --- what the driver does -------------------------------------------------------------------


class _Driver(DenseDriver):
    """The belief before the batch, scale and target."""

    def __init__(self, learner: BayesLearner, target: ShardTarget) -> None:
        super().__init__(learner, target, Rates(0.0, 0.0))  # type: ignore[arg-type]
        self.bayes = learner
        self.is_fresh = not learner.evidence_rows.any()
        theta, var = learner.coefficients()
        if self.levelled and learner.fit_intercept and not learner.evidence_rows[0]:
            theta[:, -1] = self.level
        facts = learner.facts
        noise = facts[:, NOISE] / facts[:, NOISE_ROWS] if learner.family.noise else facts[:, NOISE]
        self.before = _Point(
            np.arange(learner.n_rows),
            theta,
            var,
            noise,
            None,
        )
        self.learner_target = copy.copy(learner.target)

    touched: Ints | None = None  # the columns that the batch has moved; None for all

    @property
    def shard_plan(self) -> ScalePlan | MixedPlan | MinMax | None:
        """How shards scale their rows."""
        return self.x_plan

    def gathered(self, sums: Sums) -> Sums:
        """The sums, with slope and bend of all columns."""
        return sums

    def opening(self) -> Task | None:
        """The task of the first batch, if this is one."""
        task, numbers = super().opening(), self.learner_target
        if not isinstance(numbers, ScoredTarget) or numbers.scores is None or numbers.scores.ready:
            return task
        return _Tail(task, self.target)

    def begin(self, sums: Sums) -> None:
        """Take scale, level and scores of a first batch from itself."""
        super().begin(sums)
        if self.levelled and self.bayes.fit_intercept and not self.bayes.evidence_rows[0]:
            self.before.theta[:, -1] = self.level
        if "list y last" in sums:
            assert isinstance(self.learner_target, ScoredTarget)
            scores = copy.deepcopy(self.learner_target.scores)
            assert scores is not None
            scores.learn(sums["list y last"])
            self.learner_target.scores = scores

    def look(self) -> Task:
        """What the batch shows at the belief before it."""
        learner = self.bayes
        asks = self.is_fresh and learner.leading.holds_all
        point = self.before._replace(columns=learner.leading.columns if asks else None)
        watch = _Watch(self.before, None) if self.can_watch else None
        return self.sums(point, watch, is_look=True)

    @property
    def can_watch(self) -> bool:
        """Whether there is a level to hold predictions against."""
        target = self.learner_target
        if isinstance(target, ScoredTarget):
            return self.bayes.watches and target.scores is not None
        return self.bayes.watches and (self.y is None or self.y.scale.ready)

    def sums(self, point: _Point, watch: _Watch | None, *, is_look: bool = False) -> Task:
        """The task of one round."""
        learner = self.bayes
        return _Sums(
            self.target,
            learner.family,
            self.learner_target,
            learner.scale,
            self.shard_plan,
            None if self.y is None else self.y.plan,
            point,
            watch,
            is_look,
        )

    def learn(self, looked: Sums, climb: _Climb) -> None:
        """Move the belief and all that goes with it, now that nothing can fail any more."""
        learner, total = self.bayes, climb.total
        belief = climb.belief()
        if not all(np.isfinite(part).all() for part in belief):
            raise ValueError(OVERFLOW)
        theta, var, facts, information, pull = belief
        learner.facts = facts
        learner.renew(theta, var, total)
        learner.evidence_rows = learner.evidence_rows + total
        self.learn_scale(looked, total)
        if isinstance(learner.target, ScoredTarget) and learner.target.scores is not None:
            learner.target.scores.learn(looked["list y last"])
        self.learn_target(looked, total)
        learner.leading = climb.leading
        learner.leading.add_sums(information, pull, climb.kept)
        learner.end_rounds(climb.greatest(), self.touched)


class _SparseDriver(_Driver):
    """The same for sparse rows, whose sums are about the columns that they touch."""

    def __init__(self, learner: BayesLearner, target: ShardTarget) -> None:
        super().__init__(learner, target)
        self.mixed = MixedScale(learner.mixed, is_used=learner.scale is not None)
        self.x = self.mixed.full()

    def opening(self) -> Task | None:
        """The task of the first batch, if this is one."""
        task = super().opening()
        return self.mixed.opening(task)

    def _first_scale(self) -> None:
        return None  # the opening of the sparse scale asks for it

    def _begin_scale(self, sums: Sums) -> None:
        self.mixed.begin(sums)
        self.x = self.mixed.full()

    @property
    def shard_plan(self) -> MixedPlan | None:
        """How shards scale their rows."""
        return self.mixed.plan(self.x)

    def doubts(self, sums: Sums) -> AskedColumns | None:
        """What to ask, if columns may have moved."""
        return self.mixed.doubts(super().doubts(sums))

    def learn_scale(self, sums: Sums, total: float) -> None:
        """Learn the scale of the columns."""
        super().learn_scale(sums, total)
        self.mixed.learn(sums)
        self.bayes.mixed = self.mixed.mixed

    def gathered(self, sums: Sums) -> Sums:
        """The sums, with slope and bend of all columns."""
        n_lines, columns = len(sums["own slope"]), sums["list columns"]
        parts = np.zeros((2 * n_lines, self.bayes.n_features + 1))
        for line, values in zip(parts, sums["list parts"].T, strict=True):
            line[:-1] = np.bincount(columns, values, self.bayes.n_features)
        parts[:, -1] = np.concatenate([sums["own slope"], sums["own bend"]])
        self.touched = np.flatnonzero(np.bincount(columns))
        return sums | {"slope": parts[:n_lines], "bend": parts[n_lines:]}


class _Climb:
    """The rounds that climb F, for all rows of parameters at once."""

    def __init__(self, driver: _Driver, looked: Sums) -> None:
        learner, before = driver.bayes, driver.before
        self.driver, self.looked = driver, looked
        self.total, self.evidence = float(looked["batch weight"]), learner.evidence_rows
        self.kept = learner.gamma**self.total  # the share of its evidence that the belief keeps
        self.share = learner.gamma ** (0.5 * self.total)  # what a row of the batch counts
        most = np.full(before.var.shape, learner.prior)
        most[:, -1] = learner.own_prior
        self.prior = np.minimum(before.var / self.kept, most)
        if not np.isfinite(looked["bend"]).all():
            raise ValueError(OVERFLOW)
        self.searches = [self._search(k) for k in range(learner.n_rows)]
        var = np.array([search.variances(looked["bend"][k]) for k, search in self.numbered()])
        self.point = before._replace(var=var)
        self.leading = copy.deepcopy(learner.leading)
        self.found: dict[int, Sums] = {}  # by row of parameters, once it is at its end
        self.n_rounds, self.closing = 1, False
        self.segments: Floats | None = None

    def numbered(self) -> list[tuple[int, _Search]]:
        return list(enumerate(self.searches))

    def _search(self, k: int) -> _Search:
        learner, looked = self.driver.bayes, self.looked
        information = looked["information"][k] if "information" in looked else None
        if information is None:
            information = learner.leading.information[k]
        places = np.append(learner.leading.columns, learner.n_features)
        search = _Search(self.driver.before.theta[k], self.prior[k], self.share)
        search.know(looked["bend"][k], places, information)
        search.begin(looked["slope"][k])
        return search

    @property
    def is_over(self) -> bool:
        """Whether every row of parameters is at its end."""
        return len(self.found) == len(self.searches)

    def task(self) -> Task:
        """Look at the next points."""
        self.n_rounds += 1
        last = self.n_rounds >= MOST_ROUNDS
        close = all(search.gain <= _CLOSE for search in self.searches)
        if not self.closing and (last or close):
            self.closing = True
            self._choose_leading()
        wanted = [k for k, search in self.numbered() if k not in self.found]
        if not self.closing:
            wanted = [k for k in wanted if self.searches[k].gain > _CLOSE]
        if last:
            for k in wanted:
                self.searches[k].stay()
        rows = np.array(wanted)
        theta = np.array([self.searches[k].trial for k in wanted])
        columns = self.leading.columns if self.closing else None
        point = _Point(rows, theta, self.point.var[rows], self.point.noise[rows], columns)
        self.asked = rows
        usual = self._usual() if self.closing else None
        watch = None if usual is None else _Watch(self.driver.before, usual)
        return self.driver.sums(point, watch)

    def take(self, sums: Sums) -> None:
        """Take in what shards say of these points."""
        for i, k in enumerate(self.asked.tolist()):
            one = {name: sums[name][i] for name in _OF_POINT if name in sums}
            search = self.searches[k]
            better = search.take(float(one["fit"]), one["slope"])
            last = self.n_rounds >= MOST_ROUNDS
            if self.closing and ((better and search.gain <= _TOL) or last):
                self.found[k] = one | {"theta": search.best_theta}
        self.segments = sums.get("list segments", self.segments)

    def _usual(self) -> Floats | None:
        """The usual increment in the middle of the batch, if there may be an alarm."""
        alarm = self.driver.bayes.alarm
        early = (alarm.rows < alarm.warm_up).all()
        if "more" not in self.looked or self.segments is not None or early:
            return None
        return alarm.usual_after(self.looked["more"] / self.total, 0.5 * self.total)

    def _choose_leading(self) -> None:
        """Let the best features lead, before the sums over the batch are made."""
        learner, leading = self.driver.bayes, self.leading
        leading.waited += float(self.looked["batch rows"])
        if leading.holds_all or not leading.is_due:
            return
        after = copy.copy(learner)
        after.mu = np.array([search.trial[:-1] for search in self.searches])
        after.var, after.sparse, after._unclear = self.point.var[:, :-1], None, None
        before = self.driver.before
        leading.follow(after.scores(), before.theta[:, :-1], before.var[:, :-1], learner.prior)

    def belief(self) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Coefficients, variances and facts after the batch; the sums of the leading columns."""
        learner, kept, share = self.driver.bayes, self.kept, self.share
        ends = [self.found[k] for k, _ in self.numbered()]
        found = {name: np.array([end[name] for end in ends]) for name in ends[0]}
        facts = learner.facts.copy()
        facts[:, ROWS] += self.total
        facts[:, ALONG] = kept * facts[:, ALONG] + share * found["along"]
        scale = np.ones(learner.n_rows)
        if learner.family.noise > 0.0:
            before = self.point.noise
            squares = before[:, None] * found["bend"]  # of the columns
            unsure = (self.point.var * squares).sum(axis=1)
            facts[:, NOISE] = kept * facts[:, NOISE] + share * (found["error"] + unsure)
            facts[:, NOISE_ROWS] = kept * facts[:, NOISE_ROWS] + share * self.total
            # What a row says is in units of the noise, which is known better now.
            scale = before * facts[:, NOISE_ROWS] / facts[:, NOISE]
        var = np.array([s.variances(scale[k] * found["bend"][k]) for k, s in self.numbered()])
        weight = share * scale
        information = weight[:, None, None] * found["information"]
        return found["theta"], var, facts, information, weight[:, None] * found["pull"]

    def greatest(self) -> Floats | None:
        """The greatest sums of the alarm within the batch, if it is watched."""
        learner = self.driver.bayes
        if "more" not in self.looked:
            return None
        mean = self.looked["more"] / self.total
        return learner.alarm.take(self.segments, mean, self.total, self.evidence)


_OF_POINT = ("fit", "slope", "bend", "information", "pull", "along", "error")


class _Search:
    """L-BFGS for one row of parameters. It climbs, and it stays finite.

    F is concave, so what every point shows of its bend is true, whether it was better or not.
    """

    def __init__(self, start: Floats, prior: Floats, share: float) -> None:
        self.start, self.share = start, share
        self.free = prior > 0.0
        self.precision = 1.0 / np.where(self.free, prior, 1.0)
        self.best_theta, self.best, self.slope = start, -np.inf, np.zeros_like(start)
        self.steps: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)

    def variances(self, bend: Floats) -> Floats:
        """The variances if the rows bend the likelihood so much."""
        return np.where(self.free, 1.0 / (self.precision + self.share * bend), 0.0)

    def know(self, bend: Floats, places: Ints, information: Floats) -> None:
        """Take note of how F bends: on the diagonal, and by correlations in some places."""
        self.diagonal = self.precision + self.share * bend
        self.places = places
        root = np.sqrt(np.diagonal(information))
        unit = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0.0)
        alike = information * unit[:, None] * unit
        np.fill_diagonal(alike, 1.0)
        size = np.sqrt(self.share * bend[places])
        block = alike * size[:, None] * size
        block[np.diag_indices(len(block))] += self.precision[places]
        self.factor = cho_factor(block)

    def begin(self, slope: Floats) -> None:
        """The first step, by what the likelihood says at the start."""
        self.slope = np.where(self.free, self.share * slope, 0.0)
        self._plan()

    def stay(self) -> None:
        """Look at the best point again, if there is one."""
        if np.isfinite(self.best):
            self.trial = self.best_theta

    def take(self, fit: float, slope: Floats) -> bool:
        """Take in what the likelihood says at the trial; returns whether it is the best so far."""
        theta, delta = self.trial, self.trial - self.start
        value = self.share * fit - 0.5 * float((self.precision * delta) @ delta)
        slope = np.where(self.free, self.share * slope - self.precision * delta, 0.0)
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            self.trial = self.best_theta + (theta - self.best_theta) / 16.0
            return False
        step, change = theta - self.best_theta, self.slope - slope
        along = float(step @ change)
        if along > 0.0:
            self.steps.append((step, change, along))
        better = value >= self.best - 0.01 * _TOL
        if better:
            self.best_theta, self.best, self.slope = theta, value, slope
        self._plan()
        return better

    def _plan(self) -> None:
        """Plan the next point, and what it should gain."""
        ahead = self._uphill(self.slope)
        self.gain = float(self.slope @ ahead)
        self.trial = self.best_theta + ahead

    def _solve(self, slope: Floats) -> Floats:
        """The step by what is known of the bend of F from the start."""
        ahead = slope / self.diagonal
        ahead[self.places] = cho_solve(self.factor, slope[self.places])
        return ahead

    def _uphill(self, slope: Floats) -> Floats:
        """The step that a slope calls for: L-BFGS in two loops."""
        slope, shares = slope.copy(), []
        for step, change, along in reversed(self.steps):
            shares.append(float(step @ slope) / along)
            slope -= shares[-1] * change
        ahead = self._solve(slope)
        if self.steps:  # columns with much in common bend F more than each of them for itself
            _, change, along = self.steps[-1]
            ahead *= min(along / float(change @ self._solve(change)), 1.0)
        for (step, change, along), part in zip(self.steps, reversed(shares), strict=True):
            ahead += (part - float(change @ ahead) / along) * step
        return ahead
