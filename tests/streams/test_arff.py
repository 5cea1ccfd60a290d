"""ARFF files give the batches of the same rows in CSV, and say what is wrong."""

import gzip
import io
import json

import numpy as np
import pytest

from fires.checks import check_stream
from fires.core.errors import InputError
from fires.streams.base import Position
from fires.streams.files import from_file, open_followed, open_table
from fires.streams.text import ArffTable

HEADER = """% A comment, with 'quotes" and @data in it
@RELATION 'my table'

@attribute size real
@ATTRIBUTE "the code" {3, 1, 2}
@attribute 'it\\'s town' {Ulm, 'Bad Ems', "B\\"x"}
@attribute\tdays NUMERIC
@attribute seen date "yyyy-MM-dd"
@attribute label {no,yes}
% the rows
@DATA
"""
TOWNS = ["Ulm", "'Bad Ems'", '"B\\"x"']
N_ROWS = 250


def cells(i):
    size = "?" if i % 9 == 0 else str(i / 8)
    return [size, str(i % 3 + 1), TOWNS[i % 3], str(i % 5), f"2024-01-{i % 28 + 1:02d}"]


def dense(n=N_ROWS):
    return "".join(",".join([*cells(i), ["no", "yes"][i % 2]]) + "\n" for i in range(n))


def as_csv(n=N_ROWS):
    """The same in CSV, where the codes have to be said to be categories."""
    rows = []
    for i in range(n):
        size, code, town, days, seen = cells(i)
        town = ["Ulm", "Bad Ems", '"B""x"'][i % 3]
        rows.append(f"{size},{code},{town},{days},{seen},{['no', 'yes'][i % 2]}\n")
    return "size,the code,it's town,days,seen,label\n" + "".join(rows)


def read(stream, size=20):
    return [(batch.X, batch.y, batch.position) for batch in stream.batches(size)]


def assert_same_rows(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one[0], other[0])
        assert one[1].tolist() == other[1].tolist()


@pytest.mark.parametrize("block_size", [200, 8 << 20])
def test_rows_are_those_of_the_same_table_in_csv(block_size):
    data = (HEADER + dense()).encode()
    found = from_file(io.BytesIO(data), "label", block_size=block_size)
    expected = from_file(io.BytesIO(as_csv().encode()), "label", categorical=["the code"])
    assert found.schema == expected.schema
    kinds = [column["kind"] for column in found.describe()]
    assert kinds == ["number", "category", "category", "number", "date"]
    assert_same_rows(read(found), read(expected))


@pytest.mark.parametrize("name", ["x.arff", "x.txt", "x.arff.gz"])
def test_reading_goes_on_behind_any_batch(tmp_path, name):
    data = (HEADER + "1,2\n" + dense()).encode()
    path = tmp_path / name
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    if name == "x.arff.gz":
        check_stream(from_file(path, "label", categories="codes"))
    stream = from_file(path, "label", block_size=3000)
    batches, bookmarks = [], [stream.bookmark()]
    for batch in stream.batches(30):
        batches.append((batch.X, batch.y, batch.position))
        bookmarks.append(json.loads(json.dumps(stream.bookmark())))
    assert sum(len(y) for _, y, _ in batches) == N_ROWS
    assert stream.rejected.count == 1
    for n_read, bookmark in [*enumerate(bookmarks)][::3]:
        later = from_file(path, "label", block_size=3000, after=bookmark)
        rest = read(later, 30)
        assert [place for *_, place in rest] == [place for *_, place in batches[n_read:]]
        for one, other in zip(rest, batches[n_read:], strict=True):
            assert one[0].tobytes() == other[0].tobytes()
            assert one[1].tolist() == other[1].tolist()


def chunked(data, n_rows=None):
    table = open_table(io.BytesIO(data.encode()))
    assert isinstance(table, ArffTable)
    kinds = dict.fromkeys(table.column_names, "category")
    chunks = list(table.chunks(kinds, Position(), n_rows=n_rows))
    rows = [row for chunk in chunks for row in chunk.frame.rows()]
    faults = [fault for chunk in chunks for fault in chunk.faults]
    lines = [line for chunk in chunks for line in chunk.lines.tolist()]
    return rows, lines, faults


SMALL = "@relation r\n@attribute x numeric\n@attribute c {a,'b c'}\n@attribute s string\n@data\n"


def test_quotes_escapes_blanks_and_comments_between_rows():
    rows, lines, faults = chunked(
        SMALL + "1, a , 'it\\'s'\n\n% no row\n?,\"b c\",?\n2,'b c',\"say \\\"x\\\"\"\n3,a,o'clock\n"
    )
    assert rows == [
        ("1", " a ", "it's"),
        ("?", "b c", "?"),
        ("2", "b c", 'say "x"'),
        ("3", "a", "o'clock"),
    ]
    assert lines == [6, 9, 10, 11]
    assert faults == []


