"""Online leverage scores: the vector, the matrix by direct inversion, and chance."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fires import LeverageScores

TABLE = np.loadtxt(Path(__file__).with_name("arriving.csv"), delimiter=",")
X = TABLE[:, :6]


def test_vector():
    selector = LeverageScores(ridge=100.0, epsilon=0.0).partial_fit_features(X)
    known = [0.6560397443, 0.687245442289, 0.609763650997]
    known += [0.610129483613, 0.375569733004, 0.469124439787]
    assert_allclose(selector.weights_, known, atol=5e-13)
    assert selector.get_support().all()


def test_the_score_depends_on_the_scale():
    selector = LeverageScores(ridge=100.0, epsilon=0.0).partial_fit_features(0.01 * X[:, 4:5])
    assert selector.weights_[0] == pytest.approx(6.04404908e-05, rel=1e-9)


@given(
    seed=st.integers(0, 2**16),
    epsilon=st.sampled_from([0.1, 0.5]),
    c=st.sampled_from([0.3, 1.0, None]),
)
def test_sherman_morrison_is_the_inverse_of_what_was_kept(seed, epsilon, c):
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(8, 40)) * rng.uniform(0.1, 1.0, 40)
    settings = {"ridge": 0.5, "epsilon": epsilon, "oversampling": c}
    selector = LeverageScores(random_state=seed, **settings)
    c = 8.0 * np.log(8) / epsilon**2 if c is None else c
    gram = 0.5 * np.eye(8)
    for j, a in enumerate(Z.T):
        leverage = min(1.0, (1.0 + epsilon) * (a @ np.linalg.solve(gram, a)))
        selector.partial_fit_features(a[:, np.newaxis])
        if selector.get_support()[j]:
            assert selector.weights_[j] == pytest.approx(leverage, rel=1e-9)
            gram += np.outer(a, a) / min(1.0, c * leverage)
    assert_allclose(selector._inverse_ @ gram, np.eye(8), atol=1e-8)


def test_columns_are_kept_as_often_as_their_score_says():
    """All small and all alike, so that none changes much for the others."""
    Z = np.ones((4, 1)) * np.full(4000, 1e-3)
    kept = LeverageScores(epsilon=0.0, oversampling=1e5, random_state=0).partial_fit_features(Z)
    share = 1e5 * 4e-6
    assert kept.get_support().mean() < share  # each one kept takes a little from the rest
    first = LeverageScores(epsilon=0.0, oversampling=1e5, random_state=0)
    first.partial_fit_features(Z[:, :200])
    assert abs(first.get_support().mean() - share) < 4 * np.sqrt(share * (1 - share) / 200)


def test_the_seed_decides():
    Z = np.random.default_rng(0).normal(size=(10, 200))

    def chosen(seed):
        selector = LeverageScores(oversampling=0.5, random_state=seed)
        return selector.partial_fit_features(Z).get_support().tolist()

    assert chosen(1) == chosen(1) != chosen(2)
    for make in (np.random.RandomState, np.random.default_rng):
        assert chosen(make(3)) == chosen(make(3))


def test_the_global_generator_is_left_alone():
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    LeverageScores(oversampling=0.5).partial_fit_features(X)
    assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


def test_a_new_direction_stands_out_from_many_copies():
    rng = np.random.default_rng(0)
    Z = np.outer(rng.normal(size=30), np.ones(100)) + 1e-3 * rng.normal(size=(30, 100))
    Z[:, 60] = rng.normal(size=30)
    selector = LeverageScores(2, epsilon=0.0).partial_fit_features(Z)
    assert selector.get_support(indices=True).tolist() == [0, 60]


def test_a_column_of_nothing_is_never_kept():
    Z = np.column_stack([np.zeros(5), np.full(5, np.nan), np.arange(5.0)])
    for epsilon in (0.0, 1e-200, 0.5):
        selector = LeverageScores(epsilon=epsilon, random_state=0).partial_fit_features(Z)
        assert selector.get_support().tolist() == [False, False, True]


def test_one_row():
    selector = LeverageScores(random_state=0).partial_fit_features(np.array([[0.0, 2.0, 3.0]]))
    assert selector.get_support().tolist() == [False, True, True]


def test_what_overflows_is_said_and_changes_nothing():
    Z = np.random.default_rng(0).normal(size=(5, 20))
    selector = LeverageScores(ridge=1e-12, oversampling=0.9, epsilon=0.0, random_state=0)
    selector.partial_fit_features(Z)
    twin = LeverageScores(ridge=1e-12, oversampling=0.9, epsilon=0.0, random_state=0)
    twin.partial_fit_features(Z)
    small = LeverageScores(ridge=1e-12, random_state=0)
    with pytest.raises(ValueError, match=r"Column 3 is so large, or ridge=1e-12 so small"):
        small.partial_fit_features(np.column_stack([Z[:, :3], np.full(5, 1e150)]))
    assert not hasattr(small, "n_features_in_")
    huge = np.column_stack([Z, np.full(5, 1e150), Z])
    try:
        selector.partial_fit_features(huge)
    except ValueError:
        assert selector.n_features_in_ == 20
        assert_array_equal(selector._inverse_, twin._inverse_)
        assert selector._rng_.random() == twin._rng_.random()
    else:
        assert np.isfinite(selector._inverse_).all()


def test_huge_columns_that_do_not_overflow():
    rng = np.random.default_rng(0)
    Z = 1e150 * rng.uniform(-1.0, 1.0, size=(6, 10))
    selector = LeverageScores(random_state=0).partial_fit_features(Z)
    assert np.isfinite(selector._inverse_).all()
    assert (selector.weights_ <= 1.0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ridge": 0.0}, "ridge must be a number greater than 0; got 0.0"),
        ({"epsilon": -1}, "epsilon must be a number at least 0; got -1"),
        ({"oversampling": 0}, "oversampling must be a number greater than 0; got 0"),
        ({"random_state": -5}, "random_state must be a non-negative integer"),
    ],
)
def test_settings(settings, message):
    with pytest.raises(ValueError, match=message):
        LeverageScores(**settings).partial_fit_features(X)
