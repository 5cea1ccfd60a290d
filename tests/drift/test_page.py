"""Page's sum of evidence against the model, by a plain loop over rows."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from fires.drift import add_up


def page(log_p, log_level, weight, warm_up, total, usual, rows):
    """The sums after every row, for one row of parameters."""
    seen = [total]
    for p, level, w in zip(log_p, log_level, weight, strict=True):
        if w:
            more = min(math.log(0.25 + 0.75 * math.exp(min(level - p, 50.0))), 3.0 / w)
            rows += w
            usual += (more - usual) * min(max(1e-3, 1.0 / rows) * w, 1.0)
            if rows > warm_up:
                total = max(total + w * (more - max(usual, 0.0)), 0.0)
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
    log_p, log_level = rng.normal(-1.0, 2.0, (2, n_sums, n))
    weight = rng.choice([0.0, 1.0, 0.5, 3.0], n)
    total, usual, rows = (
        rng.random(n_sums),
        0.1 * rng.normal(size=n_sums),
        10.0 * rng.random(n_sums),
    )
    expected = [
        page(log_p[k], log_level[k], weight, warm_up, total[k], usual[k], rows[k])
        for k in range(n_sums)
    ]
    greatest = np.empty(n_sums)
    add_up(log_p, log_level, weight, warm_up, total, usual, rows, greatest)
    for k, (seen, mean, count) in enumerate(expected):
        assert_allclose(total[k], seen[-1], rtol=1e-10, atol=1e-12)
        assert_allclose(greatest[k], max(seen), rtol=1e-10, atol=1e-12)
        assert_allclose(usual[k], mean, rtol=1e-10, atol=1e-12)
        assert_allclose(rows[k], count, rtol=1e-12)


def one(log_p, log_level, weight=None, total=0.0, rows=100.0):
    """The sum, the usual increment and the row count after a batch, without a warm-up."""
    log_p, log_level = (np.array(part, float, ndmin=2) for part in (log_p, log_level))
    weight = np.ones(log_p.shape[1]) if weight is None else np.array(weight, float)
    state = np.array([[total], [0.0], [rows], [0.0]])
    add_up(log_p, log_level, weight, 0.0, *state)
    return state[:3, 0]


@pytest.mark.parametrize("log_p", [-1e3, -1e300])
def test_one_row_adds_three_at_most(log_p):
    total, usual, _ = one([log_p], [-0.7])
    assert_allclose(total, 3.0 - usual)
    assert usual == 3.0 / 101.0


def test_a_row_takes_off_little_however_sure_the_model_was():
    """log(1 - share) at least: a sum that alarms is not undone by one row."""
    total, usual, _ = one([0.0], [-1e300], total=5.0)
    assert_allclose(total, 5.0 + math.log(0.25))
    assert usual < 0.0


def test_a_row_of_weight_zero_is_as_if_absent():
    log_p, level = [-3.0, -0.1, -2.0], [-0.7, -0.7, -0.7]
    assert_array_equal(one(log_p, level, [1.0, 0.0, 2.0]), one(log_p[::2], level[::2], [1.0, 2.0]))


def test_the_sum_is_never_below_zero():
    assert one(np.full(50, -0.1), np.full(50, -3.0))[0] == 0.0