def test_what_is_no_row_is_told_with_its_line():
    bad = [
        ("1,a", "2 fields, the header has 3"),
        ("1,a,x,{2}", "4 fields, the header has 3"),
        ("1,'a,x", "a quote is opened and not closed"),
    ]
    rows, lines, faults = chunked(SMALL + "".join(f"{line}\n5,a,x\n" for line, _ in bad))
    assert rows == [("5", "a", "x")] * len(bad)
    assert [fault.reason for fault in faults] == [reason for _, reason in bad]
    assert [fault.line for fault in faults] == [line - 1 for line in lines]


def test_a_row_that_is_none_is_shown_as_it_stands_in_the_file():
    header = "@relation r\n@attribute x real\n@attribute y {a,'b c'}\n@data\n"
    text = f"{header}1,'b c'\n2,'b c',3\n1,a\n"
    stream, faults = from_file(io.BytesIO(text.encode()), "y"), []
    stream.on_fault = faults.extend
    assert sum(len(batch.y) for batch in stream.batches(10)) == 2
    assert [(fault.line, fault.raw) for fault in faults] == [(6, "2,'b c',3")]


def test_sparse_rows_are_refused_in_one_line():
    with pytest.raises(InputError, match="has sparse rows; write it as svmlight"):
        from_file(io.BytesIO((SMALL + "{0 2.5,1 a}\n").encode()), "c")


def test_numbers_are_numbers_and_nominal_values_are_not(tmp_path):
    header = "@relation r\n@attribute a {0,1}\n@attribute b integer\n@attribute y {1,2}\n@data\n"
    data = header + "".join(f"{i % 2},{i % 2},{i % 2 + 1}\n" for i in range(40))
    stream = from_file(io.BytesIO(data.encode()), "y")
    kinds = {column["name"]: column["kind"] for column in stream.describe()}
    assert kinds == {"a": "category", "b": "number"}
    assert next(stream.batches(2)).y.tolist() == ["1", "2"]


def test_very_many_columns():
    width = 6000
    names = "".join(f"@attribute x{i} numeric\n" for i in range(width))
    header = f"@relation wide\n{names}@attribute y {{no,yes}}\n@data\n"
    rng = np.random.default_rng(0)
    X = np.where(rng.random((150, width)) < 0.01, rng.integers(1, 9, (150, width)), 0)
    labels = [["no", "yes"][i % 2] for i in range(150)]
    lines = [",".join([*map(str, row), y]) + "\n" for row, y in zip(X, labels, strict=True)]
    stream = from_file(io.BytesIO((header + "".join(lines)).encode()), "y")
    batches = read(stream, 40)
    np.testing.assert_array_equal(np.concatenate([X for X, *_ in batches]), X)
    assert np.concatenate([y for _, y, _ in batches]).tolist() == labels


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@relation r\n@attribute x numeric\n1\n", "has no line @data: not an ARFF file"),
        ("@relation r\n@data\n1\n", "has no @attribute before @data"),
        (
            "@relation r\n@attribute x\n@data\n1\n",
            "line 2 is not an attribute of a known type: @attribute x",
        ),
        (
            "@relation r\n@attribute x relational\n@data\n",
            "line 2 is not an attribute of a known type: @attribute x relational",
        ),
        ("@relation r\n@attribute x {a,'b'\n@data\n", "line 2 is not an attribute of a known type"),
        ("@relation r\n@attribute\n@data\n", "line 2 is not an attribute"),
        ("@relation r\n@attribute x real\n@attribute y real\n@data\n", "has a header but no rows"),
    ],
)
def test_what_is_wrong_with_a_header_is_said_in_one_line(tmp_path, text, words):
    path = tmp_path / "x.arff"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        from_file(path, "y")
    assert words in str(error.value)
    assert "\n" not in str(error.value)


def test_arff_cannot_be_followed(tmp_path):
    path = tmp_path / "x.arff"
    path.write_text(HEADER + dense())
    with pytest.raises(InputError, match="is ARFF; only plain text in UTF-8 can be followed"):
        open_followed(path)


def test_columns_of_one_name_get_numbers():
    data = "@relation r\n@attribute x real\n@attribute x real\n@attribute y {a,b}\n@data\n1,2,a\n"
    table = open_table(io.BytesIO(data.encode()))
    assert table.column_names == ("x", "x_2", "y")
    assert table.notes == ['there is more than one column "x": another is called "x_2" here']
