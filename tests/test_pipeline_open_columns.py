"""A pipeline around a selector whose columns come and go."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.selectors.test_open_columns import arrival, stream, words

import fires
from fires import FIRES, OnlinePipeline


@pytest.mark.parametrize("preprocess", ["standard", "minmax", None])
def test_scale_and_selection_are_those_of_fixed_columns_with_gaps(preprocess):
    batches = list(stream(4, n_batches=20))
    names = arrival(batches)
    opened = OnlinePipeline(FIRES(3, columns="open", scale=preprocess), None, preprocess)
    fixed = OnlinePipeline(FIRES(3, scale=preprocess), None, preprocess)
    for frame, y in batches:
        opened.partial_fit(frame, y)
        fixed.partial_fit(frame.reindex(columns=names), y)
    assert list(opened.feature_names_in_) == names
    assert_allclose(opened.selector.importances_, fixed.selector.importances_, rtol=1e-7, atol=1e-9)
    assert_array_equal(opened.selector.get_support(), fixed.selector.get_support())
    assert opened.n_missing_ == sum(int(frame.isna().to_numpy().sum()) for frame, _ in batches)


def test_the_selector_learns_what_it_learns_alone():
    alone, piped = FIRES(3, columns="open"), OnlinePipeline(FIRES(3, columns="open"))
    for frame, y in stream(6):
        alone.partial_fit(frame, y)
        piped.partial_fit(frame, y)
    assert_allclose(piped.selector.importances_, alone.importances_, rtol=1e-9, atol=1e-12)
    assert piped.selector.absent_ == alone.absent_


@pytest.mark.parametrize("how", [{}, {"forget_after": 200}])
def test_saved_and_loaded_it_goes_on(tmp_path, how):
    batches = list(stream(2, n_batches=16))
    whole, half = (OnlinePipeline(FIRES(3, columns="open", **how)) for _ in range(2))
    for frame, y in batches:
        whole.partial_fit(frame, y)
    for frame, y in batches[:8]:
        half.partial_fit(frame, y)
    half.save(tmp_path / "half.fires")
    again = fires.load(tmp_path / "half.fires")
    for frame, y in batches[8:]:
        again.partial_fit(frame, y)
    assert_array_equal(again.selector.importances_, whole.selector.importances_)
    assert list(again.feature_names_in_) == list(whole.feature_names_in_)


def test_words_go_through_a_pipeline():
    pipeline = OnlinePipeline(FIRES(2, columns="open", absent="zero"))
    for rows, y in words(0, n_batches=12):
        pipeline.partial_fit(rows, y)
    assert set(pipeline.selector.get_feature_names_out()) == {"w1", "w3"}
    assert_array_equal(pipeline.transform([{"w1": 1.0}]).toarray().sum(), 1.0)


def test_a_batch_that_is_refused_changes_nothing():
    pipeline = OnlinePipeline(FIRES(1, columns="open"))
    pipeline.partial_fit([{"a": 0.0}, {"a": 1.0}], [0, 1])
    with pytest.raises(ValueError, match="y"):
        pipeline.partial_fit([{"b": 0.0}, {"a": 1.0}], [0, None])
    assert list(pipeline.feature_names_in_) == ["a"]
    pipeline.partial_fit([{"c": 0.0, "a": 2.0}, {"a": 1.0}], [0, 1])
    assert list(pipeline.feature_names_in_) == ["a", "c"]
    assert pipeline.selector.n_samples_seen_ == 4
    assert np.isfinite(pipeline.selector.importances_).all()
