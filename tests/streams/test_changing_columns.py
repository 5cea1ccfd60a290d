"""Tables whose columns are others from file to file, or from line to line."""

import io
import itertools
import json

import numpy as np
import polars as pl
import pytest

from fires.core.errors import InputError
from fires.streams import from_file


def table(rng, names, n_rows):
    """Numbers, but for a town and a date; the target says whether the first is above 0."""
    columns = {}
    for name in names:
        columns[name] = rng.normal(size=n_rows).round(3)
        if name == "town":
            columns[name] = rng.choice(["Bonn", "Ulm"], n_rows).tolist()
        if name == "when":
            columns[name] = [f"2024-01-{day:02d}" for day in rng.integers(1, 28, n_rows)]
    return pl.DataFrame({**columns, "y": rng.choice(["no", "yes"], n_rows).tolist()})


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    headers = ["ab", ["b", "town", "c"], ["c", "when", "a"], ["a", "b"]]
    frames = [table(rng, names, n) for names, n in zip(headers, (250, 130, 20, 200), strict=True)]
    paths = [tmp_path / f"{i}.csv" for i in range(4)]
    for frame, path in zip(frames, paths, strict=True):
        frame.write_csv(path)
    return frames, paths


def seen(stream, size=100):
    return [(batch.names, batch.n_rows) for batch in stream.batches(size)]


def test_each_batch_has_the_columns_of_its_file(files):
    _, paths = files
    stream = from_file(paths, "y", columns="open")
    assert seen(stream) == [
        *[(("a", "b"), n) for n in (100, 100, 50)],
        *[(("b", "town", "c"), n) for n in (100, 30)],
        (("a", "c", "when"), 20),
        *[(("a", "b"), n) for n in (100, 100)],
    ]
    assert stream.columns.names == ("a", "b", "town", "c", "when")
    assert [row["name"] for row in stream.describe()] == ["a", "b", "town", "c", "when"]
    assert stream.surprises() == []


def test_the_values_are_those_of_the_files(files):
    frames, paths = files
    batches = list(from_file(paths, "y", columns="open").batches(1000))
    for batch, frame in zip(batches, frames, strict=True):
        for name in set(batch.names) & set("abc"):
            np.testing.assert_array_equal(batch.X[:, batch.names.index(name)], frame[name])
        assert batch.y.tolist() == frame["y"].to_list()
    # Nothing is known of a town yet in its first batch; a date is seconds.
    assert not batches[1].X[:, 1].any()
    assert batches[2].X[0, 2] > 1.7e9


@pytest.mark.parametrize("block_size", [pytest.param(1 << 24, marks=pytest.mark.slow), 700])
def test_a_stream_goes_on_wherever_it_was_left(files, block_size):
    _, paths = files
    stream = from_file(paths, "y", columns="open", exclude=["b"], block_size=block_size)
    whole = list(stream.batches(30))
    assert {name for batch in whole for name in batch.names} == {"a", "town", "c", "when"}
    for stop in range(1, len(whole), 3):
        stream = from_file(paths, "y", columns="open", exclude=["b"], block_size=block_size)
        reading = stream.batches(30)
        list(itertools.islice(reading, stop))
        bookmark = json.loads(json.dumps(stream.bookmark()))
        again = from_file(paths, "y", after=bookmark, block_size=block_size)
        rest = list(again.batches(30))
        assert len(rest) == len(whole) - stop
        for one, other in zip(rest, whole[stop:], strict=True):
            np.testing.assert_array_equal(one.X, other.X)
            assert (one.names, one.position) == (other.names, other.position)
            assert one.columns.as_json() == other.columns.as_json()


def test_with_fixed_columns_the_first_file_decides(files):
    _, paths = files
    stream = from_file(paths, "y")
    assert {(batch.names, batch.X.shape[1]) for batch in stream.batches(100)} == {(None, 2)}
    assert any('"town", "c" only in' in line for line in stream.surprises())


def test_json_objects_with_changing_keys():
    rows = [{"a": i, "y": i % 2} for i in range(50)]
    rows += [{"b": i / 2, "town": "Ulm", "y": i % 2} for i in range(30)]
    rows += [{"a": i, "c": None, "y": i % 2} for i in range(20)]
    # Late keys: they come after those that decide which columns there are.
    rows = [{"a": 0.5, "y": 1}] * 10_000 + rows
    lines = io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode())
    stream = from_file(lines, "y", columns="open")
    batches = list(stream.batches(25))[400:]
    assert [batch.names for batch in batches] == [
        *[("a",)] * 2,
        ("b", "town"),
        ("a", "b", "town"),
        ("a",),
    ][: len(batches)]
    np.testing.assert_array_equal(batches[2].X[:, 0], np.arange(25) / 2)
    assert np.isnan(batches[3].X[:5, 0]).all()
    assert stream.surprises() == []


