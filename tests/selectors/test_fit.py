"""``fit`` is ``partial_fit`` over slices of ``batch_size`` rows, whatever the table."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from fires import FIRES, FromModel, OnlinePipeline, Sharded
from fires.checks.selectors import expect_same_state
from fires.core.named import NamedRows
from fires.core.validation import take_rows
from fires.predictors import LinearRegressor, Perceptron

N = 1_000


def table():
    rng = np.random.default_rng(0)
    town = rng.choice(["a", "b", "c", "d"], N)
    x = rng.normal(size=N)
    y = ((town == "a") | (town == "c")).astype(int)
    y = np.where(rng.random(N) < 0.1, 1 - y, y)
    return pd.DataFrame({"noise": x, "town": town, "more": rng.normal(size=N)}), y


FRAME, Y = table()
TABLES = {
    "strings": FRAME,
    "object": FRAME.astype({"town": object}),
    "category": FRAME.astype({"town": "category"}),
    "polars": pl.DataFrame(FRAME.to_dict("list")),
    "dicts": FRAME.to_dict("records"),
    "numbers": FRAME[["noise", "more"]],
    "array": FRAME[["noise", "more"]].to_numpy(),
    "lists": FRAME[["noise", "more"]].to_numpy().tolist(),
    "csr": sp.csr_array(FRAME[["noise", "more"]].to_numpy()),
    "coo": sp.coo_array(FRAME[["noise", "more"]].to_numpy()),
    "gaps": FRAME.assign(noise=FRAME["noise"].where(FRAME["noise"] > -1.0)),
}
TARGETS = {
    "classes": Y,
    "words": np.where(Y, "yes", "no"),
    "three classes": np.where(FRAME["more"] > 1.0, 2, Y),
    "numbers": Y + 0.1 * FRAME["more"].to_numpy(),
    "sorted": np.sort(Y),
    "series": pd.Series(Y, index=np.arange(N)[::-1]),
}


def slices(X, y, size=100, weight=None):
    X = X.tocsr() if sp.issparse(X) else X
    for start in range(0, N, size):
        part = slice(start, start + size)
        target = y.iloc[part] if isinstance(y, pd.Series) else y[part]
        yield take_rows(X, part), target, None if weight is None else weight[part]


@pytest.mark.parametrize("kind", ["strings", "object", "category", "polars", "dicts"])
def test_categories_are_learnt_by_fit(kind):
    selector = FIRES(1).fit(TABLES[kind], Y)
    assert "town" in selector.get_feature_names_out()[0]
    assert np.abs(selector.importances_).max() > 0.5


@pytest.mark.parametrize("X", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("setting", [{"columns": "open"}, {"batch_size": 37}], ids=str)
def test_fit_is_partial_fit_whatever_the_table(X, setting):
    if setting == {"columns": "open"} and not hasattr(X, "columns") and X is not TABLES["dicts"]:
        X = NamedRows(np.asarray(TABLES["array"]), ["noise", "more"])
    selector = FIRES(1, **setting)
    for part, target, _ in slices(X, Y, selector.batch_size):
        selector.partial_fit(part, target)
    expect_same_state(FIRES(1, **setting).fit(X, Y), selector, "fit")


@pytest.mark.parametrize("kind", ["category", "array"])
@pytest.mark.parametrize("y", TARGETS.values(), ids=TARGETS)
def test_fit_is_partial_fit_whatever_the_target(kind, y):
    selector = FIRES(1)
    for part, target, _ in slices(TABLES[kind], y):
        selector.partial_fit(part, target)
    expect_same_state(FIRES(1).fit(TABLES[kind], y), selector, "fit")


@pytest.mark.parametrize("kind", ["category", "array", "csr"])
def test_fit_is_partial_fit_with_weights(kind):
    weight = np.random.default_rng(1).lognormal(size=N) * (np.arange(N) % 5 > 0)
    weight[200:300] = 0.0
    selector = FIRES(1)
    for part in slices(TABLES[kind], Y, weight=weight):
        selector.partial_fit(part[0], part[1], sample_weight=part[2])
    fitted = FIRES(1).fit(TABLES[kind], Y, sample_weight=weight)
    expect_same_state(fitted, selector, "fit")
    assert fitted.n_samples_seen_ == (weight > 0.0).sum()


def test_several_cores_fit_categories_too():
    one = FIRES(1).fit(FRAME, Y)
    many = Sharded(FIRES(1), n_jobs=1).fit(FRAME, Y)
    assert_array_equal(many.get_support(), one.get_support())


def test_columns_that_come_later_are_learnt_by_fit_as_by_partial_fit():
    rows = [{"a": float(i % 3)} if i < 500 else {"a": 1.0, "b": float(i % 2)} for i in range(N)]
    selector = FIRES(1, columns="open")
    for start in range(0, N, 100):
        selector.partial_fit(rows[start : start + 100], Y[start : start + 100])
    expect_same_state(FIRES(1, columns="open").fit(rows, Y), selector, "fit")


def test_a_search_of_scikit_learn_finds_the_category():
    pipe = make_pipeline(FIRES(1), SGDClassifier(random_state=0))
    search = GridSearchCV(pipe, {"fires__n_features_to_select": [1, 2]}, cv=3).fit(FRAME, Y)
    assert search.best_score_ > 0.8


def test_a_weight_of_0_for_all_rows_is_refused_by_fit_and_teaches_nothing_in_a_batch():
    with pytest.raises(ValueError, match="nothing to learn from"):
        FIRES(1).fit(FRAME, Y, sample_weight=np.zeros(N))
    selector = FIRES(1).partial_fit(FRAME, Y, sample_weight=np.zeros(N))
    assert not hasattr(selector, "n_samples_seen_")
    with pytest.raises(ValueError, match="sample_weight has 3"):
        FIRES(1).partial_fit(FRAME, Y, sample_weight=np.zeros(3))


def test_fit_forgets_what_was_learnt_and_keeps_it_if_it_fails():
    selector = FIRES(1).fit(FRAME, Y)
    before = selector.saved()[1]
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        selector.fit(FRAME, Y[:-1])
    with pytest.raises(ValueError, match="infinity"):
        selector.fit(TABLES["numbers"].assign(noise=np.inf), Y)
    for name, array in selector.saved()[1].items():
        assert_array_equal(array, before[name])
    expect_same_state(selector.fit(TABLES["array"], Y), FIRES(1).fit(TABLES["array"], Y), "again")


def test_an_estimator_that_must_know_all_labels_does_in_fit():
    X, y = TABLES["array"], np.sort(TARGETS["three classes"])
    assert FromModel(1, estimator=SGDClassifier()).fit(X, y).classes_.tolist() == [0, 1, 2]
    assert OnlinePipeline(FIRES(1), GaussianNB()).fit(X, y).classes_.tolist() == [0, 1, 2]


# --- pipelines --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "predictor"),
    [(kind, Perceptron) for kind in TABLES]
    + [
        (kind, one) for kind in ("array", "category") for one in (GaussianNB, LinearRegressor, None)
    ],
)
def test_a_pipeline_fits_as_it_learns_in_batches(kind, predictor):
    X = TABLES[kind]
    new = predictor if predictor is not None else type(None)
    sliced = OnlinePipeline(FIRES(1), new())
    for part, target, _ in slices(X, Y):
        sliced.partial_fit(part, target)
    fitted = OnlinePipeline(FIRES(1), new()).fit(X, Y)
    mine, theirs = fitted.saved(), sliced.saved()
    assert mine[0] == theirs[0]
    for name, array in mine[1].items():
        assert_array_equal(array, theirs[1][name], err_msg=name)


def test_a_pipeline_that_fits_again_has_forgotten_everything():
    X, y = TABLES["array"], Y
    pipeline = OnlinePipeline(FIRES(1), Perceptron()).partial_fit(FRAME, TARGETS["words"])
    pipeline.fit(X, y)
    assert pipeline.classes_.tolist() == [0, 1]
    assert pipeline.selector.n_samples_seen_ == N
    assert_allclose(
        pipeline.predict(X), OnlinePipeline(FIRES(1), Perceptron()).fit(X, y).predict(X)
    )


def test_a_pipeline_whose_fit_fails_is_as_before():
    pipeline = OnlinePipeline(FIRES(1), Perceptron()).partial_fit(FRAME, Y)
    before = pipeline.saved()[1]
    with pytest.raises(ValueError, match="infinity"):
        pipeline.fit(TABLES["numbers"].assign(noise=np.where(np.arange(N) > 500, np.inf, 0.0)), Y)
    for name, array in pipeline.saved()[1].items():
        assert_array_equal(array, before[name])


def test_a_pipeline_can_be_searched():
    search = GridSearchCV(
        OnlinePipeline(FIRES(1), GaussianNB()),
        {"preprocess": ["standard", None]},
        cv=3,
        scoring="accuracy",
    )
    assert search.fit(FRAME, Y).best_score_ > 0.75
