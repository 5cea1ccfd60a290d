"""What the tests of data sets share: folders, a server that can fail, and a data set on it."""

import hashlib
import os
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import polars as pl
import pytest

from fires.bench.datasets.catalogue import CATALOGUE, DataFile, Info, Remote
from fires.bench.datasets.files import digest
from fires.bench.datasets.loading import describe

DATA = Path(os.environ.get("FIRES_DATA_DIR") or "nowhere")


def pytest_configure(config):
    config.addinivalue_line("markers", "needs(name): skipped where the data set is not at hand")


def pytest_runtest_setup(item):
    for mark in item.iter_markers("needs"):
        info = describe(*mark.args)
        files = [table.file for table in (info.whole, info.part) if table]
        if not any((DATA / file).is_file() for file in files):
            pytest.skip(f"{info.name} is not at hand")


@pytest.fixture
def data_dir():
    """Where the real files are, whatever a test makes of the environment."""
    return DATA


@pytest.fixture
def real():
    """The table of a data set that is at hand: ``real(name)``."""

    def real(name):
        return pl.read_parquet(DATA / describe(name).whole.file)

    return real


@pytest.fixture
def cache_dir(tmp_path, monkeypatch):
    """No test sees what an earlier one, or a user, has downloaded."""
    monkeypatch.setenv("FIRES_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def nothing_at_hand(monkeypatch):
    monkeypatch.delenv("FIRES_DATA_DIR", raising=False)


@pytest.fixture
def change(monkeypatch):
    """Put a data set into the catalogue for a while, some facts changed."""

    def change(info, **changes):
        changed = replace(info, **changes)
        monkeypatch.setitem(CATALOGUE, info.name.lower(), changed)
        return changed

    return change


# --- A server that can fail -------------------------------------------------------------------


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.seen.append(self.path)
        status, body, promised = self.server.answers.get(self.path, (404, b"gone", None))
        if status == "hang":
            self.server.released.wait(30)
            return
        self.send_response(status)
        self.send_header("Content-Length", str(promised or len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    """HTTP on this machine: ``answers[path] = (status, body, length it promises)``."""
    monkeypatch.setenv("no_proxy", "*")
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.answers, server.seen = {}, []
        server.released = threading.Event()
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.released.set()
        server.shutdown()
        thread.join()


TOY = b"1,red,10\n0,blue,20\n1,red,30\n0,green,15\n"


def read_toy(files):
    names = ["target", "colour", "size"]
    frame = pl.read_csv(b"".join(files), has_header=False, new_columns=names)
    return frame.select("colour", "size", "target")


@pytest.fixture
def toy_text():
    """What the files of ``toy`` hold, one after the other."""
    return TOY


@pytest.fixture
def toy(server, monkeypatch, nothing_at_hand):
    """A data set of four rows in two files on the server, in the catalogue for a while."""
    half = len(TOY) // 2 + 1
    parts = {"/a.csv": TOY[:half], "/b.csv": TOY[half:]}
    for path, body in parts.items():
        server.answers[path] = (200, body, None)
    info = Info(
        name="Toy",
        n_rows=4,
        n_features=2,
        kinds="cont., cat.",
        positive=1,
        source="a server",
        licence="none",
        whole=DataFile("toy.parquet", {0: 2, 1: 2}, digest(read_toy([TOY]))),
        remotes=tuple(
            Remote(server.url + path, hashlib.sha256(body).hexdigest())
            for path, body in parts.items()
        ),
        read=read_toy,
    )
    monkeypatch.setitem(CATALOGUE, "toy", info)
    return info
