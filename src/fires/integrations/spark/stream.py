"""Learn from a streaming DataFrame of Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fires.core import files
from fires.core.errors import InputError
from fires.evaluation.records import Step
from fires.integrations.spark.rows import layout_of
from fires.integrations.spark.query import selection_query
from fires.integrations.spark.running import SparkRun
from fires.integrations.spark.store import OFFSETS, store_for
from fires.selectors.fires import FIRES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery


def select_stream(
    df: DataFrame,
    selector: FIRES,
    *,
    target: str,
    run: str | os.PathLike[str],
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    entries: tuple[str, str] | None = None,
    n_features: int | None = None,
    trigger: Mapping[str, str | bool] | None = None,
    overwrite: bool = False,
    on_step: Callable[[Step], None] | None = None,
) -> StreamingQuery:
    """Select features while a streaming DataFrame flows.

    Every micro-batch of Spark is one batch: its partitions compute sums, and the driver takes one
    step. Each row counts exactly once, also where the driver is killed: what was learnt and the
    number of the micro-batch are saved in one step, and a micro-batch that comes again is skipped.
    Call it again with the same ``run``, and it goes on.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        A streaming one, of what ``spark.readStream`` reads.
    selector : FIRES
        What learns, with a linear model. A run that goes on has its own; then the settings must be
        the same.
    target : str
        The column of labels or numbers. Rows without one are left out, and counted.
    run : path
        The folder of the run, which ``fires serve``, ``fires report`` and ``fires.load`` read; or
        an address that Hadoop reaches, such as ``hdfs://host/run``: see
        :mod:`fires.integrations.spark.store`.
    weight : str, optional
        The column that says how often a row counts.
    features : str or sequence of str, optional
        The columns of features: numbers, vectors of Spark ML, arrays of numbers. By default, all
        others.
    entries : tuple of two str, optional
        Two columns of arrays: places and values of the entries that are not zero.
    n_features : int, optional
        How many features there are, where columns of arrays do not tell.
    trigger : mapping, optional
        What ``DataStreamWriter.trigger`` takes: ``{"availableNow": True}`` ends with the rows that
        are there now, ``{"processingTime": "10 seconds"}`` waits.
    overwrite : bool
        Begin anew where the folder holds a run.
    on_step : callable, optional
        Called with the record of every micro-batch.

    Returns
    -------
    pyspark.sql.streaming.StreamingQuery
        Call its ``awaitTermination`` or ``stop``, which write the
        result; its ``selector`` can be asked meanwhile.

    Raises
    ------
    InputError
        If columns cannot be used, or the folder cannot go on.
    """
    if not df.isStreaming:
        raise InputError("this DataFrame is no streaming one", hint="use select_frame")
    layout = layout_of(
        df.schema,
        target,
        weight=weight,
        features=features,
        entries=entries,
        n_features=n_features,
        missing=selector.missing,
    )
    path, store = store_for(os.fspath(run), df.sparkSession)
    fresh = overwrite or not (path / "run.toml").exists()
    top = selector.n_features_to_select
    settings = {"target": target, "weight": weight, "top": top, "file": ["a stream of Spark"]}
    learning = SparkRun(selector, layout, path, overwrite=overwrite, settings=settings, store=store)
    try:
        offsets = f"{os.fspath(run).rstrip('/')}/{OFFSETS}"
        if store is None:
            if fresh and (path / OFFSETS / "metadata").exists():
                files.remove_tree(offsets)
            _refuse_gaps(path, learning)
        elif overwrite:
            store.forget_offsets()

        def take(frame: DataFrame, number: int) -> None:
            try:
                step = learning.learn(frame, number)
            except Exception as error:
                learning.error = error
                raise
            if step is not None and on_step is not None:
                on_step(step)

        writer = df.writeStream.foreachBatch(take)
        writer = writer.option("checkpointLocation", offsets)
        query = writer.trigger(**trigger).start() if trigger else writer.start()
    except BaseException:
        learning.finish("it could not be started")
        raise
    return selection_query()(query, learning)


def _refuse_gaps(path: Path, run: SparkRun) -> None:
    """Raise an error if Spark has gone on without the run, or the other way round."""
    commits = path / OFFSETS / "commits"
    names = os.listdir(commits) if commits.is_dir() else []
    done = max((int(name) for name in names if name.isdigit()), default=-1)
    if run.goes_on and not (path / OFFSETS / "metadata").exists():
        raise InputError(
            f"{path} does not say any more how far Spark has read: {path / OFFSETS} is gone",
            hint="begin anew with overwrite=True",
        )
    if done >= 0 and run.run is not None and not run.goes_on:
        raise InputError(
            f"{path} has gone on elsewhere since Spark has read up to micro-batch {done}: it is "
            "not known which rows come next",
            hint=f"remove {path / OFFSETS}, and give a stream of those that do",
        )
    if done > run.last and (path / "steps.jsonl").exists():
        raise InputError(
            f"{path} was saved after micro-batch {run.last}, and Spark has gone on to {done}: rows "
            "would be lost",
            hint="begin anew with overwrite=True",
        )
