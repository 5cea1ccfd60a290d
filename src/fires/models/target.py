"""The target in the form a linear model takes, and the level that predictions start from."""

from __future__ import annotations

import copy
from typing import ClassVar, TypeAlias

import numpy as np
from scipy.special import ndtr, ndtri

from fires.core.declared import Array, Declared, collect, restore
from fires.core.errors import TargetError
from fires.core.state import Arrays, part_of, under
from fires.core.types import Floats
from fires.models.base import Values
from fires.models.families import Family
from fires.models.scale import Standard

# The last numbers seen, by which others become scores.
KEPT = 2000


class NormalScores:
    r"""Numbers by rank among the numbers before them; the first batch by itself.

    .. math:: s = \Phi^{-1}\bigl(F(y)\bigr)

    where F is the share of the last numbers seen that are below y (ties count half). For a normal y
    that is the standardised y. For a skewed or heavy-tailed one, a linear model of s still finds
    what moves y, and one wild number cannot move s beyond 4.

    Examples
    --------
    >>> scores = NormalScores()
    >>> y = np.array([1.0, 10.0, 100.0])
    >>> scores.of(y).round(2)
    array([-0.67,  0.  ,  0.67])
    >>> scores.learn(y)
    >>> scores.of(np.array([-5.0, 10.0, 1e6])).round(2)
    array([-1.15,  0.  ,  1.15])
    """

    learnt: ClassVar[Declared] = {
        "sample": Array("*"),
        "known": Array("*"),
        "n_fresh": Array(low=0.0),
    }

    def __init__(self) -> None:
        self.sample: Floats = np.empty(0)  # in order of arrival
        self.known: Floats = np.empty(0)  # sorted; a tenth of the sample may be newer
        self.n_fresh = 0.0

    @property
    def ready(self) -> bool:
        """Whether it has seen numbers."""
        return len(self.sample) > 0

    def of(self, y: Floats, weight: Floats | None = None) -> Floats:
        """The scores of numbers."""
        known = self.known if self.ready else np.sort(y if weight is None else y[weight > 0.0])
        n = len(known)
        below = np.searchsorted(known, y, side="left")
        upto = np.searchsorted(known, y, side="right")
        share = (below + upto + 1.0) / (2.0 * (n + 1.0))
        # A first batch may be greater than all that is kept later; its ends are not farther out.
        edge = 0.5 / (min(n, KEPT) + 1.0)
        scores: Floats = ndtri(np.clip(share, edge, 1.0 - edge))
        return scores

    def means(self, scores: Floats, variance: Floats) -> Floats:
        """The mean of the numbers whose scores are about these, with these variances."""
        points, weights = np.polynomial.hermite_e.hermegauss(21)
        shares = ndtr(scores[:, None] + np.sqrt(variance)[:, None] * points)
        n, k = len(self.known), len(self.known) // 500
        # One wild number among the last ones would move the mean of all that are great.
        known = np.clip(self.known, self.known[k], self.known[n - 1 - k])
        values = np.interp(shares, np.arange(1.0, n + 1.0) / (n + 1.0), known)
        means: Floats = values @ (weights / weights.sum())
        return means

    def learn(self, y: Floats) -> None:
        """Remember numbers."""
        self.sample = np.concatenate([self.sample, y])[-KEPT:]
        self.n_fresh += len(y)
        if 10.0 * self.n_fresh > len(self.known):
            self.known, self.n_fresh = np.sort(self.sample), 0.0


class ClassCounts:
    """The weight of the rows of every class so far."""

    def __init__(self, n_classes: int) -> None:
        self.class_weight = np.zeros(n_classes)

    def per_class(self, y: Values, weight: Floats) -> Floats:
        """The weight of the rows of every class in a batch."""
        return np.bincount(y, weight, minlength=len(self.class_weight)).astype(np.float64)

    def seen(self, y: Values, weight: Floats) -> Floats:
        """The weight of every class in the batches before; in the first batch, its own."""
        return self.class_weight if self.class_weight.any() else self.per_class(y, weight)

    def count(self, y: Values, weight: Floats) -> None:
        """Learn from a batch."""
        more = np.bincount(y, weight, minlength=len(self.class_weight))
        self.class_weight = self.class_weight + more

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays."""
        return {"class_weight": self.class_weight}

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError if the arrays do not fit."""
        declared = {"class_weight": Array(len(self.class_weight), low=0.0)}
        restore(self, declared, {}, arrays, {})


