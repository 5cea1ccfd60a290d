"""Rounds of sums on a real local Spark."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.integrations.spark.conftest import COLUMNS, rows

from fires.core.errors import InputError
from fires.integrations.spark import engine
from fires.integrations.spark.engine import MicroBatch, NoRows, completed
from fires.integrations.spark.rows import layout_of


def sums_task():
    class Sums:
        """Of a class in a function, a worker knows nothing: it has to be sent."""

        def __call__(self, shard):
            X = shard.X if isinstance(shard.X, np.ndarray) else shard.X.toarray()
            up = (shard.y == "up").astype(float)
            weight = np.ones(len(up)) if shard.weight is None else shard.weight
            return {"X'y": X.T @ (up * weight), "list rows": np.array([len(up)])}

    return Sums()


def frame_of(spark, X, y):
    values = [(*row, label) for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    return spark.createDataFrame(values, [*COLUMNS, "label"])


@pytest.mark.parametrize("n_partitions", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_sums_of_any_number_of_partitions_are_those_of_one_process(spark, n_partitions):
    X, y = rows(600)
    frame = frame_of(spark, X, y).repartition(n_partitions)
    with MicroBatch(frame, layout_of(frame.schema, "label")) as batch:
        first, again = batch.evaluate(sums_task()), batch.evaluate(sums_task())
        assert spark.sparkContext._jsc.getPersistentRDDs().size() == 1
    assert_allclose(first["X'y"], X.T @ (y == "up"), rtol=1e-10, atol=1e-12)
    assert (first["X'y"] == again["X'y"]).all()
    assert (batch.n_rows, len(first["list rows"])) == (600, n_partitions)
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0


def test_the_driver_gets_one_result_of_large_sums(spark, monkeypatch):
    from pyspark import RDD

    X, y = rows(100)
    frame, n_results = frame_of(spark, X, y).repartition(4), []
    collect = RDD.collect

    def counted(rdd):
        n_results.append(len(found := collect(rdd)))
        return found

    monkeypatch.setattr(RDD, "collect", counted)
    layout, sums = layout_of(frame.schema, "label"), []
    for limit in (1 << 26, 0):  # sums are small beside the one, and large beside the other
        monkeypatch.setattr(engine, "_DRIVER_BYTES", limit)
        with MicroBatch(frame, layout) as batch:
            sums += [batch.evaluate(sums_task()) for _ in range(1 if limit else 2)]
            assert batch.n_rows == 100
    assert n_results == [4, 1, 1]
    for one in sums[1:]:
        assert_allclose(one["X'y"], sums[0]["X'y"], rtol=1e-10, atol=1e-12)
        assert (one["list rows"] == sums[0]["list rows"]).all()  # in the order of partitions


def test_vectors_of_spark_ml_are_rows_dense_or_sparse(spark):
    from pyspark.ml.linalg import Vectors

    X, y = rows(40)
    X[1::2, 1:] = 0.0
    values = [
        (Vectors.sparse(8, [0], [row[0]]) if place % 2 else Vectors.dense(row), label, 2.0)
        for place, (row, label) in enumerate(zip(X.tolist(), y.tolist(), strict=True))
    ]
    frame = spark.createDataFrame(values, ["v", "label", "w"]).repartition(2)
    layout = completed(frame, layout_of(frame.schema, "label", weight="w"))
    assert (layout.is_sparse, layout.n_features, layout.names[7]) == (True, 8, "v[7]")
    with MicroBatch(frame, layout) as batch:
        assert_allclose(batch.evaluate(sums_task())["X'y"], 2.0 * X.T @ (y == "up"), atol=1e-12)


def test_a_worker_that_is_killed_is_replaced_and_the_sums_are_the_same(spark, tmp_path):
    killed = str(tmp_path / "killed")

    class KilledOnce:
        def __init__(self, task):
            self.task = task

        def __call__(self, shard):
            if not os.path.exists(killed):
                open(killed, "w").close()
                os.kill(os.getpid(), signal.SIGKILL)
            return self.task(shard)

    X, y = rows(600)
    frame = frame_of(spark, X, y).repartition(2)
    layout = layout_of(frame.schema, "label")
    with MicroBatch(frame, layout) as batch:
        undisturbed = batch.evaluate(sums_task())["X'y"]
        again = batch.evaluate(KilledOnce(sums_task()))["X'y"]  # in a later round
    assert os.path.exists(killed)
    os.unlink(killed)
    with MicroBatch(frame, layout) as batch:
        first = batch.evaluate(KilledOnce(sums_task()))["X'y"]  # while rows are read
    assert os.path.exists(killed)
    assert (again == undisturbed).all()
    assert (first == undisturbed).all()


def test_shards_that_are_not_nearby_come_from_the_cache(spark):
    from pyspark import SparkFiles

    folder = Path(SparkFiles.getRootDirectory())
    X, y = rows(600)
    frame = frame_of(spark, X, y).repartition(2)
    (folder / "fires-shard-of-a-worker-that-died").write_bytes(b"")
    with MicroBatch(frame, layout_of(frame.schema, "label")) as batch:
        first = batch.evaluate(sums_task())["X'y"]
        files = sorted(folder.glob("fires-shard-*"))
        assert len(files) == 2
        files[0].unlink()
        with MicroBatch(batch._shards) as other:
            sums = [one.evaluate(sums_task()) for one in (batch, other, batch, other)]
    assert all((one["X'y"] == first).all() for one in sums)
    assert not list(folder.glob("fires-shard-*"))


def test_an_error_that_a_user_can_cause_is_one_line(spark):
    X, y = rows(20)
    X[7, 2] = np.inf
    frame = frame_of(spark, X, y).coalesce(1)
    with (
        MicroBatch(frame, layout_of(frame.schema, "label")) as batch,
        pytest.raises(ValueError, match=r"infinity.*\(first in row 7, column 'f2'\)"),
    ):
        batch.evaluate(sums_task())
    nothing = frame.where("f0 > 1e9")
    with MicroBatch(nothing, layout_of(frame.schema, "label")) as batch, pytest.raises(NoRows):
        batch.evaluate(sums_task())


def test_columns_that_are_no_numbers_are_refused(spark):
    frame = spark.createDataFrame([("a", 1.0, "up")], ["city", "x", "label"])
    with pytest.raises(InputError, match='"city" holds string, and on Spark features are numbers'):
        layout_of(frame.schema, "label")
    assert layout_of(frame.schema, "label", features="x").names == ["x"]
    with pytest.raises(InputError, match='no column "nope"; it has city, x and label'):
        layout_of(frame.schema, "nope")
    with pytest.raises(InputError, match="do not say how many features there are; give n_features"):
        layout_of(frame.schema, "label", entries=("city", "x"))
