"""``fires serve`` and ``--live``: what goes wrong at the start, and how both end."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from tests.report.viewers import FIRES, Viewer, rows, wait_until

from fires.cli import main

pytest.importorskip("uvicorn")

LEARNT = ("--target", "label", "--batch-size", "10", "--keep-doubtful")


def run(*arguments):
    return CliRunner().invoke(main, [*map(str, arguments)])


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "events.csv"
    path.write_text(rows(100))
    return path


@pytest.fixture
def ended(tmp_path, file):
    assert run("select", file, *LEARNT, "--out", tmp_path / "run").exit_code == 0
    return tmp_path / "run"


class Live:
    """``fires select --live`` on a file of 100 rows."""

    def __init__(self, file, out, *more):
        command = [*FIRES, "select", file, *LEARNT, "--out", out, "--live", *more]
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        self.process = subprocess.Popen(command, encoding="utf-8", **pipes)
        said = self.process.stderr.readline()
        assert f"{out} is shown on http://127.0.0.1:" in said, self.process.communicate()
        self.address = re.search(r"http://\S+", said)[0]
        self.port = int(re.search(r":(\d+)/", self.address)[1])

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.communicate()

    def ends(self, code):
        _, errors = self.process.communicate(timeout=120)
        assert self.process.returncode == code, errors
        return errors

    def is_shown(self):
        try:
            return urlopen(self.address).status == 200
        except (URLError, ConnectionError):
            return False


# fires serve


def test_a_port_that_is_taken_is_one_line(ended):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = run("serve", ended, "--port", port)
    assert result.exit_code == 2
    assert result.stderr == (
        f"Error: cannot listen on 127.0.0.1:{port}: Address already in use; give another --port, "
        "or --port 0 for any that is free\n"
    )


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "x" * 70])
def test_so_is_an_address_of_another_machine(ended, host):
    result = run("serve", ended, "--host", host)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: cannot listen on {host}:8765: ")
    assert result.stderr.count("\n") == 1


def test_so_is_a_folder_without_a_run(tmp_path):
    for folder, why in ((tmp_path, "has no run.json"), (tmp_path / "x", "is not a folder")):
        result = run("serve", folder, "--port", 0)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"Error: {folder} holds no run: it {why}; ")


@pytest.mark.parametrize("library", ["uvicorn", "starlette"])
def test_so_is_what_is_not_installed(ended, tmp_path, monkeypatch, library):
    monkeypatch.setitem(sys.modules, library, None)
    result = run("serve", ended, "--port", 0)
    assert result.exit_code == 2
    assert result.stderr == f"Error: fires serve needs {library}: pip install '.[serve]'\n"
    # It is said before anything is read or written.
    result = run("select", tmp_path / "none.csv", *LEARNT, "--out", tmp_path / "new", "--live")
    assert result.exit_code == 2
    assert result.stderr == f"Error: --live needs {library}: pip install '.[serve]'\n"
    assert not (tmp_path / "new").exists()


def test_help_loads_nothing_slow():
    code = (
        "import sys, fires.cli;"
        "fires.cli.main(['serve', '--help'], standalone_mode=False);"
        "print({'numpy', 'starlette', 'uvicorn', 'asyncio'} & set(sys.modules))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout.endswith("\nset()\n"), result.stderr
    assert "--attached" not in result.stdout


# --live


@pytest.mark.slow  # one that is interrupted is below
def test_viewers_of_a_run_see_it_grow_and_end(tmp_path, file):
    out = tmp_path / "run"
    with Live(file, out, "--report", "--quiet", "--rate", "50") as live:
        viewer = Viewer(live.port)
        seen = viewer.wait_for(lambda run: run["counts"]["rows"] > 0)
        assert seen["run"]["status"] == "running"
        assert live.ends(0) == ""
        *_, last = viewer.events()
        assert last["runs"][0]["run"]["status"] == "ended"
        assert last["runs"][0]["counts"]["rows"] == 100
        viewer.close()
        assert not live.is_shown()
    assert (out / "report.html").stat().st_size > 10_000
    assert "live" not in json.loads((out / "run.json").read_bytes())["settings"]
    assert "live" not in (out / "run.toml").read_text()


def test_ctrl_c_ends_the_run_and_then_the_page(tmp_path, file):
    with Live(file, tmp_path / "run", "--follow") as live:
        viewer = Viewer(live.port)
        viewer.wait_for(lambda run: run["counts"]["rows"] == 100)
        live.process.send_signal(signal.SIGINT)
        assert "Interrupted; " in live.ends(130)
        *_, last = viewer.events()
        assert last["runs"][0]["run"]["status"] == "ended early"
        viewer.close()
        assert not live.is_shown()


@pytest.mark.slow
def test_the_page_does_not_outlive_a_run_that_is_killed(tmp_path, file):
    with Live(file, tmp_path / "run", "--follow") as live:
        viewer = Viewer(live.port)
        viewer.wait_for(lambda run: run["counts"]["rows"] == 100)
        live.process.kill()
        *_, last = viewer.events()
        assert last["runs"][0]["run"]["status"] == "killed"
        viewer.close()
        wait_until(lambda: not live.is_shown())


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/task"), reason="needs Linux")
def test_a_run_goes_on_without_its_page(tmp_path, file):
    with Live(file, tmp_path / "run", "--follow") as live:
        pid = live.process.pid
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            (page,) = children.read().split()
        os.kill(int(page), signal.SIGKILL)
        wait_until(lambda: not live.is_shown())
        with file.open("a") as growing:
            growing.write(rows(20, 100, header=False))
        steps = tmp_path / "run" / "steps.jsonl"
        wait_until(lambda: steps.exists() and len(steps.read_bytes().splitlines()) == 12)
        live.process.terminate()
        live.ends(0)


def test_a_page_that_cannot_be_shown_is_one_line_and_no_run(tmp_path, file, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    result = run("select", file, *LEARNT, "--out", tmp_path / "run", "--live")
    assert result.exit_code == 2
    said = "Error: --live cannot show the run: fires serve exited at once\n"
    assert result.stderr == said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("option", ["--live", "--report"])
def test_a_page_needs_a_folder(file, option):
    result = run("select", file, *LEARNT, option)
    assert result.exit_code == 2
    assert f"Error: {option} needs a folder to write to: give --out.\n" in result.stderr
