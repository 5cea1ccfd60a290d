"""Who looks at a run must not be taken for one who writes to it."""

import sys
import threading

import pytest

from fires.core.errors import InputError
from fires.evaluation.locking import FolderLock, is_held

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
