"""A run that was killed goes on as if nothing had happened."""

import json
import os
import random
import signal
import socket
import subprocess
import time
from functools import cache
from shutil import copytree
from urllib.request import urlopen

import numpy as np
import pytest
from click.testing import CliRunner
from tests.cli.durable_runs import (
    assert_same,
    checkpoints,
    facts,
    finished,
    kill,
    killed_again_and_again,
    lines_of,
    start,
    wait_for,
    write_rows,
)

from fires.cli import main
from fires.core.state import read_state

FILES = ["x.csv", "x.csv.gz", "x.parquet", "x.ndjson", "x.svm"]
OPTIONS = ("--target", "label", "--batch-size", "10", "--checkpoint", "10")
SLOW = (*OPTIONS, "--rate", "200")  # it is not done when it is killed, however late
SOON = ("--rate", "1000000")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """A table, and the run that nothing disturbs: each is made once, and changed by no test."""

    @cache
    def made(name, *more):
        folder = tmp_path_factory.mktemp("undisturbed")
        path = write_rows(folder / name, 800)
        finished(path, *options_for(path, OPTIONS), *more, "--out", folder / "reference")
        return path, folder / "reference"

    return made


def options_for(path, options):
    return options[2:] if path.suffix == ".svm" else options


# Where reading goes on in each kind of file is what bookmarks are about.
SOME_FILES = [
    name if name == "x.csv" else pytest.param(name, marks=pytest.mark.slow) for name in FILES
]


@pytest.mark.parametrize("name", SOME_FILES)
def test_a_run_that_is_killed_ends_as_one_that_is_not(tmp_path, undisturbed, name):
    path, reference = undisturbed(name, "--transform")
    out = tmp_path / "out"
    arguments = (path, *options_for(path, SLOW), "--transform")
    assert killed_again_and_again(out, arguments, 1, random.Random(name), 0.5) == 1
    assert_same(out, reference)
    assert facts(out)["quarantine"].count("\n") == facts(out)["run"]["rejected_rows"] > 5
    rows = facts(out)["transformed"]
    assert [row["row"] for row in rows] == list(range(facts(out)["run"]["rows"]))


