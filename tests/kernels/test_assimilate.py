"""Bayes' rule row by row: the compiled loops are their definition, and the definition is Bayes'."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import log_ndtr
from tests.naive import add_information_plain, assimilate_plain, express_plain

from fires.kernels import read_only
from fires.kernels.assimilate import (
    ADDED,
    ALONG,
    INTERCEPT_MEAN,
    INTERCEPT_VAR,
    N_FACTS,
    N_STATS,
    NOISE,
    NOISE_ROWS,
    ROWS,
    UNIT,
    WIDTH,
    Believed,
    Seen,
    add_information,
    add_to_sums,
    express,
    total_sizes,
)
from fires.kernels.linear import DenseRows, MixedRows
from fires.kernels.products import add_products
from fires.models.families import FAMILIES

NAMES = ("probit", "logistic", "gaussian", "poisson")
KNOWN = 1e15  # the noise counts as seen in so many rows: it stays what it is
# What a row teaches that has nothing to forget, no bounds, no stretch.
FREE = {"gamma": 1.0, "prior": math.inf, "own_prior": math.inf, "after": math.inf}


class State:
    """A belief, what is kept beside it, and what rows said."""

    def __init__(self, mu, var, *, own=(0.0, 0.0), noise=0.0, noise_rows=KNOWN, n_rows=1):
        self.mu, self.var = np.array(mu, float, ndmin=2), np.array(var, float, ndmin=2)
        self.facts = np.zeros((len(self.mu), N_FACTS))
        self.facts[:, [INTERCEPT_MEAN, INTERCEPT_VAR]], self.facts[:, UNIT] = own, 1.0
        self.facts[:, NOISE], self.facts[:, NOISE_ROWS] = noise * noise_rows, noise_rows
        self.seen_at = np.zeros_like(self.mu)
        self.clock = 0.0
        self.said = np.zeros((len(self.mu), N_STATS, 0))

    @property
    def intercept_mean(self):
        return self.facts[:, INTERCEPT_MEAN]

    @property
    def intercept_var(self):
        return self.facts[:, INTERCEPT_VAR]

    @property
    def unit(self):
        return self.facts[:, UNIT]

    @property
    def parts(self):
        return self.mu, self.var, self.facts, self.said

    def caught_up(self, gamma, prior):
        """Mean, variance and the rest after sparse rows, with forgetting up to now."""
        var = np.minimum(self.var * gamma ** (self.seen_at - self.clock), prior)
        facts = self.facts.copy()
        facts[:, INTERCEPT_MEAN] *= self.unit
        facts[:, UNIT] = 1.0
        return self.mu * self.unit[:, None], var, facts, self.said

    def learn(self, family, Z, y, weight=None, *, loop="dense", full=None, **changes):
        """Learn from rows by one of the loops; the columns ``full`` are handed over whole."""
        weight = np.ones(len(Z)) if weight is None else np.asarray(weight, float)
        y, Z = np.array(y, float, ndmin=2), np.ascontiguousarray(Z, float)
        one = FREE | changes
        noisy, now = FAMILIES[family].noise > 0.0, self.clock if loop == "sparse" else 0.0
        rule = np.array([one["gamma"], one["prior"], one["own_prior"], noisy, one["after"], now])
        self.said = np.zeros((len(self.mu), N_STATS, len(Z)))
        learn, rows = FAMILIES[family].assimilate, DenseRows(*read_only(Z))
        if loop == "plain":
            learn = assimilate_plain(one.get("scores", scores_of(family)))
        elif loop == "sparse":
            full = np.empty(0, dtype=np.int64) if full is None else np.asarray(full)
            rare = Z.copy()
            rare[:, full] = 0.0
            entries = sp.csr_array(rare)
            block = np.ascontiguousarray(Z[:, full])
            places = entries.data, entries.indices, entries.indptr, np.arange(Z.shape[1])
            rows = MixedRows(*read_only(block, full, *places))
            self.clock += weight.sum()
        belief = Believed(rule, self.mu, self.var, self.facts, self.seen_at)
        seen = Seen(y, weight, self.said)
        if loop == "plain":
            learn(rows, 0, seen, belief)
        else:  # in the forms in which learners pass them, which are compiled already
            learn(tuple(rows), 0, tuple(seen), tuple(belief))
        return self


def scores_of(family):
    """The family's scores by its compiled moments, which are approximate: so loops can be equal."""

    def scores(a, v, y):
        log_z, g, bend = FAMILIES[family].moments(a, v, float(y))
        return np.array(log_z), np.array(g), np.array(0.5 * (g * g - bend))

    return scores


