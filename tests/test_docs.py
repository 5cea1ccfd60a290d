"""The README and every page: their code and commands run, and print what the page says."""

import doctest
import re
import shlex
import sys
from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path
from types import ModuleType

import click
import numpy as np
import pytest
from click.testing import CliRunner

import fires
from fires.bench.datasets import loading as datasets
from fires.bench.datasets.files import DataUnavailable, not_at_hand
from fires.cli import main
from fires.core.errors import MissingExtra

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SHELL = re.compile(r"^\$ fires (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
SAID = re.compile(r"^ *print\(.*\)  # (.*)$", re.MULTILINE)
CODE = {page: BLOCK.findall(page.read_text(encoding="utf-8")) for page in PAGES}


def some_stream():
    """What the README's first lines learn from."""
    X = np.random.default_rng(0).normal(size=(40, 25))
    return [(X, X[:, 0] > 0)]


def follow(block):
    """Run the commands of a block, each of which prints the lines below it; ... is any text."""
    for line, shown in SHELL.findall(block):
        result = CliRunner().invoke(main, shlex.split(line))
        assert result.exit_code == 0, result.output
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert doctest.OutputChecker().check_output(shown, result.stdout, flags), result.stdout


def name_of(page):
    return page.relative_to(ROOT).as_posix().removeprefix("docs/")


def case(page):
    takes_long = name_of(page) in {"models.md", "fires-or.md"}
    return pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] if takes_long else [])


@pytest.mark.parametrize("page", [case(page) for page in PAGES if CODE[page]])
def test_the_code_of_a_page_runs_and_prints_what_it_says(page, tmp_path, monkeypatch):
    def fetch(info):
        raise not_at_hand(info, "tests do not download")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets, "fetch", fetch)
    module = ModuleType("page")  # where classes of a page are found again by pickle
    monkeypatch.setitem(sys.modules, "page", module)
    names = vars(module)
    names["stream"] = some_stream()
    for language, block in CODE[page]:  # each goes on where the one before it has ended
        if language == "console":
            follow(block)
            continue
        printed = StringIO()
        try:
            with redirect_stdout(printed):
                exec(compile(block, page.name, "exec"), names)
        except (DataUnavailable, MissingExtra) as error:
            pytest.skip(str(error))
        lines = list(dict.fromkeys(printed.getvalue().splitlines()))  # a loop may print it again
        assert lines == SAID.findall(block)


IMPORT = re.compile(r"^ *(from fires[\w.]* import \w.*)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_imports_is_there(page):
    """Also in blocks that need a cluster or a broker, and do not run here."""
    for line in IMPORT.findall(page.read_text(encoding="utf-8")):
        with suppress(MissingExtra):
            exec(line, {})


LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_between_pages_lead_somewhere(page):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("name", fires.rivals.REGISTRY)
def test_every_selector_has_a_page(name):
    page = ROOT / "docs" / "methods" / f"{name.lower()}.md"
    assert page.read_text(encoding="utf-8").startswith(f"# {name}\n")


def test_every_public_name_is_in_the_reference():
    pages = [page.read_text(encoding="utf-8") for page in (ROOT / "docs/reference").glob("*.md")]
    shown = {name for page in pages for name in re.findall(r"^::: fires\S*\.(\w+)$", page, re.M)}
    parts = ("checks", "evaluation", "metrics", "models", "predictors", "report", "streams")
    public = {name for part in parts for name in getattr(fires, part).__all__} | set(fires.__all__)
    assert public - shown - {"__version__", *fires.rivals.REGISTRY} == set()


def test_a_stranger_reads_the_readme_in_a_minute():
    assert len(PAGES[0].read_text(encoding="utf-8").splitlines()) <= 130


COMMAND = re.compile(
    r"^(?:    |\$ |.*[|] )(?:\$ )?(fires [a-z].*)$|`(fires [a-z][^`]*)`", re.MULTILINE
)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
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
