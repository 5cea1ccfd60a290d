"""Changes of the world: alarms, for all features together and for single ones."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from fires.core.declared import Array, Declared, View
from fires.core.events import DEVIATIONS as _DEVIATIONS
from fires.core.events import SLOPE_LIMIT as _SLOPE_LIMIT
from fires.core.events import Event as Event
from fires.core.events import events as events
from fires.core.types import Floats, Ints, Mask, Places
from fires.kernels.assimilate import WINDOW
from fires.kernels.changes import LEAST_INFORMATION, SLOW, find_moves
from fires.kernels.linear import find_places


class Detector(Protocol):
    """What we use of a drift detector, such as River's."""

    @property
    def drift_detected(self) -> bool:
        """Whether the last value has shown a drift."""

    def update(self, x: float) -> Detector | None:
        """Take in a value."""


_NONE: Places = np.empty(0, dtype=np.intp)


class Alarm(NamedTuple):
    """Strong evidence of concept drift, about one feature or all of them."""

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


_MANY = 50  # coefficients; the more beyond that, the further one of them moves by chance
_DOUBT = 1.5  # deviations below an alarm from which on a belief is less certain of a coefficient
_SHARED_DOUBT = 2.0, 3.3  # of the intercept, and of all coefficients together
LEAST_UNIT = 1e-50
_USUAL = 1.25  # squared deviations along all coefficients


# Places of moves that are not of one column: of the intercept, and along all coefficients.
INTERCEPT, SLOPE = -2, -1


class Move(NamedTuple):
    """A coefficient that has moved, or shared ones."""

    row: int  # of parameters
    place: int
    deviations: float
    size: float
    variance: float  # that a belief is to gain
    excess: float  # deviations beyond those of an alarm


class Led(NamedTuple):
    """The leading columns, the means of their coefficients, and their products over all rows."""

    columns: Ints
    mu: Floats
    products: Floats


