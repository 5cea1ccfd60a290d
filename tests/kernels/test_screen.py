"""The loops over curves do what their plain definitions say."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.naive import cosines_plain, normal_scores_plain, screen_rows_plain

from fires.kernels.screen import DEVIATIONS, KNOTS, MEANS, ORDERS, screen_rows, term_values


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((40, 5)) * [1.0, 2.0, 0.1, 1.0, 1.0]
    Z[:, 3] = np.exp(Z[:, 3]) - 1.6  # skewed
    Z[:, 4] = Z[:, 4] > 0.0  # two values
    return Z, np.quantile(Z, [0.02, 0.1, 0.25, 0.5, 0.75, 0.9, 0.98], axis=0)


def test_sums_are_those_of_the_definition(rows):
    Z, knots = rows
    rng = np.random.default_rng(1)
    slope, weight = rng.standard_normal((2, 40)), rng.random(40)
    out, below = np.empty(Z.shape, dtype=np.float32), np.zeros((len(KNOTS), 5))
    n = len(ORDERS)
    sums = np.zeros((2, n + 1, 5)), np.zeros((2, n + 1, 5)), np.zeros((2, n, 5))
    screen_rows(Z, weight, slope, knots, out, below, sums)
    assert_allclose(out, normal_scores_plain(Z, knots), atol=1e-6)
    assert_allclose(below, (weight[:, None, None] * (Z[:, None] < knots)).sum(axis=0))
    for found, wanted in zip(sums, screen_rows_plain(Z, slope, knots), strict=True):
        assert_allclose(found, wanted, atol=2e-3)


def test_terms_are_cosines_and_products(rows):
    Z, knots = rows
    scores = normal_scores_plain(Z, knots)
    first = np.array([3, 3, 3, 3, 3, 3, 0, 1])
    second, order = np.array([3, 3, 3, 3, 3, 3, 1, 4]), np.array([*ORDERS, 0, 0])
    mean, spread = np.append(MEANS, [0.1, 0.0]), np.append(DEVIATIONS, [2.0, 1.0])
    values = np.empty((40, 8))
    term_values(Z, knots, (first, second, order), (mean, spread), values)
    cosines = cosines_plain(scores[:, [3]])[:, :, 0].T / DEVIATIONS
    assert_allclose(values[:, :6], cosines, atol=1e-3)
    assert_allclose(values[:, 6], (scores[:, 0] * scores[:, 1] - 0.1) / 2.0, atol=1e-9)
    assert_allclose(values[:, 7], scores[:, 1] * scores[:, 4], atol=1e-9)


def test_cosines_of_a_normal_variable_are_standardised():
    scores = np.random.default_rng(2).standard_normal((200_000, 1))
    values = cosines_plain(np.clip(scores, -3.0, 3.0))[:, :, 0]
    assert_allclose(values.mean(axis=1), 0.0, atol=0.01)
    assert_allclose(values.std(axis=1), DEVIATIONS, atol=0.01)
