"""Rounds of sums over a micro-batch on Spark.

The first pass over a micro-batch turns the rows of every partition into the form that tasks take,
and keeps that, cached. So the source is read once, and later rounds take no time for conversion.
A task goes out by broadcast, and the partitions' sums come back.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from fires.core.batch import CheckedBatch
from fires.core.optional import require
from fires.core.sharding import Sums, Task, add_up
from fires.integrations.spark.rows import in_pieces, shard_of, widths_of

if TYPE_CHECKING:
    from fires.integrations.spark.layout import Layout

PACKED = "partition int, piece int, shard binary, answer binary"
"""What :func:`packer` gives."""
_Packed: TypeAlias = tuple[CheckedBatch, int] | ValueError
"""A shard and the rows that were left out, or what is wrong with it."""
_ANSWERS = "partition int, piece int, answer binary"
_PIECE_BYTES = 1 << 26
"""Of a shard of dense rows: a value of Spark must stay well below 2 GB."""


class MicroBatch:
    """The rows of a micro-batch, on the cluster.

    Use it in a ``with`` statement: at its end, nothing of it stays cached.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows, in one or more partitions.
    layout : Layout
        What its columns are.

    Attributes
    ----------
    n_rows, n_left_out : int
        Rows to learn from, and rows without a target; known after the first round.
    n_rounds : int
        How often the rows were gone through.
    """

    def __init__(self, frame: Any, layout: Layout) -> None:
        self._frame, self._layout = frame, layout
        self._context = frame.sparkSession.sparkContext
        self._packed: Any = None
        self._first: Any = None
        self.n_rows = self.n_left_out = self.n_rounds = 0

    @classmethod
    def of_packed(cls, packed: Any, layout: Layout) -> Self:
        """A micro-batch of shards that were made before, and stay when it ends.

        Parameters
        ----------
        packed : pyspark.sql.DataFrame
            What :func:`packer` gave, or some of it.
        layout : Layout
            What the columns were.

        Returns
        -------
        MicroBatch
        """
        batch = cls(packed, layout)
        batch._packed = packed
        return batch

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._first is not None:
            self._packed.unpersist()
            self._first.destroy()

    def evaluate(self, task: Task) -> Sums:
        """Call a task for every shard, and add up in the order of partitions.

        Parameters
        ----------
        task : Task
            What to compute.

        Returns
        -------
        dict of str to ndarray

        Raises
        ------
        NoRows
            If there is nothing to learn from.
        """
        self.n_rounds += 1
        sent = send(self._context, self._layout, task)
        if self._packed is None:
            # A partition that is lost is made again from its rows: the task is needed until then.
            self._first, rows = sent, _piece_rows(self._layout)
            found = self._frame.select(*map(_quoted, self._layout.columns))
            self._packed = found.mapInArrow(packer(sent, rows), PACKED).persist()
            answers = self._packed.select("partition", "piece", "answer").collect()
        else:
            shards = self._packed.select("partition", "piece", "shard")
            answers = shards.mapInArrow(_answerer(sent), _ANSWERS).collect()
            sent.destroy()
        return self._added(answers)

    def _added(self, answers: list[Any]) -> Sums:
        parts = []
        self.n_rows = self.n_left_out = 0
        for row in sorted(answers, key=lambda row: (row.partition, row.piece)):
            n_rows, n_left_out, answer = pickle.loads(row.answer)
            if isinstance(answer, Exception):
                raise answer
            self.n_rows, self.n_left_out = self.n_rows + n_rows, self.n_left_out + n_left_out
            if n_rows:
                parts.append(answer)
        if not parts:
            raise NoRows
        return add_up(parts)


class NoRows(Exception):  # noqa: N818 - it is not always an error
    """A micro-batch has no rows that can be learnt from."""


def completed(frame: Any, layout: Layout) -> Layout:
    """The layout with the lengths of its vectors, by one look at the rows if need be.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The first rows.
    layout : Layout
        What its columns are.

    Returns
    -------
    Layout
        As it was, if the frame has no rows.
    """
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


def send(context: Any, layout: Layout, task: Task | None) -> Any:
    """Send a task to all workers.

    Parameters
    ----------
    context : pyspark.SparkContext
        Of the session.
    layout : Layout
        What the columns are.
    task : Task or None
        What to compute.

    Returns
    -------
    pyspark.Broadcast
    """
    # A task may be made of what only the driver can import.
    cloudpickle = require("pyspark.cloudpickle", "fires on Spark", extra="spark")
    return context.broadcast(cloudpickle.dumps((layout, task)))


def packer(sent: Any, n_rows: int) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What a worker does first: it makes shards of its rows, and answers the first task.

    Parameters
    ----------
    sent : pyspark.Broadcast
        What :func:`send` gave.
    n_rows : int
        The rows of a shard.

    Returns
    -------
    callable
        For ``mapInArrow``.
    """

    def pack(batches: Iterable[Any]) -> Iterator[Any]:
        layout, task = pickle.loads(sent.value)
        partition = _partition()
        for piece, part in enumerate(in_pieces(batches, n_rows)):
            packed: _Packed
            try:
                packed = shard_of(part, layout)
            except ValueError as error:
                packed = error
            yield _record(partition, piece, shard=packed, answer=_answer(task, packed))

    return pack


def _answerer(sent: Any) -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What a worker does in later rounds: it answers a task."""

    def answer(batches: Iterable[Any]) -> Iterator[Any]:
        _, task = pickle.loads(sent.value)
        for batch in batches:
            columns = (batch.column(name) for name in ("partition", "piece", "shard"))
            for partition, piece, packed in zip(*columns, strict=True):
                found = _answer(task, pickle.loads(packed.as_buffer()))
                yield _record(partition.as_py(), piece.as_py(), answer=found)

    return answer


def _looker(layout: Layout) -> Callable[[Iterable[Any]], Iterator[Any]]:
    def look(batches: Iterable[Any]) -> Iterator[Any]:
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


def _record(partition: int, piece: int, **values: Any) -> Any:
    """One row of an answer."""
    pa = require("pyarrow", "fires on Spark", extra="spark")
    pickled = {name: pickle.dumps(value, 5) for name, value in values.items()}
    packed = {name: pa.array([value], pa.binary()) for name, value in pickled.items()}
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
