"""How long a user waits before anything is learnt: whole processes, timed from outside.

``import fires`` is an absolute figure, the start of the interpreter included. First use is one
batch through a new selector, over what the two libraries behind it need to be imported.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from time import perf_counter

import numpy as np

from benchmarks.timing import Ratio, Row, show, shown, take_turns

ROUNDS, IMPORT_BELOW, FIRST_USE_WITHIN = 7, 0.15, 0.3
LATER = "torch polars pyspark river matplotlib fastapi numba sklearn"
LIBRARIES = "import sklearn.base, numba"
FIRST_USE = """
import numpy as np
from fires import FIRES
X = np.linspace(0.0, 1.0, 2000).reshape(100, 20)
FIRES(10).partial_fit(X, np.arange(100) % 2).weights_
"""
LOADED = f"import sys, fires; print(*[name for name in {LATER.split()} if name in sys.modules])"


def python(code: str, **environment: str) -> str:
    command = [sys.executable, "-c", code]
    done = subprocess.run(
        command, env=os.environ | environment, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def main() -> list[Row]:
    (package,) = find_spec("fires").submodule_search_locations
    subprocess.run([sys.executable, "-m", "compileall", "-q", package], check=True)
    python(FIRST_USE)  # the compiled loops are cached from here on
    codes = {"bare": "", "fires": "import fires", "libraries": LIBRARIES, "first use": FIRST_USE}
    things = {name: lambda _, code=code: python(code) for name, code in codes.items()}
    seconds = take_turns(things, ROUNDS)
    start = float(np.median(seconds["fires"]))
    more = float(np.median(seconds["first use"]) - np.median(seconds["libraries"]))
    loaded = python(LOADED)
    with tempfile.TemporaryDirectory() as empty:
        begin = perf_counter()
        python(FIRST_USE, NUMBA_CACHE_DIR=empty)
        cold = perf_counter() - begin
    ratio = Ratio.of(seconds["first use"], seconds["libraries"])
    below, within = f"< {IMPORT_BELOW} s", f"<= {FIRST_USE_WITHIN} s"
    rows = [
        Row("the bare interpreter", "process", shown(seconds["bare"])),
        Row("import fires", "process", shown(start), "", below, start < IMPORT_BELOW),
        Row("import fires loads too early", "of 8", loaded or "nothing", "", "nothing", not loaded),
        Row(LIBRARIES, "process", shown(seconds["libraries"]), "1"),
        Row("first use of FIRES", "process", shown(seconds["first use"]), ratio),
        Row("  more than that import", "", shown(more), "", within, more <= FIRST_USE_WITHIN),
        Row("first use, nothing compiled yet", "process", shown(cold)),
    ]
    return show(f"imports: the median of {ROUNDS} processes", rows)
