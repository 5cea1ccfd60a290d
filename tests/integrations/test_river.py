"""A selector inside River: it learns what partial_fit learns, and River finds nothing amiss."""

import copy
import importlib
import importlib.util
import math
import pickle
import random
import sys
from datetime import date

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import SGDClassifier

import fires
from fires import FIRES, FSDS, OFS, RandomFeatures, WindowRefit
from fires.core.errors import MissingExtra
from fires.rivals import REGISTRY
from fires.selectors.base import OnlineSelector

if not importlib.util.find_spec("river"):
    pytest.skip("needs river", allow_module_level=True)

from river import checks, compose, datasets, evaluate, linear_model, metrics, preprocessing, stream

from fires.integrations.river import FiresSelector

N_ROWS, N_FEATURES, SIZE = 250, 8, 20
NAMES = [f"x{j}" for j in range(N_FEATURES)]


def some_data(n_rows=N_ROWS):
    X = np.random.default_rng(0).uniform(size=(n_rows, N_FEATURES))
    return X, X[:, 2] - X[:, 5] > 0


def as_rows(X, names=NAMES):
    return [dict(zip(names, row, strict=True)) for row in X.tolist()]


def taught(selector, X, y, size=SIZE):
    """The wrapped selector after all rows one by one, and those left over as a batch."""
    wrapped = FiresSelector(selector, size)
    for x, label in zip(as_rows(X), y.tolist(), strict=True):
        wrapped.learn_one(x, label)
    wrapped.flush()
    return wrapped


def by_batches(selector, X, y, size=SIZE):
    for start in range(0, len(X), size):
        selector.partial_fit(X[start : start + size], y[start : start + size])
    return selector


def made(name):
    kind = getattr(fires, name)
    others = {
        "AllFeatures": {},
        "FixedFeatures": {"features": [1, 2]},
        "FromModel": {"n_features_to_select": 3, "estimator": SGDClassifier(random_state=0)},
    }
    settings = others.get(name, {"n_features_to_select": 3})
    seeded = "random_state" in kind._get_param_names()
    return kind(**settings | ({"random_state": 0} if seeded else {}))


ONLINE = [name for name in REGISTRY if issubclass(getattr(fires, name), OnlineSelector)]


# --- the same answer ----------------------------------------------------------------------------


@pytest.mark.parametrize("name", ONLINE)
def test_it_learns_to_the_bit_what_partial_fit_learns_from_the_same_batches(name):
    X, y = some_data()
    wrapped, plain = taught(made(name), X, y), by_batches(made(name), X, y)
    np.testing.assert_array_equal(wrapped.selector.weights_, plain.weights_)
    assert wrapped.selector.n_samples_seen_ == plain.n_samples_seen_ == N_ROWS
    kept = [NAMES[j] for j in plain.get_support(indices=True)]
    assert list(wrapped.transform_one(as_rows(X)[0])) == kept


def test_missing_values_are_those_of_partial_fit_too():
    X, y = some_data()
    X[np.random.default_rng(1).random(X.shape) < 0.3] = np.nan
    plain = by_batches(FIRES(3), X, y)
    wrapped = FiresSelector(FIRES(3), SIZE)
    for i, (x, label) in enumerate(zip(as_rows(X), y.tolist(), strict=True)):
        if i % 2:  # a key that is not there, and None, are what NaN is
            x = {key: value for key, value in x.items() if value == value}
        elif i % 3:
            x = {key: value if value == value else None for key, value in x.items()}
        wrapped.learn_one(x, label)
    wrapped.flush()
    np.testing.assert_array_equal(wrapped.selector.weights_, plain.weights_)
    assert wrapped.selector.n_missing_ == plain.n_missing_ == np.isnan(X).sum()


def test_the_order_of_keys_changes_nothing_after_the_first_batch():
    X, y = some_data()
    wrapped, shuffle = FiresSelector(FIRES(3), SIZE), random.Random(0).shuffle
    for i, (x, label) in enumerate(zip(as_rows(X), y.tolist(), strict=True)):
        pairs = list(x.items())
        if i >= SIZE:
            shuffle(pairs)
        wrapped.learn_one(dict(pairs), label)
    wrapped.flush()
    np.testing.assert_array_equal(wrapped.selector.weights_, by_batches(FIRES(3), X, y).weights_)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize("n_rows", [1, 7, 20, 33, N_ROWS])
