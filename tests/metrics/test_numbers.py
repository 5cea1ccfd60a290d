import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import mean_absolute_error, median_absolute_error, r2_score

from fires import FIRES
from fires.evaluation.loop import prequential
from fires.metrics import Scores
from fires.predictors import LinearRegressor
from fires.run.totals import RunTotals
from fires.streams import from_arrays

BOTH = ("r2", "mae")


def batches_of(seed, n_batches=4):
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        y = rng.normal(100.0, 10.0, rng.integers(2, 30))
        yield y, y + rng.normal(0.0, 3.0, len(y))


@given(seed=st.integers(0, 100))
def test_totals_are_those_of_all_rows_against_the_mean_known_before(seed):
    scores, truth, said, known = Scores(BOTH), [], [], []
    for y, predicted in batches_of(seed):
        mean = np.concatenate(truth).mean() if truth else y.mean()
        found = scores.update(y, predicted)
        squares = np.square(y - mean).sum()
        assert found["r2"] == pytest.approx(1.0 - np.square(y - predicted).sum() / squares)
        assert found["mae"] == pytest.approx(mean_absolute_error(y, predicted))
        if not truth:
            assert found["r2"] == pytest.approx(r2_score(y, predicted))
        for part, values in ((truth, y), (said, predicted), (known, np.full(len(y), mean))):
            part.append(values)
    y, predicted, mean = map(np.concatenate, (truth, said, known))
    r2 = 1.0 - np.square(y - predicted).sum() / np.square(y - mean).sum()
    assert scores.total == pytest.approx({"r2": r2, "mae": mean_absolute_error(y, predicted)})


@given(seed=st.integers(0, 20))
def test_a_state_goes_on_alike(seed):
    (first, *others), names = list(batches_of(seed)), ("mae", median_absolute_error, "r2")
    scores = Scores(names)
    scores.update(*first)
    again = Scores.from_state(scores.state(), names)
    for batch in others:
        assert again.update(*batch) == scores.update(*batch)
    assert again.total == scores.total
    assert list(scores.total) == ["mae", "median_absolute_error", "r2"]


def test_what_is_undefined_is_nan():
    scores = Scores(BOTH)
    assert np.isnan(list(scores.total.values())).all()
    assert np.isnan(list(scores.update(np.array([]), np.array([])).values())).all()
    constant = scores.update(np.array([2.0, 2.0]), np.array([2.0, 3.0]))
    assert np.isnan(constant["r2"])
    assert constant["mae"] == 0.5


def test_whole_numbers_are_numbers_too():
    scores = Scores(BOTH)
    found = scores.update(np.array([0, 2, 4]), np.array([1.0, 2.0, 4.0]))
    assert found == pytest.approx({"r2": 1.0 - 1.0 / 8.0, "mae": 1.0 / 3.0})
    assert scores.classes_ is None


@pytest.mark.parametrize("name", ["accuracy", "balanced_accuracy", "f1"])
def test_a_score_of_classes_refuses_numbers_in_one_line(name):
    fractions, labels = np.array([0.5, 1.0]), np.array([0, 1])
    for y, predicted, which in ((fractions, fractions, "y"), (labels, fractions, "predicted")):
        with pytest.raises(ValueError) as caught:
            Scores((name,)).update(y, predicted)
        assert str(caught.value) == (
            f"{which} holds numbers such as 0.5, and {name} is a score of classes; for numbers "
            "there are r2 and mae."
        )


def test_fractions_that_were_announced_are_labels():
    scores = Scores(("accuracy",), classes=[0.5, 1.5])
    assert scores.update(np.array([0.5, 1.5]), np.array([0.5, 0.5])) == {"accuracy": 0.5}


@pytest.mark.parametrize(
    ("y", "predicted", "words"),
    [
        (["a", "b"], ["a", "a"], "y holds labels such as 'a', and r2 and mae are scores of numb"),
        ([1.0, np.nan], [1.0, 1.0], "y holds a number that is not finite"),
        ([1.0, 2.0], [1.0, np.inf], "predicted holds a number that is not finite"),
    ],
)
def test_what_is_no_number_is_refused_and_leaves_no_trace(y, predicted, words):
    scores = Scores(BOTH)
    with pytest.raises(ValueError, match=words):
        scores.update(np.array(y), np.array(predicted))
    assert np.isnan(scores.total["mae"])


def linear_stream(n_rows=1_000):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 5))
    return from_arrays(X, 1e5 + 1e4 * X[:, 2] + 3e3 * rng.normal(size=n_rows))


def test_a_run_has_the_r2_of_all_rows_not_the_mean_over_batches():
    stream, whole, totals = linear_stream(), Scores(BOTH), RunTotals(5)
    totals.whole = whole
    steps = list(prequential(stream, FIRES(5), LinearRegressor(), scores=whole))
    for step in steps:
        totals.add(step)
    assert np.isnan(steps[0].scores["r2"])
    assert totals.scores == whole.total == totals.as_dict()["scores"]
    assert totals.scores["mae"] == pytest.approx(np.mean([s.scores["mae"] for s in steps[1:]]))
    assert totals.scores["r2"] != pytest.approx(np.mean([s.scores["r2"] for s in steps[1:]]))
    assert 0.6 < totals.scores["r2"] < 0.92


def test_accuracy_of_numbers_is_refused_before_anything_is_learnt():
    selector = FIRES(2)
    with pytest.raises(ValueError, match="accuracy is a score of classes; for numbers there are"):
        next(prequential(linear_stream(), selector, LinearRegressor()))
    assert not hasattr(selector, "n_features_in_")
