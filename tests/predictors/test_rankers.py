"""River's AdPredictor under FromModel: River's own loop, dense and sparse, saved and taken up."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

import fires
from fires import FromModel
from fires.predictors import AdPredictor

linear_model = pytest.importorskip("river.linear_model")


def words(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, 12)) < 0.2) * rng.uniform(0.5, 2.0, (n, 12))
    shown = X > 0.0
    return X, np.where(shown[:, 3] - 1.0 * shown[:, 7] + 0.3 * rng.normal(size=n) > 0, "yes", "no")


def learnt(X, y, form=np.asarray, **settings):
    selector = FromModel(2, estimator=AdPredictor(**settings))
    for i in range(0, len(y), 70):
        selector.partial_fit(form(X[i : i + 70]), y[i : i + 70])
    return selector


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("settings", [{}, {"beta": 1.0, "prior_probability": 0.2, "epsilon": 0.0}])
def test_it_is_the_loop_of_river(form, settings):
    X, y = words()
    model = linear_model.AdPredictor(**settings)
    for x, label in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one(dict(enumerate(x)), label == "yes")
    selector = learnt(X, y, form, **settings)
    inner = selector.estimator_
    assert_allclose(inner.coef_[0], [model.means[j] for j in range(12)], rtol=1e-12)
    assert_allclose(inner.variances_, [model.variances[j] for j in range(12)], rtol=1e-12)
    assert_array_equal(selector.weights_, np.abs(inner.coef_[0]))
    assert_array_equal(selector.get_support(indices=True), [3, 7])


def test_how_great_an_entry_is_does_not_matter():
    X, y = words()
    assert_array_equal(learnt(X, y).weights_, learnt((X > 0.0).astype(float), y).weights_)


def test_where_every_feature_is_always_there_nothing_is_ranked():
    """The stream on which it must fail: columns of numbers are never 0."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 12))
    weights = learnt(X, X[:, 3] > 0).weights_
    assert_allclose(weights, weights[0])


def test_a_saved_selector_goes_on(tmp_path):
    X, y = words()
    one = learnt(X, y)
    one.save(tmp_path / "saved")
    two = fires.load(tmp_path / "saved", model=AdPredictor())
    for selector in (one, two):
        selector.partial_fit(*words(50, seed=1))
    assert_array_equal(two.weights_, one.weights_)


def test_it_tells_two_classes_apart():
    with pytest.raises(ValueError, match=r"AdPredictor tells two classes apart, not \[0 1 2\]"):
        FromModel(1, estimator=AdPredictor()).partial_fit(np.eye(3), [0, 1, 2])
