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
SHARE_OF_POLARS, MEGABYTES, GROWTH = 0.5, 400, 1.1

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
PEAK = """
import resource, sys
from fires.streams.files import from_file
for batch in from_file(sys.argv[1], "label").batches(int(sys.argv[2])): pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def write_files(folder: Path) -> dict[str, Path]:
    """The same table as CSV, three times as long, with faults, and as Parquet."""
    import polars as pl

    names = ("plain.csv", "long.csv", "faulty.csv", "table.parquet")
    plain, long, faulty, parquet = (folder / name for name in names)
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
    return {"plain": plain, "long": long, "faulty": faulty, "parquet": parquet}


def python(code: str, *arguments: object) -> str:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    environment = os.environ | {"POLARS_MAX_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.strip()


def speed(what: str, path: Path, asked: float | None = None) -> list[Row]:
    times = json.loads(python(SPEED, path, BATCH_SIZE, ROUNDS))
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
        paths = write_files(Path(folder))
        peak = {name: float(python(PEAK, path, BATCH_SIZE)) for name, path in paths.items()}
        rows = speed("CSV", paths["plain"], SHARE_OF_POLARS) + speed("Parquet", paths["parquet"])
        # Polars reads no file with faults: the time is held against that of the sound one.
        faulty = json.loads(python(SPEED.replace("pl.read_csv(path)", "0"), paths["faulty"],
                                   BATCH_SIZE, 1))  # fmt: skip
        rows.append(Row("reader, a fault in 1,000 rows", rows[0].size, shown(faulty["reader"][0])))
    below = f"< {MEGABYTES} MB"
    for name, megabytes in peak.items():
        what, size = f"peak memory, {name}", "3 times the rows" if name == "long" else rows[0].size
        rows.append(Row(what, size, f"{megabytes:.0f} MB", "", below, megabytes < MEGABYTES))
    growth = peak["long"] / peak["plain"]
    asked, reached = f"<= {GROWTH}", growth <= GROWTH
    rows.append(Row("growth of the peak", "3 times the rows", "", f"{growth:.3f}", asked, reached))
    return show(f"reader: batches of {BATCH_SIZE}, {ROUNDS} rounds, one thread", rows)


if __name__ == "__main__":
    main()
