"""The contract of a base model, over every family, and the linear models' own laws."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from fires.core.belief import Belief, stable_weights
from fires.models.base import BaseModel
from fires.models.families import FAMILIES
from fires.models.linear import Linear, over_classes

MODELS = [
    pytest.param(Linear(family, fit_intercept), id=f"{family}-{fit_intercept}")
    for family in FAMILIES
    for fit_intercept in (True, False)
]
SEEDS = st.integers(0, 2**16)


def random_problem(model, seed, n_classes=2):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(6, 4))
    X[rng.random(X.shape) < 0.2] = 0.0
    kind = FAMILIES[model.family].kind
    if kind == "classes":
        y, n_classes = rng.integers(0, n_classes, 6), n_classes
    else:
        y, n_classes = (rng.normal(size=6) if kind == "numbers" else rng.poisson(2.0, 6)), 0
    start = model.init(4, n_classes, rng)
    belief = Belief(
        rng.normal(size=start.mu.shape),
        0.2 + rng.random(start.sigma.shape),
        {name: value * 0.7 for name, value in start.point.items()},
    )
    return belief, X, y, rng


def numerical_slope(function, at, step=1e-5):
    slope = np.empty_like(at)
    for i in np.ndindex(at.shape):
        up, down = at.copy(), at.copy()
        up[i] += step
        down[i] -= step
        slope[i] = (function(up) - function(down)) / (2 * step)
    return slope


@pytest.mark.parametrize("model", MODELS)
def test_is_a_base_model(model):
    assert isinstance(model, BaseModel)


@pytest.mark.parametrize("model", MODELS)
@given(seed=SEEDS, n_classes=st.sampled_from([2, 3]), weighted=st.booleans())
@settings(max_examples=20)  # each takes some forty quadratures
def test_the_gradient_is_the_slope_of_the_log_marginal(model, n_classes, weighted, seed):
    belief, X, y, rng = random_problem(model, seed, n_classes)
    weight = rng.random(6) if weighted else None

    def value(mu=belief.mu, sigma=belief.sigma, **point):
        return model.log_marginal(Belief(mu, sigma, {**belief.point, **point}), X, y, weight, rng)

    gradient = model.gradient(belief, X, y, weight, rng)
    assert_allclose(gradient.mu, numerical_slope(value, belief.mu), rtol=1e-5, atol=1e-7)
    along_sigma = numerical_slope(lambda sigma: value(sigma=sigma), belief.sigma)
    assert_allclose(gradient.sigma, along_sigma, rtol=1e-5, atol=1e-7)
    for name, at in belief.point.items():
        along = numerical_slope(lambda p, name=name: value(**{name: p}), at)
        assert_allclose(gradient.point[name], along, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("model", MODELS)
@given(seed=SEEDS)
@settings(max_examples=30)
def test_shards_of_a_batch_add_up(model, seed):
    belief, X, y, rng = random_problem(model, seed)
    whole = model.gradient(belief, X, y, None, rng)
    parts = [model.gradient(belief, X[i : i + 2], y[i : i + 2], None, rng) for i in (0, 2, 4)]
    assert_allclose(sum(part.mu for part in parts), whole.mu, rtol=1e-11, atol=1e-13)
    assert_allclose(sum(part.sigma for part in parts), whole.sigma, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("model", MODELS)
@given(seed=SEEDS)
@settings(max_examples=30)
def test_a_weight_counts_rows(model, seed):
    belief, X, y, rng = random_problem(model, seed)
    times = rng.integers(0, 4, size=6)
    weighted = model.gradient(belief, X, y, times.astype(float), rng)
    repeated = model.gradient(belief, np.repeat(X, times, axis=0), np.repeat(y, times), None, rng)
    assert_allclose(weighted.mu, repeated.mu, rtol=1e-10, atol=1e-12)
    assert_allclose(weighted.sigma, repeated.sigma, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("model", MODELS)
@given(seed=SEEDS)
@settings(max_examples=30)
def test_sparse_equals_dense(model, seed):
    belief, X, y, rng = random_problem(model, seed)
    dense = model.gradient(belief, X, y, None, rng)
    sparse = model.gradient(belief, sp.csr_array(X), y, None, rng)
    assert_allclose(sparse.mu, dense.mu, rtol=1e-12, atol=1e-14)
    assert_allclose(sparse.sigma, dense.sigma, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("model", MODELS)
def test_absent_features_have_no_slope(model):
    belief, X, y, rng = random_problem(model, 0)
    X[:, 2] = 0.0
    gradient = model.gradient(belief, X, y, None, rng)
    assert gradient.mu[2] == 0.0
    assert gradient.sigma[2] == 0.0


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_there_is_one_entry_per_feature_and_the_intercept_is_not_ranked(model, n_classes):
    belief = model.init(5, n_classes)
    assert model.to_features(belief).mu.shape == (5,)
    assert model.to_features(belief).sigma.shape == (5,)


@given(seed=st.integers(0, 2**16), n_classes=st.integers(2, 5))
def test_the_weight_of_many_classes_is_the_mean_of_their_weights(seed, n_classes):
    rng = np.random.default_rng(seed)
    mu, sigma = rng.normal(size=(n_classes, 3)), rng.random((n_classes, 3))
    shares = rng.dirichlet(np.ones(n_classes))
    per_class = np.array([stable_weights(Belief(m, s)) for m, s in zip(mu, sigma, strict=True)])
    together = stable_weights(over_classes(mu, sigma, shares))
    assert_allclose(together, shares @ per_class, rtol=1e-10, atol=1e-10)


def test_an_unknown_family_is_named():
    with pytest.raises(ValueError, match="no family 'cauchy'"):
        Linear("cauchy")
