"""Learn from a DataFrame of Spark: a bounded one, or a stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fires.core import files
from fires.core.errors import InputError
from fires.core.settings import check_count
from fires.core.types import Header
from fires.evaluation.records import Step
from fires.integrations.spark.engine import completed, packed
from fires.integrations.spark.rows import layout_of, library
from fires.integrations.spark.running import SparkRun
from fires.integrations.spark.store import OFFSETS, store_for
from fires.selectors.fires import FIRES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


_CACHED_AT_ONCE = "spark.sql.inMemoryColumnarStorage.batchSize"


def select_frame(
    df: DataFrame,
    selector: FIRES,
    *,
    target: str,
    run: str | os.PathLike[str] | None = None,
    batch_rows: int = 20_000,
    overwrite: bool = False,
    on_step: Callable[[Step], None] | None = None,
    **columns: Any,
) -> SparkRun:
    """Select the features of a frame that is not a stream.

    The frame is read once. It is learnt from in micro-batches of about ``batch_rows`` rows, which
    take the next rows of all partitions together: where order matters, use
    :func:`fires.integrations.spark.select_stream`. Until the end, the rows are cached in the memory
    and on the disks of the workers.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        The rows.
    selector : FIRES
        The selector, with a linear model. If it has learnt before, it continues.
    target : str
        The column of labels or numbers. Rows without one are left out, and counted.
    run : path, optional
        The folder of the run, which ``fires serve``, ``fires report`` and ``fires.load`` read. A
        run that was killed goes on after its last micro-batch.
    batch_rows : int
        About how many rows a micro-batch has.
    overwrite : bool
        Begin anew where the folder holds a run.
    on_step : callable, optional
        Called with the record of every micro-batch.
    **columns
        ``weight``, ``features``, ``entries`` and ``n_features``, as in
        :func:`fires.integrations.spark.select_stream`.

    Returns
    -------
    SparkRun
        Its ``selector`` has learnt; ``selected`` has the names of the selected features, the best
        first, ``features`` their rows of ``features.csv``, and ``totals`` the scores.

    Raises
    ------
    InputError
        If columns cannot be used, there are no rows, the target has only one value, or the folder
        cannot go on.
    """
    if df.isStreaming:
        raise InputError("this DataFrame is streaming", hint="use select_stream")
    check_count("batch_rows", batch_rows)
    known: Header = {"batch_rows": batch_rows, "file": df.inputFiles()[:1]}
    learning = _begun(df, selector, run, overwrite, known, target, columns)
    learn_frame(df, learning, batch_rows, on_step)
    return learning


def _begun(
    df: DataFrame,
    selector: FIRES,
    run: str | os.PathLike[str] | None,
    overwrite: bool,
    settings: Header,
    target: str,
    columns: Mapping[str, Any],
) -> SparkRun:
    """A run that begins, or goes on, with the rows of a frame or a stream."""
    layout = layout_of(df.schema, target, **columns, missing=selector.missing)
    path, store = (None, None) if run is None else store_for(os.fspath(run), df.sparkSession)
    top, weight = selector.n_features_to_select, layout.weight
    settings = {"target": target, "weight": weight, "top": top} | settings
    return SparkRun(selector, layout, path, overwrite=overwrite, settings=settings, store=store)


def learn_frame(
    df: DataFrame, learning: SparkRun, batch_rows: int, on_step: Callable[[Step], None] | None
) -> None:
    """Let a run learn from a frame, to its end."""
    learning.on_step = on_step
    try:
        if not learning.goes_on:
            learning.layout = completed(df, learning.layout)
        n_partitions = df.rdd.getNumPartitions()
        made = max(1, min(n_partitions, df.sparkSession.sparkContext.defaultParallelism))
        new = {"partitions": n_partitions, "made": made, "rows": max(1, batch_rows // made)}
        learning.cut = cut = learning.cut or new
        if cut["partitions"] != n_partitions:
            raise InputError(
                f"the frame has {n_partitions} partitions, and had {cut['partitions']} when the "
                "run was saved: its rows cannot be found again"
            )
        shards = packed(df.coalesce(cut["made"]), learning.layout, cut["rows"])
        conf = df.sparkSession.conf
        before = conf.get(_CACHED_AT_ONCE)
        # One shard at a time, so that a micro-batch reads its own and skips all others.
        conf.set(_CACHED_AT_ONCE, "1")
        try:
            last = shards.agg({"piece": "max"}).first()[0]
        finally:
            conf.set(_CACHED_AT_ONCE, before)
        try:
            for number in range(learning.last + 1, 0 if last is None else last + 1):
                learning.learn(shards.where(f"piece = {number}"), number, is_packed=True)
        finally:
            shards.unpersist()
        if learning.run is None:
            raise InputError("the frame has no rows that can be learnt from")
    except BaseException as error:
        learning.finish(error)
        raise
    learning.finish(all_rows=True)


# --- a stream ----------------------------------------------------------------------------------


def select_stream(
    df: DataFrame,
    selector: FIRES,
    *,
    target: str,
    run: str | os.PathLike[str],
    trigger: Mapping[str, str | bool] | None = None,
    overwrite: bool = False,
    on_step: Callable[[Step], None] | None = None,
    **columns: Any,
) -> StreamingQuery:
    """Select features while a streaming DataFrame flows.

    Every micro-batch of Spark is one batch: its partitions compute sums, and the driver takes one
    step. Each row counts exactly once, even if the driver is killed: the state and the number of
    the micro-batch are saved atomically, and a repeated micro-batch is skipped. To resume, call it
    again with the same ``run``.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        A streaming DataFrame, from ``spark.readStream``.
    selector : FIRES
        The selector, with a linear model. A resumed run has its own; then the settings must be the
        same.
    target : str
        The column of labels or numbers. Rows without one are left out, and counted.
    run : path
        The folder of the run, which ``fires serve``, ``fires report`` and ``fires.load`` read; or
        an address that Hadoop reaches, such as ``hdfs://host/run``: see
        :mod:`fires.integrations.spark.store`.
    trigger : mapping, optional
        What ``DataStreamWriter.trigger`` takes: ``{"availableNow": True}`` ends with the rows that
        are there now, ``{"processingTime": "10 seconds"}`` waits.
    overwrite : bool
        Begin anew where the folder holds a run.
    on_step : callable, optional
        Called with the record of every micro-batch.

    **columns
        What is said of the columns; see below.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        Call its ``awaitTermination`` or ``stop``, which write the
        result; its ``selector`` can be asked meanwhile.

    Other Parameters
    ----------------
    weight : str, optional
        The column that says how often a row counts.
    features : str or sequence of str, optional
        The columns of features: numbers, vectors of Spark ML, arrays of numbers. By default, all
        others.
    entries : tuple of two str, optional
        Two columns of arrays: places and values of the entries that are not zero.
    n_features : int, optional
        How many features there are, where columns of arrays do not tell.

    Raises
    ------
    InputError
        If columns cannot be used, or the folder cannot go on.
    """
    if not df.isStreaming:
        raise InputError("this DataFrame is not streaming", hint="use select_frame")
    path = Path(run)
    fresh = overwrite or not (path / "run.toml").exists()
    learning = _begun(
        df, selector, run, overwrite, {"file": ["a stream of Spark"]}, target, columns
    )
    try:
        offsets = f"{os.fspath(run).rstrip('/')}/{OFFSETS}"
        if learning.store is None:
            if fresh and (path / OFFSETS / "metadata").exists():
                files.remove_tree(offsets)
            _refuse_gaps(path, learning)
        elif overwrite:
            learning.store.forget_offsets()
        learning.on_step = on_step
        writer = df.writeStream.foreachBatch(learning.learn)
        writer = writer.option("checkpointLocation", offsets)
        query = writer.trigger(**trigger).start() if trigger else writer.start()
    except BaseException:
        learning.finish("it could not be started")
        raise
    return _selection_query()(query, learning)


def _refuse_gaps(path: Path, run: SparkRun) -> None:
    """Raise an error if Spark has gone on without the run, or the other way round."""
    commits = path / OFFSETS / "commits"
    names = os.listdir(commits) if commits.is_dir() else []
    done = max((int(name) for name in names if name.isdigit()), default=-1)
    if run.goes_on and not (path / OFFSETS / "metadata").exists():
        raise InputError(
            f"{path} does not say any more how far Spark has read: {path / OFFSETS} is gone",
            hint="start a new run with overwrite=True",
        )
    if done > run.last and (path / "steps.jsonl").exists():
        raise InputError(
            f"{path} was saved after micro-batch {run.last}, and Spark has gone on to {done}: rows "
            "would be lost",
            hint="start a new run with overwrite=True",
        )


@cache
def _selection_query() -> Any:
    """The class ``SelectionQuery``, which can only be made where there is a pyspark."""
    spark = library("pyspark.sql.streaming.query")

    class SelectionQuery(spark.StreamingQuery):  # type: ignore[name-defined,misc]
        """A ``StreamingQuery`` whose rows are learnt from.

        The result (``features.csv``, ``state.safetensors``) is written when :meth:`stop` or
        :meth:`awaitTermination` returns because the query has ended. A process that dies before
        that leaves all it has learnt in the checkpoints of the run folder.
        """

        def __init__(self, query: StreamingQuery, run: SparkRun) -> None:
            super().__init__(query._jsq)
            self._run, self._is_stopped = run, False

        @property
        def selector(self) -> FIRES:
            """What has learnt so far."""
            return self._run.selector

        def awaitTermination(self, timeout: float | None = None) -> bool | None:  # noqa: N802
            """Wait until the query ends; see Spark's own."""
            try:
                ended: bool | None = super().awaitTermination(timeout)
            except Exception as error:
                self._run.finish(error)
                if self._run.error is not None:
                    raise self._run.error from None
                raise
            if ended is not False:
                self._run.finish(all_rows=not self._is_stopped)
            return ended

        def stop(self) -> None:
            """End the query, and write the result."""
            self._is_stopped = True
            super().stop()
            self._run.finish()

    return SelectionQuery
