"""Sums over shards do not depend on where the rows lie."""

import numpy as np
import pytest

from fires.core.batch import CheckedBatch
from fires.core.errors import TargetError
from fires.core.sharding import Shards, add_up, at_columns, columns_of


def test_parts_are_combined_by_the_first_word_of_their_name():
    one = {
        "sum": np.array([1.0, 2.0]),
        "max far": np.array([1.0, 5.0]),
        "set labels": np.array(["b", "a"]),
        "list rows": np.array([4]),
    }
    two = {
        "sum": np.array([10.0, 20.0]),
        "max far": np.array([3.0, 4.0]),
        "set labels": np.array(["c", "a"]),
        "list rows": np.array([0, 2]),
    }
    total = add_up([one, {}, two])
    assert total["sum"].tolist() == [11.0, 22.0]
    assert total["max far"].tolist() == [3.0, 5.0]
    assert total["set labels"].tolist() == ["a", "b", "c"]
    assert total["list rows"].tolist() == [4, 0, 2]
    assert one["sum"].tolist() == [1.0, 2.0]


def test_sums_of_sums_are_the_sums_and_moments_those_of_all_rows():
    rows = np.random.default_rng(0).normal(3.0, 2.0, size=(4, 5, 2))
    parts = [
        {
            "moments x": np.stack([np.full(2, 5.0), one.mean(0), 5.0 * one.var(0)]),
            "list first": one[0, :1],
        }
        for one in rows
    ]
    total = add_up([add_up(parts[:3]), add_up(parts[3:])])
    whole = rows.reshape(20, 2)
    expected = [np.full(2, 20.0), whole.mean(0), 20.0 * whole.var(0)]
    np.testing.assert_allclose(total["moments x"], expected)
    assert total["list first"].tolist() == rows[:, 0, 0].tolist()


def test_labels_that_have_no_order_are_refused():
    with pytest.raises(TargetError, match="cannot be put in order"):
        add_up([{"set labels": np.array(["a"])}, {"set labels": np.array([1])}])


def test_sums_of_the_columns_that_shards_have_touched_are_those_of_all():
    given = ([4, 1], [2.0, 3.0]), ([1, 0], [-3.0, 7.0])
    parts = [at_columns(np.array(j), np.array([line, [1.0, 0.0]]), 5) for j, line in given]
    columns, lines = columns_of(add_up({"sum": part} for part in parts)["sum"])
    assert columns.tolist() == [0, 1, 4]
    assert lines.tolist() == [[7.0, 0.0, 2.0], [0.0, 1.0, 1.0]]
    greatest = add_up({"max part": part} for part in parts)["max part"]
    assert greatest.toarray()[0].tolist() == [7.0, 3.0, 0.0, 0.0, 2.0]


@pytest.mark.parametrize("n_rows", [0, 1, 5, 8])
def test_a_batch_is_cut_in_order_and_nothing_is_lost(n_rows):
    batch = CheckedBatch(np.arange(float(n_rows))[:, None], np.arange(n_rows))
    shards = Shards.cut(batch, 8)
    assert len(shards) == 8
    assert np.concatenate([shard.y for shard in shards]).tolist() == list(range(n_rows))
