"""The README and every page: the code they show runs, and prints what they say."""

import re
import shlex
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import click
import numpy as np
import pytest

from fires.bench.datasets import loading as datasets
from fires.bench.datasets.files import DataUnavailable, not_at_hand
from fires.cli import main
from fires.core.errors import MissingExtra

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
SAID = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
CODE = {page: BLOCK.findall(page.read_text(encoding="utf-8")) for page in PAGES}


def some_stream():
    """What the README's first lines learn from."""
    X = np.random.default_rng(0).normal(size=(40, 25))
    return [(X, X[:, 0] > 0)]


def case(page):
    trains_a_net = page.name == "models.md"
    return pytest.param(page, id=page.name, marks=[pytest.mark.slow] if trains_a_net else [])


@pytest.mark.parametrize("page", [case(page) for page in PAGES if CODE[page]])
def test_the_code_of_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    def fetch(info):
        raise not_at_hand(info, "tests do not download")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "fetch", fetch)
    names = {"stream": some_stream()}
    for block in CODE[page]:  # each goes on where the one before it has ended
        printed = StringIO()
        try:
            with redirect_stdout(printed):
                exec(compile(block, page.name, "exec"), names)
        except (DataUnavailable, MissingExtra) as error:
            pytest.skip(str(error))
        lines = list(dict.fromkeys(printed.getvalue().splitlines()))  # a loop may print it again
        assert lines == SAID.findall(block)


LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


def test_a_stranger_reads_the_readme_in_a_minute():
    assert len(PAGES[0].read_text(encoding="utf-8").splitlines()) <= 130


COMMAND = re.compile(
    r"^(?:    |\$ |.*[|] )(?:\$ )?(fires [a-z].*)$|`(fires [a-z][^`]*)`", re.MULTILINE
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_their_options_are_there(page):
    for found in COMMAND.findall(page.read_text(encoding="utf-8")):
        line = "".join(found).split("  #")[0].split(" | ")[0].split(" > ")[0]
        words, command = shlex.split(line.replace("...", "").rstrip("\\ "))[1:], main
        while isinstance(command, click.Group) and words and words[0] in command.commands:
            command, words = command.commands[words[0]], words[1:]
        assert command is not main or words[0].startswith("-"), line
        known = {
            name for option in command.params for name in (*option.opts, *option.secondary_opts)
        }
        for word in words:
            if word.startswith("--") and word not in ("--help", "--version"):
                assert word.split("=")[0] in known, line
