"""Pictures of a run's page, in both themes and widths: ``python -m tests.report.screenshots``."""

import argparse
import tempfile
from pathlib import Path

from tests.report.browser import NARROW, WIDE, Chromium, program

from fires.report.page import write_page


def take(run: Path, out: Path, *, panel: str | None = None) -> list[Path]:
    """Write ``page-light-1280.png`` and the like; what was written comes back.

    Parameters
    ----------
    run : Path
        The folder of a run.
    out : Path
        The folder for the pictures; created if it does not exist.
    panel : str, optional
        The id of a panel; by default the whole page is taken.

    Returns
    -------
    list of Path
        The pictures.
    """
    found = program()
    if found is None:
        raise SystemExit("There is no chromium here: apt-get install chromium")
    out.mkdir(parents=True, exist_ok=True)
    pictures = []
    chromium = Chromium(found)
    try:
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "report.html"
            write_page([run], page)
            for theme in ("light", "dark"):
                for size in (WIDE, NARROW):
                    with chromium.tab(size=size, theme=theme) as tab:
                        tab.open(page)
                        tab.scroll_through()
                        pictures.append(out / f"{panel or 'page'}-{theme}-{size[0]}.png")
                        if panel is None:
                            tab.page.screenshot(path=pictures[-1], full_page=True)
                        else:
                            tab.page.locator(f"#{panel}").screenshot(path=pictures[-1])
    finally:
        chromium.close()
    return pictures


def main() -> None:
    """Read the command line and take the pictures."""
    parser = argparse.ArgumentParser(prog="python -m tests.report.screenshots", description=__doc__)
    parser.add_argument("run", type=Path, help="the folder of a run")
    parser.add_argument("out", type=Path, help="the folder for the pictures")
    parser.add_argument("--panel", help="the id of one panel, such as curves")
    given = parser.parse_args()
    for picture in take(given.run, given.out, panel=given.panel):
        print(picture)


if __name__ == "__main__":
    main()
