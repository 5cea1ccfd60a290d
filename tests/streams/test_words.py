"""Texts become rows of words, with names that are words."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.feature_extraction.text import CountVectorizer

from fires.core.errors import InputError
from fires.streams import Words

# Letters of several scripts, those that grow in lower case, digits, and what ends a word.
alphabet = st.sampled_from(
    "abcABC\u00e4\u00d6\u00df\u0130\u03a3\u0430\u4e2d\u0661\u0301_019 \t\n-.'|"
)
texts = st.lists(st.text(alphabet, max_size=30), min_size=1, max_size=8)


def by_name(rows):
    """Dense rows, by the name of the column."""
    return dict(zip(rows.names, rows.matrix.toarray().T.tolist(), strict=True))


def column(name, rows):
    return by_name(rows)[name]


@given(texts, st.booleans())
def test_rows_are_those_of_scikit_learn(texts, binary):
    rows = Words(binary=binary).rows(texts)
    assert rows.matrix.has_canonical_format
    counter = CountVectorizer(binary=binary)
    expected = counter.fit_transform([*texts, "xx"])[:-1].toarray()  # it refuses to have no words
    names = counter.get_feature_names_out().tolist()
    found = by_name(rows)
    for name, values in zip(names, expected.T.tolist(), strict=True):
        assert found.pop(name, [0.0] * len(texts)) == values
    assert not found


def test_a_row_without_words_is_empty():
    texts = ["", None, float("nan"), np.nan, pd.NA, "a . -", []]
    rows = Words().rows(texts)
    assert rows.matrix.shape == (7, 0)
    assert len(rows.names) == 0


def test_no_rows_at_all():
    assert Words().rows([]).matrix.shape == (0, 0)


def test_numbers_are_read_as_text():
    rows = Words().rows([2024, 3.25, np.int64(77), True])
    assert list(rows.names) == ["2024", "25", "77", "true"]


def test_a_word_that_is_there_twice_counts_once_or_twice():
    texts = ["gold gold oil"]
    assert by_name(Words().rows(texts)) == {"gold": [1.0], "oil": [1.0]}
    assert by_name(Words(binary=False).rows(texts)) == {"gold": [2.0], "oil": [1.0]}


def test_lists_of_words_are_taken_as_they_are():
    rows = Words().rows([["user=1", "Site=A b"], ("x", None, 7), np.array(["user=1"])])
    assert list(rows.names) == ["user=1", "Site=A b", "x", "7"]
    assert column("user=1", rows) == [1.0, 0.0, 1.0]


def test_an_own_function_splits_whatever_a_row_is():
    words = Words(split=lambda row: (f"{key}={value}" for key, value in row.items()))
    rows = words.rows([{"user": 1, "site": "a"}, None, {"user": 2}])
    assert list(rows.names) == ["user=1", "site=a", "user=2"]
    assert column("user=2", rows) == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("frame", [pd.Series, pl.Series, np.array, iter, tuple])
def test_texts_may_come_in_any_column(frame):
    rows = Words().rows(frame(["gold oil", "oil"]))
    assert by_name(rows) == {"gold": [1.0, 0.0], "oil": [1.0, 1.0]}


def test_one_text_is_refused():
    for one in ("gold and oil", {"gold": 1.0}):
        with pytest.raises(InputError, match="one row, not several; pass a list of rows"):
            Words().rows(one)


def test_a_row_of_another_kind_is_refused_and_nothing_is_changed():
    words = Words()
    with pytest.raises(
        InputError, match=r"row 1: it is a dict, not a text or a list.*; pass split="
    ):
        words.rows(["gold", {"a": 1}])
    assert (len(words.names), words.n_rows) == (0, 0)


def test_places_stay_while_words_join():
    words = Words()
    first = words.rows(["gold oil"])
    second = words.rows(["tin oil"])
    assert first.names is second.names
    assert list(second.names) == ["gold", "oil", "tin"]
    assert first.matrix.shape == (1, 2)
    assert second.matrix.toarray().tolist() == [[0.0, 1.0, 1.0]]


def test_at_the_bound_the_words_stay_that_were_seen_last():
    words = Words(max_words=4)
    first = words.rows([["a", "b"], ["c", "d"]])
    words.rows([["b", "d"]])
    assert list(words.rows([["e"]]).names) == ["a", "b", "c", "d", "e"]
    fourth = words.rows([["a", "f"]])
    assert list(fourth.names) == ["d", "e", "a", "f"]  # d and e stayed; a came again
    assert fourth.matrix.toarray().tolist() == [[0.0, 0.0, 1.0, 1.0]]
    assert list(first.names) == ["a", "b", "c", "d", "e"]  # rows handed out keep their names
    assert words.n_forgotten == 3


def test_only_the_words_of_one_batch_come_on_top_of_the_bound():
    words, rng = Words(max_words=50), np.random.default_rng(0)
    for _ in range(200):
        rows = words.rows([[str(word) for word in rng.integers(0, 1_000, 20)]])
        assert rows.matrix.shape[1] == len(rows.names) <= 50 + 20
    assert words.n_forgotten > 1_000


@given(st.lists(texts, min_size=2, max_size=4), st.sampled_from([1, 3, 100]))
def test_saved_words_go_on_as_if_nothing_had_happened(batches, max_words):
    words = Words(max_words)
    words.rows(batches[0])
    others = [
        pickle.loads(pickle.dumps(words)),
        copy.deepcopy(words),
    ]
    for texts in batches[1:]:
        expected = words.rows(texts)
        for other in others:
            found = other.rows(texts)
            assert list(found.names) == list(expected.names)
            assert_array_equal(found.matrix.toarray(), expected.matrix.toarray())


def test_settings_are_checked():
    with pytest.raises(ValueError, match="max_words must be at least 1"):
        Words(0)