class ScoreTests:
    r"""One test for each coefficient: has it moved since the belief was formed?

    While a belief is right, the score :math:`u_j = z_j g` of a row, the slope of its log likelihood
    in coefficient j, is 0 on average, given the rows before. With :math:`d = 1 - 1/500`, the sums

    .. math:: S_j \leftarrow d S_j + u_j, \qquad V_j \leftarrow d^2 V_j + u_j^2

    give :math:`T_j = S_j / \sqrt{V_j}`, which is about standard normal then. (For classes and
    counts, a square is at least what the model expects of it.) Rows that depend on each other make
    it wider: it is divided by the root of their inflation (:mod:`fires.models.inflation`), or of
    that which the median over the leading columns shows, if it is greater. Beyond 4.8, coefficient
    j has moved: that is an alarm. The limit is for up to 50 coefficients, and grows with their
    number.

    **Along all coefficients.** Whatever changes the way from the linear predictor to the target,
    such as the level of the target, the share of a class, the volatility of the noise or the link,
    moves scores along the predictor only: by :math:`\operatorname{cov}(z_j, f)` with
    :math:`f = \mu^\top z`. That part of the scores is taken off, and is tested for itself.

    **Slow changes.** From 3.3 on, a belief gains variance: that of the estimated move,
    :math:`\hat\delta_j = S_j / 2 V_j` with variance :math:`1 / 4 V_j`, in proportion to the rows of
    a batch in 500; all of it, together with an alarm. So memory is as short as it has to be, for
    each coefficient. The same holds from 2 on for the intercept, and from 3.3 on along all
    coefficients, of which there is one each. Where these are usually farther behind than chance
    explains, intervals are wider by that: see :meth:`lag`.

    Sums are kept divided by a unit, so that columns without entries need not be touched to fade.
    """

    learnt: ClassVar[Declared] = {
        "total": Array("R", "J"),
        "square": Array("R", "J", low=0.0),
        # Of the intercept, and along all coefficients: totals, then squares.
        "shared": Array(2, "R", 2),
        "usual": Array("R", low=0.0),  # squared deviation along all coefficients
        "unit": Array(low=0.0),
    }

    # Whether nothing is in the sums of sparse columns: these are not filled during the warm-up.
    is_blank = False

    def __init__(self, n_rows: int, n_features: int) -> None:
        self.total, self.square = np.zeros((2, n_rows, n_features))
        self.shared = np.zeros((2, n_rows, 2))
        self.usual, self.unit = np.ones(n_rows), 1.0

    @property
    def powers(self) -> Floats:
        """The unit of totals, and that of squares."""
        return np.array([self.unit, self.unit**2])[:, None, None]

    def decayed(self, weight: float) -> float:
        """The unit after a batch of this weight."""
        return self.unit * math.exp(-weight / WINDOW)

    def fade(self, weight: float) -> None:
        """Let the sums fade by the weight of a batch."""
        self.unit = self.decayed(weight)
        if self.unit < LEAST_UNIT:
            powers, self.unit = self.powers, 1.0
            self.total *= powers[0]
            self.square *= powers[1]
            self.shared *= powers

    def add(self, columns: Places | None, total: Floats, square: Floats) -> None:
        """Add the scores of a batch, in units: of some columns or, with None, all."""
        places = slice(None) if columns is None else columns
        self.total[:, places] += total
        self.square[:, places] += square
        self.is_blank = False

    def moved(
        self, inflation: Floats, n_rows: float, n_tests: int, columns: Places | None, led: Led
    ) -> list[Move]:
        """What has moved, of shared coefficients and of those of some columns or, with None, all.

        A column whose move is an alarm starts again.
        """
        some, n, where = _NONE, self.total.shape[1], led.columns
        if columns is not None:
            at, here = find_places(columns, led.columns)
            some, n, where = columns, len(columns), np.where(here, at, -1)
        limits, least = limits_of(n_tests), self.least_information(self.unit)
        found = find_moves(
            *(self.total, self.square, self.shared, self.usual, least, inflation, n_rows),
            *(limits, some, n, led.columns, where, np.ascontiguousarray(led.mu), led.products),
        )
        return self.noted(found, limits, n_rows) if len(found) else []

    @staticmethod
    def least_information(unit: float) -> float:
        """The information along all coefficients, in this unit, from which on it says something."""
        return LEAST_INFORMATION * WINDOW / unit**2

    def noted(self, found: Floats, limits: Floats, n_rows: float) -> list[Move]:
        """Moves, by what :func:`fires.kernels.changes.find_moves` has found."""
        row, place, total, square, wide = found[np.argsort(found[:, 1] >= 0.0, kind="stable")].T
        far = np.abs(total) / np.sqrt(square * wide)
        excess = far - limits[np.minimum(place, 0.0).astype(int)] - _DOUBT
        # Where one coefficient has moved for certain, others have moved as likely as not.
        share = np.full(len(found), min(n_rows / WINDOW, 1.0))
        for alike in (place < 0.0, place >= 0.0):
            share[alike] = 1.0 if (excess[alike] > 0.0).any() else share[alike]
        size = share * total / (2.0 * square * self.unit)
        variance = share * wide * (far * far - 1.0) / (4.0 * square * self.unit**2)
        where = row.astype(int).tolist(), place.astype(int).tolist()
        moves = list(map(Move, *where, *map(np.ndarray.tolist, (far, size, variance, excess))))
        for move in moves:
            if move.place >= 0 and move.excess > 0.0:
                self.total[move.row, move.place] = self.square[move.row, move.place] = 0.0
        return moves

    @property
    def information(self) -> Floats:
        """What a row says about all coefficients together, on average."""
        return np.asarray(self.shared[1, :, 1] * self.unit**2 / WINDOW)

    def lag(self, inflation: Floats) -> Floats:
        """How far, as a variance, coefficients are usually behind, all together and relatively."""
        information = self.information
        seen, known = 4.0 * information * WINDOW, information > LEAST_INFORMATION
        behind = np.maximum(self.usual - _USUAL, 0.0) * inflation
        return np.divide(behind, seen, out=np.zeros(len(seen)), where=known)

    def restart(self, row: int | Mask) -> None:
        """Start again for some rows of parameters, such as one after an alarm."""
        self.shared[:, row], self.usual[row] = 0.0, 1.0
        if not self.is_blank:
            self.total[row] = self.square[row] = 0.0

    def restart_features(self, columns: Places) -> None:
        """Forget the scores of some features."""
        self.total[:, columns] = self.square[:, columns] = 0.0


@lru_cache(maxsize=64)
def limits_of(n: int) -> Floats:
    """From which on moves are noted: those of n columns, of the intercept, of the slope.

    The greatest of n is an alarm by chance as seldom as that of a few.
    """
    limit, tail = _DEVIATIONS, NormalDist().cdf(-_DEVIATIONS) * _MANY
    if n > _MANY:
        limit = -NormalDist().inv_cdf(tail / n)
    return np.array([limit - _DOUBT, *_SHARED_DOUBT])


