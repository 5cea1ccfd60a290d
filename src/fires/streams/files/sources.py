"""Where the bytes of a table come from, and what their first line says."""

from __future__ import annotations

import csv
import gzip
import io
import select
import zlib
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from fires.streams.base import InputError
from fires.streams.files.text_blocks import (
    MAX_LINE,
    NOT_UTF8,
    PIECE,
    Read,
    Ready,
    always,
    fill,
    is_utf8,
    long_fields,
)

Part = TypeVar("Part")

_AT_ONCE = 1 << 18
"""Bytes asked of a pipe at once; most give 64 KB."""
_PACKED = 1 << 15
"""Bytes to unpack at once."""
_HEAD_LINES = 100
"""Lines by which the delimiter is found."""


class File:
    """A file that can be opened any number of times."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self.magic = file.read(4)
        self.n_bytes: int | None = path.stat().st_size

    def open(self, again: bool) -> AbstractContextManager[Any]:
        """Open it at its start."""
        return self._path.open("rb")

    def ready(self, seconds: float) -> bool:
        """A file never keeps a reader waiting."""
        return True


class Pipe:
    """A stream that can be read once, but keeps what is to be read again.

    It hands on what is there: the other end may write a row now and the next one later.
    """

    def __init__(self, file: BinaryIO, *, close: bool = False) -> None:
        self._file = file
        self._read = getattr(file, "read1", file.read)  # the one that does not wait for all of it
        self._poll = _poll(file)
        self._close = close
        self._ended = False
        self._kept: list[bytes] | None = []
        self._data, self._at, self._n_read = b"", 0, 0
        while not self._ended and sum(map(len, self._kept)) < 4:
            self._fetch()
        self.magic = b"".join(self._kept)[:4]
        if self.magic == b"PAR1":
            raise InputError("Parquet cannot be read from a stream; give the name of the file")
        self.n_bytes: int | None = None

    @contextmanager
    def open(self, again: bool) -> Iterator[Any]:
        """Start at the beginning; only for the last time if it is not to be read again."""
        if self._kept is None:
            raise InputError("a stream, such as standard input, can be read only once")
        self._data, self._at, self._n_read = b"".join(self._kept), 0, 0
        self._kept = [self._data] if again else None
        yield self

    def read(self, n: int) -> bytes:
        """Read at most n bytes, first of what was kept; none at the end."""
        if self._at == len(self._data) and not self._ended:
            self._fetch()
        data = self._data[self._at : self._at + n]
        self._at += len(data)
        self._n_read += len(data)
        return data

    def ready(self, seconds: float) -> bool:
        """Whether there is more, or the end, within so many seconds; True if nothing tells."""
        if self._at < len(self._data) or self._ended or self._poll is None:
            return True
        return bool(self._poll.poll(1000.0 * seconds))

    def tell(self) -> int:
        """Count the bytes read since the last opening."""
        return self._n_read

    def _fetch(self) -> None:
        """Wait for more, or for the end."""
        data = self._read(_AT_ONCE)
        if not isinstance(data, bytes):
            raise InputError("a table must be opened in binary mode")
        self._data, self._at, self._ended = data, 0, not data
        if self._kept is not None:
            self._kept.append(data)
        if self._ended and self._close:
            self._file.close()


def _poll(file: BinaryIO) -> Any:
    """What tells whether a file has something to read; None where nothing does."""
    try:
        poll = select.poll()
        poll.register(file.fileno(), select.POLLIN)
    except (AttributeError, OSError, ValueError):  # no such call on this system, or no descriptor
        return None
    return poll


class Unpacked:
    r"""The text of gzip files, one behind the other, as far as they can be read.

    The gzip module would wait for more of a pipe although it has text to give.

    Examples
    --------
    >>> Unpacked(io.BytesIO(gzip.compress(b"1,2\n"))).read(100)
    b'1,2\n'
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._member = zlib.decompressobj(wbits=31)
        self._packed = b""

    def read(self, n: int) -> bytes:
        """Read at most n bytes; none at the end."""
        while not (text := self._member.decompress(self._packed, n)):
            packed = self._member.unused_data or self._file.read(_PACKED)
            if self._member.eof:
                while packed and not (packed := packed.lstrip(b"\0")):  # a tape is filled up so
                    packed = self._file.read(_PACKED)
                if not packed:
                    self._packed = b""
                    return b""
                self._member = zlib.decompressobj(wbits=31)
            elif not packed:
                raise EOFError("its end is missing")
            self._packed = packed
        self._packed = b"" if self._member.eof else self._member.unconsumed_tail
        return text


