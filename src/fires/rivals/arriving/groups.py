"""Features that arrive in groups: OGFS and GFSFS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from scipy.special import stdtr

from fires.core.declared import Array, Declared, Value
from fires.core.errors import StateError
from fires.core.settings import number
from fires.core.types import Floats, Labels, OptionalArray, Places, RowsLike
from fires.kernels.contingency import Codes
from fires.rivals.arriving.base import ArrivingColumns, ArrivingFeatures, centred
from fires.rivals.arriving.independence import CODES, MOST_LEVELS, Contingency, as_target
from fires.rivals.arriving.linear import minimise
from fires.rivals.base import settings
from fires.rivals.windows.chunks import bins, cut


class ArrivingGroups(ArrivingFeatures):
    """A selector of features that arrive in groups: the columns of one call are one group."""

    _learnt: ClassVar[Declared] = {"ends": Value(list)}

    _ends_: Sequence[int] = ()  # where each group ends

    @property
    def groups_(self) -> Places:
        """The group, counted from 0, of each selected feature."""
        return np.searchsorted(self._ends_, self.get_support(indices=True), side="right")

    def _take_columns(self, X_new: RowsLike, y: OptionalArray) -> None:
        super()._take_columns(X_new, y)
        self._ends_ = [*self._ends_, self._n_columns_]

    def _check_learnt(self) -> None:
        ends = self._ends_
        whole = all(type(end) is int for end in ends)
        if not whole or ends != sorted(ends) or ends[-1:] != [self.n_features_in_]:
            raise StateError("ends are not where the groups of all columns end")


_LEAST_WITHIN = 1e-12  # of a column that separates the classes


@settings
class OGFS(ArrivingGroups):
    r"""Online group feature selection (Wang et al., IJCAI 2013): a spectral score, then a lasso.

    The columns of one call are one group. For classes c with :math:`n_c` rows, means
    :math:`\bar x_c` and variances :math:`v_c`, a standardised feature has

    .. math::
        b = \sum_c n_c (\bar x_c - \bar x)^2, \quad w = \sum_c n_c v_c, \quad s = b / w

    *Inside the group*, one after the other, a feature is taken if it raises the ratio
    :math:`\sum b / \sum w` of those taken, or if its score s differs significantly (two-sided
    t-test, from two taken features on) from their mean score. The second rule takes features of
    low score, too: it leaves the choice to the lasso. *Between groups*, a lasso of the classes on
    all selected features and the new ones,

    .. math:: \tfrac12 \Big\| t - \sum_j \theta_j x_j \Big\|^2 + \lambda \|\theta\|_1

    keeps those whose coefficient is not zero, for good. Here :math:`t` and :math:`x_j` have mean 0
    and length 1, so :math:`\lambda` is the least correlation of the first feature. There is one
    lasso for two classes, and one for each of more.

    The released code ends after the first feature of a group; so this follows the paper's text.
    That features are standardised, the size of :math:`\lambda`, and several lassos for several
    classes are our choice.

    A feature costs :math:`O(n)`, and a group a few times :math:`O(n |S|^2)`. The columns of the
    selected features are stored. The scale of a column does not matter; a missing entry counts as
    its mean.

    Parameters
    ----------
    n_features_to_select : int, float or None, default=None
        Keep at most this many selected features, those with the greatest :math:`|\theta_j|`. A
        fraction is a share of all columns seen.
    penalty : float, default=0.1
        :math:`\lambda`, below 1.
    alpha : float, default=0.05
        The level of the t-test.

    Attributes
    ----------
    weights_ : ndarray (n_features_in_,)
        :math:`|\theta_j|` now, the greatest of the lassos; 0 for columns that are not selected.
    groups_ : ndarray
        The group, counted from 0, of each feature that ``get_support(indices=True)`` gives.

    References
    ----------
    J. Wang, Z.-Q. Zhao, X. Hu, Y.-M. Cheung, M. Wang, X. Wu: "Online group feature selection".
    International Joint Conference on Artificial Intelligence, 2013.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 9))
    >>> y = np.digitize(X[:, 2] - X[:, 5], [-1.0, 1.0])
    >>> selector = OGFS(penalty=0.2)
    >>> for group in np.split(X, 3, axis=1):
    ...     selector = selector.partial_fit_features(group, y)
    >>> selector.get_support(indices=True), selector.groups_
    (array([2, 5]), array([0, 1]))
    """

    penalty: float = number(0.1, high=1.0)
    alpha: float = number(0.05, high=1.0)

    _learnt: ClassVar[Declared] = {
        "labels": Array("N", dtype="int16", low=0, high=MOST_LEVELS - 1),
        "columns": Array("C", "N", low=-1.0, high=1.0),  # with mean 0 and length 1
    }

    def _start(self, y: Labels) -> None:
        self._labels_ = as_target(y, False, type(self).__name__)
        self._columns_ = np.zeros((0, len(y)))

    def _arrive(self, columns: ArrivingColumns) -> None:
        n_rows = np.bincount(self._labels_)
        pool = dict(zip(self._chosen_, self._columns_, strict=True))
        taken: list[tuple[float, float]] = []
        for j, x in columns:
            column = of_length_1(centred(x))
            between = float((np.bincount(self._labels_, column) ** 2 / n_rows).sum())
            part = between, max(1.0 - between, _LEAST_WITHIN)
            if between > 0.0 and adds(taken, part, float(self.alpha)):
                taken.append(part)
                pool[j] = column
        if not taken:
            return
        rows, classes = np.stack(list(pool.values())), np.unique(self._labels_)
        size = np.sqrt(rows.shape[1])  # the mean loss of rows of this size is the sum of squares
        penalties, start = np.full(len(rows), float(self.penalty)), np.zeros(len(rows))
        worth = np.zeros(len(rows))
        for label in classes[1:] if len(classes) == 2 else classes:
            target = of_length_1(centred((self._labels_ == label).astype(np.float64)))
            theta = minimise(size * rows, size * target, penalties, start, logistic=False)
            worth = np.maximum(worth, np.abs(theta))
        kept = worth > 0.0
        chosen = zip(np.array(list(pool))[kept].tolist(), worth[kept].tolist(), strict=True)
        self._chosen_, self._columns_ = dict(chosen), rows[kept]


def of_length_1(x: Floats) -> Floats:
    """A column divided by its length; one without any stays 0."""
    length = float(np.sqrt(x @ x))
    return x / length if length > 0.0 else x


def adds(taken: list[tuple[float, float]], new: tuple[float, float], alpha: float) -> bool:
    """Whether a feature with these sums between and within classes is taken beside others."""
    if not taken:
        return True
    between, within = np.array(taken).T
    if (between.sum() + new[0]) / (within.sum() + new[1]) > between.sum() / within.sum():
        return True
    n, scores = len(taken), between / within
    error = scores.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    t = abs(new[0] / new[1] - scores.mean()) / error if error > 0.0 else 0.0
    return bool(2.0 * stdtr(max(n - 1, 1), -t) < alpha)


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
