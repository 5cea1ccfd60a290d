"""GFSFS: groups of features that add information to the groups selected before."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from fires.core.declared import Declared
from fires.core.settings import number
from fires.core.types import Labels
from fires.kernels.contingency import Codes
from fires.rivals.arriving.base import ArrivingColumns, ArrivingGroups
from fires.rivals.arriving.independence import CODES, Contingency, as_target
from fires.rivals.base import settings
from fires.rivals.windows.chunks import bins, cut


@settings
class GFSFS(ArrivingGroups):
    r"""Group feature selection from feature streams (Li et al., ICDM 2013), by mutual information.

    The columns of one call are one group. With the information :math:`I` that features share with
    the target :math:`T`:

    - a feature with :math:`I(X; T) = 0` is dropped, and a group of nothing else with it;
    - within the group, a feature is redundant if :math:`I(X; T \mid Y) = 0` for one :math:`Y` that
      has more information on :math:`T` and is not redundant itself;
    - the group is redundant if each feature left in it is made redundant by one selected feature.
      Otherwise all that is left of it is selected, and earlier groups that are now redundant in
      the same way, given the new features, are dropped as a whole.

    The paper's thresholds are not certain. Here an information counts as 0 unless the G² test is
    significant, with :math:`G^2 = 2 n I` and :math:`(|X| - 1)(|T| - 1)|Y|` degrees of freedom; and
    features are given one at a time. So features of a group that tell something only together are
    not found.

    A feature costs :math:`O(n |S|)`. The columns of the selected features are stored, as codes. A
    column of numbers is cut into intervals of equally many rows, so its scale does not matter.
    Missing entries are left out: columns are compared on the rows in which all have entries.

    Parameters
    ----------
    n_features_to_select : int, float or None, default=None
        Keep at most this many selected features, those with the smallest p-value on their own. A
        fraction is a share of all columns seen.
    alpha : float, default=0.01
        The level of the tests.
    n_bins : int, default=5
        How many intervals a column with more different values is cut into.

    Attributes
    ----------
    weights_ : ndarray (n_features_in_,)
        -log p of each selected column's own relation with the target; 0 for all others.
    groups_ : ndarray
        The group, counted from 0, of each feature that ``get_support(indices=True)`` gives.

    References
    ----------
    H. Li, X. Wu, Z. Li, W. Ding: "Group feature selection with streaming features". IEEE
    International Conference on Data Mining, 2013.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 9))
    >>> X[:, 7] = X[:, 2]
    >>> y = X[:, 2] ** 2 + X[:, 5] > 1.0
    >>> selector = GFSFS()
    >>> for group in np.split(X, 3, axis=1):
    ...     selector = selector.partial_fit_features(group, y)
    >>> selector.get_support(indices=True), selector.groups_
    (array([2, 5]), array([0, 1]))
    """

    alpha: float = number(0.01, high=1.0)
    n_bins: int = bins(5)

    _learnt: ClassVar[Declared] = {"columns": CODES}  # the target, then the selected columns

    def _start(self, y: Labels) -> None:
        self._columns_ = as_target(y, False, type(self).__name__)[np.newaxis]

    def _arrive(self, columns: ArrivingColumns) -> None:
        ones, alone = np.ones(self.n_samples_), Contingency(self._columns_[:1], False)
        new, worth = {}, {}
        for j, x in columns:
            code = cut(x, int(self.n_bins), ones)
            surprise = alone.relevance(code)
            if surprise >= -np.log(self.alpha):
                new[j], worth[j] = code, surprise
        group: dict[int, Codes] = {}
        for j in sorted(new, key=lambda j: (-worth[j], j)):
            if not self._redundant([new[j]], list(group.values())):
                group[j] = new[j]
        old = dict(zip(self._chosen_, self._columns_[1:], strict=True))
        if self._redundant(list(group.values()), list(old.values())):
            return
        members: dict[int, list[int]] = {}
        for j in old:
            members.setdefault(int(np.searchsorted(self._ends_, j, side="right")), []).append(j)
        for places in members.values():
            if self._redundant([old[j] for j in places], list(group.values())):
                old = {j: code for j, code in old.items() if j not in places}
        worth |= self._chosen_
        kept = old | dict(sorted(group.items()))
        self._chosen_ = {j: worth[j] for j in kept}
        self._columns_ = np.stack([self._columns_[0], *kept.values()])

    def _redundant(self, some: list[Codes], given: list[Codes]) -> bool:
        """Whether each of some columns is independent of the target, given one of others."""
        place = 1 + len(given)
        return all(
            Contingency(np.stack([self._columns_[0], *given, code]), False).separated(
                place, 1, self.alpha
            )
            for code in some
        )
