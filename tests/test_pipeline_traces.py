"""What a pipeline must not leave behind, mix up or take for learnt."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import SGDClassifier

import fires
from fires import FIRES, OFS, OnlinePipeline
from fires.core.errors import StateError
from fires.core.state import read_state, write_state
from fires.evaluation import prequential
from fires.predictors import Perceptron
from fires.streams import from_arrays

RNG = np.random.default_rng(0)
X = RNG.normal(size=(100, 6))
y = (X[:, 0] > 0).astype(int)


def refused(model, *batch, **more):
    with pytest.raises(ValueError):
        model.partial_fit(*batch, **more)


def test_a_refused_first_frame_leaves_no_names():
    model = OnlinePipeline(FIRES(2), Perceptron())
    refused(model, pd.DataFrame(X, columns=list("abcdef")), [np.nan] * 100)
    model.partial_fit(pd.DataFrame(X, columns=list("uvwxyz")), y)
    assert list(model.selector.feature_names_in_) == list("uvwxyz")


@pytest.mark.parametrize(
    ("selector", "target"), [(FIRES(2, model="probit"), y + 0.5), (OFS(2), np.arange(100) % 4)]
)
def test_a_refused_first_batch_leaves_no_width(selector, target):
    model = OnlinePipeline(selector)
    refused(model, X, target)
    model.partial_fit(X[:, :3], y)
    assert model.n_features_in_ == selector.n_features_in_ == 3


def test_a_batch_that_the_loop_refuses_leaves_nothing():
    model = OnlinePipeline(FIRES(2), Perceptron())
    with pytest.raises(ValueError):
        list(prequential([(X, y[:99])], model))
    assert not model.has_learnt
    model.partial_fit(X[:, :3], y)


def test_labels_that_a_selector_knows_are_not_left_with_the_predictor():
    text, predictor = np.where(y, "a", "b"), Perceptron()
    model = OnlinePipeline(FIRES(2).partial_fit(X, text), predictor)
    refused(model, X, text, sample_weight=[0.5] * 100)
    predictor.partial_fit(X, y)
    assert_array_equal(predictor.classes_, [0, 1])


@pytest.mark.parametrize("predictor", [Perceptron, SGDClassifier])
def test_a_fitted_selector_may_start_with_a_fresh_predictor(predictor):
    selector = FIRES(2).partial_fit(X, y)
    steps = list(prequential([(X, y)] * 3, selector, predictor(), order="as-published"))
    assert np.isnan(steps[0].scores["accuracy"])
    assert not np.isnan(steps[1].scores["accuracy"])


def test_y_is_asked_for_without_a_predictor_too():
    with pytest.raises(ValueError, match="FIRES requires y to be passed"):
        OnlinePipeline(FIRES(2)).partial_fit(X)


def test_another_predictor_is_the_one_that_learns():
    model, other = OnlinePipeline(FIRES(2), Perceptron()).partial_fit(X, y), Perceptron()
    assert not model.set_params(predictor=other).can_predict
    model.partial_fit(X, y)
    assert hasattr(other, "coef_")


def test_the_scale_of_a_pipeline_that_has_learnt_stays():
    model = OnlinePipeline(FIRES(2), Perceptron()).partial_fit(X, y)
    with pytest.raises(ValueError, match="preprocess was 'standard' when this pipeline began"):
        model.set_params(preprocess="minmax").partial_fit(X, y)


def test_a_clone_has_learnt_nothing():
    again = clone(OnlinePipeline(FIRES(2), Perceptron()).partial_fit(X, y))
    assert not hasattr(again.predictor, "coef_")
    assert not again.has_learnt
    assert not again.can_predict
    tree = pytest.importorskip("river.tree")
    model = OnlinePipeline(FIRES(2), tree.HoeffdingTreeClassifier()).partial_fit(X, y)
    assert clone(model).predictor.n_nodes in (0, None)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_estimator_of_either_precision_is_saved_and_loaded(dtype, tmp_path):
    model = OnlinePipeline(FIRES(9), SGDClassifier(random_state=0), None)
    model.partial_fit(X.astype(dtype), y).save(tmp_path / "model")
    loaded = fires.load(tmp_path / "model", predictor=SGDClassifier(random_state=0))
    assert_array_equal(loaded.predict(X), model.predict(X))


def test_a_list_with_a_missing_label_has_no_class_of_that_name():
    labels, selector = ["a" if one else "b" for one in y], FIRES(2)
    labels[3] = float("nan")
    list(prequential([(X, labels)] * 2, selector, Perceptron()))
    assert_array_equal(selector.classes_, ["a", "b"])


def test_columns_in_another_order_than_learnt_are_refused_where_they_cannot_be_put_right():
    frame = pd.DataFrame(X, columns=list("abcdef"))
    selector = FIRES(1).partial_fit(frame[list("fedcba")], y)
    with pytest.raises(ValueError, match="restore the learnt order"):
        prequential(from_arrays(frame, y), OnlinePipeline(selector, Perceptron()))
    with pytest.raises(ValueError, match="they cannot be named"):
        OnlinePipeline(selector).name_features(list("abcdef"))
    model = OnlinePipeline(selector, Perceptron())
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.partial_fit(frame[list("fedcba")].to_numpy(), y)
    expected = model.predict(frame[list("fedcba")])
    assert_array_equal(model.predict(frame), expected)


def test_a_pipeline_that_has_learnt_is_tested_from_the_first_batch_on():
    model = OnlinePipeline(FIRES(2), Perceptron()).partial_fit(X, y)
    steps = list(prequential([(X, y)] * 2, model))
    assert not np.isnan(steps[0].scores["accuracy"])
    assert not OnlinePipeline(FIRES(2), Perceptron()).can_predict
    late = list(prequential([(X, y)] * 3, model, label_delay=1))
    assert len(late[0].selected) == 2


def test_a_pipeline_that_has_seen_rows_without_labels_only_may_go_on():
    model = OnlinePipeline(FIRES(2), Perceptron())
    list(prequential([(X, y)], model, label_delay=1))  # the labels never come
    assert not model.has_learnt
    steps = list(prequential([(X, y)] * 2, model))
    assert np.isnan(steps[0].scores["accuracy"])
    assert not np.isnan(steps[1].scores["accuracy"])


def test_a_clone_is_of_the_same_class():
    class Mine(OnlinePipeline):
        pass

    assert type(clone(Mine(FIRES(2), Perceptron()))) is Mine


def test_rows_that_wait_for_their_labels_are_kept_apart():
    """A source may fill the same array again."""
    rng, buffer = np.random.default_rng(1), np.empty((50, 6))
    batches = [(rng.normal(size=(50, 6)), np.arange(50) % 2) for _ in range(4)]

    def refilled():
        for rows, labels in batches:
            buffer[:] = rows
            yield buffer, labels

    weights = []
    for source in (batches, refilled()):
        selector = FIRES(6)
        list(prequential(source, selector, Perceptron(), preprocess=None, label_delay=1))
        weights.append(selector.weights_)
    assert_array_equal(*weights)


def test_a_scale_that_would_overflow_is_refused():
    weight, huge = np.full(100, 1e15), X.copy()
    huge[:, 0] *= 1e149
    for rows in (huge, np.asfortranarray(huge)):
        # The gradient update counts weights as they come.
        refused(
            OnlinePipeline(FIRES(2, update="gradient"), None, None), rows, y, sample_weight=weight
        )
        # A constant weight changes nothing: the same rows are learnt without it.
        found = [
            OnlinePipeline(FIRES(2)).partial_fit(rows, y, sample_weight=w).selector.importances_
            for w in (weight, None)
        ]
        assert_array_equal(*found)


def test_rows_of_another_width_do_not_lead_out_of_the_coefficients():
    model = Perceptron().partial_fit(X, y)
    with pytest.raises(ValueError, match="X has 50 features, but this Perceptron has learnt 6"):
        model.partial_fit(np.ones((100, 50)), y)


def test_a_pipeline_whose_parts_do_not_fit_together_is_refused(tmp_path):
    frame = pd.DataFrame(X, columns=list("abcdef"))
    OnlinePipeline(FIRES(2), Perceptron()).partial_fit(frame, y).save(tmp_path / "model")
    header, arrays = read_state(tmp_path / "model")
    write_state(tmp_path / "names", header | {"feature_names": ["a"]}, arrays)
    with pytest.raises(StateError, match="6 features have names of shape"):
        fires.load(tmp_path / "names")
    arrays["predictor.coef"] = arrays["predictor.coef"][:, :1].copy()
    write_state(tmp_path / "narrow", header, arrays)
    with pytest.raises(StateError, match="6 features"):
        fires.load(tmp_path / "narrow")
