import ctypes
import json
import os
import re
import subprocess
import sys
from shutil import copytree

import numpy as np
import pytest
from click.testing import CliRunner

import fires
from fires.cli import main
from fires.metrics import StabilityWindow
from fires.streams.synthetic import DriftingFeatures

ROW = re.compile(
    r"^ *(?P<rank>\d+) +(?P<feature>x\d+) +(?P<importance>\S+)"
    r" +\[ *(?P<low>\S+), +(?P<high>\S+)\] +(?P<share>\S+)% +(?P<relevant>now|before)? *$",
    re.MULTILINE,
)
FOUND = re.compile(r"before the change, (\d) of the 5 relevant features are selected")


def run(*arguments):
    return CliRunner().invoke(main, ["demo", *map(str, arguments)])


def follow(stream, pipeline):
    """The selected columns and the stability after every batch of 100."""
    window = StabilityWindow(10, stream.schema.n_features)
    supports, stabilities = [], []
    for batch in stream.batches(100):
        support = pipeline.partial_fit(batch.X, batch.y).selector.get_support(indices=True)
        supports.append(set(support.tolist()))
        stabilities.append(window.update(support))
    return supports, stabilities


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    result = run("--out", out)
    assert result.exit_code == 0, result.output
    return result.output, out / "state.safetensors"


def test_the_table_is_what_the_saved_state_says(demo):
    output, path = demo
    selector, stream = fires.load(path).selector, DriftingFeatures()
    assert selector.n_samples_seen_ == 20_000
    shown = list(ROW.finditer(output))
    old, new = stream.relevant_at(0), stream.relevant_at(19_999)
    selected = selector.get_support(indices=True)
    told = set(old.tolist()) | set(new.tolist()) | set(selected.tolist())
    best = [column for column in np.argsort(selector.ranking_).tolist() if column in told]
    assert [row["feature"] for row in shown] == [f"x{column}" for column in best]
    low, high = selector.interval(0.95)
    for row, column in zip(shown, best, strict=True):
        assert int(row["rank"]) == selector.ranking_[column]
        assert float(row["importance"]) == pytest.approx(selector.importances_[column], abs=5e-3)
        assert float(row["low"]) == pytest.approx(low[column], abs=5e-3)
        assert float(row["high"]) == pytest.approx(high[column], abs=5e-3)
        assert row["relevant"] == ("now" if column in new else "before" if column in old else None)


def test_the_lines_below_it_are_what_the_library_gives_on_the_same_batches(demo):
    output, path = demo
    stream = DriftingFeatures()
    pipeline = fires.OnlinePipeline(fires.FIRES(5))
    supports, stabilities = follow(stream, pipeline)
    saved = fires.load(path)
    np.testing.assert_array_equal(saved.selector.weights_, pipeline.selector.weights_)
    X = np.random.default_rng(0).normal(size=(50, 50))
    np.testing.assert_array_equal(saved.predict_proba(X), pipeline.predict_proba(X))

    old, new = set(stream.relevant_at(0).tolist()), set(stream.relevant_at(19_999).tolist())
    assert FOUND.search(output).groups() == (str(len(supports[99] & old)),)
    assert "\nchange at row 10,000 (batch 100)\n" in output
    told = re.search(r"recovered (\d+) batches after the change: from row ([\d,]+) on", output)
    recovery, row = told[1], int(told[2].replace(",", ""))
    assert row == 10_000 + 100 * int(recovery)
    assert supports[100 + int(recovery) - 2] != new
    assert all(support == new for support in supports[100 + int(recovery) - 1 :])
    (mean,) = re.search(r"mean stability (\S+),", output).groups()
    assert float(mean) == pytest.approx(np.mean(stabilities[1:]), abs=5e-4)
    for row in ROW.finditer(output):
        share = np.mean([int(row["feature"][1:]) in support for support in supports])
        assert float(row["share"]) == pytest.approx(100 * share, abs=0.05)


def test_the_change_is_noticed_and_nothing_else(demo):
    output, path = demo
    (alarm,) = fires.load(path).selector.alarms_
    assert 10_000 < alarm.row <= 10_300
    (told,) = re.findall(r"^alarm at row ([\d,]+) \(batch (\d+)\): .*$", output, re.MULTILINE)
    assert told == (f"{alarm.row:,}", str(alarm.batch))


def test_the_intervals_tell_what_matters_now_from_what_mattered_before(demo):
    for row in ROW.finditer(demo[0]):
        surely_matters = float(row["low"]) > 0.0 or float(row["high"]) < 0.0
        assert surely_matters == (row["relevant"] == "now")


def test_a_selector_that_does_not_recover_is_reported_as_that(tmp_path, monkeypatch):
    monkeypatch.setitem(fires.FIRES.__init__.__kwdefaults__, "update", "gradient")
    output = run("--out", tmp_path).output
    assert FOUND.search(output).groups() == ("5",)
    assert "not recovered from the change by the end of the stream: " in output
    assert "alarm" not in output
    assert "± uncertainty" in output


def test_it_says_where_the_state_is_and_how_to_load_it(demo):
    output, path = demo
    assert f"state saved to {path}\n" in output
    assert f"\nreport written to {path.parent / 'report.html'}: " in output
    assert f'fires.load("{path}")' in output


