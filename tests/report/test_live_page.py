"""The live page in a real browser: it goes on with the run, and keeps what is picked."""

import re
import subprocess

import polars as pl
import pytest
from playwright.sync_api import expect
from tests.report import runs
from tests.report.viewers import FIRES, PATIENCE, rows, served, wait_until

pytest.importorskip("uvicorn")

SOON = {"timeout": 1000 * PATIENCE}


@pytest.fixture
def going_on(tmp_path):
    """A run that goes on with its file as long as that grows: folder, file and process."""
    file, out = tmp_path / "events.csv", tmp_path / "run"
    file.write_text(rows(400))
    options = ("--target", "label", "--batch-size", "20", "--keep-doubtful", "--quiet", "--follow")
    child = subprocess.Popen([*FIRES, "select", file, *options, "--out", out])
    try:
        wait_until((out / "steps.jsonl").exists)
        yield out, file, child
    finally:
        child.kill()
        child.wait()


def add(file, first, many):
    with file.open("a") as more:
        more.write(rows(many, first, header=False))


def test_live_page_goes_on_and_keeps_what_is_picked(browser, going_on):
    out, file, child = going_on
    with served(out) as server, browser.tab() as tab:
        page = tab.page
        tab.open(server.address)
        read = page.locator(".tile", has_text="rows read").locator("b")
        expect(read).to_have_text("400", **SOON)
        expect(page.locator(".link")).to_have_text("live", **SOON)

        page.get_by_role("button", name="Remove x0").click()
        page.locator("#changes button", has_text="Whole run").click()
        page.locator("#members summary").click()
        chart = page.locator("#importance .u-over")
        chart.hover()
        tip = page.locator("#importance .tip")
        expect(tip).to_be_visible()
        add(file, 400, 600)

        expect(read).to_have_text("1,000", **SOON)
        expect(tip).to_be_visible()
        expect(tip).to_contain_text(re.compile(r"row (4|5|6)\d\d"))
        assert page.locator("#importance .chip").count() == 1
        assert page.locator("#changes output").all_inner_texts() == ["row 20", "row 1,000"]
        expect(page.locator("#members tbody")).to_contain_text("1 to 1,000")
        page.locator("#importance .plot").focus()
        page.keyboard.press("End")
        expect(page.locator("#importance .tip")).to_contain_text("row 1,000")

        box = chart.bounding_box()
        at = {share: box["x"] + share * box["width"] for share in (0.01, 0.5, 0.9)}
        page.mouse.move(at[0.5], box["y"] + 50)
        page.mouse.down()
        page.mouse.move(at[0.9], box["y"] + 50)
        add(file, 1_000, 200)
        expect(read).to_have_text("1,200", **SOON)
        page.mouse.up()
        page.mouse.move(at[0.01], box["y"] + 50)
        expect(tip).to_contain_text(re.compile(r"row (4|5|6)\d\d"))

        child.kill()
        expect(page.locator(".status")).to_contain_text("killed", **SOON)
        assert tab.complaints == []
        assert all(address.startswith(server.address) for address in tab.requests)


def test_curves_come_to_a_live_page_and_what_is_pointed_at_stays(browser, tmp_path):
    table, score = runs.relations_table()
    lines = table.with_columns(label=pl.Series(score > 0).cast(pl.Int8)).write_csv().splitlines()
    file, out = tmp_path / "events.csv", tmp_path / "run"
    file.write_text("\n".join(lines[:201]) + "\n")
    options = ("--target", "label", "--top", "5", "--relations", "auto", "--quiet", "--follow")
    child = subprocess.Popen([*FIRES, "select", file, *options, "--out", out])
    try:
        wait_until((out / "steps.jsonl").exists)
        with served(out) as server, browser.tab() as tab:
            tab.open(server.address)
            read = tab.page.locator(".tile", has_text="rows read").locator("b")
            expect(read).to_have_text("200", **SOON)
            assert tab.page.locator("#curves, #pairs").count() == 0
            with file.open("a") as more:
                more.write("\n".join(lines[201:2_001]) + "\n")
            expect(tab.page.locator("#pairs tbody")).to_contain_text("income", **SOON)
            expect(tab.page.locator("#curves h4", has_text="dose")).to_be_visible(**SOON)
            expect(read).to_have_text("2,000", **SOON)
            tab.page.locator("#curves svg").first.focus()
            tab.page.keyboard.press("ArrowRight")
            tip = tab.page.locator("#curves .tip").first
            expect(tip).to_be_visible()
            with file.open("a") as more:
                more.write("\n".join(lines[2_001:]) + "\n")
            expect(read).to_have_text("3,000", **SOON)
            expect(tip).to_be_visible()
            assert tab.complaints == []
    finally:
        child.kill()
        child.wait()