def ahead(parts: Iterator[Part]) -> Generator[Part, None, None]:
    """Let a thread make the next part while this one is used: polars needs no interpreter.

    Not where making it may wait for others: the caller cannot stop before the part is there.

    Examples
    --------
    >>> list(ahead(iter("abc")))
    ['a', 'b', 'c']
    """
    with ThreadPoolExecutor(1, thread_name_prefix="fires-reader") as pool:
        coming = pool.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = pool.submit(next, parts, None)
            yield part


def skip(file: Any, n: int) -> None:
    """Go to the n-th byte."""
    if hasattr(file, "seek"):
        file.seek(n)
        return
    while n > 0 and (data := file.read(min(n, PIECE))):
        n -= len(data)


@contextmanager
def plain_errors(name: str) -> Iterator[None]:
    """Turn what can go wrong with a file into one line.

    Examples
    --------
    >>> with plain_errors("x.csv.gz"):
    ...     gzip.decompress(b"no gzip")
    Traceback (most recent call last):
    fires.core.errors.InputError: x.csv.gz is damaged: Not a gzipped file (b'no')
    """
    try:
        yield
    except InputError as error:
        if name in str(error):
            raise
        raise InputError(f"{name}: {error}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name} is damaged: {error}") from error
    except OSError as error:
        raise InputError(f"cannot read {name}: {error.strerror or error}") from error


@dataclass(frozen=True)
class Header:
    """The first record of a text that is not blank, and how much lies before the second."""

    names: tuple[str, ...]
    delimiter: str
    n_bytes: int
    n_lines: int


def read_header(
    read: Read, source: str, delimiter: str | None = None, ready: Ready = always
) -> Header:
    r"""Read the names of the columns, and find out what separates them.

    Blanks around a name do not count; a column without a name is called after its number.

    Examples
    --------
    >>> read_header(io.BytesIO(b"id; size;\n1;2;3\n").read, "x.csv")
    Header(names=('id', 'size', 'column_3'), delimiter=';', n_bytes=10, n_lines=1)
    """
    pieces, ended = fill(read, ready, PIECE, n_lines=_HEAD_LINES + 1)
    head = b"".join(pieces)
    while not ended and b"\n" not in head and len(head) <= MAX_LINE:
        pieces, ended = fill(read, ready, PIECE)
        head = b"".join([head, *pieces])
    mark = head[: 3 * head.startswith(b"\xef\xbb\xbf")]
    lines = list(io.StringIO(head[len(mark) :].decode("utf-8", "surrogateescape"), newline="\n"))
    if not ended and not lines[-1].endswith("\n"):
        lines.pop()
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n' or delimiter > "~"):
        raise InputError(f"{delimiter!r} cannot separate fields: one ASCII character can")
    delimiter = delimiter or sniff(lines[:_HEAD_LINES], source)
    with long_fields():
        reader = csv.reader(lines, delimiter=delimiter or ",")
        try:
            names = next((row for row in reader if any(map(str.strip, row))), None)
        except csv.Error:
            raise InputError(f"{source} has a carriage return within its first line") from None
    if names is None:
        raise InputError(f"{source} is empty")
    text = "".join(lines[: reader.line_num])
    if not is_utf8(text):
        raise InputError(f"{source} is {NOT_UTF8}: line {reader.line_num}")
    if delimiter is None or "\0" in text:
        raise InputError(
            f"cannot find columns in {source}: no comma, semicolon, tab or bar in line "
            f"{reader.line_num}; CSV, TSV (also .gz) and Parquet can be read"
        )
    stripped = (name.strip() or f"column_{i}" for i, name in enumerate(names, start=1))
    return Header(tuple(stripped), delimiter, len(mark) + len(text.encode()), reader.line_num)


def sniff(lines: list[str], source: str = "") -> str | None:
    """Find the delimiter that cuts most lines into as many fields as the first, and into most.

    Examples
    --------
    >>> sniff(["height, cm;name;age", "1,85;Ann;31"])
    ';'
    """
    lines = [line.replace("\r", "") for line in lines if line.strip()]
    if not lines:
        return None
    if "\t" in lines[0] and {".tsv", ".tab"} & set(Path(source.lower()).suffixes):
        return "\t"
    scores = {"": 0}
    with long_fields():
        for delimiter in (",", ";", "\t", "|"):
            widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
            scores[delimiter] = widths.count(widths[0]) * (widths[0] - 1)
    return max(scores, key=lambda delimiter: scores[delimiter]) or None
