r"""Which curves and pairs would add to a belief: score tests of terms that are not in it.

While the belief is right, the slope g of the log likelihood of a row has mean 0 whatever the row
is, and so has its product with any term t of the row. So

.. math:: T = \frac{\sum g t}{\sqrt{\sum g^2 t^2}}

is about standard normal, where old rows fade in both sums. All cosines of all columns are tested,
and the products of all pairs of columns, as long as there are at most four million: beyond that,
of the leading columns with all others. What a term has in common with the line of its column is
taken off, with both weighted by the squared slope. Rows that depend on each other count for less,
see :mod:`fires.models.inflation`; T is also divided by its median over all columns, where
that is greater than it should be. A term is found where T is beyond the limit of
Bonferroni, for all terms, and for looks again and again. Of sparse rows, the presence of columns is
tested.
"""

from __future__ import annotations

import copy
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import sgemm
from scipy.special import ndtri

from fires.core.declared import Array, Declared
from fires.core.types import CsrRows, Floats, Ints
from fires.kernels.compiling import read_only
from fires.kernels.linear import accumulate_csr
from fires.kernels.screen import DEVIATIONS, KNOTS, ORDERS, screen_rows
from fires.models.terms import PRESENCE

_LEVEL = 0.002  # the probability of a false term, at a look at all terms together
_EARLY = 4.0  # before row 2,000, when there were few looks, it is this over the rows
_MOST_SUMS = 4_000_000
_LEADING = 64  # columns whose products with all others are summed where those of all are too many
_QUANTILES = 5000.0  # rows that running quantiles are of
_FAR = 0.499  # from a half: that no row, or each, is below
_TIES = 1e-9 * np.arange(len(KNOTS))
_MEDIAN = 0.6745  # of the absolute values of a standard normal variable
_LEVELS = np.array([0.02275, 0.09121, 0.25249, 0.5, 0.74751, 0.90879, 0.97725])


