r"""How many features: as many as are significantly non-zero.

The 100 leading features have a joint posterior (:mod:`fires.models.covariance`). For each,
0 is :math:`z_j = |\mu_j| / \sigma_j` standard deviations away from the mean, and
:math:`p_j = 2 \Phi(-z_j)` is the posterior tail area beyond 0, on both sides. Among :math:`J`
features, those are selected that make up the greatest set :math:`S` in which

.. math:: p_j \le 0.05 \, |S| / J \quad \text{for all } j \in S

as Benjamini and Hochberg have it: as many false ones as :math:`J p` are expected by chance, and
that is to be 5 % of what is selected.

**What is promised.** At every look, the expected share of false ones among the selected features is
at most 0.05, where a false one has a coefficient of 0 given all others: if the model is right (a
linear predictor, rows that are independent of each other), and if the means of the features that
do not matter are independent or of positive dependence (Benjamini and Yekutieli). Old evidence
fades, so posterior deviations are greater than the error of the means, and there are fewer false
ones than that. Nothing is promised about features that matter and are too weak to be seen.
Of features that say the same none may be sure, although one of them matters.

**Hysteresis.** The set must not flutter. So a feature that is not selected is judged as if its mean
were one standard deviation nearer to 0. It stays until its own tail area is too great. Every
selected feature is within the bound, so the bound holds for the set.

**Several classes** have one posterior each. A feature counts by the class for which it is surest,
and :math:`J` is the number of features times that of the classes. **A group** of features is judged
by the tail area of the chi-squared distance between 0 and its posterior mean.

**Twins.** Where they are dropped (:mod:`fires.selectors.twins`), those that are not sure beside all
others are left out, and the others are judged without them. So of two copies one is sure.

**At the beginning, and after an alarm** about all features, hardly anything is known. Until 10 rows
for each feature have come, but 200 at least and 1,000 at most, the set stays as it is: at the
beginning, empty. Later it is looked at whenever the rows have grown by a tenth, and at least every
500 rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from scipy.special import chdtrc, erfc, ndtri

from fires.core.declared import Array, Declared
from fires.core.types import Floats, Mask, Places
from fires.selectors.groups import Groups

if TYPE_CHECKING:
    from fires.models.bayes_learner import BayesLearner


LEVEL = 0.05
"""The expected share of false ones among the selected features, at most."""

_BOND = 1.0  # deviations that a newcomer must be further away from 0 than a member
_EVERY = 500.0  # rows between two looks; fewer at the beginning
_GROWN = 0.1  # at the beginning: a look when the rows have grown by this share
_FIRST = 10.0  # rows for each feature before the first look
_AT_LEAST, _AT_MOST = 200.0, 1000.0  # rows before it
_FAR = 37.0  # deviations beyond which a tail area is 0 in double precision


class Distances(NamedTuple):
    """How far 0 is away from the posterior mean of features that may be selected."""

    columns: Places
    z: Floats
    n: int

    def without(self, resting: Mask | None) -> Distances:
        """The same without features whose columns are not there."""
        if resting is None:
            return self
        present = ~resting[self.columns]
        return Distances(self.columns[present], self.z[:, present], self.n)


def distances(
    learner: BayesLearner, groups: Groups | None = None, without: Places | None = None
) -> Distances:
    """What is known of the leading features."""
    columns, mean, covariance = learner.leading_posterior(seen=True, without=without)
    if groups is None:
        deviation = np.sqrt(np.maximum(np.einsum("kii->ki", covariance), 1e-300))
        return Distances(columns, np.abs(mean) / deviation, learner.n_present * len(mean))
    found = np.unique(groups.of[columns])
    z = np.empty((len(mean), len(found)))
    for i, group in enumerate(found):
        own = np.flatnonzero(groups.of[columns] == group)
        block = covariance[:, own[:, None], own]
        distance = np.linalg.solve(block, mean[:, own, None])[..., 0]
        squared = np.maximum((mean[:, own] * distance).sum(axis=1), 0.0)
        # The deviations of a single feature with the same tail area.
        z[:, i] = np.sqrt(squared) if len(own) == 1 else -ndtri(0.5 * chdtrc(len(own), squared))
    return Distances(found, np.clip(z, 0.0, _FAR), groups.n * len(mean))


def choose(known: Distances, members: Places) -> Places:
    """The features that are significantly non-zero.

    Examples
    --------
    >>> known = Distances(np.arange(4), np.array([[9.0, 4.0, 3.5, 1.0]]), n=100)
    >>> choose(known, np.array([], dtype=int)), choose(known, np.array([1, 3]))
    (array([0]), array([0, 1]))
    """
    bond = np.where(np.isin(known.columns, members), 0.0, _BOND)
    best = known.z.max(axis=0, initial=0.0)
    chosen = _within_the_bound(best - bond, known.n)
    return np.sort(known.columns[chosen])


def _within_the_bound(z: Floats, n: int) -> Mask:
    """The greatest set whose tail areas are all small enough for a set of its size."""
    tails = np.sort(_tail(z))
    small = np.flatnonzero(tails <= LEVEL * np.arange(1, len(z) + 1) / n)
    limit = tails[small[-1]] if len(small) else -1.0
    return np.asarray(_tail(z) <= limit)


def _tail(z: Floats) -> Floats:
    """The area of both tails of a normal distribution."""
    return np.asarray(erfc(np.maximum(z, 0.0) / np.sqrt(2.0)))


class Next(NamedTuple):
    """The surest feature that is not selected."""

    column: int
    share: float


def best_of_the_rest(known: Distances, members: Places) -> Next | None:
    """Say who would be selected next, and what that would mean."""
    outside = ~np.isin(known.columns, members)
    if not outside.any():
        return None
    z = known.z[:, outside].max(axis=0)
    share = float(_tail(z.max())) * known.n / (len(members) + 1)
    return Next(int(known.columns[outside][z.argmax()]), min(share, 1.0))


class ReviewSchedule:
    """When to look at who is selected: it costs an inverse, and little changes from row to row.

    Examples
    --------
    >>> schedule, seen = ReviewSchedule(), 0.0
    >>> for n_rows in (100, 100, 900, 50, 50, 9_000, 400, 100):
    ...     seen += n_rows
    ...     print(schedule.is_due(n_rows, seen, n_features=8), end=" ")
    False True True False False True False True
    """

    learnt: ClassVar[Declared] = {"waited": Array(low=0.0)}

    def __init__(self) -> None:
        self.waited = _EVERY  # rows since the last look

    def is_due(self, n_rows: float, seen: float, n_features: int) -> bool:
        """Count the rows of a batch; whether it is time to look again."""
        self.waited += n_rows
        if not has_enough_rows(seen, n_features) or self.waited < min(_EVERY, _GROWN * seen):
            return False
        self.waited = 0.0
        return True


def has_enough_rows(seen: float, n_features: int) -> bool:
    """Whether enough rows have been seen to say anything."""
    return seen >= min(max(_FIRST * n_features, _AT_LEAST), _AT_MOST)
