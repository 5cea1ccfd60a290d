"""Scores of predictions: of a pipeline, and of plain predictors beside it that it should beat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.classes import Classes
from fires.core.state import Arrays, State, part_of, under
from fires.core.types import Floats, Matrix
from fires.kernels.select import filled
from fires.metrics.prediction import NUMBER_SCORES, Counts, Scores
from fires.predictors import Majority, Mean, Predictor
from fires.predictors.step import predictor_from_state, predictor_state

_SURE = 2.0  # standard errors that make a difference of shares more than chance


def scored(totals: Scores, predictor: Any, batch: CheckedBatch, rows: Matrix) -> dict[str, float]:
    """Predict a batch, and score it."""
    assert batch.y is not None
    if totals.only_counts and isinstance(predictor, Predictor):
        known = predictor.label_index
        label_index, truth = batch.labels(known)
        if label_index is known and totals.knows_no_other(label_index):
            return totals.count(label_index, truth, predictor.predict_codes(rows))
    predicted = predictor.predict(rows)
    if not totals.needs_probabilities:
        return totals.update(batch.y, predicted)
    shares = predictor.predict_proba(rows)
    return totals.update(batch.y, predicted, shares, predictor.classes_)


class Baseline:
    """A predictor beside a pipeline, tested on the same rows, which sees all features."""

    def __init__(self, predictor: Predictor | None, scores: Scores) -> None:
        self.predictor, self.scores = predictor, scores
        self.latest = dict.fromkeys(scores.names, math.nan)
        self.has_learnt = False

    def test(self, batch: CheckedBatch) -> None:
        """Predict a batch, unless nothing was learnt before it."""
        if self.has_learnt and self.predictor is not None:
            rows = _without_gaps(batch, self.predictor).X
            self.latest = scored(self.scores, self.predictor, batch, rows)

    def learn(self, batch: CheckedBatch, expected: Classes) -> None:
        """Learn from a batch."""
        if self.predictor is not None:
            self.predictor.learn(_without_gaps(batch, self.predictor), expected)
            self.has_learnt = True

    def saved(self) -> State:
        """Everything there is to save."""
        header, learnt = (None, {}) if self.predictor is None else predictor_state(self.predictor)
        arrays = under("predictor", learnt) | under("scores", self.scores.state())
        return {"predictor": header, "has_learnt": self.has_learnt, "latest": self.latest}, arrays

    @classmethod
    def from_saved(cls, header: dict[str, Any], arrays: Arrays, names: Sequence[str]) -> Baseline:
        """The baseline that gave this :meth:`saved`."""
        learnt = part_of("predictor", arrays)
        saved = header["predictor"]
        predictor = saved and predictor_from_state(saved, learnt, None, "the run")
        baseline = cls(predictor, Scores.from_state(part_of("scores", arrays), names))
        baseline.has_learnt, baseline.latest = bool(header["has_learnt"]), header["latest"]
        return baseline


def _without_gaps(batch: CheckedBatch, predictor: Predictor) -> CheckedBatch:
    """The rows as a predictor takes them; a pipeline without a scale has not filled them."""
    return batch.with_rows(filled(batch.X, predictor.fill)) if batch.n_missing else batch


def usual_baselines(
    predictor: Predictor | None, scores: Sequence[str], *, see_all: bool = True
) -> dict[str, Baseline]:
    """What a selection should beat, and what it is measured by.

    Parameters
    ----------
    predictor : Predictor or None
        That of the pipeline; None if the belief of the selector predicts.
    scores : sequence of str
        Names of built-in scores: of classes, or of numbers.
    see_all : bool
        Whether one sees all features. It cannot where columns come and go.

    Returns
    -------
    dict of str to Baseline
        ``"majority"`` says the most common class of the rows before; for numbers ``"mean"`` says
        their mean. ``"all"`` is a predictor of the same kind that sees all features.
    """
    numeric = not set(scores).isdisjoint(NUMBER_SCORES)
    blind: dict[str, Predictor] = {"mean": Mean()} if numeric else {"majority": Majority()}
    others = {"all": predictor and predictor.fresh()} if see_all else {}
    return {name: Baseline(one, Scores(scores)) for name, one in (blind | others).items()}


def beats(ours: Scores, theirs: Scores) -> dict[str, bool]:
    r"""By which scores a predictor is better than another one on the same rows.

    Accuracy and balanced accuracy must differ by more than chance: by twice their standard error.
    With the share :math:`r_k` that is told right of the :math:`t_k` rows of class k, and
    :math:`r'_k` of the other predictor, the difference :math:`d` of the accuracies in n rows has
    the variance

    .. math:: \frac1n \Bigl(\sum_k \frac{t_k}{n} \bigl(r_k (1 - r'_k) + r'_k (1 - r_k)\bigr)
        - d^2\Bigr)

    if the two are right independently of each other within a class, as they are where one of them
    says the same of all rows. For K classes, that of the balanced accuracies is

    .. math:: \frac1{K^2} \sum_k \frac{r_k (1 - r_k) + r'_k (1 - r'_k)}{t_k}

    Parameters
    ----------
    ours, theirs : Scores
        Accuracy, balanced accuracy, r2 or mae, of the same rows.

    Returns
    -------
    dict of str to bool
        One for each score that is defined.

    Examples
    --------
    >>> y = np.repeat([0, 1], [90, 10])
    >>> ours, theirs = (Scores(("accuracy", "balanced_accuracy")) for _ in range(2))
    >>> _ = ours.update(y, np.repeat([0, 1, 1], [80, 10, 10])), theirs.update(y, 0 * y)
    >>> beats(ours, theirs)
    {'accuracy': False, 'balanced_accuracy': True}
    """
    mine, other = ours.total, theirs.total
    found = {}
    for name, value in mine.items():
        if not (math.isnan(value) or math.isnan(other[name])):
            gain = other[name] - value if name == "mae" else value - other[name]
            found[name] = gain > _SURE * math.sqrt(_variance(name, ours.matrix, theirs.matrix))
    return found


def _variance(name: str, ours: Counts, theirs: Counts) -> float:
    """That of the difference of a score by chance; 0 of one that does not count classes."""
    if name not in ("accuracy", "balanced_accuracy"):
        return 0.0
    rows, mine, other = _shares(ours, theirs)
    if name == "balanced_accuracy":
        spread = mine * (1.0 - mine) + other * (1.0 - other)
        return float((spread / rows).sum()) / len(rows) ** 2
    share, n = rows / rows.sum(), float(rows.sum())
    differ = (share * (mine * (1.0 - other) + other * (1.0 - mine))).sum()
    return max(float(differ - (share * (mine - other)).sum() ** 2) / n, 0.0)


def _shares(ours: Counts, theirs: Counts) -> tuple[Floats, Floats, Floats]:
    """The rows of each class that occurs, and the shares of them that are told right."""
    # One of the two may know labels, by having said them, that the other does not.
    both = [(np.diagonal(matrix), matrix.sum(axis=1)) for matrix in (ours, theirs)]
    mine, other = (right[rows > 0] / rows[rows > 0] for right, rows in both)
    _, rows = both[0]
    return rows[rows > 0].astype(np.float64), mine, other
