"""BayesLinear beside scikit-learn's SGD with log loss, on the same selection, and what it costs.

The six data sets, orders and settings of :mod:`benchmarks.answer.datasets`: rows are tested before
they are learnt from, and both predictors see the same standardised columns that FIRES has selected.
Probabilities of 0 count as the rounding of float64 in a log loss. The cost is that of one batch,
predicted and learnt from: of the selected columns, 10 of 50, and of all 50.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.linear_model import SGDClassifier

from benchmarks.answer.datasets import NAMES, SETTINGS, rows
from benchmarks.answer.figures import Bench, Figure, Maker
from fires.core.batch import CheckedBatch
from fires.evaluation.loop import prequential
from fires.metrics.prediction import Scores
from fires.predictors import BayesLinear, Perceptron

TITLE = "BayesLinear / SGD with log loss: accuracy, log loss"
SCORES = ("accuracy", "log_loss")


def run(
    make: Maker, name: str, seed: int, batch_size: int, share: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Accuracy and log loss of both predictors."""
    X, y = rows(name, seed)
    found, classes = [], np.unique(y)
    for predictor in (BayesLinear(), SGDClassifier(loss="log_loss", random_state=seed)):
        scores = Scores(SCORES, tuple(classes.tolist()))
        starts = range(0, len(y), batch_size)
        batches = ((X[i : i + batch_size], y[i : i + batch_size]) for i in starts)
        selector = make(max(1, int(share * X.shape[1])))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of scikit-learn, about probabilities of 0
            list(prequential(batches, selector, predictor, classes=classes, scores=scores))
        found.append((scores.total["accuracy"], scores.total["log_loss"]))
    return found[0], found[1]


def measure(bench: Bench) -> list[Figure]:
    """Both scores of each data set, on how many of them they are better, and the cost."""
    seeds = bench.seeds(5)
    cases = [(name, seed, *setting) for name in NAMES for seed in seeds for setting in SETTINGS]
    found = np.array(bench.map(run, cases)).reshape(len(NAMES), -1, 2, 2).mean(axis=1)
    figures = [
        Figure(name, f"{ours[0]:.4f} / {sgd[0]:.4f}, {ours[1]:.4f} / {sgd[1]:.4f}")
        for name, (ours, sgd) in zip(NAMES, found, strict=True)
    ]
    as_accurate = int((found[:, 0, 0] >= found[:, 1, 0]).sum())
    lower = int((found[:, 0, 1] < found[:, 1, 1]).sum())
    figures += [
        Figure("at least as accurate", f"on {as_accurate}", ">= 5", as_accurate >= 5),
        Figure("lower log loss", f"on {lower}", ">= 6", lower >= 6),
    ]
    return [*figures, *_costs()]


def _costs() -> list[Figure]:
    """Milliseconds to predict a batch of 100 rows and to learn from it, the least of many."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40_000, 50))
    y = (X[:, 0] - X[:, 1] + rng.normal(size=len(X)) > 0.0).astype(int)
    few, zeros = X.copy(), X.copy()
    few[:, 10:], zeros[:, 10:] = np.nan, 0.0
    taken = {
        "Perceptron, 10 of 50 columns": _seconds(Perceptron(), zeros, y),
        "BayesLinear, 10 of 50 columns": _seconds(BayesLinear(), few, y),
        "BayesLinear, all 50": _seconds(BayesLinear(), X, y),
    }
    return [Figure(f"cost: {name}", f"{1e3 * one:.3f} ms a batch") for name, one in taken.items()]


def _seconds(model: Perceptron | BayesLinear, X: np.ndarray, y: np.ndarray) -> float:
    taken = []
    for start in range(0, len(y), 100):
        batch = CheckedBatch(X[start : start + 100], y[start : start + 100], scale="standard")
        began = time.perf_counter()
        if start:
            model.predict_codes(batch.X)
        model.learn(batch)
        taken.append(time.perf_counter() - began)
    return float(np.quantile(taken[100:], 0.1))
