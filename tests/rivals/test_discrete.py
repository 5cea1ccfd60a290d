"""Columns cut into intervals, and FCBF, beside their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from tests.naive import cut_plain, information_plain

from fires import HEFT
from fires.kernels.contingency import information
from fires.rivals.windows.chunks import cut, predominant

SEEDS = st.integers(0, 2**16)


def column(rng, n_rows=40):
    """Numbers, counts or two values, some of them missing."""
    kinds = [rng.normal(size=n_rows), rng.poisson(2.0, n_rows), rng.random(n_rows) < 0.1]
    x = kinds[rng.integers(3)].astype(float)
    x[rng.random(n_rows) < 0.1] = np.nan
    return x


@given(seed=SEEDS, n_bins=st.integers(2, 9))
def test_a_column_is_cut_as_defined(seed, n_bins):
    x = column(np.random.default_rng(seed))
    assert_array_equal(cut(x, n_bins, np.ones(len(x))), cut_plain(x.tolist(), n_bins))


@given(seed=SEEDS)
def test_a_weight_is_a_number_of_rows(seed):
    rng = np.random.default_rng(seed)
    x, y, weight = column(rng), rng.integers(0, 3, 40).astype(np.int16), rng.integers(1, 4, 40)
    codes = cut(x, 4, weight.astype(float))
    rows = np.repeat(np.arange(40), weight)
    assert_array_equal(codes[rows], cut(x[rows], 4, np.ones(len(rows))))
    shared = information(y, codes[None], weight.astype(float))[:, 0]
    assert_allclose(shared, information_plain(y[rows], codes[rows]), rtol=0, atol=1e-12)
    # Fractions count too, and a common factor does not.
    assert_allclose(information(y, codes[None], weight / 7)[:, 0], shared, rtol=0, atol=1e-12)


@pytest.mark.parametrize("share", [0.001, 0.1, 0.5, 0.9, 0.999])
def test_equal_entries_stay_together_and_common_values_apart(share):
    rng = np.random.default_rng(0)
    x = np.where(np.arange(2000) < 2000 * share, 0.0, 1.0 + rng.random(2000) * 1e-9)
    codes = cut(x, 5, np.ones(2000))
    zeros = set(codes[x == 0.0].tolist())
    assert len(zeros) == 1
    assert share in (0.001, 0.1) or not zeros & set(codes[x > 0.0].tolist())
    two = cut(np.round(x), 2, np.ones(2000))
    assert len(set(two.tolist())) == 2


@given(seed=SEEDS, threshold=st.sampled_from([0.0, 0.05]))
def test_what_fcbf_keeps(seed, threshold):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, 60).astype(np.int16)
    columns = np.where(rng.random((8, 60)) < rng.random((8, 1)), y, rng.integers(0, 3, (8, 60)))
    columns = columns.astype(np.int16)
    columns[5] = columns[2]
    shared, weight = information(y, columns, np.ones(60))[1], np.ones(60)
    left = [j for j in np.argsort(-shared, kind="stable") if shared[j] >= max(threshold, 1e-300)]
    kept = []
    for q in left:
        better = (information_plain(columns[p], columns[q])[1] for p in kept)
        if not any(between >= shared[q] - 1e-12 for between in better):
            kept.append(q)
    assert predominant(columns, shared, threshold, weight).tolist() == sorted(kept)


@pytest.mark.parametrize("n_bins", [1, 257, 2.5, "many"])
def test_a_number_of_intervals_that_makes_no_sense(n_bins):
    with pytest.raises(ValueError, match="n_bins must be an integer from 2 to 256"):
        HEFT(1, n_bins=n_bins).partial_fit(np.eye(2), [0, 1])
