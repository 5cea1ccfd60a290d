import io
import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

from fires import OFS
from fires.bench import cells, kdd2020, runner
from fires.cli import main
from fires.core import version


def run(*arguments):
    return CliRunner().invoke(main, ["bench", *map(str, arguments)])


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """No data set is at hand."""
    for name in ("DATA", "CACHE"):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(f"FIRES_{name}_DIR", str(tmp_path / name))
    return tmp_path


def records_in(folder, name="cells.jsonl"):
    return [json.loads(line) for line in (folder / name).read_text().splitlines()]


def test_quick_runs_what_is_at_hand_writes_tables_and_runs_nothing_twice(empty, monkeypatch):
    monkeypatch.setattr(kdd2020, "QUICK_ROWS", 600)
    out = empty / "out"
    command = ("kdd2020", "--quick", "--datasets", "usenet,RTG", "--methods", "OFS,all-features")
    result = run(*command, "--jobs", 1, "--out", out)
    assert result.exit_code == 0, result.output
    left_out, no_figures, count = result.stderr.splitlines()
    assert left_out.startswith("Left out: Usenet is not available: there is no usenet.parquet in ")
    assert count == f"4 cells; results go to {out}"
    assert no_figures == "Left out: figures: they are of Gisette, MNIST or Madelon"
    assert len(records_in(out)) == 4
    assert {record["dataset"] for record in records_in(out)} == {"RTG"}
    assert {record["rows"] for record in records_in(out)} == {600}
    written = "tables.md, reproduction.md, 7 tables as .csv"
    assert lines_with(result.stdout, "written to") == f"written to {out}: {written}"
    page = (out / "tables.md").read_text()
    assert "kdd2020 --quick --jobs 1 --datasets usenet,RTG --methods OFS,all-features`" in page
    assert str(empty) not in page

    again = run(*command, "--out", out)
    assert again.exit_code == 0
    assert f"4 cells, 4 of them done before; results go to {out}" in again.stderr
    assert len(records_in(out)) == 4
    assert (out / "tables.md").read_text() == page

    (out / "tables.md").unlink()
    anew = run("kdd2020", "--no-run", "--no-figures", "--out", out)
    assert (anew.exit_code, anew.stderr) == (0, "")
    assert anew.stdout == again.stdout
    assert (out / "tables.md").read_text() == page


@pytest.fixture
def aged(monkeypatch):
    """Make the records of a file those of other code; then nothing is run any more."""

    def kept(cells, folder, *options, file="cells.jsonl", **work):
        return records_in(folder, file)

    def age(path):
        records = [json.loads(line) | {"code": "another"} for line in path.read_text().splitlines()]
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        monkeypatch.setattr(runner, "run_cells", kept)

    return age


def test_cells_of_other_code_are_run_again_and_counted(results, in_threads):
    before = records_in(results)
    command = ("kdd2020", "--quick", "--datasets", "rtg", "--methods", "ofs", "--jobs", 1)
    command += ("--protocol", "as-published", "--no-figures", "--out", results)
    old = before[0] | {"dataset": "RTG", "fires": version.__version__}  # it has no code
    (results / "cells.jsonl").write_text(json.dumps(old) + "\n")
    assert run("kdd2020", "--no-run", "--no-figures", "--out", results).stderr == ""
    assert "| RTG | ours | 0.500 |" in (results / "tables.md").read_text()

    again = run(*command)
    assert again.stderr.splitlines() == [
        "1 cell is run again: the code has changed",
        f"1 cell; results go to {results}",
    ]
    first, new = records_in(results)
    assert (first, new["code"]) == (old, version.code())
    assert f"| RTG | ours | {new['accuracy']:.3f} |" in (results / "tables.md").read_text()
    assert run(*command).stderr == f"1 cell, 1 of them done before; results go to {results}\n"


def lines_with(text, start):
    (line,) = [line for line in text.splitlines() if line.startswith(start)]
    return line


