"""A data set of the paper as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fires.bench.datasets.catalogue import Info
from fires.core.belief import Floats
from fires.streams.arrays import from_arrays
from fires.streams.base import Batch, Schema, Stream


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set as a stream, with the facts that a report should name.

    It is made by :func:`fires.bench.datasets.loading.load`.
    """

    info: Info
    n_samples: int
    notes: tuple[str, ...]
    complete: bool
    path: Path | None
    _stream: Stream = field(repr=False)
    _low_and_span: tuple[Floats, Floats] | None = field(default=None, repr=False)

    @property
    def schema(self) -> Schema:
        """The names of the columns, and the two classes; the greater is the positive one."""
        return self._stream.schema

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """Hand out the rows in order, as float64; the last batch may be shorter."""
        for batch in self._stream.batches(batch_size):
            if self._low_and_span is not None:
                low, span = self._low_and_span
                # A new one: what else a batch may refer to are rows before they were scaled.
                batch = Batch((np.asarray(batch.X) - low) / span, batch.y, batch.position)
            yield batch

    def to_arrays(
        self, dtype: npt.DTypeLike = np.float64
    ) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.int64]]:
        """All rows at once."""
        X = np.empty((self.n_samples, self.schema.n_features), dtype=dtype)
        y = np.empty(self.n_samples, dtype=np.int64)
        for batch in self.batches(1_000):
            stop = batch.position.rows
            X[stop - batch.n_rows : stop] = batch.X
            y[stop - batch.n_rows : stop] = batch.y
        return X, y

    def in_memory(self, *, scaled: bool = False) -> Dataset:
        """The same rows, made once and kept as float32: to generate them takes long."""
        X, y = self.to_arrays(np.float32)
        names, target, classes = astuple(self.schema)
        kept = from_arrays(X, y, names, target=target, classes=classes)
        return replace(self, _stream=kept, _low_and_span=low_and_span(X) if scaled else None)


def low_and_span(X: npt.NDArray[np.generic]) -> tuple[Floats, Floats]:
    """The least value of each column, and how far above it the greatest is; 1 if it is not."""
    low, high = (edge.astype(np.float64) for edge in (X.min(axis=0), X.max(axis=0)))
    return low, np.where(high > low, high - low, 1.0)
