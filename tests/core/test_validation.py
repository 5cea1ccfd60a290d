"""The one gate: what passes, in which form, and what is refused with which words."""

import datetime as dt
import decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fires.core import validation
from fires.core.errors import InputError

VALUES = np.array([[1.0, 0.0, 2.5], [0.0, -3.0, 0.0]])


def matrix(X):
    return validation.as_matrix(X, "Owner")


# X comes through as the caller's own memory wherever that is possible


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_float_arrays_are_not_copied(dtype, order):
    X = np.asarray(VALUES, dtype=dtype, order=order)
    assert matrix(X) is X


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
def test_canonical_csr_is_not_copied(kind):
    X = kind(VALUES)
    assert matrix(X) is X


def test_a_float_frame_of_one_block_is_not_copied():
    values = np.asfortranarray(VALUES)
    assert np.shares_memory(matrix(pd.DataFrame(values, copy=False)), values)


@pytest.mark.parametrize(
    "X",
    [
        VALUES.astype(">f8"),
        VALUES.astype(np.float16),
        VALUES.astype(np.longdouble),
        VALUES.astype(object),
        VALUES.tolist(),
        tuple(map(tuple, VALUES)),
        sp.csc_array(VALUES),
        sp.coo_matrix(VALUES),
        sp.lil_array(VALUES),
        sp.dok_array(VALUES),
        sp.bsr_array(VALUES),
        pd.DataFrame(VALUES),
        pd.DataFrame(VALUES).astype(pd.SparseDtype(float, 0.0)),
        pd.DataFrame(VALUES).astype("Float64"),
        pd.DataFrame(VALUES).astype({0: "Int64", 1: "int8"}),
        pl.DataFrame(VALUES),
    ],
    ids=lambda X: f"{type(X).__module__}.{type(X).__name__}",
)
def test_the_same_numbers_in_another_form_are_the_same_matrix(X):
    found = matrix(X)
    assert found.dtype == np.float64
    assert found.dtype.isnative
    assert_array_equal(found.toarray() if sp.issparse(found) else found, VALUES)


def test_what_is_missing_is_nan_whatever_it_was_called():
    gap = np.array([[1.0, np.nan], [np.nan, 2.0]])
    for X in (
        [[1, None], [None, 2]],
        np.array([[1, None], [np.nan, 2]], dtype=object),
        pd.DataFrame({"a": [1.0, None], "b": [None, 2.0]}),
        pd.DataFrame({"a": [1, None], "b": [None, 2]}, dtype="Int64"),
        pd.DataFrame({"a": pd.array([1, None], "Int8"), "b": pd.array([None, 2.0], "Float32")}),
        pd.DataFrame({"a": [decimal.Decimal(1), None], "b": [None, 2]}),
        pl.DataFrame({"a": [1, None], "b": [None, 2.0]}),
        pl.DataFrame({"a": [decimal.Decimal(1), None], "b": [None, 2]}),
    ):
        assert_array_equal(matrix(X), gap)


@pytest.mark.parametrize("library", [pd, pl])
def test_booleans_are_zeros_and_ones(library):
    X = library.DataFrame({"a": [True, False, None], "b": [1.5, 2.5, 3.5]})
    assert_array_equal(matrix(X), [[1.0, 1.5], [0.0, 2.5], [np.nan, 3.5]])


@pytest.mark.parametrize("library", [pd, pl])
def test_a_column_in_which_everything_is_missing_holds_numbers(library):
    """A small batch often has one, and then nothing tells what type it would have had."""
    X = library.DataFrame({"a": [None, None], "b": [1.5, 2.5]})
    assert_array_equal(matrix(X), [[np.nan, 1.5], [np.nan, 2.5]])


@pytest.mark.parametrize("dtype", ["float32", "Float32"])
def test_single_precision_frames_stay_or_widen_but_never_lose(dtype):
    X = pd.DataFrame({"a": [0.1, 0.2]}, dtype=dtype)
    assert_array_equal(matrix(X), np.float32([[0.1], [0.2]]))
    assert matrix(pl.DataFrame({"a": [0.1]}, schema={"a": pl.Float32})).dtype == np.float32


