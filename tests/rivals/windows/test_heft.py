"""HEFT: its rules word by word beside ours, what it finds, and what it does not."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.naive import cut_plain, information_plain

from fires import HEFT, Screening


def plain(batches, threshold, n_bins):
    """SU, the predominant features, drifts and the row of the last one, after every chunk."""
    before, n_drifts, last, n_rows = None, 0, None, 0
    for X, y in batches:
        codes = [cut_plain(x.tolist(), n_bins) for x in X.T]
        shared = [information_plain(np.asarray(y), code)[1] for code in codes]
        order = sorted(range(len(shared)), key=lambda j: (-shared[j], j))
        kept = []
        for q in order:
            better = [information_plain(codes[p], codes[q])[1] for p in kept]
            relevant = shared[q] >= threshold and shared[q] > 1e-15
            if relevant and not any(between >= shared[q] for between in better):
                kept.append(q)
        if before and set(kept) != before:
            n_drifts, last = n_drifts + 1, n_rows
        before, n_rows = set(kept), n_rows + len(y)
        yield shared, sorted(kept), n_drifts, last


def stream(n_batches, n_features=8, seed=0, n_rows=60):
    rng = np.random.default_rng(seed)
    for i in range(n_batches):
        X = rng.normal(size=(n_rows, n_features))
        X[:, 5], X[:, 6] = np.round(X[:, 5]), X[:, 2] + 0.1 * X[:, 6]
        X[rng.random(X.shape) < 0.05] = np.nan
        signal = np.nan_to_num(X[:, 1] - X[:, 2] if i < n_batches // 2 else X[:, 3])
        yield X, np.digitize(signal + 0.3 * rng.normal(size=n_rows), [-0.5, 0.8])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("threshold", "n_bins"), [(0.0, 5), (0.1, 3)])
def test_it_is_the_plain_loop(form, threshold, n_bins):
    selector, batches = HEFT(3, threshold=threshold, n_bins=n_bins), list(stream(6))
    for (X, y), expected in zip(batches, plain(batches, threshold, n_bins), strict=True):
        shared, kept, n_drifts, last = expected
        selector.partial_fit(form(X), y)
        weights = np.array(shared) + np.isin(np.arange(8), kept)
        assert_allclose(selector.weights_, weights, rtol=0, atol=1e-12)
        assert selector.predominant_.tolist() == kept
        assert (selector.n_drifts_, selector.last_drift_) == (n_drifts, last)
    assert n_drifts > 0


def share_found(selector, make, relevant, n_batches=20):
    """The share of the relevant features that are selected, over the second half of a stream."""
    found, rng = [], np.random.default_rng(3)
    for i in range(n_batches):
        selector.partial_fit(*make(rng, i))
        found.append(len(set(selector.get_support(indices=True)) & relevant) / len(relevant))
    return np.mean(found[n_batches // 2 :])


def copies(rng, i):
    X = rng.normal(size=(200, 12))
    X[:, 3] = X[:, 1]
    return X, 2.0 * X[:, 1] - X[:, 6] + 0.3 * rng.normal(size=200) > 0.0


def weak(rng, i):
    X = rng.normal(size=(200, 50))
    return X, 0.15 * (X[:, 1] - X[:, 6]) + rng.normal(size=200) > 0.0


def test_it_wins_where_columns_are_copies():
    assert share_found(HEFT(2), copies, {1, 6}) == 1.0
    assert share_found(Screening(2), copies, {1, 6}) == 0.5


def test_it_loses_where_a_chunk_is_too_short_to_show_anything():
    assert share_found(HEFT(2), weak, {1, 6}) < 0.3
    assert share_found(Screening(2), weak, {1, 6}) > 0.9


def test_a_feature_drift_is_a_change_of_the_set():
    def switched(rng, i):
        X = rng.normal(size=(500, 5))
        return X, X[:, 1 if i < 5 else 4] > 0.0

    selector, rng, noted = HEFT(1, threshold=0.1), np.random.default_rng(0), []
    for i in range(10):
        selector.partial_fit(*switched(rng, i))
        noted.append((selector.predominant_.tolist(), selector.n_drifts_, selector.last_drift_))
    assert noted == [([1], 0, None)] * 5 + [([4], 1, 2500)] * 5


def test_rows_of_one_class_change_nothing():
    X, y = next(stream(1))
    selector = HEFT(3).partial_fit(X, y)
    before = selector.weights_
    selector.partial_fit(X, np.ones(60, dtype=int)).partial_fit(X[:1], y[:1])
    assert_array_equal(selector.weights_, before)
    assert selector.n_drifts_ == 0
