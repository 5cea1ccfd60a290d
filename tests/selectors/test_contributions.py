"""What each selected feature adds to a row."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from fires import FIRES, OnlinePipeline


def rows(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(3.0, 2.0, size=(n, 6))
    y = (X[:, 1] - X[:, 4]) / 2 + rng.normal(size=n) > 0
    return X, y


def test_it_is_importance_times_standardised_value():
    X, y = rows()
    selector = FIRES(2).fit(X, y)
    effect, low, high = selector.contributions(X[:50])
    scaled = (X[:50] - X.mean(axis=0)) / X.std(axis=0)
    mu, chosen = selector.importances_, selector.get_support(indices=True)
    assert_allclose(effect, (mu * scaled)[:, chosen], atol=0.05)
    ends = [end[chosen] * scaled[:, chosen] for end in selector.interval(0.95)]
    assert_allclose(low, np.minimum(*ends), atol=0.05)
    assert_allclose(high, np.maximum(*ends), atol=0.05)


def test_together_with_the_intercept_they_are_what_the_model_predicts():
    X, y = rows()
    pipeline = OnlinePipeline(FIRES(6)).partial_fit(X, y)
    added = pipeline.contributions(X).effect.sum(axis=1)
    above = pipeline.predict_proba(X)[:, 1]
    order = np.argsort(added)
    assert (np.diff(above[order]) > -1e-3).mean() > 0.95


@pytest.mark.parametrize("preprocess", ["standard", None])
def test_a_pipeline_says_the_same_of_rows_in_their_own_units(preprocess):
    X, y = rows()
    alone = FIRES(2)
    pipeline = OnlinePipeline(FIRES(2), preprocess=preprocess)
    for part in np.array_split(np.arange(2000), 20):
        alone.partial_fit(X[part], y[part])
        pipeline.partial_fit(X[part], y[part])
    found = zip(alone.contributions(X[:9]), pipeline.contributions(X[:9]), strict=True)
    for one, other in found:
        assert_allclose(one, other, atol=1e-6)


def test_frames_come_back_as_frames_with_names_and_index():
    X, y = rows()
    names = [f"c{j}" for j in range(6)]
    frame = pd.DataFrame(X, columns=names, index=np.arange(2000) + 7)
    selector = FIRES(2).fit(frame, y)
    effect = selector.contributions(frame[["c4", *names[:4], "c5"]][:3]).effect
    assert effect.columns.tolist() == ["c1", "c4"]
    assert effect.index.tolist() == [7, 8, 9]
    other = selector.contributions(pl.DataFrame(X[:3], schema=names)).effect
    assert other.columns == ["c1", "c4"]
    assert_allclose(other.to_numpy(), effect.to_numpy())


def test_sparse_rows_add_what_dense_ones_do():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 8)) * (rng.random((3000, 8)) < 0.4)
    y = X[:, 2] - X[:, 5] + 0.3 * rng.normal(size=3000) > 0
    dense, sparse = FIRES(2).fit(X, y), FIRES(2).fit(sp.csr_array(X), y)
    one, other = dense.contributions(X[:40]), sparse.contributions(sp.csr_array(X[:40]))
    for left, right in zip(one, other, strict=True):
        assert_allclose(left, right, atol=0.2)


def test_a_missing_value_adds_nothing():
    X, y = rows()
    selector = FIRES(2, relations="curves").fit(X, y)
    row = X[:1].copy()
    row[0, 1] = np.nan
    assert [part[0, 0] for part in selector.contributions(row)] == [0.0, 0.0, 0.0]


def test_a_curve_adds_its_height():
    rng = np.random.default_rng(0)
    X = rng.normal(5.0, 3.0, size=(6000, 4))
    y = ((X[:, 2] - 5) / 3) ** 2 + 0.5 * rng.normal(size=6000) > 1
    selector = FIRES(1, relations="curves").fit(X, y)
    values, height, low, high = selector.curve(2)
    at = np.full((len(values), 4), 5.0)
    at[:, 2] = values
    effect, below, above = (part[:, 0] for part in selector.contributions(at))
    # Both are less their mean over rows, one of them over more.
    assert_allclose(effect - effect.mean(), height - height.mean(), atol=0.05)
    assert_allclose(above - below, high - low, rtol=0.1)


def test_with_several_classes_a_label_names_the_one_to_tell_from_the_rest():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 5))
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :3] + 0.3 * rng.normal(size=(4000, 3)), axis=1)]
    selector = FIRES(3).fit(X, y)
    row = np.array([[2.0, 0.0, 0.0, 0.0, 0.0]])
    assert selector.contributions(row, "a").effect[0, 0] > 1.0
    assert selector.contributions(row, "b").effect[0, 0] < 0.0


def test_models_that_do_not_know_are_refused():
    X, y = rows(200)
    with pytest.raises(AttributeError, match="contributions is for update='bayes'"):
        FIRES(2, update="gradient").fit(X, y).contributions(X)


def test_of_two_classes_each_can_be_spoken_for():
    X, y = rows()
    selector = FIRES(2).fit(X, np.where(y, "yes", "no"))
    for one, other in zip(("effect", "low", "high"), ("effect", "high", "low"), strict=True):
        yes, no = (selector.contributions(X[:9], label) for label in ("yes", "no"))
        assert_allclose(getattr(yes, one), -getattr(no, other))
    with pytest.raises(ValueError, match="label='maybe' is not one of the classes"):
        selector.contributions(X[:9], "maybe")


def test_pairs_are_left_out_and_that_is_said():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 5))
    y = 2 * X[:, 1] * X[:, 3] + rng.normal(size=6000) > 0
    selector = FIRES(2, relations="pairs").fit(X, y)
    with pytest.warns(UserWarning, match="contributions do not include interactions"):
        selector.contributions(X[:3])
