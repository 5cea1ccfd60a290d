"""Queries as streams: the order of a column, going on behind any row, and what is refused."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

from fires.checks import check_stream
from fires.core.errors import InputError
from fires.streams import sql
from fires.streams.base import Position
from fires.streams.files import from_file
from fires.streams.sql import SqlTable, from_sql

duckdb = pytest.importorskip("duckdb")
KINDS = ["duckdb", "sqlite"]
N_ROWS = 250
ROWS = [
    (
        7 * i % N_ROWS,
        i / 8,
        i % 5,
        f"town{i % 3}",
        None if i % 11 == 0 else f"2024-01-{i % 28 + 1:02d}",
    )
    for i in range(N_ROWS)
]
COLUMNS = "id integer, size double, fifth integer, town varchar, day date, label varchar"


def connect(kind, path):
    return duckdb.connect(str(path)) if kind == "duckdb" else sqlite3.connect(path)


def filled(folder, kind, rows=None, columns=COLUMNS):
    """A database with a table ``events``; what to write before the query."""
    path = folder / f"shop.{kind}"
    if rows is None:
        rows = [(*row, "yes" if row[2] > 1 else "no") for row in ROWS]
    with closing(connect(kind, path)) as database:
        database.execute(f"create table events ({columns})")
        marks = ", ".join("?" * len(rows[0]))
        database.executemany(f"insert into events values ({marks})", rows)
        database.commit()
    return f"{kind}:{path}?"


def read(stream, size=20):
    return [(batch.X, batch.y, batch.position) for batch in stream.batches(size)]


def assert_same(found, expected):
    assert [place for *_, place in found] == [place for *_, place in expected]
    for one, other in zip(found, expected, strict=True):
        assert one[0].tobytes() == other[0].tobytes()
        assert one[1].tolist() == other[1].tolist()


def message(uri, target="label", **options):
    with pytest.raises(InputError) as error:
        read(from_sql(uri, target, **options))
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_come_in_the_order_of_the_position_which_is_no_feature(tmp_path, kind):
    uri = filled(tmp_path, kind) + "select * from events;"
    stream = from_sql(uri, "label", position="id", exclude=["day", "id"])
    assert stream.schema.feature_names == ("size", "fifth", "town")
    batches = read(stream, 100)
    size = np.concatenate([X[:, 0] for X, *_ in batches])
    expected = [row[1] for row in sorted(ROWS)]
    assert size.tolist() == expected
    assert batches[0][2] == Position(rows=100, offset=100, line=100, mark=99)


@pytest.mark.parametrize("kind", KINDS)
def test_a_query_gives_the_batches_of_the_same_rows_in_a_file(tmp_path, kind):
    uri = filled(tmp_path, kind) + "select * from events where fifth < 4"
    lines = [
        ",".join("" if value is None else str(value) for value in row[1:])
        + (",yes" if row[2] > 1 else ",no")
        for row in sorted(ROWS)
        if row[2] < 4
    ]
    path = tmp_path / "shop.csv"
    path.write_text("\n".join(["size,fifth,town,day,label", *lines]))
    found = read(from_sql(uri, "label", position="id"))
    expected = read(from_file(path, "label"))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1].tolist() == other[1].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_every_check_of_a_stream_holds(tmp_path, kind):
    uri = filled(tmp_path, kind) + "select * from events"
    check_stream(from_sql(uri, "label", position="id", categories="codes"))
    check_stream(from_sql(uri, "label", categories="codes"))


@pytest.mark.parametrize(("kind", "cells"), [("sqlite", 90), ("duckdb", 1_000_000)])
def test_reading_goes_on_behind_any_batch(tmp_path, kind, cells, monkeypatch):
    monkeypatch.setattr(sql, "_CHUNK_CELLS", cells)  # 90 are 18 rows
    uri = filled(tmp_path, kind) + "select * from events"
    stream = from_sql(uri, "label", position="id")
    bookmarks, batches = [stream.bookmark()], []
    for batch in stream.batches(13):
        batches.append((batch.X, batch.y, batch.position))
        bookmarks.append(stream.bookmark())
    assert sum(len(y) for _, y, _ in batches) == N_ROWS
    for n_read, bookmark in enumerate(bookmarks):
        saved = json.loads(json.dumps(bookmark))
        assert_same(read(stream.after(saved), 13), batches[n_read:])
        if n_read % 7 == 3:
            later = from_sql(uri, "label", position="id", after=saved)
            assert_same(read(later, 13), batches[n_read:])


@pytest.mark.parametrize(
    ("kind", "column", "values"),
    [
        ("duckdb", "timestamp", ["2024-01-01 00:00:00.00001", "2024-01-01 00:00:01", "2025-01-01"]),
        ("duckdb", "timestamptz", ["2024-01-01 12:00+02", "2024-01-01 11:00+00", "2025-01-01"]),
        ("duckdb", "date", ["1999-12-31", "2000-01-01", "2024-02-29"]),
        ("duckdb", "decimal(10, 2)", ["9.50", "10.25", "100.00"]),
        ("duckdb", "hugeint", ["5", str(10**38), str(10**38 + 1)]),
        ("duckdb", "double", [0.1, 0.2, 0.1 + 0.2]),
        ("duckdb", "varchar", ["B", "a", "é"]),
        ("sqlite", "text", ["2024-01-01T00:00", "2024-01-01T00:01", "2025"]),
        ("sqlite", "text collate nocase", ["A", "B", "a"]),
        ("sqlite", "real", [0.1, 0.2, 0.1 + 0.2]),
        ("sqlite", "", [2, 10.5, "1"]),
    ],
)  # fmt: skip
def test_positions_of_any_type_are_saved_and_compared_as_what_they_are(
    tmp_path, kind, column, values
):
    rows = [(value, float(i), "ab"[i % 2]) for i, value in enumerate(values)]
    uri = filled(tmp_path, kind, rows[::-1], f"moment {column}, x double, label varchar")
    uri += "select * from events"
    stream = from_sql(uri, "label", position="moment")
    bookmarks = []
    xs = []
    for batch in stream.batches(1):
        bookmarks.append(json.loads(json.dumps(stream.bookmark())))
        xs += batch.X[:, 0].tolist()
    assert xs == [0.0, 1.0, 2.0]
    for bookmark, rest in zip(bookmarks, ([1.0, 2.0], [2.0], []), strict=True):
        table = SqlTable(uri, "moment")
        chunks = table.chunks({"x": "number"}, Position(**bookmark["position"]))
        assert [x for chunk in chunks for x in chunk.frame["x"].to_list()] == rest
        later = from_sql(uri, "label", position="moment", after=bookmark)
        assert [x for X, *_ in read(later) for x in X[:, 0].tolist()] == rest


@pytest.mark.parametrize("kind", KINDS)
def test_rows_added_behind_the_last_one_are_read_by_the_next_run(tmp_path, kind):
    uri = filled(tmp_path, kind) + "select * from events"
    stream = from_sql(uri, "label", position="id")
    read(stream)
    bookmark = stream.bookmark()
    del stream  # no program can write to a database of DuckDB while it is read
    with closing(connect(kind, tmp_path / f"shop.{kind}")) as database:
        database.execute("insert into events values (1000, 1, 2, 'town0', null, 'yes')")
        database.commit()
    ((X, y, place),) = read(from_sql(uri, "label", position="id", after=bookmark))
    assert (X[0, 0], y.tolist(), place.mark, place.rows) == (1.0, ["yes"], 1000, N_ROWS + 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cells", [6, 1_000_000])
def test_two_rows_of_one_position_are_refused_wherever_they_meet(
    tmp_path, kind, cells, monkeypatch
):
    monkeypatch.setattr(sql, "_CHUNK_CELLS", cells)
    rows = [(i, float(i), "ab"[i % 2]) for i in range(9)]
    uri = filled(tmp_path, kind, [*rows, (5, 0.5, "a")], "id integer, x double, label varchar")
    uri += "select * from events"
    stream = from_sql(uri, "label", position="id")
    batches = []
    with pytest.raises(InputError, match=r'two rows have the position "id" = 5, so'):
        batches.extend(stream.batches(2))  # those before are kept
    assert batches[-1].position.mark == 5
    if cells == 6:
        # The last row of a bookmark that was made before the second came.
        with pytest.raises(InputError, match="= 5, so"):
            list(SqlTable(uri, "id").chunks({"x": "number"}, Position(offset=6, mark=5)))


@pytest.mark.parametrize("kind", KINDS)
def test_a_position_that_is_null_is_refused_before_anything_is_read(tmp_path, kind):
    rows = [(i or None, float(i), "ab"[i % 2]) for i in range(9)]
    uri = filled(tmp_path, kind, rows, "id integer, x double, label varchar")
    said = message(uri + "select * from events", position="id")
    assert 'the position "id" is NULL in some rows; leave them out' in said
    assert len(read(from_sql(uri + "select * from events where id > 0", "label", position="id")))


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_position_there_is_no_bookmark(tmp_path, kind):
    uri = filled(tmp_path, kind) + "select * from events"
    stream = from_sql(uri, "label")
    assert sum(len(y) for _, y, _ in read(stream)) == N_ROWS
    with pytest.raises(InputError, match="--position COL"):
        stream.bookmark()
    bookmark = from_sql(uri, "label", position="id").bookmark()
    assert "--position COL" in message(uri, after=bookmark)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_wrong_is_said_in_one_line_and_no_file_is_made(tmp_path, kind):
    uri = filled(tmp_path, kind)
    before = sorted(tmp_path.iterdir())
    absent = f"{kind}:{tmp_path}/absent.db?select 1"
    assert "absent.db: there is no such file" in message(absent)
    assert 'names no query; write "duckdb:FILE?select' in message(uri)
    assert "names no query" in message(f"{kind}:shop.db")
    assert "nothing" in message(uri + "select * from nothing")
    assert "syntax error" in message(uri + "drop table events")
    assert "syntax error" in message(uri + "select 1; drop table events")
    assert 'no column "ID_" in' in message(uri + "select * from events", position="ID_")
    assert 'did you mean "label"?' in message(uri + "select * from events", "lable")
    assert "the position and the target" in message(uri + "select * from events", position="label")
    assert "no rows" in message(uri + "select * from events where id < 0", position="id")
    other = tmp_path / "other.db"
    other.write_text("hello, I am no database, and long enough to be one\n" * 100)
    assert "database" in message(f"{kind}:{other}?select * from events")
    other.unlink()
    assert sorted(tmp_path.iterdir()) == before


def test_an_error_in_the_midst_of_a_query_is_said_after_the_rows_before_it(tmp_path):
    uri = filled(tmp_path, "duckdb")
    said = message(uri + "select id, cast(town as int) as town, label from events", position="id")
    assert "Conversion Error" in said


HOLDERS = {
    "duckdb": "import duckdb; held = duckdb.connect(sys.argv[1])",
    "sqlite": "import sqlite3; held = sqlite3.connect(sys.argv[1], isolation_level=None); "
    "held.execute('pragma locking_mode = exclusive'); held.execute('begin exclusive')",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_database_that_another_program_writes_to_is_said_to_be(tmp_path, kind, monkeypatch):
    uri = filled(tmp_path, kind)
    monkeypatch.setattr(sql, "_PATIENCE", 0.1)
    code = f"import sys; {HOLDERS[kind]}; print(flush=True); sys.stdin.read()"
    arguments = [sys.executable, "-c", code, str(tmp_path / f"shop.{kind}")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        holder.stdout.readline()
        assert "is in use by another program" in message(uri + "select * from events")
        holder.stdin.close()


def test_types_of_duckdb_become_what_they_are_in_a_file_of_columns(tmp_path):
    uri = filled(tmp_path, "duckdb") + (
        "select id, sum(fifth) over (order by id) as total, interval 3 day as span, "
        "timestamp 'infinity' as never, [1, 2] as list, {'a': 1} as record, 'a'::blob as bytes, "
        "town::enum('town0', 'town1', 'town2') as named, fifth > 2 as flag, 1.25::decimal(9, 3) as "
        "price, time '10:00' as hour, null as nothing, label from events"
    )
    stream = from_sql(uri, "label", position="id")
    kinds = {column["name"]: column["kind"] for column in stream.describe()}
    left_out = [name for name, kind in kinds.items() if kind == "left out"]
    assert left_out == ["list", "record", "bytes"]
    assert kinds["named"] == "category"
    assert kinds["flag"] == "flag"
    assert kinds["hour"] == "duration"
    X = dict(zip(stream.schema.feature_names, next(stream.batches(5)).X[4], strict=True))
    assert X["price"] == 1.25
    assert X["span"] == 3 * 86400
    assert np.isnan(X["never"])
    assert np.isnan(X["nothing"])


def test_values_of_sqlite_have_types_of_their_own(tmp_path):
    rows = [
        (1, 1, 1, b"\xff", None, 1.0, "a"),
        (2, 2.5, "x", b"a", None, 2, "b"),
        (3, 3, 1.5, b"a", None, "1.0", "a"),
        (4, None, b"\xff", b"a", None, "z", "b"),
    ]
    columns = "id integer, number, mixed, bytes blob, empty, almost, label"
    uri = filled(tmp_path, "sqlite", rows, columns) + "select * from events"
    kinds = dict.fromkeys(["number", "mixed", "bytes", "empty", "almost"], "category")
    (chunk,) = SqlTable(uri, "id").chunks(kinds, Position())
    assert chunk.frame["number"].to_list() == [1.0, 2.5, 3.0, None]
    assert chunk.frame["mixed"].to_list() == ["1", "x", "1.5", "\\xff"]
    assert chunk.frame["almost"].to_list() == ["1.0", "2", "1.0", "z"]
    left_out = [c.name for c in from_sql(uri, "label", position="id").columns.left_out]
    assert left_out == ["bytes"]


def test_text_of_sqlite_that_is_no_utf_8_is_escaped(tmp_path):
    rows = [(i, "xyz"[i % 3], "ab"[i % 2]) for i in range(60)]
    uri = filled(tmp_path, "sqlite", rows, "id integer, word varchar, label varchar")
    with closing(sqlite3.connect(tmp_path / "shop.sqlite")) as database:
        database.execute("update events set word = cast(x'ff61' as text) where id = 7")
        database.commit()
    stream = from_sql(uri + "select * from events", "label", position="id", categories="codes")
    assert sum(len(y) for _, y, _ in read(stream, 29)) == 60
    assert stream.columns.all[0].categories == ("x", "y", "z", "\\xffa")


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_without_a_label_is_a_fault_with_its_values(tmp_path, kind):
    rows = [(i, float(i), None if i == 30 else "ab"[i % 2]) for i in range(60)]
    uri = filled(tmp_path, kind, rows, "id integer, x double, label varchar")
    stream = from_sql(uri + "select * from events", "label", position="id")
    faults = []
    stream.on_fault = faults.extend
    assert [len(y) for _, y, _ in read(stream, 20)] == [20, 20, 19]
    (fault,) = faults
    assert fault.line == 31
    assert json.loads(fault.raw) == {"x": 30.0, "label": None}


@pytest.mark.parametrize("kind", KINDS)
def test_names_that_need_quotes(tmp_path, kind):
    columns = '"the ""id""" integer, "select" double, "a,b" varchar'
    rows = [(i, float(i), "ab"[i % 2]) for i in range(9)]
    uri = filled(tmp_path, kind, rows, columns) + "select * from events -- all of them"
    assert len(read(from_sql(uri, "a,b", position='the "id"'), 5)) == 2


def test_bytes_are_no_position(tmp_path):
    uri = filled(tmp_path, "sqlite", [(b"1", 1.0, "a")], "id blob, x double, label varchar")
    said = message(uri + "select * from events", position="id")
    assert said.endswith("shop.sqlite: bytes cannot be a position")
