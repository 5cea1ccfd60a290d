"""One process at a time writes to a folder."""

from __future__ import annotations

import json
import os
import socket
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from fires.core import files
from fires.core.errors import InputError

_NAME, _UNKNOWN = ".lock", "another process"
_TRIES, _PAUSE = 20, 0.01


class FolderLock:
    """Holds a folder until it is released, or until the process ends, however it ends.

    The system gives the lock back when its holder dies, so a lock that is left behind holds nobody
    up. Where the system has no such locks, nothing is held.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / _NAME
        while True:
            self._file = files.open_file(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                if not _taken_soon(self._file):
                    holder = _holder(os.pread(self._file, 4096, 0))
                    raise InputError(f"{folder} is in use by {holder}")
                if _is_at(self._path, self._file):  # not one that its holder has just removed
                    break
            except BaseException:
                os.close(self._file)
                raise
            os.close(self._file)
        facts = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        with suppress(OSError):  # one that another user has left, or a system without modes
            os.chmod(self._path, 0o600)  # whoever can open it could hold it
        files.truncate(self._file, 0)
        files.write(self._file, json.dumps(facts).encode() + b"\n")

    def release(self) -> None:
        """Let others have it."""
        if _is_at(self._path, self._file):
            files.remove(self._path)
        os.close(self._file)


def is_held(folder: Path) -> bool:
    """Whether a process is writing to a folder."""
    try:
        file = os.open(folder / _NAME, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    except OSError as error:
        return isinstance(error, PermissionError)
    try:
        return not _take(file, shared=True)
    finally:
        os.close(file)


def was_held(folder: Path) -> bool:
    """Whether a process holds a folder, or was killed while it did."""
    try:
        return _holder((folder / _NAME).read_bytes()) != _UNKNOWN
    except OSError:
        return False


def _is_at(path: Path, file: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(file))
    except FileNotFoundError:
        return False


def _taken_soon(file: int) -> bool:
    """Lock an open file; not refused by one who only looks, since that takes no time."""
    for _ in range(_TRIES):
        if _take(file):
            return True
        time.sleep(_PAUSE)
    return False


def _take(file: int, *, shared: bool = False) -> bool:
    """Lock an open file; False if another process has. Several can share it."""
    try:
        import fcntl
    except ImportError:  # not a POSIX system
        return True
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _holder(content: bytes) -> str:
    try:
        facts = json.loads(content)
        return f"process {facts['pid']} on {facts['host']}, since {facts['since']}"
    except (ValueError, LookupError, TypeError):
        return _UNKNOWN
