"""Rounds of sums over a micro-batch on Spark.

The first pass over a micro-batch turns the rows of every partition into the form that tasks take,
and keeps that: cached by Spark, and in files beside the workers. So the source is read once. In
later rounds a task goes out by broadcast, workers read their shards from the files, and only the
partitions' sums come back. Where a file is not found, Spark's cache has the shard.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, Self, TypeAlias

from fires.core.batch import CheckedBatch
from fires.core.optional import require
from fires.core.sharding import Sums, Task, add_up
from fires.integrations.spark.nearby import Nearby
from fires.integrations.spark.rows import in_pieces, shard_of, widths_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark import RDD, Broadcast, SparkContext
    from pyspark.sql import DataFrame, Row

    from fires.integrations.spark.layout import Layout

PACKED = "partition int, piece int, shard binary, answer binary"
"""What :func:`packer` gives."""
_Packed: TypeAlias = tuple[CheckedBatch, int] | ValueError
"""A shard and the rows that were left out, or what is wrong with it."""
_Reply: TypeAlias = tuple[int, int] | tuple[int, int, int, int, Sums | ValueError]
_PIECE_BYTES = 1 << 26
"""Of a shard of dense rows: a value of Spark must stay well below 2 GB."""


class _Answer(NamedTuple):
    """What a task says of a shard."""

    partition: int
    piece: int
    n_rows: int
    n_left_out: int
    sums: Sums | ValueError  # an error that a user can cause is an answer


class MicroBatch:
    """The rows of a micro-batch, on the cluster.

    Use it in a ``with`` statement: at its end, nothing of it stays cached.
    """

    def __init__(self, frame: DataFrame, layout: Layout) -> None:
        self._frame, self._layout = frame, layout
        self._context = frame.sparkSession.sparkContext
        self._packed: DataFrame = None
        self._first: Broadcast | None = None
        self._keys: RDD | None = None
        self._near = Nearby.begin()
        self.n_rows = self.n_left_out = self.n_rounds = 0

    @classmethod
    def of_packed(cls, packed: DataFrame, layout: Layout) -> Self:
        """A micro-batch of shards that were made before, and stay when it ends."""
        batch = cls(packed, layout)
        batch._packed = packed
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._first is not None:
            self._packed.unpersist()
            self._first.destroy()
        self._near.end()

    def evaluate(self, task: Task) -> Sums:
        """Call a task for every shard, and add up in the order of partitions."""
        self.n_rounds += 1
        sent = send(self._context, self._layout, task, self._near)
        if self._packed is None:
            # A partition that is lost is made again from its rows: the task is needed until then.
            self._first, rows = sent, _piece_rows(self._layout)
            found = self._frame.select(*map(_quoted, self._layout.columns))
            self._packed = found.mapInArrow(packer(sent, rows), PACKED).persist()
            found = self._packed.select("answer").collect()
            return self._added([_Answer(*pickle.loads(row.answer)) for row in found])
        answers = self._asked(sent)
        sent.destroy()
        return self._added(answers)

    def _asked(self, sent: Broadcast) -> list[_Answer]:
        """The answers to a task of a later round."""
        answer, found = _answerer(sent), []
        shards = self._packed.select("partition", "piece", "shard")
        if self._keys is None:
            # Planned once. It runs where the shards are: Spark goes by where it has cached them.
            self._keys = self._packed.select("partition", "piece").rdd
            if self._first is None:  # no task has gone through these shards so far
                return [_Answer(*one) for one in shards.rdd.mapPartitions(answer).collect()]
        found = self._keys.mapPartitions(answer).collect()
        gone = [f"(partition = {one[0]} and piece = {one[1]})" for one in found if len(one) == 2]
        if gone:
            again = shards.where(" or ".join(gone)).rdd.mapPartitions(answer).collect()
            found = [one for one in found if len(one) > 2] + again
        return [_Answer(*one) for one in found]

    def _added(self, answers: list[_Answer]) -> Sums:
        parts = []
        self.n_rows = self.n_left_out = 0
        for one in sorted(answers, key=lambda one: one[:2]):
            if isinstance(one.sums, Exception):
                raise one.sums
            self.n_rows += one.n_rows
            self.n_left_out += one.n_left_out
            if one.n_rows:
                parts.append(one.sums)
        if not parts:
            raise NoRows
        return add_up(parts)


class NoRows(Exception):  # noqa: N818 - it is not always an error
    """A micro-batch has no rows that can be learnt from."""


def completed(frame: DataFrame, layout: Layout) -> Layout:
    """The layout with the lengths of its vectors, by one look at the rows if need be."""
    if all(part.kind in ("number", "entries") for part in layout.parts):
        return layout
    columns = [column for part in layout.parts for column in part.columns]
    looked = frame.select(*map(_quoted, columns)).mapInArrow(_looker(layout), "answer binary")
    found = add_up(pickle.loads(row.answer) for row in looked.collect())
    if not found or not found["max width"].all():
        return layout
    widths = found["max width"].tolist()
    parts = tuple(
        replace(part, width=part.width or width)
        for part, width in zip(layout.parts, widths, strict=True)
    )
    return replace(layout, parts=parts, is_sparse=bool(found["max is_sparse"]))


def send(
    context: SparkContext, layout: Layout, task: Task | None, near: Nearby | None = None
) -> Broadcast:
    """Send a task to all workers."""
    # A task may be made of what only the driver can import.
    cloudpickle = require("pyspark.cloudpickle", "fires on Spark", extra="spark")
    return context.broadcast(cloudpickle.dumps((layout, task, near)))


def packer(
    sent: Broadcast, n_rows: int
) -> Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]:
    """What a worker does first: it makes shards of its rows, and answers the first task."""

    def pack(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        layout, task, near = pickle.loads(sent.value)
        partition = _partition()
        if near is not None:
            near.tidy()
        for piece, part in enumerate(in_pieces(batches, n_rows)):
            packed: _Packed
            try:
                packed = shard_of(part, layout)
            except ValueError as error:
                packed = error
            pickled = pickle.dumps(packed, 5)
            if near is not None:
                near.put(partition, piece, pickled)
            answer = pickle.dumps((partition, piece, *_answer(task, packed)), 5)
            yield _record(partition, piece, shard=pickled, answer=answer)

    return pack


def _answerer(sent: Broadcast) -> Callable[[Iterable[Row]], Iterator[_Reply]]:
    """What a worker does in later rounds: it answers a task, unless it does not find the shard."""

    def answer(rows: Iterable[Row]) -> Iterator[_Reply]:
        _, task, near = pickle.loads(sent.value)
        for partition, piece, *shard in rows:
            if shard:
                near.put(partition, piece, shard[0])
            packed = pickle.loads(shard[0]) if shard else near.get(partition, piece)
            reply = () if packed is None else _answer(task, packed)
            yield partition, piece, *reply

    return answer


def _looker(layout: Layout) -> Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]:
    def look(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        pa = require("pyarrow", "fires on Spark", extra="spark")
        found = pickle.dumps(widths_of(batches, layout))
        yield pa.RecordBatch.from_pydict({"answer": pa.array([found], pa.binary())})

    return look


def _answer(task: Task | None, packed: _Packed) -> tuple[int, int, Sums | ValueError]:
    """Rows, rows left out, and what the task says: an error that a user can cause is an answer."""
    if isinstance(packed, ValueError):
        return 0, 0, packed
    shard, n_left_out = packed
    try:
        sums = task(shard) if task is not None and shard.n_rows else {}
    except ValueError as error:
        return 0, 0, error
    return shard.n_rows, n_left_out, sums


def _record(partition: int, piece: int, **values: bytes) -> RecordBatch:
    """One row of what :func:`packer` gives."""
    pa = require("pyarrow", "fires on Spark", extra="spark")
    packed = {name: pa.array([value], pa.binary()) for name, value in values.items()}
    places = {"partition": [partition], "piece": [piece]}
    columns = {name: pa.array(value, pa.int32()) for name, value in places.items()}
    return pa.RecordBatch.from_pydict(columns | packed)


def _partition() -> int:
    context = require("pyspark", "fires on Spark", extra="spark").TaskContext.get()
    partition: int = context.partitionId()
    return partition


def _piece_rows(layout: Layout) -> int:
    if layout.is_sparse:
        return 1 << 20
    return max(1, _PIECE_BYTES // (8 * max(layout.n_features, 1)))


def _quoted(column: str) -> str:
    """A name as Spark takes it where it may hold dots."""
    return "`" + column.replace("`", "``") + "`"