class ClassTarget(ClassCounts):
    """Labels as signs, and the running share of every class."""

    scale: Standard | None = None  # of numbers and counts

    def __init__(self, family: Family, n_rows: int, *, levelled: bool) -> None:
        super().__init__(max(n_rows, 2))  # for two classes: negatives, positives
        self.family, self.n_rows, self.levelled = family, n_rows, levelled

    def look(self, y: Values, weight: Floats) -> tuple[Floats, Floats | None]:
        """The target in the form a model takes, and the level that predictions start from."""
        target: Floats = _SIGNS[y][None] if self.n_rows == 1 else signed(y, self.n_rows)
        if not self.levelled:
            return target, None
        return target, self.level_of(self.seen(y, weight).tolist())

    def level_of(self, seen: list[float]) -> Floats:
        """The level that predictions start from, by the weight of the rows of every class."""
        if self.n_rows == 1:
            return np.array([self.family.level_of_share(*seen)])
        total = sum(seen)
        return np.array([self.family.level_of_share(total - one, one) for one in seen])

    def with_rows(self, sources: list[tuple[int, float] | None]) -> ClassTarget:
        """A copy for other rows of parameters."""
        other = copy.copy(self)
        other.n_rows, other.class_weight = len(sources), np.zeros(max(len(sources), 2))
        if len(sources) == 1:
            flipped = sources[0] is not None and sources[0][1] < 0.0
            other.class_weight[:] = self.class_weight[::-1] if flipped else self.class_weight
            return other
        for row, source in enumerate(sources):
            if source is not None:
                old, sign = source
                counted = old if self.n_rows > 1 else int(sign > 0.0)
                other.class_weight[row] = self.class_weight[counted]
        return other


class NumberTarget:
    """Numbers, standardised by the batches before.

    It has the methods of :class:`ClassTarget`.

    Examples
    --------
    >>> target = NumberTarget(scaled=True)
    >>> target.look(np.array([1.0, 3.0]), np.ones(2))
    (array([[-1.,  1.]]), None)
    """

    levelled = False

    def __init__(self, *, scaled: bool) -> None:
        self.scale = Standard(1) if scaled else None

    def look(self, y: Values, weight: Floats) -> tuple[Floats, Floats | None]:
        """See :class:`ClassTarget`."""
        target = _row(y)
        return (target if self.scale is None else self.scale.scaled(target.T, weight)[0].T), None

    def count(self, y: Values, weight: Floats) -> None:
        """See :class:`ClassTarget`."""
        if self.scale is not None:
            self.scale.scaled(_row(y).T, weight)[1]()

    def state(self) -> Arrays:
        """See :class:`ClassTarget`."""
        return {} if self.scale is None else under("scale", self.scale.state())

    def restore(self, arrays: Arrays) -> None:
        """See :class:`ClassTarget`."""
        if self.scale is not None:
            self.scale.restore(part_of("scale", arrays))


_SIGNS: Floats = np.array([-1.0, 1.0])


class CountTarget(NumberTarget):
    """Counts as they are, and their running mean."""

    def __init__(self, *, scaled: bool, levelled: bool) -> None:
        super().__init__(scaled=scaled)
        self.levelled = levelled

    def look(self, y: Values, weight: Floats) -> tuple[Floats, Floats | None]:
        """See :class:`ClassTarget`; ValueError if a count is negative."""
        target, scale = counts(y), self.scale
        if scale is None or not self.levelled:
            return target, None
        if not scale.ready:
            scale = copy.deepcopy(scale)
            scale.scaled(target.T, weight)[1]()
        return target, log_mean(scale.shift, scale.count)


