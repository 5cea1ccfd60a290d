"""OSFS and Fast-OSFS: keep relevant features, drop redundant ones."""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from fires.core.declared import Declared, Value, collect
from fires.core.settings import choice, count, number
from fires.core.state import Arrays, State
from fires.core.types import Header, Labels
from fires.rivals.arriving.base import ArrivingColumns, ArrivingFeatures
from fires.rivals.arriving.independence import Contingency, FisherZ, as_column, as_target
from fires.rivals.base import settings


@settings
class OSFS(ArrivingFeatures):
    r"""Online streaming feature selection.

    At first there are no candidates. A new feature :math:`X` is

    1. dropped if it is independent of the target :math:`T` (relevance);
    2. otherwise added; then each candidate :math:`F`, the oldest first and :math:`X` last, is
       dropped if some set :math:`S` of at most ``max_subset`` other candidates makes it
       independent: :math:`F \perp T \mid S` (redundancy).

    Numbers are tested by Fisher's z,

    .. math:: |\sqrt{n - |S| - 3} \; \operatorname{atanh} r_{FT \cdot S}| < \Phi^{-1}(1 - \alpha/2)

    and categories by G² or chi² with :math:`(|F| - 1)(|T| - 1) \prod_S |s|` degrees of freedom. The
    choice depends on the order of arrival: of two equal columns OSFS keeps the later one,
    :class:`FastOSFS` the earlier one.

    The cost grows with the number of candidates to the power ``max_subset``. No set is tried
    twice: old candidates are tested only with sets that hold :math:`X`, which gives the same
    result. The columns of the candidates and their correlations are stored.

    The scale of a column does not matter. Missing entries are left out: a correlation uses the rows
    in which both columns have entries, a count those in which all have. With too few rows for
    Fisher's z, no feature is dropped as redundant. The degrees of freedom of G² and chi² grow with
    every column in the set: with few rows per combination of values, these tests find every
    feature independent.

    Parameters
    ----------
    n_features_to_select : int, float or None, default=None
        Keep at most this many selected features, those with the smallest p-value on their own. A
        fraction is a share of all columns seen.
    test : {"fisher_z", "g2", "chi2"}, default="fisher_z"
        Fisher's z for columns of numbers and a target of numbers or two classes; G² or chi² for
        columns of few different values and a target of classes.
    alpha : float, default=0.01
        The level of the tests.
    max_subset : int, default=3
        The size of the largest set :math:`S`.

    Attributes
    ----------
    weights_ : ndarray (n_features_in_,)
        -log p of each selected column's own relation with the target; 0 for all others.

    References
    ----------
    X. Wu, K. Yu, W. Ding, H. Wang, X. Zhu: "Online feature selection with streaming features". IEEE
    Transactions on Pattern Analysis and Machine Intelligence 35(5), 2013.

    Examples
    --------
    >>> import fires
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 10))
    >>> X[:, 7] = X[:, 2] + 0.01 * rng.normal(size=200)
    >>> y = X[:, 2] + X[:, 5] + rng.normal(size=200)
    >>> OSFS().partial_fit_features(X, y).get_support(indices=True)
    array([5, 7])
    >>> fires.FastOSFS().partial_fit_features(X, y).get_support(indices=True)
    array([2, 5])
    """

    test: str = choice("fisher_z", "g2", "chi2")
    alpha: float = number(0.01, high=1.0)
    max_subset: int = count(3)

    _learnt: ClassVar[Declared] = {"numbers": Value(bool)}

    _evidence_: FisherZ | Contingency = field(init=False)  # as the target is

    def _start(self, y: Labels) -> None:
        self._numbers_ = self.test == "fisher_z"
        target = as_target(y, self._numbers_, type(self).__name__)
        if self._numbers_:
            self._evidence_ = FisherZ.of(target)
        else:
            self._evidence_ = Contingency(target[np.newaxis], self.test == "chi2")

    def _arrive(self, columns: ArrivingColumns) -> None:
        for j, x in columns:
            column = as_column(x, self._numbers_, f"Column {j} of X")
            relevance = self._evidence_.relevance(column)
            if relevance >= -np.log(self.alpha):
                self._evidence_ = self._evidence_.plus(column)
                self._chosen_[j] = relevance
                self._prune()

    def _prune(self) -> None:
        """Drop redundant candidates after one was added."""
        self._prune_old()
        self._prune_new()

    def _prune_old(self) -> None:
        place = 1
        while place < (new := len(self._evidence_.columns) - 1):
            if self._evidence_.separated(place, int(self.max_subset), self.alpha, by=new):
                self._drop(place)
            else:
                place += 1

    def _prune_new(self) -> None:
        new = len(self._evidence_.columns) - 1
        if self._evidence_.separated(new, int(self.max_subset), self.alpha):
            self._drop(new)

    def _drop(self, place: int) -> None:
        self._evidence_ = self._evidence_.without(place)
        del self._chosen_[list(self._chosen_)[place - 1]]  # column 0 is the target

    # --- state ------------------------------------------------------------------------------

    def _state(self) -> State:
        header, arrays = super()._state()
        more_header, more = collect(self._evidence_, self._evidence_.declared)
        return header | more_header, arrays | more

    def _restore(self, header: Header, arrays: Arrays, model: Any) -> None:
        super()._restore(header, arrays, model)
        kind: type[FisherZ | Contingency] = FisherZ if self._numbers_ else Contingency
        sizes, parts = self._sizes() | {"1+C": 1 + len(self._chosen_)}, kind.declared.items()
        self._evidence_ = kind(*(part.read(name, header, arrays, sizes) for name, part in parts))


class FastOSFS(OSFS):
    r"""Fast online streaming feature selection.

    As :class:`OSFS`, but a relevant new feature is tested for redundancy first. If it is
    redundant, it is dropped and nothing else is tested. If it stays, each older candidate is
    tested with the sets that hold it. Of two equal columns the earlier one is kept.

    Parameters and attributes are those of :class:`OSFS`.

    References
    ----------
    X. Wu, K. Yu, W. Ding, H. Wang, X. Zhu: "Online feature selection with streaming features". IEEE
    Transactions on Pattern Analysis and Machine Intelligence 35(5), 2013.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.integers(0, 3, size=(300, 12)).astype(float)
    >>> y = np.where(X[:, 4] + X[:, 9] > 2, "yes", "no")
    >>> FastOSFS(test="g2").partial_fit_features(X, y).get_support(indices=True)
    array([4, 9])
    """

    def _prune(self) -> None:
        n_before = len(self._chosen_)
        self._prune_new()
        if len(self._chosen_) == n_before:
            self._prune_old()
