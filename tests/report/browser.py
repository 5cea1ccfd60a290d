"""A real browser for tests: the system's chromium, and all that a page says and asks for.

def test_page_is_quiet(browser, tmp_path):
    with browser.tab() as tab:
        tab.open(tmp_path / "report.html")
        assert not tab.complaints
"""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
WIDE, NARROW = (1280, 900), (360, 740)

# What a content security policy refuses is an event; not all of them reach the console.
_NOTE_REFUSALS = """
window.refusedByPolicy = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.refusedByPolicy.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""


class Tab:
    """A page of the browser, as one user after the other has it: each finds it empty.

    Attributes
    ----------
    page : playwright.sync_api.Page
        To click, to hover, to ask.
    requests : list of str
        The address of everything that was asked for, the page itself first.
    """

    def __init__(self, page: Any):
        self.page = page
        self.requests: list[str] = []
        self._said: list[str] = []
        self._heard = {
            "console": self._console,
            "pageerror": lambda error: self._said.append(f"error: {error}"),
            "request": lambda request: self.requests.append(request.url),
            "dialog": self._dialog,
        }
        for event, hear in self._heard.items():
            page.on(event, hear)

    def leave(self) -> None:
        """Hear nothing more, and leave the page for the next one."""
        for event, hear in self._heard.items():
            self.page.remove_listener(event, hear)
        self.page.mouse.move(0, 0)
        self.page.goto("about:blank")

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning", "assert"):
            self._said.append(f"console {message.type}: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self._said.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def open(self, address: Path | str) -> None:
        """Open a file or an address, and wait until it is loaded."""
        self.page.goto(address.as_uri() if isinstance(address, Path) else address)

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings, dialogs, and what the content security policy refused."""
        refused = self.page.evaluate("window.refusedByPolicy")
        return self._said + [f"policy: {each}" for each in refused]

    def scroll_through(self) -> None:
        """Bring every part of the page into view once: what is drawn late is drawn then."""
        self.page.evaluate(
            """async () => {
                 // A tab that chromium takes for hidden draws no frames: nobody waits for ever.
                 const frame = () => new Promise((done) => {
                   requestAnimationFrame(done);
                   setTimeout(done, 500);
                 });
                 for (let y = 0; y < document.scrollingElement.scrollHeight; y += innerHeight) {
                   scrollTo(0, y); await frame(); await frame();
                 }
                 scrollTo(0, 0); await frame(); await frame();
               }"""
        )

    def findings(self) -> list[str]:
        """What axe-core finds: one line each, with where it is."""
        from axe_playwright_python.sync_playwright import Axe

        violations = (
            Axe().run(self.page, options={"resultTypes": ["violations"]}).response["violations"]
        )
        return [
            f"{each['impact']} {each['id']}: {node['target']} {node['failureSummary']}"
            for each in violations
            for node in each["nodes"]
        ]


class Chromium:
    """A chromium that runs until it is closed; each tab is as if it were the first."""

    def __init__(self, program: str):
        from playwright.sync_api import sync_playwright

        self._playwright = sync_playwright().start()
        self._browser = self._playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        self._pages: dict[float, Any] = {}
        self._loop = asyncio.get_running_loop()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Playwright's event loop is that of this thread meanwhile, and only meanwhile.

        It leaves its loop running, and ``asyncio.run`` of another test would refuse to start.
        """
        asyncio._set_running_loop(self._loop)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    @contextmanager
    def tab(
        self, *, size: tuple[int, int] = WIDE, theme: str = "light", sharpness: float = 1
    ) -> Iterator[Tab]:
        """An empty tab of a size and a theme ("light" or "dark").

        A page is used again, for a new one takes a second: no page of ours keeps anything in the
        browser. What has gone wrong may have left anything, and is closed.
        """
        page = self._pages.pop(sharpness, None) or self._new_page(sharpness)
        try:
            page.set_viewport_size({"width": size[0], "height": size[1]})
            page.emulate_media(color_scheme=theme, reduced_motion="reduce")
            tab = Tab(page)
            yield tab
            tab.leave()
        except BaseException:
            page.context.close()
            raise
        self._pages[sharpness] = page

    def _new_page(self, sharpness: float) -> Any:
        page = self._browser.new_context(device_scale_factor=sharpness).new_page()
        page.add_init_script(_NOTE_REFUSALS)
        return page

    def close(self) -> None:
        """End the browser."""
        with self.in_use():
            self._browser.close()
            self._playwright.stop()


def program() -> str | None:
    """Where the system's chromium is; None if there is none."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Chromium]:
    """One for all tests of a process."""
    pytest.importorskip("playwright", reason="needs playwright")
    found = program()
    if found is None:
        pytest.skip("needs chromium: apt-get install chromium")
    chromium = Chromium(found)
    asyncio._set_running_loop(None)
    yield chromium
    chromium.close()


@pytest.fixture
def browser(chromium: Chromium) -> Iterator[Chromium]:
    with chromium.in_use():
        yield chromium
