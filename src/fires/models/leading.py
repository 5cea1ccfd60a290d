r"""The covariance among the leading features, for honest intervals.

A belief with one variance per feature is too sure of itself where columns are correlated, and its
mean is slow along directions in which the columns hardly vary. Both do no harm to a ranking; they
do to an interval. So each row is also kept as what it said: a normal observation of
:math:`\theta^\top z` with precision :math:`\tau` and value :math:`r` (see
:mod:`fires.kernels.assimilate`). Among the leading columns C, at most 100, these add up to

.. math::
    \Lambda = \sum_b \gamma^{\text{age}_b} \tau_b z_b z_b^\top, \qquad
    \eta = \sum_b \gamma^{\text{age}_b} \tau_b r_b z_b

and the posterior has covariance :math:`(\Lambda + I)^{-1}` and mean
:math:`(\Lambda + I)^{-1} \eta`. The other columns enter through their mean. A batch is only put
aside; the sums are made for many rows at once, and the inverse when somebody asks.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from fires.core.belief import Floats
from fires.core.declared import Array, Declared

MOST = 100
"""How many features lead, at most."""

_ROWS = 1000  # that are put aside before they are summed up
_HOME = 1.1  # a column that leads is replaced by one that is better by this factor
_PRIOR = 1.0  # the variance of a coefficient before any row

Columns = npt.NDArray[np.int64]


class Leading:
    """What rows said about the leading features, together.

    Parameters
    ----------
    n_features : int
        Columns of a batch.
    n_rows : int
        Rows of parameters.
    """

    learnt: ClassVar[Declared] = {
        "columns": Array("C", dtype="int64", low=0, high="J"),
        "information": Array("R", "C1", "C1"),
        "pull": Array("R", "C1"),
    }

    def __init__(self, n_features: int, n_rows: int) -> None:
        size = min(n_features, MOST)
        self.n_features = n_features
        self.columns: Columns = np.arange(size)
        self.information = np.zeros((n_rows, size + 1, size + 1))
        self.pull = np.zeros((n_rows, size + 1))
        self._aside: list[tuple[Floats, Floats, Floats, Any]] = []
        self._n_aside = 0

    @property
    def holds_all(self) -> bool:
        """Whether every feature leads."""
        return len(self.columns) == self.n_features

    def add(self, Z: Floats, said: Floats, weight: Floats, others: Floats | None) -> None:
        """Put a batch aside.

        Parameters
        ----------
        Z : ndarray (n_rows, n_leading)
            Standardised rows of the leading columns; nobody changes this array any more.
        said : ndarray (n_parameter_rows, 4, n_rows)
            See :func:`fires.kernels.assimilate.assimilate_plain`.
        weight : ndarray (n_rows,)
            How often each row counts.
        others : ndarray (n_parameter_rows, n_rows), optional
            What all other columns add to the predictions.
        """
        self._aside.append((Z, said, weight, others))
        self._n_aside += len(weight)

    @property
    def is_due(self) -> bool:
        """Whether enough rows are put aside to sum them up."""
        return self._n_aside >= _ROWS

    def sum_up(self, gamma: float) -> None:
        """Add what was put aside to the sums.

        Parameters
        ----------
        gamma : float
            The share of its evidence that a belief keeps from row to row.
        """
        if not self._aside:
            return
        # In single precision: these are sums of thousands of rows, for intervals.
        n, size = self._n_aside, len(self.columns)
        rows = np.ones((n, size + 2), dtype=np.float32)
        np.concatenate([Z for Z, *_ in self._aside], out=rows[:, :size], casting="same_kind")
        weight = np.concatenate([weight for _, _, weight, _ in self._aside])
        age = np.cumsum(weight[::-1])[::-1] - weight
        kept, whole = gamma**age, gamma ** float(weight.sum())
        said = np.concatenate([said for _, said, _, _ in self._aside], axis=2)
        value = said[:, 0] + said[:, 3]
        if not self.holds_all:
            value -= np.concatenate([others for *_, others in self._aside], axis=1)
        for k in range(len(self.pull)):
            rows[:, -1] = value[k]
            weighted = rows * np.sqrt(said[k, 2] * kept).astype(np.float32)[:, None]
            sums = weighted.T @ weighted
            self.information[k] = self.information[k] * whole + sums[:-1, :-1]
            self.pull[k] = self.pull[k] * whole + sums[:-1, -1]
        self._aside, self._n_aside = [], 0

    def follow(self, score: Floats, mu: Floats, var: Floats, prior: float) -> None:
        """Let the best features lead; newcomers bring what the diagonal belief knows of them.

        Parameters
        ----------
        score : ndarray (n_features,)
            Greater for better.
        mu, var : ndarray (n_parameter_rows, n_features)
            The diagonal belief.
        prior : float
            Its variance before any row.
        """
        size = len(self.columns)
        favoured = score.copy()
        favoured[self.columns] *= _HOME
        leading = np.sort(np.argpartition(-favoured, size - 1)[:size])
        if (leading == self.columns).all():
            return
        stays = np.isin(self.columns, leading, assume_unique=True)
        kept = np.append(np.flatnonzero(stays), size)
        places = np.append(np.searchsorted(leading, self.columns[stays]), size)
        fresh = np.setdiff1d(np.arange(size), places)
        old_information, old_pull = self.information, self.pull
        self.information, self.pull = np.zeros_like(old_information), np.zeros_like(old_pull)
        for k in range(len(mu)):
            self.information[k][np.ix_(places, places)] = old_information[k][np.ix_(kept, kept)]
            self.pull[k, places] = old_pull[k, kept]
            new = leading[fresh]
            self.information[k, fresh, fresh] = np.maximum(1.0 / var[k, new] - 1.0 / prior, 0.0)
            self.pull[k, fresh] = mu[k, new] / var[k, new]
        self.columns = leading

    def forget(self, row: int | slice, keep: float) -> None:
        """Let the evidence so far count as a share of itself.

        Parameters
        ----------
        row : int or slice
            Which rows of parameters.
        keep : float
            The share.
        """
        self.information[row] *= keep
        self.pull[row] *= keep

    def estimate(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the coefficients of the leading columns.

        Returns
        -------
        mean, deviation : ndarray (n_parameter_rows, n_leading)
        """
        size = len(self.columns)
        inverse = np.linalg.inv(self.information + np.eye(size + 1) / _PRIOR)
        mean = np.einsum("kij,kj->ki", inverse, self.pull)
        deviation = np.sqrt(np.maximum(np.einsum("kii->ki", inverse), 0.0))
        return mean[:, :size], deviation[:, :size]
