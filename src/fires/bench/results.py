"""Files of results: lines of JSON, each of them on the disk before it counts."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Self

from fires.core import files
from fires.core.errors import InputError

Record = dict[str, Any]

CELLS = "cells.jsonl"


def made_by(record: Record) -> tuple[str | None, str | None]:
    """The version of fires that made a record, and its code: None in those of old."""
    return record.get("fires"), record.get("code")


def read_records(folder: Path, file: str = CELLS) -> list[Record]:
    """All lines of a file of results, but one that was being written when the run was killed."""
    try:
        content = (folder / file).read_bytes()
    except FileNotFoundError:
        return []
    return parse(content, folder / file)[0]


def parse(content: bytes, path: Path) -> tuple[list[Record], int]:
    """The records in a file of results."""
    records, end = [], 0
    lines = content.splitlines(keepends=True)
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            whole = isinstance(record, dict) and line.endswith(b"\n")
        except ValueError:
            whole = False
        if not whole:
            if number < len(lines):
                raise InputError(f"{path}: line {number} is not a result of fires bench")
            break
        records.append(record)
        end += len(line)
    return records, end


class ResultsFile:
    """The file of results, to which one process appends."""

    def __init__(self, folder: Path, name: str) -> None:
        files.make_folder(folder)
        self._path = folder / name
        with files.naming(self._path):
            self._file = files.open_to_append(self._path)
        try:
            self._lock()
            self.records, end = parse(self._path.read_bytes(), self._path)
            files.truncate(self._file, end)
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        os.close(self._file)

    def append(self, record: Record) -> None:
        """Bring a record to the disk."""
        line = json.dumps(record, ensure_ascii=False, allow_nan=False).encode() + b"\n"
        with files.naming(self._path):
            files.write(self._file, line)
            files.sync(self._file)

    def _lock(self) -> None:
        if sys.platform == "win32":
            return
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"{self._path}: another run is writing to it") from error
