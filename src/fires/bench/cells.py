"""One cell of the paper's tables: a data set, a method, a batch size, a fraction of features."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from fires import EFS, FSDS, OFS, AllFeatures, RandomFeatures
from fires.bench.datasets import loading as datasets
from fires.bench.protocols import PROTOCOLS, run_of
from fires.core.version import __version__
from fires.evaluation.records import defined_mean, number_or_none
from fires.predictors import Perceptron, boosting, hoeffding_tree
from fires.streams.base import Stream

if TYPE_CHECKING:
    from fires.bench.results import Record
    from fires.predictors.base import Predictor
    from fires.selectors.base import OnlineSelector
    from fires.selectors.fires import FIRES

BATCH_SIZES = (25, 50, 75, 100)
FRACTIONS = (0.1, 0.15, 0.2)
DATASETS = ("HAR", "Spambase", "Usenet", "Gisette", "Madelon", "Dota", "KDD", "MNIST", "RBF", "RTG")
_MEANS = (
    "accuracy",
    "stability",
    "milliseconds_select",
    "milliseconds_train",
    "milliseconds_per_step",
)


@dataclass(frozen=True)
class Cell:
    """What is to be run."""

    dataset: str
    method: str
    batch_size: int
    fraction: float | None
    protocol: str = "as-published"
    seed: int = 0
    n_rows: int | None = None

    def __str__(self) -> str:
        share = [] if self.fraction is None else [f"{100 * self.fraction:g} %"]
        return ", ".join(
            [self.dataset, self.method, f"batch {self.batch_size}", *share, self.protocol]
        )

    @property
    def group(self) -> Hashable:
        """Cells of one group load the same data."""
        return self.dataset, self.protocol, self.seed, self.n_rows


@dataclass(frozen=True)
class Method:
    """How to make a selector and a predictor for a cell."""

    selector: Callable[[Cell], OnlineSelector]
    predictor: Callable[[Cell], Predictor] = lambda cell: Perceptron()
    selects: bool = True
    needs: str | None = None
    note: str = ""


def _share(cell: Cell) -> float:
    if cell.fraction is None:
        raise ValueError(f"{cell.method} selects features: it needs a fraction.")
    return cell.fraction


def _fires_with(model: str) -> Callable[[Cell], FIRES]:
    """What makes FIRES with a base model of :mod:`fires.models`, as the protocol of a cell says."""

    def make(cell: Cell) -> FIRES:
        from fires import models

        way, share = PROTOCOLS[cell.protocol], _share(cell)
        base = way.make_model(getattr(models, model))
        return way.make_fires(share, model=base, random_state=cell.seed)

    return make


METHODS = {
    "OnlineBoosting": Method(
        lambda cell: AllFeatures(),
        lambda cell: boosting(cell.seed),
        selects=False,
        needs="river",
        note="River's online boosting of three Gaussian naive Bayes, on all features; the paper "
        "used the variant of scikit-multiflow",
    ),
    "VFDT": Method(
        lambda cell: AllFeatures(),
        lambda cell: hoeffding_tree(),
        selects=False,
        needs="river",
        note="River's Hoeffding tree with the majority class in its leaves, on all features",
    ),
    "FIRES-GLM": Method(lambda cell: PROTOCOLS[cell.protocol].make_fires(_share(cell))),
    "FIRES-ANN": Method(_fires_with("NeuralNet"), needs="torch"),
    "FIRES-SDT": Method(_fires_with("SoftTree"), needs="torch"),
    "OFS": Method(lambda cell: OFS(_share(cell))),
    "EFS": Method(lambda cell: EFS(_share(cell))),
    "FSDS": Method(lambda cell: FSDS(_share(cell))),
    "all features": Method(
        lambda cell: AllFeatures(), selects=False, note="the Perceptron without any selection"
    ),
    "random features": Method(
        lambda cell: RandomFeatures(_share(cell), random_state=cell.seed),
        note="drawn once, before the first batch, so that their stability is always 1",
    ),
}


def run(cell: Cell) -> Record:
    """Evaluate one cell."""
    method = METHODS[cell.method]
    started = time.perf_counter()
    data = kept_dataset(cell.dataset, cell.protocol, cell.n_rows, cell.seed)
    found = evaluate(
        data,
        method.selector(cell),
        method.predictor(cell),
        batch_size=cell.batch_size,
        protocol=cell.protocol,
    )
    if not method.selects:
        found["stability"] = None
    return (
        asdict(cell)
        | found
        | {
            "rows": data.n_samples,
            "complete": data.complete,
            "notes": list(data.notes),
            "seconds": time.perf_counter() - started,
            "fires": __version__,
        }
    )


def evaluate(
    stream: Stream,
    selector: OnlineSelector,
    predictor: Predictor,
    *,
    batch_size: int,
    protocol: str,
) -> Record:
    """What the paper's tables hold, of one pass over a stream, as JSON values.

    Accuracy and stability are means over the steps, as in the paper; steps in which they are not
    defined (the first) do not count. Milliseconds are those of selecting and training, as in the
    paper; the first step, in which loops are compiled, does not count. What is not defined at all
    is None. So is everything where a method ceases to be finite, with the row at which it does as
    ``diverged_at``: scores of the rows before it could not be compared with anything.

    Parameters
    ----------
    stream, selector, predictor, batch_size, protocol
        As in :func:`fires.bench.protocols.run_of`.

    Returns
    -------
    dict
        The means, and how many steps there were.

    Examples
    --------
    >>> data = datasets.load("RTG", n_rows=500)
    >>> found = evaluate(data, OFS(0.1), Perceptron(), batch_size=100, protocol="honest")
    >>> found["steps"], 0.4 < found["accuracy"] < 0.8
    (5, True)
    """
    done = run_of(stream, selector, predictor, batch_size, protocol)
    steps = {"steps": len(done.seen)}
    if done.diverged_at is not None:
        nothing = dict.fromkeys((*_MEANS, "accuracy_variance"))
        return nothing | steps | {"diverged_at": done.diverged_at}
    assert done.seconds is not None
    select, train = 1e3 * done.seconds[:, 1:]
    series = (done.accuracy, done.stability, select, train, select + train)
    means = [number_or_none(defined_mean(values)) for values in series]
    scored = done.accuracy[~np.isnan(done.accuracy)]
    variance = float(scored.var()) if len(scored) else None
    return dict(zip(_MEANS, means, strict=True)) | {"accuracy_variance": variance} | steps


@lru_cache(maxsize=1)
def kept_dataset(name: str, protocol: str, n_rows: int | None, seed: int) -> datasets.Dataset:
    """The data set with its rows in memory, kept for the cells that come next."""
    before = PROTOCOLS[protocol].scaled_before
    data = datasets.load(name, preprocessing=before, n_rows=n_rows, seed=seed)
    # A generated one would be generated anew for every cell: that takes longer than most of them.
    return data if data.path is not None or before == "as-published" else data.in_memory()
