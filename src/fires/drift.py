"""Changes of the world: alarms, for all features together and for single ones."""

from __future__ import annotations

import copy
import math
from statistics import NormalDist
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from fires.core.declared import Array, Declared
from fires.core.events import DEVIATIONS as _DEVIATIONS
from fires.core.events import LIKELIHOOD_LIMIT as _LIKELIHOOD_LIMIT
from fires.core.events import Event as Event
from fires.core.events import events as events
from fires.core.types import Floats
from fires.kernels.compiling import compiled


class Detector(Protocol):
    """What we use of a drift detector, such as River's."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last value has shown a drift."""

    def update(self, x: float) -> Detector | None:
        """Take in a value."""


class Alarm(NamedTuple):
    """A change of what the features say about the target."""

    row: int
    batch: int
    feature: int | None
    strength: float


def alarms_to_array(alarms: list[Alarm]) -> Floats:
    """Alarms as numbers, for saving."""
    rows = [(*one[:2], -1 if one.feature is None else one.feature, one.strength) for one in alarms]
    return np.array(rows, dtype=np.float64).reshape(len(rows), 4)


def alarms_from_array(numbers: Floats) -> list[Alarm]:
    """The alarms that :func:`alarms_to_array` was given."""
    return [
        Alarm(int(row), int(batch), None if feature < 0 else int(feature), strength)
        for row, batch, feature, strength in numbers.tolist()
    ]


_MANY = 100  # importances; the more beyond that, the further one of them moves by chance
_UNKNOWN = 1e150  # the standard deviation of an importance that nothing is known of
_LEARNT = 0.9  # of the variance of the prior: below, the rows have said something
_SHARE = 0.5  # of its size that an importance must have moved by


class FeatureAlarms:
    """Compare importances with what they were some thousand rows ago.

    One that has moved beyond its uncertainty is an alarm. It must also have moved by half of its
    size: where classes are told without an error, importances go on growing, and that is no change
    of the world. An importance that owes next to nothing to the rows, and all to its prior, says
    nothing about a change: in a million rare columns, that is most of them.

    Examples
    --------
    >>> alarms = FeatureAlarms(every=100)
    >>> alarms.update(np.array([1.0, 0.0]), np.array([0.1, 0.1]))
    {}
    >>> moved = alarms.update(np.array([0.9, 0.8]), np.array([0.1, 0.1]))
    >>> list(moved), round(moved[1], 2)
    ([1], 5.66)
    """

    learnt: ClassVar[Declared] = {
        "mu": Array("*"),
        "sigma": Array("*", low=0.0),
        "rows": Array(low=0.0),
    }

    def __init__(self, every: float) -> None:
        self.every = every
        self.restart()

    def restart(self) -> None:
        """Start again, after an alarm about all features."""
        self.mu: Floats = np.empty(0)
        self.sigma: Floats = np.empty(0)
        self.rows = 0.0

    def restart_features(self, columns: npt.NDArray[np.intp], n_features: int) -> None:
        """Forget what some features were: no change of theirs is an alarm at the next look."""
        if len(self.sigma):
            self.sigma.reshape(-1, n_features)[:, columns] = _UNKNOWN

    def rearranged(self, source: npt.NDArray[np.intp], n_features: int) -> FeatureAlarms:
        """A copy for other features; of new ones nothing is known."""
        other = copy.copy(self)
        if len(self.mu):
            mu = self.mu.reshape(-1, n_features)[:, source]
            sigma = self.sigma.reshape(-1, n_features)[:, source]
            mu[:, source < 0], sigma[:, source < 0] = 0.0, _UNKNOWN
            other.mu, other.sigma = mu.ravel(), sigma.ravel()
        return other

    def is_due(self, n_rows: float) -> bool:
        """Count the rows of a batch; whether it is time to look again."""
        self.rows += n_rows
        return self.rows >= self.every

    def update(
        self, mu: Floats, sigma: Floats, prior: Floats | float = math.inf
    ) -> dict[int, float]:
        """Look at the importances of now."""
        found: dict[int, float] = {}
        sigma = np.where(sigma**2 < _LEARNT * np.square(prior), sigma, _UNKNOWN)
        n_features, mu, sigma = mu.shape[-1], mu.ravel(), sigma.ravel()
        if len(self.mu) == len(mu):
            change = np.abs(mu - self.mu)
            moved = change / np.maximum(np.hypot(sigma, self.sigma), 1e-300)
            moved[change < _SHARE * np.maximum(np.abs(mu), np.abs(self.mu))] = 0.0
            limit = _limit(int(((sigma < _UNKNOWN) & (self.sigma < _UNKNOWN)).sum()))
            moved = moved.reshape(-1, n_features).max(axis=0)
            found = {int(j): float(moved[j]) for j in np.flatnonzero(moved > limit)}
        self.mu, self.sigma, self.rows = mu.copy(), sigma, 0.0
        return found


