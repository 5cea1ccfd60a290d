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

import numpy as np

from fires.core.errors import OVERFLOW, InputError
from fires.core.sharding import Rounds, Sums, Task
from fires.core.types import Floats, Ints
from fires.kernels.assimilate import ALONG, NOISE, NOISE_ROWS, ROWS
from fires.kernels.select import top_k
from fires.models.base import Learner, Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.bayes_sums import Point, PointSums, Watched
from fires.models.lbfgs import TOL, Search
from fires.models.linear_learner import LinearLearner
from fires.models.sharded_batch import ShardedBatch, gradient_rounds
from fires.models.sharded_scale import by_column, scale_of
from fires.models.target import BayesTarget

# Rounds of a batch, at most; those for its scale come on top.
MOST_ROUNDS = 12

_CLOSE = 10.0  # if so little is to gain, the next point may well be the last one


def step_rounds(
    learner: Learner,
    rates: Rates,
    watch: Callable[[float, float], bool] | None = None,
    *,
    sparse: bool = False,
) -> Rounds:
    """The step of a linear learner on one batch.

    A task never sees a shard without rows, and its target is class codes or numbers, as a learner
    takes it. If there are new labels, the learner is made to know them first, and its rounds begin
    again. The sums of every
    round also have "batch weight", "batch rows" and, in shard order, "list batch rows". The learner
    changes after the last round only; so on an error, nothing has changed.
    """
    assert isinstance(learner, BayesLearner | LinearLearner)
    if sparse and not learner.takes_sparse:
        raise InputError(
            "these rows are sparse, and those learnt from so far were dense",
            hint="make them dense, or start a new run.",
        )
    if isinstance(learner, BayesLearner):
        return rounds(learner)
    return gradient_rounds(learner, rates, watch, sparse=sparse)


def rounds(learner: BayesLearner) -> Rounds:
    """The Bayesian step on one batch."""
    if learner.sparse is not None and learner.scale == "minmax":
        raise InputError(
            "the Bayesian update cannot bring sparse rows in shards to [0, 1]",
            hint="use scale='standard' or None, or update='gradient'.",
        )
    step = _Step(learner)
    yield from step.begin()
    step.start((yield from step.settled(step.look)))
    while len(step.found) < len(step.searches):  # until each row of parameters is at its end
        step.take((yield step.task()))
    step.move()


