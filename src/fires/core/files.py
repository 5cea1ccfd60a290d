"""Files and folders: all that changes one is done here, and what others may have damaged is read.

So there is one place to see, and to let fail in tests.
"""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from fires.core.errors import InputError, StateError

AnyPath = str | os.PathLike[str]

if sys.platform == "win32":
    _BINARY, _AT_ONCE = os.O_BINARY, 0
else:
    _BINARY, _AT_ONCE = 0, os.O_NONBLOCK


@contextlib.contextmanager
def naming(path: AnyPath) -> Iterator[None]:
    """Let errors name the file that the user knows, not the draft of it."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


# --- files --------------------------------------------------------------------------------------


def replace_file(path: AnyPath, content: bytes, *, sync: bool = True) -> None:
    """Replace a file by new content: all of it reaches the disk, or the old file stays."""
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        mode = None
    if mode is not None and not stat.S_ISREG(mode):
        # Checked here, because root is allowed to replace a device by a file.
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, "State cannot be written to this kind of file", target)

    temporary = os.path.join(folder, f".fires-{os.urandom(8).hex()}.tmp")
    try:
        with naming(path), _synced(folder) if sync else contextlib.nullcontext():
            file = open_file(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                if mode is not None:
                    os.chmod(temporary, stat.S_IMODE(mode))  # before the content is in it
                write(file, content)
                if sync:
                    os.fsync(file)
            finally:
                os.close(file)
            os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def open_file(path: AnyPath, flags: int, mode: int = 0o666) -> int:
    """A descriptor that can be written to."""
    return os.open(path, flags | _BINARY, mode)


def open_to_append(path: AnyPath) -> int:
    """A descriptor that writes at the end of a file, which is created if it does not exist."""
    file = open_file(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        with _synced(os.path.dirname(path)):
            return file
    except BaseException:
        os.close(file)
        raise


def open_new(path: AnyPath) -> BinaryIO:
    """A file that begins anew."""
    return os.fdopen(open_file(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb")


def write(file: int, data: bytes | memoryview) -> None:
    """Write all of it: a disk that gets full takes a part."""
    rest = memoryview(data)
    while len(rest):
        rest = rest[os.write(file, rest) :]


def sync(file: int) -> None:
    """Let what was written reach the disk. If that fails, write it again: some may be lost."""
    os.fsync(file)


def truncate(file: AnyPath | int, length: int) -> None:
    """Cut a file back."""
    os.truncate(file, length)


def move(source: AnyPath, target: AnyPath) -> None:
    """Rename, in place of what is there."""
    os.replace(source, target)


def remove(path: AnyPath) -> None:
    """Remove a file, if it is there."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


# --- folders ------------------------------------------------------------------------------------


def make_folder(path: Path) -> None:
    """Make a folder and those above it, unless they are there; NotADirectoryError for a file."""
    if path.is_dir():
        return
    if path.exists():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
    with naming(path):
        for folder in reversed([each for each in (path, *path.parents) if not each.exists()]):
            with _synced(folder.parent):
                folder.mkdir(exist_ok=True)


def draft_folder(prefix: str, parent: AnyPath | None = None) -> Path:
    """A new folder of our own, in another one or where the system keeps what is temporary."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=parent))


def remove_empty(*folders: AnyPath) -> None:
    """Remove folders, up to the first that holds something."""
    with contextlib.suppress(OSError):
        for folder in folders:
            os.rmdir(folder)


def remove_tree(folder: AnyPath) -> None:
    """Remove a folder with all it holds, as far as that can be done."""
    shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _synced(folder: AnyPath) -> Iterator[None]:
    """Flush the folder to the disk afterwards: only then does a new name survive a crash."""
    if os.name == "nt":  # where folders cannot be opened
        yield
        return
    descriptor = os.open(folder or os.curdir, os.O_RDONLY)
    try:
        yield
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


# --- reading what was saved ----------------------------------------------------------------------


def open_saved(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file to read it; one that is no file, such as a pipe, would keep us waiting."""
    return open(path, "rb", opener=_opened)


def read_json(path: Path) -> Any:
    """The JSON value in a file."""
    with damaged(path), open_saved(path) as file:
        return json.loads(file.read(), parse_float=_finite, parse_constant=_finite)


def fits(value: Any, shape: Any) -> bool:
    """Whether a JSON value has a shape: a type, a list of such, or an object.

    Of an object, ``*`` stands for all its values; what has a question mark need not be there.
    """
    if isinstance(shape, list):
        return isinstance(value, list) and all(fits(one, shape[0]) for one in value)
    if not isinstance(shape, dict):
        return isinstance(value, shape) and not isinstance(value, bool)
    if not isinstance(value, dict):
        return False
    for key, of in shape.items():
        name = key.rstrip("?")
        if name != "*" and name not in value and name == key:
            return False
        for one in value.values() if name == "*" else [value.get(name)]:
            if not (one is None and name != key) and not fits(one, of):
                return False
    return True


@contextlib.contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Say that a file is damaged, if what it holds cannot be read. For reading only."""
    try:
        yield
    except (InputError, StateError, OSError, MemoryError):
        raise
    except Exception as error:  # each library has its own
        message = " ".join(str(error).split()) or "it is nested too deeply"
        raise InputError(f"{path} is damaged: {message[:200]}") from error


def _finite(text: str) -> float:
    """A number; JSON of ours has none that is not finite."""
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{text} is not a number")
    return value


def _opened(path: str, flags: int) -> int:
    file = os.open(path, flags | _AT_ONCE)
    kind = os.fstat(file).st_mode
    if stat.S_ISREG(kind):
        return file
    os.close(file)
    raise OSError(errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL, "Not a file", path)
