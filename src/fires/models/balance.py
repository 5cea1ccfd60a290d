"""The running shares of the classes, and what nets and trees make of them."""

from __future__ import annotations

import copy

import numpy as np

from fires.core.declared import Array, collect, restore
from fires.core.state import Arrays
from fires.core.types import Floats
from fires.models.base import Values

# The most that a row of a rare class counts. The level takes over what is left of its rarity.
_GREATEST = 100.0
_LEAST = 1e-6  # the least share, for classes that have not been met
_LEARNT = {"class_weight": Array("K", low=0.0)}


class ClassBalance:
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

    Parameters
    ----------
    n_classes : int
        How many classes there are.

    Examples
    --------
    >>> balance = ClassBalance(2)
    >>> y = np.array([0, 0, 0, 0, 0, 0, 0, 1])
    >>> balance.shares(y, np.ones(8))
    array([0.875, 0.125])
    >>> balance.look(y, np.ones(8))[0]
    array([0.57142857, 4.        ])
    """

    def __init__(self, n_classes: int) -> None:
        self.class_weight = np.zeros(n_classes)

    def shares(self, y: Values, weight: Floats) -> Floats:
        """The share of every class in the batches before.

        Parameters
        ----------
        y : ndarray of int (n_rows,)
            Class codes, which count if there has been no batch before.
        weight : ndarray (n_rows,)
            How often each row counts.

        Returns
        -------
        ndarray (n_classes,)
        """
        seen = self._seen(y, weight)
        shares: Floats = np.maximum(seen / seen.sum(), _LEAST)
        return shares

    def look(self, y: Values, weight: Floats) -> tuple[Floats, Floats]:
        """How much a row of each class counts, and the levels that outputs are added to.

        Parameters
        ----------
        y, weight
            As in :meth:`shares`.

        Returns
        -------
        counts, level : ndarray (n_classes,)
        """
        shares, met = self.shares(y, weight), self._seen(y, weight) > 0.0
        even = np.minimum(1.0 / (met.sum() * shares), _GREATEST)
        counts = np.where(met, even, 1.0)
        return counts, np.log(shares * counts)

    def count(self, y: Values, weight: Floats) -> None:
        """Learn from a batch.

        Parameters
        ----------
        y : ndarray of int (n_rows,)
            Class codes.
        weight : ndarray (n_rows,)
            How often each row counts.
        """
        self.class_weight = self.class_weight + self._per_class(y, weight)

    def forget(self, keep: float) -> None:
        """Let the batches so far count less.

        Parameters
        ----------
        keep : float
            The share of their weight that they keep.
        """
        self.class_weight = keep * self.class_weight

    def with_classes(self, sources: list[int | None]) -> ClassBalance:
        """A copy for other classes.

        Parameters
        ----------
        sources : list of int or None
            For each class, the old one that it is, or None if it is new.

        Returns
        -------
        ClassBalance
        """
        other = copy.copy(self)
        old = self.class_weight
        other.class_weight = np.array([0.0 if s is None else old[s] for s in sources])
        return other

    def state(self) -> Arrays:
        """Everything needed to go on, as arrays.

        Returns
        -------
        dict of str to ndarray
        """
        return collect(self, _LEARNT)[1]

    def restore(self, arrays: Arrays) -> None:
        """Go on from :meth:`state`; StateError if the arrays do not fit.

        Parameters
        ----------
        arrays : dict of str to ndarray
            What was saved.
        """
        restore(self, _LEARNT, {}, arrays, {"K": self._n})

    @property
    def _n(self) -> int:
        return len(self.class_weight)

    def _seen(self, y: Values, weight: Floats) -> Floats:
        return self.class_weight if self.class_weight.any() else self._per_class(y, weight)

    def _per_class(self, y: Values, weight: Floats) -> Floats:
        return np.bincount(y, weight, minlength=self._n).astype(np.float64)
