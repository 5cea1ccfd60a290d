"""What is refused changes nothing, and what is not comparable is not compared."""

import copy

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.linear_model import SGDClassifier, SGDRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from fires import EFS, FIRES, FSDS, OFS, AllFeatures, OnlinePipeline
from fires.evaluation.loop import prequential
from fires.metrics.stability import stability
from fires.predictors import Perceptron, RiverPredictor
from fires.streams.arrays import from_arrays


def data(n=400, width=6, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, width)) * 10 + 5
    return X, (X[:, 1] + X[:, 4] > 10).astype(int)


def assert_same(one, two):
    np.testing.assert_array_equal(one.selector.weights_, two.selector.weights_)
    assert one.selector.n_samples_seen_ == two.selector.n_samples_seen_
    X, _ = data(50, seed=9)
    np.testing.assert_array_equal(one.predict(X), two.predict(X))
    np.testing.assert_array_equal(one.classes_, two.classes_)


@pytest.mark.parametrize("selector", [FIRES(2), AllFeatures(), FSDS(2)], ids=repr)
@pytest.mark.parametrize("predictor", [SGDClassifier(random_state=0), GaussianNB()], ids=repr)
def test_a_label_that_the_predictor_cannot_take_up_changes_nothing(selector, predictor):
    X, y = data()
    model = OnlinePipeline(copy.deepcopy(selector), copy.deepcopy(predictor))
    model.partial_fit(X[:100], y[:100])
    before = copy.deepcopy(model)
    stray = y[100:200].copy()
    stray[3] = 2
    with pytest.raises(ValueError, match="cannot add 2"):
        model.partial_fit(X[100:200], stray)
    assert_same(model, before)
    for either in (model, before):
        either.partial_fit(X[100:200], y[100:200])
    assert_same(model, before)


def test_a_first_batch_of_one_class_is_not_learnt_by_half():
    X, _ = data()
    model = OnlinePipeline(FIRES(2), SGDClassifier(random_state=0))
    with pytest.raises(ValueError, match="pass them as classes="):
        model.partial_fit(X[:50], np.zeros(50, dtype=int))
    assert not hasattr(model.selector, "n_samples_seen_")
    model.partial_fit(X[:50], np.zeros(50, dtype=int), classes=[0, 1])
    assert model.selector.n_samples_seen_ == 50


def test_weights_and_rows_that_the_predictor_refuses_change_nothing():
    X, y = data()
    model = OnlinePipeline(FIRES(2), Perceptron()).partial_fit(X[:100], y[:100])
    before = copy.deepcopy(model)
    with pytest.raises(ValueError, match="whole numbers"):
        model.partial_fit(X[100:200], y[100:200], sample_weight=np.full(100, 0.5))
    assert_same(model, before)
    with pytest.raises(ValueError, match="requires y"):
        OnlinePipeline(FSDS(2), Perceptron()).partial_fit(X)


def test_a_third_class_is_refused_for_a_binary_model_of_river():
    linear_model = pytest.importorskip("river.linear_model")
    X, y = data()
    model = OnlinePipeline(FIRES(2), RiverPredictor(linear_model.LogisticRegression()))
    model.partial_fit(X[:100], y[:100])
    seen = model.selector.weights_
    with pytest.raises(ValueError, match="tells two classes apart"):
        model.partial_fit(X[:100], np.arange(100) % 3)
    np.testing.assert_array_equal(model.selector.weights_, seen)
    model.partial_fit(X[100:200], y[100:200])


@pytest.mark.parametrize("preprocess", ["standard", "minmax"])
@pytest.mark.parametrize("kinds", [(np.asarray, sp.csr_array), (sp.csr_array, np.asarray)])
def test_rows_of_the_other_kind_are_the_same_rows(preprocess, kinds):
    X, y = data()
    X[X < 0] = 0.0
    first, other = kinds
    one, two = (OnlinePipeline(FIRES(3), GaussianNB(), preprocess) for _ in range(2))
    if first is sp.csr_array:
        one, two = (
            OnlinePipeline(FIRES(3), SGDClassifier(random_state=0), preprocess) for _ in range(2)
        )
    for model in (one, two):
        model.partial_fit(first(X[:200]), y[:200])
    two.partial_fit(other(X[200:300]), y[200:300])
    one.partial_fit(first(X[200:300]), y[200:300])
    np.testing.assert_array_equal(one.predict(first(X[300:])), two.predict(first(X[300:])))
    np.testing.assert_array_equal(one.predict(first(X[300:])), one.predict(other(X[300:])))
    np.testing.assert_allclose(one.selector.weights_, two.selector.weights_, rtol=1e-9)


def test_infinity_is_refused_when_predicting_too():
    X, y = data()
    model = OnlinePipeline(FIRES(2), Perceptron()).partial_fit(X, y)
    X[3, 2] = np.inf
    with pytest.raises(ValueError, match=r"infinity.*row 3, column 2"):
        model.predict(X)


def test_missing_entries_are_counted_and_refused_where_the_selector_refuses_them():
    X, y = data()
    X[5, 1] = X[7, 2] = np.nan
    model = OnlinePipeline(FIRES(2), Perceptron()).partial_fit(X, y)
    assert model.n_missing_ == 2
    strict = OnlinePipeline(FIRES(2, missing="error"), Perceptron())
    with pytest.raises(ValueError, match="contains NaN"):
        strict.partial_fit(X, y)


