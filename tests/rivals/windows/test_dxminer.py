"""DXMiner: its sums beside a plain loop, what it remembers, and what it does not find."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from tests.naive import cut_plain, information_plain

from fires import HEFT, DXMiner


def plain(batches, k, n_chunks, n_bins):
    """The weights after all chunks, and the union."""
    kept = []
    for X, y in batches:
        gain = [information_plain(np.asarray(y), cut_plain(x.tolist(), n_bins))[0] for x in X.T]
        best = sorted(range(len(gain)), key=lambda j: (-gain[j], j))[:k]
        kept.append({j: gain[j] for j in best if gain[j] > 1e-15})
    kept = kept[-n_chunks:]
    weights = [sum(chunk.get(j, 0.0) for chunk in kept) / len(kept) for j in range(X.shape[1])]
    return weights, sorted(set().union(*kept))


def stream(n_batches, n_features=9, seed=0, n_rows=60):
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < 0.7)
        X[rng.random(X.shape) < 0.05] = np.nan
        X[:, 4] = 1.0
        yield X, np.digitize(np.nan_to_num(X[:, 1] - X[:, 2]), [-0.5, 0.8])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("k", "n_chunks", "n_bins"), [(3, 2, 5), (1, 6, 2), (9, 4, 9)])
def test_it_is_the_plain_loop(form, k, n_chunks, n_bins):
    selector, batches = DXMiner(k, n_chunks=n_chunks, n_bins=n_bins), list(stream(5))
    for n, (X, y) in enumerate(batches, 1):
        selector.partial_fit(form(X), y)
        weights, union = plain(batches[:n], k, n_chunks, n_bins)
        assert_allclose(selector.weights_, weights, rtol=0, atol=1e-12)
        assert selector.union_.tolist() == union


def share_found(selector, make, relevant, n_batches=24):
    """The share of the relevant features that are selected, over the second half of a stream."""
    found, rng = [], np.random.default_rng(3)
    for i in range(n_batches):
        selector.partial_fit(*make(rng, i))
        found.append(len(set(selector.get_support(indices=True)) & relevant) / len(relevant))
    return np.mean(found[n_batches // 2 :])


def in_turns(rng, i):
    X = rng.normal(size=(200, 30))
    return X, (X[:, 1] > X[:, 6] if i % 2 else X[:, 3] > X[:, 8])


def of_two(rng, i):
    X = rng.normal(size=(200, 12))
    return X, X[:, 1] * X[:, 6] > 0.0


def test_it_wins_where_concepts_come_back():
    assert share_found(DXMiner(4), in_turns, {1, 3, 6, 8}) == 1.0
    assert share_found(HEFT(4), in_turns, {1, 3, 6, 8}) < 0.7
    assert share_found(DXMiner(4, n_chunks=1), in_turns, {1, 3, 6, 8}) < 0.7


def test_it_fails_where_features_matter_only_together():
    assert share_found(DXMiner(2), of_two, {1, 6}) < 0.4