def targets(rng, family, shape):
    if FAMILIES[family].kind == "classes":
        return rng.choice([-1.0, 1.0], shape)
    return rng.poisson(2.0, shape).astype(float) if family == "poisson" else rng.normal(size=shape)


def problem(seed, family, *, n_rows=12, n_features=5, n_parameter_rows=1, zeros=0.3):
    """A belief, rows with zeros among them, targets, and weights with zeros and ones among them."""
    rng = np.random.default_rng(seed)
    size = n_parameter_rows, n_features
    mu, var = 0.3 * rng.normal(size=size), rng.uniform(0.01, 0.2, size)
    Z = rng.normal(size=(n_rows, n_features)) * (rng.random((n_rows, n_features)) >= zeros)
    weight = rng.choice([0.0, 1.0, 1.0, 0.4, 2.5], n_rows)
    noise = 0.7 if FAMILIES[family].noise else 0.0

    def state():
        return State(mu, var, own=(0.2, 0.3), noise=noise, noise_rows=10.0)

    return state, Z, targets(rng, family, (n_parameter_rows, n_rows)), weight


def assert_same(found, expected, rtol=1e-10):
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one, other, rtol=rtol, atol=1e-12)


cases = {
    "seed": st.integers(0, 2**16),
    "n_parameter_rows": st.sampled_from([1, 3]),
    "memory": st.sampled_from([math.inf, 1000.0, 20.0]),
    "after": st.sampled_from([math.inf, 0.0, 5.0]),
}


# --- The compiled loops ------------------------------------------------------------------------


@pytest.mark.parametrize("family", NAMES)
@settings(max_examples=40)
@given(**cases)
def test_the_dense_loop_is_its_definition(family, seed, n_parameter_rows, memory, after):
    state, Z, y, weight = problem(seed, family, n_parameter_rows=n_parameter_rows)
    rules = {"gamma": 1.0 - 1.0 / memory, "prior": 0.15, "own_prior": 0.5}
    plain, dense = state(), state()
    for rows in (slice(0, 5), slice(5, None)):
        batch = Z[rows], y[:, rows], weight[rows]
        plain.learn(family, *batch, loop="plain", after=after, **rules)
        dense.learn(family, *batch, after=after, **rules)
        assert_same(dense.parts, plain.parts)
    assert not np.allclose(dense.mu, state().mu, atol=1e-3)


@pytest.mark.parametrize("family", NAMES)
@settings(max_examples=40)
@given(n_full=st.integers(0, 5), **cases)
def test_the_sparse_loop_is_the_dense_one(family, n_full, seed, n_parameter_rows, memory, after):
    state, Z, y, weight = problem(seed, family, n_parameter_rows=n_parameter_rows, zeros=0.6)
    full = np.random.default_rng(seed).permutation(5)[:n_full]
    rules = {"gamma": 1.0 - 1.0 / memory, "prior": 0.15, "own_prior": 0.5}
    dense, sparse = state(), state()
    for rows in (slice(0, 5), slice(5, None)):
        batch = Z[rows], y[:, rows], weight[rows]
        dense.learn(family, *batch, after=after, **rules)
        sparse.learn(family, *batch, loop="sparse", full=full, after=after, **rules)
        assert_same(sparse.caught_up(rules["gamma"], 0.15), dense.parts)
    if after == 0.0 and family == "probit":
        assert (sparse.unit != 1.0).all()


@pytest.mark.parametrize("family", NAMES)
def test_the_compiled_moments_lead_where_the_scores_lead(family):
    state, Z, y, weight = problem(0, family, n_rows=60)
    rules = {"gamma": 0.99, "prior": 0.15, "own_prior": 0.5, "after": 5.0}
    dense = state().learn(family, Z, y, weight, **rules)
    scores = FAMILIES[family].scores
    plain = state().learn(family, Z, y, weight, loop="plain", scores=scores, **rules)
    for one, other in zip(dense.parts, plain.parts, strict=True):
        assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("loop", ["plain", "dense", "sparse"])
