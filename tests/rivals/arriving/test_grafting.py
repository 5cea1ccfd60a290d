"""Grafting: the vector, the conditions of its optimum, and who comes and goes."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.linear_model import Lasso, LogisticRegression

from fires import Grafting
from fires.rivals.arriving.linear import minimise, slopes

TABLE = np.loadtxt(Path(__file__).with_name("arriving.csv"), delimiter=",")
X, SIGN = TABLE[:, :6], np.sign(TABLE[:, 6])
SEEDS = st.integers(0, 2**16)


def problem(seed, n_rows=80, n_columns=15):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n_rows, n_columns)) + 0.5 * rng.normal(size=(n_rows, 1))
    y = Z @ (rng.normal(size=n_columns) * (rng.random(n_columns) < 0.4)) + rng.normal(size=n_rows)
    return Z, y + 0.3


def signed(selector):
    """The weights with their sign, and the intercept, in the units of X and y."""
    w = selector._coef_ / selector._units_ * selector._unit_
    if selector.fit_intercept:
        return w[1:], selector._coef_[0] * selector._unit_
    return w, 0.0


# Vectors


def test_slopes_at_zero():
    known = [-0.295895833333, -0.0210225, 0.012373333333]
    known += [0.246979166667, 0.246085, 0.021673333333]
    gradient = X.T @ slopes(SIGN, np.zeros(60), logistic=True) / 60
    assert_allclose(gradient, known, atol=5e-13)
    assert np.abs(gradient).argmax() == 0
    for penalty, taken in ((0.2958, True), (0.2959, False)):
        selector = Grafting(penalty=penalty, fit_intercept=False)
        selector.partial_fit_features(X[:, :1], SIGN)
        assert selector.get_support().tolist() == [taken]
        slope = Grafting(penalty=1.0, fit_intercept=False).partial_fit_features(X[:, :1], SIGN)
        unit = np.abs(X[:, 3]).max()
        assert slope._slope(X[:, 3] / unit) * unit == pytest.approx(known[3], abs=5e-13)


# The optimum


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize("fit_intercept", [True, False])
@given(seed=SEEDS, penalty=st.sampled_from([0.003, 0.03, 0.15]))
def test_the_selected_features_are_at_their_optimum(loss, fit_intercept, seed, penalty):
    Z, y = problem(seed)
    target = np.where(y > 0, 1.0, -1.0) if loss == "logistic" else y
    selector = Grafting(penalty=penalty, loss=loss, fit_intercept=fit_intercept)
    selector.partial_fit_features(Z, target)
    chosen = selector.get_support(indices=True)
    w, b = signed(selector)
    slope = slopes(target, Z[:, chosen] @ w + b, loss == "logistic")
    assert_allclose(Z[:, chosen].T @ slope / len(Z), -penalty * np.sign(w), atol=1e-8)
    assert abs(slope.mean()) < 1e-8 or not fit_intercept
    assert_allclose(selector.weights_[chosen], np.abs(w), rtol=1e-12)
    assert (w != 0.0).all()


def test_squared_loss_is_the_lasso():
    Z, y = problem(1)
    selector = Grafting(penalty=0.1, loss="squared").partial_fit_features(Z, y)
    chosen = selector.get_support(indices=True)
    lasso = Lasso(alpha=0.1, tol=1e-12, max_iter=100_000).fit(Z[:, chosen], y)
    w, b = signed(selector)
    assert_allclose(w, lasso.coef_, atol=1e-8)
    assert b == pytest.approx(lasso.intercept_, abs=1e-8)


def test_logistic_loss_is_that_of_others():
    Z, y = problem(2)
    label = np.where(y > 0, "yes", "no")
    selector = Grafting(penalty=0.05).partial_fit_features(Z, label)
    chosen = selector.get_support(indices=True)
    other = LogisticRegression(
        l1_ratio=1.0, C=1.0 / (len(y) * 0.05), solver="saga", tol=1e-10, max_iter=100_000
    ).fit(Z[:, chosen], label)
    w, b = signed(selector)
    assert_allclose(w, other.coef_[0], atol=1e-6)
    assert b == pytest.approx(other.intercept_[0], abs=1e-6)


@given(seed=SEEDS, n_rows=st.integers(4, 30), free=st.integers(0, 2), logistic=st.booleans())
def test_the_least_is_found_from_anywhere(seed, n_rows, free, logistic):
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(6, n_rows)) + 2.0 * rng.normal(size=n_rows)
    rows /= np.abs(rows).max()
    target, penalties = rng.choice([-1.0, 1.0], size=n_rows), rng.uniform(0.001, 0.2, size=6)
    penalties[:free] = 0.0 if not logistic else 1e-3
    starts = [np.zeros(6), rng.normal(size=6), rng.normal(size=6) * (rng.random(6) < 0.5)]
    for start in starts:
        weights = minimise(rows, target, penalties, start, logistic)
        slope = rows @ slopes(target, weights @ rows, logistic) / n_rows
        at = weights != 0.0
        assert_allclose(slope[at], -(penalties * np.sign(weights))[at], atol=1e-9)
        assert (np.abs(slope[~at]) <= penalties[~at] + 1e-9).all()


@pytest.mark.parametrize("penalty", [1e-2, 1e-4, 1e-6])
def test_classes_that_a_column_separates(penalty):
    """Without the penalty the weight would grow for ever."""
    rng = np.random.default_rng(0)
    Z = np.column_stack([rng.permutation(np.linspace(-1.0, 1.0, 50)), rng.normal(size=50)])
    selector = Grafting(penalty=penalty).partial_fit_features(Z, Z[:, 0] > 0.1)
    w, b = signed(selector)
    margin = Z[:, selector.get_support()] @ w + b
    slope = slopes(np.where(Z[:, 0] > 0.1, 1.0, -1.0), margin, True)
    gradient = Z[:, selector.get_support()].T @ slope / 50
    assert_allclose(gradient, -penalty * np.sign(w), atol=1e-9)


def test_no_columns_and_no_intercept_need_no_search():
    empty = np.empty(0)
    assert len(minimise(np.empty((0, 5)), np.ones(5), empty, empty, True)) == 0


# Who comes and goes


def test_a_feature_that_others_replace_leaves():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 400))
    y = a + b
    mixture = 0.3 * (a + b) + 0.1 * rng.normal(size=400)
    selector = Grafting(loss="squared", penalty=0.05).partial_fit_features(
        mixture[:, np.newaxis], y
    )
    assert selector.get_support(indices=True).tolist() == [0]
    selector.partial_fit_features(np.column_stack([a, b]), y)
    assert selector.get_support(indices=True).tolist() == [1, 2]
    assert selector.weights_[0] == 0.0
    assert len(selector._rows_) == 3  # with the constant


def test_a_twin_is_not_taken_in():
    Z, y = problem(3)
    selector = Grafting(loss="squared").partial_fit_features(Z, y)
    before = selector.get_support(indices=True)
    assert len(before) > 2
    selector.partial_fit_features(Z[:, before], y)
    assert selector.get_support(indices=True).tolist() == before.tolist()


def test_huge_and_tiny_columns():
    Z, y = problem(4)
    plain = Grafting(penalty=0.05).partial_fit_features(Z, y > 0)
    for scale in (1e149, 1e-150):
        scale_free = Grafting(penalty=0.05 * scale).partial_fit_features(Z * scale, y > 0)
        assert (scale_free.get_support() == plain.get_support()).all()
        assert_allclose(scale_free.weights_ * scale, plain.weights_, rtol=1e-7)
    mixed = Grafting(penalty=0.05).partial_fit_features(
        np.column_stack([1e149 * Z[:, 0], 1e-300 * Z[:, 1], Z]), y > 0
    )
    assert np.isfinite(mixed.weights_).all()
    squared = Grafting(loss="squared").partial_fit_features(Z, 1e148 * y)
    assert np.isfinite(squared.weights_).all()


def test_a_missing_entry_counts_as_nothing():
    Z, y = problem(5)
    Z[::7, 3] = np.nan
    holes = Grafting().partial_fit_features(Z, y > 0)
    filled = Grafting().partial_fit_features(np.nan_to_num(Z), y > 0)
    assert (holes.weights_ == filled.weights_).all()


def test_the_logistic_loss_is_for_two_classes():
    with pytest.raises(ValueError, match=r"learns two classes; these are 3: \[0, 1, 2\]"):
        Grafting().partial_fit_features(np.ones((3, 1)), [0, 1, 2])
    with pytest.raises(ValueError, match=r"Grafting\(loss='squared'\) needs numbers in y"):
        Grafting(loss="squared").partial_fit_features(np.ones((2, 1)), ["a", "b"])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"penalty": 0.0}, "penalty must be a number greater than 0; got 0.0"),
        ({"penalty": np.nan}, "penalty must be a number greater than 0; got nan"),
        ({"loss": "hinge"}, "loss must be one of 'logistic', 'squared'; got 'hinge'"),
    ],
)
def test_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        Grafting(**settings).partial_fit_features(X, SIGN)
