"""The compiled loops do what their plain definitions say."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from tests import naive
from tests.naive import accumulate_plain, project_plain, top_k_plain

from fires.kernels import accumulate, gradient, project, scan, top_k, touched_columns
from fires.kernels.gradient import pull_rows_plain
from fires.kernels.moments import rescale, widen
from fires.kernels.select import keep_columns
from fires.models.families import FAMILIES


def problem(seed, n_rows, n_columns, n_classes, dtype, missing=0.1):
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, 2.0, size=(n_rows, n_columns)).astype(dtype)
    X[rng.random(X.shape) < 0.3] = 0.0
    X[rng.random(X.shape) < missing] = np.nan
    rows = () if n_classes is None else (n_classes,)
    parameters = rng.normal(size=(*rows, n_columns)), rng.random(size=(*rows, n_columns))
    coefficients = rng.normal(size=(*rows, n_rows)), rng.normal(size=(*rows, n_rows))
    return X, parameters, coefficients, rng.normal(size=n_columns)


LAYOUTS = {
    "C": np.ascontiguousarray,
    "Fortran": np.asfortranarray,
    "strided": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(
    seed=st.integers(0, 2**16),
    n_rows=st.integers(1, 13),
    n_columns=st.sampled_from([1, 2, 7, 255, 256, 300]),
    n_classes=st.sampled_from([None, 1, 3]),
)
def test_dense_kernels_equal_their_definitions(layout, dtype, seed, n_rows, n_columns, n_classes):
    X, parameters, coefficients, _ = problem(seed, n_rows, n_columns, n_classes, dtype)
    X = LAYOUTS[layout](X)
    X.flags.writeable = False
    for got, expected in zip(
        project(X, *parameters) + accumulate(X, *coefficients),
        project_plain(X, *parameters) + accumulate_plain(X, *coefficients),
        strict=True,
    ):
        assert got.shape == expected.shape
        assert got.dtype == np.float64
        assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(
    seed=st.integers(0, 2**16),
    n_rows=st.integers(1, 9),
    n_columns=st.sampled_from([1, 5, 40]),
    n_classes=st.sampled_from([None, 1, 3]),
)
def test_sparse_kernels_equal_their_definitions(
    index_dtype, dtype, seed, n_rows, n_columns, n_classes
):
    X, parameters, coefficients, _ = problem(seed, n_rows, n_columns, n_classes, dtype)
    X = sp.csr_array(X)
    X.indices, X.indptr = X.indices.astype(index_dtype), X.indptr.astype(index_dtype)
    for got, expected in zip(
        project(X, *parameters) + accumulate(X, *coefficients),
        project_plain(X, *parameters) + accumulate_plain(X, *coefficients),
        strict=True,
    ):
        assert got.shape == expected.shape
        assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * max(1.0, np.abs(expected).max()))


def test_a_column_of_float32_is_summed_in_float64():
    X = np.full((10_000, 1), 0.1, dtype=np.float32)
    total, _ = accumulate(X, np.ones(len(X)), np.ones(len(X)))
    assert_allclose(total, 10_000 * float(np.float32(0.1)), rtol=1e-13)


def step(seed, n_classes, n_columns, n_rows=4, n_more=1):
    """The arguments of a step: rows of sums for the parameters, and some more of the scale's."""
    rng = np.random.default_rng(seed)
    mu, sigma = rng.normal(size=(n_classes, n_columns)), rng.random((n_classes, n_columns))
    p, q = rng.normal(size=(2, n_classes + n_more, n_columns))
    c, d = rng.normal(size=(2, n_classes + n_more, n_rows))
    intercept_mean, own_sigma = rng.normal(size=n_classes), rng.random(n_classes)
    return [mu, sigma, p, q, rng.random(n_columns), c, d, intercept_mean, own_sigma]


RATES = (0.3, 0.7, -0.5, 1.0)


def move(arguments, intercept):
    mu, sigma, *sums, own_mu, own_sigma = arguments
    moved = gradient.Coefficients(mu, sigma, own_mu, own_sigma)
    return gradient.move(moved, *sums, intercept, gradient.Pace(*RATES))


