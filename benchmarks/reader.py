"""How fast a file becomes batches, beside polars alone, and in how much memory.

Polars has one thread, for both. Speed is processor time of one process in which both take turns;
memory is the peak of a process of its own, which does nothing but read.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import Ratio, Row, show, shown

N_ROWS, N_FEATURES, BATCH_SIZE, ROUNDS = 1_000_000, 50, 100, 3
FILES = {"CSV": "a.csv", "long CSV": "b.csv", "faulty CSV": "c.csv", "Parquet": "d.parquet"}
SHARE_OF_POLARS = {"CSV": 0.45, "Parquet": 0.25}
MEGABYTES, GROWTH = 400, 1.1
WIDE_ROWS, WIDE_COLUMNS, WIDE_SECONDS = 20, 100_000, 3.0

SPEED = """
import json, sys
from time import process_time
import polars as pl
from benchmarks.timing import take_turns
from fires.streams.files import from_file
def polars(_): pl.read_csv(path) if path.endswith("csv") else pl.read_parquet(path)
def reader(_): assert sum(b.n_rows for b in from_file(path, "label").batches(size)) > 0
path, size, rounds = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
times = take_turns({"polars": polars, "reader": reader}, rounds, clock=process_time)
print(json.dumps({name: list(seconds) for name, seconds in times.items()}))
"""
# Written by a process of its own: on Linux a child's peak starts with the size of its parent.
WRITE = """
import sys, pathlib
from benchmarks.reader import write_files
write_files(pathlib.Path(sys.argv[1]))
"""
PEAK = """
import resource, sys
from fires.streams.files import from_file
for batch in from_file(sys.argv[1], "label").batches(int(sys.argv[2])): pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def write_files(folder: Path) -> None:
    """The same table as CSV, three times as long, with faults, and as Parquet."""
    import polars as pl

    plain, long, faulty, parquet = (folder / name for name in FILES.values())
    rng = np.random.default_rng(0)
    step = N_ROWS // 10
    frames = []
    with plain.open("wb") as file, faulty.open("wb") as other:
        for part in range(10):
            X = rng.standard_normal((step, N_FEATURES))
            frame = pl.DataFrame(X, schema=[f"x{j}" for j in range(N_FEATURES)])
            frame = frame.with_columns(label=pl.Series(rng.integers(0, 2, step)))
            text = frame.write_csv(include_header=part == 0).encode()
            file.write(text)
            lines = text.split(b"\n")
            for i in range(500, len(lines), 1000):
                lines[i] = b"bad" + lines[i]
            other.write(b"\n".join(lines))
            frames.append(frame)
    pl.concat(frames).write_parquet(parquet)
    with long.open("wb") as file:
        for copy in range(3):
            with plain.open("rb") as source:
                if copy:
                    source.readline()
                while block := source.read(1 << 24):
                    file.write(block)


# The whole command on a table with very many columns.
WIDE = """
import resource, subprocess, sys
from time import perf_counter
command = [sys.executable, "-m", "fires.cli", "select", sys.argv[1], "--target", "y", "-q"]
began = perf_counter()
subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
seconds, used = perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
print(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def write_wide(path: Path) -> None:
    """A table with very many columns and few rows."""
    rng = np.random.default_rng(0)
    with path.open("w") as file:
        file.write(",".join(f"x{j}" for j in range(WIDE_COLUMNS)) + ",y\n")
        for row in range(WIDE_ROWS):
            cells = rng.standard_normal(WIDE_COLUMNS).round(4).tolist()
            file.write(",".join(map(str, cells)) + f",{row % 2}\n")


def wide(path: Path) -> list[Row]:
    """Seconds and memory of ``fires select`` on it; the second of two runs."""
    write_wide(path)
    for _ in range(2):  # the first one may have to compile
        seconds, processor, megabytes = map(float, python(WIDE, path).split())
    size = f"{WIDE_ROWS} x {WIDE_COLUMNS:,}"
    return [
        Row(
            "fires select",
            size,
            f"{seconds:.1f} s, {processor:.1f} s of processor",
            "",
            f"< {WIDE_SECONDS} s",
            seconds < WIDE_SECONDS,
        ),
        Row(
            "peak memory, fires select",
            size,
            f"{megabytes:.0f} MB",
            "",
            f"< {MEGABYTES} MB",
            megabytes < MEGABYTES,
        ),
    ]


def python(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = os.environ | {"POLARS_MAX_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def speed(what: str, path: Path, asked: float | None = None, code: str = SPEED) -> list[Row]:
    times = json.loads(python(code, path, BATCH_SIZE, ROUNDS))
    polars, reader = (np.array(times[name]) for name in ("polars", "reader"))
    ratio = Ratio.of(polars, reader)
    size = f"{N_ROWS:,} x {N_FEATURES}"
    reached = None if asked is None else bool(ratio.value >= asked)
    return [
        Row(f"polars, {what}", size, shown(polars), "1"),
        Row(f"reader, {what}", size, shown(reader), ratio, f">= {asked}" if asked else "", reached),
    ]


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        python(WRITE, folder)
        paths = {name: Path(folder) / file for name, file in FILES.items()}
        peak = {name: float(python(PEAK, path, BATCH_SIZE)) for name, path in paths.items()}
        rows = [
            row
            for name, asked in SHARE_OF_POLARS.items()
            for row in speed(name, paths[name], asked)
        ]
        # Polars reads no file with faults: it reads the sound one here.
        code = SPEED.replace("pl.read_csv(path)", "pl.read_csv(path.replace('c.csv', 'a.csv'))")
        rows += speed("a fault in 1,000 rows", paths["faulty CSV"], code=code)
    below = f"< {MEGABYTES} MB"
    for name, megabytes in peak.items():
        size = "3 times the rows" if name == "long CSV" else rows[0].size
        reached = megabytes < MEGABYTES
        rows.append(Row(f"peak memory, {name}", size, f"{megabytes:.0f} MB", "", below, reached))
    with tempfile.TemporaryDirectory() as folder:
        rows += wide(Path(folder) / "wide.csv")
    growth = peak["long CSV"] / peak["CSV"]
    asked, reached = f"<= {GROWTH}", growth <= GROWTH
    rows.append(Row("growth of the peak", "3 times the rows", "", f"{growth:.3f}", asked, reached))
    return show(f"reader: batches of {BATCH_SIZE}, {ROUNDS} rounds, one thread", rows)


if __name__ == "__main__":
    main()
