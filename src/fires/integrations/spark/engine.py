"""Rounds of sums over a micro-batch on Spark.

The first pass over a micro-batch turns the rows of every partition into the form that tasks take,
and keeps that: cached by Spark, and in files beside the workers. So the source is read once. In
later rounds a task goes out by broadcast, and workers read their shards from the files; where one
is not found, Spark's cache has it.

Only sums come back. Each worker adds up its partition. Small sums go straight to the driver; large
ones are added up on the workers first, a few partitions at a time, so that the driver gets one
result a round.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias
from uuid import uuid4

import numpy as np

from fires.core import files
from fires.core.batch import CheckedBatch
from fires.core.sharding import Sums, Task, add_up
from fires.integrations.spark.rows import Layout, in_pieces, library, shard_of, widths_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark import RDD, Broadcast, SparkContext
    from pyspark.sql import DataFrame, Row


# What :func:`packer` gives: a row for each shard, and one for the answer of the partition.
PACKED = "partition int, piece int, shard binary, answer binary"
_ANSWER = -1  # the piece of a row that holds an answer
# A shard and the rows that were left out, or what is wrong with it.
_Packed: TypeAlias = tuple[CheckedBatch, int] | ValueError
# Of a shard of dense rows: a value of Spark must stay well below 2 GB.
_PIECE_BYTES = 1 << 26
# What all partitions together may send to the driver in a round without being added up first.
_DRIVER_BYTES = 1 << 26
# How many results a worker adds up at a time.
_FAN_IN = 10


class NoRows(Exception):  # noqa: N818 - it is not always an error
    """A micro-batch has no rows that can be learnt from."""


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
        self.n_rows = self.n_left_out = 0

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
        sent = send(self._context, self._layout, task, self._near)
        if self._packed is None:
            # A partition that is lost is made again from its rows: the task is needed until then.
            self._first, rows = sent, _piece_rows(self._layout)
            found = self._frame.select(*map(quoted, self._layout.columns))
            self._packed = found.mapInArrow(packer(sent, rows), PACKED).persist()
            answers = self._packed.where(f"piece = {_ANSWER}").select("answer").rdd
            answer = added_up(answers, len(sent.value))
        else:
            answer = self._asked(sent)
            sent.destroy()
        if _WRONG in answer:
            raise answer[_WRONG][0]
        self.n_rows, self.n_left_out = (int(answer.pop(name, 0)) for name in (_ROWS, _LEFT_OUT))
        if not self.n_rows:
            raise NoRows
        return answer

    def _asked(self, sent: Broadcast) -> Sums:
        """The answer to a task of a later round."""
        worker, size = _answerer(sent), len(sent.value)
        is_new = self._keys is None and self._first is None  # no task has gone through so far
        shards = self._packed.where(f"piece != {_ANSWER}")
        if self._keys is None:
            # Planned once. It runs where the shards are: Spark goes by where it has cached them.
            self._keys = shards.select("partition", "piece").rdd
        if not is_new:
            answer = added_up(self._keys.mapPartitions(worker), size)
            if _LOST not in answer:
                return answer
        cached = shards.select("partition", "piece", "shard").rdd
        return added_up(cached.mapPartitions(worker), size)


def added_up(answers: RDD, size: int) -> Sums:
    """One answer of all partitions, whose own are about as large as a task of this size."""
    n = answers.getNumPartitions()
    is_large = n * size > _DRIVER_BYTES
    while is_large and n > 1:
        n = -(-n // _FAN_IN)
        numbered = answers.mapPartitionsWithIndex(_numbered)
        answers = numbered.partitionBy(n, _group).mapPartitions(_joined)
    return _sum_up(pickle.loads(one) for (one,) in answers.collect())


def _numbered(place: int, answers: Iterable[Row]) -> Iterator[tuple[int, Row]]:
    return ((place, one) for one in answers)


def _group(place: int) -> int:
    return place // _FAN_IN


def _joined(answers: Iterable[tuple[int, Row]]) -> Iterator[tuple[bytes]]:
    """The answers of some partitions as one, in their order."""
    ordered = sorted(answers, key=lambda pair: pair[0])
    yield (pickle.dumps(_sum_up(pickle.loads(one) for _, (one,) in ordered), 5),)


# An answer is what a task says of some shards, with facts of all of them: their rows, the rows that
# were left out, shards that were not found, and what is wrong (an error that a user can cause).
_ROWS, _LEFT_OUT, _LOST, _WRONG = "read rows", "read left out", "read lost", "list read wrong"


def _answer(task: Task, packed: _Packed | None) -> Sums:
    """What a task says of one shard."""
    if packed is None:
        return {_LOST: np.array(1)}
    if isinstance(packed, ValueError):
        return {_WRONG: np.array([packed])}
    shard, n_left_out = packed
    try:
        sums = task(shard) if shard.n_rows else {}
    except ValueError as error:
        return {_WRONG: np.array([error])}
    return {_ROWS: np.array(shard.n_rows), _LEFT_OUT: np.array(n_left_out)} | sums


def _sum_up(answers: Iterable[Sums]) -> Sums:
    """The answers of several shards as one, in their order; no more than two are held at a time."""
    try:
        return add_up(answers)
    except ValueError as wrong:  # labels that have no order
        return {_WRONG: np.array([wrong])}


def completed(frame: DataFrame, layout: Layout) -> Layout:
    """The layout with the lengths of its vectors, by one look at the rows if need be."""
    if all(part.kind in ("number", "entries") for part in layout.parts):
        return layout
    columns = [column for part in layout.parts for column in part.columns]

    def look(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        pa = library("pyarrow")
        found = pickle.dumps(widths_of(batches, layout))
        yield pa.RecordBatch.from_pydict({"answer": pa.array([found], pa.binary())})

    looked = frame.select(*map(quoted, columns)).mapInArrow(look, "answer binary")
    found = add_up(pickle.loads(row.answer) for row in looked.collect())
    if not found or not found["max width"].all():
        return layout
    pairs = zip(layout.parts, found["max width"].tolist(), strict=True)
    parts = tuple(replace(part, width=part.width or width) for part, width in pairs)
    return replace(layout, parts=parts, is_sparse=bool(found["max is_sparse"]))


def send(
    context: SparkContext, layout: Layout, task: Task | None, near: Nearby | None = None
) -> Broadcast:
    """Send a task to all workers."""
    # A task may be made of what only the driver can import.
    cloudpickle = library("pyspark.cloudpickle")
    return context.broadcast(cloudpickle.dumps((layout, task, near)))


def packer(
    sent: Broadcast, n_rows: int
) -> Callable[[Iterable[RecordBatch]], Iterator[RecordBatch]]:
    """What a worker does first: it makes shards of its rows, and answers the first task."""

    def pack(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        layout, task, near = pickle.loads(sent.value)
        spark = library("pyspark")
        partition = spark.TaskContext.get().partitionId()
        answer: Sums = {}
        if near is not None:
            near.tidy()
        for piece, part in enumerate(in_pieces(batches, n_rows)):
            packed: _Packed
            try:
                packed = shard_of(part, layout)
            except ValueError as error:
                packed = error
            pickled = pickle.dumps(packed, 5)
            yield _record(partition, piece, pickled, None)
            if near is not None:
                near.put(partition, piece, pickled)
            if task is not None:
                answer = _sum_up([answer, _answer(task, packed)])
        if task is not None:
            yield _record(partition, _ANSWER, None, pickle.dumps(answer, 5))

    return pack


def _answerer(sent: Broadcast) -> Callable[[Iterable[Row]], Iterator[tuple[bytes]]]:
    """What a worker does in later rounds: it answers a task for the shards of a partition."""

    def answer(rows: Iterable[Row]) -> Iterator[tuple[bytes]]:
        _, task, near = pickle.loads(sent.value)

        def found() -> Iterator[Sums]:
            for partition, piece, *shard in rows:
                if shard:
                    near.put(partition, piece, shard[0])
                yield _answer(task, pickle.loads(shard[0]) if shard else near.get(partition, piece))

        yield (pickle.dumps(_sum_up(found()), 5),)

    return answer


def _record(partition: int, piece: int, shard: bytes | None, answer: bytes | None) -> RecordBatch:
    """One row of what :func:`packer` gives."""
    pa = library("pyarrow")
    places = [pa.array([place], pa.int32()) for place in (partition, piece)]
    values = [pa.array([value], pa.binary()) for value in (shard, answer)]
    return pa.RecordBatch.from_arrays([*places, *values], ["partition", "piece", "shard", "answer"])


def _piece_rows(layout: Layout) -> int:
    if layout.is_sparse:
        return 1 << 20
    return max(1, _PIECE_BYTES // (8 * max(layout.n_features, 1)))


def quoted(column: str) -> str:
    """A name as Spark takes it where it may hold dots."""
    return "`" + column.replace("`", "``") + "`"


# --- shards beside the workers ----------------------------------------------------------------

_PREFIX = "fires-shard-"
_in_use: set[str] = set()  # the micro-batches of this driver that are gone through now


@dataclass(frozen=True)
class Nearby:
    """The shards of one micro-batch, as files on the machines that made them.

    A task of Spark is not told which worker it will run in, and rows that go from Spark's cache to
    a worker are copied several times. So whatever worker of the machine has its turn reads the
    file. They are rarely older than a few seconds, and nothing depends on them.
    """

    name: str
    others: frozenset[str]

    @classmethod
    def begin(cls) -> Nearby:
        """Files for a micro-batch that begins."""
        others, name = frozenset(_in_use), uuid4().hex
        _in_use.add(name)
        return cls(name, others)

    def end(self) -> None:
        """Remove the files if they are on the driver's machine; others go with the next ones."""
        _in_use.discard(self.name)
        _remove(path for path in _folder().glob(f"{_PREFIX}{self.name}-*"))

    def tidy(self) -> None:
        """Remove files that were left over on this machine."""
        kept = {self.name, *self.others}
        found = _folder().glob(f"{_PREFIX}*")
        _remove(p for p in found if p.name.removeprefix(_PREFIX).split("-")[0] not in kept)

    def put(self, partition: int, piece: int, pickled: bytes) -> None:
        """Write a shard, if there is room for it."""
        with suppress(OSError):  # whole or not at all: two workers may do the same
            files.replace_file(self._path(partition, piece), pickled, sync=False)

    def get(self, partition: int, piece: int) -> _Packed | None:
        """A shard, if it is on this machine."""
        try:
            with self._path(partition, piece).open("rb") as file:
                packed: _Packed = pickle.load(file)
                return packed
        except OSError:
            return None

    def _path(self, partition: int, piece: int) -> Path:
        return _folder() / f"{_PREFIX}{self.name}-{partition}-{piece}"


def _folder() -> Path:
    """A folder of this application on this machine, which Spark removes at its end."""
    spark = library("pyspark")
    return Path(spark.SparkFiles.getRootDirectory())


def _remove(paths: Iterable[Path]) -> None:
    for path in paths:
        with suppress(OSError):
            files.remove(path)
