"""Learn from a bounded DataFrame of Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fires.core.errors import InputError
from fires.core.settings import check_count
from fires.evaluation.records import Step
from fires.integrations.spark.engine import PACKED, MicroBatch, completed, packer, quoted, send
from fires.integrations.spark.layout import Layout, layout_of
from fires.integrations.spark.running import SparkRun
from fires.integrations.spark.store import store_for
from fires.run.features import feature_rows
from fires.run.totals import RunTotals
from fires.selectors.fires import FIRES

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_CACHED_AT_ONCE = "spark.sql.inMemoryColumnarStorage.batchSize"


@dataclass(frozen=True, eq=False)
class FrameSelection:
    """What was found in a frame."""

    selector: FIRES
    names: tuple[str, ...]
    totals: RunTotals
    n_left_out: int

    @property
    def selected(self) -> list[str]:
        """The names of the selected features, the best first."""
        return [row["feature"] for row in self.features]

    @property
    def features(self) -> list[dict[str, Any]]:
        """The selected features as rows of ``features.csv``, the best first."""
        chosen = self.selector.get_support(indices=True)
        return feature_rows(self.selector, self.names, self.totals, chosen)


def select_frame(
    df: DataFrame,
    selector: FIRES,
    *,
    target: str,
    run: str | os.PathLike[str] | None = None,
    weight: str | None = None,
    features: str | Sequence[str] | None = None,
    entries: tuple[str, str] | None = None,
    n_features: int | None = None,
    batch_rows: int = 20_000,
    overwrite: bool = False,
    on_step: Callable[[Step], None] | None = None,
) -> FrameSelection:
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
        What learns, with a linear model. One that has learnt already goes on.
    target : str
        The column of labels or numbers. Rows without one are left out, and counted.
    run : path, optional
        The folder of the run, which ``fires serve``, ``fires report`` and ``fires.load`` read. A
        run that was killed goes on after its last micro-batch.
    weight, features, entries, n_features
        As in :func:`fires.integrations.spark.select_stream`.
    batch_rows : int
        About how many rows a micro-batch has.
    overwrite : bool
        Begin anew where the folder holds a run.
    on_step : callable, optional
        Called with the record of every micro-batch.

    Returns
    -------
    FrameSelection

    Raises
    ------
    InputError
        If columns cannot be used, there are no rows, the target has one value only, or the folder
        cannot go on.
    """
    if df.isStreaming:
        raise InputError("this DataFrame is a streaming one", hint="use select_stream")
    check_count("batch_rows", batch_rows)
    layout = layout_of(
        df.schema,
        target,
        weight=weight,
        features=features,
        entries=entries,
        n_features=n_features,
        missing=selector.missing,
    )
    path, store = None, None
    if run is not None:
        path, store = store_for(os.fspath(run), df.sparkSession)
    settings = {"target": target, "weight": weight, "top": selector.n_features_to_select}
    settings |= {"batch_rows": batch_rows, "file": df.inputFiles()[:1]}
    learning = SparkRun(selector, layout, path, overwrite=overwrite, settings=settings, store=store)
    learn_frame(df, learning, batch_rows, on_step)
    assert learning.run is not None
    found = learning.selector, learning.names, learning.run.totals, learning.n_left_out
    return FrameSelection(*found)


def learn_frame(
    df: DataFrame,
    learning: SparkRun,
    batch_rows: int,
    on_step: Callable[[Step], None] | None = None,
) -> None:
    """Let a run learn from a frame, to its end."""
    try:
        if not learning.goes_on:
            learning.layout = completed(df, learning.layout)
        layout = learning.layout
        cut = _cut(df, batch_rows)
        if learning.cut is None:
            learning.cut = cut
        elif learning.cut["partitions"] != cut["partitions"]:
            raise InputError(
                f"the frame has {cut['partitions']} partitions, and had "
                f"{learning.cut['partitions']} when the run was saved: its rows cannot be found "
                "again"
            )
        with _packed(df, layout, learning.cut) as (packed, n_batches):
            for number in range(learning.last + 1, n_batches):
                with MicroBatch.of_packed(packed.where(f"piece = {number}"), layout) as batch:
                    step = learning.take(batch)
                learning.last = number
                learning.save()
                if step is not None and on_step is not None:
                    on_step(step)
        if learning.run is None:
            raise InputError("the frame has no rows that can be learnt from")
    except BaseException as error:
        learning.finish((str(error).splitlines() or [repr(error)])[0])
        raise
    learning.finish(all_rows=True)


def _cut(df: DataFrame, batch_rows: int) -> dict[str, int]:
    """How a frame is cut: its partitions, those they are made into, and the rows of a shard."""
    n_partitions = df.rdd.getNumPartitions()
    made = max(1, min(n_partitions, df.sparkSession.sparkContext.defaultParallelism))
    return {"partitions": n_partitions, "made": made, "rows": max(1, batch_rows // made)}


@contextmanager
def _packed(df: DataFrame, layout: Layout, cut: dict[str, int]) -> Iterator[tuple[DataFrame, int]]:
    """All shards of a frame, cached, and how many each partition has at most."""
    session = df.sparkSession
    sent = send(session.sparkContext, layout, None)
    frame = df.select(*map(quoted, layout.columns)).coalesce(cut["made"])
    before = session.conf.get(_CACHED_AT_ONCE)
    # One shard at a time, so that a micro-batch reads its own and skips all others.
    session.conf.set(_CACHED_AT_ONCE, "1")
    try:
        packed = frame.mapInArrow(packer(sent, cut["rows"]), PACKED).persist()
        pieces = packed.select("piece").collect()
    finally:
        session.conf.set(_CACHED_AT_ONCE, before)
    try:
        yield packed, 1 + max((row.piece for row in pieces), default=-1)
    finally:
        packed.unpersist()
        sent.destroy()
