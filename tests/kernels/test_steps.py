"""A whole step: no weight is a weight of 1, an overflow moves nothing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.batch import CheckedBatch
from fires.models.base import Rates
from fires.models.linear_learner import LinearLearner

RATES = Rates(0.05, 0.05)


def problem(seed, n_batches, n_rows, n_features):
    rng = np.random.default_rng(seed)
    X = rng.normal(5.0, 2.0, size=(n_batches * n_rows, n_features))
    X[:, rng.random(n_features) < 0.2] = 3.0
    y = (X[:, 0] + rng.normal(size=len(X)) > 5.0).astype(np.intp)
    return X, y


def learner(n_features):
    return LinearLearner("probit", n_features, 2, fit_intercept=True, scale="standard")


def learn(model, X, y, weight=None):
    model.step(CheckedBatch(X, y, weight, n_missing=int(np.isnan(X).sum())), y, RATES)


def parts(X, y, n_rows):
    for start in range(0, len(y), n_rows):
        yield X[start : start + n_rows], y[start : start + n_rows]


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**16),
    n_rows=st.integers(1, 13),
    n_features=st.sampled_from([1, 2, 7, 40, 1030]),
    missing=st.sampled_from([0.0, 0.1, 0.9]),
)
def test_no_weight_is_a_weight_of_1(seed, n_rows, n_features, missing):
    X, y = problem(seed, 6, n_rows, n_features)
    X[np.random.default_rng(seed).random(X.shape) < missing] = np.nan
    without, weighted = learner(n_features), learner(n_features)
    for rows, labels in parts(X, y, n_rows):
        learn(without, rows, labels)
        learn(weighted, rows, labels, np.ones(n_rows))
    expected = weighted.state()
    for name, array in without.state().items():
        assert_allclose(array, expected[name], rtol=1e-9, atol=1e-11, err_msg=name)


@pytest.mark.parametrize("n_before", [1, 3])
def test_a_step_that_would_overflow_moves_nothing(n_before):
    X, y = problem(0, n_before + 1, 10, 3)
    model = learner(3)
    *before, (rows, labels) = parts(X, y, 10)
    for batch in before:
        learn(model, *batch)
    expected = {name: array.copy() for name, array in model.state().items()}
    rows[5, 1] = np.inf
    with pytest.raises(ValueError, match="so large that"):
        learn(model, rows, labels)
    assert model.state().keys() == expected.keys()
    for name, array in model.state().items():
        assert_array_equal(array, expected[name], err_msg=name)
