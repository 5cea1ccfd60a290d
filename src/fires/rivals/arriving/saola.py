"""SAOLA and Group-SAOLA: relevance and redundancy from comparisons of two columns at a time."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fires.core.declared import Declared, Value
from fires.core.settings import choice, number
from fires.core.types import Floats, Labels, Mask
from fires.kernels.contingency import uncertainties
from fires.kernels.correlation import correlations
from fires.rivals.arriving import independence
from fires.rivals.arriving.base import ArrivingColumns, ArrivingFeatures
from fires.rivals.arriving.groups import ArrivingGroups
from fires.rivals.base import settings

Column = npt.NDArray[Any]  # float64, or codes in int16: as the target is
# Competing columns by index: the relevance of each, and its values.
Pool = dict[int, tuple[float, Column]]


@settings
class SAOLA(ArrivingFeatures):
    r"""Scalable and accurate online feature selection.

    Let :math:`I` measure how much two columns tell about each other. A new feature :math:`X` is
    dropped unless :math:`I(X; T)` with the target :math:`T` is above the threshold. Otherwise it is
    compared with each selected :math:`Y` that is related to it (:math:`I(X; Y)` above the
    threshold), one after the other:

    - :math:`X` is dropped, and the comparison ends, if :math:`I(Y; T) \ge I(X; T)` and
      :math:`I(X; Y) \ge I(X; T)`;
    - :math:`Y` is dropped if :math:`I(X; T) > I(Y; T)` and :math:`I(X; Y) \ge I(Y; T)`. It stays
      dropped even if :math:`X` is dropped later in the round.

    A feature costs :math:`O(n |S|)`. The columns of the selected features are stored.

    The scale of a column does not matter. Missing entries are left out: two columns are compared on
    the rows in which both have entries.

    Parameters
    ----------
    n_features_to_select : int, float or None, default=None
        Keep at most this many selected features, those with the greatest :math:`I(X; T)`. A
        fraction is a share of all columns seen.
    measure : {"correlation", "su"}, default="correlation"
        :math:`|r|` for columns of numbers and a target of numbers or two classes, or symmetrical
        uncertainty for columns of few different values and a target of classes.
    alpha : float, default=0.01
        With ``"correlation"``: a correlation is above the threshold if Fisher's z is significant
        at this level.
    threshold : float, default=0.0
        With ``"su"``: the threshold.

    Attributes
    ----------
    weights_ : ndarray (n_features_in_,)
        :math:`I(X; T)` of each selected column; 0 for all others.

    References
    ----------
    K. Yu, X. Wu, W. Ding, J. Pei: "Towards scalable and accurate online feature selection for big
    data". IEEE International Conference on Data Mining, 2014.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 10))
    >>> X[:, 7] = X[:, 2] + 0.1 * rng.normal(size=200)
    >>> y = X[:, 2] + X[:, 5] + rng.normal(size=200)
    >>> SAOLA().partial_fit_features(X, y).get_support(indices=True)
    array([2, 5])
    """

    measure: str = choice("correlation", "su")
    alpha: float = number(0.01, high=1.0)
    threshold: float = number(0.0, high=1.0, ends="[)")

    _learnt: ClassVar[Declared] = {"numbers": Value(bool), "columns": independence.StoredColumns()}

    def _start(self, y: Labels) -> None:
        self._numbers_ = self.measure == "correlation"
        # The target, then the selected columns, one per row.
        self._columns_ = independence.as_target(y, self._numbers_, type(self).__name__)[np.newaxis]

    def _arrive(self, columns: ArrivingColumns) -> None:
        pool = self._pool()
        for j, x in columns:
            self._take(pool, j, x)
        self._keep(pool)

    def _pool(self) -> Pool:
        known = zip(self._chosen_.items(), self._columns_[1:], strict=True)
        return {j: (worth, column) for (j, worth), column in known}

    def _keep(self, pool: Pool) -> None:
        self._chosen_ = {j: worth for j, (worth, _) in pool.items()}
        self._columns_ = np.stack([self._columns_[0], *(column for _, column in pool.values())])

    def _take(self, pool: Pool, j: int, x: Floats) -> None:
        """Add a column to the pool if it is relevant and not redundant there."""
        column = independence.as_column(x, self._numbers_, f"Column {j} of X")
        worth, relevant = self._related(column, [self._columns_[0]])
        if relevant[0] and self._stands(pool, float(worth[0]), column):
            pool[j] = float(worth[0]), column

    def _stands(self, pool: Pool, worth: float, column: Column) -> bool:
        """Whether a column is not redundant; columns that it makes redundant leave the pool."""
        if not pool:
            return True
        shared, related = self._related(column, [other for _, other in pool.values()])
        for place, (j, (other_worth, _)) in enumerate(list(pool.items())):
            if not related[place]:
                continue
            if other_worth >= worth:
                if shared[place] >= worth:
                    return False
            elif shared[place] >= other_worth:
                del pool[j]
        return True

    def _related(self, column: Column, others: list[Column]) -> tuple[Floats, Mask]:
        """The measure of the column with each of the others, and which are above the threshold."""
        if self._numbers_:
            r, n = correlations(column, np.stack(others))
            surprise = independence.surprise_of_z(independence.fisher_z(r, n))
            return np.abs(r), surprise >= -np.log(self.alpha)
        shared = uncertainties(column, np.stack(others))
        return shared, shared > self.threshold


class GroupSAOLA(ArrivingGroups, SAOLA):
    """SAOLA for features that arrive in groups: the columns of one call are one group.

    First :class:`SAOLA` runs inside the group alone. Then each remaining feature is compared with
    the selected features of all earlier groups, by the same rules. So redundancy inside a group is
    removed first, and a group whose features all lose is dropped.

    Parameters and other attributes are those of :class:`SAOLA`.

    Attributes
    ----------
    groups_ : ndarray
        The group, counted from 0, of each feature that ``get_support(indices=True)`` gives.

    References
    ----------
    K. Yu, X. Wu, W. Ding, J. Pei: "Scalable and accurate online feature selection for big data".
    ACM Transactions on Knowledge Discovery from Data 11(2), 2016.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 9))
    >>> X[:, 7] = X[:, 2] + 0.1 * rng.normal(size=200)
    >>> y = X[:, 2] + X[:, 5] + rng.normal(size=200)
    >>> selector = GroupSAOLA()
    >>> for group in np.split(X, 3, axis=1):
    ...     selector = selector.partial_fit_features(group, y)
    >>> selector.get_support(indices=True), selector.groups_
    (array([2, 5]), array([0, 1]))
    """

    def _arrive(self, columns: ArrivingColumns) -> None:
        group: Pool = {}
        for j, x in columns:
            self._take(group, j, x)
        before = self._pool()
        self._keep(before | {j: new for j, new in group.items() if self._stands(before, *new)})
