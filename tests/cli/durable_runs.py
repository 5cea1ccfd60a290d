"""Runs of ``fires select`` that are killed and taken up again, and what has to be the same then."""

import gzip
import json
import os
import random
import subprocess
import sys
import time

import numpy as np
import polars as pl
from click.testing import CliRunner

from fires.cli import main
from fires.core.state import read_state

FIRES = [sys.executable, "-m", "fires.cli", "select"]
TIMINGS = ("seconds", "started", "latency", "id", "settings")


def write_rows(path, n_rows, *, faults=True, seed=0):
    """A table with numbers, categories, gaps, and rows that cannot be used."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 8)).round(6)
    y = np.where(X[:, 2] - X[:, 5] + rng.normal(size=n_rows) > 0, "yes", "no")
    if path.name.endswith(".svm"):
        rows = (" ".join(f"{j + 1}:{v}" for j, v in enumerate(row)) for row in X.tolist())
        lines = [f"{int(label == 'yes')} {row}" for label, row in zip(y, rows, strict=True)]
        bad = ["1 2:x", "none 1:1"]
    else:
        frame = pl.DataFrame({f"x{j}": X[:, j] for j in range(8)})
        towns = np.array([f"town {i}" for i in range(40)])[rng.integers(40, size=n_rows)]
        frame = frame.with_columns(town=pl.Series(towns), label=pl.Series(y))
        frame = frame.with_columns(
            pl.when(pl.int_range(pl.len()) % 50 == 7).then(None).otherwise(pl.col("x4")).alias("x4")
        )
        if path.suffix == ".parquet":
            frame = frame.with_columns(
                pl.when(pl.int_range(pl.len()) % 97 == 3)
                .then(None)
                .otherwise("label")
                .alias("label")
            )
            frame.write_parquet(path)
            return path
        text = frame.write_ndjson() if ".ndjson" in path.name else frame.write_csv()
        lines = text.splitlines()
        bad = (
            ["{", '{"label": null}', "[]"]
            if ".ndjson" in path.name
            else ["1,2", '"open', ",,,,,,,,,"]
        )
    if faults:
        places = sorted(random.Random(seed).sample(range(3, len(lines)), len(lines) // 60))
        for shift, place in enumerate(places):
            lines.insert(place + shift, bad[shift % len(bad)])
    data = "\n".join([*lines, ""]).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def start(*arguments, **more):
    command = [*FIRES, *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | more
    return subprocess.Popen(command, encoding="utf-8", **streams)


def finished(*arguments, input=None):
    """What a run prints that nothing disturbs, in this process; it has to end well."""
    result = CliRunner().invoke(main, ["select", *map(str, arguments)], input=input)
    assert result.exit_code == 0, result.output
    return result.stdout, result.stderr


def wait_for(condition, child=None, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert child is None or child.poll() is None, child.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.03)


def checkpoints(out):
    return sorted((out / "checkpoints").glob("*.safetensors"))


def kill(child):
    child.kill()
    child.communicate()


def killed_again_and_again(out, arguments, n_kills, rng, longest):
    """Begin a run, kill it at random moments behind its first checkpoint, and go on each time.

    Returns how often it was killed: less often than asked for, if it has ended before.
    """
    child = start(*arguments, "--out", out)
    wait_for(lambda: checkpoints(out), child)
    for n in range(n_kills):
        seen = checkpoints(out)
        deadline = time.monotonic() + rng.uniform(0.0, longest)
        while time.monotonic() < deadline and child.poll() is None:
            time.sleep(0.001)
        if child.poll() is not None:
            assert child.returncode == 0, child.communicate()
            child.communicate()
            return n
        kill(child)
        if n == n_kills - 1:
            finished("--resume", out, "--rate", "1000000")  # nothing more is waited for
            break
        child = start("--resume", out)
        if rng.random() < 0.7:  # else it may be killed before it has done anything
            wait_for(lambda a=seen, b=child: checkpoints(out) != a or b.poll() is not None)
    return n_kills


def lines_of(path):
    """The objects in a file, one a line; a line is whole once it ends."""
    return list(map(json.loads, path.read_text(encoding="utf-8").split("\n")[:-1]))


def facts(out):
    """All that a run has written down, but for timings."""
    run, state = json.loads((out / "run.json").read_bytes()), out / "state.safetensors"
    bad = out / "quarantine.ndjson"
    found = {
        "belief": {name: value.tobytes() for name, value in read_state(state)[1].items()},
        "state": state.read_bytes(),
        "run": {name: value for name, value in run.items() if not name.startswith(TIMINGS)},
        "steps": [
            {name: value for name, value in step.items() if not name.startswith("seconds")}
            for step in lines_of(out / "steps.jsonl")
        ],
        "quarantine": bad.read_text() if bad.exists() else "",
        "snapshots": {path.name: path.read_bytes() for path in (out / "snapshots").iterdir()},
        "transformed": [
            row
            for path in sorted((out / "transformed").glob("*.parquet"))
            for row in pl.read_parquet(path).rows(named=True)
        ],
    }
    for name in ("features.csv", "columns.csv", "names.json"):
        found[name] = (out / name).read_text() if (out / name).exists() else None
    return found


def assert_same(out, reference):
    """Nothing is lost, nothing is there twice, and the belief is the same to the bit."""
    ours, theirs = facts(out), facts(reference)
    for name in theirs:
        assert ours[name] == theirs[name], name
    left = {path.name for path in out.rglob("*")} - {path.name for path in reference.rglob("*")}
    assert not {name for name in left if not name.endswith(".safetensors")}


def environment(**more):
    return os.environ | more
