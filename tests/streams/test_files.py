"""A table gives the same batches from every kind of file; what is wrong with it is said."""

import csv
import datetime as dt
import gzip
import io
import os
import subprocess
import sys
import threading
from itertools import islice
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fires.streams.base import InputError
from fires.streams.files import from_file


def table(n=300, seed=0):
    """A table with columns of all kinds."""
    rng = np.random.default_rng(seed)
    start = dt.datetime(1969, 12, 31, 23, 0, 0, 250_000)
    missing = rng.random(n) < 0.1
    return pl.DataFrame(
        {
            "count": rng.integers(-5, 100, n),
            "size": [
                None if gone else x for gone, x in zip(missing, rng.normal(size=n), strict=True)
            ],
            "open": rng.random(n) < 0.5,
            "day": [
                dt.date(2024, 2, 28) + dt.timedelta(days=int(d)) for d in rng.integers(0, 9, n)
            ],
            "time": [start + dt.timedelta(seconds=float(s)) for s in rng.integers(0, 9999, n)],
            "zone": pl.Series([start] * n).dt.replace_time_zone("Europe/Berlin"),
            "town": rng.choice(['Bonn, "Rhein"', "Köln", "a\nb", "ü"], n),
            "empty": [None] * n,
            "label": rng.choice(["spam", "ham"], n),
        },
        schema_overrides={"empty": pl.String},
    )


def collect(stream, batch_size=7):
    """All rows of a stream, its names and its faults."""
    batches = list(stream.batches(batch_size))
    assert all(batch.n_rows == batch_size for batch in batches[:-1])
    assert all(batch.X.flags.c_contiguous and batch.X.dtype == np.float64 for batch in batches)
    X, y = (np.concatenate([getattr(b, name) for b in batches]) for name in ("X", "y"))
    assert batches[-1].position.rows == len(y)
    return X, y, stream.schema.feature_names, stream.rejected


def assert_same(one, other):
    np.testing.assert_array_equal(one[0], other[0])
    np.testing.assert_array_equal(one[1], other[1])
    assert one[2:] == other[2:]


def from_text(text, target="y", **options):
    options.setdefault("categories", "codes")
    data = text if isinstance(text, bytes) else text.encode()
    return from_file(io.BytesIO(data), target, **options)


def write(frame, folder, kind):
    """The table as a file of some kind."""
    path = folder / f"table.{kind}"
    if kind == "parquet":
        frame.write_parquet(path, row_group_size=64)
        return path
    separator = {"csv": ",", "tsv": "\t", "txt": ";", "data": "|"}[kind.removesuffix(".gz")]
    text = frame.write_csv(separator=separator)
    path.write_bytes(gzip.compress(text.encode()) if kind.endswith("gz") else text.encode())
    return path


def test_a_table_gives_the_same_batches_from_every_kind_of_file(tmp_path):
    frame = table()
    expected = collect(from_file(write(frame, tmp_path, "csv"), "label"))
    for kind in ("tsv", "txt", "data", "tsv.gz", "parquet"):
        X, y, names, rejected = collect(from_file(write(frame, tmp_path, kind), "label"))
        assert_same((X, y, names), expected[:3])
        assert rejected.count == 0, kind
    assert y.tolist() == frame["label"].to_list()
    np.testing.assert_array_equal(X[:, 0], frame["count"].to_numpy())
    np.testing.assert_array_equal(X[:, 1], frame["size"].to_numpy())
    np.testing.assert_array_equal(X[:, 2], frame["open"].to_numpy())
    seconds = [t.replace(tzinfo=dt.UTC).timestamp() for t in frame["time"]]
    np.testing.assert_array_equal(X[:, 4], seconds)
    np.testing.assert_array_equal(X[:, 5], [t.timestamp() for t in frame["zone"]])
    assert np.isnan(X[:, 7]).all()


