"""Any base model: how a batch surprises it, and how it forgets."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from fires.core.batch import CheckedBatch
from fires.models import Linear
from fires.models.base import Rates
from fires.models.model_learner import ModelLearner


class Valueless:
    """A model without ``log_marginal``, which is optional."""

    def __init__(self):
        inner = Linear("probit")
        self.init, self.gradient, self.to_features = inner.init, inner.gradient, inner.to_features


def learner_of(model, n_classes=2, n=20):
    learner = ModelLearner(model, 4, n_classes, scale="standard", rng=np.random.default_rng(0))
    for seed in range(n):
        X, y = batch(seed)
        learner.step(CheckedBatch(X), y, Rates(1.0, 0.01))
    return learner


def batch(seed, n_rows=100):
    X = np.random.default_rng(seed).normal(size=(n_rows, 4))
    return X, (X[:, 1] > 0).astype(int)


def test_a_batch_of_another_world_is_a_surprise():
    learner = learner_of(Linear("probit"))
    X, y = batch(99)
    usual, variance = learner.surprise(CheckedBatch(X), y)
    other, same = learner.surprise(CheckedBatch(X), 1 - y)
    assert other > usual + 5.0 * np.sqrt(variance)
    assert same == variance
    assert learner.surprise(CheckedBatch(X, weight=2.0 * np.ones(100)), y)[0] == 2.0 * usual


def test_a_batch_that_cannot_be_compared_is_refused_in_one_line():
    X, y = batch(0)
    with pytest.raises(ValueError, match="Valueless has no method log_marginal"):
        learner_of(Valueless()).surprise(CheckedBatch(X), y)
    with pytest.raises(ValueError, match="Linear has a numeric target"):
        learner_of(Linear("gaussian"), 0, n=0).surprise(CheckedBatch(X), X[:, 0])


@pytest.mark.parametrize("keep", [0.0, 0.3, 1.0])
def test_forgetting_goes_back_towards_the_start(keep):
    learner = learner_of(Linear("probit"))
    before, drawn = learner.belief, learner.rng.bit_generator.state
    learner.forget(keep)
    assert_allclose(learner.belief.mu, keep * before.mu)
    assert_allclose(learner.belief.sigma, keep * before.sigma + (1.0 - keep))
    assert learner.rng.bit_generator.state == drawn


def test_point_parameters_stay():
    learner = learner_of(Linear("gaussian"), 0)
    before = learner.belief.point["noise"]
    learner.forget(0.0)
    assert_array_equal(learner.belief.point["noise"], before)
