"""The paper's grid search for FIRES, on any data set."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from fires.bench.cells import METHODS, TEST_THEN_TRAIN, Cell, kept_dataset, means_of, run_of
from fires.bench.tables import TextTable, number
from fires.bench.worker import Record
from fires.core.classes import has_fractions
from fires.core.errors import InputError
from fires.evaluation.records import number_or_none
from fires.metrics.prediction import Scores
from fires.predictors import LinearRegressor, Perceptron
from fires.streams.base import Batch, Stream
from fires.streams.files import from_file

TRIALS = "trials.jsonl"
LEARNING_RATES = (0.01, 0.025, 0.1, 1.0, 10.0)
UNCERTAINTY_PENALTIES = tuple(10.0**power for power in range(-4, 5))
PAPER_S_CHOICE = 0.01, 0.01
ABOUT = (
    "trade-off: the harmonic mean 2 a s / (a + s) of {score} a and stability s, 0 where one of "
    "them is not above 0. weight_penalty (lambda_r) is not searched: it scales all weights alike, "
    "and never changes which features are selected."
)


@dataclass(frozen=True)
class Trial(Cell):
    """One point of the grid."""

    method: str = "FIRES-GLM"
    batch_size: int = 100
    fraction: float | None = 0.1
    protocol: str = TEST_THEN_TRAIN
    learning_rate: float = 0.01
    uncertainty_penalty: float = 0.01
    target: str | None = None
    content: str | None = None
    numeric: bool = False

    def __str__(self) -> str:
        rates = f"rate {self.learning_rate:g}, uncertainty penalty {self.uncertainty_penalty:g}"
        return f"{self.dataset}, {rates}"


def grid(dataset: str, target: str | None = None, **settings: Any) -> list[Trial]:
    """All trials of the paper's search: 5 learning rates and 9 uncertainty penalties."""
    if target is not None and settings.get("protocol", TEST_THEN_TRAIN) != TEST_THEN_TRAIN:
        raise InputError("a file is not looked at as a whole beforehand: its protocol is honest")
    content = None if target is None else _digest(Path(dataset))
    whole = Trial(dataset, target=target, content=content, **settings)
    pairs = product(LEARNING_RATES, UNCERTAINTY_PENALTIES)
    return [
        replace(whole, learning_rate=rate, uncertainty_penalty=penalty) for rate, penalty in pairs
    ]


def run(trial: Trial) -> Record:
    """Evaluate FIRES-GLM with the settings of one trial; JSON values."""
    selector = METHODS[trial.method].selector(trial)
    selector.set_params(
        model="gaussian" if trial.numeric else "probit",
        learning_rate=trial.learning_rate,
        uncertainty_penalty=trial.uncertainty_penalty,
    )
    stream: Stream
    if trial.target is None:
        stream = data = kept_dataset(*trial.data)
        more = {"complete": data.complete}
    else:
        stream, more = _beginning(trial.dataset, trial.target, trial.n_rows), {}
    score, predictor = ("r2", LinearRegressor()) if trial.numeric else ("accuracy", Perceptron())
    scores = Scores((score,))
    done = run_of(stream, selector, predictor, trial.batch_size, trial.protocol, scores)
    found = means_of(done)
    if trial.numeric:  # which has no mean over batches
        total = None if done.diverged_at is not None else number_or_none(scores.total["r2"])
        found = {"r2": total, "stability": found["stability"], "steps": found["steps"]}
    return found | more | {"trade_off": trade_off(found[score], found["stability"])}


def check_file(path: str, target: str, n_rows: int | None = None) -> bool:
    """Raise if a file cannot be read, has no such column, or neither classes nor numbers in it.

    All rows that will be used are read: it is one line then, and not one for each trial.
    """
    learnt = getattr(from_file(path, target), "target", None)  # svmlight has none to speak of
    numeric = learnt is not None and learnt.is_numeric
    for batch in _beginning(path, target, n_rows).batches(100):
        numeric = numeric or has_fractions(batch.y)
    return numeric


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def trade_off(accuracy: float | None, stability: float | None) -> float | None:
    r"""How good accuracy a, or R2, and stability s are together: :math:`2 a s / (a + s)`.

    The paper only says that it "maximized the tradeoff"; this is ours.
    """
    if accuracy is None or stability is None:
        return None
    if accuracy <= 0.0 or stability <= 0.0:
        return 0.0
    return 2.0 * accuracy * stability / (accuracy + stability)


def table(records: Sequence[Record]) -> TextTable:
    """All trials, the best trade-off first; equally good ones by their settings."""
    score = "r2" if any(record.get("numeric") for record in records) else "accuracy"
    rows = {}
    for record in records:
        choice, value = (
            (record["learning_rate"], record["uncertainty_penalty"]),
            record.get("trade_off"),
        )
        numbers = (number(record.get(name), ".3f") for name in (score, "stability", "trade_off"))
        note = "paper" if choice == PAPER_S_CHOICE else record.get("error", "")
        rows[math.inf if value is None else -value, choice] = [
            *(f"{value:g}" for value in choice),
            *numbers,
            note,
        ]
    title = "R2" if score == "r2" else score
    columns = ["learning rate", "uncertainty penalty", title, "stability", "trade-off", ""]
    return TextTable(columns, [rows[place] for place in sorted(rows)], "rrrrrr")


def _beginning(path: str, target: str, n_rows: int | None) -> Stream:
    stream = from_file(path, target)
    return stream if n_rows is None else _Beginning(stream, n_rows)


class _Beginning:
    """The first rows of a stream, up to the batch in which there are enough of them."""

    def __init__(self, stream: Stream, n_rows: int) -> None:
        self._stream, self._n_rows, self.schema = stream, n_rows, stream.schema

    def batches(self, batch_size: int) -> Iterator[Batch]:
        for batch in self._stream.batches(batch_size):
            yield batch
            if batch.position.rows >= self._n_rows:
                return
