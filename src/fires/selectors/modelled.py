"""A selector that asks a model: what learns, from which target, and what is believed."""

from __future__ import annotations

from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fires import models
from fires.core.batch import CheckedBatch
from fires.core.belief import Belief
from fires.core.classes import are_numbers, has_fractions
from fires.core.randomness import generator
from fires.core.settings import check_number, plain
from fires.core.types import Floats, Seed
from fires.core.validation import as_numbers
from fires.models.base import BaseModel, Learner
from fires.models.bayes_learner import BayesLearner
from fires.models.families import FAMILIES
from fires.models.learners import start_learner
from fires.models.linear import Linear
from fires.models.monte_carlo import MonteCarlo
from fires.models.neural import NeuralNet
from fires.models.scale import Scaler
from fires.models.soft_tree import SoftTree
from fires.selectors.changing import ChangingColumns
from fires.selectors.selector import same_kind

if TYPE_CHECKING:
    from sklearn.utils import Tags

    from fires.drift.alarms import Detector


# Models that a file describes completely: they need not be passed to load again.
BUILT_IN = (Linear, NeuralNet, SoftTree)


class Modelled(ChangingColumns):
    """A selector whose importances are the beliefs of a model."""

    model: str | BaseModel
    update: str
    memory: float
    drift: str | Detector | None
    fit_intercept: bool
    scale: str | None
    mu_init: npt.ArrayLike
    sigma_init: npt.ArrayLike
    random_state: Seed
    _learner_: Learner

    # --- what is believed -------------------------------------------------------------------

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

    def interval(self, confidence: float = 0.95) -> tuple[Floats, Floats]:
        r"""The interval that holds each true importance with this probability.

        .. math:: \mu_j \pm \Phi^{-1}\bigl(\tfrac{1 + c}{2}\bigr) \, \sigma_j

        It is a probability for linear models that learn by Bayes' rule. With the gradient update,
        sigma is not the error of an importance, and the interval is usually far too wide.
        """
        check_number("confidence", confidence, high=1.0, wanted="a number between 0 and 1")
        half_width = NormalDist().inv_cdf(0.5 + 0.5 * confidence) * self.uncertainties_
        return self.importances_ - half_width, self.importances_ + half_width

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

    # --- the model and its target -----------------------------------------------------------

    def _sync_columns(self) -> None:
        """Let the learner know which columns are there."""
        learner = self._learner_
        if not isinstance(learner, BayesLearner):
            return
        if learner.sparse is not None and self._is_open:
            learner.count_columns(self.n_features_in_)
        elif "_presence_" in self.__dict__ and learner.sparse is None:
            presence = self._presence_
            learner.attend(presence.resting, presence.never, presence.arrived)

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
        for scale in (learner.scaler.sparse, getattr(learner, "mixed", None)):
            if scale is not None and scale.ready:
                scale.undo(gain)

    def own_scale(self) -> Scaler | None:
        """The scale of dense rows that the selector has learnt for itself."""
        scaler: Scaler = self._learner_.scaler
        return scaler if self.scale is not None and scaler.dense.ready else None

    def _target(self, batch: CheckedBatch) -> npt.NDArray[np.generic]:
        """The target in the form the model takes. Starts the learner, or adds new classes."""
        started = hasattr(self, "_learner_")
        if not started:
            self.model_ = self._decide(batch)
            self._kind_ = self._kind(batch)
        if self._kind_ != "classes":
            return self._take_numbers(batch)
        codes, before = self._take_whole_labels(batch)
        n_classes = len(self._label_index_)
        if not started:
            self._start(n_classes)
        elif before is not None and len(before) != n_classes:
            self._learner_ = self._learner_.with_classes(before, self.classes_)
        # While only one class is known, it is the positive one.
        return codes + 1 if n_classes == 1 else codes

    def _take_numbers(self, batch: CheckedBatch) -> Floats:
        """A target of numbers or counts; starts the learner."""
        assert batch.y is not None
        if batch.classes is not None:
            raise ValueError(f"classes is for class labels; {self._model_name()} has none.")
        numbers = as_numbers(batch.y, self._model_name())
        if not hasattr(self, "_learner_"):
            self._start(0)
        return numbers

    _for_numbers = "for a numeric target use {model=gaussian}."

    def _decide(self, batch: CheckedBatch) -> str | BaseModel:
        """The model that "auto" stands for."""
        if self.model != "auto":
            return self.model
        choices = "numbers ({model=gaussian}), counts ({model=poisson}) or classes ({model=probit})"
        assert batch.y is not None
        numeric = are_numbers(batch.y, batch.classes, choices=choices)
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
            numeric = are_numbers(batch.y, batch.classes, choices=choices)
        return "numbers" if numeric else "classes"

    def _as_model(self) -> BaseModel:
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

    def _model_name(self) -> str:
        return self.model_ if isinstance(self.model_, str) else type(self.model_).__name__

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

    def __sklearn_tags__(self) -> Tags:
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


def _again(model: Any, wanted: str) -> Any:
    """The user's model, passed to ``fires.load``."""
    return same_kind(model, _name(model), wanted, "a model of your own")


def _name(model: Any) -> str:
    name: str = getattr(model, "name", type(model).__qualname__)
    return name
