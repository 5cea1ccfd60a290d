"""What the first batch costs where nothing is compiled yet, and other kinds of input after it.

Processor seconds, from the start of the process to the end of the first ``partial_fit``, import
included, each in a process of its own. The default path begins with an empty cache of machine code;
the other kinds of input with a copy of what that left there, and what counts is how much longer
they take than the default path does with the same cache. Narrow rows and wide ones are learnt from
by different loops, and from the second batch on, one call takes a whole batch.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from benchmarks.imports import python
from benchmarks.timing import Row, show, shown

FIRST, MORE, ROUNDS = 8.0, 3.0, 2
WIDTHS = 30, 300
KINDS = {
    "a second batch": "FIRES(10).partial_fit(X, y).partial_fit(X, y)",
    "one missing value": "X[3, 4] = np.nan",
    "numeric target": "y = X[:, 0] + rng.normal(size=100)",
    "CSR": "X = sp.csr_array(np.where(rng.random(X.shape) < 0.1, X, 0.0))",
    "float32": "X = X.astype(np.float32)",
}
FIT = """
import time
import numpy as np
import scipy.sparse as sp
from fires import FIRES
rng = np.random.default_rng(0)
X = rng.normal(size=(100, {width}))
y = (X[:, 0] > 0.0).astype(np.int64)
{kind}
FIRES(10).partial_fit(X, y)
print(time.process_time())
"""


def seconds(cache: Path, width: int, kind: str = "") -> float:
    """The processor seconds of one process."""
    code = FIT.format(width=width, kind=kind)
    return float(python(code, NUMBA_CACHE_DIR=str(cache))[0])


def measure(width: int, folder: Path) -> list[Row]:
    """The rows of the table for one width."""
    size = f"J = {width}"
    caches = [folder / f"{width} {turn}" for turn in range(ROUNDS)]
    first = min(seconds(cache, width) for cache in caches)
    again = min(seconds(caches[0], width) for _ in range(ROUNDS))
    rows = [
        Row("default, nothing compiled", size, shown(first), "", f"<= {FIRST:g} s", first <= FIRST),
        Row("default, all compiled", size, shown(again)),
    ]
    for kind, code in KINDS.items():
        turns = []
        for _ in range(ROUNDS):
            copy = shutil.copytree(caches[0], folder / "copy")
            turns.append(seconds(copy, width, code) - again)
            shutil.rmtree(copy)
        more = max(min(turns), 0.0)
        rows.append(Row(f"{kind}, more", size, shown(more), "", f"<= {MORE:g} s", more <= MORE))
    return rows


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        rows = [row for width in WIDTHS for row in measure(width, Path(folder))]
    return show(f"first use: processor time, the least of {ROUNDS} processes", rows)
