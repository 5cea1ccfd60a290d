"""Files of lines that another process appends to: what is new in them, block by block."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fires.core.errors import InputError
from fires.core.files import damaged, open_saved

if TYPE_CHECKING:
    import polars as pl

_BLOCK = 1 << 20  # larger ones take more memory, and hardly less time
_REMEMBERED = 256


class Follower:
    r"""Reads the lines of a file that have come since it was read last.

    A last line that is not whole is left for later. It notices if the lines that it has read are
    not there any more: a run that is taken up again cuts its files back and writes other lines.
    """

    def __init__(self, path: Path, block: int = _BLOCK) -> None:
        self.path, self._size = path, block
        self.forget()

    def forget(self) -> None:
        """Begin with the first line again."""
        self._position, self.n_lines = 0, 0
        self._end = b""  # the last bytes read

    def is_other(self) -> bool:
        """Whether what was read is not what the file begins with any more."""
        if not self._position:
            return False
        try:
            with open_saved(self.path) as file:
                file.seek(self._position - len(self._end))
                return file.read(len(self._end)) != self._end
        except FileNotFoundError:
            return True

    def blocks(self) -> Iterator[bytes]:
        """Read on to the end of the file as it is now."""
        try:
            file = open_saved(self.path)
        except FileNotFoundError:
            return
        with file:
            file.seek(self._position)
            rest = b""
            while data := file.read(self._size):
                data = rest + data
                end = data.rfind(b"\n") + 1
                block, rest = data[:end], data[end:]
                if block:
                    yield block
                    self._position += end  # not if it turned out to be damaged
                    self._end = block[-_REMEMBERED:]

    def parsed(
        self, block: bytes, schema: Mapping[str, pl.DataType | type[pl.DataType]], key: str
    ) -> pl.DataFrame:
        """The objects of a block as a table."""
        import polars as pl

        try:
            # On one core, this takes three quarters of the time that read_ndjson does. No line
            # holds the separator: JSON writes it as six other characters.
            lines = pl.read_csv(
                block, has_header=False, separator="\x01", quote_char=None, infer_schema=False
            ).to_series()
            frame = lines.str.json_decode(pl.Struct(dict(schema))).struct.unnest()
            is_well = frame[key].null_count() == 0
        except pl.exceptions.PolarsError:
            is_well = False
        if not is_well:
            # Text that is not quite Unicode is well for json, or it tells which line is damaged.
            objects = list(self._objects(block, key))
            with damaged(self.path):
                frame = pl.DataFrame(objects, schema=dict(schema), strict=False)
        self.n_lines += len(frame)
        return frame

    def _objects(self, block: bytes, key: str) -> Iterator[dict[str, Any]]:
        for number, line in enumerate(block.split(b"\n")[:-1], self.n_lines + 1):
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict) or found.get(key) is None:
                raise InputError(f"{self.path} is damaged in line {number:,}")
            yield {
                name: well_formed(value) if isinstance(value, str) else value
                for name, value in found.items()
            }


def well_formed(text: str) -> str:
    r"""Text that can be written as UTF-8: a file name, say, may hold bytes that are no text."""
    return text.encode(errors="backslashreplace").decode()