class Screen:
    """Sums of scores of terms, and the running quantiles of columns."""

    learnt: ClassVar[Declared] = {
        "rows": Array(low=0.0),
        "knots": Array(len(KNOTS), "J"),
        "below": Array(len(KNOTS) + 1, "J", low=0.0),
        "n_kept": Array(2, low=0.0),
        "total": Array("R", len(ORDERS) + 1, "J"),
        "square": Array("R", len(ORDERS) + 1, "J", low=0.0),
        "crossed": Array("R", len(ORDERS), "J"),
        "left": Array("L", dtype="int64", low=0, high="J"),
        "products": Array("R", "J", "L", dtype="float32"),
        "squares": Array("R", "J", "L", dtype="float32", low=0.0),
    }

    orders: ClassVar[Ints] = ORDERS

    def __init__(self, n_features: int, n_rows: int, *, pairs: bool) -> None:
        self.n_features, self.has_pairs = n_features, pairs and n_features > 1
        self.knots = np.repeat(KNOTS[:, None], n_features, axis=1)
        self.below = np.zeros((len(KNOTS) + 1, n_features))  # rows below each knot, and all of them
        self.rows = 0.0
        self._begin(n_rows)

    def _begin(self, n_rows: int) -> None:
        self.n_rows = n_rows
        all_fit = self.n_features**2 * n_rows <= _MOST_SUMS
        n_left = self.n_features if all_fit else _LEADING
        self.left: Ints = np.arange(n_left if self.has_pairs else 0)
        self.restart()

    def with_rows(self, n_rows: int) -> Self:
        """A copy for other rows of parameters, which knows of quantiles only."""
        other = copy.deepcopy(self)
        other.below[:] = 0.0
        other._begin(n_rows)
        return other

    @property
    def all_fit(self) -> bool:
        """Whether the products of all pairs are summed."""
        return len(self.left) == self.n_features

    def restart(self) -> None:
        """Forget what rows said of terms."""
        self.total = np.zeros((self.n_rows, len(self.orders) + 1, self.n_features))
        self.square = np.zeros_like(self.total)
        self.crossed = np.zeros((self.n_rows, len(self.orders), self.n_features))
        size = self.n_rows, self.n_features, len(self.left)
        self.products, self.squares = (np.zeros(size, dtype=np.float32) for _ in range(2))
        self.n_kept = np.zeros(2)  # rows, faded as the sums and as those of squares

    def follow(self, leading: Ints) -> None:
        """Sum the products of other columns with all, unless nearly all are the same."""
        stays = np.isin(self.left, leading)
        if stays.mean() < 0.75:
            kept, places = np.flatnonzero(stays), np.searchsorted(leading, self.left[stays])
            for sums in (self.products, self.squares):
                old = sums[:, :, kept]
                sums[:] = 0.0
                sums[:, :, places] = old
            self.left = leading

    def forget(self, keep: float) -> None:
        """Let what rows said count as a share of itself."""
        self.total *= keep
        self.square *= keep**2
        self.crossed *= keep**2
        self.products *= np.float32(keep)
        self.squares *= np.float32(keep**2)
        self.n_kept *= [keep, keep**2]

    def take(self, Z: Any, weight: Floats, slope: Floats, of_pairs: Floats, keep: float) -> None:
        """Take in scaled rows, with the slope of each for each row of parameters.

        Pairs have slopes of their own, which do not know of pairs in the belief.
        """
        scores, below = np.empty(Z.shape, dtype=np.float32), np.zeros((len(KNOTS), Z.shape[1]))
        self.forget(keep)
        self.n_kept += len(Z)
        sums = self.total, self.square, self.crossed
        screen_rows(Z, weight, slope, self.knots, scores, below, sums)
        self.rows += float(weight.sum())
        self.below[-1] += float(weight.sum())
        self.below[:-1] += below
        left = scores if self.all_fit else scores[:, self.left]
        squared, columns = scores * scores, {"trans_b": 1, "overwrite_c": 1}
        for k, own in enumerate(of_pairs.astype(np.float32) if self.has_pairs else ()):
            pulls = left * own[:, None]
            sgemm(1.0, pulls.T, scores.T, 1.0, self.products[k].T, **columns)
            sgemm(1.0, (pulls * pulls).T, squared.T, 1.0, self.squares[k].T, **columns)

    def refresh(self) -> None:
        """Move the running quantiles by the rows since they were moved."""
        weight, knots = self.below[-1, 0], self.knots
        if not weight:  # the last batch was not taken in
            return
        below = self.below[:-1] / weight
        self.below = np.zeros_like(self.below)
        gaps, steps = np.diff(knots, axis=0), np.diff(_LEVELS)[:, None]
        spacing = np.concatenate([gaps[:1] / steps[0], gaps / steps])
        pace = min(max(2.0 * weight / self.rows, weight / _QUANTILES), 1.0)
        moved = knots + pace * (_LEVELS[:, None] - below) * np.maximum(spacing, 1e-3)
        # Far from the rows, quantiles do not know where to go.
        for j in np.flatnonzero((np.abs(below[1:-1] - 0.5) > _FAR).any(axis=0)).tolist():
            moved[:, j] = np.interp(_LEVELS, below[:, j] + _TIES, knots[:, j])
        self.knots = np.maximum.accumulate(moved, axis=0)

    def limit(self, n_terms: int) -> float:
        """How far T must be beyond 0, of so many terms."""
        level = max(_LEVEL, _EARLY / max(self.rows, 1.0))
        return float(-ndtri(0.5 * level / max(n_terms * self.n_rows, 1)))

    def curves(self) -> Floats:
        """The greatest T of the terms of each column, over its limit."""
        total, square, crossed = self._sums()
        share = crossed / np.maximum(square[:, :1], 1e-12)
        left = total[:, 1:] - share * total[:, :1]
        variance = square[:, 1:] - share * crossed
        known = variance > 0.02 * square[:, 1:]  # else it says no more than the line
        deviations = np.where(known, np.abs(left) / np.sqrt(np.where(known, variance, 1.0)), 0.0)
        deviations /= _control(deviations)
        return np.asarray(
            deviations.max(axis=(0, 1)) / self.limit(self.n_features * len(self.orders))
        )

    def _sums(self) -> tuple[Floats, Floats, Floats]:
        return self.total, self.square, self.crossed

    @property
    def _once(self) -> float:
        """Squares have faded twice. The information that they stand for fades once: how much."""
        return max(float(self.n_kept[0]) / max(float(self.n_kept[1]), 1.0), 1.0)

    def evidence(self, columns: Ints) -> tuple[Floats, Floats] | None:
        """Pull and information of the cosines of columns, one column after the other."""
        unit = 2.0 / (ORDERS * DEVIATIONS)
        pull = self.total[:, 1:, columns] * unit[:, None]
        information = self.square[:, 1:, columns] * unit[:, None] ** 2 * self._once
        n = self.n_rows, len(columns) * len(ORDERS)
        return pull.swapaxes(1, 2).reshape(n), information.swapaxes(1, 2).reshape(n)

    def pairs(self, least: float = 1.0) -> tuple[Ints, Floats]:
        """Pairs of columns, those of the greatest T first, and T over its limit."""
        n, n_left = self.n_features, len(self.left)
        limit = self.limit(n_left * n - n_left * (n_left + 1) // 2)
        deviations = self._deviations().max(axis=0) / limit
        second, at = np.nonzero(deviations > least)
        beyond = deviations[second, at].astype(np.float64)
        low, high = np.minimum(self.left[at], second), np.maximum(self.left[at], second)
        found, where = np.unique(low * n + high, return_index=True)
        order = np.argsort(-beyond[where], kind="stable")
        return np.column_stack([found // n, found % n])[order], beyond[where][order]

    def _deviations(self) -> npt.NDArray[np.float32]:
        """T of pairs; 0 where the square of one of the two says as much.

        A column that goes together with a curved one has a product with it that says the same.
        """
        deviations = np.abs(self.products) / np.sqrt(np.maximum(self.squares, np.float32(1e-12)))
        deviations /= _control(deviations)
        at = np.arange(len(self.left))
        squares = deviations[:, self.left, at]
        deviations *= deviations > squares[:, None]
        if self.all_fit:
            deviations *= deviations > squares[:, :, None]
        return np.asarray(deviations)

    def credit(self) -> tuple[Floats, Floats]:
        """What the best pair of each column adds, for each row of parameters, and how sure.

        It is an estimate of each pair for itself, less what the best of so many shows by chance.
        """
        deviations = self._deviations()
        best = deviations.argmax(axis=2)[:, :, None]
        z = np.take_along_axis(deviations, best, axis=2)[:, :, 0].astype(np.float64)
        square = np.take_along_axis(self.squares, best, axis=2)[:, :, 0].astype(np.float64)
        chance = 2.0 * np.log(max(len(self.left), 2))
        known = np.maximum(square, 1e-12) * self._once
        spread = np.sqrt(np.maximum(square, 1e-12)) / known
        return np.sqrt(np.maximum(z**2 - chance, 0.0)) * spread, spread


class PresenceScreen(Screen):
    """The same of sparse rows, at the cost of their entries: each column has one term.

    A column is neither scaled nor centred here: at a look, what terms have in common with the level
    is taken off.
    """

    learnt: ClassVar[Declared] = {
        "rows": Array(low=0.0),
        "n_kept": Array(2, low=0.0),
        "total": Array("R", 2, "J"),
        "square": Array("R", 2, "J", low=0.0),
        "crossed": Array("R", 1, "J"),
        "level": Array(2, "R"),
        "decay": Array(low=1e-100),
    }
    orders = PRESENCE

    def __init__(self, n_features: int, n_rows: int) -> None:
        self.n_features, self.has_pairs, self.rows = n_features, False, 0.0
        self.knots = self.below = np.empty((len(KNOTS), 0))
        self._begin(n_rows)

    def restart(self) -> None:
        """See :class:`Screen`."""
        super().restart()
        self.level = np.zeros((2, self.n_rows))  # sums of slopes, and of their squares
        self.decay = 1.0  # by which all other sums are to be multiplied; the square, of squares

    def forget(self, keep: float) -> None:
        """See :class:`Screen`."""
        self.decay *= keep
        self.level *= [[keep], [keep**2]]
        self.n_kept *= [keep, keep**2]

    def take(
        self, Z: CsrRows, weight: Floats, slope: Floats, of_pairs: Floats, keep: float
    ) -> None:
        """Take in rows, with the slope of each for each row of parameters."""
        self.forget(keep)
        self.level += slope.sum(axis=1), (slope**2).sum(axis=1)
        self.n_kept += Z.shape[0]
        self.rows += float(weight.sum())
        own, n_entries = np.tile(slope / self.decay, 2), len(Z.data)
        # Each row twice: with its entries, and with their presence behind all columns.
        rows = read_only(
            np.append(Z.data, Z.data != 0.0),
            np.append(Z.indices, Z.indices + np.int64(self.n_features)),
            np.append(Z.indptr, Z.indptr[1:] + np.int64(n_entries)),
        )
        sums = (part.reshape(self.n_rows, -1) for part in (self.total, self.square))
        accumulate_csr(*rows, own, own**2, *sums)
        # An entry is its product with its presence.
        once, crossed = (slope / self.decay) ** 2, self.crossed[:, 0]
        entries = rows[0][:n_entries], rows[1][:n_entries], rows[2][: Z.shape[0] + 1]
        accumulate_csr(*entries, once, np.zeros_like(once), crossed, np.zeros(crossed.shape))

    def refresh(self) -> None:
        """Sparse columns have none; sums are brought up to date."""
        decay, self.decay = self.decay, 1.0
        self.total *= decay
        self.square *= decay**2
        self.crossed *= decay**2

    def _sums(self) -> tuple[Floats, Floats, Floats]:
        level, squares = self.level[:, :, None, None]
        of_line, present = self.crossed, self.square[:, 1:]  # times the squared slope
        mean = np.concatenate([of_line, present], axis=1) / np.maximum(squares, 1e-300)
        square = self.square - mean**2 * squares
        return self.total - mean * level, square, of_line - mean[:, :1] * present

    def evidence(self, columns: Ints) -> None:
        """New terms start at the prior."""


def _control(deviations: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """How much wider absolute deviations are than normal ones, by their median (genomic control).

    That of a few is off by chance: one standard error is taken off.
    """
    flat = deviations.reshape(len(deviations), -1)
    sure = max(1.0 - 1.3 / np.sqrt(flat.shape[1]), 0.0)
    wide = np.maximum(sure / _MEDIAN * np.median(flat, axis=1), 1.0)
    return np.asarray(wide[:, None, None], dtype=deviations.dtype)
