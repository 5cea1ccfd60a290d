"""Every run writes its options down, and a later one takes them from there."""

import json
import tomllib

import numpy as np
import pytest
from click.testing import CliRunner

import fires
from fires.cli import main


def run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    X = np.random.default_rng(0).normal(size=(700, 5))
    rows = [",".join(f"{v:.6f}" for v in x) + f",{'no' if x[1] < 0 else 'yes'}" for x in X]
    path = tmp_path_factory.mktemp("data") / "events.csv"
    path.write_text("\n".join(['a,b,c,d,"e,f",y', *rows]) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def first(csv_file):
    """A run with options of every kind: its folder."""
    out = csv_file.parent / "first"
    options = ("-k", 0.5, "--batch-size", 50, "--model", "logistic", "--exclude", "a")
    result = run("select", csv_file, "-t", "y", *options, "--exclude", "e,f", "--out", out)
    assert result.exit_code == 0, result.output
    return out


def test_a_run_writes_down_its_options(first, csv_file):
    text = (first / "run.toml").read_text(encoding="utf-8")
    written = tomllib.loads(text)
    assert written == {
        "file": [str(csv_file)],
        "target": "y",
        "top": 0.5,
        "batch-size": 50,
        "model": "logistic",
        "max-categories": 1000,
        "seed": 0,
        "as-published": False,
        "columns": "fixed",
        "absent": "missing",
        "redundancy": "ignore",
        "memory": 10_000.0,
        "drift": "auto",
        "relations": "linear",
        "exclude": ["a", "e,f"],
        "no-header": False,
        "keep-suspicious": False,
        "checkpoint": "10s",
        "transform": False,
        "report": False,
        "emit-every": "change",
        "follow": False,
        "until-end": False,
        "engine": "fires",
        "master": "local[*]",
        "json": False,
        "quiet": False,
    }
    assert text.startswith("# fires select --config FILE, with this file, runs this again.")
    assert '\n# sep = ""\n' in text
    assert "\n# categorical = []\n" in text


def test_and_they_make_the_same_run_again(first, tmp_path):
    again = tmp_path / "again"
    result = run("select", "--config", first / "run.toml", "--out", again)
    assert result.exit_code == 0, result.output
    for name in ("features.csv", "run.toml"):
        assert (again / name).read_bytes() == (first / name).read_bytes()
    one, other = (fires.load(out / "state.safetensors") for out in (first, again))
    np.testing.assert_array_equal(one.selector.weights_, other.selector.weights_)


def test_options_of_the_command_line_win(first, csv_file):
    document = json.loads(
        run("select", "--config", first / "run.toml", "-k", 1, "--exclude", "d", "--json").stdout
    )
    assert len(document["features"]) == 1
    assert document["n_features"] == 4
    assert document["settings"]["batch_size"] == 50
    assert document["settings"]["file"] == [str(csv_file)]


def test_a_comparison_is_made_again_too(csv_file, tmp_path):
    for out, arguments in (
        ("first", (csv_file, "-t", "y", "-s", "ofs,fires", "-k", 2, "--seeds", 1)),
        ("again", ("--config", tmp_path / "first" / "compare.toml")),
    ):
        result = run("compare", *arguments, "--out", tmp_path / out)
        assert result.exit_code == 0, result.output
    first, again = (
        json.loads((tmp_path / out / "compare.json").read_text(encoding="utf-8"))
        for out in ("first", "again")
    )
    assert first["settings"] == again["settings"]
    assert {one["name"]: one["score"] for one in first["outcomes"]} == {
        one["name"]: one["score"] for one in again["outcomes"]
    }


def test_what_a_hand_writes_is_read(csv_file, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(f"file = {json.dumps(str(csv_file))}\ntarget = 'y'\nexclude = 'a,b'\ntop = 2\n")
    document = json.loads(run("select", "--config", path, "--json").stdout)
    assert (document["n_features"], len(document["features"])) == (3, 2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("topp = 3", ['there is no option "topp"', "did you mean top?"]),
        ("top = true", ['"top"', "expected text or a number, not True"]),
        ("top = -3", ['"top"', "neither a number of features nor a fraction"]),
        ("batch-size = 'many'", ['"batch-size"', "'many'"]),
        ("batch-size = [1]", ['"batch-size"', "expected text or a number, not [1]"]),
        ("no-header = 1", ['"no-header"', "expected true or false, not 1"]),
        ("exclude = [['a']]", ['"exclude"', "not ['a']"]),
        ("model = 'cubic'", ['"model"', "'cubic'"]),
        ("[select]\ntop = 1", ['there is no option "select"']),
        ("top = ,", ["is not a TOML file", "line 1"]),
        ("\xff", ["is not a TOML file"]),
    ],
)
def test_a_wrong_line_is_one_line_with_file_and_key(text, words, tmp_path):
    path = tmp_path / "run.toml"
    path.write_bytes(text.encode("latin-1"))
    result = run("select", "x.csv", "-t", "y", "--config", path)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f"Error: {path}")
    for word in words:
        assert word in line


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    result = run("select", "--config", tmp_path / "no.toml")
    assert result.stderr == f"Error: {tmp_path / 'no.toml'}: No such file or directory\n"


def test_odd_names_are_written_so_that_they_can_be_read(tmp_path):
    name = 'od"d\t\x7f\x1b\\ name ü.csv'
    (tmp_path / name).write_text("a\x7f,b,y\n" + "1,2,p\n3,4,q\n" * 60, encoding="utf-8")
    out = tmp_path / "out"
    assert run("select", tmp_path / name, "-t", "y", "--exclude", "a\x7f", "--out", out)
    written = tomllib.loads((out / "run.toml").read_text(encoding="utf-8"))
    assert written["file"] == [str(tmp_path / name)]
    assert written["exclude"] == ["a\x7f"]
    assert run("select", "--config", out / "run.toml").exit_code == 0
