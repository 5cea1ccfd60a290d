import contextlib
import json
import os
import pty
import re
import sys
import threading

import click
import numpy as np
import polars as pl
import pytest
from click.testing import CliRunner
from sklearn.datasets import dump_svmlight_file

from fires import FIRES
from fires.cli import main
from fires.cli.compare import SELECTORS
from fires.core.optional import require
from fires.evaluation.compare import compare as compare_streams
from fires.streams.files import from_file

ROW = re.compile(
    r"^(?P<name>[a-z-]+) +(?P<score>0\.\d{3})(?: ± (?P<spread>0\.\d{3}))? +(?P<stability>\S+) +"
    r"(?P<agreement>\S+) +(?P<difference>reference|[+-]0\.\d{3})",
    re.MULTILINE,
)
TARGETS = ("label", "third", "amount", "number", "same")


def make_table(n_rows=900, seed=0):
    """Ten numbers and a category, and targets of every kind that depend on n2 and n5."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 10))
    score = 2.0 * X[:, 2] - X[:, 5]
    return pl.DataFrame({f"n{j}": X[:, j] for j in range(10)}).with_columns(
        town=pl.Series(rng.choice(["Bonn", "Ulm", "Köln"], n_rows)),
        label=pl.Series(np.where(score > 0, "[spam]", "ham")),
        third=pl.Series(np.digitize(score, [-1.0, 1.0])),
        amount=pl.Series(100.0 * score + 0.5),
        number=pl.Series(rng.permutation(n_rows)),
        same=pl.lit("one"),
    )


def write(path, target="label", table=None):
    table = make_table() if table is None else table
    table.drop([name for name in TARGETS if name != target]).write_csv(path)
    return path


def run(*arguments):
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


def assert_fails(result, *words):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    line = result.stderr.splitlines()[-1]
    assert line.startswith("Error: ")
    for word in words:
        assert word in line
    return result.stderr.splitlines()


@pytest.fixture(scope="module")
def csv_file(tmp_path_factory):
    return write(tmp_path_factory.mktemp("data") / "events.csv")


@pytest.fixture(scope="module")
def short_file(tmp_path_factory):
    return write(tmp_path_factory.mktemp("data") / "few.csv", table=make_table(300))


@pytest.fixture(scope="module")
def whole(csv_file):
    """One comparison with everything: what was printed, and the folder."""
    out = csv_file.parent / "new" / "comparison"
    result = run(csv_file, "--target", "label", "--top", 3, "--seeds", 3, "--out", out)
    assert result.exit_code == 0, result.output
    return result.stdout, out


# What comes out


def test_every_selector_has_a_row_and_the_baselines_too(whole):
    rows = {row["name"]: row for row in ROW.finditer(whole[0])}
    assert set(rows) == {"fires", "ofs", "efs", "fsds", "all", "random", "majority"}
    assert rows["fires"]["difference"] == "reference"
    assert rows["all"]["stability"] == "-"
    assert all(row["spread"] for row in rows.values())
    scores = [float(row["score"]) for row in ROW.finditer(whole[0])]
    assert scores == sorted(scores, reverse=True)


def test_the_numbers_are_those_of_the_library(csv_file, whole):
    stream = from_file(csv_file, "label")
    found = compare_streams(lambda: stream, {"fires": lambda seed: FIRES(3)}, seeds=3)
    facts = json.loads((whole[1] / "compare.json").read_text(encoding="utf-8"))
    shown = {one["name"]: one for one in facts["outcomes"]}
    for name in ("fires", "all", "random"):
        assert shown[name]["score"] == found[name].score
        assert shown[name]["pieces"] == found[name].pieces.tolist()


def test_it_says_how_the_numbers_came_about(whole):
    said = " ".join(whole[0].split())
    for words in (
        "900 rows of 11 features, 2 classes",
        "standard deviation over 3 runs",
        "two-sided t-test with Holm's correction",
        "on streams like this one, both are equally good on average",
        "scaled to [0, 1]",
        "written to",
    ):
        assert words in said


def test_without_a_terminal_the_output_is_plain_and_fits(whole):
    assert "\x1b" not in whole[0]
    assert "…" not in whole[0]
    assert all(len(line) <= 80 for line in whole[0].splitlines()[:-1])  # the last names the folder


def test_the_folder_holds_all_files(whole):
    names = {"compare.json", "compare.md", "compare.toml"}
    assert {path.name for path in whole[1].iterdir()} == names
    page = (whole[1] / "compare.md").read_text(encoding="utf-8")
    assert page.startswith("# Selectors on ")
    assert page.count("\n| ") == 1 + 7
    facts = json.loads((whole[1] / "compare.json").read_text(encoding="utf-8"))
    assert facts["settings"]["top"] == 3
    assert facts["reference"] == "fires"
    assert facts["classes"].keys() == {"[spam]", "ham"}
    assert facts["rejected_rows"] == 0


def test_json_is_all_there_is_on_standard_output(csv_file, tmp_path):
    result = run(csv_file, "-t", "label", "-s", "ofs", "--seeds", 1, "--json", "--out", tmp_path)
    assert result.exit_code == 0
    assert result.stderr == ""
    facts = json.loads(result.stdout)
    assert json.loads((tmp_path / "compare.json").read_text(encoding="utf-8")) == facts
    assert {one["name"] for one in facts["outcomes"]} == {"ofs", "all", "random", "majority"}


def test_the_first_named_is_what_others_are_tested_against(csv_file):
    result = run(csv_file, "-t", "label", "-s", "OFS, fires,ofs", "--seeds", 1, "--json")
    facts = json.loads(result.stdout)
    assert facts["reference"] == "ofs"
    assert facts["settings"]["selectors"] == ["ofs", "fires"]


MODELS = ("fires-ann", "fires-sdt")


@pytest.mark.parametrize("name", [name for name in SELECTORS if name not in MODELS])
def test_every_name_is_a_selector(short_file, name):
    needs = {"window-lightgbm": "lightgbm", "adpredictor": "river"}
    if name in needs:
        pytest.importorskip(needs[name])
    result = run(short_file, "-t", "label", "-s", name, "--seeds", 1, "--top", 0.3, "--json")
    assert result.exit_code == 0, result.output
    facts = json.loads(result.stdout)
    assert facts["reference"] == name
    assert facts["left_out"] == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_nets_and_trees_are_selectors(csv_file, name):
    pytest.importorskip("torch")
    result = run(csv_file, "-t", "label", "-s", name, "--seeds", 1, "--top", 3, "--json")
    assert json.loads(result.stdout)["left_out"] == {}


@pytest.mark.parametrize("predictor", ["bayes", "perceptron", "nb", "tree"])
@pytest.mark.parametrize("target", ["label", "third"])
def test_every_predictor_takes_part(tmp_path, predictor, target):
    if predictor == "tree":
        pytest.importorskip("river")
    # Sorted by class: the first batches do not hold all labels.
    path = write(tmp_path / "sorted.csv", target, make_table(300).sort(target))
    result = run(
        path, "-t", target, "-s", "fires", "--seeds", 1, "--predictor", predictor, "--json"
    )
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    assert json.loads(result.stdout)["settings"]["predictor"] == predictor


def test_other_scores_and_scales(csv_file):
    options = ("--score", "balanced_accuracy", "--scale", "standard", "--seeds", 1)
    result = run(csv_file, "-t", "label", "-s", "fires", *options)
    assert "balanced" in result.stdout
    assert "standardised" in result.stdout


def test_rows_that_cannot_be_used_are_counted(tmp_path):
    path = write(tmp_path / "faulty.csv", table=make_table(400))
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[7] = lines[7] + ",1"
    lines[9] = lines[9] + ",1,2"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = run(path, "-t", "label", "-s", "ofs", "--seeds", 1, "--batch-size", 25)
    assert result.exit_code == 0
    assert "398 rows" in result.stdout
    assert "2 rows, the first in line 8, could not be used" in " ".join(result.stdout.split())


def test_binary_selectors_are_left_out_of_many_classes_in_one_line(tmp_path):
    path = write(tmp_path / "third.csv", "third")
    result = run(path, "-t", "third", "--top", 3, "--seeds", 1)
    assert result.exit_code == 0
    assert {row["name"] for row in ROW.finditer(result.stdout)} == {
        "fires",
        "fsds",
        "all",
        "random",
        "majority",
    }
    assert "Left out: ofs, efs; for two classes only, and there are 3." in result.stdout
    assert "named first" not in result.stdout
    other = run(path, "-t", "third", "-s", "ofs,fires", "--top", 3, "--seeds", 1)
    said = " ".join(other.stdout.split())
    assert "Caution: ofs, named first, is left out; the others are tested against fires" in said


def test_few_runs_or_pieces_come_with_a_caution(short_file):
    for seeds, words in ((3, "takes 3 pieces of the stream"), (1, "takes 3 runs or more")):
        result = run(short_file, "-t", "label", "-s", "ofs", "--seeds", seeds)
        said = " ".join(result.stdout.split())
        assert f"Caution: differences are not tested, which {words}" in said


def test_baselines_alone_are_compared_with_each_other(csv_file):
    result = run(csv_file, "-t", "label", "-s", "all", "--top", 2, "--seeds", 5)
    assert {row["name"] for row in ROW.finditer(result.stdout)} == {"all", "random", "majority"}
    assert "At the 5% level, worse than all: random, majority." in result.stdout


def test_where_nothing_is_selected_there_is_a_caution_and_no_verdict(csv_file):
    result = run(csv_file, "-t", "label", "-s", "ofs", "--top", 50, "--seeds", 3)
    assert "Caution: every selector selects all features" in result.stdout
    assert "5% level" not in result.stdout


def test_efs_on_another_scale_comes_with_a_caution(csv_file):
    options = ("-t", "label", "--top", 3, "--seeds", 1)
    standard = run(csv_file, *options, "-s", "efs", "--scale", "standard")
    assert "Caution: efs is made for columns in [0, 1]" in standard.stdout
    for others in (("-s", "efs"), ("-s", "ofs", "--scale", "standard")):
        assert "Caution: efs" not in run(csv_file, *options, *others).stdout


def test_f1_says_whose_it_is(csv_file, tmp_path):
    options = ("-s", "fires", "--top", 3, "--seeds", 1, "--score", "f1")
    assert "f1 is that of ham." in run(csv_file, "-t", "label", *options).stdout
    three = write(tmp_path / "third.csv", "third")
    assert "f1 is the mean over the classes." in run(three, "-t", "third", *options).stdout


# What goes wrong


def test_standard_input_is_refused():
    (line,) = assert_fails(run("-", "-t", "label"), "standard input", "only once")
    assert line.endswith("save it to a file first")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert_fails(run(tmp_path / "pipe", "-t", "label"), "pipe", "only once")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("same", ['the target "same"', "one value only, 'one'"]),
        ("number", ["900 distinct", "900 rows", "--score r2 if", "--score accuracy if"]),
    ],
)
def test_a_target_without_classes_is_one_line(tmp_path, target, words):
    path = write(tmp_path / "events.csv", target)
    (line,) = assert_fails(run(path, "-t", target), "events.csv", *words)
    assert line.count("Error") == 1


@pytest.mark.parametrize(
    ("target", "options", "words"),
    [
        (
            "amount",
            ["--predictor", "nb"],
            ["holds numbers", "--predictor nb", "take bayes or linear"],
        ),
        ("label", ["--predictor", "linear"], ["holds classes", "--predictor linear"]),
        ("label", ["--score", "mae"], ["is not a number"]),
        ("amount", ["--score", "accuracy"], ["holds numbers such as", "r2 or mae"]),
        ("number", ["--score", "accuracy"], ["900 different values", "r2 or mae"]),
    ],
)
def test_what_does_not_fit_the_target_is_one_line(tmp_path, target, options, words):
    path = write(tmp_path / "events.csv", target)
    assert_fails(run(path, "-t", target, "-s", "fires", *options), "events.csv", *words)


@pytest.mark.parametrize("target", ["amount", pytest.param("number", marks=pytest.mark.slow)])
def test_numbers_are_compared(tmp_path, target):
    path, out = write(tmp_path / "events.csv", target), tmp_path / "out"
    score = ("--score", "r2") if target == "number" else ()
    options = ("-s", "fires,ofs,screening,window,permutation", "-k", 3, "--seeds", 3, *score)
    result = run(path, "-t", target, *options, "--out", out)
    assert result.exit_code == 0, result.output
    facts = json.loads((out / "compare.json").read_text(encoding="utf-8"))
    names = {"fires", "screening", "window", "permutation", "all", "random", "mean"}
    assert {one["name"] for one in facts["outcomes"]} == names
    assert facts["left_out"] == {"ofs": "for two classes only, and the target holds numbers"}
    assert (facts["settings"]["score"], facts["settings"]["predictor"]) == ("r2", "bayes")
    assert "predictor bayes" in (out / "compare.md").read_text(encoding="utf-8")
    assert facts["beaten"].keys() == {"all", "random", "mean", "window"}
    said = " ".join(result.stdout.split())
    assert "no selection beats" in said or "beat the mean" in said
    if target == "amount":
        assert {"fires", "window"} <= set(facts["beaten"]["mean"])


def test_svmlight_files_are_compared(tmp_path):
    table = make_table(600)
    X = table.select(f"n{j}" for j in range(10)).to_numpy()
    path = tmp_path / "x.svm"
    dump_svmlight_file(
        np.where(np.abs(X) > 0.5, X, 0.0), table["label"].to_numpy() == "ham", str(path)
    )
    result = run(path, "-s", "fires,ofs,window", "-k", 3, "--seeds", 1, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["left_out"] == {}
    assert_fails(run(path, "--predictor", "nb"), "x.svm", "does not take sparse rows")


def test_it_is_told_whether_a_selection_is_worth_it(whole):
    said = " ".join(whole[0].split())
    assert re.search(r"At the 5% level, [^.]* the most common class", said)
    page = (whole[1] / "compare.md").read_text(encoding="utf-8")
    assert re.search(r"- At the 5% level, [^.]* the most common class", page)


def test_a_file_that_is_not_there_is_one_line(tmp_path):
    (_,) = assert_fails(run(tmp_path / "nothing.csv", "-t", "label"), "nothing.csv")


def test_an_unknown_column_is_one_line(csv_file):
    (_,) = assert_fails(run(csv_file, "-t", "labl"), 'no column "labl"', "label")


def test_one_batch_is_one_line(csv_file):
    (_,) = assert_fails(
        run(csv_file, "-t", "label", "--batch-size", 5_000, "-s", "ofs"),
        "one batch of 5,000",
        "smaller batches",
    )


@pytest.mark.parametrize(
    ("named", "hint"),
    [("fire", "did you mean fires?"), ("xyz", "there are fires,"), (",", "at least")],
)
def test_an_unknown_selector_is_named(csv_file, named, hint):
    assert_fails(run(csv_file, "-t", "label", "-s", named), hint)


def test_auto_is_for_select(csv_file):
    assert_fails(run(csv_file, "-t", "label", "--top", "auto"), "--top auto is for fires select")


@pytest.mark.parametrize("top", ["0", "1.5", "-3", "many"])
def test_top_must_make_sense(csv_file, top):
    assert_fails(run(csv_file, "-t", "label", f"--top={top}"), "number of features")


def test_a_file_is_no_folder_to_write_to(csv_file):
    before = csv_file.read_bytes()
    (_,) = assert_fails(run(csv_file, "-t", "label", "--out", csv_file), "Not a directory")
    assert csv_file.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            ["-s", "ofs", "--predictor", "tree"],
            "hoeffding_tree needs river: pip install '.[river]'",
        ),
        (["-s", "ofs,fires-sdt"], "SoftTree needs torch: pip install '.[torch]'"),
    ],
)
def test_a_library_that_is_not_installed_is_one_line(csv_file, options, line, monkeypatch):
    for name in ("river", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    (said,) = assert_fails(run(csv_file, "-t", "label", *options))
    assert said == f"Error: {line}"


@pytest.mark.parametrize("name", main.commands)
def test_a_missing_library_is_one_line_whatever_the_command(name, monkeypatch):
    def needs_more(**options):
        require("no_such_library", "This command", extra="plot")

    command, arguments = main.commands[name], [name]
    while isinstance(command, click.Group):
        part, command = next(iter(command.commands.items()))
        arguments.append(part)
    monkeypatch.setattr(command, "callback", needs_more)
    monkeypatch.setattr(command, "params", [])
    result = CliRunner().invoke(main, arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    said = "Error: This command needs no_such_library: pip install '.[plot]'\n"
    assert result.stderr == said


# On a terminal


@pytest.fixture
def on_a_terminal(monkeypatch):
    """Run the command on a terminal of its own; what that shows."""

    def run(*arguments, **env):
        for name in ("FORCE_COLOR", "NO_COLOR"):
            monkeypatch.delenv(name, raising=False)
        for name, value in {"TERM": "xterm", "COLUMNS": "100", **env}.items():
            monkeypatch.setenv(name, value)
        leader, follower = pty.openpty()
        shown = []
        reader = threading.Thread(target=read_all, args=(leader, shown))
        reader.start()
        with open(follower, "w") as terminal, monkeypatch.context() as patch:
            for name in ("stdout", "stderr"):
                patch.setattr(sys, name, terminal)
            main(["compare", *map(str, arguments)], standalone_mode=False)
        reader.join()
        os.close(leader)
        return b"".join(shown).decode()

    return run


def read_all(leader, parts):
    with contextlib.suppress(OSError):  # the other side is closed
        while part := os.read(leader, 65536):
            parts.append(part)


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": "1"}], ids=["colour", "NO_COLOR"])
def test_a_terminal_shows_progress_and_colours_unless_told_not_to(csv_file, env, on_a_terminal):
    shown = on_a_terminal(csv_file, "-t", "label", "-s", "ofs", "--seeds", "1", **env)
    assert "reading the labels" in shown
    coloured = re.search(r"\x1b\[(?:\d+;)*3\d", shown)
    assert bool(coloured) != bool(env)
    assert "selector" in shown