class SlopeAlarm:
    r"""Watch whether the features still predict the target, all together.

    Let :math:`f` be what the features add to a prediction, its distance from the local mean, and
    :math:`u = f g` the slope of the log likelihood of a row along it. While the model is right, u
    is 0 on average. Once the features no longer predict, it is negative. With the bend h of the
    likelihood and the inflation :math:`\varphi` of dependent rows along the predictor, a row adds

    .. math:: -\lambda u - \tfrac12 \lambda^2 \max(u^2, f^2 h), \qquad \lambda = 0.4 / \varphi

    to a sum that is never below zero (Page's CUSUM); for numbers, u is cut off at 2. For symmetric
    noise, the exponential of this is at most 1 on average, whatever the variance of the noise is;
    for the classes of a model that is right, nearly so. Then, on average, a false alarm comes at
    most once in :math:`e^{\text{limit}}` rows (Lorden, 1971). The level of a numeric target and the
    volatility of its noise have no effect.

    **Where one of two classes is rarer than 5 %**, the evidence is where the few rows of it fall.
    With the probability p that the model gave the class of a row, and its local share p_0, a row
    adds :math:`\log (\tfrac14 + \tfrac34 p_0 / p)`, at most 3. A jump of the share may raise an
    alarm then.

    A model may be wrong all the time. Then it is measured against itself: the usual increment, if
    it is above zero, is taken off. Then there is no bound.
    """

    learnt: ClassVar[Declared] = {
        "total": Array("R", low=0.0),
        "usual": Array("R"),
        "rows": Array("R", low=0.0),
    }

    total = View("sums", 0)
    usual = View("sums", 1)
    rows = View("sums", 2)
    greatest = View("sums", 3)  # total within the last batch

    def __init__(self, n_rows: int, *, warm_up: float, limit: float = _SLOPE_LIMIT) -> None:
        self.warm_up = warm_up
        # With several sums, each may raise a false alarm.
        self.limit = limit + math.log(n_rows)
        self.sums = np.zeros((4, n_rows))

    # --- a batch in several shards ------------------------------------------------------------

    def usual_after(self, mean: Floats, weight: float) -> Floats:
        """The usual increment after some rows, whatever their order."""
        pace = np.maximum(1.0 - (1.0 - SLOW) ** weight, weight / (self.rows + weight))
        return np.asarray(self.usual + (mean - self.usual) * pace)

    def take(
        self, segments: Floats | None, mean: Floats, weight: float, evidence: Floats
    ) -> Floats:
        """Take in a batch that lay in several shards.

        It is as row by row, with the predictions of the belief before the batch. A belief that
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


def segment(more: Floats, weight: Floats, usual: Floats) -> Floats:
    """What some rows in order do to a sum T that is never below zero.

    After them it is max(T + whole, end), and within them at most max(T + highest, alone). So
    segments of rows combine exactly, one after the other.

    Examples
    --------
    >>> segment(np.array([[-1.0, 3.0, -2.0]]), np.ones(3), np.zeros(1)).ravel()
    array([0., 1., 2., 3.])
    """
    path = np.cumsum(more - weight * np.maximum(usual, 0.0)[:, None], axis=1)
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
    score of each row use :class:`SlopeAlarm`, which sees a change sooner.

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


class ERICS:
    r"""Watch how much information each batch moves through the parameters (Haug, Kasneci, 2020).

    Between the beliefs :math:`P_{i-1}` and :math:`P_i` before and after a batch, the entropy and
    the Kullback-Leibler divergence change by

    .. math::
        h(P_i) - h(P_{i-1}) + \operatorname{KL}(P_i \Vert P_{i-1}) = \tfrac12 \sum_k c_{ik},
        \qquad c_{ik} = \frac{\sigma_{ik}^2 + (\mu_{ik} - \mu_{i-1,k})^2}{\sigma_{i-1,k}^2} - 1

    Over the last :math:`M - 1` batches, :math:`A_i = \frac{1}{2M} \sum | \sum_k c_{ik} |` is the
    average of all features together, and without the sum over k, that of one feature. There is an
    alarm when :math:`\Delta = A_i - A_{i-W+1}` exceeds a threshold :math:`\alpha`. That starts at
    :math:`|\Delta|`, loses the share :math:`\beta n` of itself after n batches without an alarm,
    and starts again after one.

    **So it must fire in the end.** :math:`\alpha` falls like :math:`e^{-\beta n^2 / 2}`, to a
    hundredth after 300 quiet batches, and any rise of the average is an alarm then. What it
    measures is in ``docs/answer.md``.

    Ours: a feature of several rows of parameters, one per class, adds up over them. A standard
    deviation of 0, which would divide by zero, counts as no change.

    Parameters
    ----------
    mu, sigma : ndarray (n_rows, n_features)
        The belief before the first batch.
    window : int, default=50
        M and W.
    beta : float, default=1e-4
        How fast the threshold falls.

    References
    ----------
    J. Haug, G. Kasneci, "Learning Parameter Distributions to Detect Concept Drift in Data
    Streams", ICPR 2020.

    Examples
    --------
    >>> mu, sigma = np.zeros((1, 2)), np.ones((1, 2))
    >>> erics = ERICS(mu, sigma, window=3, beta=0.1)
    >>> for t in range(1, 6):
    ...     changes = erics.update(mu + 0.01 * t, sigma - 0.005 * t)
    >>> erics.update(mu + 0.3, sigma - 0.1).round(4)  # of all together, then of each
    array([0.0241, 0.012 , 0.012 ])
    """

    learnt: ClassVar[Declared] = {
        "mu": Array("R", "J"),
        "sigma": Array("R", "J", low=0.0),
        "changes": Array("M", "J"),  # c of the last batches, the newest last
        "averages": Array("*", "F"),  # of all features together, then of each
        "threshold": Array("F", low=0.0, missing=True),  # NaN: starts with the next batch
        "quiet": Array("F", low=0.0),  # batches since an alarm
    }

    def __init__(self, mu: Floats, sigma: Floats, *, window: int = 50, beta: float = 1e-4) -> None:
        self.window, self.beta = window, beta
        self.look(mu, sigma)
        n_features = mu.shape[1]
        self.changes = np.zeros((window - 1, n_features))
        self.averages = np.empty((0, 1 + n_features))
        self.threshold, self.quiet = np.full(1 + n_features, np.nan), np.zeros(1 + n_features)

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes of what was learnt, by their letters."""
        n_batches, n_features = self.changes.shape
        return {"J": n_features, "F": 1 + n_features, "M": n_batches}

    def look(self, mu: Floats, sigma: Floats) -> None:
        """Measure the next change from this belief on."""
        self.mu, self.sigma = mu.copy(), sigma.copy()

    def update(self, mu: Floats, sigma: Floats) -> Floats:
        """Take in the belief after a batch; the rise of every alarm, of all, then each; else 0."""
        change = np.zeros(mu.shape[1])
        if mu.shape == self.mu.shape:  # not if there are more classes now
            known = self.sigma > 0.0
            moved = sigma**2 + (mu - self.mu) ** 2
            ratio = np.divide(moved, self.sigma**2, out=np.ones_like(moved), where=known)
            change = (ratio - 1.0).sum(axis=0)
        self.look(mu, sigma)
        self.changes = np.vstack([self.changes[1:], change])
        together = np.abs(self.changes.sum(axis=1)).sum()
        average = np.append(together, np.abs(self.changes).sum(axis=0)) / (2.0 * self.window)
        self.averages = np.vstack([self.averages, average])[-self.window :]
        rise = average - self.averages[0] if len(self.averages) > 1 else average
        self.threshold *= 1.0 - self.beta * self.quiet
        self.threshold = np.where(np.isnan(self.threshold), np.abs(rise), self.threshold)
        found = rise > self.threshold
        self.threshold[found], self.quiet = np.nan, np.where(found, 0.0, self.quiet + 1.0)
        return np.where(found, rise, 0.0)

    def rearranged(self, source: Places, mu: Floats, sigma: Floats) -> ERICS:
        """A copy for other columns: where each comes from, and the belief about them."""
        other = ERICS(mu, sigma, window=self.window, beta=self.beta)
        other.changes = np.where(source < 0, 0.0, self.changes[:, source])
        every, new = np.append(0, source + 1), np.append(False, source < 0)
        other.averages = np.where(new, 0.0, self.averages[:, every])
        other.threshold = np.where(new, np.nan, self.threshold[every])
        other.quiet = np.where(new, 0.0, self.quiet[every])
        return other
