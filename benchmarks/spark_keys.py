"""One selector for each of 1,000 keys, on Spark and in one process.

20 rows of each key with 50 columns, on ``local[2]``, of which each key learns in one batch: as a
frame, and as the micro-batches of a stream, whose first one is left out. In one process, each
selector is read from its bytes, learns and is written again, as on Spark.

The stream is also run with Spark's other mechanism for it, ``transformWithStateInPandas`` in place
of ``applyInPandasWithState``; both with the state store RocksDB, which the former needs. It also
wants the package protobuf, and is left out where there is none.

Times are by the clock on the wall; what is compared takes turns, and the shortest counts. It needs
the extra ``spark`` and Java: run it with ``.venv-spark/bin/python``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.timing import Row, show, shown
from fires import FIRES
from fires.loading import selector_from_bytes, selector_to_bytes

N_KEYS, ROWS_EACH, N_FEATURES, N_BATCHES = 1_000, 20, 50, 3
N_ROWS = N_KEYS * ROWS_EACH
OPTIONS = {"key": "tenant", "target": "label", "state": True}
SETTINGS = {
    "spark_ui_enabled": "false",
    "spark_ui_showConsoleProgress": "false",
    "spark_sql_shuffle_partitions": "2",
}
TURNS = 2
_STORE = "spark.sql.streaming.stateStore.providerClass"
_STORES = "org.apache.spark.sql.execution.streaming.state."


def main() -> list[Row]:
    if find_spec("pyspark") is None:
        print("spark_keys: there is no pyspark; .venv-spark/bin/python -m benchmarks spark_keys")
        return []
    from fires.integrations.spark import spark_session

    spark = spark_session("local[2]", **SETTINGS)
    spark.sparkContext.setLogLevel("OFF")
    alone, n_bytes = _one_process()
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "files")
        _write(files)
        seconds: dict[str, list[float]] = {}
        for turn in range(TURNS):
            for name, thing in _things(spark, files, Path(folder, str(turn))).items():
                seconds.setdefault(name, []).append(thing())
    spark.stop()
    what = f"{N_KEYS:,} keys x {ROWS_EACH} x {N_FEATURES}"
    rows = [_row("one process", what, alone, alone)]
    rows += [_row(f"{name}, local[2]", what, min(taken), alone) for name, taken in seconds.items()]
    rows.append(Row("state of a key", f"J = {N_FEATURES}", f"{n_bytes:,} bytes"))
    return show("spark_keys: all rows of a micro-batch, by the clock on the wall", rows)


def _things(spark: Any, files: Path, offsets: Path) -> dict[str, Callable[[], float]]:
    from fires.integrations.spark import select_stream_by_key

    rocks, usual = "RocksDBStateStoreProvider", "HDFSBackedStateStoreProvider"
    own, other = select_stream_by_key, _other_mechanism
    things: dict[str, Callable[[], float]] = {
        "select_by_key": lambda: _frame(spark, files),
        "select_stream_by_key": lambda: _stream(spark, files, offsets / "1", own, usual),
        "the same with RocksDB": lambda: _stream(spark, files, offsets / "2", own, rocks),
    }
    if find_spec("google") is not None and find_spec("google.protobuf") is not None:
        things["transformWithStateInPandas with RocksDB"] = lambda: _stream(
            spark, files, offsets / "3", other, rocks
        )
    return things


def _row(name: str, what: str, seconds: float, alone: float) -> Row:
    speed = f"{N_ROWS / seconds:,.0f} rows/s, {seconds / alone:.2g} x the time"
    return Row(name, what, shown(seconds), speed)


def _rows(number: int) -> tuple[Any, Any, Any]:
    X = np.random.default_rng(number).standard_normal((N_ROWS, N_FEATURES))
    tenant = np.arange(N_ROWS) % N_KEYS
    return X, X[np.arange(N_ROWS), tenant % N_FEATURES] > 0, tenant


def _one_process() -> tuple[float, int]:
    states: dict[int, bytes] = {}
    for number in range(2):
        X, y, tenant = _rows(number)
        began = perf_counter()
        for key in range(N_KEYS):
            selector = selector_from_bytes(states[key]) if key in states else FIRES(10)
            states[key] = selector_to_bytes(
                selector.partial_fit(X[tenant == key], y[tenant == key])
            )
        seconds = perf_counter() - began
    return seconds, len(states[0])


def _write(files: Path) -> None:
    import polars as pl

    files.mkdir()
    for number in range(N_BATCHES):
        X, y, tenant = _rows(number)
        frame = pl.DataFrame(X, schema=[f"f{j}" for j in range(N_FEATURES)])
        columns = [pl.Series("tenant", tenant), pl.Series("label", y)]
        frame.with_columns(columns).write_parquet(files / f"{number}.parquet")


def _frame(spark: Any, files: Path) -> float:
    from fires.integrations.spark import select_by_key

    for number in range(2):  # workers start in the first turn
        df = spark.read.parquet(str(files / f"{number}.parquet"))
        began = perf_counter()
        select_by_key(df, FIRES(10), **OPTIONS).write.format("noop").mode("overwrite").save()
        seconds = perf_counter() - began
    return seconds


def _stream(
    spark: Any, files: Path, offsets: Path, select: Callable[..., Any], store: str
) -> float:
    spark.conf.set(_STORE, _STORES + store)
    schema = spark.read.parquet(str(files)).schema
    df = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(files))
    writer = select(df, FIRES(10), **OPTIONS).writeStream.outputMode("update")
    writer = writer.format("noop").option("checkpointLocation", str(offsets))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    done = [one for one in query.recentProgress if one["numInputRows"]]
    return min(float(one["durationMs"]["triggerExecution"]) / 1000.0 for one in done[1:])


def _other_mechanism(df: Any, selector: FIRES, *, key: str, target: str, state: bool) -> Any:
    """What :func:`select_stream_by_key` would be with ``transformWithStateInPandas``."""
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.streaming import StatefulProcessor

    from fires.integrations.spark import keyed

    learning, chosen, schema = keyed._prepared(df, selector, key, None, target, {}, state=state)
    arrow = to_arrow_schema(chosen.schema)

    class OneKey(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.saved = handle.getValueState("saved", "state binary")

        def handleInputRows(self, key: Any, rows: Any, timers: Any) -> Any:  # noqa: N802
            saved = self.saved.get()

            class State:
                exists, get = saved is not None, saved
                update = staticmethod(self.saved.update)

            yield from learning.of_frames(key, rows, State, arrow, schema.names)

        def close(self) -> None:
            pass

    groups = chosen.groupBy(key)
    return groups.transformWithStateInPandas(OneKey(), schema, "Update", "None")
