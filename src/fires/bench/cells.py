"""One cell of the paper's tables: a data set, a method, a batch size, a fraction of features."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from fires import (
    EFS,
    FIRES,
    FSDS,
    OFS,
    AllFeatures,
    RandomFeatures,
)
from fires.core.version import __version__
from fires.evaluation.predictors import Perceptron, boosting, hoeffding_tree
from fires.evaluation.honest import prequential
from fires.streams import datasets

BATCH_SIZES = (25, 50, 75, 100)
FRACTIONS = (0.1, 0.15, 0.2)
DATASETS = ("HAR", "Spambase", "Usenet", "Gisette", "Madelon", "Dota", "KDD", "MNIST", "RBF", "RTG")
PROTOCOLS = ("as-published", "honest")
# River learns row by row, at 3 to 28 ms a row for boosting: more than this, nobody waits for.
BOOSTED_ROWS, BOOSTED_FEATURES = 500, 1_000


@dataclass(frozen=True)
class Cell:
    """What is to be run.

    Parameters
    ----------
    dataset, method : str
        Names out of :data:`DATASETS` and :data:`METHODS`.
    batch_size : int
        Rows of a batch.
    fraction : float or None
        The share of features to select; None for a method that selects none.
    protocol : {"as-published", "honest"}
        As published: columns scaled to [0, 1] over the whole set beforehand, and the selector
        sees a batch before it is tested. Honest: scaled to [0, 1] while the stream flows, and
        tested with what was known before.
    seed : int
        Of everything random.
    n_rows : int, optional
        At most so many rows.
    """

    dataset: str
    method: str
    batch_size: int
    fraction: float | None
    protocol: str = "as-published"
    seed: int = 0
    n_rows: int | None = None


@dataclass(frozen=True)
class Method:
    """How to make a selector and a predictor for a share of features."""

    selector: Callable[[Cell], Any]
    predictor: Callable[[Cell], Any] = lambda cell: Perceptron()
    selects: bool = True
    note: str = ""


def _glm(cell: Cell) -> Any:
    if cell.protocol == "as-published":
        return FIRES.as_published(cell.fraction)
    return FIRES(cell.fraction)


def _with_model(name: str) -> Callable[[Cell], Any]:
    def make(cell: Cell) -> Any:
        from fires import models

        kind = getattr(models, name)
        if cell.protocol == "as-published":
            model = kind.as_published()
            return FIRES.as_published(cell.fraction, model=model, random_state=cell.seed)
        return FIRES(cell.fraction, model=kind(), random_state=cell.seed)

    return make


METHODS = {
    "OnlineBoosting": Method(
        lambda cell: AllFeatures(),
        lambda cell: boosting(cell.seed),
        selects=False,
        note="River's Oza boosting of three Gaussian naive Bayes, not scikit-multiflow's variant",
    ),
    "VFDT": Method(
        lambda cell: AllFeatures(),
        lambda cell: hoeffding_tree(),
        selects=False,
        note="River's Hoeffding tree, majority class in the leaves",
    ),
    "FIRES-GLM": Method(_glm),
    "FIRES-ANN": Method(_with_model("NeuralNet")),
    "FIRES-SDT": Method(_with_model("SoftTree")),
    "OFS": Method(lambda cell: OFS(cell.fraction)),
    "EFS": Method(lambda cell: EFS(cell.fraction)),
    "FSDS": Method(lambda cell: FSDS(cell.fraction)),
    "all features": Method(lambda cell: AllFeatures(), selects=False),
    "random features": Method(lambda cell: RandomFeatures(cell.fraction, random_state=cell.seed)),
}


@lru_cache(maxsize=1)
def _dataset(name: str, protocol: str, n_rows: int | None) -> datasets.Dataset:
    """The data set, kept for the cells that come next."""
    preprocessing = "as-published" if protocol == "as-published" else "online"
    return datasets.load(name, preprocessing=preprocessing, n_rows=n_rows)


def run(cell: Cell) -> dict[str, Any]:
    """Evaluate one cell: its settings and what came out, as JSON values.

    Accuracy and stability are means over the steps, as in the paper; steps in which they are not
    defined (the first) do not count.
    """
    method = METHODS[cell.method]
    data = _dataset(cell.dataset, cell.protocol, cell.n_rows)
    published = cell.protocol == "as-published"
    started = time.perf_counter()
    accuracy, stability, select, train = [], [], [], []
    for step in prequential(
        data,
        method.selector(cell),
        method.predictor(cell),
        batch_size=cell.batch_size,
        order="as-published" if published else "test-then-train",
        preprocess=None if published else "minmax",
    ):
        accuracy.append(step.scores["accuracy"])
        stability.append(step.stability)
        select.append(step.seconds_select)
        train.append(step.seconds_train)
    n_rows = data.n_samples
    return asdict(cell) | {
        "accuracy": _mean(accuracy),
        "accuracy_variance": _mean((np.array(accuracy) - _mean(accuracy)) ** 2),
        "stability": _mean(stability) if method.selects else None,
        "milliseconds_per_step": 1e3 * _mean(select if method.selects else train),
        "steps": len(accuracy),
        "rows": n_rows,
        "complete": data.complete,
        "notes": list(data.notes),
        "seconds": time.perf_counter() - started,
        "fires": __version__,
    }


def _mean(values: Any) -> float:
    defined = np.asarray(values, dtype=np.float64)
    defined = defined[~np.isnan(defined)]
    return float(defined.mean()) if len(defined) else float("nan")
