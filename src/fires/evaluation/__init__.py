"""How good a selection is, honestly: test on a batch first, then learn from it."""

from fires.evaluation.prequential import prequential
from fires.evaluation.records import Step
from fires.pipeline import OnlinePipeline
from fires.predictors import (
    Perceptron,
    RiverPredictor,
    as_predictor,
    boosting,
    hoeffding_tree,
)

__all__ = [
    "OnlinePipeline",
    "Perceptron",
    "RiverPredictor",
    "Step",
    "as_predictor",
    "boosting",
    "hoeffding_tree",
    "prequential",
]
