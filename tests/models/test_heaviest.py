"""The columns of the greatest weights, found from those that sparse rows have moved."""

import copy
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fires import FIRES
from fires.models import linear_learner


def naive(weights, k):
    """The k greatest, ties to the lower index."""
    return np.sort(np.lexsort([np.arange(len(weights)), -weights])[:k])


def rows(rng, n_features, missing=0.0):
    X = rng.normal(1.0, 1.0, (8, n_features)) * (rng.random((8, n_features)) < 0.05)
    X = np.where(rng.random(X.shape) < missing, np.nan, np.round(X, 1))  # some are equal
    return sp.csr_array(X), rng.integers(0, 2, 8)


@given(
    seed=st.integers(0, 2**16),
    k=st.integers(1, 4),
    scale=st.sampled_from([None, "standard", "minmax"]),
    missing=st.sampled_from([0.0, 0.1]),
    asks=st.lists(st.booleans(), min_size=5, max_size=30),
)
def test_they_are_those_of_all_weights(seed, k, scale, missing, asks):
    rng, n_features = np.random.default_rng(seed), 60
    selector = FIRES(k, update="gradient", drift=None, scale=scale, learning_rate=0.3)
    # Few are kept in mind, so that the search often begins anew, and often does not.
    small = {"_MANY": 0, "_MAX_K": 4, "_PART": 16, "_LATER": int(rng.integers(1, 8))}
    with ExitStack() as stack:
        for name, value in small.items():
            stack.enter_context(patch.object(linear_learner, name, value))
        for ask in asks:
            selector.partial_fit(*rows(rng, n_features, missing), classes=[0, 1])
            if rng.random() < 0.1:
                selector.set_params(uncertainty_penalty=float(rng.choice([0.01, 0.5])))
            if ask:
                found = copy.deepcopy(selector).get_support(indices=True)
                assert_array_equal(selector.get_support(indices=True), found)
                assert_array_equal(found, naive(selector.weights_, k))


def test_few_are_looked_at_after_a_batch():
    rng, n_features = np.random.default_rng(0), 60_000
    selector = FIRES.as_published(5)
    looked = []

    def sifted(self, known, columns, sift=linear_learner.LinearLearner._sifted):
        looked.append(len(columns))
        return sift(self, known, columns)

    with patch.object(linear_learner.LinearLearner, "_sifted", sifted):
        for _ in range(10):
            columns = np.sort(rng.choice(n_features, 50, replace=False))
            X = sp.csr_array((rng.normal(size=50), columns, [0, 25, 50]), shape=(2, n_features))
            selector.partial_fit(X, [0, 1])
            assert_array_equal(selector.get_support(indices=True), naive(selector.weights_, 5))
    assert looked[0] == n_features
    assert max(looked[1:]) < 3_000