@given(
    seed=st.integers(0, 2**16),
    n_classes=st.integers(1, 3),
    n_columns=st.integers(1, 40),
    n_more=st.integers(0, 1),
    intercept=st.booleans(),
)
def test_a_step_equals_its_definition(seed, n_classes, n_columns, n_more, intercept):
    arguments = step(seed, n_classes, n_columns, n_more=n_more)
    expected = naive.move_plain(*arguments, intercept, *RATES)
    least = move(arguments, intercept)
    mu, sigma, *_, intercept_mean, own_sigma = arguments
    for got, wanted in zip((mu, sigma, intercept_mean, own_sigma), expected, strict=True):
        assert_allclose(got, wanted, rtol=1e-13, atol=1e-15)
    assert least == sigma.min()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("which", [2, 3, 5, 6], ids=["p", "q", "c", "d"])
def test_sums_that_are_not_finite_move_nothing(which, bad):
    arguments = step(0, 1, 3, n_more=0)
    arguments[which][0, 1] = bad
    before = [part.copy() for part in arguments]
    assert np.isnan(move(arguments, True))
    for part, old in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(part, old)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_nor_do_sums_that_only_the_scale_would_learn_from(bad):
    arguments = step(0, 1, 3)
    arguments[3][1, 2] = bad
    before = [part.copy() for part in arguments]
    assert np.isnan(move(arguments, False))
    for part, old in zip(arguments, before, strict=True):
        np.testing.assert_array_equal(part, old)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@given(seed=st.integers(0, 2**16), n_rows=st.integers(0, 9), n_columns=st.sampled_from([1, 7, 300]))
def test_scaling_equals_its_definition(layout, dtype, seed, n_rows, n_columns):
    X, _, (weight, _), shift = problem(seed, n_rows, n_columns, None, dtype)
    before = X.copy()
    gain = np.random.default_rng(seed).choice([0.0, 0.5, 3.0, 1e300, 1e308], size=n_columns)
    scaled = rescale(LAYOUTS[layout](X), shift, gain)
    assert scaled.dtype == np.float64
    assert np.isfinite(scaled).all()
    assert_allclose(scaled, naive.rescale_plain(X, shift, gain), rtol=1e-12)
    limit = np.random.default_rng(seed).choice([0.0, 1.0, np.inf], size=n_columns)
    near = rescale(LAYOUTS[layout](X), shift, gain, limit)
    assert_allclose(near, naive.rescale_plain(X, shift, gain, limit), rtol=1e-12)
    edges = np.full(n_columns, np.inf), np.full(n_columns, -np.inf)
    weight = np.maximum(weight, 0.0)
    for _ in range(2):  # from nothing, and once more from what the other half has shown
        wanted = naive.widen_plain(X, weight, *edges)
        np.testing.assert_array_equal(widen(LAYOUTS[layout](X), weight, *edges), wanted)
        edges, X, weight = wanted, 2.0 * X, weight[::-1]
    np.testing.assert_array_equal(before, X / 4.0)


def pulls(function, a, v, y, mu, sigma, *settings, n_more=0):
    """What a loop over rows gives and returns."""
    c, d = np.zeros((2, len(a) + n_more, a.shape[1]))
    bend = np.empty_like(a)
    greatest = function(a, v, y, gradient.Start(mu, sigma, *settings), c, d, bend)
    return c, d, bend, greatest


@pytest.mark.parametrize("name", FAMILIES)
@given(seed=st.integers(0, 2**16), n_classes=st.integers(1, 3), n_more=st.integers(0, 1))
def test_what_rows_pull_with_equals_its_definition(name, seed, n_classes, n_more):
    """Compiled or not, with an intercept, noise and a level of their own."""
    family, rng = FAMILIES[name], np.random.default_rng(seed)
    a, v = 3.0 * rng.normal(size=(n_classes, 7)), rng.exponential(size=(n_classes, 7))
    kinds = {"classes": (-1.0, 1.0), "numbers": (-2.5, 0.3, 4.0), "counts": (0.0, 1.0, 5.0)}
    y = rng.choice(kinds[family.kind], size=a.shape)
    mu, sigma, level = rng.normal(size=n_classes), rng.random(n_classes), rng.normal(size=n_classes)
    settings = (0.3 + family.noise, level, family.start_width, 0.2)
    plain = partial(pull_rows_plain, family.scores)
    expected = pulls(plain, a, v, y, mu, sigma, *settings, n_more=n_more)
    got = pulls(family.gradient.rows, a, v, y, mu, sigma, *settings, n_more=n_more)
    for one, other in zip(got, expected, strict=True):
        assert_allclose(one, other, rtol=1e-10, atol=1e-13)


