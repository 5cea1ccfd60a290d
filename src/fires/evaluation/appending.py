"""Files of lines that grow with a run, and can be cut back to where a checkpoint saw them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fires.core.errors import InputError
from fires.evaluation.out_folder import is_full, naming

_MOST_PENDING, _MOST_KEPT = 1 << 18, 1 << 26
_MOST_SECONDS = 0.05
"""So long a line waits at most for others, before those who watch the file can see it."""
_LATER = 1.0
"""Seconds until a full disk is tried again."""


class LinesFile:
    r"""A file to which JSON objects are appended, one a line. It never holds part of a line.

    It is made with its first line.

    Parameters
    ----------
    path : Path
        The file.
    length : int
        How much of it to keep: 0 begins anew.

    Attributes
    ----------
    length : int
        Bytes of all lines so far, also of those that have not reached the file yet.

    Raises
    ------
    InputError
        If the file is shorter than that.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = LinesFile(Path(folder, "x.jsonl"))
    ...     file.write({"step": 0})
    ...     file.close()
    ...     Path(folder, "x.jsonl").read_text()
    '{"step": 0}\n'
    """

    def __init__(self, path: Path, length: int = 0) -> None:
        self.path, self.length = path, length
        self._pending: list[bytes] = []
        self._written, self._since = length, time.monotonic()
        self._file: int | None = None
        with naming(path):
            if length == 0:
                path.unlink(missing_ok=True)
                return
            there = path.stat().st_size if path.exists() else 0
        if there < length:
            raise InputError(
                f"{path} has {there:,} bytes, and had {length:,} when the run was saved: lines of "
                "it are lost"
            )
        with naming(path):
            os.truncate(path, length)

    def write(self, row: Mapping[str, Any]) -> None:
        """Append an object. It reaches the file soon, if more are written.

        As long as the disk is full, lines are kept, 64 MB at most, and tried again.

        Parameters
        ----------
        row : mapping
            JSON values.
        """
        text = json.dumps(row, allow_nan=False, ensure_ascii=False)
        line = text.encode(errors="backslashreplace") + b"\n"
        self._pending.append(line)
        self.length += len(line)
        waits, age = self.length - self._written, time.monotonic() - self._since
        if age > _MOST_SECONDS or (age > 0.0 and waits > _MOST_PENDING):
            try:
                self.flush()
            except OSError as error:
                if not is_full(error) or waits > _MOST_KEPT:
                    raise
                self._since = time.monotonic() + _LATER

    def flush(self, *, sync: bool = False) -> None:
        """Let others see what was written.

        Parameters
        ----------
        sync : bool
            Whether it has to reach the disk too.
        """
        data = memoryview(b"".join(self._pending))
        if self._file is None and not len(data):
            return
        with naming(self.path):
            if self._file is None:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                while len(data):
                    data = data[os.write(self._file, data) :]
            except OSError:  # the disk is full: no half a line
                os.truncate(self._file, self._written)
                raise
            if sync:
                os.fsync(self._file)
        self._pending, self._written, self._since = [], self.length, time.monotonic()

    def close(self) -> None:
        """Write what is left, and close the file."""
        try:
            self.flush()
        finally:
            if self._file is not None:
                os.close(self._file)
