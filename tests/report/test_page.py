"""The page in a real browser: quiet, whole, readable by everyone, and it does what it offers."""

import csv
import re
from copy import deepcopy
from functools import cache

import pytest
from playwright.sync_api import expect
from tests.report import runs
from tests.report.browser import NARROW, WIDE

from fires.report.page import page, page_data
from fires.report.summary import summarise

LIKE_OTHERS = {"classes", "three classes", "one feature", "as published", "ended early", "killed"}
KINDS = [
    pytest.param(name, id=name.replace(" ", "-"), marks=[pytest.mark.slow] * (name in LIKE_OTHERS))
    for name in runs.ALL
]

# The panels, in the order of the page, and whether a run has data for them.
PANELS = {
    "now": lambda run: True,
    "picture": lambda run: run["picture"],
    "curves": lambda run: run["relations"] and run["relations"]["curves"],
    "pairs": lambda run: run["relations"] and run["relations"]["pairs"],
    "alarms": lambda run: run["events"],
    "importance": lambda run: run["timeline"]["series"],
    "members": lambda run: run["members"]["names"],
    "changes": lambda run: len(run["timeline"]["rows"]) > 1,
    "scores": lambda run: any_known(run["scores"]["series"].get("selected", {}).get("mean", [])),
    "stability": lambda run: any_known(run["stability"]["mean"]),
    "drift": lambda run: run["drift"],
    "ranks": lambda run: len(run["ranks"]["rows"]) > 1,
    "twins": lambda run: run["twins"] or run["groups"],
    "features": lambda run: run["now"]["place"],
    "health": lambda run: True,
}


def any_known(values):
    return any(value is not None for value in values)


@cache
def summary_of(kind):
    return summarise(runs.ALL[kind]())


@cache
def page_of(kind):
    """The file of a run's page, written once."""
    path = runs.folder() / f"{kind}.html"
    path.write_text(page(page_data([summary_of(kind)])), encoding="utf-8")
    return path


@pytest.fixture
def tab(browser):
    """A wide tab; what is opened in it has nothing to complain about, and asks for nothing else."""
    with browser.tab() as tab:
        yield tab
        assert tab.complaints == []
        assert [address for address in tab.requests if not address.startswith("data:")] == [
            tab.page.url
        ]


def open_unfolded(tab, path):
    """Open a page with its details unfolded."""
    tab.open(path)
    tab.page.locator(".folded > details").evaluate_all("all => all.map(one => one.open = true)")


def text_of(tab, selector):
    return " ".join(tab.page.locator(selector).inner_text().split())


def tip(tab, panel):
    """What the box beside the pointer says, once it is there."""
    box = tab.page.locator(f"#{panel} .tip:visible")
    box.wait_for()
    return " ".join(box.inner_text().split())


def hover(tab, selector, across, down):
    """Move to a point of an element, in shares of its width and height."""
    element = tab.page.locator(selector).first
    element.scroll_into_view_if_needed()
    box = element.bounding_box()
    tab.page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])


def luminance(colour):
    """How bright a colour of CSS is, from 0 to 1."""
    red, green, blue = (int(part) / 255 for part in re.findall(r"\d+", colour)[:3])
    return 0.21 * red + 0.72 * green + 0.07 * blue


def look_of(tab):
    """Background and text of the page, as brightness."""
    colours = tab.page.evaluate(
        """() => { const look = getComputedStyle(document.body);
                   return [look.backgroundColor, look.color]; }"""
    )
    return tuple(map(luminance, colours))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_run_renders_whole_quiet_and_narrow(tab, kind):
    open_unfolded(tab, page_of(kind))
    tab.scroll_through()
    shown = tab.page.locator("section.panel:visible").evaluate_all("all => all.map(one => one.id)")
    assert shown == [name for name, has_data in PANELS.items() if has_data(summary_of(kind))]
    assert text_of(tab, "h1") == summary_of(kind)["run"]["name"]
    assert "NaN" not in text_of(tab, "main")
    assert "undefined" not in text_of(tab, "main")

    background, text = look_of(tab)
    assert background > 0.9
    assert text < 0.2

    tab.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    tab.page.emulate_media(color_scheme="dark")
    tab.scroll_through()
    assert tab.page.evaluate("document.scrollingElement.scrollWidth") <= NARROW[0]
    background, text = look_of(tab)
    assert background < 0.1
    assert text > 0.8


