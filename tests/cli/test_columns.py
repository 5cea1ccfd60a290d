"""How the columns of a file are understood is shown before, while and after they are used."""

import csv
import json
import random
import re

import pytest
from click.testing import CliRunner

from fires.cli import main


def run(*arguments, **env):
    return CliRunner().invoke(main, [*map(str, arguments)], env=env)


def write(path, n_rows=600, late=0, seed=0):
    """Numbers, and numbers in disguise; ``late`` cells at the end are none any more."""
    draw = random.Random(seed)
    lines = ["plain,share,price,when,size,empty,label"]
    for row in range(n_rows):
        share = draw.random()
        cells = [f"{draw.random():.4f}" if row < n_rows - late else "?!", f"{100 * share:.1f}%"]
        cells += [f'"${draw.randint(1000, 99999):,}"']
        cells += [f"{draw.randint(13, 28)}/{draw.randint(1, 12):02}/2024", draw.choice("SML"), ""]
        lines.append(",".join([*cells, "yes" if share + draw.gauss(0.0, 0.3) > 0.5 else "no"]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    return write(tmp_path_factory.mktemp("data") / "odd.csv")


def said(line):
    """The columns that a line on the terminal is about."""
    return re.findall(r'^columns? "(\w+)"', line)


def test_every_column_has_its_row(csv_file):
    result = run("columns", csv_file, COLUMNS="120")
    assert result.exit_code == 0, result.output
    head, _, *rows = result.stdout.splitlines()
    assert head.split() == ["name", "kind", "missing", "distinct", "example", "what", "is", "done"]
    kinds = {row.split()[0]: row.split()[1] for row in rows}
    assert kinds == {
        "plain": "number",
        "share": "number",
        "price": "number",
        "when": "date",
        "size": "category",
        "empty": "empty",
        "label": "category",
    }
    assert re.search(r"^empty .* 100\.0% ", result.stdout, re.MULTILINE)
    assert re.search(r'^price .* 0\.0% .* "\$([\d,]+)" is read as \d+', result.stdout, re.MULTILINE)
    assert [said(line) for line in result.stderr.splitlines()] == [["share"], ["price"], ["when"]]


def test_json_says_the_same(csv_file):
    result = run("columns", csv_file, "--json", "-t", "label")
    assert (result.exit_code, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert [row["name"] for row in document["columns"]][-2:] == ["empty", "label"]
    assert document["columns"][-1]["done"] == "the target"
    assert [row["missing"] for row in document["columns"]] == [0, 0, 0, 0, 0, 1, 0]
    assert len(document["surprises"]) == 3


def test_the_options_of_reading_change_what_is_shown(csv_file):
    options = ("--exclude", "empty", "--exclude", "size,when", "--categorical", "share", "--json")
    document = json.loads(run("columns", csv_file, *options).stdout)
    kinds = {row["name"]: row["kind"] for row in document["columns"]}
    assert kinds == {"plain": "number", "share": "category", "price": "number", "label": "category"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["-t", "lable"], ['no column "lable"', 'did you mean "label"']),
        (["--exclude", "nn"], ['no column "nn"']),
    ],
)
def test_a_name_that_is_not_there_is_one_line(csv_file, options, words):
    result = run("columns", csv_file, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    for word in words:
        assert word in line


def test_a_narrow_terminal_has_room_for_names_and_what_is_done(csv_file):
    shown = run("columns", csv_file, COLUMNS="40").stdout
    assert max(map(len, shown.splitlines())) <= 40
    rows = [line.split()[0] for line in shown.splitlines() if line[:1].isalpha()]
    assert rows[-7:] == ["plain", "share", "price", "when", "size", "empty", "label"]


def test_a_name_from_a_file_does_not_steer_the_terminal(csv_file, tmp_path):
    path = tmp_path / "x.csv"
    text = csv_file.read_text(encoding="utf-8").replace("share", "sh\x1b[2Jare", 1)
    path.write_text(text, encoding="utf-8")
    for command in (("columns", path), ("select", path, "-t", "label")):
        result = run(*command)
        assert "\x1b" not in result.output
        assert r"sh\x1b[2Jare" in result.stderr


# fires select


def test_a_run_tells_each_surprise_once_and_writes_the_columns_down(csv_file, tmp_path):
    out = tmp_path / "out"
    result = run("select", csv_file, "-t", "label", "--out", out)
    assert [said(line) for line in result.stderr.splitlines()] == [["share"], ["price"], ["when"]]
    with (out / "columns.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["plain", "share", "price", "when", "size", "empty"]
    facts = ["name", "kind", "missing", "unreadable", "distinct", "example", "done", "doubt"]
    assert list(rows[0]) == facts
    assert [float(row["missing"]) for row in rows] == [0, 0, 0, 0, 0, 1]
    assert run("select", csv_file, "-t", "label", "--quiet").stderr == ""


def test_what_shows_itself_later_is_told_at_the_end(tmp_path):
    path = write(tmp_path / "x.csv", n_rows=12_000, late=1_500)
    result = run("select", path, "-t", "label")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    assert [said(line) for line in lines[:3]] == [["share"], ["price"], ["when"]]
    assert [said(line) for line in lines[3:]] == [["plain"]] * len(lines[3:]) != []


def test_where_nothing_is_odd_nothing_is_told(tmp_path):
    path = tmp_path / "x.csv"
    rows = "1,2.5,p\n3,2.5,q\n1,4.5,q\n3,4.5,p\n"
    path.write_text("a,b,y\n" + rows * 30, encoding="utf-8")
    for command in ("select", "columns"):
        assert run(command, path, "-t", "y").stderr == ""


def test_a_target_that_is_a_name_is_a_question_in_one_line(tmp_path):
    path = tmp_path / "x.csv"
    rows = [f"{row % 7},{row % 5},customer {row}" for row in range(300)]
    path.write_text("\n".join(["a,b,who", *rows]) + "\n", encoding="utf-8")
    result = run("select", path, "-t", "who")
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith(f'Error: {path}: the target column "who" holds 300 distinct texts')
    assert "--model probit" in line


@pytest.mark.parametrize("target", [(), ("--target", "label")])
def test_what_is_done_with_a_column_is_what_a_run_does_with_it(csv_file, tmp_path, target):
    shown = json.loads(run("columns", csv_file, *target, "--json").stdout)["columns"]
    result = run("select", csv_file, "--target", "label", "--out", tmp_path / "out", "--quiet")
    assert result.exit_code == 0, result.output
    with (tmp_path / "out" / "columns.csv").open(newline="") as text:
        used = {row["name"]: row["done"] for row in csv.DictReader(text)}
    assert {row["name"]: row["done"] for row in shown if row["name"] != "label"} == used
    assert used["size"] == "3 categories, target-encoded from earlier rows"
