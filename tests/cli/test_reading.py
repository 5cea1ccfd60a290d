"""FILE and the options that say how to read it."""

import json
import re
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from click.testing import CliRunner
from sklearn.datasets import dump_svmlight_file

import fires
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


@pytest.mark.parametrize("sep", ["\t", "\\t", "tab", ";", "|"])
def test_the_separator_can_be_named(csv_file, tmp_path, sep):
    char = {"\\t": "\t", "tab": "\t"}.get(sep, sep)
    head = HEAD.replace(",", char).replace(f"d{char} e", "d; e" if char != ";" else "d e")
    path = tmp_path / "x.txt"
    lines = [line.replace(",", char) for line in lines_of(400)]
    path.write_text("\n".join([head, *lines]) + "\n", encoding="utf-8")
    assert len(names_in(select(path, "-t", "y", "--json", "--sep", sep))) == 4


@pytest.mark.parametrize("sep", ["", ",,", "\n", '"'])
def test_a_separator_is_one_character(csv_file, sep):
    result = select(csv_file, "-t", "y", "--sep", sep)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert "cannot separate fields" in line


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
        ([""], "Error: a file name is empty"),
    ],
)
def test_what_is_no_file_is_one_line(files, line):
    result = select(*files, "-t", "y")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", line + "\n")


def test_standard_input_that_is_closed_is_one_line():
    command = f"exec {sys.executable} -m fires.cli select - -t y <&-"
    result = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=120)
    said = "Error: standard input is closed\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", said)


def test_a_file_name_that_is_no_text_is_shown_and_saved(csv_file, tmp_path):
    path, out = tmp_path / "x\udcff.csv", tmp_path / "out"
    path.write_bytes(csv_file.read_bytes())
    assert select(path, "-t", "y", "--out", out).exit_code == 0
    facts = json.loads((out / "run.json").read_bytes())
    assert facts["settings"]["file"] == [str(path)]


def test_several_files_are_one_table_in_the_order_of_their_names(csv_file, tmp_path):
    head, *lines = csv_file.read_text(encoding="utf-8").splitlines()
    for name, part in (("b", lines[100:]), ("a", lines[:100])):
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *part]) + "\n", encoding="utf-8")
    (tmp_path / "c.csv").mkdir()  # matches, and is no file
    whole = json.loads(select(csv_file, "-t", "y", "--json").stdout)
    pattern, named = tmp_path / "*.csv", [tmp_path / "a.csv", tmp_path / "b.csv"]
    for files in ([pattern], named):
        parts = json.loads(select(*files, "-t", "y", "--json").stdout)
        assert parts["features"] == whole["features"]
        assert parts["settings"]["file"] == [str(file) for file in named]
    twice = json.loads(select(csv_file, csv_file, "-t", "y", "--json").stdout)
    assert twice["rows"] == 2 * whole["rows"]


def test_columns_of_another_order_are_found_by_their_names(csv_file, tmp_path):
    table = pl.read_csv(csv_file)
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    table[:200].write_csv(first)
    table[200:].select(table.columns[::-1]).write_csv(second)
    whole, parts = (
        json.loads(select(*files, "-t", "y", "--json").stdout)
        for files in ([csv_file], [first, second])
    )
    assert parts["features"] == whole["features"]


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda text: text.split("\n", 1)[1], ["--no-header", "-t", "column_5"]),
        (lambda text: text.replace("\n", "\n// a note\n", 9), ["--comment", "//", "-t", "y"]),
        (lambda text: text.replace("a,", "ä,", 1), ["--encoding", "latin-1", "-t", "y"]),
        (
            lambda text: text.replace("\n0.", "\nnothing", 20),
            ["--na-values", "x,nothing", "-t", "y"],
        ),
        (
            lambda text: text.replace("d, e", "d e").replace(",", ";").replace(".", ","),
            ["--sep", ";", "--decimal", ",", "-t", "y"],
        ),
    ],
)
def test_options_say_how_a_text_is_written(csv_file, tmp_path, change, options):
    path = tmp_path / "x.csv"
    path.write_bytes(change(csv_file.read_text(encoding="utf-8")).encode("latin-1"))
    result = select(path, "-k", 1, "--json", *options)
    assert result.exit_code == 0, result.output
    assert names_in(result) <= {"b", "column_2"}
    assert json.loads(result.stdout)["rows"] == 400


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--encoding", "klingon"], 'there is no encoding "klingon"'),
        (["--comment", ""], "cannot begin a comment"),
        (["--decimal", "x"], "'x' is not one of"),
        (["--dates", "year-first"], "'year-first' is not one of"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(csv_file, options, words):
    result = select(csv_file, "-t", "y", *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert words in result.stderr.splitlines()[-1]


def test_svmlight_needs_no_target_and_stays_sparse(csv_file, tmp_path):
    table = pl.read_csv(csv_file)
    path, out = tmp_path / "x.svm", tmp_path / "out"
    dump_svmlight_file(table.drop("y").to_numpy(), table["y"].to_numpy() == "yes", str(path))
    result = select(path, "-k", 1, "--out", out)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "the selected feature " in result.stdout
    again = fires.load(out / "state.safetensors")
    assert again.selector.get_feature_names_out().tolist() == ["1"]
    (batch,) = fires.streams.from_file(path).batches(10_000)
    assert sp.issparse(batch.X)
    assert (again.predict(batch.X) == batch.y).mean() > 0.8
    compared = CliRunner().invoke(main, ["compare", str(path)])
    assert compared.exit_code == 0
    assert "fires " in compared.stdout


@pytest.mark.parametrize("n_classes", [0, 2, 4])
def test_what_sparse_rows_predict_is_scored(tmp_path, n_classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3_000, 40)) * (rng.random((3_000, 40)) < 0.3)
    y = 2.0 * X[:, 4] - X[:, 9] + 0.1 * rng.normal(size=3_000)
    if n_classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, n_classes) / n_classes))
    path = tmp_path / "x.svm"
    dump_svmlight_file(sp.csr_matrix(X), y, str(path))
    result = select(path, "-k", 2, "--json", "--quiet")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert {row["feature"] for row in document["features"]} == {"4", "9"}
    scores = document["scores"]
    assert scores["accuracy"] > 1.2 / n_classes if n_classes else scores["r2"] > 0.9


def test_without_a_target_one_line_asks_for_it(csv_file):
    result = select(csv_file)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert str(csv_file) in line
    assert "no target column is given; give --target COL" in line


def test_quiet_shows_the_result_and_no_more(csv_file, tmp_path):
    loud = select(csv_file, "-t", "y", "--out", tmp_path / "a")
    quiet = select(csv_file, "-t", "y", "--out", tmp_path / "b", "--quiet")
    *table, written = re.sub(r"[0-9.]+ s\b", "some s", loud.stdout).splitlines()
    assert written.startswith("written to ")
    assert re.sub(r"[0-9.]+ s\b", "some s", quiet.stdout).splitlines() == table
    assert quiet.stderr == ""
    assert select("no.csv", "-t", "y", "--quiet").stderr.startswith("Error: ")
