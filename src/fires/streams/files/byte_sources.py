"""Where the bytes of a table come from: a file or a pipe."""

from __future__ import annotations

import select
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from fires.core.errors import InputError
from fires.streams.files.identity import Identity, identity_of
from fires.streams.files.packing import N_MAGIC, Damaged, Readable

_AT_ONCE = 1 << 18
"""Bytes asked of a pipe at once; most give 64 KB."""


class Bytes(Readable, Protocol):
    """Bytes of a source, which tell where they are."""

    def tell(self) -> int:
        """Say where reading goes on."""


class ByteSource(Protocol):
    """What a text can be read from: a :class:`File`, a :class:`Pipe`, or a file that grows."""

    n_bytes: int | None
    magic: bytes
    identity: Identity | None

    def open(self, again: bool) -> AbstractContextManager[Bytes]:
        """Start at the beginning."""

    def ready(self, seconds: float) -> bool:
        """Tell whether there is something to read."""


class File:
    """A file that can be opened any number of times."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self.magic = file.read(N_MAGIC)
        self.identity: Identity | None = identity_of(path)
        self.n_bytes: int | None = self.identity["size"]

    def open(self, again: bool) -> AbstractContextManager[Bytes]:
        """Open it at its start."""
        return self._path.open("rb")

    def ready(self, seconds: float) -> bool:
        """Tell whether there is something to read."""
        return True


class Pipe:
    """A stream that can be read once, but keeps what is to be read again.

    It hands on what is there: the other end may write a row now and the next one later.
    """

    def __init__(self, file: BinaryIO, *, close: bool = False) -> None:
        if getattr(file, "closed", False):
            raise InputError("it is closed already")
        self._file = file
        self._read = getattr(file, "read1", file.read)  # the one that does not wait for all of it
        self._poll = _poll(file)
        self._close = close
        self._ended = False
        self._kept: list[bytes] | None = []
        self._data, self._at, self._n_read = b"", 0, 0
        while not self._ended and sum(map(len, self._kept)) < N_MAGIC:
            self._fetch()
        self.magic = b"".join(self._kept)[:N_MAGIC]
        self.identity: Identity | None = None
        self.n_bytes: int | None = None

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


def _poll(file: BinaryIO) -> select.poll | None:
    """What tells whether a file has something to read; None where nothing does."""
    try:
        poll = select.poll()
        poll.register(file.fileno(), select.POLLIN)
    except (AttributeError, OSError, ValueError):  # no such call on this system, or no descriptor
        return None
    return poll


def skip(file: Readable, n: int) -> bool:
    """Go on reading at the n-th byte."""
    if hasattr(file, "seek"):
        file.seek(n)
        return True
    while n > 0 and (data := file.read(min(n, _AT_ONCE))):
        n -= len(data)
    return n == 0


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