def test_probit_slopes_equal_the_family_far_into_both_tails():
    a = np.concatenate([np.linspace(-60.0, 38.0, 4001), [-1e3, -1e6, -1e150, 1e150]])[None, :]
    rng = np.random.default_rng(0)
    v, y = rng.exponential(size=a.shape), rng.choice([-1.0, 1.0], size=a.shape)
    none, probit = np.zeros(1), FAMILIES["probit"]
    c, d, _, _ = pulls(probit.gradient.rows, a, v, y, none, none, 0.0, none, 0.0, 0.0)
    _, *expected = probit.scores(a, v, y)
    for slope, wanted in zip((c, d), expected, strict=True):
        assert_allclose(slope, wanted, rtol=1e-12, atol=1e-300)


@given(
    values=st.lists(st.sampled_from([np.nan, -np.inf, -1.0, 0.0, 0.5, 2.0]), min_size=1),
    data=st.data(),
)
def test_top_k_equals_its_definition(values, data):
    weights = np.array(values)
    k = data.draw(st.integers(0, len(values) + 1))
    assert top_k(weights, k).tolist() == top_k_plain(weights, k).tolist()


@pytest.mark.parametrize("k", [1, 20, 100, 3000])
def test_top_k_equals_its_definition_on_many_tied_weights(k):
    weights = np.random.default_rng(k).integers(0, 50, size=5000).astype(float)
    weights[::7] = np.nan
    assert top_k(weights, k).tolist() == top_k_plain(weights, k).tolist()


@pytest.mark.parametrize(
    ("more", "columns", "numbers"),
    [
        (None, [7, 2, 9], [0, 1, 0, 2, 1]),
        ([], [2, 7, 9], [1, 0, 1, 2, 0]),
        ([8, 2], [2, 7, 8, 9], [1, 0, 1, 3, 0]),
    ],
)
@pytest.mark.parametrize("width", [10, 2**31 - 1])
def test_touched_columns_are_found_in_order(width, more, columns, numbers):
    indices, local = np.array([7, 2, 7, 9, 2], dtype=np.int32), np.empty(5, dtype=np.int32)
    more = None if more is None else np.array(more, dtype=np.int64)
    assert touched_columns(indices, local, width, more).tolist() == columns
    assert local.tolist() == numbers


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scan_counts_missing_and_infinite_entries(layout, dtype):
    X = np.ones((5, 6), dtype=dtype)
    assert scan(LAYOUTS[layout](X)) == (0, 0, 0)
    X[1, 2], X[3, 4], X[0, 0], X[4, 5] = np.nan, np.nan, np.inf, -np.inf
    assert scan(LAYOUTS[layout](X)) == (2, 2, 0)
    if dtype == np.float64:
        X[2, 2] = -1e151
        assert scan(LAYOUTS[layout](X)) == (2, 2, 1)


@pytest.mark.parametrize("form", [np.ascontiguousarray, np.asfortranarray, sp.csr_array])
@given(seed=st.integers(0, 2**16), n_columns=st.integers(1, 9))
def test_columns_that_are_not_kept_are_zeros(form, seed, n_columns):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(5, n_columns)).astype(rng.choice([np.float32, np.float64]))
    support = rng.random(n_columns) < 0.5
    given_ = form(X)
    kept = keep_columns(given_, np.flatnonzero(support))
    assert type(kept) is type(given_)
    assert kept.dtype == X.dtype
    dense = kept.toarray() if sp.issparse(kept) else kept
    np.testing.assert_array_equal(dense, np.where(support, X, 0.0))
