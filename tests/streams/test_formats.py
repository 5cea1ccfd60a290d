"""The same table comes out of every format; what cannot be read is said in one line."""

import bz2
import gzip
import io
import lzma
import os
import tempfile
import tracemalloc
import zipfile
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_svmlight_file

from fires.streams.base import InputError, Position
from fires.streams.byte_sources import Damaged, File, unpacked
from fires.streams.columnar import _without_panics
from fires.streams.files import from_file, open_table
from fires.streams.svmlight import SvmlightStream
from fires.streams.table import Fault
from fires.streams.table_stream import read_sample
from fires.streams.text import Pieces, TextOptions, TextSource, unique_names

zstandard = pytest.importorskip("zstandard")


def packed(data, packing, name="table.csv"):
    """Bytes packed in some way."""
    if packing == "zip":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(name, data)
        return file.getvalue()
    pack = {
        "gzip": partial(gzip.compress, mtime=0),  # names of tests must not change with time
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "zstd": zstandard.ZstdCompressor().compress,
    }
    return pack[packing](data)


def text_of(data, packing):
    return Pieces(unpacked(io.BytesIO(data), packing), int)


STREAMED = ["gzip", "bz2", "xz", "zstd"]


def table(n=300, seed=0):
    """Numbers, text with everything that needs quotes, and gaps."""
    rng = np.random.default_rng(seed)
    return pl.DataFrame(
        {
            "count": rng.integers(-5, 100, n),
            "size": [None if x < -1 else x for x in rng.normal(size=n)],
            "town": rng.choice(['Bonn, "Rhein"', "Köln", "a\nb", "ü"], n),
            "label": rng.choice(["spam", "ham"], n),
        }
    )


START = Position()


def rows_of(opened, start=START, **options):
    """All rows of a table as text, its faults, and the place behind each row."""
    if not hasattr(opened, "chunks"):
        opened = open_table(opened, TextOptions(**options))
    names = opened.column_names
    rows, faults, places = [], [], []
    for chunk in opened.chunks(dict.fromkeys(names, "category"), start):
        frame = chunk.frame.select(names).cast(pl.String)
        rows += [tuple(value or "" for value in row) for row in frame.iter_rows()]
        faults += chunk.faults
        ends = map(chunk.end, range(len(chunk.lines)))
        places += [[end.bytes, end.offset, end.line, end.file] for end in ends]
    return rows, faults, places


def text_rows(text, **options):
    data = text if isinstance(text, bytes) else text.encode()
    return rows_of(io.BytesIO(data), **options)


def columns_of(text, **options):
    data = text if isinstance(text, bytes) else text.encode()
    return open_table(io.BytesIO(data), TextOptions(**options)).column_names


def saved(folder, data, name="x.csv"):
    path = folder / name
    path.write_bytes(data)
    return path


def fault_of(path, **options):
    """The one line that says why a file cannot be read."""

    def sample():
        opened = open_table(path, TextOptions(**options))
        return read_sample(opened, opened.column_names)

    with pytest.raises(InputError) as caught:
        sample()
    assert "\n" not in str(caught.value)
    return str(caught.value)


# Options of text


def test_the_first_line_of_a_spreadsheet_tells_the_delimiter_and_is_no_header():
    text = "sep=;\r\na;b,c\r\n1;2,5\r\n"
    assert columns_of(text) == ("a", "b,c")
    assert text_rows(text)[0] == [("1", "2,5")]
    assert columns_of(text, delimiter=",") == ("a;b", "c")


def test_a_text_without_a_header_numbers_its_columns_and_loses_no_row():
    assert columns_of("1,2\n3,4\n", header=False) == ("column_1", "column_2")
    rows, _, places = text_rows("\n1,2\n3,4\n", header=False)
    assert rows == [("1", "2"), ("3", "4")]
    assert places == [[5, 5, 2, 0], [9, 9, 3, 0]]
    assert text_rows("\ufeff1,2\n", header=False)[0] == [("1", "2")]


def test_comments_are_neither_rows_nor_faults_but_lines():
    text = '# it\'s "odd\n\n#\na,b\n# one\n1,2\n#x,y\n3,"4\n# within"\n5\n6,7\n# end'
    rows, faults, places = text_rows(text, comment="#")
    assert rows == [("1", "2"), ("3", "4\n# within"), ("6", "7")]
    assert faults == [Fault(10, "1 field, the header has 2", "5")]
    assert [line for *_, line, _ in places] == [6, 9, 11]
    assert columns_of("//\na,b\n1,2\n", comment="//") == ("a", "b")
    assert columns_of('"#a",b\n1,2\n', comment="#") == ("#a", "b")


@settings(deadline=None)
@given(
    lines=st.lists(st.text(st.sampled_from('ab,,"#'), max_size=8), max_size=12),
    block_size=st.integers(1, 40),
)
def test_comments_are_skipped_whatever_the_size_of_the_blocks(lines, block_size):
    data = "\n".join(["a,b", *lines]).encode()
    options = TextOptions(delimiter=",", comment="#")
    one = open_table(io.BytesIO(data), replace(options, block_size=block_size))
    other = open_table(io.BytesIO(data), options)
    assert rows_of(one) == rows_of(other)


