import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fires.evaluation.predictors import Perceptron
from fires.kernels.perceptron import perceptron_pass, perceptron_pass_plain

ROWS = np.array(
    [
        [1.0, 0.5, 0.0, 0.2],
        [0.3, 1.0, 0.8, 0.0],
        [0.0, 0.4, 1.0, 0.6],
        [0.9, 0.0, 0.1, 1.0],
        [0.2, 0.2, 0.9, 0.1],
    ]
)


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
    perceptron_pass(X, y, weights, bias)
    np.testing.assert_array_equal(weights, expected[0])
    np.testing.assert_array_equal(bias, expected[1])


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


def test_longer_labels_than_the_first_ones_are_not_cut():
    model = Perceptron().partial_fit(ROWS[:2], np.array(["a", "b"]))
    model.partial_fit(ROWS[2:3], np.array(["a long one"]))
    assert "a long one" in model.classes_


def test_what_the_caller_passed_stays_as_it_was():
    X, y = ROWS.copy(), np.array([1, 0, 0, 1, 1])
    X.flags.writeable = y.flags.writeable = False
    Perceptron().partial_fit(X, y).predict(X)
    np.testing.assert_array_equal(X, ROWS)
