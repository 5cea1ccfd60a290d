"""Rounds of sums over a micro-batch on Spark.

The rows of every partition are turned into the form that tasks take while they are read for the
first round. That is kept: cached by Spark, and in files beside the workers. So the source is read
once. A task goes out by broadcast, and workers read their shards from the files; where one is not
found, Spark's cache has it.

Only sums come back. Each worker adds up its partition. Small sums go straight to the driver; large
ones are added up on the workers first, a few partitions at a time, so that the driver gets one
result a round.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeAlias
from uuid import uuid4

import numpy as np

from fires.core import files
from fires.core.batch import CheckedBatch
from fires.core.sharding import Sums, Task, add_up
from fires.integrations.spark.rows import Layout, in_pieces, library, shard_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark import RDD, Broadcast
    from pyspark.sql import Column, DataFrame, Row


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
    """The rows of a micro-batch, on the cluster; without a layout, they are shards already.

    Use it in a ``with`` statement: at its end, nothing that it has made stays cached.
    """

    def __init__(self, frame: DataFrame, layout: Layout | None = None) -> None:
        self._near, self._shards, self._is_ours = Nearby.begin(), frame, layout is not None
        if layout is not None:
            n_rows = max(1, _PIECE_BYTES // (8 * max(layout.n_features, 1)))
            n_rows = 1 << 20 if layout.is_sparse else n_rows
            self._shards = packed(frame, layout, n_rows, self._near)
        self._is_near = self._is_ours
        self.n_rows = self.n_left_out = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._is_ours:
            self._shards.unpersist()
        self._near.end()

    @cached_property
    def _keys(self) -> RDD:
        # Planned once. It runs where the shards are: Spark goes by where it has cached them.
        return self._shards.select("partition", "piece").rdd

    def evaluate(self, task: Task) -> Sums:
        """Call a task for every shard, and add up in the order of partitions."""
        # A task may be made of what only the driver can import.
        pickled = library("pyspark.cloudpickle").dumps(task)
        sent = self._keys.context.broadcast(pickled)
        worker, lost = _answerer(sent, self._near), not self._is_near
        if not lost:
            answer = added_up(self._keys.mapPartitions(worker), len(pickled))
            lost = _LOST in answer
        if lost:
            answer = added_up(self._shards.rdd.mapPartitions(worker), len(pickled))
        self._is_near = True
        sent.destroy()
        if _WRONG in answer:
            raise answer[_WRONG][0]
        self.n_rows, self.n_left_out = (int(answer.pop(name, 0)) for name in (_ROWS, _LEFT_OUT))
        if not self.n_rows:
            raise NoRows
        return answer


def packed(frame: DataFrame, layout: Layout, n_rows: int, near: Nearby | None = None) -> DataFrame:
    """The shards of a frame, with so many rows each, cached; they may be kept nearby, too."""

    def pack(batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        pa, partition = library("pyarrow"), library("pyspark").TaskContext.get().partitionId()
        if near is not None:
            _tidy(near.kept)
        for piece, part in enumerate(in_pieces(batches, n_rows)):
            shard: _Packed
            try:
                shard = shard_of(part, layout)
            except ValueError as error:
                shard = error
            pickled = pickle.dumps(shard, 5)
            if near is not None:
                near.put(partition, piece, pickled)
            row = {"partition": [partition], "piece": [piece], "shard": [pickled]}
            yield pa.RecordBatch.from_pydict(row)

    found = frame.select(*map(quoted, layout.columns))
    return found.mapInArrow(pack, "partition long, piece long, shard binary").persist()


def _answerer(sent: Broadcast, near: Nearby) -> Callable[[Iterable[Row]], Iterator[Sums]]:
    """What a worker does in a round: it answers a task for the shards of a partition."""

    def answer(rows: Iterable[Row]) -> Iterator[Sums]:
        task = pickle.loads(sent.value)

        def found() -> Iterator[Sums]:
            for partition, piece, *shard in rows:
                if shard:
                    near.put(partition, piece, shard[0])
                yield _answer(task, shard[0] if shard else near.get(partition, piece))

        yield _sum_up(found())

    return answer


def added_up(answers: RDD, size: int) -> Sums:
    """One answer of all partitions, whose own are about as large as a task of this size."""
    n = answers.getNumPartitions()
    is_large = n * size > _DRIVER_BYTES
    while is_large and n > 1:
        n = -(-n // _FAN_IN)
        numbered = answers.mapPartitionsWithIndex(lambda i, found: ((i, one) for one in found))
        answers = numbered.partitionBy(n, lambda i: i // _FAN_IN).mapPartitions(_joined)
    return _sum_up(answers.collect())


def _joined(answers: Iterable[tuple[int, Sums]]) -> Iterator[Sums]:
    """The answers of some partitions as one, in their order."""
    yield _sum_up(one for _, one in sorted(answers, key=itemgetter(0)))


# An answer is what a task says of some shards, with facts of all of them: their rows, the rows that
# were left out, shards that were not found, and what is wrong (an error that a user can cause).
_ROWS, _LEFT_OUT, _LOST, _WRONG = "read rows", "read left out", "read lost", "list read wrong"


def _answer(task: Task, pickled: bytes | None) -> Sums:
    """What a task says of one shard."""
    if pickled is None:
        return {_LOST: np.array(1)}
    shard: _Packed = pickle.loads(pickled)
    if isinstance(shard, ValueError):
        return {_WRONG: np.array([shard])}
    rows, n_left_out = shard
    try:
        sums = task(rows) if rows.n_rows else {}
    except ValueError as error:
        return {_WRONG: np.array([error])}
    return {_ROWS: np.array(rows.n_rows), _LEFT_OUT: np.array(n_left_out)} | sums


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
    sql = library("pyspark.sql.functions")
    widths, is_sparse = [], sql.lit(layout.is_sparse)
    for part in layout.parts:
        column: Column = frame[quoted(part.columns[0])]
        width = sql.lit(part.width)
        if part.kind == "array":
            width = sql.size(column)
        elif part.kind == "vector":
            vector = sql.unwrap_udt(column)  # type 0 is sparse, and has a size
            width = sql.coalesce(vector["size"], sql.size(vector["values"]))
            is_sparse = is_sparse | (vector["type"] == 0)
        widths.append(sql.max(width))
    *found, sparse = frame.select(*widths, sql.max(is_sparse)).first()
    if not all(width and width > 0 for width in found):
        return layout
    parts = zip(layout.parts, found, strict=True)
    known = tuple(replace(part, width=part.width or width) for part, width in parts)
    return replace(layout, parts=known, is_sparse=bool(sparse))


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
    kept: frozenset[str]  # the micro-batches whose files are in use

    @classmethod
    def begin(cls) -> Nearby:
        """Files for a micro-batch that begins."""
        name = uuid4().hex
        _in_use.add(name)
        return cls(name, frozenset(_in_use))

    def end(self) -> None:
        """Remove the files if they are on the driver's machine; others go with the next ones."""
        _in_use.discard(self.name)
        _tidy(_in_use)

    def put(self, partition: int, piece: int, pickled: bytes) -> None:
        """Write a shard, if there is room for it."""
        with suppress(OSError):  # whole or not at all: two workers may do the same
            files.replace_file(self._path(partition, piece), pickled, sync=False)

    def get(self, partition: int, piece: int) -> bytes | None:
        """A shard, if it is on this machine."""
        try:
            return self._path(partition, piece).read_bytes()
        except OSError:
            return None

    def _path(self, partition: int, piece: int) -> Path:
        return _folder() / f"{_PREFIX}{self.name}-{partition}-{piece}"


def _folder() -> Path:
    """A folder of this application on this machine, which Spark removes at its end."""
    return Path(library("pyspark").SparkFiles.getRootDirectory())


def _tidy(kept: Collection[str]) -> None:
    """Remove what is on this machine of other micro-batches than these."""
    for path in _folder().glob(f"{_PREFIX}*"):
        if path.name.removeprefix(_PREFIX).split("-")[0] not in kept:
            with suppress(OSError):
                files.remove(path)
