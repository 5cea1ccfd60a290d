"""What the README and the page on selectors say of them."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pytest

import fires

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs" / "selectors.md"]


def stream():
    """What the README's first lines learn from."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 25))
    return [(X, X[:, 0] > 0)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert blocks
    names, printed = {"stream": stream()}, StringIO()
    with redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, page.name, "exec"), names)
    said = re.findall(r"^ *print\(.*\)  # (.*)$", "\n".join(blocks), re.MULTILINE)
    lines = list(dict.fromkeys(printed.getvalue().splitlines()))  # a loop may print it again
    assert lines == said


def table(page):
    """The lines of the table of selectors, without the one that rules it."""
    _, after = page.read_text(encoding="utf-8").split("| name | paper ", 1)
    first, _, *others = after.split("\n\n", 1)[0].splitlines()
    return ["| name | paper " + first, *others]


def test_every_selector_is_in_the_table_once():
    assert table(PAGES[0]) == table(PAGES[1])
    heading, *rows = table(PAGES[0])
    n_columns = heading.count("|")
    assert all(row.replace("\\|", "").count("|") == n_columns for row in rows)
    named = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(fires.selectors.HOME)