def test_columns_of_one_name_get_numbers():
    opened = open_table(io.BytesIO(b"x,y, x ,x_2,x,,column_6\n1,2,3,4,5,6,7\n"))
    assert opened.column_names == ("x", "y", "x_3", "x_2", "x_4", "column_6_2", "column_6")
    assert opened.notes == [
        f'there is more than one column "x": another is called "{name}" here'
        for name in ("x_3", "x_4")
    ]
    assert rows_of(opened)[0] == [tuple("1234567")]


@given(st.lists(st.sampled_from(["x", "x_2", "x_3", "x_2_2", "", "column_2", "column_2_2"])))
def test_names_are_unique_and_the_first_of_each_stays(names):
    given, renamed = unique_names(names)
    assert len(set(given)) == len(names)
    for i, name in enumerate(names):
        if name and name not in names[:i]:
            assert given[i] == name
    assert len(renamed) == sum(1 for name in names if name) - len(set(names) - {""})


def test_many_columns_of_one_name_take_no_time():
    assert unique_names(["x"] * 100_000)[0][-1] == "x_100000"


@pytest.mark.parametrize("end", ["", "\r"])
def test_very_many_columns_are_read_as_few_are(end):
    rng = np.random.default_rng(0)
    width = 6000
    X = rng.integers(0, 99, (9, width)).astype(str)
    X[1, 5], X[2, 6], X[3, 0], X[8, width - 1] = "NA", "", "", "?"
    lines = [",".join(f"c{i}" for i in range(width)), *(",".join(row) for row in X)]
    opened = open_table(io.BytesIO(f"{end}\n".join(lines).encode()))
    assert rows_of(opened)[0] == [tuple(row) for row in X]
    names = opened.column_names
    kinds = dict.fromkeys(names, "number") | {"c7": "integer", "c9": "category"}
    opened = open_table(io.BytesIO(f"{end}\n".join(lines).encode()))
    (chunk,) = opened.chunks(kinds, Position())
    assert chunk.frame["c9"].to_list() == X[:, 9].tolist()
    assert chunk.frame["c7"].cast(pl.Int64).to_list() == X[:, 7].astype(int).tolist()
    if chunk.numbers is None:
        numbers = chunk.frame.drop("c7", "c9").to_numpy()
    else:
        numbers = chunk.numbers.matrix
        assert chunk.frame.columns == ["c7", "c9"]
        assert chunk.numbers.names == tuple(name for name in names if name not in ("c7", "c9"))
    assert (chunk.numbers is None) == bool(end)
    gone = np.isin(X, ["NA", "", "?"])
    expected = np.where(gone, np.nan, np.where(gone, "0", X).astype(float))
    np.testing.assert_array_equal(numbers, np.delete(expected, [7, 9], axis=1))


def test_a_target_of_numbers_may_stand_among_very_many_columns():
    width = 5001
    names = ",".join(f"c{i}" for i in range(width))
    text = f"{names},y\n" + "".join(f"{'1,' * width}{i}.5\n" for i in range(3))
    for exclude in ([], [f"c{i}" for i in range(1, width)]):
        stream = from_file(io.BytesIO(text.encode()), "y", holds="numbers", exclude=exclude)
        (batch,) = stream.batches(9)
        assert batch.X.shape == (3, width - len(exclude))
        assert batch.y.tolist() == [0.5, 1.5, 2.5]


def test_a_fault_among_very_many_columns_costs_its_line():
    width = 6000
    good = ",".join(["1"] * width)
    text = "\n".join([good.replace("1", "x"), good, good[2:], good + ",1", "", good, good + "x"])
    rows, faults, _ = text_rows(text)
    assert len(rows) == 3
    assert rows[-1][-1] == "1x"
    assert [(line, raw) for line, _, raw, _ in faults] == [(3, good[2:]), (4, good + ",1")]


# Bytes and encodings


@pytest.mark.parametrize(
    ("encoding", "given"),
    [
        ("utf-8-sig", None),
        ("utf-16", None),
        ("utf-32", None),
        ("latin-1", "latin-1"),
        ("cp1252", "windows-1252"),
        ("utf-16-le", "utf-16-le"),
        ("utf-16-be", "UTF-16BE"),
        ("utf-8", "utf8"),
    ],
)
@pytest.mark.parametrize("packing", [None, "gzip"])
def test_a_text_is_read_whatever_it_was_written_in(tmp_path, encoding, given, packing):
    text = table().write_csv()
    data = text.encode(encoding)
    path = saved(tmp_path, packed(data, packing) if packing else data)
    opened = open_table(path, TextOptions(encoding=given, block_size=1000))
    expected, _, places = text_rows(text)
    rows, faults, found = rows_of(opened)
    assert rows == expected
    assert not faults
    shift = 3 if encoding == "utf-8-sig" else 0
    assert [at for _, at, *_ in found] == [at + shift for _, at, *_ in places]
    assert found[-1][0] == path.stat().st_size
    start = Position(100, *found[99])
    assert rows_of(opened, start)[0] == rows[100:]


