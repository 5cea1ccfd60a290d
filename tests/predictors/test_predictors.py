import copy
import importlib.util

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Perceptron as SklearnPerceptron
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import GaussianNB
from tests.naive import perceptron_pass_plain

from fires import FIRES
from fires.core.errors import MissingExtra, StateError
from fires.core.state import read_state, write_state
from fires.evaluation import prequential
from fires.kernels.linear import as_rows
from fires.kernels.online import perceptron_pass
from fires.predictors import (
    Perceptron,
    RiverPredictor,
    SklearnPredictor,
    as_predictor,
    boosting,
    hoeffding_tree,
)

ROWS = np.array(
    [
        [1.0, 0.5, 0.0, 0.2],
        [0.3, 1.0, 0.8, 0.0],
        [0.0, 0.4, 1.0, 0.6],
        [0.9, 0.0, 0.1, 1.0],
        [0.2, 0.2, 0.9, 0.1],
    ]
)


needs_river = pytest.mark.skipif(not importlib.util.find_spec("river"), reason="needs river")


def blobs(n_classes, n_rows=60, seed=0):
    """Rows around the corners of a simplex, and the number of the corner."""
    rng = np.random.default_rng(seed)
    y = rng.integers(n_classes, size=n_rows)
    return 4.0 * np.eye(n_classes)[y] + rng.normal(scale=0.2, size=(n_rows, n_classes)), y


def plain_one_against_the_rest(X, y, classes):
    signs = np.where(y == classes[:, None], 1.0, -1.0)
    shape = len(classes), X.shape[1]
    return perceptron_pass_plain(X, signs, np.zeros(shape), np.zeros(len(classes)))


def test_it_learns_the_vector_of_the_worked_example():
    # algorithms.md, A8
    model = Perceptron().partial_fit(ROWS, np.array([1, -1, -1, 1, 1]))
    np.testing.assert_allclose(model.coef_, [[0.9, -0.3, 0.1, 0.3]], atol=1e-12)
    np.testing.assert_array_equal(model.intercept_, [1.0])


def test_scikit_learn_agrees_on_it():
    from sklearn.linear_model import Perceptron as Reference

    X, y = blobs(3)
    reference = Reference(shuffle=False).partial_fit(X, y, classes=np.arange(3))
    model = Perceptron().partial_fit(X, y)
    np.testing.assert_allclose(model.coef_, reference.coef_)
    np.testing.assert_allclose(model.intercept_, reference.intercept_)


@given(
    data=st.data(),
    n_rows=st.integers(1, 12),
    n_features=st.integers(1, 6),
    n_classes=st.integers(1, 4),
)
def test_the_compiled_pass_is_its_plain_definition(data, n_rows, n_features, n_classes):
    # Quarters add up exactly in any order, so that both meet the same ties at zero.
    values = st.integers(-8, 8).map(lambda n: n / 4)
    X = data.draw(arrays(np.float64, (n_rows, n_features), elements=values))
    y = data.draw(arrays(np.float64, (n_classes, n_rows), elements=st.sampled_from([-1.0, 1.0])))
    weights = data.draw(arrays(np.float64, (n_classes, n_features), elements=values))
    bias = data.draw(arrays(np.float64, n_classes, elements=values))
    expected = perceptron_pass_plain(X, y, weights, bias)
    perceptron_pass(as_rows(X), y, weights, bias)
    np.testing.assert_array_equal(weights, expected[0])
    np.testing.assert_array_equal(bias, expected[1])


