"""Row weights of FIRES: they count as their effective number of rows."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import fires
from fires import FIRES, OnlinePipeline, Sharded
from fires.core.batch import CheckedBatch, WeightSums, effective_weights
from fires.core.sharding import Shards
from fires.predictors import LinearRegressor
from fires.selectors.sharded import partial_fit_sharded

UPDATES = [{}, {"model": "gaussian"}, {"scale": "minmax"}, {"update": "gradient", "scale": None}]


def stream(seed=0, n_batches=6, n_rows=40, n_features=6):
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        X = rng.normal(size=(n_rows, n_features))
        yield X, (X[:, 0] - X[:, 1] + rng.normal(size=n_rows) > 0).astype(int)


def learn(weights=None, form=np.asarray, **setting):
    selector = FIRES(2, **setting)
    for i, (X, y) in enumerate(stream()):
        weight = None if weights is None else weights(i, len(y))
        selector.partial_fit(form(X), y, sample_weight=weight)
    return selector


def assert_close(one, other, rtol=1e-12):
    mine, theirs = one.saved()[1], other.saved()[1]
    assert mine.keys() == theirs.keys()
    for name in mine.keys() - {"weight_sums"}:
        assert_allclose(mine[name], theirs[name], rtol=rtol, atol=1e-13, err_msg=name)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("setting", UPDATES[:3], ids=str)
@given(constant=st.floats(1e-6, 1e6))
@settings(max_examples=5, deadline=None)
def test_a_constant_weight_changes_nothing(setting, form, constant):
    if form is sp.csr_array and setting == {"scale": "minmax"}:
        setting = {"scale": None}
    weighted = learn(lambda i, n: np.full(n, constant), form, **setting)
    assert_close(weighted, learn(None, form, **setting))


def test_the_gradient_update_divides_by_the_sum_of_the_weights():
    setting = {"update": "gradient", "scale": None}
    weighted = learn(lambda i, n: np.full(n, 10.0), **setting)
    assert_allclose(weighted.weights_, learn(**setting).weights_, rtol=1e-12)


def test_a_constant_weight_changes_nothing_in_a_pipeline():
    found = []
    for weight in (None, 10.0):
        pipeline = OnlinePipeline(FIRES(2), LinearRegressor())
        for X, y in stream():
            pipeline.partial_fit(100.0 * X, y, sample_weight=weight)
        found.append(pipeline)
    weighted, plain = (pipeline.saved()[1] for pipeline in found)
    for name in weighted.keys() - {"scaler.weight_sums", "selector.weight_sums"}:
        if not name.startswith("predictor."):  # it takes weights as they come
            assert_allclose(weighted[name], plain[name], rtol=1e-12, atol=1e-13, err_msg=name)


def test_unequal_weights_count_as_their_effective_number_of_rows():
    weight = np.array([1.0, 2.0, 4.0, 1.0])
    counted, sums = effective_weights(weight, 4, WeightSums())
    assert_allclose(counted.sum(), weight.sum() ** 2 / (weight**2).sum())
    again, (unit, total, squares) = effective_weights(weight, 4, sums, memory=100.0)
    keep = (1.0 - 1.0 / 100.0) ** 4
    assert unit == 4.0
    assert_allclose([total, squares], [2.0 * (1 + keep), 22.0 / 16.0 * (1 + keep)])
    assert_allclose(again, counted)


def test_rows_without_weights_count_beside_those_that_have_some():
    """Once weights were unequal, rows without any are rows of weight 1 among them."""
    _, sums = effective_weights(np.array([1.0, 3.0]), 2, WeightSums())
    without, _ = effective_weights(None, 2, sums)
    ones, _ = effective_weights(np.ones(2), 2, sums)
    assert_array_equal(without, ones)
    assert (without < 1.0).all()


@pytest.mark.parametrize("setting", [UPDATES[0], UPDATES[1], UPDATES[3]], ids=str)
def test_the_sums_of_weights_are_saved(setting, tmp_path):
    def weights(i, n):
        return np.random.default_rng(i).lognormal(size=n)

    whole = learn(weights, **setting)
    parts = FIRES(2, **setting)
    for i, (X, y) in enumerate(stream()):
        parts.partial_fit(X, y, sample_weight=weights(i, len(y)))
        parts.save(tmp_path / "state")
        parts = fires.load(tmp_path / "state")
    assert_close(parts, whole, rtol=0.0)
    assert_array_equal(parts.saved()[1]["weight_sums"], whole.saved()[1]["weight_sums"])


def test_a_file_without_sums_of_weights_starts_with_none():
    selector = learn()
    header, arrays = selector.saved()
    del arrays["weight_sums"]
    again = FIRES(2).restore(header, {name: array.copy() for name, array in arrays.items()})
    X, y = next(stream(seed=7))
    assert_close(again.partial_fit(X, y), selector.partial_fit(X, y), rtol=0.0)


@pytest.mark.parametrize("setting", [UPDATES[0], UPDATES[1], UPDATES[3]], ids=str)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_weights_in_shards_are_those_of_one_process(setting, form):
    by_shards = {n: FIRES(2, **setting) for n in (1, 2, 5)}
    for i, (X, y) in enumerate(stream()):
        weight = np.random.default_rng(i).lognormal(size=len(y)) * (np.arange(len(y)) % 7 > 0)
        for n, selector in by_shards.items():
            shards = Shards.cut(CheckedBatch(form(X), y, weight), n)
            partial_fit_sharded(
                selector, shards.evaluate, n_features=X.shape[1], sparse=sp.issparse(form(X))
            )
    one = by_shards.pop(1)
    assert one.n_samples_seen_ == 6 * 34  # rows of weight 0 are absent
    for selector in by_shards.values():
        assert_allclose(selector.weights_, one.weights_, rtol=1e-8)
        assert_allclose(selector.saved()[1]["weight_sums"], one.saved()[1]["weight_sums"])
    if "update" in setting:  # row by row and in shards, the gradient is the same
        plain = FIRES(2, **setting)
        for i, (X, y) in enumerate(stream()):
            weight = np.random.default_rng(i).lognormal(size=len(y)) * (np.arange(len(y)) % 7 > 0)
            plain.partial_fit(form(X), y, sample_weight=weight)
        assert_allclose(one.weights_, plain.weights_, rtol=1e-9)


def test_a_constant_weight_changes_nothing_in_shards():
    found = []
    for weight in (None, 10.0):
        selector = Sharded(FIRES(2), n_jobs=2)
        for X, y in stream():
            selector.partial_fit(X, y, sample_weight=weight)
        found.append(selector.selector)
    assert_close(*found, rtol=1e-8)


def relevant_stream(seed, threshold, n_rows=12_000, n_features=50):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features))
    effects = np.array([1.0, 0.8, 0.7, 0.6, 0.5]) * rng.choice([-1, 1], 5)
    return X, (X[:, :5] @ effects + rng.normal(size=n_rows) > threshold).astype(int), rng


@pytest.mark.parametrize("kind", ["constant", "lognormal", "balanced"])
def test_weights_raise_no_alarms_and_lose_no_features(kind):
    X, y, rng = relevant_stream(0, 3.2 if kind == "balanced" else 0.0)
    share = y.mean()
    weight = {
        "constant": np.full(len(y), 10.0),
        "lognormal": rng.lognormal(0.0, 1.5, len(y)),
        "balanced": np.where(y == 1, 0.5 / share, 0.5 / (1.0 - share)),
    }[kind]
    selector = FIRES(5).fit(X, y, sample_weight=weight)
    assert selector.alarms_ == []
    assert selector.get_support(indices=True).tolist() == [0, 1, 2, 3, 4]
    low, high = selector.interval(0.95)
    assert ((low[5:] <= 0.0) & (high[5:] >= 0.0)).mean() > 0.9
