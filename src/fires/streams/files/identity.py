"""Which files a stream was read from, so that it goes on in the same ones and in no others."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NotRequired, TypedDict
from zlib import crc32

from fires.core.errors import InputError
from fires.streams.base import Position
from fires.streams.table import changed

_AT_ONCE = 1 << 20
_ROW_GROUP = 1 << 28
"""Of a Parquet or Arrow file, a row that was read may lie so many bytes further on."""
_HEAD = 1 << 16
"""First bytes that two files share only if they are the same."""


class Identity(TypedDict):
    """What tells a file from another one, as JSON values."""

    name: str
    size: int
    head: str
    may_grow: bool
    read: NotRequired[int]
    crc: NotRequired[int]


def identity_of(path: Path, *, may_grow: bool = True) -> Identity:
    """What tells a file from another one."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        return {
            "name": str(path),
            "size": size,
            "head": _digest(file.read(min(size, _HEAD))),
            "may_grow": may_grow,
        }


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
        while data := opened.read(min(n - at, _AT_ONCE)):
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
        raise InputError(f"{_name(then[len(now)])}, which was read before, is not among the files")


def _refuse_another(found: Identity, known: Identity, offset: int | None) -> None:
    """Raise if a file is another one; ``offset`` is where it was left, None if at its end."""
    name, size = found["name"], known["size"]
    if Path(name).name != Path(known["name"]).name:
        raise InputError(f"{name} stands in the place of {known['name']}, which was read before")
    if found["size"] < size:
        raise InputError(f"{name} is shorter than it was when it was read before")
    with Path(name).open("rb") as file:
        head = _digest(file.read(min(size, _HEAD)))
        file.seek(max(size - 1, 0))
        around = file.read(2)
    if head != known["head"] or (found["size"] > size and not found["may_grow"]):
        raise InputError(f"{name} is not the file that was read before")
    if "crc" in known:
        _sum_up(found, known["read"])
        if found["crc"] != known["crc"]:
            raise InputError(f"{changed(name)}, in its first {known['read']:,} bytes")
    if offset == size and not (around.startswith(b"\n") or around[1:] in (b"", b"\n", b"\r")):
        raise InputError(f"the last line of {name} has gone on since it was read before")
    if offset is None and found["size"] > size:
        raise InputError(
            f"{name} has grown since it was read to its end: its new rows would be lost",
            hint="write them to a file of their own, behind the others",
        )


def _name(identity: Identity | None) -> str:
    return "standard input" if identity is None else str(identity["name"])


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
