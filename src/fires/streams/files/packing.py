"""What the first bytes of a file tell about it, and how packed text is unpacked piece by piece."""

from __future__ import annotations

import bz2
import lzma
import sys
import zipfile
import zlib
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import BinaryIO, Protocol, cast

from fires.core.errors import InputError
from fires.core.optional import require

N_MAGIC = 16
"""First bytes that tell what a file is."""

_PACKED = 1 << 15
"""Bytes to unpack at once."""
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


class _Member(Protocol):
    """Unpacks one of the packed files that may stand behind one another, as bz2 does."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int) -> bytes: ...


class _Gzip:
    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self.needs_input = True

    def decompress(self, data: bytes, max_length: int) -> bytes:
        text = self._member.decompress(self._member.unconsumed_tail + data, max_length)
        self.needs_input = not self._member.unconsumed_tail
        return text

    @property
    def eof(self) -> bool:
        return self._member.eof

    @property
    def unused_data(self) -> bytes:
        return self._member.unused_data


class _Zstd:
    """The interface of Python 3.14 for the library of older ones."""

    def __init__(self) -> None:
        library = require("zstandard", "a file packed with zstd", "zstd")
        self._member = library.ZstdDecompressor().decompressobj()
        self._text = b""

    def decompress(self, data: bytes, max_length: int) -> bytes:
        if data:
            self._text += self._member.decompress(data)
        text, self._text = self._text[:max_length], self._text[max_length:]
        return text

    @property
    def needs_input(self) -> bool:
        return not self._text and not self._member.eof

    @property
    def eof(self) -> bool:
        return bool(self._member.eof) and not self._text

    @property
    def unused_data(self) -> bytes:
        return bytes(self._member.unused_data)


def _zstd() -> _Member:
    if sys.version_info < (3, 14):
        return _Zstd()
    member: _Member = import_module("compression.zstd").ZstdDecompressor()
    return member


_MEMBERS: Mapping[str, Callable[[], _Member]] = {
    "gzip": _Gzip,
    "bz2": bz2.BZ2Decompressor,
    "xz": lzma.LZMADecompressor,
    "zstd": _zstd,
}
PACKINGS = (*_MEMBERS, "zip")
"""The kinds of packed files that can be read."""


class Unpacked:
    r"""The text of packed files, one behind the other, as far as they can be read.

    It hands on what it has. The modules that read such files would wait for more of a pipe.

    Examples
    --------
    >>> import io
    >>> Unpacked(io.BytesIO(bz2.compress(b"1,2\n")), "bz2").read(100)
    b'1,2\n'
    """

    def __init__(self, file: Readable, packing: str) -> None:
        self._file = file
        self._new_member = _MEMBERS[packing]
        self._member: _Member = self._new_member()
        self._packed = b""
        self._at_once = _ZSTD_PACKED if packing == "zstd" else _PACKED
        self._damage: Damaged | None = None

    def read(self, n: int) -> bytes:
        """Read on."""
        if self._damage is None:
            try:
                return self._read(n)
            except (OSError, InputError, ImportError):
                raise
            except Exception as error:  # each library has errors of its own
                self._damage = Damaged(str(error))
        raise self._damage

    def _read(self, n: int) -> bytes:
        while True:
            if self._member.eof and not self._next_member():
                return b""
            packed, self._packed = self._packed, b""
            try:
                text = self._member.decompress(packed, n)
            except OSError as error:  # what bz2 calls damage
                raise Damaged(str(error)) from error
            if text:
                return text
            if self._member.needs_input and not self._member.eof:
                self._packed = self._file.read(self._at_once)
                if not self._packed:
                    raise Damaged("its end is missing")

    def _next_member(self) -> bool:
        """Go on with what stands behind a packed file, if anything does."""
        packed = self._member.unused_data or self._file.read(self._at_once)
        while packed and not (packed := packed.lstrip(b"\0")):  # a tape is filled up so
            packed = self._file.read(self._at_once)
        if packed:
            self._member = self._new_member()
        self._packed = packed
        return bool(packed)


class Unzipped:
    """The text of the only file in a zip file."""

    def __init__(self, file: Readable, name: str) -> None:
        try:
            archive = zipfile.ZipFile(cast("BinaryIO", file))
        except zipfile.BadZipFile as error:
            raise InputError(f"{name} is damaged: {error}") from None
        names = [
            entry.filename
            for entry in archive.infolist()
            if not entry.is_dir() and not entry.filename.startswith("__MACOSX/")
        ]
        if any(name.startswith("xl/") for name in names):
            raise InputError(f"{name} {ADVICE['Excel']}")
        if len(names) != 1:
            some = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
            raise InputError(
                f"{name} holds {len(names)} files{f' ({some})' if names else ''}",
                hint="unpack it, and name those to read" if names else "",
            )
        try:
            self._member = archive.open(names[0])
        except zipfile.BadZipFile as error:
            raise InputError(f"{name} is damaged: {error}") from None
        except (RuntimeError, NotImplementedError) as error:  # a password, a rare packing
            raise InputError(f"{name} cannot be unpacked: {error}") from None

    def read(self, n: int) -> bytes:
        """Read on."""
        try:
            return self._member.read(n)
        except (zipfile.BadZipFile, zlib.error, EOFError, lzma.LZMAError) as error:
            raise Damaged(str(error) or "its end is missing") from error


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
