"""What was learnt, column by column of the table: some columns become several features."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from fires.core.types import Floats, Mask
from fires.core.weighting import rank
from fires.models.linear import Linear

if TYPE_CHECKING:
    from fires.selectors.fires import FIRES


class ByColumn:
    """A selector as its users see it: one entry for each group of features.

    Examples
    --------
    >>> from fires import FIRES
    >>> X = np.random.default_rng(0).normal(size=(500, 3))
    >>> selector = FIRES(1, groups=["town", "town", "age"]).fit(X, X[:, 1] > 0)
    >>> seen = ByColumn(selector)
    >>> seen.ranking_, seen.get_support()
    (array([1, 2]), array([ True, False]))
    """

    def __init__(self, selector: FIRES) -> None:
        self._selector = selector
        groups = selector.groups_
        assert groups is not None
        self.groups = groups
        belief = selector.group_belief()
        self.importances_: Floats = belief.mu
        self.uncertainties_: Floats = belief.sigma
        self.first = np.unique(self.groups, return_index=True)[1]
        self.weights_: Floats = selector.weights_[self.first]
        self.ranking_ = rank(self.weights_)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._selector, name)

    def get_support(self) -> Mask:
        """Which groups are selected."""
        support: Mask = self._selector.get_support()[self.first]
        return support

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        """The interval of each importance; that of several features together is not below 0."""
        half_width = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * self.uncertainties_
        several = np.bincount(self.groups) > 1
        low = self.importances_ - half_width
        return np.where(several, np.maximum(low, 0.0), low), self.importances_ + half_width

    @property
    def class_importances_(self) -> Floats:
        """For each class, how much the groups matter for it."""
        by_class = self._selector.class_importances_
        several = np.bincount(self.groups) > 1
        squares = np.array([np.bincount(self.groups, weights=row * row) for row in by_class])
        return np.asarray(np.where(several, np.sqrt(squares), by_class[:, self.first]))


def has_intervals(selector: FIRES) -> bool:
    """Whether the uncertainty of an importance is a standard deviation."""
    learns_by_bayes = getattr(selector, "update", None) == "bayes"
    return learns_by_bayes and isinstance(selector.model_, str | Linear)


def column_names(selector: FIRES, names: Sequence[str]) -> tuple[str, ...]:
    """What the groups of a selector are called."""
    columns = getattr(selector, "columns_", None)
    if columns is not None and selector.groups is None:
        return tuple(column.name for column in columns.used)
    groups = selector.groups_
    assert groups is not None
    first = np.unique(groups, return_index=True)[1]
    return tuple(names[place] for place in first.tolist())
