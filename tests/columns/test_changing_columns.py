"""Columns that come and go: what is there is encoded as if the others were there and missing."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fires.columns import Columns

Y = np.array(["no", "yes", "perhaps"])


def learnt(columns, frame, y=None):
    columns = columns.extended(frame, y)
    X, columns = columns.encode(frame)
    X, part = columns.among(frame.columns).by_target(X, y)
    return X, part.names, columns.knowing(part.statistics)


def whole(columns, frame, y=None):
    X, columns = columns.encode(columns.completed(frame, absent=True))
    return columns.by_target(X, y)


def drawn(rng, n_rows):
    """Rows of four columns: numbers, text numbers with a word now and then, categories, flags."""
    texts = [str(number) for number in rng.integers(0, 9, n_rows)]
    return pl.DataFrame(
        {
            "size": rng.normal(size=n_rows),
            "share": [("%" if rng.random() < 0.2 else text) for text in texts],
            "town": rng.choice(["Bonn", "Ulm", "Rom", None], n_rows).tolist(),
            "paid": rng.choice(["yes", "no"], n_rows).tolist(),
        }
    )


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**32 - 1), st.lists(st.sets(st.integers(0, 3), min_size=1), max_size=6))
def test_absent_columns_are_as_good_as_missing(seed, presences):
    rng = np.random.default_rng(seed)
    first = drawn(rng, 60)
    columns = Columns.learn(first, y=rng.choice(Y, 60))
    full = columns
    for presence in presences:
        frame, y = drawn(rng, 40), rng.choice(Y, 40)
        frame = frame.select([frame.columns[i] for i in sorted(presence)])
        X, names, columns = learnt(columns, frame, y)
        all_X, full = whole(full, frame, y)
        features = [full.names.index(name) for name in names]
        np.testing.assert_array_equal(X, all_X[:, features])
        assert np.isnan(np.delete(all_X, features, axis=1)).all()
    assert json.dumps(columns.as_json()) == json.dumps(full.as_json())


def test_new_columns_come_last_and_were_missing_so_far():
    frame = pl.DataFrame({"a": ["1", "2"], "t": ["x", "y"]})
    X, _, columns = learnt(Columns.learn(frame), frame)
    later = pl.DataFrame({"d": ["2024-01-31", None], "a": ["3", "x"]})
    X, names, columns = learnt(columns, later)
    assert columns.names == ("a", "t", "d")
    assert names == ("a", "d")
    np.testing.assert_array_equal(X, [[3.0, 1706659200.0], [np.nan, np.nan]])
    assert columns.tallies.missing.tolist() == [0, 2, 3]
    assert columns.tallies.unreadable.tolist() == [1, 0, 0]
    assert columns.tallies.n_rows == 4
    again = Columns.from_json(json.loads(json.dumps(columns.as_json())))
    assert again.names == columns.names
    assert again.as_json() == columns.as_json()


def test_nothing_new_is_the_same_object():
    frame = pl.DataFrame({"a": [1.0]})
    columns = Columns.learn(frame)
    assert columns.extended(frame) is columns
    assert columns.among(["a", "b"]) is columns
    assert columns.forgetting(["b"]) is columns


def test_the_first_categories_of_all_are_known_by_the_target():
    columns = Columns.learn(pl.DataFrame({"a": [1.0]}))
    frame = pl.DataFrame({"town": ["Ulm", "Bonn"] * 60})
    y = np.array(["yes", "no"] * 60)
    _, _, columns = learnt(columns, frame, y)
    X, _, _ = learnt(columns, frame, y)
    assert X[0, 0] > 1.0
    assert X[1, 0] < -1.0


def test_a_column_that_comes_back_finds_what_was_known():
    frame = pl.DataFrame({"town": ["Ulm", "Bonn"] * 60, "a": [1.0, 2.0] * 60})
    y = np.array(["yes", "no"] * 60)
    _, _, columns = learnt(Columns.learn(frame, y=y), frame, y)
    known = columns.transform(frame)[:2, 0]
    _, _, columns = learnt(columns, frame.select("a"), y)
    X, _, _ = learnt(columns, frame, y)
    np.testing.assert_allclose(X[:2, 0], known, rtol=0.1)


def test_forgotten_columns_are_new_when_they_come_again():
    frame = pl.DataFrame({"town": ["Ulm", "Bonn"], "a": [1.0, 2.0], "text": ["long " * 20] * 2})
    _, _, columns = learnt(Columns.learn(frame, y=Y[:2]), frame, Y[:2])
    columns = columns.forgetting(["town", "text"])
    assert columns.names == ("a",)
    assert columns.statistics.tables == {}
    assert [column.name for column in columns.all] == ["a"]
    Columns.from_json(json.loads(json.dumps(columns.as_json())))
    _, _, columns = learnt(columns, frame, Y[:2])
    assert columns.names == ("a", "town")
    assert columns.tallies.missing.tolist() == [0, 2]


def test_free_text_among_new_columns_is_left_out():
    frame = pl.DataFrame({"a": [1.0]})
    columns = Columns.learn(frame)
    later = pl.DataFrame({"note": ["word " * 20]})
    X, names, columns = learnt(columns, later)
    assert (X.shape, names, columns.names) == ((1, 0), (), ("a",))
    assert [column.name for column in columns.left_out] == ["note"]


@pytest.mark.parametrize("labels", [["a", "b"], ["a", "b", "c"]])
def test_new_categories_have_a_feature_for_each_class(labels):
    y = np.array(labels * 40)
    columns = Columns.learn(pl.DataFrame({"x": [0.0] * len(y)}), y=y)
    frame = pl.DataFrame({"town": ["Ulm", "Bonn", "Rom", "Lyon"] * (len(y) // 4)})
    _, names, _ = learnt(columns, frame, y[: len(frame)])
    assert len(names) == max(1, len(labels) - 1)
