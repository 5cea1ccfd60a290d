"""One cell of the paper's tables: a data set, a method, a batch size, a fraction of features.

Every cell is run in one of two ways, the protocols: as the paper did it, or test-then-train.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np

from fires import EFS, FIRES, FSDS, OFS, AllFeatures, RandomFeatures, models
from fires.bench.authors import RATE, AuthorsModel, AuthorsNet, AuthorsTree
from fires.bench.datasets import loading as datasets
from fires.core.errors import Diverged
from fires.core.types import Floats
from fires.core.version import __version__
from fires.evaluation.loop import prequential
from fires.evaluation.records import Step, defined_mean, number_or_none
from fires.predictors import Perceptron, boosting, hoeffding_tree
from fires.predictors.base import Predictor
from fires.selectors.base import OnlineSelector
from fires.streams.base import Stream

if TYPE_CHECKING:
    from fires.bench.worker import Record
    from fires.models import NeuralNet, SoftTree

BATCH_SIZES = (25, 50, 75, 100)
FRACTIONS = (0.1, 0.15, 0.2)
DATASETS = ("HAR", "Spambase", "Usenet", "Gisette", "Madelon", "Dota", "KDD", "MNIST", "RBF", "RTG")
DIGITS = (3, 8, 9)  # of MNIST, each against the others
_TIMES = ("milliseconds_select", "milliseconds_train", "milliseconds_per_step")
_MEANS = ("accuracy", "stability", *_TIMES)


class Protocol(NamedTuple):
    """How a stream is scaled and used."""

    order: str
    scaled_before: Literal["online", "as-published"]
    scaled_while: str | None


# "honest" is what files of results, and options, call the order test-then-train.
AS_PUBLISHED, TEST_THEN_TRAIN = "as-published", "honest"
PROTOCOLS: Mapping[str, Protocol] = {
    AS_PUBLISHED: Protocol("as-published", "as-published", None),
    TEST_THEN_TRAIN: Protocol("test-then-train", "online", "minmax"),
}
WINDOW = 10  # sets that make up a stability, as in the paper
_SERIES = ("seen", "accuracy", "stability")


class Run(NamedTuple):
    """What a method did over time: one entry per step."""

    seen: Floats
    accuracy: Floats
    stability: Floats
    diverged_at: int | None = None
    seconds: Floats | None = None

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Self:
        """The run whose records these are, up to where the method ceases to be finite."""
        found, seen, diverged_at = [], 0, None
        try:
            for step in steps:
                seen = step.position.rows
                seconds = step.seconds_select, step.seconds_train
                found.append((seen, *step.scores.values(), step.stability, *seconds))
        except Diverged:
            diverged_at = seen
        rows, accuracy, stability, *times = np.array(found, dtype=np.float64).reshape(-1, 5).T
        return cls(rows, accuracy, stability, diverged_at, np.array(times))

    def as_record(self) -> Record:
        """The run as JSON values: NaN is None, and only a run that diverged says where."""
        series = zip(_SERIES, self[:3], strict=True)
        record: Record = {n: [None if v != v else v for v in of.tolist()] for n, of in series}
        return record | ({} if self.diverged_at is None else {"diverged_at": self.diverged_at})

    @classmethod
    def from_record(cls, record: Record) -> Self:
        """The run of :meth:`as_record`."""
        seen, accuracy, stability = (np.array(record[n], dtype=np.float64) for n in _SERIES)
        return cls(seen, accuracy, stability, record.get("diverged_at"))


@dataclass(frozen=True)
class Cell:
    """What is to be run: for the tables, or in all its steps for a figure."""

    dataset: str
    method: str
    batch_size: int
    fraction: float | None
    protocol: str = "as-published"
    seed: int = 0
    n_rows: int | None = None
    penalty: float | None = None
    digit: int | None = None
    figure: bool | None = None

    def __str__(self) -> str:
        parts = [self.dataset, self.method, f"batch {self.batch_size}"]
        parts += [] if self.fraction is None else [f"{100 * self.fraction:g} %"]
        parts.append(self.protocol)
        parts += [] if self.penalty is None else [f"lambda_s {self.penalty:g}"]
        parts += [] if self.digit is None else [f"digit {self.digit}"]
        return "figure: " * bool(self.figure) + ", ".join(parts)

    @property
    def data(self) -> tuple[str, str, int | None, int, int | None]:
        """What :func:`kept_dataset` takes."""
        return self.dataset, self.protocol, self.n_rows, self.seed, self.digit

    @property
    def group(self) -> Hashable:
        """Cells of one group load the same data."""
        return self.data


@dataclass(frozen=True)
class Method:
    """How to make a selector and a predictor for a cell."""

    selector: Callable[[Cell], OnlineSelector]
    predictor: Callable[[Cell], Predictor] = lambda cell: Perceptron()
    selects: bool = True
    needs: str | None = None
    protocols: Collection[str] = tuple(PROTOCOLS)


def _share(cell: Cell) -> float:
    if cell.fraction is None:
        raise ValueError(f"{cell.method} selects features: it needs a fraction.")
    return cell.fraction


def _fires(
    cell: Cell, kind: type[NeuralNet] | type[SoftTree] | None = None, **settings: Any
) -> FIRES:
    """FIRES as the protocol sets it up, with a linear model or another."""
    published = cell.protocol == AS_PUBLISHED
    if kind is not None:
        settings |= {"model": kind.as_published() if published else kind()}
    if published:
        return FIRES.as_published(_share(cell), random_state=cell.seed, **settings)
    how: dict[str, Any] = {"update": "gradient", "score": "omega", "random_state": cell.seed}
    return FIRES(_share(cell), **how, **settings)


def _by_authors(model: AuthorsModel) -> Method:
    return Method(
        lambda cell: _fires(cell, model=model, learning_rate=RATE), protocols=(AS_PUBLISHED,)
    )


AUTHORS = " authors"  # ends the name of a method that follows the authors' program

METHODS = {
    "OnlineBoosting": Method(
        lambda cell: AllFeatures(), lambda cell: boosting(cell.seed), selects=False, needs="river"
    ),
    "VFDT": Method(
        lambda cell: AllFeatures(), lambda cell: hoeffding_tree(), selects=False, needs="river"
    ),
    "FIRES-GLM": Method(_fires),
    "FIRES-ANN": Method(lambda cell: _fires(cell, models.NeuralNet), needs="torch"),
    "FIRES-SDT": Method(lambda cell: _fires(cell, models.SoftTree), needs="torch"),
    "FIRES-ANN" + AUTHORS: _by_authors(AuthorsNet()),
    "FIRES-SDT" + AUTHORS: _by_authors(AuthorsTree()),
    "OFS": Method(lambda cell: OFS(_share(cell))),
    "EFS": Method(lambda cell: EFS(_share(cell))),
    "FSDS": Method(lambda cell: FSDS(_share(cell))),
    "all features": Method(lambda cell: AllFeatures(), selects=False),
    "random features": Method(lambda cell: RandomFeatures(_share(cell), random_state=cell.seed)),
}


def run_of(
    stream: Stream, selector: OnlineSelector, predictor: Predictor, batch_size: int, protocol: str
) -> Run:
    """Run a selector and a predictor over a stream."""
    way = PROTOCOLS[protocol]
    how: dict[str, Any] = {"order": way.order, "preprocess": way.scaled_while, "window": WINDOW}
    return Run.of(prequential(stream, selector, predictor, batch_size=batch_size, **how))


def run(cell: Cell) -> Record:
    """Evaluate one cell: its means; for a figure its series, or weights and pixels of a digit."""
    method = METHODS[cell.method]
    started = time.perf_counter()
    data, selector = kept_dataset(*cell.data), method.selector(cell)
    if cell.penalty is not None:
        selector.set_params(uncertainty_penalty=cell.penalty)
    done = run_of(data, selector, method.predictor(cell), cell.batch_size, cell.protocol)
    if cell.digit is not None:
        found: Record = {"diverged_at": done.diverged_at}
        if done.diverged_at is None:
            X, y = data.to_arrays()
            found = {"weights": selector.weights_.tolist()}
            found["means"] = [X[y == of].mean(axis=0).round(3).tolist() for of in (1, 0)]
            found["selected"] = selector.get_support().astype(int).tolist()
    elif cell.figure:
        found = done.as_record() | {"majority": majority(*cell.data)}
    else:
        found = means_of(done)
        if not method.selects:
            found["stability"] = None
    facts = {"rows": data.n_samples, "complete": data.complete, "notes": list(data.notes)}
    made = {"seconds": time.perf_counter() - started, "fires": __version__}
    return asdict(cell) | found | facts | made


def means_of(done: Run) -> Record:
    """What the paper's tables hold, of one pass over a stream, as JSON values.

    Accuracy and stability are means over the steps, as in the paper; steps in which they are not
    defined (the first) do not count. Milliseconds are those of selecting and training, as in the
    paper; the first step, in which loops are compiled, does not count. What is not defined at all
    is None. So is everything where a method ceases to be finite, with the row at which it does as
    ``diverged_at``: scores of the rows before it could not be compared with anything.
    """
    steps = {"steps": len(done.seen)}
    if done.diverged_at is not None:
        steps |= {"diverged_at": done.diverged_at}
        return dict.fromkeys((*_MEANS, "accuracy_variance")) | steps
    assert done.seconds is not None
    select, train = 1e3 * done.seconds[:, 1:]
    series = (done.accuracy, done.stability, select, train, select + train)
    means = [number_or_none(defined_mean(values)) for values in series]
    scored = done.accuracy[~np.isnan(done.accuracy)]
    variance = float(scored.var()) if len(scored) else None
    return dict(zip(_MEANS, means, strict=True)) | {"accuracy_variance": variance} | steps


@lru_cache(maxsize=1)
def kept_dataset(
    name: str, protocol: str, n_rows: int | None, seed: int, digit: int | None = None
) -> datasets.Dataset:
    """The data set with its rows in memory, kept for the cells that come next."""
    before = PROTOCOLS[protocol].scaled_before
    labels: dict[str, Any] = {} if digit is None else {"labels": DIGITS, "positive": digit}
    data = datasets.load(name, preprocessing=before, n_rows=n_rows, seed=seed, **labels)
    # A generated one would be generated anew for every cell: that takes longer than most of them.
    return data if data.path is not None or before == "as-published" else data.in_memory()


@lru_cache(maxsize=1)
def majority(*data: Any) -> float:
    """The share of the greater class, which is the accuracy of always naming it."""
    labels = np.concatenate([batch.y for batch in kept_dataset(*data).batches(1_000)])
    _, counts = np.unique(labels, return_counts=True)
    return float(counts.max() / counts.sum())
