import copy

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.naive import least_squares_pass_plain

import fires
from fires import FIRES, OnlinePipeline
from fires.kernels.linear import as_rows
from fires.kernels.online import least_squares_pass
from fires.predictors import LinearRegressor, as_predictor


def rows_of(n_rows=3_000, noise=0.5, seed=0, n_features=8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    return X, 2.0 * X[:, 1] - X[:, 3] + noise * rng.normal(size=n_rows)


def taught(X, y, batch_size=100):
    model = LinearRegressor()
    for start in range(0, len(y), batch_size):
        model.partial_fit(X[start : start + batch_size], y[start : start + batch_size])
    return model


def r2(model, X, y):
    return 1.0 - np.square(y - model.predict(X)).sum() / np.square(y - y.mean()).sum()


@given(seed=st.integers(0, 100), spread=st.sampled_from([0.0, 0.5]))
def test_the_compiled_pass_is_its_definition(seed, spread):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(20, 4)), rng.standard_cauchy(20)
    weights, own = rng.normal(size=4), np.array([0.3, spread])
    expected = weights.copy(), own.copy()
    least_squares_pass_plain(X, y, *expected)
    least_squares_pass(as_rows(X), y, weights, own)
    np.testing.assert_allclose(weights, expected[0], rtol=1e-10)
    np.testing.assert_allclose(own, expected[1], rtol=1e-10)


@given(seed=st.integers(0, 2**16), n_features=st.sampled_from([1, 4, 90]), weighted=st.booleans())
def test_sparse_rows_are_learnt_and_predicted_as_dense_ones(seed, n_features, weighted):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, n_features)) * (rng.random((40, n_features)) < 0.3)
    y, weight = rng.standard_cauchy(40), rng.integers(3, size=40) if weighted else None
    sparse, dense = LinearRegressor(), LinearRegressor()
    for part in (slice(0, 20), slice(20, 40)):
        w = None if weight is None else weight[part]
        sparse.partial_fit(sp.csr_array(X[part]), y[part], sample_weight=w)
        dense.partial_fit(X[part], y[part], sample_weight=w)
    np.testing.assert_allclose(sparse.coef_, dense.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(sparse.own_, dense.own_, rtol=1e-9, atol=1e-12)
    for form in (sp.csr_array, sp.csr_matrix, sp.csc_matrix):
        predicted = sparse.predict(form(X))
        np.testing.assert_allclose(predicted, dense.predict(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e9])
@pytest.mark.parametrize("offset", [0.0, -1e3, 1e3])
def test_numbers_of_any_scale_are_learnt_alike(scale, offset):
    X, y = rows_of()
    expected = r2(taught(X, y), X, y)
    assert expected > 0.9  # 0.95 is what least squares reach
    assert r2(taught(X, scale * (y + offset)), X, scale * (y + offset)) == pytest.approx(
        expected, rel=1e-4
    )


@pytest.mark.parametrize("place", [5, 150, 2_995])
def test_one_bad_number_spoils_nothing(place):
    X, y = rows_of()
    spoilt = y.copy()
    spoilt[place] = 1e6
    assert r2(taught(X, spoilt), X, y) > 0.9


def test_a_change_of_level_is_followed():
    X, y = rows_of()
    moved = np.where(np.arange(len(y)) < 1_500, y, y + 100.0)
    assert r2(taught(X, moved), X[2_500:], moved[2_500:]) > 0.9


def test_a_target_that_begins_with_one_number_is_learnt_once_it_varies():
    X, y = rows_of()
    y[:100] = 7.0
    assert r2(taught(X, y), X[100:], y[100:]) > 0.9


def test_a_row_of_weight_w_is_w_rows():
    X, y = rows_of(60)
    weight = np.arange(60) % 3
    one = LinearRegressor().partial_fit(X, y, sample_weight=weight.astype(float))
    other = LinearRegressor().partial_fit(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    np.testing.assert_array_equal(one.predict(X), other.predict(X))


def test_it_is_a_predictor_and_changes_nothing_that_was_passed():
    X, y = rows_of(100)
    before = X.copy(), y.copy()
    X.flags.writeable = y.flags.writeable = False
    model = LinearRegressor()
    assert as_predictor(model) is model
    twin = copy.deepcopy(model.partial_fit(X, y))
    assert not hasattr(model.fresh(), "coef_")
    model.partial_fit(X, y)
    assert (twin.predict(X) != model.predict(X)).any()
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(y, before[1])


@pytest.mark.parametrize(
    ("X", "y", "words"),
    [
        (np.ones((2, 4)), np.array([1.0, 2.0]), "X has 4 features, but this LinearRegressor has"),
        (sp.csr_array(np.ones((2, 9))), np.array([1.0, 2.0]), "X has 9 features, but this"),
        (np.ones((2, 8)), np.array(["a", "b"]), "learns finite numbers"),
        (np.ones((2, 8)), np.array([1.0, np.nan]), "learns finite numbers"),
    ],
)
def test_what_it_cannot_learn_is_refused_in_one_line(X, y, words):
    model = LinearRegressor().partial_fit(*rows_of(50))
    before = model.coef_.copy()
    with pytest.raises(ValueError, match=words) as caught:
        model.partial_fit(X, y)
    assert "\n" not in str(caught.value)
    np.testing.assert_array_equal(model.coef_, before)


def test_a_saved_pipeline_is_restored_from_the_file_alone(tmp_path):
    X, y = rows_of(400)
    pipeline = OnlinePipeline(FIRES(4), LinearRegressor()).partial_fit(X[:200], y[:200])
    pipeline.save(tmp_path / "model.fires")
    again = fires.load(tmp_path / "model.fires")
    assert type(again.predictor) is LinearRegressor
    for one in (pipeline, again):
        one.partial_fit(X[200:], y[200:])
    np.testing.assert_array_equal(again.predict(X), pipeline.predict(X))
