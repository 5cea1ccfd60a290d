"""The browser of the tests hears and sees what a page does wrong."""

import pytest

POLICY = "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'\">"


@pytest.mark.parametrize(
    ("page", "said"),
    [
        ("<script>throw new Error('oh')</script>", "error: oh"),
        ("<script>console.warn('hm')</script>", "console warning: hm"),
        ("<script>alert('hi')</script>", "dialog: hi"),
        (f"{POLICY}<p style='top: 0'>", "policy: style-src-attr: inline"),
    ],
)
def test_complaints_are_heard(browser, tmp_path, page, said):
    (tmp_path / "page.html").write_text(f"<!doctype html><title>x</title>{page}")
    with browser.tab() as tab:
        tab.open(tmp_path / "page.html")
        assert said in tab.complaints


def test_requests_and_findings_are_seen(browser, tmp_path):
    (tmp_path / "page.html").write_text(
        '<!doctype html><html lang="en"><title>x</title><img src="other.png">'
    )
    with browser.tab() as tab:
        tab.open(tmp_path / "page.html")
        assert tab.requests == [(tmp_path / name).as_uri() for name in ("page.html", "other.png")]
        assert any("critical image-alt" in finding for finding in tab.findings())
