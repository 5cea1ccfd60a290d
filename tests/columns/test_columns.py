"""Rows become numbers the same way however they are cut, and what was learnt of columns is kept."""

import json

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fires.columns import Column, Columns, Hints
from fires.columns.warnings import standardised
from fires.core.errors import StateError


def encoded(columns, frame, size):
    parts = []
    for start in range(0, len(frame), size):
        X, columns = columns.encode(frame[start : start + size])
        parts.append(X)
    return np.concatenate(parts), columns


def test_categories_go_on_with_the_codes_of_an_earlier_object():
    _, first = Columns([Column("x", "category")]).encode(pl.DataFrame({"x": ["a", "b"]}))
    X, second = first.encode(pl.DataFrame({"x": ["c", "b", None]}))
    np.testing.assert_array_equal(X, [[2], [1], [np.nan]])
    assert first.all[0].categories == ("a", "b")
    assert second.all[0].categories == ("a", "b", "c")
    assert second.transform(pl.DataFrame({"x": ["d", "c"]})).tolist() == [[1000], [2]]


def test_a_frame_without_rows_is_no_trouble():
    columns = Columns([Column("x", "category"), Column("z", "number")])
    X, after = columns.encode(
        pl.DataFrame({"x": [], "z": []}, schema={"x": pl.String, "z": pl.String})
    )
    assert X.shape == (0, 2)
    assert after.tallies.n_rows == 0


def test_cells_that_cannot_be_read_are_missing_and_counted():
    columns = Columns.learn(pl.DataFrame({"x": ["1", "2", "3", "4", "5"]}))
    X, after = columns.encode(pl.DataFrame({"x": ["1", "old", "", "inf", "1e300", "-"]}))
    np.testing.assert_array_equal(X[:, 0], [1, *[np.nan] * 5])
    assert after.tallies.unreadable.tolist() == [3]
    assert after.tallies.missing.tolist() == [2]
    (line,) = after.surprises()
    assert line == (
        'column "x": 75% of its values are not numbers, such as "old": they count as missing'
    )


def test_huge_and_infinite_numbers_of_a_typed_column_are_missing():
    frame = pl.DataFrame({"x": [1.0, np.inf, 1e300, np.nan], "y": ["a"] * 4})
    X, after = Columns.learn(frame).encode(frame)
    np.testing.assert_array_equal(X[:, 0], [1, np.nan, np.nan, np.nan])
    assert after.tallies.unreadable.tolist() == [2, 0]
    plain = frame.drop("y")
    np.testing.assert_array_equal(Columns.learn(plain).encode(plain)[0], X[:, :1])


def test_a_column_is_open_until_its_first_value():
    columns = Columns.learn(pl.DataFrame({"x": [None, "", "?"]}, schema={"x": pl.String}))
    frame = pl.DataFrame({"x": [None, "Ulm", "Bonn", "Ulm"]})
    X, after = columns.encode(frame)
    np.testing.assert_array_equal(X[:, 0], [np.nan, 0, 1, 0])
    assert after.all[0].kind == "category"
    X, after = columns.encode(pl.DataFrame({"x": ["-", "Ulm", "-"]}))  # a category behind another
    np.testing.assert_array_equal(X[:, 0], [np.nan, 0, 1])
    X, after = columns.encode(pl.DataFrame({"x": ["$3", "$4"]}))
    assert X[:, 0].tolist() == [3, 4]


@settings(deadline=None, max_examples=10)
@given(size=st.integers(1, 100), start=st.integers(1, 40), seed=st.integers(0, 5))
def test_cells_of_another_kind_are_missing_however_rows_are_cut(size, start, seed):
    rng = np.random.default_rng(seed)
    before = [str(v) for v in rng.integers(0, 9, start)]
    after = rng.choice(["red", "blue", None], 100).tolist()
    n_rows = len(before) + len(after)
    frame = pl.DataFrame({"x": before + after, "z": [f"{i}%" for i in range(n_rows)]})
    columns = Columns([Column("x", "number"), *Columns.learn(frame.select("z")).all])
    whole, known = encoded(columns, frame, n_rows)
    parts, other = encoded(columns, frame, size)
    np.testing.assert_array_equal(parts, whole)
    assert other.as_json() == known.as_json()
    assert np.isnan(whole[start:, 0]).all()
    assert known.all[0].kind == "number"
    assert known.tallies.unreadable[0] == sum(value is not None for value in after)
    assert any('of its values are not numbers, such as "' in line for line in known.surprises())


