"""The predictor of a pipeline whose columns come and go: each selected column has its slot."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB

import fires
from fires import FIRES, OnlinePipeline
from fires.core.errors import InputError
from fires.core.named import NamedRows
from fires.predictors import LinearRegressor, Perceptron


def batches(n_batches=60, n_rows=100, seed=0):
    """Of four columns at a time the first decides; every 15 batches, the first is replaced."""
    rng = np.random.default_rng(seed)
    for i in range(n_batches):
        names = [f"c{i // 15 + j}" for j in range(4)]
        X = rng.normal(size=(n_rows, 4))
        y = (X[:, 1] - X[:, 2] > 0).astype(int)
        yield NamedRows(X, names), y


def scores(pipeline, stream):
    found = []
    for X, y in stream:
        if pipeline.has_learnt:
            found.append(float((pipeline.predict(X) == y).mean()))
        pipeline.partial_fit(X, y, classes=[0, 1])
    return np.array(found)


@pytest.mark.parametrize(
    "predictor", [Perceptron(), GaussianNB(), SGDClassifier(loss="log_loss", random_state=0)]
)
def test_predictors_of_fixed_width_follow(predictor):
    pipeline = OnlinePipeline(FIRES(2, columns="open"), clone(predictor))
    found = scores(pipeline, batches())
    assert found[10:14].mean() > 0.8
    assert found[-5:].mean() > 0.7  # some never forget, and two columns have changed sides
    if hasattr(predictor, "predict_proba"):
        assert pipeline.predict_proba(next(batches())[0]).shape == (100, 2)
        assert pipeline.predictor.n_features_in_ == 64


@pytest.mark.parametrize("predictor", [LinearRegressor(), SGDRegressor(random_state=0)])
def test_numbers_are_predicted_too(predictor):
    pipeline = OnlinePipeline(FIRES(2, columns="open", model="gaussian"), predictor)
    rng = np.random.default_rng(0)
    for i in range(40):
        names = [f"c{i // 20 + j}" for j in range(4)]
        X = rng.normal(size=(100, 4))
        y = 2.0 * X[:, 1]
        if i % 20 == 19:
            assert np.corrcoef(pipeline.predict(NamedRows(X, names)), y)[0, 1] > 0.95
        pipeline.partial_fit(NamedRows(X, names), y)


def test_columns_that_never_change_are_as_good_as_fixed_ones():
    rng = np.random.default_rng(3)
    fixed = OnlinePipeline(FIRES(2), Perceptron())
    opened = OnlinePipeline(FIRES(2, columns="open"), Perceptron(), slots=6)
    for _ in range(20):
        X = rng.normal(size=(50, 6))
        y = np.where(X[:, 4] > X[:, 1], "up", "down")
        fixed.partial_fit(X, y)
        opened.partial_fit(NamedRows(X, list("abcdef")), y)
    X = rng.normal(size=(200, 6))
    # No slot was handed over, so both know the same: the order of a sum apart.
    assert (fixed.predict(X) == opened.predict(NamedRows(X, list("abcdef")))).mean() > 0.99


def test_a_slot_that_is_handed_over_is_learnt_anew():
    pipeline = OnlinePipeline(FIRES(1, columns="open"), Perceptron(), None, slots=1)
    rng = np.random.default_rng(0)
    for name in "ab":
        for _ in range(10):
            X = rng.normal(size=(50, 1))
            pipeline.partial_fit(NamedRows(X, [name]), X[:, 0] > 0)
    names = pipeline._step_.slots.names
    assert names == pipeline.selector.get_feature_names_out().tolist() == ["b"]


def test_too_few_slots_are_one_clear_error():
    for k, n_slots in ((5, 4), (80, 79)):
        pipeline = OnlinePipeline(FIRES(k, columns="open"), Perceptron(), slots=n_slots)
        with pytest.raises(InputError, match=f"{k} columns .* {n_slots} slots"):
            pipeline.partial_fit([{"a": 1.0}, {"a": 2.0}], [0, 1])
    pipeline = OnlinePipeline(FIRES(0.5, columns="open"), Perceptron(), slots=1)
    rows = [{name: float(i) for name in "abcd"} for i in range(3)]
    with pytest.raises(InputError, match=r"2 columns are selected, and the predictor has 1 slots"):
        pipeline.partial_fit(rows, [0, 1, 1])
    with pytest.raises(ValueError, match="slots must be a positive integer"):
        OnlinePipeline(FIRES(1, columns="open"), Perceptron(), slots=0).start()
    OnlinePipeline(FIRES(5), Perceptron(), slots=2).start()  # nothing to do with fixed columns


@pytest.mark.parametrize("predictor", [Perceptron(), GaussianNB()])
def test_saved_and_loaded_it_predicts_and_goes_on(tmp_path, predictor):
    stream = list(batches(40))
    whole, half = (
        OnlinePipeline(FIRES(2, columns="open", forget_after=500), clone(predictor), slots=5)
        for _ in range(2)
    )
    for X, y in stream:
        whole.partial_fit(X, y)
    for X, y in stream[:25]:
        half.partial_fit(X, y)
    half.save(tmp_path / "half.fires")
    ours = isinstance(predictor, Perceptron)
    again = fires.load(tmp_path / "half.fires", predictor=None if ours else clone(predictor))
    assert_array_equal(again.predict(stream[25][0]), half.predict(stream[25][0]))
    for X, y in stream[25:]:
        again.partial_fit(X, y)
    assert_array_equal(again.predict(stream[-1][0]), whole.predict(stream[-1][0]))
    assert again.slots == 5


def test_words_are_shown_to_the_predictor():
    rng = np.random.default_rng(0)
    pipeline = OnlinePipeline(FIRES(2, columns="open", absent="zero"), Perceptron())
    for _ in range(30):
        rows, y = [], []
        for _ in range(50):
            said = rng.choice(["w0", "w1", "w2", "w3", "w4"], 2, replace=False)
            rows.append(dict.fromkeys(map(str, said), 1.0))
            y.append("w1" in said)
        right = pipeline.predict(rows) == y if pipeline.has_learnt else [False]
        pipeline.partial_fit(rows, y)
    assert np.mean(right) > 0.9


def test_words_reach_an_estimator_of_scikit_learn():
    # It refuses sparse rows with 64-bit places.
    rng = np.random.default_rng(0)
    rows = [dict.fromkeys(rng.choice(list("abcdef"), 3).tolist(), 1.0) for _ in range(200)]
    y = np.array(["a" in row for row in rows])
    selector = FIRES(2, columns="open", absent="zero")
    model = OnlinePipeline(selector, SGDClassifier(random_state=0)).partial_fit(rows, y)
    assert (model.predict(rows) == y).mean() > 0.9


def test_a_growing_range_changes_nothing_behind_slots():
    """Selector and predictor standardise: the units of the pipeline must not matter to them."""
    rng, found = np.random.default_rng(0), []
    X = rng.standard_t(2, size=(1500, 5)) * np.array([1.0, 100.0, 1.0, 0.01, 1.0]) + 5.0
    y = X[:, 1] / 100.0 - X[:, 4] + rng.normal(size=1500) > -5.0
    for preprocess in (None, "minmax"):
        pipeline = OnlinePipeline(FIRES(5, columns="open"), preprocess=preprocess)
        proba = []
        for start in range(0, 1500, 50):
            rows = slice(start, start + 50)
            frame = NamedRows(X[rows], list("ebdac"))
            if start:
                proba.append(pipeline.predict_proba(frame))
            pipeline.partial_fit(frame, y[rows])
        found.append(np.concatenate(proba))
    assert_allclose(found[1], found[0], rtol=1e-6, atol=1e-9)