def test_theme_can_be_switched(tab):
    tab.open(page_of("drift"))
    tab.page.get_by_role("button", name="Theme").click()
    assert look_of(tab)[0] < 0.1
    tab.page.get_by_role("button", name="Theme").click()
    assert look_of(tab)[0] > 0.9


@pytest.mark.parametrize(
    ("kind", "theme", "size"),
    [
        ("drift", "light", WIDE),
        ("drift", "dark", NARROW),
        ("relations", "light", WIDE),
        ("relations", "dark", NARROW),
        pytest.param("three classes", "dark", WIDE, marks=pytest.mark.slow),
        pytest.param("pixels", "light", NARROW, marks=pytest.mark.slow),
    ],
)
def test_page_is_accessible(browser, kind, theme, size):
    with browser.tab(theme=theme, size=size) as tab:
        tab.open(page_of(kind))
        for closed in tab.page.locator("summary").all():
            closed.click()
        assert tab.findings() == []


def test_names_are_text_and_never_run(tab):
    tab.open(page_of("awkward names"))
    tab.scroll_through()
    assert tab.page.evaluate("document.scripts.length") == 2
    assert (
        tab.page.locator("main b, main script")
        .evaluate_all("all => all.map(one => one.tagName)")
        .count("SCRIPT")
        == 0
    )
    for panel in ("now", "importance", "members", "ranks", "changes", "features"):
        assert runs.SCRIPT in tab.page.locator(f"#{panel}").text_content(), panel
    hover(tab, "#members canvas", 0.9, 0.05)
    assert tip(tab, "members").startswith(summary_of("awkward names")["members"]["names"][0])
    tab.page.get_by_role("combobox").fill("</script>")
    assert tab.page.get_by_role("option").count() + tab.page.locator(".chip").count() > 0


def test_hovering_importance_shows_values(tab):
    tab.open(page_of("drift"))
    hover(tab, "#importance .u-over", 0.5, 0.5)
    said = tip(tab, "importance")
    assert re.search(r"row [\d,]+", said)
    for name in summary_of("drift")["now"]["name"][:2]:
        assert re.search(rf"{name} −?[\d.]+", said)


def test_arrow_keys_read_importance(tab):
    tab.open(page_of("drift"))
    tab.page.locator("#importance .plot").focus()
    tab.page.keyboard.press("Home")
    first = tip(tab, "importance")
    tab.page.keyboard.press("ArrowRight")
    assert tip(tab, "importance") != first


def chips(tab):
    return [chip.strip(" ×\n") for chip in tab.page.locator("#importance .chip").all_inner_texts()]


def test_search_finds_and_picks_in_all_panels(tab):
    open_unfolded(tab, page_of("drift"))
    taken = chips(tab)
    new = next(name for name in summary_of("drift")["ranks"]["names"] if name not in taken)
    search = tab.page.get_by_role("combobox", name="Search features")
    search.fill(new)
    tab.page.keyboard.press("Enter")
    assert chips(tab) == [*taken, new]
    assert tab.page.locator("#ranks .bump-marks.strong", has_text=new).count() == 1
    pressed = tab.page.locator("#features button[aria-pressed=true]").all_inner_texts()
    assert new in pressed

    tab.page.get_by_role("button", name=f"Remove {new}").click()
    assert chips(tab) == taken
    assert tab.page.locator("#ranks .bump-marks.strong", has_text=new).count() == 0

    search.fill("no such feature")
    assert tab.page.get_by_role("option").count() == 0