@given(data=st.data(), n_classes=st.integers(1, 4), kind=st.sampled_from(["csr", "csc", "coo"]))
def test_sparse_rows_are_learnt_and_predicted_as_dense_ones(data, n_classes, kind):
    values = st.sampled_from([0.0] * 8 + [-1.5, -0.25, 0.25, 0.5, 2.0])  # add up exactly
    X = data.draw(arrays(np.float64, (12, 7), elements=values))
    y = data.draw(arrays(np.int64, 12, elements=st.integers(0, n_classes - 1)))
    weight = data.draw(arrays(np.float64, 6, elements=st.sampled_from([0.0, 1.0, 2.0])))
    weight[0] += 1.0
    rows = sparse.csr_matrix(X).asformat(kind)
    one, other = Perceptron(), Perceptron()
    one.partial_fit(rows, y).partial_fit(sparse.csr_array(X[:6]), y[:6], sample_weight=weight)
    other.partial_fit(X, y).partial_fit(X[:6], y[:6], sample_weight=weight)
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)
    np.testing.assert_array_equal(one.predict(rows), other.predict(X))


def test_sparse_rows_wider_than_what_was_learnt_are_refused():
    model = Perceptron().partial_fit(sparse.csr_array(np.eye(3)), np.array([0, 1, 0]))
    with pytest.raises(ValueError, match="X has 4 features, but this Perceptron has learnt 3"):
        model.partial_fit(sparse.csr_array(np.eye(4)), np.array([0, 1, 0, 1]))


def test_many_classes_are_learnt_one_against_the_rest():
    X, y = blobs(4)
    model = Perceptron().partial_fit(X, y)
    coef, intercept = plain_one_against_the_rest(X, y, np.arange(4))
    np.testing.assert_allclose(model.coef_, coef)
    np.testing.assert_allclose(model.intercept_, intercept)
    np.testing.assert_array_equal(model.predict(X), (X @ coef.T + intercept).argmax(axis=1))
    assert np.mean(model.predict(X) == y) > 0.95


@pytest.mark.parametrize("labels", [("a", "b"), ("b", "a"), (1, 0), (0, 1), (False, True)])
def test_two_labels_are_learnt_in_whatever_order_they_arrive(labels):
    X, y = blobs(2)
    first, second = X[y == 0], X[y == 1]
    model = Perceptron()
    model.partial_fit(first, np.repeat(labels[0], len(first)))
    assert (model.predict(second) == labels[0]).all()
    model.partial_fit(second, np.repeat(labels[1], len(second)))
    model.partial_fit(X, np.array(labels)[y])
    assert model.coef_.shape == (1, 2)
    np.testing.assert_array_equal(model.classes_, sorted(labels))
    np.testing.assert_array_equal(model.predict(X), np.array(labels)[y])


def test_a_new_label_turns_what_one_row_says_around_and_keeps_what_it_knows():
    X, y = blobs(2)
    for other, sign in (("a", 1.0), ("c", -1.0)):
        model = Perceptron().partial_fit(X[:1], np.array(["b"]))
        coef, intercept = sign * model.coef_, sign * model.intercept_
        model.partial_fit(X[1:2], np.array([other]))
        # The row speaks for the greater label; X[1] is then learnt as the lesser or the greater.
        expected = perceptron_pass_plain(X[1:2], np.array([[-sign]]), coef, intercept)
        np.testing.assert_allclose(model.coef_, expected[0])
        np.testing.assert_allclose(model.intercept_, expected[1])

    two = Perceptron().partial_fit(X, np.array(["b", "d"])[y])
    old = two.coef_.copy()
    two.partial_fit(np.zeros((1, 2)), np.array(["c"]))
    np.testing.assert_array_equal(two.classes_, ["b", "c", "d"])
    np.testing.assert_array_equal(two.coef_, [-old[0], [0.0, 0.0], old[0]])


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_a_third_class_may_come_late(order):
    names = np.array(["ant", "bee", "cat"])
    X, y = blobs(3, 150)
    model = Perceptron()
    for known in (order[:1], order[:2], order, order):
        rows = np.isin(y, known)
        model.partial_fit(X[rows], names[y[rows]])
        np.testing.assert_array_equal(model.classes_, np.sort(names[list(known)]))
    assert np.mean(model.predict(X) == names[y]) > 0.95


# --- the perceptron's classes, weights and state ------------------------------------------------


