"""The first ``partial_fit`` on a machine: what compiling costs.

Processor seconds from the start of a process to the end of its first ``partial_fit``, imports
included, where nothing has been compiled yet; then, with the default compiled, how much more each
other kind of input costs, against the default from the cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile

from benchmarks.timing import Row, show, shown

MOST, MOST_MORE = 8.0, 3.0

SCRIPT = """
import os, sys
import numpy as np
import fires
rng = np.random.default_rng(0)
X = rng.normal(size=(100, 30))
y = X[:, 0] + rng.normal(size=100)
kind = sys.argv[1]
if kind == "missing value":
    X[3, 4] = np.nan
if kind == "float32":
    X = X.astype(np.float32)
if kind == "CSR":
    import scipy.sparse as sp
    X = sp.csr_array(X * (rng.random(X.shape) < 0.2))
fires.FIRES(10).partial_fit(X, y if kind == "numbers" else y > 0)
print(sum(os.times()[:2]))
"""


def seconds(kind: str, cache: str) -> float:
    """Processor seconds of a process that learns from one batch of a kind."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, kind],
        env=os.environ | {"NUMBA_CACHE_DIR": cache},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as cache:
        empty = seconds("default", cache)
        warm = min(seconds("default", cache) for _ in range(3))
        found = {"default, nothing compiled": (empty, MOST)}
        for kind in ("missing value", "numbers", "CSR", "float32"):
            with tempfile.TemporaryDirectory() as other:
                shutil.copytree(cache, other, dirs_exist_ok=True)
                found[f"{kind}, more"] = seconds(kind, other) - warm, MOST_MORE
    rows = [
        Row(what, "100 x 30", shown(took), asked=f"<= {most:g} s", reached=took <= most)
        for what, (took, most) in found.items()
    ]
    return show(f"first use: processor time; {shown(warm)} with everything compiled", rows)