def test_duplicates_are_summed_into_a_copy():
    parts = (np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), np.array([0, 3]))
    X = sp.csr_array(parts, shape=(1, 2))
    found = matrix(X)
    assert_array_equal(found.toarray(), [[2.0, 5.0]])
    assert found.has_canonical_format
    assert_array_equal(X.data, [1.0, 2.0, 4.0])
    assert_array_equal(X.indices, [1, 0, 1])


# X that is refused


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize(
    "kind", [np.asarray, sp.csr_array, sp.csc_matrix, pd.DataFrame], ids=lambda k: k.__name__
)
def test_nothing_is_no_batch(kind, shape):
    what = "sample" if shape[0] == 0 else "feature"
    with pytest.raises(ValueError, match=rf"0 {what}\(s\).*minimum of 1 is required by Owner"):
        matrix(kind(np.zeros(shape)))


@pytest.mark.parametrize("schema", [{}, {"a": pl.Float64}], ids=["no column", "no row"])
def test_an_empty_polars_frame_is_no_batch(schema):
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        matrix(pl.DataFrame(schema=schema))


@pytest.mark.parametrize("X", [np.zeros(3), [1.0, 2.0], pd.Series([1.0]), pl.Series([1.0]), 3.0])
def test_one_dimension_is_not_enough(X):
    with pytest.raises(ValueError, match=r"Expected (a )?2"):
        matrix(X)


def test_three_dimensions_are_too_many():
    with pytest.raises(ValueError, match="dim 3"):
        matrix(np.zeros((2, 2, 2)))


NOT_NUMBERS = {
    "text": ["x", "y"],
    "digits as text": ["1", "2"],
    "dates": [dt.datetime(2020, 8, 23), dt.datetime(2020, 8, 24)],
    "durations": [dt.timedelta(1), dt.timedelta(2)],
}


@pytest.mark.parametrize("library", [pd, pl])
@pytest.mark.parametrize("what", NOT_NUMBERS)
def test_a_column_that_does_not_hold_numbers_is_named(library, what):
    X = library.DataFrame({"age": [1.0, 2.0], "colour": NOT_NUMBERS[what], "size": [3, 4]})
    with pytest.raises(ValueError, match="'colour' does not hold numbers"):
        matrix(X)


@pytest.mark.parametrize(
    "column",
    [pd.Categorical(["x", "y"]), pd.array(["x", "y"], "string"), np.array(["x", 1.0], object)],
    ids=["category", "string", "object"],
)
def test_text_is_named_under_any_dtype_of_pandas(column):
    X = pd.DataFrame({"age": [1.0, 2.0], "colour": column})
    with pytest.raises(ValueError, match="'colour' does not hold numbers"):
        matrix(X)


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, sp.csr_array], ids=lambda k: k.__name__)
def test_complex_numbers_are_refused(kind):
    with pytest.raises(ValueError, match=r"(?i)complex|does not hold numbers"):
        matrix(kind(np.array([[1j, 2.0]])))


# Names


@pytest.mark.parametrize("library", [pd, pl])
def test_names_are_those_of_the_columns(library):
    names = validation.column_names(library.DataFrame({"b": [1], "ä": [2], "": [3]}))
    assert names.tolist() == ["b", "ä", ""]
    assert names.dtype == object


@pytest.mark.parametrize(
    "X", [VALUES, sp.csr_array(VALUES), VALUES.tolist(), pd.DataFrame(VALUES)], ids=type
)
def test_what_has_no_names_has_none(X):
    assert validation.column_names(X) is None


def test_names_of_several_types_are_refused():
    with pytest.raises(TypeError, match="string names"):
        validation.column_names(pd.DataFrame({"a": [1], 2: [3]}))


def test_a_name_that_occurs_twice_is_named():
    with pytest.raises(ValueError, match="'b' occurs more than once"):
        validation.column_names(pd.DataFrame([[1, 2, 3]], columns=["a", "b", "b"]))


def match(names, known):
    names, known = np.array(names, dtype=object), np.array(known, dtype=object)
    return validation.match_columns(names, len(names), known, len(known), "Owner")


