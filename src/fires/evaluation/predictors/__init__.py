"""Predictors that live through changes of the selected set: ours, scikit-learn's and River's.

All have ``partial_fit(X, y, classes=None, sample_weight=None)`` and ``predict(X)``, those that can
also ``predict_proba(X)``, and then ``classes_``. :func:`as_predictor` makes them of other objects.
"""

from fires.evaluation.predictors.adapted import as_predictor
from fires.evaluation.predictors.estimators import SklearnPredictor
from fires.evaluation.predictors.perceptron import Perceptron
from fires.evaluation.predictors.river import RiverPredictor, boosting, hoeffding_tree

__all__ = [
    "Perceptron",
    "RiverPredictor",
    "SklearnPredictor",
    "as_predictor",
    "boosting",
    "hoeffding_tree",
]