def test_classes_given_beforehand_are_all_there_are():
    X, y = blobs(3)
    model = Perceptron().partial_fit(X[y == 1], y[y == 1], classes=[2, 0, 1])
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.coef_.shape == (3, 3)
    coef, _ = plain_one_against_the_rest(X[y == 1], y[y == 1], np.arange(3))
    np.testing.assert_allclose(model.coef_, coef)
    with pytest.raises(ValueError, match=r"the label 3, which is not in classes=\[0, 1, 2\]"):
        model.partial_fit(X[:1], np.array([3]))
    with pytest.raises(ValueError, match=r"classes=\[0, 1\] does not fit the classes known"):
        model.partial_fit(X[:1], np.array([1]), classes=[0, 1])
    with pytest.raises(ValueError, match=r"classes=\[0, 1, 2, 3\] does not fit the classes known"):
        model.partial_fit(X, y, classes=[0, 1, 2, 3])
    assert model.coef_.shape == (3, 3)


def test_after_a_label_that_is_refused_it_goes_on():
    X, y = blobs(2)
    model, classes = Perceptron(), [0, 1]
    with pytest.raises(ValueError, match="the label 7"):
        model.partial_fit(X[:1], np.array([7]), classes=classes)
    model.partial_fit(X, y, classes=classes)
    np.testing.assert_array_equal(model.coef_, Perceptron().partial_fit(X, y).coef_)


@given(data=st.data())
def test_a_weight_is_how_often_a_row_is_learnt(data):
    X, y = blobs(3, 8)
    weight = np.array(data.draw(st.lists(st.integers(0, 3), min_size=8, max_size=8)))
    weight[0] += 1
    weighted = Perceptron().partial_fit(X, y, [0, 1, 2], sample_weight=weight.astype(float))
    repeated = Perceptron().partial_fit(np.repeat(X, weight, 0), np.repeat(y, weight), [0, 1, 2])
    np.testing.assert_array_equal(weighted.coef_, repeated.coef_)
    np.testing.assert_array_equal(weighted.intercept_, repeated.intercept_)


def test_half_a_row_cannot_be_learnt():
    with pytest.raises(ValueError, match=r"Perceptron learns row by row.*whole numbers"):
        Perceptron().partial_fit(ROWS, np.array([1, 0, 0, 1, 1]), sample_weight=np.full(5, 0.5))


@pytest.mark.parametrize("names", [[0, 1], [True, False], ["ä", "b"], ["a", "b", "ccc"], [1.5, 2]])
def test_saved_and_read_back_it_learns_on_to_the_last_bit(tmp_path, names):
    X, y = blobs(len(names))
    y = np.array(names)[y]
    model = Perceptron().partial_fit(X[:20], y[:20])
    header, state = model.state()
    write_state(tmp_path / "predictor", header, state)
    for array in state.values():
        array[...] = 0  # what was handed out is a copy
    again = Perceptron().restore(*read_state(tmp_path / "predictor"))
    for one in (model, again):
        one.partial_fit(X[20:], y[20:])
    np.testing.assert_array_equal(again.coef_, model.coef_)
    np.testing.assert_array_equal(again.intercept_, model.intercept_)
    np.testing.assert_array_equal(again.classes_, model.classes_)
    assert again.classes_.dtype == model.classes_.dtype
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_its_state_remembers_whether_the_classes_were_given():
    X, y = blobs(2)
    for classes, error in ((None, None), ([0, 1], "not in classes")):
        model = Perceptron().partial_fit(X, y, classes=classes)
        again = Perceptron().restore(*model.state())
        if error is None:
            again.partial_fit(X[:1], np.array([2]))
            continue
        with pytest.raises(ValueError, match=error):
            again.partial_fit(X[:1], np.array([2]))
    fresh = Perceptron().partial_fit(X, y).restore(*Perceptron().state())
    assert not hasattr(fresh, "classes_")


def test_a_state_that_does_not_fit_together_is_refused():
    X, y = blobs(3)
    header, state = Perceptron().partial_fit(X, y).state()
    with pytest.raises(StateError, match="coef is float64 of shape"):
        Perceptron().restore(header, state | {"coef": state["coef"][:2]})


