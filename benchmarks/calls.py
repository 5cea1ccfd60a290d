"""What is called while ``fires select FILE --out --report`` learns from 30 batches.

``measured`` is what a script that counts calls runs twice: the second time, all is imported and
compiled.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from fires.cli import main

_FOLDER = Path(tempfile.mkdtemp(prefix="fires-calls-"))
_N_ROWS, _N_FEATURES = 3_000, 30


def measured() -> None:
    """Select features of a file of 30 batches, with a folder and its page."""
    file, out = _FOLDER / "rows.csv", _FOLDER / "run"
    if not file.exists():
        rng = np.random.default_rng(0)
        X = rng.normal(size=(_N_ROWS, _N_FEATURES))
        y = X[:, 0] - X[:, 1] + rng.normal(size=_N_ROWS) > 0
        names = [*(f"x{j}" for j in range(_N_FEATURES)), "label"]
        np.savetxt(
            file, np.column_stack([X, y]), delimiter=",", header=",".join(names), comments=""
        )
    shutil.rmtree(out, ignore_errors=True)
    command = ["select", str(file), "--target", "label", "--out", str(out), "--report", "--quiet"]
    done = CliRunner().invoke(main, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
