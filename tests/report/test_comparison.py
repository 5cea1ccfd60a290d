import json
import math

import numpy as np
import pytest
from click.testing import CliRunner
from tests.report.browser import NARROW, WIDE
from tests.report.runs import SCRIPT, numbers_table

from fires import FIRES, AllFeatures, FixedFeatures, RandomFeatures
from fires.cli import main
from fires.core.errors import InputError
from fires.evaluation.compare import compare
from fires.evaluation.comparison import Comparison, Outcome, interval, p_value
from fires.report.page import comparison_summary, read_comparison
from fires.streams import KnownTruth

SELECTORS = {
    "fires": lambda seed: FIRES(3),
    "noise": lambda seed: FixedFeatures([10, 11]),
    SCRIPT: lambda seed: RandomFeatures(3, random_state=seed),
}


@pytest.fixture(scope="module")
def found():
    return compare(lambda: KnownTruth(2_000, 12, 3, random_state=0), SELECTORS, seeds=3)


@pytest.fixture(scope="module")
def numeric():
    stream = KnownTruth(2_000, 12, 3, random_state=0)
    X, y = zip(*((batch.X, batch.X[:, 0] * 3.0) for batch in stream.batches(100)), strict=True)
    from fires.streams import from_arrays

    return compare(
        lambda: from_arrays(np.concatenate(X), np.concatenate(y)),
        {"fires": lambda seed: FIRES(3, model="gaussian")},
        seeds=3,
        score="mae",
    )


