"""GFSFS: its rules word by word beside ours, curves that it finds, pairs that it does not."""

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from tests.naive import cut_plain, entropy_plain

from fires import GFSFS, SAOLA


def surprise(x, t, given=None):
    """-log p of G² = 2 n I(x; t | given), from entropies."""
    given = np.zeros_like(x) if given is None else given
    both = (x >= 0) & (t >= 0) & (given >= 0)
    a, b, c = (part[both].tolist() for part in (x, t, given))
    information = entropy_plain(a, c) + entropy_plain(b, c) - entropy_plain(a, b, c)
    information -= entropy_plain(c)
    n_x, n_t, n_given = (float(part.max()) + 1.0 for part in (x, t, given))
    freedom = (n_x - 1.0) * (n_t - 1.0) * n_given
    return -scipy.stats.chi2.logsf(2.0 * len(a) * information, freedom) if freedom else 0.0


def plain(groups, y, alpha, n_bins):
    """The selected groups: a list of features with their -log p for each."""
    limit, codes, worth, selected, first = -np.log(alpha), {}, {}, [], 0
    t = cut_plain(y.tolist(), 256)
    for columns in groups:
        for j, x in enumerate(columns.T, first):
            codes[j] = cut_plain(x.tolist(), n_bins)
            worth[j] = surprise(codes[j], t)
        names = range(first, first + columns.shape[1])
        first += columns.shape[1]

        def redundant(j, given):
            return any(surprise(codes[j], t, codes[k]) < limit for k in given)

        group = []
        for j in sorted(names, key=lambda j: (-worth[j], j)):
            if worth[j] >= limit and not redundant(j, group):
                group.append(j)
        known = [j for old in selected for j in old]
        if all(redundant(j, known) for j in group):
            continue
        selected = [old for old in selected if not all(redundant(j, group) for j in old)]
        selected.append(sorted(group))
    return {j: worth[j] for group in selected for j in group}


@given(seed=st.integers(0, 2**16), n_bins=st.integers(2, 4))
def test_it_is_the_plain_loop(seed, n_bins):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 9))
    X[:, 4], X[:, 7] = X[:, 1] + 0.2 * X[:, 4], np.round(X[:, 7])
    X[rng.random(X.shape) < 0.03] = np.nan
    signal = np.nan_to_num(X[:, 1] + rng.normal() * X[:, 6] - X[:, 7] ** 2)
    y = np.digitize(signal + 0.5 * rng.normal(size=120), [-1.0, 0.5])
    y[:3] = 0, 1, 2
    groups = np.split(X, [3, 5, 6], axis=1)
    selector = GFSFS(alpha=0.05, n_bins=n_bins)
    for group in groups:
        selector.partial_fit_features(group, y)
    expected = plain(groups, y, 0.05, n_bins)
    weights = np.zeros(9)
    weights[list(expected)] = list(expected.values())
    np.testing.assert_allclose(selector.weights_, weights, rtol=1e-12, atol=1e-12)


def learnt(selector, X, y, size=5):
    for start in range(0, X.shape[1], size):
        selector.partial_fit_features(X[:, start : start + size], y)
    return selector.get_support(indices=True).tolist()


@pytest.mark.parametrize("seed", range(3))
def test_it_wins_where_features_matter_by_a_curve(seed):
    X = np.random.default_rng(seed).normal(size=(600, 30))
    y = X[:, 2] ** 2 + X[:, 11] ** 2 > 1.4
    assert learnt(GFSFS(alpha=0.001), X, y) == [2, 11]
    assert not {2, 11} & set(learnt(SAOLA(alpha=0.001), X, y))


@pytest.mark.parametrize("seed", range(3))
def test_it_fails_where_features_matter_only_together(seed):
    X = np.random.default_rng(seed).normal(size=(600, 30))
    assert not {2, 3} & set(learnt(GFSFS(alpha=0.001), X, X[:, 2] * X[:, 3] > 0.0))


def test_a_group_comes_and_goes_as_a_whole():
    """An old group is dropped if the new one makes all of it redundant, and not before."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 800))
    y = a + b > 0.0
    blurred = np.column_stack([a, b]) + 0.7 * rng.normal(size=(800, 2))
    selector = GFSFS().partial_fit_features(blurred, y)
    assert selector.groups_.tolist() == [0, 0]
    selector.partial_fit_features(a[:, None], y)  # of the old group, the second still adds
    assert selector.get_support(indices=True).tolist() == [0, 1, 2]
    selector.partial_fit_features(np.column_stack([b, a + b]), y)
    assert selector.get_support(indices=True).tolist() == [4]
    assert selector.groups_.tolist() == [2]
    selector.partial_fit_features(blurred, y)
    assert selector.get_support(indices=True).tolist() == [4]
