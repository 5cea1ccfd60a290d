"""What a run has learnt goes on on a cluster: its scale comes along."""

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from fires import FIRES, OnlinePipeline
from fires.core.batch import CheckedBatch
from fires.core.errors import InputError
from fires.core.sharding import Shards
from fires.predictors import Perceptron
from fires.run.run import Run
from fires.run.sharded_scoring import ShardedTest
from fires.selectors.sharded import partial_fit_sharded
from fires.streams import from_arrays

N_FEATURES = 6


def rows(seed, *, sparse=False, numbers=False):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(100, N_FEATURES)) * [1, 100, 1, 1, 1, 1] + [0, 700, 0, 0, 0, 0]
    if sparse:
        X = X * (rng.random(X.shape) < [0.9, 0.5, 0.1, 0.1, 0.1, 0.1])
    signal = X[:, 0] + 0.1 * rng.normal(size=100)
    return sp.csr_array(X) if sparse else X, signal if numbers else (signal > 0).astype(int)


def begun(*, update="bayes", sparse=False, numbers=False, preprocess="standard"):
    """A run in one process, after four batches."""
    selector = FIRES(2, update=update, model="gaussian" if numbers else "probit")
    run = Run(OnlinePipeline(selector, preprocess=preprocess), N_FEATURES)
    go_on(run, range(4), sparse=sparse, numbers=numbers)
    return run


def on_cluster(run):
    """What it has learnt, on a cluster."""
    return Run(OnlinePipeline(run.pipeline.to_cluster(), None, None), N_FEATURES)


def go_on(run, seeds, **kind):
    given = [rows(seed, **kind) for seed in seeds]
    sparse = sp.issparse(given[0][0])
    X = (sp.vstack if sparse else np.concatenate)([X for X, _ in given])
    stream = from_arrays(X.tocsr() if sparse else X, np.concatenate([y for _, y in given]))
    return list(run.steps(stream, 100))


def learn_in_shards(run, X, y, n_shards=3):
    selector, sparse = run.pipeline.selector, sp.issparse(X)
    test = ShardedTest(selector, run.totals, sparse=sparse)
    evaluate = test.beside(Shards.cut(CheckedBatch(X, y), n_shards).evaluate)
    partial_fit_sharded(selector, evaluate, n_features=N_FEATURES, sparse=sparse)
    return test.scored(run.totals)


def assert_same_belief(one, other):
    assert_allclose(one.importances_, other.importances_, rtol=1e-9, atol=1e-10)
    assert_allclose(one.uncertainties_, other.uncertainties_, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("sparse", [False, True])
def test_on_a_cluster_the_next_step_is_that_of_one_process(sparse):
    run = begun(update="gradient", sparse=sparse)
    stays, moved = run, on_cluster(copy.deepcopy(run))
    go_on(stays, [4], sparse=sparse)
    learn_in_shards(moved, *rows(4, sparse=sparse))
    assert_same_belief(stays.pipeline.selector, moved.pipeline.selector)


def scaled(mixed, X):
    """Sparse rows on their scale, as a dense array."""
    return mixed.rows(mixed.touched(X, np.ones(100), missing=True))[0].take(np.arange(N_FEATURES))


def test_by_bayes_rule_sparse_rows_are_on_the_same_scale():
    run = begun(sparse=True)
    X, _ = rows(4, sparse=True)
    learner, pipeline = run.pipeline.selector._learner_, run.pipeline
    wanted = scaled(learner.mixed, pipeline._scaler_.applied(X))
    selector = on_cluster(run).pipeline.selector
    found = scaled(selector._learner_.mixed, X)
    assert np.abs(wanted).max() > 1.0
    assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("numbers", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_on_a_cluster_the_belief_predicts(sparse, numbers):
    kind = {"sparse": sparse, "numbers": numbers}
    run = on_cluster(begun(**kind))
    scores = learn_in_shards(run, *rows(4, **kind))
    assert scores["r2" if numbers else "accuracy"] > 0.5  # the belief needs no time to begin
    assert run.totals.baselines["all"].latest["r2" if numbers else "accuracy"] > 0.5


def test_scales_that_cannot_be_joined_are_refused():
    selector = FIRES(2, scale="minmax", update="gradient")
    run = Run(OnlinePipeline(selector, Perceptron(), "minmax"), N_FEATURES)
    go_on(run, range(2), sparse=True)
    with pytest.raises(InputError, match="cannot be used on Spark: it is 'minmax' of sparse rows"):
        on_cluster(run)
    run = begun(preprocess="minmax")
    with pytest.raises(InputError, match="it is 'minmax' before 'standard'"):
        on_cluster(run)
