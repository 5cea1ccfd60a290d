r"""A linear belief in columns and in terms of them: curves and pairs, which a straight line lacks.

A term is made of normal scores w: what a standard normal variable would be at the same quantile. So
a skewed column is as good as any other, and an outlier has no weight of its own. A column's curve
is its line and the cosines

.. math:: \cos \frac{\pi q (w + 3)}{6}, \qquad q = 2, \dots, 7

each standardised, and divided by q / 2: the prior prefers curves that turn seldom. A pair is the
product of two normal scores, standardised by what was seen of it. The curve of a column of sparse
rows is its line and its presence: 1 where it has an entry.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core.batch import CheckedBatch
from fires.core.belief import Belief
from fires.core.declared import Array, Declared
from fires.core.types import CsrRows, Floats, Ints, Labels, Mask, Places, RowIndex
from fires.kernels.linear import find_places
from fires.kernels.screen import DEVIATIONS, KNOTS, MEANS, ORDERS, REACH, term_values
from fires.models.base import Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.covariance import MOST
from fires.models.scale import Standard

# The order of the only term of a column of sparse rows.
PRESENCE = np.ones(1, dtype=np.int64)
_MEMORY = 10_000.0  # rows in which the moments of products fade to 1/e
_START = 100.0  # rows that they start with


def cosines(scores: Floats) -> Floats:
    """The cosines of normal scores, standardised, as the last axis."""
    turns = np.pi / (2.0 * REACH) * ORDERS
    values = (np.cos(turns * (scores[..., None] + REACH)) - MEANS) / DEVIATIONS
    return np.asarray(values * (2.0 / ORDERS))


def scaled_at(scores: Floats, knots: Floats) -> Floats:
    """The scaled values of a column at normal scores; the last lines go on beyond the knots."""
    from scipy.interpolate import make_interp_spline  # which takes a while to load

    return np.asarray(make_interp_spline(KNOTS, knots, k=1)(scores))


def with_presence(X: CsrRows, columns: Ints) -> CsrRows:
    """Rows with the presence of some columns behind; what is missing is so there, too.

    Examples
    --------
    >>> with_presence(sp.csr_array([[0.0, 3.0], [2.0, 0.0]]), np.array([1])).toarray()
    array([[0., 3., 1.],
           [2., 0., 0.]])
    """
    order = np.argsort(columns, kind="stable")
    place, known = find_places(columns[order], X.indices)
    known &= X.data != 0.0
    row, n = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.shape[1]
    data = np.append(X.data, np.where(np.isnan(X.data[known]), np.nan, 1.0))
    at = np.append(row, row[known]), np.append(X.indices, n + order[place[known]])
    wide = sp.csr_array((data, at), shape=(X.shape[0], n + len(columns)))
    wide.sort_indices()
    rows: CsrRows = wide
    return rows


class Terms:
    """Which terms there are, in the order of their parameters.

    ``order`` is that of a cosine of the column ``first``; 1 for its presence, 0 for its product
    with ``second``.
    """

    learnt: ClassVar[Declared] = {
        "first": Array("M", dtype="int64", low=0, high="J"),
        "second": Array("M", dtype="int64", low=0, high="J"),
        "order": Array("M", dtype="int64", low=0, high=float(ORDERS[-1])),
        "mean": Array("M"),
        "square": Array("M", low=0.0),
        "rows": Array("M", low=0.0),
    }

    def __init__(self, knots: Floats) -> None:
        self.knots = knots  # the running quantiles of columns
        self.first, self.second, self.order = (np.zeros(0, dtype=np.int64) for _ in range(3))
        self.mean, self.square, self.rows = (np.zeros(0) for _ in range(3))

    def __len__(self) -> int:
        return len(self.first)

    @cached_property
    def are_pairs(self) -> Mask:
        """Which terms are products."""
        return np.asarray(self.order == 0)

    @cached_property
    def curved(self) -> Ints:
        """The columns that have a curve, sorted."""
        return np.unique(self.first[~self.are_pairs])

    @property
    def pairs(self) -> Ints:
        """The two columns of each pair."""
        return np.column_stack([self.first, self.second])[self.are_pairs]

    def with_more(self, curves: Ints, pairs: Ints, keep: Mask, orders: Ints = ORDERS) -> Self:
        """Some of the terms, and then those of other columns and pairs."""
        n, other = len(orders), type(self)(self.knots)
        more: dict[str, npt.NDArray[Any]] = {
            "first": np.append(np.repeat(curves, n), pairs[:, 0]),
            "second": np.append(np.repeat(curves, n), pairs[:, 1]),
            "order": np.append(np.tile(orders, len(curves)), np.zeros(len(pairs), dtype=np.int64)),
        }
        new = len(more["first"])
        more |= {"mean": np.zeros(new), "square": np.ones(new), "rows": np.full(new, _START)}
        for name, added in more.items():
            setattr(other, name, np.concatenate([getattr(self, name)[keep], added]))
        return other

    def kept(self, keep: Mask) -> Self:
        """Some of the terms."""
        return self.with_more(self.first[:0], self.pairs[:0], keep)

    @cached_property
    def _scale(self) -> tuple[Floats, Floats]:
        """What is taken off each term, and what the rest is divided by."""
        at, pairs = np.maximum(self.order - ORDERS[0], 0), self.are_pairs
        spread = np.sqrt(np.maximum(self.square - self.mean**2, 0.01))
        mean = np.where(pairs, self.mean, MEANS[at])
        return mean, np.where(pairs, spread, DEVIATIONS[at] * (0.5 * self.order))

    @cached_property
    def _places(self) -> tuple[Ints, Ints]:
        """The columns that terms are of, and where those of each term are among them."""
        columns, at = np.unique([self.first, self.second], return_inverse=True)
        return columns, np.reshape(at, (2, -1)).astype(np.int64)

    def values(self, Z: Floats, gaps: Mask | None = None) -> Floats:
        """The terms of scaled rows; 0 where an entry is missing."""
        values, (columns, at) = np.empty((len(Z), len(self))), self._places
        terms = at[0], at[1], self.order
        term_values(Z[:, columns], self.knots[:, columns], terms, self._scale, values)
        if gaps is not None:
            values[gaps[:, self.first] | gaps[:, self.second]] = 0.0
        return values

    def widened(self, batch: CheckedBatch) -> CheckedBatch:
        """Rows, dense and scaled or sparse, with their terms behind the columns."""
        X, gaps, change = batch.X, batch.gaps, batch.change
        if not len(self):
            return batch
        if not isinstance(X, np.ndarray):
            gaps = None if gaps is None else with_presence(gaps, self.first)
            return replace(batch, X=with_presence(X, self.first), gaps=gaps)
        X = np.hstack([X, self.values(X, gaps)])
        if gaps is not None:
            gaps = np.hstack([gaps, gaps[:, self.first] | gaps[:, self.second]])
        if change is not None:  # terms have units of their own
            change = np.hstack([change, np.repeat([[0.0], [1.0]], len(self), axis=1)])
        return replace(batch, X=X, gaps=gaps, change=change)

    def learn(self, values: Floats, weight: Floats) -> None:
        """Learn the moments of products from what :meth:`values` gave."""
        total = float(weight.sum())
        self.rows = np.minimum(self.rows, _MEMORY) + total
        if (pairs := self.are_pairs).any():
            mean, spread = self._scale
            del self._scale
            raw, share = (mean + spread * values)[:, pairs], weight / total
            pace = total / self.rows[pairs]
            self.mean[pairs] += pace * (share @ raw - self.mean[pairs])
            self.square[pairs] += pace * (share @ raw**2 - self.square[pairs])


_ALL = np.linspace(-3.0, 3.0, 121)  # normal scores of rows
_MIDDLE = np.linspace(-1.645, 1.645, 41)  # of the middle 90 %
_UNSEEN = 0.5  # the share of the last cosines that those beyond them have
_ONE_SIGN = 0.5  # deviations from 0 beyond which the mean of entries is taken for that of one sign
_NEAR = 0.95  # the share of the way from that mean to 0 that a curve is shown for
_TURN = 0.1  # the share of its rise by which a monotone curve may go back
_TINY = 1e-3
_LOOSE = 0.25  # the share of its bond that a member keeps where pairs are credited
_OWN = 0.125  # then, it is at most this share of its importance: chance alone keeps no member


class WideLearner(BayesLearner):
    """A belief whose parameters are those of columns, and then those of terms.

    What it says is about columns: see :class:`Effects`. Without terms, it is
    the linear belief that it was made of.
    """

    def __init__(self, linear: BayesLearner, terms: Terms) -> None:
        vars(self).update(vars(linear))
        self.terms, self.n_columns = terms, linear.n_features
        # For each row of parameters: what columns add in pairs that have no term, and how sure.
        self.credit = np.zeros((2, self.n_rows, self.n_columns))

    def with_terms(
        self, terms: Terms, kept: Mask, evidence: tuple[Floats, Floats] | None = None
    ) -> Self:
        """A copy with other terms: those kept, and new ones at the prior.

        Of the first of these, pull and information may be known.
        """
        n_new = len(terms) - int(kept.sum())
        old = np.append(np.arange(self.n_columns), self.n_columns + np.flatnonzero(kept))
        other = self.rearranged(np.append(old, np.full(n_new, -1)))
        other.terms = terms
        other.count_columns(self.n_columns)
        if other.sparse is not None:
            other.mixed.know_presence(terms.first[len(terms) - n_new :], len(old))
        if evidence is not None:
            pull, information = evidence
            new = slice(len(old), len(old) + pull.shape[1])
            other.var[:, new] = 1.0 / (1.0 / other.prior + information)
            other.mu[:, new] = pull * other.var[:, new]
        score, (mu, var) = other.scores(), other.coefficients()
        n_leading = min(MOST, len(score))
        other.leading.follow(score, lambda at: (mu[:, at], var[:, at]), other.prior, n_leading)
        other._find_trust()
        return other

    def step(self, batch: CheckedBatch, y: Labels, rates: Rates | None = None) -> None:
        """See :class:`BayesLearner`; an alarm about a term is one about its columns."""
        super().step(batch, y, rates)
        if self.touched is not None:
            self.touched = self.touched[self.touched < self.n_columns]
        moved, self.moved = self.moved, {}
        for j, size in moved.items():
            at = j - self.n_columns
            ends = {j} if at < 0 else {int(self.terms.first[at]), int(self.terms.second[at])}
            self.moved |= {one: max(size, self.moved.get(one, 0.0)) for one in ends}

    def attend(self, resting: Mask, never: Mask, arrived: Places) -> None:
        """See :class:`BayesLearner`: a term is there if its columns are."""
        terms = self.terms
        resting, never = (
            np.append(one, one[terms.first] | one[terms.second]) for one in (resting, never)
        )
        super().attend(resting, never, arrived)
        self.count_columns(self.n_columns - int(np.count_nonzero(resting[: self.n_columns])))

    def with_classes(self, before: Labels, after: Labels) -> Self:
        """See :class:`BayesLearner`."""
        other = super().with_classes(before, after)
        other.credit = np.zeros((2, other.n_rows, self.n_columns))
        return other

    @property
    def owners(self) -> Places | None:
        """The column of each parameter; from the number of columns on, pairs are counted."""
        if not len(self.terms):
            return None
        pairs = self.terms.are_pairs
        own = np.where(pairs, self.n_columns + np.cumsum(pairs) - 1, self.terms.first)
        return np.append(np.arange(self.n_columns), own)

    @property
    def pairs(self) -> Ints:
        """The two columns of each pair."""
        return self.terms.pairs

    @property
    def by_importance(self) -> bool:
        """See :class:`fires.models.base.Learner`: where lines predict nothing, but pairs do."""
        return bool(self.credit[0].any())

    def scores(self, columns: RowIndex = slice(None)) -> Floats:
        """Who leads: terms in any case, and the lines of their columns."""
        score = super().scores(columns)
        if columns == slice(None):
            score = np.where(np.isin(np.arange(len(score)), self.terms.curved), np.inf, score)
            score[self.n_columns :] = np.inf
        return score

    def _of_groups(self, scores: Floats) -> Floats:
        own = super()._of_groups(scores[: self.n_columns])
        return np.maximum(np.append(own, scores[self.n_columns :]), scores)

    # --- the belief ---------------------------------------------------------------------------

    def by_class(self) -> tuple[Floats, Floats]:
        """See :class:`BayesLearner`: of columns, with all their terms."""
        return Effects(self).by_class() if len(self.terms) else super().by_class()

    def features(self) -> Belief:
        """See :class:`BayesLearner`."""
        if not len(self.terms):
            return super().features()
        mu, sigma = self.by_class()
        best = (np.abs(mu) - sigma).argmax(axis=0)[None]
        return Belief(*(np.take_along_axis(part, best, axis=0)[0] for part in (mu, sigma)))

    def ranked(self, columns: Places) -> tuple[Floats, Floats]:
        """See :class:`BayesLearner`."""
        if not len(self.terms):
            return super().ranked(columns)
        belief, (_, bond) = self.features(), super().ranked(np.arange(self.n_columns))
        mu, sigma = belief.mu, belief.sigma
        if self.by_importance:
            # Pairs are credited less what the best of many shows by chance. So are lines.
            alone = self.credit[0].max(axis=0) == 0.0
            chance = 2.0 * np.log(max(self.n_columns, 2))
            left = np.sqrt(np.maximum(mu**2 - chance * sigma**2, (_TINY * mu) ** 2))
            mu = np.where(alone, left, mu)
            bond = np.minimum(_LOOSE * bond, _OWN * np.abs(mu))
        return mu[columns], bond[columns]


class Effects:
    """Curves and pairs of a belief.

    The importance of a column with a curve, or in a pair, is the standard deviation of what it adds
    to the linear predictor. It has a sign if the curve is monotone, and the column is in no pair.
    """

    def __init__(self, wide: WideLearner, scale: Standard | None = None) -> None:
        self.wide, self.terms, self.n_columns = wide, wide.terms, wide.n_columns
        self.scale = scale  # of dense rows, if it is not learnt elsewhere

    @property
    def kind(self) -> str:
        """What the belief is made of: "linear", "curves" or "pairs"."""
        if not len(self.terms):
            return "linear"
        return "pairs" if self.terms.are_pairs.any() else "curves"

    @cached_property
    def _belief(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of all parameters."""
        return BayesLearner.by_class(self.wide)

    @cached_property
    def _leading(self) -> tuple[Ints, Floats, Floats]:
        return self.wide.leading_posterior()

    def _parameters(self, column: int) -> Ints:
        """The line of a column and its terms."""
        own = (self.terms.first == column) & ~self.terms.are_pairs
        return np.append(column, self.n_columns + np.flatnonzero(own))

    def _joint(self, own: Ints) -> tuple[Floats, Floats]:
        """Mean and covariance of some parameters."""
        mu, sigma = self._belief
        columns, _, covariance = self._leading
        place, leads = find_places(columns, own)
        if leads.all():
            return mu[:, own], covariance[:, place[:, None], place]
        return mu[:, own], sigma[:, own, None] ** 2 * np.eye(len(own))

    def _functions(self, column: int, scores: Floats) -> tuple[Floats, Floats, Floats]:
        """Values of a column at normal scores, its line and terms there, and their weights.

        Of sparse rows, one of the values is 0; the others are those of entries.
        """
        density = np.exp(-0.5 * scores**2)
        own = self._parameters(column)
        if self.wide.sparse is None:
            values = scaled_at(scores, self.terms.knots[:, column])
            functions = np.column_stack([values, cosines(scores)])
            return values, functions[:, : len(own)], density
        mixed = self.wide.mixed
        share, mean, deviation = mixed.entries_of(column)
        values = np.append(0.0, mean + deviation * scores[1:])
        density = np.append(1.0 - share, share * density[1:] / density[1:].sum())
        functions = np.column_stack([values, values != 0.0])[:, : len(own)] * mixed.units(own)[1]
        order = np.argsort(values, kind="stable")
        return values[order], functions[order], density[order]

    def _rises(self, column: int) -> tuple[Floats, Floats]:
        """How far a curve goes up, and down, over the middle of its column."""
        mu, _ = self._belief
        _, functions, _ = self._functions(column, _MIDDLE)
        steps = np.diff(mu[:, self._parameters(column)] @ functions.T, axis=1)
        return np.maximum(steps, 0.0).sum(axis=1), np.maximum(-steps, 0.0).sum(axis=1)

    def _size(self, column: int) -> tuple[Floats, Floats]:
        """The standard deviation of a curve over rows, and the deviation of that.

        Chance makes it too large: the variance of what is known is taken off, along each axis of
        the posterior for itself. So axes of which nothing is known hide no others.
        """
        mean, covariance = self._joint(self._parameters(column))
        _, functions, weight = self._functions(column, _ALL)
        shared = np.atleast_2d(np.cov(functions.T, aweights=weight, bias=True))
        scale, axes = np.linalg.eigh(shared)
        root = axes * np.sqrt(np.maximum(scale, 0.0))
        variance, axes = np.linalg.eigh(root.T @ covariance @ root)
        variance = np.maximum(variance, 0.0)
        square = np.einsum("ki,kij->kj", mean @ root, axes) ** 2
        size = np.sqrt(np.maximum(square - variance, 0.0).sum(axis=1))
        spread = np.sqrt((4.0 * square * variance + 2.0 * variance**2).sum(axis=1))
        spread /= size + np.sqrt(np.maximum(square.sum(axis=1), 1e-300))
        up, down = self._rises(column)
        sign = np.where(up < _TURN * down, -1.0, 1.0)
        return sign * size, spread

    def lines(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of the lines of columns, for each row of parameters."""
        mu, sigma = self._belief
        return mu[:, : self.n_columns], sigma[:, : self.n_columns]

    def by_class(self) -> tuple[Floats, Floats]:
        """Importance and its standard deviation, for each row of parameters."""
        mu, sigma = self._belief
        n, terms, (credit, error) = self.n_columns, self.terms, self.wide.credit
        mean, spread = mu[:, :n].copy(), sigma[:, :n].copy()
        for j in terms.curved.tolist():
            mean[:, j], spread[:, j] = self._size(j)
        more, width = np.zeros_like(mean), np.zeros_like(mean)
        of_pairs = (part.T[:, :, None] for part in self.pairs())
        for pair, m, s in zip(terms.pairs, *of_pairs, strict=True):
            more[:, pair] += np.maximum(m**2 - s**2, 0.0)
            width[:, pair] += (m * s) ** 2
        # Where several pairs say the same, each of them adds little to the others.
        alone = credit**2 > more
        more = np.where(alone, credit**2, more)
        width = np.where(alone, (credit * error) ** 2, width)
        total = np.sqrt(np.maximum(mean**2 + more, 1e-300))
        wide = np.sqrt((mean * spread) ** 2 + width) / total
        return np.where(more > 0.0, total, mean), np.where(more > 0.0, wide, spread)

    def turns(self) -> Mask:
        """Which columns have an importance without a sign: curves that turn, and pairs."""
        found = np.asarray((self.wide.credit[0] > 0.0).any(axis=0))
        found[self.terms.pairs] = True
        for j in self.terms.curved.tolist():
            up, down = self._rises(j)
            found[j] |= bool((np.minimum(up, down) >= _TURN * np.maximum(up, down)).any())
        return found

    def pairs(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each pair, for each row of parameters."""
        mu, sigma = self._belief
        at = self.n_columns + np.flatnonzero(self.terms.are_pairs)
        return mu[:, at], sigma[:, at]

    def curve(self, column: int, scores: Floats) -> tuple[Floats, Floats, Floats]:
        """Values, what a column adds there, and the standard deviation of that.

        It is less its mean over the rows between the values, which is known as well as one of so
        many rows can be. What turns more often than the cosines do is not known: it is taken to be
        half as large as the last two of them.
        """
        own, wide = self._parameters(column), self.wide
        if wide.sparse is not None:
            _, mean, deviation = wide.mixed.entries_of(column)
            if abs(mean) > _ONE_SIGN * deviation > 0.0:
                least = max(scores[0], -_NEAR * abs(mean) / deviation)
                scores = np.sign(mean) * np.linspace(least, scores[-1], len(scores))
        mu, covariance = self._joint(own)
        values, functions, weight = self._functions(column, scores)
        functions = functions - weight @ functions / weight.sum()
        effect = mu @ functions.T
        variance = np.einsum("gi,kij,gj->kg", functions, covariance, functions)
        rows = np.minimum(wide.evidence_rows, 1.0 / (1.0 - wide.gamma))[:, None]
        variance += np.var(effect, axis=1, keepdims=True) / np.maximum(rows, 1.0)
        if len(own) > len(ORDERS):
            known = np.maximum(mu**2 - np.einsum("kii->ki", covariance), 0.0)
            last = known[:, -2:].max(axis=1, keepdims=True)
            variance += (_UNSEEN * 2.0 / ORDERS[-1]) ** 2 * last
        if self.scale is not None and self.scale.gain[column] and wide.sparse is None:
            values = values / self.scale.gain[column] + self.scale.shift[column]
        return values, effect, np.sqrt(np.maximum(variance, 0.0))
