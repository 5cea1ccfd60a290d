"""What ten viewers of the live page cost a run.

One long run of ``fires select``, with ``fires serve`` beside it. For a few seconds nobody looks,
then ten viewers do, who read every event as a browser would, and so on in turns. Each time, the
rows that are learnt are counted, and the run's own processor time. So both are measured on the same
process, and close together: on a machine that others use, two runs one after the other differ by
far more than the two percent that are asked for. What they do still counts, through the caches and,
by the clock on the wall, through the cores that they take. So the ratio of the minima is judged, as
elsewhere, and that of two halves of the time when nobody looks stands beside: so much differs what
is the same. Without a second core that is free for the server, the clock on the wall would show its
share of the only one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import numpy as np

from benchmarks.command import N_FEATURES, write_file
from benchmarks.timing import Ratio, Row, show

N_VIEWERS, TURNS, SECONDS, N_TIMES, LOSS = 10, 16, 3.0, 60, 0.02
FIRES = [sys.executable, "-m", "fires.cli"]
_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        write_file(str(path / "events.csv"), 1_000_000)
        files = [str(path / "events.csv")] * N_TIMES
        options = ("--target", "label", "--quiet", "--out", str(path / "run"))
        run = subprocess.Popen([*FIRES, "select", *files, *options], stdout=subprocess.DEVNULL)
        while not (path / "run" / "steps.jsonl").exists():
            assert run.poll() is None
            time.sleep(0.1)
        command = [*FIRES, "serve", str(path / "run"), "--port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8")
        try:
            assert server.stdout is not None
            found = re.search(r":(\d+)/ ", server.stdout.readline())
            assert found is not None
            rows = _measured(path / "run", run.pid, server.pid, int(found[1]))
        finally:
            for process in (server, run):
                process.kill()
                process.communicate()
    return show("live: what viewers cost a run, a million rows", rows)


def _measured(out: Path, run: int, server: int, port: int) -> list[Row]:
    turns: list[tuple[bool, float, float]] = []
    share = 0.0
    n_events: list[int] = []
    for turn in range(2 * TURNS):
        looks = turn % 4 in (1, 2)  # alone, watched, watched, alone: what drifts hits both
        if looks:
            before, began = _processor(server), time.perf_counter()
            with _viewers(port) as seen:
                turns.append((looks, *_seconds_a_million(out, run)))
            share += (_processor(server) - before) / (time.perf_counter() - began) / TURNS
            n_events.append(len(seen))
        else:
            turns.append((looks, *_seconds_a_million(out, run)))
    rows = []
    for place, clock in ((1, "processor"), (2, "wall")):
        alone, watched = (
            np.array([turn[place] for turn in turns if turn[0] == looks]) for looks in (False, True)
        )
        same, ratio = Ratio.of(alone[::2], alone[1::2]), Ratio.of(watched, alone)
        figure = (f"< {1 + LOSS}", ratio.value < 1 + LOSS)
        size = f"{N_FEATURES} features, {TURNS} times {SECONDS:.0f} s"
        rows += [
            Row(f"nobody looks, {clock} time", size, f"{alone.min():.3g} s", same),
            Row(
                f"{N_VIEWERS} viewers, {clock} time", size, f"{watched.min():.3g} s", ratio, *figure
            ),
        ]
    seen_by_each = f"{np.mean(n_events) / N_VIEWERS:.1f} events in {SECONDS:.0f} s to each"
    rows.append(Row("the server", seen_by_each, "", f"{share:.1%} of a core"))
    return rows


def _seconds_a_million(out: Path, run: int) -> tuple[float, float]:
    """Seconds of the processor and on the wall that a run takes for a million rows, by a sample."""
    used, began, n_rows = _processor(run), time.perf_counter(), _n_rows(out)
    time.sleep(SECONDS)
    used, took, n_rows = _processor(run) - used, time.perf_counter() - began, _n_rows(out) - n_rows
    assert n_rows > 0, "the run has come to its end"
    return used / n_rows * 1e6, took / n_rows * 1e6


def _n_rows(out: Path) -> int:
    """Rows up to the last record."""
    with (out / "steps.jsonl").open("rb") as file:
        file.seek(-min(1 << 14, (out / "steps.jsonl").stat().st_size), os.SEEK_END)
        return int(json.loads(file.read().splitlines()[-1])["rows"])


def _processor(pid: int) -> float:
    """Seconds of the processor that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


@contextmanager
def _viewers(port: int) -> Iterator[list[int]]:
    """Have some look; the size of every event that one of them has read."""
    sizes: list[int] = []
    connections = [HTTPConnection("127.0.0.1", port) for _ in range(N_VIEWERS)]

    def look(connection: HTTPConnection) -> None:
        connection.request("GET", "/events")
        answer = connection.getresponse()
        try:
            while line := answer.readline():
                if line.startswith(b"data: "):
                    sizes.append(len(line))
        except (OSError, ValueError, AttributeError):  # the connection was closed
            pass

    threads = [threading.Thread(target=look, args=(each,), daemon=True) for each in connections]
    for thread in threads:
        thread.start()
    try:
        yield sizes
    finally:
        for connection in connections:
            if connection.sock is not None:
                connection.sock.shutdown(2)
        for thread in threads:
            thread.join()
        for connection in connections:
            connection.close()
