"""Runs that are served by a real process, and those who look at them."""

import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPConnection, IncompleteRead

FIRES = [sys.executable, "-m", "fires.cli"]
PATIENCE = 120.0


@contextmanager
def served(*arguments, program=FIRES, preexec_fn=None, **environment):
    """``fires serve`` on a free port; ends with it. Has ``address`` and ``port``."""
    child = subprocess.Popen(
        [*program, "serve", "--port", "0", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=os.environ | environment,
        preexec_fn=preexec_fn,
    )
    try:
        line = child.stdout.readline()
        assert "http://" in line, child.communicate()
        child.address = re.search(r"http://\S+", line)[0]
        child.port = int(re.search(r":(\d+)/", child.address)[1])
        yield child
    finally:
        child.kill()
        child.communicate()


def asked(port, path="/", method="GET", host=None, **headers):
    """The answer to a request, and its body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.putrequest(method, path, skip_host=True)
        connection.putheader("Host", f"127.0.0.1:{port}" if host is None else host)
        for name, value in headers.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        return answer, answer.read().decode()
    finally:
        connection.close()


class Viewer:
    """Somebody who looks at the live page."""

    def __init__(self, port, asked=""):
        self._connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._connection.request("GET", f"/events{asked}")
        self.answer = self._connection.getresponse()

    def events(self):
        """The data of each event, until the server ends them."""
        deadline = time.monotonic() + PATIENCE  # there are signs of life in between
        with suppress(
            IncompleteRead
        ):  # a server that is told to end waits for nobody: a cut is an end
            while line := self.answer.readline():
                assert time.monotonic() < deadline
                if line.startswith(b"data: "):
                    yield json.loads(line.removeprefix(b"data: "))

    def wait_for(self, condition):
        """The first run of the first event of which something is true."""
        for data in self.events():
            if condition(data["runs"][0]):
                return data["runs"][0]
        raise AssertionError("the events have ended")

    def close(self):
        self.answer.close()
        self._connection.close()


@contextmanager
def idle(port, n, said=b""):
    """So many connections, some bytes on each, and then nothing."""
    with ExitStack() as stack:
        opened = []
        for _ in range(n):
            one = stack.enter_context(
                socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
            )
            with suppress(OSError):
                one.sendall(said)
            opened.append(one)
        yield opened


def is_closed(connection):
    """Whether the other side closes a connection, whatever it has said before."""
    try:
        while connection.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True


def stalled_viewer(port):
    """A connection that asks for events and never reads one."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENCE)
    connection.connect(("127.0.0.1", port))
    connection.sendall(f"GET /events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
    assert connection.recv(12) == b"HTTP/1.1 200"
    return connection


def rows(n_rows, first=0, *, header=True):
    """Text of a table with a label that is told by x1."""
    lines = ["x0,x1,label"] * header
    for i in range(first, first + n_rows):
        lines.append(f"{(i * 37) % 101},{(i * 53) % 97},{'yes' if (i * 53) % 97 > 48 else 'no'}")
    return "\n".join([*lines, ""])


def wait_until(condition, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
