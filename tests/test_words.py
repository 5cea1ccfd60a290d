"""The words of the field: what is not said any more, in names and in what a user reads."""

import ast
import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "fires"

# Names of parts and variables that said nothing to a reader of the field. Public parameters stay.
NAMES = {
    *("Gate", "book", "said", "own_mu", "Leading", "Looks", "is_time", "reach", "there", "away"),
    *("announced", "faded", "_hear_surprise", "_tell_presence", "handed_over", "caught_up"),
    *("_MOST", "_ENOUGH", "_HOME", "patience"),
}
PUBLIC = {("metrics/recovery.py", "patience")}  # a parameter of fires.metrics.recoveries

PHRASES = re.compile(
    r"features tell|tell has changed|\bleft: |\bcame: |above noise|chance would|\bspeaks? for"
    r"|zero with confidence|surely better|target of rows before|\bdoubt|out of the learning"
    r"|maybe it says nothing|asks nobody|same as a table|member since|\bborne\b|yours to keep"
    r"|\btwins?\b|tells how|\b(bend|slope|pull)s?\b|rows of parameters|Holm did",
    re.IGNORECASE,
)
# A string of one word is a key: of JSON, of a state, of sums that travel.
KEY = re.compile(r"[\w?-]+(\.js)?|--keep-doubtful|own (slope|bend)")


def messages(path):
    """Strings of a module that may reach a user: all but docstrings and keys."""
    tree = ast.parse(path.read_text())
    documentation = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in documentation and not KEY.fullmatch(node.value):
            yield node.value


@pytest.mark.parametrize("room", sorted(path.name for path in SRC.iterdir() if path.is_dir()))
def test_names_and_messages_use_the_words_of_the_field(room):
    found = []
    for path in SRC.joinpath(room).rglob("*.py"):
        at = path.relative_to(SRC).as_posix()
        tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        names = {token.string for token in tokens if token.type == tokenize.NAME}
        found += [(at, name) for name in names & NAMES if (at, name) not in PUBLIC]
        found += [(at, text) for text in messages(path) if PHRASES.search(text)]
    for path in SRC.joinpath(room).rglob("*.js"):
        texts = re.findall(r"[\"`][A-Za-z][\w ,.:;'-]* [\w ,.:;'-]*", path.read_text())
        found += [(path.name, text) for text in texts if PHRASES.search(text)]
    assert not found


PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"^```.*?^```|^ {4}.*$|`[^`]*`", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_use_the_words_of_the_field(page):
    prose = CODE.sub("", page.read_text(encoding="utf-8"))
    assert not [found[0] for found in PHRASES.finditer(prose)]
