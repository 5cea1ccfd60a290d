"""What it costs to look: the running scores of a batch of 100 rows, against scikit-learn's.

Ours are those of :class:`fires.metrics.Scores`, all of what ``update`` does: labels of any kind
found among the classes, the confusion matrix, and the scores of the batch. Both are checked to
give the same numbers. The figure is in microseconds, and so depends on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires.metrics import Scores

N_ROWS, N_BATCHES, ASKED = 100, 16, 50e-6
NAMES = ("accuracy", "balanced_accuracy", "f1")
LABELS: dict[str, Any] = {
    "2 classes, integers": np.arange(2),
    "2 classes, text": np.array(["ham", "spam"]),
    "10 classes, integers": np.arange(10),
    "10 classes, text": np.array([f"class {k}" for k in range(10)]),
}

Batch = tuple[Any, Any]


def batches(classes: Any) -> list[Batch]:
    """Labels, and predictions of which two thirds are right; every class is in every batch."""
    rng = np.random.default_rng(len(classes))
    out = []
    for _ in range(N_BATCHES):
        y = rng.permutation(np.arange(N_ROWS) % len(classes))
        wrong = rng.random(N_ROWS) < 1 / 3
        out.append((classes[y], classes[(y + wrong) % len(classes)]))
    return out


def theirs(classes: Any) -> Callable[[Any, Any], list[float]]:
    options = (
        {"pos_label": classes[-1]} if len(classes) == 2 else {"average": "macro", "labels": classes}
    )
    return lambda y, predicted: [
        float(accuracy_score(y, predicted)),
        float(balanced_accuracy_score(y, predicted)),
        float(f1_score(y, predicted, **options)),
    ]


def measure(size: str, classes: Any) -> list[Row]:
    data, reference = batches(classes), theirs(classes)
    scores, one = Scores(NAMES), Scores(("accuracy",))
    for y, predicted in data:
        np.testing.assert_allclose(
            list(scores.update(y, predicted).values()), reference(y, predicted), rtol=1e-12
        )
        one.update(y, predicted)
    things: dict[str, Callable[[int], object]] = {
        "scikit-learn, all three": lambda i: reference(*data[i % N_BATCHES]),
        "ours, accuracy alone": lambda i: one.update(*data[i % N_BATCHES]),
        "ours, all three": lambda i: scores.update(*data[i % N_BATCHES]),
    }
    seconds = take_turns(things, rounds=60, calls=N_BATCHES)
    slow, single, ours = seconds.values()
    figure = (f"< {ASKED * 1e6:g} us", bool(ours.min() < ASKED))
    return [
        Row("scikit-learn, all three", size, shown(slow), "1"),
        Row("ours, accuracy alone", size, shown(single), Ratio.of(slow, single)),
        Row("ours, all three", size, shown(ours), Ratio.of(slow, ours), *figure),
    ]


def main() -> list[Row]:
    rows = [row for size, classes in LABELS.items() for row in measure(size, classes)]
    return show(f"harness: scikit-learn's time over ours, scores of {N_ROWS} rows", rows)
