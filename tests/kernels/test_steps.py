"""The loops that do all of a step do what the general step does, for one batch as for many."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fires.evaluation.predictors import Perceptron
from fires.evaluation.shown import Shown
from fires.kernels.features import merge_plain
from fires.kernels.perceptron import perceptron_pass_plain
from fires.models.online_linear import OnlineLinear, Rates
from fires.models.scaling import ROUNDING

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
def test_the_perceptron_s_loop_is_its_parts(seed, n_batches, n_rows, n_features, missing):
    rng = np.random.default_rng(seed)
    X, y = problem(seed, n_batches, n_rows, n_features)
    complete = X[:n_rows].copy()
    X[rng.random(X.shape) < missing] = np.nan
    k = int(rng.integers(1, n_features + 1))
    sets = np.sort([rng.permutation(n_features)[:k] for _ in range(n_batches + 1)], axis=1)
    model = Perceptron()
    model.classes_, model.coef_ = np.array([0, 1]), rng.normal(size=(1, n_features))
    model.intercept_ = rng.normal(size=1)
    shown = Shown(model, n_features)
    shown.look(complete)
    coef, bias = model.coef_.copy(), model.intercept_.copy()
    _, count, shift, spread, gain = shown._state.copy()

    many = shown.packed(n_batches)
    right = shown.steps(X, y, sets[:-1], sets[1:], many)
    assert_array_equal(model.coef_, coef)

    for i, (rows, labels) in enumerate(parts(X, y, n_rows)):
        before, after = sets[i : i + 1], sets[i + 1 : i + 2]
        one = shown.packed(1)
        assert shown.steps(rows, labels, before, after, one, trains=False).tolist() == [right[i]]
        shown.steps(rows, labels, before, after, one, tests=False)
        shown.adopt(one[0][1], one[1][1])
        assert_array_equal(one[0][1], many[0][i + 1])
        assert_array_equal(one[1][1], many[1][i + 1])

        scaled = np.nan_to_num((rows - shift) * gain)
        masks = [np.isin(np.arange(n_features), chosen) for chosen in (before, after)]
        score = (scaled * masks[0]) @ coef[0] + bias
        if np.abs(score).min() > 1e-9:
            assert right[i] == ((score > 0) == labels).sum()
        signs = np.where(labels, 1.0, -1.0)[None]
        coef, bias = perceptron_pass_plain(scaled * masks[1], signs, coef, bias)
        T = rows - shift
        count = count + (~np.isnan(T)).sum(axis=0)
        sums = np.nansum(T, axis=0), np.nansum(T**2, axis=0)
        shift, spread, gain = merge_plain(count, shift, spread, *sums, ROUNDING)
        assert_allclose(model.coef_, coef, rtol=1e-9, atol=1e-9)
        for array, expected in zip(shown._state[1:], (count, shift, spread, gain), strict=True):
            assert_allclose(array, expected, rtol=1e-9, atol=1e-9)
        coef, bias = model.coef_.copy(), model.intercept_.copy()
        _, count, shift, spread, gain = shown._state.copy()