def test_a_second_run_overwrites_the_first_and_leaves_nothing_else(tmp_path, demo):
    out = copytree(demo[1].parent, tmp_path / "new" / "folder")
    assert run("--out", out, "--seed", 1).exit_code == 0
    other = fires.load(out / "state.safetensors").selector.weights_
    assert not np.isclose(fires.load(demo[1]).selector.weights_, other).any()
    assert {file.name for file in out.iterdir()} == {
        *("run.json", "run.toml", "names.json", "steps.jsonl", "snapshots"),
        *("features.csv", "state.safetensors", "report.html"),
    }


def test_it_is_a_run_like_any_other(demo):
    out = demo[1].parent
    facts = json.loads((out / "run.json").read_bytes())
    assert facts["status"] == "ended"
    assert facts["settings"] == {
        "seed": 0,
        "file": ["fires demo"],
        "target": "label",
        "top": 5,
        "batch_size": 100,
    }
    assert facts["baselines"].keys() == {"majority", "all"}
    steps = (out / "steps.jsonl").read_text().splitlines()
    assert len(steps) == 200
    assert len(list((out / "snapshots").iterdir())) == 100
    assert "<title>" in (out / "report.html").read_text()


def test_another_run_is_not_replaced(tmp_path):
    (tmp_path / "run.json").write_text('{"settings": {"file": ["events.csv"]}}')
    result = run("--out", tmp_path)
    assert result.exit_code == 2
    assert f"Error: {tmp_path} holds a run that is not from fires demo; give" in result.stderr
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]


def test_a_pipe_gets_plain_text_and_no_bar(demo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    result = run()
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f]", result.stdout) is None
    assert "rows/s" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 80
    path = demo[1]
    assert result.stdout == demo[0].replace(str(path.parent), "fires-demo")
    saved = fires.load(tmp_path / "fires-demo" / "state.safetensors")
    np.testing.assert_array_equal(saved.selector.weights_, fires.load(path).selector.weights_)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_a_terminal_shows_a_bar_and_no_colour_where_none_is_wanted(tmp_path):
    import pty

    primary, secondary = pty.openpty()
    terminal = {"TERM": "xterm-256color", "COLUMNS": "80", "NO_COLOR": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "fires.cli", "demo"],
        cwd=tmp_path,
        env=os.environ | terminal,
        stdout=secondary,
        stderr=secondary,
    )
    os.close(secondary)
    output = b""
    try:
        while chunk := os.read(primary, 65_536):
            output += chunk
    except OSError:  # how Linux says that the other side is closed
        pass
    os.close(primary)
    assert process.wait(timeout=120) == 0
    text = output.decode()
    assert "20,000 of 20,000 rows" in text
    assert re.search(r"[\d,]+ rows/s, stability [01]\.\d\d", text)
    assert "\x1b[?25l" in text  # a live bar hides the cursor
    assert re.search(r"\x1b\[[\d;]*[34]\d[;m]", text) is None
    assert text.rstrip().endswith('fires.load("fires-demo/state.safetensors")')


def test_ctrl_c_is_one_line_and_code_130(tmp_path, monkeypatch):
    def interrupted(self, batch_size):
        raise KeyboardInterrupt
        yield

    monkeypatch.setattr(DriftingFeatures, "batches", interrupted)
    result = run("--out", tmp_path)
    assert result.exit_code == 130
    assert result.stderr == "Interrupted.\n"
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_in_a_callback_from_c_is_not_lost(tmp_path, monkeypatch):
    def interrupted(self, batch_size):
        @ctypes.CFUNCTYPE(None)
        def callback():
            raise KeyboardInterrupt

        callback()  # what numba's compiler does: the interrupt is reported and not raised
        raise RuntimeError("no compiled object yet")
        yield

    hook = sys.unraisablehook
    monkeypatch.setattr(DriftingFeatures, "batches", interrupted)
    result = run("--out", tmp_path)
    assert result.exit_code == 130
    assert result.stderr == "Interrupted.\n"
    assert sys.unraisablehook is hook


def test_an_error_of_ours_is_not_taken_for_an_interrupt(tmp_path, monkeypatch):
    def broken(self, batch_size):
        raise RuntimeError("a bug")
        yield

    monkeypatch.setattr(DriftingFeatures, "batches", broken)
    assert isinstance(run("--out", tmp_path).exception, RuntimeError)


def test_a_folder_that_cannot_be_made_is_one_line_and_code_2(tmp_path):
    file = tmp_path / "file"
    file.write_text("not a folder")
    result = run("--out", file / "folder")
    assert result.exit_code == 2
    assert result.stderr == f"Error: {file / 'folder'}: Not a directory\n"
    assert file.read_text() == "not a folder"


def test_records_that_cannot_be_written_are_one_line_that_names_them(tmp_path, file_size_limit):
    with file_size_limit(10_000):  # names and settings are smaller
        result = run("--out", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == f"Error: {tmp_path / 'steps.jsonl'}: File too large\n"


@pytest.mark.parametrize("arguments", [["--seed", "-1"], ["--seed", "x"], ["--nonsense"]])
def test_wrong_options_are_code_2(arguments):
    assert run(*arguments).exit_code == 2


def test_help_and_version():
    overview = CliRunner().invoke(main, ["--help"])
    assert overview.exit_code == 0
    assert "demo" in overview.output
    assert CliRunner().invoke(main, ["--version"]).output == f"fires, version {fires.__version__}\n"
    options = run("-h").output
    assert "--out DIR" in options
    assert "--seed" in options


def test_help_loads_nothing_slow():
    code = (
        "import sys, fires.cli;"
        "fires.cli.main(['demo', '--help'], standalone_mode=False);"
        "print({'numpy', 'sklearn', 'numba', 'polars', 'rich'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.endswith("\nset()\n"), result.stderr
