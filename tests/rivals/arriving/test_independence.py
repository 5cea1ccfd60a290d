"""Tests of independence: their vectors, their definitions, and what they do at the edges."""

from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from tests.naive import (
    contingency_plain,
    correlations_plain,
    partial_correlation_plain,
    separated_plain,
    symmetrical_uncertainty,
    uncertainties_plain,
)

from fires.kernels.contingency import contingency, uncertainties
from fires.kernels.correlation import correlations, partial_correlation
from fires.rivals.arriving.base import scaled
from fires.rivals.arriving.independence import (
    Contingency,
    FisherZ,
    as_codes,
    fisher_z,
    surprise_of_chi2,
    surprise_of_z,
)

TABLE = np.loadtxt(Path(__file__).with_name("arriving.csv"), delimiter=",")
SEEDS = st.integers(0, 2**16)


def numbers(seed, n_columns, n_rows=40, missing=True):
    """Related columns within [-1, 1]; one in three has gaps, one in five does not vary."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_columns, n_rows)) @ np.diag(rng.uniform(0.5, 2.0, n_rows))
    X += rng.normal(size=(n_columns, 1)) * rng.normal(size=n_rows)
    for column in X:
        if missing and rng.random() < 0.33:
            column[rng.random(n_rows) < 0.3] = np.nan
        if missing and rng.random() < 0.2:
            column[:] = 0.3
    return np.stack([scaled(column) for column in X])


def codes(seed, n_columns, n_rows=60, n_levels=3, missing=True):
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, n_levels, n_rows)
    X = np.where(
        rng.random((n_columns, n_rows)) < 0.4,
        hidden,
        rng.integers(0, n_levels, (n_columns, n_rows)),
    ).astype(float)
    if missing:
        X[rng.random(X.shape) < 0.1] = np.nan
    return np.stack([as_codes(column, "x") for column in X])


# Vectors


def test_fisher_z_of_each_feature_with_the_target():
    columns = np.stack([scaled(column) for column in TABLE.T])
    r, n = correlations(columns[6], columns[:6])
    known = [
        (0.79781, 8.24863),
        (0.051928, -0.392397),
        (0.136576, 1.037609),
        (0.57861, -4.985684),
        (0.584143, -5.048795),
        (0.041927, -0.316728),
    ]
    assert_allclose(np.abs(r), [size for size, _ in known], atol=5e-7)
    assert_allclose(fisher_z(r, n), [W for _, W in known], atol=5e-7)


def test_symmetrical_uncertainty():
    a, b, c = [0, 0, 1, 1, 1, 0, 1, 0], [0, 0, 1, 1, 0, 0, 1, 1], [0, 1, 2, 0, 1, 2, 0, 1]
    assert symmetrical_uncertainty(a, b) == pytest.approx(0.188721875541, abs=5e-13)
    assert symmetrical_uncertainty(a, c) == pytest.approx(0.047849644967, abs=5e-13)
    assert symmetrical_uncertainty(a, a) == pytest.approx(1.0, abs=5e-13)


def test_chi_squared_of_a_table():
    x = np.repeat([1, 1, 0, 0], [30, 10, 20, 40]).astype(np.int16)
    y = np.repeat([1, 0, 1, 0], [30, 10, 20, 40]).astype(np.int16)
    none = np.empty((0, 100), dtype=np.int16)
    assert contingency(x, y, none, True) == pytest.approx(16.666666666667, abs=5e-13)
    table = [[30, 10], [20, 40]]
    g2 = scipy.stats.chi2_contingency(table, correction=False, lambda_="log-likelihood")[0]
    assert contingency(x, y, none, False) == pytest.approx(g2, rel=1e-12)


# Definitions


@given(seed=SEEDS)
def test_correlations_are_what_they_are_defined_to_be(seed):
    x, *columns = numbers(seed, 5)
    r, n = correlations(x, np.stack(columns))
    plain_r, plain_n = correlations_plain(x, np.stack(columns))
    assert_allclose(r, plain_r, atol=1e-12)
    assert (n == plain_n).all()
    assert (np.abs(r) <= 1.0).all()


@given(seed=SEEDS, n_given=st.integers(0, 4))
def test_partial_correlation_is_that_of_what_the_given_columns_leave(seed, n_given):
    columns = numbers(seed, 2 + n_given, missing=False)
    r = np.corrcoef(columns)
    place = np.arange(2, 2 + n_given)
    value = partial_correlation(r, 0, 1, place)
    assert value == pytest.approx(partial_correlation_plain(r, 0, 1, place), abs=1e-9)
    base = np.vstack([np.ones(columns.shape[1]), columns[2:]]).T
    left = columns[:2].T - base @ np.linalg.lstsq(base, columns[:2].T)[0]
    assert value == pytest.approx(np.corrcoef(left.T)[0, 1], abs=1e-9)


def test_nothing_is_left_of_what_the_given_columns_determine():
    columns = numbers(0, 4, missing=False)
    r = np.corrcoef(np.vstack([columns, columns[0], columns[2] - columns[3]]))
    assert partial_correlation(r, 0, 1, np.array([4])) == 0.0
    # A column that the others determine adds nothing to them.
    with_it = partial_correlation(r, 0, 1, np.array([2, 3, 5]))
    assert with_it == pytest.approx(partial_correlation(r, 0, 1, np.array([2, 3])), abs=1e-12)


@given(seed=SEEDS)
def test_uncertainties_are_what_they_are_defined_to_be(seed):
    x, *columns = codes(seed, 5)
    shared = uncertainties(x, np.stack(columns))
    assert_allclose(shared, uncertainties_plain(x, np.stack(columns)), atol=1e-12)
    assert_allclose(uncertainties(columns[0], x[np.newaxis])[0], shared[0], atol=1e-12)
    assert ((shared >= 0.0) & (shared <= 1.0)).all()


@given(seed=SEEDS, n_given=st.integers(0, 3), chi2=st.booleans())
def test_contingency_is_what_it_is_defined_to_be(seed, n_given, chi2):
    x, y, *given_ = codes(seed, 2 + n_given)
    given_ = np.stack(given_) if given_ else np.empty((0, len(x)), dtype=np.int16)
    assert_allclose(
        contingency(x, y, given_, chi2), contingency_plain(x, y, given_, chi2), atol=1e-9
    )


@given(seed=SEEDS, most=st.integers(1, 4), alpha=st.sampled_from([0.001, 0.05, 0.3]))
def test_the_search_for_a_separating_set_is_exhaustive(seed, most, alpha):
    target, *columns = numbers(seed, 7)
    tests = FisherZ.of(target)
    for column in columns:
        tests = tests.plus(column)
    for place in (1, 6):
        for by in (None, 3):
            found = tests.separated(place, most, alpha, by)
            assert found == separated_plain(tests, place, most, alpha, by)


@given(seed=SEEDS)
def test_a_column_taken_out_leaves_no_trace(seed):
    target, *columns = numbers(seed, 5)
    tests = FisherZ.of(target)
    for column in columns:
        tests = tests.plus(column)
    without = FisherZ.of(target)
    for column in columns[:1] + columns[2:]:
        without = without.plus(column)
    tests = tests.without(2)
    assert_allclose(tests.columns, without.columns, rtol=0, equal_nan=True)
    assert_allclose(tests.r, without.r, rtol=0)
    assert (tests.n == without.n).all()


# p-values


@pytest.mark.parametrize("W", [0.0, 0.3, -2.0, 5.0])
def test_surprise_is_minus_log_p(W):
    assert surprise_of_z(W) == pytest.approx(-np.log(2.0 * scipy.stats.norm.sf(abs(W))), abs=1e-12)
    assert surprise_of_chi2(W**2, 3) == pytest.approx(-scipy.stats.chi2.logsf(W**2, 3), abs=1e-12)


@pytest.mark.parametrize("freedom", [1, 2, 7, 40])
def test_surprise_goes_on_where_p_underflows(freedom):
    surprises = [surprise_of_chi2(x, freedom) for x in np.arange(1200.0, 1800.0, 5.0)]
    assert (np.diff(surprises) > 0.0).all()
    assert np.diff(surprises) == pytest.approx(2.5, rel=0.05)
    assert np.isfinite(surprise_of_z(fisher_z(1.0, 10_000)))


def test_what_has_no_freedom_is_no_surprise():
    assert surprise_of_chi2(5.0, 0.0) == 0.0
    assert fisher_z(0.9, 3) == 0.0
    x = np.zeros(10, dtype=np.int16)
    assert Contingency(as_codes(np.arange(10) % 2, "y")[np.newaxis], True).relevance(x) == 0.0


def test_g2_finds_what_strata_hide():
    """Two fair coins and whether they differ: any two are independent, but not given the third."""
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 2, (2, 400)).astype(np.int16)
    tests = Contingency((a ^ b)[np.newaxis], False)
    assert tests.relevance(a) < 5.0
    assert tests._surprise(a, b[np.newaxis]) > 100.0


# Edges


def test_missing_and_constant_columns_are_related_to_nothing():
    x = numbers(1, 1, missing=False)[0]
    strange = np.stack([np.full(40, np.nan), np.full(40, 0.1), np.where(x > -9, np.nan, 0)])
    r, n = correlations(x, strange)
    assert (r == 0.0).all()
    assert n.tolist() == [0, 40, 0]
    absent, constant = np.full(40, -1, np.int16), np.zeros(40, np.int16)
    some = as_codes(np.arange(40) % 3, "x")
    assert (uncertainties(some, np.stack([absent, constant])) == 0.0).all()
    assert (uncertainties(absent, np.stack([absent, some])) == 0.0).all()
    assert contingency(absent, some, some[np.newaxis], True) == 0.0
    assert contingency(some, some, absent[np.newaxis], False) == 0.0


def test_numbers_are_no_categories():
    with pytest.raises(ValueError, match="Column 3 has 100 different values in 100 rows"):
        as_codes(np.linspace(0.0, 1.0, 100), "Column 3")
    assert as_codes(np.arange(20.0), "x").max() == 19
    with pytest.raises(ValueError, match="257 different values"):
        as_codes(np.arange(2000.0) % 257, "x")
