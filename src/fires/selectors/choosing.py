"""A selector that chooses: how many features, which of them, and why."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fires.core.belief import Belief
from fires.core.types import Floats, Mask, Places
from fires.kernels import top_k
from fires.kernels.gradient import weigh
from fires.models.bayes_learner import BayesLearner
from fires.models.linear import Linear
from fires.selectors import why
from fires.selectors.confident import (
    Distances,
    ReviewSchedule,
    choose,
    distances,
    has_enough_rows,
)
from fires.selectors.groups import Groups
from fires.selectors.membership import Judge, Membership
from fires.selectors.twins import Twins
from fires.selectors.watchful import Watchful

if TYPE_CHECKING:
    from fires.models.base import BaseModel, Learner


NO_COLUMNS: Places = np.empty(0, dtype=np.intp)


class Choosing(Watchful):
    """A selector whose members are kept by a rule, one by one or in groups."""

    score: str
    groups: Sequence[Hashable] | npt.NDArray[np.generic] | None
    redundancy: str
    uncertainty_penalty: float
    weight_penalty: float
    _members_: Membership
    _looks_: ReviewSchedule
    _twins_: Twins

    # --- the answer -------------------------------------------------------------------------

    @property
    def twins_(self) -> dict[int | str, list[int | str]]:
        """Which selected feature stands for which others; yours to keep.

        Only with ``redundancy="drop"``. Features are called by name, or by number where columns
        have no names. What is a copy of several together, such as their sum, stands with all of
        them.
        """
        self._check_fitted()
        if not hasattr(self, "_twins_"):
            raise AttributeError("twins_ is there only with redundancy='drop'.")
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        found = self._twins_.of(self._selected()).items()
        return {names[one]: [names[other] for other in others] for one, others in found}

    def why(self) -> str:
        """Why so many features are selected, in one sentence.

        Examples
        --------
        >>> from fires import FIRES
        >>> rng = np.random.default_rng(1)
        >>> X = rng.normal(size=(2000, 20))
        >>> y = X[:, 3] - X[:, 5] + rng.normal(size=2000) > 0
        >>> FIRES("auto").fit(X, y).why()
        '2 of 20 features are significantly non-zero: the expected share of false ones is at most
         0.05; with the next, x14, it could be 0.11'
        >>> FIRES(5).fit(X, y).why()
        '5 of 20 features, as asked for: 2 of them are significant'
        """
        self._check_fitted()
        groups, learner = self._grouping(), self._learner_
        what = "features" if groups is None else "groups" if self.groups is not None else "columns"
        chosen = self._selected() if groups is None else np.unique(groups.of[self._selected()])
        n = self.n_features_in_ if groups is None else groups.n
        if self._finds_how_many:
            return why.found(self._distances(), chosen, n, what, self._called)
        n_above = None
        if isinstance(learner, BayesLearner):
            is_above = why.above_noise(self.group_belief(), learner.n_rows)
            n_above = int(is_above[chosen].sum())
        return why.asked_for(len(chosen), n, what, n_above)

    def _called(self, place: int) -> str:
        """What a feature is called, or a group by its column or its first feature."""
        groups, columns = self._grouping(), getattr(self, "columns_", None)
        if groups is not None:
            if columns is not None and self.groups is None:
                return str(columns.used[place].name)
            place = int(np.flatnonzero(groups.of == place)[0])
        names = getattr(self, "feature_names_in_", None)
        return f"x{place}" if names is None else str(names[place])

    # --- groups -----------------------------------------------------------------------------

    @property
    def groups_(self) -> Places | None:
        """For each feature, the number of its group; None if every feature is for itself."""
        groups = self._grouping()
        return None if groups is None else groups.of.copy()

    def group_belief(self) -> Belief:
        """Importance and uncertainty of each group: see :mod:`fires.selectors.groups`."""
        self._check_fitted()
        groups, by_class = self._grouping(), getattr(self._learner_, "by_class", None)
        if groups is None:
            return self._belief()
        if by_class is not None:
            return groups.belief(*by_class())
        belief = self._belief()
        return groups.belief(belief.mu[None], belief.sigma[None])

    def _grouping(self) -> Groups | None:
        """The groups that the user named, or that the columns of a table make."""
        known = self.__dict__.get("_groups_")
        if known is None or known[0] is not self.groups:
            groups = self._find_groups()
            if known is not None and known[1] != groups:
                raise ValueError("groups cannot change once something was learnt.")
            self._groups_ = known = self.groups, groups
        found: Groups | None = known[1]
        return found

    def _find_groups(self) -> Groups | None:
        labels, columns = self.groups, getattr(self, "columns_", None)
        if labels is None and columns is not None and len(columns.groups) > len(columns.used):
            labels = columns.groups
        if labels is None:
            return None
        try:
            groups = Groups([] if isinstance(labels, str) else list(labels))
        except TypeError:
            groups = Groups([])
        if len(groups.of) != self.n_features_in_:
            raise ValueError(
                f"groups must have a label for each of the {self.n_features_in_} features; "
                f"got {labels!r}."
            )
        return groups

    # --- how many, and which ----------------------------------------------------------------

    @property
    def _finds_how_many(self) -> bool:
        """Whether as many are selected as are significantly non-zero."""
        return isinstance(self.n_features_to_select, str) and self.n_features_to_select == "auto"

    def _resolve_k(self) -> int:
        k, groups = self.n_features_to_select, self._grouping()
        if type(k) is int and k >= 1 and groups is None:  # the usual case, fast
            return min(k, self.n_features_in_)
        if self._finds_how_many:
            self._refuse_auto(getattr(self, "_learner_", None))
            return len(self._members_.columns) if hasattr(self, "_members_") else 0
        if groups is None:
            return super()._resolve_k()
        n_features, self.n_features_in_ = self.n_features_in_, groups.n
        try:
            return super()._resolve_k()
        finally:
            self.n_features_in_ = n_features

    def _refuse_auto(self, learner: Learner | BaseModel | str | None) -> None:
        """Raise if something else learns than what knows how sure it is."""
        if learner is not None and not isinstance(learner, BayesLearner):
            linear = isinstance(self.model, str | Linear)
            what = "update='gradient'" if linear else type(self.model).__name__
            raise ValueError(
                f"n_features_to_select='auto' asks how sure an importance is, and {what} does not "
                "know: use a linear model with update='bayes', or a number of features."
            )

    def _weighting(self) -> tuple[Hashable, ...]:
        return self.uncertainty_penalty, self.weight_penalty, self.score

    @property
    def _by_rule(self) -> bool:
        """Whether members are kept by :mod:`fires.selectors.membership`."""
        return self.score == "auto" and hasattr(self, "_members_")

    def _weights(self) -> Floats:
        groups = self._grouping()
        if groups is None:
            return self._own_weights()
        own = self._own_weights()
        of_groups: Floats = own if self._by_rule else groups.best(own)
        return np.asarray(of_groups[groups.of])

    def _own_weights(self) -> Floats:
        """The weight of every feature; of every group where members are kept by a rule."""
        if self._by_rule:
            means: Floats = self._members_.means()
            return means if self._grouping() is not None else means[: self.n_features_in_]
        belief = self._belief()
        weights = np.empty(len(belief.mu))
        scale = 2.0 * self.weight_penalty
        weigh(belief.mu, belief.sigma, float(self.uncertainty_penalty), scale, weights)
        return weights

    def _selected(self) -> Places:
        k, groups = self._resolve_k(), self._grouping()
        if self._finds_how_many:
            chosen = self._computed("found", self._found)
            return chosen if groups is None else np.flatnonzero(np.isin(groups.of, chosen))
        by_rule = self._by_rule and len(self._members_.columns) == k
        if groups is None:
            return self._members_.columns if by_rule else self._best(k)
        chosen = self._members_.columns if by_rule else top_k(groups.best(self.weights_), k)
        return np.flatnonzero(np.isin(groups.of, chosen))

    def _best(self, k: int) -> Places:
        """The features of the greatest weight; of open columns, of those that are there."""
        resting = self._resting() if self._is_open else None
        if resting is None:
            return super()._selected()
        weights = np.where(resting[: self.n_features_in_], -np.inf, self.weights_)
        return top_k(weights, k)

    def _start(self, n_classes: int) -> None:
        super()._start(n_classes)
        if self.redundancy == "drop":
            if not isinstance(self._learner_, BayesLearner):
                raise ValueError(
                    "redundancy='drop' is for linear models and update='bayes': others do not know "
                    "how features are correlated."
                )
            self._learner_.keeps_rows, self._twins_ = True, Twins()

    # --- the choice after a batch -----------------------------------------------------------

    def _choose(self, weight: float, *, anew: bool) -> None:
        """After a Bayesian step: choose the members; anew, if there was an alarm."""
        learner = self._learner_
        assert isinstance(learner, BayesLearner)
        if not hasattr(self, "_members_"):
            self._members_ = Membership(self._n_candidates())
        if anew:
            self._members_.restart()
            if hasattr(self, "_twins_"):
                self._twins_.look_again()
        k, groups = None if self._finds_how_many else self._resolve_k(), self._grouping()
        if groups is None:
            scores, variances, touched = learner.scores, learner.variances, learner.touched
            resting, arrived = self._resting(), NO_COLUMNS
            if learner.sparse is not None and self._is_open:
                self._members_.count_features(self.n_features_in_)
            elif "_presence_" in self.__dict__:
                arrived = self._presence_.arrived
            judge, touched = self._judge(touched, resting)
            facts = scores, variances, learner.prior, k, weight, touched
            self._members_.renew(*facts, resting, arrived, judge)
        else:
            belief = groups.belief(*learner.scored())
            mu, var = np.abs(belief.mu), belief.sigma**2
            of_groups = mu.__getitem__, var.__getitem__
            judge, _ = self._judge(None, None)
            self._members_.renew(*of_groups, learner.prior, k, weight, judge=judge)
        if k is None:
            self._look(weight)
        else:
            self.__dict__.pop("_looks_", None)

    def _look(self, weight: float) -> None:
        """From time to time, select those that are significantly non-zero."""
        if not hasattr(self, "_looks_"):  # those of a fixed number were chosen by another rule
            self._looks_ = ReviewSchedule()
            self._members_.choose(NO_COLUMNS)
        if self._looks_.is_due(weight, *self._evidence):
            self._members_.choose(self._sure(self._members_.columns))

    @property
    def _evidence(self) -> tuple[float, int]:
        """Rows since the start or an alarm, of the class that had one last; columns there."""
        learner = self._learner_
        assert isinstance(learner, BayesLearner)
        return float(learner.evidence_rows.min()), learner.n_present

    def _sure(self, members: Places) -> Places:
        """Those that are significantly non-zero: see :mod:`fires.selectors.confident`."""
        try:
            return choose(self._distances(), members)
        except np.linalg.LinAlgError:  # weights so large that nothing else counts beside them
            return members

    def _distances(self) -> Distances:
        """How sure each feature is, or each group, of those whose columns are there."""
        groups = self._grouping()
        resting = self._resting() if groups is None else None
        learner = self._learner_
        assert isinstance(learner, BayesLearner)
        known = distances(learner, groups).without(resting)
        twins = self.__dict__.get("_twins_")
        if groups is not None or twins is None or not twins.some:
            return known
        weak = np.setdiff1d(twins.columns[twins.own < 1.0], choose(known, self._members_.columns))
        return distances(learner, None, weak).without(resting)

    def _found(self) -> Places:
        """Those that were significantly non-zero at the last look."""
        if hasattr(self, "_looks_"):
            return self._members_.columns.copy()
        is_known = hasattr(self, "_members_") and has_enough_rows(*self._evidence)
        return self._sure(NO_COLUMNS) if is_known else NO_COLUMNS.copy()

    def _judge(
        self, touched: Places | None, resting: Mask | None
    ) -> tuple[Judge | None, Places | None]:
        """With twins: take in the rows of a batch; how to judge, and which columns to look at."""
        twins, learner = self.__dict__.get("_twins_"), self._learner_
        if twins is None:
            return None, touched
        assert isinstance(learner, BayesLearner)
        groups = self._grouping()
        twins.take(learner, None if groups is None else groups.size[groups.of] == 1.0)
        places = twins.columns if groups is None else groups.of[twins.columns]
        if touched is not None:
            touched = np.union1d(touched, places)
        return twins.judge(learner, places, self._members_.columns, resting), touched

    def _n_candidates(self) -> int:
        """How many features, or groups of them, there are to select from."""
        groups = self._grouping()
        return self._width if groups is None else groups.n
