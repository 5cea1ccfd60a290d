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

**Alarm.** The sum of :class:`fires.drift.LikelihoodAlarm` goes through the rows in order, by what
the belief before the batch says of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import numpy as np

from fires.core.errors import OVERFLOW, InputError
from fires.core.sharding import Rounds, ShardTarget, Sums, Task
from fires.core.types import Floats, Ints
from fires.kernels.assimilate import ALONG, NOISE, NOISE_ROWS, ROWS
from fires.models.base import Learner, Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.bayes_sums import Point, PointSums, Watch
from fires.models.lbfgs import TOL, Search
from fires.models.linear_learner import LinearLearner
from fires.models.sharded_batch import ShardedBatch
from fires.models.sharded_gradient import CentredScale, gradient_rounds
from fires.models.sharded_scale import ShardedMixed, ShardedScale, by_column, dense_scale
from fires.models.target import BayesTarget, ScoredTarget

MOST_ROUNDS = 12
"""Rounds of a batch, at most; those for its scale come on top."""

_CLOSE = 10.0  # if so little is to gain, the next point may well be the last one


def step_rounds(
    learner: Learner,
    target: ShardTarget,
    rates: Rates,
    watch: Callable[[float, float], bool] | None = None,
    *,
    sparse: bool = False,
) -> Rounds:
    """The step of a linear learner on one batch.

    A task never sees a shard without rows, nor one with labels that the learner does not know: if
    there are any, the learner is made to know them, and its rounds begin again. The sums of every
    round also have "batch weight", "batch rows" and, in shard order, "list batch rows". The learner
    changes after the last round only; so on an error, nothing has changed.
    """
    assert isinstance(learner, BayesLearner | LinearLearner)
    if sparse and not learner.takes_sparse:
        raise InputError(
            "these rows are sparse, and those learnt from so far were dense",
            hint="make them dense, or begin anew.",
        )
    if isinstance(learner, BayesLearner):
        return rounds(learner, target)
    return gradient_rounds(learner, target, rates, watch, sparse=sparse)


def rounds(learner: BayesLearner, target: ShardTarget) -> Rounds:
    """The Bayesian step on one batch."""
    if learner.sparse is not None and learner.scale == "minmax":
        raise InputError(
            "the Bayesian update cannot bring sparse rows in shards to [0, 1]",
            hint="use scale='standard' or None, or update='gradient'.",
        )
    driver = _Driver(learner, target)
    yield from driver.begin()
    driver.set_level()
    looked = driver.gathered((yield from driver.settled(driver.look)))
    climb = _Climb(driver, looked)
    while not climb.is_over:
        climb.take(driver.gathered((yield climb.task())))
    driver.move(looked, climb)


def scale_of(learner: LinearLearner | BayesLearner, *, sparse: bool = False) -> ShardedScale:
    """The scale of a learner's rows, as shards know it."""
    if isinstance(learner, LinearLearner):
        return (
            CentredScale(learner)
            if sparse or learner.in_sparse_terms
            else dense_scale(learner.scaler)
        )
    if learner.sparse is None:
        return dense_scale(learner.scaler)
    return ShardedScale(sparse=True) if learner.scale is None else ShardedMixed(learner)


class _Driver(ShardedBatch[BayesTarget]):
    """The belief before the batch, scale and target."""

    def __init__(self, learner: BayesLearner, read: ShardTarget) -> None:
        super().__init__(learner.target, read, scale_of(learner))
        self.bayes = learner
        self.before = Point(np.arange(learner.n_rows), *learner.coefficients(), learner.noise, None)
        self.touched: Ints | None = None  # the columns that the batch has moved; None for all

    def set_level(self) -> None:
        """Let a first batch begin at its level, if it is one of counts."""
        level = self.target.look(np.zeros(0, dtype=np.intp), np.zeros(0))[1]
        if level is not None and self.bayes.fit_intercept and not self.bayes.evidence_rows[0]:
            self.before.theta[:, -1] = level

    def gathered(self, sums: Sums) -> Sums:
        """The sums, with slope and bend of all columns."""
        if "list columns" not in sums:
            return sums
        n_lines = len(sums["own slope"])
        columns, lines = by_column(sums["list columns"], sums["list parts"])
        parts = np.zeros((2 * n_lines, self.bayes.n_features + 1))
        parts[:, columns] = lines
        parts[:, -1] = np.concatenate([sums["own slope"], sums["own bend"]])
        self.touched = columns
        return sums | {"slope": parts[:n_lines], "bend": parts[n_lines:]}

    def look(self) -> Task:
        """What the batch shows at the belief before it."""
        learner = self.bayes
        asks = not learner.evidence_rows.any() and learner.leading.holds_all
        point = self.before._replace(columns=learner.leading.columns if asks else None)
        watch = Watch(self.before, None) if self._can_watch else None
        return self.sums(point, watch, is_look=True)

    @property
    def _can_watch(self) -> bool:
        """Whether there is a level to hold predictions against."""
        scores = not isinstance(self.target, ScoredTarget) or self.target.scores is not None
        return self.bayes.watches and scores and self.is_scaled

    def sums(self, point: Point, watch: Watch | None, *, is_look: bool = False) -> Task:
        """The task of one round."""
        facts = self.read, self.bayes.family, self.target, self.x
        return PointSums(*facts, point, watch, is_look)

    def move(self, looked: Sums, climb: _Climb) -> None:
        """Move the belief and all that goes with it, now that nothing can fail any more."""
        learner, total = self.bayes, climb.total
        belief = climb.belief()
        if not all(np.isfinite(part).all() for part in belief):
            raise ValueError(OVERFLOW)
        theta, var, facts, information, pull = belief
        learner.facts = facts
        learner.renew(theta, var, total)
        learner.evidence_rows = learner.evidence_rows + total
        self.learn(looked)
        learner.leading = climb.leading
        learner.leading.add_sums(information, pull, climb.kept)
        learner.end_rounds(climb.greatest(), self.touched)


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

    def numbered(self) -> list[tuple[int, Search]]:
        return list(enumerate(self.searches))

    def _search(self, k: int) -> Search:
        learner, looked = self.driver.bayes, self.looked
        information = looked["information"][k] if "information" in looked else None
        if information is None:
            information = learner.leading.information[k]
        places = np.append(learner.leading.columns, learner.n_features)
        search = Search(self.driver.before.theta[k], self.prior[k], self.share)
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
        point = Point(rows, theta, self.point.var[rows], self.point.noise[rows], columns)
        self.asked = rows
        usual = self._usual() if self.closing else None
        watch = None if usual is None else Watch(self.driver.before, usual)
        return self.driver.sums(point, watch)

    def take(self, sums: Sums) -> None:
        """Take in what shards say of these points."""
        for i, k in enumerate(self.asked.tolist()):
            one = {name: sums[name][i] for name in _OF_POINT if name in sums}
            search = self.searches[k]
            better = search.take(float(one["fit"]), one["slope"])
            last = self.n_rounds >= MOST_ROUNDS
            if self.closing and ((better and search.gain <= TOL) or last):
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
