"""Where the bytes of a table come from: a file or a pipe, packed or not, and which file it is."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import select
import sys
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import IO, Any, BinaryIO, Protocol, cast
from zlib import crc32

from fires.core.errors import InputError
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
    rb"FEA1\0": "feather version 1",
    rb"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "Excel",
    rb"7z\xbc\xaf\x27\x1c": "7z",
    rb"Rar!\x1a\x07": "rar",
    rb"SQLite format 3\0": "SQLite",
    # Images, PDF, programs, HDF5, pickles, NumPy
    rb"\x89PNG|\xff\xd8\xff|GIF8|%PDF-|\x7fELF|\x89HDF|\x80[\x02-\x05]|\x93NUMPY": "binary",
}
# What is said about files that cannot be read, behind their names.
ADVICE: Mapping[str, str] = {
    "Excel": "is an Excel workbook; save it as CSV there, or convert it, for instance with "
    'polars.read_excel("book.xlsx").write_parquet("table.parquet")',
    "feather version 1": "is a feather file of version 1; rewrite it with a current library, or as "
    "Parquet",
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
    r"""The text of packed files, one behind the other, as far as they can be read.

    Examples
    --------
    >>> list(unpacked(io.BytesIO(bz2.compress(b"1,2\n")), "bz2"))
    [b'1,2\n']
    """
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
