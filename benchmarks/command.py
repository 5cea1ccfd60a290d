"""``fires select`` as a whole, from the start of its process to the end, beside the usual way.

The usual way is a script that does the same job with pandas and scikit-learn: it reads chunks,
cuts them into the batches of the command, standardises each as it comes, predicts it with an
``SGDClassifier``, and lets that learn from it. It selects nothing, and has no baselines. pandas
reads no Parquet by itself, so polars does there. Both take turns; what counts are the processor
seconds of all threads. Memory is the peak of a process of its own. The small file is what a new
user tries first: there most of the time is the start.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import fires
from benchmarks.timing import Ratio, Row, show, shown, take_turns

N_ROWS, N_FEATURES, SMALL_ROWS, ROUNDS = 200_000, 50, 1_000, 2
TIMES_FASTER, TIMES_AS_LONG, MEGABYTES, GROWTH = 2.0, 4, 500, 1.1
PEER = """
import sys
import polars as pl
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler
path, chunk, size, n_right = sys.argv[1], 10_000, 100, 0
if path.endswith("csv"):
    import pandas as pd
    chunks = ((c.drop(columns="label"), c["label"]) for c in pd.read_csv(path, chunksize=chunk))
else:
    frame = pl.read_parquet(path)
    chunks = ((c.drop("label"), c["label"]) for c in frame.iter_slices(chunk))
scaler, model = StandardScaler(), SGDClassifier(loss="log_loss", random_state=0)
for X, y in chunks:
    X, y = X.to_numpy(), y.to_numpy()
    for first in range(0, len(y), size):
        labels = y[first : first + size]
        rows = scaler.partial_fit(X[first : first + size]).transform(X[first : first + size])
        n_right += (model.predict(rows) == labels).sum() if hasattr(model, "coef_") else 0
        model.partial_fit(rows, labels, classes=[0, 1])
print(n_right)
"""
PEAK = """
import resource, subprocess, sys
command = [sys.executable, "-m", "fires.cli", "select", "-", "--target", "label", "--quiet"]
process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
for turn in range(int(sys.argv[2])):
    with open(sys.argv[1], "rb") as file:
        if turn: file.readline()
        while block := file.read(1 << 20): process.stdin.write(block)
process.stdin.close()
assert process.wait() == 0
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""
WRITE = """
import sys
import polars as pl
from benchmarks.command import N_ROWS, SMALL_ROWS, write_file
write_file(f"{sys.argv[1]}/events.csv", N_ROWS)
frame = pl.read_csv(f"{sys.argv[1]}/events.csv")
frame.write_parquet(f"{sys.argv[1]}/events.parquet")
frame.head(SMALL_ROWS).write_csv(f"{sys.argv[1]}/small.csv")
"""


def write_file(path: str, n_rows: int) -> None:
    """Write rows of which two columns decide the label, with noise."""
    import polars as pl

    rng = np.random.default_rng(0)
    with open(path, "wb") as file:
        for part in range(10):
            X = rng.standard_normal((n_rows // 10, N_FEATURES))
            label = (X[:, 3] - X[:, 7] + rng.standard_normal(len(X)) > 0).astype(np.int8)
            names = [f"f{column}" for column in range(N_FEATURES)]
            frame = pl.DataFrame(X, schema=names).with_columns(label=pl.Series(label))
            frame.write_csv(file, include_header=part == 0, float_precision=5)


def main() -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        _python("-c", WRITE, folder)
        small, *files = (
            f"{folder}/{name}" for name in ("small.csv", "events.csv", "events.parquet")
        )
        _python("-m", "compileall", "-q", *fires.__path__)  # as an installer does
        _select(small)(0)  # from here on the compiled loops are in their cache
        for file in files:
            size = f"{N_ROWS:,} x {N_FEATURES}, {Path(file).suffix[1:]}"
            things = {"peer": _peer(file), "select": _select(file)}
            peer, select = take_turns(things, ROUNDS, untimed=0, clock=_child_seconds).values()
            ratio = Ratio.of(peer, select)
            good = ratio.value >= TIMES_FASTER
            rows += [
                Row("chunks and SGD", size, shown(peer), "1"),
                Row("fires select", size, shown(select), ratio, f">= {TIMES_FASTER:g}", good),
            ]
        starts = take_turns({"": _select(small)}, 2 * ROUNDS, untimed=0, clock=_child_seconds)[""]
        rows.append(Row("fires select", f"{SMALL_ROWS:,} x {N_FEATURES}, csv", shown(starts)))
        lengths = 1, TIMES_AS_LONG
        peaks = [float(_python("-c", PEAK, files[0], str(times))) for times in lengths]
    for times, peak in zip(lengths, peaks, strict=True):
        good, size = peak < MEGABYTES, f"{times} x {N_ROWS:,} rows"
        rows.append(Row("peak memory", size, f"{peak:.0f} MB", "", f"< {MEGABYTES} MB", good))
    growth, size = peaks[1] / peaks[0], f"{TIMES_AS_LONG} times as long"
    rows.append(Row("growth", size, "", f"{growth:.3g}", f"<= {GROWTH}", growth <= GROWTH))
    return show("command: the whole of fires select, processor seconds of all threads", rows)


def _select(file: str) -> Callable[[int], object]:
    return lambda _: _python("-m", "fires.cli", "select", file, "--target", "label")


def _peer(file: str) -> Callable[[int], object]:
    return lambda _: _python("-c", PEER, file)


def _child_seconds() -> float:
    """Processor seconds of all processes that were started here and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _python(*arguments: str) -> str:
    command, variables = [sys.executable, *arguments], os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE, env=variables)
    return done.stdout
