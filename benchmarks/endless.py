"""The memory of ``fires select`` while 50 million rows come through a pipe, with checkpoints.

Not one of the parts of ``python -m benchmarks``: it takes minutes. ``python -m benchmarks.endless
[MILLIONS]`` prints the memory of the process after each million rows.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

N_FEATURES, SETTLED, GROWTH = 8, 5, 1.05


def main(millions: int = 50) -> None:
    """Feed a run, and hold its memory after five million rows against that at the end."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fires.cli", "select", "-", "--target", "label", "-q"]
        command += ["--out", f"{folder}/run", "--batch-size", "1000", "--checkpoint", "1s"]
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        assert child.stdin is not None
        sizes = []
        for million in range(millions):
            child.stdin.write(_rows(million))
            sizes.append(_resident(child.pid))
            print(f"{million + 1:3} million rows written: {sizes[-1]:.0f} MB", flush=True)
        child.stdin.close()
        assert child.wait() == 0
        steps = (Path(folder) / "run" / "steps.jsonl").stat().st_size
    settled, last = max(sizes[:SETTLED]), max(sizes[-SETTLED:])
    verdict = "within 5 %" if last <= GROWTH * settled else "it GROWS"
    print(
        f"{settled:.0f} MB at most in the first {SETTLED} million rows, {last:.0f} MB in the last: "
        f"{verdict}; steps.jsonl has {steps / 1e6:.0f} MB"
    )


def _rows(million: int) -> bytes:
    """A million rows as text; the features that matter change every ten million."""
    rng = np.random.default_rng(million)
    X = rng.standard_normal((1_000_000, N_FEATURES))
    first = million // 10 % N_FEATURES
    label = (X[:, first] - X[:, (first + 1) % N_FEATURES] > 0).astype(np.int8)
    frame = pl.DataFrame(X, schema=[f"f{j}" for j in range(N_FEATURES)])
    return (
        frame.with_columns(label=pl.Series(label))
        .write_csv(include_header=million == 0, float_precision=4)
        .encode()
    )


def _resident(pid: int) -> float:
    """The memory of a process, in MB."""
    text = Path(f"/proc/{pid}/status").read_text()
    line = next(line for line in text.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
