"""A whole step: no weight is a weight of 1, an overflow moves nothing, and so for a perceptron."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.batch import CheckedBatch
from fires.kernels.perceptron import perceptron_steps, perceptron_steps_plain
from fires.models.base import Rates
from fires.models.linear_learner import LinearLearner
from fires.scaling.dense import ROUNDING

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
    with pytest.raises(ValueError, match="so large that a step would overflow"):
        learn(model, rows, labels)
    assert model.state().keys() == expected.keys()
    for name, array in model.state().items():
        assert_array_equal(array, expected[name], err_msg=name)


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**16),
    n_batches=st.integers(1, 6),
    n_rows=st.integers(1, 13),
    n_features=st.integers(1, 9),
    missing=st.sampled_from([0.0, 0.2]),
)
def test_the_perceptron_s_loop_is_its_definition(seed, n_batches, n_rows, n_features, missing):
    rng = np.random.default_rng(seed)
    X, y = problem(seed, n_batches, n_rows, n_features)
    X[rng.random(X.shape) < missing] = np.nan
    k = int(rng.integers(1, n_features + 1))
    sets = np.sort([rng.permutation(n_features)[:k] for _ in range(n_batches + 1)], axis=1)
    states, biases = np.empty((n_batches + 1, 5, n_features)), rng.normal(size=(n_batches + 1, 1))
    states[0] = rng.normal(size=(5, n_features))
    states[0, 1], states[0, 3] = rng.integers(1, 50), 100.0
    rows, sums = np.empty((n_rows + 1, k)), np.empty((2, n_features))
    X.flags.writeable = False

    def step(kernel, X, y, sets, states, biases, tests=True, trains=True):
        right = np.empty(len(sets) - 1, dtype=np.intp)
        weight = float(seed % 2)
        before, after, scratch = sets[:-1], sets[1:], (rows, sums, right)
        states[1:], biases[1:] = states[0], biases[0]
        kernel(X, y, before, after, tests, trains, weight, states, biases, ROUNDING, *scratch)
        return right

    right = step(perceptron_steps, X, y, sets, states, biases)
    for i, (x, labels) in enumerate(parts(X, y, n_rows)):
        now = slice(i, i + 2)
        one = states[now].copy(), biases[now].copy()
        assert step(perceptron_steps, x, labels, sets[now], *one, trains=False) == right[i]
        assert_array_equal(one[0][1], states[i])
        assert step(perceptron_steps, x, labels, sets[now], *one, tests=False) == 0
        assert_array_equal(one[0], states[now])
        assert_array_equal(one[1], biases[now])
        plain = states[now].copy(), biases[now].copy()
        assert step(perceptron_steps_plain, x, labels, sets[now], *plain) == right[i]
        assert_allclose(plain[0], states[now], rtol=1e-9, atol=1e-9)
        assert_allclose(plain[1], biases[now])
