"""Records that are not what they were: a run says so, and does not go on."""

import json
import shutil

import pytest
from click.testing import CliRunner
from tests.cli.durable_runs import write_rows

from fires.cli import main
from fires.core.state import read_state, write_state
from fires.report.summary import summarise

OPTIONS = ("-t", "label", "-k", 2, "--checkpoint", 2, "--quiet", "--keep-doubtful")


def run(*arguments):
    return CliRunner().invoke(main, ["select", *map(str, arguments)])


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run of ten batches, whose file has grown since."""
    folder = tmp_path_factory.mktemp("loss")
    file = write_rows(folder / "x.csv", 1_400)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:1_000]))
    assert run(file, *OPTIONS, "--out", folder / "run").exit_code == 0
    file.write_text("".join(lines))
    return folder / "run"


@pytest.fixture
def out(begun, tmp_path):
    return shutil.copytree(begun, tmp_path / "run")


def shorter(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def gone(path):
    path.unlink()


def altered(path):
    content = path.read_bytes()
    place = content.index(b"0", len(content) // 2)
    path.write_bytes(content[:place] + b"1" + content[place + 1 :])


def inserted(path):
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"no object\n", *lines[2:]]))


def without_a_line(path):
    lines = path.read_bytes().splitlines(keepends=True)
    after = b'{"index": 99, "rows": 1}\n'  # of a process that was killed
    path.write_bytes(b"".join([*lines[:2], *lines[3:], after * 20]))


HARM = (shorter, gone, altered, inserted, without_a_line)


@pytest.mark.parametrize("harm", HARM)
@pytest.mark.parametrize("name", ["steps.jsonl", "quarantine.ndjson"])
def test_lost_lines_are_refused(out, name, harm):
    harm(out / name)
    content = (out / name).read_bytes() if (out / name).exists() else None
    result = run("--resume", out)
    assert result.exit_code == 2
    line = result.stderr.splitlines()[-1]
    assert line.startswith(f"Error: {out / name} ")
    assert " has changed since the run was saved, in its first " in line
    assert (content is None) or (out / name).read_bytes() == content


def test_lines_that_a_killed_run_has_added_are_cut_off_as_ever(out):
    before = (out / "steps.jsonl").read_bytes()
    (out / "steps.jsonl").write_bytes(before + b'{"index": 10, "rows": 1}\n{"ind')
    assert run("--resume", out).exit_code == 0
    assert (out / "steps.jsonl").read_bytes().startswith(before)


def test_snapshots_that_are_gone_are_missed_by_nobody(out):
    shutil.rmtree(out / "snapshots")
    result = run("--resume", out)
    assert result.exit_code == 0, result.stderr
    n_batches = json.loads((out / "run.json").read_bytes())["batches"]
    assert summarise(out)["timeline"]["batches"] == list(range(10, n_batches))


def test_a_checkpoint_of_an_earlier_version_has_no_checksum_and_goes_on(out):
    for path in (out / "checkpoints").iterdir():
        header, arrays = read_state(path)
        del header["checksums"]
        write_state(path, header, arrays)
    altered(out / "steps.jsonl")
    assert run("--resume", out).exit_code == 0
    shorter(out / "steps.jsonl")
    assert run("--resume", out).exit_code == 2
