r"""Which curves and pairs would add to a belief: score tests of terms that are not in it.

While the belief is right, the slope g of the log likelihood of a row has mean 0 whatever the row
is, and so has its product with any term t of the row. So

.. math:: T = \frac{\sum g t}{\sqrt{\sum g^2 t^2}}

is about standard normal, where old rows fade in both sums. All cosines of all columns are tested,
and the products of all pairs of columns, as long as there are at most four million: beyond that,
of the leading columns with all others. What a term has in common with the line of its column is
taken off. Rows that depend on each other count for less, see :mod:`fires.models.inflation`. A term
is found where T is beyond the limit of Bonferroni, for all terms, and for looks again and again.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import sgemm
from scipy.special import ndtri

from fires.core.declared import Array, Declared
from fires.core.types import Floats, Ints
from fires.kernels.screen import DEVIATIONS, KNOTS, ORDERS, screen_rows

_LEVEL = 0.002  # the probability of a false term, in all looks at all terms together
_MOST_SUMS = 4_000_000
_LEADING = 64  # columns whose products with all others are summed where those of all are too many
_QUANTILES = 5000.0  # rows that running quantiles are of
_LEVELS = np.array([0.02275, 0.09121, 0.25249, 0.5, 0.74751, 0.90879, 0.97725])


class Screen:
    """Sums of scores of terms, and the running quantiles of columns."""

    learnt: ClassVar[Declared] = {
        "knots": Array(len(KNOTS), "J"),
        "rows": Array(low=0.0),
        "faded": Array(2, low=0.0),
        "total": Array("R", len(ORDERS) + 1, "J"),
        "square": Array("R", len(ORDERS), "J", low=0.0),
        "crossed": Array(len(ORDERS) + 1, "J"),
        "left": Array("L", dtype="int64", low=0, high="J"),
        "products": Array("R", "J", "L", dtype="float32"),
        "squares": Array("R", "J", "L", dtype="float32", low=0.0),
    }

    def __init__(self, n_features: int, n_rows: int, *, pairs: bool) -> None:
        self.n_features, self.n_rows = n_features, n_rows
        self.knots = np.repeat(KNOTS[:, None], n_features, axis=1)
        self.rows = 0.0
        self.faded = np.zeros(2)  # rows, faded as the sums and as those of squares
        self.crossed = np.zeros((len(ORDERS) + 1, n_features))
        all_fit = n_features**2 * n_rows <= _MOST_SUMS
        n_left = n_features if all_fit else _LEADING
        self.left: Ints = np.arange(n_left if pairs and n_features > 1 else 0)
        self.restart()

    @property
    def all_fit(self) -> bool:
        """Whether the products of all pairs are summed."""
        return len(self.left) == self.n_features

    def restart(self) -> None:
        """Forget what rows said of terms."""
        self.total = np.zeros((self.n_rows, len(ORDERS) + 1, self.n_features))
        self.square = np.zeros((self.n_rows, len(ORDERS), self.n_features))
        self.restart_pairs()

    def restart_pairs(self, left: Ints | None = None) -> None:
        """Forget what rows said of pairs; go on with those of other columns, if so many lead."""
        self.left = self.left if left is None else left
        size = self.n_rows, self.n_features, len(self.left)
        self.products, self.squares = (np.zeros(size, dtype=np.float32) for _ in range(2))
        self.faded = np.zeros(2)

    def forget(self, keep: float) -> None:
        """Let what rows said count as a share of itself."""
        self.total *= keep
        self.square *= keep**2
        self.products *= np.float32(keep)
        self.squares *= np.float32(keep**2)
        self.faded *= [keep, keep**2]

    def take(self, Z: Floats, weight: Floats, slope: Floats, keep: float) -> None:
        """Take in scaled rows, with the slope of each for each row of parameters."""
        scores, below = np.empty(Z.shape, dtype=np.float32), np.zeros((len(KNOTS), Z.shape[1]))
        self.total *= keep
        self.square *= keep**2
        self.crossed *= keep
        sums = self.total, self.square, self.crossed
        screen_rows(Z, weight, slope, self.knots, scores, below, *sums)
        self._follow_quantiles(below, float(weight.sum()))
        if len(self.left):
            self._add_products(scores, slope.astype(np.float32), keep)

    def _add_products(
        self, scores: npt.NDArray[np.float32], slope: npt.NDArray[np.float32], keep: float
    ) -> None:
        self.faded = self.faded * [keep, keep**2] + len(scores)
        left = scores if self.all_fit else scores[:, self.left]
        squared, columns = scores * scores, {"trans_b": 1, "overwrite_c": 1}
        for k, own in enumerate(slope):
            said = left * own[:, None]
            sgemm(1.0, said.T, scores.T, keep, self.products[k].T, **columns)
            sgemm(1.0, (said * said).T, squared.T, keep**2, self.squares[k].T, **columns)

    def _follow_quantiles(self, below: Floats, weight: float) -> None:
        self.rows += weight
        pace = min(max(2.0 * weight / self.rows, weight / _QUANTILES), 1.0)
        knots = self.knots
        spacing = np.empty_like(knots)
        spacing[1:-1] = (knots[2:] - knots[:-2]) / (_LEVELS[2:] - _LEVELS[:-2])[:, None]
        ends = [(knots[1] - knots[0]), (knots[-1] - knots[-2])] / (_LEVELS[1] - _LEVELS[0])
        spacing[[0, -1]] = ends
        moved = knots + pace * (_LEVELS[:, None] - below / weight) * np.maximum(spacing, 1e-3)
        self.knots = np.maximum.accumulate(moved, axis=0)

    def limit(self, n_terms: int) -> float:
        """How far T must be beyond 0, of so many terms."""
        return float(-ndtri(0.5 * _LEVEL / max(n_terms * self.n_rows, 1)))

    def curves(self) -> Floats:
        """The greatest T of the cosines of each column, over its limit."""
        own, crossed = self.crossed[0], self.crossed[1:]
        share = crossed / np.maximum(own, 1e-12)
        left = self.total[:, 1:] - share * self.total[:, :1]
        # Of the variance of a cosine, what its line does not have.
        free = 1.0 - crossed**2 / np.maximum(own**2 * DEVIATIONS[:, None] ** 2, 1e-12)
        spread = np.sqrt(self.square * np.clip(free, 0.05, 1.0))
        deviations = np.abs(left) / np.maximum(spread, 1e-12)
        return np.asarray(deviations.max(axis=(0, 1)) / self.limit(self.n_features * len(ORDERS)))

    def pairs(self) -> tuple[Ints, Floats]:
        """Pairs of columns, those of the greatest T first, and T over its limit."""
        n, n_left = self.n_features, len(self.left)
        deviations = self._deviations().max(axis=0) / self.limit(n_left * n - n_left * (n_left + 1) // 2)
        second, at = np.nonzero(deviations > 1.0)
        first = self.left[at]
        beyond = deviations[second, at].astype(np.float64)
        low, high = np.minimum(first, second), np.maximum(first, second)
        found, where = np.unique(low * n + high, return_index=True)
        order = np.argsort(-beyond[where], kind="stable")
        found = found[order][low[where[order]] != high[where[order]]]
        strength = beyond[where[order]][low[where[order]] != high[where[order]]]
        return np.column_stack([found // n, found % n]), strength

    def _deviations(self) -> npt.NDArray[np.float32]:
        deviations = np.abs(self.products) / np.sqrt(np.maximum(self.squares, np.float32(1e-12)))
        deviations[:, self.left, np.arange(len(self.left))] = 0.0
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
        # Squares have faded twice; the information that they stand for has faded once.
        known = np.maximum(square, 1e-12) * max(self.faded[0] / max(self.faded[1], 1.0), 1.0)
        spread = np.sqrt(np.maximum(square, 1e-12)) / known
        return np.sqrt(np.maximum(z**2 - chance, 0.0)) * spread, spread