def test_without_news_a_variance_goes_back_to_the_prior(loop):
    rules = {"gamma": 0.9, "prior": 1.0}
    state = State([0.5, 0.5], [0.2, 0.2], own=(0.0, 0.0))
    Z = np.array([[0.0, 1.0]] * 8)
    state.learn("probit", Z, np.ones(8), np.full(8, 1.5), loop=loop, own_prior=0.0, **rules)
    mu, var, *_ = state.caught_up(0.9, 1.0) if loop == "sparse" else state.parts
    assert_allclose(var[0, 0], 0.2 * 0.9**-12)
    assert mu[0, 0] == 0.5
    assert var[0, 1] < var[0, 0]
    state.learn("probit", Z, np.ones(8), loop=loop, own_prior=0.0, **rules)
    _, var, *_ = state.caught_up(0.9, 1.0) if loop == "sparse" else state.parts
    assert var[0, 0] == 1.0


def test_entries_of_a_sparse_row_that_never_come_cost_nothing_and_change_nothing():
    state = State(np.ones(4), np.full(4, 0.2))
    Z = np.array([[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]])
    state.learn("probit", Z, [1.0, -1.0], loop="sparse", gamma=0.99, prior=1.0, own_prior=0.0)
    assert_array_equal(state.mu[0, [0, 3]], 1.0)
    assert_array_equal(state.var[0, [0, 3]], 0.2)
    assert_array_equal(state.seen_at[0], [0.0, 1.0, 2.0, 0.0])


# --- Bayes' rule -------------------------------------------------------------------------------

Z = np.array([[0.5, 1.0, 0.0, -0.4]])
MU = np.array([0.4, -0.3, 0.2, 0.6])
VAR = np.array([0.9, 0.5, 1.1, 0.7]) ** 2


@pytest.mark.parametrize("loop", ["plain", "dense", "sparse"])
@pytest.mark.parametrize(
    ("y", "mu", "var"),
    [
        (
            1.0,
            [0.720995762087, -0.101854467848, 0.2, 0.444653902792],
            [0.735834355407, 0.22173996167, 1.21, 0.47262979788],
        ),
        (
            -1.0,
            [0.193269894526, -0.427611176218, 0.2, 0.700047162155],
            [0.748667892099, 0.226630045762, 1.21, 0.475635517408],
        ),
    ],
)
def test_one_row_of_the_probit_has_its_known_result(loop, y, mu, var):
    state = State(MU, VAR).learn("probit", Z, [y], loop=loop, own_prior=0.0)
    assert_allclose(state.mu[0], mu, rtol=1e-9)
    assert_allclose(state.var[0], var, rtol=1e-9)
    a, v = Z[0] @ MU, Z[0] ** 2 @ VAR
    assert_allclose(state.said[0, 0, 0], a)
    assert_allclose(state.said[0, 1, 0], log_ndtr(y * a / math.sqrt(1.0 + v)))


