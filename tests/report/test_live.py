"""The live page: what it answers, to whom, and that nobody can hold it up."""

import json
import os
import re
import signal
import subprocess
from contextlib import ExitStack, closing

import pytest
from click.testing import CliRunner
from tests.report.viewers import (
    FIRES,
    PATIENCE,
    Viewer,
    asked,
    rows,
    served,
    stalled_viewer,
    wait_until,
)

from fires.cli import main
from fires.report.live import Access

pytest.importorskip("uvicorn")

LEARNT = ("--target", "label", "--batch-size", "10", "--keep-doubtful", "--quiet")


def learn(file, out, *more):
    result = CliRunner().invoke(main, ["select", str(file), *LEARNT, "--out", str(out), *more])
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ended")
    (folder / "events.csv").write_text(rows(200))
    return learn(folder / "events.csv", folder / "run")


@pytest.fixture(scope="module")
def port(run):
    with served(run) as server:
        yield server.port


def test_the_page_has_the_data_of_the_run_and_a_policy(port, run):
    answer, text = asked(port)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    (data,) = re.findall(r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', text, re.S)
    (seen,) = json.loads(data)["runs"]
    assert (seen["run"]["name"], seen["run"]["status"]) == (run.name, "ended")
    assert json.loads(asked(port, "/summary.json")[1])["runs"] == [seen]
    policy = answer.headers["content-security-policy"]
    for rule in ("default-src 'none'", "connect-src 'self'", "frame-ancestors 'none'"):
        assert rule in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize("path", ["/", "/summary.json", "/nowhere", "/favicon.ico"])
def test_every_answer_is_kept_from_others(port, path):
    answer, _ = asked(port, path, Origin="https://elsewhere.example")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["cross-origin-opener-policy"] == "same-origin"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
@pytest.mark.parametrize("path", ["/", "/events"])
def test_nothing_can_be_changed(port, path, method):
    answer, _ = asked(port, path, method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/", "/events", "/summary.json"])
def test_head_has_no_body_and_an_end(port, path):
    answer, body = asked(port, path, "HEAD")
    assert (answer.status, body) == (200, "")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:8765", "LOCALHOST:80"])
def test_it_goes_by_the_names_of_this_machine(port, host):
    assert asked(port, "/summary.json", host=host)[0].status == 200


@pytest.mark.parametrize(
    "host",
    ["elsewhere.example", "127.0.0.1.nip.example:80", "localhost@x", "10.0.0.1", "", "[::2]"],
)
def test_and_by_no_other(port, host):
    """A name that its owner lets point to this machine is how other pages would get in."""
    for path in ("/", "/events", "/summary.json"):
        assert asked(port, path, host=host)[0].status == 421


def test_other_pages_may_link_to_it_but_not_ask_for_data(port):
    for site in ("cross-site", "same-site"):
        assert asked(port, Sec_Fetch_Site=site)[0].status == 200
        assert asked(port, "/events", Sec_Fetch_Site=site)[0].status == 403
        assert asked(port, "/summary.json", Sec_Fetch_Site=site)[0].status == 403
    assert asked(port, "/summary.json", Sec_Fetch_Site="same-origin")[0].status == 200


def test_events_begin_with_what_is_known_and_say_when_to_ask_again(port):
    viewer = Viewer(port)
    assert viewer.answer.headers["content-type"].startswith("text/event-stream")
    assert viewer.answer.readline() == b"retry: 2000\n"
    assert viewer.wait_for(lambda run: True)["run"]["status"] == "ended"
    viewer.close()


@pytest.mark.slow
def test_several_runs_are_on_one_page(run, tmp_path):
    (tmp_path / "other.csv").write_text(rows(100))
    other = learn(tmp_path / "other.csv", tmp_path / "other")
    with served(run, other) as server:
        seen = json.loads(asked(server.port, "/summary.json")[1])["runs"]
    assert [one["run"]["name"] for one in seen] == ["run", "other"]
    assert [one["counts"]["batches"] for one in seen] == [20, 10]


# A token


def test_other_machines_need_a_token(run):
    with served(run, "--host", "0.0.0.0") as server:
        port, token = server.port, re.search(r"\?token=([\w-]{30,})$", server.address)[1]
        for path in ("/", "/events", "/summary.json", "/?token=", f"/?token={token}x"):
            assert asked(port, path)[0].status == 403
        for path in ("/", "/summary.json"):
            assert asked(port, f"{path}?token={token}")[0].status == 200
        viewer = Viewer(port, f"?token={token}")
        assert viewer.wait_for(lambda run: True)["run"]["status"] == "ended"
        viewer.close()
        assert asked(port, f"/?token={token}", host=f"192.0.2.7:{port}")[0].status == 200


def test_the_token_can_be_given_and_then_everybody_needs_it(run):
    with served(run, FIRES_TOKEN="täglich; neu&") as server:
        assert server.address.endswith("/?token=t%C3%A4glich%3B%20neu%26")
        assert asked(server.port)[0].status == 403
        path = server.address.partition(str(server.port))[2]
        assert asked(server.port, path)[0].status == 200


def test_an_address_of_this_machine_alone_needs_none():
    access = Access("::1", "::1", 8765, None)
    assert access.url == "http://[::1]:8765/"
    assert access.knows("[::1]:8765")
    assert not access.knows("[::1")
    assert "secret" not in repr(Access("0.0.0.0", "0.0.0.0", 1, "secret"))


# While a run goes on


def test_viewers_see_a_run_go_on_be_killed_and_taken_up_again(tmp_path):
    file, out = tmp_path / "events.csv", tmp_path / "run"
    file.write_text(rows(100))
    command = [*FIRES, "select", file, *LEARNT, "--follow", "--checkpoint", "1", "--out", out]
    first = subprocess.Popen(command)
    try:
        wait_until(lambda: (out / "run.json").exists() or first.poll() is not None)
        with served(out) as server:
            viewer = Viewer(server.port)
            seen = viewer.wait_for(lambda run: run["counts"]["batches"] == 10)
            assert seen["run"]["status"] == "running"
            with file.open("a") as growing:
                growing.write(rows(100, 100, header=False))
            assert viewer.wait_for(lambda run: run["counts"]["batches"] == 20)
            first.kill()
            first.wait()
            assert viewer.wait_for(lambda run: run["run"]["status"] == "killed")
            again = subprocess.Popen([*FIRES, "select", "--resume", out, "--quiet"])
            try:
                viewer.wait_for(lambda run: run["run"]["status"] == "running")
                with file.open("a") as growing:
                    growing.write(rows(100, 200, header=False))
                viewer.wait_for(lambda run: run["counts"]["batches"] == 30)
                again.terminate()
                assert again.wait(PATIENCE) == 0
                viewer.wait_for(lambda run: run["run"]["status"] == "ended early")
            finally:
                again.kill()
                again.wait()
            viewer.close()
    finally:
        first.kill()
        first.wait()


def wide(path):
    """A table whose page is more than fits between two programs."""
    names = [f"x{j} " + "very " * 1_200 for j in range(200)]
    body = "".join(f"{','.join(['1', '2'] * 100)},{i % 2}\n" for i in range(20))
    path.write_text(f"{','.join(names)},label\n{body}")
    return path


def test_a_viewer_who_does_not_read_holds_up_nobody(tmp_path):
    out = learn(wide(tmp_path / "wide.csv"), tmp_path / "run")
    with served(out) as server, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(stalled_viewer(server.port))
        viewer = stack.enter_context(closing(Viewer(server.port)))
        assert viewer.wait_for(lambda run: True)["counts"]["batches"] == 2
        learn(tmp_path / "wide.csv", out, "--overwrite", "--batch-size", "5")
        assert viewer.wait_for(lambda run: run["counts"]["batches"] == 4)
        assert asked(server.port, "/summary.json")[0].status == 200
        server.terminate()
        assert server.wait(PATIENCE) == 0
        assert all(data["runs"] for data in viewer.events())  # and then they end


@pytest.mark.parametrize(
    "number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_a_signal_ends_it_at_once_and_it_has_said_nothing(run, number):
    with served(run) as server:
        viewer = Viewer(server.port)
        viewer.wait_for(lambda run: True)
        asked(server.port, host="elsewhere.example")
        server.send_signal(number)
        assert server.wait(PATIENCE) == 0
        assert (server.stdout.read(), server.stderr.read()) == ("", "")
        viewer.close()


def test_a_folder_that_is_gone_is_shown_as_it_was(run, tmp_path):
    out = tmp_path / "run"
    (tmp_path / "events.csv").write_text(rows(50))
    learn(tmp_path / "events.csv", out)
    with served(out) as server:
        before = asked(server.port, "/summary.json")[1]
        os.rename(out, tmp_path / "elsewhere")
        assert asked(server.port, "/summary.json")[1] == before
        viewer = Viewer(server.port)
        assert viewer.wait_for(lambda run: True)["counts"]["batches"] == 5
        os.rename(tmp_path / "elsewhere", out)
        (tmp_path / "events.csv").write_text(rows(80))
        learn(tmp_path / "events.csv", out, "--overwrite")
        viewer.wait_for(lambda run: run["counts"]["batches"] == 8)
        viewer.close()
