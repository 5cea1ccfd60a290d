"""Class labels: found as they arrive, kept sorted, encoded once into a copy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from fires.core.classes import are_numbers, class_rows, encode, merge_classes
from fires.core.errors import TargetError

ints = st.integers(-50, 50)
texts = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
label_lists = st.one_of(
    st.lists(ints, min_size=1, max_size=20),
    st.lists(st.booleans(), min_size=1, max_size=20),
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=20),
    st.lists(texts, min_size=1, max_size=20),
)


def labels(values, as_objects=False):
    return np.array(values, dtype=object if as_objects else None)


# Encoding


@given(values=label_lists, as_objects=st.booleans())
def test_codes_lead_back_to_the_labels(values, as_objects):
    y = labels(values, as_objects)
    classes = np.unique(y)
    assert_array_equal(classes[encode(y, classes)], y)


@given(values=st.lists(ints, min_size=2, max_size=20), gone=ints)
def test_a_label_that_is_not_among_the_classes_has_no_code(values, gone):
    y = labels([*values, gone])
    classes = np.unique([value for value in values if value != gone] or [gone + 1])
    assert encode(y, classes) is None
    assert encode(y.astype(object), classes) is None


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (["1", "2"], [1, 2]),
        ([1, 2], ["1", "2"]),
        (["yes"], ["yes, but"]),
        (["yes, but"], ["yes"]),
        ([0.5], [0, 1]),
        ([-1], [0, 1]),
        ([99], [0, 1]),
    ],
)
def test_what_only_looks_like_a_class_is_none(y, classes):
    assert encode(np.array(y), np.array(classes)) is None


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        (np.array([0, 1], dtype=np.uint8), np.array([0, 1])),
        (np.array([0.0, 1.0]), np.array([0, 1])),
        (np.array([False, True]), np.array([0, 1])),
        (np.array([0, 1]), np.array([False, True])),
        (np.array([0, 1], dtype=object), np.array([0, 1])),
        (np.array(["a", "b"], dtype=object), np.array(["a", "b"])),
        (np.array(["a", "b"]), np.array(["a", "b", "longer than both"])[:2]),
    ],
)
def test_equal_labels_of_other_types_have_the_same_code(y, classes):
    assert_array_equal(encode(y, classes), [0, 1])


def test_labels_and_classes_are_left_as_they_were():
    y, classes = np.array([3, 1, 3]), np.array([1, 3])
    y.flags.writeable = classes.flags.writeable = False
    codes = encode(y, classes)
    merged = merge_classes(classes, np.array([2]))
    assert not np.shares_memory(codes, y)
    assert not np.shares_memory(merged, classes)
    assert_array_equal(y, [3, 1, 3])
    assert_array_equal(classes, [1, 3])


# Classes as they arrive


@given(values=label_lists, cuts=st.lists(st.integers(1, 19), max_size=4), as_objects=st.booleans())
def test_classes_do_not_depend_on_how_labels_arrive(values, cuts, as_objects):
    classes = None
    for part in np.split(np.arange(len(values)), sorted(set(cuts))):
        if len(part):
            classes = merge_classes(classes, labels([values[i] for i in part], as_objects))
    assert_array_equal(classes, np.unique(labels(values, as_objects)))


def test_no_new_label_leaves_the_very_same_classes():
    classes = np.array(["no", "yes"])
    assert merge_classes(classes, np.array(["yes"])) is classes


def test_longer_text_is_not_cut_to_the_length_of_what_came_before():
    classes = merge_classes(np.array(["no", "yes"]), np.array(["yesterday", "no"]))
    assert_array_equal(classes, ["no", "yes", "yesterday"])
    assert_array_equal(encode(np.array(["yesterday", "yes"]), classes), [2, 1])


@pytest.mark.parametrize("known", [None, ["a", "b"], [1, 2], [True, False]])
@pytest.mark.parametrize(
    "y",
    [
        np.array(["x", 1], dtype=object),
        np.array(["x", 1.5], dtype=object),
        np.array(["x", True], dtype=object),
        np.array([("x",), 1], dtype=object),
    ],
    ids=["text and int", "text and float", "text and bool", "tuple and int"],
)
def test_labels_that_have_no_order_are_refused(known, y):
    with pytest.raises(ValueError, match="cannot be put in order"):
        merge_classes(None if known is None else np.unique(known), y)


@pytest.mark.parametrize(
    ("known", "y"),
    [(["a", "b"], [1, 2]), ([1, 2], ["a", "b"]), (["a", "b"], [True]), ([0.5, 1.5], ["a"])],
)
def test_numbers_never_turn_into_text_without_a_word(known, y):
    """NumPy would make '1' of 1 when it puts numbers and text into one array."""
    with pytest.raises(ValueError, match="cannot be put in order"):
        merge_classes(np.array(known), np.array(y))


# Rows of parameters


@given(values=st.sets(ints, min_size=2, max_size=6), data=st.data())
def test_a_row_that_has_a_source_speaks_for_the_same_class_as_before(values, data):
    new = np.array(sorted(values))
    old = np.array(sorted(data.draw(st.sets(st.sampled_from(sorted(values)), min_size=1))))
    sources = class_rows(old, new)
    assert len(sources) == (len(new) if len(new) > 2 else 1)
    speaks_for = new if len(new) > 2 else new[-1:]
    for label, source in zip(speaks_for, sources, strict=True):
        if source is None:
            assert label not in old
            continue
        row, sign = source
        if len(old) > 2:
            assert old[row] == label
            assert sign == 1.0
        elif label in old:
            # One row speaks for the greater label, and with the other sign for the lesser.
            assert row == 0
            assert sign == (1.0 if label == old[-1] else -1.0)
        else:
            # A second class is what the only one before was not.
            assert (len(old), len(new), source) == (1, 2, (0, -1.0))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ([0, 1], [0, 1, 2], [(0, -1.0), (0, 1.0), None]),
        ([0, 2], [0, 1, 2], [(0, -1.0), None, (0, 1.0)]),
        ([1, 2], [0, 1, 2], [None, (0, -1.0), (0, 1.0)]),
        ([1], [1, 2, 3], [(0, 1.0), None, None]),
        ([0, 1, 2], [-1, 0, 1, 2], [None, (0, 1.0), (1, 1.0), (2, 1.0)]),
        (["b"], ["a", "b"], [(0, 1.0)]),
        (["a"], ["a", "b"], [(0, -1.0)]),
    ],
)
def test_rows_come_from_where_they_should(old, new, expected):
    assert class_rows(np.array(old), np.array(new)) == expected


def test_many_different_whole_floats_are_numbers_and_a_line_says_so():
    y = np.arange(60.0)
    with pytest.warns(UserWarning, match="60 distinct whole numbers in 60 rows, as floats"):
        assert are_numbers(y, None)
    assert not are_numbers(y % 20, None)  # few: they stay classes
    with pytest.raises(TargetError, match="60 distinct whole numbers"):
        are_numbers(y.astype(int), None)
