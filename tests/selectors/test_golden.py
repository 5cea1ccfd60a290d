"""The paper to the letter: worked examples of FIRES-GLM, to their printed digits."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from fires import FIRES

X = np.array([[0.5, 1.0, 0.0], [1.0, 0.0, 0.25], [0.0, 0.5, 1.0]])
Y = np.array([1, -1, 1])

KINDS = {
    "dense": np.asarray,
    "columns": np.asfortranarray,
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
}
kinds = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS.keys())

# What is printed has twelve decimals.
DIGITS = {"rtol": 0.0, "atol": 0.5000001e-12}


def assert_belief(selector, mu, sigma, omega):
    assert_allclose(selector.importances_, mu, **DIGITS)
    assert_allclose(selector.uncertainties_, sigma, **DIGITS)
    assert_allclose(selector.weights_, omega, **DIGITS)


@kinds
def test_two_steps_from_nothing_known(kind):
    selector = FIRES.as_published(2).partial_fit(kind(X), Y)
    assert_belief(
        selector,
        mu=[-0.00096537992, 0.002659615203, 0.001310097222],
        sigma=[1.0, 1.0, 1.0],
        omega=[-0.499953402081, -0.499646322349, -0.499914182264],
    )
    selector.partial_fit(kind(X), Y)
    assert_belief(
        selector,
        mu=[-0.001931129931, 0.005315933244, 0.00261786945],
        sigma=[0.999998999096, 0.999997767141, 0.999997886802],
        omega=[-0.499812535956, -0.49858480983, -0.499655224782],
    )
    assert_array_equal(selector.ranking_, [3, 1, 2])


@kinds
def test_one_step_from_a_generic_point(kind):
    selector = FIRES.as_published(
        2, learning_rate=1.0, mu_init=[0.4, -0.3, 0.2], sigma_init=np.array([0.9, 0.5, 1.1])
    ).partial_fit(kind(X), Y)
    assert_belief(
        selector,
        mu=[0.270742326544, 0.021385851361, 0.310034332172],
        sigma=[0.956700203066, 0.50763401982, 1.099894983053],
        omega=[3.207432729844, -0.105978417116, 4.201179869387],
    )
    assert_array_equal(selector.get_support(indices=True), [0, 2])
    assert_array_equal(selector.get_support(), [True, False, True])
    assert_array_equal(np.argsort(selector.ranking_)[:2], [2, 0])


@kinds
def test_each_rate_moves_its_own_half_of_the_belief(kind):
    start = {"mu_init": [0.4, -0.3, 0.2], "sigma_init": [0.9, 0.5, 1.1]}
    batch = kind(X), Y
    both = FIRES.as_published(2, learning_rate=1.0, **start).partial_fit(*batch)
    only_mu = FIRES.as_published(2, learning_rate=1.0, learning_rate_sigma=0.0, **start)
    half_mu = FIRES.as_published(2, learning_rate=0.5, learning_rate_sigma=1.0, **start)
    only_mu.partial_fit(*batch)
    half_mu.partial_fit(*batch)
    assert_array_equal(only_mu.importances_, both.importances_)
    assert_array_equal(only_mu.uncertainties_, start["sigma_init"])
    assert_array_equal(half_mu.uncertainties_, both.uncertainties_)
    middle = (both.importances_ + start["mu_init"]) / 2
    assert_allclose(half_mu.importances_, middle, rtol=1e-14)


@kinds
@pytest.mark.parametrize(
    ("mu", "mu_step", "sigma_step"),
    [(-2.0, 1.319483757117, 1.319483757117), (2.0, 0.112635621314, -0.112635621314)],
    ids=["misclassified", "correct"],
)
def test_one_point_moves_sigma_up_if_misclassified_and_down_if_not(kind, mu, mu_step, sigma_step):
    selector = FIRES.as_published(1, learning_rate=1.0, mu_init=mu)
    selector.partial_fit(kind(np.array([[1.0]])), [1], classes=[-1, 1])
    assert_allclose(selector.importances_ - mu, [mu_step], **DIGITS)
    assert_allclose(selector.uncertainties_ - 1.0, [sigma_step], **DIGITS)


@kinds
@pytest.mark.parametrize("seed", range(5))
def test_the_first_batch_never_changes_sigma(kind, seed):
    rng = np.random.default_rng(seed)
    batch = kind(100.0 * rng.normal(size=(17, 6)))
    selector = FIRES.as_published(3, learning_rate=10.0).partial_fit(batch, rng.integers(0, 2, 17))
    assert_array_equal(selector.uncertainties_, np.ones(6))
    assert (selector.importances_ != 0.0).all()
    selector.partial_fit(batch, rng.integers(0, 2, 17))
    assert (selector.uncertainties_ != 1.0).any()


@kinds
def test_a_feature_that_is_zero_throughout_a_batch_is_not_touched(kind):
    batch = np.array([[1.0, 0.0, 2.0], [3.0, 0.0, -1.0]])
    start = {"mu_init": [0.1, 0.2, 0.3], "sigma_init": [0.7, 0.8, 0.9]}
    selector = FIRES.as_published(1, learning_rate=1.0, **start).partial_fit(kind(batch), [0, 1])
    moved = selector.importances_ != start["mu_init"], selector.uncertainties_ != [0.7, 0.8, 0.9]
    assert_array_equal(moved[0], [True, False, True])
    assert_array_equal(moved[1], [True, False, True])


@kinds
def test_sigma_is_clipped_at_zero_and_stays_there(kind):
    selector = FIRES.as_published(1, learning_rate=0.01, learning_rate_sigma=1e6, mu_init=2.0)
    point = kind(np.array([[1.0]]))
    selector.partial_fit(point, [1], classes=[-1, 1])
    assert_array_equal(selector.uncertainties_, [0.0])
    # Then the weight is that of the importance alone.
    assert_allclose(selector.weights_, selector.importances_**2 / 0.02, rtol=1e-14)
    selector.partial_fit(point, [-1])
    assert_array_equal(selector.uncertainties_, [0.0])


@kinds
def test_a_row_far_out_pulls_by_the_inverse_mills_ratio(kind):
    """From sigma = 0, z = -a: the ratio that 0/0 would hide is that of the reference."""
    for distance, ratio in [(1000.0, 1000.000999998), (50.0, 50.0199840319), (38.5, 38.5259390969)]:
        selector = FIRES.as_published(1, learning_rate=1.0, mu_init=-distance, sigma_init=0.0)
        selector.partial_fit(kind(np.array([[1.0]])), [1], classes=[-1, 1])
        assert_allclose(selector.importances_ + distance, [ratio], rtol=1e-11)


@kinds
def test_the_mean_over_the_batch_is_what_counts(kind):
    once = FIRES.as_published(2, learning_rate=1.0).partial_fit(kind(X), Y)
    thrice = FIRES.as_published(2, learning_rate=1.0)
    thrice.partial_fit(kind(np.tile(X, (3, 1))), np.tile(Y, 3))
    assert_allclose(thrice.importances_, once.importances_, rtol=1e-14)


def test_the_paper_has_no_intercept_no_scale_and_rates_of_one_hundredth():
    params = FIRES.as_published(7).get_params()
    assert params == {
        "n_features_to_select": 7,
        "columns": "fixed",
        "absent": "missing",
        "forget_after": None,
        "redundancy": "ignore",
        "model": "probit",
        "update": "gradient",
        "groups": None,
        "memory": 10_000.0,
        "relations": "linear",
        "score": "omega",
        "drift": None,
        "learning_rate": 0.01,
        "learning_rate_sigma": None,
        "uncertainty_penalty": 0.01,
        "weight_penalty": 0.01,
        "mu_init": 0.0,
        "sigma_init": 1.0,
        "fit_intercept": False,
        "scale": None,
        "missing": "ignore",
        "time": None,
        "batch_size": 100,
        "random_state": None,
    }


def test_what_is_changed_is_changed_and_nothing_else():
    changed = FIRES.as_published(7, learning_rate=0.1, model="logistic").get_params()
    paper = FIRES.as_published(7).get_params()
    assert changed == paper | {"learning_rate": 0.1, "model": "logistic"}
