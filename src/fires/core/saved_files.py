"""Files that others may have damaged: read without waiting, and told in one line."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from fires.core.errors import InputError, StateError


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
    return isinstance(value, dict) and all(
        all(fits(one, of) for one in value.values())
        if key == "*"
        else (key[-1] == "?" and value.get(key[:-1]) is None)
        or (key.rstrip("?") in value and fits(value[key.rstrip("?")], of))
        for key, of in shape.items()
    )


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
        raise ValueError(f"{text} is no number")
    return value


def _opened(path: str, flags: int) -> int:
    file = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    kind = os.fstat(file).st_mode
    if stat.S_ISREG(kind):
        return file
    os.close(file)
    raise OSError(errno.EISDIR if stat.S_ISDIR(kind) else errno.EINVAL, "Not a file", path)
