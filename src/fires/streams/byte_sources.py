"""Where the bytes of a table come from: a file or a pipe, packed or not, and which file it is."""

from __future__ import annotations

import bz2
import csv
import glob
import gzip
import hashlib
import io
import json
import lzma
import os
import re
import select
import stat
import sys
import time
import weakref
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, Protocol, cast
from zlib import crc32

from fires.core.errors import InputError, undamaged
from fires.core.optional import require
from fires.streams.base import Position

N_MAGIC = 16  # first bytes that tell what a file is
# The zstandard library unpacks all it gets: at worst 32,000 times as much as this.
_ZSTD_PACKED = 1 << 9
STEP = 1 << 18  # bytes asked of a pipe at once, of which most give 64 KB, or unpacked at once

_MAGIC = {
    rb"\x1f\x8b": "gzip",
    rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18": "zstd",  # or a frame with a note
    rb"\xfd7zXZ\0": "xz",
    rb"BZh.(1AY&SY|\x17rE8P\x90)": "bz2",  # the first block, or the end of a file without one
    rb"PK(\x03\x04|\x05\x06)": "zip",
    rb"PAR1": "Parquet",
    rb"ARROW1\0\0": "Arrow",
    rb"\xff\xff\xff\xff": "Arrow stream",
    rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "Excel",
    rb"7z\xbc\xaf\x27\x1c": "7z",
    rb"Rar!\x1a\x07": "rar",
    rb"SQLite format 3\0": "SQLite",
    # Images, PDF, programs, HDF5, pickles, NumPy, feather of version 1
    rb"\x89PNG|\xff\xd8\xff|GIF8|%PDF-|\x7fELF|\x89HDF|\x80[\x02-\x05]|\x93NUMPY|FEA1\0": "binary",
}
# What is said about files that cannot be read, behind their names.
ADVICE: Mapping[str, str] = {
    "Excel": "is an Excel workbook; save it as CSV there, or convert it, for instance with "
    'polars.read_excel("book.xlsx").write_parquet("table.parquet")',
    "Arrow stream": "is an Arrow stream; write it as an Arrow file (.arrow) or as Parquet",
    "SQLite": 'is a SQLite database; name a query: "sqlite:FILE?select * from TABLE"',
    "binary": "is a binary file, not a table; write it as CSV or Parquet",
}


def kind_of(head: bytes) -> str:
    r"""Tell what a file is by its first bytes.

    Examples
    --------
    >>> kind_of(b"\x1f\x8b\x08\0"), kind_of(b"BZh9,y\n1,0\n")
    ('gzip', 'text')
    """
    return next((kind for magic, kind in _MAGIC.items() if re.match(magic, head)), "text")


class Damaged(Exception):  # noqa: N818 - it says what happened
    """Packed bytes cannot be unpacked further. All text before is handed out already."""


class Bytes(Protocol):
    """Bytes of a source, which tell where they are."""

    def read(self, n: int, /) -> bytes:
        """Read on."""

    def tell(self) -> int:
        """Say where reading goes on."""

    def seek(self, at: int, /) -> object:
        """Go on reading elsewhere, right after it was opened."""


# --- packed ---------------------------------------------------------------------------------------


def _zstd(file: Bytes) -> Iterator[bytes]:
    """Frames of zstd before Python 3.14: the reader of the library takes half a frame for whole."""
    library, frame, packed = require("zstandard", "a file packed with zstd", "zstd"), None, b""
    while packed := packed or file.read(_ZSTD_PACKED):
        frame = frame or library.ZstdDecompressor().decompressobj()
        yield frame.decompress(packed)
        packed, frame = frame.unused_data, None if frame.eof else frame
    if frame is not None:
        raise EOFError


def _unzipped(file: Bytes) -> IO[bytes]:
    """The only file in a zip file."""
    archive = zipfile.ZipFile(cast("BinaryIO", file))
    entries = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
    names = [name for name in entries if not name.startswith("__MACOSX/")]
    if any(name.startswith("xl/") for name in names):
        raise InputError(f"it {ADVICE['Excel']}")
    if len(names) != 1:
        some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
        raise InputError(
            f"it holds {len(names)} files{f' ({some})' if names else ''}",
            hint="unpack it, and name those to read" if names else "",
        )
    try:
        return archive.open(names[0])
    except (RuntimeError, NotImplementedError) as error:  # a password, a rare packing
        raise InputError(f"it cannot be unpacked: {error}") from None


