"""OLI2DS: its definition, what it finds where columns come and go, and where it must fail."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from tests.naive import oli2ds_plain

from fires import OLI2DS

kinds = pytest.mark.parametrize("kind", [np.asarray, sp.csr_array], ids=["dense", "sparse"])


def problem(seed, n_rows=60, n_features=7, present=0.6, limit=0.8):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) < present)
    X[rng.random(n_rows) < 0.05] = 0.0  # rows without entries
    return X, (X[:, 2] - X[:, 5] + 0.3 * rng.normal(size=n_rows) > limit).astype(int)


@kinds
@given(
    seed=st.integers(0, 2**16),
    present=st.sampled_from([0.3, 0.8, 1.0]),
    settings=st.sampled_from([(0.01, 8.0), (10.0, 1.0)]),
)
def test_it_is_the_plain_loop(kind, seed, present, settings):
    X, y = problem(seed, present=present)
    selector = OLI2DS(2, C=settings[0], learning_rate=settings[1])
    for i in range(0, 60, 25):
        selector.partial_fit(kind(X[i : i + 25]), y[i : i + 25], classes=[0, 1])
    expected = oli2ds_plain(X, 2.0 * y - 1.0, *settings)
    assert_allclose(selector.importances_, expected, rtol=1e-12, atol=1e-12)


def test_on_rows_with_all_features_it_is_passive_aggressive():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    y = np.where(X[:, 1] > 0, 1.0, -1.0)
    w, counts = np.zeros(3), {1.0: 1, -1.0: 1}
    for t, (x, sign) in enumerate(zip(X, y, strict=True)):
        counts[sign] += t > 0
        rarity = counts[-sign] / sum(counts.values())
        w += sign * rarity * min(10.0, max(0.0, 1.0 - sign * (w @ x)) / (x @ x)) * x
    selector = OLI2DS(1, C=10.0, learning_rate=1.0).fit(X, y)
    assert_allclose(selector.importances_, w, rtol=1e-10)


@kinds
def test_the_relevant_are_found_though_columns_come_and_go_and_a_class_is_rare(kind):
    X, y = problem(1, n_rows=4000, limit=1.5)
    assert 0.02 < y.mean() < 0.12
    selector = OLI2DS(2).fit(kind(X), y)
    assert_array_equal(selector.get_support(indices=True), [2, 5])


def test_a_column_of_another_unit_hides_the_others():
    """The stream on which it must fail: nothing is scaled, and variances are shares."""
    X, y = problem(2, n_rows=4000)
    X[:, 0] *= 1000.0
    assert 0 in OLI2DS(2).fit(X, y).get_support(indices=True)


def test_overflow_is_refused_and_changes_nothing():
    X, y = problem(3)
    selector = OLI2DS(2).fit(X, y)
    before = selector.importances_
    with pytest.raises(ValueError, match="rescale"):
        selector.partial_fit(X * 1e300, y)
    assert_array_equal(selector.importances_, before)