def test_a_frame_is_its_rows(frame, n_rows):
    X, y = some_data()
    one, many = taught(FIRES(3), X, y), FiresSelector(FIRES(3), SIZE)
    table = pd.DataFrame(X, columns=NAMES)
    for start in range(0, N_ROWS, n_rows):
        part = slice(start, start + n_rows)
        rows = table[part] if frame is pd.DataFrame else pl.DataFrame(X[part], schema=NAMES)
        many.learn_many(rows, pd.Series(y[part]))
    many.flush()
    np.testing.assert_array_equal(one.selector.weights_, many.selector.weights_)
    whole = frame(X, columns=NAMES) if frame is pd.DataFrame else frame(X, schema=NAMES)
    kept = many.transform_many(whole)
    assert type(kept) is frame
    assert list(kept.columns) == list(one.transform_one(as_rows(X)[0]))
    np.testing.assert_array_equal(kept.to_numpy(), X[:, one.selector.get_support()])


def test_numbers_to_predict_and_many_classes_are_learnt_too():
    X, _ = some_data()
    for y in (X[:, 4] * 3.0, np.array(["low", "mid", "high"])[(X[:, 4] * 3).astype(int)]):
        wrapped = taught(FIRES(1), X, y)
        assert list(wrapped.transform_one(as_rows(X)[0])) == ["x4"]
        np.testing.assert_array_equal(
            wrapped.selector.weights_, by_batches(FIRES(1), X, y).weights_
        )


def test_labels_of_several_types_are_refused_and_not_made_text():
    X, y = some_data()
    labels = np.array([1 if positive else "one" for positive in y], dtype=object)
    with pytest.raises(ValueError, match="y mixes labels that cannot be put in order"):
        taught(FIRES(2), X, labels)


# --- before there is an answer, and what is not learnt -------------------------------------------


def test_everything_is_kept_until_the_first_batch_is_full():
    X, y = some_data()
    wrapped, rows = FiresSelector(FIRES(2), SIZE), as_rows(X)
    for x, label in zip(rows[: SIZE - 1], y.tolist(), strict=False):
        wrapped.learn_one(x, label)
        assert wrapped.transform_one(x) == x
        assert wrapped.transform_one(x) is not x
    assert list(wrapped.transform_many(pd.DataFrame(X, columns=NAMES)).columns) == NAMES
    wrapped.learn_one(rows[SIZE], y[SIZE])
    assert len(wrapped.transform_one(rows[0])) == 2


def test_flush_learns_what_is_waiting_and_may_find_nothing():
    X, _ = some_data()
    wrapped = FiresSelector(FIRES(2))
    wrapped.flush()
    wrapped.learn_one(as_rows(X)[0], True)
    assert not hasattr(wrapped.selector, "n_samples_seen_")
    wrapped.flush()
    wrapped.flush()
    assert wrapped.selector.n_samples_seen_ == 1


def test_the_batch_size_is_that_of_the_selector_unless_given():
    X, y = some_data()
    wrapped = FiresSelector(FIRES(2, batch_size=50))
    for x, label in zip(as_rows(X)[:120], y.tolist(), strict=False):
        wrapped.learn_one(x, label)
    assert wrapped.selector.n_samples_seen_ == 100


def test_values_are_handed_on_as_they_are():
    X, y = some_data()
    wrapped = taught(FIRES(N_FEATURES), X, y)
    row = {"x1": None, "x0": "text", "x2": np.float32(3), "x3": (1, 2)}
    assert wrapped.transform_one(row) == row


def test_new_keys_are_ignored_and_counted():
    X, y = some_data()
    wrapped, plain = FiresSelector(FIRES(3), SIZE), by_batches(FIRES(3), X, y)
    for i, (x, label) in enumerate(zip(as_rows(X), y.tolist(), strict=True)):
        wrapped.learn_one(x | {"late": 1.0} if i >= 30 else x, label)
    wrapped.flush()
    np.testing.assert_array_equal(wrapped.selector.weights_, plain.weights_)
    assert wrapped.new_keys_ == {"late": N_ROWS - 30}
    assert "late" not in wrapped.transform_one({"late": 1.0} | as_rows(X)[0])


def test_endlessly_many_new_keys_do_not_fill_the_memory():
    X, y = some_data()
    wrapped = taught(FIRES(3), X, y)
    for i in range(3_000):
        wrapped.learn_one({"x0": 1.0, f"new {i}": 1.0}, True)
    assert len(wrapped.new_keys_) == 1_000