def test_a_selector_that_knows_names_gets_its_columns_in_order():
    X, y = data()
    frame = pd.DataFrame(X, columns=list("abcdef"))
    one = OnlinePipeline(FIRES(2).partial_fit(frame, y), Perceptron())
    two = OnlinePipeline(FIRES(2).partial_fit(frame, y), Perceptron())
    one.partial_fit(frame, y)
    two.partial_fit(frame[list("fedcba")], y)
    np.testing.assert_array_equal(one.selector.weights_, two.selector.weights_)
    np.testing.assert_array_equal(one.predict(frame), two.predict(frame[list("cbafed")]))


# --- prequential ----------------------------------------------------------------------------------


def test_batches_that_nothing_is_learnt_from_do_not_count_as_stable():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(4_000, 30)), rng.integers(0, 2, size=4_000).astype(float)
    y[(np.arange(4_000) // 50) % 8 != 0] = np.nan  # every eighth batch has labels
    steps = list(prequential(from_arrays(X, y), OFS(3), Perceptron(), batch_size=50))
    learnt = [step.selected for step in steps[::8]]
    masks = np.zeros((len(learnt), 30), dtype=bool)
    for row, chosen in zip(masks, learnt, strict=True):
        row[chosen] = True
    assert steps[-1].stability == pytest.approx(stability(masks[-10:]))
    assert steps[-1].stability == steps[-8].stability


class Bare:
    """A predictor that says no more than it has to."""

    def partial_fit(self, X, y):
        self.seen = np.unique(y)
        return self

    def predict(self, X):
        return np.full(X.shape[0], self.seen[-1])


def test_a_predictor_without_classes_is_scored_too():
    X, y = data()
    steps = list(prequential(from_arrays(X, y), AllFeatures(), Bare()))
    assert np.isnan(steps[0].scores["accuracy"])
    assert [step.scores["accuracy"] for step in steps[1:]] == [
        y[i : i + 100].mean() for i in (100, 200, 300)
    ]


def test_numbers_are_scored_by_scores_of_numbers():
    X, _ = data(1_000)
    target = 2.0 * StandardScaler().fit_transform(X)[:, 2] + 1.0
    model = SGDRegressor(random_state=0)
    run = prequential(from_arrays(X, target), FIRES(2), model, scores=("r2",))
    found = [step.scores["r2"] for step in run]
    assert np.isnan(found[0])
    assert found[-1] > 0.9


def test_what_is_not_defined_of_one_class_is_nan():
    X, y = data(600)
    y[200:300] = 0
    scores = ("roc_auc", "precision", "accuracy")
    steps = list(prequential(from_arrays(X, y), FIRES(2), GaussianNB(), scores=scores))
    assert np.isnan(steps[2].scores["roc_auc"])
    assert np.isfinite(steps[3].scores["roc_auc"])
    assert np.isfinite([step.scores["accuracy"] for step in steps[1:]]).all()


def test_mistakes_are_told_before_the_first_step():
    X, y = data()
    stream = from_arrays(X, y)
    with pytest.raises(ValueError, match="gives no probabilities"):
        prequential(stream, FIRES(2), Perceptron(), scores=("log_loss",))
    with pytest.raises(ValueError, match="order must be"):
        prequential(stream, FIRES(2), order="backwards")
    with pytest.raises(ValueError, match="label_delay"):
        prequential(stream, FIRES(2), label_delay=-1)
    assert len(list(prequential(stream, FIRES(2), label_delay=np.int64(1)))) == 4


def test_classes_can_be_announced():
    X, y = data()
    stream, model = from_arrays(X, np.sort(y)), SGDClassifier(random_state=0)
    with pytest.raises(ValueError, match="pass them as classes="):
        list(prequential(stream, FIRES(2), model))
    steps = list(prequential(stream, FIRES(2), model, classes=[0, 1]))
    assert len(steps) == 4


def test_f1_means_the_same_from_the_first_batch_on():
    X, _ = data(900)
    y = np.digitize(X[:, 1], [-5.0, 10.0])  # class 0 comes late
    y[:300] = np.maximum(y[:300], 1)
    stream = from_arrays(X, y, classes=(0, 1, 2))
    run = prequential(stream, AllFeatures(), Perceptron(), scores=("f1", "balanced_accuracy"))
    step = list(run)[1]
    assert step.scores["f1"] <= 1.0
    model = OnlinePipeline(AllFeatures(), Perceptron()).partial_fit(X[:100], y[:100])
    said, true = model.predict(X[100:200]), y[100:200]
    parts = [
        2 * ((said == k) & (true == k)).sum() / ((said == k).sum() + (true == k).sum())
        for k in (1, 2)
    ]
    assert step.scores["f1"] == pytest.approx(np.mean(parts))


def test_pandas_own_nothing_is_a_missing_label():
    X, y = data()
    labels = pd.Series(y).astype(object)
    labels[::3] = pd.NA
    steps = list(prequential(from_arrays(X, labels.to_numpy()), EFS(2), Perceptron()))
    assert np.isfinite([step.scores["accuracy"] for step in steps[1:]]).all()
