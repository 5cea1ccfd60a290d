"""What the page on selectors says of them."""

import re
from pathlib import Path

import fires

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "selectors.md"


def table(page):
    """The lines of the table of selectors, without the one that rules it."""
    _, after = page.read_text(encoding="utf-8").split("| name | paper ", 1)
    first, _, *others = after.split("\n\n", 1)[0].splitlines()
    return ["| name | paper " + first, *others]


def test_every_selector_is_in_the_table_once():
    heading, *rows = table(PAGE)
    n_columns = heading.count("|")
    assert all(row.replace("\\|", "").count("|") == n_columns for row in rows)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(dir(fires.rivals))
