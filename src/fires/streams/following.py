"""A file that grows and is rotated: read on as lines are added, whatever it is called by then.

Programs such as logrotate rename a file and make a new one, or copy it and make it empty. Either
way the old lines are read to their end, and then the new file from its start.
"""

from __future__ import annotations

import csv
import glob
import hashlib
import io
import json
import os
import re
import stat
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from fires.core.errors import InputError, undamaged
from fires.streams.base import Position
from fires.streams.byte_sources import N_MAGIC, ByteSource

WAIT = 0.2  # seconds to wait for more, before it is said that there is none for now
QUIET = 1.0  # seconds without a new byte, after which nobody writes to a file that was rotated
_LOOK_EVERY = 0.02
_WINDOW = 1024  # bytes by which a file is known again
_LONGEST_HEAD = 1 << 20
# What stands behind the name of a file that was rotated.
_ROTATED = re.compile(r"[.-]\d[\d.:_T-]*(?P<packed>\.(gz|bz2|xz|zst|zip|lz4|Z))?")


# What a file is known by, as JSON values: its inode, the digest of some bytes, where these are (at)
# and how many (n); with the header and its delimiter, if the file does not have them.
Mark = dict[str, Any]


class _Opened:
    """A file that stays the same whatever it is called. It is closed when nobody has it."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY)
        weakref.finalize(self, os.close, self._descriptor)

    def stat(self) -> os.stat_result:
        return os.fstat(self._descriptor)

    def read(self, at: int, n: int) -> bytes:
        return os.pread(self._descriptor, n, at)

    def mark(self, at: int, data: bytes) -> Mark:
        """What the file is known by: some bytes that were read from it."""
        digest = hashlib.sha256(data).hexdigest()
        return {"inode": self.stat().st_ino, "at": at, "n": len(data), "digest": digest}


class _Rotated(NamedTuple):
    """A file that was rotated; the older one is the lesser one."""

    changed: int
    order: int
    path: Path
    inode: int
    is_packed: bool


class Follow(ByteSource):
    """A file that grows, as a source of bytes beside :class:`File` and :class:`Pipe`."""

    def __init__(self, path: Path, start: Position) -> None:
        self.path = path
        self._goes_on = start.mark is not None
        self._top, self._body = b"", Position()
        self._names: Sequence[str] = ()
        self.delimiter: str | None = None
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError("only a file can be followed; a pipe is read as it fills anyway")
        self._first = _Opened(path)
        self.start_at(start)
        self.magic = self._file.read(0, N_MAGIC)

    def know(self, names: Sequence[str], delimiter: str | None, body: Position) -> None:
        """Say what a header is, by which the next file is known; without it, they are objects."""
        self._names, self.delimiter, self._body = names, delimiter, body
        self._top = (self._lacks or self._file.read(0, body.offset))[: body.offset]

    # --- as a source of bytes ---------------------------------------------------------------

    @contextmanager
    def open(self, again: bool) -> Iterator[Any]:
        """Start at the beginning of the file that is read now."""
        self._again = again
        self.seek(0)
        yield self if self._lacks is None or not again else io.BytesIO(self._lacks)

    def seek(self, at: int) -> None:
        """Go on reading elsewhere."""
        first = max(0, at - _WINDOW)
        self._at, self._tail = at, self._file.read(first, at - first)

    def tell(self) -> int:
        """Say where reading goes on."""
        return self._at

    def read(self, n: int) -> bytes | None:
        """Read on."""
        while True:
            if self.ready(WAIT):
                data = self._file.read(self._at, n)
                if self._is_intact() and (data or self._next):
                    self._at += len(data)
                    self._tail = (self._tail + data)[-_WINDOW:]
                    return data
                if self._next:
                    return b""
            elif not self._again:
                return None
            elif self._goes_on:
                return b""

    def ready(self, seconds: float) -> bool:
        """Tell whether there is more to read, or the end."""
        until = time.monotonic() + seconds
        while not (self._is_intact() and self._file.stat().st_size > self._at):
            if self._is_over():
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK_EVERY)
        self._quiet_since = time.monotonic()
        return True

    def _is_intact(self) -> bool:
        """Whether what was read last is still there: a file may be made empty, and grow again."""
        return self._file.read(self._at - len(self._tail), len(self._tail)) == self._tail

    # --- one file after the other -----------------------------------------------------------

    def start_at(self, start: Position) -> None:
        """Go to a file: the first, or the one that was read at a place."""
        if start.mark is None:
            self._use(self._first, None)
            return
        file = self._found(start)
        self.delimiter = start.mark.get("delimiter", self.delimiter)
        self._use(file, start.mark.get("header"))

    def _use(self, file: _Opened, lacks: str | None) -> None:
        """Read a file, which does not have this header."""
        self._file, self._lacks = file, None if lacks is None else lacks.encode()
        self._next: _Opened | None = None
        self._again, self._quiet_since = True, time.monotonic()
        self.seek(0)

    def mark(self) -> Mark:
        """What the file is known by that is read now."""
        data = self._tail if self._at else self._file.read(0, _WINDOW)
        mark = self._file.mark(max(self._at - len(data), 0), data)
        if self._lacks is not None:
            mark |= {"header": self._lacks.decode(), "delimiter": self.delimiter}
        return mark

    def go_on(self, n_before: int) -> Position:
        """Go on with the file behind the one that is over; so many bytes were before that."""
        assert self._next is not None
        n_before += self._at
        offset = self._begins_at(self._next.read) or 0
        lacks = self._top.decode() or json.dumps(dict.fromkeys(self._names))
        self._use(self._next, None if offset else lacks)
        line = self._body.line if offset else 0
        return Position(0, n_before + offset, offset, line, mark=self.mark())

    def _begins_at(self, read: Callable[[int, int], bytes]) -> int | None:
        """Behind the header, if it stands there again, or else with the first record."""
        header = self._top
        head = read(0, max(len(header), 1))
        if not head or (head != header and header.startswith(head)):
            return None
        if not header or head == header:
            return len(header)
        line, newline, _ = read(0, _LONGEST_HEAD).partition(b"\n")
        if not newline and len(line) < _LONGEST_HEAD:
            return None
        text = line.decode("utf-8-sig", "replace")
        fields = next(csv.reader([text], delimiter=self.delimiter or ","), [])
        if {field.strip() for field in fields}.intersection(self._names):
            raise InputError(f"{self.path} was rotated, and its new header is different")
        if len(fields) != len(self._names):
            raise InputError(
                f"{self.path} was rotated, and begins with neither its header nor a row"
            )
        return 0

    def _is_over(self) -> bool:
        """Whether the file was rotated, and the one behind it has begun."""
        if self._next:
            return True
        coming: _Opened | None
        if self._is_intact():
            coming = self._behind()
            if coming is None or time.monotonic() - self._quiet_since < QUIET:
                return False
        else:
            copy = self._known_again(self.mark())
            if copy is not None:  # it has what is not read yet
                if self._file is self._first:
                    self._first = copy
                self._file = copy
                return False
            coming = _Opened(self.path)
        if self._begins_at(coming.read) is not None:
            self._next = coming
        return False  # The old one is looked at again: somebody may have written to it last.

    def _behind(self) -> _Opened | None:
        """The file that came behind the one that is read; None if there is none yet."""
        own = self._file.stat()
        try:
            latest = self.path.stat()
        except FileNotFoundError:  # it will be made again
            return None
        if latest.st_ino == own.st_ino:
            return None
        others = [one for one in self._rotated() if one.inode not in (own.st_ino, latest.st_ino)]
        newer = [one for one in others if one.changed > own.st_mtime_ns and not one.is_packed]
        packed = [one for one in others if one.changed >= own.st_mtime_ns and one.is_packed]
        if own.st_nlink == 0:  # it is gone: the first of these is what became of it
            packed = packed[1:]
        if packed:
            raise InputError(
                f"{self.path} was rotated more than once, and {packed[0].path}, which comes next, "
                "is packed",
                hint="unpack it there, then resume",
            )
        return _Opened(newer[0].path if newer else self.path)

    def _beside(self) -> list[Path]:
        """The files that are called like it."""
        return [Path(path) for path in glob.glob(glob.escape(str(self.path)) + "*")]

    def _rotated(self) -> list[_Rotated]:
        """The files that were rotated, the oldest first."""
        found = []
        for path in self._beside():
            suffix = _ROTATED.fullmatch(path.name[len(self.path.name) :])
            with suppress(FileNotFoundError):
                if suffix and path.is_file():
                    facts, number = path.stat(), re.search(r"\d+", suffix[0])
                    order = -int(number[0]) if number else 0  # .2 is older than .1
                    is_packed = suffix["packed"] is not None
                    found.append(_Rotated(facts.st_mtime_ns, order, path, facts.st_ino, is_packed))
        return sorted(found)

    def _known_again(self, mark: Mark) -> _Opened | None:
        """The file that has the same bytes, if it is there; best the very same file."""
        found = []
        for path in self._beside():
            with suppress(OSError):
                file = _Opened(path)
                seen = file.mark(mark["at"], file.read(mark["at"], mark["n"]))
                if seen["digest"] == mark["digest"]:
                    found.append((seen["inode"] != mark["inode"], path, file))
        return min(found, key=lambda one: one[:2])[2] if found else None

    def _found(self, start: Position) -> _Opened:
        """The file that was read earlier."""
        with undamaged(f"the bookmark of {self.path} is"):
            file = self._known_again(start.mark)
        if file is None:
            packed = [one.path for one in self._rotated() if one.is_packed]
            raise InputError(
                f"{self.path} was rotated since it was read up to byte {start.offset:,}, and its "
                "earlier content is no longer beside it: the rows after that are missing",
                hint=f"they may be in {packed[-1]}: unpack it there"
                if packed
                else "start a new run, or restore it",
            )
        return file
