"""Scores of predictions: of a pipeline, and of plain predictors beside it that it should beat."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fires.core.batch import CheckedBatch
from fires.core.classes import Classes
from fires.metrics.numbers import NUMBER_SCORES
from fires.metrics.prediction import Counts, Scores
from fires.predictors import Majority, Mean, Predictor

_SURE = 2.0  # standard errors that make a difference of shares more than chance


def scored(totals: Scores, predictor: Any, batch: CheckedBatch, rows: Any) -> dict[str, float]:
    """Predict a batch, and score it.

    Parameters
    ----------
    totals : Scores
        Updated with the batch.
    predictor : predictor
        What has learnt from the batches before.
    batch : CheckedBatch
        With the labels.
    rows : ndarray or CSR matrix
        Its rows as the predictor sees them.

    Returns
    -------
    dict of str to float
        The scores of this batch alone.
    """
    assert batch.y is not None
    if totals.only_counts and isinstance(predictor, Predictor):
        book, truth = batch.labels(predictor.book)
        if book is predictor.book and totals.knows_no_other(book):
            return totals.count(book, truth, predictor.predict_codes(rows))
    predicted = predictor.predict(rows)
    if not totals.needs_probabilities:
        return totals.update(batch.y, predicted)
    shares = predictor.predict_proba(rows)
    return totals.update(batch.y, predicted, shares, predictor.classes_)


class Baseline:
    """A predictor beside a pipeline, tested on the same rows, which sees all features.

    Parameters
    ----------
    predictor : Predictor
        What predicts; it has learnt nothing yet.
    scores : Scores
        Updated with each batch that the pipeline is tested on.
    """

    def __init__(self, predictor: Predictor, scores: Scores) -> None:
        self.predictor, self.scores = predictor, scores
        self._has_learnt = False

    def test(self, batch: CheckedBatch) -> None:
        """Predict a batch, unless nothing was learnt before it.

        Parameters
        ----------
        batch : CheckedBatch
            Scaled rows with labels.
        """
        if self._has_learnt:
            scored(self.scores, self.predictor, batch, batch.X)

    def learn(self, batch: CheckedBatch, expected: Classes) -> None:
        """Learn from a batch.

        Parameters
        ----------
        batch : CheckedBatch
            Scaled rows with labels, of which there is at least one.
        expected : Classes
            The labels that the pipeline knows.
        """
        self.predictor.learn(batch, expected)
        self._has_learnt = True


def usual_baselines(predictor: Predictor, scores: Sequence[str]) -> dict[str, Baseline]:
    """What a selection should beat, and what it is measured by.

    Parameters
    ----------
    predictor : Predictor
        That of the pipeline.
    scores : sequence of str
        Names of built-in scores: of classes, or of numbers.

    Returns
    -------
    dict of str to Baseline
        ``"majority"`` says the most common class of the rows before; for numbers ``"mean"`` says
        their mean. ``"all"`` is a predictor of the same kind that sees all features.
    """
    numeric = not set(scores).isdisjoint(NUMBER_SCORES)
    blind: dict[str, Predictor] = {"mean": Mean()} if numeric else {"majority": Majority()}
    return {
        name: Baseline(one, Scores(scores))
        for name, one in (blind | {"all": predictor.fresh()}).items()
    }


def beats(ours: Scores, theirs: Scores) -> dict[str, bool]:
    r"""By which scores a predictor is better than another one on the same rows.

    Accuracy and balanced accuracy are weighted means of the shares :math:`r_k` of each class that
    were told right. Their difference must be more than chance: above twice

    .. math:: \sqrt{\sum_k w_k^2 \frac{r_k (1 - r_k) + r'_k (1 - r'_k)}{t_k}}

    with :math:`t_k` rows of class k, and the weights :math:`w_k = t_k / n` or 1 / K.

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
        if math.isnan(value) or math.isnan(other[name]):
            continue
        gain = other[name] - value if name == "mae" else value - other[name]
        margin = 0.0 if name in NUMBER_SCORES else _margin(ours.matrix, theirs.matrix, name)
        found[name] = gain > margin
    return found


def _margin(ours: Counts, theirs: Counts, name: str) -> float:
    rows = ours.sum(axis=1)
    known = rows > 0
    right = [np.diagonal(matrix)[known] / rows[known] for matrix in (ours, theirs)]
    rows = rows[known]
    weight = rows / rows.sum() if name == "accuracy" else 1.0 / len(rows)
    spread = sum(share * (1.0 - share) for share in right)
    return _SURE * math.sqrt(float((weight**2 * spread / rows).sum()))
