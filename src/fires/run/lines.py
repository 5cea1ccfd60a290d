"""Files of lines that grow with a run, and can be cut back to where a checkpoint saw them."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from fires.core import files
from fires.core.errors import InputError
from fires.core.files import open_saved

if TYPE_CHECKING:
    from fires.core.types import Json


_MOST_PENDING, _MOST_UNSAFE, _MOST_KEPT = 1 << 18, 1 << 22, 1 << 26
_MOST_SECONDS = 0.05
"""So long a line waits at most for others, before those who watch the file can see it."""
_LATER = 1.0
"""Seconds until a full disk is tried again."""


class AppendedFile:
    """A file that grows by whole lines, and is made with the first of them.

    What has not surely reached the disk is kept. Once that has failed, nobody knows what is there:
    then the file is opened anew, cut back, and what was kept is written again.
    """

    def __init__(self, path: Path, length: int) -> None:
        self.path, self.length = path, length
        self._kept: list[bytes] = []  # all lines behind those that are safe
        self._n_written = 0  # of those that are kept
        self._written = self._safe = length
        self._since = time.monotonic()
        self._file: int | None = None
        if path.exists() and path.stat().st_size > length:
            with files.naming(path):
                files.truncate(path, length)

    def append(self, line: bytes) -> None:
        """Take a line, to be written later."""
        self._kept.append(line)
        self.length += len(line)

    def show(self) -> None:
        """Let others see all lines, if that can be done now: else they are kept, 64 MB at most."""
        unsafe = self.length - self._safe
        try:
            self.flush(sync=unsafe > _MOST_UNSAFE)
        except OSError as error:
            if not files.is_transient(error) or unsafe > _MOST_KEPT:
                raise
            self._since = time.monotonic() + _LATER

    def flush(self, *, sync: bool = False) -> None:
        """Let others see all lines."""
        if not self._kept:
            return
        with files.naming(self.path):
            try:
                if self._file is None:
                    self._file = files.open_to_append(self.path)
                    if os.fstat(self._file).st_size > self._written:
                        files.truncate(self._file, self._written)
                files.write(self._file, b"".join(self._kept[self._n_written :]))
            except OSError:
                with suppress(OSError):  # no half a line, if that can be helped
                    files.truncate(self.path, self._written)
                self._let_go()
                raise
            self._n_written, self._written = len(self._kept), self.length
            if sync:
                try:
                    files.sync(self._file)
                except OSError:
                    self._let_go()
                    self._n_written, self._written = 0, self._safe
                    raise
                self._kept, self._n_written, self._safe = [], 0, self.length
        self._since = time.monotonic()

    def close(self) -> None:
        """Write what is left, and close the file."""
        try:
            self.flush()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


class LinesFile(AppendedFile):
    r"""A file to which JSON objects are appended, one a line. It never holds part of a line.

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

    def __init__(
        self,
        path: Path,
        length: int = 0,
        checksum: int | None = None,
        accept_loss: int | None = None,
    ) -> None:
        self.path, self.length, self.checksum, self.lost = path, 0, 0, ""
        with files.naming(path):
            if length == 0:
                files.remove(path)
            elif path.exists():
                self._look(length)
            if self.length < length:
                self.lost = f"has {self.length:,} bytes, and had {length:,} when the run was saved"
            elif checksum not in (None, self.checksum):
                self.lost = f"is not what it was when the run was saved, in its {length:,} bytes"
            if self.lost and accept_loss is None:
                hint = "--resume with --accept-loss goes on with what is left of it"
                raise InputError(f"{path} {self.lost}", hint=hint)
            if self.lost and self.length:
                kept = path.read_bytes()[:length].splitlines(keepends=True)
                whole = b"".join(line for line in kept if _is_of(line, accept_loss))
                files.replace_file(path, whole)
                self._look(length)
        super().__init__(path, self.length)

    def _look(self, length: int) -> None:
        """How much there is, up to a length, and its checksum."""
        self.length = self.checksum = 0
        with open_saved(self.path) as file:
            while data := file.read(min(length - self.length, _MOST_PENDING)):
                self.length += len(data)
                self.checksum = crc32(data, self.checksum)

    def write(self, row: Mapping[str, Json]) -> None:
        """Append an object. It reaches the file soon, if more are written."""
        line = as_bytes(json.dumps(row, allow_nan=False, ensure_ascii=False) + "\n")
        self.append(line)
        self.checksum = crc32(line, self.checksum)
        waits, age = self.length - self._written, time.monotonic() - self._since
        if age > _MOST_SECONDS or (age > 0.0 and waits > _MOST_PENDING):
            self.show()


def _is_of(line: bytes, n_batches: int | None) -> bool:
    """Whether a line is whole, and not of a later batch."""
    try:
        row = json.loads(line)
        return line.endswith(b"\n") and (n_batches is None or row.get("index", -1) < n_batches)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return False


def as_bytes(text: str) -> bytes:
    """What a file of ours holds: the name of a file may have bytes that are no text."""
    return text.encode(errors="backslashreplace")
