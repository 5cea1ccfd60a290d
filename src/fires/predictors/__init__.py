"""Predictors that live through changes of the selected set: ours, scikit-learn's and River's.

All have ``partial_fit(X, y, classes=None, sample_weight=None)`` and ``predict(X)``, those that can
also ``predict_proba(X)``, and then ``classes_``. :func:`as_predictor` makes them of other objects.
"""

from fires.predictors.adapting import as_predictor
from fires.predictors.base import Predictor
from fires.predictors.perceptron import Perceptron
from fires.predictors.river import RiverPredictor, boosting, hoeffding_tree
from fires.predictors.scikit_learn import SklearnPredictor

__all__ = [
    "Perceptron",
    "Predictor",
    "RiverPredictor",
    "SklearnPredictor",
    "as_predictor",
    "boosting",
    "hoeffding_tree",
]