@settings(deadline=None, max_examples=4)
@given(seed=st.integers(0, 100), block_size=st.integers(20, 2000), batch_size=st.integers(1, 50))
def test_neither_block_nor_batch_size_changes_the_rows(seed, block_size, batch_size):
    lines = table(25, seed).write_csv().splitlines()
    rng = np.random.default_rng(seed)
    for fault in ("x,1,true", '7,"', "", "1,inf,true,,,,,,ham", ",,,,,,,,", "old,,,,,,,,ham"):
        lines.insert(int(rng.integers(5, len(lines))), fault)
    text = "\n".join(lines)
    expected = collect(from_text(text, "label"))
    assert_same(collect(from_text(text, "label", block_size=block_size), batch_size), expected)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_megabytes_of_quoted_fields_are_read_as_the_csv_module_reads_them(newline):
    """Large enough for polars to cut a block among its threads."""
    rng = np.random.default_rng(1)
    towns = ["a\nb", 'say ""hi""', "x,y", "plain"]
    body = [f'{i},"{towns[k]}",{k}' for i, k in enumerate(rng.integers(0, 4, 150_000))]
    text = newline.join(["id,town,y", *body]) + newline
    _, *rows = csv.reader(io.StringIO(text, newline=""))
    X, y, _, rejected = collect(from_text(text), 1000)
    assert rejected.count == 0
    np.testing.assert_array_equal(X[:, 0], [int(row[0]) for row in rows])
    np.testing.assert_array_equal(y, [int(row[2]) for row in rows])
    codes = {town: code for code, town in enumerate(dict.fromkeys(row[1] for row in rows))}
    np.testing.assert_array_equal(X[:, 1], [codes[row[1]] for row in rows])


def test_faults_in_a_long_file_cost_their_own_rows_or_cells_only():
    n = 150_000
    lines = [f"{i},{i % 7}.5,{i % 2}" for i in range(n)]
    bad = np.random.default_rng(0).choice(n, 40, replace=False)
    for k, i in enumerate(bad):
        lines[i] = [f"x{i},1,{i % 2}", "1", "1,2,3,4", f"{i},1e999,{i % 2}", f"{i},1,"][k % 5]
    stream = from_text("\n".join(["a,b,y", *lines]))
    X, y, _, rejected = collect(stream, 1000)
    cells, rows = (
        bad[np.isin(np.arange(40) % 5, [0, 3])],
        bad[np.isin(np.arange(40) % 5, [1, 2, 4])],
    )
    kept = np.setdiff1d(np.arange(n), rows)
    np.testing.assert_array_equal(X[:, 0], np.where(np.isin(kept, bad[0::5]), np.nan, kept))
    np.testing.assert_array_equal(np.isnan(X[:, 1]), np.isin(kept, bad[3::5]))
    np.testing.assert_array_equal(y, kept % 2)
    assert rejected.count == 24
    assert [line for line, _ in rejected.examples] == (np.sort(rows)[:10] + 2).tolist()
    assert stream.columns.tallies.unreadable.tolist() == [8, 8]
    assert len(cells) == 16


@pytest.mark.parametrize(
    ("block_size", "hints"),
    [
        (300, {}),
        (1 << 20, {"na_values": ["7", "8.5"]}),
        (300, {"na_values": ["7", "8.5"]}),
        (300, {"categorical": ["c", "d"]}),
    ],
)
def test_very_many_columns_are_read_as_few_are(monkeypatch, block_size, hints):
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 30, (260, 6)) / 2
    rows = [[str(value) for value in row] for row in cells]
    for row, column, text in [
        (5, 0, "x"),
        (9, 1, "inf"),
        (9, 2, "NA"),
        (20, 3, ""),
        (30, 2, "nan"),
    ]:
        rows[row][column] = text
    for i, row in enumerate(rows):
        row[4] = ("Ulm", "Bonn")[i % 2]
        row[5] = f"{i}%"
        row[3] = row[3] if i < 100 else ("red", "blue")[i % 2]
        row.append("?" if i == 50 else str(i % 3))
    text = "\n".join(["a,b,c,d,e,f,y", *(",".join(row) for row in rows)])
    narrow = from_text(text, block_size=block_size, **hints)
    expected = collect(narrow)
    monkeypatch.setattr("fires.streams.text.WIDE", 2)
    wide = from_text(text, block_size=block_size, **hints)
    assert_same(collect(wide), expected)
    no_facts = {"facts": None}  # of numbers among very many columns there are none
    assert wide.columns.as_json() | no_facts == narrow.columns.as_json() | no_facts


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ("1 2 3", [1, 2, 3]),
        ("+1 -2.5 .5 1e3", [1, -2.5, 0.5, 1000]),
        ("true False TRUE", [1, 0, 1]),
        ("1970-01-02 1970-01-01T00:00:01 1970-01-01T00:01", [86400, 1, 60]),
        ("1970-01-01T02:00:00.5+02:00 1970-01-01T00:00:01Z", [0.5, 1]),
        ("b a b c", [0, 1, 0, 2]),
        ("1 ? NA NaN null nan N/A NULL 2", [1, *[np.nan] * 7, 2]),
        ("b ? a", [0, np.nan, 1]),
        ("1 2 3 4 5.5", [1, 2, 3, 4, 5.5]),
    ],
)
def test_text_becomes_numbers_by_the_kind_of_its_column(values, expected):
    text = "x,y\n" + "".join(f"{value},0\n" for value in values.split())
    X, *_ = collect(from_text(text))
    np.testing.assert_array_equal(X[:, 0], expected)