def test_keys_may_come_anywhere_in_the_first_batch():
    wrapped = FiresSelector(FIRES(2), 4)
    for x in ({}, {"a": 1.0}, {"b": 2.0}, {"b": 1.0, "c": 3.0}):
        wrapped.learn_one(x, bool(x))
    assert list(wrapped.selector.feature_names_in_) == ["a", "b", "c"]
    assert wrapped.selector.n_missing_ == 8


def test_rows_without_any_key_are_nothing_to_learn_from():
    wrapped = FiresSelector(FIRES(2), 2)
    for _ in range(5):
        wrapped.learn_one({}, True)
    wrapped.learn_many(pd.DataFrame(index=range(5)), pd.Series([True] * 5))
    assert wrapped.transform_one({"a": 1}) == {"a": 1}


def test_one_feature_alone_works():
    wrapped = FiresSelector(FIRES(1), 4)
    for i in range(12):
        wrapped.learn_one({"only": float(i)}, i % 2)
    assert wrapped.selector.n_samples_seen_ == 12
    assert wrapped.transform_one({"only": 5, "other": 6}) == {"only": 5}


# --- values of all kinds -------------------------------------------------------------------------


def test_flags_whole_numbers_and_numpy_values_are_numbers():
    _, y = some_data()
    wrapped = FiresSelector(FIRES(2), SIZE)
    for i, label in enumerate(y.tolist()):
        row = {"flag": label, "np": np.bool_(i % 2), "int": i % 7, "np32": np.float32(i % 3)}
        wrapped.learn_one(row, label)
    assert not hasattr(wrapped.selector, "columns_")
    assert "flag" in wrapped.transform_one(row)


@pytest.mark.parametrize("value", ["broken", math.inf, -math.inf, 1e200, 10**400, date.today(), []])
def test_among_numbers_what_cannot_be_read_is_missing_and_counted(value):
    X, y = some_data()
    holed = X.copy()
    holed[100, 3] = np.nan
    wrapped, rows = FiresSelector(FIRES(3), SIZE), as_rows(X)
    rows[100]["x3"] = value
    for x, label in zip(rows, y.tolist(), strict=True):
        wrapped.learn_one(x, label)
    wrapped.flush()
    assert wrapped.unreadable_ == {"x3": 1}
    np.testing.assert_array_equal(
        wrapped.selector.weights_, by_batches(FIRES(3), holed, y).weights_
    )


@pytest.mark.parametrize("value", [None, math.nan, pd.NA, pd.NaT, np.float64("nan")])
def test_a_missing_value_is_no_unreadable_one(value):
    X, y = some_data()
    wrapped, rows = FiresSelector(FIRES(3), SIZE), as_rows(X)
    for row in (rows[3], rows[100]):
        row["x3"] = value
    for x, label in zip(rows, y.tolist(), strict=True):
        wrapped.learn_one(x, label)
    wrapped.flush()
    assert not wrapped.unreadable_
    assert wrapped.selector.n_missing_ == 2


def with_text(n_rows=N_ROWS):
    X, y = some_data(n_rows)
    towns = np.array(["Ulm", "Bonn"])[y.astype(int)].tolist()
    prices = [f"${value:.2f}" for value in X[:, 0]]
    rows = [
        {"town": town, "price": price, "size": size}
        for town, price, size in zip(towns, prices, X[:, 1].tolist(), strict=True)
    ]
    return rows, y


def test_text_goes_through_the_columns_of_the_selector():
    rows, y = with_text()
    wrapped, plain = FiresSelector(FIRES(1), SIZE), FIRES(1)
    for x, label in zip(rows, y.tolist(), strict=True):
        wrapped.learn_one(x, label)
    wrapped.flush()
    for start in range(0, N_ROWS, SIZE):
        plain.partial_fit(rows[start : start + SIZE], y[start : start + SIZE])
    np.testing.assert_array_equal(wrapped.selector.weights_, plain.weights_)
    assert wrapped.transform_one(rows[0]) == {"town": rows[0]["town"]}
    assert wrapped.selector.columns_.names == plain.columns_.names


def test_rows_with_text_may_lack_keys_and_have_new_ones():
    rows, y = with_text()
    wrapped = FiresSelector(FIRES(1), SIZE)
    for i, (x, label) in enumerate(zip(rows, y.tolist(), strict=True)):
        if i >= SIZE:
            x = {} if i % 10 == 0 else {key: x[key] for key in x if key != "size"} | {"new": "yes"}
        wrapped.learn_one(x, label)
    assert list(wrapped.new_keys_) == ["new"]
    assert list(wrapped.transform_one(rows[0])) == ["town"]


