"""The selection rule in one pass equals its definition."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from tests.naive import renew_plain

from fires.kernels.select import renew


@given(
    seed=st.integers(0, 2**16),
    n=st.integers(1, 30),
    share=st.sampled_from([1.0, 0.3]),
    rough=st.booleans(),
    learnt=st.sampled_from([0.0, 0.5, 0.99]),
)
def test_the_compiled_rule_is_its_definition(seed, n, share, rough, learnt):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(1, n + 1))
    score, now = rng.random((2, n))
    if rough:  # many ties
        score, now = np.round(2.0 * score) / 2.0, np.round(2.0 * now) / 2.0
    var = np.minimum(0.1 * (1.0 - learnt) * rng.uniform(0.5, 1.5, n), 0.1)
    inside = np.zeros(n, dtype=bool)
    inside[rng.permutation(n)[:k]] = True
    expected, members = renew_plain(score, now, var, 0.1, share, 2.0, inside)
    before = inside.copy()
    came = renew(score, now, var, 0.1, share, 2.0, inside)
    assert_allclose(score, expected, rtol=1e-12)
    assert_array_equal(inside, members)
    assert inside.sum() == k
    assert came == (inside & ~before).sum()