def test_search_finds_among_thousands(tab):
    tab.open(page_of("many features"))
    series = summary_of("many features")["timeline"]["series"]
    assert len(series) == 2_000
    tab.page.get_by_role("combobox").fill(series[-1]["name"])
    tab.page.get_by_role("option").first.click()
    assert series[-1]["name"] in chips(tab)


def test_selected_set_tells_by_pointer_and_by_keys(tab):
    tab.open(page_of("drift"))
    first = summary_of("drift")["members"]["names"][0]
    hover(tab, "#members canvas", 0.99, 0.01)
    pattern = rf"{first} selected in 100 % of rows [\d,]+ to [\d,]+ importance −?[\d.]+"
    assert re.fullmatch(pattern, tip(tab, "members"))

    tab.page.mouse.move(0, 0)
    tab.page.locator("#members canvas").focus()
    tab.page.keyboard.press("ArrowDown")
    assert re.fullmatch(pattern, tip(tab, "members"))
    tab.page.keyboard.press("ArrowLeft")
    tab.page.keyboard.press("ArrowDown")
    assert summary_of("drift")["members"]["names"][1] in tip(tab, "members")
    tab.page.keyboard.press("Escape")
    assert tab.page.locator("#members .tip:visible").count() == 0

    assert tab.page.locator("#members table").count() == 0
    tab.page.locator("#members summary").click()
    expect(tab.page.locator("#members tbody tr")).to_have_count(
        len(summary_of("drift")["members"]["names"])
    )


def test_pictures_are_as_sharp_as_the_screen(browser):
    with browser.tab(sharpness=2) as tab:
        tab.open(page_of("pixels"))
        for panel in ("members", "picture"):
            canvas = tab.page.locator(f"#{panel} canvas")
            dots, width = canvas.evaluate("one => [one.width, one.clientWidth]")
            assert abs(dots - 2 * width) <= 2


def test_changes_between_any_two_snapshots(tab):
    tab.open(page_of("drift"))
    run = summary_of("drift")
    rows = [f"row {row:,}" for row in run["timeline"]["rows"]]
    outputs = tab.page.locator("#changes output")
    assert "around the drift event at row" in text_of(tab, "#changes .note[role=status]")
    tab.page.get_by_role("button", name="Last tenth").click()
    assert outputs.all_inner_texts()[1] == rows[-1]

    tab.page.get_by_role("button", name="Whole run").last.click()
    assert outputs.all_inner_texts() == [rows[0], rows[-1]]
    assert tab.page.locator("#changes .fall").count() >= 8
    tab.page.get_by_role("button", name="Show the first 12").click()
    assert tab.page.locator("#changes .fall").count() == len(run["timeline"]["series"])
    assert re.search("Added: .*x7", text_of(tab, "#changes .note[role=status]"))

    later = tab.page.locator("#changes input[type=range]").last
    later.focus()
    tab.page.keyboard.press("ArrowLeft")
    assert outputs.all_inner_texts()[1] == rows[-2]

    tab.page.get_by_role("button", name="Previous event").click()
    assert "around the drift event at row" in text_of(tab, "#changes .note[role=status]")


def test_ranks_tell_who_is_where(tab):
    open_unfolded(tab, page_of("drift"))
    tab.page.locator("#ranks .bump-marks text").first.hover()
    assert re.search(r"rank \d+ now", tip(tab, "ranks"))


def test_drift_says_what_moved(tab):
    open_unfolded(tab, page_of("drift"))
    said = text_of(tab, "#drift")
    assert re.search(r"Important and drifting x7 mean shifted by \+[\d.]+ SD, spread ×", said)
    events = summary_of("drift")["events"]
    changed = [one for one in events if one["severity"] == "strong" or one.get("came")]
    assert tab.page.locator("#alarms tbody tr").count() == min(8, len(changed)) or 1


