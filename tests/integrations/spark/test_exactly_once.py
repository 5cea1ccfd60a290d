"""Every row counts once, whenever the driver is killed: with real kills of a real local Spark."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.integrations.spark.conftest import write_files
from tests.integrations.spark.killed import MOMENTS, calling, learn

from fires.core.state import read_state
from fires.integrations.spark.running import SparkRun

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


def assert_left(run: Path, moment: str, number: int) -> None:
    """What Spark has noted of a micro-batch, and how many were saved, at a moment of it."""
    done = {place.name for place in (run / "spark" / "commits").glob("[0-9]*")}
    assert (str(number) in done) == (moment == "between batches")
    n_saved = number + (moment != MOMENTS[0])
    assert len(list((run / "checkpoints").glob("*.safetensors"))) == min(n_saved, 2)


def assert_same(whole: Path, other: Path, n_batches: int) -> None:
    header, arrays = read_state(whole / "state.safetensors")
    again, same = read_state(other / "state.safetensors")
    assert header == again
    assert arrays.keys() == same.keys()
    for name, values in arrays.items():
        assert values.tobytes() == same[name].tobytes(), name
    assert records(whole) == records(other)
    assert [step["n_rows"] for step in records(other)] == [300] * n_batches


LAST, *OTHERS = [(1, MOMENTS[1]), (0, MOMENTS[0]), (1, MOMENTS[2])]


# Between the state and Spark's commit, Spark gives the rows again, and they are known.
@pytest.mark.parametrize("left_at", [[LAST], pytest.param(OTHERS, marks=pytest.mark.slow)])
def test_what_is_left_at_any_moment_goes_on_the_same_to_the_bit(
    spark, tmp_path, monkeypatch, left_at
):
    files, whole, left = tmp_path / "files", tmp_path / "whole", tmp_path / "left"
    write_files(files, 6)
    # A copy of the folder at a moment is what a driver leaves that is killed just then.
    for number, moment in left_at:
        copied = partial(shutil.copytree, whole, left / moment)
        for name, method in calling(copied, moment, number).items():
            monkeypatch.setattr(SparkRun, name, method)
    learn(spark, str(files), whole)
    monkeypatch.undo()
    for number, moment in left_at:
        assert_left(left / moment, moment, number)
        learn(spark, str(files), left / moment)
        assert_same(whole, left / moment, 3)


@pytest.mark.slow  # each kill takes a Spark of its own
def test_a_run_that_was_killed_is_the_same_to_the_bit(spark, tmp_path):
    files, whole, killed = tmp_path / "files", tmp_path / "whole", tmp_path / "killed"
    write_files(files, 8)
    learn(spark, str(files), whole)
    # Killed at several moments of as many micro-batches, one after the other.
    for number, moment in enumerate(MOMENTS):
        assert child(files, killed, moment, number) == -signal.SIGKILL
        assert_left(killed, moment, number)
    learn(spark, str(files), killed)
    assert_same(whole, killed, 4)
