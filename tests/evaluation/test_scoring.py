"""Predictors beside the pipeline: the same rows, nothing known too early, and an honest verdict."""

import numpy as np
import pytest

from fires import FIRES, AllFeatures, OnlinePipeline
from fires.evaluation import prequential
from fires.evaluation.scoring import _shares, beats, usual_baselines
from fires.metrics import Scores
from fires.predictors import LinearRegressor, Perceptron
from fires.streams import KnownTruth, from_arrays

CLASSES, NUMBERS = ("accuracy", "balanced_accuracy"), ("r2", "mae")


def evaluated(stream, selector, predictor, names, **options):
    """The scores of the pipeline, and those of the baselines."""
    scores, beside = Scores(names), usual_baselines(predictor, names)
    list(prequential(stream, selector, predictor, scores=scores, baselines=beside, **options))
    return scores, {name: one.scores for name, one in beside.items()}


def rows_of(n_rows=1_000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 6))
    return X, X[:, 0] - X[:, 3] + rng.normal(size=n_rows)


@pytest.mark.parametrize("options", [{}, {"label_delay": 2}, {"preprocess": "minmax"}])
def test_all_features_are_those_of_a_pipeline_that_selects_all(options):
    stream = KnownTruth(2_000, n_features=8, n_relevant=2, random_state=1)
    _, beside = evaluated(stream, FIRES(2), Perceptron(), CLASSES, **options)
    whole, _ = evaluated(stream, AllFeatures(), Perceptron(), CLASSES, **options)
    assert beside["all"].total == whole.total
    np.testing.assert_array_equal(beside["all"].matrix, whole.matrix)


def test_so_it_is_for_numbers():
    stream = from_arrays(*rows_of())
    _, beside = evaluated(stream, FIRES(2), LinearRegressor(), NUMBERS)
    whole, _ = evaluated(stream, AllFeatures(), LinearRegressor(), NUMBERS)
    assert beside["all"].total == whole.total


def test_the_majority_is_that_of_the_batches_before():
    X, y = rows_of(500)
    labels = np.where(y > np.linspace(-1.0, 2.0, 500), "yes", "no")  # yes first, no later
    _, beside = evaluated(from_arrays(X, labels), FIRES(2), Perceptron(), CLASSES)
    said = []
    for start in range(100, 500, 100):
        seen = labels[:start].tolist()
        said += [max(["no", "yes"], key=seen.count)] * 100
    right = np.array(said) == labels[100:]
    assert beside["majority"].total["accuracy"] == right.mean()
    by_class = [right[labels[100:] == label].mean() for label in ("no", "yes")]
    assert beside["majority"].total["balanced_accuracy"] == pytest.approx(np.mean(by_class))


def test_the_mean_is_that_of_the_batches_before():
    X, y = rows_of(500)
    _, beside = evaluated(from_arrays(X, y), FIRES(2), LinearRegressor(), NUMBERS)
    said = np.concatenate([np.full(100, y[:start].mean()) for start in range(100, 500, 100)])
    assert beside["mean"].total["mae"] == pytest.approx(np.abs(y[100:] - said).mean())
    assert abs(beside["mean"].total["r2"]) < 0.05


def test_the_pipeline_does_not_notice_what_is_beside_it():
    stream = KnownTruth(1_500, n_features=8, n_relevant=2, random_state=0)
    alone, watched = (OnlinePipeline(FIRES(2), Perceptron()) for _ in range(2))
    list(prequential(stream, alone))
    list(prequential(stream, watched, baselines=usual_baselines(Perceptron(), CLASSES)))
    np.testing.assert_array_equal(alone.selector.weights_, watched.selector.weights_)
    np.testing.assert_array_equal(alone.predictor.coef_, watched.predictor.coef_)


def test_rows_without_a_label_are_nobody_s():
    X, y = rows_of(600)
    labels = np.where(y > 0, 1.0, 0.0)
    labels[::3] = np.nan
    scores, beside = evaluated([(X[:300], labels[:300]), (X[300:], labels[300:])], *PAIR)
    assert [one.matrix.sum() for one in (scores, *beside.values())] == [200, 200, 200]


PAIR = FIRES(2), Perceptron(), CLASSES


def test_a_pipeline_that_goes_on_has_fresh_ones_beside_it():
    X, y = rows_of(400)
    y = np.where(y > 0, 1, 0)
    pipeline = OnlinePipeline(FIRES(2), Perceptron()).partial_fit(X[:100], y[:100])
    scores, beside = Scores(CLASSES), usual_baselines(Perceptron(), CLASSES)
    rows = from_arrays(X[100:], y[100:])
    list(prequential(rows, pipeline, scores=scores, baselines=beside))
    assert scores.matrix.sum() == 300
    assert beside["all"].scores.matrix.sum() == 200  # the first batch is learnt from only


# The verdict


def scores_of(y, predicted, names=CLASSES):
    scores = Scores(names)
    scores.update(y, predicted)
    return scores


def test_what_is_better_by_chance_alone_is_seldom_called_better():
    rng, n_won = np.random.default_rng(0), 0
    for _ in range(400):
        y, guess = rng.integers(0, 2, size=(2, 500))
        n_won += beats(scores_of(y, guess), scores_of(y, 0 * y))["accuracy"]
    assert n_won <= 20


def test_a_true_difference_is_seen():
    y = np.tile([0, 1], 500)
    good = np.where(np.arange(1_000) % 3, y, 1 - y)
    assert beats(scores_of(y, good), scores_of(y, 0 * y)) == dict.fromkeys(CLASSES, True)


def test_of_a_rare_class_the_two_scores_may_disagree():
    y = np.repeat([0, 1], [970, 30])
    predicted = np.repeat([0, 1, 1], [920, 50, 30])
    found = beats(scores_of(y, predicted), scores_of(y, 0 * y))
    assert found == {"accuracy": False, "balanced_accuracy": True}


def test_numbers_are_better_where_r2_is_greater_and_the_error_less():
    y = np.arange(10.0)
    close, far = scores_of(y, y + 0.1, NUMBERS), scores_of(y, y + 3.0, NUMBERS)
    assert beats(close, far) == {"r2": True, "mae": True}
    assert beats(far, close) == {"r2": False, "mae": False}


def test_of_nothing_there_is_no_verdict():
    assert beats(Scores(CLASSES), Scores(CLASSES)) == {}


def test_a_label_that_only_one_of_them_said_does_no_harm():
    y = np.tile(["no", "yes"], 50)
    said = np.where(np.arange(100) < 90, y, "perhaps")
    assert beats(scores_of(y, said), scores_of(y, np.full(100, "no")))["accuracy"]


def test_a_class_that_occurs_once_counts_as_any_other():
    y = np.array([0] * 3 + [1] * 3 + [2])
    ours, theirs = scores_of(y, y), scores_of(y, np.zeros(7, dtype=int))
    rows, mine, other = _shares(ours.matrix, theirs.matrix)
    assert rows.tolist() == [3.0, 3.0, 1.0]
    assert (mine.tolist(), other.tolist()) == ([1.0, 1.0, 1.0], [1.0, 0.0, 0.0])
