"""Surprise: what it is on average, and that no row outweighs the others."""

import numpy as np
import pytest

from fires.models.target import surprise_of_classes, surprise_of_numbers


def test_a_model_that_says_what_is_true_is_not_surprised_on_average():
    p = np.array([0.6, 0.3, 0.1])
    each = [surprise_of_classes(p[:, None], np.array([k]), np.ones(1)) for k in range(3)]
    surprises, variances = np.array(each).T
    assert p @ surprises == pytest.approx(0.0, abs=1e-12)
    assert variances == pytest.approx(p @ surprises**2)
    error = np.random.default_rng(0).normal(size=20_000)
    surprise, variance = surprise_of_numbers(error**2, np.ones(20_000))
    assert abs(surprise) < 4.0 * np.sqrt(variance)


def test_what_was_held_to_be_impossible_counts_as_one_in_a_million():
    p = np.array([[1.0], [0.0]])
    surprise, variance = surprise_of_classes(p, np.array([1]), np.ones(1))
    assert surprise == pytest.approx(-np.log(1e-6), rel=1e-4)
    assert 0.0 < variance < 1e-3
    assert surprise_of_numbers(np.array([np.inf]), np.ones(1)) == (7.5, 0.5)


def test_weights_are_counted():
    p = np.array([[0.2, 0.2], [0.8, 0.8]])
    one = surprise_of_classes(p[:, :1], np.array([0]), np.array([3.0]))
    assert one[0] == pytest.approx(3.0 * surprise_of_classes(p[:, :1], [0], np.ones(1))[0])
    assert one[1] == pytest.approx(9.0 * surprise_of_classes(p[:, :1], [0], np.ones(1))[1])
    assert surprise_of_numbers(np.array([9.0, 1.0]), np.array([0.0, 2.0])) == (0.0, 2.0)
