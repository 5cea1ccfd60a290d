"""What is promised of features that are called significant, and the sentences that say so.

**What it means.** A feature is significant if it adds to the other selected features, after
correcting for the number of features: :meth:`fires.FIRES.is_significant` is the one place that
computes it, and command, files and page show what it says. An interval is of the effect beside all
features. So where features are correlated, the interval of a significant one may contain 0, and
that of one which adds nothing to the selected ones may leave it out.

**What is promised.** At every look, the expected share of false ones among the features that
"auto" selects is at most 0.05, where a false one adds nothing to the others that are selected: if
the model is right (a linear predictor), and if the means of the features that do not matter are
independent or of positive dependence (Benjamini and Yekutieli). Old evidence fades, so posterior
deviations are greater than the error of the means, and there are fewer false ones than that.
Nothing is promised about features that matter and are too weak to be seen. Of features that say the
same, one is selected: which one, may be chance.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from scipy.special import erfc

from fires.core.belief import Belief
from fires.core.types import Floats, Mask, Places

# The expected share of false ones among the selected features, at most.
LEVEL = 0.05


class Groups:
    r"""Which features belong together: they are ranked and selected as one.

    The importance of a group is the standard deviation of what it adds to the linear predictor, for
    standardised features that are not correlated: the root of the sum of squares. Chance alone
    makes that greater than 0, so the variances of the coefficients are taken off. With :math:`m`
    features, :math:`\lambda = \sum (\mu_j^2 - \sigma_j^2) / \bar\sigma^2` and :math:`\bar\sigma^2`
    the mean variance,

    .. math:: \mu = \bar\sigma \sqrt{\max(\lambda, 0)}, \qquad
              \sigma = \bar\sigma \frac{\sqrt{2 m + 4 \lambda}}
                       {\sqrt{\max(\lambda, \sqrt{m / 2})} \, (1 + \lambda / (\lambda + 2 m))}

    :math:`2 m + 4 \lambda` is the variance of a non-central chi-squared variable. For a large
    :math:`\lambda` this is the standard deviation of its root; for a small one it is greater, so
    that an interval leaves out 0 as seldom as it should where there is nothing. A group of one
    feature is that feature, sign and all.

    Examples
    --------
    >>> groups = Groups(["town", "town", "age"])
    >>> groups.n, groups.of
    (2, array([0, 0, 1]))
    >>> belief = groups.belief(np.array([[3.0, 4.0, -1.0]]), np.full((1, 3), 0.1))
    >>> belief.mu.round(2), belief.sigma.round(2)
    (array([ 5., -1.]), array([0.1, 0.1]))
    """

    def __init__(self, labels: Sequence[Hashable], *, titled: bool = False) -> None:
        numbers: dict[Hashable, int] = {}
        found = [numbers.setdefault(label, len(numbers)) for label in labels]
        self.of = np.array(found, dtype=np.intp)
        self.n = len(numbers)
        # What each group is called, if its label says so.
        self.titles = tuple(map(str, numbers)) if titled else None
        self.size = np.bincount(self.of, minlength=self.n).astype(np.float64)
        self._alone = self.size == 1.0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Groups) and np.array_equal(self.of, other.of)

    __hash__ = None  # type: ignore[assignment]

    def of_rows(self, mu: Floats, sigma: Floats) -> tuple[Floats, Floats]:
        """The importance of each group, and its standard deviation, for each row of parameters."""
        alone, squares, variances = map(self._sum, (mu, mu * mu, sigma * sigma))
        mean_variance = np.maximum(variances / self.size, 1e-300)
        excess = np.maximum((squares - variances) / mean_variance, 0.0)
        least = np.sqrt(0.5 * self.size)
        wide = np.sqrt((2.0 * self.size + 4.0 * excess) / np.maximum(excess, least))
        wide /= 1.0 + excess / (excess + 2.0 * self.size)
        scale = np.sqrt(mean_variance)
        return (
            np.where(self._alone, alone, scale * np.sqrt(excess)),
            np.where(self._alone, scale, scale * wide),
        )

    def belief(self, mu: Floats, sigma: Floats) -> Belief:
        """The importance of each group, of the row of parameters for which it matters most."""
        means, spreads = self.of_rows(mu, sigma)
        leader = (np.abs(means) - spreads).argmax(axis=0)
        return Belief(*(np.take_along_axis(of, leader[None], axis=0)[0] for of in (means, spreads)))

    def best(self, weights: Floats) -> Floats:
        """The greatest weight in each group."""
        best = np.full(self.n, -np.inf)
        np.maximum.at(best, self.of, weights)
        return best

    def _sum(self, values: Floats) -> Floats:
        return np.array([np.bincount(self.of, row, self.n) for row in values], dtype=np.float64)


class Distances(NamedTuple):
    """How far 0 is away from the posterior mean of features that may be selected."""

    columns: Places
    z: Floats
    n: int


def expected_false(tail: float, s: Any, n: int, level: float = LEVEL) -> Any:
    """The share of false ones among s features, if chance takes one of n so far with this tail."""
    return tail * (n + 1 - (1.0 - level) * s) / s


# --- why so many are selected, in one sentence ------------------------------------------------


def above_noise(belief: Belief, n_classes: int = 1) -> Mask:
    """Which importances chance alone would hardly move so far, for any of all features.

    With 500 features of noise, the 95 % interval leaves out 0 for some 25 of them, and these are
    among the first. So the interval that is asked is one of 1 - 0.05 / n, with n features, times
    the classes.

    Parameters
    ----------
    belief : Belief
        The mean and the standard deviation of each importance.
    n_classes : int
        How many classes each importance is the greatest of.

    Returns
    -------
    ndarray of bool

    Examples
    --------
    >>> above_noise(Belief(np.array([0.3, -0.5]), np.array([0.2, 0.2])))
    array([False,  True])
    """
    tail = 0.5 * 0.05 / max(len(belief.mu) * n_classes, 1)
    half_width = -NormalDist().inv_cdf(tail)
    return np.asarray(np.abs(belief.mu) > half_width * belief.sigma)


def none_alone(known: Distances, chosen: Places) -> bool:
    """Whether "auto" has selected one because all together are significant, and none is alone."""
    tails = _tails(known)[np.isin(known.columns, chosen)]
    return len(chosen) == 1 and float(tails.sum()) * known.n > LEVEL


def _tails(known: Distances) -> Floats:
    return np.asarray(erfc(np.maximum(known.z, 0.0) / np.sqrt(2.0)))  # both


def found(known: Distances, chosen: Places, n: int, what: str, names: Callable[[int], str]) -> str:
    """The sentence where as many are selected as are significantly non-zero.

    Examples
    --------
    >>> known = Distances(np.arange(4), np.array([9.0, 5.0, 3.1, 1.0]), n=100)
    >>> found(known, np.array([0, 1]), 100, "features", "x{}".format)
    '2 of 100 features are significantly non-zero: the expected share of false ones is at most
     0.05; with the next, x2, it could be 0.063'
    """
    n_chosen = len(chosen)
    is_ = "is" if n_chosen == 1 else "are"
    begin = f"{n_chosen:,} of {n:,} {what} {is_} significantly non-zero: "
    tails, outside = _tails(known), ~np.isin(known.columns, chosen)
    if none_alone(known, chosen):
        best = names(int(chosen[0]))
        return f"none of {n:,} {what} is significant alone, but together they are: {best} is best"
    bound = f"the expected share of false ones is at most {LEVEL:g}; "
    if not outside.any():
        rest = "there is no other" if n_chosen == n else f"more than {n_chosen} are not considered"
        return begin + bound + rest
    following = np.where(outside, tails, np.inf).argmin()
    name = names(int(known.columns[following]))
    share = min(float(expected_false(tails[following], n_chosen + 1, known.n)), 1.0)
    if not n_chosen:
        could = f"the expected share of false ones could be {share:.2g}"
        return f"{begin}with the first, {name}, {could}"
    if share <= LEVEL:
        return begin + bound + f"the next, {name}, is not yet significant enough to enter"
    return begin + bound + f"with the next, {name}, it could be {share:.2g}"


def asked_for(n_chosen: int, n: int, what: str, n_above: int | None, n_others: int = 0) -> str:
    """The sentence where the user has said how many.

    Examples
    --------
    >>> asked_for(20, 200, "features", 7)
    '20 of 200 features, as requested: 7 of them are significant'
    >>> asked_for(5, 200, "features", 5, 2)
    '5 of 200 features, as requested: all of them are significant, and 2 of the others'
    """
    begin = f"{n_chosen:,} of {n:,} {what}, as requested: "
    if n_above is None:
        known = "is known with a linear model and update='bayes' only"
        return f"{begin}how many of them matter {known}"
    number = "none" if not n_above else "all" if n_above == n_chosen else f"{n_above:,}"
    others = f", and {n_others:,} of the others" if n_others else ""
    return begin + f"{number} of them {'is' if n_above <= 1 else 'are'} significant{others}"


def widened(inflation: Floats) -> str:
    """What the sentence says of rows that depend on each other.

    Examples
    --------
    >>> widened(np.array([1.05])), widened(np.array([1.0, 4.41]))
    ('', '; rows are correlated: intervals widened 2.1 times')
    """
    times = float(np.sqrt(inflation.max()))
    return f"; rows are correlated: intervals widened {times:.1f} times" if times >= 1.15 else ""
