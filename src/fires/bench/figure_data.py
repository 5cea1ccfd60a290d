"""What the paper's figures show: runs of methods, each of them kept as a line of JSON."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from fires.bench.cells import METHODS, Cell, kept_dataset
from fires.bench.datasets import loading as datasets
from fires.bench.protocols import run_of
from fires.bench.results import Record
from fires.core.types import Floats, Mask

DIGITS = (3, 8, 9)


@dataclass(frozen=True)
class FigureCell(Cell):
    """A run that a figure shows: as published, and in all its steps."""

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


class Pixels(NamedTuple):
    """The weight of every pixel of an image, and whether it is selected; row after row."""

    weights: Floats
    selected: Mask


def run(cell: FigureCell) -> Record:
    """Run one cell."""
    if cell.digit is not None:
        return _digit(cell)
    data = kept_dataset(cell.dataset, cell.protocol, cell.n_rows, cell.seed)
    method = METHODS[cell.method]
    selector = method.selector(cell)
    if cell.penalty is not None:
        selector.set_params(uncertainty_penalty=cell.penalty)
    steps = run_of(data, selector, method.predictor(cell), cell.batch_size, cell.protocol)
    return steps.as_record() | {
        "rows": data.n_samples,
        "majority": _majority(cell.dataset, cell.protocol, cell.n_rows, cell.seed),
    }


@lru_cache(maxsize=1)
def _majority(name: str, protocol: str, n_rows: int | None, seed: int) -> float:
    """The share of the greater class, which is the accuracy of always naming it."""
    data = kept_dataset(name, protocol, n_rows, seed)
    labels = np.concatenate([batch.y for batch in data.batches(1_000)])
    _, counts = np.unique(labels, return_counts=True)
    return float(counts.max() / counts.sum())


def _digit(cell: FigureCell) -> Record:
    """Weights and selected pixels after the last row, and the mean images of the two classes."""
    data, means = _digit_data(cell.digit, cell.n_rows, cell.seed)
    method = METHODS[cell.method]
    selector = method.selector(cell)
    steps = run_of(data, selector, method.predictor(cell), cell.batch_size, cell.protocol)
    if steps.diverged_at is not None:
        return {"diverged_at": steps.diverged_at}
    pixels = Pixels(selector.weights_.tolist(), selector.get_support().astype(int).tolist())
    return pixels._asdict() | {"rows": int(steps.seen[-1]), "means": means}


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