@pytest.mark.parametrize(
    ("labels", "expected", "dtype"),
    [
        ("0 1 1", [0, 1, 1], np.int64),
        ("-1 +1", [-1, 1], np.int64),
        ("true false", [True, False], np.bool_),
        ("0.5 1 2", [0.5, 1.0, 2.0], np.float64),
        ("0.0 1.0", [0, 1], np.int64),
        ("18446744073709551615 1", [2**64 - 1, 1], np.uint64),
        ("$3 $4.50", [3.0, 4.5], np.float64),
        ("b a", ["b", "a"], np.str_),
        ("1 2 other", ["1", "2", "other"], np.str_),
    ],
)
def test_labels_stay_what_they_are(labels, expected, dtype):
    text = "x,y\n" + "".join(f"1,{label}\n" for label in labels.split())
    _, y, *_ = collect(from_text(text))
    assert y.tolist() == expected
    assert y.dtype.type is dtype


def test_whole_numbers_can_be_read_as_a_numeric_target():
    text = "x,y\n" + "1,5\n" * 10_000 + "1,5.5\n"
    assert collect(from_text(text))[3].count == 1
    _, y, _, rejected = collect(from_text(text, holds="numbers"))
    assert y.dtype == np.float64
    assert y[-1] == 5.5
    assert rejected.count == 0


def test_integers_may_become_fractions_after_the_sample():
    X, *_, rejected = collect(from_text("x,y\n" + "1,0\n" * 20_000 + "2.5,0\n"))
    assert X[-1, 0] == 2.5
    assert rejected.count == 0


def test_new_categories_get_the_next_code_until_all_are_taken():
    text = "x,y\n" + "".join(f"t{value},0\n" for value in [5, 5, 3, 9, 3, 7, 8, 9])
    stream = from_text(text, max_categories=3)
    X, *_ = collect(stream)
    assert X[:, 0].tolist() == [0, 0, 1, 2, 1, 3, 3, 2]
    assert stream.columns.all[0].categories == ("t5", "t3", "t9")


def test_a_category_in_an_unusable_row_gets_no_code():
    X, *_ = collect(from_text("x,z,y\na,1,0\nb,1,\nc,1,0\na,1,0\nd,1,0\n"))
    assert X[:, 0].tolist() == [0, 1, 0, 2]


def test_unusable_rows_are_counted_and_the_first_ten_explained():
    rows = [
        "1,a,2024-01-01,true,0",
        "1,a,2024-01-01,true,1",
        "one,a,2024-01-01,true,1",
        "1,a,2024-13-01,true,1",
        "1,a,2024-01-01,maybe,1",
        "inf,a,2024-01-01,true,1",
        "1,a,2024-01-01,true,?",
        "1,a,2024-01-01,true,0.5",
        "1,a,2024-01-01,true",
        "",
        "1,a,2024-01-01,true,1,1",
        '1,"a"b,2024-01-01,true,1',
        '1,"a',
        "1,a,2024-01-01,true,1",
        "1,\ra,2024-01-01,true,1",
        "1," + "a" * 99 + ",2024-01-01,true,1",
    ]
    text = "\n".join(["size,town,day,open,y", *[rows[0]] * 50, *rows])
    stream = from_text(text)
    X, _, _, rejected = collect(stream)
    assert len(X) == 58
    assert stream.columns.tallies.unreadable.tolist() == [2, 0, 1, 1]
    assert rejected.count == 7
    assert rejected.unit == "line"
    assert rejected.examples == (
        (58, 'no value in the target column "y"'),
        (59, '"0.5" in the target column "y" is not a whole number'),
        (60, "4 fields, the header has 5"),
        (62, "6 fields, the header has 5"),
        (63, "there is text between a closing quote and the end of its field"),
        (64, "a quote is opened and not closed"),
        (66, "a carriage return within the line"),
    )


