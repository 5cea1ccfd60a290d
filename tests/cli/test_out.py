"""``--out`` and what is not ours: nothing of it is changed, whatever becomes of the run."""

import json
import os
import shutil

import numpy as np
import pytest
from click.testing import CliRunner

from fires.cli import main
from fires.run.folder import RunFolder

MINE = ("checkpoints/model.pt", "report.html", "columns.csv", "snapshots/000000000007.png", "n.txt")


def run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


def fails(*arguments):
    """The one line that a command ends with."""
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    (line,) = result.stderr.splitlines()
    return line.removeprefix("Error: ")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("rows") / "x.csv"
    X = np.random.default_rng(0).normal(size=(300, 3)).round(3)
    lines = [f"{a},{b},{c},{'yes' if a > 0 else 'no'}" for a, b, c in X.tolist()]
    path.write_text("\n".join(["a,b,c,label", *lines, ""]))
    return path


@pytest.fixture(scope="module")
def options(file):
    return ("select", file, "-t", "label", "-k", 2, "--checkpoint", 1, "--transform", "--quiet")


@pytest.fixture(scope="module")
def ended(options, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "run"
    assert run(*options, "--out", out).exit_code == 0
    return out


def write_mine(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"mine: {name}")


def everything(folder):
    """All files, and what they hold."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def mine_in(folder):
    return {name for name, content in everything(folder).items() if content.startswith(b"mine")}


# A folder that is no run


@pytest.mark.parametrize("more", [(), ("--overwrite",)])
@pytest.mark.parametrize("names", [MINE, *((name,) for name in MINE)])
def test_a_folder_with_other_files_is_refused_and_stays(tmp_path, options, names, more):
    write_mine(tmp_path, *names)
    before = everything(tmp_path)
    line = fails(*options, "--out", tmp_path, *more)
    assert line.startswith(f"{tmp_path} holds ")
    assert line.endswith(" and no run of fires; give another folder")
    assert everything(tmp_path) == before


def test_so_is_one_whose_run_json_is_of_another_program(tmp_path, options):
    (tmp_path / "run.json").write_text('{"mine": true}')
    line = fails(*options, "--out", tmp_path, "--overwrite")
    assert line == f"{tmp_path} holds run.json and no run of fires; give another folder"


def test_fires_demo_and_bench_refuse_it_too(tmp_path):
    write_mine(tmp_path, "report.html", "tables.md")
    before = everything(tmp_path)
    for command in (("demo",), ("bench", "kdd2020", "--quick", "--datasets", "RTG")):
        assert "and no run of fires" in fails(*command, "--out", tmp_path)
    assert everything(tmp_path) == before


def test_an_empty_folder_and_one_of_hidden_files_is_taken(tmp_path, options):
    (tmp_path / ".gitkeep").write_text("mine")
    assert run(*options, "--out", tmp_path).exit_code == 0
    assert mine_in(tmp_path) == {".gitkeep"}


# A run that is replaced, beside files that are not of it


FOREIGN = {"n.txt", "checkpoints/model.pt", "snapshots/x.safetensors", "transformed/a/b.parquet"}


def with_foreign(ended, folder):
    shutil.copytree(ended, folder)
    write_mine(folder, *FOREIGN)
    return folder


def test_overwrite_replaces_the_files_of_the_run_alone(tmp_path, options, ended):
    out = with_foreign(ended, tmp_path / "out")
    (out / "report.html").write_text("of the run")
    facts = json.loads((out / "run.json").read_bytes())
    assert "checkpoints/" in " ".join(facts.pop("manifest"))
    (out / "run.json").write_text(json.dumps(facts | {"manifest": ["../*", "n.txt"]}))
    assert run(*options, "--out", out, "--overwrite").exit_code == 0
    assert mine_in(out) == FOREIGN
    assert everything(out).keys() == everything(ended).keys() | FOREIGN


def test_a_run_that_comes_to_nothing_leaves_the_one_before_and_all_else(tmp_path, options, ended):
    out = with_foreign(ended, tmp_path / "out")
    before = everything(out)
    one_class = tmp_path / "one.csv"
    one_class.write_text("a,label\n" + "1,yes\n2,yes\n" * 50)
    fails("select", one_class, "-t", "label", "--out", out, "--overwrite", "--quiet")
    assert everything(out) == before


def test_a_resumed_run_without_a_checkpoint_begins_again_beside_them(tmp_path, ended):
    out = with_foreign(ended, tmp_path / "out")
    for path in out.glob("checkpoints/*.safetensors"):
        path.unlink()
    assert run("select", "--resume", out, "--quiet").exit_code == 0
    assert mine_in(out) == FOREIGN


# Kills


def begin(out):
    with RunFolder(out, overwrite=True) as folder:
        folder.begin("# options\n", {"settings": {}})
        folder.start(["a"])


@pytest.mark.parametrize(
    "what", ["replace", *(pytest.param(o, marks=pytest.mark.slow) for o in ("unlink", "rmdir"))]
)
def test_a_run_that_is_killed_while_it_is_replaced_is_whole_again(
    tmp_path, ended, monkeypatch, what
):
    """Whichever file operation was the last: the next process puts the earlier run back."""
    plain, kept = getattr(os, what), {"checkpoints", "snapshots", "transformed"}
    small = tmp_path / "small"
    for name in ("run.json", "run.toml", "steps.jsonl", f"checkpoints/{'0' * 12}.safetensors"):
        (small / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ended / name if name[0] != "c" else ended / "run.toml", small / name)
    for n in range(1, 60):
        out = with_foreign(small, tmp_path / f"{what}{n}")
        before, left = everything(out), [n]

        def dying(*arguments, left=left, **more):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return plain(*arguments, **more)

        child = os.fork()
        if not child:
            try:
                monkeypatch.setattr(os, what, dying)
                begin(out)
                os._exit(0)
            finally:
                os._exit(1)
        ends = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert ends in (0, 9)
        assert mine_in(out) == FOREIGN
        begin(out)
        assert everything(out) == before
        assert {path.name for path in out.iterdir() if path.is_dir()} == kept
        if ends == 0:
            break
    assert ends == 0
    assert n > 1


def test_a_killed_run_that_has_written_no_mark_is_in_nobodys_way(tmp_path, options):
    child = os.fork()
    if not child:
        try:
            RunFolder(tmp_path)
            (tmp_path / "steps.jsonl").touch()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert "give --overwrite to replace it" in fails(*options, "--out", tmp_path)
    assert run(*options, "--out", tmp_path, "--overwrite").exit_code == 0


def test_a_run_that_is_killed_while_it_begins_can_begin_again(tmp_path, monkeypatch, options):
    """Whichever file it has replaced last: it goes on, or begins again without being asked."""
    for n in range(1, 4):
        out, left, plain = tmp_path / str(n), [n], os.replace

        def dying(*arguments, left=left, plain=plain):
            left[0] -= 1
            if left[0] == 0:
                os._exit(9)
            return plain(*arguments)

        child = os.fork()
        if not child:
            try:
                monkeypatch.setattr(os, "replace", dying)
                begin(out)
            finally:
                os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        if (out / "run.toml").exists():
            RunFolder(out, resume=True).__exit__()
        else:
            assert run(*options, "--out", out).exit_code == 0


def test_what_an_earlier_version_has_set_aside_is_not_deleted_with_its_run(
    tmp_path, options, ended
):
    out = tmp_path / "out"
    shutil.copytree(ended, out)
    shutil.copytree(ended, out / ".replaced")
    write_mine(out / ".replaced", "checkpoints/model.pt")
    for _ in range(2):
        assert run(*options, "--out", out, "--overwrite").exit_code == 0
        (found,) = mine_in(out)
        assert found.startswith("replaced-")
        assert found.endswith("/checkpoints/model.pt")
        assert not (out / ".replaced").exists()


def test_a_run_that_went_on_before_it_was_saved_keeps_nothing_aside(tmp_path, options, ended):
    out = tmp_path / "out"
    shutil.copytree(ended, out)
    shutil.copytree(ended, out / ".replaced")
    assert run("select", "--resume", out, "--quiet").exit_code == 0
    assert not (out / ".replaced").exists()


# fires report and fires compare


def test_report_asks_before_it_replaces_a_file(tmp_path, ended):
    page = tmp_path / "page.html"
    page.write_text("mine")
    line = fails("report", ended, "--out", page)
    assert line == f"{page} already exists; give --overwrite to replace it, or another name"
    assert page.read_text() == "mine"
    assert run("report", ended, "--out", page, "--overwrite").exit_code == 0
    assert page.read_text() != "mine"
    out = tmp_path / "run"
    shutil.copytree(ended, out)
    for _ in range(2):  # the page of a run is its own
        assert run("report", out).exit_code == 0


@pytest.mark.parametrize("more", [(), ("--overwrite",)])
def test_compare_replaces_nothing_that_it_has_not_written(tmp_path, file, more):
    asked = ("compare", file, "-t", "label", "-s", "fires", "--seeds", 1, "--quiet")
    write_mine(tmp_path, "compare.md", "n.txt")
    line = fails(*asked, "--out", tmp_path, *more)
    assert line == f"{tmp_path} holds compare.md and no compare.json; give another folder"
    assert mine_in(tmp_path) == {"compare.md", "n.txt"}
    left = tmp_path / ".fires-killed"  # while it put its files into place
    left.mkdir()
    (left / "compare.json").touch()
    assert run(*asked, "--out", tmp_path).exit_code == 0
    assert mine_in(tmp_path) == {"n.txt"}
