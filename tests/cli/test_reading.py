"""FILE and the options that say how to read it."""

import json
import subprocess
import sys

import numpy as np
import pytest
from click.testing import CliRunner

from fires.cli import main

HEAD = 'a,b,c,"d, e",y'


def select(*arguments, stdin=None):
    return CliRunner().invoke(main, ["select", *map(str, arguments)], input=stdin)


def lines_of(n_rows, seed=0):
    X = np.random.default_rng(seed).normal(size=(n_rows, 4))
    return [",".join(f"{v:.6f}" for v in x) + f",{'no' if x[1] < 0 else 'yes'}" for x in X]


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "x.csv"
    path.write_text("\n".join([HEAD, *lines_of(400)]) + "\n", encoding="utf-8")
    return path


def names_in(result):
    assert result.exit_code == 0, result.output
    return {row["feature"] for row in json.loads(result.stdout)["features"]}


@pytest.mark.parametrize(
    ("options", "left"),
    [
        (["--exclude", "a", "--exclude", "b"], {"c", "d, e"}),
        (["--exclude", "a,b"], {"c", "d, e"}),
        (["--exclude", "d, e"], {"a", "b", "c"}),
        (["--exclude", "a,b", "--exclude", "d, e"], {"c"}),
        (["--exclude", ""], {"a", "b", "c", "d, e"}),
    ],
)
def test_all_that_is_excluded_is_left_out(csv_file, options, left):
    assert names_in(select(csv_file, "-t", "y", "--json", *options)) == left


def test_what_cannot_be_excluded_is_named(csv_file):
    result = select(csv_file, "-t", "y", "--exclude", "a,bb")
    assert result.exit_code == 2
    (line,) = result.stderr.splitlines()
    assert 'no column "bb"' in line


@pytest.mark.parametrize("sep", ["\t", "\\t", "tab", ";", "|", "semicolon"])
def test_the_separator_can_be_named(csv_file, tmp_path, sep):
    char = {"\\t": "\t", "tab": "\t", "semicolon": ";"}.get(sep, sep)
    head = HEAD.replace(",", char).replace(f"d{char} e", "d; e" if char != ";" else "d e")
    path = tmp_path / "x.txt"
    lines = [line.replace(",", char) for line in lines_of(400)]
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    assert len(names_in(select(path, "-t", "y", "--json", "--sep", sep))) == 4


@pytest.mark.parametrize("sep", ["", ",,", "\n", '"'])
def test_a_separator_is_one_character(csv_file, sep):
    result = select(csv_file, "-t", "y", "--sep", sep)
    assert result.exit_code == 2
    assert "is not one character" in result.stderr


# Which files


def test_a_pattern_that_nothing_matches_is_one_line(tmp_path):
    result = select(tmp_path / "*.csv", "-t", "y", "--out", tmp_path / "out")
    assert (result.exit_code, result.stderr) == (2, f"Error: no file matches {tmp_path}/*.csv\n")
    assert not (tmp_path / "out").exists()


def test_a_name_that_looks_like_a_pattern_is_a_name(csv_file, tmp_path):
    path = tmp_path / "x[1].csv"
    path.write_bytes(csv_file.read_bytes())
    assert len(names_in(select(path, "-t", "y", "--json"))) == 4


@pytest.mark.parametrize(
    ("files", "line"),
    [
        (["."], 'Error: . is a directory; name its files: "./*.csv"'),
        (["-", "x.csv"], "Error: standard input cannot be read together with files"),
        ([""], "Error: the name of a file is empty"),
    ],
)
def test_what_is_no_file_is_one_line(files, line):
    result = select(*files, "-t", "y")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", line + "\n")


def test_standard_input_that_is_closed_is_one_line():
    command = f"exec {sys.executable} -m fires.cli select - -t y <&-"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    said = "Error: standard input is closed; pipe a table into it, or name FILE\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", said)


def test_a_file_name_that_is_no_text_is_shown_and_saved(csv_file, tmp_path):
    path, out = tmp_path / "x\udcff.csv", tmp_path / "out"
    path.write_bytes(csv_file.read_bytes())
    assert select(path, "-t", "y", "--out", out).exit_code == 0
    facts = json.loads((out / "run.json").read_bytes())
    assert facts["settings"]["file"] == [str(path)]


def test_quiet_shows_the_result_and_no_more(csv_file, tmp_path):
    loud = select(csv_file, "-t", "y", "--out", tmp_path / "a")
    quiet = select(csv_file, "-t", "y", "--out", tmp_path / "b", "--quiet")
    *table, written = loud.stdout.splitlines()
    assert written.startswith("written to ")
    assert quiet.stdout.splitlines()[:-1] == table[:-1]  # the last says how long it took
    assert quiet.stderr == ""
    assert select("no.csv", "-t", "y", "--quiet").stderr.startswith("Error: ")
