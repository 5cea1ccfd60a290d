"""The recipes for systemd and containers, as they stand: begun, stopped, started again."""

import json
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from tests.cli.durable_runs import wait_for

EXAMPLES = Path(__file__).parents[2] / "examples"

pytest.importorskip("prometheus_client")


def entries(n):
    return [{"a": i % 7, "b": i % 5, "label": int(i % 5 > 2)} for i in range(n)]


def systemd(uri, port):
    """What ExecStart does, with another stream and another port."""
    text = (EXAMPLES / "fires.service").read_text().replace("\\\n", " ")
    line = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1]
    line = line.replace("redis://localhost:6379/events", uri).replace("9100", str(port))
    return shlex.split(line.replace("/opt/fires/bin/fires", "./fires"))


def container(uri, port):
    """What ENTRYPOINT does, with the arguments of docker run."""
    text = (EXAMPLES / "Containerfile").read_text()
    entry = json.loads(re.search(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)[1])
    told = ("--emit", "selected.ndjson", "--metrics", f"127.0.0.1:{port}")
    entry[2] = entry[2].replace("fires select", "./fires select")
    return [*entry, uri, "--target", "label", *told, "--log-level", "info", "--quiet"]


class Service:
    """A recipe that is started again and again in a folder of its own."""

    def __init__(self, folder, command, port):
        self._folder, self._command, self._port = folder, command, port
        program = folder / "fires"
        program.write_text(f'#!/bin/sh\nexec {sys.executable} -m fires.cli "$@"\n')
        program.chmod(0o755)

    def until(self, n_rows):
        """Start it, wait until it has learnt from so many rows, and stop it; what it has said."""
        pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
        child = subprocess.Popen(self._command, cwd=self._folder, encoding="utf-8", **pipes)
        try:
            wait_for(lambda: self._n_rows() == n_rows, child)
            child.terminate()
            _, errors = child.communicate(timeout=120)
        finally:
            child.kill()
            child.communicate()
        assert child.returncode == 0, errors
        return errors.splitlines()

    def _n_rows(self):
        try:
            text = urlopen(f"http://127.0.0.1:{self._port}/metrics").read().decode()
        except URLError:
            return None
        found = re.search(r"^fires_rows_total (\S+)$", text, re.MULTILINE)
        return found and float(found[1])


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [systemd, pytest.param(container, marks=pytest.mark.slow)])
def test_the_second_start_does_as_the_first(recipe, redis_server, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    redis_server.write("events", entries(1_000))
    service = Service(tmp_path, recipe(redis_server.uri("events"), port), port)
    first = service.until(1_000)
    redis_server.write("events", entries(300))
    second = service.until(1_300)
    for said, n_rows in ((first, 1_000), (second, 1_300)):
        *events, last = said  # --quiet: no bar and no notices; --log-level: what is written down
        assert re.search(f" INFO checkpoint after {n_rows} rows", "\n".join(events))
        assert all(re.match(r"\d{4}-\d\d-\d\dT\S+ (INFO|WARNING) ", line) for line in events), said
        assert last.startswith("Interrupted; what was learnt from the first ")
