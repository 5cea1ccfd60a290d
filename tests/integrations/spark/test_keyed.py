"""One selector per key on a real local Spark, against one process."""

from __future__ import annotations

import os

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from numpy.testing import assert_array_equal
from tests.integrations.spark.conftest import COLUMNS

from fires import FIRES
from fires.core.errors import InputError
from fires.integrations.spark import select_by_key, select_stream_by_key
from fires.integrations.spark.keyed import _ByKey
from fires.integrations.spark.rows import Layout, Part
from fires.loading import selector_from_bytes

KEYS = ["a", "b", "c", "d", "e"]


def batch(number: int) -> pl.DataFrame:
    """Rows of five tenants: the label of each hangs on a column of its own."""
    rng = np.random.default_rng(number)
    X = rng.normal(size=(300, len(COLUMNS)))
    X[::7, 0] = np.nan
    tenant = rng.integers(len(KEYS) - (number == 0), size=len(X))  # "e" comes later
    y = np.where(X[np.arange(len(X)), tenant + 1] > 0, "up", "down")
    return pl.DataFrame(X, schema=COLUMNS).with_columns(
        label=pl.Series(y),
        tenant=pl.Series([KEYS[place] for place in tenant]),
        at=pl.Series(np.arange(len(X)) + number * len(X)),
    )


def write(folder, batches):
    folder.mkdir()
    for place, rows in enumerate(batches):
        path = folder / f"{place}.parquet"
        rows.write_parquet(path)
        os.utime(path, (1_700_000_000 + place, 1_700_000_000 + place))


def part_of(rows, key):
    own = rows.filter(pl.col("tenant") == key)
    return own.select(COLUMNS).to_numpy(), own["label"].to_numpy().astype(object)


def assert_same(found, expected):
    """The state and the rows of a key are those of a selector that learnt in this process."""
    again = selector_from_bytes(bytes(next(row.state for row in found if row.state is not None)))
    (header, arrays), (said, numbers) = again.saved(), expected.saved()
    assert header | {"fires": ""} == said | {"fires": ""}
    assert arrays.keys() == numbers.keys()
    for name, array in arrays.items():
        assert_array_equal(array, numbers[name], err_msg=name)
    chosen = expected.get_support(indices=True)
    chosen = chosen[np.argsort(expected.ranking_[chosen])]
    assert [row.feature for row in found] == [COLUMNS[place] for place in chosen]
    assert [row.rank for row in found] == expected.ranking_[chosen].tolist()
    assert [row.importance for row in found] == expected.importances_[chosen].tolist()
    assert [row.low for row in found] == expected.interval()[0][chosen].tolist()
    assert {(row.selected, row.rows) for row in found} == {(True, expected.n_samples_seen_)}


def by_key(rows):
    found: dict[str, list] = {}
    for row in sorted(rows, key=lambda row: row["rank"]):
        found.setdefault(row.tenant, []).append(row)
    return found


def test_each_key_of_a_frame_learns_what_one_process_learns(spark, tmp_path):
    batches = [batch(number) for number in range(3)]
    write(tmp_path / "in", batches)
    df = spark.read.parquet(str(tmp_path / "in"))
    options = {"key": "tenant", "target": "label", "order": "at", "batch_rows": 50, "state": True}
    found = by_key(select_by_key(df, FIRES(2), **options).collect())
    assert sorted(found) == KEYS
    for key, rows in found.items():
        X, y = part_of(pl.concat(batches), key)
        expected = FIRES(2).name_features(COLUMNS)
        for start in range(0, len(X), 50):
            expected.partial_fit(X[start : start + 50], y[start : start + 50])
        assert_same(rows, expected)


def test_each_key_of_a_stream_learns_what_one_process_learns(spark, tmp_path):
    batches = [batch(number) for number in range(2)]
    write(tmp_path / "in", batches)
    schema = spark.read.parquet(str(tmp_path / "in")).schema
    answers = {}

    def take(frame, number):
        answers[number] = by_key(frame.collect())

    def learn():
        reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        df = reader.parquet(str(tmp_path / "in"))
        options = {"key": "tenant", "target": "label", "order": "at", "state": True}
        writer = select_stream_by_key(df, FIRES(2), **options).writeStream.outputMode("update")
        writer = writer.option("checkpointLocation", str(tmp_path / "offsets"))
        writer.foreachBatch(take).trigger(availableNow=True).start().awaitTermination()

    learn()
    write(tmp_path / "more", [batch(2)])
    (tmp_path / "more" / "0.parquet").rename(tmp_path / "in" / "2.parquet")
    learn()  # it goes on with what it knows

    expected = {key: FIRES(2).name_features(COLUMNS) for key in KEYS}
    for number, rows in enumerate([*batches, batch(2)]):
        for key in sorted(set(rows["tenant"])):
            expected[key].partial_fit(*part_of(rows, key))
            assert_same(answers[number][key], expected[key])


def test_nothing_comes_of_a_key_whose_target_is_constant(spark):
    one_label = pl.when(pl.col("tenant") == "b").then(pl.lit("up")).otherwise("label")
    rows = batch(0).with_columns(label=one_label)
    frame = spark.createDataFrame(rows.to_pandas())
    found = select_by_key(frame, FIRES(1), key="tenant", target="label", order="at").collect()
    assert sorted({row.tenant for row in found}) == ["a", "c", "d"]


def test_an_error_names_the_key():
    table = pa.table({"tenant": ["b"] * 2, "x": [1.0, np.inf], "label": ["up", "down"]})
    learning = _ByKey(
        FIRES(1), Layout((Part("number", ("x",), 1),), "label"), ["tenant"], None, False
    )
    with pytest.raises(InputError, match=r"the key tenant='b': .*infinit"):
        learning.learnt(["b"], table, None)


def test_columns_that_cannot_be_used_are_one_line(spark):
    df = spark.createDataFrame([("a", 1.0, "up")], ["tenant", "x", "label"])
    with pytest.raises(InputError, match='no column "machine"'):
        select_by_key(df, FIRES(1), key="machine", target="label")
    renamed = df.withColumnRenamed("tenant", "rank")
    with pytest.raises(InputError, match='key is a column "rank", and so is a result'):
        select_by_key(renamed, FIRES(1), key="rank", target="label")
    with pytest.raises(InputError, match="is not streaming; use select_by_key"):
        select_stream_by_key(df, FIRES(1), key="tenant", target="label")