def test_parquet_counts_rows_instead_of_lines(tmp_path):
    path = tmp_path / "x.parquet"
    pl.DataFrame({"x": [1.0, np.inf, 3.0], "y": [0, 1, None]}).write_parquet(path)
    X, y, _, rejected = collect(from_file(path, "y"))
    np.testing.assert_array_equal(X, [[1.0], [np.nan]])
    assert y.dtype == np.int64
    assert rejected.unit == "row"
    assert rejected.examples == ((3, 'no value in the target column "y"'),)


@pytest.mark.parametrize("n_before", [50, 10_000])
def test_a_byte_that_is_no_text_costs_its_row_wherever_it_stands(n_before):
    rows = [b"1,ham,0\n"] * n_before
    bad = [b"1,K\xf6ln,0\n", b'1,"K\xf6\nln",0\n', b"1,K\xf6ln\n"]
    text = b"".join([b"x,town,y\n", *rows, *bad, b"2,K\xc3\xb6ln,0\n", *rows])
    X, _, _, rejected = collect(from_text(text))
    assert X[n_before].tolist() == [2, 1]
    assert [line - n_before for line, _ in rejected.examples] == [2, 3, 5]
    assert {reason for _, reason in rejected.examples} == {"not UTF-8 text"}


def test_many_bytes_that_are_no_text_refuse_the_file_with_the_option_to_try():
    for rows in (b"1,ham,0\n1,K\xf6ln,0\n", b"1,ham,0\n" * 18 + b"1,K\xf6ln,0\n"):
        with pytest.raises(InputError, match=r"is not UTF-8 text: line \d+; .*--encoding cp1252"):
            from_text(b"x,town,y\n" + rows)
    with pytest.raises(InputError, match=r"is not UTF-8 text: line 1; .*--encoding cp1252"):
        from_text(b"gr\xf6\xdfe,y\n" + b"1,0\n" * 99)


def test_a_bom_blank_lines_and_names_in_quotes_are_no_trouble():
    text = b'\xef\xbb\xbf\r\n"first name", y ,\r\nann,0,1\r\n\r\n  \r\nbob,1,2'
    stream = from_text(text)
    X, y, names, rejected = collect(stream)
    assert names == ("first name", "column_3")
    assert X.tolist() == [[0, 1], [1, 2]]
    assert y.tolist() == [0, 1]
    assert rejected.count == 0


# Names of tests must not change with time.
CUT_OFF = gzip.compress(b"x,y\n" + bytes(str(list(range(999))), "ascii"), mtime=0)[:-20]


