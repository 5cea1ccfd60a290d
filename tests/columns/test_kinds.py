"""The kind of a column is that of nearly all its values; others tell what it leaves open."""

import numpy as np
import polars as pl
import pytest

from fires.columns.kinds import find_column, find_columns, read_cells
from fires.columns.schema import Column, DateForm, Hints, NumberForm, short
from fires.columns.target import Target
from fires.core.errors import InputError, Question


def kind(values, **hints):
    return find_column(pl.Series("x", values), Hints(**hints)).kind


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["1", "2", "3", "x"], "number"),
        (["1", "x"], "category"),
        (["x"], "category"),
        (["1"] * 80 + ["x"] * 20, "number"),
        (["1"] * 79 + ["x"] * 21, "category"),
        ([" 1 ", "\t2"], "number"),
        (["2024-01-02", "2024-01-03T10:00:00"], "date"),
        (["0:01:23", "12:30"], "duration"),
        (["1", "2", *["-", "missing", "#N/A", "None", "\\N"] * 9], "number"),
        ([None, "", "?"], "empty"),
        (["-", "-"], "empty"),
        ([True, None], "flag"),
        ([1, None], "number"),
        (["1.2.3", "1.2.4"], "category"),
        (["192.168.0.1", "10.0.0.1"], "category"),
        (["1st", "2nd", "3rd"], "category"),
        (["5 kg", "3 lb"], "category"),
        (["$3", "€4"], "category"),
        (["Q1", "Q2"], "category"),
        (["12-34", "56-78"], "category"),
    ],
)
def test_four_in_five_values_or_all_but_one_decide(values, expected):
    assert kind(values) == expected


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["12.3%", "-4%", "0"], [12.3, -4, 0]),
        (["$3", "-$2.50", "($1,000)", "$ 7"], [3, -2.5, -1000, 7]),
        (["5 kg", "6.5kg"], [5, 6.5]),
        (["1,234,567", "12"], [1234567, 12]),
        (["12,000", "3,500"], [12000, 3500]),
        (["1.234,56", "2"], [1234.56, 2]),
        (["0,125", "0,250"], [0.125, 0.25]),
        (["1 234 567,5", "3"], [1234567.5, 3]),
        (["1\u202f234", "12"], [1234, 12]),
        (["1'234.5", "2"], [1234.5, 2]),
        (["3 €", "1.000,50 €"], [3, 1000.5]),
        (["EUR 3", "EUR 4"], [3, 4]),
        (["01.02.1970", "28.01.1970"], [31 * 86400, 27 * 86400]),
        (["1970/01/02", "1970/1/1"], [86400, 0]),
        (["02/01/1970", "28/01/1970"], [86400, 27 * 86400]),
        (["01/02/70", "01/28/70 00:01"], [86400, 27 * 86400 + 60]),
        (["2 Jan 1970", "Jan 1, 1970 12:00 AM"], [86400, 0]),
        (["01/Jan/1970:00:00:05 +0000", "01/Jan/1970:01:00:00 +0100"], [5, 0]),
        (["1:00:00", "1 day, 0:00:01.5"], [3600, 86401.5]),
    ],
)
def test_numbers_and_dates_in_disguise_are_read(texts, expected):
    series = pl.Series("x", texts)
    column = find_column(series)
    assert read_cells(series, column).values.to_list() == expected


@pytest.mark.parametrize(
    ("form", "texts", "expected"),
    [
        (DateForm("day-first"), ["02/01/1970", "1.1.1970 00:01", "2 Jan 1970"], [86400, 60, 86400]),
        (DateForm("day-first"), ["1970", "01/28/1970"], [None, None]),
        (NumberForm("$", thousands=","), ["$1,234.50", "($3)", "-$2", "0"], [1234.5, -3, -2, 0]),
        (NumberForm("$", thousands=","), ["7", "€3", "-($3)", "$1,23"], [None] * 4),
    ],
)
def test_cells_are_read_in_the_form_of_their_column(form, texts, expected):
    column = Column("x", "date" if isinstance(form, DateForm) else "number", form)
    assert read_cells(pl.Series(texts), column).values.to_list() == expected


def test_a_value_is_shown_in_one_line_of_forty_characters():
    assert short("one\n two") == "one two"
    assert short("x" * 41) == "x" * 37 + "..."


def test_another_unit_is_not_read_as_a_wrong_number():
    column = find_column(pl.Series(["5 kg"] * 10))
    cells = read_cells(pl.Series(["5 lb", "5", "0", "5 kg", "1,5 kg"]), column)
    assert cells.values.to_list() == [None, None, 0, 5, None]
    assert cells.n_unreadable == 3


def test_a_day_that_may_be_a_month_is_settled_by_another_column_or_asked_for():
    sample = pl.DataFrame({"a": ["02/01/2024", "03/04/2024"], "b": ["x", "y"]})
    with pytest.raises(Question, match='column "a": in "02/01/2024" the day or the month'):
        find_columns(sample)
    assert find_columns(sample, Hints(dates="day-first"))[0].form == DateForm("day-first")
    settled = find_columns(sample.with_columns(b=pl.Series(["12/25/2024", "01/01/2024"])))
    assert [column.form for column in settled] == [DateForm("month-first")] * 2
    same_either_way = find_column(pl.Series(["01/01/2024", "02/02/2024"]))
    assert same_either_way.kind == "date"


