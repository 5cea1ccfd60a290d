"""From Arrow to rows, without a JVM."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from fires.core.errors import InputError
from fires.integrations.spark.rows import Layout, Part, in_pieces, shard_of

NUMBERS = Layout((Part("number", ("a",), 1), Part("number", ("b",), 1)), "y")


def batch(**columns):
    return pa.RecordBatch.from_pydict(columns)


def vectors(*rows):
    """As Spark ML sends them: type 0 is sparse, 1 is dense."""
    kind = pa.struct(
        [
            ("type", pa.int8()),
            ("size", pa.int32()),
            ("indices", pa.list_(pa.int32())),
            ("values", pa.list_(pa.float64())),
        ]
    )
    return pa.array(rows, kind)


def sparse(size, indices, values):
    return {"type": 0, "size": size, "indices": indices, "values": values}


def dense(values):
    return {"type": 1, "size": None, "indices": None, "values": values}


def test_numbers_of_any_kind_become_float64_and_missing_ones_nan():
    rows = batch(a=[1, None, 3], b=[True, False, True], y=["u", "v", "u"])
    shard, n_left_out = shard_of([rows, rows.slice(1)], NUMBERS)
    assert_array_equal(shard.X, [[1, 1], [np.nan, 0], [3, 1], [np.nan, 0], [3, 1]])
    assert shard.X.flags.c_contiguous
    assert shard.X.dtype == np.float64
    assert (shard.y.tolist(), shard.n_missing, n_left_out) == (["u", "v", "u", "v", "u"], 2, 0)


def test_rows_without_a_target_are_left_out_and_counted():
    for labels in (["u", None, "v"], [0.5, float("nan"), 1.5]):
        shard, n_left_out = shard_of([batch(a=[1.0, 2.0, 3.0], b=[0, 0, 0], y=labels)], NUMBERS)
        assert (shard.X[:, 0].tolist(), n_left_out) == ([1.0, 3.0], 1)


def test_dense_and_sparse_vectors_are_the_same_rows():
    column = vectors(sparse(3, [0, 2], [1.0, 2.0]), dense([4.0, 5.0, 6.0]), sparse(3, [], []))
    rows = batch(v=column, y=[0, 1, 0])
    wanted = [[1, 0, 2], [4, 5, 6], [0, 0, 0]]
    layout = Layout((Part("vector", ("v",), 3),), "y")
    assert_array_equal(shard_of([rows], layout)[0].X, wanted)
    stored = shard_of([rows], Layout(layout.parts, "y", is_sparse=True))[0].X
    assert sp.issparse(stored)
    assert stored.has_canonical_format
    assert_array_equal(stored.toarray(), wanted)


def test_places_and_values_are_put_in_order():
    layout = Layout((Part("entries", ("i", "v"), 5),), "y", is_sparse=True)
    X = shard_of(
        [batch(i=[[4, 1], [], [1, 1]], v=[[8.0, 2.0], [], [3.0, 4.0]], y=[0, 1, 1])], layout
    )
    assert_array_equal(X[0].X.toarray(), [[0, 2, 0, 0, 8], [0] * 5, [0, 7, 0, 0, 0]])
    assert X[0].X.has_canonical_format


def test_vectors_and_numbers_stand_side_by_side():
    parts = Part("number", ("a",), 1), Part("array", ("v",), 2)
    rows = batch(a=[1.0, 2.0], v=[[3.0, None], [5.0, 6.0]], y=[0, 1])
    shard, _ = shard_of([rows], Layout(parts, "y"))
    assert_array_equal(shard.X, [[1, 3, np.nan], [2, 5, 6]])


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (batch(a=[1.0, np.inf], b=[1, 2], y=[0, 1]), "infinity.*row 1, column 'a'"),
        (batch(a=[1.0, 2.0], b=[1, 2], y=[0, 1], w=[1.0, -1.0]), 'weights in "w" must be'),
    ],
)
def test_what_cannot_be_used_is_named(rows, said):
    weight = "w" if "w" in rows.schema.names else None
    with pytest.raises(ValueError, match=said):
        shard_of([rows], Layout(NUMBERS.parts, "y", weight))


def test_vectors_of_another_length_are_refused():
    layout = Layout((Part("vector", ("v",), 3),), "y")
    with pytest.raises(InputError, match="a vector of length 2, and those before have 3"):
        shard_of([batch(v=vectors(dense([1.0, 2.0])), y=[0])], layout)


@pytest.mark.parametrize("cuts", [(10,), (3, 7), (1, 2, 3, 4), (4, 4, 2)])
def test_pieces_do_not_depend_on_how_rows_come(cuts):
    whole, start, parts = pa.RecordBatch.from_pydict({"a": list(range(10))}), 0, []
    for cut in cuts:
        parts.append(whole.slice(start, cut))
        start += cut
    pieces = [pa.Table.from_batches(one)["a"].to_pylist() for one in in_pieces(parts, 4)]
    assert pieces == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
