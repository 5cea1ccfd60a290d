"""A file that grows is read on, through renames and copies, and after the reader was away."""

import gzip
import json
import os
import shutil
import time
from dataclasses import replace

import numpy as np
import pytest

from fires.checks import check_stream
from fires.core.errors import InputError
from fires.streams import byte_sources
from fires.streams import text as texts
from fires.streams.base import Position
from fires.streams.files import from_file, open_followed

SECONDS = 120  # until a test that waits in vain gives up
HEADER = "number,seventh,label\n"


def text(first, stop):
    return "".join(f"{i},{i % 7},{i % 2}\n" for i in range(first, stop))


def objects(first, stop):
    rows = [{"number": i, "seventh": i % 7, "label": i % 2} for i in range(first, stop)]
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(byte_sources, "WAIT", 0.02)
    monkeypatch.setattr(byte_sources, "QUIET", 0.02)
    monkeypatch.setattr(byte_sources, "_LOOK_EVERY", 0.001)
    monkeypatch.setattr(texts, "PATIENCE", 0.01)


class Log:
    """A file that a program writes to, and another one rotates."""

    def __init__(self, folder, header=HEADER, lines=text):
        self.path = folder / "app.csv"
        self.header, self.lines, self.n = header, lines, 0
        self.path.write_text(header)

    def grow(self, n):
        self.write(self.lines(self.n, self.n + n))
        self.n += n

    def write(self, data):
        with self.path.open("a") as file:
            file.write(data)

    def rename(self, header=None):
        for i in (3, 2, 1):
            older = self.path.with_name(f"app.csv.{i}")
            if older.exists():
                older.rename(self.path.with_name(f"app.csv.{i + 1}"))
        self.path.rename(self.path.with_name("app.csv.1"))
        self.path.write_text(self.header if header is None else header)

    def copy_and_empty(self, header=None, *, copy=True):
        if copy:
            shutil.copy(self.path, self.path.with_name("app.csv.1"))
        os.truncate(self.path, 0)
        self.write(self.header if header is None else header)

    def stream(self, **options):
        return from_file(self.path, "label", follow=True, **options)


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path)


@pytest.fixture(params=["text", "json"])
def any_log(request, tmp_path):
    return Log(tmp_path) if request.param == "text" else Log(tmp_path, "", objects)


def numbers(batches, n):
    """The first column of the next rows."""
    found = []
    while len(found) < n:
        found += next(batches).X[:, 0].astype(int).tolist()
    return found


def rows_until(chunks, n):
    """The rows of a table."""
    found, until = [], time.monotonic() + SECONDS
    while len(found) < n:
        chunk = next(chunks)
        found += chunk.frame["number"].cast(int).to_list()
        assert time.monotonic() < until, found
    return found


def next_tick(chunks):
    until = time.monotonic() + SECONDS
    while len(next(chunks).lines):
        assert time.monotonic() < until


KINDS = dict.fromkeys(["number", "seventh", "label"], "number")


def test_rows_come_as_they_are_written_and_ticks_between_them(any_log):
    any_log.grow(120)
    table = open_followed(any_log.path)
    chunks = table.chunks(KINDS, Position())
    assert rows_until(chunks, 120) == list(range(120))
    for _ in range(3):
        next_tick(chunks)
    any_log.grow(5)
    assert rows_until(chunks, 5) == list(range(120, 125))
    next_tick(chunks)


def test_rows_that_come_later_start_where_those_before_them_ended(log):
    log.grow(100)
    chunks = open_followed(log.path).chunks(KINDS, Position())
    rows_until(chunks, 100)
    log.grow(5)
    later = next(chunk for chunk in chunks if len(chunk.lines))
    assert later.start.offset == len(HEADER) + len(text(0, 100))


def test_a_line_is_no_row_until_it_ends(log):
    log.grow(100)
    chunks = open_followed(log.path).chunks(KINDS, Position())
    rows_until(chunks, 100)
    for part in ("10", "0,", '"2'):
        log.write(part)
        next_tick(chunks)
        next_tick(chunks)
    log.write('",0\n')
    assert rows_until(chunks, 1) == [100]


def test_a_quoted_line_end_waits_for_its_record(log):
    log.grow(100)
    stream = log.stream()
    faults = []
    stream.on_fault = faults.extend
    batches = stream.batches(50)
    assert numbers(batches, 100) == list(range(100))
    log.write('100,"1\n')
    table = open_followed(log.path)
    chunks = table.chunks(KINDS, Position())
    rows_until(chunks, 100)
    next_tick(chunks)
    log.write('2",0\n')
    log.grow(49)
    next(batches)
    assert faults == []