def test_events_that_changed_nothing_are_folded(tab, tmp_path):
    run = deepcopy(summary_of("drift"))
    event = {"row": 900, "last_row": 1500, "batch": 9, "n_alarms": 3, "strength": 3.0}
    some = {"features": ["x1", "x2"], "severity": "strong", "came": ["x7"], "left": ["x3"]}
    weak = {"features": [], "severity": "weak", "n_alarms": 1}
    flip = {"features": [], "severity": "clear", "flipped": ["x5"], "last_row": 900}
    run["events"] = [event | some, event | flip, event | weak, event | weak | {"row": 9000}]
    tab.open(written(tmp_path, run))
    rows = tab.page.locator("#alarms tbody tr")
    assert rows.count() == 2
    assert "900 to 1,500 x1 x2 strong added x7 dropped x3" in text_of(tab, "#alarms tbody")
    assert "all features clear changed sign x5" in text_of(tab, "#alarms tbody")
    assert "and 2 more events that left the selection unchanged" in text_of(tab, "#alarms")
    tab.page.get_by_role("button", name="Show all 4").click()
    assert rows.count() == 4
    assert "selection unchanged" in text_of(tab, "#alarms tbody")


def test_page_has_four_parts_and_its_details_are_folded(tab):
    tab.open(page_of("drift"))
    parts = ["Selected now", "What changed", "How well they predict", "Details"]
    assert tab.page.locator("h2.part").all_inner_texts() == parts
    folded = tab.page.locator("section.folded").evaluate_all("all => all.map(one => one.id)")
    assert folded == ["drift", "ranks", "features", "health"]
    assert tab.page.locator(".folded .body:visible").count() == 0
    first = tab.page.locator("h2.part:nth-of-type(2) + section")
    assert first.get_attribute("id") == "alarms"
    assert "second" not in text_of(tab, "#now .tiles")


def test_bars_are_in_the_order_of_their_length(tab, tmp_path):
    changed = deepcopy(summary_of("drift"))
    changed["now"]["importance"] = changed["now"]["importance"][::-1]
    changed["now"]["selected"] = [True for _ in changed["now"]["selected"]]
    tab.open(written(tmp_path, changed))
    shown = tab.page.locator("#now .board tbody td:nth-child(5)").all_inner_texts()
    sizes = [abs(float(text.replace("−", "-"))) for text in shown]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == 12


def test_a_constant_column_has_no_band_and_is_not_shown_first(tab, tmp_path):
    """Of a column that has had one value only, the interval is that of the prior."""
    changed = deepcopy(summary_of("drift"))
    series = changed["timeline"]["series"]
    for one in series[:2]:
        one["importance"] = [0.0] * len(one["importance"])
        one["uncertainty"] = [50.0] * len(one["uncertainty"])
    tab.open(written(tmp_path, changed))
    assert not {one["name"] for one in series[:2]} & {chip.split()[0] for chip in chips(tab)}
    tab.page.get_by_role("combobox").fill(series[0]["name"])
    tab.page.keyboard.press("Enter")
    hover(tab, "#importance .u-over", 0.5, 0.5)
    assert re.search(rf"{series[0]['name']} 0$", tip(tab, "importance"))


def test_drift_names_what_it_leaves_out(tab, tmp_path):
    changed = deepcopy(summary_of("drift"))
    drift = changed["drift"]
    drift["moved"][-1], drift["spread"][-1], drift["drift"][-1] = 0.0, 1.0, 0.0
    drift["drift"][-2] = None
    changed["counts"]["features"] += 3
    open_unfolded(tab, written(tmp_path, changed))
    said = re.sub("[\u2068\u2069]", "", text_of(tab, "#drift"))
    constant, late = drift["name"][-1], drift["name"][-2]
    assert f"Not shown: 1 constant feature ({constant}); 1 feature without variation" in said
    assert f"({late}); 3 other features not present in both periods." in said
    assert tab.page.locator("#drift circle:not(.ring)").count() == len(drift["name"]) - 2