_READERS: Mapping[str, Callable[[Any], Any]] = {
    "gzip": lambda file: gzip.GzipFile(fileobj=file),
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zstd": lambda file: import_module("compression.zstd").ZstdFile(file),
    "zip": _unzipped,
}
PACKINGS = tuple(_READERS)  # the kinds of packed files that can be read


def unpacked(file: Bytes, packing: str) -> Iterator[bytes]:
    r"""The bytes of a file, or of packed ones, one behind the other, as far as they can be read.

    Examples
    --------
    >>> list(unpacked(io.BytesIO(bz2.compress(b"1,2\n")), "bz2"))
    [b'1,2\n']
    """
    if packing not in PACKINGS:
        yield from iter(partial(file.read, STEP), b"")
        return
    try:
        if packing == "zstd" and sys.version_info < (3, 14):
            yield from _zstd(file)
        else:  # by the call that does not wait for all that is asked for
            yield from iter(partial(_READERS[packing](file).read1, STEP), b"")
    except (InputError, ImportError):
        raise
    except EOFError:
        raise Damaged("its end is missing") from None
    except Exception as error:  # each library has errors of its own
        if isinstance(error, OSError) and error.errno is not None:  # not of the packing
            raise
        raise Damaged(str(error)) from error


# --- which file it is -----------------------------------------------------------------------------

# Of a Parquet or Arrow file, a row that was read may lie so many bytes further on.
_ROW_GROUP = 1 << 28
# What tells a file from another one, as JSON values: name, size, may_grow; once it was read, how
# many bytes were (read), and their checksum (crc).
Identity = dict[str, Any]


def identity_of(path: Path, *, may_grow: bool = True) -> Identity:
    """What tells a file from another one."""
    return {"name": str(path), "size": path.stat().st_size, "may_grow": may_grow}


def read_so_far(files: Sequence[Identity | None], position: Position) -> list[Identity | None]:
    """The files, with a checksum of what was read of each; it is read again, each byte once."""
    before, n_begun = 0, position.file + 1
    for index, file in enumerate(files[:n_begun]):
        if file is not None:
            n = position.bytes - before if index == position.file else file["size"]
            _sum_up(file, n + (0 if file["may_grow"] else _ROW_GROUP))
            before += file["size"]
    later = [file and file | {"read": 0, "crc": 0} for file in files[n_begun:]]
    return [file and file.copy() for file in files[:n_begun]] + later


def _sum_up(file: Identity, n: int) -> None:
    """Note the checksum of the first bytes; a file that is gone cannot be taken up again anyway."""
    at, crc = (file["read"], file["crc"]) if file.get("read", n + 1) <= n else (0, 0)
    with suppress(OSError), open(file["name"], "rb") as opened:
        opened.seek(at)
        while data := opened.read(min(n - at, STEP)):
            at, crc = at + len(data), crc32(data, crc)
    file |= {"read": at, "crc": crc}


def refuse_others(
    now: Sequence[Identity | None], then: Sequence[Identity | None] | None, position: Position
) -> None:
    """Raise if files are not those that were read up to a position. Later ones may differ."""
    for index, found in enumerate(now[: position.file + 1]):
        known = then[index] if then is not None and index < len(then) else None
        if found is None or known is None:
            raise InputError(
                "what comes from standard input or a pipe cannot be read again from the middle",
                hint="save it to a file and read that from its start",
            )
        _refuse_another(found, known, None if index < position.file else position.offset)
    if then is not None and len(now) <= position.file:
        lost = then[len(now)]
        name = "standard input" if lost is None else lost["name"]
        raise InputError(f"{name}, which was read before, is not among the files")


def _refuse_another(found: Identity, known: Identity, offset: int | None) -> None:
    """Raise if a file is another one; ``offset`` is where it was left, None if at its end."""
    name, size = found["name"], known["size"]
    if Path(name).name != Path(known["name"]).name:
        raise InputError(f"{name} replaces {known['name']}, which was read before")
    if found["size"] < size:
        raise InputError(f"{name} is shorter than it was when it was read before")
    with Path(name).open("rb") as file:
        file.seek(max(size - 1, 0))
        around = file.read(2)
    if found["size"] > size and not found["may_grow"]:
        raise InputError(f"{name} is not the file that was read before")
    if "crc" in known:  # earlier versions have none
        _sum_up(found, known["read"])
        if found["crc"] != known["crc"]:
            raise InputError(f"{changed(name)}, in its first {known['read']:,} bytes")
    if offset == size and not (around.startswith(b"\n") or around[1:] in (b"", b"\n", b"\r")):
        raise InputError(f"the last line of {name} was continued after it was read")
    if offset is None and found["size"] > size:
        raise InputError(
            f"{name} has grown since it was read to its end: its new rows would be lost",
            hint="write them to a file of their own, behind the others",
        )