@pytest.mark.parametrize(
    ("content", "target", "message"),
    [
        (b"", "y", "is empty"),
        (b"\n\n", "y", "is empty"),
        (b"x,y\n", "y", "has a header but no rows"),
        (b"x,y\n1\n2,3,4\n", "y", "no readable rows; first problem: line 2: 1 field, the header"),
        (b"x,y\n1,\n2,\n", "y", "no readable rows; first problem: line 2: no value in the target"),
        (b"a,label\n1,2\n", "lable", 'no column "lable" in .*x.csv; did you mean "label"?'),
        (b"a,Label\n1,2\n", "label", 'did you mean "Label"?'),
        (b"a,b\n1,2\n", "zzz", 'no column "zzz" in .*x.csv; it has a, b'),
        (b"y\n1\n", "y", "cannot find columns in .*x.csv: no comma, semicolon, tab or bar"),
        (b"\x14\x00\xf0\x9f\x00,,\n", "y", "is not UTF-8 text: line 1"),
        (b"PK\x03\x04\x14\x00\xf0\x9f\x00,,\n", "y", "is damaged: File is not a zip file"),
        (b"x,y\r1,2\r", "y", "a carriage return within its first line"),
        (CUT_OFF, "y", "is damaged"),
        (b"\x1f\x8bnothing", "y", "is damaged"),
        (b"PAR1 and then nothing", "y", "is not a readable Parquet file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_one_line(tmp_path, content, target, message):
    path = tmp_path / "x.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        list(from_file(path, target).batches(10))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_or_no_file_or_no_parquet_is_named(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*none.csv: No such file"):
        from_file(tmp_path / "none.csv", "y")
    with pytest.raises(InputError, match=r"cannot read .*: Is a directory"):
        from_file(tmp_path, "y")
    (tmp_path / "x.parquet").write_text("x,y\n1,2\n")
    with pytest.raises(InputError, match=r"x.parquet is not a Parquet file"):
        from_file(tmp_path / "x.parquet", "y")


def test_damage_in_the_middle_of_a_parquet_file_is_said(tmp_path):
    path = write(table(5000), tmp_path, "parquet")
    data = bytearray(path.read_bytes())
    data[1000:20_000] = b"\xff" * 19_000
    path.write_bytes(data)
    with pytest.raises(InputError, match="is not a readable Parquet file"):
        list(from_file(path, "label").batches(100))


def test_columns_can_be_left_out(tmp_path):
    for kind in ("csv", "parquet"):
        path = write(table(), tmp_path, kind)
        X, _, names, _ = collect(from_file(path, "label", exclude=["time", "town"]))
        assert names == ("count", "size", "open", "day", "zone", "empty")
        assert X.shape == (300, 6)
    with pytest.raises(InputError, match=r'no column "twon" in .*; did you mean "town"'):
        from_file(path, "label", exclude=["twon"])
    with pytest.raises(InputError, match='target column "label" cannot be excluded'):
        from_file(path, "label", exclude=["label"])


def test_free_text_and_lists_are_left_out_with_a_word(tmp_path):
    words = "so much to tell about so little that was there at all"
    stream = from_text("note,memo,x,y\n" + f"{words},{words},1,0\n" * 3)
    assert stream.schema.feature_names == ("x",)
    (line,) = stream.surprises()
    assert line == 'columns "note", "memo": holds free text (53 characters on average): left out'
    distinct = "".join(f"{i:026d}x,1,0\n" for i in range(1000))
    assert from_text("id,x,y\n" + distinct, holds="classes").schema.feature_names == ("x",)
    assert collect(from_text("id,x,y\n" + distinct[: 32 * 500]))[0].shape == (500, 2)
    pl.DataFrame({"a": [[1, 2]], "b": [1], "y": [1]}).write_parquet(tmp_path / "x.parquet")
    stream = from_file(tmp_path / "x.parquet", "y")
    assert stream.surprises() == ['column "a": holds values of type List: left out']
    with pytest.raises(InputError, match="no column that can be used besides the target"):
        from_text("note,y\n" + f"{words},0\n" * 3)


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_a_later_run_goes_on_where_a_batch_ended(tmp_path, kind):
    path = write(table(500), tmp_path, kind)
    whole = list(from_file(path, "label").batches(60))
    stream = from_file(path, "label", block_size=4000)
    first = list(islice(stream.batches(60), 3))
    later = from_file(path, after=stream.bookmark())
    both = first + list(later.batches(60))
    assert [batch.position for batch in both] == [batch.position for batch in whole]
    for one, other in zip(both, whole, strict=True):
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.y, other.y)


def test_a_position_is_the_byte_and_the_line_after_the_last_record(tmp_path):
    path = tmp_path / "x.csv"
    text = 'a,y\r\n"1\r\n",0\r\n\r\n2,1\r\nx\r\n3,1'
    path.write_bytes(text.encode())
    stream = from_file(path, "y")
    bookmarks, positions = [], []
    for batch in stream.batches(1):
        positions.append(batch.position)
        bookmarks.append(stream.bookmark())
    assert stream.n_bytes == len(text)
    assert [p.bytes for p in positions] == [14, 21, 27]
    assert [p.offset for p in positions] == [14, 21, 27]
    assert [p.line for p in positions] == [3, 5, 7]
    later = from_file(path, after=bookmarks[0])
    assert len(list(later.batches(10))) == 1
    assert later.rejected.examples == ((6, "1 field, the header has 2"),)


def test_rows_added_to_a_file_are_read_by_a_later_run(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("town,y\nBonn,0\nUlm,1\n")
    stream = from_file(path, "y", categories="codes")
    (batch,) = stream.batches(10)
    with path.open("a") as file:
        file.write("Kiel,1\nUlm,0\n")
    assert batch.position.rows == 2
    later = from_file(path, after=stream.bookmark())
    (more,) = later.batches(10)
    assert more.X.tolist() == [[2], [1]]
    assert more.position.rows == 4
    nothing = from_file(path, after=later.bookmark())
    assert list(nothing.batches(10)) == []
    with pytest.raises(InputError, match="does not have the columns of the earlier run"):
        from_file(path, header=False, after=later.bookmark())
    path.write_text("town,y\n")
    with pytest.raises(InputError, match="shorter than it was"):
        list(from_file(path, after=later.bookmark()).batches(10))


@pytest.mark.parametrize("packed", [pytest.param(False, marks=pytest.mark.slow), True])
def test_standard_input_is_read_like_a_file_but_once(tmp_path, monkeypatch, packed):
    path = write(table(600), tmp_path, "csv.gz" if packed else "csv")
    with path.open("rb") as file:
        pipe = SimpleNamespace(read=file.read)  # It cannot seek.
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=pipe))
        stream = from_file("-", "label", block_size=3000)
        assert stream.n_bytes is None
        assert_same(collect(stream), collect(from_file(path, "label")))
        with pytest.raises(InputError, match="can be read only once"):
            next(stream.batches(10))


