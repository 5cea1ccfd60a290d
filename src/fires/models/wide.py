"""A linear belief in columns and in terms of them: curves and pairs."""

from __future__ import annotations

import copy
from typing import NamedTuple, Self

import numpy as np
from scipy.special import ndtri

from fires.core.batch import CheckedBatch
from fires.core.belief import Belief
from fires.core.types import Floats, Ints, Labels, Mask, Places, RowIndex
from fires.kernels.linear import find_places
from fires.kernels.screen import KNOTS, ORDERS
from fires.models.base import Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.covariance import MOST
from fires.models.terms import Terms, cosines

_GRID = np.linspace(-1.645, 1.645, 41)  # normal scores of the middle 90 %
_NORMAL = ndtri((np.arange(200) + 0.5) / 200.0)  # normal scores of rows
_UNSEEN = 0.5  # the share of the last cosines that those beyond them have
_TINY = 1e-3
_LOOSE = 0.25  # the share of its bond that a member keeps where pairs are credited
_TURN = 0.1  # the share of its rise by which a monotone curve may go back


class Curve(NamedTuple):
    """What a column adds to the linear predictor, and the standard deviation of that."""

    effect: Floats
    deviation: Floats


class WideLearner(BayesLearner):
    """A belief whose parameters are those of columns, and then those of terms.

    What it says is about columns. The importance of a column with a curve, or in a pair, is the
    standard deviation of what it adds to the linear predictor. It has a sign if the curve is
    monotone, and the column is in no pair.
    """

    def __init__(self, plain: BayesLearner) -> None:
        vars(self).update(copy.deepcopy(vars(plain)))
        self.terms, self.n_columns = Terms(), plain.n_features
        # For each row of parameters: what columns add in pairs that have no term, and how sure.
        self.credit = np.zeros((2, self.n_rows, self.n_columns))
        self.renewed = False  # whether columns got terms that had none, with the last batch
        self.knots = np.repeat(KNOTS[:, None], self.n_columns, axis=1)  # running quantiles

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
        if evidence is not None:
            pull, information = evidence
            new = slice(len(old), len(old) + pull.shape[1])
            other.var[:, new] = 1.0 / (1.0 / other.prior + information)
            other.mu[:, new] = pull * other.var[:, new]
        score = other.scores()
        leading = other.leading
        leading.follow(score, other.of_columns, other.prior, n_leading=min(MOST, len(score)))
        other._find_trust()
        return other

    def of_columns(self, columns: Ints) -> tuple[Floats, Floats]:
        """Means and variances of some parameters, each for itself."""
        return self._means(columns), self._variances(columns)

    def step(self, batch: CheckedBatch, y: Labels, rates: Rates | None = None) -> None:
        """See :class:`BayesLearner`; an alarm about a term is one about its columns."""
        super().step(batch, y, rates)
        terms, moved = self.terms, self.moved
        self.moved = {j: size for j, size in moved.items() if j < self.n_columns}
        for j, size in moved.items():
            if j >= self.n_columns:
                at = j - self.n_columns
                for column in {int(terms.first[at]), int(terms.second[at])}:
                    self.moved[column] = max(size, self.moved.get(column, 0.0))

    def attend(self, resting: Mask, never: Mask, arrived: Places) -> None:
        """See :class:`BayesLearner`: a term is there if its columns are."""
        terms = self.terms
        resting, never = (
            np.append(one, one[terms.first] | one[terms.second]) for one in (resting, never)
        )
        super().attend(resting, never, arrived)
        self.count_columns(self.n_columns - int(np.count_nonzero(resting[: self.n_columns])))

    @property
    def owners(self) -> Places:
        """The column of each parameter; from the number of columns on, pairs are counted."""
        pairs = self.terms.are_pairs
        own = np.where(pairs, self.n_columns + np.cumsum(pairs) - 1, self.terms.first)
        return np.append(np.arange(self.n_columns), own)

    @property
    def pairs(self) -> Ints:
        """The two columns of each pair."""
        pairs = self.terms.are_pairs
        return np.column_stack([self.terms.first[pairs], self.terms.second[pairs]])

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
        n, terms = self.n_columns, self.terms
        mu, sigma = super().by_class()
        if not len(terms):
            return mu, sigma
        columns, _, covariance = self.leading_posterior()
        mean, spread = mu[:, :n].copy(), sigma[:, :n].copy()
        for j in terms.curved.tolist():
            own = self._parameters(j)
            place = find_places(columns, own)[0]
            shared = np.cov(self._functions(j, _NORMAL).T, bias=True)
            for k in range(self.n_rows):
                found = _size(mu[k, own], covariance[k][np.ix_(place, place)], shared)
                mean[k, j], spread[k, j] = found
                up, down = self._rises(j, mu[k, own])
                mean[k, j] *= -1.0 if up < _TURN * down else 1.0
        more, width = np.zeros_like(mean), np.zeros_like(mean)
        for pair, at in zip(self.pairs, n + np.flatnonzero(terms.are_pairs), strict=True):
            m, s = mu[:, at, None], sigma[:, at, None]
            more[:, pair] += np.maximum(m**2 - s**2, 0.0)
            width[:, pair] += (m * s) ** 2
        # Where several pairs say the same, each of them adds little to the others.
        alone = self.credit[0] ** 2 > more
        more = np.where(alone, self.credit[0] ** 2, more)
        width = np.where(alone, (self.credit[0] * self.credit[1]) ** 2, width)
        total = np.sqrt(np.maximum(mean**2 + more, 1e-300))
        wide = np.sqrt((mean * spread) ** 2 + width) / total
        return np.where(more > 0.0, total, mean), np.where(more > 0.0, wide, spread)

    def _parameters(self, column: int) -> Ints:
        """The line of a column and its cosines."""
        own = (self.terms.first == column) & ~self.terms.are_pairs
        return np.append(column, self.n_columns + np.flatnonzero(own))

    def _functions(self, column: int, scores: Floats) -> Floats:
        """The line of a column and its cosines, at normal scores."""
        return np.column_stack([scaled_at(scores, self.knots[:, column]), cosines(scores)])

    def _rises(self, column: int, mu: Floats) -> tuple[float, float]:
        """How far a curve goes up, and down, over the middle 90 % of its column."""
        steps = np.diff(self._functions(column, _GRID) @ mu)
        return float(np.maximum(steps, 0.0).sum()), float(np.maximum(-steps, 0.0).sum())

    def turns(self) -> Mask:
        """Which columns have an importance without a sign: curves that turn, and pairs."""
        mu, _ = super().by_class()
        found = np.asarray((self.credit[0] > 0.0).any(axis=0))
        found[self.pairs] = True
        for j in self.terms.curved.tolist():
            for own in mu[:, self._parameters(j)]:
                up, down = self._rises(j, own)
                found[j] |= min(up, down) >= _TURN * max(up, down)
        return found

    def features(self) -> Belief:
        """See :class:`BayesLearner`."""
        mu, sigma = self.by_class()
        if self.n_rows == 1:
            return Belief(mu[0], sigma[0])
        best = (np.abs(mu) - sigma).argmax(axis=0)[None]
        return Belief(*(np.take_along_axis(part, best, axis=0)[0] for part in (mu, sigma)))

    def ranked(self, columns: Places) -> tuple[Floats, Floats]:
        """See :class:`BayesLearner`."""
        if not len(self.terms):
            return super().ranked(columns)
        belief, (_, bond) = self.features(), super().ranked(np.arange(self.n_columns))
        mu, sigma = belief.mu, belief.sigma
        if self.credit[0].any():
            # Pairs are credited less what the best of many shows by chance. So are lines.
            alone = self.credit[0].max(axis=0) == 0.0
            chance = 2.0 * np.log(max(self.n_columns, 2))
            left = np.sqrt(np.maximum(mu**2 - chance * sigma**2, (_TINY * mu) ** 2))
            mu, bond = np.where(alone, left, mu), _LOOSE * bond
        return mu[columns], bond[columns]

    def pair_belief(self) -> tuple[Floats, Floats]:
        """Mean and standard deviation of each pair, for each row of parameters."""
        mu, sigma = super().by_class()
        at = self.n_columns + np.flatnonzero(self.terms.are_pairs)
        return mu[:, at], sigma[:, at]

    def curve(self, column: int, scores: Floats) -> Curve:
        """What a column adds at normal scores, less its mean over the rows between them.

        The mean is known as well as one of so many rows can be. What turns more often than the
        cosines do is not known: it is taken to be half as large as the last two of them.
        """
        own = self._parameters(column)
        mu, sigma = super().by_class()
        columns, _, covariance = self.leading_posterior()
        place, leads = find_places(columns, own)
        values = self._functions(column, scores)[:, : len(own)]
        density = np.exp(-0.5 * scores**2)
        values = values - density @ values / density.sum()
        if leads.all():
            shared = np.stack([one[np.ix_(place, place)] for one in covariance])
        else:
            shared = np.stack([np.diag(one[own] ** 2) for one in sigma])
        effect = mu[:, own] @ values.T
        variance = np.einsum("gi,kij,gj->kg", values, shared, values)
        rows = np.minimum(self.evidence_rows, 1.0 / (1.0 - self.gamma))[:, None]
        variance += np.var(effect, axis=1, keepdims=True) / np.maximum(rows, 1.0)
        if len(own) > 1:
            last = np.maximum(mu[:, own] ** 2 - sigma[:, own] ** 2, 0.0)[:, -2:].max(axis=1)
            variance += (_UNSEEN * 2.0 / ORDERS[-1]) ** 2 * last[:, None]
        return Curve(effect, np.sqrt(np.maximum(variance, 0.0)))


def scaled_at(scores: Floats, knots: Floats) -> Floats:
    """The scaled values of a column at normal scores; the last lines go on beyond the knots."""
    inside = np.interp(scores, KNOTS, knots)
    slopes = np.diff(knots)[[0, -1]] / (KNOTS[1] - KNOTS[0])
    below, above = np.minimum(scores - KNOTS[0], 0.0), np.maximum(scores - KNOTS[-1], 0.0)
    return np.asarray(inside + slopes[0] * below + slopes[1] * above)


def _size(mean: Floats, covariance: Floats, shared: Floats) -> tuple[float, float]:
    """The standard deviation of a sum of functions over rows, and the deviation of that.

    Chance makes it too large: the variances of the coefficients are taken off.
    """
    square = float(mean @ shared @ mean)
    noise = shared @ covariance
    left = max(square - float(np.trace(noise)), 0.0)
    variance = 4.0 * float(mean @ noise @ shared @ mean) + 2.0 * float(np.trace(noise @ noise))
    size = np.sqrt(left)
    return float(size), float(np.sqrt(max(variance, 0.0)) / (size + np.sqrt(max(square, 1e-300))))