# --- scikit-learn's -----------------------------------------------------------------------------


@pytest.mark.parametrize("estimator", [GaussianNB(), SGDClassifier(random_state=0)])
def test_an_estimator_learns_as_it_does_by_itself(estimator):
    X, y = blobs(3, 90)
    alone, model = copy.deepcopy(estimator), as_predictor(estimator)
    assert isinstance(model, SklearnPredictor)
    weight = np.linspace(0.5, 1.5, 30)
    for part in (slice(0, 30), slice(30, 60), slice(60, 90)):
        alone.partial_fit(X[part], y[part], classes=[0, 1, 2], sample_weight=weight)
        assert model.partial_fit(X[part], y[part], (0, 1, 2), weight) is model
    np.testing.assert_array_equal(model.predict(X), alone.predict(X))
    assert hasattr(model, "predict_proba") == hasattr(alone, "predict_proba")
    if hasattr(alone, "predict_proba"):
        np.testing.assert_array_equal(model.predict_proba(X), alone.predict_proba(X))
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.inner is estimator


def test_the_classes_of_the_first_batch_are_all_an_estimator_will_know():
    X, y = blobs(3, 90)
    y = np.array(["ant", "bee", "cat"])[y]
    model = as_predictor(GaussianNB())
    two = y != "cat"
    model.partial_fit(X[two], y[two])
    before = model.predict(X)
    message = (
        r"GaussianNB has started with the classes \['ant', 'bee'\] and cannot add 'cat': pass all "
        r"of them as classes= to the first partial_fit\."
    )
    for classes in (None, ["ant", "bee", "cat"]):
        with pytest.raises(ValueError, match=message):
            model.partial_fit(X, y, classes)
    np.testing.assert_array_equal(model.predict(X), before)
    model.partial_fit(X[two], y[two])  # and it still learns


def test_an_estimator_is_not_started_with_a_single_class():
    X, y = blobs(2)
    model = as_predictor(SGDClassifier(random_state=0))
    with pytest.raises(ValueError, match=r"SGDClassifier must know all.*pass them as class"):
        model.partial_fit(X[y == 1], y[y == 1])
    model.partial_fit(X[y == 1], y[y == 1], classes=[0, 1])
    model.partial_fit(X[y == 0], y[y == 0])
    np.testing.assert_array_equal(model.classes_, [0, 1])


def test_an_estimator_that_has_learnt_before_goes_on():
    X, y = blobs(2)
    model = as_predictor(GaussianNB().partial_fit(X[:30], y[:30], classes=[0, 1]))
    np.testing.assert_array_equal(model.classes_, [0, 1])
    model.partial_fit(X[30:], y[30:])
    assert model.inner.class_count_.sum() == 60


class Counting(BaseEstimator):
    """Takes neither classes nor weights, as a user's own may."""

    def partial_fit(self, X, y):
        self.seen_ = [*getattr(self, "seen_", []), *y.tolist()]

    def predict(self, X):
        return np.full(len(X), self.seen_[-1])


def test_an_estimator_without_classes_and_weights_gets_rows_as_they_come():
    model = as_predictor(Counting())
    model.partial_fit(np.eye(2), np.array(["b", "a"]), classes=["a", "b"], sample_weight=[1, 2])
    model.partial_fit(np.eye(2)[:1], np.array(["c"]))
    assert model.inner.seen_ == ["b", "a", "a", "c"]
    assert not hasattr(model, "predict_proba")
    with pytest.raises(ValueError, match="Counting learns row by row"):
        model.partial_fit(np.eye(2), np.array(["b", "a"]), sample_weight=[0.5, 2])


def test_what_is_a_predictor_already_stays_itself_and_what_cannot_be_one_is_refused():
    ours = Perceptron()
    assert as_predictor(ours) is ours
    wrapped = as_predictor(GaussianNB())
    assert as_predictor(wrapped) is wrapped
    for wrong in (None, "perceptron", GaussianNB, Perceptron, FIRES(3)):
        with pytest.raises(TypeError, match="A predictor is a classifier of River, or an object"):
            as_predictor(wrong)