def test_a_rotated_file_is_read_to_its_end_and_then_the_new_one(any_log):
    any_log.grow(150)
    batches = any_log.stream().batches(10)
    assert numbers(batches, 150) == list(range(150))
    for _ in range(3):
        any_log.grow(5)
        any_log.rename()
        any_log.grow(15)
    assert numbers(batches, 60) == list(range(150, 210))


def test_a_reader_that_lags_behind_two_rotations_misses_none_of_them(any_log):
    any_log.grow(150)
    chunks = open_followed(any_log.path).chunks(KINDS, Position())
    rows_until(chunks, 150)
    any_log.grow(5)
    for _ in range(2):
        any_log.rename()
        any_log.grow(20)
    assert rows_until(chunks, 45) == list(range(150, 195))


def test_who_still_writes_to_the_old_file_is_heard(log, monkeypatch):
    monkeypatch.setattr(byte_sources, "QUIET", 0.3)
    log.grow(150)
    chunks = open_followed(log.path).chunks(KINDS, Position())
    rows_until(chunks, 150)
    with log.path.open("a") as old:
        log.rename()
        log.write(text(151, 152))
        next_tick(chunks)
        old.write(text(150, 151))
    assert rows_until(chunks, 2) == [150, 151]


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize("grown", [10, 400])
def test_a_file_that_is_made_empty_starts_anew(any_log, copy, grown):
    any_log.grow(150)
    chunks = open_followed(any_log.path).chunks(KINDS, Position())
    rows_until(chunks, 150)
    if copy:
        any_log.grow(7)  # which only the copy has, when the reader looks again
    any_log.copy_and_empty(copy=copy)
    any_log.grow(grown)  # with 400, it is longer than it was
    stop = any_log.n
    assert rows_until(chunks, stop - 150) == list(range(150, stop))


def test_a_new_file_may_lack_the_header_but_not_have_another(log):
    log.grow(150)
    batches = log.stream().batches(10)
    numbers(batches, 150)
    log.rename(header="")
    log.grow(20)
    assert numbers(batches, 20) == list(range(150, 170))
    log.rename(header="number,label,other\n")
    with pytest.raises(InputError, match=r"app.csv was rotated, and its new header is different"):
        next(batches)


def test_a_new_file_that_holds_something_else_stops_the_stream(log):
    log.grow(150)
    batches = log.stream().batches(10)
    numbers(batches, 150)
    log.rename(header="2024-01-01 something happened\n")
    with pytest.raises(InputError, match="begins with neither its header nor a row"):
        next(batches)


def test_half_a_header_waits_for_the_other_half(log):
    log.grow(150)
    chunks = open_followed(log.path).chunks(KINDS, Position())
    rows_until(chunks, 150)
    log.rename(header=HEADER[:5])
    for _ in range(5):
        next_tick(chunks)
    log.write(HEADER[5:])
    log.grow(1)
    assert rows_until(chunks, 1) == [150]


def assert_goes_on(stream, expected):
    batches = stream.batches(10)
    for X, y, position in expected:
        batch = next(batches)
        assert batch.X.tobytes() == X.tobytes()
        np.testing.assert_array_equal(batch.y, y)
        # How much of the file had been read then is in the mark, and not always the same.
        assert replace(batch.position, mark=None) == replace(position, mark=None)
    batches.close()


def read_on(batches, n, stream):
    found, marks = [], []
    for _ in range(n):
        batch = next(batches)
        found.append((batch.X, batch.y, batch.position))
        marks.append(stream.bookmark())
    return found, marks


@pytest.mark.parametrize(
    ("rotation", "header"),
    [
        ("rename", None),
        ("copy_and_empty", ""),
        pytest.param("rename", "", marks=pytest.mark.slow),
        pytest.param("copy_and_empty", None, marks=pytest.mark.slow),
    ],
)
def test_reading_goes_on_behind_any_batch_through_rotations(any_log, rotation, header):
    any_log.grow(153)
    stream = any_log.stream()
    batches = stream.batches(10)
    found, marks = read_on(batches, 15, stream)
    for n in (1, 2):
        if n == 2 and rotation == "copy_and_empty":
            any_log.path.with_name("app.csv.1").rename(any_log.path.with_name("app.csv.2"))
        getattr(any_log, rotation)(header)
        any_log.grow(50)
        more = read_on(batches, 5, stream)
        found, marks = found + more[0], marks + more[1]
    for n_read, bookmark in enumerate(marks, start=1):
        saved = json.loads(json.dumps(bookmark))
        later = any_log.stream(after=saved) if n_read % 2 else stream.after(saved)
        assert_goes_on(later, found[n_read:])


