"""FIRES: weights from the importance and the uncertainty of a model's parameters."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from statistics import NormalDist
from types import SimpleNamespace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from fires import models
from fires.core.batch import CheckedBatch
from fires.core.belief import Belief, Floats
from fires.core.classes import are_numbers, has_fractions
from fires.core.declared import Array, Declared, Random, Value, collect, restore
from fires.core.errors import StateError
from fires.core.randomness import check_seed, generator, generator_state
from fires.core.settings import check_choice, check_number, plain
from fires.core.state import Arrays, State, part_of, under
from fires.core.validation import as_numbers
from fires.drift.alarms import Alarm, alarms_from_array, alarms_to_array
from fires.drift.features import FeatureAlarms
from fires.drift.surprise import SurpriseAlarm
from fires.kernels import top_k
from fires.kernels.features import weigh
from fires.models.base import BaseModel, Learner, Rates
from fires.models.bayes_learner import KEPT_ROWS, BayesLearner
from fires.models.families import FAMILIES
from fires.models.learners import start_learner
from fires.models.linear import Linear
from fires.models.model_learner import ModelLearner
from fires.models.monte_carlo import MonteCarlo
from fires.models.neural import NeuralNet
from fires.models.soft_tree import SoftTree
from fires.scaling import SCALES, Scaler
from fires.selectors import why
from fires.selectors.changing import ChangingColumns
from fires.selectors.confident import Columns, Distances, Looks, choose, distances, is_time
from fires.selectors.groups import Groups
from fires.selectors.membership import Judge, Membership
from fires.selectors.selector import same_kind
from fires.selectors.twins import Twins

# Models that a file describes completely: they need not be passed to load again.
BUILT_IN = (Linear, NeuralNet, SoftTree)


class FIRES(ChangingColumns):
    r"""Online feature selection by importance and uncertainty (Haug et al., KDD 2020).

    The parameters of a base model are random, :math:`\theta_j \sim \mathcal{N}(\mu_j, \sigma_j^2)`.
    Their mean is the importance of a feature, their standard deviation says how sure that is.

    **The Bayesian update** is the default for linear models. Each row moves the belief by Bayes'
    rule, and old evidence fades with ``memory``. There is no learning rate. When the features stop
    telling the target, an alarm is raised and most of the evidence is dropped. The formulas are in
    :mod:`fires.kernels.assimilate`, the prior is in :mod:`fires.models.bayes_learner`.

    **The gradient update** is the paper's. Each batch moves the belief by one step of gradient
    ascent on its mean log marginal likelihood

    .. math::
        \mu \leftarrow \mu + \frac{\alpha_\mu}{B} \sum_b \nabla_\mu \log P(y_b \mid x_b),
        \qquad \sigma \leftarrow \sigma + \frac{\alpha_\sigma}{B} \sum_b \nabla_\sigma
        \log P(y_b \mid x_b)

    and features are ranked by :math:`\omega_j = (\mu_j^2 - \lambda_s \sigma_j^2) / (2 \lambda_r)`.
    Nets, trees and models of your own always learn by gradient. :meth:`as_published` is the paper's
    form: nothing is scaled and there is no intercept. Without centring, it ranks the one
    informative feature of an imbalanced stream last.

    **Ranking and selection differ.** ``ranking_`` orders the features by ``weights_``. The selected
    features are chosen by :mod:`fires.selectors.membership`: they stay unless another one is
    better beyond doubt. So a selected feature may rank a little below one that is not. With
    ``score="omega"``, and with the gradient update, the selected features are the best of
    ``ranking_``.

    Parameters
    ----------
    n_features_to_select : int, float or "auto", default=10
        How many features to select: a number (all, if there are fewer), a fraction in (0, 1), or
        ``"auto"``: as many as are not zero with confidence, which may be none. Among those
        selected, the expected share of false ones is at most 0.05, if the model is right: see
        :mod:`fires.selectors.confident` for what exactly is promised. At most 100 can be selected.
        For linear models with the Bayesian update. :meth:`why` says in a sentence what was found.
    columns : {"fixed", "open"}, default="fixed"
        Whether all batches have the same columns. ``"open"``: columns are known by their names, in
        frames and dicts. New ones join, absent ones rest, none is lost.
    absent : {"missing", "zero"}, default="missing"
        With open columns: what it means that a row has no value for a column. Words that a text
        does not have are zeros.
    forget_after : int, optional
        With open columns: a column that was absent for so many rows is forgotten. By default none
        is.
    redundancy : {"ignore", "drop"}, default="ignore"
        ``"drop"``: of features that say the same, one is selected, and ``twins_`` says for which
        others it stands. See :mod:`fires.selectors.twins`. For linear models and the Bayesian
        update.
    model : str or model object, default="auto"
        ``"probit"`` (the paper's linear model) or ``"logistic"`` for classes, ``"gaussian"`` for
        numbers, ``"poisson"`` for counts, or any :class:`fires.models.base.BaseModel`. ``"auto"``
        takes gaussian if the first batch's target is continuous and probit otherwise.
    update : {"bayes", "gradient"}, default="bayes"
        How a linear model learns. Other models learn by gradient, whatever this says.
    memory : float, default=10000
        Bayesian update: after so many rows, evidence has faded to 1/e. Less follows slow changes
        sooner, and makes intervals wider.
    score : {"auto", "omega"}, default="auto"
        What features are ranked by. ``"auto"``: by the running mean of the absolute importance
        (Bayesian update), or by omega (gradient update). ``"omega"``: by omega in any case.
    groups : sequence, optional
        For each feature, a label; features with the same one are ranked and selected together, and
        ``n_features_to_select`` counts groups. By default each feature is for itself, but for the
        columns of a table that become several features.
    drift : {"auto", "alarm", None} or detector, default="auto"
        Which changes raise an alarm; after one about all features, most of the evidence is
        dropped. ``"auto"``: with the Bayesian update, :mod:`fires.drift.likelihood` watches all
        features together and :mod:`fires.drift.features` each of them; with the gradient update,
        nothing does. ``"alarm"``: the gradient update is watched too, by
        :mod:`fires.drift.surprise`. None: no alarms. A detector with ``update(x)`` and
        ``drift_detected``, as River's have, is told losses and takes the place of the watch over
        all features.
    learning_rate : float, default=0.01
        Gradient update: :math:`\alpha_\mu`.
    learning_rate_sigma : float, optional
        Gradient update: :math:`\alpha_\sigma`; the same as ``learning_rate`` by default.
    uncertainty_penalty : float, default=0.01
        In omega: :math:`\lambda_s`, how much uncertainty counts against a feature.
    weight_penalty : float, default=0.01
        In omega: :math:`\lambda_r`. It rescales the weights and never changes their order.
    mu_init, sigma_init : float or array (n_features,), default=0.0 and 1.0
        Gradient update: where the built-in linear models start.
    fit_intercept : bool, default=True
        Learn an intercept, which is never ranked; for the built-in models.
    scale : {"standard", "minmax", None}, default="standard"
        How columns are scaled, from the batches seen before. Rows that a pipeline has brought to
        the same scale are not scaled again. "standard" forgets, and it is robust: see
        :class:`fires.scaling.dense.Standard`. Unless it is None, a target of numbers is scaled
        too: the Bayesian update turns it into normal scores, the gradient update standardises it.
        Sparse data is never filled. With the Bayesian update, "standard" scales a sparse column as
        a dense one if every fifth row or more has an entry; a rarer one is divided by its standard
        deviation and not centred. With the gradient update, it divides by the root mean square and
        centres inside the model. The range of "minmax" on sparse data always includes 0.
    missing : {"ignore", "error"}, default="ignore"
        Leave missing entries of X out of step and scale, or refuse them.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.
    random_state : int, Generator, RandomState or None
        For models that draw random numbers; the built-in linear ones do not.

    Attributes
    ----------
    importances_ : ndarray (n_features,)
        The mean of each coefficient, on the scale of ``scale``: by how much the linear predictor
        moves with one standard deviation of the feature. With two classes, a positive importance
        speaks for the greater label. With more, it is the coefficient in the model of one class
        against the rest, for the class that the feature matters most for; so the features of a rare
        class are not lost. For numbers, it is about the target as normal scores.
    uncertainties_ : ndarray (n_features,)
        Bayesian update: the posterior standard deviation of ``importances_``. Up to 100 leading
        features are judged together, so that correlation among them is taken into account; others
        one by one, which is too sure where columns are correlated. Gradient update: the paper's
        sigma, which is a parameter of the model and no measure of how far off an importance is.
    weights_ : ndarray (n_features,)
        What features are ranked by, see ``score``.
    ranking_ : ndarray (n_features,)
        The rank of every feature by its weight; 1 is best.
    n_features_selected_ : int
        How many features are selected.
    class_importances_ : ndarray (n_classes, n_features)
        Which feature speaks for which class. A target of numbers has one row.
    twins_ : dict
        With ``redundancy="drop"``: the selected features that stand for others, and a list of these
        for each. By name, or by number where columns have no names.
    alarms_ : list of Alarm
        The changes noticed so far: row, batch, feature (None for all together) and strength. See
        :class:`fires.drift.Alarm`.
    classes_ : ndarray
        The labels seen, sorted; the greater of two is the positive one.
    model_ : str or model object
        What ``"auto"`` decided.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    Notes
    -----
    Arrays are read-only, and yours to keep. :meth:`interval` gives each importance its interval.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> selector = FIRES(2)
    >>> for _ in range(50):
    ...     X = rng.normal(size=(100, 8))
    ...     y = X[:, 3] - X[:, 5] > 0
    ...     selector = selector.partial_fit(X, y)
    >>> selector.get_support(indices=True)
    array([3, 5])
    >>> selector.get_feature_names_out()
    array(['x3', 'x5'], dtype=object)
    >>> low, high = selector.interval(0.95)
    >>> np.flatnonzero((low > 0) | (high < 0))  # surely of some importance
    array([3, 5])
    >>> selector.alarms_
    []
    >>> selector.transform(X).shape
    (100, 2)
    >>> X = rng.normal(size=(5000, 8))
    >>> y = X[:, 3] - X[:, 5] + rng.normal(size=5000) > 0
    >>> FIRES("auto").fit(X, y).n_features_selected_
    2
    """

    _learner_: Learner
    _alarms_: list[Alarm]
    _feature_alarms_: FeatureAlarms
    _members_: Membership
    _twins_: Twins

    def __init__(
        self,
        n_features_to_select: int | float | str = 10,
        *,
        columns: str = "fixed",
        absent: str = "missing",
        forget_after: int | None = None,
        redundancy: str = "ignore",
        model: str | BaseModel = "auto",
        update: str = "bayes",
        memory: float = 10_000.0,
        score: str = "auto",
        drift: Any = "auto",
        groups: Any = None,
        learning_rate: float = 0.01,
        learning_rate_sigma: float | None = None,
        uncertainty_penalty: float = 0.01,
        weight_penalty: float = 0.01,
        mu_init: Any = 0.0,
        sigma_init: Any = 1.0,
        fit_intercept: bool = True,
        scale: str | None = "standard",
        missing: str = "ignore",
        batch_size: int = 100,
        random_state: Any = None,
    ) -> None:
        self.n_features_to_select = n_features_to_select
        self.columns = columns
        self.absent = absent
        self.forget_after = forget_after
        self.redundancy = redundancy
        self.model = model
        self.update = update
        self.memory = memory
        self.score = score
        self.drift = drift
        self.groups = groups
        self.learning_rate = learning_rate
        self.learning_rate_sigma = learning_rate_sigma
        self.uncertainty_penalty = uncertainty_penalty
        self.weight_penalty = weight_penalty
        self.mu_init = mu_init
        self.sigma_init = sigma_init
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.missing = missing
        self.batch_size = batch_size
        self.random_state = random_state

    @classmethod
    def as_published(cls, n_features_to_select: int | float = 10, **changes: Any) -> Self:
        """The paper to the letter: a probit without intercept, X as it comes, rates of 0.01.

        Parameters
        ----------
        n_features_to_select : int or float, default=10
            How many features to select.
        **changes
            Other settings, in place of the paper's.

        Returns
        -------
        FIRES

        Examples
        --------
        >>> FIRES.as_published(20)  # doctest: +NORMALIZE_WHITESPACE
        FIRES(drift=None, fit_intercept=False, model='probit', n_features_to_select=20,
              scale=None, score='omega', update='gradient')
        """
        paper: dict[str, Any] = {
            "model": "probit",
            "update": "gradient",
            "score": "omega",
            "drift": None,
            "learning_rate": 0.01,
            "uncertainty_penalty": 0.01,
            "weight_penalty": 0.01,
            "mu_init": 0.0,
            "sigma_init": 1.0,
            "fit_intercept": False,
            "scale": None,
        }
        return cls(n_features_to_select, **(paper | changes))

    @property
    def importances_(self) -> Floats:
        """The importance of every feature; read-only, and yours to keep."""
        importances: Floats = self._computed("importances", lambda: self._belief().mu.copy())
        return importances

    @property
    def uncertainties_(self) -> Floats:
        """The standard deviation of every importance; read-only, and yours to keep."""
        uncertainties: Floats = self._computed("uncertainties", lambda: self._belief().sigma.copy())
        return uncertainties

    @property
    def class_importances_(self) -> Floats:
        """Which feature speaks for which class: one row per class; read-only.

        With two classes, the two rows differ in sign only. A numeric target has one row.
        """
        importances: Floats = self._computed("class importances", self._by_class)
        return importances

    @property
    def alarms_(self) -> list[Alarm]:
        """The changes noticed so far, in order. See :class:`fires.drift.Alarm`."""
        self._check_fitted()
        return list(getattr(self, "_alarms_", []))

    @property
    def twins_(self) -> dict[Any, list[Any]]:
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

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        r"""The interval that holds each true importance with this probability.

        .. math:: \mu_j \pm \Phi^{-1}\bigl(\tfrac{1 + c}{2}\bigr) \, \sigma_j

        It is a probability for linear models that learn by Bayes' rule. With the gradient update,
        sigma is not the error of an importance, and the interval is usually far too wide.

        Parameters
        ----------
        confidence : float, default=0.95
            The probability c, in (0, 1).

        Returns
        -------
        low, high : ndarray (n_features,)
        """
        check_number("confidence", confidence, high=1.0, wanted="a number between 0 and 1")
        reach = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * self.uncertainties_
        return self.importances_ - reach, self.importances_ + reach

    def why(self) -> str:
        """Why so many features are selected, in one sentence.

        Returns
        -------
        str
            With ``n_features_to_select="auto"``: how many are not zero with confidence, and what
            the next one would mean. Otherwise: how many of those asked for are above noise.

        Examples
        --------
        >>> rng = np.random.default_rng(1)
        >>> X = rng.normal(size=(2000, 20))
        >>> y = X[:, 3] - X[:, 5] + rng.normal(size=2000) > 0
        >>> FIRES("auto").fit(X, y).why()
        '2 of 20 features are not zero with confidence: the expected share of false ones is at most
         0.05; with the next, x14, it could be 0.11'
        >>> FIRES(5).fit(X, y).why()
        '5 of 20 features, as asked for: 2 of them are above noise'
        """
        self._check_fitted()
        groups, learner = self._grouping(), self._learner_
        what = "features" if groups is None else "groups" if self.groups is not None else "columns"
        chosen = self._selected() if groups is None else np.unique(groups.of[self._selected()])
        if self._finds_how_many:
            return why.found(self._distances(), chosen, self._n_candidates(), what, self._called)
        n_above = None
        if isinstance(learner, BayesLearner):
            is_above = why.above_noise(self.group_belief(), learner.n_rows)
            n_above = int(is_above[chosen].sum())
        return why.asked_for(len(chosen), self._n_candidates(), what, n_above)

    def _called(self, place: int) -> str:
        """What a feature is called, or a group by its column or its first feature."""
        groups, columns = self._grouping(), getattr(self, "columns_", None)
        if groups is not None:
            if columns is not None and self.groups is None:
                return str(columns.used[place].name)
            place = int(np.flatnonzero(groups.of == place)[0])
        names = getattr(self, "feature_names_in_", None)
        return f"x{place}" if names is None else str(names[place])

    @property
    def groups_(self) -> npt.NDArray[np.intp] | None:
        """For each feature, the number of its group; None if every feature is for itself."""
        groups = self._grouping()
        return None if groups is None else groups.of.copy()

    def group_belief(self) -> Belief:
        """Importance and uncertainty of every group, as :mod:`fires.selectors.groups` defines them.

        Returns
        -------
        Belief
            ``mu`` and ``sigma``, one entry per group. A group of one feature has that feature's.
        """
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

    @property
    def _finds_how_many(self) -> bool:
        """Whether as many are selected as are not zero with confidence."""
        return isinstance(self.n_features_to_select, str) and self.n_features_to_select == "auto"

    def _resolve_k(self) -> int:
        groups = self._grouping()
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

    def _weighting(self) -> tuple[Any, ...]:
        return self.uncertainty_penalty, self.weight_penalty, self.score

    @property
    def _by_rule(self) -> bool:
        """Whether members are kept by :mod:`fires.selectors.membership`."""
        return self.score == "auto" and hasattr(self, "_members_")

    def _belief(self) -> Belief:
        belief: Belief | None = self._seen_.get("belief")
        if belief is None:
            n, belief = self.n_features_in_, self._learner_.features()
            if len(belief.mu) > n:  # there is room for columns to come
                belief = Belief(belief.mu[:n], belief.sigma[:n])
            self._seen_["belief"] = belief
        return belief

    def _by_class(self) -> Floats:
        by_class = getattr(self._learner_, "by_class", None)
        mu = self._belief().mu[None] if by_class is None else by_class()[0]
        mu = mu[:, : self.n_features_in_]
        if len(mu) == 1 and self._kind_ == "classes":
            mu = np.concatenate([-mu, mu])
        return mu.copy()

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

    def _selected(self) -> npt.NDArray[np.intp]:
        k, groups = self._resolve_k(), self._grouping()
        if self._finds_how_many:
            chosen = self._computed("found", self._found)
            return chosen if groups is None else np.flatnonzero(np.isin(groups.of, chosen))
        by_rule = self._by_rule and len(self._members_.columns) == k
        if groups is None:
            return self._members_.columns if by_rule else self._best(k)
        chosen = self._members_.columns if by_rule else top_k(groups.best(self.weights_), k)
        return np.flatnonzero(np.isin(groups.of, chosen))

    def _best(self, k: int) -> npt.NDArray[np.intp]:
        """The features of the greatest weight; of open columns, of those that are there."""
        resting = self._resting() if self._is_open else None
        if resting is None:
            return super()._selected()
        weights = np.where(resting[: self.n_features_in_], -np.inf, self.weights_)
        return top_k(weights, k)

    # --- learning ---------------------------------------------------------------------------

    def _learn(self, batch: CheckedBatch) -> None:
        self._attend(batch)
        target = self._target(batch)
        self._learner_ = self._learner_.ready_for(batch.X)
        self._tell_presence()
        self._count_batch()
        if self._watches_surprise():
            watched: Any = self._learner_
            surprise, variance = watched.surprise(batch, target)
            self._hear_surprise(surprise, variance, batch.n_rows)
        self._learner_.step(batch, target, self._rates())
        if isinstance(self._learner_, BayesLearner):
            n_rows = batch.n_rows
            self._renew(n_rows, float(n_rows if batch.weight is None else batch.weight.sum()))
        self._forget_stale()

    def _tell_presence(self) -> None:
        """Let the learner know which columns are there."""
        learner = self._learner_
        if not isinstance(learner, BayesLearner):
            return
        if learner.sparse is not None and self._is_open:
            learner.count_columns(self.n_features_in_)
        elif "_presence_" in self.__dict__ and learner.sparse is None:
            presence = self._presence_
            learner.attend(presence.resting, presence.never, presence.arrived)

    def _rearrange(self, source: npt.NDArray[np.intp]) -> None:
        if "_learner_" not in self.__dict__:
            return
        learner: Any = self._learner_
        n_before = learner.n_features
        self._learner_ = learner.rearranged(source)
        places = np.full(n_before, -1)
        places[source[source >= 0]] = np.flatnonzero(source >= 0)
        self._feature_alarms_ = self._feature_alarms_.rearranged(source, n_before)
        self._alarms_ = [
            alarm if alarm.feature is None else alarm._replace(feature=int(places[alarm.feature]))
            for alarm in self._alarms_
            if alarm.feature is None or places[alarm.feature] >= 0
        ]
        if "_members_" in self.__dict__:
            self._members_ = self._members_.rearranged(source)
        if "_twins_" in self.__dict__:
            self._twins_ = self._twins_.rearranged(places)

    def _rates(self) -> Rates:
        sigma_rate = self.learning_rate_sigma
        return Rates(self.learning_rate, self.learning_rate if sigma_rate is None else sigma_rate)

    def _count_batch(self) -> None:
        if not hasattr(self, "_n_batches_"):
            self._n_batches_, self._alarms_ = 0, []
            self._rows_since_alarm_ = 0.0
            self._surprise_ = SurpriseAlarm()
            self._feature_alarms_ = FeatureAlarms(max(0.5 * float(self.memory), 1.0))
            self._detector_ = None if _is_plain(self.drift) else copy.deepcopy(self.drift)
        self._n_batches_ += 1

    def _raise_alarm(self, n_rows: int, strength: float, feature: int | None) -> None:
        row = getattr(self, "n_samples_seen_", 0) + n_rows
        alarm = Alarm(row, self._n_batches_ - 1, feature, strength)
        self._alarms_ = [*self._alarms_, alarm]

    def _watches_surprise(self) -> bool:
        """Whether a model that learns by gradient is watched."""
        if self.drift is None or (isinstance(self.drift, str) and self.drift == "auto"):
            return False
        return not isinstance(self._learner_, BayesLearner)

    def _hear_surprise(self, surprise: float, variance: float, n_rows: int) -> bool:
        """For models that learn by gradient: forget before a batch if it is a surprise."""
        learner: Any = self._learner_
        if self._detector_ is None:
            strength = self._surprise_.update(surprise, variance)
            found = strength > self._surprise_.limit
        else:
            strength = surprise / n_rows
            found = _detects(self._detector_, [strength])
        if found:
            learner.forget(KEPT_ROWS / max(self._rows_since_alarm_, 2.0 * KEPT_ROWS))
            self._raise_alarm(n_rows, strength, None)
            self._surprise_.restart()
            self._rows_since_alarm_ = 0.0
        self._rows_since_alarm_ += n_rows
        return found

    def _renew(self, n_rows: int, weight: float) -> None:
        """After a Bayesian step on so many rows: take note of alarms, and choose the members."""
        learner = self._learner_
        assert isinstance(learner, BayesLearner)
        if not hasattr(self, "_members_"):
            self._members_ = Membership(self._n_candidates())
        strengths = learner.strengths
        if self._detector_ is not None and _detects(self._detector_, learner.losses.tolist()):
            learner.forget_most()
            strengths = [float(learner.losses.mean())]
        for strength in strengths:
            self._raise_alarm(n_rows, strength, None)
        if strengths:
            self._members_.restart()
            self._feature_alarms_.restart()
            if hasattr(self, "_twins_"):
                self._twins_.look_again()
        elif self.drift is not None and self._feature_alarms_.is_due(weight):
            # Class by class: which class a feature matters most for may change without any drift.
            moved = self._feature_alarms_.update(*learner.by_class(), learner.prior_deviations())
            for feature, strength in moved.items():
                self._raise_alarm(n_rows, strength, feature)
        k, groups = None if self._finds_how_many else self._resolve_k(), self._grouping()
        if groups is None:
            scores, variances, touched = learner.scores, learner.variances, learner.touched
            resting, arrived = self._resting(), _NO_COLUMNS
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
        """From time to time, select those that are not zero with confidence."""
        if not hasattr(self, "_looks_"):  # those of a fixed number were chosen by another rule
            self._looks_ = Looks()
            self._members_.choose(_NO_COLUMNS)
        if self._looks_.is_due(weight, *self._evidence):
            self._members_.choose(self._sure(self._members_.columns))

    @property
    def _evidence(self) -> tuple[float, int]:
        """Rows since the start or an alarm, of the class that had one last; columns there."""
        learner = self._learner_
        assert isinstance(learner, BayesLearner)
        return float(learner.evidence_rows.min()), learner.n_there

    def _sure(self, members: Columns) -> Columns:
        """Those that are not zero with confidence: see :mod:`fires.selectors.confident`."""
        try:
            return choose(self._distances(), members)
        except np.linalg.LinAlgError:  # weights so large that nothing else counts beside them
            return members

    def _distances(self) -> Distances:
        """How sure each feature is, or each group, of those whose columns are there."""
        groups = self._grouping()
        resting = self._resting() if groups is None else None
        known = distances(self._learner_, groups).without(resting)
        twins = self.__dict__.get("_twins_")
        if groups is not None or twins is None or not twins.some:
            return known
        weak = np.setdiff1d(twins.columns[twins.own < 1.0], choose(known, self._members_.columns))
        return distances(self._learner_, None, weak).without(resting)

    def _found(self) -> Columns:
        """Those that were not zero with confidence at the last look."""
        if hasattr(self, "_looks_"):
            return self._members_.columns.copy()
        is_known = hasattr(self, "_members_") and is_time(*self._evidence)
        return self._sure(_NO_COLUMNS) if is_known else _NO_COLUMNS.copy()

    def _judge(self, touched: Any, resting: Any) -> tuple[Judge | None, Any]:
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

    def restart_features(self, columns: Sequence[int | str]) -> Self:
        """Forget what was learnt about some features; everything else stays.

        Call it where a column has got another meaning: what was learnt of the old one would be
        wrong. The next batch gives such a feature its scale. Before the first batch there is
        nothing to forget.

        Its belief is that of the start: the prior (Bayesian update), or ``mu_init`` and
        ``sigma_init`` (gradient update). In nets and trees, the weights that meet the feature are
        drawn anew. A module of torch, or a model of your own, keeps its belief, and only the scale
        starts anew. A selected feature stays so until others are better. That it is not what it
        was raises no alarm.

        Parameters
        ----------
        columns : sequence of int or str
            Which features: indices, or names where columns have names.

        Returns
        -------
        self

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(1000, 3))
        >>> selector = FIRES(1).fit(X, X[:, 1] > 0)
        >>> selector.restart_features([1]).importances_[1]
        np.float64(0.0)
        """
        return super().restart_features(columns)

    def take_scale(self, scaler: Scaler) -> None:
        """Go on with the scale that a pipeline has learnt, for rows that it does not scale.

        Sparse rows were scaled twice, by the pipeline and by the learner: the learner's scale
        becomes that of both.

        Parameters
        ----------
        scaler : Scaler
            Of the same ``scale``.
        """
        learner: Any = self._learner_
        if scaler.dense.ready:
            learner.scaler.restore(scaler.state())
            return
        gain = scaler.sparse.gain(np.arange(self.n_features_in_))
        gain[gain == 0.0] = 1.0  # such a column was never seen
        for scale in (learner.scaler.sparse, getattr(learner, "mixed", None)):
            if scale is not None and scale.ready:
                scale.undo(gain)

    def own_scale(self) -> Scaler | None:
        """The scale of dense rows that the selector has learnt for itself.

        Returns
        -------
        Scaler or None
            None if rows are not scaled, or sparse.
        """
        scaler: Scaler = self._learner_.scaler  # type: ignore[attr-defined]
        return scaler if self.scale is not None and scaler.dense.ready else None

    def _restart_features(self, columns: npt.NDArray[np.intp]) -> None:
        self._learner_.restart_features(columns)
        if hasattr(self, "_members_"):
            groups = self._grouping()
            chosen = columns if groups is None else np.unique(groups.of[columns])
            self._members_.restart_features(chosen)
            self._feature_alarms_.restart_features(columns, self._width)
        if hasattr(self, "_twins_"):
            self._twins_.restart(columns)

    def _target(self, batch: CheckedBatch) -> npt.NDArray[Any]:
        """The target in the form the model takes. Starts the learner, or adds new classes."""
        started = hasattr(self, "_learner_")
        if not started:
            self.model_ = self._decide(batch)
            self._kind_ = self._kind(batch)
        if self._kind_ != "classes":
            return self._take_numbers(batch)
        codes, before = self._take_whole_labels(batch)
        n_classes = len(self._book_)
        if not started:
            self._start(n_classes)
        elif before is not None and len(before) != n_classes:
            self._learner_ = self._learner_.with_classes(before, self.classes_)
        # While only one class is known, it is the positive one.
        return codes + 1 if n_classes == 1 else codes

    def _take_numbers(self, batch: CheckedBatch) -> Floats:
        """A target of numbers or counts; starts the learner."""
        assert batch.y is not None
        if batch.announced is not None:
            raise ValueError(f"classes is for class labels; {self._model_name()} has none.")
        numbers = as_numbers(batch.y, self._model_name())
        if not hasattr(self, "_learner_"):
            self._start(0)
        return numbers

    _for_numbers = "for a numeric target use {model=gaussian}."

    def _decide(self, batch: CheckedBatch) -> Any:
        """The model that "auto" stands for."""
        if self.model != "auto":
            return self.model
        choices = "numbers ({model=gaussian}), counts ({model=poisson}) or classes ({model=probit})"
        assert batch.y is not None
        numeric = are_numbers(batch.y, batch.announced, choices=choices)
        return "gaussian" if numeric else "probit"

    def _kind(self, batch: CheckedBatch) -> str:
        """What the target is, by the model or by the first batch: classes, numbers or counts."""
        assert batch.y is not None
        model = self._as_model()
        task: str = getattr(model, "task", "auto")
        if task != "auto":
            return task
        numeric = has_fractions(batch.y)
        if isinstance(model, MonteCarlo):
            name = self._model_name()
            choices = f"numbers ({name}(task='numbers')) or classes (task='classes')"
            numeric = are_numbers(batch.y, batch.announced, choices=choices)
        return "numbers" if numeric else "classes"

    def _as_model(self) -> Any:
        """The model as an object."""
        return (
            Linear(self.model_, self.fit_intercept) if isinstance(self.model_, str) else self.model_
        )

    def _start(self, n_classes: int) -> None:
        self._learner_ = start_learner(
            self._as_model(),
            self._width,
            n_classes,
            scale=self.scale,
            starts=(self.mu_init, self.sigma_init),
            memory=float(self.memory) if self.update == "bayes" else None,
            watches=isinstance(self.drift, str),
            rng=lambda: generator(self.random_state, "fires"),
        )
        if self.redundancy == "drop":
            if not isinstance(self._learner_, BayesLearner):
                raise ValueError(
                    "redundancy='drop' is for linear models and update='bayes': others do not know "
                    "how features are correlated."
                )
            self._learner_.keeps_rows, self._twins_ = True, Twins()

    def _model_name(self) -> str:
        return self.model_ if isinstance(self.model_, str) else type(self.model_).__name__

    def _check_parameters(self) -> None:
        for name in ("learning_rate", "weight_penalty"):
            check_number(name, getattr(self, name), wanted="a positive number")
        for name in ("uncertainty_penalty", "learning_rate_sigma"):
            if name != "learning_rate_sigma" or self.learning_rate_sigma is not None:
                wanted = "a number that is not negative"
                check_number(name, getattr(self, name), ends="[)", wanted=wanted)
        check_choice("score", self.score, ("auto", "omega"), "'auto' or 'omega'")
        self._check_redundancy()
        self._check_columns()
        if hasattr(self, "_learner_"):
            return
        check_choice("update", self.update, ("bayes", "gradient"), "'bayes' or 'gradient'")
        if _is_plain(self.drift):
            known = "'auto', 'alarm', None or a detector"
            check_choice("drift", self.drift, ("auto", "alarm", None), known)
        elif not (hasattr(self.drift, "update") and hasattr(self.drift, "drift_detected")):
            raise ValueError(
                "drift must be 'auto', 'alarm', None, or a detector with the method update and the "
                f"attribute drift_detected, as River's have; got {self.drift!r}."
            )
        check_number("memory", self.memory, low=1.0, wanted="a number of rows above 1")
        check_choice("scale", self.scale, SCALES, "'standard', 'minmax' or None")
        check_choice("fit_intercept", self.fit_intercept, (True, False), "True or False")
        if isinstance(self.model, str):
            if self.model != "auto" and self.model not in FAMILIES:
                known = ", ".join(map(repr, ["auto", *FAMILIES]))
                raise ValueError(f"model must be one of {known}, or an object; got {self.model!r}.")
        elif not isinstance(self.model, BaseModel):
            raise ValueError(
                f"model={self.model!r} is no base model: it needs the methods init, log_marginal, "
                "gradient and to_features."
            )
        if self._is_open and not (isinstance(self.model, (str, Linear)) and self.groups is None):
            what = "groups" if self.groups is not None else "a model that is not linear"
            raise ValueError(f"columns='open' does not go with {what}.")
        check_seed(self.random_state)
        self._check_starts()
        linear = isinstance(self.model, str | Linear)
        if self._finds_how_many and not (linear and self.update == "bayes"):
            self._refuse_auto(self.model)

    def _refuse_auto(self, learner: Any) -> None:
        """Raise if something else learns than what knows how sure it is."""
        if learner is not None and not isinstance(learner, BayesLearner):
            linear = isinstance(self.model, str | Linear)
            what = "update='gradient'" if linear else type(self.model).__name__
            raise ValueError(
                f"n_features_to_select='auto' asks how sure an importance is, and {what} does not "
                "know: use a linear model with update='bayes', or a number of features."
            )

    def _check_redundancy(self) -> None:
        check_choice("redundancy", self.redundancy, ("ignore", "drop"), "'ignore' or 'drop'")
        drops = self.redundancy == "drop"
        if drops and self.score != "auto":
            raise ValueError("redundancy='drop' needs score='auto': omega ranks, twins or not.")
        if hasattr(self, "_learner_") and hasattr(self, "_twins_") != drops:
            raise ValueError("redundancy cannot change once something was learnt.")

    def _check_starts(self) -> None:
        for name in ("mu_init", "sigma_init"):
            try:
                start = np.asarray(getattr(self, name), dtype=np.float64)
            except (TypeError, ValueError):
                start = np.array(np.nan)
            shapes = [()] if self._is_open else [(), (self.n_features_in_,)]
            if start.shape not in shapes or not np.isfinite(start).all():
                each = "" if self._is_open else ", or one for each feature"
                raise ValueError(f"{name} must be a number{each}.")
        if (np.asarray(self.sigma_init) < 0).any():
            raise ValueError("sigma_init must not be negative.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        family = FAMILIES.get(self.model) if isinstance(self.model, str) else None
        tags.target_tags.positive_only = family is not None and family.kind == "counts"
        return tags

    # --- state ------------------------------------------------------------------------------

    def _plain(self, value: Any) -> Any:
        if type(value) in BUILT_IN:
            return {"model": type(value).__name__, "settings": plain(dict(vars(value)))}
        if isinstance(value, BaseModel):
            return {"object": _name(value)}
        return plain(value)

    def _from_plain(self, value: Any, model: Any) -> Any:
        if isinstance(value, dict) and "model" in value:
            if model is not None:  # the user passed it again, perhaps for another device
                return _again(model, value["model"])
            return getattr(models, value["model"])(**value["settings"])
        if isinstance(value, dict) and "object" in value:
            return _again(model, value["object"])
        return value

    def _state(self) -> State:
        header: dict[str, Any] = {
            "model": self._plain(self.model_),
            "numeric_target": self._kind_ != "classes",
        }
        if type(self._learner_) is ModelLearner:
            header["rng"] = generator_state(self._learner_.rng)
        arrays = self._learner_.state()
        header["n_batches"] = self._n_batches_
        header["rows_since_alarm"] = self._rows_since_alarm_
        arrays |= {"alarms": alarms_to_array(self._alarms_)}
        for name, part in self._parts().items():
            arrays |= under(name, collect(part, part.learnt)[1])
        changing, more = self._changing_state()
        return header | changing, arrays | more

    def restore(self, header: dict[str, Any], arrays: Arrays, model: Any = None) -> Self:
        """See :meth:`OnlineSelector.restore`. Before there was a choice, the paper's was taken."""
        params = _ONLY_CHOICE | header["params"]
        return super().restore(header | {"params": params}, arrays, model)

    def _restore(self, header: dict[str, Any], arrays: Arrays, model: Any) -> None:
        self.model_ = self._from_plain(header["model"], model)
        facts = SimpleNamespace()
        restore(facts, {"numeric_target": Value(bool)}, header, arrays, {})
        task: str = getattr(self._as_model(), "task", "auto")
        found = "numbers" if facts.numeric_target else "classes"
        self._kind_ = found if task == "auto" else task
        if facts.numeric_target == (self._kind_ == "classes"):
            raise StateError(f"numeric_target is {facts.numeric_target} for a target of {task}")
        if not facts.numeric_target and not len(self._book_):
            raise StateError("classes are missing")
        self._check_starts()
        self._restore_changing(header, arrays)
        self._start(0 if facts.numeric_target else len(self._book_))
        self._learner_.restore(arrays)
        self._tell_presence()
        self._restore_alarms(header, arrays)
        if type(self._learner_) is ModelLearner:
            self._learner_.rng = Random().read("rng", header, arrays, {})

    def _parts(self) -> dict[str, Any]:
        """What has learnt besides the learner, by its name in a file."""
        parts: dict[str, Any] = {"surprise": self._surprise_, "moved": self._feature_alarms_}
        later = {"members": "_members_", "looks": "_looks_", "twins": "_twins_"}
        return parts | {k: getattr(self, name) for k, name in later.items() if hasattr(self, name)}

    def _restore_alarms(self, header: dict[str, Any], arrays: Arrays) -> None:
        by_bayes = isinstance(self._learner_, BayesLearner)
        if not by_bayes and "alarms" not in arrays:  # a file from before there were alarms
            return
        self._count_batch()
        if by_bayes:
            self._members_ = Membership(self._n_candidates())
            if part_of("looks", arrays):
                self._looks_ = Looks()
        found, sizes = SimpleNamespace(), {"J": self._width}
        restore(found, _ALARMS, header, arrays, sizes)
        for name, part in self._parts().items():
            of_part = {"J": self._n_candidates()} if name == "members" else sizes
            restore(part, part.learnt, {}, part_of(name, arrays), of_part)
        if by_bayes:
            self._members_.refresh()
        if hasattr(self, "_twins_"):
            self._twins_.refresh()
        self._n_batches_, self._rows_since_alarm_ = found.n_batches, found.rows_since_alarm
        self._alarms_ = alarms_from_array(found.alarms)


_NO_COLUMNS: npt.NDArray[np.intp] = np.empty(0, dtype=np.intp)
_ONLY_CHOICE = {"update": "gradient", "score": "omega", "drift": None}
_ALARMS: Declared = {
    "alarms": Array("*", 4),
    "n_batches": Value(int, low=0),
    "rows_since_alarm": Value(float, low=0.0),
}


def _is_plain(drift: Any) -> bool:
    """Whether it is a setting, not a detector."""
    return drift is None or isinstance(drift, str)


def _detects(detector: Any, losses: list[float]) -> bool:
    """Whether a detector finds a drift when it is told how badly rows were predicted."""
    found = False
    for loss in losses:
        detector.update(loss)
        found = found or bool(detector.drift_detected)
    return found


def _again(model: Any, wanted: str) -> Any:
    """The user's model, passed to ``fires.load``."""
    return same_kind(model, _name(model), wanted, "a model of your own")


def _name(model: Any) -> str:
    name: str = getattr(model, "name", type(model).__qualname__)
    return name