def test_a_frame_with_text_is_its_rows():
    rows, y = with_text()
    one, many = FiresSelector(FIRES(1), SIZE), FiresSelector(FIRES(1), SIZE)
    for x, label in zip(rows, y.tolist(), strict=True):
        one.learn_one(x, label)
    many.learn_many(pd.DataFrame(rows), pd.Series(y))
    np.testing.assert_array_equal(one.selector.weights_, many.selector.weights_)


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [None, math.nan])
def test_a_row_without_a_target_is_refused_and_changes_nothing(y):
    wrapped = FiresSelector(FIRES(2), 2)
    wrapped.learn_one({"a": 1.0, "b": 0.0}, True)
    with pytest.raises(ValueError, match="FIRES learns from labels or numbers; a row has y="):
        wrapped.learn_one({"a": 1.0, "b": 0.0}, y)
    wrapped.learn_one({"a": 0.0, "b": 0.0}, False)
    assert wrapped.selector.n_samples_seen_ == 2


def test_a_selector_without_supervision_needs_no_target():
    X, _ = some_data()
    wrapped = FiresSelector(RandomFeatures(2, random_state=0), SIZE)
    assert not wrapped._supervised
    model = wrapped | preprocessing.StandardScaler()
    for x in as_rows(X):
        model.learn_one(x)
    assert len(model.transform_one(as_rows(X)[0])) == 2


def test_a_refused_batch_is_dropped_and_learning_goes_on():
    X, y = some_data()
    rows = as_rows(X)
    wrapped = FiresSelector(OFS(3), SIZE)
    for x, label in zip(rows[: SIZE - 1], range(SIZE), strict=False):
        wrapped.learn_one(x | {"other": 0.0}, label)
    with pytest.raises(ValueError, match="OFS learns two classes"):
        wrapped.learn_one(rows[0], SIZE)
    assert wrapped.transform_one(rows[0]) == rows[0]
    for x, label in zip(rows, y.tolist(), strict=True):
        wrapped.learn_one(x, label)
    wrapped.flush()
    np.testing.assert_array_equal(wrapped.selector.weights_, by_batches(OFS(3), X, y).weights_)


def test_missing_values_are_refused_where_the_selector_refuses_them():
    wrapped = FiresSelector(FIRES(1, missing="error"), 2)
    wrapped.learn_one({"a": 1.0, "b": 2.0}, True)
    with pytest.raises(ValueError, match=r"NaN \(first in row 1, column 'b'\); FIRES refuses"):
        wrapped.learn_one({"a": 1.0}, False)


@pytest.mark.parametrize("what", [fires.OSFS(), fires.FIRES, None])
def test_what_does_not_learn_from_rows_is_no_selector_for_it(what):
    with pytest.raises(TypeError, match="needs a selector of fires that learns from rows"):
        FiresSelector(what)


@pytest.mark.parametrize("size", [0, -1, 2.5])
def test_a_batch_has_a_row_at_least(size):
    with pytest.raises(ValueError, match="batch_size must be a positive integer"):
        FiresSelector(FIRES(2), size)


def test_keys_that_read_the_same_are_refused():
    wrapped = FiresSelector(FIRES(1), 1)
    with pytest.raises(ValueError, match="'1' occurs more than once"):
        wrapped.learn_one({1: 0.0, "1": 1.0}, True)


# --- going on -----------------------------------------------------------------------------------


def test_what_was_saved_goes_on_to_the_bit(tmp_path):
    X, y = some_data()
    first = taught(FIRES(3), X[:100], y[:100])
    first.selector.save(tmp_path / "state")
    second = FiresSelector(fires.load(tmp_path / "state"), SIZE)
    assert second.transform_one(as_rows(X)[0]) == first.transform_one(as_rows(X)[0])
    for x, label in zip(as_rows(X)[100:], y[100:].tolist(), strict=True):
        second.learn_one(x, label)
    second.flush()
    whole = taught(FIRES(3), X, y)
    np.testing.assert_array_equal(second.selector.weights_, whole.selector.weights_)