@pytest.mark.slow
def test_a_real_pipe_works(tmp_path):
    code = """
from fires.streams.files import from_file
print(sum(batch.n_rows for batch in from_file("-", "label").batches(9)))
"""
    text = write(table(), tmp_path, "csv").read_bytes()
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, check=True)
    assert done.stdout.strip() == b"300"


def test_a_named_pipe_is_a_pipe(tmp_path):
    """As in ``fires select <(zcat many*.gz)``."""
    os.mkfifo(tmp_path / "pipe")
    text = write(table(), tmp_path, "csv").read_bytes()
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=[text])
    writer.start()
    X, *_ = collect(from_file(tmp_path / "pipe", "label"))
    writer.join()
    assert len(X) == 300


def test_a_delimiter_can_be_given():
    X, *_ = collect(from_text("a:b,c:y\n1:2:0\n", delimiter=":"))
    assert X.tolist() == [[1, 2]]
    for wrong in ("", "::", '"', "é"):
        with pytest.raises(InputError, match="cannot separate fields"):
            from_text("a:y\n1:0\n", delimiter=wrong)


def test_a_pipe_cannot_be_parquet_nor_text_mode():
    with pytest.raises(InputError, match="Parquet cannot be read from a stream"):
        from_file(io.BytesIO(b"PAR1..."), "y")
    with pytest.raises(InputError, match="opened in binary mode"):
        from_file(io.StringIO("x,y\n1,2\n"), "y")


def test_a_stream_of_a_file_starts_again(tmp_path):
    stream = from_file(write(table(), tmp_path, "csv"), "label")
    assert_same(collect(stream), collect(stream))


def test_batches_within_a_block_are_views(tmp_path):
    path = write(table().drop("town", "empty"), tmp_path, "csv")  # categories are written anew
    batches = list(from_file(path, "label").batches(100))
    assert batches[0].X.base is not None
    assert batches[0].X.base is batches[1].X.base


@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet"])
def test_a_run_that_stops_early_leaves_no_thread_behind(tmp_path, kind):
    batches = from_file(write(table(), tmp_path, kind), "label", block_size=2000).batches(10)
    next(batches)
    batches.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("fires-reader")]


def test_progress_of_a_packed_file_is_counted_in_its_own_bytes(tmp_path):
    path = write(table(1500), tmp_path, "csv.gz")
    stream = from_file(path, "label", block_size=10_000)
    used = [batch.position.bytes for batch in stream.batches(100)]
    assert used == sorted(used)
    assert used[-1] == stream.n_bytes == path.stat().st_size


def test_a_batch_size_must_be_a_count():
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="at least 1"):
            next(from_text("x,y\n1,2\n").batches(wrong))
    with pytest.raises(TypeError, match="whole number"):
        next(from_text("x,y\n1,2\n").batches(2.0))


def test_polars_is_loaded_only_when_a_file_is_read():
    code = "import sys, fires.streams; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_two_iterations_at_a_time_each_count_their_own_categories(tmp_path):
    stream = from_file(write(table(), tmp_path, "csv"), "label", block_size=2000)
    for one, other in zip(stream.batches(50), stream.batches(50), strict=True):
        np.testing.assert_array_equal(one.X, other.X)