def test_a_half_without_another_takes_the_whole_width(tab, tmp_path):
    changed = deepcopy(summary_of("drift"))
    changed["scores"]["series"] = {}
    tab.open(written(tmp_path, changed))
    wide = tab.page.locator("#stability").bounding_box()["width"]
    assert wide == tab.page.locator("#importance").bounding_box()["width"]


def written(tmp_path, *summaries):
    """A page of summaries that were changed."""
    path = tmp_path / "changed.html"
    path.write_text(page(page_data(summaries)), encoding="utf-8")
    return path


def test_without_intervals_nothing_is_said_of_them(tab):
    tab.open(page_of("as published"))
    assert "95 %" not in text_of(tab, "#importance")
    assert "uncertainty" not in text_of(tab, "#changes")


def test_where_nothing_stands_out_from_noise_nothing_matters_and_moves(tab, tmp_path):
    changed = deepcopy(summary_of("drift"))
    changed["counts"]["above_noise"] = 0
    changed["now"]["above_noise"] = [False for _ in changed["now"]["place"]]
    open_unfolded(tab, written(tmp_path, changed))
    assert "none counts as important" in text_of(tab, "#drift")
    assert tab.page.locator("#drift .dot-harmful, #drift .dot-steady-strong").count() == 0


def test_scores_of_an_alarm_are_called_what_they_are(tab, tmp_path):
    """R2 cannot be had over some batches: the mean absolute error is told."""
    changed = deepcopy(summary_of("numbers"))
    assert changed["scores"]["name"] == "r2"
    sides = {"before": {"mae": 86_730.0, "batches": 20}, "after": {"mae": 8.5, "batches": 20}}
    event = {"row": 900, "last_row": 900, "batch": 9, "features": [], "strength": 9.0}
    changed["events"] = [event | sides | {"severity": "strong", "n_alarms": 1}]
    tab.open(written(tmp_path, changed))
    assert "mean absolute error" in text_of(tab, "#alarms thead")
    assert "86,730 → 8.500" in text_of(tab, "#alarms tbody")


def test_a_ninth_feature_takes_the_place_of_the_first(tab):
    open_unfolded(tab, page_of("pixels"))

    def shown():
        return [chip.split()[0] for chip in tab.page.locator("#importance .chip").all_inner_texts()]

    before = shown()
    others = [name for name in summary_of("pixels")["now"]["name"] if name not in before][:4]
    for name in others:
        tab.page.locator("#features").get_by_role("button", name=name, exact=True).click()
    assert len(before) == 5
    assert shown() == [*before[1:], *others]


def zoom(tab, low, high):
    """Mark a part of the chart of importances, in shares of its width."""
    for across, press in ((low, tab.page.mouse.down), (high, tab.page.mouse.up)):
        hover(tab, "#importance .u-over", across, 0.5)
        press()


def ends(tab):
    """The rows at both ends of the chart of importances."""
    found = []
    for across in (0.001, 0.999):
        hover(tab, "#importance .u-over", across, 0.5)
        found.append(int(tip(tab, "importance").split()[1].replace(",", "")))
    return found


def test_dragging_zooms_and_a_double_click_shows_all_again(tab):
    tab.open(page_of("drift"))
    first, last = ends(tab)
    zoom(tab, 0.6, 0.9)
    low, high = ends(tab)
    assert first < 0.5 * last < low < high < last
    tab.page.locator("#importance .u-over").dblclick()
    assert ends(tab) == [first, last]