@pytest.mark.parametrize("how", ["frame", "named", "array"])
def test_a_selector_that_has_learnt_elsewhere_goes_on(how):
    X, y = some_data()
    selector = FIRES(3)
    if how == "named":
        selector.name_features(NAMES)
    first = pd.DataFrame(X[:100], columns=NAMES) if how == "frame" else X[:100]
    by_batches(selector, first, y[:100])
    wrapped = taught(selector, X[100:], y[100:])
    np.testing.assert_array_equal(wrapped.selector.weights_, by_batches(FIRES(3), X, y).weights_)


def test_names_given_before_the_first_batch_are_all_the_keys_there_are():
    wrapped = FiresSelector(FIRES(1).name_features(["b", "a"]), 2)
    for _ in range(2):
        wrapped.learn_one({"a": 1.0, "b": 2.0, "c": 3.0}, True)
    assert list(wrapped.selector.feature_names_in_) == ["b", "a"]
    assert wrapped.new_keys_ == {"c": 2}


def test_text_goes_on_after_loading(tmp_path):
    rows, y = with_text()
    first = FiresSelector(FIRES(1), SIZE)
    for x, label in zip(rows, y.tolist(), strict=True):
        first.learn_one(x, label)
    first.selector.save(tmp_path / "state")
    second = FiresSelector(fires.load(tmp_path / "state"), SIZE)
    for x, label in zip(rows, y.tolist(), strict=True):
        second.learn_one(x, label)
    assert second.transform_one(rows[0]) == {"town": rows[0]["town"]}


def test_numbered_features_are_found_again_after_loading(tmp_path):
    X, y = some_data()
    first = FiresSelector(FIRES(3), SIZE)
    for x, label in stream.iter_array(X, y):
        first.learn_one(x, label)
    first.flush()
    assert list(first.selector.feature_names_in_) == [str(j) for j in range(N_FEATURES)]
    first.selector.save(tmp_path / "state")
    second = FiresSelector(fires.load(tmp_path / "state"), SIZE)
    assert second.transform_one(x) == first.transform_one(x)
    for x, label in stream.iter_array(X, y):
        first.learn_one(x, label)
        second.learn_one(x, label)
    np.testing.assert_array_equal(first.selector.weights_, second.selector.weights_)
    assert not second.new_keys_


