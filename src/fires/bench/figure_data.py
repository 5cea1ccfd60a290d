"""What the paper's figures show: runs of methods, each of them kept as a line of JSON."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Self

import numpy as np

from fires.bench.cells import METHODS, Cell, kept_dataset
from fires.bench.datasets import loading as datasets
from fires.bench.runner import Record
from fires.core.belief import Floats
from fires.core.errors import Diverged
from fires.evaluation.prequential import prequential
from fires.evaluation.records import Step

WINDOW = 10
DIGITS = (3, 8, 9)


@dataclass(frozen=True)
class FigureCell(Cell):
    """A run that a figure shows: as published, and in all its steps.

    Parameters
    ----------
    penalty : float, optional
        The penalty on uncertainty, lambda_s; by default the method's own.
    digit : int, optional
        MNIST's rows of :data:`DIGITS` only, this one against the others.

    Examples
    --------
    >>> str(FigureCell("MNIST", "OFS", 100, 0.147, digit=3))
    'figure: MNIST, OFS, batch 100, 14.7 %, as-published, digit 3'
    """

    penalty: float | None = None
    digit: int | None = None

    def __str__(self) -> str:
        penalty = "" if self.penalty is None else f", lambda_s {self.penalty:g}"
        digit = "" if self.digit is None else f", digit {self.digit}"
        return f"figure: {super().__str__()}{penalty}{digit}"

    @property
    def group(self) -> Hashable:
        """Cells of one group load the same data."""
        return super().group, self.digit


@dataclass(frozen=True, eq=False)
class Run:
    """What a method did over time: one entry per step.

    Parameters
    ----------
    seen : ndarray
        Rows seen by the end of each step.
    accuracy, stability : ndarray
        Of each step; NaN where it is undefined.
    diverged_at : int or None
        The row behind which the method ceased to be finite, as the paper's own net does on some
        streams; None if it came to the end.
    """

    seen: Floats
    accuracy: Floats
    stability: Floats
    diverged_at: int | None = None

    @classmethod
    def of(cls, steps: Iterable[Step]) -> Self:
        """The run whose records these are, up to where the method ceases to be finite."""
        found, seen, diverged_at = [], 0, None
        try:
            for step in steps:
                seen = step.position.rows
                found.append((seen, step.scores["accuracy"], step.stability))
        except Diverged:
            diverged_at = seen
        rows, accuracy, stability = np.array(found, dtype=np.float64).reshape(-1, 3).T
        return cls(rows, accuracy, stability, diverged_at)

    def as_record(self) -> Record:
        """The run as JSON values: NaN is None, and only a run that diverged says where."""
        series = {name: getattr(self, name).tolist() for name in _SERIES}
        plain = {name: [None if v != v else v for v in values] for name, values in series.items()}
        return plain | ({} if self.diverged_at is None else {"diverged_at": self.diverged_at})

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Self:
        """The run of :meth:`as_record`."""
        seen, accuracy, stability = (np.array(record[n], dtype=np.float64) for n in _SERIES)
        return cls(seen, accuracy, stability, record.get("diverged_at"))


_SERIES = ("seen", "accuracy", "stability")


class Pixels(NamedTuple):
    """The weight of every pixel of an image, and whether it is selected; row after row."""

    weights: Any
    selected: Any


def run(cell: FigureCell) -> Record:
    """Run one cell: all of its steps or, of a digit, what is known after the last; JSON values."""
    if cell.digit is not None:
        return _digit(cell)
    data, stream = kept_dataset(cell.dataset, cell.protocol, cell.n_rows, cell.seed)
    method = METHODS[cell.method]
    selector = method.selector(cell)
    if cell.penalty is not None:
        selector.set_params(uncertainty_penalty=cell.penalty)
    steps = prequential(
        stream,
        selector,
        method.predictor(cell),
        batch_size=cell.batch_size,
        order=cell.protocol,
        preprocess=None,
        window=WINDOW,
    )
    return Run.of(steps).as_record() | {
        "rows": data.n_samples,
        "majority": _majority(cell.dataset, cell.protocol, cell.n_rows, cell.seed),
    }


@lru_cache(maxsize=1)
def _majority(name: str, protocol: str, n_rows: int | None, seed: int) -> float:
    """The share of the greater class, which is the accuracy of always naming it."""
    _, stream = kept_dataset(name, protocol, n_rows, seed)
    labels = np.concatenate([batch.y for batch in stream.batches(1_000)])
    _, counts = np.unique(labels, return_counts=True)
    return float(counts.max() / counts.sum())


def _digit(cell: FigureCell) -> Record:
    """Weights and selected pixels after the last row, and the mean images of the two classes."""
    data, means = _digit_data(cell.digit, cell.n_rows, cell.seed)
    selector = METHODS[cell.method].selector(cell)
    seen = 0
    try:
        for step in prequential(
            data,
            selector,
            batch_size=cell.batch_size,
            order=cell.protocol,
            preprocess=None,
            keep_weights=True,
        ):
            seen, weights, selected = step.position.rows, step.weights, step.selected
    except Diverged:
        return {"diverged_at": seen}
    assert weights is not None
    mask = np.zeros(len(weights), dtype=np.int64)
    mask[selected] = 1
    pixels = Pixels(weights.tolist(), mask.tolist())
    return pixels._asdict() | {"rows": seen, "means": means}


@lru_cache(maxsize=1)
def _digit_data(
    digit: int | None, n_rows: int | None, seed: int
) -> tuple[datasets.Dataset, list[list[float]]]:
    data = datasets.load(
        "MNIST",
        preprocessing="as-published",
        labels=DIGITS,
        positive=digit,
        n_rows=n_rows,
        seed=seed,
    )
    X, y = data.to_arrays()
    return data, [X[y == label].mean(axis=0).round(3).tolist() for label in (1, 0)]