def test_a_run_has_a_zoom_and_picks_of_its_own(tab, tmp_path):
    tab.open(written(tmp_path, summary_of("drift"), summary_of("classes")))
    zoom(tab, 0.6, 0.9)
    tab.page.locator("#importance .chip").first.click()
    tab.page.get_by_role("button", name="classes", exact=True).click()
    for key, row in (("Home", "row 100"), ("End", "row 2,000")):
        tab.page.locator("#importance .plot").focus()
        tab.page.keyboard.press(key)
        assert tip(tab, "importance").startswith(f"{row} ")
    assert tab.page.locator("#importance .chip").count() == 5


def test_a_name_from_right_to_left_turns_nothing_around(tab, tmp_path):
    """What follows U+202E would be written backwards."""
    changed = deepcopy(summary_of("drift"))
    changed["sentence"] = ["since row 7 ", {"feature": "\u202eevil"}, " has replaced ", "age."]
    tab.open(written(tmp_path, changed))
    left, right = tab.page.evaluate(
        """() => [...document.querySelector(".sentence").childNodes]
                 .filter((node) => node.nodeType === Node.TEXT_NODE && node.data.includes("e"))
                 .slice(-2).map((node) => {
                   const range = new Range();
                   range.selectNodeContents(node);
                   return range.getBoundingClientRect().x;
                 })"""
    )
    assert left < right


def test_picture_tells_each_pixel(tab):
    tab.open(page_of("pixels"))
    hover(tab, "#picture canvas", 0.5 / 28, 0.5 / 28)
    assert re.match(r"p0 line 1, column 1 importance", tip(tab, "picture"))
    tab.page.locator("#picture canvas").focus()
    tab.page.keyboard.press("ArrowRight")
    assert re.match(r"p1 line 1, column 2 importance", tip(tab, "picture"))


def test_curves_tell_by_pointer_by_keys_and_as_a_table(tab):
    tab.open(page_of("relations"))
    curves = summary_of("relations")["relations"]["curves"]
    assert [one["name"] for one in curves] == ["dose", "price"]
    assert tab.page.locator("#curves h4").all_inner_texts() == ["dose", "price"]
    first = curves[0]
    before = tab.page.locator("#curves svg").first.locator(".curve-line.before")
    assert before.count() == len(first["rows"]) - 1 > 0
    faint = before.evaluate_all("all => all.map(one => Number(one.getAttribute('opacity')))")
    assert faint == sorted(faint)

    def said(place):
        numbers = first["values"][-1][place], first["effect"][-1][place]
        value, effect = (f"{number:.3g}".replace("-", "−") for number in numbers)
        return value, effect

    tab.page.locator("#curves svg").first.focus()
    tab.page.keyboard.press("ArrowRight")
    tab.page.keyboard.press("ArrowRight")
    told = tip(tab, "curves")
    assert told.startswith("dose at −")
    assert f": {said(1)[1]} 95 % interval" in told
    assert re.search(r"at row [\d,]+$", told)
    tab.page.keyboard.press("Escape")
    assert tab.page.locator("#curves .tip:visible").count() == 0
    hover(tab, "#curves svg", 0.99, 0.5)
    assert f": {said(-1)[1]} 95 % interval" in tip(tab, "curves")

    tab.page.locator("#curves summary").click()
    cells = tab.page.locator("#curves tbody tr")
    expect(cells).to_have_count(sum(len(one["values"][-1]) for one in curves))
    assert cells.first.inner_text().split("\t")[:3] == ["dose", *said(0)]


def test_pairs_are_a_map_with_signs_and_a_table(tab):
    tab.open(page_of("relations"))
    (pair,) = summary_of("relations")["relations"]["pairs"]
    assert {pair["first"], pair["second"]} == {"age", "income"}
    assert tab.page.locator("#pairs .sign").all_text_contents() == ["+"]
    tab.page.locator("#pairs svg").focus()
    tab.page.keyboard.press("ArrowDown")
    told = re.sub("[\u2068\u2069]", "", tip(tab, "pairs"))
    assert told.startswith(f"age × income importance {pair['importance']:.3g}, 95 % interval ")
    assert f"since row {pair['since']:,}" in told
    cells = tab.page.locator("#pairs tbody tr").first.inner_text().split()
    assert cells[:4] == ["age", "×", "income", f"{pair['importance']:.3g}"]