@pytest.mark.parametrize("copied", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_a_copy_goes_on_with_the_rows_that_wait(copied):
    X, y = some_data()
    wrapped = FiresSelector(FIRES(3), SIZE)
    for i, (x, label) in enumerate(zip(as_rows(X), y.tolist(), strict=True)):
        if i in (7, 115):
            wrapped = copied(wrapped)
        wrapped.learn_one(x, label)
    wrapped.flush()
    np.testing.assert_array_equal(wrapped.selector.weights_, by_batches(FIRES(3), X, y).weights_)


def test_a_clone_has_learnt_nothing_unless_asked_to():
    X, y = some_data()
    wrapped = taught(FIRES(3), X, y)
    fresh = wrapped.clone()
    assert not hasattr(fresh.selector, "n_samples_seen_")
    assert fresh.selector.n_features_to_select == 3
    assert fresh.batch_size == SIZE
    assert fresh.transform_one(as_rows(X)[0]) == as_rows(X)[0]
    assert wrapped.clone({"selector": FIRES(5)}).selector.n_features_to_select == 5
    same = wrapped.clone(include_attributes=True)
    assert same.selector is not wrapped.selector
    assert same.transform_one(as_rows(X)[0]) == wrapped.transform_one(as_rows(X)[0])
    pipeline = (wrapped | linear_model.LogisticRegression()).clone()
    assert not hasattr(pipeline["FiresSelector"].selector, "n_samples_seen_")


# --- in River -----------------------------------------------------------------------------------


@pytest.fixture
def seeded():
    """River's checks shuffle with Python's global random numbers."""
    before = random.getstate()
    random.seed(0)
    yield
    random.setstate(before)


def by_name(model):
    return {check.__name__: check for check in checks.yield_checks(model)}


@pytest.mark.parametrize(
    ("selector", "size"),
    [(FIRES(3), 7), (FIRES(3), 100), (FSDS(3), 10), (WindowRefit(3), 100)],
    ids=lambda value: str(value)[:5],
)
@pytest.mark.usefixtures("seeded")
def test_river_finds_nothing_amiss(selector, size):
    model = FiresSelector(selector, size)
    assert model._unit_test_skips() == set()  # every check that River has for it applies
    checks.check_estimator(model)


# One check of River's does not apply where features are equally good: it changes the order of the
# keys, and ties go to the key that came first. With batches of one row there are ties after the
# first; and with OFS on data of few values, as River's Phishing is.
NOT_WITH_TIES = "check_shuffle_features_no_impact"


@pytest.mark.usefixtures("seeded")
def test_river_finds_nothing_amiss_with_batches_of_one_row():
    model = FiresSelector(FIRES(3), 1)
    for name, check in by_name(model).items():
        if name != NOT_WITH_TIES:
            check(model.clone())


# River tries transformers on a numeric target. Selectors that learn classes get one with classes.
@pytest.mark.parametrize("selector", [OFS(3), FIRES(3)], ids=["OFS", "FIRES"])
@pytest.mark.usefixtures("seeded")
def test_river_finds_nothing_amiss_with_classes(selector):
    model, phishing = FiresSelector(selector, 10), list(datasets.Phishing().take(200))
    on_data = {name: check for name, check in by_name(model).items() if hasattr(check, "func")}
    assert "check_learn_many_matches_learn_one" in on_data
    for name, check in on_data.items():
        if name != NOT_WITH_TIES or isinstance(selector, FIRES):
            check.func(model.clone(), dataset=phishing)


@pytest.mark.usefixtures("seeded")
def test_the_parameters_that_river_tries_are_those_of_a_selector():
    for params in FiresSelector._unit_test_params():
        checks.check_estimator(FiresSelector(**params))


def test_in_a_pipeline_it_selects_before_it_learns():
    selector = FIRES(3)
    model = FiresSelector(selector, 50) | preprocessing.StandardScaler()
    model |= linear_model.LogisticRegression()
    score = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    assert score.get() > 0.8
    assert selector.n_samples_seen_ == 1250
    known = set(model["LogisticRegression"].weights)
    assert set(selector.get_feature_names_out()) <= known


def test_in_unions_and_after_other_steps():
    left = compose.Select("x0", "x1", "x2") | FiresSelector(FIRES(1), SIZE)
    right = FiresSelector(FIRES(2), SIZE) | preprocessing.StandardScaler()
    X, y = some_data()
    model = (left + right) | linear_model.LogisticRegression()
    for x, label in zip(as_rows(X), y.tolist(), strict=True):
        model.predict_one(x)
        model.learn_one(x, label)
    assert model.predict_proba_one(as_rows(X)[0])


def test_mini_batches_go_through_a_pipeline():
    X, y = some_data()
    model = FiresSelector(FIRES(2), SIZE) | linear_model.LogisticRegression()
    table = pd.DataFrame(X, columns=NAMES)
    for start in range(0, N_ROWS, 50):
        model.predict_many(table[start : start + 50])
        model.learn_many(table[start : start + 50], pd.Series(y[start : start + 50]))
    assert sorted(model.transform_many(table).columns) == ["x2", "x5"]


def test_without_river_one_line_says_what_to_install(monkeypatch):
    monkeypatch.setattr("fires.core.optional.find_spec", lambda name: None)
    monkeypatch.delitem(sys.modules, "fires.integrations.river")
    needs = r"fires.integrations.river needs river: pip install '\.\[river\]'"
    with pytest.raises(MissingExtra, match=needs):
        importlib.import_module("fires.integrations.river")


def test_text_keys_of_many_classes_are_kept_as_keys():
    rng = np.random.default_rng(0)
    model = FiresSelector(FIRES(1), batch_size=50)
    for _ in range(600):
        level = int(rng.integers(0, 9))
        x = {"town": f"t{level}", "age": float(rng.normal()), "open": str(rng.integers(0, 2))}
        model.learn_one(x, "ABC"[level % 3])
    assert model.selector.n_features_in_ == 4
    assert model.transform_one(x) == {"town": x["town"]}


def test_keys_may_come_and_go_where_columns_are_open():
    rng = np.random.default_rng(0)
    transformer = FiresSelector(FIRES(1, columns="open"), batch_size=50)
    for row in range(1000):
        values = {"a": rng.normal(), "noise": rng.normal()} | (
            {7: rng.normal()} if row > 400 else {}
        )
        target = values["a"] if row <= 400 else values[7] + 0.1 * values.pop("a")
        transformer.learn_one(values, int(target + rng.normal() > 0))
    assert list(transformer.selector.feature_names_in_) == ["a", "noise", "7"]
    assert transformer.transform_one({"noise": 1.0, 7: 2.0}) == {7: 2.0}
    assert not transformer.new_keys_
