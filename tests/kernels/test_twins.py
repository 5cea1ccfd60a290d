"""Sums, correlation and twins, against their definitions in plain NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fires.kernels.twins import add_some, correlate, find_twins, judge


def added(Z, weight=None, gamma=1.0, first=0.0):
    """Sums over one batch."""
    n, size = Z.shape
    sums = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    weight = np.ones(n) if weight is None else weight
    total = add_some(np.ascontiguousarray(Z), weight, gamma, first, *sums)
    assert_allclose(total, weight.sum())
    return sums


def twins(Z, order=None, known=True, limit=0.25, most=3):
    order = np.arange(Z.shape[1]) if order is None else np.array(order)
    known = np.full(Z.shape[1], known)
    return find_twins(np.corrcoef(Z.T), known, order, limit, most)


@pytest.mark.parametrize("n_rows", [1, 3, 4, 7, 100])
def test_sums_are_those_of_the_rows(n_rows):
    rng = np.random.default_rng(n_rows)
    Z, weight = rng.normal(size=(n_rows, 5)), rng.random(n_rows)
    products, sums, rows = added(Z, weight)
    assert_allclose(np.tril(products), np.tril((Z * weight[:, None]).T @ Z))
    assert_allclose(sums, weight @ Z)
    assert_allclose(rows, weight.sum())


def test_sums_fade_by_the_weight_of_a_batch():
    rng = np.random.default_rng(0)
    first, second = rng.normal(size=(2, 8, 3))
    sums = added(first)
    expected = [0.9**8 * old + new for old, new in zip(sums, added(second), strict=True)]
    add_some(second, np.ones(8), 0.9, 8.0, *sums)
    for found, wanted in zip(sums, expected, strict=True):
        assert_allclose(np.tril(found), np.tril(wanted))


@pytest.mark.parametrize("rhythm", [1, 2, 3, 4, 5, 7, 24])
def test_after_1000_rows_one_in_four_is_added_whatever_the_rhythm(rhythm):
    n_rows = 24_000
    Z = (np.arange(n_rows) % rhythm == 0).astype(float)[:, None]
    _, sums, rows = added(Z, first=1000.0)
    assert_allclose(rows, n_rows / 4, rtol=0.01)
    assert_allclose(sums, n_rows / rhythm / 4, rtol=0.03)


def test_the_correlation_is_that_of_the_rows():
    Z = np.random.default_rng(0).normal(size=(50, 4)) @ np.random.default_rng(1).normal(size=(4, 4))
    assert_allclose(correlate(*added(Z + 5.0)), np.corrcoef(Z.T))


def test_a_newer_column_is_compared_over_its_own_rows():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(4000, 2))
    products, sums, rows = added(Z, first=-3000.0)
    new = added(np.column_stack([Z[3000:, 0], -Z[3000:, 0]]))
    products[1], sums[1], rows[1] = new[0][1], new[1][1], new[2][1]
    assert_allclose(correlate(products, sums, rows)[0, 1], -1.0, atol=0.05)


def test_a_column_that_does_not_vary_has_nothing_in_common_with_others():
    Z = np.random.default_rng(0).normal(size=(50, 2))
    Z[:, 1] = 7.0
    assert_array_equal(correlate(*added(Z)), np.eye(2))
    assert_array_equal(correlate(np.zeros((2, 2)), np.zeros(2), np.zeros(2)), np.eye(2))


@pytest.mark.parametrize("factor", [1.0, -3.0])
def test_a_copy_is_a_twin_of_the_one_before_it(factor):
    Z = np.random.default_rng(0).normal(size=(500, 3))
    Z[:, 2] = factor * Z[:, 0]
    own, part = twins(Z)
    assert_allclose(own, [1.0, 1.0, 0.0], atol=1e-12)
    assert_allclose(part[2], [np.sign(factor), 0.0, 0.0], atol=1e-12)
    own, part = twins(Z, order=[2, 1, 0])
    assert_allclose(own, [0.0, 1.0, 1.0], atol=1e-12)


def test_what_is_left_is_what_regression_leaves():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(2000, 4))
    Z[:, 3] = Z[:, 0] - 1.1 * Z[:, 1] + Z[:, 2] + 0.3 * rng.normal(size=2000)
    own, part = twins(Z)
    unit = (Z - Z.mean(axis=0)) / Z.std(axis=0)
    slope, (rest,) = np.linalg.lstsq(unit[:, :3], unit[:, 3])[:2]
    assert_allclose(own[3], rest / 2000)
    assert_allclose(part[3, :3], slope)
    own, _ = twins(Z, most=2)
    assert_array_equal(own, np.ones(4))


def test_no_twin_before_enough_is_known():
    Z = np.random.default_rng(0).normal(size=(500, 2))
    Z[:, 1] = Z[:, 0]
    own, part = twins(Z, known=False)
    assert_array_equal(own, np.ones(2))
    assert_array_equal(part, np.eye(2))


def test_scores_are_raised_or_held_down_in_a_copy():
    scores = np.array([1.0, 2.0, 3.0])
    judged = judge(scores, np.array([2, 0]), np.array([0.0, 0.5]), np.array([0.1, np.inf]))
    assert_allclose(judged, [1.5, 2.0, 0.1])
    assert_array_equal(scores, [1.0, 2.0, 3.0])