@pytest.mark.parametrize("protocol", ["honest", "test-then-train"])  # two names for one
def test_cells_that_fail_are_named_and_the_code_is_1(protocol, empty, in_threads, monkeypatch):
    def fail(*data):
        raise RuntimeError("worn\nout")

    monkeypatch.setattr(OFS, "learn", fail)
    failing = ("kdd2020", "--quick", "--datasets", "rtg", "--methods", "ofs,fires-glm")
    options = ("--protocol", protocol, "--jobs", 1, "--no-figures")
    result = run(*failing, *options, "--out", empty / "out")
    assert result.exit_code == 1, result.output
    assert result.stderr.splitlines() == [
        f"2 cells; results go to {empty / 'out'}",
        "Failed: RTG, OFS, batch 100, 10 %, honest: RuntimeError: worn out",
        f"1 cell failed; {empty / 'out' / 'cells.jsonl'} has the details",
    ]
    page = (empty / "out" / "tables.md").read_text()
    assert "- RTG, OFS: failed in 1 of its settings: RuntimeError: worn out" in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--datasets", "mnits"], 'Error: there is no data set "mnits"; did you mean MNIST?'),
        (["--methods", "efs,ofz"], 'Error: there is no method "ofz"; did you mean OFS?'),
        (["--methods", " , "], "Error: --methods needs at least one name; separate several"),
        (["--datasets", ""], "Error: --datasets needs at least one name; separate several"),
        (["--jobs", "0"], "Error: Invalid value for '--jobs' / '-j': 0 is not in the range x>=1."),
    ],
)
def test_what_cannot_be_meant_is_one_line_with_code_2(arguments, message, empty):
    result = run("kdd2020", *arguments, "--out", empty / "out")
    assert result.exit_code == 2
    assert result.output.splitlines()[-1].startswith(message)
    assert not (empty / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--no-run"], "there are no results in {out}"),
        (["--datasets", "usenet"], "there is nothing to run"),
        (
            ["--quick", "--datasets", "rbf", "--methods", "onlineboosting"],
            "there is nothing to run: --quick skips OnlineBoosting where there are many features",
        ),
    ],
)
def test_without_any_result_there_are_no_tables(arguments, message, empty):
    result = run("kdd2020", *arguments, "--out", empty / "out")
    assert result.exit_code == 1
    line = f"Error: {message.format(out=empty / 'out')}"
    assert result.output.splitlines()[-1] == line
    assert not (empty / "out").exists()


