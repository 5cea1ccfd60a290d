"""Columns that come and go: names, growth, rest, forgetting; equal to fixed columns with gaps."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import fires
from fires import FIRES
from fires.core.errors import InputError
from fires.core.named import NamedRows, Names
from fires.selectors.open_columns import OpenColumns, Presence

TARGETS = {
    "two classes": lambda signal: (signal > 0).astype(int),
    "three classes": lambda signal: np.digitize(signal, [-0.7, 0.7]),
    "numbers": lambda signal: signal + 0.25,
}


def stream(seed, target="two classes", n_batches=12, n_rows=60, n_names=14):
    """Batches whose columns come and go: a frame for each, and the target."""
    rng = np.random.default_rng(seed)
    names = [f"c{place}" for place in range(n_names)]
    effects = rng.normal(size=n_names) * (rng.random(n_names) < 0.5)
    offset, unit = rng.normal(size=n_names), rng.uniform(0.5, 20.0, n_names)
    there = rng.random(n_names) < 0.6
    there[0] = True
    for _ in range(n_batches):
        there ^= rng.random(n_names) < 0.12
        there[0] = True
        Z = rng.normal(size=(n_rows, n_names))
        signal = Z[:, there] @ effects[there] + 0.3 * rng.normal(size=n_rows)
        frame = pd.DataFrame(offset + unit * Z, columns=names).iloc[:, np.flatnonzero(there)]
        frame = frame.iloc[:, rng.permutation(frame.shape[1])]
        if rng.random() < 0.5:
            frame = frame.mask(rng.random(frame.shape) < 0.1)
        yield frame, TARGETS[target](signal)


def arrival(batches):
    """All names in the order of their arrival."""
    return list(dict.fromkeys(name for frame, _ in batches for name in frame.columns))


def learnt(selector, batches, names=None):
    for frame, y in batches:
        selector.partial_fit(frame if names is None else frame.reindex(columns=names), y)
    return selector


def assert_same(opened, fixed, names):
    """The same is known of every column, and the same ones are selected."""
    assert list(opened.feature_names_in_) == names
    for attribute in ("importances_", "uncertainties_", "weights_"):
        assert_allclose(getattr(opened, attribute), getattr(fixed, attribute), rtol=1e-7, atol=1e-9)
    assert_allclose(opened.class_importances_, fixed.class_importances_, rtol=1e-7, atol=1e-9)
    # Sums over arrays of another width are rounded otherwise.
    assert [one[:3] for one in opened.alarms_] == [one[:3] for one in fixed.alarms_]
    strengths = [[one.strength for one in alarms] for alarms in (opened.alarms_, fixed.alarms_)]
    assert_allclose(*strengths, rtol=1e-7)


# --- the law ------------------------------------------------------------------------------------


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(sorted(TARGETS)), st.sampled_from([20, 60, 150]))
def test_open_columns_are_fixed_ones_whose_absent_entries_are_missing(seed, target, n_rows):
    batches = list(stream(seed, target, n_rows=n_rows))
    names = arrival(batches)
    opened = learnt(FIRES(3, columns="open"), batches)
    fixed = learnt(FIRES(3), batches, names)
    assert_same(opened, fixed, names)
    assert_array_equal(opened.get_support(), fixed.get_support())


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(sorted(TARGETS)))
def test_so_they_are_with_the_gradient_update(seed, target):
    batches = list(stream(seed, target))
    names = arrival(batches)
    how = {"update": "gradient", "scale": "standard"}
    assert_same(
        learnt(FIRES(3, columns="open", **how), batches),
        learnt(FIRES(3, **how), batches, names),
        names,
    )


@pytest.mark.parametrize("n_names", [130, 220])
def test_so_they_are_with_more_columns_than_can_lead(n_names):
    batches = list(stream(3, n_batches=30, n_rows=100, n_names=n_names))
    names = arrival(batches)
    opened, fixed = learnt(FIRES(5, columns="open"), batches), learnt(FIRES(5), batches, names)
    assert_same(opened, fixed, names)
    assert_array_equal(opened.get_support(), fixed.get_support())


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 10_000))
def test_how_wide_an_array_is_does_not_matter(seed):
    batches = list(stream(seed))
    names = arrival(batches)
    never = [f"never{place}" for place in range(40)]
    fixed, wide = learnt(FIRES(3), batches, names), learnt(FIRES(3), batches, names + never)
    assert_allclose(wide.importances_[: len(names)], fixed.importances_, rtol=1e-7, atol=1e-9)
    assert_allclose(wide.uncertainties_[: len(names)], fixed.uncertainties_, rtol=1e-7, atol=1e-9)


# --- who is selected ----------------------------------------------------------------------------


def test_a_column_that_is_gone_makes_room_and_comes_back():
    rng = np.random.default_rng(0)

    def batch(names):
        Z = pd.DataFrame(rng.normal(size=(100, 4)), columns=list("abcd"))
        noise = rng.normal(size=100)
        return Z[names], (Z["a"] + 0.7 * Z["b"] + 0.5 * Z["c"] + noise > 0).astype(int)

    selector = FIRES(2, columns="open")
    for _ in range(20):
        selector.partial_fit(*batch(["a", "b", "c", "d"]))
    assert set(selector.get_feature_names_out()) == {"a", "b"}
    strength = selector.importances_[0]
    for _ in range(3):
        selector.partial_fit(*batch(["b", "c", "d"]))
    assert set(selector.get_feature_names_out()) == {"b", "c"}
    assert selector.absent_ == ["a"]
    assert selector.importances_[0] > 0.5 * strength  # none is lost
    for _ in range(3):
        selector.partial_fit(*batch(["a", "b", "c", "d"]))
    assert set(selector.get_feature_names_out()) == {"a", "b"}
    assert selector.absent_ == []


def test_a_rare_column_does_not_rest():
    rng = np.random.default_rng(0)
    selector = FIRES(1, columns="open")
    for row in range(600):
        values = {"a": rng.normal()} | ({"rare": rng.normal()} if row % 40 == 0 else {})
        selector.partial_fit(values, [int(values["a"] > 0)])
    assert selector.absent_ == []


def alternating(selector, every, n_batches, size=100, n_sources=2):
    """Sources that take turns, with a strong column each; the sets, batch by batch."""
    rng, sets = np.random.default_rng(0), []
    for number in range(n_batches):
        source = number * size // every % n_sources
        names = [f"s{source}", "a", "b", "c"]
        Z = pd.DataFrame(rng.normal(size=(size, 4)), columns=names)
        signal = 2.0 * Z[names[0]] + 0.5 * Z["a"] + rng.normal(size=size)
        selector.partial_fit(Z, (signal > 0).astype(int))
        sets.append(set(selector.get_feature_names_out()))
    return sets


@pytest.mark.parametrize(
    ("every", "size", "n_sources"), [(100, 100, 2), (100, 25, 3), (400, 100, 3)]
)
def test_the_columns_of_sources_that_alternate_never_leave(every, size, n_sources):
    selector = FIRES(n_sources, columns="open")
    sets = alternating(selector, every, 6_000 // size, size, n_sources)
    strongest = {f"s{source}" for source in range(n_sources)}
    assert all(strongest == chosen for chosen in sets[2_500 // size :])


def test_a_source_that_goes_away_leaves_after_twice_its_longest_gap():
    selector = FIRES(2, columns="open")
    assert alternating(selector, 100, 40)[-1] == {"s0", "s1"}
    alone = alternating(selector, 10_000, 4)  # from now on, the first one
    assert alone == [{"s0", "s1"}, {"s0", "a"}, {"s0", "a"}, {"s0", "a"}]


def test_a_gap_is_forgotten_after_fifty_times_as_many_rows():
    there, absent = np.array([True, True]), np.array([True, False])
    presence = Presence(2, rows=500.0).after(absent, 1000.0).after(there, 100.0)
    assert presence.gap.tolist() == [0.0, 1000.0]
    assert not presence.after(absent, 1900.0).resting.any()
    assert presence.after(absent, 2000.0).resting.tolist() == [False, True]
    later = presence.after(there, 50_000.0)
    assert later.gap.tolist() == [0.0, 0.0]
    assert later.after(absent, 100.0).resting.tolist() == [False, True]


def test_a_new_column_is_selected_soon():
    rng = np.random.default_rng(0)
    selector = FIRES(1, columns="open")
    for number in range(60):
        Z = rng.normal(size=(100, 3))
        signal = Z[:, 0] + 2.0 * Z[:, 2] * (number >= 55) + rng.normal(size=100)
        frame = pd.DataFrame(Z, columns=["a", "b", "new"])
        selector.partial_fit(frame if number >= 55 else frame[["a", "b"]], (signal > 0).astype(int))
    assert list(selector.get_feature_names_out()) == ["new"]


# --- what can be passed -------------------------------------------------------------------------


def kinds(frame):
    yield "pandas", frame
    yield "polars", pl.DataFrame({name: frame[name].to_numpy() for name in frame.columns})
    yield "list of dicts", frame.to_dict("records")
    yield "named rows", NamedRows(frame.to_numpy(), list(frame.columns))


def test_frames_dicts_and_named_rows_are_the_same():
    batches = list(stream(1))
    expected = learnt(FIRES(3, columns="open"), batches)
    for place, (kind, _) in enumerate(kinds(batches[0][0])):
        selector = FIRES(3, columns="open")
        for frame, y in batches:
            selector.partial_fit(list(kinds(frame))[place][1], y)
        assert list(selector.feature_names_in_) == list(expected.feature_names_in_), kind
        assert_allclose(selector.importances_, expected.importances_, err_msg=kind)
        assert selector.n_missing_ == expected.n_missing_, kind


def test_a_dict_is_one_row_and_what_it_has_no_key_for_is_not_missing():
    selector = FIRES(1, columns="open", missing="error")
    for value in (1.0, -1.0, 2.0, -2.0):
        selector.partial_fit({"a": value, f"b{value}": 1}, [int(value > 0)])
    assert selector.n_features_in_ == 5
    assert selector.n_missing_ == 0
    with pytest.raises(ValueError, match="contains NaN"):
        selector.partial_fit({"a": None}, [1])
    assert selector.n_samples_seen_ == 4


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((2, 2)), "go by name"),
        (sp.csr_array(np.eye(2)), "go by name"),
        (pd.DataFrame(np.zeros((2, 2))), "must be text"),
        ([{}, {}], "empty dicts"),
        ([{"a": 1.0}, 3], "something else"),
        (NamedRows(np.zeros((2, 2)), ["a"]), "2 columns and 1 names"),
        ([{"a": np.inf}, {"a": 1.0}], "infinity"),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(X, message):
    selector = FIRES(1, columns="open").partial_fit([{"a": 0.0}, {"a": 1.0}], [0, 1])
    before = selector.importances_
    with pytest.raises((ValueError, InputError), match=message) as error:
        selector.partial_fit(X, [0, 1])
    assert "\n" not in str(error.value)
    assert_array_equal(selector.importances_, before)
    assert list(selector.feature_names_in_) == ["a"]


def test_fixed_columns_say_what_is_missing_and_new():
    selector = FIRES(1).partial_fit(pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]}), [0, 1])
    with pytest.raises(ValueError, match="missing 'b'; new 'c'"):
        selector.partial_fit(pd.DataFrame({"a": [0.0, 1.0], "c": [1.0, 0.0]}), [0, 1])


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"columns": "all"}, "columns"),
        ({"absent": "nothing"}, "absent"),
        ({"forget_after": 0}, "forget_after"),
        ({"forget_after": 100}, "forget_after is for columns='open'"),
        ({"absent": "zero"}, "absent is for columns='open'"),
        ({"columns": "open", "groups": [0, 1]}, "groups"),
        ({"columns": "open", "model": fires.models.NeuralNet()}, "not linear"),
        ({"columns": "open", "update": "gradient", "mu_init": [0.0, 1.0]}, "mu_init"),
    ],
)
def test_settings_that_make_no_sense(how, message):
    with pytest.raises(ValueError, match=message):
        FIRES(1, **how).partial_fit(pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, 0.0]}), [0, 1])


def test_a_batch_that_is_refused_leaves_no_name_behind():
    selector = FIRES(1, columns="open").partial_fit([{"a": 0.0}, {"a": 1.0}], [0, 1])
    with pytest.raises(ValueError, match="y"):
        selector.partial_fit([{"ghost": 0.0}, {"a": 1.0}], [0, None])
    selector.partial_fit([{"b": 0.0}, {"a": 1.0}], [0, 1])
    assert list(selector.feature_names_in_) == ["a", "b"]


def raw_batches(n_batches=12):
    rng = np.random.default_rng(0)
    for number in range(n_batches):
        town = rng.choice(["Ulm", "Bonn", "Kiel"], 100)
        size = rng.normal(size=100)
        y = ((town == "Ulm") * 2.0 + size + rng.normal(size=100) > 0.7).astype(int)
        frame = pd.DataFrame({"noise": rng.normal(size=100), "size": size, "town": town})
        frame["kind"] = rng.choice(["a", "b"], 100)
        yield frame[["noise", "town"] if number < 4 else ["town", "kind", "size"]], y


@pytest.mark.parametrize("kind", ["pandas", "polars", "list of dicts"])
def test_text_that_comes_later_becomes_numbers(kind, tmp_path):
    forms = {"pandas": lambda X: X, "polars": lambda X: pl.DataFrame(X.to_dict("list"))}
    forms["list of dicts"] = lambda X: X.to_dict("records")
    as_kind = forms[kind]
    selector = FIRES(2, columns="open")
    for number, (X, y) in enumerate(raw_batches()):
        if number == 8:
            selector.save(tmp_path / "half.fires")
            selector = fires.load(tmp_path / "half.fires")
        selector.partial_fit(as_kind(X), y)
    assert set(selector.feature_names_in_) == {"noise", "town", "kind", "size"}
    assert set(selector.get_feature_names_out()) == {"town", "size"}
    assert selector.absent_ == ["noise"]
    assert selector.transform(as_kind(X)).shape == (100, 2)


def test_numbers_do_not_become_text():
    selector = FIRES(1, columns="open").partial_fit(pd.DataFrame({"a": [0.0, 1.0]}), [0, 1])
    with pytest.raises(ValueError, match="'a' does not hold numbers"):
        selector.partial_fit(pd.DataFrame({"a": ["x", "y"]}), [0, 1])
    assert selector.n_samples_seen_ == 2


def test_text_is_forgotten_with_its_column():
    selector = FIRES(1, columns="open", forget_after=200)
    for X, y in raw_batches():
        selector.partial_fit(X.rename(columns={"town": "place"}) if "size" in X else X, y)
    assert "town" not in set(selector.feature_names_in_)
    selector.partial_fit(X, y)
    assert "town" in set(selector.feature_names_in_)


# --- applying it --------------------------------------------------------------------------------


@pytest.fixture
def selector():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    return FIRES(2, columns="open").fit(frame, (X[:, 0] - X[:, 2] > 0).astype(int))


def test_transform_and_mask_work_on_what_is_there_and_say_what_is_not(selector):
    X = pd.DataFrame({"c": [1.0, 2.0], "unknown": [3.0, 4.0]})
    with pytest.warns(UserWarning, match="lacks the selected columns 'a'"):
        rows = selector.transform(X)
    assert_array_equal(rows, [[np.nan, 1.0], [np.nan, 2.0]])
    with pytest.warns(UserWarning, match="'a'"):
        masked = selector.mask(X)
    assert_array_equal(masked, pd.DataFrame({"c": [1.0, 2.0], "unknown": [0.0, 0.0]}))
    with pytest.warns(UserWarning, match="'a'"):
        assert selector.mask(pl.DataFrame({"b": [1.0], "c": [2.0]})).rows() == [(0.0, 2.0)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(selector.transform({"c": 1.0, "a": 2.0}), [[2.0, 1.0]])
        assert_array_equal(selector.mask([{"c": 1.0, "a": 2.0, "b": 3.0}]), [[2.0, 0.0, 1.0]])


def test_input_is_not_changed():
    frame = pd.DataFrame({"b": [1.0, 2.0, 3.0], "a": [0.0, np.nan, 1.0]})
    before = frame.copy()
    selector = FIRES(1, columns="open").partial_fit({"a": 1.0}, [1]).partial_fit(frame, [0, 1, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        selector.mask(frame)
    pd.testing.assert_frame_equal(frame, before)


# --- forgetting columns -------------------------------------------------------------------------


@pytest.mark.parametrize("update", ["bayes", "gradient"])
def test_columns_not_seen_for_so_long_are_forgotten(update):
    rng = np.random.default_rng(0)
    selector = FIRES(2, columns="open", forget_after=1000, update=update)
    for number in range(100):
        names = [f"c{number // 4 + place}" for place in range(6)]
        X = pd.DataFrame(rng.normal(size=(100, 6)), columns=names)
        selector.partial_fit(X, (X.iloc[:, 2] > 0).astype(int))
        assert selector.n_features_in_ <= 6 + 1000 / 400 + 2
        assert set(selector.get_feature_names_out()) <= set(selector.feature_names_in_)
    assert "c0" not in set(selector.feature_names_in_)
    assert len(selector.importances_) == len(selector.feature_names_in_)


def test_a_forgotten_column_comes_back_as_a_new_one():
    selector, sizes = FIRES(3, columns="open", forget_after=300), []
    for frame, y in stream(5, n_batches=30, n_rows=100):
        selector.partial_fit(frame, y)
        sizes.append(selector.n_features_in_)
        assert set(frame.columns) <= set(selector.feature_names_in_)
    assert min(sizes) < max(sizes) == 14
    assert min(np.diff(sizes)) < 0 < max(np.diff(sizes))


# --- zeros for what is absent -------------------------------------------------------------------


def words(seed, n_batches=8, n_rows=50, n_names=3000):
    rng = np.random.default_rng(seed)
    names = [f"w{place}" for place in range(n_names)]
    for number in range(n_batches):
        high = 200 + number * (n_names - 200) // n_batches
        rows = [
            {names[int(place)]: 1.0 for place in rng.random(20) ** 2 * high} for _ in range(n_rows)
        ]
        yield rows, np.array([int("w1" in row or "w3" in row) for row in rows])


def test_with_zeros_rows_are_sparse_and_as_wide_as_needed():
    selector = FIRES(2, columns="open", absent="zero")
    for rows, y in words(0, n_batches=20):
        selector.partial_fit(rows, y)
    seen = {name for rows, _ in words(0, n_batches=20) for row in rows for name in row}
    assert set(selector.feature_names_in_) == seen
    assert len(selector.importances_) == selector.n_features_in_ == len(seen)
    assert set(selector.get_feature_names_out()) == {"w1", "w3"}
    assert selector.absent_ == []
    assert selector.transform([{"w1": 2.0}]).toarray().sum() == 2.0


def test_dicts_and_a_growing_book_are_the_same():
    dicts, named, book = (FIRES(2, columns="open", absent="zero") for _ in range(3))
    names = Names()
    for rows, y in words(1):
        places = [names.add(row) for row in rows]
        starts = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
        indices = np.concatenate(places)
        X = sp.csr_array((np.ones(len(indices)), indices, starts), shape=(len(rows), len(names)))
        dicts.partial_fit(rows, y)
        named.partial_fit(NamedRows(X, list(names)), y)
        book.partial_fit(NamedRows(X, names), y)
    importance = dict(zip(dicts.feature_names_in_, dicts.importances_, strict=True))
    for other in (named, book):
        found = dict(zip(other.feature_names_in_, other.importances_, strict=True))
        assert found.keys() == importance.keys()
        for name, value in importance.items():
            assert found[name] == pytest.approx(value, rel=1e-6, abs=1e-12)


def test_words_that_are_not_seen_any_more_are_forgotten_and_may_come_back():
    selector = FIRES(2, columns="open", absent="zero", forget_after=300)
    names = Names()
    for number in range(40):
        rng = np.random.default_rng(number)
        rows = [{f"w{number // 2}": 1.0, f"v{rng.integers(5)}": 1.0} for _ in range(50)]
        places = [names.add(row) for row in rows]
        indices, starts = np.concatenate(places), np.arange(0, 101, 2)
        X = sp.csr_array((np.ones(100), indices, starts), shape=(50, len(names)))
        X.sort_indices()
        selector.partial_fit(NamedRows(X, names), [int("v0" in row) for row in rows])
    known = list(selector.feature_names_in_)
    assert len(known) < 20
    assert len(set(known)) == len(known)
    assert {"v0", "v1", "w19"} <= set(known)
    assert "v0" in selector.get_feature_names_out()


# --- state --------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"forget_after": 200}, {"update": "gradient"}])
def test_saved_and_loaded_it_goes_on_bit_for_bit(tmp_path, how):
    batches = list(stream(2, n_batches=16))
    whole = learnt(FIRES(3, columns="open", **how), batches)
    half = learnt(FIRES(3, columns="open", **how), batches[:8])
    half.save(tmp_path / "half.fires")
    again = learnt(fires.load(tmp_path / "half.fires"), batches[8:])
    assert list(again.feature_names_in_) == list(whole.feature_names_in_)
    assert_array_equal(again.importances_, whole.importances_)
    assert_array_equal(again.get_support(), whole.get_support())
    assert again.absent_ == whole.absent_


def test_saved_words_go_on_too(tmp_path):
    batches = list(words(3))
    whole = FIRES(3, columns="open", absent="zero")
    for rows, y in batches:
        whole.partial_fit(rows, y)
    half = FIRES(3, columns="open", absent="zero")
    for rows, y in batches[:4]:
        half.partial_fit(rows, y)
    half.save(tmp_path / "half.fires")
    again = fires.load(tmp_path / "half.fires")
    for rows, y in batches[4:]:
        again.partial_fit(rows, y)
    assert_array_equal(again.importances_, whole.importances_)
    assert_array_equal(again.get_support(), whole.get_support())


def test_the_book_refuses_nothing_it_knows():
    how = None, "FIRES", "ignore"
    batch = OpenColumns("missing").admit([{"a": 1.0, "b": 2.0}], *how, learn=True)
    assert batch.source is None
    book = batch.known.dropping(np.array([0]))
    batch = book.admit([{"c": 1.0, "b": 3.0}], *how, learn=True)
    assert batch.known.known == ["b", "c"]
    assert_array_equal(batch.source, [1, -1])
    assert_array_equal(batch.X, [[3.0, 1.0]])


@pytest.mark.parametrize("k", [1, "auto"])
def test_why_counts_columns_and_not_the_room_for_them(k):
    selector = FIRES(k, columns="open", absent="zero")
    for rows, y in words(3):
        selector.partial_fit(rows, y)
    assert f" of {selector.n_features_in_:,} features" in selector.why()


def test_columns_that_never_have_an_entry_are_forgotten_too():
    rng = np.random.default_rng(0)
    selector = FIRES(1, columns="open", forget_after=300)
    for batch in range(20):
        x = rng.normal(size=100)
        rows = [{"x": value, f"empty {batch}": None} for value in x]
        selector.partial_fit(rows, x > 0)
        assert selector.n_features_in_ <= 5
    assert selector.get_feature_names_out().tolist() == ["x"]


@pytest.mark.parametrize("names", [["a", "a"], ["a", 1]])
@pytest.mark.parametrize("absent", ["missing", "zero"])
def test_names_of_rows_are_texts_and_each_is_there_once(names, absent):
    selector = FIRES(1, columns="open", absent=absent)
    with pytest.raises((ValueError, TypeError), match="names"):
        selector.partial_fit(NamedRows(np.eye(2), names), [0, 1])


def test_fixed_columns_say_what_to_do_with_named_rows():
    with pytest.raises(InputError, match="columns='open'"):
        FIRES(1).partial_fit(NamedRows(np.eye(2), ["a", "b"]), [0, 1])


def test_words_may_all_be_forgotten_but_those_that_are_there():
    rng, selector = np.random.default_rng(0), FIRES(2, columns="open", absent="zero")
    selector.set_params(forget_after=200)
    for batch in range(40):
        X = rng.normal(size=(100, 4))
        names = [f"{name}{batch // 10}" for name in "abcd"]
        selector.partial_fit(pd.DataFrame(X, columns=names), X[:, 0] > X[:, 1])
    assert set(selector.get_feature_names_out()) == {"a3", "b3"}
    assert selector.n_features_in_ == 4
