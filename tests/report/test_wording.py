"""The one sentence about a run: plain and true."""

import numpy as np
import pytest
from tests.report import runs

from fires.report.summary import summarise
from fires.report.wording import Change, sentence


def text(parts):
    return "".join(part if isinstance(part, str) else f"`{part['feature']}`" for part in parts)


def say(n_features, n_selected, n_above, change, stability=None, *, batches=20, ended=True):
    counts = {"batches": batches, "features": n_features, "selected": n_selected}
    counts["above_noise"] = n_above
    parts = sentence(counts, change, stability, has_ended=ended)
    assert all(isinstance(part, dict) or part for part in parts)
    return text(parts)


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (
            (340, 20, 12, Change(1_200_000, ["amount"], ["age"]), 0.98),
            "12 of 340 features carry the target; since row 1.2 M `amount` has replaced `age`; "
            "stability 0.98.",
        ),
        (
            (40, 8, 1, Change(4_000, n_same=8), 1.0),
            "1 of 40 features carries the target; the same 8 features have been selected since row "
            "4,000; stability 1.00.",
        ),
        (
            (40, 8, 6, Change(4_000, n_same=2, carry=True)),
            "6 of 40 features carry the target; 2 of them have been selected since row 4,000.",
        ),
        (
            (40, 8, 6, Change(4_000, n_same=6, carry=True)),
            "6 of 40 features carry the target; all of them have been selected since row 4,000.",
        ),
        (
            (40, 8, 1, Change(4_000, n_same=1, carry=True)),
            "1 of 40 features carries the target; it has been selected since row 4,000.",
        ),
        (
            (40, 1, 0, Change(4_000, n_same=1)),
            "None of 40 features stands out from noise; the same feature has been selected since "
            "row 4,000.",
        ),
        (
            (40, 8, None, None, 0.5),
            "8 of 40 features are selected; the selected set changed until the end; stability "
            "0.50.",
        ),
        (
            (40, 1, None, None),
            "1 of 40 features is selected; the selected set changed until the end.",
        ),
        ((8, 8, 8, Change(100)), "All 8 features carry the target."),
        ((1, 1, 1, Change(100)), "The one feature carries the target."),
        ((1, 1, 0, Change(100)), "The one feature does not stand out from noise."),
        ((1, 1, None, Change(100)), "There is one feature."),
        (
            (9, 3, 3, Change(700, ["a", "b"], ["c"])),
            "3 of 9 features carry the target; since row 700 `a` and `b` have replaced `c`.",
        ),
        (
            (9, 3, 3, Change(700, ["a", "b", "c"], ["d"])),
            "3 of 9 features carry the target; since row 700 `a`, `b` and 1 more have replaced "
            "`d`.",
        ),
        (
            (9, 4, 3, Change(700, ["a"], ["b", "c", "d"])),
            "3 of 9 features carry the target; since row 700 `a` has replaced `b`, `c` and 1 more.",
        ),
        (
            (9, 4, 3, Change(700, ["a", "b", "c"], ["d", "e", "f"])),
            "3 of 9 features carry the target; since row 700 `a`, `b` and 1 more have replaced "
            "`d`, `e` and 1 more.",
        ),
        (
            (9, 3, 3, Change(700, ["a"])),
            "3 of 9 features carry the target; since row 700 `a` is among the selected.",
        ),
        (
            (9, 3, 3, Change(700, (), ["a", "b"])),
            "3 of 9 features carry the target; since row 700 `a` and `b` are not selected any "
            "more.",
        ),
    ],
)
def test_what_is_said(arguments, wanted):
    assert say(*arguments) == wanted


def test_while_a_run_goes_on_it_is_said_that_more_may_come():
    said = say(40, 8, 0, None, ended=False)
    assert said == "None of 40 features stands out from noise yet; the selected set still changes."
    assert say(40, 8, 3, None, batches=1) == "3 of 40 features carry the target after one batch."
    assert say(0, 0, None, None, batches=0) == "No row has been read yet."


def test_names_are_never_part_of_the_text():
    counts = {"batches": 20, "features": 9, "selected": 3, "above_noise": 3}
    parts = sentence(counts, Change(7, ["<b>"], ["; stability"]), None, has_ended=True)
    assert [part for part in parts if isinstance(part, dict)] == [
        {"feature": "<b>"},
        {"feature": "; stability"},
    ]


def test_the_last_change_that_lasted_is_named():
    said = text(summarise(runs.of_drift())["sentence"])
    assert "`x7` and `x8` have replaced `x2` and `x5`" in said
    assert "x12" not in text(summarise(runs.of_classes())["sentence"])
    assert text(summarise(runs.without_a_step())["sentence"]) == "No row has been read yet."


def test_one_that_carries_the_target_is_not_said_to_have_replaced_several(tmp_path):
    """Noise came with it: whom of those that left it has replaced is not known."""
    from types import SimpleNamespace

    from tests.report.test_spans import records_of

    from fires.report.summary import Summary

    sets = [[1, 2, 3]] * 30 + [[3, 4, 5]] * 30
    records = records_of(tmp_path / "steps.jsonl", sets, 9)
    run = SimpleNamespace(_records=records, _names=list("abcdefghi"))
    above_noise = np.isin(np.arange(9), [3, 4])
    assert Summary._change(run, above_noise, np.arange(9)) == Change(31, ["e"], [])
    above_noise[5] = True
    assert Summary._change(run, above_noise, np.arange(9)) == Change(31, ["e", "f"], ["b", "c"])


def test_a_set_that_did_not_last_is_not_named(tmp_path):
    """A feature that came for a moment is gone: nothing is said of it."""
    from tests.report.test_spans import records_of

    sets = [[1, 2]] * 20 + [[1, 3]] * 30 + [[4, 5]] * 2 + [[1, 3]] * 5
    records = records_of(tmp_path / "steps.jsonl", sets, 9)
    before, last = records.settled[-2:]
    assert before.features.tolist() == [1, 2]
    assert last.features.tolist() == [1, 3]
    assert last.row == 21
    assert np.array_equal(records.selected, [1, 3])
    assert records.now.row == 53
