"""Shards on the disk of the machine that made them, for later rounds over the same rows.

A task of Spark is not told which worker it will run in, and rows that go from Spark's cache to a
worker are copied several times. So a worker also writes a shard to a file, and in later rounds
whatever worker of the machine has its turn reads it from there. The files come and go with little
to do for the disk: they are rarely older than a few seconds.

Nothing depends on them. What is not found is asked for again, with the rows from Spark's cache.
"""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from fires.core import files
from fires.core.optional import require

if TYPE_CHECKING:
    from fires.core.batch import CheckedBatch


_PREFIX = "fires-shard-"
_in_use: set[str] = set()  # the micro-batches of this driver that are gone through now


@dataclass(frozen=True)
class Nearby:
    """The files of one micro-batch, wherever they are read or written."""

    name: str
    others: frozenset[str]

    @classmethod
    def begin(cls) -> Nearby:
        """Files for a micro-batch that begins."""
        others, name = frozenset(_in_use), uuid4().hex
        _in_use.add(name)
        return cls(name, others)

    def end(self) -> None:
        """Remove the files if they are on the driver's machine; others go with the next ones."""
        _in_use.discard(self.name)
        for path in _folder().glob(f"{_PREFIX}{self.name}-*"):
            with suppress(OSError):
                files.remove(path)

    def tidy(self) -> None:
        """Remove files that were left over on this machine."""
        kept = {self.name, *self.others}
        for path in _folder().glob(f"{_PREFIX}*"):
            if path.name.removeprefix(_PREFIX).split("-")[0] not in kept:
                with suppress(OSError):
                    files.remove(path)

    def put(self, partition: int, piece: int, pickled: bytes) -> None:
        """Write a shard, if there is room for it."""
        with suppress(OSError):  # whole or not at all: two workers may do the same
            files.replace_file(self._path(partition, piece), pickled, sync=False)

    def get(self, partition: int, piece: int) -> tuple[CheckedBatch, int] | ValueError | None:
        """A shard, if it is on this machine."""
        try:
            with self._path(partition, piece).open("rb") as file:
                packed: tuple[CheckedBatch, int] | ValueError = pickle.load(file)
                return packed
        except OSError:
            return None

    def _path(self, partition: int, piece: int) -> Path:
        return _folder() / f"{_PREFIX}{self.name}-{partition}-{piece}"


def _folder() -> Path:
    """A folder of this application on this machine, which Spark removes at its end."""
    files = require("pyspark", "fires on Spark", extra="spark").SparkFiles
    return Path(files.getRootDirectory())
