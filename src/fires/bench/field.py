"""The field: every method on streams with known truth and on the data sets at hand.

One cell is a method on a stream with all its seeds. A seed draws a synthetic stream anew; of a data
set it leaves out another tenth of the rows, which keep their order. Columns are scaled to [0, 1] by
one online scaler, as :func:`fires.evaluation.compare.compare` does; batches have 100 rows, and each
is predicted before it is learnt from.

Methods of arriving columns (:mod:`fires.rivals.arriving`) take no part: they see all rows of a
column at once, and say nothing before the last row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from functools import lru_cache, partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from fires.bench.cells import TEST_THEN_TRAIN, Cell, kept_dataset
from fires.bench.datasets import loading as datasets
from fires.bench.datasets.files import find
from fires.bench.variants import VARIANTS, make
from fires.bench.worker import Record
from fires.core.batch import CheckedBatch
from fires.core.errors import MissingExtra
from fires.core.randomness import generator
from fires.core.types import Floats, Labels, Matrix, Places
from fires.evaluation.loop import prequential
from fires.evaluation.records import Step, defined_mean
from fires.evaluation.scoring import Baseline
from fires.metrics.prediction import Scores
from fires.metrics.recovery import Truth, recall, recoveries
from fires.metrics.stability import StabilityWindow
from fires.pipeline import OnlinePipeline
from fires.predictors import BayesLinear, RiverPredictor, hoeffding_tree
from fires.rivals import REGISTRY
from fires.rivals.arrays import as_dense
from fires.selectors.base import OnlineSelector
from fires.streams.arrays import ArrayStream, from_arrays
from fires.streams.synthetic import KnownTruth, LabelsBySet, SignProduct, SparseWide, Synthetic

BATCH_SIZE = 100
RECOVERED = 0.8  # the recall after a drift that counts as recovered
_WARM_UP = 500
NOISE = 0.01  # of a perturbed column, in standard deviations


class Effort(NamedTuple):
    """How much is run: seeds, rows of a stream, and processor seconds of a cell."""

    seeds: int
    n_rows: int
    limit: float


FULL, QUICK = Effort(5, 10_000, 600.0), Effort(3, 2_000, 15.0)


# --- streams ------------------------------------------------------------------------------------


@dataclass(eq=False)
class PartialDrift(KnownTruth):
    """A :class:`KnownTruth` in which some relevant features stay relevant after a drift.

    Examples
    --------
    >>> stream = PartialDrift(1_000, 20, 3, drift_at=0.5, n_kept=2)
    >>> stream.relevant_at(0), stream.relevant_at(999)
    (array([ 4,  5, 11]), array([ 4,  5, 18]))
    """

    _: KW_ONLY
    n_kept: int = 3

    def _settle(self, rng: np.random.Generator) -> None:
        super()._settle(rng)
        for of_set in (self._relevant, self._beta):
            of_set[1:, : self.n_kept] = of_set[0, : self.n_kept]


class Curves(KnownTruth):
    """A :class:`KnownTruth` of squares: no relevant feature is correlated with the label."""

    def _draw(self, rng: np.random.Generator) -> tuple[Floats, LabelsBySet]:
        z = rng.standard_normal((self._block_rows, len(self._scale)))
        unexplained = self.noise * rng.standard_normal(len(z))
        squares = (z**2 - 1.0) / np.sqrt(2.0)
        return (
            self._offset + self._scale * z,
            lambda s: squares[:, self._relevant[s]] @ self._beta[s] + unexplained > 0.0,
        )


STREAMS: dict[str, Callable[..., Synthetic]] = {
    "linear": KnownTruth,
    "correlated": partial(KnownTruth, n_twins=15, twin_correlation=0.9),
    "drifting": partial(KnownTruth, drift_at=0.5),
    "partial drift": partial(PartialDrift, drift_at=0.5),
    "rare": partial(KnownTruth, positive_rate=0.03),
    "wide": partial(KnownTruth, n_features=1_000),
    "text": partial(SparseWide, n_features=10_000),
    "curves": Curves,
    "pairs": partial(SignProduct, flip=0.1),
}
DATASETS = ("Spambase", "Usenet", "Madelon", "Dota", "KDD", "MNIST")
BALANCED = ("rare",)  # where balanced accuracy counts: to say no always would be right


class Data(NamedTuple):
    """The rows of a stream, and what is known of them."""

    X: Matrix
    y: Labels
    truth: Truth | None

    @property
    def n_selected(self) -> int:
        """As many as are relevant; of a data set a tenth of the columns, 5 to 20."""
        if self.truth is not None:
            return len(self.truth.relevant_at(0))
        return int(np.clip(self.X.shape[1] // 10, 5, 20))

    def stream(self) -> ArrayStream:
        """The rows in order."""
        return from_arrays(self.X, self.y, classes=np.unique(self.y).tolist())

    def perturbed(self, seed: int) -> Data:
        """The same with noise in every column; zeros of sparse rows stay zeros."""
        rng, X = generator(seed, "field", "noise"), self.X
        if isinstance(X, np.ndarray):
            return self._replace(X=X + NOISE * X.std(axis=0) * rng.standard_normal(X.shape))
        spread = np.sqrt(mean_variance_axis(sparse.csr_matrix(X), axis=0)[1])
        noisy = X.copy()
        noisy.data = X.data + NOISE * spread[X.indices] * rng.standard_normal(X.nnz)
        return self._replace(X=noisy)


@lru_cache(maxsize=FULL.seeds)
def data_of(name: str, n_rows: int | None, seed: int) -> Data:
    """The rows of a stream, kept for the methods that come next."""
    assert n_rows is not None
    if name in STREAMS:
        stream = STREAMS[name](n_rows, random_state=seed)
        whole = next(iter(stream.batches(n_rows)))
        return Data(whole.X, whole.y, stream)
    data: Any = kept_dataset(name, TEST_THEN_TRAIN, n_rows, 0)
    X, y = data.to_arrays()
    kept = generator(seed, "field", name).random(len(y)) < 0.9
    return Data(X[kept], y[kept], None)


# --- methods ------------------------------------------------------------------------------------


_LEFT_OUT = ("FIRES variational", "Screening t", "AdPredictor", "FixedFeatures")
REFERENCE = "FIRES"
_NOT_QUICK = ("FIRES net", "FIRES soft tree", "CancelOut", "WindowRefit lightgbm")


def methods(*, quick: bool = False) -> list[str]:
    """All that learn from rows: FIRES in its variants, and every rival that is registered."""
    rivals = (n for n, module in REGISTRY.items() if ".arriving." not in module)
    left_out = _LEFT_OUT + _NOT_QUICK * quick
    return [name for name in dict.fromkeys([*VARIANTS, *rivals]) if name not in left_out]


# --- cells --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FieldCell(Cell):
    """A method on a stream, with all seeds, in at most so many processor seconds."""

    seeds: int = 1
    limit: float = 600.0

    def __str__(self) -> str:
        return f"{self.dataset}, {self.method}"

    @property
    def group(self) -> Hashable:
        """Cells of one group use the same rows."""
        return self.dataset


def plan(streams: Sequence[str], names: Sequence[str], effort: Effort) -> list[FieldCell]:
    """All cells, stream by stream."""
    seeds, n_rows, limit = effort
    return [
        FieldCell(
            *(stream, name, BATCH_SIZE, None, TEST_THEN_TRAIN, 0, n_rows), seeds=seeds, limit=limit
        )
        for stream, name in product(streams, names)
    ]


def not_at_hand(streams: Sequence[str]) -> dict[str, str]:
    """The data sets among these that are not here, with one line each."""
    names = [n for n in streams if n not in STREAMS and find(datasets.describe(n)) is None]
    return {name: f"{name} is not available: fires data get {name}" for name in names}


class TooSlow(Exception):  # noqa: N818 - it says what is the case
    """A cell took more than its processor time."""


def run(cell: FieldCell) -> Record:
    """Evaluate one cell: the values of each quantity, one per seed, or why there are none."""
    score = "balanced_accuracy" if cell.dataset in BALANCED else "accuracy"
    try:
        first = data_of(cell.dataset, cell.n_rows, 0)
        # Loops are compiled, and libraries loaded, before the clock starts.
        short = Data(first.X[:_WARM_UP], first.y[:_WARM_UP], None).stream()
        list(prequential(short, make(cell.method, first.n_selected, 0), BayesLinear()))
        stop = time.process_time() + cell.limit
        found = [_one_run(cell, seed, score, stop) for seed in range(cell.seeds)]
    except TooSlow:
        return asdict(cell) | {"missing": "too slow"}
    except (ValueError, TypeError, MissingExtra) as error:
        return asdict(cell) | {"missing": "failed", "why": " ".join(str(error).split())}
    values = {name: [one[name] for one in found] for name in found[0]}
    values = {name: each for name, each in values.items() if np.isfinite(each).all()}
    return asdict(cell) | {"score": score, "values": values}


def _one_run(cell: FieldCell, seed: int, score: str, stop: float) -> dict[str, float]:
    """What one seed gives: a pass with two predictors, and one with perturbed rows and none."""
    data = data_of(cell.dataset, cell.n_rows, seed)
    selector, again = (make(cell.method, data.n_selected, seed) for _ in range(2))
    linear, tree = (Scores((score,), np.unique(data.y).tolist()) for _ in range(2))
    beside = {"tree": Baseline(_SelectedTree(selector), tree)}
    pipeline = _Timed(selector, BayesLinear(), "minmax")
    steps = list(_until(stop, data, pipeline, scores=linear, baselines=beside))
    noisy = list(_until(stop, data.perturbed(seed), _Timed(again, None, "minmax")))
    cost = [1e3 * step.seconds_select for step in (*steps[1:], *noisy[1:])]
    found = {
        "linear": linear.total[score],
        "tree": tree.total[score],
        "milliseconds": defined_mean(cost),
    }
    if cell.method == "AllFeatures":
        return found
    both = StabilityWindow(2, data.X.shape[1])
    alike = [
        [both.update(one.selected), both.update(two.selected)][1]
        for one, two in zip(steps, noisy, strict=True)
    ]
    found["stability"] = defined_mean([step.stability for step in steps])
    found["perturbed"] = defined_mean(alike)
    if (truth := data.truth) is not None:
        wanted = (truth.relevant_at(step.position.rows - 1) for step in steps)
        hits = [recall(s.selected, of_it) for s, of_it in zip(steps, wanted, strict=True)]
        found["recall"] = defined_mean(hits)
        for row, batches in recoveries(steps, truth, threshold=RECOVERED):
            found["rows"] = BATCH_SIZE * batches if batches else truth.n_samples - row
    return found


def _until(stop: float, data: Data, pipeline: OnlinePipeline, **options: Any) -> Iterator[Step]:
    """The steps of a run, as long as there is processor time."""
    for step in prequential(data.stream(), pipeline, batch_size=BATCH_SIZE, **options):
        if time.process_time() > stop:
            raise TooSlow
        yield step


class _Timed(OnlinePipeline):
    """A pipeline whose seconds of selecting are those of the processor."""

    def select(self, batch: CheckedBatch) -> tuple[Places, float]:
        """As always, but for the clock."""
        started = time.process_time()
        selected, _ = super().select(batch)
        return selected, time.process_time() - started


class _SelectedTree(RiverPredictor):
    """River's Hoeffding tree on what a selector selects; it is not shown the other columns.

    A tree that is shown zeros keeps statistics of them, which takes most of its time. Its leaves
    predict by naive Bayes where that is better: with majority votes it does not split, and so says
    nothing of a selection, in the first thousands of rows.
    """

    def __init__(self, selector: OnlineSelector) -> None:
        super().__init__(hoeffding_tree(leaf_prediction="nba").inner)
        self._selector = selector

    def dicts(self, X: Matrix) -> Iterator[dict[Any, float]]:
        """The selected entries of each row, under the numbers of their columns."""
        places = self._selector.get_support(indices=True)
        names, rows = places.tolist(), as_dense(X[:, places]).tolist()
        return (dict(zip(names, row, strict=True)) for row in rows)
