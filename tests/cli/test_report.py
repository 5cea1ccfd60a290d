"""``fires report`` and ``--report``: one file, of any run, and what keeps it from being written."""

import json
import re
import shutil
import signal
import subprocess

import pytest
from click.testing import CliRunner
from tests.report.viewers import FIRES, rows, wait_until

from fires.cli import main

LEARNT = ("--target", "label", "--batch-size", "10", "--keep-doubtful")


def run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


def learn(file, out, *more):
    return run("select", file, *LEARNT, "--out", out, *more)


def data_of(path):
    text = path.read_text(encoding="utf-8")
    (data,) = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, re.S)
    return json.loads(data)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text(rows(100))
    return path


@pytest.fixture
def ended(tmp_path, file):
    assert learn(file, tmp_path / "run").exit_code == 0
    return tmp_path / "run"


def test_it_says_where_the_page_is_and_how_big(ended):
    result = run("report", ended)
    path = ended / "report.html"
    size = f"{path.stat().st_size / 1000:,.0f}"
    assert result.output == f"written to {path}: {size} KB; open it in a browser\n"
    assert data_of(path)["runs"][0]["run"]["status"] == "ended"


def test_several_runs_go_into_one_page_elsewhere(ended, file, tmp_path):
    learn(file, tmp_path / "other", "--top", "1")
    path = tmp_path / "both.html"
    assert run("report", ended, tmp_path / "other", "--out", path).exit_code == 0
    assert [one["run"]["name"] for one in data_of(path)["runs"]] == ["run", "other"]
    assert not (ended / "report.html").exists()


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 0, marks=pytest.mark.slow)],
)
def test_a_run_that_goes_on_one_that_was_killed_and_one_that_is_ended_early(
    tmp_path, file, number, code
):
    def status(folder):
        assert run("report", folder).exit_code == 0
        seen = data_of(folder / "report.html")["runs"][0]
        return seen["run"]["status"], seen["counts"]["batches"]

    out, steps = tmp_path / "run", tmp_path / "run" / "steps.jsonl"
    command = [*FIRES, "select", file, *LEARNT, "--follow", "--quiet", "--report", "--out", out]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: steps.exists() and len(steps.read_bytes().splitlines()) == 10)
        assert status(out) == ("running", 10)
        shutil.copytree(out, tmp_path / "killed")  # nobody holds the copy
        assert status(tmp_path / "killed") == ("killed", 10)
        (out / "report.html").unlink()
        child.send_signal(number)
        child.communicate(timeout=120)
    finally:
        child.kill()
        child.wait()
    assert child.returncode == code
    assert data_of(out / "report.html")["runs"][0]["run"]["status"] == "ended early"


def test_a_folder_without_a_run_is_one_line(tmp_path):
    result = run("report", tmp_path)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: {tmp_path} holds no run: it has no run.json; give ")
    assert list(tmp_path.iterdir()) == []


def test_so_is_a_file_that_cannot_be_written(ended, tmp_path, file_size_limit):
    before = sorted(ended.iterdir())
    with file_size_limit(10_000):
        result = run("report", ended)
    assert result.exit_code == 2
    assert result.stderr == f"Error: {ended / 'report.html'}: File too large\n"
    assert sorted(ended.iterdir()) == before
    result = run("report", ended, "--out", tmp_path / "none" / "report.html")
    assert result.exit_code == 2
    said = f"Error: {tmp_path / 'none' / 'report.html'}: No such file or directory\n"
    assert result.stderr == said


# fires select --report


def test_a_run_ends_with_its_page(tmp_path, file):
    out = tmp_path / "run"
    result = learn(file, out, "--report", "--shape", "2x1")
    assert result.exit_code == 0, result.output
    assert re.search(
        rf"\nwritten to {out}/report\.html: \d+ KB; open it in a browser", result.stdout
    )
    seen = data_of(out / "report.html")["runs"][0]
    assert seen["run"]["status"] == "ended"
    assert seen["picture"]["shape"] == [2, 1]
    assert json.loads((out / "run.json").read_bytes())["settings"]["shape"] == "2x1"
    # A run that takes its place takes the place of its page too.
    assert learn(file, out, "--overwrite").exit_code == 0
    assert not (out / "report.html").exists()
    # Of a run that goes on, the page may be asked for anew.
    file.write_text(rows(120))
    assert run("select", "--resume", out, "--report", "--shape", "1x2", "--json").exit_code == 0
    seen = data_of(out / "report.html")["runs"][0]
    assert (seen["counts"]["rows"], seen["picture"]["shape"]) == (120, [1, 2])


@pytest.mark.parametrize("shape", ["28", "0x28", "28x", "-1x4", "axb", "2x2x2", "²x2"])
def test_what_is_no_shape_is_refused(tmp_path, file, shape):
    result = learn(file, tmp_path / "run", "--shape", shape)
    assert result.exit_code == 2
    assert "is not a height and width such as 28x28." in result.stderr


def test_a_shape_that_does_not_fit_is_said_before_the_first_row(tmp_path, file):
    result = learn(file, tmp_path / "run", "--shape", "28x28")
    assert result.exit_code == 2
    assert result.stderr == "Error: --shape 28x28 has 784 pixels, and there are 2 features\n"
    assert not (tmp_path / "run").exists()


def test_json_stays_json(tmp_path, file):
    result = learn(file, tmp_path / "run", "--report", "--json")
    assert json.loads(result.stdout)["rows"] == 100
    assert (tmp_path / "run" / "report.html").exists()


def test_a_run_that_is_ended_by_an_error_has_its_page(tmp_path, file):
    file.write_text(rows(100) + "1,2\n" * 5)
    result = learn(file, tmp_path / "run", "--report", "--max-bad", "3")
    assert result.exit_code == 2
    seen = data_of(tmp_path / "run" / "report.html")["runs"][0]
    assert seen["run"]["status"] == "ended early"
    assert "more than --max-bad 3 allows" in seen["run"]["reason"]


def test_no_room_for_the_page_is_one_line_and_loses_nothing(tmp_path, file, file_size_limit):
    out = tmp_path / "run"
    with file_size_limit(60_000):  # all the rest is smaller
        result = learn(file, out, "--report")
    assert result.exit_code == 2
    assert result.stderr == (
        f"Error: {out / 'report.html'}: File too large; once this is fixed, "
        f"run fires report {out}\n"
    )
    assert "the 2 selected features" in result.stdout
    assert json.loads((out / "run.json").read_bytes())["status"] == "ended"
    assert run("report", out).exit_code == 0
