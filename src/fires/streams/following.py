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
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

from fires.columns.schema import Kind
from fires.core.errors import InputError, StateError
from fires.streams.base import Position
from fires.streams.byte_sources import N_MAGIC, Identity, plain_errors
from fires.streams.json_table import JsonTable
from fires.streams.table import Chunk, Table
from fires.streams.text_table import TextTable

WAIT = 0.2
"""Seconds to wait for more, before it is said that there is none for now."""
QUIET = 1.0
"""Seconds without a new byte, after which nobody writes to a file that was rotated."""
_LOOK_EVERY = 0.02
_WINDOW = 1024
"""Bytes by which a file is known again."""
_LONGEST_HEAD = 1 << 20
_ROTATED = re.compile(r"[.-]\d[\d.:_T-]*(?P<packed>\.(gz|bz2|xz|zst|zip|lz4|Z))?")
"""What stands behind the name of a file that was rotated."""


class Mark(TypedDict):
    """What a file is known by."""

    inode: int
    at: int
    n: int
    digest: str
    header: NotRequired[str]
    delimiter: NotRequired[str | None]


"""What a file is known by: its inode, the digest of some bytes, and where these are."""


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


class Follow:
    """A file that grows, as a source of bytes beside :class:`File` and :class:`Pipe`."""

    def __init__(self, path: Path, start: Position) -> None:
        self.path = path
        self.n_bytes: int | None = None
        self.identity: Identity | None = None  # which file it is changes, and the mark tells it
        self._goes_on = start.mark is not None
        self.header: bytes | None = None
        self.delimiter: str | None = None
        self.begins_at: Callable[[Callable[[int, int], bytes]], int | None] = lambda read: 0
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError("only a file can be followed; a pipe is read as it fills anyway")
        self._first = _Opened(path)
        self.start_at(start)
        self.magic = self._file.read(0, N_MAGIC)

    # --- as a source of bytes ---------------------------------------------------------------

    @contextmanager
    def open(self, again: bool) -> Iterator[Any]:
        """Start at the beginning of the file that is read now."""
        self._again = again
        self.seek(0)
        yield self if self.header is None or not again else io.BytesIO(self.header)

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
        while not self._has_more():
            if self._is_over():
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK_EVERY)
        self._quiet_since = time.monotonic()
        return True

    def _has_more(self) -> bool:
        return self._is_intact() and self._file.stat().st_size > self._at

    def _is_intact(self) -> bool:
        """Whether what was read last is still there: a file may be made empty, and grow again."""
        return self._file.read(self._at - len(self._tail), len(self._tail)) == self._tail

    # --- one file after the other -----------------------------------------------------------

    def start_at(self, start: Position) -> None:
        """Go to a file: the first, or the one that was read at a place."""
        if start.mark is None:
            self._use(self._first)
            return
        self._use(self._found(start))
        self.header = self.delimiter = None
        if "header" in start.mark:
            self.header = str(start.mark["header"]).encode()
            self.delimiter = start.mark.get("delimiter")

    def _use(self, file: _Opened) -> None:
        self._file = file
        self._next: _Opened | None = None
        self._again, self._quiet_since = True, time.monotonic()
        self.seek(0)

    def mark(self) -> Mark:
        """What the file is known by that is read now."""
        if self._at == 0:
            return self._file.mark(0, self._file.read(0, _WINDOW))
        return self._file.mark(self._at - len(self._tail), self._tail)

    def go_on(self) -> int:
        """Go on with the file behind the one that is over."""
        assert self._next is not None
        self._use(self._next)
        return self.begins_at(self._file.read) or 0

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
        if self.begins_at(coming.read) is not None:
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
                hint="unpack it there, and go on",
            )
        return _Opened(newer[0].path if newer else self.path)

    def _rotated(self) -> list[_Rotated]:
        """The files that were rotated, the oldest first."""
        found = []
        for path in map(Path, glob.glob(glob.escape(str(self.path)) + "*")):
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
        for path in glob.glob(glob.escape(str(self.path)) + "*"):
            with suppress(OSError):
                file = _Opened(Path(path))
                seen = file.mark(mark["at"], file.read(mark["at"], mark["n"]))
                if seen["digest"] == mark["digest"]:
                    found.append((seen["inode"] != mark["inode"], path, file))
        return min(found, key=lambda one: one[:2])[2] if found else None

    def _found(self, start: Position) -> _Opened:
        """The file that was read earlier."""
        try:
            file = self._known_again(start.mark)
        except (KeyError, TypeError) as error:
            raise StateError(f"the bookmark of {self.path} is damaged ({error!r})") from None
        if file is None:
            packed = [one.path for one in self._rotated() if one.is_packed]
            raise InputError(
                f"{self.path} was rotated since it was read up to byte {start.offset:,}, and what "
                "it was then is not beside it any more: the rows behind that are missing",
                hint=f"they may be in {packed[-1]}: unpack it there"
                if packed
                else "start anew, or put it there again",
            )
        return file


