from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from fires import FIRES
from fires.evaluation.following import follow
from fires.predictors import Perceptron
from fires.streams.arrays import from_arrays


class Spy:
    """Keeps what it is shown, and answers what it was taught last."""

    def __init__(self):
        self.tested, self.trained = [], []

    def predict(self, X):
        self.tested.append(X.copy())
        return np.full(len(X), self.answer)

    def partial_fit(self, X, y):
        self.trained.append(X.copy())
        self.answer = y[-1]


def test_a_batch_is_tested_with_the_set_before_it_and_learnt_with_the_set_after_it():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 12))
    X[rng.random(X.shape) < 0.05] = np.nan
    y = (np.nan_to_num(X[:, 3]) > 0).astype(int)
    spy = Spy()
    steps = list(follow(from_arrays(X, y), FIRES(3), spy, batch_size=50))
    sets = [set(step.selected.tolist()) for step in steps]
    assert any(a != b for a, b in pairwise(sets))
    assert (len(spy.tested), len(spy.trained)) == (11, 12)
    for index, rows in enumerate(spy.trained):
        assert set(np.flatnonzero(rows.any(axis=0)).tolist()) == sets[index]
    for index, rows in enumerate(spy.tested, start=1):
        assert rows.shape == (50, 12)
        assert not np.isnan(rows).any()
        assert set(np.flatnonzero(rows.any(axis=0)).tolist()) == sets[index - 1]
        expected = np.mean(y[50 * index : 50 * index + 50] == y[50 * index - 1])
        assert steps[index].scores["accuracy"] == expected
    assert np.isnan(steps[0].scores["accuracy"])


def test_the_scale_of_a_batch_is_that_of_the_batches_before():
    rng = np.random.default_rng(1)
    X = rng.normal(3.0, 2.0, size=(400, 4))
    X[300:] *= 100.0  # were it scaled by itself, this would not be seen
    y = rng.integers(2, size=400)
    spy = Spy()
    list(follow(from_arrays(X, y), FIRES(4), spy))
    for index, rows in enumerate(spy.tested, start=1):
        known = X[: 100 * index]
        expected = (X[100 * index : 100 * index + 100] - known.mean(axis=0)) / known.std(axis=0)
        np.testing.assert_allclose(rows, expected, rtol=1e-9)


def test_without_a_predictor_there_are_no_scores():
    X = np.random.default_rng(2).normal(size=(100, 4))
    steps = list(follow(from_arrays(X, X[:, 0]), FIRES(2), batch_size=30))
    assert [step.n_rows for step in steps] == [30, 30, 30, 10]
    assert [step.scores for step in steps] == [{}] * 4


def test_a_predictor_on_sparse_batches_is_refused_with_a_reason():
    X = sp.csr_array(np.eye(4))
    stream = from_arrays(X, [0, 1, 0, 1])
    assert len(list(follow(stream, FIRES(2), batch_size=2))) == 2
    with pytest.raises(ValueError, match="predictor needs dense batches"):
        list(follow(stream, FIRES(2), Perceptron(), batch_size=2))
