"""Records that are not what they were: a run says so, and goes on without them if it is told to."""

import json
import shutil

import pytest
from click.testing import CliRunner
from tests.cli.durable_runs import lines_of, write_rows

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
def test_lost_lines_are_refused_and_accepted(out, name, harm):
    harm(out / name)
    n_batches = json.loads((out / "run.json").read_bytes())["batches"]
    content = (out / name).read_bytes() if (out / name).exists() else None
    result = run("--resume", out)
    assert result.exit_code == 2
    line = result.stderr.splitlines()[-1]
    assert line.startswith(f"Error: {out / name} ")
    assert line.endswith("; --resume with --accept-loss goes on with what is left of it")
    assert (content is None) or (out / name).read_bytes() == content

    result = run("--resume", out, "--accept-loss", "--quiet")
    assert result.exit_code == 0, result.stderr
    (said,) = (line for line in result.stderr.splitlines() if name in line)
    facts = json.loads((out / "run.json").read_bytes())
    assert facts["lost"] == [said.removeprefix(f"{out}: ")]
    assert facts["rows"] > 1_300
    steps = lines_of(out / "steps.jsonl")
    (told,) = (step for step in steps if "lost" in step)
    assert told["lost"] == facts["lost"]
    indices = [step["index"] for step in steps]
    assert indices == sorted(set(indices))
    assert told["index"] == n_batches
    assert indices[-1] + 1 == facts["batches"] == summarise(out)["counts"]["batches"]
    # From now on, all is as it was noted.
    result = run("--resume", out)
    assert result.exit_code == 0, result.stderr
    assert json.loads((out / "run.json").read_bytes())["lost"] == facts["lost"]


def test_it_is_settled_even_if_the_run_is_killed_before_the_next_checkpoint(out, monkeypatch):
    from fires.run.folder import RunFolder

    shorter(out / "steps.jsonl")

    def die(*_, **__):
        raise SystemExit(9)

    with monkeypatch.context() as patch:
        patch.setattr(RunFolder, "add", die)
        patch.setattr(RunFolder, "__exit__", lambda folder, *_: folder._lock.release())
        assert run("--resume", out, "--accept-loss").exit_code == 9
    result = run("--resume", out)
    assert result.exit_code == 0, result.stderr
    assert "steps.jsonl" in json.loads((out / "run.json").read_bytes())["lost"][0]


def test_lines_that_a_killed_run_has_added_are_cut_off_as_ever(out):
    before = (out / "steps.jsonl").read_bytes()
    (out / "steps.jsonl").write_bytes(before + b'{"index": 10, "rows": 1}\n{"ind')
    assert run("--resume", out).exit_code == 0
    assert (out / "steps.jsonl").read_bytes().startswith(before)
    assert "lost" not in json.loads((out / "run.json").read_bytes())


def test_snapshots_that_are_gone_are_said_and_missed_by_nobody(out):
    shutil.rmtree(out / "snapshots")
    result = run("--resume", out)
    assert result.exit_code == 0, result.stderr
    (said,) = (line for line in result.stderr.splitlines() if ": snapshots of" in line)
    assert json.loads((out / "run.json").read_bytes())["lost"] == [said.removeprefix(f"{out}: ")]
    n_batches = json.loads((out / "run.json").read_bytes())["batches"]
    assert summarise(out)["timeline"]["batches"] == list(range(10, n_batches))


def test_a_checkpoint_of_an_earlier_version_has_no_checksum_and_goes_on(out):
    for path in (out / "checkpoints").iterdir():
        header, arrays = read_state(path)
        del header["checksums"], header["lost"], header["files"]["snapshots"]
        write_state(path, header, arrays)
    altered(out / "steps.jsonl")
    assert run("--resume", out).exit_code == 0
    shorter(out / "steps.jsonl")
    assert run("--resume", out).exit_code == 2


def test_accepting_a_loss_goes_with_resume_only(tmp_path):
    result = run(tmp_path / "x.csv", *OPTIONS, "--accept-loss")
    assert result.exit_code == 2
    assert "Error: --accept-loss goes with --resume only." in result.stderr
