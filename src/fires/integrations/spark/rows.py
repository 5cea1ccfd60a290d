"""Which columns of a Spark frame are features, target and weight, and how they become rows.

A :class:`Layout` is made on the driver. All else runs on the workers: a column of numbers, a
``Vector`` of Spark ML (which is a struct to Arrow) and arrays are read without a loop over rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from fires.core import validation
from fires.core.batch import CheckedBatch
from fires.core.errors import InputError
from fires.core.optional import require
from fires.core.output import enumeration
from fires.core.types import Floats, Header, Ints
from fires.kernels import scan

if TYPE_CHECKING:
    from pyarrow import Array as ArrowArray
    from pyarrow import RecordBatch
    from pyspark.sql.types import DataType, StructType

    from fires.selectors.fires import FIRES


Kind = Literal["number", "vector", "array", "entries"]

_NUMBERS = {"boolean", "byte", "short", "integer", "long", "float", "double", "decimal"}
_SHOWN = 10
_OWNER = "FIRES"
# What Spark ML writes into the field ``type`` of a sparse vector; 1 is a dense one.
_SPARSE_VECTOR = 0


@dataclass(frozen=True)
class Part:
    """Some features: a column of numbers, or one of vectors."""

    kind: Kind
    columns: tuple[str, ...]
    width: int = 0
    called: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """What the features are called."""
        if self.called:
            return list(self.called)
        if self.kind == "number":
            return [self.columns[0]]
        return [f"{self.columns[-1]}[{place}]" for place in range(self.width)]


@dataclass(frozen=True)
class Layout:
    """How a partition of a frame becomes rows to learn from."""

    parts: tuple[Part, ...]
    target: str
    weight: str | None = None
    is_sparse: bool = False
    missing: str = "ignore"

    @property
    def names(self) -> list[str]:
        """What the features are called."""
        return [name for part in self.parts for name in part.names]

    @property
    def is_known(self) -> bool:
        """Whether the number of features is known."""
        return all(part.width for part in self.parts)

    @property
    def n_features(self) -> int:
        """How many features there are."""
        return sum(part.width for part in self.parts)

    @property
    def columns(self) -> list[str]:
        """The columns of the frame that are needed."""
        found = [column for part in self.parts for column in part.columns]
        return [*found, self.target, *([self.weight] if self.weight else [])]

    def filled(self, n_features: int) -> Layout:
        """With so many features in all, if the length of one part only is not known."""
        if sum(not part.width for part in self.parts) != 1:
            return self
        width = max(n_features - self.n_features, 0)
        return replace(self, parts=tuple(replace(p, width=p.width or width) for p in self.parts))

    def in_order(self, selector: FIRES) -> Layout:
        """The columns in the order that a selector has learnt them in; others are left out.

        A column of vectors has as many entries as the selector has learnt features besides.
        """
        names = selector.known_names
        if not self.is_known and selector.knows_columns:
            return self.filled(selector.n_features_in_)
        if names is None or any(part.kind != "number" for part in self.parts):
            return self
        by_name = {part.columns[0]: part for part in self.parts}
        for name in names:
            if name not in by_name:
                raise InputError(f'the selector has learnt from "{name}", and the frame has none')
        return replace(self, parts=tuple(by_name[name] for name in names))

    def as_json(self) -> Header:
        """What a checkpoint keeps of it."""
        parts = [[part.kind, list(part.columns), part.width] for part in self.parts]
        return {"parts": parts, "is_sparse": self.is_sparse}

    @classmethod
    def from_json(cls, saved: dict[str, Any], now: Layout, where: str) -> Layout:
        """The layout of a run that goes on; columns may have come into another order."""
        parts = tuple(Part(kind, tuple(columns), width) for kind, columns, width in saved["parts"])
        by_name = {part.columns: part.kind for part in now.parts}
        for part in parts:
            if by_name.get(part.columns) != part.kind:
                raise InputError(
                    f'{where} was learnt with the column "{part.columns[0]}" ({part.kind}), and '
                    "the frame has none"
                )
        return replace(now, parts=parts, is_sparse=saved["is_sparse"])


def layout_of(
    schema: StructType,
    target: str,
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    entries: tuple[str, str] | None = None,
    n_features: int | None = None,
    *,
    missing: str = "ignore",
    besides: Sequence[str] = (),
) -> Layout:
    """What the columns of a frame are; those besides are no features."""
    fields = {column.name: column.dataType for column in schema.fields}
    if entries is not None:
        chosen: list[str] = []
        if n_features is None:
            places, values = entries
            what = f'the columns "{places}" and "{values}" do not say how many features there are'
            raise InputError(what, hint="give n_features")
    elif features is None:
        chosen = [name for name in fields if name not in (target, weight, *besides)]
    else:
        chosen = [features] if isinstance(features, str) else list(features)
    for name in (*chosen, *(entries or ()), target, *([weight] if weight else []), *besides):
        if name not in fields:
            more = [f"{len(fields) - _SHOWN:,} more"] if len(fields) > _SHOWN else []
            known = enumeration([*list(fields)[:_SHOWN], *more])
            raise InputError(f'the frame has no column "{name}"', hint=f"it has {known}")
    parts = [_part(name, fields[name]) for name in chosen]
    if entries is not None:
        parts.append(Part("entries", entries, n_features or 0))
    if not parts:
        raise InputError("the frame has no column of features besides its target")
    layout = Layout(tuple(parts), target, weight, entries is not None, missing)
    return layout if n_features is None else layout.filled(n_features)


def _part(name: str, kind: DataType) -> Part:
    type_name = kind.typeName()
    if type_name in _NUMBERS:
        return Part("number", (name,), 1)
    if type(kind).__name__ == "VectorUDT":
        return Part("vector", (name,))
    if type_name == "array" and kind.elementType.typeName() in _NUMBERS:
        return Part("array", (name,))
    raise InputError(
        f'the column "{name}" holds {kind.simpleString()}, and on Spark features are numbers, '
        "vectors or arrays of numbers",
        hint="turn it into numbers (StringIndexer, OneHotEncoder), or name the others in features",
    )


def library(module: str) -> Any:
    """A module of the extra ``spark``, or an error that names the extra."""
    return require(module, "fires on Spark", extra="spark")


# --- on the workers ---------------------------------------------------------------------------


def in_pieces(batches: Iterable[RecordBatch], n_rows: int) -> Iterator[list[RecordBatch]]:
    """Cut Arrow batches anew: all pieces but the last have the same number of rows."""
    held: list[RecordBatch] = []
    n_held = 0
    for batch in batches:
        while batch.num_rows:
            held.append(batch.slice(0, n_rows - n_held))
            n_held += held[-1].num_rows
            batch = batch.slice(held[-1].num_rows)
            if n_held == n_rows:
                yield held
                held, n_held = [], 0
    if held:
        yield held


def shard_of(batches: list[RecordBatch], layout: Layout) -> tuple[CheckedBatch, int]:
    """The rows of some Arrow batches, in the form that tasks take."""
    pa = library("pyarrow")
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    batch = _usable(whole, layout)
    X, labels, weight = _matrix(batch, layout), batch.column(layout.target), None
    if pa.types.is_decimal(labels.type):
        labels = labels.cast(pa.float64())
    y = labels.to_numpy(zero_copy_only=False)
    if layout.weight is not None:
        weight = _numbers(batch.column(layout.weight))
        if not (np.isfinite(weight).all() and (weight >= 0.0).all()):
            raise InputError(f'the weights in "{layout.weight}" must be numbers of 0 or more')
    counts = scan(X.data if layout.is_sparse else X)
    if any(counts):
        names = np.array(layout.names, dtype=object)
        validation.refuse(X, counts, names, missing=layout.missing, owner=_OWNER)
    target = validation.as_target(y, len(y), _OWNER) if len(y) else y
    return CheckedBatch(X, target, weight, counts[0]), whole.num_rows - batch.num_rows


def _usable(batch: RecordBatch, layout: Layout) -> RecordBatch:
    """The rows that have a target and vectors."""
    pc = library("pyarrow.compute")
    absent = pc.is_null(batch.column(layout.target), nan_is_null=True)
    for part in layout.parts:
        if part.kind != "number":
            for column in part.columns:
                absent = pc.or_(absent, batch.column(column).is_null())
    return batch.filter(pc.invert(absent)) if pc.any(absent).as_py() else batch


def _matrix(batch: RecordBatch, layout: Layout) -> Any:
    blocks = [_block(batch, part, sparse=layout.is_sparse) for part in layout.parts]
    if not layout.is_sparse:
        return np.hstack(blocks)
    matrix = sp.hstack(blocks, format="csr")  # a copy: what comes from Arrow cannot be written to
    matrix.sum_duplicates()
    return matrix


def _block(batch: RecordBatch, part: Part, *, sparse: bool) -> Any:
    """The features of one part, dense or as CSR."""
    shape, column = (batch.num_rows, part.width), batch.column(part.columns[0])
    if part.kind == "entries":
        places, counts = _whole(column.flatten()), _lengths(column)
        values = _numbers(batch.column(part.columns[1]).flatten())
        if len(values) != len(places):
            first, second = part.columns
            raise InputError(f'"{first}" and "{second}" do not have as many entries in every row')
        if len(places) and not (places.min() >= 0 and places.max() < part.width):
            raise InputError(
                f'"{part.columns[0]}" has places that are not from 0 to {part.width - 1:,}',
                hint="give n_features",
            )
    elif part.kind == "number":
        dense = _numbers(column)[:, None]
        return sp.csr_array(dense) if sparse else dense
    else:
        lists, is_sparse = column, np.zeros(len(column), dtype=np.bool_)
        if part.kind == "vector":
            kinds, sizes, indices, lists = column.flatten()
            is_sparse = _whole(kinds) == _SPARSE_VECTOR
        counts, values = _lengths(lists), _numbers(lists.flatten())
        lengths = np.where(is_sparse, _whole(sizes), counts) if is_sparse.any() else counts
        if not (lengths == part.width).all():
            raise InputError(
                f'"{part.columns[0]}" holds a vector of length '
                f"{lengths[lengths != part.width][0]:,}, and those before have {part.width:,}"
            )
        if not (sparse or is_sparse.any()):
            return values.reshape(shape)
        places, of_sparse = np.empty(len(values), dtype=np.int64), np.repeat(is_sparse, counts)
        places[~of_sparse] = np.tile(np.arange(part.width), int((~is_sparse).sum()))
        if is_sparse.any():
            places[of_sparse] = _whole(indices.flatten())
    matrix = sp.csr_array((values, places, np.concatenate([[0], np.cumsum(counts)])), shape=shape)
    return matrix if sparse else matrix.toarray()


def _numbers(column: ArrowArray) -> Floats:
    """A column as float64, with NaN for what is missing."""
    column = column.cast(library("pyarrow").float64())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _whole(column: ArrowArray) -> Ints:
    """A column as whole numbers; 0 for what is missing."""
    return np.nan_to_num(_numbers(column)).astype(np.int64)


def _lengths(column: ArrowArray) -> Ints:
    """The lengths of lists; 0 for what is missing."""
    return _whole(library("pyarrow.compute").list_value_length(column))