def write_drift(path, kind):
    """Half-way other features matter, and a column of numbers becomes one of text."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6_000, 6)).round(5)
    z = np.where(np.arange(6_000) < 3_000, X[:, 1] - X[:, 2], X[:, 3] + X[:, 4])
    y = np.array(["a", "b", "c"])[np.digitize(z, [-0.7, 0.7])] if kind == "classes" else z
    rows = [[*row, label] for row, label in zip(X.tolist(), y.tolist(), strict=True)]
    for i in range(3_500, 6_000):
        rows[i][0] = f"k{i % 7}"
    lines = [",".join(map(str, row)) for row in (["a", "b", "c", "d", "e", "f", "label"], *rows)]
    path.write_text("\n".join([*lines, ""]))
    return path


@pytest.mark.slow  # what is saved of alarms and columns is tested where they are
@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_alarms_and_columns_that_change_survive_too(tmp_path, kind):
    path = write_drift(tmp_path / "x.csv", kind)
    reference, out = tmp_path / "reference", tmp_path / "out"
    finished(path, *OPTIONS, "--top", "2", "--out", reference)
    arguments = (path, *SLOW, "--top", "2")
    assert killed_again_and_again(out, arguments, 2, random.Random(kind), 0.6) > 0
    assert_same(out, reference)
    assert facts(out)["run"]["alarms"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_fifty_kills_of_a_run_of_fifteen_seconds(tmp_path, name):
    path = write_rows(tmp_path / name, 60_000)
    reference, out = tmp_path / "reference", tmp_path / "out"
    options = (*options_for(path, OPTIONS[:-2]), "--checkpoint", "0.2s")
    finished(path, *options, "--out", reference)
    arguments = (path, *options, "--rate", "4000")  # 15 s of rows, besides what is read again
    n_kills = killed_again_and_again(out, arguments, 50, random.Random(name), 0.4)
    assert n_kills == 50
    assert_same(out, reference)


def test_without_a_checkpoint_it_starts_with_the_first_row(tmp_path, undisturbed):
    path, reference = undisturbed("x.csv")
    out = tmp_path / "out"
    child = start(path, *OPTIONS[:-1], "1000000", "--rate", "200", "--out", out)
    wait_for(lambda: (out / "steps.jsonl").exists(), child)
    kill(child)
    assert json.loads((out / "run.json").read_bytes())["status"] == "running"
    _, errors = finished("--resume", out, "--rate", "1000000")
    assert f"resuming {out} from the first row: it has no checkpoint yet" in errors
    assert_same(out, reference)


@pytest.mark.parametrize("damage", [pytest.param("cut", marks=pytest.mark.slow), "flip"])
def test_a_damaged_checkpoint_is_left_for_the_one_before(tmp_path, undisturbed, damage):
    _, reference = undisturbed("x.csv")
    out = copytree(reference, tmp_path / "out")
    newest = checkpoints(out)[-1]
    data = bytearray(newest.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    else:
        data[len(data) // 2] ^= 1
    newest.write_bytes(data)
    rows = read_state(checkpoints(out)[0])[0]["totals"]["n_rows"]
    _, errors = finished("--resume", out, *SOON)
    said, went_on, *_ = errors.splitlines()
    assert said.startswith(f"a checkpoint cannot be used: '{newest}' is truncated or altered")
    assert went_on == f"resuming {out} after {rows:,} rows"
    assert_same(out, reference)


def test_records_that_are_lost_are_not_passed_over(tmp_path, undisturbed):
    out = copytree(undisturbed("x.csv")[1], tmp_path / "out")
    steps = (out / "steps.jsonl").read_bytes()
    (out / "steps.jsonl").write_bytes(steps[:1000])
    result = run("--resume", out)
    assert result.exit_code == 2
    assert (
        f"steps.jsonl has changed since the run was saved, in its first {len(steps):,} bytes"
        in (result.stderr)
    )


# What goes on, and what does not


def run(*arguments):
    return CliRunner().invoke(main, ["select", *map(str, arguments)])


def test_a_run_that_has_ended_goes_on_with_rows_that_are_new(tmp_path):
    path, out = write_rows(tmp_path / "x.csv", 800, faults=False), tmp_path / "out"
    assert run(path, *OPTIONS, "--out", out).exit_code == 0
    before = facts(out)
    result = run("--resume", out)
    assert (result.exit_code, f"resuming {out} after 800 rows" in result.stderr) == (0, True)
    assert facts(out) == before
    rows = path.read_text().splitlines(keepends=True)[1:501]
    with path.open("a") as file:
        file.writelines(rows)
    assert run("--resume", out).exit_code == 0
    assert facts(out)["run"]["rows"] == 1_300
    assert facts(out)["run"]["status"] == "ended"


def test_a_run_whose_rows_are_gone_stays_as_it_was(tmp_path):
    path, out = write_rows(tmp_path / "x.csv", 500), tmp_path / "out"
    assert run(path, *OPTIONS, "--out", out).exit_code == 0
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    path.rename(tmp_path / "elsewhere.csv")
    result = run("--resume", out)
    assert result.exit_code == 2
    assert f"{path}" in result.stderr
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before
    write_rows(path, 500, seed=1)
    result = run("--resume", out)
    assert result.exit_code == 2
    assert f"{path} has been changed since it was read before" in result.stderr
    assert {file: file.read_bytes() for file in out.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize(
    "option", [("--top", "3"), ("--target", "label"), ("--overwrite",), ("x.csv",), ("--out", "o")]
)
def test_what_a_run_has_settled_stays(undisturbed, option):
    _, out = undisturbed("x.csv")
    result = run("--resume", out, *option)
    assert result.exit_code == 2
    assert f"cannot be used with --resume: it is set in {out / 'run.toml'}." in result.stderr


def test_there_has_to_be_a_run(tmp_path):
    result = run("--resume", tmp_path)
    assert result.exit_code == 2
    assert f"{tmp_path} holds no run to resume: it has no run.toml" in result.stderr
    result = run("--resume", tmp_path / "nowhere")
    assert "holds no run to resume: it is not a folder" in result.stderr


def test_standard_input_cannot_be_gone_on_with(tmp_path):
    path, out = write_rows(tmp_path / "x.csv", 500), tmp_path / "out"
    finished("-", *OPTIONS, "--out", out, input=path.read_bytes())
    result = run("--resume", out)
    assert result.exit_code == 2
    assert "standard input, which cannot be read again from the middle" in result.stderr


# Two processes


@pytest.mark.slow
def test_a_second_process_is_refused_and_a_dead_one_holds_nothing(tmp_path):
    path, out = write_rows(tmp_path / "x.csv", 4_000), tmp_path / "out"
    child = start(path, *SLOW, "--out", out)
    wait_for(lambda: checkpoints(out), child)
    for arguments in (("--resume", out), (path, *OPTIONS, "--out", out, "--overwrite")):
        result = run(*arguments)
        assert result.exit_code == 2
        assert f"{out} is in use by process {child.pid} on " in result.stderr
    kill(child)
    assert (out / ".lock").exists()
    finished("--resume", out, *SOON)
    assert not (out / ".lock").exists()


# Signals


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        *(pytest.param(n, marks=pytest.mark.slow) for n in (signal.SIGHUP, signal.SIGINT)),
    ],
)
def test_a_run_saves_when_it_is_asked_to_and_goes_on_once_it_was_told_to_leave(
    tmp_path, undisturbed, number
):
    path, reference = undisturbed("x.csv")
    out = tmp_path / "out"
    child = start(path, *SLOW[:-3], "1000000", *SLOW[-2:], "--out", out)
    wait_for(lambda: (out / "steps.jsonl").exists(), child)
    assert not checkpoints(out)
    child.send_signal(signal.SIGUSR1)
    wait_for(lambda: checkpoints(out), child)
    assert child.poll() is None
    child.send_signal(number)
    _, errors = child.communicate(timeout=120)
    assert child.returncode == (130 if number == signal.SIGINT else 0)
    assert f"rows is shown above and saved in {out}." in errors
    assert facts(out)["run"]["status"] == "ended early"
    finished("--resume", out, *SOON)
    assert_same(out, reference)


# A full disk


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 300 KB; ``grow`` makes it larger."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root can make a small file system, and not everywhere")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow  # a disk that is full in the middle is met by the tests of endings
def test_a_full_disk_loses_nothing(tmp_path, small_disk):
    path = write_rows(tmp_path / "x.csv", 8_000)
    reference, out = tmp_path / "reference", small_disk / "out"
    finished(path, *OPTIONS, "--out", reference)
    child = start(path, *OPTIONS, "--out", out)
    _, errors = child.communicate(timeout=120)
    assert child.returncode == 2
    (line,) = errors.splitlines()
    assert "No space left on device" in line
    assert checkpoints(out)
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    finished("--resume", out)
    assert_same(out, reference)


# Rows that cannot be used


def test_too_many_bad_rows_end_a_run_that_can_go_on(tmp_path, undisturbed):
    path, reference = undisturbed("x.csv")
    out = tmp_path / "out"
    result = run(path, *OPTIONS, "--max-bad", "5", "--out", out)
    assert result.exit_code == 2
    assert "rows could not be used, more than --max-bad 5 allows; the last: " in result.stderr
    assert "and saved in" in result.stderr
    assert run("--resume", out, "--max-bad", "0.5").exit_code == 0
    assert_same(out, reference)
    path = write_rows(tmp_path / "x.csv", 2_000)  # of few rows, no share is taken
    result = run(path, "--target", "label", "--batch-size", "500", "--max-bad", "0.01")
    assert "more than --max-bad 0.01 allows" in result.stderr


def test_every_bad_row_is_written_down(tmp_path):
    path, out = tmp_path / "x.csv", tmp_path / "out"
    lines = ["a,b,y", *("1,2,0", "3,4,1") * 30]
    lines[5:5], lines[40:40] = ["1,2"], ["1,2,"]
    path.write_text("\n".join([*lines, "7", ""]))
    result = run(path, "--target", "y", "--batch-size", "7", "--keep-doubtful", "--out", out)
    assert result.exit_code == 0, result.stderr
    found = lines_of(out / "quarantine.ndjson")
    assert [(row["line"], row["raw"]) for row in found] == [(6, "1,2"), (41, "1,2,"), (64, "7")]
    assert found[0]["reason"] == "2 fields, the header has 3"
    assert "3 rows could not be used" in result.stdout


# What is told while it goes on


@pytest.mark.slow  # a kill loses nothing that is emitted: the tests of faults; the port has its own
def test_metrics_can_be_asked_for_and_what_is_emitted_is_never_lost(tmp_path):
    path = write_rows(tmp_path / "x.csv", 2_000)
    out, told = tmp_path / "out", tmp_path / "told.ndjson"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    service = ("--emit", told, "--emit-every", "batch", "--metrics", port)
    child = start(path, *SLOW, "--out", out, *service)
    wait_for(lambda: len(checkpoints(out)) == 2, child)
    text = urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(found["fires_rows_total"]) >= 200
    assert float(found["fires_bad_rows_total"]) > 0
    assert {"fires_selected_features", "fires_alarms_total"} <= set(found)
    time.sleep(0.2)
    kill(child)
    finished("--resume", out, "--rate", "1000000")
    records = lines_of(told)
    first = records[0]["id"].rpartition("-")[0]
    assert [r["id"] for r in records if r["id"].rpartition("-")[0] != first] == []
    seen = {}
    for record in records:
        known = seen.setdefault(record["id"], record)
        assert record | {"time": None} == known | {"time": None}
    n_batches = facts(out)["run"]["batches"]
    assert list(seen) == [f"{first}-{i}" for i in range(n_batches)]
