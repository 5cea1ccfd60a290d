"""The loops that do all of a step do what the general step does, for one batch as for many."""

import numpy as np
import pytest
from fires.models.online_linear import OnlineLinear, Rates
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fires.kernels.perceptron import perceptron_steps, perceptron_steps_plain
from fires.scaling.dense import ROUNDING

RATES = Rates(0.05, 0.05)


def problem(seed, n_batches, n_rows, n_features):
    rng = np.random.default_rng(seed)
    X = rng.normal(5.0, 2.0, size=(n_batches * n_rows, n_features))
    X[:, rng.random(n_features) < 0.2] = 3.0
    y = (X[:, 0] + rng.normal(size=len(X)) > 5.0).astype(np.intp)
    return X, y


def learner(n_features):
    return OnlineLinear("probit", n_features, 1, fit_intercept=True, scale="standard")


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
def test_the_whole_step_is_the_general_one(seed, n_rows, n_features, missing):
    """A weight of 1 is no weight, but asks for the general step."""
    X, y = problem(seed, 6, n_rows, n_features)
    X[np.random.default_rng(seed).random(X.shape) < missing] = np.nan
    whole, general = learner(n_features), learner(n_features)
    for rows, labels in parts(X, y, n_rows):
        some_missing = bool(np.isnan(rows).any())
        whole.step(rows, labels, None, RATES, some_missing)
        general.step(rows, labels, np.ones(n_rows), RATES, some_missing)
    expected = general.state()
    for name, array in whole.state().items():
        assert_allclose(array, expected[name], rtol=1e-9, atol=1e-11, err_msg=name)


def started(n_features, X, y):
    model = learner(n_features)
    model.step(X, y, None, RATES, False)
    return model


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**16),
    n_batches=st.integers(1, 9),
    n_rows=st.integers(1, 13),
    n_features=st.sampled_from([1, 3, 40, 1030]),
    gaps=st.booleans(),
)
def test_many_batches_in_one_call_are_one_after_the_other(
    seed, n_batches, n_rows, n_features, gaps
):
    X, y = problem(seed, n_batches + 1, n_rows, n_features)
    model = started(n_features, X[:n_rows], y[:n_rows])
    X, y = X[n_rows:], y[n_rows:]
    rng = np.random.default_rng(seed)
    levels, counts = rng.normal(size=n_batches), np.full((n_batches, 1), 100.0)
    if gaps:
        X[rng.random(X.shape) < 0.1] = np.nan
        counts = rng.uniform(0.0, 100.0, size=(n_batches, n_features))
    many, one = model.packed(model.dense, n_batches), model.packed(model.dense, 1)
    assert model.steps(X, y, levels, counts, RATES, many) == n_batches
    for i, (rows, labels) in enumerate(parts(X, y, n_rows)):
        now = slice(i, i + 1)
        assert model.steps(rows, labels, levels[now], counts[now], RATES, one) == 1
        for array, expected in zip(one, many, strict=True):
            assert_array_equal(array[1], expected[i + 1])
            array[0] = array[1]


@pytest.mark.parametrize("n_before", [0, 2])
def test_it_stops_before_a_step_that_would_overflow(n_before):
    X, y = problem(0, 6, 10, 3)
    model = started(3, X[:10], y[:10])
    levels, counts = np.zeros(5), np.full((5, 1), 20.0)
    whole, spoilt = model.packed(model.dense, 5), model.packed(model.dense, 5)
    assert model.steps(X[10:], y[10:], levels, counts, RATES, whole) == 5
    X[10 * (n_before + 1) + 5, 1] = np.inf
    assert model.steps(X[10:], y[10:], levels, counts, RATES, spoilt) == n_before
    for array, expected in zip(spoilt, whole, strict=True):
        assert_array_equal(array[: n_before + 1], expected[: n_before + 1])


def test_it_stops_before_a_step_that_has_to_be_shortened():
    X, y = problem(1, 2, 10, 3)
    model = started(3, X[:10], y[:10])
    packed, rates = model.packed(model.dense, 1), Rates(1e3, 1e3)
    assert model.steps(X[10:], y[10:], np.zeros(1), np.ones((1, 1)), rates, packed) == 0


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