def test_many_pairs_are_folded_and_the_map_has_a_bound(tab, tmp_path):
    changed = deepcopy(summary_of("relations"))
    (pair,) = changed["relations"]["pairs"]
    numbers = {"importance": -0.5, "low": -0.6, "high": -0.4}
    changed["relations"]["pairs"] = [pair] + [
        pair | numbers | {"first": f"left {i}", "second": "r" * 200 + str(i)} for i in range(39)
    ]
    tab.open(written(tmp_path, changed))
    tab.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    tab.scroll_through()
    assert tab.page.evaluate("document.scrollingElement.scrollWidth") <= NARROW[0]
    assert tab.page.locator("#pairs rect:not(.none, .cursor)").count() == 15
    assert "25 more in the table" in text_of(tab, "#pairs .legend")
    assert tab.page.locator("#pairs tbody tr").count() == 12
    tab.page.get_by_text("Show all 40").click()
    expect(tab.page.locator("#pairs tbody tr")).to_have_count(52)


def column(tab, place):
    cells = tab.page.locator(f"#features tbody td:nth-child({place})")
    return [text.strip() for text in cells.all_inner_texts()]


def test_table_sorts_filters_and_exports(tab, tmp_path):
    open_unfolded(tab, page_of("awkward names"))
    now = summary_of("awkward names")["now"]
    assert column(tab, 1) == [str(rank) for rank in sorted(now["rank"])]
    tab.page.locator("#features th button", has_text=re.compile("^feature$")).click()
    shown = column(tab, 2)
    assert shown == sorted(shown)
    tab.page.locator("#features th button", has_text=re.compile("^feature$")).click()
    assert column(tab, 2) == shown[::-1]
    tab.page.get_by_label("Filter features by name").fill("HÖHE")
    assert column(tab, 2) == ['höhe, in "m"']

    with tab.page.expect_download() as started:
        tab.page.get_by_role("button", name="Export CSV").click()
    started.value.save_as(tmp_path / "saved.csv")
    with (tmp_path / "saved.csv").open(encoding="utf-8", newline="") as file:
        saved = list(csv.DictReader(file))
    assert [row["name"] for row in saved] == now["name"]
    assert [float(row["importance"]) for row in saved] == now["importance"]


def test_keyboard_stays_where_it_was_after_a_pick(tab):
    open_unfolded(tab, page_of("drift"))
    for buttons in (
        "#features tbody button",
        "#features th button",
        "#changes .fall button",
        ".chip",
    ):
        tab.page.locator(buttons).nth(1).focus()
        tab.page.keyboard.press("Enter")
        assert tab.page.evaluate("one => document.activeElement.matches(one)", buttons), buttons


def test_keyboard_reaches_all_that_can_be_done(tab):
    open_unfolded(tab, page_of("drift"))
    reached = []
    for _ in range(150):
        tab.page.keyboard.press("Tab")
        reached.append(
            tab.page.evaluate(
                """() => { const one = document.activeElement;
                     return [one.closest("section")?.id ?? "", one.tagName,
                             one.getAttribute("aria-label") || one.innerText]; }"""
            )
        )
        if reached[-1][1] == "BODY":
            break
    wanted = [
        ("importance", "INPUT", "Search features"),
        ("importance", "BUTTON", "Remove"),
        ("importance", "DIV", "Importance over time"),
        ("members", "CANVAS", "features over rows"),
        ("changes", "INPUT", "from row"),
        ("features", "INPUT", "Filter"),
        ("features", "BUTTON", "Export CSV"),
        ("features", "BUTTON", "importance"),
        ("features", "BUTTON", "x7"),
    ]
    for panel, tag, said in wanted:
        assert any(p == panel and t == tag and said in (s or "") for p, t, s in reached), said
