"""What a micro-batch on Spark costs beyond Spark itself, and beside one process.

Two sizes of micro-batches, one Parquet file to each: 20,000 rows of 500 columns, and 2,000 sparse
rows of 50,000 features, of which 1 % are there, as two arrays. (Dense ones would be 800 MB.) On
``local[1]`` and ``local[2]``, what is compared takes turns:

- one process that reads the file and learns from it;
- a ``foreachBatch`` that only sends the rows through ``mapInArrow``, and counts them: the measure;
- FIRES by gradient and by Bayes' rule, with the folder of a run that is saved each time.

Times are by the clock on the wall; of a micro-batch, those that Spark reports. The first one of a
stream is left out. It needs the extra ``spark`` and Java: run it with ``.venv-spark/bin/python``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.timing import Ratio, Row, show, shown
from fires import FIRES

SETTINGS = {
    "spark_ui_enabled": "false",
    "spark_ui_showConsoleProgress": "false",
    "spark_driver_memory": "3g",
}
N_FILES, TURNS, MOST = 4, 2, 2.0
UPDATES = {"gradient": "gradient", "bayes": "Bayes' rule"}


@dataclass(frozen=True)
class Size:
    """The rows of a micro-batch."""

    n_rows: int
    n_features: int
    density: float = 1.0

    def __str__(self) -> str:
        filled = f", {self.density:.0%} filled" if self.density < 1.0 else ""
        return f"{self.n_rows:,} x {self.n_features:,}{filled}"

    @property
    def options(self) -> dict[str, Any]:
        """What says to Spark which columns are features."""
        if self.density == 1.0:
            return {}
        return {"entries": ("places", "values"), "n_features": self.n_features}

    def write(self, path: Path, seed: int) -> None:
        """Write rows to a file of Parquet."""
        import polars as pl

        rng = np.random.default_rng(seed)
        if self.density == 1.0:
            X = rng.standard_normal((self.n_rows, self.n_features))
            frame = pl.DataFrame(X, schema=[f"f{j}" for j in range(self.n_features)])
            label = X[:, 3] - X[:, 7] > 0
        else:
            shape = self.n_rows, self.n_features
            X = sp.random_array(shape, density=self.density, format="csr", rng=rng)
            lines = [slice(*edge) for edge in zip(X.indptr[:-1], X.indptr[1:], strict=True)]
            columns = {"places": X.indices, "values": X.data}
            frame = pl.DataFrame({n: [v[line] for line in lines] for n, v in columns.items()})
            label = rng.integers(0, 2, self.n_rows)
        # Row groups are what Spark divides a file by.
        frame = frame.with_columns(label=pl.Series(label))
        frame.write_parquet(path, row_group_size=self.n_rows // 4)

    def read(self, path: Path) -> tuple[Any, Any]:
        """Read them in this process: X and y."""
        import polars as pl

        frame = pl.read_parquet(path)
        label, frame = frame["label"].to_numpy(), frame.drop("label")
        if self.density == 1.0:
            return np.ascontiguousarray(frame.to_numpy()), label
        edges = np.append(0, np.cumsum(frame["places"].list.len().to_numpy()))
        values, places = (frame[name].explode().to_numpy() for name in ("values", "places"))
        return sp.csr_array((values, places, edges), shape=(len(label), self.n_features)), label


SIZES = (Size(20_000, 500), Size(2_000, 50_000, 0.01))


def main() -> list[Row]:
    if find_spec("pyspark") is None:
        print("spark: there is no pyspark here; .venv-spark/bin/python -m benchmarks spark")
        return []
    rows = [row for n_cores in (1, 2) for row in on_cores(n_cores)]
    return show("spark: a micro-batch, by the clock on the wall", rows)


def on_cores(n_cores: int) -> list[Row]:
    from fires.integrations.spark import spark_session

    spark = spark_session(f"local[{n_cores}]", **SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    try:
        return [row for size in SIZES for row in of_size(spark, size, n_cores)]
    finally:
        spark.stop()


def of_size(spark: Any, size: Size, n_cores: int) -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "files")
        files.mkdir()
        for place in range(N_FILES):
            size.write(files / f"{place}.parquet", place)
        things: dict[str, Callable[[Path], list[float]]] = {
            "empty": lambda path: _empty(spark, files, path)
        }
        for update in UPDATES:
            things[f"alone {update}"] = lambda path, u=update: _alone(size, files, u)
            things[update] = lambda path, u=update: _learn(spark, size, files, path, u)
        taken: dict[str, list[float]] = {name: [] for name in things}
        for turn in range(TURNS):
            for name, thing in things.items():
                taken[name] += thing(Path(folder, f"{name} {turn}"))
    seconds = {name: np.array(values) for name, values in taken.items()}

    def row(name: str, what: str, cores: int) -> Row:
        speed = f"{size.n_rows / float(np.median(seconds[name])) / cores:,.0f} rows/s per core"
        ratio = Ratio.of(seconds[name], seconds["empty"])
        judged = size is SIZES[0] and name in UPDATES and n_cores == 2
        asked = (f"< {MOST:g} x the empty one", ratio.median < MOST) if judged else ()
        time = f"{shown(float(np.median(seconds[name])))}, {speed}"
        return Row(what, str(size), time, ratio, *asked)

    rows = [row("empty", f"local[{n_cores}], an empty foreachBatch", n_cores)]
    for update, called in UPDATES.items():
        rows.append(row(f"alone {update}", f"one process, {called}", 1))
        rows.append(row(update, f"local[{n_cores}], FIRES by {called}", n_cores))
    return rows


def _alone(size: Size, files: Path, update: str) -> list[float]:
    selector, seconds = FIRES(20, update=update), []
    for path in sorted(files.iterdir()):
        began = perf_counter()
        selector.partial_fit(*size.read(path))
        seconds.append(perf_counter() - began)
    return seconds[1:]


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


def _learn(spark: Any, size: Size, files: Path, run: Path, update: str) -> list[float]:
    from fires.integrations.spark import select_stream

    query = select_stream(
        _stream(spark, files),
        FIRES(20, update=update),
        target="label",
        run=run,
        trigger={"availableNow": True},
        **size.options,
    )
    query.awaitTermination()
    return _seconds(query)


def _seconds(query: Any) -> list[float]:
    """Of each micro-batch but the first, in which workers start and the scale is found."""
    done = [one for one in query.recentProgress if one["numInputRows"]]
    return [one["durationMs"]["triggerExecution"] / 1000.0 for one in done[1:]]