def test_an_estimator_serves_in_a_run():
    from fires.streams import KnownTruth

    stream = KnownTruth(2_000, 20, 3)
    steps = prequential(stream, FIRES(3), as_predictor(SklearnPerceptron(shuffle=False)))
    accuracies = [step.scores["accuracy"] for step in steps]
    assert np.nanmean(accuracies[5:]) > 0.6


# --- River's ------------------------------------------------------------------------------------


class Recording:
    """What a classifier of River is told; it answers with what it was told last."""

    _multiclass = True

    def __init__(self):
        self.told = []

    def learn_one(self, x, y):
        self.told.append((x, y))

    def predict_one(self, x):
        return self.told[-1][1] if any(x.values()) else None

    def predict_proba_one(self, x):
        return {self.told[-1][1]: 1.0} if any(x.values()) else {}


GAPPY = np.array([[0.0, 2.0, -1.0], [0.5, 0.0, 0.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_rows_are_dictionaries_of_all_features(kind):
    model = RiverPredictor(Recording())
    model.partial_fit(kind(GAPPY), np.array(["a", "b", "a"]))
    assert [x for x, _ in model.inner.told] == [
        {"x0": 0.0, "x1": 2.0, "x2": -1.0},
        {"x0": 0.5, "x1": 0.0, "x2": 0.0},
        {"x0": 0.0, "x1": 0.0, "x2": 0.0},
    ]
    assert [y for _, y in model.inner.told] == ["a", "b", "a"]
    assert {type(v) for x, _ in model.inner.told for v in x.values()} <= {float}


@needs_river
def test_a_model_that_says_nothing_is_taken_to_say_the_first_class_or_any():
    model = RiverPredictor(Recording())
    with pytest.raises(NotFittedError, match="call partial_fit first"):
        model.predict(GAPPY)
    model.partial_fit(GAPPY, np.array(["a", "c", "b"]))
    np.testing.assert_array_equal(model.predict(GAPPY), ["b", "b", "a"])
    wanted = [[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [1 / 3, 1 / 3, 1 / 3]]
    np.testing.assert_allclose(model.predict_proba(GAPPY), wanted)
    assert model.predict(GAPPY[:0]).shape == (0,)
    assert model.predict_proba(GAPPY[:0]).shape == (0, 3)


def test_a_river_model_that_takes_no_weights_sees_a_row_as_often_as_it_weighs():
    model = RiverPredictor(Recording())
    model.partial_fit(GAPPY, np.array([1, 2, 3]), sample_weight=[2, 0, 1])
    assert [y for _, y in model.inner.told] == [1, 1, 3]
    with pytest.raises(ValueError, match="Recording learns row by row"):
        model.partial_fit(GAPPY, np.array([1, 2, 3]), sample_weight=[0.5, 1, 1])


@needs_river
@pytest.mark.parametrize("labels", [["a", "b", "c"], [0, 1, 2], [2.0, 4.0, 8.0]])
def test_river_learns_through_it_what_it_learns_by_itself(labels):
    from river import tree

    X, y = blobs(3, 400)
    y = np.array(labels)[y]
    settings = {"grace_period": 50, "tau": 0.5}
    model = hoeffding_tree(**settings)
    alone = tree.HoeffdingTreeClassifier(delta=1e-7, leaf_prediction="mc", **settings)
    for part in np.split(np.arange(400), [100, 101, 250]):
        assert model.partial_fit(X[part], y[part]) is model
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        alone.learn_one({f"x{j}": value for j, value in enumerate(row)}, label)
    said = [alone.predict_one({f"x{j}": v for j, v in enumerate(row)}) for row in X.tolist()]
    found = model.predict(X)
    assert found.dtype == np.array(labels).dtype
    np.testing.assert_array_equal(found, said)
    assert np.mean(found == y) > 0.9
    P = model.predict_proba(X)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], found)


@needs_river
def test_vfdt_has_the_settings_of_the_paper():
    tree = hoeffding_tree().inner
    assert type(tree).__name__ == "HoeffdingTreeClassifier"
    assert (tree.grace_period, tree.delta, tree.tau) == (200, 1e-7, 0.05)
    assert tree.leaf_prediction == "mc"
    assert hoeffding_tree(max_depth=3).inner.max_depth == 3


@needs_river
def test_the_tree_takes_weights_as_they_are():
    X, y = blobs(2, 100)
    whole, half = hoeffding_tree(), hoeffding_tree()
    whole.partial_fit(X, y)
    half.partial_fit(X, y, sample_weight=np.where(np.arange(100) < 50, 0.0, 0.5))
    assert whole.inner._train_weight_seen_by_model == 100.0
    assert half.inner._train_weight_seen_by_model == 25.0


@needs_river
def test_boosting_is_seeded_and_has_three_members():
    X, y = blobs(2, 80, seed=3)
    X += np.random.default_rng(0).normal(scale=2.0, size=X.shape)
    first, same, other = (boosting(seed).partial_fit(X, y) for seed in (1, 1, 2))
    assert len(first.inner) == 3
    assert {type(member).__name__ for member in first.inner} == {"GaussianNB"}
    np.testing.assert_array_equal(first.predict_proba(X), same.predict_proba(X))
    assert not np.array_equal(first.predict_proba(X), other.predict_proba(X))
    assert np.mean(first.predict(X) == y) > 0.7


@needs_river
@pytest.mark.parametrize("names", [["b", "a"], [0, 1], [True, False]])
@pytest.mark.parametrize("order", ["together", "first", "second"])
def test_a_binary_model_of_river_is_told_which_label_is_which(names, order):
    from river import linear_model

    X, codes = blobs(2, 200)
    y = np.array(names)[codes]
    parts = {"together": [y == y], "first": [codes == 0, y == y], "second": [codes == 1, y == y]}
    model = RiverPredictor(linear_model.LogisticRegression())
    for part in parts[order]:
        model.partial_fit(X[part], y[part])
        known = np.unique(y[part])
        assert set(model.predict(X).tolist()) <= set(known.tolist())
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.classes_, sorted(names))
    assert np.mean(model.predict(X) == y) > 0.95
    P = model.predict_proba(X)
    np.testing.assert_array_equal(model.classes_[P.argmax(axis=1)], model.predict(X))


@needs_river
def test_a_binary_model_of_river_refuses_a_third_class():
    from river import linear_model, multiclass

    X, y = blobs(3)
    with pytest.raises(ValueError, match=r"LogisticRegression of River.*OneVsRestClassifier"):
        RiverPredictor(linear_model.LogisticRegression()).partial_fit(X, y)
    many = multiclass.OneVsRestClassifier(linear_model.LogisticRegression())
    model = as_predictor(many)
    assert isinstance(model, RiverPredictor)
    for _ in range(10):
        model.partial_fit(X, y)
    assert np.mean(model.predict(X) == y) > 0.9


@needs_river
def test_a_river_model_without_probabilities_offers_none():
    from river import base

    class Silent(base.Classifier):
        def learn_one(self, x, y):
            self.label = y

        def predict_one(self, x):
            return self.label

    model = RiverPredictor(Silent()).partial_fit(GAPPY, np.array([True, False, True]))
    assert not hasattr(model, "predict_proba")
    assert model.predict(GAPPY).all()


@pytest.mark.parametrize("make", [hoeffding_tree, boosting])
def test_without_river_it_is_said_what_to_install(make, monkeypatch):
    monkeypatch.setattr("fires.core.optional.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=rf"{make.__name__} needs river: .*\.\[river\]"):
        make()


@needs_river
@pytest.mark.parametrize("make", [hoeffding_tree, boosting])
def test_river_s_classifiers_serve_in_a_run(make):
    from fires.streams import KnownTruth

    stream = KnownTruth(600, 4, 1, noise=0.1)
    accuracies = [step.scores["accuracy"] for step in prequential(stream, FIRES(1), make())]
    assert np.mean(accuracies[4:]) > 0.8
