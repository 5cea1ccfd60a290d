"""Run folders that somebody has damaged: one line says so, and nothing hangs or breaks."""

import json
import os
import random
import shutil
import signal
import traceback
from functools import cache

import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from tests.report import runs

from fires.cli import main
from fires.core.state import read_state, write_state
from fires.report.summary import summarise

SEED = 20_260
DEEP = 100_000
ODD = [None, True, -1, 0, 2, -(2**63), 2**63, 10**30, 1e308, float("nan"), float("inf"), "", "x"]
ODD += [
    "-1",
    "é\ud800",
    [],
    {},
    [[]],
    [None],
    [-1],
    [10**12],
    {"a": 1},
    [{"feature": -5}],
    {"": {}},
]


class TooLong(BaseException):
    """A command that waits for something."""


# The folders


@cache
def ended():
    """Three classes, a category, bad rows, missing values, twins, and an alarm."""
    table, score = runs.numbers_table(1_200, 6, drifts=False)
    late = np.arange(1_200) >= 600
    label = np.digitize(np.where(late, table["x3"] * 3.0, score), [-1.0, 1.0])
    towns = [f"town {i}" for i in np.digitize(score, [0.0]).tolist()]
    table = table.with_columns(
        town=pl.Series(towns), copy=pl.col("x2") * 2.0, label=pl.Series(label.astype(str))
    )
    lines = table.write_csv().splitlines()
    lines[300:300] = ["1,2", "1,2,3"]
    lines[7] = "," + lines[7].split(",", 1)[1]
    how = ("--top", 3, "--redundancy", "drop", "--keep-doubtful", "--batch-size", 50)
    return runs.select("damaged", lines, *how)


def opened():
    """Columns that come and go."""
    lines = runs.numbers_table(600, 4)[0].write_csv().splitlines()
    return runs.select("damaged-open", lines, "--top", 2, "--columns", "open")


def killed():
    """What a killed run has left."""
    run = runs.copy_of(ended(), runs.folder() / "damaged-killed")
    for name in ("features.csv", "columns.csv", "state.safetensors"):
        (run / name).unlink()
    facts = json.loads((run / "run.json").read_bytes())
    begun = ("records", "fires", "started", "versions", "settings", "id")
    facts = {"status": "running"} | {name: facts[name] for name in begun}
    (run / "run.json").write_text(json.dumps(facts))
    return run


def compared():
    """A comparison."""
    source, out = runs.folder() / "compared.csv", runs.folder() / "damaged-compared"
    runs.numbers_table(400, 4)[0].write_csv(source)
    options = ("compare", source, "-t", "label", "-s", "fires", "--seeds", 2, "-k", 2, "-q")
    done = CliRunner().invoke(main, list(map(str, (*options, "--out", out))))
    assert done.exit_code == 0, done.output
    return out


@pytest.fixture(scope="module")
def folders():
    return [ended(), opened(), killed(), compared()]


# Damage


def truncated(path, rng):
    content = path.read_bytes()
    path.write_bytes(content[: rng.randrange(len(content) + 1)])


def flipped(path, rng):
    content = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 5, 50))):
        if content:
            content[rng.randrange(len(content))] = rng.randrange(256)
    path.write_bytes(bytes(content))


def missing(path, rng):
    path.unlink()


def a_pipe(path, rng):
    path.unlink()
    os.mkfifo(path)


def a_folder(path, rng):
    path.unlink()
    path.mkdir()


def a_link_to_itself(path, rng):
    path.unlink()
    path.symlink_to(path)


def deep(path, rng):
    begin, end = rng.choice((("[", "]"), ('{"settings":', "}"), ('{"rows":', "}")))
    path.write_text(begin * DEEP + "1" + end * DEEP + "\n")


def other(path, rng):
    path.write_text(rng.choice(("", "\n", "null\n", "[]\n", "{}\n", "7\n", '"x"\n', "\x00" * 50)))


def odd_value(value, rng):
    """A JSON value, in which something at a random place is another or gone."""
    while isinstance(value, (dict, list)) and len(value):
        place = rng.choice(list(value) if isinstance(value, dict) else range(len(value)))
        if isinstance(value[place], (dict, list)) and value[place] and rng.random() < 0.8:
            value = value[place]
            continue
        if rng.random() < 0.15:
            del value[place]
        else:
            value[place] = rng.choice(ODD)
        return


def odd_json(path, rng):
    lines = path.read_text().splitlines() if path.suffix in (".jsonl", ".ndjson") else None
    place = rng.randrange(len(lines)) if lines else 0
    value = json.loads(lines[place] if lines else path.read_bytes())
    odd_value(value, rng)
    text = json.dumps(value)
    path.write_text("\n".join([*lines[:place], text, *lines[place + 1 :], ""]) if lines else text)


