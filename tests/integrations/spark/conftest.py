"""A local Spark for the tests. ``make test-spark`` runs them where pyspark and Java are."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

if find_spec("pyspark") is None:  # it wants an older pandas: make test-spark has it
    collect_ignore_glob = ["*.py"]

COLUMNS = [f"f{place}" for place in range(8)]


@pytest.fixture(scope="session")
def spark():
    from fires.integrations.spark import spark_session

    # A task may fail three times: a worker that dies is no reason to give up.
    session = spark_session("local[1,4]", **QUICK)
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


QUICK = {
    "spark_ui_enabled": "false",
    "spark_ui_showConsoleProgress": "false",
    "spark_sql_shuffle_partitions": "2",
    "spark_sql_files_maxPartitionBytes": "100000",  # each file is a partition, on any machine
    # Short jobs: what would compile them takes longer than they do.
    "spark_driver_extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark_sql_codegen_wholeStage": "false",
}


def rows(n: int, seed: int = 0):
    """Rows of which the columns f3 and f5 say what the label is."""
    X = np.random.default_rng(seed).normal(size=(n, len(COLUMNS)))
    return X, np.where(X[:, 3] - X[:, 5] > 0, "up", "down")


def write_files(folder: Path, n_files: int, n_rows: int = 150, first: int = 0) -> None:
    """Parquet files, one for each second: Spark reads them in this order."""
    import polars as pl

    folder.mkdir(exist_ok=True)
    for place in range(first, first + n_files):
        X, y = rows(n_rows, seed=place)
        path = folder / f"{place:03d}.parquet"
        pl.DataFrame(X, schema=COLUMNS).with_columns(label=pl.Series(y)).write_parquet(path)
        os.utime(path, (1_700_000_000 + place, 1_700_000_000 + place))
