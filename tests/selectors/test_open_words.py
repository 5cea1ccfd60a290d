"""Words and a selector with open columns."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fires
from fires import FIRES
from fires.core.errors import InputError
from fires.streams import NamedRows, Words


def stream(seed, n_batches=8, n_rows=20):
    """Lists of words, of which ``yes`` and ``no`` tell the class, and new ones always come."""
    rng = np.random.default_rng(seed)
    for batch in range(n_batches):
        y = rng.integers(0, 2, n_rows)
        common = [[f"w{word}" for word in row] for row in rng.integers(0, 30, (n_rows, 5))]
        telling = [[("no", "yes")[label]] if rng.random() < 0.8 else [] for label in y]
        new = [[f"new{batch}_{row}"] for row in range(n_rows)]
        yield [[*a, *b, *c] for a, b, c in zip(common, telling, new, strict=True)], y


def by_name(selector):
    return dict(zip(selector.feature_names_in_, selector.importances_.tolist(), strict=True))


def open_selector(**settings):
    return FIRES(2, columns="open", absent="zero", **settings)


@given(st.integers(0, 2**16), st.sampled_from([1, 20, 60]))
@settings(max_examples=10)
def test_the_bound_of_the_vocabulary_changes_nothing_that_is_learnt(seed, max_words):
    bounded, free = Words(max_words), Words()
    one, other = open_selector(), open_selector()
    for rows, y in stream(seed):
        one.partial_fit(bounded.rows(rows), y)
        other.partial_fit(free.rows(rows), y)
    assert bounded.n_forgotten
    expected = by_name(other)
    assert by_name(one) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert set(one.get_feature_names_out()) == set(other.get_feature_names_out())


@pytest.mark.parametrize("columns", ["dicts", "list of names"])
def test_words_are_learnt_from_as_dicts_and_plain_names_are(columns):
    words, one, other = Words(), open_selector(), open_selector()
    for rows, y in stream(0):
        found = words.rows(rows)
        one.partial_fit(found, y)
        if columns == "dicts":
            other.partial_fit([dict.fromkeys(row, 1.0) for row in rows], y)
        else:
            other.partial_fit(NamedRows(found.matrix, list(found.names)), y)
    assert by_name(one) == pytest.approx(by_name(other), rel=1e-9, abs=1e-12)
    assert sorted(one.get_feature_names_out()) == ["no", "yes"]


def test_a_fixed_width_leads_to_the_same():
    words = Words()
    batches = [(words.rows(rows), y) for rows, y in stream(0)]
    one, other = open_selector(), FIRES(2)
    for rows, y in batches:  # whose book has grown since
        one.partial_fit(rows, y)
        fixed = rows.matrix.copy()
        fixed.resize(fixed.shape[0], len(words.names))
        other.partial_fit(fixed, y)
    assert sorted(one.get_feature_names_out()) == ["no", "yes"]
    assert {words.names[place] for place in other.get_support(indices=True)} == {"no", "yes"}


def test_rows_are_transformed_by_any_words():
    words, selector = Words(), open_selector()
    for rows, y in stream(0):
        selector.partial_fit(words.rows(rows), y)
    first = selector.get_feature_names_out().tolist().index("yes")
    for others in (words, Words(), Words(max_words=1)):
        others.rows([["something", "else"]])
        found = selector.transform(others.rows([["never", "yes"], ["w1"], ["no"]])).toarray()
        assert found[:, first].tolist() == [1.0, 0.0, 0.0]
        assert found[:, 1 - first].tolist() == [0.0, 0.0, 1.0]
        assert selector.mask(others.rows([["yes", "w1"]])).sum() == 1.0


def test_a_name_of_a_refused_batch_does_not_take_the_place_of_another():
    words, one, other = Words(), open_selector(), open_selector()
    batches = list(stream(0))
    for selector in (one, other):
        selector.partial_fit(words.rows(batches[0][0]), batches[0][1])
    refused = words.rows([["refused", "w1"], ["w2"]])
    with pytest.raises(ValueError, match="y"):
        one.partial_fit(refused, [0, 1, 1])
    for rows, y in [(batches[1]), ([["refused"], ["w1"]] * 10, batches[2][1])]:
        one.partial_fit(words.rows(rows), y)
        other.partial_fit(words.rows(rows), y)
    assert by_name(one) == by_name(other)


def test_words_are_forgotten_by_the_selector_too():
    words, selector = Words(50), open_selector(forget_after=60)
    for rows, y in stream(0, n_batches=30):
        selector.partial_fit(words.rows(rows), y)
        assert selector.n_features_in_ < 400
    assert sorted(selector.get_feature_names_out()) == ["no", "yes"]


def test_a_saved_selector_goes_on_with_new_words(tmp_path):
    batches = list(stream(0))
    words, selector = Words(), open_selector()
    for rows, y in batches[:4]:
        selector.partial_fit(words.rows(rows), y)
    selector.save(tmp_path / "selector")
    loaded, others = fires.load(tmp_path / "selector"), Words()
    for rows, y in batches[4:]:
        selector.partial_fit(words.rows(rows), y)
        loaded.partial_fit(others.rows(rows), y)
    assert by_name(loaded) == pytest.approx(by_name(selector), rel=1e-9, abs=1e-12)


def test_a_selected_word_is_forgotten_in_time_even_if_few_others_are():
    rng, words, selector = np.random.default_rng(0), Words(), open_selector(forget_after=400)
    for batch in range(40):
        y = rng.integers(0, 2, 50)
        noise = [[f"w{word}" for word in row] for row in rng.integers(0, 100, (50, 10))]
        old_or_new = "old" if batch < 20 else "new"
        rows = [[*row, f"{old_or_new}{label}"] for row, label in zip(noise, y, strict=True)]
        selector.partial_fit(words.rows(rows), y)
    assert sorted(selector.get_feature_names_out()) == ["new0", "new1"]
    assert "old0" not in selector.feature_names_in_


def test_texts_may_be_empty_at_first():
    words = Words()
    words.rows(["known before the selector"])
    selector = FIRES(1, columns="open", absent="zero")
    selector.partial_fit(words.rows(["", ""]), [0, 1])
    assert selector.n_features_in_ == 0
    for _ in range(20):
        selector.partial_fit(words.rows(["good one", "bad one"] * 5), [1, 0] * 5)
    assert selector.get_feature_names_out().tolist() in (["good"], ["bad"])


def test_the_first_rows_must_have_a_column_where_absent_ones_are_missing():
    words = Words()
    words.rows(["known before the selector"])
    with pytest.raises(InputError, match="X has no columns"):
        FIRES(1, columns="open").partial_fit(words.rows(["", ""]), [0, 1])
