"""A process that runs cells; it imports nothing but what its work does."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from typing import Any

from fires.core.version import code

Record = dict[str, Any]
Work = Callable[[Any], Record]


# Several pools in as many processes as there are cores slow each other down: FSDS takes 10 to 20
# times as long with two threads that fight for one core.
_POOLS = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA")
_ONE_THREAD = (*(f"{pool}_NUM_THREADS" for pool in _POOLS), "VECLIB_MAXIMUM_THREADS")


class Worker:
    """A process of one thread that runs one cell after the other."""

    def __init__(self, work: Work) -> None:
        self.pipe, theirs = multiprocessing.Pipe()
        self._process, self.ended = self.start(theirs, work), False

    def start(self, pipe: Connection, work: Work) -> SpawnProcess:
        """Start the process."""
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_serve, args=(pipe, work), daemon=True)
        with _alone():
            process.start()
        pipe.close()
        return process

    def give(self, cell: object) -> None:
        """Let it run a cell."""
        with contextlib.suppress(OSError):  # it has died: the answer will say so
            self.pipe.send(cell)

    def answer(self) -> Record:
        """Wait for what comes out of the cell."""
        try:
            found: Record = json.loads(self.pipe.recv_bytes())
            return found
        except (EOFError, OSError):
            self.end()
            return {"error": f"its process {_how(self._process.exitcode)}"}

    def end(self, *, at_once: bool = False) -> None:
        """Wait for the process to end, which is when it sees that the pipe is closed."""
        if not self.ended:
            if at_once:
                self._process.kill()
            self.pipe.close()
            self._process.join()
            self.ended = True


def _serve(pipe: Connection, work: Work) -> None:
    """What a process does."""
    threading.Thread(target=_follow_the_parent, daemon=True).start()
    answer_all(pipe, work)


def answer_all(pipe: Connection, work: Work) -> None:
    """Run the cells that come, until nobody is there any more."""
    made_by = {"code": code()}  # which may have been changed since the first process began
    while True:
        try:
            cell = pipe.recv()
        except EOFError:
            return
        try:
            text = json.dumps(made_by | work(cell), allow_nan=False)
        except Exception as error:
            line = " ".join(f"{type(error).__name__}: {error}".split())
            text = json.dumps(made_by | {"error": line, "traceback": traceback.format_exc()})
        with contextlib.suppress(OSError):
            pipe.send_bytes(text.encode())


def _follow_the_parent() -> None:
    """End with the process that started this one, however it ends, and in the middle of a cell."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        reason = "; the memory may have run out" if name == "SIGKILL" else ""
        return f"was ended by {name}{reason}"
    return f"ended with code {code}"


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Processes started here compute with one thread, and do not hear Ctrl-C.

    Libraries look at the variables when they load. A terminal sends an interrupt to all processes:
    it is for the first one to say what becomes of it; here it is heard a little later.
    """
    before = {name: os.environ.pop(name, None) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    mask: set[Any] = set()
    if sys.platform != "win32":
        resource_tracker.ensure_running()  # which would let interrupts through again
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        if sys.platform != "win32":
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name, value in before.items():
            del os.environ[name]
            os.environ.update({} if value is None else {name: value})
