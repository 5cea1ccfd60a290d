"""FIRES: weights from the importance and the uncertainty of a model's parameters."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from fires.core.batch import CheckedBatch
from fires.core.belief import WeightSums, effective_weights
from fires.core.declared import Array, Declared, Random, Value, collect, restore
from fires.core.errors import StateError
from fires.core.randomness import check_seed, generator_state
from fires.core.settings import check_choice, check_number
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Estimator, Header, Places, Seed
from fires.drift.alarms import alarms_from_array, alarms_to_array
from fires.models.base import BaseModel, Learner, Rates
from fires.models.bayes_learner import BayesLearner
from fires.models.families import FAMILIES
from fires.models.linear import Linear
from fires.models.model_learner import ModelLearner
from fires.models.scale import SCALES
from fires.selectors.choosing import Choosing
from fires.selectors.confident import ReviewSchedule
from fires.selectors.membership import Membership

if TYPE_CHECKING:
    from fires.core.declared import HasLearnt
    from fires.drift.alarms import Detector


class FIRES(Choosing):
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
        ``"auto"``: as many as are significantly non-zero, which may be none. Among those
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
        :class:`fires.models.scale.Standard`. Unless it is None, a target of numbers is scaled
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

    _weight_sums_ = WeightSums()

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
        drift: str | Detector | None = "auto",
        groups: Sequence[Hashable] | npt.NDArray[np.generic] | None = None,
        learning_rate: float = 0.01,
        learning_rate_sigma: float | None = None,
        uncertainty_penalty: float = 0.01,
        weight_penalty: float = 0.01,
        mu_init: npt.ArrayLike = 0.0,
        sigma_init: npt.ArrayLike = 1.0,
        fit_intercept: bool = True,
        scale: str | None = "standard",
        missing: str = "ignore",
        batch_size: int = 100,
        random_state: Seed = None,
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

    # --- learning ---------------------------------------------------------------------------

    def _learn(self, batch: CheckedBatch) -> None:
        changes = (
            batch.vocabulary is not None
            or batch.present is not None
            or "_presence_" in self.__dict__
        )
        if changes:
            self._attend(batch)
        target = self.meet_target(batch)
        by_bayes = isinstance(self._learner_, BayesLearner)
        if by_bayes:  # the gradient update divides by the sum of the weights
            weight, self._weight_sums_ = effective_weights(
                batch.weight, batch.n_rows, self._weight_sums_, float(self.memory)
            )
            batch = batch.weighted(weight)
        if changes:
            self._sync_columns()
        self._count_batch()
        if self._watches_surprise():
            watched: Any = self._learner_
            surprise, variance = watched.surprise(batch, target)
            self._check_loss_drift(surprise, variance, batch.n_rows)
        self._learner_.step(batch, target, self._rates())
        if by_bayes:
            n_rows = batch.n_rows
            self._renew(n_rows, float(n_rows if batch.weight is None else batch.weight.sum()))
        if changes:
            self._forget_stale(batch)

    def _rearrange(self, source: Places) -> None:
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

    # --- a batch in shards: all that fires.selectors.sharded uses of FIRES, besides all_or_nothing,
    # --- admitted, admitted_anew and known of OnlineSelector

    @property
    def learner(self) -> Learner | None:
        """What learns; None before the first batch has shown its target."""
        return self.__dict__.get("_learner_")

    @property
    def target_kind(self) -> str:
        """What the target holds, once there is a learner: "classes", "numbers" or "counts"."""
        return self._kind_

    @property
    def model_name(self) -> str:
        """What errors call the model."""
        return self._model_name()

    @property
    def rates(self) -> Rates:
        """The learning rates of the gradient update."""
        return self._rates()

    @property
    def weight_sums(self) -> WeightSums:
        """The weights of the rows so far, for the Bayesian update."""
        return self._weight_sums_

    @property
    def watches_loss(self) -> bool:
        """Whether :meth:`check_loss_drift` is to be told the loss of a batch before its step."""
        return self._watches_surprise()

    def begin_shards(self, n_features: int) -> None:
        """Check the settings before a batch; from here on, steps change copies only.

        Steps change arrays in place. So what learns is a copy, which counts only once nothing can
        fail any more: call this within :meth:`all_or_nothing`.
        """
        if "n_features_in_" not in self.__dict__:
            self.n_features_in_ = n_features
        self._resolve_k()
        self._check_settings()
        changed = ("_learner_", "_surprise_", "_detector_", "_feature_alarms_", "_members_")
        for name in (*changed, "_looks_"):
            if name in self.__dict__:
                setattr(self, name, copy.deepcopy(getattr(self, name)))

    def meet_target(self, batch: CheckedBatch) -> npt.NDArray[np.generic]:
        """The target as the learner takes it. Starts the learner, or adds classes to it."""
        target = self._target(batch)
        self._learner_ = self._learner_.ready_for(batch.X)
        return target

    def check_loss_drift(self, surprise: float, variance: float, n_rows: int) -> bool:
        """Before a step of the gradient update: forget if its batch is a surprise."""
        if not self._is_counted_:
            self._count_batch()
            self._is_counted_ = True
        return self._check_loss_drift(surprise, variance, n_rows)

    def end_shards(self, n_rows: int, n_missing: int, weight: float, sums: WeightSums) -> None:
        """After the step of the learner on rows of this total weight: choose, and count them."""
        if not self._is_counted_:
            self._count_batch()
        self._is_counted_ = False
        if self._learner_.joint_posterior is not None:
            self._weight_sums_ = sums
            self._renew(n_rows, weight)
        self.n_samples_seen_ = getattr(self, "n_samples_seen_", 0) + n_rows
        self.n_missing_ = getattr(self, "n_missing_", 0) + n_missing
        self._seen_ = {}

    _is_counted_ = False

    def _renew(self, n_rows: int, weight: float) -> None:
        """After a Bayesian step on so many rows: take note of alarms, and choose the members."""
        self._choose(weight, anew=self._take_note(n_rows, weight))

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

    def _restart_features(self, columns: Places) -> None:
        self._learner_.restart_features(columns)
        if hasattr(self, "_members_"):
            groups = self._grouping()
            chosen = columns if groups is None else np.unique(groups.of[columns])
            self._members_.restart_features(chosen)
            self._feature_alarms_.restart_features(columns, self._width)
        if hasattr(self, "_twins_"):
            self._twins_.restart(columns)

    def _check_parameters(self) -> None:
        for name in ("learning_rate", "weight_penalty"):
            check_number(name, getattr(self, name), wanted="a positive number")
        for name in ("uncertainty_penalty", "learning_rate_sigma"):
            if name != "learning_rate_sigma" or self.learning_rate_sigma is not None:
                wanted = "a number that is not negative"
                check_number(name, getattr(self, name), ends="[)", wanted=wanted)
        check_choice("score", self.score, ("auto", "omega"), "'auto' or 'omega'")
        check_choice("redundancy", self.redundancy, ("ignore", "drop"), "'ignore' or 'drop'")
        self._check_columns()
        if self.redundancy == "drop" and self.score != "auto":
            raise ValueError(
                "redundancy='drop' needs score='auto': omega ranks redundant features too."
            )
        if hasattr(self, "_learner_"):
            if hasattr(self, "_twins_") != (self.redundancy == "drop"):
                raise ValueError("redundancy cannot change once something was learnt.")
            return
        check_choice("update", self.update, ("bayes", "gradient"), "'bayes' or 'gradient'")
        self._check_drift()
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

    # --- state ------------------------------------------------------------------------------

    def _state(self) -> State:
        header: Header = {
            "model": self._plain(self.model_),
            "numeric_target": self._kind_ != "classes",
        }
        if type(self._learner_) is ModelLearner:
            header["rng"] = generator_state(self._learner_.rng)
        arrays = self._learner_.state()
        header["n_batches"] = self._n_batches_
        header["rows_since_alarm"] = self._rows_since_alarm_
        weight_sums = np.array(self._weight_sums_)
        arrays |= {"alarms": alarms_to_array(self._alarms_), "weight_sums": weight_sums}
        for name, part in self._parts().items():
            arrays |= under(name, collect(part, part.learnt)[1])
        changing, more = self._changing_state()
        return header | changing, arrays | more

    def restore(
        self, header: dict[str, Any], arrays: Arrays, model: BaseModel | Estimator | None = None
    ) -> Self:
        """See :meth:`OnlineSelector.restore`. Before there was a choice, the paper's was taken."""
        params = _ONLY_CHOICE | header["params"]
        return super().restore(header | {"params": params}, arrays, model)

    def _restore(self, header: Header, arrays: Arrays, model: BaseModel | Estimator | None) -> None:
        self.model_ = self._from_plain(header["model"], model)
        facts = SimpleNamespace()
        restore(facts, {"numeric_target": Value(bool)}, header, arrays, {})
        task: str = getattr(self._as_model(), "task", "auto")
        found = "numbers" if facts.numeric_target else "classes"
        self._kind_ = found if task == "auto" else task
        if facts.numeric_target == (self._kind_ == "classes"):
            raise StateError(f"numeric_target is {facts.numeric_target} for a target of {task}")
        if not facts.numeric_target and not len(self._label_index_):
            raise StateError("classes are missing")
        self._check_starts()
        self._restore_changing(header, arrays)
        self._start(0 if facts.numeric_target else len(self._label_index_))
        self._learner_.restore(arrays)
        self._sync_columns()
        self._restore_alarms(header, arrays)
        self._weight_sums_ = WeightSums.read(arrays)
        if type(self._learner_) is ModelLearner:
            self._learner_.rng = Random().read("rng", header, arrays, {})

    def _parts(self) -> dict[str, HasLearnt]:
        """What has learnt besides the learner, by its name in a file."""
        parts: dict[str, HasLearnt] = {"surprise": self._surprise_, "moved": self._feature_alarms_}
        later = {"members": "_members_", "looks": "_looks_", "twins": "_twins_"}
        return parts | {k: getattr(self, name) for k, name in later.items() if hasattr(self, name)}

    def _restore_alarms(self, header: Header, arrays: Arrays) -> None:
        by_bayes = isinstance(self._learner_, BayesLearner)
        if not by_bayes and "alarms" not in arrays:  # a file from before there were alarms
            return
        self._count_batch()
        if by_bayes:
            self._members_ = Membership(self._n_candidates())
            if part_of("looks", arrays):
                self._looks_ = ReviewSchedule()
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


_ONLY_CHOICE = {"update": "gradient", "score": "omega", "drift": None}
_ALARMS: Declared = {
    "alarms": Array("*", 4),
    "n_batches": Value(int, low=0),
    "rows_since_alarm": Value(float, low=0.0),
}