@pytest.mark.parametrize("order", ["little", "big"])
def test_both_orders_of_utf_16_and_32_are_found_by_their_marks(order):
    for width in ("16", "32"):
        text = "\ufeffä,b\n1,2\n".encode(f"utf-{width}-{order[0]}e")
        assert columns_of(text) == ("ä", "b")


def test_utf_16_without_a_mark_is_named(tmp_path):
    for encoding in ("utf-16-le", "utf-16-be"):
        path = saved(tmp_path, table().write_csv().encode(encoding))
        assert "is not UTF-8 text: line 1; if it is text, give its encoding" in fault_of(path)


def test_what_is_no_text_in_its_encoding_costs_its_row():
    rows = [b"1,a\n"] * 30
    data = b"".join([b"x,y\n", *rows, b"2,\x81b\n", *rows])
    rows, faults, _ = text_rows(data, encoding="cp1252")
    assert len(rows) == 60
    assert faults == [Fault(32, "not UTF-8 text", r"2,\xffb")]
    wide = "x,y\n1,2\n".encode("utf-16-le") + b"3\0,\0\0\xd8\n\0" + "5,6\n".encode("utf-16-le")
    rows, faults, _ = text_rows(wide, encoding="utf-16-le")
    assert rows == [("1", "2"), ("5", "6")]
    assert [fault.line for fault in faults] == [3]


@pytest.mark.parametrize(
    "options",
    [
        {"encoding": "klingon"},
        {"encoding": "hex"},
        {"encoding": ""},
        {"comment": ""},
        {"comment": "\n"},
        {"delimiter": ";;"},
    ],
)
def test_an_option_that_cannot_be_meant_is_refused_in_one_line(options):
    with pytest.raises(InputError) as caught:
        TextOptions(**options)
    assert "\n" not in str(caught.value)


# Packed text


@pytest.mark.parametrize("packing", [*STREAMED, "zip"])
def test_packed_text_gives_the_same_batches(tmp_path, packing):
    text = table(2000).write_csv().encode()
    path = saved(tmp_path, packed(text, packing), "x.data")
    expected = list(from_file(saved(tmp_path, text), "label").batches(50))
    found = list(from_file(path, "label", block_size=5000).batches(50))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.y, other.y)
        assert one.position.offset == other.position.offset
        assert one.position.bytes <= path.stat().st_size
    opened = open_table(path)
    start = found[7].position
    assert rows_of(opened, start)[0] == text_rows(text)[0][400:]


@settings(deadline=None, max_examples=50)
@given(
    members=st.lists(st.binary(max_size=300), min_size=1, max_size=4),
    sizes=st.lists(st.integers(1, 200), min_size=1),
    packing=st.sampled_from(STREAMED),
)
def test_packed_members_behind_one_another_are_one_text(members, sizes, packing):
    data = b"".join(packed(member, packing) for member in members)
    text, found, turn = text_of(data, packing), b"", 0
    while more := text.read(size := sizes[turn % len(sizes)]):
        assert len(more) <= size
        found += more
        turn += 1
    assert found == b"".join(members)
    assert text.read(1) == b""