def _limit(n: int) -> float:
    """The limit for the greatest of n, which is passed by chance as seldom as that for a few."""
    tail = NormalDist().cdf(-_DEVIATIONS) * _MANY
    return _DEVIATIONS if n <= _MANY else -NormalDist().inv_cdf(tail / n)


SHARE = 0.75  # of the model without features in the mixture that is held against the model
MOST = 3.0  # that one row adds, whatever its weight
SLOW = 1e-3  # how fast the usual increment follows


class LikelihoodAlarm:
    r"""Watch the predictions of one or more rows of parameters.

    Let :math:`p` be the probability (density) that the model gave a target before it learnt from
    it, and :math:`p_0` that of a model which knows the level of the target and no features. With
    :math:`q = \tfrac14 p + \tfrac34 p_0`, each row adds :math:`\log q / p` to a sum that is never
    below zero (Page's CUSUM). While the model is right, :math:`q / p` is 1 on average. So on
    average a false alarm comes at most once in :math:`e^{\text{limit}}` rows, whatever the data
    look like (Lorden, 1971). One row adds at most 3: a few outliers do not raise an alarm.

    A model may be wrong all the time, so that the level alone would do better. Then it is measured
    against itself: the usual increment, if it is above zero, is taken off. Then there is no bound.

    Examples
    --------
    >>> alarm, level = LikelihoodAlarm(1, warm_up=100), np.full((1, 200), np.log(0.5))
    >>> alarm.update(np.log(np.full((1, 200), 0.9)), level, np.ones(200))
    array([0.])
    >>> bool(alarm.update(np.log(np.full((1, 200), 0.3)), level, np.ones(200)) > alarm.limit)
    True
    """

    learnt: ClassVar[Declared] = {
        "total": Array("R", low=0.0),
        "usual": Array("R"),
        "rows": Array("R", low=0.0),
    }

    def __init__(self, n_rows: int, *, warm_up: float, limit: float = _LIKELIHOOD_LIMIT) -> None:
        self.warm_up = warm_up
        # With several sums, each may raise a false alarm.
        self.limit = limit + math.log(n_rows)
        self.total, self.usual, self.rows = np.zeros((3, n_rows))

    def update(self, log_p: Floats, log_level: Floats, weight: Floats) -> Floats:
        """Take in the predictions of a batch."""
        greatest = np.empty(len(self.total))
        add_up(
            *(np.ascontiguousarray(log_p), np.ascontiguousarray(log_level), weight, self.warm_up),
            *(self.total, self.usual, self.rows, greatest),
        )
        return greatest

    # --- a batch in several shards ------------------------------------------------------------

    def usual_after(self, mean: Floats, weight: float) -> Floats:
        """The usual increment after some rows, whatever their order."""
        pace = np.maximum(1.0 - (1.0 - SLOW) ** weight, weight / (self.rows + weight))
        return np.asarray(self.usual + (mean - self.usual) * pace)

    def take(
        self, segments: Floats | None, mean: Floats, weight: float, evidence: Floats
    ) -> Floats:
        """Take in a batch that lay in several shards.

        It is as :meth:`update`, with the predictions of the belief before the batch. A belief that
        has seen less than the warm-up does not say what is usual: it is left out. A batch counts
        as a whole or not at all: not, if it begins within the warm-up. And the usual increment
        that is taken off is that of the middle of the batch.
        """
        greatest, knows = self.total.copy(), evidence >= self.warm_up
        counts = knows & (self.rows >= self.warm_up)
        for whole, end, highest, alone in () if segments is None else segments:
            greatest = np.where(counts, np.maximum(greatest, self.total + highest), greatest)
            greatest = np.where(counts, np.maximum(greatest, alone), greatest)
            self.total = np.where(counts, np.maximum(self.total + whole, end), self.total)
        self.usual = np.where(knows, self.usual_after(mean, weight), self.usual)
        self.rows = np.where(knows, self.rows + weight, self.rows)
        return greatest

    def restart(self, row: int) -> None:
        """Start again for one row of parameters, after an alarm."""
        self.total[row] = self.usual[row] = self.rows[row] = 0.0