def changed(name: str) -> InputError:
    """Make the error that reading cannot go on where it was left."""
    return InputError(f"{name} has been changed since it was read before")


# --- files and pipes ------------------------------------------------------------------------------


class ByteSource(ABC):
    """What a text can be read from: a :class:`File`, a :class:`Pipe`, or a file that grows."""

    magic: bytes
    n_bytes: int | None = None
    identity: Identity | None = None

    @abstractmethod
    def open(self, again: bool) -> AbstractContextManager[Bytes]:
        """Start at the beginning."""

    def ready(self, seconds: float) -> bool:
        """Tell whether there is something to read, or the end."""
        return True


class File(ByteSource):
    """A file that can be opened any number of times."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self.magic = file.read(N_MAGIC)
        self.identity = identity_of(path)
        self.n_bytes = self.identity["size"]

    def open(self, again: bool) -> AbstractContextManager[Bytes]:
        """Open it at its start."""
        return self._path.open("rb")


class Pipe(ByteSource):
    """A stream that can be read once, but keeps what is to be read again.

    It hands on what is there: the other end may write a row now and the next one later.
    """

    def __init__(self, file: BinaryIO, *, close: bool = False) -> None:
        if getattr(file, "closed", False):
            raise InputError("it is closed already")
        self._file, self._close = file, close
        # The one that does not wait for all of it.
        self._read = file.read1 if isinstance(file, io.BufferedIOBase) else file.read
        self._poll = _poll(file)
        self._ended = False
        self._kept: list[bytes] | None = []
        self._data, self._at, self._n_read = b"", 0, 0
        while not self._ended and sum(map(len, self._kept)) < N_MAGIC:
            self._fetch()
        self.magic = b"".join(self._kept)[:N_MAGIC]

    @contextmanager
    def open(self, again: bool) -> Iterator[Bytes]:
        """Start at the beginning."""
        if self._kept is None:
            raise InputError("a stream, such as standard input, can be read only once")
        self._data, self._at, self._n_read = b"".join(self._kept), 0, 0
        self._kept = [self._data] if again else None
        yield self

    def read(self, n: int) -> bytes:
        """Read on, first of what was kept."""
        if self._at == len(self._data) and not self._ended:
            self._fetch()
        data = self._data[self._at : self._at + n]
        self._at += len(data)
        self._n_read += len(data)
        return data

    def ready(self, seconds: float) -> bool:
        """Tell whether there is more to read, or the end."""
        if self._at < len(self._data) or self._ended or self._poll is None:
            return True
        return bool(self._poll.poll(1000.0 * seconds))

    def tell(self) -> int:
        """Count the bytes read."""
        return self._n_read

    def seek(self, at: int) -> None:
        """Go on reading further on."""
        skip(self.read, at - self._n_read)

    def _fetch(self) -> None:
        """Wait for more, or for the end."""
        data = self._read(STEP)
        if not isinstance(data, bytes):
            raise InputError("a table must be opened in binary mode")
        self._data, self._at, self._ended = data, 0, not data
        if self._kept is not None:
            self._kept.append(data)
        if self._ended and self._close:
            self._file.close()


def _poll(file: BinaryIO) -> select.poll | None:
    """What tells whether a file has something to read; None where nothing does."""
    try:
        poll = select.poll()
        poll.register(file.fileno(), select.POLLIN)
    except (AttributeError, OSError, ValueError):  # no such call on this system, or no descriptor
        return None
    return poll


def skip(read: Callable[[int], bytes], n: int) -> None:
    """Go on reading n bytes further on, if there are so many."""
    while n > 0 and (data := read(min(n, STEP))):
        n -= len(data)


@contextmanager
def plain_errors(name: str) -> Iterator[None]:
    """Turn what can go wrong with a file into one line.

    Examples
    --------
    >>> with plain_errors("x.csv.gz"):
    ...     raise Damaged("its end is missing")
    Traceback (most recent call last):
    fires.core.errors.InputError: x.csv.gz is damaged: its end is missing
    """
    try:
        yield
    except InputError as error:
        if name in str(error):
            raise
        raise error.at(name) from None
    except Damaged as error:
        raise InputError(f"{name} is damaged: {error}") from error
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror or error}") from error


# --- a file that grows and is rotated -------------------------------------------------------------

# It is read on as lines are added, whatever it is called by then. Programs such as logrotate rename
# a file and make a new one, or copy it and make it empty. Either way the old lines are read to
# their end, and then the new file from its start.

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