@given(order=st.permutations(range(8)))
def test_the_order_found_puts_columns_right(order):
    known = np.array([f"c{i}" for i in range(8)], dtype=object)
    names = known[list(order)]
    found = match(names, known)
    assert_array_equal(known, names if found is None else names[found])


def test_columns_in_order_need_no_reordering():
    assert match(["a", "b"], ["a", "b"]) is None


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["a", "b"], r"missing 'c'\."),
        (["c", "b", "a", "d"], r"new 'd'\."),
        (["a", "b", "d"], r"missing 'c'; new 'd'\."),
        (["x1", "x2", "x3", "x4", "x5", "x6", "x7"], r"'c'; new .*'x5' and 2 more"),
    ],
)
def test_columns_that_are_missing_or_new_are_named(names, words):
    with pytest.raises(ValueError, match=words):
        match(names, ["a", "b", "c"])


def test_columns_without_names_are_counted():
    with pytest.raises(ValueError, match="X has 2 features, but Owner is expecting 3 features"):
        validation.match_columns(None, 2, None, 3, "Owner")


def test_names_on_one_side_only_are_worth_a_warning():
    names = np.array(["a", "b"], dtype=object)
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        assert validation.match_columns(None, 2, names, 2, "Owner") is None
    with pytest.warns(UserWarning, match="was fitted without feature names"):
        assert validation.match_columns(names, 2, None, 2, "Owner") is None


def test_many_columns_are_put_right():
    known = np.array([f"feature {i}" for i in range(5000)], dtype=object)
    assert_array_equal(match(known[::-1], known), np.arange(5000)[::-1])


# Entries that are refused


@pytest.mark.parametrize("kind", [np.asarray, np.asfortranarray, sp.csr_array])
@pytest.mark.parametrize("bad", [np.inf, -np.inf])
def test_the_first_infinite_entry_is_named(kind, bad):
    X = kind(np.array([[0.0, 1.0, 2.0], [1.0, 0.0, bad], [bad, 0.0, 0.0]]))
    with pytest.raises(ValueError, match=r"infinity.*row 1, column 2\)"):
        validation.refuse(X, (0, 2, 0), None, missing="ignore", owner="Owner")
    names = np.array(["a", "b", "größe"], dtype=object)
    with pytest.raises(ValueError, match=r"infinity.*row 1, column 'größe'\)"):
        validation.refuse(X, (0, 2, 0), names, missing="ignore", owner="Owner")


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_missing_entries_are_refused_only_if_asked_to(kind):
    X = kind(np.array([[0.0, 1.0], [np.nan, 0.0]]))
    validation.refuse(X, (1, 0, 0), None, missing="ignore", owner="Owner")
    with pytest.raises(ValueError, match=r"NaN.*row 1, column 0\).*missing='ignore'"):
        validation.refuse(X, (1, 0, 0), None, missing="error", owner="Owner")


# Targets


@pytest.mark.parametrize(
    "y",
    [
        [3, 1, 3],
        (3, 1, 3),
        np.array([3, 1, 3]),
        np.array([3, 1, 3], dtype=np.uint8),
        pd.Series([3, 1, 3], index=[7, 7, 0]),
        pd.Series([3, 1, 3], dtype="Int64"),
        pd.Series([3, 1, 3], dtype="category"),
        pd.Index([3, 1, 3]),
        pl.Series([3, 1, 3]),
    ],
    ids=lambda y: type(y).__module__ + "." + type(y).__name__,
)
def test_labels_come_from_whatever_holds_them(y):
    target = validation.as_target(y, 3, "Owner")
    assert target.shape == (3,)
    assert target.tolist() == [3, 1, 3]


def test_no_target_is_said_in_the_words_of_scikit_learn():
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        validation.as_target(None, 3, "Owner")