@compiled
def add_up(
    log_p: Floats,
    log_level: Floats,
    weight: Floats,
    warm_up: float,
    total: Floats,
    usual: Floats,
    rows: Floats,
    greatest: Floats,
) -> None:
    """Page's sum of ``log((1 - share) + share p_0 / p)`` over the rows of a batch, in place."""
    for k in range(len(total)):
        greatest[k] = total[k]
        for b in range(len(weight)):
            w = weight[b]
            if w == 0.0:
                continue
            odds = math.exp(min(log_level[k, b] - log_p[k, b], 50.0))
            more = min(math.log(1.0 - SHARE + SHARE * odds), MOST / w)
            rows[k] += w
            usual[k] += (more - usual[k]) * min(max(SLOW, 1.0 / rows[k]) * w, 1.0)
            if rows[k] > warm_up:
                total[k] = max(total[k] + w * (more - max(usual[k], 0.0)), 0.0)
                greatest[k] = max(greatest[k], total[k])


def increments(log_p: Floats, log_level: Floats, weight: Floats) -> Floats:
    """What each row adds to the sum by unit of weight, before the usual increment is taken off."""
    odds = np.exp(np.minimum(log_level - log_p, 50.0))
    return np.asarray(np.minimum(np.log(1.0 - SHARE + SHARE * odds), MOST / weight))


def segment(more: Floats, weight: Floats, usual: Floats) -> Floats:
    """What some rows in order do to a sum T that is never below zero.

    After them it is max(T + whole, end), and within them at most max(T + highest, alone). So
    segments of rows combine exactly, one after the other.

    Examples
    --------
    >>> segment(np.array([[-1.0, 3.0, -2.0]]), np.ones(3), np.zeros(1)).ravel()
    array([0., 1., 2., 3.])
    """
    path = np.cumsum(weight * (more - np.maximum(usual, 0.0)[:, None]), axis=1)
    lowest = np.minimum(np.minimum.accumulate(path, axis=1), 0.0)
    highest = np.maximum(path.max(axis=1), 0.0)
    return np.stack(
        [path[:, -1], path[:, -1] - lowest[:, -1], highest, (path - lowest).max(axis=1)]
    )


_SLACK, _MAX_STEP, _PACE = 0.5, 4.0, 0.01


class SurpriseAlarm:
    """Watch the surprise of batches.

    The surprise of a batch is its log loss minus what the predictions let one expect, and :math:`z`
    is that divided by its standard deviation under the predictions. A model that is always a little
    surprised is measured against itself: :math:`z` is standardised by its own running mean and
    spread. Page's sum of these, less a slack of 0.5 and at most 4 in one batch, raises the alarm.
    It is for learners that tell only this of a batch, such as nets. Learners that give the
    likelihood of each row use :class:`LikelihoodAlarm`, which sees a change sooner.

    Examples
    --------
    >>> alarm = SurpriseAlarm()
    >>> max(alarm.update(0.0, 1.0) for _ in range(200))
    0.0
    >>> [alarm.update(9.0, 1.0) > alarm.limit for _ in range(5)]
    [False, False, False, False, True]
    """

    learnt: ClassVar[Declared] = {
        "total": Array(low=0.0),
        "mean": Array(),
        "variance": Array(low=0.0),
        "batches": Array(low=0.0),
    }

    def __init__(self, limit: float = 15.0, warm_up: int = 100) -> None:
        self.limit, self.warm_up = limit, warm_up
        self.restart()

    def restart(self) -> None:
        """Start again, after an alarm."""
        self.total, self.mean, self.variance, self.batches = 0.0, 0.0, 1.0, 0.0

    def update(self, surprise: float, variance: float) -> float:
        """Take in a batch."""
        z = surprise / math.sqrt(variance + 1e-9)
        self.batches += 1.0
        young = self.batches <= self.warm_up
        step = min((z - self.mean) / math.sqrt(max(self.variance, 1.0)), _MAX_STEP) - _SLACK
        self.mean += (z - self.mean) * (1.0 / self.batches if young else _PACE)
        excess = (z - self.mean) ** 2 - self.variance
        self.variance += excess * (1.0 / max(self.batches, 5.0) if young else _PACE)
        self.total = 0.0 if young else max(self.total + step, 0.0)
        return self.total
