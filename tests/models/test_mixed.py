"""The scale of sparse rows: what dense rows would get, where a column is full enough."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.declared import collect, restore
from fires.core.errors import StateError
from fires.models.mixed import FULL, Mixed
from fires.models.scale import Standard

FILLS = np.array([1.0, 0.7, 0.35, 0.05, 0.01, 1.0])  # the first three and the last are full


def matrix(rng, n_rows, *, missing=0.0, level=4.0, fills=FILLS):
    X = rng.normal(level, 1.5, (n_rows, len(fills))) * (rng.random((n_rows, len(fills))) < fills)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def scaled(mixed, X, weight=None):
    """A batch as a dense array, after learning from it."""
    weight = np.ones(len(X)) if weight is None else weight
    rows, learn = mixed.scaled(sp.csr_array(X), weight, bool(np.isnan(X).any()))
    assert not np.isin(rows.indices, rows.columns).any()
    learn()
    return rows.take(np.arange(X.shape[1]))


@settings(max_examples=20)
@given(seed=st.integers(0, 2**16), weighted=st.booleans(), missing=st.sampled_from([0.0, 0.2, 0.6]))
def test_full_columns_are_scaled_as_dense_ones(seed, weighted, missing):
    rng, mixed, dense = np.random.default_rng(seed), Mixed(6), Standard(6)
    for _ in range(5):
        X = matrix(rng, 80, missing=missing)
        weight = rng.choice([0.5, 1.0, 2.0], 80) if weighted else np.ones(80)
        expected, learn = dense.scaled(X, weight)
        found = scaled(mixed, X, weight)
        learn()
        full = np.array([0, 1, 5])
        assert np.isin(full, mixed.columns).all()
        assert_allclose(found[:, full], expected[:, full], rtol=1e-8, atol=1e-8)


def test_which_columns_are_full_and_which_are_rare():
    rng, mixed = np.random.default_rng(0), Mixed(6)
    for _ in range(5):
        scaled(mixed, matrix(rng, 200))
    assert_array_equal(np.sort(mixed.columns), [0, 1, 2, 5])


def test_rare_columns_are_divided_by_their_deviation_and_not_centred():
    rng, mixed, fills = np.random.default_rng(1), Mixed(3), np.array([1.0, 0.1, 0.05])
    known = np.empty((0, 2))
    for i in range(6):
        X = matrix(rng, 200, fills=fills)
        found, rare = scaled(mixed, X)[:, 1:], X[:, 1:]
        if i == 0:  # the first batch by itself
            known = rare
        assert_allclose(found, (rare / known.std(axis=0)).clip(-5.0, 5.0), rtol=1e-9)
        assert (found[rare == 0.0] == 0.0).all()
        known = known if i == 0 else np.concatenate([known, rare])
    assert_array_equal(mixed.columns, [0])


def test_a_column_is_full_from_an_entry_in_every_fifth_row_on():
    for n_entries, full in ((19, False), (20, True)):
        X, mixed = np.zeros((100, 1)), Mixed(1)
        X[:n_entries, 0] = np.arange(1.0, n_entries + 1.0)
        scaled(mixed, X)
        assert (n_entries >= FULL * 100) == full
        assert (len(mixed.columns) == 1) == full


def test_a_column_that_fills_up_joins_the_full_ones_with_what_is_known_of_it():
    rng, mixed = np.random.default_rng(2), Mixed(2)
    fills = [np.array([1.0, 0.02])] * 3 + [np.array([1.0, 0.9])] * 4
    seen, was = [], []
    for fill in fills:
        X = matrix(rng, 100, fills=fill)
        full = 1 in mixed.columns
        found = scaled(mixed, X)
        if full and not was[-1]:  # the first batch as a full one
            known = np.concatenate(seen)[:, 1]
            expected = ((X[:, 1] - known.mean()) / known.std()).clip(-5.0, 5.0)
            assert_allclose(found[:, 1], expected, rtol=1e-8)
        seen.append(X)
        was.append(full)
    assert was[0] is False
    assert was[-1] is True
    assert_array_equal(mixed.columns, [0, 1])


def test_a_full_column_stays_full():
    rng, mixed = np.random.default_rng(3), Mixed(2)
    scaled(mixed, matrix(rng, 100, fills=np.array([1.0, 1.0])))
    for _ in range(20):
        scaled(mixed, matrix(rng, 100, fills=np.array([1.0, 0.01])))
    assert_array_equal(np.sort(mixed.columns), [0, 1])


def test_a_column_with_a_great_mean_is_centred():
    rng, mixed = np.random.default_rng(4), Mixed(6)
    for _ in range(3):
        found = scaled(mixed, matrix(rng, 300, level=1e4, fills=np.ones(6)))
    assert np.abs(found.mean(axis=0)).max() < 0.3
    assert_allclose(found.std(axis=0), 1.0, atol=0.2)


def test_missing_entries_become_zeros_and_do_not_count():
    rng = np.random.default_rng(5)
    fills = np.array([1.0, 0.08])
    X = matrix(rng, 400, fills=fills)
    X[::2, 0] = np.nan
    there = X[1::2, 0]
    X[np.flatnonzero(X[:, 1])[::3], 1] = np.nan
    found = scaled(Mixed(2), X)
    assert (found[np.isnan(X)] == 0.0).all()
    assert np.isfinite(found).all()
    assert_allclose(found[1::2, 0], (there - there.mean()) / there.std(), rtol=1e-9)


def test_a_column_that_is_always_missing_is_zero():
    mixed = Mixed(2)
    for _ in range(3):
        X = matrix(np.random.default_rng(6), 50, fills=np.ones(2))
        X[:, 1] = np.nan
        assert (scaled(mixed, X)[:, 1] == 0.0).all()


def test_constant_and_empty_columns_become_zero():
    mixed, X = Mixed(3), np.zeros((50, 3))
    X[:, 0], X[:, 1] = 3.0, np.arange(50.0)
    for _ in range(3):
        found = scaled(mixed, X)
    assert (found[:, [0, 2]] == 0.0).all()
    assert found[:, 1].any()


def test_a_row_of_weight_zero_teaches_nothing():
    rng = np.random.default_rng(7)
    X = matrix(rng, 200)
    weight = rng.choice([0.0, 1.0, 2.0], 200)
    one, other = Mixed(6), Mixed(6)
    scaled(one, X, weight)
    scaled(other, X[weight > 0.0], weight[weight > 0.0])
    probe = matrix(rng, 50)
    assert_allclose(scaled(one, probe), scaled(other, probe), rtol=1e-10, atol=1e-12)


def test_standardised_values_are_bounded():
    rng, mixed = np.random.default_rng(8), Mixed(6)
    for _ in range(3):
        scaled(mixed, matrix(rng, 200))
    X = matrix(rng, 50)
    X[7] = 40.0
    assert np.abs(scaled(mixed, X)).max() <= 5.0


def test_until_learn_is_called_a_later_batch_teaches_nothing():
    rng, mixed = np.random.default_rng(9), Mixed(6)
    scaled(mixed, matrix(rng, 100))
    before = copy.deepcopy(mixed.state())
    mixed.scaled(sp.csr_array(matrix(rng, 100)), np.ones(100), False)
    for name, part in mixed.state().items():
        assert_array_equal(part, before[name], err_msg=name)


def test_values_too_large_are_refused_and_change_nothing():
    rng, mixed = np.random.default_rng(10), Mixed(6)
    scaled(mixed, matrix(rng, 100))
    before = copy.deepcopy(mixed.state())
    X = matrix(rng, 50)
    X[3, 3] = 1e200
    with pytest.raises(ValueError, match="so large"):
        mixed.scaled(sp.csr_array(X), np.ones(50), False)
    for name, part in mixed.state().items():
        assert_array_equal(part, before[name], err_msg=name)


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_what_was_saved_goes_on_bit_for_bit(missing):
    rng, mixed = np.random.default_rng(11), Mixed(6)
    for _ in range(4):
        scaled(mixed, matrix(rng, 60, missing=missing))
    other = Mixed(6)
    other.restore(copy.deepcopy(mixed.state()))
    for _ in range(4):
        X = matrix(rng, 60, missing=missing)
        assert_array_equal(scaled(other, X), scaled(mixed, X))


def test_a_loaded_scale_of_dense_columns_is_the_saved_one_to_the_bit():
    """The gain is not saved; it is computed again."""
    rng, scaler, loaded = np.random.default_rng(0), Standard(2000), Standard(2000)
    for _ in range(5):
        X = matrix(rng, 60, missing=0.1, fills=np.ones(2000))
        X[:, 0] = 7.0
        scaler.scaled(X, np.ones(60))[1]()
    restore(loaded, Standard.learnt, *collect(scaler, Standard.learnt), {"J": 2000})
    loaded.refresh()
    assert_array_equal(loaded.gain, scaler.gain)
    assert_array_equal(loaded.max_abs, scaler.max_abs)


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("columns", np.array([0, 1, 2, 6])),
        ("squares", -np.ones(6)),
        ("sums", np.zeros(5)),
        ("count", np.array(-1.0)),
    ],
)
def test_a_state_that_does_not_fit_is_refused(name, bad):
    mixed = Mixed(6)
    scaled(mixed, matrix(np.random.default_rng(12), 300))
    assert len(mixed.columns) == 4
    with pytest.raises(StateError, match=name):
        Mixed(6).restore(mixed.state() | {name: bad})
