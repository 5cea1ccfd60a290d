"""The running scale of dense columns: it forgets, leaves out bad cells and follows the column."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.declared import collect
from fires.core.state import under
from fires.kernels.moments import CLIP, MEMORY
from fires.models.scale import MinMax, Scaler, Standard

N = 100


def fed(make, n_batches, *, n_rows=N, n_columns=10, change=lambda X, i: X):
    """The spread of every standardised column in every batch, and the scaler."""
    rng, scaler, spreads = np.random.default_rng(3), Standard(n_columns), []
    for i in range(n_batches):
        X = change(make(rng, (n_rows, n_columns)), i)
        scaled, learn = scaler.scaled(X, np.ones(n_rows))
        spreads.append(scaled.std(axis=0))
        learn()
    return np.array(spreads), scaler


def normal(rng, shape):
    return rng.normal(3.0, 2.0, shape)


@settings(deadline=None)
@given(
    seed=st.integers(0, 2**16),
    n_rows=st.integers(1, 12),
    n_columns=st.sampled_from([1, 7, 300]),
    order=st.sampled_from("CF"),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_mean_and_spread_are_those_of_all_rows_with_fading_weights(
    seed, n_rows, n_columns, order, dtype
):
    rng = np.random.default_rng(seed)
    scaler, rows, weights = Standard(n_columns), [], []
    for _ in range(3):
        X = np.array(rng.normal(50.0, 2.0, (n_rows, n_columns)), order=order, dtype=dtype)
        X[rng.random(X.shape) < 0.2] = np.nan
        weight = rng.integers(0, 3, n_rows).astype(float)
        there = np.where(np.isnan(X), 0.0, weight[:, None])
        before = [part.copy() for part in collect(scaler, scaler.learnt)[1].values()]
        expected = (X - scaler.shift) * scaler.gain
        scaled, learn = scaler.scaled(X, weight)
        if scaler.ready:
            bounded = np.nan_to_num(expected).clip(-CLIP, CLIP)
            known = scaler.count > 0.0  # others get their scale from the batch they come with
            assert_allclose(scaled[:, known], bounded[:, known], rtol=1e-9, atol=1e-9)
        for part, old in zip(collect(scaler, scaler.learnt)[1].values(), before, strict=True):
            assert_array_equal(part, old)
        learn()
        weights = [w * (1.0 - 1.0 / MEMORY) ** there.sum(axis=0) for w in weights] + [there]
        rows.append(np.nan_to_num(X.astype(float)))
    X, w = np.concatenate(rows), np.concatenate(weights)
    total = np.maximum(w.sum(axis=0), 1e-300)
    mean = (w * X).sum(axis=0) / total
    assert_allclose(scaler.shift, mean, rtol=1e-9)
    assert_allclose(scaler.spread, (w * (X - mean) ** 2).sum(axis=0), rtol=1e-6, atol=1e-9)


def test_weights_do_not_make_entries_of_a_column_that_has_none():
    # Two sums of the same weights need not be equal in the last digit.
    rng, scaler = np.random.default_rng(0), Standard(2)
    for n_rows in range(40, 400, 10):
        X = np.column_stack([rng.normal(size=n_rows), np.full(n_rows, np.nan)])
        scaler.scaled(X, rng.random(n_rows))[1]()
        assert scaler.count[1] == 0.0


@pytest.mark.parametrize("value", [1e3, -1e4, 1e6, 1e100])
def test_a_bad_cell_becomes_0_and_changes_nothing(value):
    def spoil(X, i):
        if i == 50:
            X[7] = value
        return X

    clean, bad = fed(normal, 60)[1], fed(normal, 60, change=spoil)[1]
    assert_allclose(bad.gain, clean.gain, rtol=0.01)
    assert_allclose(bad.shift, clean.shift, atol=0.02)
    scaler = Scaler("standard", 10)
    scaler.dense = clean
    assert not scaler.applied(np.full((1, 10), value)).any()


CHANGES = {
    "20 sd up": (lambda X: X + 40.0, 0),
    "20 sd down": (lambda X: X - 40.0, 0),
    "times 1000": (lambda X: X * 1000.0, 0),
    "a thousandth": (lambda X: X / 1000.0, 11),
    "a tenth": (lambda X: X / 10.0, 11),
}


@pytest.mark.parametrize(("changed", "late"), CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("n_rows", [50, 400])
def test_a_scale_follows_a_change_of_level_or_unit(changed, late, n_rows):
    spreads, _ = fed(normal, 80, n_rows=n_rows, change=lambda X, i: changed(X) if i >= 30 else X)
    after = spreads[30 + late :]
    assert after.min() > 0.5
    assert after.max() < 2.0


@pytest.mark.parametrize("value", [1e3, 1e6])
def test_a_bad_cell_in_the_first_batch_is_forgotten(value):
    def spoil(X, i):
        if i == 0:
            X[7] = value
        return X

    after = fed(normal, 60, change=spoil)[0][30:]
    assert after.min() > 0.5
    assert after.max() < 2.0


def test_rows_one_by_one_show_a_new_level_too():
    _, scaler = fed(normal, 1500, n_rows=1, change=lambda X, i: X + 40.0 if i >= 1000 else X)
    assert_allclose(scaler.shift, 43.0, atol=0.5)
    assert_allclose(scaler.gain, 0.5, rtol=0.15)


STATIONARY = {
    "log-normal": lambda rng, shape: rng.lognormal(0.0, 2.0, shape),
    "Cauchy": lambda rng, shape: rng.standard_cauchy(shape),
    "counts": lambda rng, shape: rng.poisson(0.1, shape).astype(float),
    "rare": lambda rng, shape: (rng.random(shape) < 0.001).astype(float),
    "noise with rare ones": lambda rng, shape: (
        0.001 * rng.normal(size=shape) + (rng.random(shape) < 0.001)
    ),
    "mostly zeros": lambda rng, shape: (rng.random(shape) < 0.01) * rng.lognormal(3.0, 3.0, shape),
    "another level in every batch": lambda rng, shape: (
        0.01 * rng.normal(size=shape) + rng.normal(size=shape[1])
    ),
}


@pytest.mark.parametrize("make", STATIONARY.values(), ids=STATIONARY.keys())
def test_a_column_that_does_not_change_keeps_its_scale(make):
    rng, scaler, n_restarts, n_refused = np.random.default_rng(5), Standard(20), 0, 0.0
    for _ in range(1000):
        X = make(rng, (N, 20))
        before, refused = scaler.count.copy(), scaler.refused.copy()
        scaler.scaled(X, np.ones(N))[1]()
        n_restarts += int((scaler.count < before).sum() if before.max() < 9_000.0 else 0)
        n_restarts += int((scaler.count < 0.5 * before).sum() if before.max() >= 9_000.0 else 0)
        n_refused += float(np.maximum(scaler.refused - refused, 0.0).sum())
    assert n_restarts / 20 <= 3.0
    assert n_refused / 20 <= 50.0


def test_rare_entries_get_their_weight_also_in_a_new_unit():
    def change(X, i):
        return X * (1000.0 if i >= 300 else 1.0)

    _, scaler = fed(STATIONARY["rare"], 800, change=change)
    assert (scaler.gain > 0.0).all()
    assert_allclose(1.0 / scaler.gain, 30.0, rtol=0.7)  # 1000 times the root of 0.001


def test_old_state_without_a_reach_goes_on():
    _, scaler = fed(normal, 50)
    _, arrays = collect(scaler, scaler.learnt)
    old = {name: arrays[name] for name in ("shift", "spread")} | {"count": arrays["count"][:1]}
    loaded = Scaler("standard", 10)
    loaded.restore(under("dense", old))
    again = loaded.dense
    assert_allclose(again.gain, scaler.gain, rtol=1e-12)
    X = np.random.default_rng(0).normal(3.0, 2.0, (N, 10))
    scaled, learn = again.scaled(X, np.ones(N))
    assert_allclose(scaled, scaler.scaled(X, np.ones(N))[0], rtol=1e-12)
    learn()


@pytest.mark.parametrize("first", [True, False])
def test_sums_that_overflow_are_refused(first):
    scaler = Standard(1)
    if not first:
        scaler.scaled(np.ones((2, 1)), np.ones(2))[1]()
    with pytest.raises(ValueError, match="so large that a step would overflow"):
        scaler.scaled(np.full((2, 1), [[1e200], [0.0]]), np.ones(2))


@pytest.mark.parametrize("kind", [Standard, MinMax])
def test_a_scale_goes_on_in_other_units(kind):
    rng, scale = np.random.default_rng(0), kind(4)
    X, origin, unit = rng.normal(size=(50, 4)), np.array([0.0, 5.0, -1.0, 0.5]), 0.3
    scale.scaled(X, np.ones(50))[1]()
    before = scale.applied(X)
    scale.restate(np.stack([origin, np.full(4, unit)]))
    assert_allclose(scale.applied(unit * X + origin), before, atol=1e-12)