def run(*arguments):
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What the command makes with --report."""
    where = tmp_path_factory.mktemp("comparison")
    numbers_table(700)[0].write_csv(where / "events.csv")
    wanted = ("--target", "label", "--selectors", "fires,ofs,window", "--top", 3, "--seeds", 3)
    result = run(where / "events.csv", *wanted, "--out", where / "out", "--report")
    assert result.exit_code == 0, result.output
    assert "compare.toml, compare.html" in result.stdout
    return where / "out"


def column(summary, name, key):
    return summary["selectors"][key][summary["selectors"]["name"].index(name)]


# The interval of a difference


def outcome(runs, pieces, agreement=1.0):
    nan = math.nan
    runs, pieces = np.array(runs), np.array(pieces)
    return Outcome("any", runs.mean(), nan, nan, nan, agreement, nan, runs, pieces)


@pytest.mark.parametrize("seed", range(8))
def test_an_interval_leaves_out_0_exactly_where_p_is_below_the_level(seed):
    rng = np.random.default_rng(seed)
    one, other = (
        outcome(shift + 0.01 * rng.normal(size=5), shift + 0.02 * rng.normal(size=10), 0.7)
        for shift in (0.02 * rng.random(), 0.0)
    )
    p = p_value(one, other)
    for alpha in (0.2, 0.05, 0.01):
        low, high = interval(one, other, alpha)
        assert (low > 0.0 or high < 0.0) == (p < alpha)
        assert 0.5 * (low + high) == pytest.approx(one.score - other.score)
    low, high = interval(one, other, p)  # at its own level, it ends at 0
    assert min(abs(low), abs(high)) == pytest.approx(0.0, abs=1e-12)


def test_intervals_agree_with_the_corrected_p_values(found):
    others = [one for one in found.outcomes if one.name != found.reference]
    assert any(one.p_value < 0.05 for one in others)
    for one in others:
        assert (one.low > 0.0 or one.high < 0.0) == (one.p_value < 0.05), one
        assert one.low <= one.difference <= one.high
        # Never wider than if all comparisons were corrected alike, never narrower than alone.
        bonferroni = interval(one, found[found.reference], 0.05 / len(others))
        alone = interval(one, found[found.reference])
        assert bonferroni[0] - 1e-12 <= one.low <= alone[0] + 1e-12
    assert math.isnan(found[found.reference].low)


def test_what_never_varies_has_an_interval_of_no_width():
    low, high = interval(outcome([0.5] * 3, [0.5] * 4), outcome([0.4] * 3, [0.4] * 4))
    assert low == high == pytest.approx(0.1)


def test_without_a_test_there_are_no_intervals():
    single = compare(lambda: KnownTruth(800, 12, 3, random_state=0), SELECTORS, seeds=2)
    assert all(math.isnan(one.low) and math.isnan(one.high) for one in single.outcomes)


# The summary


def test_a_comparison_survives_being_written_down(found):
    again = Comparison.from_dict(json.loads(json.dumps(found.as_dict())))
    assert list(again.notes()) == list(found.notes())
    assert list(again.rows()) == list(found.rows())
    assert again.as_dict() == found.as_dict()


def test_numbers_are_those_of_the_file_with_four_digits(folder):
    facts = json.loads((folder / "compare.json").read_bytes())
    summary = read_comparison(folder)
    assert summary["selectors"]["name"] == [one["name"] for one in facts["outcomes"]]
    for place, one in enumerate(facts["outcomes"]):
        for key in ("score", "spread", "stability", "difference", "low", "high", "p_value"):
            shown = summary["selectors"][key][place]
            if one[key] is None:
                assert shown is None
            else:
                assert shown == pytest.approx(one[key], rel=5.1e-4)
                assert shown == float(f"{shown:.4g}")
        np.testing.assert_allclose(summary["pieces"][place], one["pieces"], rtol=5.1e-4)
        per_row = 1e3 * one["milliseconds"] / facts["batch_size"]
        assert summary["selectors"]["microseconds_per_row"][place] == pytest.approx(
            per_row, rel=5.1e-4
        )
    json.dumps(summary, allow_nan=False)
    assert summary["name"] == folder.name
    assert summary["target"] == "label"


def test_every_selection_has_a_word_about_everything_it_should_beat(found):
    beaten = comparison_summary(found.as_dict())["beaten"]
    assert [other["label"] for other in beaten["others"]][:2] == [
        "all features",
        "random features",
    ]
    assert set(beaten["selectors"]) == set(SELECTORS)
    for name, words in zip(beaten["selectors"], beaten["words"], strict=True):
        for other, word in zip(beaten["others"], words, strict=True):
            better = found[name].score > found[other["name"]].score
            expected = "perhaps" if better else "no"
            assert word == ("better" if name in found.beaten[other["name"]] else expected)


def test_a_window_refit_is_not_asked_whether_it_beats_itself(folder):
    beaten = read_comparison(folder)["beaten"]
    column = [other["name"] for other in beaten["others"]].index("window")
    words = dict(zip(beaten["selectors"], beaten["words"], strict=True))
    assert words["window"][column] is None
    assert words["fires"][column] in ("better", "perhaps", "no")


def test_the_sentence_names_the_best_and_what_it_beats(found):
    said = comparison_summary(found.as_dict())["sentence"]
    best = next(one for one in found.outcomes if one.name in SELECTORS)
    assert f"{best.name} " in said or f"{best.name} (" in said
    for name, label in (("majority", "the most common class"), ("all", "all features")):
        if best.name in found.beaten[name]:
            assert label in said


def test_the_sentence_says_a_thing_once(folder):
    """The window refit is a selection, and one of those that should be beaten."""
    assert read_comparison(folder)["sentence"].count("window") <= 1


def test_of_errors_less_is_better(numeric):
    summary = comparison_summary(numeric.as_dict())
    assert not summary["more_is_better"]
    assert summary["sentence"].startswith(
        ("fires predicts best (mean absolute error", "No selection predicts")
    )
    assert column(summary, "mean", "score") > column(summary, "fires", "score")


@pytest.mark.parametrize("seeds", [1, 2])
def test_too_few_runs_are_said_to_be_too_few(seeds):
    single = compare(lambda: KnownTruth(800, 12, 3, random_state=0), SELECTORS, seeds=seeds)
    summary = comparison_summary(single.as_dict())
    assert not summary["beaten"]["tested"]


def test_baselines_alone_are_no_obstacle():
    everything = {"all": lambda seed: AllFeatures()}
    alone = compare(lambda: KnownTruth(800, 12, 3, random_state=0), everything, seeds=1)
    assert comparison_summary(alone.as_dict())["sentence"].startswith("Only all features")


def test_a_damaged_comparison_is_refused(tmp_path):
    (tmp_path / "compare.json").write_text('{"outcomes": []}')
    with pytest.raises(InputError, match="cannot be used: it is damaged"):
        read_comparison(tmp_path)


# The command


def test_a_report_needs_a_folder(tmp_path):
    numbers_table(300)[0].write_csv(tmp_path / "events.csv")
    result = run(tmp_path / "events.csv", "--target", "label", "--report")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == (
        "Error: --report needs a folder to write to: give --out."
    )


def test_the_page_of_an_earlier_comparison_does_not_stay(tmp_path):
    numbers_table(400)[0].write_csv(tmp_path / "events.csv")
    wanted = (tmp_path / "events.csv", "--target", "label", "-s", "fires", "--seeds", 1)
    where = ("--out", tmp_path / "out", "--overwrite")
    assert run(*wanted, *where, "--report").exit_code == 0
    assert (tmp_path / "out" / "compare.html").exists()
    assert run(*wanted, *where).exit_code == 0
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "compare.json",
        "compare.md",
        "compare.toml",
    ]


# The page


PANELS = ("verdict", "trade", "pace", "differences", "beaten", "pieces", "outcomes")


@pytest.fixture(scope="module")
def page_of_script(found, tmp_path_factory):
    from fires.report import show

    return show(found).save(tmp_path_factory.mktemp("page") / "compare.html")


@pytest.mark.parametrize(("size", "theme"), [(WIDE, "light"), (NARROW, "dark")])
def test_the_page_is_whole_quiet_and_readable(browser, page_of_script, folder, size, theme):
    for path in (page_of_script, folder / "compare.html"):
        with browser.tab(size=size, theme=theme) as tab:
            tab.open(path)
            assert tab.complaints == []
            assert tab.requests == [path.as_uri()]
            shown = tab.page.eval_on_selector_all("main > section", "all => all.map((x) => x.id)")
            assert tuple(shown) == PANELS
            assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
            assert tab.findings() == []


def test_a_selector_named_like_a_script_is_text(browser, page_of_script):
    assert "<script>alert" not in page_of_script.read_text(encoding="utf-8")
    with browser.tab() as tab:
        tab.open(page_of_script)
        assert tab.complaints == []  # an alert would be one
        assert SCRIPT in tab.page.text_content("#outcomes table")
        assert SCRIPT[:13] in tab.page.text_content("#differences")  # long names are cut


def test_names_in_the_scatter_do_not_lie_over_each_other(browser, folder):
    with browser.tab() as tab:
        tab.open(folder / "compare.html")
        boxes = tab.page.eval_on_selector_all(
            "#trade text.trade-name, #trade text.trade-quiet",
            "all => all.map((x) => { const b = x.getBoundingClientRect();"
            " return [b.left, b.top + 2, b.right, b.bottom - 2]; })",
        )
    assert len(boxes) == 6
    for place, (left, top, right, bottom) in enumerate(boxes):
        for other in boxes[:place]:
            assert right <= other[0] or left >= other[2] or bottom <= other[1] or top >= other[3]


def test_the_table_is_exported_and_lines_can_be_hidden(browser, folder, tmp_path):
    with browser.tab() as tab:
        tab.open(folder / "compare.html")
        with tab.page.expect_download() as download:
            tab.page.click("#outcomes button")
        download.value.save_as(tmp_path / "all.csv")
        lines = (tmp_path / "all.csv").read_text(encoding="utf-8").splitlines()
        assert lines[0].startswith("name,is_baseline,won,lost,score,")
        assert len(lines) == 7
        before = tab.page.locator("#pieces polyline").count()
        tab.page.click("#pieces .legend button >> nth=0")
        assert tab.page.locator("#pieces polyline").count() == before - 1
        tab.page.hover("#pieces svg.pieces", position={"x": 200, "y": 100})
        assert "piece" in tab.page.text_content("#pieces .tip")


def test_what_beats_what_is_said_in_words(browser, folder):
    with browser.tab() as tab:
        tab.open(folder / "compare.html")
        cells = tab.page.eval_on_selector_all("#beaten td", "all => all.map((x) => x.innerText)")
    assert {cell.split(" ")[-1] for cell in cells} <= {
        "yes", "perhaps", "no", "\u2013", "fires", "ofs", "window",
    }  # fmt: skip