class FollowedTable(Table):
    """A table in a file that grows: text, or lines with a JSON object each."""

    looks_after_marks = True  # a file that was rotated is another one, with the same rows

    def __init__(self, table: TextTable | JsonTable, source: Follow) -> None:
        self.name, self.unit, self.head = table.name, table.unit, table.head
        self.column_names, self.renamed = table.column_names, table.renamed
        self._table, self._source = table, source
        self._body, self._header = Position(), b""
        if isinstance(table, TextTable):
            self._body = table.body
            with source.open(again=True) as file:
                while len(self._header) < self._body.offset:
                    self._header += file.read(self._body.offset - len(self._header))
        source.begins_at = self._begins_at

    @property
    def new_fields(self) -> Mapping[str, int]:
        """See :class:`fires.streams.table.Table`."""
        return self._table.new_fields

    def let_columns_change(self) -> None:
        """See :class:`fires.streams.table.Table`: JSON may have other keys, a header stays."""
        self._table.let_columns_change()

    def chunks(
        self, kinds: Mapping[str, Kind], start: Position, *, n_rows: int | None = None
    ) -> Generator[Chunk, None, None]:
        """Read the lines in order; see :meth:`Table.chunks`. There is no end."""
        source = self._source
        source.start_at(start)
        if n_rows is not None:
            yield from self._table.chunks(kinds, start, n_rows=n_rows)
            return
        begin, lacks_header = start, source.header is not None
        if start.mark is None:
            begin = replace(self._body, bytes=self._body.offset, mark=self._mark(False))
        n_before = begin.bytes - begin.offset
        while True:
            for chunk in self._table.chunks(kinds, begin):
                places = np.empty((len(chunk.places), 4), dtype=object)
                places[:, :3] = chunk.places
                places[:, 0] += n_before
                places[:, 3] = self._mark(lacks_header)
                yield replace(chunk, places=places, start=begin)
                if len(places):
                    begin = self.position(0, places[-1])
            with plain_errors(self.name):
                n_before += source.tell()
                offset = source.go_on()
            lacks_header = isinstance(self._table, JsonTable) or offset < len(self._header)
            mark = self._mark(lacks_header)
            line = self._body.line if offset else 0
            begin = Position(0, n_before + offset, offset, line, mark=mark)

    def position(self, rows: int, place: npt.NDArray[np.generic]) -> Position:
        """Where a row ends; see :meth:`Table.position`."""
        n_bytes, offset, line, mark = place.tolist()
        return Position(rows, n_bytes, offset, line, mark=mark)

    def _mark(self, lacks_header: bool) -> Mark:
        """What the file is known by that is read now; with the header, if it does not have it."""
        mark = self._source.mark()
        if lacks_header:
            header = self._header or json.dumps(dict.fromkeys(self.column_names)).encode()
            mark["header"] = header.decode()
            mark["delimiter"] = (
                self._table.delimiter if isinstance(self._table, TextTable) else None
            )
        return mark

    def _begins_at(self, read: Callable[[int, int], bytes]) -> int | None:
        """Behind the header, if it stands there again, or else with the first record."""
        header = self._header
        head = read(0, max(len(header), 1))
        if not head or (head != header and header.startswith(head)):
            return None
        if not header or head == header:
            return len(header)
        line, newline, _ = read(0, _LONGEST_HEAD).partition(b"\n")
        if not newline and len(line) < _LONGEST_HEAD:
            return None
        assert isinstance(self._table, TextTable)
        text = line.decode("utf-8-sig", "replace")
        fields = next(csv.reader([text], delimiter=self._table.delimiter), [])
        if {field.strip() for field in fields}.intersection(self.column_names):
            raise InputError(f"{self.name} was rotated, and its new header is another one")
        if len(fields) != len(self.column_names):
            raise InputError(
                f"{self.name} was rotated, and begins with neither its header nor a row"
            )
        return 0
