import html
import json
import re

import pytest
from tests.report import runs
from tests.report.runs import SCRIPT

import fires
from fires import FIRES
from fires.core.errors import InputError
from fires.evaluation import SavedRun
from fires.evaluation.compare import compare
from fires.report import show
from fires.streams import KnownTruth


@pytest.fixture(scope="module")
def found():
    return compare(
        lambda: KnownTruth(800, 6, 2, random_state=0), {SCRIPT: lambda seed: FIRES(2)}, seeds=1
    )


def framed(page):
    """What the frame holds, as the browser reads it."""
    (frame,) = re.findall(r'srcdoc="([^"]*)"', page._repr_html_())
    return html.unescape(frame)


# Pages


@pytest.mark.parametrize("kind", ["classes", "awkward names", "no step", "numbers"])
def test_a_run_is_shown_in_a_frame_of_its_own(kind):
    folder = runs.ALL[kind]()
    page = show(folder)
    shown = page._repr_html_()
    assert shown.startswith("<iframe ")
    assert 'sandbox="allow-scripts allow-downloads"' in shown
    assert "<script" not in shown  # all of it is inside the attribute
    assert framed(page) == page.html
    assert page.html.startswith("<!doctype html>")


def test_path_text_and_object_show_the_same_run():
    folder = runs.of_classes()
    for one in (folder, str(folder), SavedRun(folder)):
        assert show(one).title.startswith(folder.name)


def test_several_runs_are_on_one_page():
    page = show(runs.of_classes(), runs.of_numbers())
    assert "classes" in page.title
    assert "numbers" in page.title


def test_a_comparison_is_shown(found, tmp_path):
    page = show(found)
    assert '"comparison":{' in page.html
    assert "<script>alert" not in page.html


def test_a_folder_of_a_comparison_is_shown(found, tmp_path):
    (tmp_path / "compare.json").write_text(json.dumps(found.as_dict()))
    assert tmp_path.name in show(tmp_path).title


def test_a_page_shows_one_comparison(found, tmp_path):
    with pytest.raises(TypeError, match="a Comparison is shown alone"):
        show(runs.of_classes(), found)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "compare.json").write_text(json.dumps(found.as_dict()))
    with pytest.raises(InputError, match="two is a second comparison: a page shows one"):
        show(tmp_path / "one", tmp_path / "two")


def test_it_is_saved_and_says_where_to_look(tmp_path):
    page = show(runs.of_classes(), height=500)
    path = page.save(str(tmp_path / "report.html"))
    assert path.read_text(encoding="utf-8") == page.html
    assert 'save("report.html")' in str(page)
    assert 'height="500"' in page._repr_html_()


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="holds no run"):
        show(tmp_path)
    with pytest.raises(TypeError, match="show needs a path, a SavedRun or a Comparison; got int"):
        show(3)


def test_public_names_are_there_and_others_are_not():
    assert fires.report.show is show
    assert fires.evaluation.SavedRun is SavedRun
    assert set(dir(fires.report)) >= {"ImportanceDisplay", "show"}
    with pytest.raises(AttributeError, match=r"fires\.report.*'shown'"):
        fires.report.shown  # noqa: B018


def test_the_frame_runs_in_a_notebook(browser, tmp_path):
    page = show(runs.of_awkward_names())
    notebook = tmp_path / "notebook.html"
    body = f"<!doctype html><html lang=en><title>n</title><body>{page._repr_html_()}</body></html>"
    notebook.write_text(body, encoding="utf-8")
    with browser.tab() as tab:
        tab.open(notebook)
        frame = tab.page.frame_locator("iframe")
        frame.locator("h1").wait_for()
        assert frame.locator("h1").inner_text() == "awkward"
        frame.locator("#now .sentence").wait_for()
        assert tab.complaints == []
        assert len(tab.requests) == 1 or set(tab.requests[1:]) <= {"about:srcdoc"}
