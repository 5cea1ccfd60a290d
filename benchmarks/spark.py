"""What a micro-batch on Spark costs beyond Spark itself.

Files of 20,000 rows with 500 columns, one to a micro-batch, on ``local[2]``. The measure is a
``foreachBatch`` that does nothing but send the same rows through ``mapInArrow``, and counts them.
Beside it, FIRES by gradient and by Bayes' rule, with the folder of a run that is saved after each
micro-batch. Times are those that Spark reports for a micro-batch, by the clock on the wall: what is
compared takes turns. It needs the extra ``spark`` and Java: run it with ``.venv-spark/bin/python``.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import Ratio, Row, Seconds, show, shown

SETTINGS = {
    "spark_ui_enabled": "false",
    "spark_ui_showConsoleProgress": "false",
    "spark_driver_memory": "3g",
}
N_ROWS, N_FEATURES, N_FILES, TURNS, MOST = 20_000, 500, 4, 2, 2.0


def main() -> list[Row]:
    if find_spec("pyspark") is None:
        print("spark: there is no pyspark here; .venv-spark/bin/python -m benchmarks spark")
        return []
    from fires.integrations.spark import spark_session

    spark = spark_session("local[2]", **SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    what = f"{N_ROWS:,} x {N_FEATURES}"
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "files")
        _write(files)
        ours = {"gradient": "FIRES by gradient", "bayes": "FIRES by Bayes' rule"}
        times: dict[str, list[float]] = {name: [] for name in ("empty", *ours)}
        for turn in range(TURNS):
            times["empty"] += _empty(spark, files, Path(folder, f"empty {turn}"))
            for update in ours:
                times[update] += _learn(spark, files, Path(folder, f"{update} {turn}"), update)
    spark.stop()
    seconds = {name: np.array(taken) for name, taken in times.items()}
    rows = [Row("an empty foreachBatch", what, shown(float(np.median(seconds["empty"]))))]
    for update, name in ours.items():
        rows.append(_row(name, what, seconds[update], seconds["empty"]))
    return show("spark: a micro-batch, by the clock on the wall", rows)


def _row(name: str, what: str, taken: Seconds, empty: Seconds) -> Row:
    ratio = Ratio.of(taken, empty)
    # Gradient takes one round. Bayes' rule takes several, and each goes through all rows.
    asked = (f"< {MOST:g} x", ratio.median < MOST) if "gradient" in name else ("", None)
    return Row(name, what, shown(float(np.median(taken))), ratio, *asked)


def _write(files: Path) -> None:
    import polars as pl

    files.mkdir()
    rng = np.random.default_rng(0)
    for place in range(N_FILES):
        X = rng.standard_normal((N_ROWS, N_FEATURES))
        frame = pl.DataFrame(X, schema=[f"f{j}" for j in range(N_FEATURES)])
        label = pl.Series("label", X[:, 3] - X[:, 7] > 0)
        path = files / f"{place}.parquet"
        # Row groups are what Spark divides a file by.
        frame.with_columns(label).write_parquet(path, row_group_size=N_ROWS // 4)


def _stream(spark: Any, files: Path) -> Any:
    schema = spark.read.parquet(str(files)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(files))


def _empty(spark: Any, files: Path, state: Path) -> list[float]:
    def count(batches: Any) -> Any:
        import pyarrow as pa

        rows = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"rows": pa.array([rows], pa.int64())})

    def take(frame: Any, number: int) -> None:
        frame.mapInArrow(count, "rows long").collect()

    writer = _stream(spark, files).writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", str(state)).trigger(availableNow=True).start()
    query.awaitTermination()
    return _seconds(query)


def _learn(spark: Any, files: Path, run: Path, update: str) -> list[float]:
    from fires import FIRES
    from fires.integrations.spark import select_stream

    query = select_stream(
        _stream(spark, files),
        FIRES(20, update=update),
        target="label",
        run=run,
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    return _seconds(query)


def _seconds(query: Any) -> list[float]:
    """Of each micro-batch but the first, in which workers start and the scale is found."""
    done = [one for one in query.recentProgress if one["numInputRows"]]
    return [one["durationMs"]["triggerExecution"] / 1000.0 for one in done[1:]]
