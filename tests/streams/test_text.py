"""Records are found where the csv module finds them, however the text is cut."""

import csv
import io

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fires.streams import text as texts
from fires.streams.base import InputError, Position
from fires.streams.files import open_table
from fires.streams.table import Fault
from fires.streams.text import UNCLOSED, Records, TextOptions

BIG = 1 << 20
HEADER = "one,two,three"


def read(text, block_size):
    """All records of a text below a header, as text, and all faults."""
    data = f"{HEADER}\n{text}".encode("utf-8", "surrogateescape")
    table = open_table(io.BytesIO(data), TextOptions(delimiter=",", block_size=block_size))
    chunks = list(table.chunks(dict.fromkeys(table.column_names, "category"), Position()))
    rows = [list(row) for chunk in chunks for row in chunk.frame.fill_null("").iter_rows()]
    return rows, [fault for chunk in chunks for fault in chunk.faults]


def written(rows, quoted, newline, last_newline):
    """The rows as a text with quotes where they must be and where ``quoted`` wants them."""
    choice = iter(quoted)
    lines = [
        ",".join(
            '"' + field.replace('"', '""') + '"'
            if set(field) & set(',"\r\n') or next(choice, False)
            else field
            for field in row
        )
        for row in rows
    ]
    return newline.join(lines) + (newline if last_newline else "")


FIELDS = st.text(st.sampled_from('ab1 ,"\n\ré€'), max_size=5)


@settings(deadline=None)
@given(
    rows=st.lists(st.lists(FIELDS, min_size=3, max_size=3), min_size=1, max_size=12),
    quoted=st.lists(st.booleans(), max_size=36),
    newline=st.sampled_from(["\n", "\r\n"]),
    last_newline=st.booleans(),
    block_size=st.integers(1, 60),
)
@example([['"', "\r\n", ""]], [], "\r\n", False, 1)
def test_a_well_formed_text_is_read_as_the_csv_module_reads_it(
    rows, quoted, newline, last_newline, block_size
):
    text = written(rows, quoted, newline, last_newline)
    assert list(csv.reader(io.StringIO(text, newline=""))) == rows
    assert read(text, block_size) == (rows, [])


@settings(deadline=None)
@given(
    text=st.text(st.sampled_from('ab,,,"\n\n\r\udcf6'), max_size=60),  # The last is not UTF-8.
    block_size=st.integers(1, 40),
)
@example('"\n",a,b\nc', 3)
@example('\n,,"""', 1)
@example('a,"b,c\na,b,c\n', 2)
def test_any_text_is_read_the_same_whatever_the_size_of_the_blocks(text, block_size):
    assert read(text, block_size) == read(text, BIG)


@settings(deadline=None)
@given(
    lines=st.lists(st.text(st.sampled_from('ab,,,"'), max_size=8), max_size=12),
    block_size=st.integers(1, 40),
)
def test_a_fault_costs_no_line_but_its_own(lines, block_size):
    """Good lines without quotes come through, unless a quoted field swallows them."""
    text = "\n".join(lines) + "\n"
    rows, _ = read(text, block_size)
    in_records = [field.split("\n") for row in rows for field in row if "\n" in field]
    swallowed = {line for pieces in in_records for line in pieces}
    for line in lines:
        if line.count(",") == 2 and '"' not in line and line not in swallowed:
            assert line.split(",") in rows


@settings(deadline=None)
@given(text=st.text(st.sampled_from('ab,"\n\r'), max_size=60), block_size=st.integers(1, 30))
def test_blocks_are_the_text_and_know_their_places(text, block_size):
    data = text.encode()
    records = Records(",", 2, size=block_size)
    parts = list(records.blocks(io.BytesIO(data).read, offset=7, line=3))
    assert b"".join(block.data for block in parts) == data
    offset = 7
    for block in parts:
        starts = np.concatenate([[offset], block.ends]) - 7
        assert [3 + data[:start].count(b"\n") + 1 for start in starts[:-1]] == list(
            block.lines[:-1]
        )
        offset = int(block.ends[-1])
    assert offset == 7 + len(data)


def test_a_quoted_field_may_span_many_blocks():
    field = "x,\n" * 1000
    rows, faults = read(f'1,"{field}",2\n3,4,5\n', 64)
    assert rows == [["1", field, "2"], ["3", "4", "5"]]
    assert faults == []


def test_a_quote_that_is_never_closed_costs_one_line(monkeypatch):
    monkeypatch.setattr(texts, "MAX_RECORD", 1000)
    good = [f"{i},a,b" for i in range(1000)]
    lines = [*good[:500], '7,"oops,9', *good[500:]]
    for block_size in (10, 5000, BIG):
        rows, faults = read("\n".join(lines), block_size)
        assert rows == [line.split(",") for line in good]
        assert faults == [Fault(502, UNCLOSED, '7,"oops,9')]


def test_a_quote_closed_by_that_of_a_later_line_costs_one_line():
    text = '1,"oops,2\n3,4,5\n6,7,8\n9,"x",10\n11,12,13\n'
    rows, faults = read(text, BIG)
    assert rows == [["3", "4", "5"], ["6", "7", "8"], ["9", "x", "10"], ["11", "12", "13"]]
    assert faults == [Fault(2, UNCLOSED, '1,"oops,2')]


def test_a_quote_within_a_field_is_a_character():
    rows, faults = read('1,5" pipe,2\n3,4" pipe,5\n', BIG)
    assert rows == [["1", '5" pipe', "2"], ["3", '4" pipe', "5"]]
    assert faults == []


def test_a_file_without_lines_is_refused_before_it_fills_the_memory(monkeypatch):
    monkeypatch.setattr(texts, "MAX_LINE", 5000)
    with pytest.raises(InputError, match="the stream: line 2 is longer than"):
        read("x" * 100_000, 100)


def test_walking_leaves_the_csv_module_as_it_was():
    limit = csv.field_size_limit()
    rows = Records(",", 2).walk(b"a," + b"x" * 200_000 + b"\n")
    assert len(rows[0][1][1]) == 200_000
    assert csv.field_size_limit() == limit
