"""How long a user waits before anything is learnt, each time in a process of its own.

``import fires`` is an absolute figure: the whole process, by the clock on the wall. First use, one
batch through a new selector, is counted in processor time from where the two libraries it needs
are loaded: so it needs no difference of two large and restless numbers.
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
LATER = ("torch", "polars", "pyspark", "river", "matplotlib", "fastapi", "numba", "sklearn")
LOADED = f"import sys, fires; print(*[name for name in {LATER} if name in sys.modules])"
LIBRARIES = "import sklearn.base, numba"
FIRST_USE = f"""
from time import process_time
{LIBRARIES}
loaded = process_time()
import numpy as np
from fires import FIRES
X = np.linspace(0.0, 1.0, 2000).reshape(100, 20)
FIRES(10).partial_fit(X, np.arange(100) % 2).weights_
print(loaded, process_time() - loaded)
"""


def python(code: str, **environment: str) -> list[str]:
    """The words that a new interpreter prints."""
    command, variables = [sys.executable, "-c", code], os.environ | environment
    done = subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split()


def main() -> list[Row]:
    (package,) = find_spec("fires").submodule_search_locations  # type: ignore[misc, union-attr]
    subprocess.run([sys.executable, "-m", "compileall", "-q", package], check=True)
    python(FIRST_USE)  # from here on the compiled loops are in their cache

    codes = {"bare": "", "fires": "import fires"}
    processes = {name: lambda _, code=code: python(code) for name, code in codes.items()}
    bare, fires = take_turns(processes, ROUNDS, untimed=0, clock=perf_counter).values()
    start, early = np.median(fires), " ".join(python(LOADED))
    libraries, first = np.array([python(FIRST_USE) for _ in range(ROUNDS)], dtype=float).T
    more = first.min()
    with tempfile.TemporaryDirectory() as empty:
        cold = float(python(FIRST_USE, NUMBA_CACHE_DIR=empty)[1])
    below, within = f"< {IMPORT_BELOW} s", f"<= {FIRST_USE_WITHIN} s"
    rows = [
        Row("the bare interpreter", "median, wall", shown(np.median(bare)), "1"),
        Row(
            "import fires",
            "median, wall",
            shown(start),
            Ratio.of(fires, bare),
            below,
            bool(start < IMPORT_BELOW),
        ),
        Row("loaded by it too early", "of eight", early or "nothing", "", "nothing", not early),
        Row(LIBRARIES, "processor", shown(libraries), "1"),
        Row(
            "first use of FIRES, on top",
            "processor",
            shown(more),
            Ratio.of(first, libraries),
            within,
            more <= FIRST_USE_WITHIN,
        ),
        Row("the same, nothing compiled yet", "processor", shown(cold)),
    ]
    return show(f"imports: {ROUNDS} processes each", rows)
