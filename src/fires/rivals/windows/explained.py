"""What methods share that let a model of the user learn, and explain it."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.errors import StateError
from fires.core.estimators import seeded_clone
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Header, Labels, Places
from fires.predictors import Predictor, SklearnPredictor, as_predictor
from fires.predictors.step import predictor_from_state, predictor_state
from fires.rivals.base import TargetSelector
from fires.rivals.from_model import TakesEstimator


class ModelSelector(TakesEstimator, TargetSelector):
    """A rival with the setting ``model``: None, or a predictor whose copy learns every batch."""

    _given = "model"
    _model_: Any = None  # a predictor that learns
    model: Any

    def _foresee(self, y: Labels) -> None:
        self._check_parameters()  # columns are not known yet
        batch = CheckedBatch(None, y)
        if self.model is not None and not self._is_numeric(batch):
            self._take_whole_labels(batch)  # so a model knows every label from the start

    def _fresh_model(self, rng: np.random.Generator) -> Any:
        """A predictor that has learnt nothing and does not use NumPy's global random state."""
        predictor = as_predictor(self.model)
        if isinstance(predictor, SklearnPredictor):
            return SklearnPredictor(seeded_clone(predictor.inner, rng))
        return predictor.fresh() if isinstance(predictor, Predictor) else copy.deepcopy(predictor)

    def _teach(self, model: Any, batch: CheckedBatch) -> None:
        if isinstance(model, Predictor):
            model.check(batch, self._label_index_)
            model.learn(batch, self._label_index_)
        else:
            model.partial_fit(batch.X, batch.y, classes=batch.classes)

    def _try_model(self, model: Any) -> None:
        """Raise any error if a model that was loaded cannot be used."""

    def _restart_features(self, columns: Places) -> None:
        super()._restart_features(columns)
        if isinstance(self._model_, Predictor):
            self._model_.restart_features(columns)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        try:
            self._check_model()
        except TypeError as error:
            raise ValueError(f"model must be None or a predictor. {error}") from None

    def _check_model(self) -> None:
        """Raise TypeError if the model is none that this method takes."""
        if self.model is not None:
            as_predictor(self.model)

    # --- state ------------------------------------------------------------------------------

    def _state(self) -> State:
        header, arrays = super()._state()
        if self._model_ is not None:
            header["predictor"], learnt = predictor_state(self._model_)
            arrays |= under("predictor", learnt)
        return header, arrays

    def _restore(self, header: Header, arrays: Arrays, model: Any) -> None:
        super()._restore(header, arrays, model)
        if "predictor" in header:
            fresh = self._fresh_model(np.random.default_rng(0))  # its seeds are replaced
            saved: Any = header["predictor"]
            learnt = part_of("predictor", arrays)
            self._model_ = predictor_from_state(saved, learnt, fresh, "this state")
            try:
                self._try_model(self._model_)
            except Exception as error:
                raise StateError(f"the model cannot predict ({error!r:.200})") from None
