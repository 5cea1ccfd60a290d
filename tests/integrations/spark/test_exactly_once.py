"""Every row counts once, whenever the driver is killed: with real kills of a real local Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.integrations.spark.conftest import write_files
from tests.integrations.spark.killed import MOMENTS, learn

from fires.core.state import read_state

ROOT = Path(__file__).parents[3]


def child(files: Path, run: Path, moment: str, number: int) -> int:
    """What a process in a session of its own has ended with."""
    paths = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", str(ROOT / "src"))])
    command = [sys.executable, "-m", "tests.integrations.spark.killed"]
    return subprocess.run(
        [*command, str(files), str(run), moment, str(number)],
        env=os.environ | {"PYTHONPATH": paths},
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=900,
        check=False,
    ).returncode


def records(run: Path) -> list[dict]:
    """The records of a run, without what depends on the clock."""
    lines = (run / "steps.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if "seconds" not in k} for line in lines]


# Each kill takes a Spark of its own.
@pytest.mark.parametrize("n_kills", [1, pytest.param(len(MOMENTS), marks=pytest.mark.slow)])
def test_a_run_that_was_killed_is_the_same_to_the_bit(spark, tmp_path, n_kills):
    files, whole, killed = tmp_path / "files", tmp_path / "whole", tmp_path / "killed"
    write_files(files, 8)
    learn(spark, str(files), whole)

    # Killed at several moments of as many micro-batches, one after the other.
    for number, moment in enumerate(MOMENTS[:n_kills]):
        assert child(files, killed, moment, number) == -signal.SIGKILL
        done = {place.name for place in (killed / "spark" / "commits").glob("[0-9]*")}
        assert (str(number) in done) == (moment == "between batches")
        assert len(list((killed / "checkpoints").glob("*.safetensors"))) == min(
            number + bool(number), 2
        )
    learn(spark, str(files), killed)

    header, arrays = read_state(whole / "state.safetensors")
    again, same = read_state(killed / "state.safetensors")
    assert header == again
    assert arrays.keys() == same.keys()
    for name, values in arrays.items():
        assert values.tobytes() == same[name].tobytes(), name
    assert records(whole) == records(killed)
    assert [step["n_rows"] for step in records(killed)] == [300] * 4
