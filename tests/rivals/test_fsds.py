"""FSDS: its worked example, its bound, and the traps of public copies (33)."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import fires
from fires import FSDS
from fires.core.state import read_state
from fires.rivals.fsds import directions, directions_plain

KINDS = {
    "dense": np.asarray,
    "columns": np.asfortranarray,
    "single": lambda X: np.asarray(X, dtype=np.float32),
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())
DIGITS = {"rtol": 0.0, "atol": 0.5000001e-12}

Y1 = np.array(
    [[1, 2, 0, 1], [0, 1, 1, 0], [2, 4, 1, 2], [0.5, 0, 0.25, 1], [0, 0.5, 2, 0]], dtype=float
)
Y2 = Y1[:, ::-1] * np.array([1, 2, 0.5, 1, 1])[:, None]


def stream(n_batches, n_rows=20, n_features=9, seed=0, low=0.0):
    rng = np.random.default_rng(seed)
    return [rng.uniform(low, 1.0, size=(n_rows, n_features)) for _ in range(n_batches)]


def learnt(batches, **settings):
    selector = FSDS(2, **settings)
    for X in batches:
        selector.partial_fit(X)
    return selector


# --- the method -----------------------------------------------------------------------------------


@kinds
def test_the_worked_example_to_its_printed_digits(kind):
    selector = FSDS(2, sketch_size=3).partial_fit(kind(Y1.T))
    assert_allclose(selector.singular_values_, [5.64303238847, 1.89541131151], **DIGITS)
    assert_allclose(
        selector.weights_,
        [0.049751839588, 0.041829976666, 0.104573975332, 0.013595856065, 0.087046294818],
        **DIGITS,
    )
    assert_allclose(
        (selector._sketch_**2).sum(axis=0),
        [5.730023273441, 1.661978450199, 24.201932415192, 0.421842107359, 3.420622330935],
        **DIGITS,
    )
    selector.partial_fit(kind(Y2.T))
    assert_allclose(selector.singular_values_, [6.728649494633, 2.964944444108], **DIGITS)
    assert_allclose(
        selector.weights_,
        [0.045575498482, 0.055919974632, 0.076722053158, 0.012239080971, 0.063133754606],
        **DIGITS,
    )
    assert_array_equal(np.argsort(selector.ranking_), [2, 4, 1, 0, 3])


def test_the_singular_values_before_shrinking_are_those_of_the_worked_example():
    first, _ = directions(np.zeros((0, 5)), Y1.T, 4)
    assert_allclose(
        first, [5.734041935048, 2.151280180583, 1.017557062561, 0.140834286206], **DIGITS
    )
    selector = FSDS(2, sketch_size=3).partial_fit(Y1.T)
    second, _ = directions(selector._sketch_, Y2.T, 5)
    expected = [6.876540705106, 3.286789254577, 1.418480894251, 1.020248378984, 0.3257423859]
    assert_allclose(second, expected, **DIGITS)


@given(seed=st.integers(0, 2**16), k=st.integers(1, 4), ridge=st.sampled_from([0.5, 8.0]))
def test_weights_are_a_ridge_regression_of_the_first_directions(seed, k, ridge):
    """Where nothing was shrunk: (Y Y' + alpha I)^-1 Y V_k, the largest entry of each feature."""
    Y = np.random.default_rng(seed).normal(size=(7, 5))
    _, s, Vt = np.linalg.svd(Y, full_matrices=False)
    alpha = ridge * s[k - 1]
    expected = np.linalg.solve(Y @ Y.T + alpha * np.eye(7), Y @ Vt[:k].T)
    selector = FSDS(2, n_directions=k, sketch_size=20, ridge=ridge).partial_fit(Y.T)
    assert_allclose(selector.weights_, np.abs(expected).max(axis=1), rtol=1e-9)


@given(
    seed=st.integers(0, 2**16),
    n_kept=st.integers(0, 12),
    n_rows=st.integers(1, 20),
    decades=st.floats(0.0, 9.0),
    mean=st.sampled_from([0.0, 1.0, 1e4]),
    sparse=st.booleans(),
)
def test_directions_are_those_of_the_decomposition_of_the_rows(
    seed, n_kept, n_rows, decades, mean, sparse
):
    """Whether the Gram matrix has the digits, or has not, as with a large mean."""
    rng = np.random.default_rng(seed)
    n = n_kept + n_rows
    sizes = 10.0 ** -np.linspace(0.0, decades, n)
    A = (rng.normal(size=(n, n)) * sizes) @ rng.normal(size=(n, 60)) + mean * rng.random(60)
    A[rng.random(A.shape) < 0.3] = 0.0
    sketch, rows = A[:n_kept], A[n_kept:]
    found = directions(sketch, sp.csr_array(rows) if sparse else rows, n)
    wanted = directions_plain(sketch, rows, n)
    scale = wanted[0][0]
    assert_allclose(found[0], wanted[0], rtol=1e-10, atol=1e-13 * scale)
    whole = (found[0][:, None] * found[1]).T @ (found[0][:, None] * found[1])
    assert_allclose(whole, A.T @ A, atol=1e-12 * scale**2)
    clear = found[0] > 1e-11 * scale
    assert_allclose(found[1][clear] @ found[1][clear].T, np.eye(clear.sum()), atol=1e-11)
    # A direction is told from its neighbours as far as their lengths differ.
    gaps = np.minimum(np.diff(-wanted[0], prepend=-np.inf), np.diff(-wanted[0], append=0.0))
    told = clear & (gaps > 1e-3 * wanted[0])
    alike = np.abs(np.einsum("ij,ij->i", found[1], wanted[1]))
    assert_allclose(alike[told], 1.0, atol=1e-9)


@given(
    seed=st.integers(0, 2**16),
    n_rows=st.integers(1, 30),
    n_features=st.integers(1, 30),
    size=st.integers(3, 12),
)
def test_the_sketch_stands_for_all_rows_within_its_bound(seed, n_rows, n_features, size):
    batches = stream(6, n_rows, n_features, seed, low=-0.5)
    selector = learnt(batches, sketch_size=size)
    A, S = np.vstack(batches), selector._sketch_
    error = np.linalg.norm(A.T @ A - S.T @ S, 2)
    assert error <= (A**2).sum() / size * (1 + 1e-9)
    assert len(S) < size
    assert_allclose(S @ S.T, np.diag(selector.singular_values_**2), atol=1e-9)


def test_the_sketch_shrinks_only_when_it_is_full():
    """Public code takes off the smallest of 25 squares here, and with it 14 % of the energy."""
    (X,) = stream(1, 25, 400, seed=3)
    selector = FSDS(2, sketch_size=40).partial_fit(X)
    assert_allclose(selector.singular_values_, np.linalg.svd(X, compute_uv=False), rtol=1e-10)
    smallest = selector.singular_values_[-1] ** 2
    assert 25 * smallest / (X**2).sum() > 0.1
    selector.partial_fit(X[:14])  # no new direction
    assert_allclose((selector._sketch_**2).sum(), (X**2).sum() + (X[:14] ** 2).sum(), rtol=1e-10)


@pytest.mark.parametrize("n_features", [1, 2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("n_rows", [1, 2, 5])
@kinds
def test_trap_33_few_features_and_single_rows_are_fine(n_features, n_rows, kind):
    selector = FSDS(1)
    for X in stream(10, n_rows, n_features):
        selector.partial_fit(kind(X))
        assert np.isfinite(selector.weights_).all()
        assert selector.weights_.max() > 0.0


def test_as_many_directions_as_the_sketch_has_rows_are_refused():
    with pytest.raises(
        ValueError, match=r"sketch_size must be .* greater than n_directions=3.*got 3"
    ):
        FSDS(1, n_directions=3, sketch_size=3).partial_fit(np.eye(5))
    shortest = FSDS(1, n_directions=1, sketch_size=2).partial_fit(Y1.T)
    assert_allclose(shortest.singular_values_, [5.315188660577], **DIGITS)


def test_fewer_directions_than_asked_for_count_as_they_are():
    x = np.array([[3.0, 4.0, 0.0]])
    selector = FSDS(1, n_directions=2).partial_fit(x)
    assert_allclose(selector.weights_, np.array([0.6, 0.8, 0.0]) / (5.0 + 8.0), rtol=1e-14)
    # A row in the same direction adds none, and rounding must not either.
    selector.partial_fit(x / 3.0).partial_fit(x * 0.1)
    assert len(selector.singular_values_) == 1


def test_directions_of_equal_length_are_shrunk_away_together():
    selector = FSDS(1, sketch_size=3).partial_fit(np.eye(6))
    assert_array_equal(selector.weights_, np.zeros(6))
    selector.partial_fit(np.eye(6)[4:5])
    assert_array_equal(selector.get_support(indices=True), [4])


def test_features_that_span_the_stream_are_found():
    rng = np.random.default_rng(0)
    selector = FSDS(3, n_directions=3)
    for _ in range(30):
        X = 0.1 * rng.normal(size=(40, 50))
        X[:, [7, 21, 33]] += rng.normal(size=(40, 3)) * [3.0, 2.5, 2.0]
        selector.partial_fit(X)
    assert_array_equal(selector.get_support(indices=True), [7, 21, 33])


# --- the Gram matrix ------------------------------------------------------------------------------


@given(
    seed=st.integers(0, 2**16),
    n_sketch=st.integers(0, 6),
    n_rows=st.integers(1, 20),
    n_features=st.integers(1, 20),
    most=st.integers(2, 10),
    decay=st.sampled_from([1.0, 0.5, 0.1, 1e-3]),
    sparse=st.booleans(),
)
def test_the_gram_matrix_has_the_digits_of_the_decomposition(
    seed, n_sketch, n_rows, n_features, most, decay, sparse
):
    rng = np.random.default_rng(seed)
    n_sketch = min(n_sketch, n_features)
    basis = np.linalg.qr(rng.normal(size=(n_features, n_features)))[0]
    sketch = basis[:n_sketch] * decay ** np.arange(n_sketch)[:, None]
    rows = (rng.normal(size=(n_rows, n_features)) * decay ** np.arange(n_features)) @ basis
    lengths, right = directions(sketch, sp.csr_array(rows) if sparse else rows, most)
    expected, plain = directions_plain(sketch, rows, most)
    assert_allclose(lengths, expected, rtol=1e-10, atol=1e-14 * expected[0])
    assert_allclose(right @ right.T, np.eye(len(right)), atol=1e-10)
    # The first direction, where it stands apart, is the same up to its sign.
    if len(expected) == 1 or expected[1] < 0.9 * expected[0]:
        assert_allclose(np.abs(right[0]), np.abs(plain[0]), atol=1e-10)


def test_small_singular_values_are_not_left_to_the_gram_matrix():
    rng = np.random.default_rng(0)
    left, right = (np.linalg.qr(rng.normal(size=(12, 12)))[0] for _ in range(2))
    true = 10.0 ** -np.arange(12)
    lengths, _ = directions(np.zeros((0, 12)), (left * true) @ right, 12)
    assert_allclose(lengths[:10], true[:10], rtol=1e-6)


# --- rows, weights, inputs ------------------------------------------------------------------------


@given(seed=st.integers(0, 2**16), n_rows=st.integers(1, 15))
def test_the_order_of_rows_and_the_signs_and_order_of_columns_do_not_matter(seed, n_rows):
    rng = np.random.default_rng(seed)
    rows, columns, signs = rng.permutation(n_rows), rng.permutation(9), rng.choice([-1.0, 1.0], 9)
    batches = stream(3, n_rows, seed=seed)
    weights = learnt(batches).weights_
    assert_allclose(learnt([X[rows] for X in batches]).weights_, weights, rtol=1e-6, atol=1e-9)
    turned = learnt([(X * signs)[:, columns] for X in batches]).weights_
    assert_allclose(turned, weights[columns], rtol=1e-6, atol=1e-9)


@kinds
def test_a_row_of_weight_w_counts_as_w_rows(kind):
    X, Z = stream(2)
    w = np.arange(20) % 4
    weighted = FSDS(2).partial_fit(kind(X), sample_weight=w).partial_fit(kind(Z))
    repeated = FSDS(2).partial_fit(kind(np.repeat(X, w, axis=0))).partial_fit(kind(Z))
    rtol = 1e-5 if kind is KINDS["single"] else 1e-9
    assert_allclose(weighted.weights_, repeated.weights_, rtol=rtol)


@kinds
def test_rows_of_zeros_and_missing_entries(kind):
    X, Z = stream(2)
    X[3], X[7] = 0.0, 0.0
    X[0, 2] = X[5, 5] = 0.0
    plain = FSDS(2).partial_fit(kind(X)).partial_fit(kind(Z))
    X[0, 2] = X[5, 5] = np.nan
    X[7] = np.nan
    gaps = FSDS(2).partial_fit(kind(X)).partial_fit(kind(Z))
    assert_allclose(gaps.weights_, plain.weights_, rtol=1e-6)
    assert gaps.n_missing_ == 11
    nothing = FSDS(2).partial_fit(kind(np.zeros((3, 4))))
    assert_array_equal(nothing.weights_, np.zeros(4))
    assert_array_equal(nothing.get_support(indices=True), [0, 1])


def test_dense_and_sparse_are_the_same():
    batches = [X * (X > 0.6) for X in stream(8)]
    dense, sparse = learnt(batches), learnt([sp.csr_array(X) for X in batches])
    assert_allclose(sparse.weights_, dense.weights_, rtol=1e-8)
    mixed = learnt([sp.csr_array(X) if i % 2 else X for i, X in enumerate(batches)])
    assert_allclose(mixed.weights_, dense.weights_, rtol=1e-8)


@kinds
def test_a_batch_of_any_length_is_taken_in_parts(kind):
    (X,) = stream(1, 3000, 6)
    once = FSDS(2, sketch_size=12).partial_fit(kind(X))  # more rows than features: nothing is lost
    assert_allclose(once._sketch_.T @ once._sketch_, X.T @ X, rtol=1e-5)
    assert_allclose(FSDS(2, sketch_size=12).fit(X).weights_, once.weights_, rtol=1e-5)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e-100, 1e100, 1e149])
def test_values_of_any_size_are_borne(kind, size):
    batches = [X * size for X in stream(5)]
    selector, usual = learnt([kind(X) for X in batches], ridge=0.0), learnt(stream(5), ridge=0.0)
    assert np.isfinite(selector.weights_).all()
    assert_array_equal(selector.ranking_, usual.ranking_)
    heavy = FSDS(2).partial_fit(kind(batches[0]), sample_weight=np.full(20, 1e28))
    assert np.isfinite(heavy.weights_).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_directions": 0}, "n_directions must be a positive integer; got 0"),
        ({"n_directions": 1.5}, "n_directions must be a positive integer; got 1.5"),
        ({"n_directions": True}, "n_directions must be a positive integer; got True"),
        ({"sketch_size": 2}, "sketch_size must be an integer greater than n_directions=2"),
        ({"sketch_size": "all"}, "sketch_size .* got 'all'"),
        ({"ridge": -1.0}, "ridge must be a number at least 0; got -1.0"),
        ({"ridge": np.nan}, "ridge must be"),
        ({"missing": "drop"}, "missing must be 'ignore' or 'error'; got 'drop'"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(settings, message):
    for learn in ("fit", "partial_fit"):
        with pytest.raises(ValueError, match=message):
            getattr(FSDS(1, **settings), learn)(np.eye(5))


def test_settings_of_the_weights_may_change_at_any_time():
    selector = learnt(stream(4))
    before = selector.weights_
    selector.set_params(n_directions=1, ridge=1.0)
    assert (selector.weights_ != before).any()
    selector.set_params(n_directions=2, ridge=8.0)
    assert_array_equal(selector.weights_, before)


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize("n_features", [2, 9, 60])
def test_a_loaded_selector_goes_on_bit_for_bit(kind, n_features, tmp_path):
    batches = [kind(X * (X > 0.3)) for X in stream(8, 12, n_features)]
    for before in (1, 4):
        selector = learnt(batches[:before], n_directions=1)
        selector.save(tmp_path / "state")
        loaded = fires.load(tmp_path / "state")
        for X in batches[before:]:
            selector.partial_fit(X)
            loaded.partial_fit(X)
        assert_array_equal(loaded.weights_, selector.weights_)
        assert_array_equal(loaded._sketch_, selector._sketch_)
        assert loaded.get_params() == selector.get_params()


def test_a_selector_that_saw_only_zeros_may_be_saved(tmp_path):
    selector = FSDS(2).partial_fit(np.zeros((3, 4)))
    selector.save(tmp_path / "state")
    loaded = fires.load(tmp_path / "state").partial_fit(np.eye(4))
    assert_array_equal(loaded.weights_, selector.partial_fit(np.eye(4)).weights_)
    _, arrays = read_state(tmp_path / "state")
    assert arrays["sketch"].shape == (0, 4)
