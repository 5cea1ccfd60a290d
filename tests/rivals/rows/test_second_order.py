"""AROW and SCW as selectors: weights, truncation, and what they find."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from tests import naive

from fires import AROW, SCW
from fires.kernels import sequential

kinds = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
learners = pytest.mark.parametrize("make", [AROW, SCW])
truncations = pytest.mark.parametrize("truncate", ["confidence", "weight"])


def stream(n_batches=10, n_features=12, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(n_batches):
        X = rng.normal(size=(50, n_features)) * (rng.random((50, n_features)) < 0.5)
        yield X, X[:, 3] - X[:, 5] + 0.1 * rng.normal(size=50) > 0


def learnt(selector, kind=np.asarray, **options):
    for X, y in stream(**options):
        selector.partial_fit(kind(X), y)
    return selector


@kinds
def test_the_first_step_from_nothing_known(kind):
    """By hand: v = 5, beta = 1/6; mu = y x / 6, var = 1 - x²/6."""
    selector = AROW(1).partial_fit(kind(np.array([[1.0, -2.0, 0.0]])), [0], classes=[0, 1])
    assert_allclose(selector.importances_, [-1 / 6, 2 / 6, 0.0], rtol=1e-14)
    assert_allclose(selector.uncertainties_**2, [5 / 6, 2 / 6, 1.0], rtol=1e-14)
    assert_array_equal(selector.ranking_, [2, 1, 3])


@learners
@kinds
def test_weights_are_those_of_fires(make, kind):
    selector = learnt(make(3, uncertainty_penalty=0.3), kind)
    mu, sigma = selector.importances_, selector.uncertainties_
    assert_allclose(selector.weights_, mu**2 - 0.3 * sigma**2, rtol=1e-12)
    selector.set_params(uncertainty_penalty=0.0)
    assert_allclose(selector.weights_, mu**2, rtol=1e-14)


@pytest.mark.parametrize("variant", ["I", "II"])
def test_scw_takes_its_numbers_from_its_settings(variant):
    X, y = next(stream(1))
    selector = SCW(3, confidence=0.9, C=0.3, variant=variant).partial_fit(X, y)
    rule = (1 if variant == "I" else 2, 1.2815515655446004, 0.3)
    mu, var = naive.second_order_plain(
        X, 2.0 * y - 1.0, np.zeros(12), np.ones(12), 3, sequential.ALL, rule, False
    )
    assert_allclose(selector.importances_, mu, rtol=1e-9, atol=1e-12)
    assert_allclose(selector.uncertainties_**2, var, rtol=1e-9)


@learners
@pytest.mark.parametrize("diagonal", ["drop", "inverse"])
@kinds
def test_what_decides_the_class_is_found(make, diagonal, kind):
    selector = make(2, diagonal=diagonal)
    assert_array_equal(learnt(selector, kind).get_support(indices=True), [3, 5])
    assert selector.importances_[3] > 0.0 > selector.importances_[5]


@learners
@kinds
def test_confidence_keeps_what_was_there_most_often(make, kind):
    """The idea of SOFS: it is made for sparse data, whose frequent features it finds."""
    rng = np.random.default_rng(0)
    share = np.linspace(0.05, 0.9, 12)
    selector = make(3, truncate="confidence")
    for _ in range(10):
        X = (rng.random((50, 12)) < share).astype(float)
        selector.partial_fit(kind(X), rng.integers(0, 2, 50))
    assert_array_equal(selector.get_support(indices=True), [9, 10, 11])


@learners
@truncations
@kinds
@given(seed=st.integers(0, 2**16), k=st.integers(1, 14))
def test_no_more_than_k_means_differ_from_zero_and_these_are_selected(
    make, truncate, kind, seed, k
):
    selector = learnt(make(k, truncate=truncate), kind, n_batches=1, seed=seed)
    kept = np.flatnonzero(selector.importances_)
    assert len(kept) <= k
    if truncate == "confidence":
        # Whatever its mean, what is sure comes before what is not.
        assert set(kept) <= set(selector.get_support(indices=True))
        sure = np.sort(selector.uncertainties_[kept])
        others = np.delete(selector.uncertainties_, kept)
        assert sure.size == 0 or others.size == 0 or sure[-1] <= others.min()


@learners
@truncations
@kinds
def test_truncation_may_be_switched_on_and_off_in_mid_stream(make, truncate, kind):
    selector = make(3)
    n_kept = []
    for chosen, (X, y) in zip([None, truncate, None, truncate], stream(4), strict=True):
        selector.set_params(truncate=chosen).partial_fit(kind(X), y)
        n_kept.append(np.count_nonzero(selector.importances_))
    assert n_kept[0] == n_kept[2] == 12
    assert n_kept[1] <= 3
    assert n_kept[3] <= 3


@learners
def test_ties_go_to_the_lower_column(make):
    for kind in (np.asarray, sp.csr_array):
        for truncate in ("confidence", "weight"):
            selector = make(2, truncate=truncate).partial_fit(kind(np.ones((1, 200))), [1])
            assert_array_equal(np.flatnonzero(selector.importances_), [0, 1])


@learners
@given(seed=st.integers(0, 2**16))
def test_exchanged_labels_turn_the_signs_and_nothing_else(make, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 9)), rng.integers(0, 2, size=40)
    one, other = make(4).fit(X, y), make(4).fit(X, 1 - y)
    assert_array_equal(other.importances_, -one.importances_)
    assert_array_equal(other.weights_, one.weights_)