class ScoredTarget:
    """Numbers as normal scores, by the batches before. Same methods as :class:`ClassTarget`."""

    scale: Standard | None = None
    levelled = False

    def __init__(self, *, scaled: bool) -> None:
        self.scores = NormalScores() if scaled else None

    def look(self, y: Values, weight: Floats) -> tuple[Floats, Floats | None]:
        """See :class:`ClassTarget`."""
        return (_row(y) if self.scores is None else self.scores.of(_row(y)[0], weight)[None]), None

    def means(self, a: Floats, variance: Floats) -> Floats:
        """The numbers to expect, by mean and variance of what the model says of them."""
        return a if self.scores is None else self.scores.means(a, variance)

    def count(self, y: Values, weight: Floats) -> None:
        """See :class:`ClassTarget`; rows of weight 0 are left out."""
        if self.scores is not None:
            self.scores.learn(_row(y)[0][weight > 0.0])

    def state(self) -> Arrays:
        """See :class:`ClassTarget`."""
        return {} if self.scores is None else collect(self.scores, NormalScores.learnt)[1]

    def restore(self, arrays: Arrays) -> None:
        """See :class:`ClassTarget`."""
        if self.scores is not None:
            restore(self.scores, NormalScores.learnt, {}, arrays, {})


LinearTarget: TypeAlias = ClassTarget | NumberTarget | CountTarget
BayesTarget: TypeAlias = ClassTarget | CountTarget | ScoredTarget


def bayes_target_of(family: Family, n_rows: int, *, scaled: bool) -> BayesTarget:
    """The target of the Bayesian update: as :func:`target_of`, with normal scores for numbers."""
    if family.kind == "numbers":
        return ScoredTarget(scaled=scaled)
    if family.kind == "classes":
        return ClassTarget(family, n_rows, levelled=False)
    return CountTarget(scaled=True, levelled=True)


def target_of(family: Family, n_rows: int, *, scaled: bool, levelled: bool) -> LinearTarget:
    """The kind of target that a family has."""
    if family.kind == "classes":
        return ClassTarget(family, n_rows, levelled=levelled)
    if family.kind == "counts":
        return CountTarget(scaled=scaled, levelled=levelled)
    return NumberTarget(scaled=scaled)


def log_mean(mean: Floats, n: Floats) -> Floats:
    """The logarithm of the mean count, as if half a count more had been seen at least."""
    return np.log(np.maximum(mean, 0.5 / n))


def counts(y: Values) -> Floats:
    """Counts as an array with one row."""
    target = _row(y)
    if (target < 0.0).any():
        raise TargetError("{y} must not be negative: it is taken for counts.")
    return target


def _row(y: Values) -> Floats:
    """Numbers as an array with one row; a copy, so that it is writable whatever they come from."""
    return np.array(y, dtype=np.float64, ndmin=2)


def signed(codes: Values, n_rows: int) -> Floats:
    """Class codes as -1 and +1: code 1 against 0 in one row, or each class against the rest.

    Examples
    --------
    >>> signed(np.array([0, 1]), 1)
    array([[-1.,  1.]])
    >>> signed(np.array([0, 2]), 3)
    array([[ 1., -1.],
           [-1., -1.],
           [-1.,  1.]])
    """
    if n_rows == 1:
        signs: Floats = _SIGNS[codes]
        return signs[None]
    return np.where(codes == np.arange(n_rows)[:, None], 1.0, -1.0)


def start(width: float, level: Floats, v: Floats) -> tuple[Floats, Floats]:
    r"""The prediction if only the level of the target is known, and its slope in v.

    For the probit it is :math:`a_0 = \Phi^{-1}(\text{share}) \sqrt{1 + v}`: then
    :math:`\mathbb{E}\, \Phi(\theta) = \text{share}` exactly. For the logistic this holds nearly, by
    MacKay's approximation. For counts it is the logarithm of their mean. This is the definition of
    what :func:`fires.kernels.gradient.pull_rows_plain` adds.
    """
    root = np.sqrt(1.0 + width * v)
    return level * root, level * (0.5 * width / root)


# --- for nets and trees, and for alarms -------------------------------------------------------

# The most that a row of a rare class counts. The level takes over what is left of its rarity.
_MAX_COUNT = 100.0
_MIN_SHARE = 1e-6  # the least share, for classes that have not been met


