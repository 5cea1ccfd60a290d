"""A column that only grows is no feature because it grows, and one of zeros never is."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from fires import FIRES

N_ROWS, K = 20_000, 5
WEAK = np.linspace(0.02, 0.08, 12)


def batches(seed, target, extra, weak=WEAK):
    """Weak features behind a column of another kind; the target is numbers or classes."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(N_ROWS, len(weak)))
    y = Z @ weak + rng.normal(size=N_ROWS)
    X = np.column_stack([extra, Z])
    y = y if target == "numbers" else y > 0
    return ((X[i : i + 100], y[i : i + 100]) for i in range(0, N_ROWS, 100))


@pytest.mark.parametrize("target", ["numbers", "classes"])
@pytest.mark.parametrize("seed", [3, 4, 5])
def test_a_row_number_never_ranks_before_weak_features(seed, target):
    selector, n_times, ranks = FIRES(K), 0, []
    for X, y in batches(seed, target, np.arange(N_ROWS)):
        n_times += selector.partial_fit(X, y).get_support()[0]
        ranks.append(selector.ranking_[0])
    assert not selector.get_support()[0]
    assert np.mean(ranks[len(ranks) // 2 :]) > len(WEAK)
    assert n_times < 0.1 * N_ROWS / 100


@pytest.mark.parametrize("target", ["numbers", "classes"])
def test_constants_rank_last_and_are_not_selected(target):
    selector = FIRES(K)
    for X, y in batches(0, target, np.full(N_ROWS, 7.0)):
        selector.partial_fit(X, y)
    assert selector.ranking_[0] == len(WEAK) + 1
    assert not selector.get_support()[0]


@pytest.mark.parametrize("target", ["numbers", "classes"])
def test_a_feature_that_the_rows_are_sorted_by_is_still_a_feature(target):
    rng = np.random.default_rng(1)
    Z = rng.normal(size=(N_ROWS, 8))
    Z = Z[np.argsort(Z[:, 0])]
    y = 0.8 * Z[:, 0] + 0.4 * Z[:, 1] + rng.normal(size=N_ROWS)
    selector = FIRES(2).fit(Z, y if target == "numbers" else y > 0)
    assert_array_equal(selector.get_support(indices=True), [0, 1])
