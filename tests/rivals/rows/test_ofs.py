"""OFS, its partial-information form and PEtrun: worked examples, laws, and old mistakes."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fires import OFS, OFSPartial, PEtrun

X = np.array([[1, 0.5, 0, 0.2], [0.3, 1, 0.8, 0], [0, 0.4, 1, 0.6], [0.9, 0, 0.1, 1]])
Y = np.array([1, -1, -1, 1])
DIGITS = {"rtol": 0.0, "atol": 0.5000001e-12}

kinds = pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_array])

PATHS = {
    "Matlab": (
        OFS(2),
        [[0.2, 0.1, 0, 0], [0.14, 0, -0.16, 0], [0.14, 0, -0.36, 0], [0.32, 0, -0.34, 0]],
    ),
    "paper": (
        OFS(2, shrink=True),
        [
            [0.2, 0.1, 0, 0],
            [0.1396, 0, -0.16, 0],
            [0.1393208, 0, -0.35968, 0],
            [0.3190421584, 0, -0.33896064, 0],
        ],
    ),
    "projection": (
        OFS(2, learning_rate=20.0),
        [
            [8.804509063256, 4.402254531628, 0, 0],
            [0, -6.926143753877, -7.104763972893, 0],
            [0, -6.926143753877, -7.104763972893, 0],
            [6.371810829452, 0, 0, 7.079789810502],
        ],
    ),
}


@kinds
@pytest.mark.parametrize(("selector", "path"), PATHS.values(), ids=PATHS.keys())
def test_the_worked_example_row_by_row(selector, path, kind):
    for n_rows, expected in enumerate(path, 1):
        selector.fit(kind(X[:n_rows]), Y[:n_rows])  # at first there is one class only
        assert_allclose(selector.importances_, expected, **DIGITS)
        assert_allclose(selector.weights_, np.abs(expected), **DIGITS)


@kinds
def test_petrun_ends_as_the_worked_example_does(kind):
    selector = PEtrun(2).partial_fit(kind(X), Y)
    assert_allclose(selector.importances_, [0.7, 0.0, -0.8, 0.0], **DIGITS)
    assert_array_equal(selector.ranking_, [2, 3, 1, 4])
    assert_array_equal(selector.get_support(indices=True), [0, 2])


@pytest.mark.parametrize("labels", [[-1, 1], [0, 1], [1, 2], [False, True], ["a", "b"]], ids=str)
def test_both_classes_move_the_coefficients(labels):
    """Other copies know no class but 0, or no class 0 at all."""
    y = np.array(labels)[(Y + 1) // 2]
    assert_allclose(OFS(2).partial_fit(X, y).importances_, [0.32, 0, -0.34, 0], **DIGITS)


@pytest.mark.parametrize("make", [OFS, PEtrun, lambda k: OFSPartial(k, random_state=0)])
@kinds
@given(seed=st.integers(0, 2**16), k=st.integers(1, 12))
def test_no_more_than_k_coefficients_differ_from_zero(make, kind, seed, k):
    """In a well-known copy, 50 of 50 do at k = 5."""
    rng = np.random.default_rng(seed)
    selector = make(k)
    for _ in range(3):
        selector.partial_fit(kind(rng.normal(size=(10, 12))), rng.integers(0, 2, size=10))
        assert 0 < np.count_nonzero(selector.weights_) <= k
        assert set(np.flatnonzero(selector.weights_)) <= set(selector.get_support(indices=True))


@pytest.mark.parametrize("shrink", [False, True])
@given(seed=st.integers(0, 2**16), rate=st.sampled_from([0.2, 5.0, 1e3]))
def test_the_coefficients_stay_within_the_ball(shrink, seed, rate):
    rng = np.random.default_rng(seed)
    rows, y = rng.normal(size=(40, 12)), rng.integers(0, 2, size=40)
    selector = OFS(6, learning_rate=rate, regularization=1e-4, shrink=shrink).fit(rows, y)
    assert np.linalg.norm(selector.importances_) <= 100.0 * (1 + 1e-12)


@pytest.mark.parametrize("make", [OFS, PEtrun])
@given(seed=st.integers(0, 2**16))
def test_the_order_of_columns_does_not_matter(make, seed):
    rng = np.random.default_rng(seed)
    rows, y, order = rng.normal(size=(40, 9)), rng.integers(0, 2, size=40), rng.permutation(9)
    one, other = make(4).fit(rows, y), make(4).fit(rows[:, order], y)
    assert_allclose(other.importances_, one.importances_[order], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", [OFS, PEtrun, lambda k: OFSPartial(k, random_state=0)])
@given(seed=st.integers(0, 2**16))
def test_exchanged_labels_turn_the_signs_and_nothing_else(make, seed):
    rng = np.random.default_rng(seed)
    rows, y = rng.normal(size=(40, 9)), rng.integers(0, 2, size=40)
    assert_array_equal(make(4).fit(rows, 1 - y).importances_, -make(4).fit(rows, y).importances_)


def test_the_selection_is_filled_up_with_the_first_columns():
    selector = OFS(3).partial_fit([[0.0, 0.0, 0.0, 1.0, 0.0]], [1])
    assert_array_equal(selector.get_support(indices=True), [0, 1, 3])


def test_ties_go_to_the_lower_column():
    for kind in (np.asarray, sp.csr_array):
        selector = OFS(2).partial_fit(kind(np.ones((1, 200))), [1])
        assert_array_equal(np.flatnonzero(selector.weights_), [0, 1])


def test_a_shrinking_that_turns_the_signs_is_refused():
    with pytest.raises(ValueError, match="learning_rate times regularization must be below 1"):
        OFS(1, shrink=True, learning_rate=20.0, regularization=0.05).partial_fit(X, Y)


@kinds
def test_shrinking_to_nothing_leaves_nothing(kind):
    """A coefficient that underflows leaves the list; it can come back later."""
    selector = OFS(1, learning_rate=0.9, regularization=1.0, shrink=True)
    selector.partial_fit(kind(np.array([[1.0, 0.0]])), [1])
    right = kind(np.tile([1e30, 0.0], (400, 1)))
    selector.partial_fit(right, np.ones(400, dtype=int))
    assert_array_equal(selector.weights_ > 0.0, [True, False])
    for _ in range(3):
        selector.partial_fit(kind(np.tile([0.0, 0.0], (400, 1))), np.ones(400, dtype=int))
    assert_array_equal(selector.weights_, [0.0, 0.0])
    selector.partial_fit(kind(np.array([[0.0, 1.0]])), [1])
    assert_allclose(selector.weights_, [0.0, 0.9], rtol=1e-12)


# --- partial information ------------------------------------------------------------------------


def stream(n_batches=6):
    rng = np.random.default_rng(0)
    for _ in range(n_batches):
        rows = rng.normal(size=(50, 10))
        yield rows, rows[:, 2] > rows[:, 7]


def learnt(selector, **options):
    for rows, y in stream():
        selector.partial_fit(rows, y, **options)
    return selector


def test_the_same_seed_draws_the_same_features():
    one, other = (learnt(OFSPartial(3, random_state=7)).weights_ for _ in range(2))
    assert_array_equal(one, other)
    assert (one != learnt(OFSPartial(3, random_state=8)).weights_).any()


def test_only_k_entries_of_a_row_are_looked_at():
    """What was neither drawn nor known may be anything, as long as draws are the same."""
    first = OFSPartial(2, random_state=3).partial_fit([[1.0, 1, 1, 1, 1, 1]], [1])
    seen = np.flatnonzero(first.weights_)
    assert len(seen) == 2
    for other in (0.0, -5.0, 1e9):
        row = np.full((1, 6), other)
        row[0, seen] = 1.0
        again = OFSPartial(2, random_state=3).partial_fit(row, [1])
        assert_array_equal(again.weights_, first.weights_)


def test_with_all_features_in_sight_it_is_ofs():
    """k = J and explore = 1: every row is seen whole; at threshold 1 the step is that of OFS."""
    partial = learnt(OFSPartial(10, exploration=1.0, threshold=1.0, random_state=0))
    assert_allclose(partial.importances_, learnt(OFS(10)).importances_, rtol=1e-9)


def test_for_sparse_rows_the_same_is_drawn():
    expected = learnt(OFSPartial(3, random_state=0)).weights_
    sparse = OFSPartial(3, random_state=0)
    for rows, y in stream():
        sparse.partial_fit(sp.csr_array(rows), y)
    assert_allclose(sparse.weights_, expected, rtol=1e-9)


def test_a_generator_of_the_caller_is_used_as_it_is():
    rng = np.random.default_rng(5)
    learnt(OFSPartial(3, random_state=rng))
    assert rng.random() != np.random.default_rng(5).random()
