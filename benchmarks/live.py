"""What ten viewers of the live page cost a run: ``fires select`` alone, and while it is watched.

Both take turns, each in processes of its own, over the same file. Ten viewers read every event as a
browser would. What is judged is the processor time of the run: what others do meanwhile is not
counted, but what they cost the run is, through caches and the disk. The clock on the wall stands
beside. It tells what a user sees only where nobody else uses the machine: on two cores that others
use, it varies by far more than the two percent that are asked for.
"""

from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import threading
from http.client import HTTPConnection
from pathlib import Path

import numpy as np

from benchmarks.command import N_FEATURES, N_ROWS, write_file
from benchmarks.timing import Ratio, Row, show, shown

N_VIEWERS, ROUNDS, LOSS = 10, 4, 0.02
FIRES = [sys.executable, "-m", "fires.cli"]


def main() -> list[Row]:
    times: dict[str, list[tuple[float, float]]] = {"alone": [], "watched": []}
    events: list[int] = []
    server_seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        write_file(str(path / "events.csv"))
        _run(path, "warm")
        for turn in range(ROUNDS):
            order = ("alone", "watched") if turn % 2 == 0 else ("watched", "alone")
            for name in order:
                if name == "alone":
                    times[name].append(_run(path, f"{name} {turn}"))
                    continue
                with _Watched(path / f"{name} {turn}") as watched:
                    times[name].append(_run(path, f"{name} {turn}", watched))
                events.append(watched.n_events)
                server_seconds.append(watched.seconds)
    size = f"{N_ROWS:,} rows, {N_FEATURES} features"
    rows = []
    for place, clock in enumerate(("processor", "wall")):
        alone, watched = (np.array([seconds[place] for seconds in times[name]]) for name in times)
        ratio = Ratio.of(watched, alone)
        figure = (f"< {1 + LOSS}", ratio.value < 1 + LOSS) if clock == "processor" else ()
        rows += [
            Row(f"alone, {clock} time", size, shown(alone), "1"),
            Row(f"{N_VIEWERS} viewers, {clock} time", size, shown(watched), ratio, *figure),
        ]
    seen = f"{min(events):,} events at least"
    rows.append(Row("the server", seen, shown(np.array(server_seconds))))
    return show("live: what viewers cost a run", rows)


class _Watched:
    """A server with viewers, for a run that begins soon."""

    def __init__(self, out: Path) -> None:
        self._out, self.n_events, self.seconds = out, 0, 0.0
        self._server: subprocess.Popen[str] | None = None
        self._viewers: list[threading.Thread] = []

    def __enter__(self) -> _Watched:
        return self

    def begin(self) -> None:
        """Look at the run, once it is there."""
        command = [*FIRES, "serve", str(self._out), "--port", "0"]
        self._server = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")
        assert self._server.stdout is not None
        found = re.search(r":(\d+)/ ", self._server.stdout.readline())
        assert found is not None
        for _ in range(N_VIEWERS):
            self._viewers.append(threading.Thread(target=self._look, args=(int(found[1]),)))
            self._viewers[-1].start()

    def _look(self, port: int) -> None:
        connection = HTTPConnection("127.0.0.1", port)
        connection.request("GET", "/events")
        answer = connection.getresponse()
        while line := answer.readline():
            self.n_events += line.startswith(b"data: ")
        connection.close()

    def __exit__(self, *error: object) -> None:
        if self._server is not None:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self._server.terminate()
            self._server.communicate()
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        for viewer in self._viewers:
            viewer.join()


def _run(path: Path, name: str, watched: _Watched | None = None) -> tuple[float, float]:
    """Seconds that a run takes: of the processor, and on the wall without its start."""
    out = path / name
    command = [*FIRES, "select", str(path / "events.csv"), "--target", "label", "--quiet"]
    child = subprocess.Popen([*command, "--out", str(out)], stdout=subprocess.DEVNULL)
    if watched is not None:
        while not (out / "run.json").exists():
            assert child.poll() is None
        watched.begin()
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = status
    assert status == 0
    facts = json.loads((out / "run.json").read_bytes())
    return used.ru_utime + used.ru_stime, float(facts["seconds"])
