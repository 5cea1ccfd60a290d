"""Two trees in turns: ``python -m benchmarks.turns OLD NEW`` says what got slower.

OLD and NEW are checkouts of this repository. In each turn every workload runs in a process of its
own in either tree, so that whatever else the machine does meets both. What is compared is the
least processor time over all turns; the workloads use public names only. The first turn fills the
caches of both trees and does not count.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

LIMIT = 1.05

WORK = r"""
import json, sys, time
import numpy as np, scipy.sparse as sp
import fires
rng = np.random.default_rng(0)
def batches(n_rows, J, kind="classes", density=1.0, n=8):
    out = []
    for _ in range(n):
        X = rng.normal(size=(n_rows, J))
        if density < 1.0:
            X = sp.random_array((n_rows, J), density=density, format="csr", rng=rng)
        s = np.asarray(X[:, [0]].sum(axis=1) if density < 1.0 else X[:, 0] - X[:, 1]).ravel()
        s = s + rng.normal(size=n_rows)
        y = {"classes": s > 0, "three": np.digitize(s, [-0.5, 0.5]), "numbers": s,
             "counts": rng.poisson(np.exp(np.clip(0.3 * s, -3, 3)))}[kind]
        out.append((X, y))
    return out
def timed(make, data, reps, n=5):
    best = np.inf
    for _ in range(n):
        one = make()
        for X, y in data:
            one.partial_fit(X, y)
        start = time.process_time()
        for i in range(reps):
            one.partial_fit(*data[i % len(data)])
            one.get_support()
        best = min(best, (time.process_time() - start) / reps)
    return 1e6 * best
published = fires.FIRES.as_published
cases = {
    "default 100 x 50": (lambda: fires.FIRES(10), batches(100, 50), 400),
    "default 1 x 50": (lambda: fires.FIRES(10), batches(1, 50, n=64), 400),
    "default 1,000 x 50": (lambda: fires.FIRES(10), batches(1000, 50), 60),
    "default 100 x 500": (lambda: fires.FIRES(10), batches(100, 500), 150),
    "default 100 x 5,000": (lambda: fires.FIRES(10), batches(100, 5000, n=4), 25),
    "three classes 100 x 50": (lambda: fires.FIRES(10), batches(100, 50, "three"), 150),
    "numbers 100 x 50": (lambda: fires.FIRES(10), batches(100, 50, "numbers"), 300),
    "counts 100 x 50": (lambda: fires.FIRES(10, model="poisson"), batches(100, 50, "counts"), 150),
    "as published 100 x 50": (lambda: published(10), batches(100, 50), 500),
    "as published 100 x 500": (lambda: published(10), batches(100, 500), 200),
    "CSR 100 x 20,000": (lambda: fires.FIRES(10), batches(100, 20000, density=0.005, n=4), 40),
    "as published CSR": (lambda: published(10), batches(100, 20000, density=0.005, n=4), 60),
    "OFS 100 x 50": (lambda: fires.OFS(10), batches(100, 50), 300),
    "AROW 100 x 50": (lambda: fires.AROW(10), batches(100, 50), 300),
    "EFS 100 x 50": (lambda: fires.EFS(10), batches(100, 50), 300),
}
print(json.dumps({name: timed(*case) for name, case in cases.items()}))
"""


def measure(tree: Path) -> dict[str, float]:
    """Microseconds of each workload in one tree."""
    threads = {f"{pool}_NUM_THREADS": "1" for pool in ("OMP", "OPENBLAS", "MKL", "NUMBA")}
    done = subprocess.run(
        [sys.executable, "-c", WORK],
        env=os.environ | threads | {"PYTHONPATH": str(tree / "src")},
        cwd=tree,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.turns", description=__doc__)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--turns", type=int, default=10)
    asked = parser.parse_args()
    best: dict[str, list[float]] = {}
    for turn in range(asked.turns + 1):
        trees = (asked.old, asked.new) if turn % 2 else (asked.new, asked.old)
        for tree in trees:
            for name, value in measure(tree.resolve()).items():
                both = best.setdefault(name, [float("inf"), float("inf")])
                if turn:
                    place = int(tree is asked.new)
                    both[place] = min(both[place], value)
        print(f"turn {turn} of {asked.turns}", file=sys.stderr, flush=True)
    slower = 0
    for name, (old, new) in best.items():
        slower += new > LIMIT * old
        verdict = "  slower" if new > LIMIT * old else ""
        print(f"{name:24s} {old:10.1f} us {new:10.1f} us  {new / old:5.2f}{verdict}")
    sys.exit(slower > 0)


if __name__ == "__main__":
    main()
