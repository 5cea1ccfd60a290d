"""Every example runs, and shows what it is there to show."""

import json
import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SHOWN = {
    "fraud": "after the change:  ['signal_3', 'signal_51', 'signal_8']",
    "sensors": "3 of 30 features are significantly non-zero",
    "words": "404 words: ['airdrop', 'crypto']",
    "pixels": "with 20 pixels",
    "comparing": "fires      accuracy",
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_script_shows_what_it_is_for(name, capsys):
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert SHOWN[name] in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "shown"),
    [("first_steps", "features are significantly non-zero"), ("drift", "batches after the drift")],
)
def test_a_notebook_runs_from_top_to_bottom(name, shown, capsys):
    cells = json.loads((EXAMPLES / f"{name}.ipynb").read_text(encoding="utf-8"))["cells"]
    names = {}
    for cell in cells:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []  # what a reader sees is what a run gives
            exec(compile("".join(cell["source"]), f"{name}.ipynb", "exec"), names)
    assert shown in capsys.readouterr().out
