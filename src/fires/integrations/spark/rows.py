"""From the Arrow batches of a partition to rows that a task can take.

Everything here runs on the workers. A column of numbers, a ``Vector`` of Spark ML (which is a
struct to Arrow) and arrays are read without a loop over rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from fires.core import validation
from fires.core.batch import CheckedBatch
from fires.core.errors import InputError
from fires.core.optional import require
from fires.core.types import Floats, Ints, Labels
from fires.kernels import scan

if TYPE_CHECKING:
    from pyarrow import Array as ArrowArray
    from pyarrow import RecordBatch

    from fires.integrations.spark.layout import Layout, Part

_OWNER = "FIRES"
_SPARSE_VECTOR = 0
"""What Spark ML writes into the field ``type`` of a sparse vector; 1 is a dense one."""


def in_pieces(batches: Iterable[RecordBatch], n_rows: int) -> Iterator[list[RecordBatch]]:
    """Cut Arrow batches anew: all pieces but the last have the same number of rows."""
    held: list[RecordBatch] = []
    n_held = 0
    for batch in batches:
        start = 0
        while n_held + batch.num_rows - start >= n_rows:
            part = batch.slice(start, n_rows - n_held)
            yield [*held, part]
            start += part.num_rows
            held, n_held = [], 0
        if start < batch.num_rows:
            held.append(batch.slice(start))
            n_held += batch.num_rows - start
    if held:
        yield held


def shard_of(batches: list[RecordBatch], layout: Layout) -> tuple[CheckedBatch, int]:
    """The rows of some Arrow batches, in the form that tasks take."""
    parts = [_usable(batch, layout) for batch in batches]
    n_left_out = sum(batch.num_rows - usable.num_rows for batch, usable in parts)
    usable = [part for _, part in parts]
    rows = [_matrix(batch, layout) for batch in usable]
    X = rows[0]
    if len(rows) > 1:
        X = sp.vstack(rows, format="csr") if layout.is_sparse else np.concatenate(rows)
    y = np.concatenate([_labels(batch.column(layout.target)) for batch in usable])
    weight = None
    if layout.weight is not None:
        weight = np.concatenate([_numbers(batch.column(layout.weight)) for batch in usable])
        if not (np.isfinite(weight).all() and (weight >= 0.0).all()):
            raise InputError(f'the weights in "{layout.weight}" must be numbers of 0 or more')
    counts = scan(X.data if layout.is_sparse else X)
    if any(counts):
        names = np.array(layout.names, dtype=object)
        validation.refuse(X, counts, names, missing=layout.missing, owner=_OWNER)
    target = validation.as_target(y, len(y), _OWNER) if len(y) else y
    return CheckedBatch(X, target, weight, counts[0]), n_left_out


def widths_of(batches: Iterable[RecordBatch], layout: Layout) -> dict[str, npt.NDArray[np.generic]]:
    """How long the vectors of a partition are, and whether some of them are sparse."""
    widths = np.array([part.width for part in layout.parts])
    is_sparse = int(layout.is_sparse)
    for batch in batches:
        for place, part in enumerate(layout.parts):
            if part.kind == "number" or part.kind == "entries":
                continue
            column = batch.column(part.columns[0]).drop_null()
            lengths = _lengths(column.field("values") if part.kind == "vector" else column)
            if part.kind == "vector":
                sparse = _whole(column.field("type")) == _SPARSE_VECTOR
                is_sparse = max(is_sparse, int(sparse.any()))
                lengths = np.where(sparse, _whole(column.field("size")), lengths)
            widths[place] = max(widths[place], lengths.max(initial=0))
    return {"max width": widths, "max is_sparse": np.array(is_sparse)}


def _usable(batch: RecordBatch, layout: Layout) -> tuple[RecordBatch, RecordBatch]:
    """A batch, and its rows that have a target and vectors."""
    pa, pc = _arrow("pyarrow"), _arrow("pyarrow.compute")
    target = batch.column(layout.target)
    present = target.is_valid()
    if pa.types.is_floating(target.type):
        present = pc.and_(present, pc.invert(pc.fill_null(pc.is_nan(target), True)))
    for part in layout.parts:
        if part.kind != "number":
            for column in part.columns:
                present = pc.and_(present, batch.column(column).is_valid())
    return batch, batch if pc.all(present).as_py() is not False else batch.filter(present)


def _matrix(batch: RecordBatch, layout: Layout) -> Any:
    if all(part.kind == "number" for part in layout.parts):
        columns = [_numbers(batch.column(part.columns[0])) for part in layout.parts]
        return np.ascontiguousarray(np.array(columns).T)
    blocks = [_block(batch, part, sparse=layout.is_sparse) for part in layout.parts]
    if layout.is_sparse:
        matrix = sp.csr_array(sp.hstack(blocks, format="csr")) if len(blocks) > 1 else blocks[0]
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # what comes from Arrow cannot be written to
            matrix.sum_duplicates()
        return matrix
    return np.ascontiguousarray(np.concatenate(blocks, axis=1) if len(blocks) > 1 else blocks[0])


def _block(batch: RecordBatch, part: Part, *, sparse: bool) -> Any:
    """The features of one part, dense or as CSR."""
    n_rows, width = batch.num_rows, part.width
    column = batch.column(part.columns[0])
    if part.kind == "number":
        dense = _numbers(column)[:, None]
        return sp.csr_array(dense) if sparse else dense
    if part.kind == "array":
        _refuse_lengths(_lengths(column), width, part)
        dense = _numbers(column.flatten()).reshape(n_rows, width)
        return sp.csr_array(dense) if sparse else dense
    if part.kind == "vector":
        places, values, counts = _entries_of_vectors(column, part)
    else:
        places, counts = _whole(column.flatten()), _lengths(column)
        values = _numbers(batch.column(part.columns[1]).flatten())
        if len(values) != len(places):
            first, second = part.columns
            raise InputError(f'"{first}" and "{second}" do not have as many entries in every row')
        if len(places) and not (places.min() >= 0 and places.max() < width):
            raise InputError(
                f'"{part.columns[0]}" has places that are not from 0 to {width - 1:,}',
                hint="give n_features",
            )
    edges = np.concatenate([[0], np.cumsum(counts)])
    matrix = sp.csr_array((values, places, edges), shape=(n_rows, width))
    return matrix if sparse else matrix.toarray()


def _entries_of_vectors(column: ArrowArray, part: Part) -> tuple[Ints, Floats, Ints]:
    """Places and values of the entries of ``Vector``s, and how many each row has."""
    kinds, sizes, indices, lists = column.flatten()
    is_sparse = _whole(kinds) == _SPARSE_VECTOR
    counts, values = _lengths(lists), _numbers(lists.flatten())
    _refuse_lengths(np.where(is_sparse, _whole(sizes), counts), part.width, part)
    if is_sparse.all():
        return _whole(indices.flatten()), values, counts
    of_sparse = np.repeat(is_sparse, counts)
    places = np.empty(len(values), dtype=np.int64)
    places[of_sparse] = _whole(indices.flatten())
    places[~of_sparse] = np.tile(np.arange(part.width), int((~is_sparse).sum()))
    return places, values, counts


def _refuse_lengths(lengths: Ints, width: int, part: Part) -> None:
    if len(lengths) and not (lengths == width).all():
        other = lengths[lengths != width][0]
        raise InputError(
            f'"{part.columns[0]}" holds a vector of length {other:,}, and those before have '
            f"{width:,}"
        )


def _numbers(column: ArrowArray) -> Floats:
    """A column as float64, with NaN for what is missing."""
    pa = _arrow("pyarrow")
    if not pa.types.is_float64(column.type):
        column = column.cast(pa.float64())
    numbers: Floats = column.to_numpy(zero_copy_only=False)
    return numbers


def _whole(column: ArrowArray) -> Ints:
    """A column as whole numbers; 0 for what is missing."""
    pc = _arrow("pyarrow.compute")
    filled = pc.fill_null(column, 0)
    return np.asarray(filled.to_numpy(zero_copy_only=False)).astype(np.int64)


def _lengths(column: ArrowArray) -> Ints:
    """The lengths of lists; 0 for what is missing."""
    pc = _arrow("pyarrow.compute")
    return _whole(pc.list_value_length(column))


def _labels(column: ArrowArray) -> npt.NDArray[np.generic]:
    """Labels or numbers, none of them missing."""
    pa = _arrow("pyarrow")
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.float64())
    labels: Labels = column.to_numpy(zero_copy_only=False)
    return labels


def _arrow(module: str) -> Any:
    return require(module, "fires on Spark", extra="spark")
