"""What the first bytes of a file tell about it, and how packed text is unpacked piece by piece."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, BinaryIO, Protocol, cast

from fires.core.errors import InputError
from fires.core.optional import require

N_MAGIC = 16
"""First bytes that tell what a file is."""

_ZSTD_PACKED = 1 << 9
"""The zstandard library unpacks all it gets: at worst 32,000 times as much as this."""

_MAGIC = {
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"\xfd7zXZ\0": "xz",
    b"BZh": "bz2",
    b"PK\x03\x04": "zip",
    b"PK\x05\x06": "zip",
    b"PAR1": "Parquet",
    b"ARROW1\0\0": "Arrow",
    b"\xff\xff\xff\xff": "Arrow stream",
    b"FEA1\0": "feather version 1",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "Excel",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"Rar!\x1a\x07": "rar",
}
_BZ2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")  # the first, and the end of a file without one


def kind_of(head: bytes) -> str:
    r"""Tell what a file is by its first bytes.

    Examples
    --------
    >>> kind_of(b"\x1f\x8b\x08\0"), kind_of(b"BZh9,y\n1,0\n")
    ('gzip', 'text')
    """
    if head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50:  # a frame with a note
        return "zstd"
    kind = next((kind for magic, kind in _MAGIC.items() if head.startswith(magic)), "text")
    if kind == "bz2" and head[4:10] not in _BZ2_BLOCKS:
        return "text"
    return kind


class Damaged(Exception):  # noqa: N818 - it says what happened
    """Packed bytes cannot be unpacked further. All text before is handed out already."""


class Readable(Protocol):
    """What bytes can be read from."""

    def read(self, n: int, /) -> bytes:
        """Read on."""


class _Zstd:
    """Frames of zstd before Python 3.14: the library's reader takes half a frame for whole."""

    def __init__(self, file: Readable) -> None:
        self._library = require("zstandard", "a file packed with zstd", "zstd")
        self._file, self._frame = file, None
        self._packed = self._text = b""

    def read1(self, n: int) -> bytes:
        """Read on."""
        while not self._text:
            packed = self._packed or self._file.read(_ZSTD_PACKED)
            if not packed and self._frame is not None:
                raise EOFError
            if not packed:
                return b""
            frame = self._frame or self._library.ZstdDecompressor().decompressobj()
            self._text = frame.decompress(packed)
            self._packed = frame.unused_data
            self._frame = None if frame.eof else frame
        text, self._text = self._text[:n], self._text[n:]
        return text


def _zstd(file: Readable) -> Any:
    if sys.version_info < (3, 14):
        return _Zstd(file)
    return import_module("compression.zstd").ZstdFile(file)


def _unzipped(file: Readable) -> Any:
    """The only file in a zip file."""
    archive = zipfile.ZipFile(cast("BinaryIO", file))
    names = [
        entry.filename
        for entry in archive.infolist()
        if not entry.is_dir() and not entry.filename.startswith("__MACOSX/")
    ]
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
    "zstd": _zstd,
    "zip": _unzipped,
}
PACKINGS = tuple(_READERS)
"""The kinds of packed files that can be read."""


class Unpacked:
    r"""The text of packed files, one behind the other, as far as they can be read.

    Examples
    --------
    >>> import io
    >>> Unpacked(io.BytesIO(bz2.compress(b"1,2\n")), "bz2").read(100)
    b'1,2\n'
    """

    def __init__(self, file: Readable, packing: str) -> None:
        self._damage: Damaged | None = None
        with self._noting_damage():
            # The one that does not wait for n bytes: a pipe may have no more for now.
            self._read: Callable[[int], bytes] = _READERS[packing](file).read1

    def read(self, n: int) -> bytes:
        """Read on."""
        if self._damage is not None:
            raise self._damage
        with self._noting_damage():
            return self._read(n)

    @contextmanager
    def _noting_damage(self) -> Iterator[None]:
        try:
            yield
        except (InputError, ImportError):
            raise
        except EOFError:
            self._damage = Damaged("its end is missing")
        except Exception as error:  # each library has errors of its own
            if isinstance(error, OSError) and error.errno is not None:  # not of the packing
                raise
            self._damage = Damaged(str(error))
        if self._damage is not None:
            raise self._damage


_UNPACK = "unpack it first"
ADVICE: Mapping[str, str] = {
    "Excel": "is an Excel workbook; save it as CSV there, or convert it, for instance with "
    'polars.read_excel("book.xlsx").write_parquet("table.parquet")',
    "feather version 1": "is a feather file of version 1; write it again with a library of "
    "today, or as Parquet",
    "Arrow stream": "is an Arrow stream; write it as an Arrow file (.arrow) or as Parquet",
    "7z": f"is packed with 7z; {_UNPACK}",
    "rar": f"is packed with rar; {_UNPACK}",
    "tar": f"is a tar archive; {_UNPACK}",
}
"""What is said about files that cannot be read, behind their names."""
