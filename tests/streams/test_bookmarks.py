"""A stream that is left after any batch and taken up again gives the same rest, to the bit."""

import bz2
import gzip
import io
import json
import lzma
import os
import random
import zipfile
from itertools import islice

import numpy as np
import polars as pl
import pytest
import zstandard

from fires.checks.data import as_plain
from fires.columns import Columns
from fires.core.errors import InputError, StateError
from fires.streams import from_file

N_CASES = int(os.environ.get("FIRES_BOOKMARK_CASES", "200"))
"""Random tables of each kind, where many are asked for."""
N_CHUNKS = 4


@pytest.fixture(autouse=True, scope="module")
def small():
    """Samples and blocks are small: much happens in a row."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {
            "fires.streams.table.SAMPLE_ROWS": 20,
            "fires.streams.table.LEAST_ROWS": 20,
            "fires.streams.json_table.SAMPLE_ROWS": 20,
            "fires.streams.text.PIECE": 300,
            "fires.streams.json_table._LOOK_EVERY": 5,
            "fires.streams.columnar._CHUNK_CELLS": 100,
            "fires.streams.columnar._READ_CELLS": 230,
        }.items():
            patch.setattr(name, value)
        yield


# What is compared


def read(stream, size, n_batches=None):
    """The first batches, the faults up to their end, and what stopped the reading."""
    faults, batches, error = [], [], None
    stream.on_fault = faults.extend
    reader = stream.batches(size)
    try:
        batches.extend(islice(reader, n_batches))
    except InputError as stop:
        error = str(stop)
    reader.close()
    return batches, faults, error


def assert_same(found, expected):
    """The same batches, whatever read them."""
    assert [one.position for one in found] == [other.position for other in expected]
    for one, other in zip(found, expected, strict=True):
        X, Z = as_plain(one.X), as_plain(other.X)
        assert X.dtype == Z.dtype
        assert one.y.dtype.kind == other.y.dtype.kind
        np.testing.assert_array_equal(X, Z)
        np.testing.assert_array_equal(np.signbit(X), np.signbit(Z))
        np.testing.assert_array_equal(one.y, other.y)


def known(stream):
    """All that a stream knows at its end."""
    columns = stream.columns
    return [stream.rejected, stream.surprises()] + (
        [] if columns is None else [stream.describe(), columns.as_json(), stream.target.column]
    )


def check(make, size, places=None):
    """Leave a stream after its batches, once after each, or after all of them in turn."""
    stream = make()
    faults, whole, error = [], [], None
    stream.on_fault = faults.extend
    left = [(0, 0, json.dumps(stream.bookmark()))]
    try:
        for batch in stream.batches(size):
            whole.append(batch)
            left.append((len(whole), len(faults), json.dumps(stream.bookmark())))
    except InputError as stop:
        error = str(stop)
    left.append((len(whole), len(faults), json.dumps(stream.bookmark())))  # behind the last faults
    expected = known(stream)

    for place in range(len(left)) if places is None else places:
        n_batches, n_faults, bookmark = left[place % len(left)]
        for later in (make(after=json.loads(bookmark)), stream.after(json.loads(bookmark))):
            rest, more, end = read(later, size)
            assert_same(rest, whole[n_batches:])
            assert faults[:n_faults] + more == faults
            assert end == error
            assert known(later) == expected

    bookmark, told, n_read = left[0][2], [], 0
    while True:
        later = make(after=json.loads(bookmark))
        rest, more, end = read(later, size, 1)
        told += more
        assert_same(rest, whole[n_read : n_read + 1])
        bookmark, n_read = json.dumps(later.bookmark()), n_read + len(rest)
        if not rest:
            break
    assert (told, end, n_read) == (faults, error, len(whole))
    assert known(later) == expected
    return whole, faults, stream


# Random tables

VALUES = {
    "number": lambda rng: rng.choice(
        ["1", "-2.5", "1e3", "0.30000000000000004", "7", "0.50", "12"]
    ),
    "percent": lambda rng: f"{rng.randint(0, 99)}%",
    "money": lambda rng: f"${rng.randint(1, 9)},{rng.randint(100, 999)}.50",
    "date": lambda rng: f"2024-0{rng.randint(1, 9)}-1{rng.randint(0, 9)}",
    "european": lambda rng: f"{rng.randint(13, 28)}.0{rng.randint(1, 9)}.2024",
    "town": lambda rng: rng.choice(["Ulm", "Bonn", "Köln", "a,b", 'a "b"', "two\nlines", "Ulm "]),
    "name": lambda rng: f"n{rng.randint(0, 40)}",
    "flag": lambda rng: rng.choice(["true", "false"]),
    "missing": lambda rng: rng.choice(["", "", "NA", "?", "-", "null"]),
    "huge": lambda rng: rng.choice(["inf", "1e300", "-Infinity", "1e200"]),
}
TARGETS = {
    "integer": lambda rng: rng.choice(["0", "1"]),
    "word": lambda rng: rng.choice(["yes", "no", "maybe"]),
    "number": lambda rng: rng.choice(["0.5", "1.25", "-3", "8"]),
    "flag": lambda rng: rng.choice(["true", "false"]),
}
BAD_TARGETS = ["", "NA", "x?", "1.5", "1e400"]


def cells(rng, n_rows):
    """A column: what it holds changes now and then, and some cells are of another kind."""
    out = []
    while len(out) < n_rows:
        kind = rng.choice(list(VALUES))
        strange = rng.choice([0.0, 0.0, 0.1])
        for _ in range(rng.choice([3, 8, 30, 200])):
            now = rng.choice(list(VALUES)) if rng.random() < strange else kind
            out.append(VALUES[now](rng))
    return out[:n_rows]


def table(rng):
    """Names and rows of text; the target is the last column."""
    n_rows = rng.choice([1, 7, 40, 120, 250])
    columns = [cells(rng, n_rows) for _ in range(rng.choice([1, 2, 4]))]
    if rng.random() < 0.3:
        columns.append([""] * (n_rows // 2) + cells(rng, n_rows - n_rows // 2))
    make, bad = TARGETS[rng.choice(list(TARGETS))], rng.choice([0.0, 0.1, 0.5])
    none = rng.choice([0, 0, 0, n_rows // 2])  # so many rows have no target at first
    target = [rng.choice(BAD_TARGETS) if rng.random() < bad else make(rng) for _ in range(n_rows)]
    target[:none] = [rng.choice(["", "-"]) for _ in range(none)]
    names = [*(f"c{i}" for i in range(len(columns))), "y"]
    return names, [list(row) for row in zip(*columns, target, strict=True)]


def as_csv(rng, names, rows):
    """The table as text, with records that are none."""
    end, separator = rng.choice(["\n", "\r\n"]), rng.choice(",,;\t")

    def field(value):
        needs = any(c in value for c in '",;\t\n\r') or rng.random() < 0.05
        return '"' + value.replace('"', '""') + '"' if needs else value

    lines = [separator.join(map(field, row)).encode() for row in rows]
    share = rng.choice([0.0, 0.05, 0.3])
    for _ in range(round(share * len(lines)) + rng.randint(0, 2)):
        bad = [b"1", separator.join("1" * 9).encode(), b"\xff" + lines[0], b"", b'"open']
        lines.insert(rng.randint(0, len(lines)), rng.choice(bad))
    tail = [b"short", b"\xff", b""] if rng.random() < 0.3 else []
    text = end.encode().join([separator.join(names).encode(), *lines, *tail])
    return text + (end.encode() if rng.random() < 0.7 else b"")


def as_json_lines(rng, names, rows):
    """The table with an object a line; numbers are numbers or text, some lines are no object."""

    def value(text):
        if text in ("", "NA") and rng.random() < 0.7:
            return None
        try:
            number = float(text)
        except ValueError:
            return text
        if not np.isfinite(number) or rng.random() < strings:
            return text
        return int(number) if number == int(number) and abs(number) < 1e15 else number

    strings = rng.choice([0.0, 0.0, 0.05])
    lines = []
    nested = rng.random() < 0.2
    for i, row in enumerate(rows):
        item = {name: value(text) for name, text in zip(names, row, strict=True)}
        if rng.random() < 0.1:
            item.pop(rng.choice(names[:-1]))
        if i > 30 and rng.random() < 0.2:
            item[rng.choice(["late", "later"])] = 1
        if nested:
            item["nested"] = {"a": [1, i]} if rng.random() < 0.5 else None
        lines.append(json.dumps(item, ensure_ascii=rng.random() < 0.5).encode())
    share = rng.choice([0.0, 0.05])
    for _ in range(round(share * len(lines)) + rng.randint(0, 2)):
        bad = [b"[1]", b"{", b'{"c0": "\xff"}', b"", b"7"]
        lines.insert(rng.randint(1, len(lines)), rng.choice(bad))
    return b"\n".join(lines) + rng.choice([b"", b"\n", b"\n{\n", b"\n\n"])


def as_frame(rng, names, rows):
    """Columns of floats, integers or text, whatever they are."""
    series = []
    for name, column in zip(names, zip(*rows, strict=True), strict=True):
        text = pl.Series(name, [cell or None for cell in column], dtype=pl.String)
        if name != "y":
            for dtype in (pl.Int64, rng.choice([pl.Float32, pl.Float64])):
                typed = text.cast(dtype, strict=False)
                if typed.null_count() == text.null_count():
                    text = typed
                    break
        series.append(text)
    return pl.DataFrame(series)


def packed(data, packing):
    if packing == "zip":
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("table", data)
        return file.getvalue()
    pack = {
        "": bytes,
        "gz": gzip.compress,
        "bz2": bz2.compress,
        "xz": lzma.compress,
        "zst": zstandard.ZstdCompressor().compress,
    }
    return pack[packing](data)


PACKINGS = ["", "", "gz", "zst", "zip", "bz2", "xz"]
FORMATS = ["csv", "ndjson", "parquet", "arrow"]
FORMS = [*FORMATS, "several", "wide", "svmlight"]


def write(rng, folder, name, form, names, rows):
    """A table in a file of some kind; also what has to be said when it is read."""
    path = folder / name
    if form == "parquet":
        as_frame(rng, names, rows).write_parquet(path, row_group_size=rng.choice([7, 1000]))
        return path, {}
    if form == "arrow":
        as_frame(rng, names, rows).write_ipc(path)
        return path, {}
    if form == "ndjson":
        data = as_json_lines(rng, names, rows)
        path = folder / f"{name}.ndjson"
    else:
        data = as_csv(rng, names, rows)
    options = {}
    if form == "csv" and rng.random() < 0.15:
        encoding = rng.choice(["utf-16", "latin-1"])
        data = data.decode("utf-8", "replace").encode(encoding, "replace")
        options = {} if encoding == "utf-16" else {"encoding": encoding}
    data = packed(data, rng.choice(PACKINGS))
    if rng.random() < 0.05:
        data = data[: len(data) * 2 // 3]
    path.write_bytes(data)
    return path, options


def as_svmlight(rng):
    """Sparse rows, and lines that are none."""
    whole, lines = rng.random() < 0.5, []
    for _ in range(rng.choice([1, 7, 40, 250])):
        indices = sorted(rng.sample(range(1, 30), rng.randint(0, 5)))
        label = rng.choice("01") if whole else rng.choice(["0.5", "1", "-2e3"])
        pairs = " ".join(f"{i}:{rng.choice(['1', '0.25', '-3e-2'])}" for i in indices)
        lines.append(f"{label} {pairs}{rng.choice(['', '', ' # why'])}".encode())
    lines.insert(0, b"1 30:1")
    bad = [b"x 1:2", b"1 2:inf", b"1 3:1 2:1", b"", b"# nothing", b"1 2:", b"1 \xff:1"]
    for _ in range(rng.choice([0, 2, 20])):
        lines.insert(rng.randint(0, len(lines)), rng.choice(bad))
    tail = [b"1 1:", b"nan 1:1"] if rng.random() < 0.3 else []
    return rng.choice([b"\n", b"\r\n"]).join([*lines, *tail]) + rng.choice([b"", b"\n"])


def check_sparse(seed, folder):
    """One random table of sparse rows."""
    rng = random.Random(seed)
    path = folder / "x.svm"
    path.write_bytes(packed(as_svmlight(rng), rng.choice(PACKINGS)))
    sizes = [rng.choice([64, 200, 1000, 100_000]) for _ in range(2)]

    def make(after=None):
        return from_file(path, after=after, block_size=sizes[after is not None])

    return check(make, rng.choice([7, 30, 100]), [rng.randrange(10**6) for _ in range(3)])


def check_random(seed, folder, form):
    """One random table, left at random places. The seed is the number of the case."""
    if form == "svmlight":
        return check_sparse(seed, folder)
    if form == "wide":
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fires.streams.text.WIDE", 1)
            return check_random(seed, folder, "csv")
    rng = random.Random(seed)
    names, rows = table(rng)
    if form == "several":
        cuts = sorted(rng.randint(0, len(rows)) for _ in range(2))
        parts = [rows[: cuts[0]], rows[cuts[0] : cuts[1]], rows[cuts[1] :]]
        made = [
            write(rng, folder, f"{i}", rng.choice(FORMATS), names, part)
            for i, part in enumerate(parts)
            if part
        ]
        path, options = [path for path, _ in made], {}
    else:
        path, options = write(rng, folder, "table", form, names, rows)
    options |= {"holds": rng.choice(["auto", "classes"]), "dates": "day-first"}
    options |= rng.choice(
        [{}, {}, {"categories": "codes"}, {"max_categories": 5}, {"na_values": ["7"]}]
    )
    options |= rng.choice([{}, {}, {"numeric": ["c0"]}, {"categorical": ["c0"]}])
    sizes = [rng.choice([64, 200, 1000, 100_000]) for _ in range(2)]

    def make(after=None):
        size = sizes[after is not None]
        return from_file(path, "y", after=after, block_size=size, **options)

    try:
        list(make().batches(1000))
    except InputError:
        try:
            next(make().batches(1))
        except (InputError, StopIteration):
            return None  # a table that cannot be read at all
    size = max(rng.choice([1, 2, 7, 30, 100]), len(rows) // 12)
    return check(make, size, [rng.randrange(10**6) for _ in range(3)])


@pytest.mark.parametrize("seed", range(N_CASES, N_CASES + 2))
@pytest.mark.parametrize("form", FORMS)
def test_a_stream_that_was_left_goes_on_as_if_it_had_not_been(tmp_path, seed, form):
    check_random(seed, tmp_path, form)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(N_CHUNKS))
@pytest.mark.parametrize("form", FORMS)
def test_and_so_do_many(tmp_path, form, chunk):
    for seed in range(chunk, N_CASES, N_CHUNKS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            check_random(seed, folder, form)
        except Exception as error:
            error.add_note(f"check_random({seed}, folder, {form!r})")
            raise


# What the random tables have found


def batches_of(path, lines, **options):
    path.write_text("\n".join(lines))
    found = []
    for block_size in (20, 100, 100_000):
        stream = from_file(path, "y", block_size=block_size, **options)
        found.append((list(stream.batches(10)), stream))
        assert_same(found[-1][0], found[0][0])
        assert known(stream) == known(found[0][1])
    return found[0][0]


def test_a_dash_before_the_first_value_of_a_column_is_no_category(tmp_path):
    lines = ["late,x,y", *[",1,0"] * 30, "-,1,1", ",1,0", "Ulm,1,1", "-,1,0", *["Bonn,1,1"] * 9]
    batches = batches_of(tmp_path / "x.csv", lines, categories="codes")
    late = np.concatenate([batch.X[:, 0] for batch in batches])
    np.testing.assert_array_equal(late[30:35], [np.nan, np.nan, 0, 1, 2])
    lines = ["x,y", *["1,"] * 30, "1,-", "2,yes", "3,-", "4,no"]
    assert np.concatenate([b.y for b in batches_of(tmp_path / "y.csv", lines)]).tolist() == [
        *("yes", "-", "no")
    ]


def test_numbers_that_are_all_too_large_to_use_change_nothing(tmp_path):
    lines = ["x,y", *["0.5,0"] * 30, *["inf,1"] * 20, *["0.5,1"] * 10]
    batches = batches_of(tmp_path / "x.csv", lines)
    assert len(batches) == 6
    assert np.isnan(np.concatenate([batch.X for batch in batches])).sum() == 20


def test_a_column_that_starts_to_hold_categories_late_is_learnt_from_there_on(tmp_path):
    rows = [",0", ",1"] * 30 + ["Ulm,1", "Bonn,0"] * 15
    for labels in (("0", "1"), ("0", "1", "2")):
        more = [f",{label}" for label in labels]
        batches_of(tmp_path / "x.csv", ["late,y", *more, *rows])


def test_states_of_an_earlier_version_can_be_read():
    frame = pl.DataFrame({"a": ["1", "2", "x"], "t": ["Ulm", "Bonn", "Ulm"]})
    columns = Columns.learn(frame, y=np.array([0, 1, 1])).encode(frame)[1]
    saved = json.loads(json.dumps(columns.as_json()))
    assert Columns.from_json(saved).describe() == columns.describe()
    for name in ("facts", "examples"):
        del saved[name]
    old = Columns.from_json(saved)
    assert [row["example"] for row in old.describe()] == [None, None]
    assert old.tallies.unreadable.tolist() == columns.tallies.unreadable.tolist()


# Which files


def left(path, n_batches=1, **options):
    """The bookmark of a stream after some batches of two rows."""
    stream = from_file(path, "y", **options)
    assert len(list(islice(stream.batches(2), n_batches))) == n_batches
    return json.loads(json.dumps(stream.bookmark()))


def rows_after(path, bookmark):
    return sum(batch.n_rows for batch in from_file(path, after=bookmark).batches(2))


TEXT = "a,y\n" + "".join(f"{i},{i % 2}\n" for i in range(10))


def test_a_file_that_has_grown_is_read_on(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(TEXT)
    bookmark, end = left(path), left(path, 5)
    path.write_text(TEXT + "7,1\n")
    assert (rows_after(path, bookmark), rows_after(path, end)) == (9, 1)
    path.write_text(TEXT[:-1])  # without the last line end
    end = left(path, 5)
    path.write_text(TEXT + "7,1\n")
    assert rows_after(path, end) == 1
    path.write_text(TEXT[:-1] + "5\n7,1\n")
    with pytest.raises(InputError, match=r"last line of .*x.csv was continued after it was read"):
        rows_after(path, end)


@pytest.mark.parametrize("packing", ["", "gz"])
def test_a_file_that_is_another_one_now_is_refused(tmp_path, packing):
    path, other = tmp_path / "x.csv", tmp_path / "y.csv"
    path.write_bytes(packed(TEXT.encode(), packing))
    bookmark = left(path)
    for text, words in [
        (TEXT.replace("0,0", "0,1"), "x.csv has been changed since it was read before"),
        (TEXT[:-9], "x.csv is shorter than it was when it was read before"),
    ]:
        path.write_bytes(packed(text.encode(), packing))
        with pytest.raises(InputError, match=words) as caught:
            rows_after(path, bookmark)
        assert "\n" not in str(caught.value)
    other.write_bytes(packed(TEXT.encode(), packing))
    with pytest.raises(InputError, match=r"y.csv replaces .*x.csv"):
        rows_after(other, bookmark)
    path.unlink()
    with pytest.raises(InputError, match=r"cannot read .*x.csv: No such file"):
        rows_after(path, bookmark)


def test_a_text_that_was_changed_before_the_place_where_it_was_left_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    rows = [f"{i},{i % 2}\n" for i in range(20_000)]
    path.write_text("a,y\n" + "".join(rows))
    bookmark = left(path, 9500)
    added = [*rows[:18_995], "12345678,1\n", *rows[18_995:]]
    within = {"start": bookmark["position"], "n_used": 0}
    for text, start in ((added, {}), (added, within), ([*rows[:11_000], "1,1\n" * 40_000], {})):
        path.write_text("a,y\n" + "".join(text))
        with pytest.raises(InputError, match=r"x.csv has been changed since it was read"):
            rows_after(path, bookmark | start)
    gz = tmp_path / "x.csv.gz"
    gz.write_bytes(gzip.compress("".join(["a,y\n", *rows]).encode()))
    bookmark = left(gz, 9500)
    n_used, start = bookmark["n_used"], bookmark["start"]["rows"]
    assert n_used
    assert start == 0
    with pytest.raises(InputError, match=r"x.csv.gz has been changed since it was read"):
        rows_after(gz, bookmark | {"n_used": n_used - 1})
    with pytest.raises(InputError, match=r"x.csv.gz has been changed since it was read"):
        rows_after(gz, bookmark | {"n_used": 10**6})


N_LONG = 30_000


def long_file(path, changed=()):
    """A file whose rows have the same length, whatever is changed."""
    rows = [f"{i:08d},{i % 2}" for i in range(N_LONG)]
    for i in () if path.suffix == ".parquet" else changed:
        rows[i] = f"{i + 50_000_000:08d},{i % 2}"
    if path.suffix == ".parquet":
        a, y = zip(*(map(int, row.split(",")) for row in rows), strict=True)
        pl.DataFrame({"a": a, "y": y}).write_parquet(path, row_group_size=999)
        data = bytearray(path.read_bytes())
        data[len(data) * 9 // 10] ^= len(changed)
        path.write_bytes(data)
        return path
    if path.suffix == ".ndjson":
        rows = [f'{{"a": "{row[:8]}", "y": {row[-1]}}}' for row in rows]
    elif path.suffix == ".svm":
        rows = [f"{row[-1]} 1:1{row[:8]} 2:1" for row in rows]
    else:
        rows.insert(0, "a,y")
    data = "\n".join([*rows, ""]).encode()
    path.write_bytes(gzip.compress(data, 0, mtime=0) if path.suffix == ".gz" else data)
    return path


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "x.ndjson", "x.svm", "x.parquet"])
def test_a_change_far_behind_the_first_bytes_of_what_was_read_is_refused(tmp_path, name):
    path = long_file(tmp_path / name)
    stream = from_file(path, "y")
    batches = stream.batches(1_000)
    marks = [stream.bookmark()] if name != "x.svm" else []
    marks += [json.loads(json.dumps(stream.bookmark())) for _ in islice(batches, 25)]
    assert sum(b.n_rows for b in from_file(path, after=marks[-1]).batches(1_000)) == 5_000
    long_file(path, [15_000])
    with pytest.raises(InputError) as caught:
        from_file(path, after=marks[-1])
    n = marks[-1]["files"][0]["read"]
    assert str(caught.value) == (
        f"{path} has been changed since it was read before, in its first {n:,} bytes"
    )
    if name == "x.parquet":  # of which a row lies in many places
        return
    # What comes behind is read as it is now; and a bookmark of an earlier version has no checksum.
    assert sum(b.n_rows for b in from_file(path, after=marks[10]).batches(1_000)) >= 19_000
    for file in marks[-1]["files"]:
        del file["crc"]
    assert sum(b.n_rows for b in from_file(path, after=marks[-1]).batches(1_000)) == 5_000


def test_a_change_in_a_file_that_was_read_whole_is_refused(tmp_path):
    paths = [long_file(tmp_path / "1.csv"), long_file(tmp_path / "2.csv")]
    stream = from_file(paths, "y")
    list(islice(stream.batches(1_000), 35))
    bookmark = stream.bookmark()
    size = paths[0].stat().st_size
    assert [file["read"] for file in bookmark["files"]] == [size, 4 + 11 * 5_000]
    long_file(paths[1], [20_000])
    assert sum(b.n_rows for b in from_file(paths, after=bookmark).batches(1_000)) == 25_000
    long_file(paths[0], [29_999])
    with pytest.raises(InputError, match=rf"1.csv has been changed .* in its first {size:,} bytes"):
        from_file(paths, after=bookmark)


def test_a_file_that_goes_away_does_not_end_its_stream(tmp_path):
    path = long_file(tmp_path / "x.csv")
    stream = from_file(path, "y")
    batches = stream.batches(1_000)
    next(batches)
    path.unlink()
    assert stream.bookmark()["files"][0]["read"] == 0


def test_a_parquet_file_of_another_size_is_another_file(tmp_path):
    path = tmp_path / "x.parquet"
    frame = pl.DataFrame({"a": range(10), "y": [0, 1] * 5})
    frame.write_parquet(path)
    bookmark = left(path)
    assert rows_after(path, bookmark) == 8
    pl.concat([frame, frame]).write_parquet(path)
    with pytest.raises(InputError, match=r"x.parquet is (not the file that|shorter)"):
        rows_after(path, bookmark)


def test_several_files_are_the_same_up_to_the_one_that_is_read(tmp_path):
    paths = [tmp_path / f"{i}.csv" for i in range(4)]
    for path in paths:
        path.write_text(TEXT)
    bookmark = left(paths[:2], 6)
    assert bookmark["position"]["file"] == 1
    assert rows_after(paths[:2], bookmark) == 8
    assert rows_after(paths, bookmark) == 28
    with pytest.raises(InputError, match=r"2.csv replaces .*1.csv"):
        rows_after([paths[0], paths[2], paths[1]], bookmark)
    with pytest.raises(InputError, match=r"1.csv, which was read before, is not among the files"):
        rows_after(paths[:1], bookmark)
    paths[1].write_text(TEXT + "7,1\n")
    assert rows_after(paths[:2], bookmark) == 9
    paths[0].write_text(TEXT + "7,1\n")
    with pytest.raises(InputError, match=r"0.csv has grown since it was read to its end"):
        rows_after(paths[:2], bookmark)


def test_what_can_be_read_only_once_is_not_taken_up_again(tmp_path, monkeypatch):
    stream = from_file(io.BytesIO(TEXT.encode()), "y")
    next(stream.batches(2))
    bookmark = json.loads(json.dumps(stream.bookmark()))
    assert bookmark["position"]["rows"] == 2
    words = "standard input or a pipe cannot be read again from the middle; save it to a file"
    with pytest.raises(InputError, match=words):
        stream.after(bookmark)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    with pytest.raises(InputError, match=words):
        from_file("-", after=bookmark)
    path = tmp_path / "x.csv"
    path.write_text(TEXT)
    with pytest.raises(InputError, match=words):
        from_file(path, after=bookmark)


def test_a_bookmark_that_is_damaged_is_said_to_be(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text(TEXT)
    bookmark = left(path)
    for key in bookmark:
        damaged = {name: value for name, value in bookmark.items() if name != key}
        with pytest.raises((StateError, InputError)) as caught:
            from_file(path, after=damaged)
        assert "\n" not in str(caught.value)


def test_faults_that_a_caller_cannot_bear_are_not_told_of_again(tmp_path):
    """As with a limit for rows that cannot be used, after which the run is saved."""
    path = tmp_path / "x.csv"
    path.write_text("a,y\n" + "1,0\n2,1\n" * 10 + "3\n4\n5\n" + "6,0\n" * 5)
    stream = from_file(path, "y")
    told = []

    def stop(faults):
        told.extend(faults)
        raise InputError("too many")

    stream.on_fault = stop
    with pytest.raises(InputError, match="too many"):
        list(stream.batches(8))
    bookmark = json.loads(json.dumps(stream.bookmark()))
    assert (bookmark["position"]["rows"], bookmark["rejected"][0], len(told)) == (16, 3, 3)
    later = from_file(path, after=bookmark)
    batches, more, _ = read(later, 8)
    assert (sum(batch.n_rows for batch in batches), more, later.rejected.count) == (9, [], 3)


def test_a_label_in_new_lines_of_a_sparse_file_must_be_as_the_others_are(tmp_path):
    path = tmp_path / "x.svm"
    path.write_text("1 1:2\n0 2:1\n1 1:1\n")
    stream = from_file(path)
    assert next(stream.batches(3)).y.dtype == np.int64
    bookmark = stream.bookmark()
    path.write_text(path.read_text() + "0.5 1:1\n1 2:1\n1 3:1\n")
    later = from_file(path, after=bookmark)
    (batch,) = later.batches(3)
    assert batch.y.tolist() == [1]
    assert [line for line, _ in later.rejected.examples] == [4, 6]
