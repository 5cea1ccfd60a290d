"""The gradient step on shards is the step of one process, however the rows are cut."""

import pickle
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from fires import FIRES
from fires.core.batch import CheckedBatch
from fires.core.sharding import Shards, add_up
from fires.selectors.sharded import partial_fit_sharded

FAMILIES = ("probit", "logistic", "gaussian", "poisson")


class Counting(Shards):
    """Shards that count rounds, and send tasks and sums through pickle as an engine does."""

    n_rounds = 0

    def evaluate(self, task):
        self.n_rounds += 1
        sent = pickle.dumps(task)
        return add_up(pickle.loads(pickle.dumps(pickle.loads(sent)(shard))) for shard in self)


def cut(X, y, weight, edges):
    missing = int(np.isnan(X.data if sp.issparse(X) else X).sum())
    batch = CheckedBatch(X, y, weight, missing)
    return Counting(batch.part(slice(*edge)) for edge in pairwise([0, *sorted(edges), X.shape[0]]))


def stream(rng, family, n_batches, n_features, *, n_classes=2, missing=0.0, weighted=False):
    for _ in range(n_batches):
        n = int(rng.integers(1, 40))
        X = rng.normal(size=(n, n_features)) * 3.0 ** np.arange(n_features) + 5.0
        score = (X[:, 0] - 5.0) / 1.0
        if family == "gaussian":
            y = 100.0 + 10.0 * score + rng.normal(size=n)
        elif family == "poisson":
            y = rng.poisson(np.exp(np.clip(score, -3, 3))).astype(float)
        else:
            y = np.clip(np.floor((score + 1.0) * n_classes / 2.0), 0, n_classes - 1).astype(int)
        X[rng.random(X.shape) < missing] = np.nan
        weight = rng.integers(0, 3, n).astype(float) if weighted else None
        if weight is not None:
            weight[0] = 1.0
        yield X, y, weight


def assert_same(one, many):
    header, arrays = one.saved()
    other_header, other_arrays = many.saved()
    assert header == other_header
    assert arrays.keys() == other_arrays.keys()
    for name, values in arrays.items():
        other = other_arrays[name]
        np.testing.assert_allclose(other, values, rtol=1e-10, atol=1e-10, err_msg=name)


def both(batches, n_shards, rng, *, sparse=False, **setting):
    one, many, n_rounds = FIRES(2, update="gradient", **setting), None, []
    many = FIRES(2, update="gradient", **setting)
    for X, y, weight in batches:
        rows = sp.csr_array(X) if sparse else X
        one.partial_fit(rows, y, sample_weight=weight)
        edges = rng.integers(0, len(y) + 1, n_shards - 1).tolist()
        shards = cut(rows, y, weight, edges)
        partial_fit_sharded(many, shards.evaluate, n_features=X.shape[1], sparse=sparse)
        n_rounds.append(shards.n_rounds)
        assert_same(one, many)
    return one, many, n_rounds


@given(
    seed=st.integers(0, 2**16),
    family=st.sampled_from(FAMILIES),
    scale=st.sampled_from(["standard", "minmax", None]),
    n_shards=st.sampled_from([1, 2, 3, 8]),
    intercept=st.booleans(),
    sparse=st.booleans(),
    weighted=st.booleans(),
    missing=st.sampled_from([0.0, 0.2]),
    n_classes=st.sampled_from([2, 3, 5]),
)
def test_shards_learn_what_one_process_learns(
    seed, family, scale, n_shards, intercept, sparse, weighted, missing, n_classes
):
    rng = np.random.default_rng(seed)
    facts = {"n_classes": n_classes, "missing": missing, "weighted": weighted}
    batches = list(stream(rng, family, 5, int(rng.integers(1, 5)), **facts))
    if scale is None:  # unscaled rows of this size would overflow a gaussian
        batches = [((X - 5.0) / 30.0, y, weight) for X, y, weight in batches]
    if sparse:
        for X, _, _ in batches:
            X[rng.random(X.shape) < 0.6] = 0.0
    both(batches, n_shards, rng, sparse=sparse, model=family, scale=scale, fit_intercept=intercept)


def test_a_usual_batch_takes_one_round():
    rng = np.random.default_rng(1)
    batches = []
    for _ in range(30):
        X = rng.uniform(size=(50, 3))
        batches.append((X, (X[:, 0] > 0.5).astype(int), None))
    n_rounds = both(batches, 3, rng)[2]
    assert n_rounds[0] == 3
    assert n_rounds[1:] == [1] * 29


@pytest.mark.parametrize("family", ["probit", "gaussian"])
def test_columns_and_targets_that_move_get_the_same_new_scale(family):
    rng = np.random.default_rng(2)
    batches = []
    for number in range(40):
        X = rng.normal(size=(64, 4))
        y = X[:, 0] + rng.normal(size=64)
        if number >= 20:
            X[:, 1] = 1000.0 + 50.0 * X[:, 1]
            y = 1e4 + 300.0 * y if family == "gaussian" else y
        if number >= 30:
            X[:, 2] *= 0.01
        if number % 7 == 5:
            X[3, 3], X[40, 3] = 1e6, np.nan
        batches.append((X, y if family == "gaussian" else (y > 0).astype(int), None))
    one, _, n_rounds = both(batches, 3, rng, model=family)
    assert one.saved()[1]["dense.shift"][1] > 900.0  # it has moved
    assert max(n_rounds[1:]) == 3


@pytest.mark.parametrize("value", [0.1, 1e9 + 0.1, -3.7e-5])
def test_a_column_that_does_not_vary_says_nothing_however_many_rows_there_are(value):
    rng = np.random.default_rng(3)
    batches = []
    for number in range(4):
        X = rng.normal(size=(20_000, 3))
        X[:, 1] = value  # their sum has lost digits
        X[:, 2] = 0.0 if number else rng.random(20_000) < 0.01
        batches.append((X, (X[:, 0] > 0).astype(int), None))
    one, _, _ = both(batches, 3, rng)
    assert one.importances_[1] == 0.0
    assert not one.saved()[1]["dense.narrow"].any()
