"""Weights: the paper's three properties, and what it means to rank by them."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose, assert_array_equal
from tests.naive import top_k_plain

from fires import FIRES, stability
from fires.core.belief import Belief, rank, stable_weights
from fires.kernels import top_k

# Wide, and yet far from where squares overflow or vanish.
sizes = st.floats(1e-6, 1e6)
signed_sizes = st.floats(-1e6, 1e6)
penalties = st.floats(1e-6, 1e6)


def weight(mu, sigma, uncertainty_penalty=0.01, weight_penalty=0.01):
    (omega,) = stable_weights(Belief([mu], [sigma]), uncertainty_penalty, weight_penalty)
    return omega


# The formula


def test_the_weights_are_those_of_the_worked_example():
    belief = Belief(
        [0.270742326544, 0.021385851361, 0.310034332172],
        [0.956700203066, 0.50763401982, 1.099894983053],
    )
    assert_allclose(
        stable_weights(belief), [3.207432729844, -0.105978417116, 4.201179869387], rtol=1e-10
    )


def test_a_feature_never_observed_weighs_minus_one_half():
    assert_array_equal(stable_weights(Belief.standard(3)), [-0.5, -0.5, -0.5])


@given(mu=signed_sizes, sigma=sizes, ls=penalties, lr=penalties, other=signed_sizes)
def test_no_other_weight_gives_a_better_objective(mu, sigma, ls, lr, other):
    """The weight maximises  omega mu² - ls omega sigma² - lr omega²,  a parabola."""

    def objective(omega):
        return omega * mu**2 - ls * omega * sigma**2 - lr * omega**2

    best = weight(mu, sigma, ls, lr)
    rounding = 1e-12 * (abs(best) + abs(other)) * (mu**2 + ls * sigma**2 + lr * abs(other))
    assert objective(best) >= objective(other) - rounding - 1e-300


def test_the_belief_is_left_as_it_was():
    belief = Belief([1.0, -2.0], [0.5, 3.0])
    stable_weights(belief)
    assert_array_equal(belief.mu, [1.0, -2.0])
    assert_array_equal(belief.sigma, [0.5, 3.0])


# Property 1: attentive


@given(sigma=st.floats(0.0, 1e6), ls=st.floats(0.0, 1e6), lr=penalties)
def test_a_feature_without_importance_has_no_positive_weight(sigma, ls, lr):
    assert weight(0.0, sigma, ls, lr) <= 0.0


@given(mu=sizes, sigma=sizes, ls=penalties, lr=penalties)
def test_a_weight_is_positive_just_where_importance_exceeds_the_penalised_uncertainty(
    mu, sigma, ls, lr
):
    threshold = np.sqrt(ls) * sigma
    assume(abs(mu - threshold) > 1e-9 * threshold)
    assert (weight(mu, sigma, ls, lr) > 0.0) == (mu > threshold)


# Property 2: strictly monotonic


@given(mu=signed_sizes, sigmas=st.tuples(sizes, sizes), ls=penalties, lr=penalties)
def test_of_equal_importance_the_more_certain_feature_weighs_more(mu, sigmas, ls, lr):
    low, high = sorted(sigmas)
    # Further apart than the rounding of the sum of the two terms.
    assume(ls * (high**2 - low**2) > 1e-12 * (mu**2 + ls * high**2))
    assert weight(mu, low, ls, lr) > weight(-mu, high, ls, lr)


@given(mus=st.tuples(sizes, sizes), sigma=sizes, ls=penalties, lr=penalties)
def test_of_equal_uncertainty_the_more_important_feature_weighs_more(mus, sigma, ls, lr):
    low, high = sorted(mus)
    assume(high**2 - low**2 > 1e-12 * (high**2 + ls * sigma**2))
    assert weight(high, sigma, ls, lr) > weight(low, sigma, ls, lr)
    assert weight(-high, sigma, ls, lr) > weight(low, sigma, ls, lr)


@given(mu=signed_sizes, sigmas=st.tuples(sizes, sizes))
def test_without_a_penalty_uncertainty_does_not_count(mu, sigmas):
    assert weight(mu, sigmas[0], 0.0) == weight(mu, sigmas[1], 0.0)


@given(seed=st.integers(0, 2**16), exponent=st.integers(-20, 20))
def test_the_weight_penalty_never_changes_the_ranking(seed, exponent):
    rng = np.random.default_rng(seed)
    belief = Belief(rng.normal(size=30).round(1), rng.choice([0.5, 1.0], size=30))
    ranks = rank(stable_weights(belief, 0.01, 0.01))
    # A power of two away from 0.01 changes no digit, so that ties stay ties.
    assert_array_equal(rank(stable_weights(belief, 0.01, 0.01 * 2.0**exponent)), ranks)


# Property 3: consistent


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("select", [FIRES, FIRES.as_published])
def test_on_a_stationary_stream_the_choice_settles(select, seed):
    rng = np.random.default_rng(seed)
    strength = np.r_[2.0, -1.5, 1.2, -1.0, 1.0, np.zeros(15)]
    selector, last = select(5), []
    for step in range(450):
        X = rng.normal(size=(50, 20))
        selector.partial_fit(X, X @ strength + rng.normal(size=50) > 0)
        if step >= 400:
            last.append(selector.get_support())
    assert stability(last) >= 0.95
    assert_array_equal(np.flatnonzero(last[-1]), range(5))


# Ranking

few_values = st.sampled_from([-np.inf, -1.0, -0.0, 0.0, 0.5, 2.0, np.inf, np.nan])
weight_vectors = st.one_of(
    hnp.arrays(np.float64, st.integers(1, 60), elements=few_values),
    hnp.arrays(np.float64, st.integers(1, 60), elements=st.floats(allow_nan=True)),
)


@given(weights=weight_vectors, share=st.floats(0.0, 1.0))
def test_top_k_is_what_its_definition_says(weights, share):
    k = max(1, round(share * len(weights)))
    assert_array_equal(top_k(weights, k), top_k_plain(weights, k))


@pytest.mark.parametrize("n", [1023, 1024, 1025, 5000])
@pytest.mark.parametrize("k", [1, 2, 31, 32, 33, 157, 512, 1022])
@pytest.mark.parametrize("n_values", [1, 2, 7, 10**6])
def test_top_k_is_what_its_definition_says_in_every_regime(n, k, n_values):
    rng = np.random.default_rng(n * k + n_values)
    weights = rng.integers(0, n_values, size=n).astype(float)
    assert_array_equal(top_k(weights, k), top_k_plain(weights, k))
    weights[rng.random(n) < 0.3] = np.nan
    assert_array_equal(top_k(weights, k), top_k_plain(weights, k))
    weights[:] = np.nan
    assert_array_equal(top_k(weights, k), np.arange(k))


@given(weights=weight_vectors)
def test_ranks_are_a_permutation_that_sorts_the_weights(weights):
    ranks = rank(weights)
    assert_array_equal(np.sort(ranks), np.arange(1, len(weights) + 1))
    ordered = weights[np.argsort(ranks)]
    numbers = ordered[~np.isnan(ordered)]
    assert (numbers[:-1] >= numbers[1:]).all()


@given(weights=weight_vectors)
def test_the_best_ranks_are_the_top_k(weights):
    ranks = rank(weights)
    for k in {1, (len(weights) + 1) // 2, len(weights)}:
        assert_array_equal(np.flatnonzero(ranks <= k), top_k(weights, k))


def test_ties_go_to_the_lower_index():
    assert_array_equal(rank(np.array([1.0, 3.0, 1.0, 3.0, 1.0])), [3, 1, 4, 2, 5])
    assert_array_equal(top_k(np.array([1.0, 3.0, 1.0, 3.0, 1.0]), 3), [0, 1, 3])
    assert_array_equal(top_k(np.zeros(2000), 700), np.arange(700))
    assert_array_equal(rank(np.array([0.0, -0.0, 0.0])), [1, 2, 3])


@pytest.mark.parametrize("place", range(4))
def test_nan_never_ranks_before_a_number(place):
    weights = np.array([-1e300, -5.0, 0.0, 7.0])
    weights[place] = np.nan
    numbers = np.flatnonzero(~np.isnan(weights))
    assert rank(weights)[place] == 4
    assert_array_equal(top_k(weights, 3), numbers)
    assert_array_equal(top_k_plain(weights, 3), numbers)


@pytest.mark.parametrize("n", [3, 2000])
def test_ranking_leaves_the_weights_as_they_were(n):
    weights = np.r_[np.nan, np.arange(n - 1.0)]
    before = weights.tobytes()
    weights.flags.writeable = False
    rank(weights)
    top_k(weights, n // 2)
    assert weights.tobytes() == before
