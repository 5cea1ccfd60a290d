"""A missing entry on the scale from 0 to 1 is the mean of its column, not the minimum."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from fires.core.declared import collect
from fires.models.scale import Scaler

N_FEATURES = 3


def batches_of(seed, n_batches=4, n_rows=12):
    """Rows with gaps, and weights, some of them 0; the last column is seen late."""
    rng = np.random.default_rng(seed)
    for index in range(n_batches):
        X = rng.normal(5.0, 2.0, (n_rows, N_FEATURES))
        X[rng.random(X.shape) < 0.3] = np.nan
        X[rng.random(X.shape) < 0.2] = 0.0
        if index < 2:
            X[:, 2] = np.nan
        yield X, rng.integers(0, 3, n_rows).astype(float)


def form_of(kind):
    return sp.csr_array if kind == "sparse" else np.asarray


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@given(seed=st.integers(0, 50))
def test_a_gap_becomes_the_weighted_mean_of_what_was_seen_before(kind, seed):
    form, scaler = form_of(kind), Scaler("minmax", N_FEATURES)
    seen, weights = np.empty((0, N_FEATURES)), np.empty(0)
    for X, w in batches_of(seed):
        before, before_w = (X, w) if not len(seen) else (seen, weights)
        scaled, learn = scaler.scaled(form(X), w, missing=True)
        shown = scaled.toarray() if sp.issparse(scaled) else scaled
        for j in range(N_FEATURES):
            there = ~np.isnan(before[:, j]) & (before_w > 0)
            values = before[there, j]
            range_of = np.append(values, 0.0) if kind == "sparse" else values
            if len(values) == 0 or np.ptp(range_of) == 0.0:
                expected = 0.0
            else:
                low = 0.0 if kind == "sparse" else values.min()
                mean = np.average(values, weights=before_w[there])
                expected = (mean - low) / np.ptp(range_of)
            np.testing.assert_allclose(shown[np.isnan(X[:, j]), j], expected, atol=1e-12)
        learn()
        seen, weights = np.vstack([seen, X]), np.append(weights, w)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_what_is_applied_to_new_rows_fills_gaps_alike(kind):
    form, scaler = form_of(kind), Scaler("minmax", 1)
    X = np.array([[2.0], [3.0], [7.0]])
    _, learn = scaler.scaled(form(X), np.ones(3), missing=False)
    learn()
    applied = scaler.applied(form(np.array([[np.nan]])))
    assert applied[0, 0] == pytest.approx(0.4 if kind == "dense" else 4.0 / 7.0)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("huge", [1e308, -1e308])
def test_values_whose_sum_overflows_leave_a_mean_within_the_range(kind, huge):
    form, scaler = form_of(kind), Scaler("minmax", 1)
    for _ in range(3):
        _, learn = scaler.scaled(form(np.array([[huge], [0.5 * huge]])), np.ones(2), missing=False)
        learn()
    filled = scaler.applied(form(np.array([[np.nan]])))[0, 0]
    assert -1.0 <= filled <= 1.0
    again = Scaler("minmax", 1)
    again.restore(scaler.state())
    assert again.applied(form(np.array([[np.nan]])))[0, 0] == filled


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_a_state_without_means_is_taken_up_and_learns_them(kind):
    """As earlier versions have written it."""
    form, scaler = form_of(kind), Scaler("minmax", 1)
    _, learn = scaler.scaled(form(np.array([[2.0], [4.0]])), np.ones(2), missing=False)
    learn()
    half = getattr(scaler, kind)
    old = {name: part for name, part in half.learnt.items() if name in ("low", "high", "batches")}
    arrays = {f"{kind}.{name}": value for name, value in collect(half, old)[1].items()}
    assert arrays.keys() < scaler.state().keys()
    again = Scaler("minmax", 1)
    again.restore(arrays)
    _, learn = again.scaled(form(np.array([[3.0], [3.0]])), np.ones(2), missing=False)
    learn()
    expected = 0.5 if kind == "dense" else 0.75
    assert again.applied(form(np.array([[np.nan]])))[0, 0] == pytest.approx(expected)
