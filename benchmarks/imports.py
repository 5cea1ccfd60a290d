"""How long a user waits before anything is learnt, each time in a process of its own.

``import fires`` and ``fires --help`` are absolute figures: the whole process, by the clock on the
wall. First use, one batch through a new selector, and the first result, the table that
``fires select`` prints of a small file, are counted in processor time from where the two libraries
they need are loaded: so that needs no difference of two large and restless numbers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from time import perf_counter

import numpy as np

from benchmarks.timing import Ratio, Row, show, shown, take_turns

ROUNDS, IMPORT_BELOW, HELP_BELOW, FIRST_USE_WITHIN = 7, 0.15, 0.3, 0.3
COLD_ROUNDS, FRESH_WITHIN, AGAIN_WITHIN = 3, 3.0, 1.0
LATER = ("torch", "polars", "pyspark", "river", "matplotlib", "fastapi", "numba", "sklearn")
LOADED = f"import sys, fires; print(*[name for name in {LATER} if name in sys.modules])"
LIBRARIES = "import sklearn.base, numba, scipy.sparse"
IMPORT = f"""
from time import process_time
{LIBRARIES}
loaded = process_time()
import fires
fires.FIRES
print(process_time() - loaded)
"""
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
HELP = "import sys; from fires.cli import main; main(['--help'])"
SELECT = f"""
import contextlib, io, sys
from time import process_time
{LIBRARIES}
loaded = process_time()
from fires.cli import main
with contextlib.redirect_stdout(io.StringIO()) as shown:
    main(["select", sys.argv[1], "--target", "label"], standalone_mode=False)
assert "accuracy" in shown.getvalue()
print(loaded, process_time() - loaded)
"""


def write_table(path: Path) -> None:
    """A small file: 2,000 rows, 20 columns of numbers and one of words."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2_000, 20)).round(5)
    lines = [",".join([*(f"x{j}" for j in range(20)), "town", "label"])]
    for row in X.tolist():
        lines.append(",".join([*map(str, row), "Bonn" if row[1] > 0 else "Ulm", str(row[0] > 0)]))
    path.write_text("\n".join(lines))


def python(code: str, *arguments: object, **environment: str) -> list[str]:
    """The words that a new interpreter prints."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    variables = os.environ | environment
    done = subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.split()


def main() -> list[Row]:
    (package,) = find_spec("fires").submodule_search_locations  # type: ignore[misc, union-attr]
    subprocess.run([sys.executable, "-m", "compileall", "-q", package], check=True)
    python(FIRST_USE)  # from here on the compiled loops are in their cache

    codes = {"bare": "", "fires": "import fires", "help": HELP}
    processes = {name: lambda _, code=code: python(code) for name, code in codes.items()}
    bare, fires, shown_help = take_turns(processes, ROUNDS, untimed=0, clock=perf_counter).values()
    start, early = np.median(fires), " ".join(python(LOADED))
    helped = np.median(shown_help)
    libraries, first = np.array([python(FIRST_USE) for _ in range(ROUNDS)], dtype=float).T
    more, above = first.min(), min(float(*python(IMPORT)) for _ in range(2 * ROUNDS))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.csv"
        write_table(path)
        cold, fresh, again = [], [], []
        for turn in range(COLD_ROUNDS):
            cold.append(float(python(FIRST_USE, NUMBA_CACHE_DIR=f"{folder}/first {turn}")[1]))
            cache = f"{folder}/select {turn}"
            for figures in (fresh, again):
                figures.append(float(python(SELECT, path, NUMBA_CACHE_DIR=cache)[1]))
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
        Row(
            "fires --help",
            "median, wall",
            shown(helped),
            Ratio.of(shown_help, bare),
            f"< {HELP_BELOW} s",
            bool(helped < HELP_BELOW),
        ),
        Row(LIBRARIES, "processor", shown(libraries), "1"),
        Row(
            "fires.FIRES, on top", "processor", shown(above), "", within, above <= FIRST_USE_WITHIN
        ),
        Row(
            "first use of FIRES, on top",
            "processor",
            shown(more),
            Ratio.of(first, libraries),
            within,
            more <= FIRST_USE_WITHIN,
        ),
        Row("the same, nothing compiled yet", "processor", shown(min(cold))),
        *(
            Row(
                f"fires select, small file, {what}",
                "processor",
                shown(min(figures)),
                f"up to {shown(max(figures))}",
                f"<= {within:g} s",
                min(figures) <= within,
            )
            for what, figures, within in (
                ("fresh install", fresh, FRESH_WITHIN),
                ("from then on", again, AGAIN_WITHIN),
            )
        ),
    ]
    return show(f"imports: {ROUNDS} processes each", rows)
