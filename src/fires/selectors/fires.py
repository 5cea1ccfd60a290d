"""FIRES: weights from the importance and the uncertainty of a model's parameters."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import field, replace
from datetime import timedelta
from operator import is_not
from statistics import NormalDist
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils import Tags

from fires.core.batch import CheckedBatch, WeightSums, effective_weights
from fires.core.belief import Belief
from fires.core.declared import Random, Value, collect, restore
from fires.core.duration import seconds_of
from fires.core.errors import InputError, StateError
from fires.core.randomness import generator, generator_state, random_state
from fires.core.settings import (
    check_choice,
    check_number,
    checked,
    choice,
    count,
    flag,
    number,
    plain,
)
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import (
    Estimator,
    Floats,
    Header,
    Mask,
    Matrix,
    OptionalArray,
    Places,
    RowsLike,
    Seed,
)
from fires.core.validation import as_columns, as_numbers, frames_of_ours
from fires.drift import Alarm, Detector
from fires.kernels.gradient import weigh
from fires.models import learners
from fires.models.base import BaseModel, JointPosterior, Learner, Rates
from fires.models.families import FAMILIES
from fires.models.linear import Linear
from fires.models.model_learner import ModelLearner
from fires.models.scale import Scaler
from fires.models.wide import Effects
from fires.selectors import relations, significance
from fires.selectors.base import OnlineSelector
from fires.selectors.clock import Clock
from fires.selectors.columns import FixedColumns, KnownColumns, framed
from fires.selectors.drift import DriftMonitor, check_drift
from fires.selectors.open_columns import OpenColumns, Presence
from fires.selectors.relations import Contributions, FeatureCurve, Pair
from fires.selectors.rule import SelectionRule
from fires.selectors.selector import settings
from fires.selectors.significance import Groups

_NOT_NEGATIVE = "a number that is not negative"


def _check_model(name: str, model: Any) -> None:
    if isinstance(model, str):
        known = ", ".join(map(repr, ["auto", *FAMILIES]))
        check_choice(name, model, ("auto", *FAMILIES), f"one of {known}, or an object")
    elif not isinstance(model, BaseModel):
        raise ValueError(
            f"model={model!r} is not a base model: it needs the methods init, log_marginal, "
            "gradient and to_features."
        )


def _are_names(columns: Any) -> bool:
    return isinstance(columns, list) and all(isinstance(name, str) for name in columns)


_MEMORY = 10_000.0  # rows


def _check_memory(name: str, memory: Any) -> None:
    if seconds_of(memory) is None:
        check_number(name, memory, 1.0, wanted="a number of rows above 1, or a time such as '7d'")


@settings
class FIRES(OnlineSelector):
    r"""Online feature selection by importance and uncertainty (Haug et al., KDD 2020).

    The parameters of a base model are random, :math:`\theta_j \sim \mathcal{N}(\mu_j, \sigma_j^2)`.
    The mean is the importance of the feature, the standard deviation its uncertainty.

    **The Bayesian update** is the default for linear models. Each row moves the belief by Bayes'
    rule, and old evidence fades with ``memory``. There is no learning rate. When the features stop
    predicting the target, an alarm is raised and most of the evidence is dropped. For the formulas
    see :mod:`fires.kernels.assimilate`, for the prior :mod:`fires.models.bayes_learner`.

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

    **Ranking and selection differ.** ``ranking_`` orders the features by ``weights_``, which are
    the absolute ``importances_``. The selected features are chosen together by forward selection
    (:mod:`fires.selectors.rule`): each must improve on the others, and it stays until another is
    clearly better. So a redundant feature may rank high and not be selected. With
    ``score="omega"``, and with the gradient update, the selected features are the best of
    ``ranking_``.

    Parameters
    ----------
    n_features_to_select : int, float or "auto", default=10
        How many features to select: a number (all, if there are fewer), a fraction in (0, 1), or
        ``"auto"``: as many as are jointly significant, possibly none. The false discovery rate
        is at most 0.05 if the model holds: see :mod:`fires.selectors.significance` for what exactly
        is guaranteed. At most 100 can be selected. For linear models with the Bayesian update.
        :meth:`why` summarises the result in a sentence.
    columns : {"fixed", "open"}, default="fixed"
        Whether all batches have the same columns. ``"open"``: columns are identified by name, in
        frames and dicts. New ones join, absent ones rest, none is lost.
    absent : {"missing", "zero"}, default="missing"
        With open columns: what it means if a row has no value for a column. For words that a text
        does not contain, use ``"zero"``.
    forget_after : int, optional
        With open columns: forget a column that was absent for this many rows. By default none is
        forgotten.
    redundancy : {"ignore", "drop"}, default="ignore"
        Both values select alike: of redundant features, forward selection takes one, and
        ``twins_`` lists the others. ``"drop"`` is an error where correlations are not tracked: with
        the gradient update and with ``score="omega"``.
    model : str or model object, default="auto"
        ``"probit"`` (the paper's linear model) or ``"logistic"`` for classes, ``"gaussian"`` for
        numbers, ``"poisson"`` for counts, or any :class:`fires.models.base.BaseModel`. ``"auto"``
        takes gaussian if the first batch's target is continuous and probit otherwise.
    update : {"bayes", "gradient", "variational"}, default="bayes"
        How a linear model learns. ``"variational"`` is streaming variational Bayes, which the paper
        names as an alternative to its gradient; it is meant for comparison, forgets nothing, and
        does not support counts: see :class:`fires.models.variational.VariationalLearner`. Other
        models learn by gradient.
    memory : float, str or timedelta, default=10000
        Bayesian update: the number of rows after which evidence has decayed to 1/e. A shorter
        memory follows slow changes sooner, with wider intervals. It can also be a time: ``"90s"``,
        ``"5m"``, ``"12h"``, ``"7d"``, ``"2w"`` or a ``timedelta``. That needs ``time``; see
        :class:`fires.selectors.clock.Clock`.
    time : str, optional
        If ``memory`` is a time: the column of a frame, or of dicts, with the time of each row. It
        has dates, text with the year first, or seconds since 1970. It is not used as a feature.
    relations : {"linear", "curves", "pairs", "auto"}, default="linear"
        Which effects features may have. ``"linear"``: straight lines. ``"curves"``: a feature may
        have a curve. ``"pairs"``: also products of two features. Curves and pairs have to pass
        a test, see :mod:`fires.models.relations`; without any, the answer is the linear one.
        ``"auto"``: as ``"pairs"``, as long as that predicts better than straight lines do. For
        linear models with the Bayesian update and ``scale="standard"``. The curve of a column of
        sparse rows is its line and its presence; these have no pairs.
    score : {"auto", "omega"}, default="auto"
        What features are ranked by. ``"auto"``: by the absolute importance (Bayesian update), or
        by omega (gradient update). ``"omega"``: by omega in any case.
    groups : sequence, optional
        For each feature, a label; features with the same one are ranked and selected together, and
        ``n_features_to_select`` counts groups. Or a list of lists with the names of columns, such
        as ``[["lat", "lon"]]``; every other column is its own group. By default every feature is,
        except those that encode one column of a table.
    drift : {"auto", "alarm", "erics", None} or detector, default="auto"
        Which changes raise an alarm; after one about all features, most of the evidence is dropped.
        ``"auto"``: with the Bayesian update, :class:`fires.drift.SlopeAlarm` watches all
        features together and :class:`fires.drift.ScoreTests` each of them; with the gradient
        update, nothing does. ``"alarm"``: the gradient update is watched too, by
        :class:`fires.drift.SurpriseAlarm`. ``"erics"``: it is watched by
        :class:`fires.drift.ERICS`, of the paper's authors, whose alarms change nothing else. None:
        no alarms. A detector with ``update(x)`` and
        ``drift_detected``, as River's have, receives the losses and replaces the alarm about all
        features.
    learning_rate : float, default=0.01
        Gradient update: :math:`\alpha_\mu`.
    learning_rate_sigma : float, optional
        Gradient update: :math:`\alpha_\sigma`; the same as ``learning_rate`` by default.
    uncertainty_penalty : float, default=0.01
        In omega: :math:`\lambda_s`, how much uncertainty counts against a feature.
    weight_penalty : float, default=0.01
        In omega: :math:`\lambda_r`. It rescales the weights and never changes their order.
    mu_init, sigma_init : float or array (n_features,), default=0.0 and 1.0
        Gradient update: where the built-in linear models start; variational update: the prior.
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
        Whether to ignore missing entries of X, in learning and scaling, or to raise an error.
    batch_size : int, default=100
        The batch size that :meth:`fit` uses.
    random_state : int, Generator, RandomState or None
        For models that draw random numbers; the built-in linear ones do not.

    Attributes
    ----------
    importances_ : ndarray (n_features,)
        The mean of each coefficient, on the scale of ``scale``: by how much the linear predictor
        moves with one standard deviation of the feature. With two classes, a positive importance
        favours the greater label. With more, it is the coefficient in the model of one class
        against the rest, for the class that the feature matters most for; so the features of a rare
        class are not lost. For numbers, it is about the target as normal scores.
    uncertainties_ : ndarray (n_features,)
        Bayesian update: the posterior standard deviation of ``importances_``. Up to 100 leading
        features are judged together, so that correlation among them is taken into account; the
        others one by one, which is too small if columns are correlated. Gradient update: the
        paper's sigma, a parameter of the model that does not measure the error of an importance.
    weights_ : ndarray (n_features,)
        What features are ranked by, as the paper calls it; see ``score``. Bayesian update: the
        absolute ``importances_``; of a group, the same for each of its features.
    ranking_ : ndarray (n_features,)
        The rank of every feature by its weight; 1 is best.
    n_features_selected_ : int
        How many features are selected.
    class_importances_ : ndarray (n_classes, n_features)
        The importance of every feature for every class. A numeric target has one row.
    twins_ : dict
        The selected features that have redundant ones, with a list of these for each: features
        that predict the target, but add little to the selected ones. By name, or by index if
        columns have no names. Bayesian update with ``score="auto"``.
    relations_ : str
        Which effects the model has: ``"linear"``, ``"curves"`` or ``"pairs"``. See :meth:`curve`.
    pairs_ : list of Pair
        The interactions found, each with its importance and 95 % interval.
    curved_, unsigned_ : ndarray of bool (n_features,)
        Which features have a curve, and which importances have no sign: those of curves that turn,
        and of features in a pair.
    alarms_ : list of Alarm
        The changes detected so far: row, batch, feature (None for all together) and strength. See
        :class:`fires.drift.Alarm`.
    classes_ : ndarray
        The labels seen, sorted; the greater of two is the positive one.
    model_ : str or model object
        What ``"auto"`` decided.
    n_features_in_, feature_names_in_, n_samples_seen_, n_missing_
        Columns, their names, rows and missing entries seen so far.

    Notes
    -----
    Arrays are read-only copies. :meth:`interval` gives each importance its interval.

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

    n_features_to_select: int | float | str = field(default=10, kw_only=False)
    columns: str = choice("fixed", "open")
    absent: str = choice("missing", "zero")
    forget_after: int | None = count(None)
    redundancy: str = choice("ignore", "drop")
    model: str | BaseModel = checked("auto", _check_model)
    update: str = choice("bayes", "gradient", "variational")
    memory: float | str | timedelta = checked(_MEMORY, _check_memory)
    time: str | None = None
    relations: str = choice("linear", "curves", "pairs", "auto")
    score: str = choice("auto", "omega")
    drift: str | Detector | None = checked("auto", check_drift)
    groups: Sequence[Hashable] | npt.NDArray[np.generic] | None = None
    learning_rate: float = number(0.01, wanted="a positive number")
    learning_rate_sigma: float | None = number(None, ends="[)", wanted=_NOT_NEGATIVE)
    uncertainty_penalty: float = number(0.01, ends="[)", wanted=_NOT_NEGATIVE)
    weight_penalty: float = number(0.01, wanted="a positive number")
    mu_init: npt.ArrayLike = 0.0
    sigma_init: npt.ArrayLike = 1.0
    fit_intercept: bool = flag(True)
    scale: str | None = choice("standard", "minmax", None)
    missing: str = "ignore"
    batch_size: int = 100
    random_state: Seed = random_state()

    _learner_: Learner = field(init=False)
    _rule_: SelectionRule = field(init=False)
    _monitor_: DriftMonitor = field(init=False)
    target_kind_: str = field(init=False)  # "classes", "numbers" or "counts"
    _begun_ = False  # whether there is a learner, and with it a rule and a monitor
    _presence_ = Presence()
    _clock_ = Clock()  # of memory as a time
    _groups_: Groups | None = field(init=False, default=None)
    rates_: Rates = field(init=False)  # of the gradient update
    weight_sums_ = WeightSums()
    # The parts that make batches usual, and their classes: see _take_at_once.
    _usual_: tuple[tuple[object, ...], tuple[float, float]] | None = field(init=False, default=None)

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
            "fit_intercept": False,
            "scale": None,
        }  # rates, penalties and the start are the paper's by default
        return cls(n_features_to_select, **(paper | changes))

    # --- learning ---------------------------------------------------------------------------

    def _learn(self, batch: CheckedBatch) -> None:
        n_rows, batch = batch.n_rows, batch if batch.scale == self.scale else batch.with_gaps()
        is_open = isinstance(batch.known, OpenColumns)
        changes = is_open or batch.present is not None or self._presence_.is_noted
        if changes:
            self._rearrange(batch)
        target = self.meet_target(batch)
        by_bayes = self._rule_.scored
        if by_bayes or self.update == "variational":  # a gradient divides by the total weight
            weight, self.weight_sums_ = effective_weights(
                batch.weight, n_rows, self.weight_sums_, self.memory_rows
            )
            batch = batch if weight is batch.weight else replace(batch, weight=weight)
            if batch.times is not None:
                self._let_time_pass(batch)
        if changes:
            self._sync_columns()
        learner = self._learner_
        if not by_bayes and self._monitor_.watches_loss:
            self._monitor_ = copy.copy(self._monitor_)
            self.check_loss_drift(*learner.surprise(batch, target), n_rows)
        learner.step(batch, target, self.rates_)
        weight = batch.weight
        self._choose(
            learner.joint_posterior, n_rows, float(n_rows if weight is None else weight.sum())
        )
        if changes and self.forget_after is not None:
            self._forget_stale(batch)

    def _take_at_once(self, X: RowsLike, y: OptionalArray) -> bool:
        """By one compiled call: rows of numbers and two classes, in the usual settings."""
        if type(X) is not np.ndarray or type(y) is not np.ndarray or not self._begun_:
            return False
        learner, sums, index = self._learner_, self.weight_sums_, self._label_index_
        known = self._known_
        parts = known, learner, index, self._presence_, self._monitor_
        usual = self._usual_
        if usual is None or any(map(is_not, parts, usual[0])):
            self._usual_ = usual = parts, self._classes_at_once()
        (low, high), is_scored = usual[1], self._rule_.scored
        if not (
            low < high
            and X.dtype is _FLOAT64
            and X.ndim == 2
            and X.flags.c_contiguous
            and X.size
            and known is not None
            and X.shape[1] == known.n_features
            and y.shape == (len(X),)
            and y.dtype.kind in "biuf"
            and (not is_scored or (sums.unit == 1.0 and sums.total == sums.squares))
            and self._are_checked()
        ):
            return False
        if not learner.step_at_once(X, y, low, high, self.rates_):
            return False
        n_rows = len(X)
        if is_scored:
            self.weight_sums_ = sums.after(n_rows, n_rows, n_rows, self.memory_rows)
        self._choose(learner.joint_posterior, n_rows, float(n_rows))
        self._count(n_rows, 0)
        return True

    def _classes_at_once(self) -> tuple[float, float]:
        """The two classes as numbers, if one compiled call may learn from rows; else NaN."""
        learner, labels, known = self._learner_, self._label_index_.labels, self._known_
        if (
            isinstance(known, FixedColumns)
            and known.names is None
            and not self._presence_.is_noted
            and not (self._monitor_.watches_loss and learner.joint_posterior is None)
            and self._monitor_.detector is None
            and self.time is None
            and len(labels) == 2
            and labels.dtype.kind in "biuf"
            and abs(labels.astype(np.float64)).max() < _WHOLE
        ):
            return float(labels[0]), float(labels[1])
        return np.nan, np.nan

    @property
    def memory_rows(self) -> float:
        """The memory in rows: the usual one if it is a time, for all else that counts rows."""
        memory = self.memory
        if isinstance(memory, int | float):
            return float(memory)
        if isinstance(memory, timedelta) or seconds_of(memory) is not None:
            return _MEMORY
        return float(memory)

    def _let_time_pass(self, batch: CheckedBatch) -> None:
        """Let evidence fade by when the rows were, if memory is a time."""
        memory = seconds_of(self.memory)
        if memory is None or batch.times is None:
            return
        weight = float(batch.n_rows if batch.weight is None else batch.weight.sum())
        self._clock_, kept = self._clock_.after(batch.times, weight, memory)
        if kept < 1.0:  # if the step fails, nothing has changed
            self._learner_ = copy.deepcopy(self._learner_)
            self._learner_.forget(kept)
        self._learner_.remember(self._clock_.rate)

    def _choose(self, learner: JointPosterior | None, n_rows: int, weight: float) -> None:
        """After a step on rows of this total weight: take note of alarms, and choose."""
        row = vars(self).get("n_samples_seen_", 0) + n_rows
        is_alarm = self._monitor_.update(self._learner_, learner, row)
        if learner is not None:
            self._rule_.update(learner, self._resolve_k(), weight, self._resting(), anew=is_alarm)

    @property
    def _n_seen(self) -> int:
        n_seen: int = vars(self).get("n_samples_seen_", 0)
        return n_seen

    # --- columns that come and go -------------------------------------------------------------

    @property
    def absent_(self) -> list[str]:
        """The names of the columns that are known but have been absent recently; they rest."""
        self._check_fitted()
        known, resting = self._open, self._resting()
        if known is None or resting is None:
            return []
        return known.named(np.flatnonzero(resting[: self.n_features_in_]))

    def _first_columns(self) -> KnownColumns:
        return OpenColumns(self.absent) if self.columns == "open" else FixedColumns()

    @property
    def _open(self) -> OpenColumns | None:
        """The columns, if they may come and go, once there are some."""
        return self._known_ if isinstance(self._known_, OpenColumns) else None

    @property
    def _width(self) -> int:
        """How many numbers per feature a learner has."""
        return self.known_columns.width

    def _rearrange(self, batch: CheckedBatch) -> None:
        """Take note of which columns are there, and go by their new places."""
        source = batch.source
        if source is not None and self._begun_:
            places = np.full(self._rule_.n_features, -1)
            places[source[source >= 0]] = np.flatnonzero(source >= 0)
            self._learner_ = self._learner_.rearranged(source)
            self._rule_ = self._rule_.rearranged(places, len(source))
            self._monitor_ = self._monitor_.rearranged(source, places, self._learner_)
        forgets = self.forget_after is not None
        self._presence_ = self._presence_.with_batch(batch, self._n_seen, forgets=forgets)

    def _sync_columns(self) -> None:
        """Let the learner know which columns are there."""
        learner, presence = self._learner_.joint_posterior, self._presence_
        if learner is None:
            return
        if learner.sparse is not None and self._open is not None:
            learner.count_columns(self.n_features_in_)
        elif presence.is_noted and learner.sparse is None:
            self._learner_.attend(presence.resting, presence.never, presence.arrived)

    def _resting(self) -> Mask | None:
        """The columns that are not there, of dense rows; None if all are."""
        if not self._presence_.is_noted or self.absent == "zero":
            return None
        resting = self._presence_.resting
        return resting if resting.any() else None

    def _forget_stale(self, batch: CheckedBatch) -> None:
        """Let the next batch begin without the columns that were absent for too long."""
        known = self._open
        if not self._presence_.is_noted or known is None or self.forget_after is None:
            return
        n = self.n_features_in_
        stale = self._presence_.stale(batch, n, self.forget_after)
        # Of a million words, some are stale after each batch; to put all others into new places
        # takes longer than a step. But what is selected must not be stale.
        many = _STALE * len(stale) >= n or self.absent == "missing"
        if len(stale) and (many or np.isin(self._selected_now(), stale).any()):
            self._known_ = known.dropping(stale)

    # --- a batch in shards: all that fires.selectors.sharded uses of FIRES, besides all_or_nothing,
    # --- admitted, admitted_anew and known of OnlineSelector

    @property
    def learner(self) -> Learner | None:
        """What learns; None before the first batch has shown its target."""
        return self._learner_ if self._begun_ else None

    @property
    def model_name(self) -> str:
        """What errors call the model."""
        return learners.name_of(self.model_)

    @property
    def watches_loss(self) -> bool:
        """Whether :meth:`check_loss_drift` is to be told the loss of a batch before its step."""
        return self._monitor_.watches_loss and self._learner_.joint_posterior is None

    def begin_shards(
        self, n_features: int, names: Sequence[str] | npt.NDArray[np.object_] | None = None
    ) -> None:
        """Check the settings before a batch; from here on, steps change copies only.

        Steps change arrays in place. So what learns is a copy, which counts only once nothing can
        fail any more: call this within :meth:`all_or_nothing`.
        """
        known = self.known_columns
        if isinstance(known, FixedColumns) and known.n_features is None:
            self._known_ = known.beside(FixedColumns(n_features))
            if names is not None and known.names is None:
                self.name_features(names)
        self._check_settings()
        if self._begun_:
            parts = self._learner_, self._rule_, self._monitor_
            self._learner_, self._rule_, self._monitor_ = copy.deepcopy(parts)

    def check_loss_drift(self, surprise: float, variance: float, n_rows: int) -> bool:
        """Before a step of the gradient update: forget if its batch is a surprise."""
        row = self._n_seen + n_rows
        return self._monitor_.check_loss(self._learner_, surprise, variance, n_rows, row)

    def end_shards(self, n_rows: int, n_missing: int, weight: float, sums: WeightSums) -> None:
        """After the step of the learner on rows of this total weight: choose, and count them."""
        posterior = self._learner_.joint_posterior
        if posterior is not None:
            self.weight_sums_ = sums
        self._choose(posterior, n_rows, weight)
        self._count(n_rows, n_missing)

    # --- the model and its target -----------------------------------------------------------

    def meet_target(self, batch: CheckedBatch) -> npt.NDArray[np.generic]:
        """The target as the learner takes it. Starts the learner, or adds classes to it."""
        assert batch.y is not None
        if not self._begun_:
            self.model_ = learners.decided(self.model, batch.y, batch.classes)
            self.target_kind_ = learners.kind_of_target(self._as_model(), batch.y, batch.classes)
        if self.target_kind_ != "classes":
            if batch.classes is not None:
                raise ValueError(f"classes is for class labels; {self.model_name} has none.")
            target: npt.NDArray[np.generic] = as_numbers(batch.y, self.model_name)
            if not self._begun_:
                self._start(0)
        else:
            codes, before = self._take_whole_labels(batch)
            n_classes = len(self._label_index_.labels)
            if not self._begun_:
                self._start(n_classes)
            elif before is not None and len(before) != n_classes:
                self._learner_ = self._learner_.with_classes(before, self.classes_)
            # While only one class is known, it is the positive one.
            target = codes + 1 if n_classes == 1 else codes
        if not isinstance(batch.X, np.ndarray):
            self._learner_ = self._learner_.ready_for_sparse()
        return target

    _for_numbers = "for a numeric target use {model=gaussian}."

    def _as_model(self) -> BaseModel:
        """The model as an object."""
        model = self.model_
        return Linear(model, self.fit_intercept) if isinstance(model, str) else model

    def _start(self, n_classes: int, relations: str | None = None) -> None:
        """Make the learner and the parts."""
        self._learner_ = learners.start_learner(
            self._as_model(),
            self._width,
            n_classes,
            scale=self.scale,
            starts=(self.mu_init, self.sigma_init),
            memory=self.memory_rows if self.update == "bayes" else None,
            variational=self.update == "variational",
            watches=isinstance(self.drift, str),
            relations=self.relations if relations is None else relations,
            rng=lambda: generator(self.random_state, "fires"),
        )
        posterior = self._learner_.joint_posterior
        scored = posterior is not None
        if posterior is not None and self._groups_ is not None:
            posterior.groups = self._groups_.of
        self._rule_ = SelectionRule(self._width, self._groups_, scored=scored)
        self._monitor_ = DriftMonitor(self.drift, self._learner_)
        self._begun_ = True

    def take_scale(self, scaler: Scaler) -> None:
        """Go on with the scale that a pipeline has learnt, for rows that it does not scale.

        Sparse rows were scaled twice, by the pipeline and by the learner: the learner's scale
        becomes that of both.
        """
        learner: Any = self._learner_
        if scaler.dense.ready:
            learner.scaler.restore(scaler.state())
            return
        gain = scaler.sparse.gain(np.arange(self.n_features_in_))
        gain[gain == 0.0] = 1.0  # such a column was never seen
        for scale in learner.sparse_scales:
            if scale.ready:
                scale.undo(gain)

    def own_scale(self) -> Scaler | None:
        """The scale of dense rows that the selector has learnt for itself."""
        scaler: Scaler = self._learner_.scaler
        return scaler if self.scale is not None and scaler.dense.ready else None

    # --- the answer -------------------------------------------------------------------------

    @property
    def importances_(self) -> Floats:
        """The importance of every feature; a read-only copy."""
        return self._computed("importances", lambda: self._belief().mu.copy())

    @property
    def uncertainties_(self) -> Floats:
        """The standard deviation of every importance; a read-only copy."""
        return self._computed("uncertainties", lambda: self._belief().sigma.copy())

    @property
    def class_importances_(self) -> Floats:
        """Which feature favours which class: one row per class; read-only.

        With two classes, the two rows differ in sign only. A numeric target has one row.
        """
        return self._computed("class importances", self._by_class)

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        r"""The interval that holds each true importance with this probability.

        .. math:: \mu_j \pm \Phi^{-1}\bigl(\tfrac{1 + c}{2}\bigr) \, \sigma_j

        It is a probability for linear models that learn by Bayes' rule. With the gradient update,
        sigma is not the error of an importance, and the interval is usually far too wide.
        """
        check_number("confidence", confidence, high=1.0, wanted="a number between 0 and 1")
        half_width = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * self.uncertainties_
        low, high = self.importances_ - half_width, self.importances_ + half_width
        if self.relations_ != "linear":
            low = np.where(self.unsigned_[: len(low)], np.maximum(low, 0.0), low)
        return low, high

    @property
    def _effects(self) -> Effects | None:
        """Curves and pairs, once for a batch; None with lines only."""
        self._check_fitted()
        if "effects" not in self._seen_:
            self._seen_["effects"] = relations.effects_of(self._learner_)
        found: Effects | None = self._seen_["effects"]
        return found

    @property
    def relations_(self) -> str:
        """What the answer is made of now: ``"linear"``, ``"curves"`` or ``"pairs"``."""
        return "linear" if self._effects is None else self._effects.kind

    @property
    def curved_(self) -> Mask:
        """Which features have a curve: see :meth:`curve`."""
        curved = np.zeros(self.n_features_in_, dtype=np.bool_)
        if self._effects is not None:
            curved[self._effects.terms.curved] = True
        return curved

    @property
    def unsigned_(self) -> Mask:
        """Which importances have no sign: of curves that turn, and of features in a pair."""
        if self._effects is None:
            return np.zeros(self.n_features_in_, dtype=np.bool_)
        return self._effects.turns()

    def curve(
        self,
        feature: int | str,
        label: Hashable | None = None,
        *,
        confidence: float = 0.95,
        n_points: int = 41,
    ) -> FeatureCurve:
        """What a feature adds to the linear predictor, value by value, with a band.

        For ``relations`` other than ``"linear"``.

        Parameters
        ----------
        feature : int or str
            Its place, or its name.
        label : optional
            With three or more classes, the one to tell from the rest; by default that for which
            the feature matters most.
        confidence : float, default=0.95
            The probability with which the band holds the curve at each value.
        n_points : int, default=41
            How many values between the quantiles 0.023 and 0.977 of the feature.

        Returns
        -------
        FeatureCurve
            ``values``, ``effect``, ``low`` and ``high``.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 5))
        >>> y = X[:, 2] ** 2 + rng.normal(size=5000) > 1
        >>> selector = FIRES(1, relations="curves").fit(X, y)
        >>> values, effect, low, high = selector.curve(2, n_points=3)
        >>> effect.round(1)
        array([ 2.5, -0.6,  2.2])
        """
        check_number("confidence", confidence, high=1.0, wanted="a number between 0 and 1")
        self._check_fitted()
        places = as_columns([feature], self.n_features_in_, self.known_names, "FIRES")
        row = None
        if label is not None and len(self._learner_.by_class()[0]) > 1:
            row = self.classes_.tolist().index(label)
        return relations.curve_of(self._effects, int(places[0]), row, confidence, n_points)

    def contributions(
        self, X: RowsLike, label: Hashable | None = None, *, confidence: float = 0.95
    ) -> Contributions:
        """Why this row: what each selected feature adds to its linear predictor, with an interval.

        That is importance times standardised value, or the height of the feature's curve. Pairs do
        not count, and a warning says so. A missing value adds nothing. For ``update="bayes"``.

        Parameters
        ----------
        X : array, sparse matrix, pandas or polars frame (n_samples, n_features)
            Named columns may come in any order.
        label : optional
            The class that positive contributions favour; by default the greater of two or, with
            more classes, the one that each feature matters most for.
        confidence : float, default=0.95
            The probability with which an interval holds what the feature adds.

        Returns
        -------
        Contributions
            ``effect``, ``low`` and ``high``, each (n_samples, n_selected); frames, if X is one.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(2000, 5))
        >>> selector = FIRES(2).fit(X, X[:, 1] - X[:, 3] + rng.normal(size=2000) > 0)
        >>> effect, low, high = selector.contributions([[0.0, 2.0, 0.0, 1.0, 0.0]])
        >>> effect.round(1), bool((low < effect).all() and (effect < high).all())
        (array([[ 2. , -0.9]]), True)
        """
        found = self.contributions_of(self._checked(X), label, confidence)
        names = self.get_feature_names_out()
        return Contributions(*(framed(X, part, names) for part in found))

    def contributions_of(
        self, rows: Matrix, label: Hashable | None, confidence: float
    ) -> Contributions:
        """See :meth:`contributions`, for rows as the selector learns from them."""
        check_number("confidence", confidence, high=1.0, wanted="a number between 0 and 1")
        self._check_fitted()
        posterior = self._learner_.joint_posterior
        if posterior is None:
            raise AttributeError("contributions is for update='bayes', with a linear model.")
        row, labels = None, self.classes_.tolist() if self.target_kind_ == "classes" else []
        if label is not None and label not in labels:
            raise ValueError(f"label={label!r} is not one of the classes, {labels}.")
        if label is not None and posterior.n_rows > 1:
            row = labels.index(label)
        how = rows, self._selected(), row, confidence
        found = relations.contributions_of(self._learner_, posterior, *how)
        if len(posterior.pairs):
            message = "contributions do not include interactions: see pairs_"
            warnings.warn(message, UserWarning, stacklevel=frames_of_ours())
        if posterior.n_rows == 1 and labels and label == labels[0]:
            return Contributions(-found.effect, -found.high, -found.low)
        return found

    @property
    def pairs_(self) -> list[Pair]:
        """The pairs of features that add to the answer, the strongest first."""
        known = self.known_names
        names: Sequence[Any] = range(self.n_features_in_) if known is None else known.tolist()
        return [] if self._effects is None else relations.pairs_of(self._effects, names)

    def _belief(self) -> Belief:
        belief: Belief | None = self._seen_.get("belief")
        if belief is None:
            n, belief = self.n_features_in_, self._learner_.features()
            if len(belief.mu) > n:  # there is room for columns to come
                belief = Belief(belief.mu[:n], belief.sigma[:n])
            self._seen_["belief"] = belief
        return belief

    def _by_class(self) -> Floats:
        mu = self._learner_.by_class()[0][:, : self.n_features_in_]
        if len(mu) == 1 and self.target_kind_ == "classes":
            mu = np.concatenate([-mu, mu])
        return mu.copy()

    @property
    def alarms_(self) -> list[Alarm]:
        """The changes noticed so far, in order. See :class:`fires.drift.Alarm`."""
        self._check_fitted()
        return list(self._monitor_.alarms)

    @property
    def twins_(self) -> dict[int | str, list[int | str]]:
        """The redundant features of each selected one; a copy.

        Features are called by name, or by number where columns have no names. What is made of
        several together, such as their sum, stands with all of them.
        """
        self._check_fitted()
        learner = self._learner_.joint_posterior
        if learner is None or self.score != "auto":
            raise AttributeError("twins_ is for linear models, update='bayes' and score='auto'.")
        known = self.known_names
        names: Sequence[Any] = range(self.n_features_in_) if known is None else known.tolist()
        found = self._rule_.redundant(learner, self._selected()).items()
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
         0.05; with the next, x14, it could be 0.076'
        >>> FIRES(5).fit(X, y).why()
        '5 of 20 features, as requested: 2 of them are significant'
        """
        self._check_fitted()
        groups, learner = self._groups_, self._learner_.joint_posterior
        what = "features" if groups is None else "groups" if self.groups is not None else "columns"
        chosen, n = self._chosen(), self._n_candidates
        if self._is_auto:
            assert learner is not None
            known = self._rule_.distances(learner, chosen, self._resting())
            sentence = significance.found(known, chosen, n, what, self.called)
            return sentence + significance.widened(learner.inflation)
        if learner is None:
            return significance.asked_for(len(chosen), n, what, None)
        above = self.is_significant()
        n_above = int(above[chosen].sum())
        sentence = significance.asked_for(len(chosen), n, what, n_above, int(above.sum()) - n_above)
        return sentence + significance.widened(learner.inflation)

    def is_significant(self) -> Mask:
        """Which features are significant, or groups: for linear models and ``update="bayes"``.

        Of those that are selected, beside each other; of others, beside all of these. With
        ``"auto"``, the selected ones are significant, and no others. For what it means, and why an
        interval may say something else, see :mod:`fires.selectors.significance`.
        """
        learner, belief = self._learner_.joint_posterior, self.group_belief()
        above = significance.above_noise(belief, 1 if learner is None else learner.n_rows)
        if learner is None:
            return above
        chosen = self._chosen()
        if not self._is_auto:
            return self._rule_.significant(learner, chosen, above)
        known = self._rule_.distances(learner, chosen, self._resting())
        above[:] = False
        above[chosen] = not significance.none_alone(known, chosen)
        return above

    def _chosen(self) -> Places:
        """The selected features, or the numbers of their groups."""
        chosen, groups = self._selected(), self._groups_
        return chosen if groups is None else np.unique(groups.of[chosen])

    def called(self, place: int, names: Sequence[str] | None = None) -> str:
        """What a feature is called, or a group by its columns or its first feature."""
        if self._groups_ is not None:
            if self._groups_.titles is not None:
                return self._groups_.titles[place]
            place = int(np.flatnonzero(self._groups_.of == place)[0])
        known = self.known_names if names is None else names
        return f"x{place}" if known is None else str(known[place])

    @property
    def groups_(self) -> Places | None:
        """For each feature, the number of its group; None if every feature is for itself."""
        return None if self._groups_ is None else self._groups_.of.copy()

    def group_belief(self) -> Belief:
        """Importance and uncertainty of each group: see :mod:`fires.selectors.significance`."""
        self._check_fitted()
        groups = self._groups_
        return self._belief() if groups is None else groups.belief(*self._learner_.by_class())

    def _find_groups(self) -> Groups | None:
        """The groups that the user named, or that the columns of a table make."""
        labels, columns, titled = self.groups, self.encoder, True
        if labels is None and columns is not None and len(columns.groups) > len(columns.used):
            labels = columns.of_features
        elif isinstance(labels, list) and labels and all(map(_are_names, labels)):
            labels = self._labels(labels)
        else:
            titled = False
        if labels is None:
            return None
        try:
            groups = Groups([] if isinstance(labels, str) else list(labels), titled=titled)
        except TypeError:
            groups = Groups([])
        if len(groups.of) != self.n_features_in_:
            raise ValueError(
                f"groups must have a label for each of the {self.n_features_in_} features; "
                f"got {labels!r}."
            )
        return groups

    def _labels(self, groups: list[list[str]]) -> list[str]:
        """For each feature, the columns that are ranked together with its own."""
        names: Any = self.known_names if self.encoder is None else self.encoder.of_features
        columns = [f"x{j}" for j in range(self.n_features_in_)] if names is None else list(names)
        titles = {name: ", ".join(group) for group in groups for name in group}
        for name in titles.keys() - set(columns):
            some = ", ".join([*dict.fromkeys(columns)][:20])
            raise InputError(f'groups: no column "{name}"', hint=f"there is {some}")
        return [titles.get(name, name) for name in columns]

    # --- how many, and which ----------------------------------------------------------------

    @property
    def _is_auto(self) -> bool:
        """Whether as many are selected as are significantly non-zero."""
        return isinstance(self.n_features_to_select, str) and self.n_features_to_select == "auto"

    @property
    def _n_candidates(self) -> int:
        return self.n_features_in_ if self._groups_ is None else self._groups_.n

    def _resolve_k(self) -> int:
        k, known = self.n_features_to_select, self._known_
        if type(k) is int and k >= 1 and self._groups_ is None and known is not None:
            return min(k, known.n_features or 0)  # the usual case, fast
        if not self._is_auto:
            return super()._resolve_k()
        if self._begun_ and self._learner_.joint_posterior is None:
            self._refuse_auto()
        return 0

    def _refuse_auto(self) -> None:
        """Raise: something else learns than what knows how sure it is."""
        linear = isinstance(self.model, str | Linear)
        what = f"update={self.update!r}" if linear else type(self.model).__name__
        raise ValueError(
            f"n_features_to_select='auto' needs calibrated uncertainties, which {what} does "
            "not have: use a linear model with update='bayes', or a number of features."
        )

    def _weights(self) -> Floats:
        groups, scored = self._groups_, self._rule_.scored
        if scored and self.score == "auto":
            weights = np.abs(self.group_belief().mu)
        else:
            belief = self._belief()
            weights = np.empty(len(belief.mu))
            scale = 2.0 * self.weight_penalty
            weigh(belief.mu, belief.sigma, float(self.uncertainty_penalty), scale, weights)
            weights = weights if groups is None else groups.best(weights)
        return weights[: self.n_features_in_] if groups is None else weights[groups.of]

    def _selected(self) -> Places:
        rule = self._rule_
        if rule.scored and rule.groups is None and self.score == "auto":
            k = self._resolve_k()
            if k == rule.k:  # the usual case: nothing is to be computed
                return rule.columns
        return self._computed("selected", self._selected_now)

    def _selected_now(self) -> Places:
        k, found = self._resolve_k(), None
        if not self._rule_.scored and self._groups_ is None and self._open is None:
            penalty, scale = float(self.uncertainty_penalty), 2.0 * self.weight_penalty
            found = self._learner_.heaviest(k, penalty, scale)
        if found is not None:
            return found
        return self._rule_.selected(
            k,
            self._weights_present,
            by_weight=self.score != "auto",
            learner=self._learner_.joint_posterior,
            resting=self._resting(),
        )

    def _weights_present(self) -> Floats:
        """All weights; of open columns, those that are not there come last."""
        resting = None if self._open is None else self._resting()
        weights = self._once("weights", self._weights)
        if resting is None:
            return weights
        return np.where(resting[: self.n_features_in_], -np.inf, weights)

    # --- settings ---------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._check_columns()
        sigma_rate = self.learning_rate_sigma
        sigma_rate = self.learning_rate if sigma_rate is None else sigma_rate
        self.rates_ = Rates(self.learning_rate, sigma_rate)
        groups, linear = self._find_groups(), isinstance(self.model, str | Linear)
        by_bayes = linear and self.update == "bayes"
        if self.redundancy == "drop" and not (by_bayes and self.score == "auto"):
            raise ValueError(
                "redundancy='drop' is for linear models, update='bayes' and score='auto': others "
                "do not track correlations, or rank features one by one."
            )
        if self.update == "variational" and not linear:
            raise ValueError("update='variational' is for linear models.")
        watches_gradient = isinstance(self.drift, str) and self.drift == "erics"
        if watches_gradient and linear and self.update != "gradient":
            raise ValueError("drift='erics' watches a gradient: it needs update='gradient'.")
        by_time = seconds_of(self.memory) is not None
        if by_time != (self.time is not None):
            raise ValueError("memory as a time needs time, the name of a column, and the reverse.")
        if self._begun_:
            if groups != self._groups_:
                raise ValueError("groups cannot change once something was learnt.")
            self._monitor_.follow(self.drift, self._learner_)
            return
        self._groups_ = groups
        if self.columns == "open" and not (linear and self.groups is None):
            what = "groups" if self.groups is not None else "a model that is not linear"
            raise ValueError(f"columns='open' cannot be combined with {what}.")
        if by_time and not by_bayes:
            raise ValueError("memory as a time is for linear models with update='bayes'.")
        if self.relations != "linear":
            self._check_relations(by_bayes=linear and self.update == "bayes")
        self._check_starts()
        if self._is_auto and not by_bayes:
            self._refuse_auto()

    def _check_relations(self, *, by_bayes: bool) -> None:
        """Raise if curves and pairs are wanted where they cannot be."""
        needs = {
            "a linear model with update='bayes'": by_bayes,
            "scale='standard'": self.scale == "standard",
            "columns='fixed'": self.columns == "fixed",
            "score='auto'": self.score == "auto",
        }
        for what, is_so in needs.items():
            if not is_so:
                raise ValueError(f"relations={self.relations!r} needs {what}.")

    def _check_columns(self) -> None:
        """Raise if the settings for columns do not go together."""
        is_set = self.absent != "missing" or self.forget_after is not None
        if self.columns == "fixed" and is_set:
            name = "absent" if self.absent != "missing" else "forget_after"
            raise ValueError(f"{name} is for columns='open'.")
        known = self._open
        if self.is_fitted and (self.columns == "open") != (known is not None):
            raise ValueError("columns cannot change between 'fixed' and 'open' after a batch.")
        if known is not None and known.absent != self.absent:
            absent = known.absent
            raise ValueError(f"absent was {absent!r} and cannot change after a batch.")

    def _check_starts(self) -> None:
        is_open = self.columns == "open"
        for name, given in (("mu_init", self.mu_init), ("sigma_init", self.sigma_init)):
            try:
                start = np.asarray(given, dtype=np.float64)
            except (TypeError, ValueError):
                start = np.array(np.nan)
            shapes = [()] if is_open else [(), (self.n_features_in_,)]
            if start.shape not in shapes or not np.isfinite(start).all():
                each = "" if is_open else ", or one for each feature"
                raise ValueError(f"{name} must be a number{each}.")
        if (np.asarray(self.sigma_init) < 0).any():
            raise ValueError("sigma_init must not be negative.")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        family = FAMILIES.get(self.model) if isinstance(self.model, str) else None
        tags.target_tags.positive_only = family is not None and family.kind == "counts"
        return tags

    # --- state ------------------------------------------------------------------------------

    def _sizes(self) -> dict[str, int]:
        return super()._sizes() | {"J": self._width}

    def _state(self) -> State:
        header: Header = {
            "model": self._plain(self.model_),
            "numeric_target": self.target_kind_ != "classes",
        }
        if type(self._learner_) is ModelLearner:
            header["rng"] = generator_state(self._learner_.rng)
        watched, arrays = self._monitor_.state()
        arrays |= self._learner_.state() | self._rule_.state()
        arrays["weight_sums"] = np.array(self.weight_sums_)
        if self._presence_.is_noted:
            arrays |= under("presence", collect(self._presence_, Presence.learnt)[1])
        if self._clock_.at is not None:
            arrays["clock"] = np.array(self._clock_)
        return header | watched, arrays

    def restore(
        self, header: dict[str, Any], arrays: Arrays, model: BaseModel | Estimator | None = None
    ) -> Self:
        """See :meth:`OnlineSelector.restore`. Before there was a choice, the paper's was taken."""
        params = _ONLY_CHOICE | header["params"]
        return super().restore(header | {"params": params}, arrays, model)

    def _read_columns(self, header: Mapping[str, Any]) -> KnownColumns:
        if self.columns == "open":
            return OpenColumns.read(header, self.absent)
        return super()._read_columns(header)

    def _restore(self, header: Header, arrays: Arrays, model: BaseModel | Estimator | None) -> None:
        self.model_ = self._from_plain(header["model"], model)
        is_numeric = Value(bool).read("numeric_target", header, arrays, {})
        task = learners.task_of(self._as_model())
        self.target_kind_ = task if task != "auto" else "numbers" if is_numeric else "classes"
        if is_numeric == (self.target_kind_ == "classes"):
            raise StateError(f"numeric_target is {is_numeric} for a target of {task}")
        if not is_numeric and not len(self._label_index_):
            raise StateError("classes are missing")
        self._check_starts()
        if parts := part_of("presence", arrays):
            self._presence_ = Presence(self._width)
            restore(self._presence_, Presence.learnt, {}, parts, {"J": self._width})
        is_linear = not part_of("relations", arrays)  # as sparse rows are, with "auto"
        relations = "linear" if is_linear else self.relations
        self._start(0 if is_numeric else len(self._label_index_), relations)
        self._learner_.restore(arrays)
        self._sync_columns()
        by_bayes = self._learner_.joint_posterior is not None
        if by_bayes or "alarms" in arrays:  # older files of the gradient update have none
            self._monitor_.restore(header, arrays)
            self._rule_.restore(arrays)
        self.weight_sums_ = WeightSums.read(arrays)
        clock = Clock.read(arrays)
        if clock is not None:
            self._clock_ = clock
            self._learner_.remember(clock.rate)
        if type(self._learner_) is ModelLearner:
            self._learner_.rng = Random().read("rng", header, arrays, {})

    def _plain(self, value: Any) -> Any:
        if isinstance(value, timedelta):
            return f"{value.total_seconds()}s"
        return plain(value) if not isinstance(value, BaseModel) else learners.model_to_json(value)

    def _from_plain(self, value: Any, model: Any) -> Any:
        return learners.model_from_json(value, model) if isinstance(value, dict) else value


_ONLY_CHOICE = {"update": "gradient", "score": "omega", "drift": None}
_FLOAT64 = np.dtype(np.float64)
_WHOLE = 2.0**52  # below this, different labels are different floats
_STALE = 2  # of so many sparse columns, one must be stale before all are put in new places