def test_batches_of_json_do_not_depend_on_blocks():
    rng = np.random.default_rng(1)
    rows = []
    for i in range(400):
        keys = rng.choice(["a", "b", "c", "d"], rng.integers(1, 4), replace=False)
        rows.append({str(key): round(rng.normal(), 2) for key in keys} | {"y": i % 2})
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    whole, small = (
        list(from_file(io.BytesIO(data), "y", columns="open", block_size=size).batches(30))
        for size in (1 << 24, 500)
    )
    for one, other in zip(whole, small, strict=True):
        assert one.names == other.names
        np.testing.assert_array_equal(one.X, other.X)


def test_parquet_and_text_together(tmp_path):
    rng = np.random.default_rng(0)
    table(rng, ["a", "town"], 40).write_parquet(tmp_path / "0.parquet")
    table(rng, ["when", "c"], 40).write_csv(tmp_path / "1.csv")
    paths = [tmp_path / "0.parquet", tmp_path / "1.csv"]
    stream = from_file(paths, "y", columns="open")
    assert seen(stream, 50) == [(("a", "town"), 40), (("when", "c"), 40)]


def test_very_many_columns(tmp_path):
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(1500)]
    for i, part in enumerate((names[:1200], names[300:])):
        table(rng, part, 20).write_csv(tmp_path / f"{i}.csv")
    stream = from_file([tmp_path / "0.csv", tmp_path / "1.csv"], "y", columns="open")
    found = [(len(batch.names), batch.X.shape) for batch in stream.batches(10)]
    assert found == [(1200, (10, 1200))] * 4
    assert stream.columns.names == tuple(names)


def test_every_file_needs_the_target_and_something_else(tmp_path):
    rng = np.random.default_rng(0)
    table(rng, "ab", 5).write_csv(tmp_path / "0.csv")
    table(rng, "c", 5).write_csv(tmp_path / "1.csv")
    table(rng, "ab", 5).drop("y").write_csv(tmp_path / "2.csv")
    with pytest.raises(InputError, match=r'1\.csv has no column besides the target "y"'):
        from_file([tmp_path / "0.csv", tmp_path / "1.csv"], "y", columns="open", exclude=["c"])
    with pytest.raises(InputError, match=r'no column "y" in .*2\.csv'):
        from_file([tmp_path / "0.csv", tmp_path / "2.csv"], "y", columns="open")
    with pytest.raises(ValueError, match="columns must be one of 'fixed', 'open'"):
        from_file([tmp_path / "0.csv"], "y", columns="wide")


def test_cells_of_another_kind_are_missing(tmp_path):
    rng = np.random.default_rng(0)
    table(rng, "ab", 50).write_csv(tmp_path / "0.csv")
    table(rng, "bc", 50).write_csv(tmp_path / "1.csv")
    words = table(rng, "c", 300).with_columns(c=pl.lit("word"))
    words.write_csv(tmp_path / "2.csv")
    paths = [tmp_path / f"{i}.csv" for i in range(3)]
    stream = from_file(paths, "y", columns="open")
    *_, last = stream.batches(50)
    assert np.isnan(last.X).all()
    assert any('column "c": 86% of its values are not numbers' in s for s in stream.surprises())


def test_rows_without_any_column_have_one_that_is_missing(tmp_path):
    rows = [{"a": i, "y": i % 2} for i in range(40)] + [{"y": i % 2} for i in range(20)]
    lines = io.BytesIO("".join(json.dumps(row) + "\n" for row in rows).encode())
    *_, last = from_file(lines, "y", columns="open").batches(20)
    assert last.names == ("a",)
    assert last.X.shape == (20, 1)
    assert np.isnan(last.X).all()
    table(np.random.default_rng(0), "ab", 30).write_csv(tmp_path / "0.csv")
    text = "note,y\n" + "".join(f"{'word ' * 20},{'yes' if i % 2 else 'no'}\n" for i in range(9))
    (tmp_path / "1.csv").write_text(text)
    *_, last = from_file([tmp_path / "0.csv", tmp_path / "1.csv"], "y", columns="open").batches(50)
    assert last.names == ("a",)
    assert last.y.tolist() == ["no", "yes"] * 4 + ["no"]
    assert np.isnan(last.X).all()


def test_reading_json_again_gives_the_same(tmp_path):
    rng = np.random.default_rng(2)
    rows = [{"a": float(i), "y": i % 2} for i in range(10_050)]
    for i in range(600):
        keys = rng.choice(["a", "b", "c", "d"], rng.integers(1, 4), replace=False)
        rows.append({str(key): round(rng.normal(), 2) for key in keys} | {"y": i % 2})
    path = tmp_path / "x.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    stream = from_file(path, "y", columns="open", block_size=4_000)
    whole = list(stream.batches(50))
    again = list(stream.batches(50))
    reading = stream.batches(50)
    list(itertools.islice(reading, 205))
    bookmark = json.loads(json.dumps(stream.bookmark()))
    reading.close()
    rest = list(stream.after(bookmark).batches(50))
    fresh = list(from_file(path, "y", after=bookmark, block_size=4_000).batches(50))
    for batches, wanted in ((again, whole), (rest, whole[205:]), (fresh, whole[205:])):
        for one, other in zip(batches, wanted, strict=True):
            assert one.names == other.names
            np.testing.assert_array_equal(one.X, other.X)
            assert one.columns.as_json() == other.columns.as_json()
