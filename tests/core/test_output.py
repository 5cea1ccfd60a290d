"""Text from outside never becomes a formula in a CSV of ours, and comes back as it was."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fires.core.errors import InputError
from fires.core.output import csv_rows, csv_text, frame_as_text, frame_as_written

FORMULAS = [
    "=cmd|'/c calc'!A1",
    "+1+1|x",
    "-2+3+cmd|' /C calc'!A0",
    "@SUM(A1)",
    "+x",
    "-1|a",
    "-1(",
    "\t=1+x",
    "\r=x",
]
PLAIN = [
    "-$1,234.50",
    "-EUR 5",
    "- 5 kg",
    "+49 170 1",
    "age",
    "-5",
    "+1.5e-3",
    "-1,5",
    "-12 %",
    "-inf",
    "NaN",
    "-",
    "",
    "a=b",
    "'quoted'",
    "5",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_written_as_text(text):
    line = csv_text([text], [[text, -1.5, None]])
    assert "'" + text in line.replace('""', '"')
    assert "-1.5" in line
    frame = frame_as_text(pl.DataFrame({text: [text]}))
    assert (frame.columns, frame[0, 0]) == (["'" + text], "'" + text)


@pytest.mark.parametrize("text", PLAIN)
def test_numbers_and_other_text_stay_as_they_are(text):
    assert frame_as_text(pl.DataFrame({"x": [text]}))[0, 0] == text
    assert csv_text(["x"], [[text, -3]]).endswith(f"{text},-3\n") or "," in text


def test_categories_are_text_too():
    frame = pl.DataFrame({"x": pl.Series(["=a"], dtype=pl.Categorical)})
    frame = frame.with_columns(y=pl.col("x").cast(pl.Enum(["=a"])))
    assert frame_as_text(frame).rows() == [("'=a", "'=a")]


cells = st.text(st.sampled_from("'=+-@\t5.ea,\""), max_size=6)


@given(st.lists(cells, min_size=1, max_size=5))
def test_what_is_read_is_what_was_written(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_text(csv_text(["name", "n"], [[text, 1] for text in texts]), newline="")
    assert [row["name"] for row in csv_rows(path)] == texts
    frame = pl.DataFrame({"name": texts})
    assert frame_as_written(frame_as_text(frame))["name"].to_list() == texts


def test_a_file_that_is_no_csv_is_one_line(tmp_path):
    path = tmp_path / "x.csv"
    for content in (b"name,n\n\xff,1\n", b"name,n\na\n", b"name,n\n" + b"x" * 200_000 + b",1\n"):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"x\.csv is damaged: "):
            list(csv_rows(path))


def test_a_long_cell_takes_no_longer_than_it_is_long():
    for text in ("-" + " " * 200_000 + "x|", "-" + "1" * 200_000 + "|", "'" * 200_000 + "=x"):
        assert csv_text([], [[text]])
