"""``fires select`` on a million rows, beside polars that only reads them, and in how much memory.

Both take turns in one warm process, by the clock on the wall, which is what a user waits for, on
CSV and on Parquet; in batches of 100, the default, and of 1,000. Memory is the peak of a process of
its own. The small file is what a new user tries first: there most of the time is the start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

import numpy as np

from benchmarks.timing import Ratio, Row, show, shown

N_ROWS, N_FEATURES, TIMES_AS_LONG = 1_000_000, 50, 10
SHARES_OF_POLARS = {"csv": 0.4, "parquet": 0.12}
SMALL_ROWS, SECONDS, MEGABYTES, GROWTH = 2_000, 1.2, 500, 1.1

SPEED = """
import json, sys, time
import polars as pl
from benchmarks.timing import take_turns
from fires import FIRES, OnlinePipeline
from fires.evaluation import prequential
from fires.run.totals import RunTotals
from fires.streams.files import from_file
path, size = sys.argv[1], int(sys.argv[2])
def polars(_): (pl.read_csv if path.endswith("csv") else pl.read_parquet)(path)
def select(_):
    stream, totals = from_file(path, "label"), RunTotals(50)
    pipeline = OnlinePipeline(FIRES(10))
    for step in prequential(stream, pipeline, batch_size=size): totals.add(step)
    assert totals.n_rows == 1_000_000
times = take_turns({"polars": polars, "select": select}, 3, untimed=1, clock=time.perf_counter)
print(json.dumps({name: list(seconds) for name, seconds in times.items()}))
"""
PEAK = """
import resource, subprocess, sys
command = [sys.executable, "-m", "fires.cli", "select", "-", "--target", "label", "--json"]
process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
for turn in range(int(sys.argv[2])):
    with open(sys.argv[1], "rb") as file:
        if turn: file.readline()
        while block := file.read(1 << 20): process.stdin.write(block)
process.stdin.close()
assert process.wait() == 0
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""
START = """
import subprocess, sys, time
command = [sys.executable, "-m", "fires.cli", "select", sys.argv[1], "--target", "label"]
for turn in range(6):
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    print(time.perf_counter() - started)
"""
WRITE = """
import sys
import polars as pl
from benchmarks.command import SMALL_ROWS, write_file
write_file(sys.argv[1])
frame = pl.read_csv(sys.argv[1])
frame.write_parquet(sys.argv[1].replace("csv", "parquet"))
frame.head(SMALL_ROWS).write_csv(sys.argv[1].replace("events", "small"))
"""


def write_file(path: str) -> None:
    import polars as pl

    rng = np.random.default_rng(0)
    with open(path, "wb") as file:
        for part in range(10):
            X = rng.standard_normal((N_ROWS // 10, N_FEATURES))
            label = (X[:, 3] - X[:, 7] + rng.standard_normal(len(X)) > 0).astype(np.int8)
            names = [f"f{column}" for column in range(N_FEATURES)]
            frame = pl.DataFrame(X, schema=names).with_columns(label=pl.Series(label))
            frame.write_csv(file, include_header=part == 0, float_precision=5)


def main() -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "events.csv")
        _python(WRITE, path)
        for (kind, share), size in product(SHARES_OF_POLARS.items(), (100, 1000)):
            what = f"{kind}, batches of {size:,}"
            file = path.replace("csv", kind)
            out = _python(SPEED, file, str(size), POLARS_MAX_THREADS=str(os.cpu_count() or 1))
            times = {name: np.array(seconds) for name, seconds in json.loads(out).items()}
            ratio = Ratio.of(times["polars"], times["select"])
            figure = (f">= {share}", ratio.value >= share) if size == 100 else ()
            rows += [
                Row("polars alone reads", what, shown(times["polars"].min()), "1"),
                Row("select", what, shown(times["select"].min()), ratio, *figure),
            ]
        first, *later = map(float, _python(START, path.replace("events", "small")).split())
        size = f"{SMALL_ROWS:,} rows, a new process"
        figure = (f"< {SECONDS} s", min(later) < SECONDS)
        rows += [
            Row("select, the first time", size, f"{first:.2f} s"),
            Row("select, from then on", size, f"{min(later):.2f} s", "", *figure),
        ]
        peaks = [float(_python(PEAK, path, str(times))) for times in (1, TIMES_AS_LONG)]
    for times, peak in zip((1, TIMES_AS_LONG), peaks, strict=True):
        good = peak < MEGABYTES
        size = f"{times} x {N_ROWS:,} rows"
        rows.append(Row("select, peak memory", size, f"{peak:.0f} MB", "", "< 500 MB", good))
    growth = peaks[1] / peaks[0]
    size = f"{TIMES_AS_LONG} times as long"
    rows.append(Row("growth", size, "", f"{growth:.3g}", "<= 1.1", growth <= GROWTH))
    return show("command: fires select against polars, rows per second", rows)


def _python(code: str, *arguments: str, **environment: str) -> str:
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(
        command, check=True, text=True, stdout=subprocess.PIPE, env=os.environ | environment
    )
    return done.stdout