def odd_cell(path, rng):
    lines = path.read_text().splitlines()
    place = rng.randrange(len(lines))
    cells = lines[place].split(",")
    cell = rng.randrange(len(cells))
    cells[cell : cell + 1] = rng.choice(
        (["x"], [""], ["-1"], ["1e999"], ['"'], [], ["a", "b"], ["99999999999999999999"], ["\x00"])
    )
    path.write_text("\n".join([*lines[:place], ",".join(cells), *lines[place + 1 :], ""]))


def odd_state(path, rng):
    """A state that says other things, with a proper checksum."""
    header, arrays = read_state(path)
    name = rng.choice(list(arrays))
    array = arrays[name]
    done = rng.randrange(7)
    if done == 0:
        odd_value(header, rng)
    elif done == 1:
        del arrays[name]
    elif done == 2:
        arrays[name] = array[:-1] if array.ndim else array
    elif done == 3 and array.dtype.kind == "i":
        arrays[name] = array - rng.choice((1, 10**6))
    elif done == 4 and array.dtype.kind == "i":
        arrays[name] = array + rng.choice((1, 10**6, 2**31 - 100)).__int__()
    elif done == 5:
        arrays[name] = array.astype(rng.choice(("float64", "int8", "bool")))
    else:
        arrays[name] = array.reshape(1, *array.shape)
    write_state(path, json.loads(json.dumps(header)), arrays)


ANY = (truncated, flipped, missing, a_pipe, a_folder, a_link_to_itself, deep, other)
BY_ENDING = {
    ".json": [odd_json] * 16,
    ".jsonl": [odd_json] * 16,
    ".ndjson": [odd_json] * 8,
    ".csv": [odd_cell] * 16,
    ".safetensors": [odd_state] * 8,
}


def damage(run, rng):
    """Do some harm to one or two files of a run, and say what."""
    done = []
    for _ in range(rng.choice((1, 1, 1, 2))):
        files = sorted(p for p in run.rglob("*") if p.is_file() and p.suffix in BY_ENDING)
        # Of what is read first, more can go wrong.
        kinds = sorted({(path.parent.name, path.suffix) for path in files})
        kind = rng.choice(kinds or [None])
        if kind is None:
            break
        path = rng.choice([p for p in files if (p.parent.name, p.suffix) == kind])
        harm = rng.choice((*ANY, *BY_ENDING[path.suffix]))
        done.append(f"{harm.__name__} {path.relative_to(run)}")
        try:
            harm(path, rng)
        except (ValueError, KeyError, TypeError, OSError, RecursionError, OverflowError):
            truncated(path, rng)  # it was damaged before
    return ", ".join(done)


def wrong_with(run, arguments):
    """What a command shows besides one line, if it does."""

    def give_up(*_):
        raise TooLong

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, 30)
    try:
        result = CliRunner().invoke(main, list(map(str, arguments)))
    except TooLong:
        return "it hangs"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    if result.exit_code not in (0, 2) or not isinstance(result.exception, SystemExit | None):
        return "".join(traceback.format_exception(*result.exc_info)[-3:])
    lines = result.stderr.splitlines()
    if result.exit_code and (len(lines) != 1 or not lines[0].startswith("Error: ")):
        return result.stderr
    if result.exit_code and run.name not in lines[0] and "has no column" not in lines[0]:
        return f"it does not say where: {lines[0]}"
    return None


def failures(folders, tmp_path, n, first=0):
    found = []
    for number in range(first, first + n):
        rng = random.Random(SEED + number)
        run = tmp_path / f"run{number}"
        shutil.copytree(rng.choice(folders), run)
        harm = damage(run, rng)
        feature = rng.choice(("x2", "town", "copy", "x0"))
        for arguments in (("report", run), ("explain", run, feature)):
            if wrong := wrong_with(run, arguments):
                found.append(f"{number}: {harm}: {arguments[0]}:\n{wrong}")
        shutil.rmtree(run)
    return found


def test_some_damaged_folders_are_told_in_one_line(folders, tmp_path):
    assert not failures(folders, tmp_path, 60)


@pytest.mark.slow
def test_two_thousand_damaged_folders_are_told_in_one_line(folders, tmp_path):
    assert not failures(folders, tmp_path, 2_000)


def test_what_is_whole_is_still_read(folders):
    for run in folders[:3]:
        assert summarise(run)["counts"]["rows"] > 0
