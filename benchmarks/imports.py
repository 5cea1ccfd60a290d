"""How long a user waits before anything is learnt: whole processes, the interpreter included.

``import fires`` is an absolute figure, so its clock is the one on the wall. First use, one batch
through a new selector, is a difference: of processor time, between it and the two imports it needs.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.timing import Ratio, Row, show, shown, take_turns

ROUNDS, IMPORT_BELOW, FIRST_USE_WITHIN = 7, 0.15, 0.3
LATER = ("torch", "polars", "pyspark", "river", "matplotlib", "fastapi", "numba", "sklearn")
LOADED = f"import sys, fires; print(*[name for name in {LATER} if name in sys.modules])"
LIBRARIES = "import sklearn.base, numba"
FIRST_USE = """
import numpy as np
from fires import FIRES
X = np.linspace(0.0, 1.0, 2000).reshape(100, 20)
FIRES(10).partial_fit(X, np.arange(100) % 2).weights_
"""


def python(code: str, **environment: str) -> str:
    command = [sys.executable, "-c", code]
    environment = os.environ | environment
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def children() -> float:
    """Processor time of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> list[Row]:
    (package,) = find_spec("fires").submodule_search_locations  # type: ignore[misc, union-attr]
    subprocess.run([sys.executable, "-m", "compileall", "-q", package], check=True)
    python(FIRST_USE)  # from here on the compiled loops are in their cache

    def processes(clock: Any, **codes: str) -> Any:
        things = {name: lambda _, code=code: python(code) for name, code in codes.items()}
        return take_turns(things, ROUNDS, untimed=0, clock=clock).values()

    bare, fires = processes(perf_counter, bare="", fires="import fires")
    libraries, first = processes(children, libraries=LIBRARIES, first=FIRST_USE)
    with tempfile.TemporaryDirectory() as empty:
        begin = children()
        python(FIRST_USE, NUMBA_CACHE_DIR=empty)
        cold = children() - begin
    start, more, loaded = np.median(fires), first.min() - libraries.min(), python(LOADED)
    below, within = f"< {IMPORT_BELOW} s", f"<= {FIRST_USE_WITHIN} s"
    rows = [
        Row("the bare interpreter", "wall, median", shown(np.median(bare))),
        Row("import fires", "wall, median", shown(start), "", below, start < IMPORT_BELOW),
        Row("loaded by it too early", "", loaded or "nothing", "", "nothing", not loaded),
        Row(LIBRARIES, "processor", shown(libraries), "1"),
        Row("first use of FIRES", "processor", shown(first), Ratio.of(first, libraries)),
        Row("  more than that import", "", shown(more), "", within, more <= FIRST_USE_WITHIN),
        Row("first use, nothing compiled yet", "processor", shown(cold)),
    ]
    return show(f"imports: {ROUNDS} processes each", rows)
