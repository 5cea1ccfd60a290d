"""Wrap other objects as predictors."""

from __future__ import annotations

import inspect
from typing import Any

from fires.predictors.river import RiverPredictor
from fires.predictors.scikit_learn import SklearnPredictor


def as_predictor(model: Any) -> Any:
    """Make a predictor of an object; a predictor is returned as it is."""
    if hasattr(model, "learn_one") and not isinstance(model, type):
        return RiverPredictor(model)
    if not (hasattr(model, "partial_fit") and hasattr(model, "predict")) or isinstance(model, type):
        raise TypeError(
            "A predictor is a classifier of River, or an object with partial_fit and predict; "
            f"this is {model!r}."
        )
    takes = inspect.signature(model.partial_fit).parameters
    # Estimators of scikit-learn take both too, but must know all classes beforehand: they are
    # wrapped below.
    if {"classes", "sample_weight"} <= set(takes) and not hasattr(model, "get_params"):
        return model
    return SklearnPredictor(model)