def test_an_example_is_the_same_from_a_parser_and_from_text():
    columns = Columns([Column("x", "number")])
    for cells in (["1e999", "1"], [np.inf, 1.0]):
        _, after = columns.encode(pl.DataFrame({"x": cells}))
        assert after.tallies.examples == {"x": "inf"}


def test_na_values_hold_for_text_and_for_numbers():
    hints = Hints(na_values=["-999", "none at all"])
    frame = pl.DataFrame(
        {"a": ["1", "-999", "none at all"], "b": [1.0, -999.0, 2.0], "c": [1, -999, 2]}
    )
    X, after = Columns.learn(frame, hints).encode(frame)
    np.testing.assert_array_equal(X, [[1, 1, 1], [np.nan] * 3, [np.nan, 2, 2]])
    assert after.tallies.unreadable.tolist() == [0, 0, 0]
    floats = frame.select("b")
    np.testing.assert_array_equal(Columns.learn(floats, hints).encode(floats)[0], X[:, 1:2])


def test_saved_columns_encode_as_before():
    frame = pl.DataFrame(
        {
            "price": ["$3", "$1,200.50", "x"] * 9,
            "when": ["28/01/2024", "2/1/2024", None] * 9,
            "town": ["Ulm", "Bonn", "Kiel"] * 9,
            "empty": [None] * 27,
            "note": ["words " * 20] * 27,
        }
    )
    X, columns = Columns.learn(frame).encode(frame)
    again = Columns.from_json(json.loads(json.dumps(columns.as_json())))
    assert again.all == columns.all
    assert again.as_json() == columns.as_json()
    np.testing.assert_array_equal(again.transform(frame), X)


@pytest.mark.parametrize(
    "change",
    [
        {"columns": [["x"]]},
        {"columns": [["x", "odd"]]},
        {"columns": [["x", "category", None, [1]]]},
        {"columns": [["x", "number", {"unit": 3}]]},
        {"columns": None},
        {"missing": []},
        {"unreadable": ["a"]},
        {"hints": {"odd": 1}},
        {"n_rows": "many"},
    ],
)
def test_altered_columns_are_refused(change):
    saved = Columns([Column("x", "number")]).as_json()
    with pytest.raises(StateError):
        Columns.from_json(saved | change)


def test_what_was_done_is_described():
    frame = pl.DataFrame(
        {"price": ["$3", "$1,200.50", None], "town": ["a", "b", "a"], "n": [1, 2, 3]}
    )
    _, columns = Columns.learn(frame).encode(frame)
    price, town, number = columns.describe()
    assert price == {
        "name": "price",
        "kind": "number",
        "missing": 1 / 3,
        "unreadable": 0,
        "distinct": 2,
        "example": "$3",
        "done": '"$3" is read as 3',
    }
    assert town["done"] == "2 categories, numbered as they appear"
    assert number["done"] == "used as it is"
    assert columns.surprises() == ['column "price": "$3" is read as 3']


def test_many_columns_with_one_surprise_share_a_line():
    frame = pl.DataFrame({f"p{i}": ["5%", "6%"] for i in range(9)})
    (line,) = Columns.learn(frame).surprises()
    assert line == 'columns "p0", "p1", "p2" and 6 more: "5%" is read as 5'


def test_a_column_of_zeros_is_standardised_to_zeros():
    assert_array_equal(standardised(np.zeros((3, 1))), np.zeros((3, 1)))
