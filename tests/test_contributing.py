"""Every recipe of CONTRIBUTING.md, followed to the letter in a copy of the sources."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^## A new (\w+)\n(.*?)(?=^## |\Z)", PAGE, re.DOTALL | re.MULTILINE))
STEP = re.compile(
    r"^(?:New file `(?P<new>[^`]+)`"
    r"|In `(?P<old>[^`]+)`, after (?P<quote>[`\"])(?P<line>[^\n]+)(?P=quote)"
    r"|(?P<then>Then)):\n\n```\w*\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
# How many files a recipe may touch.
MOST_FILES = {"family": 2, "selector": 4, "metric": 2, "source": 2, "command": 2}


def insert(path, line, text):
    """Put text below the last line that begins with these words, whatever its indentation."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    found = [i for i, each in enumerate(lines) if each.strip().startswith(line)]
    assert found, f"no line of {path} begins with {line}"
    lines.insert(found[-1] + 1, text)
    path.write_text("".join(lines), encoding="utf-8")


def run(folder, *command):
    environment = os.environ | {"PYTHONPATH": str(folder / "src")}
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_a_recipe_for_everything_that_is_often_added():
    assert set(RECIPES) == set(MOST_FILES)


@pytest.mark.parametrize("what", MOST_FILES)
def test_a_recipe_touches_few_files(what):
    steps = [step.groupdict() for step in STEP.finditer(RECIPES[what])]
    assert len({step["new"] or step["old"] for step in steps} - {None}) <= MOST_FILES[what]
    assert sum(step["then"] is not None for step in steps) == 1
    assert RECIPES[what].count("```") == 2 * len(steps), "a block is not part of a step"


# One shows that recipes can be followed; of others, something is compiled, or learnt by all checks.
EACH = [
    pytest.param(what, marks=[] if what == "command" else [pytest.mark.slow]) for what in MOST_FILES
]


@pytest.mark.parametrize("what", EACH)
def test_a_recipe_works(what, tmp_path):
    # With the compiled kernels: numba takes them while the sources are as old as they were.
    shutil.copytree(
        ROOT / "src" / "fires",
        tmp_path / "src" / "fires",
        ignore=shutil.ignore_patterns("*.pyc"),
    )
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns("results"))
    for step in STEP.finditer(RECIPES[what]):
        if step["new"]:
            path = tmp_path / step["new"]
            assert not path.exists()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(step["text"], encoding="utf-8")
            if path.name.startswith("test_"):
                run(tmp_path, "-m", "pytest", "-q", str(path))
        elif step["old"]:
            insert(tmp_path / step["old"], step["line"], step["text"])
        else:
            run(tmp_path, "-c", "import fires, sys; sys.exit('src' not in fires.__file__)")
            (tmp_path / "use.py").write_text(step["text"], encoding="utf-8")
            run(tmp_path, "use.py")
