"""What can be said without any feature."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fires.predictors import Majority, Mean

LABELS = st.lists(st.lists(st.sampled_from("abcd"), min_size=1, max_size=8), min_size=1, max_size=5)


@given(batches=LABELS)
def test_the_most_common_label_so_far_is_said_and_of_equals_the_first(batches):
    model, seen = Majority(), []
    for labels in batches:
        model.partial_fit(np.zeros((len(labels), 2)), np.array(labels))
        seen += labels
        best = max(sorted(set(seen)), key=seen.count)
        assert model.predict(np.ones((3, 2))).tolist() == [best] * 3
        assert model.shares == {label: seen.count(label) / len(seen) for label in sorted(set(seen))}


def test_a_row_counts_by_its_weight():
    model = Majority().partial_fit(np.zeros((3, 1)), np.array([0, 1, 1]), sample_weight=[3, 1, 1])
    assert model.predict(np.zeros((1, 1))).tolist() == [0]


def test_before_the_first_batch_there_are_no_shares():
    assert Majority().shares == {}


def test_the_mean_is_that_of_all_numbers_so_far():
    rng, model, seen = np.random.default_rng(0), Mean(), []
    for n in (3, 1, 7):
        y = 1e6 + rng.normal(size=n)
        seen.extend(y)
        prediction = model.partial_fit(np.zeros((n, 1)), y).predict(np.zeros((2, 1)))
        np.testing.assert_allclose(prediction, np.mean(seen))


def test_the_mean_goes_by_weight():
    model = Mean().partial_fit(np.zeros((2, 1)), np.array([1.0, 4.0]), sample_weight=[2, 1])
    assert model.predict(np.zeros((1, 1))) == pytest.approx([2.0])


def test_labels_have_no_mean():
    with pytest.raises(ValueError, match="Mean learns finite numbers"):
        Mean().partial_fit(np.zeros((1, 1)), np.array(["a"]))
