"""A stream over data that is already in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from fires.core.types import CsrRows, Frame, Label, Labels, Matrix, Numbers
from fires.streams.base import Batch, CountedRows, Schema, numbered_columns


class ArrayStream(CountedRows):
    """Rows of an array, in order. Made by :func:`from_arrays`."""

    def __init__(self, X: Numbers | CsrRows, y: Labels, schema: Schema) -> None:
        self.schema = schema
        self._X = X
        self._y = y

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows in order."""
        for start, stop, position in self._ranges(len(self._y), batch_size):
            yield Batch(_rows(self._X, start, stop), self._y[start:stop], position)


def from_arrays(
    X: npt.ArrayLike | CsrRows | Frame,
    y: npt.ArrayLike,
    feature_names: Sequence[str] | None = None,
    *,
    target: str = "target",
    classes: Sequence[Label] | None = None,
) -> ArrayStream:
    """Make a stream of a matrix and its labels.

    Batches of a C-ordered float64 array, and of a CSR matrix, are views; other layouts and
    number types are converted one batch at a time.

    Parameters
    ----------
    X : array, SciPy sparse matrix or array, pandas or polars frame
        Numbers only, one row per sample.
    y : sequence of length n_samples
        Labels or numbers, handed out as they are.
    feature_names : sequence of str, optional
        Default: the columns of a frame, otherwise x0, x1, ...
    target : str
        The name of y.
    classes : sequence, optional
        All labels that can occur, if they are known.

    Returns
    -------
    ArrayStream
        The stream.

    Examples
    --------
    >>> stream = from_arrays([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], ["a", "b", "a"])
    >>> stream.schema.feature_names
    ('x0', 'x1')
    >>> [batch.X.tolist() for batch in stream.batches(2)]
    [[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]]]
    """
    if feature_names is None and hasattr(X, "columns"):
        feature_names = [str(name) for name in X.columns]
    matrix: Any = X
    if sparse.issparse(X):
        matrix = matrix.tocsr()
    else:
        # A frame's own columns are not contiguous rows: one conversion, not one per batch.
        matrix = matrix.to_numpy() if hasattr(X, "to_numpy") else np.asarray(X)
        if matrix.dtype.kind not in "biuf":
            matrix = matrix.astype(np.float64)
    labels, shape = np.asarray(y), matrix.shape
    if matrix.ndim != 2 or labels.ndim != 1 or shape[0] != len(labels):
        raise ValueError(f"X and y do not belong together: shapes {shape} and {labels.shape}.")
    if feature_names is None:
        feature_names = numbered_columns(shape[1])
    if len(feature_names) != shape[1]:
        raise ValueError(f"{len(feature_names)} feature names for {shape[1]} columns.")
    known = None if classes is None else tuple(classes)
    return ArrayStream(matrix, labels, Schema(tuple(feature_names), target, known))


def _rows(X: Any, start: int, stop: int) -> Matrix:
    """Rows start to stop as float64, without a copy where the layout allows it."""
    if not sparse.issparse(X):
        return np.ascontiguousarray(X[start:stop], dtype=np.float64)
    first, last = X.indptr[start], X.indptr[stop]
    rows: CsrRows = type(X)((stop - start, X.shape[1]), dtype=np.float64)
    # Set directly: the constructor copies views that are small beside what they are views of.
    rows.data = X.data[first:last].astype(np.float64, copy=False)
    rows.indices = X.indices[first:last]
    rows.indptr = X.indptr[start : stop + 1] - first
    return rows
