r"""The covariance among the leading features, for honest intervals.

A belief with one variance per feature is too sure of itself where columns are correlated, and its
mean is slow along directions in which the columns hardly vary. Both do no harm to a ranking; they
do to an interval. So each row is also kept as what it said: a normal observation of
:math:`\theta^\top z` with precision :math:`\tau` and value :math:`r` (see
:mod:`fires.kernels.assimilate`). Among the leading columns C, at most 100, these add up to

.. math::
    \Lambda = \sum_b \gamma^{\text{age}_b} \tau_b z_b z_b^\top, \qquad
    \eta = \sum_b \gamma^{\text{age}_b} \tau_b r_b z_b

and the posterior has covariance :math:`(\Lambda / \varphi + I)^{-1}` and mean
:math:`(\Lambda / \varphi + I)^{-1} \eta / \varphi`, with the inflation :math:`\varphi` of dependent
rows (:mod:`fires.models.inflation`). The other columns enter through their mean, and their variance
is a part of the noise: both as far as these means are more than chance. When the scale of a column
moves, the sums are expressed in the units of now. The inverse is made when somebody asks.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from fires.core.blas import one_thread
from fires.core.declared import Array, Declared, View
from fires.core.types import Floats, Ints, Places
from fires.kernels.assimilate import N_FACTS, add_to_sums
from fires.kernels.select import top_k

# How many features lead, at most.
MOST = 100

# The variance of a coefficient before any row.
PRIOR = 1.0

_ROWS = 1000.0  # between two looks at who leads
_GROWN = 0.25  # at the beginning: a look when the rows have grown by this share
_WIDE = 50_000.0  # columns that are looked at in about the time of a row
_HYSTERESIS = 1.1  # a column that leads is replaced by one that is better by this factor


class CovarianceBlock:
    """What rows said about the leading features, together."""

    learnt: ClassVar[Declared] = {
        "columns": Array("C", dtype="int64", low=0, high="J"),
        "information": Array("R", "C1", "C1"),
        "pull": Array("R", "C1"),
        "waited": Array(low=0.0),
        # Files of earlier versions do not have it: nothing is known to have been brought.
        "brought": Array(2, "R", "C1", optional=True),
        "trust": Array("R", low=0.0, high=1.0, optional=True),
        "classes": Array("C", dtype="int64", low=-1, high="R", optional=True),
        "late": Array("0|C", low=0.0, high=1.0, optional=True),
        "learnable": Array(low=0.0, optional=True),
    }

    # Lines of the sums; what is left of what columns brought with them comes last.
    information = View("sums", slice(None), slice(-3))
    pull = View("sums", slice(None), -3)

    def __init__(self, n_features: int, n_rows: int) -> None:
        self.n_features, self.n_rows = n_features, n_rows
        self.waited = 0.0  # rows since the last look at who leads
        self.learnable = 0.0  # how much there was to learn from all rows, as old ones fade
        self.inflation = np.ones(n_rows)  # see fires.models.inflation
        # The share of what other columns add to predictions that is more than chance.
        self.trust = np.ones(n_rows)
        self.lead(np.arange(min(n_features, MOST)))

    def lead(self, columns: Ints) -> None:
        """Let these columns lead, of which nothing is known."""
        self.columns, size = columns, len(columns) + 1
        self.holds_all = len(columns) == self.n_features  # whether every feature leads
        self.sums = np.zeros((self.n_rows, size + 3, size))
        # The row of parameters that each column matters most for; -1 if that is not settled.
        self.classes = np.full(len(columns), -1)
        # The share of all there was to learn that came before each column led; empty if all did.
        self.late: Floats = np.empty(0)

    def missed(self) -> Floats:
        """The share of all there was to learn that came before each column led."""
        return self.late if len(self.late) else np.zeros(len(self.columns))

    def seen(self) -> Floats:
        """The share of all there was to learn that was there when each column led."""
        late = self.late
        return np.maximum(1.0 - late, 1e-3) if len(late) else np.ones(len(self.columns))

    @property
    def brought(self) -> Floats:
        """What is left of the information, and of the pull, that columns brought with them."""
        return self.sums[:, -2:].swapaxes(0, 1)

    @brought.setter
    def brought(self, values: Floats) -> None:
        self.brought[:] = values

    def add(
        self,
        Z: Floats,
        row_stats: Floats,
        weight: Floats,
        others: tuple[Floats, Floats, Floats, Floats] | None,
        *,
        gamma: float,
    ) -> None:
        """Take in what the rows of a batch said.

        Where other columns do not lead, what is known of the intercept, and of the leading
        coefficients: means before the batch, means and variances after it.
        """
        if others is None:
            none = np.empty((self.n_rows, 0))
            others = np.empty((self.n_rows, N_FACTS)), none, none, none
        facts = weight, row_stats, *others, self.trust, gamma, self.sums
        learnable = add_to_sums(Z, *facts)
        self.waited += float(len(weight))
        self.count(gamma ** float(np.add.reduce(weight)), learnable)

    def count(self, kept: float, learnable: float) -> None:
        """Count how much there was to learn from rows; what came before has faded."""
        before = kept * self.learnable
        self.learnable = before + learnable
        if len(self.late) and self.learnable:  # what came before them is a smaller share now
            self.late = self.late * (before / self.learnable)

    def add_sums(self, information: Floats, pull: Floats, keep: float) -> None:
        """Take in what the rows of a batch said, as sums: see :meth:`add`."""
        self.sums *= keep
        self.information += information
        self.pull += pull
        self.count(keep, float(information[:, -1, -1].sum()))

    def is_due(self, n_rows: float) -> bool:
        """Whether enough rows have come since the last look at who leads."""
        return self.waited >= min(_ROWS, max(_GROWN * n_rows, self.n_features / _WIDE))

    def follow(
        self,
        score: Floats,
        belief: Callable[[Ints], tuple[Floats, Floats]],
        prior: float,
        n_leading: int | None = None,
    ) -> None:
        """Let the best features lead; newcomers bring what the diagonal belief knows of them."""
        self.waited = 0.0
        score[self.columns] *= _HYSTERESIS
        leading = top_k(score, len(self.columns) if n_leading is None else n_leading)
        if np.array_equal(leading, self.columns):
            return
        fresh = self._lead(leading)
        mu, var = belief(leading[fresh])
        known = np.maximum(1.0 / var - 1.0 / prior, 0.0)
        # The mean was drawn to 0 by a narrower prior, from which it is let go. Where it owes
        # more to that prior than to any row, nobody knows how far: it stays as it is.
        pull = mu * np.minimum(1.0 / var, 2.0 * known + 1.0 / PRIOR)
        self.information[:, fresh, fresh], self.pull[:, fresh] = known, pull
        self.brought[:, :, fresh] = known, pull

    def _lead(self, leading: Ints) -> Ints:
        """Let these columns lead, sorted; the places of those of which nothing is known here."""
        stays = np.isin(self.columns, leading, assume_unique=True)
        more = np.arange(4)  # the intercept, the pull, what was brought
        kept = np.append(np.flatnonzero(stays), len(self.columns) + more)
        places = np.append(np.searchsorted(leading, self.columns[stays]), len(leading) + more)
        before, classes, late = self.sums[:, kept[:, None], kept[:-3]], self.classes, self.missed()
        self.lead(leading)
        self.classes[places[:-4]] = classes[stays]
        self.late = np.ones(len(leading))
        self.late[places[:-4]] = late[stays]
        self.sums[:, places[:, None], places[:-3]] = before
        return np.setdiff1d(np.arange(len(leading)), places)

    def welcome(self, arrived: Ints, *, alone: bool = False) -> None:
        """Let columns lead that have just come, as long as there is room."""
        if alone:
            self.lead(arrived[:MOST].astype(np.int64))
        elif len(self.columns) < MOST and len(new := np.setdiff1d(arrived, self.columns)):
            room = MOST - len(self.columns)
            self._lead(np.sort(np.concatenate([self.columns, new[:room]])))

    def rearranged(self, source: Places) -> CovarianceBlock:
        """A copy for other columns: marginalised over those that are gone, new ones do not lead."""
        other = copy.copy(self)
        places = np.full(self.n_features, -1)
        places[source[source >= 0]] = np.flatnonzero(source >= 0)
        gone = places[self.columns] < 0
        if gone.any():
            other.sums = self.sums.copy()
            other.restart(self.columns[gone])
            other._lead(self.columns[~gone])
        other.columns, other.n_features = places[other.columns], len(source)
        other.holds_all = len(other.columns) == len(source)
        return other

    def restart(self, columns: Ints) -> None:
        """Forget some columns; what is known of the others stays exactly the same.

        Their coefficients are integrated out: rows spoke of all coefficients together.
        """
        gone = np.flatnonzero(np.isin(self.columns, columns))
        stay = np.setdiff1d(np.arange(self.pull.shape[1]), gone)
        sums = zip(self.information, self.pull, self.inflation.tolist(), strict=True)
        for information, pull, inflation in sums:
            shared = information[np.ix_(stay, gone)]
            own = information[np.ix_(gone, gone)] + np.eye(len(gone)) * inflation / PRIOR
            explained = np.linalg.solve(own, np.column_stack([shared.T, pull[gone]]))
            information[np.ix_(stay, stay)] -= shared @ explained[:, :-1]
            pull[stay] -= shared @ explained[:, -1]
            information[gone] = information[:, gone] = pull[gone] = 0.0
        self.brought[:, :, gone] = 0.0
        self.late = self.missed()
        self.late[gone] = 1.0

    def loosen(self, row: int, direction: Floats, variance: float) -> None:
        """Let coefficients, the intercept last, be less certain in a direction, whatever was said.

        It is the posterior after a random step of this variance in the direction: the mean stays.
        """
        information, pull = self.information[row], self.pull[row]
        line, squared = information @ direction + direction / PRIOR, float(direction @ direction)
        known = float(line @ direction)
        if not known > 0.0:
            return
        variance = min(variance, max(PRIOR * squared - 1.0 / known, 0.0))
        share = variance / (1.0 + variance * known)
        pull -= share * float(pull @ direction) * line
        information -= share * np.outer(line, line)
        self.brought[:, row] *= 1.0 - share * known * direction**2 / squared

    def forget(self, row: int | slice, keep: float) -> None:
        """Let the evidence so far count as a share of itself."""
        self.sums[row] *= keep
        if isinstance(row, slice) or self.n_rows == 1:
            self.learnable *= keep

    def means(self) -> Floats:
        """Mean of the coefficients of the leading columns; without deviations it is sooner done."""
        precision, pull = self._tempered()
        with one_thread(precision.shape[1]):
            return np.asarray(np.linalg.solve(precision, pull[:, :, None])[:, :-1, 0])

    def _tempered(self) -> tuple[Floats, Floats]:
        """Precision and pull, with the prior; dependent rows count as fewer independent ones."""
        precision = self.sums[:, :-3] / self.inflation[:, None, None]
        np.einsum("kii->ki", precision)[:] += 1.0 / PRIOR
        return precision, self.sums[:, -3] / self.inflation[:, None]

    def systems(self) -> Floats:
        """Precision and pull of the leading columns, which comes last: for each row of parameters.

        Without what columns brought with them when they came to lead.
        """
        inflation, size = self.inflation[:, None, None], len(self.columns)
        systems = np.empty((self.n_rows, size + 1, size + 2))
        precision = np.divide(self.sums[:, :-3], inflation, out=systems[:, :, :-1])
        np.einsum("kii->ki", precision)[:] += 1.0 / PRIOR
        kept = 1.0
        while kept > 0.2 and not self.holds_all:
            np.einsum("kii->ki", precision)[:] -= kept * self.brought[0] / inflation[:, 0]
            if _is_positive(precision):
                break
            # A random step of all coefficients together has left less than what was brought.
            np.einsum("kii->ki", precision)[:] += kept * self.brought[0] / inflation[:, 0]
            kept *= 0.5
        brought = 0.0 if self.holds_all or kept <= 0.2 else kept * self.brought[1]
        np.divide(self.sums[:, -3] - brought, inflation[:, 0], out=systems[:, :, -1])
        return systems

    def estimate(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the coefficients of the leading columns."""
        mean, covariance = self.posterior()
        return mean, np.sqrt(np.maximum(np.einsum("kii->ki", covariance), 0.0))

    def posterior(self) -> tuple[Floats, Floats]:
        """Mean and covariance of the coefficients of the leading columns."""
        size = len(self.columns)
        information, pull = self._tempered()
        inverse = inverted(information)
        mean = np.einsum("kij,kj->ki", inverse, pull)
        return mean[:, :size], inverse[:, :size, :size]


def inverted(precision: Floats) -> Floats:
    """Covariances."""
    with one_thread(precision.shape[1]):
        try:
            return np.asarray(np.linalg.inv(precision), dtype=np.float64)
        except np.linalg.LinAlgError:  # weights so large that the prior is lost beside them
            return np.asarray(np.linalg.pinv(precision, hermitian=True), dtype=np.float64)


def _is_positive(precision: Floats) -> bool:
    """Whether the prior is left in all directions."""
    less = precision.copy()
    np.einsum("kii->ki", less)[:] -= 0.9 / PRIOR
    try:
        with one_thread(less.shape[1]):
            np.linalg.cholesky(less)
    except np.linalg.LinAlgError:
        return False
    return True
