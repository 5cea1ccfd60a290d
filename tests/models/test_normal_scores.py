"""Numbers by rank: any increasing change of units leads to the same scores."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri
from scipy.stats import rankdata

from fires.core.declared import collect, restore
from fires.models.target import NormalScores


def after(*batches):
    scores = NormalScores()
    for y in batches:
        scores.learn(np.asarray(y, float))
    return scores


@given(y=st.lists(st.integers(-5, 5), min_size=1, max_size=30))
def test_the_first_batch_is_scored_by_its_own_ranks_and_ties_share_theirs(y):
    y = np.array(y, float)
    assert_allclose(NormalScores().of(y), ndtri(rankdata(y) / (len(y) + 1.0)), atol=1e-12)


@given(
    known=st.lists(st.integers(-9, 9), min_size=1, max_size=50),
    y=st.lists(st.floats(-10, 10), min_size=1, max_size=20),
)
def test_later_ones_by_the_share_of_numbers_before_that_are_below(known, y):
    """Ties count half; so does the number itself, so that no share is 0 or 1."""
    known, y = np.array(known, float), np.array(y)
    below = (known < y[:, None]).sum(axis=1) + 0.5 * (known == y[:, None]).sum(axis=1)
    expected = ndtri((below + 0.5) / (len(known) + 1.0))
    assert_allclose(after(known).of(y), expected, atol=1e-12)


@given(seed=st.integers(0, 2**16))
def test_scores_rise_with_the_numbers(seed):
    rng = np.random.default_rng(seed)
    scores = after(rng.normal(size=200)).of(np.sort(rng.normal(size=50)))
    assert (np.diff(scores) >= 0.0).all()
    assert scores[0] < scores[-1]


def test_an_increasing_change_of_units_changes_no_score():
    rng = np.random.default_rng(0)
    plain, skewed = NormalScores(), NormalScores()
    for _ in range(5):
        y = rng.normal(size=100)
        assert_array_equal(plain.of(y), skewed.of(np.exp(3.0 * y)))
        plain.learn(y)
        skewed.learn(np.exp(3.0 * y))


def test_normal_numbers_become_standardised_numbers():
    rng = np.random.default_rng(1)
    y = rng.normal(50.0, 4.0, 300)
    scores = after(rng.normal(50.0, 4.0, 2000)).of(y)
    assert_allclose(scores, (y - 50.0) / 4.0, atol=0.25)


def test_one_wild_number_gets_a_bounded_score_and_moves_the_others_little():
    rng = np.random.default_rng(2)
    known, y = rng.normal(size=2000), rng.normal(size=100)
    calm, struck = after(known), after(np.append(known, 1e6))
    assert np.abs(calm.of(np.array([-1e300, 1e300]))).max() < 4.0
    assert_allclose(struck.of(y), calm.of(y), atol=0.05)


@pytest.mark.parametrize("n", [2000, 100_000])
def test_no_score_is_beyond_four_also_in_a_huge_first_batch(n):
    y = np.append(np.random.default_rng(3).normal(size=n), [-1e9, 1e9])
    scores = NormalScores().of(y)
    assert np.abs(scores).max() < 4.0
    assert (np.diff(scores[np.argsort(y)]) >= 0.0).all()


def test_old_numbers_are_forgotten():
    scores = after(np.zeros(3000), np.arange(100.0, 2100.0))
    assert abs(scores.of(np.array([1100.0]))[0]) < 0.05
    assert len(scores.sample) == 2000


def test_after_a_change_of_level_the_scores_are_centred_again():
    rng, scores = np.random.default_rng(4), after(np.random.default_rng(5).normal(size=2000))
    for _ in range(25):
        y = rng.normal(100.0, 5.0, 100)
        scored = scores.of(y)
        scores.learn(y)
    assert abs(scored.mean()) < 0.4
    assert 0.7 < scored.std() < 1.3


def test_equal_numbers_have_score_zero():
    assert_allclose(NormalScores().of(np.full(9, 3.0)), 0.0, atol=1e-15)
    assert_allclose(after(np.full(9, 3.0)).of(np.full(2, 3.0)), 0.0, atol=1e-15)


def test_numbers_of_weight_zero_do_not_count_in_the_first_batch():
    y, weight = np.array([1.0, 50.0, 2.0, 60.0, 3.0]), np.array([1.0, 0.0, 2.0, 0.0, 0.5])
    assert_array_equal(NormalScores().of(y, weight)[::2], NormalScores().of(y[::2]))


def test_learning_nothing_changes_nothing():
    scores = after([])
    assert not scores.ready
    scores.learn(np.array([1.0, 2.0]))
    before = scores.of(np.array([1.5]))
    scores.learn(np.empty(0))
    assert_array_equal(scores.of(np.array([1.5])), before)


def test_the_input_is_not_changed():
    y = np.array([3.0, 1.0, 2.0])
    y.flags.writeable = False
    scores = NormalScores()
    scores.of(y)
    scores.learn(y)
    scores.of(y)


def test_what_was_saved_goes_on_bit_for_bit():
    rng, scores = np.random.default_rng(6), NormalScores()
    for _ in range(30):
        scores.learn(rng.normal(size=77))
    other = NormalScores()
    header, arrays = collect(scores, NormalScores.learnt)
    restore(other, NormalScores.learnt, header, arrays, {})
    for _ in range(20):
        y = rng.normal(1.0, 2.0, 77)
        assert_array_equal(other.of(y), scores.of(y))
        scores.learn(y)
        other.learn(y)
