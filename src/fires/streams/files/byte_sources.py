"""Where the bytes of a table come from: a file, a pipe, packed with gzip or not."""

from __future__ import annotations

import gzip
import select
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from fires.core.errors import InputError

_AT_ONCE = 1 << 18
"""Bytes asked of a pipe at once; most give 64 KB."""
_PACKED = 1 << 15
"""Bytes to unpack at once."""


class File:
    """A file that can be opened any number of times.

    Parameters
    ----------
    path : Path
        Where it is.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with path.open("rb") as file:
            self.magic = file.read(4)
        self.n_bytes: int | None = path.stat().st_size

    def open(self, again: bool) -> AbstractContextManager[Any]:
        """Open it at its start.

        Parameters
        ----------
        again : bool
            Whether it will be read again, which makes no difference to a file.

        Returns
        -------
        context manager
            With a binary file.
        """
        return self._path.open("rb")

    def ready(self, seconds: float) -> bool:
        """Tell whether there is something to read.

        Parameters
        ----------
        seconds : float
            How long to wait for it.

        Returns
        -------
        bool
            True: a file never keeps a reader waiting.
        """
        return True


class Pipe:
    """A stream that can be read once, but keeps what is to be read again.

    It hands on what is there: the other end may write a row now and the next one later.

    Parameters
    ----------
    file : binary file
        What to read from.
    close : bool
        Whether to close it at its end.
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
        """Start at the beginning.

        Parameters
        ----------
        again : bool
            Whether it will be read again. If not, this is the last time it can be opened.

        Returns
        -------
        context manager
            With this object, which has ``read`` and ``tell``.
        """
        if self._kept is None:
            raise InputError("a stream, such as standard input, can be read only once")
        self._data, self._at, self._n_read = b"".join(self._kept), 0, 0
        self._kept = [self._data] if again else None
        yield self

    def read(self, n: int) -> bytes:
        """Read on, first of what was kept.

        Parameters
        ----------
        n : int
            How many bytes to read at most.

        Returns
        -------
        bytes
            None at the end.
        """
        if self._at == len(self._data) and not self._ended:
            self._fetch()
        data = self._data[self._at : self._at + n]
        self._at += len(data)
        self._n_read += len(data)
        return data

    def ready(self, seconds: float) -> bool:
        """Tell whether there is more to read, or the end.

        Parameters
        ----------
        seconds : float
            How long to wait for it.

        Returns
        -------
        bool
            Also True where nothing can tell.
        """
        if self._at < len(self._data) or self._ended or self._poll is None:
            return True
        return bool(self._poll.poll(1000.0 * seconds))

    def tell(self) -> int:
        """Count the bytes read.

        Returns
        -------
        int
            Since the last opening.
        """
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

    Parameters
    ----------
    file : object with ``read``
        The packed bytes.

    Examples
    --------
    >>> import io
    >>> Unpacked(io.BytesIO(gzip.compress(b"1,2\n"))).read(100)
    b'1,2\n'
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._member = zlib.decompressobj(wbits=31)
        self._packed = b""

    def read(self, n: int) -> bytes:
        """Read on.

        Parameters
        ----------
        n : int
            How many bytes to read at most.

        Returns
        -------
        bytes
            None at the end.
        """
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


def skip(file: Any, n: int) -> None:
    """Go on reading at the n-th byte.

    Parameters
    ----------
    file : object with ``read``, and with ``seek`` where that is possible
        What to read from.
    n : int
        How many bytes to pass over, from the start.
    """
    if hasattr(file, "seek"):
        file.seek(n)
        return
    while n > 0 and (data := file.read(min(n, _AT_ONCE))):
        n -= len(data)


@contextmanager
def plain_errors(name: str) -> Iterator[None]:
    """Turn what can go wrong with a file into one line.

    Parameters
    ----------
    name : str
        What the line calls the file.

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
