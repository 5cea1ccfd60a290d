"""SIGTERM and SIGHUP to a run with ``--out``: code 0 at any moment. Real ones, to a process."""

import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from tests.cli.durable_runs import finished, wait_for
from tests.report.viewers import rows

# Sends itself a signal right before a module is imported, or a function is called, or at the exit.
PROGRAM = r"""
import atexit, importlib, os, sys
number, moment, *sys.argv[1:] = int(sys.argv[1]), *sys.argv[2:]
sys.argv[0] = "fires"

def tell():
    os.write(2, b"now\n")
    os.kill(os.getpid(), number)

class Watch:
    def find_spec(self, name, path=None, target=None):
        if name == moment and self in sys.meta_path:
            sys.meta_path.remove(self)
            tell()

import fires.cli
if moment == "exit":
    atexit.register(tell)
elif ":" not in moment:
    sys.meta_path.insert(0, Watch())
else:
    module, _, path = moment.partition(":")
    *owner, name = path.split(".")
    place = importlib.import_module(module)
    for part in owner:
        place = getattr(place, part)
    was = getattr(place, name)
    def told(*arguments, **settings):
        setattr(place, name, was)
        tell()
        return was(*arguments, **settings)
    setattr(place, name, told)
fires.cli.main()
"""
LEARNT = ("--target", "label", "--batch-size", "10", "--keep-doubtful", "--quiet")
FAST = ["sklearn.base", "exit"]
SLOW = [
    "fires.cli.reading:Reading.open",
    "fires.cli.select:_pipeline",
    *("polars", "numba", "fires.selectors.fires", "fires.streams.table_stream"),
    "fires.cli.select:settings_facts",
    "fires.run.folder:RunFolder.begin",
    "fires.run.folder:RunFolder._set_aside",
    "fires.run.folder:RunFolder.start",
    "fires.run.folder:RunFolder.checkpoint",
    "fires.run.folder:RunFolder.finish",
    "fires.run.folder:RunFolder.__exit__",
    "fires.run.run:prequential",
    "fires.cli.select:_service",
    "fires.cli.tables:print_result",
    "fires.cli.select:_end",
    "fires.report.page:page",
]
MOMENTS = [
    pytest.param(moment, number, id=f"{moment} {number.name}", marks=marks)
    for moments, marks in ((FAST, ()), (SLOW, pytest.mark.slow))
    for moment in moments
    for number in (signal.SIGTERM, signal.SIGHUP)
    if marks or number == signal.SIGTERM
]


@pytest.fixture
def file(tmp_path):
    (tmp_path / "x.csv").write_text(rows(200))
    return tmp_path / "x.csv"


CHILDREN = []


@pytest.fixture(autouse=True)
def nothing_is_left():
    yield
    while CHILDREN:
        child = CHILDREN.pop()
        child.kill()
        child.communicate()


def begun(*command):
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, *map(str, command)]
    CHILDREN.append(subprocess.Popen(command, encoding="utf-8", **pipes))
    return CHILDREN[-1]


def ended(child, code=0, seconds=120):
    """What it says to the end, which has to come soon, with a code and without a traceback."""
    _, errors = child.communicate(timeout=seconds)
    assert "Traceback" not in errors
    assert child.returncode == code, errors
    return errors


def goes_on(out, file):
    """Whether the run can be finished: from where it was, or if nothing is there, from anew."""
    how = ("--resume", out) if out.exists() else (file, *LEARNT, "--out", out)
    finished(*how)
    return json.loads((out / "run.json").read_bytes())["rows"] == 200


@pytest.mark.parametrize(("moment", "number"), MOMENTS)
def test_it_is_no_error_at(moment, number, file, tmp_path):
    out = tmp_path / "run"
    arguments = (file, *LEARNT, "--out", out, "--checkpoint", "1")
    arguments += ("--report",) * (moment in SLOW)
    errors = ended(begun("-c", PROGRAM, int(number), moment, "select", *arguments))
    assert errors.startswith("now\n")
    assert moment in FAST or goes_on(out, file)


