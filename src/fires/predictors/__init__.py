"""Predictors that keep working when the selected set changes: ours, scikit-learn's and River's.

All have ``partial_fit(X, y, classes=None, sample_weight=None)`` and ``predict(X)``; some also have
``predict_proba(X)``. :func:`as_predictor` wraps estimators of scikit-learn and models of River.
"""

from fires.predictors.adapters import (
    RiverPredictor,
    SklearnPredictor,
    as_predictor,
    boosting,
    hoeffding_tree,
)
from fires.predictors.base import Predictor
from fires.predictors.bayes_linear import BayesLinear
from fires.predictors.built_in import LinearRegressor, Majority, Mean, Perceptron
from fires.predictors.rankers import AdPredictor

__all__ = [
    "AdPredictor",
    "BayesLinear",
    "LinearRegressor",
    "Majority",
    "Mean",
    "Perceptron",
    "Predictor",
    "RiverPredictor",
    "SklearnPredictor",
    "as_predictor",
    "boosting",
    "hoeffding_tree",
]