def test_commas_and_points_are_settled_by_the_other_columns():
    numbers = range(1, 6)
    open_ones = {"a": [f"{i},000" for i in numbers], "b": [f"{i}.500" for i in numbers]}
    alone = find_columns(pl.DataFrame(open_ones))
    assert [column.form for column in alone] == [NumberForm("", ".", ","), None]
    beside = open_ones | {"c": [f"0,{i}" for i in numbers], "d": ["7"] * 5}
    forms = [column.form for column in find_columns(pl.DataFrame(beside))]
    assert forms == [NumberForm("", ",", ".")] * 3 + [None]
    few = find_columns(pl.DataFrame(beside).head(4))  # too few to tell
    assert [column.form for column in few][:2] == [NumberForm("", ".", ","), None]


def test_a_number_with_groups_has_no_exponent():
    column = find_column(pl.Series(["1 817", "2 000 000", "3e5"]))
    cells = read_cells(pl.Series(["1 817e+05", "1 817", "3e5"]), column)
    assert cells.values.to_list() == [None, 1817, 3e5]


def test_hints_decide():
    assert kind(["1", "2"], categorical=["x"]) == "category"
    assert kind([1, 2], categorical=["x"]) == "category"
    assert kind(["1", "a", "b"], numeric=["x"]) == "number"
    assert kind(["1", "gone", "gone"], na_values=["gone"]) == "number"
    column = find_column(pl.Series(["1.234", "5"]), Hints(decimal=","))
    assert read_cells(pl.Series(["1.234", "5", "0,5"]), column).values.to_list() == [1234, 5, 0.5]


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (pl.Decimal(10, 2), "number"),
        (pl.UInt64, "number"),
        (pl.Date, "date"),
        (pl.Datetime("ns", "Europe/Berlin"), "date"),
        (pl.Duration, "duration"),
        (pl.Time, "duration"),
        (pl.Enum(["a"]), "category"),
        (pl.Categorical, "category"),
        (pl.List(pl.Int8), "left out"),
        (pl.Struct({"a": pl.Int8}), "left out"),
        (pl.Binary, "left out"),
    ],
)
def test_types_tell_what_a_column_holds(dtype, expected):
    assert find_column(pl.Series("x", [], dtype=dtype)).kind in (expected, "empty")
    assert find_column(pl.Series("x", [None, None]).cast(dtype)).kind in (expected, "empty")


def target(values, **options):
    return Target.learn(pl.Series("y", values), **options)


def test_few_labels_are_numbers_only_if_all_are():
    def kind_of(values, **options):
        return target(values, **options).column.kind

    assert kind_of(["0", "1"] * 50 + ["unknown"]) == "category"
    assert kind_of([str(i % 60) for i in range(120)] + ["unknown"]) == "integer"
    assert kind_of([str(i / 2) for i in range(100)] + ["unknown"]) == "number"
    assert kind_of([0.0, 1.0]) == "integer"
    assert kind_of([float(i) for i in range(30)]) == "number"
    assert kind_of([0, 1]) == "integer"
    assert kind_of([0.5, 1.5]) == "number"
    assert kind_of([0.5, 1.5], holds="classes") == "category"
    assert kind_of(["-", "1", "2"]) == "category"


def test_a_target_of_decimals_is_not_cut():
    values = pl.Series("y", ["0.13", "1.50"]).cast(pl.Decimal(10, 2))
    assert Target.learn(values).read(values).y.tolist() == [0.13, 1.5]


def test_large_labels_stay_exact():
    values = pl.Series("y", [2**64 - 1, 2**63], dtype=pl.UInt64)
    assert Target.learn(values).read(values).y.tolist() == [2**64 - 1, 2**63]


def test_a_fraction_among_labels_costs_its_row_only():
    found = target([0.0, 1.0] * 50).read(pl.Series("y", [1.0, 0.5, None, 0.0]))
    np.testing.assert_array_equal(found.usable, [True, False, False, True])
    assert found.y.tolist() == [1, 0]
    assert found.reasons[1] == '"0.5" in the target column "y" is not a whole number'


def test_names_and_ids_are_no_classes_unless_one_says_so():
    with pytest.raises(Question, match='holds 100 distinct texts in 100 rows, such as "id0"'):
        target([f"id{i}" for i in range(100)])
    with pytest.raises(Question, match=r"100 distinct whole numbers .*use model='gaussian'"):
        target(list(range(100)))
    assert target([f"id{i}" for i in range(100)], holds="classes").column.kind == "category"
    assert target(list(range(100)), holds="numbers").column.kind == "number"


@pytest.mark.parametrize("values", [[[1], [2]], [{"a": 1}], [b"1"]])
def test_a_target_that_is_neither_label_nor_number_is_refused(values):
    with pytest.raises(InputError, match="which cannot be predicted"):
        target(values)