def test_a_folder_that_is_a_file_is_an_error(empty):
    (empty / "out").write_text("")
    result = run("kdd2020", "--datasets", "rtg", "--out", empty / "out")
    assert result.exit_code == 2
    assert "is a file" in result.output


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal to send")
@pytest.mark.slow  # that all processes end is what the tests of the runner are about
def test_ctrl_c_ends_with_130_and_the_same_command_goes_on(empty):
    command = [sys.executable, "-m", "fires.cli", "bench", "kdd2020", "--quick", "--jobs", "2"]
    command += ["--datasets", "rtg", "--methods", "ofs,efs,fsds,vfdt", "--out", str(empty / "out")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not (empty / "out" / "cells.jsonl").exists() or not records_in(empty / "out"):
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    said = errors.splitlines()[1:]  # after what figures would need
    assert said[0] == f"8 cells; results go to {empty / 'out'}"
    assert re.fullmatch(r"[0-7] of 8 done; the same command continues from here", said[1])
    assert said[2:] == ["Interrupted."]


def test_the_bar_shows_the_data_set_and_how_many_cells_are_done():
    from rich.console import Console
    from rich.progress import Progress

    from fires.cli.progress import BenchProgress

    text = io.StringIO()
    jobs = [cells.Cell(name, "OFS", size, 0.1) for name in ("KDD", "RTG") for size in (25, 50)]
    with Progress(console=Console(width=60, force_terminal=True, file=text)) as progress:
        watch = BenchProgress(progress, jobs)
        (task,) = progress.tasks
        watch.ended(jobs[0], {})  # by an earlier run
        watch.began(jobs[2])
        assert (task.description, task.completed, task.total) == ("RTG", 1, 4)
        watch.ended(jobs[2], {"error": "no"})
        assert (task.completed, watch.n_ended) == (2, 2)
    assert "Failed: " in text.getvalue()


def test_the_command_is_there_and_loads_nothing_before_it_runs():
    assert "bench " in CliRunner().invoke(main, ["--help"]).output
    code = "import sys, fires.cli.bench; print({'numpy', 'polars', 'rich'} & set(sys.modules))"
    output = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout
    assert output.strip() == "set()"


# --- figures --------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path):
    """A folder with the results of one cell."""
    settings = {"dataset": "Madelon", "method": "OFS", "batch_size": 100, "fraction": 0.1}
    settings |= {"protocol": "as-published", "seed": 0, "n_rows": 3000, "fires": "1"}
    names = ("accuracy", "stability", "milliseconds_per_step", "accuracy_variance")
    names += ("milliseconds_select", "milliseconds_train")
    found = dict.fromkeys(names, 0.5) | {"rows": 2600, "steps": 26, "notes": [], "complete": True}
    (tmp_path / "cells.jsonl").write_text(json.dumps(settings | found) + "\n")
    return tmp_path


@pytest.fixture
def drawn(monkeypatch):
    """The names of the figures that were drawn; to draw takes longer than all the rest."""
    pytest.importorskip("matplotlib")
    from fires.report import figures as report_figures

    names = []

    def save(figure, folder, name):
        names.append(name)
        return [folder / f"{name}.{kind}" for kind in ("png", "svg")]

    monkeypatch.setattr(report_figures, "save", save)
    return names


def test_figures_are_drawn_from_what_is_kept_and_nothing_is_run(results, drawn):
    kept = {"dataset": "Madelon", "method": "OFS", "penalty": None, "digit": None, "fires": "1"}
    kept |= {"seen": [100, 200], "accuracy": [None, 0.5], "stability": [None, 0.5]}
    kept |= {"rows": 2600, "majority": 0.5, "figure": True}
    with (results / "cells.jsonl").open("a") as file:
        file.write(json.dumps(kept) + "\n")
    before = (results / "cells.jsonl").read_bytes()
    result = run("kdd2020", "--no-run", "--out", results)
    assert (result.exit_code, result.stderr) == (0, "")
    assert drawn == ["over-time", "accuracy-stability"]
    line = lines_with(result.stdout, "written to")
    assert line.endswith(" as .csv, 2 figures as .png and .svg in figures")
    assert (results / "cells.jsonl").read_bytes() == before

    drawn.clear()
    result = run("kdd2020", "--no-run", "--no-figures", "--out", results)
    assert (result.exit_code, result.stderr, drawn) == (0, "", [])
    assert lines_with(result.stdout, "written to").endswith(" tables as .csv")


def test_where_no_figure_is_kept_one_line_says_so(results, drawn):
    result = run("kdd2020", "--no-run", "--out", results)
    assert result.exit_code == 0
    line = f"Left out: figures: there are no runs for them in {results / 'cells.jsonl'}\n"
    assert (result.stderr, drawn) == (line, [])


def test_without_matplotlib_there_are_tables(results, monkeypatch):
    from fires.core import optional

    monkeypatch.setattr(optional, "find_spec", lambda name: None)
    result = run("kdd2020", "--no-run", "--out", results)
    assert result.exit_code == 0
    needs = "drawing them needs matplotlib: pip install '.[plot]'"
    assert result.stderr == f"Left out: figures: {needs}\n"
    assert (results / "tables.md").exists()


@pytest.mark.skipif("FIRES_DATA_DIR" not in os.environ, reason="needs Madelon")
def test_figures_are_of_the_data_sets_and_methods_that_are_run(tmp_path, drawn, aged, in_threads):
    command = ("kdd2020", "--quick", "--datasets", "madelon", "--methods", "ofs", "--jobs", 1)
    result = run(*command, "--protocol", "as-published", "--out", tmp_path)
    assert result.exit_code == 0, result.output
    digits, penalty, count = result.stderr.splitlines()
    assert count == f"2 cells; results go to {tmp_path}"
    assert digits.startswith("Left out: discriminative-features: it is of MNIST")
    assert penalty.startswith("Left out: uncertainty-penalty: it is of ")
    assert drawn == ["over-time", "accuracy-stability"]
    both = records_in(tmp_path)
    assert [bool(record["figure"]) for record in both] == [False, True]
    for record in both:
        assert (record["dataset"], record["method"], record["rows"]) == ("Madelon", "OFS", 2600)
    again = run(*command, "--protocol", "as-published", "--out", tmp_path)
    line = f"2 cells, 2 of them done before; results go to {tmp_path}"
    assert again.stderr.splitlines()[-1] == line
    assert records_in(tmp_path) == both
    aged(tmp_path / "cells.jsonl")
    *_, line, count = run(
        *command, "--protocol", "as-published", "--out", tmp_path
    ).stderr.splitlines()
    assert line == "2 cells are run again: the code has changed"
    assert count == f"2 cells; results go to {tmp_path}"


def test_a_run_for_the_figures_that_fails_is_named_and_the_code_is_1(results, drawn, monkeypatch):
    def fail(cells, folder, jobs, progress):
        progress.ended(cells[-1], {"error": "RuntimeError: worn out"})
        return [{}] * (len(cells) - 1) + [{"error": "RuntimeError: worn out"}]

    monkeypatch.setattr(runner, "run_cells", fail)
    monkeypatch.setattr("fires.bench.kdd2020.missing", lambda cells: {})
    monkeypatch.setattr("fires.bench.figures._is_whole", lambda name: True)
    result = run("kdd2020", "--datasets", "madelon", "--methods", "ofs", "--out", results)
    assert result.exit_code == 1
    said = result.stderr.splitlines()
    line = "Failed: figure: Madelon, OFS, batch 100, 10 %, as-published: RuntimeError: worn out"
    assert line in said
    assert said[-1] == f"1 cell failed; {results / 'cells.jsonl'} has the details"


def test_the_help_names_every_method():
    shown = " ".join(run("kdd2020", "--help").output.replace("-\n", "-").split())
    shown = shown.replace("- ", "-")
    for method in cells.METHODS:
        assert method.replace(" ", "-") in shown
