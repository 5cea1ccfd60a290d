"""Group-SAOLA: SAOLA for features that arrive in groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fires.core.errors import StateError
from fires.core.state import Arrays, State
from fires.core.types import Estimator, Labels, Places
from fires.rivals.arriving.base import ArrivingColumns
from fires.rivals.arriving.saola import SAOLA, Pool

if TYPE_CHECKING:
    from fires.models.base import BaseModel


class GroupSAOLA(SAOLA):
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

    _ends_: tuple[int, ...]

    @property
    def groups_(self) -> Places:
        """The group of each selected feature."""
        return np.searchsorted(self._ends_, self.get_support(indices=True), side="right")

    def _start(self, y: Labels | None) -> None:
        super()._start(y)
        self._ends_ = ()

    def _arrive(self, columns: ArrivingColumns) -> None:
        group, end = Pool(), 0
        for j, x in columns:
            self._take(group, j, x)
            end = j + 1
        before = Pool(self._chosen_, dict(self._columns_))
        staying = [j for j in group.worth if self._stands(before, group.worth[j], group.columns[j])]
        for j in staying:
            before.add(j, group.worth[j], group.columns[j])
        self._columns_ = before.columns
        self._ends_ = (*self._ends_, end)

    def _state(self) -> State:
        header, arrays = super()._state()
        return header | {"ends": self._ends_}, arrays

    def _restore(
        self, header: dict[str, Any], arrays: Arrays, model: BaseModel | Estimator | None
    ) -> None:
        super()._restore(header, arrays, model)
        ends = header["ends"]
        whole = all(type(end) is int for end in ends)
        if not whole or ends != sorted(ends) or ends[-1:] != [self.n_features_in_]:
            raise StateError("ends are not where the groups of all columns end")
        self._ends_ = tuple(ends)