class _Step(ShardedBatch[BayesTarget]):
    """The rounds that climb F from the belief before the batch, for all rows of parameters."""

    def __init__(self, learner: BayesLearner) -> None:
        super().__init__(learner.target, scale_of(learner))
        self.learner, rows = learner, np.arange(learner.n_rows)
        self.before = Point(rows, *learner.coefficients(), learner.noise, None)
        self.leading = copy.deepcopy(learner.leading)
        self.found: dict[int, Sums] = {}  # by row of parameters, once it is at its end
        self.n_rounds, self.closing = 1, False
        self.segments: Floats | None = None
        self.touched: Ints | None = None  # the columns that the batch has moved; None for all

    def look(self) -> Task:
        """What the batch shows at the belief before it."""
        learner, target = self.learner, self.target
        level = target.look(np.zeros(0, dtype=np.intp), np.zeros(0))[1]
        if level is not None and learner.fit_intercept and not learner.evidence_rows[0]:
            self.before.theta[:, -1] = level  # that of the first counts
        asks = not learner.evidence_rows.any() and learner.leading.holds_all
        point = self.before._replace(columns=learner.leading.columns if asks else None)
        # Predictions are watched once the target has a scale from before, or if it needs none.
        unscaled = any(one.is_first for one in self.scales[:-1])
        watch = None if unscaled else self._watched(None)
        return PointSums(learner.family, target, self.x, point, watch, is_look=True)

    def _watched(self, usual: Floats | None) -> Watched:
        changes = self.learner.changes
        return Watched(self.before, changes.level, changes.slope_inflation, usual)

    def _gathered(self, sums: Sums) -> Sums:
        """The sums, with slope and bend of all columns."""
        if "list columns" not in sums:
            return sums
        n_lines = len(sums["own slope"])
        self.touched, lines = by_column(sums["list columns"], sums["list parts"])
        parts = np.zeros((2 * n_lines, self.learner.n_features + 1))
        parts[:, self.touched] = lines
        parts[:, -1] = np.concatenate([sums["own slope"], sums["own bend"]])
        return sums | {"slope": parts[:n_lines], "bend": parts[n_lines:]}

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
        prior = np.minimum(before.var / self.kept, most)
        places = np.append(learner.leading.columns, learner.n_features)
        known = looked.get("information", learner.leading.information)
        self.searches = []
        for k, theta in enumerate(before.theta):
            search = Search(theta, prior[k], self.share)
            search.know(looked["bend"][k], places, known[k])
            search.begin(looked["slope"][k])
            self.searches.append(search)
        self.var = self._variances(looked["bend"])

    def _variances(self, bend: Floats) -> Floats:
        return np.array([s.variances(one) for s, one in zip(self.searches, bend, strict=True)])

    def task(self) -> Task:
        """Look at the next points."""
        self.n_rounds += 1
        last = self.n_rounds >= MOST_ROUNDS
        close = all(search.gain <= _CLOSE for search in self.searches)
        if not self.closing and (last or close):
            self.closing = True
            self._choose_leading()
        self.asked = [
            k
            for k, search in enumerate(self.searches)
            if k not in self.found and (self.closing or search.gain > _CLOSE)
        ]
        wanted = [self.searches[k] for k in self.asked]
        if last:
            for search in wanted:
                search.stay()
        rows, theta = np.array(self.asked), np.array([search.trial for search in wanted])
        columns = self.leading.columns if self.closing else None
        point = Point(rows, theta, self.var[rows], self.before.noise[rows], columns)
        usual = self._usual() if self.closing else None
        watch, facts = None if usual is None else self._watched(usual), self.learner.family
        return PointSums(facts, self.target, self.x, point, watch, is_look=False)

    def take(self, sums: Sums) -> None:
        """Take in what shards say of these points."""
        sums, last = self._gathered(sums), self.n_rounds >= MOST_ROUNDS
        for i, k in enumerate(self.asked):
            one = {name: sums[name][i] for name in _OF_POINT if name in sums}
            search = self.searches[k]
            better = search.take(float(one["fit"]), one["slope"])
            if self.closing and ((better and search.gain <= TOL) or last):
                self.found[k] = one | {"theta": search.best_theta}
        self.segments = sums.get("list segments", self.segments)

    def _usual(self) -> Floats | None:
        """The usual increment in the middle of the batch, if there may be an alarm."""
        alarm = self.learner.changes.alarm
        early = (alarm.rows < alarm.warm_up).all()
        if "watched" not in self.looked or self.segments is not None or early:
            return None
        return alarm.usual_after(self.looked["watched"][0] / self.total, 0.5 * self.total)

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
            squares = before[:, None] * found["bend"]  # of the columns
            unsure = (self.var * squares).sum(axis=1)
            facts[:, NOISE] = kept * facts[:, NOISE] + share * (found["error"] + unsure)
            facts[:, NOISE_ROWS] = kept * facts[:, NOISE_ROWS] + share * total
            # What a row says is in units of the noise, which is known better now.
            scale = before * facts[:, NOISE_ROWS] / facts[:, NOISE]
        var, weight = self._variances(scale[:, None] * found["bend"]), share * scale
        information = weight[:, None, None] * found["information"]
        pull = weight[:, None] * found["pull"]
        if not all(
            np.isfinite(one).all() for one in (found["theta"], var, facts, information, pull)
        ):
            raise ValueError(OVERFLOW)
        greatest, evidence = None, learner.evidence_rows
        learner.facts = facts
        learner.renew(found["theta"], var)
        learner.evidence_rows = evidence + total
        units = learner.units()
        self.learn(self.looked)
        learner.leading = self.leading
        learner.leading.add_sums(information, pull, kept)
        learner.express(units)
        if "watched" in self.looked:
            greatest = self._take_changes(evidence)
        n_rows = float(self.looked["batch rows"])
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
        if columns is not None:
            columns = columns[columns < learner.n_features]
        sums = pair[:, :, slice(-1) if columns is None else columns]
        changes.tests.fade(total)
        changes.tests.add(columns, *(sums / changes.tests.powers))
        changes.tests.shared += np.stack([pair[:, :, -1], along], axis=2) / changes.tests.powers
        changes.level.learn(np.stack([added, positive]), total)
        return changes.alarm.take(self.segments, more / total, total, evidence)


_OF_POINT = ("fit", "slope", "bend", "information", "pull", "along", "error")
