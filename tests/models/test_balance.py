"""The shares of classes: how much their rows count, and what is left for the level."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.errors import StateError
from fires.models.target import ClassBalance


def counted(y, n_classes, weight=None):
    balance = ClassBalance(n_classes)
    y = np.asarray(y)
    balance.count(y, np.ones(len(y)) if weight is None else weight)
    return balance


def test_every_class_counts_as_much_as_the_others():
    y = np.repeat([0, 1, 2], [70, 29, 1])
    counts, level = counted(y, 3).look(y, np.ones(100))
    assert_allclose(np.bincount(y, counts[y]), 100 / 3)
    assert_allclose(np.exp(level), 1 / 3)


def test_a_class_that_is_rarer_than_rows_can_make_up_for_has_a_level():
    y = np.repeat([0, 1], [9990, 10])
    counts, level = counted(y, 3).look(y, np.ones(10_000))
    assert_allclose(counts, [1 / (2 * 0.999), 100.0, 1.0])  # of class 2 no row has been met
    assert_allclose(np.exp(level), [0.5, 0.1, 1e-6])


def test_a_single_class_is_what_is_expected():
    """Its rows must not push a model away from a class that has not come yet."""
    counts, level = counted(np.ones(50, dtype=int), 2).look(np.ones(1, dtype=int), np.ones(1))
    assert_allclose(counts, 1.0)
    assert_allclose(np.exp(level), [1e-6, 1.0])


def test_the_shares_are_those_of_the_batches_before():
    first, second = np.array([0, 0, 0, 1]), np.array([1, 1, 1, 1])
    balance = ClassBalance(2)
    assert_array_equal(balance.shares(first, np.ones(4)), [0.75, 0.25])
    balance.count(first, np.ones(4))
    assert_array_equal(balance.shares(second, np.ones(4)), [0.75, 0.25])
    balance.forget(0.5)
    balance.count(second, np.ones(4))
    assert_array_equal(balance.shares(first, np.ones(4)), [0.25, 0.75])


@pytest.mark.parametrize("size", [1e-28, 1.0, 1e26])
def test_a_row_of_weight_w_is_w_rows_and_only_shares_matter(size):
    weighted = counted([0, 1, 1], 2, size * np.array([2.0, 1.0, 3.0]))
    assert_allclose(weighted.shares(np.zeros(1, int), np.ones(1)), [1 / 3, 2 / 3])


def test_it_goes_on_from_its_state():
    balance = counted([0, 1, 1], 2)
    other = ClassBalance(2)
    other.restore(balance.state())
    assert_array_equal(other.class_weight, [1.0, 2.0])
    for wrong in (np.array([1.0]), np.array([1.0, -1.0]), np.array([1.0, np.nan])):
        with pytest.raises(StateError):
            other.restore({"class_weight": wrong})