def test_rows_in_a_rotated_file_that_is_gone_are_named(log):
    log.grow(153)
    stream = log.stream()
    _, marks = read_on(stream.batches(10), 15, stream)
    log.rename()
    log.grow(300)
    old = log.path.with_name("app.csv.1")
    packed = log.path.with_name("app.csv.1.gz")
    packed.write_bytes(gzip.compress(old.read_bytes()))
    old.unlink()
    with pytest.raises(InputError) as error:
        log.stream(after=marks[-1])
    said = str(error.value)
    assert "app.csv was rotated since it was read up to byte" in said
    assert said.endswith("app.csv.1.gz: unpack it there")
    packed.unlink()
    with pytest.raises(InputError, match="the rows after that are missing; start a new run"):
        log.stream(after=marks[-1])


def test_a_packed_file_between_two_others_is_a_gap(log):
    log.grow(150)
    chunks = open_followed(log.path).chunks(KINDS, Position())
    rows_until(chunks, 150)
    log.rename()
    log.grow(20)
    log.rename()
    log.grow(20)
    between = log.path.with_name("app.csv.1")
    log.path.with_name("app.csv.1.gz").write_bytes(gzip.compress(between.read_bytes()))
    between.unlink()
    with pytest.raises(InputError, match=r"app.csv.1.gz, which comes next, is packed; unpack it"):
        rows_until(chunks, 1)


def test_a_file_that_is_packed_after_it_was_read_is_no_gap(log):
    log.grow(150)
    chunks = open_followed(log.path).chunks(KINDS, Position())
    rows_until(chunks, 150)
    log.rename()
    old = log.path.with_name("app.csv.1")
    log.path.with_name("app.csv.1.gz").write_bytes(gzip.compress(old.read_bytes()))
    old.unlink()
    log.grow(20)
    assert rows_until(chunks, 20) == list(range(150, 170))


def test_faults_are_told_with_their_lines_and_text_once(log):
    log.grow(150)
    stream = log.stream()
    faults = []
    stream.on_fault = faults.extend
    batches = stream.batches(10)
    numbers(batches, 150)
    log.write("1,2\n")
    log.grow(10)
    numbers(batches, 10)
    log.rename()
    log.write("3\n")
    log.grow(10)
    numbers(batches, 10)
    assert [(fault.line, fault.raw) for fault in faults] == [(152, "1,2"), (2, "3")]
    assert stream.rejected.count == 2


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("x.csv.gz", gzip.compress(HEADER.encode()), "x.csv.gz is gzip; only plain text"),
        ("x.parquet", b"PAR1" + bytes(20), "is Parquet; only plain text"),
        ("x.csv", ("\ufeff" + HEADER).encode("utf-16-le"), "is text in utf-16; only plain"),
        ("x.svm", b"1 1:2 3:4\n0 1:3 2:2\n", "svmlight"),
    ],
    ids=["gzip", "Parquet", "UTF-16", "svmlight"],
)
def test_what_cannot_be_followed_is_said_in_one_line(tmp_path, name, data, words):
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        from_file(path, "label", follow=True)
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_several_files_and_standard_input_are_not_followed(log):
    for source in ([log.path, log.path], "-"):
        with pytest.raises(InputError, match="only one file can be followed, by its name"):
            from_file(source, "label", follow=True)
    with pytest.raises(InputError, match=r"cannot read .*absent: No such file"):
        from_file(log.path.with_name("absent"), "label", follow=True)


def test_every_check_of_a_stream_holds(any_log):
    any_log.grow(300)
    check_stream(any_log.stream())


def test_positions_count_the_bytes_of_all_files(log):
    log.grow(150)
    stream = log.stream()
    batches = stream.batches(150)
    first = next(batches).position
    assert (first.bytes, first.offset, first.line) == (len(HEADER + text(0, 150)),) * 2 + (151,)
    log.rename()
    log.grow(150)
    second = next(batches).position
    assert second.offset == len(HEADER + text(150, 300))
    assert second.bytes == first.bytes + second.offset
    assert second.line == 151


def test_a_second_pass_starts_with_the_first_file(log):
    log.grow(150)
    stream = log.stream()
    batches = stream.batches(10)
    numbers(batches, 150)
    log.rename()
    log.grow(20)
    assert numbers(batches, 20) == list(range(150, 170))
    batches.close()
    assert numbers(stream.batches(10), 170) == list(range(170))


def test_keys_that_come_later_are_columns_where_columns_are_open(tmp_path):
    log = Log(tmp_path, header="", lines=objects)
    log.grow(150)
    log.write("".join(json.dumps({"new": i, "label": i % 2}) + "\n" for i in range(50)))
    stream = from_file(log.path, "label", follow=True, columns="open", keep_doubtful=True)
    reading = stream.batches(50)
    names = [next(reading).names for _ in range(4)]
    assert names == [("number", "seventh")] * 3 + [("new",)]
    reading.close()
