"""Page's sum of evidence against the model, by a plain loop over rows."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from tests.naive import add_up


def page(more, weight, warm_up, total, usual, rows):
    """The sums after every row, for one row of parameters."""
    seen = [total]
    for x, w in zip(more, weight, strict=True):
        if w:
            rows += w
            usual += (x / w - usual) * min(max(1e-3, 1.0 / rows) * w, 1.0)
            if rows > warm_up:
                total = max(total + x - w * max(usual, 0.0), 0.0)
        seen.append(total)
    return seen, usual, rows


@given(
    seed=st.integers(0, 2**16),
    n=st.integers(0, 40),
    n_sums=st.sampled_from([1, 3]),
    warm_up=st.sampled_from([0.0, 5.0, 30.0, 1e9]),
)
def test_the_sums_are_those_of_a_plain_loop(seed, n, n_sums, warm_up):
    rng = np.random.default_rng(seed)
    more, weight = rng.normal(-0.2, 1.0, (n_sums, n)), rng.choice([0.0, 1.0, 0.5, 3.0], n)
    total, rows = rng.random(n_sums), 10.0 * rng.random(n_sums)
    usual = 0.1 * rng.normal(size=n_sums)
    expected = [page(more[k], weight, warm_up, total[k], usual[k], rows[k]) for k in range(n_sums)]
    greatest = add_up(more, weight, warm_up, total, usual, rows)
    for k, (seen, mean, count) in enumerate(expected):
        assert_allclose(total[k], seen[-1], rtol=1e-10, atol=1e-12)
        assert_allclose(greatest[k], max(seen), rtol=1e-10, atol=1e-12)
        assert_allclose(usual[k], mean, rtol=1e-10, atol=1e-12)
        assert_allclose(rows[k], count, rtol=1e-12)


def one(more, weight=None, total=0.0, rows=100.0):
    """The sum, the usual increment and the row count after a batch, without a warm-up."""
    more = np.array(more, float, ndmin=2)
    weight = np.ones(more.shape[1]) if weight is None else np.array(weight, float)
    state = np.array([[total], [0.0], [rows]])
    add_up(more, weight, 0.0, *state)
    return state[:, 0]


def test_a_row_of_weight_zero_is_as_if_absent():
    assert_array_equal(one([0.3, 9.0, -0.1], [1.0, 0.0, 2.0]), one([0.3, -0.1], [1.0, 2.0]))


def test_the_sum_is_never_below_zero():
    assert one(np.full(50, -0.4))[0] == 0.0
