"""A linear belief in columns and in terms of them: curves and pairs."""

from __future__ import annotations

from typing import Self

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.belief import Belief
from fires.core.types import Floats, Ints, Labels, Mask, Places, RowIndex
from fires.models.base import Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.covariance import MOST
from fires.models.effects import Effects
from fires.models.terms import Terms

_TINY = 1e-3
_LOOSE = 0.25  # the share of its bond that a member keeps where pairs are credited
_OWN = 0.125  # then, it is at most this share of its importance: chance alone keeps no member


class WideLearner(BayesLearner):
    """A belief whose parameters are those of columns, and then those of terms.

    What it says is about columns: see :class:`fires.models.effects.Effects`. Without terms, it is
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
