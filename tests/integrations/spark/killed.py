"""A run on Spark that kills itself, as often as it is told: see ``test_exactly_once``.

python -m tests.integrations.spark.killed FILES RUN MOMENT NUMBER
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable

from tests.integrations.spark.conftest import QUICK

from fires import FIRES
from fires.integrations.spark import select_stream, spark_session
from fires.integrations.spark.running import SparkRun

MOMENTS = ("before the state is written", "after it, before Spark's commit", "between batches")


def main(files: str, run: str, moment: str, number: int) -> None:
    spark = spark_session("local[1,4]", **QUICK)
    spark.sparkContext.setLogLevel("OFF")

    def kill() -> None:  # with its JVM
        os.killpg(os.getpgrp(), signal.SIGKILL)

    for name, method in calling(kill, moment, number).items():
        setattr(SparkRun, name, method)
    learn(spark, files, run)


def learn(spark, files, run, selector=None):
    """Learn from all files, two to a micro-batch: each of them is a partition."""
    selector = FIRES(2) if selector is None else selector
    schema = spark.read.parquet(files).schema
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 2).parquet(files)
    query = select_stream(stream, selector, target="label", run=run, trigger={"availableNow": True})
    query.awaitTermination()
    return query


def calling(what: Callable[[], object], moment: str, number: int) -> dict[str, Callable]:
    """The methods of a run, so that they call something at a moment of a micro-batch."""
    save, begin = SparkRun.save, SparkRun.learn

    def save_and_call(run: SparkRun) -> None:
        if moment == MOMENTS[0] and run.last == number:
            what()
        save(run)
        if moment == MOMENTS[1] and run.last == number:
            what()

    def call_and_begin(run: SparkRun, frame, batch_id):
        if moment == MOMENTS[2] and batch_id == number + 1:
            what()
        return begin(run, frame, batch_id)

    return {"save": save_and_call, "learn": call_and_begin}


if __name__ == "__main__":
    main(*sys.argv[1:4], int(sys.argv[4]))