WAITS = [
    (signal.SIGTERM, True, 0),
    pytest.param(signal.SIGHUP, True, 0, marks=pytest.mark.slow),
    pytest.param(signal.SIGINT, True, 130, marks=pytest.mark.slow),
    pytest.param(signal.SIGTERM, False, -signal.SIGTERM, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("number", "has_folder", "code"), WAITS)
def test_while_it_waits_for_its_sample(number, has_folder, code, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    more = ("--out", tmp_path / "new" / "run") if has_folder else ()
    child = begun("-m", "fires.cli", "select", tmp_path / "fifo", *LEARNT, *more)
    with (tmp_path / "fifo").open("wb", buffering=0) as pipe:  # it has opened the other end
        pipe.write(b"x0,x1,label\n")
        time.sleep(0.2)
        child.send_signal(number)
        errors = ended(child, code)
    assert errors == ("Interrupted.\n" if has_folder else "")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow  # a wait is met above, and a run that goes on by the tests of resuming
def test_while_it_waits_for_its_first_batch_and_before_that_of_a_run_that_goes_on(tmp_path):
    def told_while_it_waits():
        wait_for(lambda: (out / "names.json").exists(), child)
        time.sleep(0.5)
        child.send_signal(signal.SIGUSR1)  # changes nothing
        time.sleep(0.1)
        child.terminate()
        return ended(child)

    file, out = tmp_path / "x.csv", tmp_path / "run"
    file.write_text(rows(120))
    command = ("-m", "fires.cli", "select", file, *LEARNT, "--follow", "--out", out)
    child = begun(*command, "--batch-size", "200")
    assert told_while_it_waits() == "Interrupted.\n"
    assert not out.exists()
    file.write_text(rows(200))
    child = begun(*command)
    wait_for(lambda: (out / "steps.jsonl").exists(), child)
    wait_for(lambda: (out / "steps.jsonl").read_bytes().count(b"\n") == 20, child)
    told_while_it_waits()
    before = (out / "features.csv").read_bytes()
    child = begun("-m", "fires.cli", "select", "--resume", out)
    wait_for(lambda: '"running"' in (out / "run.json").read_text(), child)
    told_while_it_waits()
    assert (out / "features.csv").read_bytes() == before
    assert json.loads((out / "run.json").read_bytes())["rows"] == 200


def test_nor_is_a_signal_lost_that_comes_when_rows_are_about_to_be_waited_for(file, tmp_path):
    arguments = ("select", file, *LEARNT, "--follow", "--out", tmp_path / "run")
    moment = "fires.cli.select:one_bar"
    errors = ended(begun("-c", PROGRAM, int(signal.SIGTERM), moment, *arguments))
    assert errors == "now\nInterrupted.\n"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_at_random_moments(seed, file, tmp_path):
    rng, out = random.Random(seed), tmp_path / "run"
    command = ("select", file, *LEARNT, "--out", out, "--checkpoint", "1", "--rate", "1000")
    began = time.monotonic()
    ended(begun("-m", "fires.cli", *command, "--overwrite"))
    longest = time.monotonic() - began
    child = begun("-c", PROGRAM, 0, "fires.cli.select:_open_stream", *command, "--overwrite")
    assert child.stderr.readline() == "now\n"  # from here on
    time.sleep(rng.uniform(0.0, longest))
    for _ in range(rng.randint(1, 3)):
        child.send_signal(rng.choice([signal.SIGTERM, signal.SIGHUP]))
    ended(child)
    assert goes_on(out, file)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_at_random_moments_of_a_run_that_has_no_end_of_its_own(seed, file, tmp_path):
    rng, out = random.Random(seed), tmp_path / "run"
    how = (file, *LEARNT, "--out", out, "--checkpoint", "1", "--follow")
    for _ in range(2):  # a signal that is lost lets it wait for ever
        child = begun("-c", PROGRAM, 0, "fires.cli.select:_open_stream", "select", *how)
        assert child.stderr.readline() == "now\n"
        time.sleep(rng.uniform(0.0, 4.0))
        if rng.random() < 0.3:
            child.send_signal(signal.SIGUSR1)
        child.send_signal(rng.choice([signal.SIGTERM, signal.SIGHUP]))
        ended(child)
        how = ("--resume", out) if out.exists() else how
