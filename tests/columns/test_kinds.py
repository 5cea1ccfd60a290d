"""The kind of a column is that of nearly all its values."""

import polars as pl
import pytest

from fires.columns.kinds import find_kinds
from fires.core.errors import InputError


def kind(values, **options):
    sample = pl.DataFrame({"x": values, "y": ["0"] * len(values)})
    return find_kinds(sample, "y", **options)[0].kind


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2", "3", "x"], "number"),
        (["1", "x"], "category"),
        (["x"], "category"),
        (["1"] * 80 + ["x"] * 20, "number"),
        (["1"] * 79 + ["x"] * 21, "category"),
        ([" 1 ", "\t2"], "number"),
        (["24-01-02", "24-01-03"], "category"),
        (["2024-01-02", "2024-01-03T10:00:00"], "date"),
        ([None, "", "?"], "number"),
        ([True, None], "flag"),
        ([1, None], "number"),
    ],
)
def test_four_in_five_values_or_all_but_one_decide(values, expected):
    assert kind(values) == expected


def test_few_labels_are_numbers_only_if_all_are():
    def target_kind(values):
        sample = pl.DataFrame({"x": values, "y": values})
        return find_kinds(sample, "y")[-1].kind

    assert target_kind(["0", "1"] * 50 + ["unknown"]) == "category"
    assert target_kind([str(i) for i in range(100)] + ["unknown"]) == "integer"
    assert target_kind([str(i / 2) for i in range(100)] + ["unknown"]) == "number"
    assert target_kind([0.0, 1.0]) == "number"
    assert target_kind([0, 1]) == "integer"


def test_all_columns_to_leave_out_are_named_at_once():
    text = "more than fifty characters, which is a lot for a category"
    sample = pl.DataFrame({"a b": [text], "c": [text], "d": ["1"], "y": ["1"]})
    with pytest.raises(InputError, match=r"57 characters on average.*--exclude 'a b,c'"):
        find_kinds(sample, "y")
