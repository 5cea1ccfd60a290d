r"""Curves and pairs that earn their place in a linear belief.

A belief starts with the lines of its columns. A screen tests all curves and pairs that are not in
it. What it finds beyond doubt becomes a term of the belief (:mod:`fires.models.wide`), and leaves
again when it adds nothing. So where all effects are straight lines, the belief is the linear one,
to the bit.

**The race.** With ``"auto"``, a linear belief goes on beside the one with terms, and the one that
predicts better answers: by the sum of the differences of their log likelihoods, in which old rows
fade. Terms that are beyond doubt start with an advantage of ten; at 0 they lose it.

**The screen.** While the belief is right, the slope g of the log likelihood of a row has mean 0
whatever the row is, and so has its product with any term t of the row. So

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
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg.blas import sgemm
from scipy.special import ndtri

from fires.core.batch import CheckedBatch, gaps_in, nothing, ones, row_major
from fires.core.belief import Belief
from fires.core.declared import Array, Declared, collect, restore
from fires.core.state import Arrays, part_of, under
from fires.core.types import CsrRows, Floats, Ints, Labels, Mask, Places
from fires.kernels.assimilate import WIDTH
from fires.kernels.compiling import read_only
from fires.kernels.linear import accumulate_csr, find_places
from fires.kernels.screen import DEVIATIONS, KNOTS, ORDERS, screen_rows
from fires.kernels.select import top_k
from fires.models.base import Learner, Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.mixed import Mixed
from fires.models.scale import Standard
from fires.models.sparse_scale import SparseScale
from fires.models.wide import PRESENCE, Effects, Terms, WideLearner

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
        self._fade(keep)
        self.products *= np.float32(keep)
        self.squares *= np.float32(keep**2)

    def _fade(self, keep: float) -> None:
        self.total *= keep
        self.square *= keep**2
        self.crossed *= keep**2
        self.n_kept *= [keep, keep**2]

    def take(self, Z: Any, weight: Floats, slope: Floats, of_pairs: Floats, keep: float) -> None:
        """Take in scaled rows, with the slope of each for each row of parameters.

        Pairs have slopes of their own, which do not know of pairs in the belief.
        """
        scores, below = np.empty(Z.shape, dtype=np.float32), np.zeros((len(KNOTS), Z.shape[1]))
        self._fade(keep)
        self.n_kept += len(Z)
        sums = self.total, self.square, self.crossed
        screen_rows(Z, weight, slope, self.knots, scores, below, sums)
        self.rows += float(weight.sum())
        self.below[-1] += float(weight.sum())
        self.below[:-1] += below
        left = scores if self.all_fit else scores[:, self.left]
        squared, columns = scores * scores, {"trans_b": 1, "overwrite_c": 1}
        # These sums are large: they fade as products are added to them.
        for k, own in enumerate(of_pairs.astype(np.float32) if self.has_pairs else ()):
            pulls = left * own[:, None]
            sgemm(1.0, pulls.T, scores.T, keep, self.products[k].T, **columns)
            sgemm(1.0, (pulls * pulls).T, squared.T, keep**2, self.squares[k].T, **columns)

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


_FIRST = 250.0  # rows before the first look at the screen
_EVERY = 500.0  # rows between two looks, later on
_ALL = 3000.0  # rows that the screen sees; of later ones, it sees every second batch
_GROWN = 0.2  # at the beginning: a look when the rows have grown by this share
_MOST_CURVES, _MOST_PAIRS = 8, 40
_NEEDLESS = 2.0  # deviations below which a curve leaves
_FOUND = 0.7  # the share of its limit beyond which a pair stays
_SETTLED = 1000.0  # rows that a term stays in any case
_AHEAD = 10.0  # of log likelihoods
_LEARNING = 20.0  # rows a column, in which the belief may predict worse than the level
_RACE = 3000.0  # rows in which the differences of log likelihoods fade to 1/e


class RelationsLearner(Learner):
    """A linear belief with the curves, and the pairs, that add to it."""

    learnt: ClassVar[Declared] = {
        "waited": Array(low=0.0),
        "owed": Array(low=0.0),
        "ahead": Array(),
        "gained": Array(),
        "leads": Array(dtype="bool"),
    }

    def __init__(self, learner: BayesLearner, relations: str) -> None:
        self.relations, self.scaler = relations, learner.scaler
        self.races = relations == "auto"
        self.screen = Screen(learner.n_features, learner.n_rows, pairs=relations != "curves")
        self.wide = WideLearner(learner, Terms(self.screen.knots))
        self.plain: WideLearner | None = None  # the linear belief, while there are terms to race
        self.waited = 0.0  # rows since the last look
        self.owed = 0.0  # rows that the screen has not seen
        self.ahead, self.leads = 0.0, not self.races  # of the belief with terms, in the race
        self.gained = 0.0  # of log likelihoods, by the columns against the level

    @property
    def _beliefs(self) -> list[WideLearner]:
        return [self.wide] if self.plain is None else [self.plain, self.wide]

    @property
    def joint_posterior(self) -> WideLearner:
        """The belief that answers: see :class:`fires.models.base.Learner`."""
        return self.wide if self.leads or self.plain is None else self.plain

    @property
    def sparse_scales(self) -> tuple[SparseScale | Mixed, ...]:
        """See :class:`fires.models.base.Learner`."""
        return self.scaler.sparse, *(one.mixed for one in self._beliefs)

    def effects(self) -> Effects:
        """Curves and pairs of the belief that answers."""
        scale = self.scaler.dense
        assert isinstance(scale, Standard)
        return Effects(self.joint_posterior, scale)

    # --- learning -----------------------------------------------------------------------------

    def step(self, batch: CheckedBatch, y: Labels, rates: Rates | None = None) -> None:
        """Learn from one batch. On an error, nothing changes."""
        weight = ones(batch.n_rows) if batch.weight is None else batch.weight
        rows, learn_scale = self._scaled(batch, weight)
        wide, led = self.wide, self.leads
        for one in self._beliefs:
            one.renewed = False
        # Sums of counts may overflow: then the one that has learnt already is a copy.
        plain = copy.deepcopy(self.plain) if wide.family.kind == "counts" else self.plain
        target, widened = wide.target.look(y, weight)[0], wide.terms.widened(rows)
        if plain is not None:
            plain.step(rows, y)
        wide.step(widened, y)
        self.plain = plain
        learn_scale()
        self.scaler.follow(batch.scale, batch.change)
        total = float(weight.sum())
        self.owed += total
        values = widened.X[:, wide.n_columns :] if wide.sparse is None else np.empty((0, 0))
        if self.screen.rows < _ALL or self.owed > 1.5 * total:  # then every second batch
            slopes = self._slopes(target, weight, values)
            self.screen.take(rows.X, weight, *slopes, wide.gamma**self.owed)
            self.owed = 0.0
        if len(wide.terms):
            wide.terms.learn(values, weight)
        self._race(total)
        if self.joint_posterior.strengths:
            self.screen.restart()
        self.waited += float(len(weight))
        if self.screen.rows >= _FIRST and self.waited >= min(_EVERY, _GROWN * self.screen.rows):
            self.waited = 0.0
            self._look()
        self.joint_posterior.renewed |= led != self.leads

    def _scaled(
        self, batch: CheckedBatch, weight: Floats
    ) -> tuple[CheckedBatch, Callable[[], None]]:
        """The rows to learn from, and what learns their scale; beliefs scale sparse ones."""
        X, learn, change, gaps = batch.X, nothing, batch.change, batch.gaps
        if self.wide.sparse is not None:
            return replace(batch, X=sp.csr_array(X) if isinstance(X, np.ndarray) else X), learn
        Z = X if isinstance(X, np.ndarray) else X.toarray()
        if gaps is None and batch.n_missing:
            gaps = gaps_in(Z)
        if batch.scale != "standard":
            Z, learn = self.scaler.dense.scaled(Z, weight, batch.n_missing > 0)
            change, self.scaler.dense.change = self.scaler.dense.change, None
        facts: dict[str, Any] = {"scale": "standard", "n_missing": 0, "gaps": gaps}
        return replace(batch, X=row_major(Z), change=change, **facts), learn

    def _slopes(self, target: Floats, weight: Floats, values: Floats) -> tuple[Floats, Floats]:
        """The slopes of the log likelihood of the last rows, and those without what pairs add.

        While the columns predict worse than the level, they are the slopes at the level.
        """
        learner, scores, pairs = self.wide, self.wide.family.scores, self.wide.terms.are_pairs
        stats, paired = learner.row_stats, bool(pairs.any())
        slope: Floats = stats[:, 3] * stats[:, 2] / (1.0 + stats[:, WIDTH] * stats[:, 2])
        log_z, without = stats[:, 1], slope
        noise = learner.noise[:, None] if learner.family.noise else 0.0
        if paired:
            added = learner.mu[:, learner.n_columns + np.flatnonzero(pairs)] @ values[:, pairs].T
            log_z, without, _ = scores(stats[:, 0] - added, stats[:, WIDTH] + noise, target)
            without = weight * without
        if paired or self.screen.rows < _LEARNING * learner.n_present:
            level = (learner.intercept_mean * learner.unit)[:, None]
            of_level, at_level, _ = scores(level, learner.intercept_var[:, None] + noise, target)
            gain = float(weight @ (log_z - of_level).sum(axis=0))
            self.gained = self.gained * np.exp(-weight.sum() / _RACE) + gain
            if self.gained < 0.0:
                at_level = weight * at_level
                return (slope if paired else at_level), at_level
        return slope, without

    def _race(self, weight: float) -> None:
        """Let the belief answer that has predicted better."""
        if self.plain is None:
            return
        gain = float(self.plain.losses.sum() - self.wide.losses.sum())
        self.ahead = self.ahead * np.exp(-weight / _RACE) + gain
        self.leads = self.ahead > (0.0 if self.leads else _AHEAD)

    def _look(self) -> None:
        """Let terms come and go."""
        screen, wide, terms, n = self.screen, self.wide, self.wide.terms, self.screen.n_features
        screen.refresh()
        terms.knots = screen.knots
        # The squares in T know how much counts vary, which is most of their inflation.
        is_count = wide.family.kind == "counts"
        widening = 1.0 if is_count else float(np.sqrt(wide.inflation.max()))
        keep = self._useful()
        strength = screen.curves() / widening
        strength[terms.curved] = 0.0
        room = _MOST_CURVES - len(np.unique(terms.first[keep & ~terms.are_pairs]))
        curves: Ints = np.argsort(-strength, kind="stable")[: max(room, 0)]
        curves = np.sort(curves[strength[curves] > 1.0])
        pairs: Ints = np.empty((0, 2), dtype=np.int64)
        if len(screen.left):
            if not screen.all_fit:
                screen.follow(top_k(wide.scores()[:n], len(screen.left)))
            found, beyond = screen.pairs()
            new = ~np.isin(found @ [n, 1], terms.pairs @ [n, 1])
            room = _MOST_PAIRS - int((keep & terms.are_pairs).sum())
            pairs = found[new & (beyond > widening)][: max(room, 0)]
        if len(curves) or len(pairs) or not keep.all():
            more = terms.with_more(curves, pairs, keep, screen.orders)
            self._admit(more, keep, screen.evidence(curves))
        # Where lines predict, what pairs say for themselves is mostly said already.
        counts = self.gained < 0.0 and self.wide.terms.are_pairs.any()
        self.wide.credit = np.stack(screen.credit()) if counts else np.zeros_like(wide.credit)
        self.wide.renewed |= bool(counts)

    def _useful(self) -> Mask:
        """Which terms stay: new ones, and those that add to the others.

        What says the same as another would leave together with it. So curves leave one at a time,
        and pairs stay while the screen, which does not know of pairs in the belief, finds them.
        """
        wide, terms, n = self.wide, self.wide.terms, self.screen.n_features
        useful = ~terms.are_pairs | (terms.rows < _SETTLED)
        if not useful.all():
            found = self.screen.pairs(_FOUND)[0]
            useful |= np.isin(n * terms.first + terms.second, found @ [n, 1])
        old = ~terms.are_pairs & (terms.rows >= _SETTLED)
        if old.any():
            curved, of = np.unique(terms.first[old], return_inverse=True)
            at = wide.n_columns + np.flatnonzero(old)

            def deviations(mean: Floats, variance: Floats) -> Floats:
                most = np.zeros(len(curved))
                z = np.abs(mean) / np.sqrt(np.maximum(variance, 1e-300))
                np.maximum.at(most, of, z.max(axis=0))
                return most

            # What is far beyond doubt for itself need not be looked at together with all others.
            mean, variance = wide.coefficients()
            most = deviations(mean[:, at], variance[:, at])
            if most.min() < 2.0 * _NEEDLESS:
                columns, mean, covariance = wide.leading_posterior()
                place, _ = find_places(columns, at)
                most = deviations(mean[:, place], np.einsum("kii->ki", covariance)[:, place])
            if most.min() < _NEEDLESS:
                useful &= terms.are_pairs | (terms.first != curved[most.argmin()])
        return np.asarray(useful)

    def _admit(
        self, terms: Terms, kept: Mask, evidence: tuple[Floats, Floats] | None = None
    ) -> None:
        if self.plain is not None and not len(terms):
            self.wide, self.plain, self.ahead, self.leads = self.plain, None, 0.0, False
            return
        if self.races and self.plain is None:
            self.plain = copy.deepcopy(self.wide)
            self.ahead, self.leads = _AHEAD, True
        before = np.union1d(self.wide.terms.first, self.wide.terms.second)
        self.wide = self.wide.with_terms(terms, kept, evidence)
        self.wide.renewed = not np.isin([terms.first, terms.second], before).all()

    # --- the answer ---------------------------------------------------------------------------

    def features(self) -> Belief:
        """See :class:`fires.models.base.Learner`."""
        return self.joint_posterior.features()

    def by_class(self) -> tuple[Floats, Floats]:
        """See :class:`fires.models.base.Learner`."""
        return self.joint_posterior.by_class()

    # --- change -------------------------------------------------------------------------------

    def forget(self, keep: float) -> None:
        """See :class:`fires.models.base.Learner`."""
        for one in self._beliefs:
            one.forget(keep)
        self.screen.forget(keep)

    def remember(self, rate: float) -> None:
        """See :class:`fires.models.base.Learner`."""
        for one in self._beliefs:
            one.remember(rate)

    def attend(self, resting: Mask, never: Mask, arrived: Places) -> None:
        """See :class:`fires.models.base.Learner`."""
        for one in self._beliefs:
            one.attend(resting, never, arrived)

    def with_classes(self, before: Labels, after: Labels) -> RelationsLearner:
        """A copy for more classes. See :class:`fires.models.base.Learner`."""
        other = copy.copy(self)
        if self.plain is not None:
            other.plain = self.plain.with_classes(before, after)
        other.wide = self.wide.with_classes(before, after)
        other.screen = self.screen.with_rows(other.wide.n_rows)
        return other

    def ready_for_sparse(self) -> RelationsLearner:
        """The first batch decides between dense and sparse rows for all later ones."""
        wide = self.wide
        if wide.evidence_rows.any() or wide.sparse is not None:
            return self
        if self.relations == "pairs":
            raise ValueError("relations='pairs' is for dense rows; of sparse ones, use 'curves'.")
        other = copy.copy(self)
        other.wide = WideLearner(wide.ready_for_sparse(), wide.terms)
        other.screen = PresenceScreen(wide.n_columns, wide.n_rows)
        return other

    # --- state --------------------------------------------------------------------------------

    def state(self) -> Arrays:
        """See :class:`fires.models.base.Learner`."""
        arrays = under("relations", collect(self, self.learnt)[1]) | self.scaler.state()
        arrays |= under("screen", collect(self.screen, self.screen.learnt)[1])
        plain, wide = self.plain, self.wide
        if self.races:
            arrays |= under("plain", (wide if plain is None else plain).state())
        if plain is not None or not self.races:
            arrays |= under("wide", wide.state())
            arrays |= under("terms", collect(wide.terms, Terms.learnt)[1])
            arrays["credit"] = wide.credit.copy()
        return arrays

    def restore(self, arrays: Arrays) -> None:
        """See :class:`fires.models.base.Learner`."""
        plain, found = part_of("plain", arrays), part_of("terms", arrays)
        restore(self, self.learnt, {}, part_of("relations", arrays), {})
        self.scaler.restore(arrays)
        if part_of("rows", plain or part_of("wide", arrays)):
            vars(self).update(vars(self.ready_for_sparse()))
        sizes = {"J": self.screen.n_features, "R": self.wide.n_rows}
        restore(self.screen, self.screen.learnt, {}, part_of("screen", arrays), sizes)
        self.wide.terms.knots = self.screen.knots
        if found:
            terms = Terms(self.screen.knots)
            restore(terms, Terms.learnt, {}, found, dict(sizes))
            linear, none = copy.deepcopy(self.wide), np.zeros(0, dtype=np.bool_)
            self.wide = self.wide.with_terms(terms, none)
            self.wide.restore(part_of("wide", arrays))
            self.wide.credit = Array(2, "R", "J", low=0.0).read("credit", {}, arrays, sizes)
            self.plain = linear if self.races else None
        if self.races:
            self._beliefs[0].restore(plain)
