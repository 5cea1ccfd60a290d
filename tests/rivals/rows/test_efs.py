"""EFS: the worked example, its guards, and the two ends of the order."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import fires
from fires import EFS

X = np.array([[1, 0.5, 0, 0.2], [0.3, 1, 0.8, 0], [0, 0.4, 1, 0.6]])
Y = np.array([1, -1, -1])
DIGITS = {"rtol": 0.0, "atol": 0.5000001e-12}

kinds = pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_array])

# u and v after each row; the last is the bias.
PATH = [
    (
        [4.111111111111, 3.555555555556, 2, 3.222222222222, 4.111111111111],
        [0.314814814815, 0.407407407407, 1, 0.462962962963, 0.314814814815],
    ),
    (
        [1.856630824373, 1.204301075269, 0.741935483871, 3.222222222222, 1.39247311828],
        [0.517921146953, 0.808243727599, 1.887096774194, 0.462962962963, 0.624551971326],
    ),
    (
        [1.856630824373, 0.521863799283, 0.247311827957, 1.288888888889, 0.464157706093],
        [0.517921146953, 1.374014336918, 3.774193548387, 0.833333333333, 1.249103942652],
    ),
]


@kinds
@pytest.mark.parametrize("classes", [None, [-1, 1]], ids=["found", "given"])
def test_the_worked_example_row_by_row(kind, classes):
    selector = EFS(2)
    for i, (u, v) in enumerate(PATH):
        selector.partial_fit(kind(X[i : i + 1]), Y[i : i + 1], classes=classes)
        models = selector._theta_[:2]
        assert_allclose(models, [u[:-1], v[:-1]], **DIGITS)
        assert_allclose(selector._bias_[:2], [u[-1], v[-1]], **DIGITS)
    importance = [1.338709677419, 0.852150537634, 3.52688172043, 0.455555555556]
    assert_allclose(selector.weights_, importance, **DIGITS)
    assert_array_equal(selector.ranking_, [2, 3, 1, 4])
    assert_array_equal(selector.get_support(indices=True), [0, 2])


@kinds
def test_a_feature_that_was_never_there_comes_last(kind):
    """Its u - v is still 1, which is more than many a feature that was learnt has."""
    selector = EFS(3).partial_fit(kind(X), Y)  # the other three
    rows = np.column_stack([np.zeros(3), X])
    selector = EFS(4).partial_fit(kind(rows), Y)
    assert selector.weights_[0] == 0.0
    assert_array_equal(selector.get_support(indices=True), [1, 2, 3, 4])


@kinds
def test_the_bottom_is_the_least_of_what_was_learnt(kind):
    rows = np.column_stack([np.zeros(3), X])  # weights 0, 1.3, 0.9, 3.5, 0.5
    selector = EFS(2, bottom_fraction=0.5).partial_fit(kind(rows), Y)
    assert_array_equal(selector.get_support(indices=True), [3, 4])
    selector.set_params(n_features_to_select=3, bottom_fraction=0.9)
    assert_array_equal(selector.get_support(indices=True), [1, 2, 4])
    selector.set_params(bottom_fraction=0.0)
    assert_array_equal(selector.get_support(indices=True), [1, 2, 3])
    selector.set_params(n_features_to_select=5, bottom_fraction=0.4)
    assert selector.get_support().all()


def test_of_ten_nine_are_from_the_top_and_one_is_from_the_bottom():
    rng = np.random.default_rng(0)
    selector = EFS(10, bottom_fraction=0.1).fit(rng.random((200, 30)), rng.integers(0, 2, 200))
    ranks = np.sort(selector.ranking_[selector.get_support()])
    assert_array_equal(ranks, [1, 2, 3, 4, 5, 6, 7, 8, 9, 30])


@given(
    seed=st.integers(0, 2**16),
    k=st.integers(1, 15),
    bottom=st.sampled_from([0.0, 0.1, 0.3, 0.5, 1.0]),
)
def test_exactly_k_are_selected_from_both_ends(seed, k, bottom):
    rng = np.random.default_rng(seed)
    rows = rng.random((6, 12)) * (rng.random((6, 12)) < 0.2)
    selector = EFS(k, bottom_fraction=bottom).partial_fit(rows, rng.integers(0, 2, 6))
    chosen = selector.get_support(indices=True)
    assert len(chosen) == min(k, 12)
    assert (np.diff(chosen) > 0).all()


@kinds
def test_weights_live_on_within_their_bounds(kind):
    """In a well-known copy they were all zero, for ever, after 16,376 rows, or infinite."""
    rng = np.random.default_rng(0)
    selector = EFS(2)
    for _ in range(40):
        rows = rng.random((500, 8)) * (rng.random((500, 8)) < 0.3)
        sure = rng.random(500) < 0.9
        selector.partial_fit(kind(rows), (rows[:, 2] > rows[:, 4]) == sure)
    assert selector.n_samples_seen_ == 20_000
    assert 2 in selector.get_support(indices=True)
    assert (selector._theta_ >= 2.0**-200).all()
    assert (selector._theta_ <= 2.0**200).all()


@kinds
def test_a_huge_entry_does_not_end_a_feature(kind):
    """Divided by the norm it is 1 to the last digit, and 1 - x would be 0."""
    selector = EFS(1, margin=np.finfo(float).max)
    selector.partial_fit(kind(np.array([[1e150, 1.0]])), [1], classes=[0, 1])
    assert (selector._theta_ > 0.0).all()
    for _ in range(400):
        selector.partial_fit(kind(np.array([[1.0, 1.0]])), [0])
    assert selector.importances_[0] < 0.0


@kinds
def test_one_class_so_far_leaves_both_sides_open(kind, tmp_path):
    selector = EFS(2).partial_fit(kind(X[1:]), Y[1:])  # of -1 and 1, the smaller one alone
    selector.save(tmp_path / "state")
    for other in (selector, fires.load(tmp_path / "state")):
        other.partial_fit(kind(X[:1]), Y[:1])
        known = EFS(2).partial_fit(kind(X[[1, 2, 0]]), Y[[1, 2, 0]], classes=[-1, 1])
        assert_array_equal(other.importances_, known.importances_)
        assert other._theta_.shape == (2, 4)
