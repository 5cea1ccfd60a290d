"""Data in memory is cut into batches without being copied or changed."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from fires.streams.arrays import from_arrays

X = np.arange(12.0).reshape(6, 2)
y = np.array([0, 1, 0, 1, 0, 1])


@given(n=st.integers(0, 30), batch_size=st.integers(1, 40))
def test_batches_are_all_rows_in_order(n, batch_size):
    data = np.arange(2.0 * n).reshape(n, 2)
    batches = list(from_arrays(data, np.arange(n)).batches(batch_size))
    assert [row for batch in batches for row in batch.X.tolist()] == data.tolist()
    assert [label for batch in batches for label in batch.y.tolist()] == list(range(n))
    assert all(batch.n_rows == batch_size for batch in batches[:-1])
    assert [batch.position.rows for batch in batches] == [
        min(n, (i + 1) * batch_size) for i in range(len(batches))
    ]


@pytest.mark.parametrize(
    "convert",
    [
        np.asfortranarray,
        lambda a: a.astype(np.float32),
        lambda a: a.astype(np.int64),
        lambda a: a.astype(object),
        lambda a: a[::-1][::-1],
        np.ndarray.tolist,
        lambda a: pd.DataFrame(a),
        lambda a: pl.DataFrame(a),
    ],
)
def test_every_form_of_the_data_gives_the_same_batches(convert):
    for batch, expected in zip(
        from_arrays(convert(X), y).batches(4), from_arrays(X, y).batches(4), strict=True
    ):
        assert batch.X.dtype == np.float64
        assert batch.X.flags.c_contiguous
        np.testing.assert_array_equal(batch.X, expected.X)


def test_batches_of_an_array_are_views():
    for batch in from_arrays(X, y).batches(4):
        assert np.shares_memory(batch.X, X)
        assert np.shares_memory(batch.y, y)


@pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix, sparse.coo_array])
def test_sparse_data_stays_sparse(kind):
    data = kind(X)
    batches = list(from_arrays(data, y).batches(4))
    assert all(sparse.issparse(batch.X) and batch.X.format == "csr" for batch in batches)
    np.testing.assert_array_equal(np.vstack([batch.X.toarray() for batch in batches]), X)
    if data.format == "csr":
        assert all(np.shares_memory(batch.X.data, data.data) for batch in batches)


def test_names_come_from_the_frame_or_the_caller():
    frame = pd.DataFrame(X, columns=["age", 7])
    assert from_arrays(frame, y).schema.feature_names == ("age", "7")
    stream = from_arrays(frame, y, ["a", "b"], target="t", classes=[0, 1])
    assert stream.schema.feature_names == ("a", "b")
    assert (stream.schema.target, stream.schema.classes) == ("t", (0, 1))


def test_what_does_not_belong_together_is_refused():
    with pytest.raises(ValueError, match=r"shapes \(6, 2\) and \(5,\)"):
        from_arrays(X, y[:5])
    with pytest.raises(ValueError, match="3 feature names for 2 columns"):
        from_arrays(X, y, ["a", "b", "c"])