GAPS = {
    "NaN": np.array([1.0, np.nan]),
    "None": [1, None],
    "NaN among objects": np.array(["a", np.nan], dtype=object),
    "None among objects": np.array(["a", None], dtype=object),
    "pandas str": pd.Series(["a", None]),
    "pandas string": pd.Series(["a", None], dtype="string"),
    "pandas object": pd.Series(["a", pd.NA], dtype=object),
    "pandas Int64": pd.Series([1, None], dtype="Int64"),
    "pandas boolean": pd.Series([True, None], dtype="boolean"),
    "pandas category": pd.Series(["a", None], dtype="category"),
    "polars text": pl.Series(["a", None]),
    "polars int": pl.Series([1, None]),
    "polars bool": pl.Series([True, None]),
}


@pytest.mark.parametrize("what", GAPS)
def test_a_missing_label_is_refused(what):
    with pytest.raises(ValueError, match=r"Input y contains NaN"):
        validation.as_target(GAPS[what], 2, "Owner")


@pytest.mark.parametrize("y", [np.array([1.0, np.inf]), np.array([1.0, -np.inf], dtype=object)])
def test_an_infinite_target_is_refused(y):
    with pytest.raises(ValueError, match="Input y contains infinity"):
        validation.as_numbers(validation.as_target(y, 2, "Owner"), "gaussian")


@pytest.mark.parametrize("n_rows", [2, 4])
def test_y_of_another_length_is_refused(n_rows):
    with pytest.raises(ValueError, match=rf"inconsistent.*X has {n_rows} rows, y has 3"):
        validation.as_target([0, 1, 0], n_rows, "Owner")


@pytest.mark.parametrize("y", [np.zeros((3, 2)), 5, "abc", np.array(5)])
def test_y_of_another_shape_is_refused(y):
    with pytest.raises(ValueError, match="y should be a 1d array"):
        validation.as_target(y, 3, "Owner")


def test_a_column_of_labels_is_worth_a_warning():
    with pytest.warns(UserWarning, match="column-vector y"):
        assert validation.as_target(np.zeros((3, 1)), 3, "Owner").shape == (3,)


def test_complex_targets_are_refused():
    with pytest.raises(ValueError, match="Complex"):
        validation.as_target(np.array([1j, 2.0]), 2, "Owner")


def test_numbers_are_a_copy_in_double_precision():
    y = np.array([1, 2], dtype=np.int8)
    numbers = validation.as_numbers(y, "gaussian")
    assert numbers.dtype == np.float64
    numbers[:] = 9.0
    assert_array_equal(y, [1, 2])


def test_labels_are_no_numbers():
    with pytest.raises(ValueError, match=r"gaussian needs numbers in y; got labels.*'no'"):
        validation.as_numbers(np.array(["no", "yes"]), "gaussian")


# Weights


@pytest.mark.parametrize(
    "weight", [[1, 2, 0], np.float32([1, 2, 0]), pd.Series([1, 2, 0]), pl.Series([1, 2, 0])]
)
def test_weights_come_from_whatever_holds_them(weight):
    assert_array_equal(validation.as_weights(weight, 3), [1.0, 2.0, 0.0])


def test_one_weight_is_for_all_rows():
    assert_array_equal(validation.as_weights(2, 3), [2.0, 2.0, 2.0])


def test_no_weights_are_none():
    assert validation.as_weights(None, 3) is None


@pytest.mark.parametrize(
    ("weight", "words"),
    [
        ([1, -1, 1], "not negative"),
        ([1, np.nan, 1], "finite"),
        ([1, np.inf, 1], "finite"),
        ([1, None, 1], "finite"),
        ([0, 0, 0], "nothing to learn from"),
        ([1, 1], "X has 3 rows, sample_weight has 2"),
        ([[1, 1, 1], [1, 1, 1]], "1d array"),
        ([1e308, 1e308, 1e308], "finite|large|sum"),
    ],
)
def test_weights_that_make_no_sense_are_refused(weight, words):
    with pytest.raises(ValueError, match=words):
        validation.as_weights(weight, 3)


def test_an_array_with_text_is_named_as_such():
    X = np.array([["a", 1.0], ["b", 2.0]], dtype=object)
    with pytest.raises(InputError, match=r"text in it, such as 'a'; pass a pandas or polars frame"):
        validation.as_matrix(X, "FIRES")