@pytest.mark.parametrize("family", NAMES)
@settings(max_examples=25)
@given(seed=st.integers(0, 2**16))
def test_a_row_moves_a_belief_by_the_slopes_of_its_log_likelihood(family, seed):
    """The mean by s dlogZ/dmu, the variance by s^2 d2logZ/dmu2, for every coefficient."""
    rng = np.random.default_rng(seed)
    mu, var = 0.5 * rng.normal(size=3), rng.uniform(0.05, 1.0, 3)
    z, y, own = rng.normal(size=3), targets(rng, family, 1), (0.3, 0.2)
    noise = 0.4 if FAMILIES[family].noise else 0.0
    state = State(mu, var, own=own, noise=noise).learn(family, z[None], y)

    def log_z(step, j):
        moved = mu + step * np.eye(3)[j]
        a, v = moved @ z + own[0], var @ z**2 + own[1] + noise
        return float(FAMILIES[family].scores(a, v, y[0])[0])

    for j in range(3):
        slope = (log_z(1e-5, j) - log_z(-1e-5, j)) / 2e-5
        bend = (log_z(1e-3, j) - 2.0 * log_z(0.0, j) + log_z(-1e-3, j)) / 1e-6
        assert_allclose(state.mu[0, j], mu[j] + var[j] * slope, rtol=1e-6, atol=1e-7)
        assert_allclose(state.var[0, j], var[j] + var[j] ** 2 * bend, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("loop", ["plain", "dense", "sparse"])
def test_for_numbers_with_known_noise_it_is_the_diagonal_kalman_filter(loop):
    rng = np.random.default_rng(0)
    rows, y, noise = rng.normal(size=(50, 4)), rng.normal(size=50), 0.3
    state = State(np.zeros(4), np.full(4, 2.0), own=(0.0, 1.0), noise=noise)
    state.learn("gaussian", rows, y, loop=loop)
    mu, var = np.zeros(5), np.append(np.full(4, 2.0), 1.0)
    for z, target in zip(np.column_stack([rows, np.ones(50)]), y, strict=True):
        gain = var * z / (var @ z**2 + noise)
        mu, var = mu + gain * (target - mu @ z), var * (1.0 - gain * z)
    assert_allclose(np.append(state.mu, state.intercept_mean), mu, rtol=1e-9)
    assert_allclose(np.append(state.var, state.intercept_var), var, rtol=1e-9)
    assert_allclose(state.said[0, 0] + state.said[0, 3], y, rtol=1e-9)
    assert_allclose(state.said[0, 2], 1.0 / noise, rtol=1e-9)


@given(seed=st.integers(0, 2**16), n=st.integers(1, 60))
def test_for_one_feature_with_known_noise_it_is_the_exact_posterior(seed, n):
    rng = np.random.default_rng(seed)
    z, y, noise, prior = rng.normal(size=n), rng.normal(size=n), 0.5, 3.0
    state = State([0.0], [prior], noise=noise)
    state.learn("gaussian", z[:, None], y, own_prior=0.0)
    precision = 1.0 / prior + (z**2).sum() / noise
    assert_allclose(state.var[0, 0], 1.0 / precision, rtol=1e-9)
    assert_allclose(state.mu[0, 0], (z @ y) / noise / precision, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", NAMES)
def test_what_a_row_says_is_an_observation_that_teaches_the_same(family):
    """A normal observation of a with that precision leads to the mean and variance of Bayes."""
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(1, 1)), targets(rng, family, 1)
    noise = 0.6 if FAMILIES[family].noise else 0.0
    state = State([0.4], [0.9], noise=noise).learn(family, z, y, own_prior=0.0)
    a, _, precision, distance = state.said[0, :4, 0]
    v = 0.9 * z[0, 0] ** 2
    after = 1.0 / (1.0 / v + precision)
    assert_allclose(state.var[0, 0] * z[0, 0] ** 2, after, rtol=1e-9)
    assert_allclose(state.mu[0, 0] * z[0, 0], a + after * precision * distance, rtol=1e-9)


# --- The noise ---------------------------------------------------------------------------------


@pytest.mark.parametrize("truth", [0.04, 1.0, 4.0])
def test_the_noise_of_numbers_is_learnt(truth):
    rng = np.random.default_rng(2)
    rows, theta = rng.normal(size=(6000, 5)), np.array([1.0, -0.5, 0.0, 0.3, 0.0])
    y = rows @ theta + math.sqrt(truth) * rng.normal(size=6000)
    state = State(np.zeros(5), np.full(5, 0.5), own=(0.0, 1.0), noise=1.0, noise_rows=10.0)
    state.learn("gaussian", rows, y)
    assert_allclose(state.facts[0, NOISE] / state.facts[0, NOISE_ROWS], truth, rtol=0.1)
    assert_allclose(state.mu[0], theta, atol=5.0 * math.sqrt(truth / 6000))


def test_one_wild_number_widens_the_noise_by_a_bounded_amount():
    state = State([0.0], [0.1], noise=1.0, noise_rows=100.0)
    state.learn("gaussian", np.ones((1, 1)), [1e6], own_prior=0.0)
    assert_allclose(state.facts[0, NOISE], 100.0 + 25.0 * 1.1 - 0.1)
    assert state.facts[0, NOISE_ROWS] == 101.0


# --- Weights -----------------------------------------------------------------------------------


@pytest.mark.parametrize("family", NAMES)
@pytest.mark.parametrize("loop", ["plain", "dense", "sparse"])
@settings(max_examples=10)
@given(seed=st.integers(0, 2**16))
def test_a_row_of_weight_zero_is_as_if_absent(loop, family, seed):
    state, Z, y, weight = problem(seed, family)
    rules = {"gamma": 0.95, "prior": 0.15, "own_prior": 0.5, "after": 3.0, "loop": loop}
    weight[[0, 4, 11]] = 0.0
    there = weight > 0.0
    whole = state().learn(family, Z, y, weight, **rules)
    less = state().learn(family, Z[there], y[:, there], weight[there], **rules)
    one, other = (
        one.caught_up(0.95, 0.15) if loop == "sparse" else one.parts for one in (whole, less)
    )
    assert_same(one[:-1], other[:-1], rtol=1e-12)
    assert_allclose(whole.said[:, :, there], less.said, rtol=1e-11, atol=1e-13)
    assert (whole.said[:, 2, ~there] == 0.0).all()


@pytest.mark.parametrize("family", NAMES)
@settings(max_examples=10)
@given(seed=st.integers(0, 2**16))
def test_a_weight_near_one_is_near_no_weight(family, seed):
    """Weights of 1 take a short cut; the long way leads to the same place."""
    state, Z, y, _ = problem(seed, family)
    rules = {"gamma": 0.99, "prior": 0.15, "own_prior": 0.5, "after": 2.5}
    whole = state().learn(family, Z, y, **rules)
    nearly = state().learn(family, Z, y, np.full(len(Z), 1.0 + 1e-9), **rules)
    for one, other in zip(nearly.parts, whole.parts, strict=True):
        assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@given(seed=st.integers(0, 2**16), times=st.integers(2, 5))
def test_for_numbers_a_weight_divides_the_noise(seed, times):
    """And so, for a single feature, the row counts as often as the weight says."""
    rng = np.random.default_rng(seed)
    rows, y, noise = rng.normal(size=(1, 3)), rng.normal(size=1), 0.8
    weighted, sharper = State(MU[:3], VAR[:3], noise=noise), State(MU[:3], VAR[:3], noise=noise)
    weighted.learn("gaussian", rows, y, [times])
    sharper.facts[:, NOISE] /= times
    sharper.learn("gaussian", rows, y)
    assert_allclose(weighted.mu, sharper.mu, rtol=1e-10)
    assert_allclose(weighted.var, sharper.var, rtol=1e-10)
    once, often = State([0.3], [0.9], noise=noise), State([0.3], [0.9], noise=noise)
    once.learn("gaussian", rows[:, :1], y, [times], own_prior=0.0)
    often.learn("gaussian", np.repeat(rows[:, :1], times, 0), np.repeat(y, times), own_prior=0.0)
    assert_allclose(once.mu, often.mu, rtol=1e-10)
    assert_allclose(once.var, often.var, rtol=1e-10)


@pytest.mark.parametrize("family", NAMES)
def test_a_heavier_row_teaches_more(family):
    y = [1.0] if family != "poisson" else [4.0]
    beliefs = []
    for weight in (0.5, 1.0, 2.0, 8.0):
        state = State([0.0], [0.5], noise=1.0 if FAMILIES[family].noise else 0.0)
        state.learn(family, np.ones((1, 1)), y, [weight], own_prior=0.0)
        beliefs.append((state.mu[0, 0], -state.var[0, 0]))
    assert beliefs == sorted(beliefs)
    assert len(set(beliefs)) == 4


# --- The stretch -------------------------------------------------------------------------------


@pytest.mark.parametrize(("along", "factor"), [(7.0, None), (0.01, 1.25), (-1.0, 1.0)])
def test_the_stretch_is_a_newton_step_along_the_means_within_bounds(along, factor):
    """A likely label: g a > 0. Without information along mu there is no step."""
    state = State(MU, VAR)
    state.facts[0, [ALONG, ROWS]] = along, 100.0
    state.learn("probit", Z, [-1.0], after=50.0, own_prior=0.0)
    a, v = Z[0] @ MU, Z[0] ** 2 @ VAR
    _, g, g_v = FAMILIES["probit"].scores(a, v, -1.0)
    bend = g * g - 2.0 * g_v
    if factor is None:
        factor = 1.0 + g * a / (along + bend * a * a)
        assert 1.0 < factor < 1.25
    assert_allclose(state.mu[0], factor * MU + VAR * Z[0] * g, rtol=1e-9)
    assert_allclose(state.facts[0, ALONG], along + bend * a * a)


def test_an_unlikely_label_shrinks_the_means_by_a_fifth_at_most():
    state = State(3.0 * MU, VAR)
    state.facts[0, [ALONG, ROWS]] = 1e-6, 100.0
    state.learn("probit", Z, [1.0], after=50.0, own_prior=0.0)
    assert_allclose(state.mu[0, 2], 0.8 * 3.0 * MU[2])  # its entry in the row is 0


def test_no_stretch_before_its_time():
    state = State(MU, VAR)
    state.facts[0, [ALONG, ROWS]] = 1.0, 40.0
    state.learn("probit", Z, [1.0], after=41.0, own_prior=0.0)
    assert state.mu[0, 2] == MU[2]
    assert state.facts[0, ROWS] == 41.0


def test_the_stretch_undoes_the_freezing_of_a_common_factor():
    """Many columns that matter alike: without the stretch, all their means stay too small."""
    rng = np.random.default_rng(3)
    theta = np.full(30, 0.5)
    rows = rng.normal(size=(8000, 30))
    y = np.where(rows @ theta + rng.normal(size=8000) > 0.0, 1.0, -1.0)
    means = {}
    for after in (math.inf, 60.0):
        state = State(np.zeros(30), np.full(30, 0.1), own=(0.0, 1.0))
        state.learn("probit", rows, y, after=after)
        means[after] = state.mu.mean()
    assert means[math.inf] < 0.45
    assert abs(means[60.0] - 0.5) < 0.03


@pytest.mark.parametrize("family", NAMES)
def test_variances_stay_positive_and_numbers_finite_whatever_rows_say(family):
    rng = np.random.default_rng(4)
    rows = (rng.normal(size=(300, 3)) * 10.0 ** rng.integers(-6, 4, (300, 3))).clip(-5.0, 5.0)
    state = State(np.zeros(3), np.full(3, 1.0), own=(0.0, 1.0), noise=1.0, noise_rows=10.0)
    rules = {"gamma": 0.9999, "prior": 1.0, "own_prior": 1.0, "after": 6.0}
    state.learn(family, rows, targets(rng, family, 300), **rules)
    assert all(np.isfinite(part).all() for part in state.parts)
    assert (state.var > 0.0).all()
    assert state.intercept_var[0] > 0.0


@given(
    seed=st.integers(0, 2**16),
    n_rows=st.integers(0, 9),
    size=st.integers(1, 6),
    gamma=st.sampled_from([1.0, 0.9]),
)
def test_what_rows_say_of_columns_together_is_added_as_defined(seed, n_rows, size, gamma):
    rng = np.random.default_rng(seed)
    Z, precision, value = rng.normal(size=(n_rows, size)), *rng.random((2, n_rows))
    weight = rng.choice([1.0, 0.0, 2.5], n_rows)
    start = rng.normal(size=(size + 2, size + 1))
    start[:-1] += start[:-1].T
    sums = np.vstack([start, np.full(size + 1, 7.0)])  # lines that follow fade
    expected = add_information_plain(Z, precision, value, weight, gamma, start)
    add_information(Z, precision, value, weight, gamma, sums)
    assert_allclose(sums[:-1], expected, rtol=1e-12, atol=1e-13)
    assert_allclose(sums[-1], 7.0 * gamma ** weight.sum())


@given(seed=st.integers(0, 2**16), size=st.integers(1, 6), n=st.integers(1, 3))
def test_sums_are_expressed_in_other_units_as_defined(seed, size, n):
    rng = np.random.default_rng(seed)
    sums = rng.normal(size=(n, size + 4, size + 1))
    sums[:, : size + 1] += sums[:, : size + 1].swapaxes(1, 2).copy()
    change = np.stack([rng.normal(size=9), rng.uniform(0.5, 2.0, 9)])
    columns = np.sort(rng.permutation(9)[:size])
    expected = [express_plain(one, change[:, columns]) for one in sums]
    mu, facts = rng.normal(size=(n, 9)), np.ones((n, N_FACTS))
    express(sums, change[:, columns].copy(), mu, change, facts)
    assert_allclose(sums, expected, rtol=1e-12, atol=1e-12)
    assert_allclose(facts[:, INTERCEPT_MEAN], 1.0 - mu @ change[0], rtol=1e-12, atol=1e-12)


def test_rows_in_the_units_of_now_have_the_sums_of_rows_that_were_in_them_all_along():
    rng, even = np.random.default_rng(0), np.ones(20)
    Z, value = rng.normal(size=(20, 3)), rng.normal(size=20)
    change = np.array([[0.5, -1.0, 0.0], [2.0, 0.9, 1.0]])
    sums, expected = np.zeros((2, 1, 7, 4))
    add_information(Z, even, value, even, 0.99, sums[0])
    express(sums, change, np.zeros((1, 3)), change, np.zeros((1, N_FACTS)))
    add_information(Z * change[1] + change[0], even, value, even, 0.99, expected[0])
    assert_allclose(sums[0, :5], expected[0, :5], rtol=1e-12, atol=1e-12)


@given(seed=st.integers(0, 2**16), n_rows=st.integers(1, 300), size=st.integers(1, 30))
def test_products_are_those_of_numpy_below_the_diagonal(seed, n_rows, size):
    rng = np.random.default_rng(seed)
    left, right = (
        rng.normal(size=(n_rows, 4 * size)),
        rng.normal(size=(n_rows, 2 * size // 8 * 8 + 8)),
    )
    out = rng.normal(size=(left.shape[1], right.shape[1]))
    expected = out + left.T @ right
    add_products(left, right, out)
    below = np.tri(*out.shape, dtype=bool)
    assert_allclose(out[below], expected[below], rtol=1e-11, atol=1e-11)


@given(seed=st.integers(0, 2**16), size=st.integers(1, 6), n=st.integers(1, 3), leads=st.booleans())
def test_what_columns_add_that_do_not_lead_is_taken_off_as_far_as_it_is_trusted(
    seed, size, n, leads
):
    rng, n_rows, gamma = np.random.default_rng(seed), 7, 0.99
    Z, weight = rng.normal(size=(n_rows, size)), rng.choice([0.0, 1.0, 2.5], n_rows)
    stats, facts = rng.normal(size=(n, N_STATS, n_rows)), rng.random((n, N_FACTS))
    stats[:, [2, WIDTH]] = np.abs(stats[:, [2, WIDTH]])
    before, mean = rng.normal(size=(2, n, size))
    var, trust, sums = rng.random((n, size)) * 0.1, rng.random(n), np.zeros((n, size + 4, size + 1))
    precision, value = stats[:, 2].copy(), stats[:, 0] + stats[:, 3]
    if not leads:
        others = stats[:, ADDED] - 0.5 * (before + mean) @ Z.T
        wide = stats[:, WIDTH] - var @ (Z * Z).T - facts[:, INTERCEPT_VAR, None]
        value -= trust[:, None] * others
        precision /= 1.0 + precision * trust[:, None] * np.maximum(wide, 0.0)
    expected = sums.copy()
    for k in range(n):
        add_information(Z, precision[k], value[k], weight, gamma, expected[k])
    earlier = before[:, :0].copy() if leads else before
    learnable = add_to_sums(Z, weight, stats, facts, earlier, mean, var, trust, gamma, sums)
    assert_allclose(sums, expected, rtol=1e-10, atol=1e-10)
    assert_allclose(learnable, precision.sum(), rtol=1e-12)


@given(seed=st.integers(0, 2**16), n=st.integers(1, 3), size=st.integers(0, 7))
def test_sizes_are_added_up_over_all_columns_but_some(seed, n, size):
    rng = np.random.default_rng(seed)
    mu, var, grown, prior = rng.normal(size=(n, 7)), rng.uniform(0.0, 0.5, (n, 7)), 1.5, 0.4
    left_out = np.sort(rng.permutation(7)[:size])
    chance = np.minimum(var * grown, prior)
    sizes = np.stack([mu**2, chance * (1.0 - chance / prior)])
    sizes[:, :, left_out] = 0.0
    found = total_sizes(mu, var, grown, prior, left_out)
    assert_allclose(found, sizes.sum(axis=2), rtol=1e-12, atol=1e-12)
