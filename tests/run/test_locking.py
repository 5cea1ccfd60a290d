"""Who looks at a run must not be taken for one who writes to it."""

import errno
import os
import stat
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from fires.core.errors import InputError
from fires.run.locking import FolderLock, is_held

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")


def test_a_folder_is_held_until_it_is_released(tmp_path):
    assert not is_held(tmp_path)
    lock = FolderLock(tmp_path)
    assert is_held(tmp_path)
    with pytest.raises(InputError, match=r"is in use by process \d+ on "):
        FolderLock(tmp_path)
    lock.release()
    assert not is_held(tmp_path)


def test_two_who_look_do_not_take_each_other_for_a_run(tmp_path):
    import fcntl

    with (tmp_path / ".lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_SH)  # as another process does while it looks
        assert not is_held(tmp_path)


def test_a_run_can_begin_whoever_looks_at_its_folder(tmp_path):
    (tmp_path / ".lock").touch()  # of a run that was killed
    ended = threading.Event()

    def look():
        while not ended.is_set():
            is_held(tmp_path)

    viewers = [threading.Thread(target=look) for _ in range(2)]
    for viewer in viewers:
        viewer.start()
    try:
        for _ in range(50):
            FolderLock(tmp_path).release()
            (tmp_path / ".lock").touch()
    finally:
        ended.set()
        for viewer in viewers:
            viewer.join()


def test_nobody_else_can_open_the_lock_also_not_one_that_was_left(tmp_path):
    for left in (False, True):
        if left:  # by an earlier version that was killed
            (tmp_path / ".lock").touch()
            (tmp_path / ".lock").chmod(0o644)
        lock = FolderLock(tmp_path)
        assert stat.S_IMODE((tmp_path / ".lock").stat().st_mode) == 0o600
        assert is_held(tmp_path)
        lock.release()


def test_a_lock_that_cannot_be_looked_into_is_taken_as_held(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    (tmp_path / ".lock").touch()
    assert not is_held(tmp_path)  # left behind, and it can be seen that nobody holds it
    monkeypatch.setattr(os, "open", refuse)
    assert is_held(tmp_path)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="takes another user")
def test_another_user_can_neither_hold_the_lock_nor_takes_the_run_for_killed():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        lock = FolderLock(folder)
        child = os.fork()
        if not child:
            os.setuid(65534)
            try:
                os.open(folder / ".lock", os.O_RDONLY)
            except PermissionError:
                os._exit(0 if is_held(folder) else 2)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        lock.release()


def test_a_pipe_in_place_of_the_lock_keeps_nobody_waiting(tmp_path):
    os.mkfifo(tmp_path / ".lock")
    assert not is_held(tmp_path)
