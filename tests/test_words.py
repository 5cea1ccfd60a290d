"""The words of the field: what is not said any more, in names and in what a user reads."""

import ast
import inspect
import io
import json
import re
import tokenize
from pathlib import Path

import pytest

import fires

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


ROOMS = sorted({path.relative_to(SRC).parts[0] for path in SRC.rglob("*.py")})
JAVASCRIPT = re.compile(r"//.*|\"[^\"\n]*\"|`[^`\n]*`")


@pytest.mark.parametrize("room", ROOMS)
def test_names_and_messages_use_the_words_of_the_field(room):
    found = []
    for path in [SRC / room] if room.endswith(".py") else SRC.joinpath(room).rglob("*.py"):
        at = path.relative_to(SRC).as_posix()
        tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
        names = {token.string for token in tokens if token.type == tokenize.NAME}
        found += [(at, name) for name in names & NAMES if (at, name) not in PUBLIC]
        found += [(at, text) for text in messages(path) if PHRASES.search(text)]
    for path in SRC.joinpath(room).rglob("*.js"):
        texts = (re.sub(r"\$\{[^}]*\}", "", one) for one in JAVASCRIPT.findall(path.read_text()))
        found += [(path.name, text) for text in texts if " " in text and PHRASES.search(text)]
    assert not found


REFERENCE = [page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md")]
DOCUMENTED = [
    *re.findall(r"^::: (fires\S*)$", "\n".join(REFERENCE), re.MULTILINE),
    *(f"fires.{name}" for name in fires.rivals.REGISTRY),
]
NO_PROSE = re.compile(r"``[^`]*``|:\w+:`[^`]*`|^ *(>>>|\.\.\.).*$|^ *[\w, ]+ : .*$", re.MULTILINE)


@pytest.mark.parametrize("full_name", DOCUMENTED)
def test_docstrings_of_the_reference_use_the_words_of_the_field(full_name):
    module, _, name = full_name.rpartition(".")
    thing = getattr(pytest.importorskip(module), name)
    members = inspect.getmembers(thing) if inspect.isclass(thing) else []
    public = [(name, thing), *(member for member in members if not member[0].startswith("_"))]
    texts = {label: NO_PROSE.sub("", inspect.getdoc(one) or "") for label, one in public}
    assert not [
        (label, found[0]) for label, text in texts.items() if (found := PHRASES.search(text))
    ]


PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*.ipynb")),
]
CODE = re.compile(r"^```.*?^```|^ {4}.*$|`[^`]*`", re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_use_the_words_of_the_field(page):
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n".join(
            "".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"
        )
    assert not [found[0] for found in PHRASES.finditer(CODE.sub("", text))]