@pytest.mark.parametrize("packing", STREAMED)
def test_packed_text_without_its_end_is_damaged_and_stays_so(packing):
    data = packed(table().write_csv().encode(), packing)
    for n_bytes in (15, len(data) // 2, len(data) - 1):
        text = text_of(data[:n_bytes], packing)
        for _ in range(2):
            with pytest.raises(Damaged, match="its end is missing"):
                list(iter(lambda text=text: text.read(1000), b""))


@pytest.mark.parametrize("packing", STREAMED)
def test_all_whole_records_before_damage_come_first(tmp_path, packing):
    n = 60_000 if packing == "bz2" else 24_000  # which packs so much at once
    rng = np.random.default_rng(0)
    lines = [f"{x},{i},{i % 2}\n" for i, x in enumerate(rng.integers(0, 2**62, n))]
    data = packed(("x,i,y\n" + "".join(lines)).encode(), packing)
    path = saved(tmp_path, data[: 2 * len(data) // 3])
    numbers = []
    batches = (numbers.extend(batch.X[:, 1]) for batch in from_file(path, "y").batches(700))
    with pytest.raises(InputError, match=r"x.csv is damaged after line \d+: its end") as caught:
        list(batches)
    assert numbers == list(range(len(numbers)))
    assert len(numbers) > n // 3
    assert f"after line {len(numbers) + 1}:" in str(caught.value)
    spoilt = bytearray(data)
    spoilt[len(data) // 2 : len(data) // 2 + 50] = bytes(50)
    path.write_bytes(spoilt)
    with pytest.raises(InputError, match=r"x.csv is damaged"):
        list(from_file(path, "y").batches(700))


def test_damage_within_the_sample_still_gives_the_rows_before_it(tmp_path):
    text = "x,y\n" + "".join(f"{i * 7919 % 1009},{i % 2}\n" for i in range(5000))
    data = packed(text.encode(), "gzip")
    batches = from_file(saved(tmp_path, data[: len(data) // 2]), "y").batches(100)
    assert next(batches).n_rows == 100
    with pytest.raises(InputError, match="is damaged after line"):
        list(batches)


@pytest.mark.slow
def test_unpacking_takes_little_memory_however_well_it_was_packed():
    for packing in STREAMED:
        data = packed(bytes(1 << 25), packing)
        tracemalloc.start()
        text, n = text_of(data, packing), 0
        while more := text.read(1 << 16):
            n += len(more)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert n == 1 << 25
        assert peak < 20e6  # a few bytes of zstd may be 16 MB of text


@pytest.mark.parametrize("packing", STREAMED)
def test_packed_text_comes_from_pipes_too(packing):
    text = table().write_csv().encode()
    assert rows_of(io.BytesIO(packed(text, packing)))[0] == text_rows(text)[0]


def zipped(*names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "a,b\n1,2\n")
    return file.getvalue()


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (zipped("a.csv", "b.csv"), r"holds 2 files \(a.csv, b.csv\); unpack it"),
        (zipped(*[f"{i}.csv" for i in range(9)]), r"holds 9 files \(0.csv, .*, \.\.\.\)"),
        (zipped(), "holds 0 files"),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), "is an Excel workbook; save it as CSV"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "is an Excel workbook; save it as CSV"),
        (packed(b"PAR1" + bytes(99), "gzip"), "holds a file of type Parquet; unpack it first"),
        (packed(packed(b"a,b\n1,2\n", "bz2"), "xz"), "holds a file of type bz2; unpack it first"),
        (
            packed(b"x.csv".ljust(257, b"\0") + b"ustar" + bytes(300), "gzip"),
            "type tar; unpack",
        ),
        (b"7z\xbc\xaf\x27\x1c" + bytes(99), "holds a file of type 7z; unpack it first"),
        (b"\xff\xff\xff\xff" + bytes(99), "is an Arrow stream; write it as an Arrow file"),
        (b"FEA1" + bytes(99), "is a binary file, not a table; write it as CSV"),
    ],
)
def test_what_else_a_file_may_be_is_said_with_what_to_do(tmp_path, data, words):
    path = saved(tmp_path, data)
    with pytest.raises(InputError, match=words):
        open_table(path)
    assert fault_of(path).startswith(str(path))


@pytest.mark.parametrize("packing", [*STREAMED, "zip"])
def test_whatever_byte_of_a_packed_file_is_wrong_it_is_said_in_one_line(tmp_path, packing):
    text = table().write_csv().encode()
    whole = packed(text, packing)
    rng = np.random.default_rng(0)
    expected, messages = set(text_rows(text)[0]), []
    for trial in range(80):
        data = bytearray(whole)
        at = int(rng.integers(10, len(data))) if trial % 2 else -int(rng.integers(1, 120))
        data[at] ^= int(rng.integers(1, 256))
        try:
            rows = rows_of(saved(tmp_path, bytes(data)))[0]
        except InputError as error:
            messages.append(str(error))
        else:
            assert packing == "zstd" or expected.issuperset(rows)  # it has no checksum here
    assert len(messages) > 10
    assert all("\n" not in message and "x.csv" in message for message in messages)


def test_an_archive_with_the_junk_of_a_desktop_holds_one_file(tmp_path):
    path = saved(tmp_path, zipped("folder/", "folder/a.csv", "__MACOSX/folder/._a.csv"))
    assert rows_of(path)[0] == [("1", "2")]


def test_zip_parquet_and_arrow_cannot_come_from_a_pipe():
    parquet, arrow = io.BytesIO(), io.BytesIO()
    table().write_parquet(parquet)
    table().write_ipc(arrow)
    for data, kind in ((parquet, "Parquet"), (arrow, "Arrow"), (io.BytesIO(zipped("a")), "zip")):
        data.seek(0)
        with pytest.raises(InputError, match=f"{kind} cannot be read from a stream; save it to"):
            open_table(data)


# Parquet and Arrow


def written(frame, folder, kind):
    """The table in a file of some kind."""
    path = folder / f"table.{kind}"
    if kind == "parquet":
        frame.write_parquet(path, row_group_size=64)
    elif kind in ("arrow", "feather"):
        frame.write_ipc(path, compression="zstd" if kind == "feather" else "uncompressed")
    elif kind == "ndjson":
        frame.write_ndjson(path)
    else:
        frame.write_csv(path)
    return path


FILES = ["parquet", "arrow", "feather", "ndjson"]


@pytest.mark.parametrize("kind", FILES)
def test_a_file_of_each_kind_gives_the_batches_of_the_plain_text(tmp_path, kind):
    frame = table(2000)
    expected = list(from_file(written(frame, tmp_path, "csv"), "label").batches(60))
    found = list(from_file(written(frame, tmp_path, kind), "label").batches(60))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.y, other.y)
        assert one.position.rows == other.position.rows


@pytest.mark.parametrize("kind", FILES)
def test_reading_goes_on_at_any_place_of_each_kind(tmp_path, kind):
    opened = open_table(written(table(), tmp_path, kind))
    rows, _, places = rows_of(opened)
    for at in (1, 150, 299, 300):
        assert rows_of(opened, Position(at, *places[at - 1]))[0] == rows[at:]
    assert places[-1][0] == opened.n_bytes


@pytest.mark.parametrize("kind", ["parquet", "arrow", "feather"])
def test_whatever_is_damaged_is_said_in_one_line_and_nothing_else(tmp_path, kind, capfd):
    path = written(table(), tmp_path, kind)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    messages = []
    for trial in range(80):
        data = bytearray(whole)
        first = 8 if trial % 2 else len(data) - 500
        data[int(rng.integers(first, len(data)))] ^= int(rng.integers(1, 256))
        path.write_bytes(data[: int(rng.integers(20, len(data)))] if trial % 10 == 0 else data)
        try:
            rows_of(path)
        except InputError as error:
            messages.append(str(error))
    assert len(messages) > 10
    assert all("\n" not in message and str(path) in message for message in messages)
    assert capfd.readouterr().err == ""


def test_what_others_write_to_standard_error_meanwhile_is_not_lost(capfd):
    with _without_panics():
        os.write(2, b"progress")
    assert capfd.readouterr().err == "progress"


@pytest.mark.parametrize("kind", FILES)
def test_a_name_with_the_signs_of_a_pattern_is_a_name(tmp_path, kind):
    path = written(table(), tmp_path, kind)
    odd = path.rename(tmp_path / f"a[b]*.{kind}")
    assert len(rows_of(odd)[0]) == 300


def test_an_ending_that_does_not_fit_is_said(tmp_path):
    for name in ("x.arrow", "x.feather", "x.parquet"):
        kind = "a Parquet" if name == "x.parquet" else "an Arrow"
        assert f"is not {kind} file" in fault_of(saved(tmp_path, b"a,b\n1,2\n", name))


# NDJSON


def json_rows(*lines, **options):
    return text_rows("\n".join(lines), **options)


def test_keys_become_columns_and_what_is_not_there_is_missing():
    opened = open_table(io.BytesIO(b'{"b": 1, "a": "x"}\n\n{"c": true, "b": 2}\n'))
    assert opened.column_names == ("b", "a", "c")
    assert rows_of(opened) == (
        [("1", "x", ""), ("2", "", "true")],
        [],
        [[19, 19, 1, 0], [40, 40, 3, 0]],
    )


@pytest.mark.parametrize("bad", ["", '{"bad": }'])
def test_values_are_what_they_were_whether_a_line_is_bad_or_not(bad):
    values = ["1", "1.5", '"1"', "18446744073709551615", "9007199254740993", "true", "null"]
    values += ["-3", "1.0", "1e5", "1e-5", '"x \\u00fc"', '"tab\\t"', "0.30000000000000004"]
    lines = [f'{{"x": {value}}}' for value in values]
    rows, faults, _ = json_rows(*lines, bad)
    found = [row[0] for row in rows]
    assert found[:7] == ["1", "1.5", "1", "18446744073709551615", "9007199254740993", "true", ""]
    assert found[7:] == ["-3", "1", "100000", "0.00001", "x ü", "tab\t", "0.30000000000000004"]
    assert faults == ([Fault(15, "not a JSON object", bad)] if bad else [])


def test_a_bad_line_costs_itself_wherever_it_stands():
    lines = [f'{{"i": {i}, "y": {i % 2}}}' for i in range(40_000)]
    for at, bad in {3: "[1]", 20_000: '{"i": 1', 20_001: "7", 39_999: "{'i': 1}"}.items():
        lines[at] = bad
    rows, faults, _ = json_rows(*lines)
    assert [fault.line for fault in faults] == [4, 20_001, 20_002, 40_000]
    assert [fault.raw for fault in faults] == ["[1]", '{"i": 1', "7", "{'i': 1}"]
    assert len(rows) == 39_996
    data = "\n".join(lines[:100]).encode() + b'\n{"i": "\xff"}\n'
    assert text_rows(data)[1] == [
        Fault(4, "not a JSON object", "[1]"),
        Fault(101, "not UTF-8 text", r'{"i": "\xff"}'),
    ]


@settings(deadline=None, max_examples=50)
@given(
    lines=st.lists(st.sampled_from(['{"a":1}', '{"a":"x","b":2}', "", "{", "[]"]), max_size=12),
    block_size=st.integers(1, 60),
)
def test_lines_of_json_are_the_same_whatever_the_size_of_the_blocks(lines, block_size):
    data = "\n".join(['{"a": 0, "b": null}', *lines]).encode()
    one = open_table(io.BytesIO(data), TextOptions(block_size=block_size))
    assert rows_of(one) == rows_of(open_table(io.BytesIO(data)))


def test_numbers_in_quotes_are_read_as_numbers():
    lines = ['{"x": 1.5, "y": 0}'] * 50 + ['{"x": "2.5", "y": 1}'] * 50
    X = np.concatenate(
        [b.X for b in from_file(io.BytesIO("\n".join(lines).encode()), "y").batches(9)]
    )
    assert X[:, 0].tolist() == [1.5] * 50 + [2.5] * 50


def test_nested_values_come_as_lists():
    opened = open_table(io.BytesIO(b'{"a": {"b": 1}, "y": 1}\n{"a": null, "y": 2}\n'))
    frame = read_sample(opened, opened.column_names)
    assert frame["a"].dtype == pl.List(pl.String)
    assert frame["a"].to_list() == [['{"b": 1}'], None]
    assert frame["y"].to_list() == ["1", "2"]


def test_keys_that_come_after_the_sample_are_noted_and_not_used():
    lines = ['{"a": 1, "y": 0}'] * 200_000
    lines[150_000:] = ['{"a": 1, "new": 3, "y": 0}'] * 50_000
    opened = open_table(io.BytesIO("\n".join(lines).encode()))
    assert opened.column_names == ("a", "y")
    assert len(rows_of(opened)[0]) == 200_000
    assert opened.new_fields == {"new": 150_001}


def test_numbers_of_any_size_are_written_alike_whether_a_line_is_bad_or_not():
    values = ["1e17", "1e200", "-1.5e20", "1e-8", "5e-324", "0e0", "-0.0", "1.0"]
    lines = ['{"x": "word"}', *(f'{{"x": {value}}}' for value in values)]
    assert json_rows(*lines)[0] == json_rows(*lines, "[]")[0]


def test_keys_are_those_of_the_first_objects_however_long_a_block_is(monkeypatch):
    monkeypatch.setattr("fires.streams.json_table.SAMPLE_ROWS", 1_000)
    lines = ['{"a": 1, "y": 0}'] * 1_000 + ['{"a": 1, "new": 3, "y": 0}'] * 200
    data = "\n".join(lines).encode()
    for block_size in (100, 10_000, 1 << 20):
        opened = open_table(io.BytesIO(data), TextOptions(block_size=block_size))
        assert opened.column_names == ("a", "y")
        rows_of(opened)
        assert opened.new_fields == {"new": 1_001}


def test_what_is_not_one_object_per_line_is_said(tmp_path):
    for text in ('[{"a": 1}]', '[\n{"a": 1}]', '\ufeff [ { "a": 1 } ]'):
        assert "is a JSON array; write one object per line" in fault_of(
            saved(tmp_path, text.encode())
        )
    path = saved(tmp_path, b'{\n  "a": 1\n}\n')
    assert "no readable rows; first problem: line 1: not a JSON object" in fault_of(path)
    assert fault_of(saved(tmp_path, b"\n", "x.ndjson")).endswith("is empty")
    assert "no columns" in fault_of(saved(tmp_path, b"{}\n{}\n"))
    assert "[id]" in open_table(saved(tmp_path, b"[id],[b]\n1,2\n")).column_names


@pytest.mark.parametrize("packing", [*STREAMED, "zip"])
def test_json_may_be_packed_and_in_any_encoding(tmp_path, packing):
    text = '{"ä": 1}\n{"ä": 2}\n'
    path = saved(tmp_path, packed(text.encode("utf-16"), packing, "x.ndjson"))
    opened = open_table(path)
    assert opened.column_names == ("ä",)
    assert rows_of(opened)[0] == [("1",), ("2",)]


# Several files


def days(folder):
    """A table in three files: plain, packed with its columns in another order, and Parquet."""
    frame = table()
    frame[:100].write_csv(folder / "day1.csv")
    second = frame[100:180].select("town", "label", "size", "count").write_csv().encode()
    saved(folder, packed(second, "zstd"), "day2.csv.zst")
    frame[180:].with_columns(extra=pl.lit(1)).drop("size").write_parquet(folder / "day3.parquet")
    return [folder / name for name in ("day1.csv", "day2.csv.zst", "day3.parquet")], frame


def test_several_files_are_one_table_whatever_their_kinds_and_order_of_columns(tmp_path):
    paths, frame = days(tmp_path)
    opened = open_table(paths)
    assert opened.column_names == ("count", "size", "town", "label")
    assert opened.n_bytes == sum(path.stat().st_size for path in paths)
    rows, faults, places = rows_of(opened)
    expected = frame.with_columns(
        size=pl.when(pl.int_range(len(frame)) < 180).then("size").otherwise(None)
    )
    assert rows == text_rows(expected.write_csv())[0]
    assert not faults
    assert [file for *_, file in places] == [0] * 100 + [1] * 80 + [2] * 120
    assert [n_bytes for n_bytes, *_ in places] == sorted(n_bytes for n_bytes, *_ in places)
    assert places[-1][0] == opened.n_bytes
    assert opened.notes == [
        f'column "size" not in {paths[2]}: missing there',
        f'column "extra" only in {paths[2]}: not used',
    ]


def test_reading_goes_on_in_the_middle_of_any_file(tmp_path):
    paths, _ = days(tmp_path)
    opened = open_table(paths)
    rows, _, places = rows_of(opened)
    for at in (50, 100, 101, 150, 180, 299, 300):
        assert rows_of(opened, Position(at, *places[at - 1]))[0] == rows[at:]
    whole = list(from_file(paths, "label").batches(70))
    stream = from_file(paths, "label")
    _, first = islice(stream.batches(70), 2)
    assert first.position.file == 1
    later = from_file(paths, after=stream.bookmark())
    for one, other in zip(later.batches(70), whole[2:], strict=True):
        np.testing.assert_array_equal(one.X, other.X)
        assert one.position == other.position


def test_faults_come_with_the_file_they_are_in(tmp_path):
    paths = [saved(tmp_path, b"a,y\n1,2\n3\n4,5\n", name) for name in ("one.csv", "two.csv")]
    opened = open_table(paths)
    chunks = list(opened.chunks({"a": "category", "y": "category"}, Position()))
    fault = Fault(3, "1 field, the header has 2", "3")
    assert [chunk.faults for chunk in chunks] == [
        [fault._replace(where={"file": str(path)})] for path in paths
    ]


def test_a_file_without_the_target_is_named_before_anything_is_read(tmp_path):
    good = saved(tmp_path, b"a,y\n1,2\n", "one.csv")
    bad = saved(tmp_path, b"a,Y\n1,2\n", "two.csv")
    with pytest.raises(InputError, match=r'no column "y" in .*two.csv; did you mean "Y"\?'):
        from_file([good, bad], "y")
    other = saved(tmp_path, b"b,c\n1,2\n", "three.csv")
    with pytest.raises(InputError, match=r"three.csv has no column of those in .*one.csv"):
        open_table([good, other])
    with pytest.raises(InputError, match="there is no file"):
        open_table([])
    assert from_file([good], "y").schema.feature_names == ("a",)


def test_nested_values_in_one_of_several_files_are_left_out_whatever_the_order_of_columns(tmp_path):
    first = saved(tmp_path, b"y,a,b\n1,2,3\n0,2,4\n", "1.csv")
    second = saved(tmp_path, b'{"a": {"x": 1}, "y": 1, "b": 2}\n' * 2, "2.ndjson")
    stream = from_file([first, second], "y")
    assert [batch.X.tolist() for batch in stream.batches(10)] == [[[3], [4], [2], [2]]]
    assert stream.surprises() == ['column "a": holds values of type List: left out']


def test_files_that_differ_in_the_same_way_share_a_line(tmp_path):
    first = saved(tmp_path, b"a,b,y\n1,2,3\n", "0.csv")
    later = [saved(tmp_path, b"a,y,c,d\n1,2,3,4\n", f"{i}.csv") for i in (1, 2, 3)]
    assert open_table([first, *later]).notes == [
        f'column "b" not in {later[0]} and 2 more files: missing there',
        f'columns "c", "d" only in {later[0]} and 2 more files: not used',
    ]


# svmlight


def sparse_lines(n=500, width=40, seed=0):
    rng = np.random.default_rng(seed)
    lines = []
    for i in range(n):
        indices = np.sort(rng.choice(width, 5, replace=False)) + 1
        pairs = " ".join(f"{j}:{x:.4f}" for j, x in zip(indices, rng.normal(size=5), strict=True))
        lines.append(f"{'+1' if i % 3 else '-1'} {pairs}")
    lines[7] += f" {width + 1}:2.5"
    return lines


def sparse_batches(path, size=64, **options):
    stream = from_file(path, **options)
    batches = list(stream.batches(size))
    assert all(batch.n_rows == size for batch in batches[:-1])
    return stream, batches


@pytest.mark.parametrize("packing", [None, *STREAMED, "zip"])
def test_sparse_rows_stay_sparse(tmp_path, packing):
    data = ("# a comment 99:1\n" + "\n".join(sparse_lines()) + "\n").encode()
    X, y = load_svmlight_file(io.BytesIO(data))
    path = saved(tmp_path, packed(data, packing) if packing else data, "x")
    stream, batches = sparse_batches(path, block_size=3000)
    assert stream.schema.feature_names == tuple(str(i) for i in range(1, 42))
    assert (stream.schema.target, stream.columns, stream.surprises()) == ("target", None, [])
    assert all(batch.X.format == "csr" for batch in batches)
    np.testing.assert_array_equal(np.vstack([b.X.toarray() for b in batches]), X.toarray())
    labels = np.concatenate([batch.y for batch in batches])
    np.testing.assert_array_equal(labels, y)
    assert labels.dtype == np.int64
    assert batches[-1].position.line == 501
    assert batches[-1].position.offset == len(data)
    for at in (0, 3, 6):
        assert len(list(islice(stream.batches(64), at + 1))) == at + 1
        _, later = sparse_batches(path, after=stream.bookmark())
        np.testing.assert_array_equal(
            np.concatenate([batch.y for batch in later]), labels[64 * (at + 1) :]
        )
        assert later[-1].position.rows == 500


def test_what_is_wrong_in_a_sparse_file_costs_its_line(tmp_path):
    lines = sparse_lines()
    bad = {20: "1 3:1 2:1", 100: "x 1:1", 101: "1 2:", 300: "1 5", 301: "1,2 3:4", 302: "1 0:3"}
    bad |= {400: "1 3:inf", 401: "nan 3:1"}
    for at, line in bad.items():
        lines[at] = line
    lines[410:410] = ["", "# nothing", "   "]
    text = "\n".join(lines).replace("1 0:3", "1 :3")
    stream, batches = sparse_batches(saved(tmp_path, text.encode(), "x.svm"))
    assert sum(batch.n_rows for batch in batches) == 500 - len(bad)
    assert stream.rejected.count == len(bad)
    assert sorted(line for line, _ in stream.rejected.examples) == [at + 1 for at in bad]
    assert batches[-1].position.line == 503


def test_a_fraction_behind_whole_labels_costs_its_line(tmp_path):
    path = saved(tmp_path, b"1 1:1\n0 1:2\n", "x.svm")
    stream = from_file(path)
    path.write_bytes(path.read_bytes() + b"0.5 1:3\n1 1:4\n")  # once the labels were looked at
    (batch,) = stream.batches(10)
    assert batch.y.tolist() == [1, 0, 1]
    assert stream.rejected.count == 1


def test_indices_may_start_at_zero_and_labels_may_be_fractions(tmp_path):
    path = saved(tmp_path, b"1.5 qid:2 0:1 3:2 # x:9\n2 qid:2 1:5\r\n-.5 2:1e-3\n", "x")
    stream, (batch,) = sparse_batches(path)
    assert stream.schema.feature_names == ("0", "1", "2", "3")
    assert batch.X.toarray().tolist() == [[1, 0, 0, 2], [0, 5, 0, 0], [0, 0, 1e-3, 0]]
    assert batch.y.tolist() == [1.5, 2, -0.5]


@settings(deadline=None, max_examples=40)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(-3, 3),
            st.lists(st.integers(0, 10**4), unique=True, max_size=4),
            st.sampled_from(["", " #c 5:5", "\n# 77:7", "\n"]),
        ),
        min_size=1,
        max_size=20,
    ),
    block_size=st.integers(1, 200),
)
def test_the_greatest_index_is_found_whatever_the_size_of_the_blocks(rows, block_size):
    lines = [
        f"{label} {' '.join(f'{i}:1' for i in sorted(found))}{after}"
        for label, found, after in [*rows, (1, [4], "")]
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = saved(Path(folder), "\n".join(lines).encode())
        found = SvmlightStream(TextSource("x", File(path)), block_size).counted
    indices = [4, *(i for _, found, _ in rows for i in found)]
    assert found["zero_based"] == (0 in indices)
    assert found["n_features"] == max(indices) + found["zero_based"]
    assert found["whole_labels"]


def test_what_cannot_be_read_of_svmlight_is_said_in_one_line(tmp_path):
    many = saved(tmp_path, b"1,2 3:1\n2 4:1\n", "x")
    with pytest.raises(InputError, match="several labels in a row"):
        from_file(many)
    with pytest.raises(InputError, match="svmlight cannot be read from a stream; save it"):
        from_file(io.BytesIO(b"1 2:3\n"))
    huge = saved(tmp_path, b"1 2:3\n1 99999999999:1\n", "y")
    with pytest.raises(InputError, match="index 99999999999 in line 2 is too large"):
        from_file(huge)
    empty = saved(tmp_path, b"1\n2\n", "z.svm")
    with pytest.raises(InputError, match="no row with an entry"):
        from_file(empty)
    wrong = saved(tmp_path, b"1 2:x\n1 3:y\n", "w.svm")
    with pytest.raises(InputError, match="no readable rows; first problem: line 1: not a label"):
        list(from_file(wrong).batches(10))


@pytest.mark.parametrize("packing", [None, "gzip"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_small_sparse_file_with_great_indices_has_the_columns_that_occur(
    tmp_path, packing, first
):
    lines = sparse_lines()
    lines[3] += " 9999999:1.5 # 77:1"
    if first == 0:
        lines[4] = "1 0:2.5"
    data = "\n".join(lines).encode()
    path = saved(tmp_path, packed(data, packing) if packing else data, "x.svm")
    tracemalloc.start()
    stream, batches = sparse_batches(path, block_size=3000)
    assert tracemalloc.get_traced_memory()[1] < 5e6
    tracemalloc.stop()
    names = [*range(first, 42), 77, 9999999]
    assert stream.schema.feature_names == tuple(map(str, names))
    X, _ = load_svmlight_file(io.BytesIO(data), zero_based=first == 0)
    columns = np.array(names) - first
    columns = columns[columns < X.shape[1]]
    found = np.vstack([batch.X.toarray() for batch in batches])
    np.testing.assert_array_equal(found, X[:, columns].toarray())
    next(stream.batches(64))
    rest, later = sparse_batches(path, after=stream.bookmark())
    assert rest.schema == stream.schema
    np.testing.assert_array_equal(np.vstack([b.X.toarray() for b in later]), found[64:])
    if packing is None:  # lines that were added since
        path.write_bytes(data + b"\n1 3:1\n1 5000000:1\n1 10000000:1\n")
        rest, later = sparse_batches(path, after=stream.bookmark())
        assert sum(batch.n_rows for batch in later) == 500 - 64 + 1
        assert [line for line, _ in rest.rejected.examples] == [502, 503]


def test_rows_before_the_damage_of_a_packed_sparse_file_come_first(tmp_path):
    data = packed("\n".join(sparse_lines(20_000)).encode(), "gzip")
    path = saved(tmp_path, data[: len(data) // 2], "x.svm.gz")
    found = []
    batches = (found.append(batch.n_rows) for batch in from_file(path).batches(100))
    with pytest.raises(InputError, match=r"is damaged after line \d+"):
        list(batches)
    assert sum(found) > 8000
