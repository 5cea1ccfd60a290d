"""What it costs to look: the loop of an evaluation, and the running scores of 100 rows.

The loop is :func:`fires.evaluation.prequential` over a selector that selects everything and a
predictor that does nothing, without scores: what is left is handing out batches, checking them,
keeping order, the stability and the records. It is held against one step of scikit-learn's
Perceptron on the same rows.

Scores are those of :class:`fires.metrics.Scores`, all of what ``update`` does: labels of any kind
found among the classes, the confusion matrix, and the scores of the batch. They and scikit-learn's
are checked to be the same numbers. That figure is in microseconds, and so depends on the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.linear_model import Perceptron
from sklearn.metrics import accuracy_score, balanced_accuracy_score, f1_score

from benchmarks.timing import Ratio, Row, show, shown, take_turns
from fires import FIRES, AllFeatures
from fires.evaluation.loop import prequential
from fires.metrics import Scores
from fires.predictors import Perceptron as Ours
from fires.streams import from_arrays

N_FEATURES, N_STEPS, SHARE = 500, 64, 0.1
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


class Everything(AllFeatures):
    """Selects everything, so that nothing is masked, and looks at its first batch only."""

    def learn(self, batch: Any) -> Any:
        """Learn the width of the first batch."""
        if not hasattr(self, "n_samples_seen_"):
            super().learn(batch)
        return self


class Nothing:
    """A predictor that costs nothing."""

    classes_ = np.arange(2)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Nothing."""
        return self

    def predict(self, X: Any) -> Any:
        """Not called: nothing is scored."""
        raise NotImplementedError("Nothing is scored, so nothing is predicted.")


def measure_loop() -> list[Row]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_STEPS * N_ROWS, N_FEATURES))
    y = (X[:, 0] > X[:, 1]).astype(int)
    stream, perceptron = from_arrays(X, y, classes=(0, 1)), Perceptron()

    def theirs(_: int) -> None:
        for batch in stream.batches(N_ROWS):
            perceptron.partial_fit(batch.X, batch.y, classes=(0, 1))

    def loop(preprocess: str | None) -> Callable[[int], int]:
        def evaluate(_: int) -> int:
            steps = prequential(stream, Everything(), Nothing(), scores=(), preprocess=preprocess)
            return sum(1 for _ in steps)

        return evaluate

    things = {"their step": theirs, "loop": loop(None), "scaling": loop("standard")}
    assert loop(None)(0) == loop("standard")(0) == N_STEPS
    seconds = take_turns(things, rounds=30)
    step, plain, scaling = (taken / N_STEPS for taken in seconds.values())
    size = f"J = {N_FEATURES}"
    share = float(plain.min() / step.min())
    figure = (f"< {SHARE:g}", share < SHARE)
    return [
        Row("scikit-learn's Perceptron, a step", size, shown(step), "1"),
        Row("the loop alone", size, shown(plain), Ratio.of(plain, step), *figure),
        Row("the loop, standardising", size, shown(scaling), Ratio.of(scaling, step)),
    ]


def measure_fires() -> list[Row]:
    """The whole of an evaluation at 50 features, beside its parts."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_STEPS * N_ROWS, 50))
    y = (X[:, 3] - X[:, 7] + rng.normal(size=len(X)) > 0).astype(int)
    stream = from_arrays(X, y)
    parts = [(batch.X, batch.y) for batch in stream.batches(N_ROWS)]

    def selecting(_: int) -> None:
        selector = FIRES(10)
        for batch in parts:
            selector.partial_fit(*batch).get_support(indices=True)

    def evaluating(_: int) -> None:
        for _step in prequential(stream, FIRES(10), Ours()):
            pass

    seconds = take_turns({"select": selecting, "evaluate": evaluating}, rounds=30)
    select, evaluate = (taken / N_STEPS for taken in seconds.values())
    return [
        Row("FIRES, partial_fit and get_support", "J = 50", shown(select), "1"),
        Row("prequential with a Perceptron", "J = 50", shown(evaluate), Ratio.of(evaluate, select)),
    ]


def main() -> list[Row]:
    loop = show(f"harness: its time over that of a step, batches of {N_ROWS}", measure_loop())
    loop += show(f"harness: an evaluation over its selector, batches of {N_ROWS}", measure_fires())
    rows = [row for size, classes in LABELS.items() for row in measure(size, classes)]
    return loop + show(f"harness: scikit-learn's time over ours, scores of {N_ROWS} rows", rows)
