"""Whatever ends a run: what was learnt until then is shown and saved, and one line says why."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import fires
from fires.cli import main
from fires.streams.files import from_file

ROW = re.compile(r"^ *\d+ +(\S+) +\S+ +\[.*\] +\S+%", re.MULTILINE)


def select(*arguments, stdin=None):
    return CliRunner().invoke(main, ["select", *map(str, arguments)], input=stdin)


def lines_of(n_rows, seed=0):
    """Rows of four numbers whose label, 0 or 1, hangs on the second."""
    X = np.random.default_rng(seed).normal(size=(n_rows, 4))
    return [",".join(f"{v:.6f}" for v in x) + f",{int(x[1] > 0)}" for x in X]


NO_COUNT = "1,1,1,1,-5"  # a poisson model cannot learn from it


def write(path, lines):
    path.write_text("\n".join(["a,b,c,d,y", *lines]) + "\n", encoding="utf-8")
    return path


def read(out):
    facts = json.loads((out / "run.json").read_text(encoding="utf-8"))
    steps = [json.loads(line) for line in (out / "steps.jsonl").read_text().splitlines()]
    return facts, steps


def assert_saved(result, out, n_rows, *words):
    """The run ended after so many rows; all that was learnt from them came out."""
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    learnt = f"what was learnt from the first {n_rows:,} rows is shown above and saved in {out}"
    assert line.startswith("Error: ")
    assert line.endswith(learnt)
    for word in words:
        assert word in line
    facts, steps = read(out)
    assert facts["rows"] == steps[-1]["rows"] == n_rows
    assert facts["ended_early"] in line
    state = fires.load(out / "state.safetensors")
    assert state.selector.n_samples_seen_ == n_rows
    assert ROW.findall(result.stdout)[0] == "b"
    assert f"{n_rows:,} rows in " in result.stdout


@pytest.mark.parametrize("row", ["1,1,1,1,0.5", "1e300,1,1,1,0"])
def test_one_bad_value_in_the_middle_does_not_end_a_run(row, tmp_path):
    good = lines_of(2_000)
    path, out = write(tmp_path / "x.csv", [*good, row, *good]), tmp_path / "out"
    assert select(path, "-t", "y", "--out", out).exit_code == 0
    facts, _ = read(out)
    assert facts["ended_early"] is None
    assert (facts["rows"] + facts["rejected_rows"], facts["missing_values"]) == (
        4_001,
        1 - facts["rejected_rows"],
    )


def test_an_error_of_the_learning_ends_it_with_what_was_learnt(tmp_path):
    good, options = lines_of(2_000), ("-t", "y", "--model", "poisson", "--out")
    path, out = write(tmp_path / "x.csv", [*good, NO_COUNT, *good]), tmp_path / "out"
    result = select(path, *options, out)
    assert_saved(result, out, 2_000, "x.csv", "after 2,000 rows", "negative")
    whole, again = write(tmp_path / "good.csv", good), tmp_path / "again"
    assert select(whole, *options, again).exit_code == 0
    assert (out / "features.csv").read_bytes() == (again / "features.csv").read_bytes()


def test_and_json_says_so_too(tmp_path):
    path = write(tmp_path / "x.csv", [*lines_of(500), NO_COUNT])
    result = select(path, "-t", "y", "--model", "poisson", "--json")
    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert (document["rows"], len(document["features"])) == (500, 4)
    assert document["ended_early"] in result.stderr
    *others, line = result.stderr.splitlines()
    # While kernels are compiled, which is an event, there is time for events of the progress.
    assert {json.loads(other)["event"] for other in others} <= {"progress", "log"}
    assert "after 500 rows" in line
    assert "negative" in line
    assert line.endswith("what was learnt from the first 500 rows is shown above")


def test_a_file_that_is_cut_off(tmp_path):
    text = write(tmp_path / "x.csv", lines_of(40_000)).read_bytes()
    packed = gzip.compress(text)
    path, out = tmp_path / "x.csv.gz", tmp_path / "out"
    path.write_bytes(packed[: len(packed) // 2])
    options = ("--keep-doubtful", "--batch-size", 1000)  # y follows from b alone
    result = select(path, "-t", "y", "--out", out, *options)
    n_rows = read(out)[0]["rows"]
    assert n_rows > 10_000
    assert_saved(result, out, n_rows, "x.csv.gz")


def test_what_is_wrong_from_the_beginning_is_one_line_and_no_table(tmp_path):
    path, out = write(tmp_path / "x.csv", [NO_COUNT, *lines_of(300)]), tmp_path / "new" / "out"
    result = select(path, "-t", "y", "--model", "poisson", "--out", out)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "learnt" not in line
    assert not (tmp_path / "new").exists()


def test_an_error_that_nobody_expected_loses_nothing_and_shows_itself(tmp_path, monkeypatch):
    def step(pipeline, *given):
        if pipeline.selector.n_samples_seen_ > 500:
            raise ZeroDivisionError("a mistake of ours")
        return train(pipeline, *given)

    train = fires.OnlinePipeline.train
    monkeypatch.setattr(fires.OnlinePipeline, "train", step)
    out = tmp_path / "out"
    result = select(write(tmp_path / "x.csv", lines_of(900)), "-t", "y", "--out", out)
    assert isinstance(result.exception, ZeroDivisionError)
    assert "what was learnt from the first 500 rows is shown above and saved in" in result.stderr
    assert read(out)[0]["rows"] == 500
    assert ROW.findall(result.stdout)[0] == "b"


def test_too_little_memory(tmp_path, monkeypatch):
    def step(pipeline, batch):
        if hasattr(pipeline.selector, "n_samples_seen_"):
            raise MemoryError
        check(pipeline, batch)

    check = fires.OnlinePipeline.check
    monkeypatch.setattr(fires.OnlinePipeline, "check", step)
    out = tmp_path / "out"
    result = select(write(tmp_path / "x.csv", lines_of(900)), "-t", "y", "--out", out)
    assert_saved(result, out, 100, "not enough memory", "--batch-size")


# A full disk


def files_in(out):
    return {path.relative_to(out): path.read_bytes() for path in out.rglob("*") if path.is_file()}


def test_a_disk_that_is_full_in_the_middle_has_room_for_what_was_learnt(tmp_path, file_size_limit):
    path, out = write(tmp_path / "x.csv", lines_of(900)), tmp_path / "out"
    with file_size_limit(40_000):
        result = select(path, "-t", "y", "--batch-size", 2, "--out", out)
    assert result.exit_code == 2
    *_, line = result.stderr.splitlines()  # before it, that a column alone tells the target
    assert f"{out}/steps.jsonl: File too large" in line
    facts, steps = read(out)  # the records that are there are whole
    assert 0 < len(steps) <= facts["batches"] < 450
    assert facts["status"] == "ended early"
    assert line.endswith(f"first {facts['rows']:,} rows is shown above and saved in {out}")
    saved = fires.load(out / "state.safetensors")
    assert saved.selector.n_samples_seen_ == facts["rows"]
    assert ROW.findall(result.stdout)[0] == "b"


@pytest.mark.parametrize(("limit", "batch_size"), [(4_000, 5), (3_000, 1_000)])
def test_a_disk_without_any_room_leaves_an_earlier_run_and_shows_the_table(
    tmp_path, file_size_limit, limit, batch_size
):
    path, out = write(tmp_path / "x.csv", lines_of(900)), tmp_path / "out"
    assert select(path, "-t", "y", "--out", out).exit_code == 0
    before = files_in(out)
    with file_size_limit(limit):
        options = ("--batch-size", batch_size, "--out", out, "--overwrite")
        result = select(path, "-t", "y", *options)
    assert result.exit_code == 2, result.stderr
    *_, line = result.stderr.splitlines()  # before it, that a column alone tells the target
    said = r"rows is shown above, but could not be saved: .*/out/\w+\.\w+: File too large"
    assert re.search(said, line)
    assert ROW.findall(result.stdout)[0] == "b"
    assert files_in(out) == before


def test_a_comparison_that_cannot_be_saved_is_shown(tmp_path, file_size_limit):
    path, out = write(tmp_path / "x.csv", lines_of(900)), tmp_path / "out"
    command = ["compare", str(path), "-t", "y", "-s", "ofs", "-k", "2", "--seeds", "1"]
    with file_size_limit(200):
        result = CliRunner().invoke(main, [*command, "--out", str(out)])
        as_json = CliRunner().invoke(main, [*command, "--out", str(out), "--json"])
    for one in (result, as_json):
        assert one.exit_code == 2
        *_, line = one.stderr.splitlines()  # before it, that kernels are compiled
        assert line.endswith(f"could not be saved: {out}/compare.json: File too large")
    assert "random" in result.stdout
    assert json.loads(as_json.stdout)["reference"] == "ofs"
    assert not out.exists()


@pytest.mark.parametrize("command", ["select", "compare"])
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_found_out_before_anything_is_read(command, tmp_path):
    out = tmp_path / "out"
    out.mkdir(mode=0o500)
    result = CliRunner().invoke(main, [command, "no such file", "-t", "y", "--out", str(out)])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: {out}: Permission denied\n"


# An earlier run


@pytest.mark.parametrize(
    ("command", "options", "mark"),
    [("select", (), "run.json"), ("compare", ("-s", "ofs", "--seeds", "1"), "compare.json")],
)
def test_an_earlier_run_is_not_replaced_unasked(command, options, mark, tmp_path):
    def run(*more, file="x.csv"):
        arguments = [command, str(tmp_path / file), "-t", "y", *options, "--out", str(out)]
        return CliRunner().invoke(main, [*arguments, *more])

    out = tmp_path / "out"
    write(tmp_path / "x.csv", lines_of(1_200))
    assert run().exit_code == 0
    before = files_in(out)
    for file in ("x.csv", "no such file"):  # it is not even looked for
        result = run(file=file)
        assert (result.exit_code, result.stdout) == (2, "")
        (line,) = result.stderr.splitlines()
        started = json.loads(before[Path(mark)])["started"]
        words = f"{out} holds the run on {tmp_path / 'x.csv'} of {started}; "
        other = "another folder, or --resume to continue it"
        other = other if command == "select" else "or another folder"
        assert line == f"Error: {words}give --overwrite to replace it, {other}"
    assert files_in(out) == before
    assert run("--overwrite").exit_code == 0
    assert json.loads((out / mark).read_bytes()) != json.loads(before[Path(mark)])
    (out / mark).write_text("{")
    assert f"{out} holds an earlier run ({mark}); give --overwrite" in run().stderr


# Signals


@pytest.mark.slow  # a pipe is met by the tests of select, and SIGTERM by those of resuming
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_the_system_or_of_the_terminal_saves_and_is_no_error(number, tmp_path):
    out, fifo = tmp_path / "out", tmp_path / "fifo"
    os.mkfifo(fifo)
    command = [sys.executable, "-m", "fires.cli", "select", str(fifo), "-t", "y"]
    child = subprocess.Popen(
        [*command, "--batch-size", "10", "--out", str(out), "--keep-doubtful"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    text = write(tmp_path / "x.csv", lines_of(60_000)).read_bytes()
    with fifo.open("wb", buffering=0) as pipe:
        feeder = threading.Thread(target=pipe.write, args=[text])
        feeder.start()
        deadline = time.monotonic() + 120
        while not any(path.stat().st_size for path in out.glob("steps.jsonl")):
            assert child.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        child.send_signal(number)
        output, errors = child.communicate(timeout=120)
    feeder.join(timeout=120)
    n_rows = read(out)[0]["rows"]
    learnt = f"what was learnt from the first {n_rows:,} rows is shown above and saved in {out}"
    assert (child.returncode, errors) == (0, f"Interrupted; {learnt}.\n")
    assert ROW.findall(output)[0] == "b"


def test_a_second_file_goes_on_where_the_first_ended(tmp_path):
    """The state of a run that was cut short learns on, as the whole run would have."""
    lines = lines_of(2_000)
    out = tmp_path / "out"
    options = ("-t", "y", "--model", "poisson", "--out")
    cut = write(tmp_path / "cut.csv", [*lines[:1_000], NO_COUNT])
    assert select(cut, *options, out).exit_code == 2
    state = fires.load(out / "state.safetensors")
    rest = write(tmp_path / "rest.csv", lines[1_000:])
    for batch in from_file(rest, "y", holds="numbers").batches(100):
        state.partial_fit(batch.X, batch.y)
    whole = tmp_path / "whole"
    select(write(tmp_path / "x.csv", lines), *options, whole)
    expected = fires.load(whole / "state.safetensors").selector
    np.testing.assert_array_equal(state.selector.weights_, expected.weights_)