class ClassBalance(ClassCounts):
    r"""Makes every class count as much as the others, however rare it is.

    Let :math:`\pi_k` be the share of class k in the batches before (in the first batch: its own).
    A row of class k counts

    .. math::
        w_k = \min\left(\frac{1}{K \pi_k},\ 100\right)

    times, where K is the number of classes met so far. Without any features, the best prediction
    would then be that class k has a share proportional to :math:`\pi_k w_k`. So the outputs of a
    model are added to the **level** :math:`\log \pi_k w_k`, and outputs of 0 predict just that:
    the features need not explain how rare a class is. Where no class is rarer than 1 in 100 K, all
    levels are equal. A class that has not been met yet has :math:`w_k = 1`.

    Examples
    --------
    >>> balance = ClassBalance(2)
    >>> y = np.array([0, 0, 0, 0, 0, 0, 0, 1])
    >>> balance.shares(y, np.ones(8))
    array([0.875, 0.125])
    >>> balance.look(y, np.ones(8))[0]
    array([0.57142857, 4.        ])
    """

    def shares(self, y: Values, weight: Floats) -> Floats:
        """The share of every class in the batches before."""
        seen = self.seen(y, weight)
        shares: Floats = np.maximum(seen / seen.sum(), _MIN_SHARE)
        return shares

    def look(self, y: Values, weight: Floats) -> tuple[Floats, Floats]:
        """How much a row of each class counts, and the levels that outputs are added to."""
        shares, met = self.shares(y, weight), self.seen(y, weight) > 0.0
        even = np.minimum(1.0 / (met.sum() * shares), _MAX_COUNT)
        counts = np.where(met, even, 1.0)
        return counts, np.log(shares * counts)

    def forget(self, keep: float) -> None:
        """Let the batches so far count less."""
        self.class_weight = keep * self.class_weight

    def with_classes(self, sources: list[int | None]) -> ClassBalance:
        """A copy for other classes."""
        other = copy.copy(self)
        old = self.class_weight
        other.class_weight = np.array([0.0 if s is None else old[s] for s in sources])
        return other


_MIN_PROBABILITY = 1e-6  # so that one row cannot weigh more than all others
_MAX_SQUARE = 16.0  # squared errors count as at most so many variances, for the same reason


def surprise_of_classes(probabilities: Floats, y: Values, weight: Floats) -> tuple[float, float]:
    r"""The log loss of a batch minus its expectation, and the variance of that.

    If a row has class k with probability :math:`p_k`, as the model says, its log loss has the
    expectation :math:`-\sum_k p_k \log p_k` and the variance
    :math:`\sum_k p_k (\log p_k)^2 - (\sum_k p_k \log p_k)^2`.

    Examples
    --------
    >>> even = np.full((2, 1), 0.5)
    >>> surprise_of_classes(even, np.array([1]), np.ones(1))
    (0.0, 0.0)
    >>> sure = np.array([[0.9], [0.1]])
    >>> [round(surprise_of_classes(sure, np.array([y]), np.ones(1))[0], 3) for y in (0, 1)]
    [-0.22, 1.978]
    """
    p = np.clip(probabilities, _MIN_PROBABILITY, 1.0)
    p = p / p.sum(axis=0)
    log_p = np.log(p)
    expected = (p * log_p).sum(axis=0)
    variance = (p * (log_p - expected) ** 2).sum(axis=0)
    surprise = expected - log_p[y, np.arange(len(y))]
    return float(weight @ surprise), float(weight**2 @ variance)


def surprise_of_numbers(squares: Floats, weight: Floats) -> tuple[float, float]:
    r"""The same for numbers whose distribution is normal.

    With the error e and the variance V, the surprise of a row is
    :math:`\tfrac12 (e^2 / V - 1)`, and its variance is 1/2.

    Examples
    --------
    >>> surprise_of_numbers(np.array([1.0, 3.0]), np.ones(2))
    (1.0, 1.0)
    """
    surprise = 0.5 * (np.clip(squares, 0.0, _MAX_SQUARE) - 1.0)
    return float(weight @ surprise), 0.5 * float(weight @ weight)
