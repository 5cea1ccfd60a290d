"""The one sentence about a run: plain and true."""

import pytest
from tests.report import runs

from fires.report.summary import sentence, summarise


def text(parts):
    return "".join(part if isinstance(part, str) else f"`{part['feature']}`" for part in parts)


def say(
    n_features, n_selected, n_above, since, stability=None, event=None, *, batches=20, ended=True
):
    counts = {"batches": batches, "features": n_features, "selected": n_selected}
    counts["above_noise"] = n_above
    return text(sentence(counts, since, stability, has_ended=ended, event=event))


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (
            (340, 20, 12, 1_200_000, 0.98),
            "12 of 340 features predict the target; the same set since row 1,200,000; "
            "stability 0.98.",
        ),
        ((40, 8, 1, 4_000), "1 of 40 features predicts the target; the same set since row 4,000."),
        ((40, 1, 0, 400), "None of 40 features is significant; the same set since row 400."),
        (
            (40, 8, None, 7, 0.5),
            "8 of 40 features are selected; the same set since row 7; stability 0.50.",
        ),
        ((40, 1, None, None), "1 of 40 features is selected."),
        (
            (340, 20, 12, 1_200_000, 0.98, {"came": ["amount"], "left": ["age"]}),
            "12 of 340 features predict the target; by row 1,200,000 `amount` replaced `age`; "
            "stability 0.98.",
        ),
        (
            (9, 3, 3, 700, None, {"came": ["a", "b", "c"], "left": ["d", "e"]}),
            "3 of 9 features predict the target; by row 700 `a`, `b` and 1 more replaced `d` "
            "and `e`.",
        ),
        ((8, 8, 8, 100), "All 8 features predict the target."),
        ((1, 1, 1, 100), "The one feature predicts the target."),
        ((1, 1, 0, 100), "The one feature is not significant."),
        ((1, 1, None, 100), "There is one feature."),
    ],
)
def test_what_is_said(arguments, wanted):
    assert say(*arguments) == wanted


def test_while_a_run_goes_on_it_is_said_that_more_may_come():
    assert say(40, 8, 0, None, ended=False) == "None of 40 features is significant yet."
    assert say(40, 8, 3, None, batches=1) == "3 of 40 features predict the target after one batch."
    assert say(0, 0, None, None, batches=0) == "No row has been read yet."


def test_the_row_is_that_of_the_last_that_matters():
    summary = summarise(runs.of_drift())
    now = summary["now"]
    columns = (now["since"], now["selected"], now["above_noise"])
    since = [row for row, chosen, matters in zip(*columns, strict=True) if chosen and matters]
    said = text(summary["sentence"])
    assert f"; by row {max(since):,} `x7` and `x8` replaced `x2` and `x5`; " in said
    assert text(summarise(runs.without_a_step())["sentence"]) == "No row has been read yet."
